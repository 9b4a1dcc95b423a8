"""The controls of a robot by name, with unit and limits, as plots and user interfaces show them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.robot.actuator import Actuator

# By unit: width of the slider of a control without limits.
SLIDER_SPANS = {"N": 20.0, "Pa": 2e4, "-": 1.0, "rad": 3.0, "m": 0.2}


@dataclass(frozen=True, kw_only=True)
class Control:
    """One number of the control vector."""

    name: str
    unit: str
    lower: float | None  # None: no limit
    upper: float | None
    span: float  # width of a slider whose control has no lower or no upper limit
    neutral: float


def name_controls(
    actuators: Mapping[str, Actuator], limits: tuple[Array, Array], neutral: Array
) -> tuple[Control, ...]:
    """Return the controls in order. `limits` and `neutral` have an entry for each of them. Several
    controls of one actuator are numbered from 1."""
    names = [
        (f"{name} {k + 1}" if actuator.n_controls > 1 else name, unit)
        for name, actuator in actuators.items()
        for k, unit in enumerate(actuator.units)
    ]
    return tuple(
        Control(
            name=name,
            unit=unit,
            lower=_finite(lower),
            upper=_finite(upper),
            span=SLIDER_SPANS.get(unit, 1.0),
            neutral=float(value),
        )
        for (name, unit), lower, upper, value in zip(names, *limits, neutral, strict=True)
    )


def _finite(limit: float) -> float | None:
    return float(limit) if np.isfinite(limit) else None
