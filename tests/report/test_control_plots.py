"""Plots of a robot file's run name its controls with their units, and count quasistatic steps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pliant as pl
from pliant.report.control_plots import control_plots
from pliant.zoo.condensed_experiments import bounded_controls
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
def test_a_robot_file_plots_its_controls_by_name_and_unit(tmp_path, file, x, y, names):
    experiment = task_experiment(ROBOTS / file)
    settings = {**experiment.chosen(quick=True), "steps": 2}
    here = ExperimentRun(settings=settings, folder=tmp_path, identity="plots")
    plots = {plot.title: plot for plot in experiment.perform(here).plots}
    assert {plot.x for plot in plots.values()} == {x}
    assert plots["Controls"].y == y
    assert list(plots["Controls"].series) == names
    at, held = plots["Controls"].series[names[0]]
    assert len(at) == len(held) == 3
    assert at[0] == 0.0  # the first control acts from the start, the last one to the end
    assert held[-1] == held[-2]


def jets_and_rope() -> pl.Robot:
    thrust = pl.actuators.Thrust(point=(0.0, 0.0, 0.0))
    cable = pl.Cable(points=[(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], drive="length", limits=(0.0, 7.0))
    return pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
        actuators={"jet": thrust, "rope": cable},
    )


def test_controls_of_several_units_have_a_plot_each():
    jets, rope = control_plots(jets_and_rope(), np.arange(4.0), np.ones((3, 4)), x="time [s]")
    assert (jets.title, jets.y, len(jets.series)) == ("Controls [N]", "control [N]", 3)
    assert (rope.title, rope.y) == ("Controls [-]", "rope [-]")


def test_a_planned_task_plots_each_unit_with_its_own_bounds():
    task = SimpleNamespace(robot=jets_and_rope(), dt=0.1, steps=3)
    found = SimpleNamespace(plan=SimpleNamespace(controls=np.ones((3, 4))))
    jets, rope = bounded_controls(task, found)
    assert (jets.y, rope.y) == ("control [N]", "rope [-]")
    assert set(rope.series) == {"rope", "lower bound", "upper bound"}
    np.testing.assert_array_equal(rope.series["upper bound"][1], np.full(4, 7.0))
