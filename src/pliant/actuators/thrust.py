"""A force in space on a point of the body, each component a control: a hand that pulls, a
propeller, an ideal motor."""

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import Matter
from pliant.core import Array, check_limits, finite_array


@dataclass(frozen=True, kw_only=True, eq=False)
class Thrust:
    """A dead force at a material point; its controls are the components along the world's axes
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
        """The control at which it does nothing."""
        return 0.0

    def on(self, body: Matter) -> "AttachedThrust":
        weights = body.locate(np.asarray(self.point, float)[None])
        return AttachedThrust(weights=weights, offset=np.zeros((1, body.dim)), n_controls=body.dim)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedThrust:
    """A Term linear in its one point: energy = -u . y."""

    weights: sp.csr_matrix
    offset: Array
    n_controls: int
    group: int = 1
    stiff: bool = False

    def energy(self, y: Array, u: Array) -> float:
        return -float(u @ y[0])

    def gradient(self, y: Array, u: Array) -> Array:
        return -u[None] + 0.0 * y

    def curvature(self, y: Array, u: Array) -> Array:
        return np.zeros((1, y.shape[1], y.shape[1]))

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -np.eye(y.shape[1])[:, None, :]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(self.n_controls)
