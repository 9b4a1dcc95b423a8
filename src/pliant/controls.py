"""The controls of a robot as a person sees them: a name, a unit and a range for each."""

from dataclasses import dataclass

import numpy as np

from pliant.actuators import Arm, Cable, Driven, Pressure, Servo
from pliant.actuators.continued import uncontinued
from pliant.actuators.hydraulic import Hydraulic
from pliant.robot import Actuator, Robot

UNITS = {
    "tension": "N",
    "length": "share",
    "pressure": "Pa",
    "volume": "share",
    "gas": "share",
    "turn": "rad",
    "move": "m",
}
SPAN = {
    "N": 20.0,
    "Pa": 2e4,
    "share": 1.0,
    "rad": 3.0,
    "m": 0.2,
}  # of a slider whose control has no limit


@dataclass(frozen=True, kw_only=True)
class Control:
    """One control."""

    name: str
    unit: str
    lower: float | None  # None: without limit
    upper: float | None
    span: float  # what a slider reaches beyond its finite end, where the other one has no limit
    neutral: float


def controls_of(robot: Robot) -> tuple[Control, ...]:
    """The controls in their order, actuator after actuator."""
    names = [
        (f"{name} {k + 1}" if actuator.n_controls > 1 else name, unit_of(actuator, k))
        for name, actuator in robot.actuators.items()
        for k in range(actuator.n_controls)
    ]
    values = zip(*robot.control_limits(), robot.neutral_controls(), strict=True)
    return tuple(
        Control(
            name=name,
            unit=unit,
            lower=_finite(low),
            upper=_finite(high),
            span=SPAN.get(unit, 1.0),
            neutral=float(neutral),
        )
        for (name, unit), (low, high, neutral) in zip(names, values, strict=True)
    )


def _finite(limit: float) -> float | None:
    return float(limit) if np.isfinite(limit) else None


def unit_of(actuator: Actuator, k: int) -> str:
    """The unit of an actuator's k-th control; "-" where it has no name."""
    inner = uncontinued(actuator)
    if isinstance(inner, Cable | Hydraulic | Pressure | Servo):
        return UNITS[inner.drive]
    if isinstance(inner, Driven):  # a moving frame's controls are its way, then its turn
        return "rad" if isinstance(inner.frame, Arm) or k >= inner.frame.dim else "m"
    return "-"
