"""The protocol of actuators."""

from typing import Protocol, runtime_checkable

from pliant.actuators import Polyline
from pliant.bodies import AttachableBody, Potential
from pliant.core import Array, InputError, quoted


@runtime_checkable
class Actuator(Protocol):
    """An actuator with `n_controls` controls.

    Limits and neutral values are arrays (n_controls,), or one number for all controls.
    """

    @property
    def n_controls(self) -> int: ...
    @property
    def units(self) -> tuple[str, ...]: ...  # of each control, in SI: "N", "Pa", "rad", "m"...
    @property
    def limits(self) -> tuple[float | Array, float | Array]: ...  # lower and upper
    @property
    def neutral(self) -> float | Array: ...  # the controls without force at rest
    def attach(self, body: AttachableBody) -> Potential: ...
    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]: ...  # drawing; may be empty


MEMBERS = ("n_controls", "units", "limits", "neutral", "attach", "polylines")


def check_actuator(name: str, actuator: object) -> None:
    """Raise `InputError` unless an object has all members of `Actuator`. The error names the
    missing members."""
    missing = [member for member in MEMBERS if not hasattr(actuator, member)]
    if len(missing) == len(MEMBERS):
        raise InputError(
            f"{name} is {quoted(actuator)} ({type(actuator).__name__}), which is not an actuator; "
            "give one of pliant.actuators, such as Cable."
        )
    if missing:
        raise InputError(
            f"{name} is a {type(actuator).__name__} without {', '.join(missing)}; add the missing "
            "members of pliant.robot.Actuator to its class."
        )
