"""A frictionless cable through points of the body, driven by its tension or by its length."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike

from pliant.actuators.polyline import Polyline
from pliant.actuators.route import Route, coordinate_names, moved_path
from pliant.bodies import AttachableBody, positive_parameter, unit_gradient
from pliant.core import (
    Array,
    InputError,
    Param,
    check_limits,
    finite_array,
    quoted,
    require_positive,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cable:
    """A cable through material points, and after the last one to `guide`, a fixed pulley in space.

    drive "tension": the control is the tension [N], and the force is f = -T dL/dq; the cable is
    slack below zero. drive "length": the control is the ratio of the free length to the rest
    length [-], and the cable is a one-sided spring [Spielberg2021, eq. 17].

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     actuators={"cable": pl.Cable(points=[(0.0, 0.01, 0.02), (0.1, 0.01, 0.02)])},
    ... )
    >>> [control.unit for control in beam.controls]
    ['N']
    """

    points: ArrayLike  # (n, dim) [m] rest positions, in order along the cable
    guide: ArrayLike | None = None  # (dim,) [m]
    drive: str = "tension"
    limits: tuple[float, float] = (0.0, inf)  # of the control
    stiffness: float = 1e3  # [N/m] of a length-driven cable
    # [m] of a length-driven cable, at the control 1; None: its length in the rest shape
    rest_length: float | None = None
    # [-] tension over the control of a tension-driven cable, such as 0.9 after friction in a sheath
    strength: float = 1.0

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
                "pull, so give 0 or more."
            )
        require_positive("The cable's stiffness", self.stiffness, "N/m")
        require_positive("The cable's strength", self.strength, "")
        if self.rest_length is not None:
            require_positive("The cable's rest length", self.rest_length, "m")
            if self.drive == "tension":
                raise InputError(
                    "A tension-driven cable has a rest length, on which its tension does not "
                    "depend; remove it, or drive the cable by 'length'."
                )
        if self.strength != 1.0 and self.drive == "length":
            raise InputError(
                "A length-driven cable has a strength, but its tension follows from its length; "
                "give it a stiffness."
            )

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control without force at rest: zero tension, or the rest length."""
        return 0.0 if self.drive == "tension" else 1.0

    @property
    def units(self) -> tuple[str, ...]:
        return ("N" if self.drive == "tension" else "-",)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        """Return the cable through its points to its guide."""
        weights = body.locate(np.asarray(self.points, float))
        guide = self.path()[weights.shape[0] :]
        return (
            Polyline(
                kind="cable",
                n_points=weights.shape[0] + len(guide),
                points=lambda nodes, u: np.concatenate([weights @ nodes, guide]),
            ),
        )

    def path(self) -> Array:
        """Return the path at rest including the guide, (n, dim) [m]."""
        points = np.asarray(self.points, float)
        return points if self.guide is None else np.vstack([points, np.asarray(self.guide, float)])

    def with_route(self, values: Mapping[str, float]) -> "Cable":
        """Return the cable with other coordinates [m] of its points and guide, by names such as
        "point0.x" and "guide.z"."""
        path, m = moved_path(self.path(), values), len(np.asarray(self.points))
        return replace(
            self, points=path[:m].tolist(), guide=None if self.guide is None else path[m].tolist()
        )

    @property
    def route_names(self) -> list[str]:
        """The names of the coordinates of the points and the guide."""
        m, dim = np.shape(self.points)
        return coordinate_names(m, self.guide is not None, dim)

    def attach(self, body: AttachableBody) -> "AttachedCable":
        """Attach the cable to a body. Raises `InputError` if a point is outside the body."""
        route = Route(body=body, given=self.path(), n_attached=len(np.asarray(self.points)))
        return AttachedCable(
            route=route,
            weights=route.weights,
            offset=route.offset,
            rest_length=route.length if self.rest_length is None else self.rest_length,
            follows_route=self.rest_length is None,
            drive=self.drive,
            stiffness=self.stiffness,
            strength=self.strength,
        )


