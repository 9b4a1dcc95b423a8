"""Active stress in a region of the body [Spielberg2021, eq. 15]: a muscle along an axis of the
material, or a fluid in its pores."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.polyline import Polyline
from pliant.bodies import (
    AttachableBody,
    CellBody,
    Solid,
    named_cells,
    positive_parameter,
    require_protocol,
    unit_gradient,
)
from pliant.core import (
    Array,
    InputError,
    Param,
    check_limits,
    finite_array,
    require_kind,
    require_positive,
)
from pliant.geometry import Domain


def select_cells(body: AttachableBody, region: str | Domain, owner: str = "an actuator") -> Array:
    """Return the cells (k,) of a named material or region, or those with their centre in a domain
    of rest coordinates. Raises `InputError` if there are none; `owner` is named in the error."""
    if isinstance(region, str):
        cells = named_cells(body, region)
    elif region.dim != body.dim:
        raise InputError(
            f"The region of {owner} is {region.dim}D, but the body is {body.dim}D; give a "
            f"shape in {body.dim} dimensions."
        )
    else:
        cells = np.flatnonzero(
            region.contains(
                require_protocol(body, CellBody, f"The region of {owner}").cell_centres()
            )
        )
    if not len(cells):
        what = (
            f"The region '{region}'"
            if isinstance(region, str)
            else f"The region of {owner}, a {type(region).__name__},"
        )
        raise InputError(
            f"{what} contains no cell or particle; make it larger, or the cells smaller."
        )
    return cells


def _check_region(what: str, region: str | Domain) -> None:
    require_kind(
        f"The region of {what}",
        region,
        (str, Domain),
        "name a region of the mesh, or give a shape such as Box",
    )


class StressActuator(ABC):
    """An actuator with one control [Pa] that applies a stress in a region."""

    @property
    @abstractmethod
    def strength(self) -> float:
        """[-] The applied stress over the control."""

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control without force."""
        return 0.0

    @property
    def units(self) -> tuple[str, ...]:
        return ("Pa",)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    @abstractmethod
    def stress(self, body: AttachableBody) -> tuple[Array, Array]:
        """Return the cells (k,) and the second Piola-Kirchhoff stress (dim, dim) per unit of
        control at strength 1; in the plane its in-plane part."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Muscle(StressActuator):
    """A muscle that contracts a region along an axis a of the material. Its control u [Pa] gives
    the second Piola-Kirchhoff stress u a a^T."""

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    axis: ArrayLike  # (dim,) direction in the rest shape, of any length
    limits: tuple[float, float] = (0.0, inf)  # [Pa]
    strength: float = 1.0  # [-] stress over the control

    def __post_init__(self) -> None:
        _check_region("a muscle", self.region)
        require_positive("The strength of a muscle", self.strength, "")
        if not np.linalg.norm(finite_array("The axis of a muscle", self.axis, (None,))) > 0.0:
            raise InputError("The axis of a muscle is zero; give its direction of contraction.")
        check_limits("a muscle", self.limits)

    def _axes(self, dim: int) -> Array:
        axis = finite_array("The axis of a muscle", self.axis, (dim,))
        return (axis / np.linalg.norm(axis))[None]

    def stress(self, body: AttachableBody) -> tuple[Array, Array]:
        a = self._axes(body.dim)[0]
        return select_cells(body, self.region), np.outer(a, a)

    def attach(self, body: AttachableBody) -> "AttachedStress":
        cells = select_cells(body, self.region)
        return _attached(body, cells, self._axes(body.dim), 1.0, self.strength)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fluidic(StressActuator):
    """An active stress that expands a region isotropically. Its control u [Pa] gives the second
    Piola-Kirchhoff stress -u I.

    It is not the pressure of a chamber: the Cauchy stress -u F F^T / J depends on the strain, and
    in the plane it equals a pressure u only at rest. In a nearly incompressible material the volume
    of the region remains nearly constant. A free neo-Hookean region has no equilibrium above
    `Material.largest_expansion_stress(dim)`, about E/2; an upper limit beyond it raises
    `InputError`."""

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    limits: tuple[float, float] = (0.0, inf)  # [Pa]
    strength: float = 1.0  # [-] pressure over the control

    def __post_init__(self) -> None:
        _check_region("a fluidic actuator", self.region)
        require_positive("The strength of a fluidic actuator", self.strength, "")
        check_limits("a fluidic actuator", self.limits)

    def stress(self, body: AttachableBody) -> tuple[Array, Array]:
        return self._cells(body), -np.eye(body.dim)

    def _cells(self, body: AttachableBody) -> Array:
        """Return the cells. Raises `InputError` for limits without an equilibrium."""
        cells, materials = select_cells(body, self.region), getattr(body, "materials", {})
        largest = min(
            (
                materials[name].largest_expansion_stress(body.dim)
                for name, own in body.material_cells.items()
                if name in materials and np.isin(cells, own).any()
            ),
            default=inf,
        )
        if np.isfinite(self.limits[1]) and self.strength * self.limits[1] > largest:
            raise InputError(
                f"The upper limit of a fluidic actuator is {self.strength * self.limits[1]:g} Pa, "
                f"but a free region of its material has no equilibrium above {largest:.4g} Pa; "
                "reduce the limit, or take a stiffer material."
            )
        return cells

    def attach(self, body: AttachableBody) -> "AttachedStress":
        cells = self._cells(body)
        return _attached(body, cells, np.eye(body.dim), -1.0, self.strength)


def _attached(
    body: AttachableBody, cells: Array, axes: Array, sign: float, strength: float
) -> "AttachedStress":
    """Return the Potential of the stress S = sign strength u sum_m a_m a_m^T for axes
    (n_axes, dim). Raises `InputError` unless the body is a solid."""
    if not isinstance(body, Solid):
        raise InputError(
            f"A {type(body).__name__} has no stress, so it cannot have a muscle or fluidic "
            "actuator; give the robot a shape."
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
        weights=weights,
        offset=np.zeros((n_points, body.dim)),
        volumes=sign * volumes,
        strength=strength,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedStress:
    """The Potential of an active stress. Its points y = F a are the deformed axes at the quadrature
    points; the energy is strength u/2 sum volume (|y|^2 - 1)."""

    weights: sp.csr_matrix  # (n_points, n_nodes) [1/m]
    offset: Array  # (n_points, dim) [-]
    volumes: Array  # (n_points,) [m^3] of each point, negative if the control expands
    strength: float = 1.0  # [-] stress over the control
    n_controls: int = 1
    points_per_block: int = 1
    stiff: bool = False

    @property
    def parameters(self) -> tuple[Param, ...]:
        return (positive_parameter("strength", self.strength, "-"),)

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedStress":
        return replace(self, **values)

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        return unit_gradient(self, name, y, u)

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * self.strength * u[0] * self.volumes @ (np.sum(y * y, axis=1) - 1.0))

    def gradient(self, y: Array, u: Array) -> Array:
        return self.strength * u[0] * self.volumes[:, None] * y

    def hessian(self, y: Array, u: Array) -> Array:
        return self.strength * u[0] * self.volumes[:, None, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return (self.strength * self.volumes[:, None] * y)[None]

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(1)
