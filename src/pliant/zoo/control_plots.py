"""Plots of controls over time, with the name and the unit of each."""

from collections.abc import Collection, Mapping

import numpy as np

from pliant.controls import controls_of
from pliant.core import Array
from pliant.report import Plot
from pliant.robot import Robot


def control_plots(
    robot: Robot, at: Array, controls: Array, *, x: str, bounds: bool = False
) -> list[Plot]:
    """Return a plot for each unit among the controls (k, n_controls) of a robot. `at` (k + 1,) are
    the times or step numbers between which each row acts, and `x` is their label. With `bounds`,
    the plots also show the finite control limits."""
    held = np.concatenate([controls, controls[-1:]])  # to the end of the last step
    groups: dict[str, dict[str, int]] = {}
    for k, control in enumerate(controls_of(robot)):
        groups.setdefault(control.unit, {})[control.name] = k
    return [
        Plot(
            title="Controls" if len(groups) == 1 else f"Controls [{unit}]",
            x=x,
            y=control_label(names, unit),
            kind="steps",
            series={
                **{name: (at, held[:, k]) for name, k in names.items()},
                **(_bounds(robot, at, names) if bounds else {}),
            },
        )
        for unit, names in groups.items()
    ]


def _bounds(robot: Robot, at: Array, names: Mapping[str, int]) -> dict[str, tuple[Array, Array]]:
    """The finite limits of some controls as series; a limit that all of them share is one."""
    series = {}
    for text, side in zip(("lower bound", "upper bound"), robot.control_limits(), strict=True):
        values = {name: float(side[k]) for name, k in names.items()}
        shared = len(set(values.values())) == 1
        for name, value in values.items():
            if np.isfinite(value):
                series[text if shared else f"{name}: {text}"] = (at, np.full(len(at), value))
    return series


def control_label(names: Collection[str], unit: str) -> str:
    """Return the label of an axis that shows controls of one unit; one control is named by it."""
    return f"{next(iter(names)) if len(names) == 1 else 'control'} [{unit}]"
