"""Tasks of linked robots run as with `pliant run`, and `pliant check` finds their facts."""

import re
from pathlib import Path

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import gradcheck
from pliant.planners import Plan
from pliant.robot_files import load_task
from pliant.store import read_json
from pliant.swimming import SwimmerModel
from pliant.viewer import make_session
from pliant.zoo.check import check
from pliant.zoo.experiment import run
from pliant.zoo.registry import find_robot
from pliant.zoo.task import task_experiment

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "robot-files.md").read_text()
FISH = next(
    text for text in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL) if "[links." in text
)
ROBOT, PLAN = FISH[: FISH.index("[task]")], FISH[FISH.index("[task]") :]
SMALL = {"small_animation": "true"}
SIMULATION = '[task]\ndt = 0.02\nsteps = 25\nrule = "{}"\ncontrols = [{}]\n'


@pytest.fixture
def written(tmp_path):
    """written(task): write the robot of the guide with a task and return the path of the file."""

    def write(task: str) -> Path:
        path = tmp_path / "fish.toml"
        path.write_text(ROBOT + task)
        return path

    return write


def test_simulation_has_metrics_and_names_of_the_robot(written, tmp_path):
    path = written(SIMULATION.format("rk4", 0.05))
    result = run(task_experiment(path), out=tmp_path / "out", overrides=SMALL)
    assert result["status"] == "done"
    metrics = {name: metric["value"] for name, metric in result["metrics"].items()}
    centre = [metrics[f"final centre of mass {axis}"] for axis in "xyz"]
    assert metrics["final nose y"] != 0.0  # the torque turns the body
    assert centre[2] == pytest.approx(0.0, abs=1e-5)  # in the plane, to the error of points
    page = (tmp_path / "out" / "report.html").read_text()
    for text in ("Controls", "Position of nose", "Joint angles"):
        assert text in page, text
    assert (tmp_path / "out" / "animation.mp4").is_file()


def test_torque_is_internal(written):
    """Without outer forces the total momentum of robot and fluid stays zero: the pair of opposite
    torques moves the shape, and a mirrored torque mirrors the motion."""
    task = load_task(written(SIMULATION.format("rk4", 0.05)))
    model, torque = task.model(), np.full((task.steps, 1), 0.05)
    left, right = (
        model.space.split(pl.simulate(model, sign * torque).states[-1]) for sign in (1.0, -1.0)
    )
    assert left.angles[0] > 0.05
    np.testing.assert_allclose(left.angles, -right.angles, rtol=1e-3)  # the points have no mirror
    np.testing.assert_allclose(left.root * (1, -1, 1), right.root, atol=1e-5)
    np.testing.assert_allclose(left.momentum[:6], 0.0, atol=1e-9)


def test_guide_plan_reaches_its_goal_with_a_certificate(written, tmp_path):
    result = run(task_experiment(written(PLAN)), out=tmp_path / "out", overrides=SMALL)
    assert result["status"] == "done", result["message"]
    metrics = {name: metric["value"] for name, metric in result["metrics"].items()}
    assert metrics["largest goal error"] < 3e-3  # [m] of 30 mm
    assert metrics["refinement levels"] == 2  # cells of 0.3 and 0.15 rad
    assert metrics["exact evaluations"] > 3
    assert metrics["step error"] < 1e-3
    saved = read_json(tmp_path / "out" / "plan" / "level-1" / "plan.json")
    assert saved["names"] == ["tail"]
    assert saved["units"] == ["N m"]
    assert saved["effectors"] == ["root", "centre of mass", "nose"]
    assert "links:" in saved["digest"]


def test_plan_of_another_fish_is_refused(written, tmp_path):
    task = PLAN.replace("iterations = 30", "iterations = 1").replace("eta = 0.15\n", "")
    run(task_experiment(written(task)), out=tmp_path / "out", overrides=SMALL)
    text = (tmp_path / "fish.toml").read_text()
    same = SwimmerModel(find_robot(str(tmp_path / "fish.toml")), dt=0.02)
    assert Plan.load(tmp_path / "out" / "plan", same).model.space == same.space
    (tmp_path / "other.toml").write_text(text.replace("[0.1, 0.03, 0.08]", "[0.1, 0.03, 0.09]"))
    other = SwimmerModel(find_robot(str(tmp_path / "other.toml")), dt=0.02)
    with pytest.raises(InputError, match="differs from this one in: links"):
        Plan.load(tmp_path / "out" / "plan", other)


def test_thin_links_need_more_points(written):
    """The error names the number of points, which the task takes. `check` uses the same."""
    path = written(SIMULATION.format("rk4", 0.0))
    path.write_text(path.read_text().replace("0.03, 0.08]", "0.005, 0.08]"))
    with pytest.raises(InputError, match="Give each ellipsoid") as error:
        load_task(path).model()
    needed = re.search("([0-9]+) points or more", str(error.value)).group(1)
    path.write_text(path.read_text() + f"points = {needed}\n")
    model = load_task(path).model()
    assert model.step(model.initial_state(), np.zeros(1)).status
    assert dict(check(path).facts)["first step"] == "converged"


def test_derivatives_of_a_task_are_right(written):
    experiment = task_experiment(written(SIMULATION.format("euler", 0.05)))
    checks = gradcheck(*experiment.probe(experiment.resolve_settings()))
    assert {c.name for c in checks} >= {"root", "orientation", "angles", "momentum", "control"}
    assert [c.name for c in checks if not c.ok] == []


def test_changed_surface_file_changes_the_source(tmp_path):
    from pliant.geometry import icosphere
    from pliant.swimming import ClosedSurface, Link, LinkedRobot

    sources = []
    for radius in (0.1, 0.11):
        ball = icosphere(radius, subdivisions=1)
        shape = ClosedSurface(points=ball.points, triangles=ball.triangles)
        LinkedRobot(links={"ball": Link(shape=shape, density=900.0)}, name="ball").save(
            tmp_path / "ball.toml"
        )
        sources.append(task_experiment(tmp_path / "ball.toml").source)
    assert sources[0] != sources[1]


# Checks


def test_check_shows_masses_gap_and_added_mass(written):
    report = check(written(""))
    facts = dict(report.facts)
    assert facts["mass"] == "6.032 kg, displaces 6.032 kg of fluid"
    assert facts["buoyancy"] == "neutral"
    assert facts["smallest gap"].endswith("of 'body' and 'tail' at tail = -1")
    assert float(facts["added mass at rest"].split(", ")[1]) > 2.0  # [kg] sideways
    assert facts["first step"] == "converged"
    assert report.warnings == []


def test_check_warns_of_narrow_gaps_and_units(tmp_path):
    text = ROBOT.replace("child_point = [0.12", "child_point = [0.083").replace(
        "[-1, 1]", "[-0.1, 0.1]"
    )
    text = text.replace("density = 1000\n\n[hinges", "density = 30000\n\n[hinges")
    (tmp_path / "fish.toml").write_text(text)
    narrow, units = check(tmp_path / "fish.toml").warnings
    assert "gap of 'body' and 'tail'" in narrow
    assert units.startswith("links.tail: ")
    assert "any metal" in units


def test_linked_robot_cannot_be_driven():
    with pytest.raises(InputError, match=r"rigid links.*soft robots only.*type = \"plan\""):
        make_session(find_robot("swimmer"))
