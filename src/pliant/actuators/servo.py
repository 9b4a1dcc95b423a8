"""A motor that rotates or translates a part of the body. Its control is the angle, the displacement
or the torque."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.frames import MovingFrame
from pliant.actuators.gripper import surface_areas
from pliant.actuators.polyline import Polyline
from pliant.actuators.torque_motor import TorqueMotor
from pliant.bodies import AttachableBody, Beams, stiffness_per_area
from pliant.core import (
    Array,
    InputError,
    check_limits,
    finite_array,
    nearest,
    require_kind,
    require_positive,
)

# Stiffness of the springs over that of the held beams or cells. A single node of a beam needs more.
BEAM_STIFFNESS_RATIO, CELL_STIFFNESS_RATIO = 100.0, 10.0
UNITS = {"rotation": "rad", "translation": "m", "torque": "N m"}  # of the control of each drive


@dataclass(frozen=True, kw_only=True, eq=False)
class Servo:
    """A motor that holds a named region by springs. It rotates the region about an axis by u [rad]
    (drive "rotation"), rotates it with the torque u [N m] (drive "torque"), or moves it along the
    axis by u [m] (drive "translation").

    Positions are held, and of beams also rotations, up to one revolution. A plane body rotates
    about the normal of its plane and needs no axis. With drive "torque" the region is free to
    rotate about the axis, and limits must be given.
    """

    region: str
    axis: ArrayLike | None = None  # (dim,) any length
    origin: ArrayLike | None = None  # (dim,) [m] on the axis; None: centre of the region at rest
    drive: str = "rotation"
    # [rad], [m] or [N m]; None: -pi to pi
    limits: tuple[float, float] = None  # type: ignore[assignment]
    # [-] stiffness of the springs over that of the held material; None: 100 on beams, else 10
    stiffness: float | None = None

    def __post_init__(self) -> None:
        require_kind(
            "The region of a servo",
            self.region,
            str,
            "name a region or a surface of the body, such as 'z-'",
        )
        if self.drive not in UNITS:
            raise InputError(
                f"A servo has no drive '{self.drive}'; {nearest(str(self.drive), UNITS)}"
            )
        if self.limits is None:
            if self.drive == "torque":
                raise InputError(
                    "A servo with drive 'torque' has no default limits; give limits in N m."
                )
            object.__setattr__(self, "limits", (-np.pi, np.pi))
        for name, value, unit in (("axis", self.axis, ""), ("origin", self.origin, "m")):
            if value is not None:
                finite_array(f"The {name} of a servo", value, (None,), unit)
        if self.axis is not None and not np.any(self.axis):
            raise InputError("The axis of a servo is zero; give a direction such as (0, 0, 1).")
        check_limits("a servo", self.limits)
        if self.stiffness is not None:
            require_positive("The servo's stiffness", self.stiffness, "times that of the body")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control without force at rest."""
        return 0.0

    @property
    def units(self) -> tuple[str, ...]:
        return (UNITS[self.drive],)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedServo | TorqueMotor":
        nodes, rest = body.region(self.region), body.rest.reshape(-1, body.dim)
        nodes = np.concatenate([nodes[body.is_position[nodes]], nodes[~body.is_position[nodes]]])
        held, axis = rest[nodes[body.is_position[nodes]]], self._axis(body.dim)
        # rotations alone do not depend on the origin
        origin = held.mean(axis=0) if len(held) else np.zeros(body.dim)
        if self.origin is not None:
            origin = finite_array("The origin of a servo", self.origin, (body.dim,), "m")
        rotates = self.drive != "translation"
        direction = np.concatenate(
            [np.zeros(body.dim), axis] if rotates else [axis, np.zeros(1 if body.dim == 2 else 3)]
        )
        rotation = axis if rotates else np.zeros(3)
        rotation_direction = np.tile(rotation, (len(nodes) - len(held), 1)).reshape(-1, body.dim)
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(rest))
        )
        springs = {
            "weights": weights,
            "offset": np.zeros((len(nodes), body.dim)),
            "stiffness": self._stiffness(body, nodes),
            "rotation_direction": rotation_direction,
        }
        if self.drive == "torque":
            return self._torque_motor(held - origin, origin, axis, springs)
        return AttachedServo(
            frame=MovingFrame(origin=origin), direction=direction, local=held - origin, **springs
        )

    def _torque_motor(
        self, local: Array, origin: Array, axis: Array, springs: dict[str, Any]
    ) -> TorqueMotor:
        """Return the motor that holds local positions (k, dim) [m]. Raises InputError if its
        springs cannot transmit the torque."""
        along = np.zeros_like(local) if len(axis) == 1 else np.outer(local @ axis, axis)
        spoke = local - along
        plane = np.array([[0.0, 1.0], [-1.0, 0.0]])
        tangent = spoke @ plane if len(axis) == 1 else np.cross(axis, spoke)
        motor = TorqueMotor(centre=origin + along, spoke=spoke, tangent=tangent, **springs)
        most = float(np.abs(self.limits).max())
        if most >= motor.largest_torque:
            raise InputError(
                f"A servo on '{self.region}' has limits up to {most:g} N m, but its springs "
                f"transmit less than {motor.largest_torque:g} N m. Give smaller limits, a higher "
                "stiffness, or a region farther from the axis."
            )
        return motor

    def _axis(self, dim: int) -> Array:
        """Return the unit vector of the axis (dim,); for a rotation in the plane (1,)."""
        if dim == 2 and self.drive != "translation":
            if self.axis is not None:
                raise InputError("A servo rotates about the normal of the plane; remove the axis.")
            return np.ones(1)
        if self.axis is None:
            raise InputError(
                f"The {self.drive} of a servo on a {dim}D body needs an axis; give for example "
                f"{(1, 0, 0)[:dim]}."
            )
        axis = finite_array("The axis of a servo", self.axis, (dim,))
        return axis / np.linalg.norm(axis)

    def _stiffness(self, body: AttachableBody, nodes: Array) -> Array:
        """Return the stiffness of each spring, (k,) [N/m or N m/rad]."""
        if isinstance(body, Beams):
            ratio = BEAM_STIFFNESS_RATIO if self.stiffness is None else self.stiffness
            return ratio * body.node_stiffness(nodes)
        ratio = CELL_STIFFNESS_RATIO if self.stiffness is None else self.stiffness
        try:
            return ratio * stiffness_per_area(body) * surface_areas(body, self.region, nodes)
        except InputError:  # point masses have none
            raise InputError(
                "A servo derives its stiffness from the body, and point masses have none; give the "
                "robot another shape."
            ) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedServo:
    """The Potential of a servo: springs from the held positions to those in a frame, and from the
    held rotations to u times the axis."""

    frame: MovingFrame
    direction: Array  # (n,) derivative of the frame's controls with respect to u
    local: Array  # (n_positions, dim) [m] local positions in the frame
    rotation_direction: Array  # (n_rotations, dim) [-] derivative of the rotations
    weights: sp.csr_matrix  # (n_positions + n_rotations, n_nodes), positions first
    offset: Array  # (n_positions + n_rotations, dim)
    stiffness: Array  # (n_positions + n_rotations,) [N/m, N m/rad]
    n_controls: int = 1
    points_per_block: int = 1
    stiff: bool = True

    def target(self, u: Array) -> Array:
        """Return the positions and rotations without force, (n_positions + n_rotations, dim)
        [m, rad]."""
        positions = self.frame.positions(self.local, u[0] * self.direction)
        return np.concatenate([positions, u[0] * self.rotation_direction])

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * self.stiffness @ np.sum((y - self.target(u)) ** 2, axis=1))

    def gradient(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None] * (y - self.target(u))

    def hessian(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        jacobian = self.frame.jacobian(self.local, u[0] * self.direction)
        velocity = np.tensordot(self.direction, jacobian, axes=1)
        change = np.concatenate([velocity, self.rotation_direction])
        return -(self.stiffness[:, None] * change)[None]

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        n = len(self.local)
        force_bar = -self.stiffness[:n, None] * bar[:n]
        change = self.frame.hessian_vector(
            self.local, u[0] * self.direction, force_bar, du[0] * self.direction
        )
        return np.array([self.direction @ change])
