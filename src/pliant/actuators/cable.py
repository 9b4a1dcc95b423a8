"""A frictionless cable through points of the body, driven by its tension or by its length."""

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike

from pliant.bodies import Matter
from pliant.core import (
    Array,
    InputError,
    check_limits,
    finite_array,
    quoted,
    require_positive,
)
from pliant.geometry.locate import ROUNDING


@dataclass(frozen=True, kw_only=True, eq=False)
class Cable:
    """A cable through material points; `guide` is a fixed pulley in space that it runs to after the
    last point.

    drive "tension": the control is the tension [N], slack below zero, so f = -T dL/dq. drive
    "length": the control is the free length as a share of the rest length, and the cable is a
    one-sided spring (paper 004 eq. 17).
    """

    points: ArrayLike  # (n, dim) [m] rest positions, in order along the cable
    guide: ArrayLike | None = None  # (dim,) [m]
    drive: str = "tension"
    limits: tuple[float, float] = (
        0.0,
        inf,
    )  # what the motor can do: tension [N] or share of the rest length [-]
    stiffness: float = 1e3  # [N/m] of a length-driven cable

    def __post_init__(self) -> None:
        points = finite_array("The array of points of a cable", self.points, (None, None), "m")
        if self.guide is not None:
            finite_array("The guide of a cable", self.guide, (points.shape[1],), "m")
        if len(points) + (self.guide is not None) < 2:
            raise InputError(
                f"A cable needs at least two points and has {len(points)}; add the point where "
                "it ends, or a guide."
            )
        if self.drive not in ("tension", "length"):
            raise InputError(
                f"A cable is driven by 'tension' or 'length', not by {quoted(self.drive)}."
            )
        check_limits("a cable", self.limits)
        if self.limits[0] < 0.0:
            what = "tension" if self.drive == "tension" else "free length"
            raise InputError(
                f"The lower limit of a cable's {what} is {self.limits[0]:g}; a cable can only "
                "pull, so take 0 or more."
            )
        require_positive("The cable's stiffness", self.stiffness, "N/m")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which the cable does nothing at rest: no tension, or its whole rest
        length."""
        return 0.0 if self.drive == "tension" else 1.0

    def path(self) -> Array:
        """(n, dim) [m] the route at rest, the guide included."""
        points = np.asarray(self.points, float)
        return points if self.guide is None else np.vstack([points, np.asarray(self.guide, float)])

    def on(self, body: Matter) -> "AttachedCable":
        """Attach the cable to a body. Raises InputError for a point outside of it."""
        anchors = body.locate(np.asarray(self.points, float))
        m = anchors.shape[0]
        path = self.path()
        held = anchors @ body.rest.reshape(-1, body.dim)
        # a given point off the body was moved to its surface; others differ by rounding only
        moved = np.linalg.norm(held - path[:m], axis=1) > ROUNDING * np.ptp(body.rest)
        path = np.vstack([np.where(moved[:, None], held, path[:m]), path[m:]])
        n = len(path) - 1
        difference = sp.diags([-1.0, 1.0], [0, 1], shape=(n, n + 1)).tocsr()
        outside = np.zeros_like(path)
        outside[m:] = path[m:]
        lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
        if (lengths == 0.0).any():
            raise InputError(
                f"Cable points {np.argmin(lengths)} and {np.argmin(lengths) + 1} coincide; "
                "remove one of them."
            )
        return AttachedCable(
            weights=(difference[:, :m] @ anchors).tocsr(),
            offset=difference @ outside,
            rest_length=lengths.sum(),
            drive=self.drive,
            stiffness=self.stiffness,
        )


@njit(error_model="numpy", cache=True)
def tension(by_length, length, u, rest_length, stiffness):
    """[N] of a cable: its control, or a one-sided spring beyond its free length; analytic in
    complex lengths."""
    free = max(u, 0.0)
    if not by_length:
        return free + 0.0 * length
    stretch = length - rest_length * free
    return stiffness * stretch if stretch.real > 0.0 else 0.0 * stretch


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedCable:
    """A Term whose points y are the cable's segments, L = sum |y|."""

    weights: sp.csr_matrix  # (n_segments, n_nodes)
    offset: Array  # (n_segments, dim) [m]
    rest_length: float  # [m]
    drive: str
    stiffness: float  # [N/m]
    n_controls: int = 1
    group: int = 1

    @property
    def stiff(self) -> bool:
        return self.drive == "length"

    def length(self, y: Array) -> Array:
        """[m]"""
        return _norm(y).sum()

    def displacement(self, y: Array) -> Array:
        """[m] how much cable the motor has taken in since rest."""
        return self.rest_length - self.length(y)

    def _tension(self, length: Array, u: Array) -> Array:
        return tension(self.stiff, length, float(u[0]), self.rest_length, self.stiffness)

    def energy(self, y: Array, u: Array) -> float:
        length = self.length(y)
        tension = self._tension(length, u)
        return float(
            tension * length if self.drive == "tension" else 0.5 * tension**2 / self.stiffness
        )

    def gradient(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        return (self._tension(r.sum(), u) / r)[:, None] * y

    def curvature(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        t = y / r[:, None]
        return (self._tension(r.sum(), u) / r)[:, None, None] * (
            np.eye(y.shape[1]) - t[:, :, None] * t[:, None, :]
        )

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        r = _norm(y)
        taut = self.drive == "length" and np.real(self._tension(r.sum(), u)) > 0.0
        return (y / r[:, None])[None][: int(taut)], np.full(int(taut), self.stiffness)

    def control_gradient(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        t = (y / r[:, None])[None]
        if self.drive == "tension":
            return t * (u[0] >= 0.0)
        return (
            -self.stiffness
            * self.rest_length
            * t
            * (u[0] >= 0.0 and np.real(self._tension(r.sum(), u)) > 0.0)
        )

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(
            1
        )  # the force is linear in the tension and in the length, apart from where it goes slack


def _norm(y: Array) -> Array:
    """|y| row by row, analytic in complex y."""
    return np.sqrt(np.einsum("ij,ij->i", y, y))


# The same on a few nodes, compiled, for bodies that take thousands of small steps


@njit(error_model="numpy", cache=True)
def _segments(nodes, weights, offset, q):
    """((n_segments, dim) the segments, (n_segments,) their lengths) from positions q (n, dim);
    weights (n_segments, n_nodes)."""
    y = offset.copy()
    for s in range(len(y)):
        for k in range(len(nodes)):
            for i in range(y.shape[1]):
                y[s, i] += weights[s, k] * q[nodes[k], i]
    return y, np.sqrt((y * y).sum(axis=1))


@njit(error_model="numpy", cache=True)
def pull_nodes(nodes, weights, offset, by_length, rest_length, stiffness, u, q, force):
    """Add a cable's pull [N] to the force (n, dim) on its nodes."""
    y, r = _segments(nodes, weights, offset, q)
    pull = tension(by_length, r.sum(), u, rest_length, stiffness)
    for k in range(len(nodes)):
        for s in range(len(y)):
            for i in range(y.shape[1]):
                force[nodes[k], i] -= weights[s, k] * pull / r[s] * y[s, i]


@njit(error_model="numpy", cache=True)
def pull_nodes_back(nodes, weights, offset, by_length, rest_length, stiffness, u, q, bar, q_bar):
    """Add the gradient of bar (n, dim) . force by the positions to q_bar; gives that by the
    control."""
    y, r = _segments(nodes, weights, offset, q)
    dy, _ = _segments(nodes, weights, 0.0 * offset, bar)
    pull = tension(by_length, r.sum(), u, rest_length, stiffness)
    along = np.zeros(len(y))  # how the bar lengthens each segment
    for s in range(len(y)):
        for i in range(y.shape[1]):
            along[s] += y[s, i] * dy[s, i] / r[s]
    stretched = along.sum()
    spring = stiffness * stretched if by_length and pull > 0.0 else 0.0
    for k in range(len(nodes)):
        for s in range(len(y)):
            for i in range(y.shape[1]):
                t = y[s, i] / r[s]
                q_bar[nodes[k], i] -= weights[s, k] * (
                    pull / r[s] * (dy[s, i] - along[s] * t) + spring * t
                )
    if u < 0.0 or (by_length and pull <= 0.0):
        return 0.0
    return stiffness * rest_length * stretched if by_length else -stretched
