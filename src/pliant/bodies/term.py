"""What is attached to a body: potentials and drags that look at a few of its material points."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import TINY
from pliant.core import Array


def complex_slopes(f: Callable[[Array], Array], y: Array) -> Array:
    """(n, m, dim) the derivative of f, which maps points (n, dim) to (n, m) point by point, exact
    to round-off."""
    return np.stack([f(y + 1j * TINY * unit).imag / TINY for unit in np.eye(y.shape[1])], axis=-1)


def one_sided(depth: Array, layer: float) -> tuple[Array, Array, Array]:
    """A spring that only pushes: zero, then cubic over a layer [m], then quadratic in the depth
    (n,) [m]. Its value [m^2], slope [m] and bend [-], the last continuous; analytic in complex
    depths."""
    inside, deep = depth.real > 0.0, depth.real > layer
    g = np.where(inside, depth, 0.0)
    return (
        np.where(deep, 0.5 * g * g - 0.5 * layer * g + layer**2 / 6.0, g**3 / (6.0 * layer)),
        np.where(deep, g - 0.5 * layer, g * g / (2.0 * layer)),
        np.where(deep, 1.0, g / layer),
    )


class Term(Protocol):
    """A potential energy of the points y = weights x + offset, driven by controls. Each method
    takes complex y as well.

    Its Hessian is a block for each `group` consecutive points plus a few rank-one shares, so that a
    long cable or a cavity never fills the sparse matrix.
    """

    @property
    def n_controls(self) -> int: ...
    @property
    def weights(self) -> sp.csr_matrix: ...  # (n_points, n_nodes)
    @property
    def offset(self) -> Array: ...  # (n_points, dim) [m]
    @property
    def group(self) -> int: ...
    @property
    def stiff(
        self,
        # is it a spring, to be treated implicitly even where a rule takes control forces as given?
    ) -> bool: ...
    def energy(self, y: Array, u: Array) -> float: ...  # [J]
    def gradient(self, y: Array, u: Array) -> Array: ...  # (n_points, dim) [N]
    def curvature(
        self, y: Array, u: Array
    ) -> Array: ...  # (n_points / group, group dim, group dim) [N/m]
    def ranks(
        self, y: Array, u: Array
    ) -> tuple[Array, Array]: ...  # ((r, n_points, dim), (r,)): sum_r weight h h^T
    def control_gradient(
        self, y: Array, u: Array
    ) -> Array: ...  # (n_controls, n_points, dim), d gradient / du
    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        """(n_controls,) the derivative of sum(bar * control_gradient(y, u), axis=(1, 2)) along du;
        bar is (n_points, dim)."""
        ...


class Drag(Protocol):
    """A dissipation over one step, from the points' old to their new positions; its force is minus
    the gradient in y."""

    @property
    def weights(self) -> sp.csr_matrix: ...  # (n_points, n_nodes)
    def energy(self, y: Array, old: Array, dt: float) -> float: ...  # [J]
    def gradient(self, y: Array, old: Array, dt: float) -> Array: ...  # (n_points, dim) [N]
    def curvature(self, y: Array, old: Array, dt: float) -> Array: ...  # (n_points, dim, dim) [N/m]
    def coupling(
        self, y: Array, old: Array, dt: float
    ) -> Array: ...  # (n_points, dim, dim), d gradient / d old
    def viscosity(
        self, old: Array, velocity: Array
    ) -> Array: ...  # (n_points, dim, dim) [N s/m] linear in the new velocity
