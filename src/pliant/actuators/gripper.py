"""What ties a body to a frame in space: a gripper on a whole surface (paper 003), a tether on one
point."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.frames import Frame
from pliant.bodies import TINY, Matter, one_sided
from pliant.core import Array, InputError, finite_array, require_kind, require_positive

ONSET = 1e-3  # of a tether's length: the stretch over which its stiffness sets in


@dataclass(frozen=True, kw_only=True, eq=False)
class Driven:
    """What a frame drives: its controls are the frame's."""

    frame: Frame

    @property
    def limits(self) -> tuple[Array, Array]:
        return self.frame.limits

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    @property
    def neutral(self) -> Array:
        """(n_controls,) the controls at which it does nothing at rest; a tether only if it is as
        long as the way."""
        return self.frame.start


@dataclass(frozen=True, kw_only=True, eq=False)
class Gripper(Driven):
    """Holds a named surface or region in a frame by springs, E = 1/2 sum_j k_j |x_j - K(l_j, u)|^2
    (paper 003); the controls are the frame's. The places l_j in the frame are those of the rest
    shape with the frame at its start; of beams it holds places and no turns, so that one point
    alone is a ball joint."""

    surface: str
    stiffness: float | None = (
        None  # [Pa/m], of point masses [N/m]; None: ten times E / cell of the body
    )

    def __post_init__(self) -> None:
        require_kind("The frame of a gripper", self.frame, Frame, "give a MovingFrame or an Arm")
        require_kind(
            "The surface of a gripper",
            self.surface,
            str,
            "name a surface or a region of the body, such as 'z+'",
        )
        if self.stiffness is not None:
            require_positive("The gripper's stiffness", self.stiffness, "Pa/m")

    def on(self, body: Matter) -> "AttachedGripper":
        _check_dimension("gripper", self.frame, body)
        nodes, rest = body.region(self.surface), body.rest.reshape(-1, body.dim)
        nodes = nodes[body.is_place[nodes]]
        _doubt_distance(self.frame, rest, nodes)
        stiffness = _hardness(body) if self.stiffness is None else self.stiffness
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(rest))
        )
        return AttachedGripper(
            frame=self.frame,
            weights=weights,
            offset=np.zeros((len(nodes), body.dim)),
            local=self.frame.local(rest[nodes], self.frame.start),
            stiffness=stiffness * areas(body, self.surface, nodes),
        )


def _check_dimension(what: str, frame: Frame, body: Matter) -> None:
    if frame.dim != body.dim:
        raise InputError(
            f"The frame of a {what} is {frame.dim}D, but the body is {body.dim}D; give a frame "
            f"in {body.dim} dimensions."
        )


def _doubt_distance(frame: Frame, rest: Array, nodes: Array) -> None:
    """A warning where the frame's origin stands further from what it holds than the body is
    long."""
    origin = frame.places(np.zeros((1, frame.dim)), frame.start)[0]
    away, size = (
        float(np.linalg.norm(rest[nodes] - origin, axis=1).min()),
        float(np.ptp(rest, axis=0).max()),
    )
    if away > max(size, 1e-9):
        warnings.warn(
            f"A gripper's frame begins at {origin.round(4)} m, {away:.3g} m from what it holds: "
            "it turns the body on a lever. Describe the body where the frame begins.",
            stacklevel=4,
        )


def _hardness(body: Matter) -> float:
    try:
        return 10.0 * body.hardness()
    except InputError:  # point masses have none
        raise InputError(
            "A gripper on point masses needs a stiffness [N/m]; give Gripper(stiffness=...)."
        ) from None


