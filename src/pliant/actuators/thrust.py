"""A force at a point of the body, such as that of a propeller. Each component is a control."""

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.polyline import Polyline
from pliant.bodies import AttachableBody
from pliant.core import Array, check_limits, finite_array


@dataclass(frozen=True, kw_only=True, eq=False)
class Thrust:
    """A dead force at a material point. Its controls are the components along the axes of space
    [N]."""

    point: ArrayLike  # (dim,) [m] rest position
    limits: tuple[float, float] = (-inf, inf)  # [N] of each component

    def __post_init__(self) -> None:
        finite_array("The point of a thrust", self.point, (None,), "m")
        check_limits("a thrust", self.limits)

    @property
    def n_controls(self) -> int:
        return np.size(self.point)

    @property
    def neutral(self) -> float:
        """The control without force."""
        return 0.0

    @property
    def units(self) -> tuple[str, ...]:
        return self.n_controls * ("N",)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedThrust":
        weights = body.locate(np.asarray(self.point, float)[None])
        return AttachedThrust(weights=weights, offset=np.zeros((1, body.dim)), n_controls=body.dim)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedThrust:
    """The Potential of a thrust at its one point y: energy = -u . y."""

    weights: sp.csr_matrix
    offset: Array
    n_controls: int
    points_per_block: int = 1
    stiff: bool = False

    def energy(self, y: Array, u: Array) -> float:
        return -float(u @ y[0])

    def gradient(self, y: Array, u: Array) -> Array:
        return -u[None] + 0.0 * y

    def hessian(self, y: Array, u: Array) -> Array:
        return np.zeros((1, y.shape[1], y.shape[1]))

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -np.eye(y.shape[1])[:, None, :]

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(self.n_controls)
