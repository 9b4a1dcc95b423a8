"""A motor that turns or moves a part of the body: its one control is the angle or the way."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.frames import MovingFrame
from pliant.actuators.gripper import areas
from pliant.bodies import Beams, Matter
from pliant.core import (
    Array,
    InputError,
    check_limits,
    finite_array,
    require_kind,
    require_positive,
)

FIRM = {
    True: 100.0,
    False: 10.0,
}  # springs over the stiffness of what they hold: of beams, of cells


@dataclass(frozen=True, kw_only=True, eq=False)
class Servo:
    """Holds a named region by springs and turns it about an axis by u [rad] (drive "turn"), or
    moves it along the axis by u [m] ("move").

    Of beams it holds places and turns, and turns at most by a full turn; of other bodies places. A
    plane body turns about the normal of its plane, and needs no axis for that.
    """

    region: str
    axis: ArrayLike | None = None  # (dim,) any length
    origin: ArrayLike | None = (
        None  # (dim,) [m] a point of the axis; None: the mean place of the region at rest
    )
    drive: str = "turn"
    limits: tuple[float, float] = (-np.pi, np.pi)  # [rad] or [m]
    stiffness: float | None = (
        # [-] of its springs over that of what they hold; None: 100 on beams, 10 on other bodies
        None
    )

    def __post_init__(self) -> None:
        require_kind(
            "The region of a servo",
            self.region,
            str,
            "name a region or a surface of the body, such as 'z-'",
        )
        if self.drive not in ("turn", "move"):
            raise InputError(f"A servo's drive is 'turn' or 'move', not '{self.drive}'.")
        for name, value, unit in (("axis", self.axis, ""), ("origin", self.origin, "m")):
            if value is not None:
                finite_array(f"The {name} of a servo", value, (None,), unit)
        if self.axis is not None and not np.any(self.axis):
            raise InputError(
                "The axis of a servo is zero, which is no direction; give for example (0, 0, 1)."
            )
        check_limits("a servo", self.limits)
        if self.stiffness is not None:
            require_positive("The servo's stiffness", self.stiffness, "times that of the body")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which it does nothing at rest."""
        return 0.0

    def on(self, body: Matter) -> "AttachedServo":
        nodes, rest = body.region(self.region), body.rest.reshape(-1, body.dim)
        nodes = np.concatenate([nodes[body.is_place[nodes]], nodes[~body.is_place[nodes]]])
        held, axis = rest[nodes[body.is_place[nodes]]], self._axis(body.dim)
        middle = (
            held.mean(axis=0) if len(held) else np.zeros(body.dim)
        )  # turns alone look at no origin
        middle = (
            middle
            if self.origin is None
            else finite_array("The origin of a servo", self.origin, (body.dim,), "m")
        )
        turns = self.drive == "turn"
        way = np.concatenate(
            [np.zeros(body.dim), axis] if turns else [axis, np.zeros(1 if body.dim == 2 else 3)]
        )
        twist = np.tile(axis if turns else np.zeros(3), (len(nodes) - len(held), 1)).reshape(
            -1, body.dim
        )
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(rest))
        )
        return AttachedServo(
            frame=MovingFrame(origin=middle),
            way=way,
            local=held - middle,
            weights=weights,
            offset=np.zeros((len(nodes), body.dim)),
            stiffness=self._stiffness(body, nodes),
            twist=twist,
        )

    def _axis(self, dim: int) -> Array:
        """(dim,) its direction; in the plane that of a turn is the one number 1."""
        if dim == 2 and self.drive == "turn":
            if self.axis is not None:
                raise InputError(
                    "A servo on a plane body turns about the normal of the plane; remove its axis."
                )
            return np.ones(1)
        if self.axis is None:
            raise InputError(
                f"A servo needs an axis to {self.drive} a body in {dim} dimensions; give for "
                f"example {(1, 0, 0)[:dim]}."
            )
        axis = finite_array("The axis of a servo", self.axis, (dim,))
        return axis / np.linalg.norm(axis)

    def _stiffness(self, body: Matter, nodes: Array) -> Array:
        """(k,) [N/m or N m/rad]"""
        beams = isinstance(body, Beams)
        firm = FIRM[beams] if self.stiffness is None else self.stiffness
        if isinstance(body, Beams):
            return firm * body.grip(nodes)
        try:
            return firm * body.hardness() * areas(body, self.region, nodes)
        except InputError:  # point masses have none
            raise InputError(
                "A servo holds a body by springs of its own stiffness, and point masses have "
                "none; give the robot another shape."
            ) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedServo:
    """A Term of springs from the held places to those of a frame, and from the held turns to u
    times the axis."""

    frame: MovingFrame
    way: Array  # (n,) what a unit of control adds to the frame's own controls
    local: Array  # (n_places, dim) [m] places in the frame
    twist: Array  # (n_turns, dim) [-] what a unit of control adds to each turn
    weights: sp.csr_matrix  # (n_places + n_turns, n_nodes), places first
    offset: Array  # (n_places + n_turns, dim)
    stiffness: Array  # (n_places + n_turns,) [N/m, N m/rad]
    n_controls: int = 1
    group: int = 1
    stiff: bool = True

    def goal(self, u: Array) -> Array:
        """(n_places + n_turns, dim) [m, rad] where the springs pull to."""
        return np.concatenate([self.frame.places(self.local, u[0] * self.way), u[0] * self.twist])

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * self.stiffness @ np.sum((y - self.goal(u)) ** 2, axis=1))

    def gradient(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None] * (y - self.goal(u))

    def curvature(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None, None] * np.eye(y.shape[1])

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        slopes = np.tensordot(self.way, self.frame.slopes(self.local, u[0] * self.way), axes=1)
        return -(self.stiffness[:, None] * np.concatenate([slopes, self.twist]))[None]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        n = len(self.local)
        pulled = -self.stiffness[:n, None] * bar[:n]
        return np.array(
            [self.way @ self.frame.bend(self.local, u[0] * self.way, pulled, du[0] * self.way)]
        )
