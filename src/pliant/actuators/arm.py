"""A serial arm of revolute joints as a frame. Its controls are the joint angles; pinocchio computes
the kinematics."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pliant.actuators.frames import checked_limits, checked_start
from pliant.core import Array, InputError, MissingExtra, finite_array, require_positive
from pliant.kernels.rotations import SKEW, SKEW_FLAT

OUTER_TO_CROSS = SKEW.swapaxes(1, 2).reshape(9, 3)  # outer(a, b).ravel() @ OUTER_TO_CROSS = a x b


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """A revolute joint about the z axis of its frame. `xyz` and `rpy` are the pose of that frame in
    the frame of the previous joint."""

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


class ArmPose(NamedTuple):
    """The kinematics of the chain at controls u. With the joint axes z and v = o x z, the velocity
    of a point p per unit velocity of joint i is v_i + z_i x p."""

    rotation: Array  # (3, 3) from the last frame to space
    grip: Array  # (3,) [m] the grip point in space
    axes: Array  # (n, 3) z
    skews: Array  # (n, 3, 3) p @ skews[i] = z_i x p
    moments: Array  # (n, 1, 3) [m] v


@dataclass(frozen=True, kw_only=True, eq=False)
class Arm:
    """A Frame at the grip point of a serial chain, with the axes of the last joint. The controls
    are the joint angles [rad].

    The kinematics need pinocchio (the extra `arms`).
    """

    joints: Sequence[Joint]  # from the base to the gripper
    grip: Array  # (3,) [m] the grip point in the last joint's frame
    start: Array  # (n_controls,) [rad] initial joint angles
    xyz: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]  # (3,) [m] position of the base
    rpy: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]  # (3,) [rad] orientation of the base
    name: str = "arm"

    def __post_init__(self) -> None:
        names = tuple(joint.name for joint in self.joints)
        twice = [name for name in names if names.count(name) > 1]
        if not names or twice:
            raise InputError(
                f"{self.name} has {f'two joints {twice[0]!r}' if twice else 'no joints'}; give "
                "at least one joint, each with its own name."
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

    @property
    def units(self) -> tuple[str, ...]:
        return self.n_controls * ("rad",)

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper joint angles, (n_controls,) each [rad]."""
        names = tuple(joint.name for joint in self.joints)
        return checked_limits(
            self.name, names, (_row(self.joints, "lower"), _row(self.joints, "upper"))
        )

    @cached_property
    def velocity(self) -> Array:
        """Largest speed of each joint, (n_controls,) [rad/s]."""
        return _row(self.joints, "velocity")

    @cached_property
    def acceleration(self) -> Array:
        """Largest acceleration of each joint, (n_controls,) [rad/s^2]."""
        return _row(self.joints, "acceleration")

    def positions(self, local: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return pose.grip + local @ pose.rotation.T

    def jacobian(self, local: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return pose.moments + (pose.grip + local @ pose.rotation.T) @ pose.skews

    def hessian_vector(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        """Return the second derivative along du, from d^2 p / du_i du_j = z_i x dp/du_j for
        i <= j."""
        pose = self._chain.at(u)
        outer = np.swapaxes(self.jacobian(local, u), 1, 2) @ bar  # (n, 3, 3)
        torque = outer.reshape(-1, 9) @ OUTER_TO_CROSS  # sum_k dp_k/du_j x bar_k
        upper = np.triu(pose.axes @ torque.T)
        return (upper + np.triu(upper, 1).T) @ du

    def local_positions(self, positions: Array, u: Array) -> Array:
        pose = self._chain.at(u)
        return (positions - pose.grip) @ pose.rotation

    def outline(self, u: Array) -> Array:
        """Return the positions of the joints from the base, then the grip point,
        (n_controls + 1, 3) [m]."""
        return self._chain.outline(u)

    @cached_property
    def _chain(self) -> "_Chain":
        return _Chain(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            part.name: getattr(self, part.name) for part in fields(self)
        }  # without the chain: pinocchio's data cannot be pickled


def _row(joints: Sequence[Joint], key: str) -> Array:
    return np.array([getattr(joint, key) for joint in joints], float)


class _Chain:
    """A pinocchio model of an arm. It caches the last pose, because positions and derivatives are
    often evaluated at the same u."""

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
        self._last_joint, self._data = parent, self._model.createData()
        self._last: tuple[bytes, ArmPose] | None = None

    def at(self, u: Array) -> ArmPose:
        u = np.asarray(u, float)
        key, last = u.tobytes(), self._last
        if last is None or last[0] != key:
            with self._lock:
                last = self._last = (key, self._pose(u))
        return last[1]

    def _pose(self, u: Array) -> ArmPose:
        J = self._pin.computeJointJacobians(self._model, self._data, u)
        J = np.reshape(J, (6, -1))  # rows: velocity at the origin, then axis; n = 1 gives (6,)
        last = self._data.oMi[self._last_joint]
        rotation, axes = np.array(last.rotation), np.array(J[3:].T)
        return ArmPose(
            rotation,
            last.translation + rotation @ self._grip,
            axes,
            -(axes @ SKEW_FLAT).reshape(-1, 3, 3),
            np.array(J[:3].T)[:, None, :],
        )

    def outline(self, u: Array) -> Array:
        with self._lock:
            self._pin.forwardKinematics(self._model, self._data, np.asarray(u, float))
            joints = [
                np.array(self._data.oMi[k].translation) for k in range(1, self._last_joint + 1)
            ]
        return np.array([*joints, self.at(u).grip])