@njit(error_model="numpy", cache=True)
def tension(by_length: Any, length: Any, u: Any, rest_length: Any, stiffness: Any) -> Any:
    """Return the tension [N]: the control, or a one-sided spring beyond the free length. It is
    analytic in complex lengths."""
    free = max(u, 0.0)
    if not by_length:
        return free + 0.0 * length
    stretch = length - rest_length * free
    return stiffness * stretch if stretch.real > 0.0 else 0.0 * stretch


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedCable:
    """The Potential of a cable. Its points y are the segments, so the length is L = sum |y|."""

    route: Route
    weights: sp.csr_matrix  # (n_segments, n_nodes)
    offset: Array  # (n_segments, dim) [m]
    rest_length: float  # [m]
    follows_route: bool  # whether the rest length is that of the route at rest
    drive: str
    stiffness: float  # [N/m]
    strength: float = 1.0  # [-] tension over the control, if it is driven by tension
    n_controls: int = 1
    points_per_block: int = 1

    @property
    def parameters(self) -> tuple[Param, ...]:
        if self.drive == "tension":
            return (positive_parameter("strength", self.strength, "-"), *self.route.parameters)
        return (
            positive_parameter("stiffness", self.stiffness, "N/m"),
            positive_parameter("rest_length", self.rest_length, "m"),
            *self.route.parameters,
        )

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedCable":
        own = {name: value for name, value in values.items() if "." not in name}
        changed = replace(self, **own)
        if "rest_length" in own:
            changed = replace(changed, follows_route=False)
        moved = {name: value for name, value in values.items() if name not in own}
        return changed._with_route(self.route.moved(moved)) if moved else changed

    def _with_route(self, route: Route) -> "AttachedCable":
        rest_length = route.length if self.follows_route else self.rest_length
        return replace(
            self,
            route=route,
            weights=route.weights,
            offset=route.offset,
            rest_length=rest_length,
        )

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        if name in ("stiffness", "strength"):
            return unit_gradient(self, name, y, u)
        if name == "rest_length":
            return self._rest_length_gradient(y, u)
        if self.drive == "length" and self.follows_route:
            return self._rest_length_gradient(y, u) * self.route.length_change(name)
        return np.zeros_like(y)  # a point changes the weights only

    def _rest_length_gradient(self, y: Array, u: Array) -> Array:
        # the free length is the rest length times the control
        return self.control_gradient(y, u)[0] * (u[0] / self.rest_length)

    def weight_change(self, name: str) -> tuple[sp.csr_matrix, Array] | None:
        """Return the derivatives of the weights (n_segments, n_nodes) and of the offset
        (n_segments, dim) by a parameter; None if they do not depend on it."""
        return self.route.change(name) if "." in name else None

    @property
    def stiff(self) -> bool:
        return self.drive == "length"

    def length(self, y: Array) -> Array:
        """Return the length [m]."""
        return _norm(y).sum()

    def displacement(self, y: Array) -> Array:
        """Return the shortening since rest [m]."""
        return self.rest_length - self.length(y)

    def _tension(self, length: Array, u: Array) -> Array:
        drive = self.strength * float(u[0])
        return tension(self.stiff, length, drive, self.rest_length, self.stiffness)

    def energy(self, y: Array, u: Array) -> float:
        length = self.length(y)
        tension = self._tension(length, u)
        return float(
            tension * length if self.drive == "tension" else 0.5 * tension**2 / self.stiffness
        )

    def gradient(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        return (self._tension(r.sum(), u) / r)[:, None] * y

    def hessian(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        t = y / r[:, None]
        return (self._tension(r.sum(), u) / r)[:, None, None] * (
            np.eye(y.shape[1]) - t[:, :, None] * t[:, None, :]
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        r = _norm(y)
        taut = self.drive == "length" and np.real(self._tension(r.sum(), u)) > 0.0
        return (y / r[:, None])[None][: int(taut)], np.full(int(taut), self.stiffness)

    def control_gradient(self, y: Array, u: Array) -> Array:
        r = _norm(y)
        t = (y / r[:, None])[None]
        if self.drive == "tension":
            return self.strength * t * (u[0] >= 0.0)
        return (
            -self.stiffness
            * self.rest_length
            * t
            * (u[0] >= 0.0 and np.real(self._tension(r.sum(), u)) > 0.0)
        )

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(1)  # the force is piecewise linear in the control


def _norm(y: Array) -> Array:
    """Return |y| of each row, analytic in complex y."""
    return np.sqrt(np.einsum("ij,ij->i", y, y))


# Compiled versions on a few nodes, for explicit time stepping with many small steps


@njit(error_model="numpy", cache=True)
def _segments(nodes: Any, weights: Any, offset: Any, q: Any) -> Any:
    """Return the segments (n_segments, dim) and their lengths (n_segments,) for positions q
    (n, dim) and weights (n_segments, n_nodes)."""
    y = offset.copy()
    for s in range(len(y)):
        for k in range(len(nodes)):
            for i in range(y.shape[1]):
                y[s, i] += weights[s, k] * q[nodes[k], i]
    return y, np.sqrt((y * y).sum(axis=1))


@njit(error_model="numpy", cache=True)
def add_cable_forces(
    nodes: Any,
    weights: Any,
    offset: Any,
    by_length: Any,
    rest_length: Any,
    stiffness: Any,
    u: Any,
    q: Any,
    force: Any,
) -> Any:
    """Add the force of a cable [N] to `force` (n, dim)."""
    y, r = _segments(nodes, weights, offset, q)
    T = tension(by_length, r.sum(), u, rest_length, stiffness)
    for k in range(len(nodes)):
        for s in range(len(y)):
            for i in range(y.shape[1]):
                force[nodes[k], i] -= weights[s, k] * T / r[s] * y[s, i]


@njit(error_model="numpy", cache=True)
def add_cable_forces_vjp(
    nodes: Any,
    weights: Any,
    offset: Any,
    by_length: Any,
    rest_length: Any,
    stiffness: Any,
    u: Any,
    q: Any,
    bar: Any,
    q_bar: Any,
) -> Any:
    """Add the gradient of bar (n, dim) . force with respect to q to q_bar. Return the gradient with
    respect to the control."""
    y, r = _segments(nodes, weights, offset, q)
    dy, _ = _segments(nodes, weights, 0.0 * offset, bar)
    T = tension(by_length, r.sum(), u, rest_length, stiffness)
    along = np.zeros(len(y))  # rate of length of each segment along bar
    for s in range(len(y)):
        for i in range(y.shape[1]):
            along[s] += y[s, i] * dy[s, i] / r[s]
    stretched = along.sum()
    spring = stiffness * stretched if by_length and T > 0.0 else 0.0
    for k in range(len(nodes)):
        for s in range(len(y)):
            for i in range(y.shape[1]):
                t = y[s, i] / r[s]
                q_bar[nodes[k], i] -= weights[s, k] * (
                    T / r[s] * (dy[s, i] - along[s] * t) + spring * t
                )
    if u < 0.0 or (by_length and T <= 0.0):
        return 0.0
    return stiffness * rest_length * stretched if by_length else -stretched
