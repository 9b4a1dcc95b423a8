"""Plots of controls over time, with the name and the unit of each."""

from collections.abc import Collection

import numpy as np

from pliant.controls import controls_of
from pliant.core import Array
from pliant.report import Plot
from pliant.robot import Robot


def control_plots(robot: Robot, at: Array, controls: Array, *, x: str) -> list[Plot]:
    """Return a plot for each unit among the controls (k, n_controls) of a robot. `at` (k + 1,) are
    the times or step numbers between which each row acts, and `x` is their label."""
    held = np.concatenate([controls, controls[-1:]])  # to the end of the last step
    groups: dict[str, dict[str, tuple[Array, Array]]] = {}
    for control, values in zip(controls_of(robot), held.T, strict=True):
        groups.setdefault(control.unit, {})[control.name] = (at, values)
    return [
        Plot(
            title="Controls" if len(groups) == 1 else f"Controls [{unit}]",
            x=x,
            y=control_label(series, unit),
            kind="steps",
            series=series,
        )
        for unit, series in groups.items()
    ]


def control_label(names: Collection[str], unit: str) -> str:
    """Return the label of an axis that shows controls of one unit; one control is named by it."""
    return f"{next(iter(names)) if len(names) == 1 else 'control'} [{unit}]"
