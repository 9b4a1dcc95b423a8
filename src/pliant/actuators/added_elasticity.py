"""An elastic law of the user, added to the material of a region."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import select_cells
from pliant.actuators.polyline import Polyline
from pliant.bodies import AttachableBody, Solid, positive_parameter, unit_gradient
from pliant.core import Array, InputError, Param, require_positive
from pliant.geometry import Domain


class ElasticLaw(Protocol):
    """An elastic energy density W of deformation gradients F (n, dim, dim).

    F[:, i, m] is the derivative of position i by rest coordinate m. In the plane the third stretch
    is 1. Each method is analytic: it accepts complex F and uses neither abs nor conj.
    """

    def energy(self, F: Array) -> Array:
        """(n,) [J/m^3] W"""
        ...

    def stress(self, F: Array) -> Array:
        """(n, dim, dim) [Pa] dW/dF, the first Piola-Kirchhoff stress."""
        ...

    def tangent(self, F: Array) -> Array:
        """(n, dim, dim, dim, dim) [Pa] derivative of stress[:, i, m] by F[:, j, k]."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class AddedElasticity:
    """An elastic law that is added to the material of a region of a solid. It has no control."""

    law: ElasticLaw
    region: str | Domain = "body"  # a region or material by name, or a shape in rest coordinates
    stiffness: float = 1.0  # [-] factor of the law
    n_controls: ClassVar[int] = 0
    neutral: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (-inf, inf)
    units: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        require_positive("The stiffness of an added law", self.stiffness, "times the law")

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedElasticity":
        """Attach the law to a body. Raises `InputError` if the body is not a solid."""
        if not isinstance(body, Solid):
            raise InputError(
                f"{type(body).__name__} has no deformation gradient for an elastic law; give the "
                "robot a shape or a mesh, and simulate it as a solid."
            )
        cells = select_cells(body, self.region)
        weights = gradient_rows(body, cells)
        return AttachedElasticity(
            law=self.law,
            weights=weights,
            offset=np.zeros((weights.shape[0], body.dim)),
            volumes=body.cells.weights[cells].ravel(),
            stiffness=self.stiffness,
        )


def gradient_rows(body: Solid, cells: Array) -> sp.csr_matrix:
    """Return the matrix (n dim, n_nodes) [1/m] that maps the node positions to the columns of the
    deformation gradients at the n quadrature points of some cells."""
    slopes = np.moveaxis(body.cells.grads[cells], 3, 2)  # (cells, points, dim, cell nodes)
    n_rows = slopes.size // slopes.shape[3]
    columns = np.broadcast_to(body.cells.nodes[cells][:, None, None], slopes.shape)
    rows = np.repeat(np.arange(n_rows), slopes.shape[3])
    return sp.csr_matrix(
        (slopes.ravel(), (rows, columns.ravel())), shape=(n_rows, body.rest.size // body.dim)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedElasticity:
    """The Potential of an elastic law. Its points y are the columns of F at the quadrature
    points."""

    law: ElasticLaw
    weights: sp.csr_matrix  # (n dim, n_nodes) [1/m]
    offset: Array  # (n dim, dim) [-]
    volumes: Array  # (n,) [m^3] of each quadrature point
    stiffness: float = 1.0  # [-] factor of the law
    n_controls: int = 0
    stiff: bool = True

    @property
    def parameters(self) -> tuple[Param, ...]:
        return (positive_parameter("stiffness", self.stiffness, "-"),)

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedElasticity":
        return replace(self, **values)

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        return unit_gradient(self, name, y, u)

    @property
    def points_per_block(self) -> int:
        return self.offset.shape[1]

    def _gradients(self, y: Array) -> Array:
        """(n, dim, dim) the deformation gradients F."""
        return np.swapaxes(y.reshape(-1, y.shape[1], y.shape[1]), 1, 2)

    def energy(self, y: Array, u: Array) -> float:
        return float(self.stiffness * self.volumes @ self.law.energy(self._gradients(y)))

    def gradient(self, y: Array, u: Array) -> Array:
        stress = self.stiffness * self.volumes[:, None, None] * self.law.stress(self._gradients(y))
        return np.swapaxes(stress, 1, 2).reshape(y.shape)

    def hessian(self, y: Array, u: Array) -> Array:
        n, dim = len(self.volumes), y.shape[1]
        volumes = self.stiffness * self.volumes
        tangent = np.einsum("c,cimjk->cmikj", volumes, self.law.tangent(self._gradients(y)))
        return tangent.reshape(n, dim * dim, dim * dim)

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)
