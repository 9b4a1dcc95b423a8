"""Connections of a body to a frame in space: a gripper on a surface [Zimmermann2021], a tether at
one point."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.frames import Frame
from pliant.actuators.polyline import Polyline
from pliant.bodies import COMPLEX_STEP, AttachableBody, one_sided_spring, stiffness_per_area
from pliant.core import Array, InputError, finite_array, require_kind, require_positive

DEFAULT_ONSET_RATIO = 1e-3  # onset over length of a tether: small, but resolved by Newton's method


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameActuator:
    """An actuator whose controls are those of a frame."""

    frame: Frame

    @property
    def limits(self) -> tuple[Array, Array]:
        return self.frame.limits

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    @property
    def neutral(self) -> Array:
        """The controls without force at rest, (n_controls,), unless a tether is shorter than its
        distance at rest."""
        return self.frame.start

    @property
    def units(self) -> tuple[str, ...]:
        return self.frame.units

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        """Return the frame."""
        return (_frame_polyline(self.frame),)


def _frame_polyline(frame: Frame) -> Polyline:
    return Polyline(
        kind="frame",
        n_points=len(frame.outline(frame.start)),
        points=lambda nodes, u: frame.outline(u),
        depends_on_controls=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Gripper(FrameActuator):
    """A gripper that holds a named surface or region in a frame by springs. Its controls are those
    of the frame.

    The energy is E = 1/2 sum_j k_j |x_j - K(l_j, u)|^2 [Zimmermann2021]. The local positions l_j
    are those of the rest shape with the frame at its start. A gripper holds the positions of beams
    but not their rotations, so a single point acts as a ball joint.

    >>> import pliant as pl
    >>> frame = pl.actuators.MovingFrame(origin=(0.0, 0.01, 0.01))
    >>> rod = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(2, 1, 1),
    ...     material=pl.Material(E=1e5, nu=0.4),
    ...     actuators={"hand": pl.Gripper(surface="x-", frame=frame)},
    ... )
    >>> rod.n_controls  # position and rotation of the frame
    6
    """

    surface: str
    # [Pa/m], of point masses [N/m]; None: ten times E / cell size of the body
    stiffness: float | None = None

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

    def attach(self, body: AttachableBody) -> "AttachedGripper":
        _check_dimension("gripper", self.frame, body)
        nodes, rest = body.region(self.surface), body.rest.reshape(-1, body.dim)
        nodes = nodes[body.is_position[nodes]]
        _warn_if_distant(self.frame, rest, nodes)
        stiffness = _default_stiffness(body) if self.stiffness is None else self.stiffness
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(rest))
        )
        return AttachedGripper(
            frame=self.frame,
            weights=weights,
            offset=np.zeros((len(nodes), body.dim)),
            local=self.frame.local_positions(rest[nodes], self.frame.start),
            stiffness=stiffness * surface_areas(body, self.surface, nodes),
        )


def _check_dimension(what: str, frame: Frame, body: AttachableBody) -> None:
    if frame.dim != body.dim:
        raise InputError(
            f"The frame of a {what} is {frame.dim}D, but the body is {body.dim}D; give a frame "
            f"in {body.dim} dimensions."
        )


def _warn_if_distant(frame: Frame, rest: Array, nodes: Array) -> None:
    """Warn if the frame is farther from the held nodes than the size of the body."""
    origin = frame.positions(np.zeros((1, frame.dim)), frame.start)[0]
    away, size = (
        float(np.linalg.norm(rest[nodes] - origin, axis=1).min()),
        float(np.ptp(rest, axis=0).max()),
    )
    if away > max(size, 1e-9):
        warnings.warn(
            f"A gripper's frame starts at {origin.round(4)} m, {away:.3g} m from the surface that "
            "it holds, so its rotations move the body far. Place the body at the frame's start.",
            stacklevel=4,
        )


def _default_stiffness(body: AttachableBody) -> float:
    try:
        return 10.0 * stiffness_per_area(body)
    except InputError:  # point masses have none
        raise InputError(
            "A gripper on point masses needs a stiffness [N/m]; give Gripper(stiffness=...)."
        ) from None


def surface_areas(body: AttachableBody, name: str, nodes: Array) -> Array:
    """Return the surface area of each node, (k,) [m^2]. For a region inside the body, use the mean
    volume of a node divided by the cell size."""
    try:
        return body.node_areas(name, lumped=True)[nodes]
    except InputError:
        if not len(nodes):
            raise
        return np.full(
            len(nodes), body.volumes().sum() / (body.rest.size / body.dim) / body.cell_size()
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedGripper:
    """The Potential of a gripper. Its points are the held nodes."""

    frame: Frame
    weights: sp.csr_matrix  # (n_points, n_nodes)
    offset: Array  # (n_points, dim) [m]
    local: Array  # (n_points, dim) [m] local positions in the frame
    stiffness: Array  # (n_points,) [N/m]
    points_per_block: int = 1
    stiff: bool = True

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    def energy(self, y: Array, u: Array) -> float:
        return float(
            0.5 * self.stiffness @ np.sum((y - self.frame.positions(self.local, u)) ** 2, axis=1)
        )

    def gradient(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None] * (y - self.frame.positions(self.local, u))

    def hessian(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -self.stiffness[:, None] * self.frame.jacobian(self.local, u)

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return self.frame.hessian_vector(self.local, u, -self.stiffness[:, None] * bar, du)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tether(FrameActuator):
    """A cord from a material point to a point of a frame. It is slack up to its length and a spring
    beyond it. Its controls are those of the frame."""

    point: ArrayLike  # (dim,) [m] rest position
    # (dim,) [m] position of the other end in space, with the frame at its start; None: the origin
    # of the frame
    anchor: ArrayLike | None = None
    length: float | None = None  # [m] free length; None: the distance at rest
    stiffness: float = 1e4  # [N/m]
    # [m] elongation over which it becomes taut smoothly; None: a thousandth of its length
    onset: float | None = None

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

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        """Return the frame, and the cord from its last point to the body."""
        row = body.locate(np.asarray(self.point, float)[None])
        cord = Polyline(
            kind="cable",
            n_points=2,
            points=lambda nodes, u: np.concatenate([self.frame.outline(u)[-1:], row @ nodes]),
            depends_on_controls=True,
        )
        return (_frame_polyline(self.frame), cord)

    def attach(self, body: AttachableBody) -> "AttachedTether":
        _check_dimension("tether", self.frame, body)
        point = finite_array("The point of a tether", self.point, (body.dim,), "m")
        weights = body.locate(point[None])
        point = (weights @ body.rest.reshape(-1, body.dim))[0]
        local = np.zeros((1, body.dim))
        if self.anchor is not None:
            local = self.frame.local_positions(
                np.asarray(self.anchor, float)[None], self.frame.start
            )
        distance = float(np.linalg.norm(self.frame.positions(local, self.frame.start)[0] - point))
        if self.length is None and distance < 1e-9:  # round-off
            raise InputError(
                f"The point and the anchor of a tether are both at {point} m, so its length is "
                "zero; give length=... [m]."
            )
        length = distance if self.length is None else self.length
        onset = DEFAULT_ONSET_RATIO * length if self.onset is None else self.onset
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
    """The Potential of a tether. With its one point y and r = y - K(l, u), the energy is that of a
    one-sided spring of length |r|."""

    frame: Frame
    weights: sp.csr_matrix  # (1, n_nodes)
    offset: Array  # (1, dim) [m]
    local: Array  # (1, dim) [m] the anchor in the frame
    length: float  # [m]
    stiffness: float  # [N/m]
    onset: float  # [m]
    points_per_block: int = 1
    stiff: bool = True

    @property
    def n_controls(self) -> int:
        return self.frame.n_controls

    def _spring(self, y: Array, u: Array) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """Return the unit vector (1, dim) from the anchor to the point, the distance |r| (1,) [m],
        and the spring's value and first two derivatives."""
        r = y - self.frame.positions(self.local, u)
        size = np.sqrt(np.sum(r * r, axis=1))
        size = np.where(size == 0.0, self.onset, size)  # slack, so any direction will do
        return r / size[:, None], size, one_sided_spring(size - self.length, self.onset)

    def energy(self, y: Array, u: Array) -> float:
        return self.stiffness * float(self._spring(y, u)[2][0][0])

    def gradient(self, y: Array, u: Array) -> Array:
        n, _, (_, slope, _) = self._spring(y, u)
        return self.stiffness * slope[:, None] * n

    def hessian(self, y: Array, u: Array) -> Array:
        n, size, (_, slope, curvature) = self._spring(y, u)
        along = n[:, :, None] * n[:, None, :]
        return self.stiffness * (
            curvature[:, None, None] * along
            + (slope / size)[:, None, None] * (np.eye(y.shape[1]) - along)
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -self.frame.jacobian(self.local, u) @ self.hessian(y, u)[0]

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        jacobian = self.frame.jacobian(self.local, u)[:, 0]
        # K moves by du, so r moves by minus that
        moved = y - 1j * COMPLEX_STEP * (du @ jacobian)[None]
        tangent = self.hessian(moved, u)[0]
        return (
            self.frame.hessian_vector(self.local, u, -bar @ tangent.real, du)
            - jacobian @ (tangent.imag / COMPLEX_STEP) @ bar[0]
        )
