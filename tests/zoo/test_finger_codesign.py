"""finger-codesign: a design with particles has the displacement of finite elements."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.zoo.designed_finger import NAMES, START, TARGETS, finger, particles, terms
from pliant.zoo.experiment import run
from pliant.zoo.experiments.finger_codesign import EXPERIMENT, check_settings

SETTINGS = EXPERIMENT.resolve_settings(quick=True)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Return the result and the folder of a quick run."""
    folder = tmp_path_factory.mktemp("finger")
    overrides = {"steps": "10", "iterations": "1"}
    return run(EXPERIMENT, out=folder, quick=True, overrides=overrides, progress=False), folder


def test_design_has_the_displacement_of_finite_elements(result):
    metrics = {name: m["value"] for name, m in result[0]["metrics"].items()}
    assert result[0]["status"] == "done"
    assert metrics["difference of the tip's displacement"] < 10.0
    assert metrics["materials"] == 3
    assert metrics["cost with finite elements, replanned"] < metrics["cost with finite elements"]


def test_exported_robot_has_the_printed_materials_and_quadratic_elements(result):
    robot = pl.load_robot(result[1] / "print" / "robot.toml")
    assert len({one.E for one in robot.material.values()}) == 3
    assert robot.order == 2
    surfaces = sorted(path.name for path in (result[1] / "print").glob("*.stl"))
    assert surfaces == ["material-1.stl", "material-2.stl", "material-3.stl"]


def test_targets_are_asked_for_in_the_last_fifth_of_the_time():
    problem = pl.Problem(
        model=particles(finger(START), SETTINGS, NAMES), steps=15, terms=terms(SETTINGS)
    )
    states = np.tile(problem.initial_state, (16, 1))
    still = problem.value(states, np.zeros((15, 2)))
    away = [(0.0, -0.15) - np.array(TARGETS["tip"]), (0.0, -0.075) - np.array(TARGETS["middle"])]
    expected = 3 * 0.5 * 4e3 * np.sum(np.square(away))
    assert still == pytest.approx(expected, rel=1e-9)


def test_too_few_steps_are_an_error():
    with pytest.raises(InputError, match="steps is 9; give 10 or more"):
        check_settings({**SETTINGS, "steps": 9})
