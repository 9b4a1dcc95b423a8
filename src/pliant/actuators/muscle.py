"""Stress in a region of the body (paper 004 eq. 15): a muscle along an axis of the material, or a
fluid that swells it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import Matter, Solid, named_cells
from pliant.core import Array, InputError, check_limits, finite_array, require_kind
from pliant.geometry import Domain


def chosen(body: Matter, region: str | Domain) -> Array:
    """(k,) the cells of a material or a region by name, or those with their centre in a domain of
    rest coordinates."""
    if isinstance(region, str):
        cells = named_cells(body, region)
    elif region.dim != body.dim:
        raise InputError(
            f"The region of an actuator is {region.dim}D, but the body is {body.dim}D; give a "
            f"shape in {body.dim} dimensions."
        )
    else:
        cells = np.flatnonzero(region.contains(body.cell_centres()))
    if not len(cells):
        what = (
            f"The region '{region}'"
            if isinstance(region, str)
            else f"The region of an actuator, a {type(region).__name__},"
        )
        raise InputError(
            f"{what} holds no cell or particle, so that nothing is driven; make it larger, or "
            "the cells smaller."
        )
    return cells


def _check_region(what: str, region: str | Domain) -> None:
    require_kind(
        f"The region of {what}",
        region,
        (str, Domain),
        "name a region of the mesh, or give a shape such as Box",
    )


class Stressing(ABC):
    """An actuator of one control [Pa], none at rest, that acts by a stress in a region."""

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which it does nothing."""
        return 0.0

    @abstractmethod
    def stress(self, body: Matter) -> tuple[Array, Array]:
        """(cells (k,), S (dim, dim)) what it acts on, and the second Piola stress per unit of
        control; in the plane its in-plane part."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Muscle(Stressing):
    """Pulls a region together along an axis of the material: the second Piola stress u a a^T; its
    control is u [Pa]."""

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    axis: ArrayLike  # (dim,) direction in the rest shape, of any length
    limits: tuple[float, float] = (0.0, inf)  # [Pa]

    def __post_init__(self) -> None:
        _check_region("a muscle", self.region)
        if not np.linalg.norm(finite_array("The axis of a muscle", self.axis, (None,))) > 0.0:
            raise InputError("The axis of a muscle is zero; give the direction in which it pulls.")
        check_limits("a muscle", self.limits)

    def _axes(self, dim: int) -> Array:
        axis = finite_array("The axis of a muscle", self.axis, (dim,))
        return (axis / np.linalg.norm(axis))[None]

    def stress(self, body: Matter) -> tuple[Array, Array]:
        a = self._axes(body.dim)[0]
        return chosen(body, self.region), np.outer(a, a)

    def on(self, body: Matter) -> "AttachedStress":
        return _attached(body, chosen(body, self.region), self._axes(body.dim), 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fluidic(Stressing):
    """Swells a region evenly: the second Piola stress -u I; its control is the pressure u [Pa].
    With a near-incompressible material it is hydraulic: the region then answers at a nearly
    constant volume."""

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    limits: tuple[float, float] = (0.0, inf)  # [Pa]

    def __post_init__(self) -> None:
        _check_region("a fluidic actuator", self.region)
        check_limits("a fluidic actuator", self.limits)

    def stress(self, body: Matter) -> tuple[Array, Array]:
        return chosen(body, self.region), -np.eye(body.dim)

    def on(self, body: Matter) -> "AttachedStress":
        return _attached(body, chosen(body, self.region), np.eye(body.dim), -1.0)


def _attached(body: Matter, cells: Array, axes: Array, sign: float) -> "AttachedStress":
    """S = sign u sum_m a_m a_m^T over the axes (n_axes, dim), on a solid."""
    if not isinstance(body, Solid):
        raise InputError(
            f"A {type(body).__name__} has no stress, so neither a muscle nor a fluid can act in "
            "it; give the robot a shape."
        )
    slope = np.einsum(
        "cgai,mi->cgma", body.cells.grads[cells], axes
    )  # F a_m = sum_a q_a (grad N_a . a_m)
    n_points, n_nodes = slope.size // slope.shape[3], body.rest.size // body.dim
    nodes = np.broadcast_to(body.cells.nodes[cells][:, None, None], slope.shape)
    rows = np.repeat(np.arange(n_points), slope.shape[3])
    weights = sp.csr_matrix((slope.ravel(), (rows, nodes.ravel())), shape=(n_points, n_nodes))
    volumes = np.repeat(body.cells.weights[cells].ravel(), len(axes))
    return AttachedStress(
        weights=weights, offset=np.zeros((n_points, body.dim)), volumes=sign * volumes
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedStress:
    """A Term whose points y = F a are stretched axes at the quadrature points: energy = u/2 sum
    volume (|y|^2 - 1)."""

    weights: sp.csr_matrix  # (n_points, n_nodes) [1/m]
    offset: Array  # (n_points, dim) [-]
    volumes: Array  # (n_points,) [m^3] of each point, negative where the control pushes
    n_controls: int = 1
    group: int = 1
    stiff: bool = False

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * u[0] * self.volumes @ (np.sum(y * y, axis=1) - 1.0))

    def gradient(self, y: Array, u: Array) -> Array:
        return u[0] * self.volumes[:, None] * y

    def curvature(self, y: Array, u: Array) -> Array:
        return u[0] * self.volumes[:, None, None] * np.eye(y.shape[1])

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return (self.volumes[:, None] * y)[None]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(1)
