"""The protocol of robot descriptions: names, units and limits for reports and plan files."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from pliant.core import Array
from pliant.robot.controls import Control


@runtime_checkable
class RobotDescription(Protocol):
    """A robot of any kind, soft or made of links. It is a dataclass, so that its fields have
    digests."""

    @property
    def name(self) -> str: ...
    @property
    def controls(self) -> tuple[Control, ...]: ...
    @property
    def effectors(self) -> Mapping[str, Any]: ...  # those of the user
    # all effectors of its models, also those that every robot of this kind has
    @property
    def effector_names(self) -> Sequence[str]: ...
    @property
    def n_controls(self) -> int: ...
    def control_limits(self) -> tuple[Array, Array]: ...  # lower and upper, (n_controls,) each
    def neutral_controls(self) -> Array: ...  # (n_controls,) the controls without actuation


def robot_of(model: Any) -> RobotDescription | None:
    """Return the robot of a model, or None if the model was not made of a robot."""
    robot = getattr(model, "robot", None)
    return robot if isinstance(robot, RobotDescription) else None
