"""Fibres laid into the material: stiff along their direction only, as the thread wound around a
pneumatic chamber."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import chosen
from pliant.bodies import Matter, Solid
from pliant.bodies.elements import gradients
from pliant.core import Array, InputError, finite_array, require_positive
from pliant.geometry import Domain
from pliant.geometry.cells import shape_values


def hoops(points: Array) -> Array:
    """(k, dim) the direction around the z axis (in the plane, around the origin) at points (k, dim)
    [m]."""
    around = np.zeros_like(points)
    around[:, 0], around[:, 1] = -points[:, 1], points[:, 0]
    return around


def rays(points: Array) -> Array:
    """(k, dim) the direction away from the z axis (in the plane, from the origin) at points (k,
    dim) [m]."""
    away = points.copy()
    away[:, 2:] = 0.0
    return away


@dataclass(frozen=True, kw_only=True, eq=False)
class Fibres:
    """Fibres spread evenly over a region; they have no control. Their energy is stiffness/2 e^2 per
    volume, with the Green strain e = (|F a|^2 - 1) / 2 along their rest direction a in the middle
    of each cell: at more points, stiff fibres would lock it."""

    region: str | Domain  # a region or material by name, or a shape in rest coordinates
    stiffness: float  # [Pa] Young's modulus of the fibres times their share of the volume
    direction: Callable[[Array], Array] = (
        hoops  # rest points (k, dim) [m] -> directions (k, dim) of any length
    )

    def __post_init__(self) -> None:
        require_positive("The stiffness of the fibres", self.stiffness, "Pa")

    @property
    def n_controls(self) -> int:
        return 0

    @property
    def neutral(self) -> float:
        return 0.0

    @property
    def limits(self) -> tuple[float, float]:
        return -inf, inf

    def on(self, body: Matter) -> "AttachedFibres":
        if not isinstance(body, Solid):
            raise InputError(
                f"{type(body).__name__} cannot hold fibres; give the robot a shape or a mesh, "
                "and step it as a solid."
            )
        cells = chosen(body, self.region)
        nodes, middle = body.mesh.cells[cells], np.full((1, body.dim + 1), 1.0 / (body.dim + 1))
        at = np.einsum(
            "a,cai->ci", shape_values(middle, body.mesh.order)[0], body.mesh.points[nodes]
        )
        a = finite_array("The direction of the fibres", self.direction(at), at.shape)
        length = np.linalg.norm(a, axis=1, keepdims=True)
        if not length.all():
            raise InputError(
                f"The fibres have no direction near {at[np.argmin(length)].round(6).tolist()} m; "
                "let it be a vector all over their region."
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
            stiffness=self.stiffness * body.volumes()[cells],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedFibres:
    """A Term whose points y = F a are the stretched fibres in the middle of each cell."""

    weights: sp.csr_matrix  # (n_cells, n_nodes) [1/m]
    offset: Array  # (n_cells, dim) [-]
    stiffness: Array  # (n_cells,) [J]
    n_controls: int = 0
    group: int = 1
    stiff: bool = True

    def _pull(self, y: Array) -> Array:
        """(n_cells,) [J] stiffness times Green strain."""
        return self.stiffness * 0.5 * (np.sum(y * y, axis=1) - 1.0)

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * np.sum(self._pull(y) ** 2 / self.stiffness))

    def gradient(self, y: Array, u: Array) -> Array:
        return self._pull(y)[:, None] * y

    def curvature(self, y: Array, u: Array) -> Array:
        along = self.stiffness[:, None, None] * y[:, :, None] * y[:, None, :]
        return along + self._pull(y)[:, None, None] * np.eye(y.shape[1])

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)
