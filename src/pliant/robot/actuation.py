"""The actuators of a robot, each with its part of the control vector."""

from collections.abc import Callable
from typing import TypeVar

from pliant.core import InputError
from pliant.robot.actuator import Actuator
from pliant.robot.robot import Robot

Result = TypeVar("Result")


def for_each_actuator(
    robot: Robot, function: Callable[[Actuator], Result]
) -> list[tuple[Result, slice]]:
    """Return `function(actuator)` and the slice of the controls for each actuator of the robot.

    An `InputError` of `function` is raised again with the name of the actuator.
    """
    results, start = [], 0
    for name, actuator in robot.actuators.items():
        try:
            results.append((function(actuator), slice(start, start + actuator.n_controls)))
        except InputError as error:
            raise InputError(f"Actuator '{name}': {error}") from None
        start += actuator.n_controls
    return results
