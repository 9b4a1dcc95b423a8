"""Fibres in the material that are stiff along their direction only, such as the thread around a
pneumatic chamber."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import select_cells
from pliant.actuators.polyline import Polyline
from pliant.bodies import AttachableBody, Solid, positive_parameter, unit_gradient
from pliant.bodies.elements import gradients
from pliant.core import Array, InputError, Param, finite_array, require_positive
from pliant.geometry import Domain
from pliant.geometry.cells import shape_values


def circumferential(points: Array) -> Array:
    """Return the direction around the z axis (in the plane: around the origin), (k, dim), at points
    (k, dim) [m]."""
    around = np.zeros_like(points)
    around[:, 0], around[:, 1] = -points[:, 1], points[:, 0]
    return around


def radial(points: Array) -> Array:
    """Return the direction away from the z axis (in the plane: from the origin), (k, dim), at
    points (k, dim) [m]."""
    away = points.copy()
    away[:, 2:] = 0.0
    return away


@dataclass(frozen=True, kw_only=True)
class CircumferentialDirection:
    """The direction around an axis in space, at points (k, 3) [m]."""

    axis: tuple[float, float, float]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m] a point of the axis

    def __post_init__(self) -> None:
        finite_array("The origin of a circumferential direction", self.origin, (3,), "m")
        if not np.any(finite_array("The axis of a circumferential direction", self.axis, (3,))):
            raise InputError(
                "The axis of a circumferential direction is zero; give one such as (1, 0, 0)."
            )

    def __call__(self, points: Array) -> Array:
        return np.cross(np.asarray(self.axis, float), points - np.asarray(self.origin, float))


@dataclass(frozen=True, kw_only=True, eq=False)
class Fibres:
    """Fibres that are distributed evenly over a region. They have no control.

    Their energy density is stiffness/2 e^2 with the Green strain e = (|F a|^2 - 1) / 2 along the
    rest direction a. It is evaluated at the centre of each cell only, to avoid locking.
    """

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    stiffness: float  # [Pa] Young's modulus of the fibres times their volume fraction
    # rest points (k, dim) [m] -> directions (k, dim) of any length
    direction: Callable[[Array], Array] = circumferential
    n_controls: ClassVar[int] = 0
    neutral: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (-inf, inf)
    units: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        require_positive("The stiffness of the fibres", self.stiffness, "Pa")

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedFibres":
        if not isinstance(body, Solid):
            raise InputError(
                f"{type(body).__name__} cannot contain fibres; give the robot a shape or a mesh, "
                "and simulate it as a solid."
            )
        cells = select_cells(body, self.region)
        nodes, middle = body.mesh.cells[cells], np.full((1, body.dim + 1), 1.0 / (body.dim + 1))
        at = np.einsum(
            "a,cai->ci", shape_values(middle, body.mesh.order)[0], body.mesh.points[nodes]
        )
        a = finite_array("The direction of the fibres", self.direction(at), at.shape)
        length = np.linalg.norm(a, axis=1, keepdims=True)
        if not length.all():
            raise InputError(
                f"The fibres have no direction near {at[np.argmin(length)].round(6).tolist()} m; "
                "give a nonzero vector everywhere in their region."
            )
        grads, _ = gradients(body.mesh.points, nodes, body.mesh.order, middle)
        slope = np.einsum("cai,ci->ca", grads[:, 0], a / length)
        rows = np.repeat(np.arange(len(nodes)), nodes.shape[1])
        weights = sp.csr_matrix(
            (slope.ravel(), (rows, nodes.ravel())), shape=(len(nodes), body.mesh.n_points)
        )
        return AttachedFibres(
            weights=weights,
            offset=np.zeros_like(at),
            volumes=body.volumes()[cells],
            stiffness=self.stiffness,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedFibres:
    """The Potential of fibres. Its points y = F a are the deformed fibre directions at the cell
    centres."""

    weights: sp.csr_matrix  # (n_cells, n_nodes) [1/m]
    offset: Array  # (n_cells, dim) [-]
    volumes: Array  # (n_cells,) [m^3]
    stiffness: float  # [Pa]
    n_controls: int = 0
    points_per_block: int = 1
    stiff: bool = True

    @property
    def parameters(self) -> tuple[Param, ...]:
        return (positive_parameter("stiffness", self.stiffness, "Pa"),)

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedFibres":
        return replace(self, **values)

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        return unit_gradient(self, name, y, u)

    def _moduli(self) -> Array:
        """Return stiffness times volume, (n_cells,) [J]."""
        return self.stiffness * self.volumes

    def _stress(self, y: Array) -> Array:
        """Return stiffness times volume times Green strain, (n_cells,) [J]."""
        return self._moduli() * 0.5 * (np.sum(y * y, axis=1) - 1.0)

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * np.sum(self._stress(y) ** 2 / self._moduli()))

    def gradient(self, y: Array, u: Array) -> Array:
        return self._stress(y)[:, None] * y

    def hessian(self, y: Array, u: Array) -> Array:
        along = self._moduli()[:, None, None] * y[:, :, None] * y[:, None, :]
        return along + self._stress(y)[:, None, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)