def areas(body: Matter, name: str, nodes: Array) -> Array:
    """(k,) [m^2] what each node carries of a surface; of a region inside, the share of a node in
    the body's volume, a cell deep."""
    try:
        return body.patch(name, even=True)[nodes]
    except InputError:
        if not len(nodes):
            raise
        return np.full(
            len(nodes), body.volumes().sum() / (body.rest.size / body.dim) / body.cell_size()
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedGripper:
    """A Term over the held nodes."""

    frame: Frame
    weights: sp.csr_matrix  # (n_points, n_nodes)
    offset: Array  # (n_points, dim) [m]
    local: Array  # (n_points, dim) [m] places in the frame
    stiffness: Array  # (n_points,) [N/m]
    group: int = 1
    stiff: bool = True

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    def energy(self, y: Array, u: Array) -> float:
        return float(
            0.5 * self.stiffness @ np.sum((y - self.frame.places(self.local, u)) ** 2, axis=1)
        )

    def gradient(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None] * (y - self.frame.places(self.local, u))

    def curvature(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None, None] * np.eye(y.shape[1])

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -self.stiffness[:, None] * self.frame.slopes(self.local, u)

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return self.frame.bend(self.local, u, -self.stiffness[:, None] * bar, du)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tether(Driven):
    """A cord from a material point to a point of a frame: slack up to its length, a spring beyond;
    the controls are the frame's."""

    point: ArrayLike  # (dim,) [m] rest position
    anchor: ArrayLike | None = (
        # (dim,) [m] where it is tied, in space with the frame at its start; None: the frame's
        # origin
        None
    )
    length: float | None = None  # [m] free length; None: the distance at rest
    stiffness: float = 1e4  # [N/m]
    onset: float | None = (
        None  # [m] stretch over which it becomes taut, smoothly; None: a thousandth of its length
    )

    def __post_init__(self) -> None:
        require_kind("The frame of a tether", self.frame, Frame, "give a MovingFrame or an Arm")
        point = finite_array("The point of a tether", self.point, (None,), "m")
        if self.anchor is not None:
            finite_array("The anchor of a tether", self.anchor, point.shape, "m")
        if self.length is not None:
            require_positive("The length of a tether", self.length, "m")
        require_positive("The tether's stiffness", self.stiffness, "N/m")
        if self.onset is not None:
            require_positive("The tether's onset", self.onset, "m")

    def on(self, body: Matter) -> "AttachedTether":
        _check_dimension("tether", self.frame, body)
        point = finite_array("The point of a tether", self.point, (body.dim,), "m")
        weights = body.locate(point[None])
        point = (weights @ body.rest.reshape(-1, body.dim))[0]
        local = np.zeros((1, body.dim))
        if self.anchor is not None:
            local = self.frame.local(np.asarray(self.anchor, float)[None], self.frame.start)
        way = float(np.linalg.norm(self.frame.places(local, self.frame.start)[0] - point))
        if self.length is None and way < 1e-9:  # round-off
            raise InputError(
                f"The point and the anchor of a tether are both at {point} m, so that it has no "
                "length; give length=... [m]."
            )
        length = way if self.length is None else self.length
        onset = ONSET * length if self.onset is None else self.onset
        if onset >= length:
            raise InputError(
                f"The onset of a tether, {onset:g} m, is not below its length, {length:g} m; "
                "make it shorter."
            )
        return AttachedTether(
            frame=self.frame,
            weights=weights,
            offset=np.zeros((1, body.dim)),
            local=local,
            length=length,
            stiffness=self.stiffness,
            onset=onset,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedTether:
    """A Term of its one point, a function of r = y - K(l, u): energy = k ramp(|r| - length)."""

    frame: Frame
    weights: sp.csr_matrix  # (1, n_nodes)
    offset: Array  # (1, dim) [m]
    local: Array  # (1, dim) [m] the anchor in the frame
    length: float  # [m]
    stiffness: float  # [N/m]
    onset: float  # [m]
    group: int = 1
    stiff: bool = True

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    def _pull(self, y: Array, u: Array) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """(n (1, dim) the direction from the anchor to the point, |r| (1,) [m], the ramp's value,
        slope and bend)."""
        r = y - self.frame.places(self.local, u)
        size = np.sqrt(np.sum(r * r, axis=1))
        size = np.where(size == 0.0, self.onset, size)  # there it is slack, and has no direction
        return r / size[:, None], size, one_sided(size - self.length, self.onset)

    def energy(self, y: Array, u: Array) -> float:
        return self.stiffness * float(self._pull(y, u)[2][0][0])

    def gradient(self, y: Array, u: Array) -> Array:
        n, _, (_, slope, _) = self._pull(y, u)
        return self.stiffness * slope[:, None] * n

    def curvature(self, y: Array, u: Array) -> Array:
        n, size, (_, slope, bend) = self._pull(y, u)
        along = n[:, :, None] * n[:, None, :]
        return self.stiffness * (
            bend[:, None, None] * along
            + (slope / size)[:, None, None] * (np.eye(y.shape[1]) - along)
        )

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -self.frame.slopes(self.local, u) @ self.curvature(y, u)[0]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        slopes = self.frame.slopes(self.local, u)[:, 0]
        turned = self.curvature(y - 1j * TINY * (du @ slopes)[None], u)[0]  # r moves against K
        return (
            self.frame.bend(self.local, u, -bar @ turned.real, du)
            - slopes @ (turned.imag / TINY) @ bar[0]
        )
