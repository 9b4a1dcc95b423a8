"""Plots of a robot file's run name its controls with their units, and count quasistatic steps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pliant as pl
from pliant.report.control_plots import control_plots
from pliant.zoo.condensed_experiments import bounded_control_plots
from pliant.zoo.experiment import ExperimentRun
from pliant.zoo.task import task_experiment

ROBOTS = Path(__file__).parents[2] / "examples" / "robots"


@pytest.mark.parametrize(
    ("file", "x", "y", "names"),
    [
        ("arm.toml", "step", "control [N]", ["left", "right"]),
        ("finger.toml", "time [s]", "tendon [N]", ["tendon"]),
    ],
)
def test_robot_file_run_plots_controls_by_name_and_unit(tmp_path, file, x, y, names):
    experiment = task_experiment(ROBOTS / file)
    settings = {**experiment.resolve_settings(quick=True), "steps": 2}
    run = ExperimentRun(settings=settings, folder=tmp_path, identity="plots")
    plots = {plot.title: plot for plot in experiment.perform(run).plots}
    assert {plot.x for plot in plots.values()} == {x}
    assert plots["Controls"].y == y
    assert list(plots["Controls"].series) == names
    times, controls = plots["Controls"].series[names[0]]
    assert len(times) == len(controls) == 3
    # the first control acts from the start, and the last one acts until the end
    assert times[0] == 0.0
    assert controls[-1] == controls[-2]


def jets_and_rope() -> pl.Robot:
    """Return a robot with controls in newtons and a dimensionless control."""
    thrust = pl.actuators.Thrust(point=(0.0, 0.0, 0.0))
    cable = pl.Cable(points=[(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], drive="length", limits=(0.0, 7.0))
    return pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
        actuators={"jet": thrust, "rope": cable},
    )


def test_each_control_unit_has_its_own_plot():
    jets, rope = control_plots(jets_and_rope(), np.arange(4.0), np.ones((3, 4)), x="time [s]")
    assert (jets.title, jets.y, len(jets.series)) == ("Controls [N]", "control [N]", 3)
    assert (rope.title, rope.y) == ("Controls [-]", "rope [-]")


def test_planned_task_plots_each_unit_with_its_bounds():
    task = SimpleNamespace(robot=jets_and_rope(), dt=0.1, steps=3)
    found = SimpleNamespace(plan=SimpleNamespace(controls=np.ones((3, 4))))
    jets, rope = bounded_control_plots(task, found)
    assert (jets.y, rope.y) == ("control [N]", "rope [-]")
    assert set(rope.series) == {"rope", "lower bound", "upper bound"}
    np.testing.assert_array_equal(rope.series["upper bound"][1], np.full(4, 7.0))
