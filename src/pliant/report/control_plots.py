"""Plots of controls over time, with the name and the unit of each."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from pliant.core import Array
from pliant.report.figures import Plot
from pliant.robot import Robot


def control_plots(
    robot: Robot, times: Array, controls: Array, *, x: str, bounds: bool = False
) -> list[Plot]:
    """Return a plot for each unit among the controls (k, n_controls) of a robot. `times` (k + 1,)
    are the times or step numbers between which each row acts, and `x` is their label. With
    `bounds`, the plots also show the finite control limits."""
    names = [(control.name, control.unit) for control in robot.controls]
    limits = robot.control_limits() if bounds else None
    return plots_by_unit(names, times, controls, x=x, limits=limits)


def plots_by_unit(
    names: Sequence[tuple[str, str]],
    times: Array,
    controls: Array,
    *,
    x: str,
    limits: tuple[Array, Array] | None = None,
) -> list[Plot]:
    """Return a plot for each unit among controls (k, n_controls) with these names and units.
    `limits` are arrays (n_controls,); finite ones are shown."""
    until_end = np.concatenate([controls, controls[-1:]])  # to the end of the last step
    groups: dict[str, dict[str, int]] = {}
    for k, (name, unit) in enumerate(names):
        groups.setdefault(unit, {})[name] = k
    return [
        Plot(
            title="Controls" if len(groups) == 1 else f"Controls [{unit}]",
            x=x,
            y=control_label(members, unit),
            kind="steps",
            series={
                **{name: (times, until_end[:, k]) for name, k in members.items()},
                **({} if limits is None else _limit_series(limits, times, members)),
            },
        )
        for unit, members in groups.items()
    ]


def _limit_series(
    limits: tuple[Array, Array], times: Array, members: Mapping[str, int]
) -> dict[str, tuple[Array, Array]]:
    """Return the finite limits of some controls as series; a limit that all of them share is one
    series."""
    series = {}
    for text, side in zip(("lower bound", "upper bound"), limits, strict=True):
        values = {name: float(side[k]) for name, k in members.items()}
        shared = len(set(values.values())) == 1
        for name, value in values.items():
            if np.isfinite(value):
                series[text if shared else f"{name}: {text}"] = (times, np.full(len(times), value))
    return series


def control_label(names: Collection[str], unit: str) -> str:
    """Return the label of an axis that shows controls of one unit; one control is named by it."""
    return f"{next(iter(names)) if len(names) == 1 else 'control'} [{unit}]"
