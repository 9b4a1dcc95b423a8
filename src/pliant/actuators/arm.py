"""A serial arm of revolute joints as a frame: its joint angles are the controls, pinocchio does the
kinematics."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pliant.actuators.frames import checked_limits, checked_start
from pliant.core import Array, InputError, MissingExtra, finite_array, require_positive
from pliant.kernels.turns import FLAT, SKEW

CROSSED = SKEW.swapaxes(1, 2).reshape(9, 3)  # outer(a, b).ravel() @ CROSSED = a x b


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """A joint that turns about the z axis of its frame, which stands in the frame before it at
    `xyz` turned by `rpy`."""

    name: str
    xyz: Array  # (3,) [m]
    rpy: Array  # (3,) [rad] roll, pitch and yaw about the fixed axes x, y and z
    lower: float  # [rad]
    upper: float  # [rad]
    velocity: float  # [rad/s] largest speed
    acceleration: float  # [rad/s^2] largest acceleration

    def __post_init__(self) -> None:
        what = f"joint '{self.name}'"
        object.__setattr__(self, "xyz", finite_array(f"The xyz of {what}", self.xyz, (3,), "m"))
        object.__setattr__(self, "rpy", finite_array(f"The rpy of {what}", self.rpy, (3,), "rad"))
        lower, upper = (
            float(finite_array(f"The {side} limit of {what}", getattr(self, side), (), "rad"))
            for side in ("lower", "upper")
        )
        if not lower < upper:
            raise InputError(
                f"The lower limit {lower:g} rad of {what} is not below its upper limit {upper:g} "
                "rad; swap them."
            )
        require_positive(f"The velocity of {what}", self.velocity, "rad/s")
        require_positive(f"The acceleration of {what}", self.acceleration, "rad/s^2")


class Pose(NamedTuple):
    """The chain at one u. With z the joint axes and v = o x z, a point p moves by v_i + z_i x p
    when joint i turns."""

    turn: Array  # (3, 3) from the last frame to space
    grip: Array  # (3,) [m] the grip point in space
    axes: Array  # (n, 3) z
    skews: Array  # (n, 3, 3) p @ skews[i] = z_i x p
    moments: Array  # (n, 1, 3) [m] v


@dataclass(frozen=True, kw_only=True, eq=False)
class Arm:
    """A Frame at the grip point of a serial chain with the axes of its last joint; the controls are
    the joint angles [rad].

    Needs pinocchio (the extra `arms`) for everything but its description.
    """

    joints: Sequence[Joint]  # from the base to the hand
    grip: Array  # (3,) [m] the grip point in the last joint's frame
    start: Array  # (n_controls,) [rad] where it stands at first
    xyz: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]  # (3,) [m] where the chain's base stands in space
    rpy: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]  # (3,) [rad] how it is turned there
    name: str = "arm"

    def __post_init__(self) -> None:
        names = tuple(joint.name for joint in self.joints)
        twice = [name for name in names if names.count(name) > 1]
        if not names or twice:
            raise InputError(
                f"{self.name} has {f'two joints {twice[0]!r}' if twice else 'no joints'}; give "
                "each of them once, by name."
            )
        for part, unit in (("grip", "m"), ("xyz", "m"), ("rpy", "rad")):
            object.__setattr__(
                self,
                part,
                finite_array(f"The {part} of {self.name}", getattr(self, part), (3,), unit),
            )
        object.__setattr__(self, "start", checked_start(self.name, names, self.start, self.limits))

    @property
    def dim(self) -> int:
        return 3

    @property
    def n_controls(self) -> int:
        return len(self.joints)

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) [rad]"""
        names = tuple(joint.name for joint in self.joints)
        return checked_limits(
            self.name, names, (_row(self.joints, "lower"), _row(self.joints, "upper"))
        )

    @cached_property
    def velocity(self) -> Array:
        """(n_controls,) [rad/s] the largest speed of each joint."""
        return _row(self.joints, "velocity")

    @cached_property
    def acceleration(self) -> Array:
        """(n_controls,) [rad/s^2] the largest acceleration of each joint."""
        return _row(self.joints, "acceleration")

    def places(self, local: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return pose.grip + local @ pose.turn.T

    def slopes(self, local: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return pose.moments + (pose.grip + local @ pose.turn.T) @ pose.skews

    def bend(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        """From d^2 p / du_i du_j = z_i x dp/du_j for i <= j: of two joints, the one nearer to the
        base turns the other's slope."""
        pose = self._chain.at(u)
        outer = np.swapaxes(self.slopes(local, u), 1, 2) @ bar  # (n, 3, 3)
        torque = outer.reshape(-1, 9) @ CROSSED  # sum_k slope_jk x bar_k
        upper = np.triu(pose.axes @ torque.T)
        return (upper + np.triu(upper, 1).T) @ du

    def local(self, places: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return (places - pose.grip) @ pose.turn

    def outline(self, u: Array) -> Array:
        """(n_controls + 1, 3) [m] the joints from the base on, then the grip point."""
        return self._chain.outline(u)

    @cached_property
    def _chain(self) -> "_Chain":
        return _Chain(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            part.name: getattr(self, part.name) for part in fields(self)
        }  # not the chain: pinocchio's data stay in the process


def _row(joints: Sequence[Joint], key: str) -> Array:
    return np.array([getattr(joint, key) for joint in joints], float)


class _Chain:
    """Pinocchio's model of an arm with one workspace, and the last pose, since places and slopes
    come at the same u."""

    def __init__(self, arm: Arm) -> None:
        try:
            import pinocchio as pin
        except ImportError as error:
            raise MissingExtra(
                f"The kinematics of {arm.name} need pinocchio: pip install 'pliant[arms]'."
            ) from error
        self._pin, self._grip, self._model, self._lock = pin, arm.grip, pin.Model(), Lock()
        base, parent = pin.SE3(pin.rpy.rpyToMatrix(arm.rpy), arm.xyz), 0
        for joint in arm.joints:
            placed = base * pin.SE3(pin.rpy.rpyToMatrix(joint.rpy), joint.xyz)
            parent, base = (
                self._model.addJoint(parent, pin.JointModelRZ(), placed, joint.name),
                pin.SE3.Identity(),
            )
        self._hand, self._data = parent, self._model.createData()
        self._last: tuple[bytes, Pose] | None = None

    def at(self, u: Array) -> Pose:
        u = np.asarray(u, float)
        key, last = u.tobytes(), self._last
        if last is None or last[0] != key:
            with self._lock:
                last = self._last = (key, self._pose(u))
        return last[1]

    def _pose(self, u: Array) -> Pose:
        J = self._pin.computeJointJacobians(self._model, self._data, u)
        J = np.reshape(J, (6, -1))  # velocity at the origin of space, over axis; n = 1 gives (6,)
        hand = self._data.oMi[self._hand]
        turn, axes = np.array(hand.rotation), np.array(J[3:].T)
        return Pose(
            turn,
            hand.translation + turn @ self._grip,
            axes,
            -(axes @ FLAT).reshape(-1, 3, 3),
            np.array(J[:3].T)[:, None, :],
        )

    def outline(self, u: Array) -> Array:
        with self._lock:
            self._pin.forwardKinematics(self._model, self._data, np.asarray(u, float))
            joints = [np.array(self._data.oMi[k].translation) for k in range(1, self._hand + 1)]
        return np.array([*joints, self.at(u).grip])
