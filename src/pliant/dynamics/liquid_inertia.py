"""The inertia of the liquid in a cavity.

The liquid of density rho and volume V has the velocity of its centroid c, plus the velocities of
the wall relative to their mean. With the fractions a_i of the mass at the nodes x_i of the wall,

    T = rho V / 2 [|dc/dt|^2 + sum_i a_i |dx_i/dt|^2 - |sum_i a_i dx_i/dt|^2].

Liquid that enters or leaves has the velocity of the liquid in the cavity. The force on the wall is

    -rho V [(dc/dq)^T d^2c/dt^2 + A (d^2x/dt^2 - mean)],

so the mean acceleration acts as a pressure: with gravity g, p = p_ref + rho (g - a) . (x - c). Mass
and force follow the current volume. Vectors q of positions are (n_dofs,), real or complex.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.actuators.hydraulic import AttachedLiquid, facet_moment
from pliant.core import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class LiquidInertia:
    """The mass of a liquid, and its distribution over the nodes of the wall."""

    liquid: AttachedLiquid
    index: int  # of the liquid among the potentials of the equations

    @property
    def density(self) -> float:
        """[kg/m^3]"""
        return self.liquid.density

    @property
    def rest_mass(self) -> float:
        """[kg] The mass of the liquid in the cavity at rest."""
        return self.density * self.liquid.wall.rest_volume

    @cached_property
    def fractions(self) -> Array:
        """(n_nodes,) the fraction of the mass that moves with each node."""
        return self.liquid.mass / self.rest_mass

    @cached_property
    def spread(self) -> sp.csr_matrix:
        """(n_nodes, n_points) the transposed weights of the points of the wall."""
        return self.liquid.weights.T.tocsr()

    @property
    def dim(self) -> int:
        return len(self.liquid.gravity)

    def mean(self, z: Array) -> Array:
        """Return the mean (dim, k) of columns (n_dofs, k) over the nodes of the wall."""
        return np.tensordot(self.fractions, z.reshape(len(self.fractions), self.dim, -1), axes=1)

    def weighted(self, z: Array) -> Array:
        """Return A z for columns (n_dofs, k) or a vector."""
        nodes = z.reshape(len(self.fractions), -1)
        return (self.fractions[:, None] * nodes).reshape(z.shape)

    def relative(self, z: Array) -> Array:
        """Return A (z - mean) for columns (n_dofs, k) or a vector."""
        nodes = z.reshape(len(self.fractions), -1)
        return self.weighted((nodes - self.fractions @ nodes).reshape(z.shape))

    @cached_property
    def mean_columns(self) -> Array:
        """(n_dofs, dim) the derivative of the mean of the positions."""
        return np.kron(self.fractions[:, None], np.eye(self.dim))

    def at(self, q: Array) -> "CavityGeometry":
        return CavityGeometry(inertia=self, q=q)


@dataclass(frozen=True, kw_only=True, eq=False)
class CavityGeometry:
    """Volume and centroid of a cavity at positions q, and their derivatives."""

    inertia: LiquidInertia
    q: Array

    @cached_property
    def _points(self) -> Array:
        liquid, dim = self.inertia.liquid, self.inertia.dim
        return np.asarray(liquid.weights @ self.q.reshape(-1, dim) + liquid.offset)

    def _on_nodes(self, at_points: Array) -> Array:
        """Return a gradient (n_points, dim) at the points as one (n_dofs,) by the unknowns."""
        return (self.inertia.spread @ at_points).ravel()

    @cached_property
    def volume(self) -> Array:
        """[m^3]"""
        return self.inertia.liquid.wall.volume(self._points)

    @cached_property
    def volume_gradient(self) -> Array:
        """(n_dofs,) [m^2]"""
        return self._on_nodes(self.inertia.liquid.wall.volume_gradient(self._points))

    @cached_property
    def _moments(self) -> list[tuple[Array, Array]]:
        """The first moment along each axis, and its gradient (n_dofs,). The facets of the wall
        point into the cavity."""
        wall = self.inertia.liquid.wall
        made = [
            facet_moment(wall, self._points, -wall.depth * unit)
            for unit in np.eye(self.inertia.dim)
        ]
        return [
            (value, self._on_nodes(slope.reshape(self._points.shape))) for value, slope, _ in made
        ]

    @cached_property
    def centroid(self) -> Array:
        """(dim,) [m] from the origin of the points of the wall."""
        return np.array([value for value, _ in self._moments]) / self.volume

    @cached_property
    def centroid_gradient(self) -> Array:
        """(n_dofs, dim) the derivative of the centroid."""
        slopes = np.stack([slope for _, slope in self._moments], axis=1)
        return (slopes - np.outer(self.volume_gradient, self.centroid)) / self.volume

    def centroid_hessian_blocks(self, a: Array) -> Array:
        """Return the part of the Hessian of a . c (a: (dim,)) within the facets, by blocks of
        points. The rest are the rank-one terms of `centroid_hessian_pair`."""
        wall = self.inertia.liquid.wall
        moment = facet_moment(wall, self._points, -wall.depth * a, with_hessian=True)[2]
        return (moment - (a @ self.centroid) * wall.volume_hessian(self._points)) / self.volume

    def centroid_hessian_times(self, a: Array, z: Array) -> Array:
        """Return the Hessian of a . c times columns z (n_dofs, k) or a vector."""
        H, liquid, dim = self.centroid_hessian_blocks(a), self.inertia.liquid, self.inertia.dim
        dy = liquid.weights @ z.reshape(len(self.q) // dim, -1)
        dg = np.matmul(H, dy.reshape(*H.shape[:2], -1)).reshape(dy.shape)
        slope, by_volume = self.centroid_gradient @ a, self.volume_gradient / self.volume
        pair = _outer(slope, by_volume @ z) + _outer(by_volume, slope @ z)
        return (self.inertia.spread @ dg).reshape(z.shape) - pair

    def centroid_hessian_pair(self, a: Array) -> tuple[Array, Array]:
        """Return the columns (n_dofs, r) and weights (r,) of the rank-one terms of the Hessian of
        a . c."""
        slope, by_volume = self.centroid_gradient @ a, self.volume_gradient / self.volume
        size = float(np.linalg.norm(slope) / np.linalg.norm(by_volume))
        if size == 0.0:
            return np.zeros((len(slope), 0)), np.zeros(0)
        # s v^T + v s^T of equally long vectors is half the difference of two squares
        columns = np.stack([slope + size * by_volume, slope - size * by_volume], axis=1)
        return columns, np.array([-0.5, 0.5]) / size


def _outer(column: Array, row: Array) -> Array:
    """Return the product of a column (n,) with a row (k,), or with a scalar."""
    return column * row if np.ndim(row) == 0 else np.outer(column, row)
