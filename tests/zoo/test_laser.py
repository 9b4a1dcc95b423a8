"""The laser at the tip of a soft arm: rays in closed form, targets, and a run that resumes with its
stored shapes."""

import html
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pliant.core import InputError
from pliant.dynamics.latent import Latent
from pliant.store import read_json, read_trajectory
from pliant.surrogate import CornerStore
from pliant.zoo import experiment as experiment_module
from pliant.zoo.experiment import run
from pliant.zoo.experiments import arm_2d, arm_circle, arm_obstacles
from pliant.zoo.laser import BEAM_EFFECTORS, beam_spot, spot_target
from pliant.zoo.registry import find
from pliant.zoo.robots import line_arm, plane_arm

SMALL = {"layers": "8", "across": "2", "steps": "12", "dt": "0.4"}  # of arm-2d
TASKS = {"arm-circle": arm_circle.task, "arm-obstacles": arm_obstacles.task, "arm-2d": arm_2d.task}
every = pytest.mark.parametrize("name", TASKS)


# Rays


@pytest.mark.parametrize(
    ("lens", "base", "plate", "meets"),
    [
        ((0.0, 0.0, 0.2), (0.0, 0.0, 0.1), 0.5, (0.0, 0.0)),  # straight up
        ((0.1, 0.0, 0.2), (0.0, 0.0, 0.1), 0.5, (0.4, 0.0)),  # at 45 degrees
        (
            (0.3, -0.1, 0.2),
            (0.1, 0.0, 0.1),
            0.4,
            (0.7, -0.3),
        ),  # beyond the lens by twice the distance from base to lens
        ((0.3, -0.1, 0.2), (0.1, 0.0, 0.1), 0.2, (0.3, -0.1)),  # the plate at the lens
        ((0.1, 0.2), (0.0, 0.1), 0.5, (0.4,)),  # in the plane
    ],
)
def test_spot_is_intersection_of_ray_and_plate(lens, base, plate, meets):
    np.testing.assert_allclose(beam_spot(plate)(np.array([*lens, *base])), meets, atol=1e-15)


def test_spot_lies_on_the_line_through_base_and_lens(rng):
    for _ in range(10):
        lens, base = rng.standard_normal((2, 3))
        spot = np.append(beam_spot(0.7)(np.concatenate([lens, base])), 0.7)
        np.testing.assert_allclose(
            np.cross(spot - base, lens - base), 0.0, atol=1e-12 * np.linalg.norm(spot - base)
        )


def test_arm_at_rest_points_straight_up():
    """At rest the base is below the lens, so the beam meets every plate above the arm axis."""
    for robot, dim in ((line_arm(layers=8, across=2), 3), (plane_arm(layers=8, across=2), 2)):
        rest = robot.body().rest
        y = np.concatenate([robot.effector_position(name, rest) for name in BEAM_EFFECTORS])
        assert y[dim - 1] > y[2 * dim - 1]
        np.testing.assert_allclose(beam_spot(0.5)(y), 0.0, atol=1e-9)
        np.testing.assert_allclose(beam_spot(5.0)(y), 0.0, atol=1e-9)


def test_spot_target_cost_is_zero_at_target_and_quadratic_elsewhere():
    model = Latent(plane_arm(layers=8, across=2), dt=0.4, cell=6.0, start=np.full(2, 3.0))
    observation = spot_target(0.5, np.array([0.4]), time=0.8, weight=3.0).attach(model, 4)[0]
    assert observation.step == 2
    np.testing.assert_allclose(
        observation.loss.residual(np.array([0.1, 0.2, 0.0, 0.1])), 0.0, atol=1e-15
    )
    assert observation.loss.value(np.array([0.1, 0.2, 0.0, 0.1])) == pytest.approx(0.0, abs=1e-28)
    assert observation.loss.value(np.array([0.0, 0.2, 0.0, 0.1])) == pytest.approx(1.5 * 0.4**2)
    places = np.concatenate(
        [
            model.robot.effector_position(name, model.positions(model.initial_state()))
            for name in BEAM_EFFECTORS
        ]
    )
    seen = observation.evaluate(
        np.tile(model.initial_state(), (5, 1)), np.zeros((4, 2)), np.zeros(2)
    )
    np.testing.assert_allclose(seen, places, atol=1e-9)  # lens first, then base


# Tasks


@every
def test_task_targets_match_the_drawn_path(name):
    """At each time the drawn ray satisfies the goal, and a displaced ray does not."""
    settings = find(name).resolve_settings(quick=True)
    task = TASKS[name](settings)
    model = Latent(task.robot, dt=task.dt, cell=task.cell, start=task.start)
    observations = [
        observation
        for observation in task.problem(model).observations
        if observation.name == "laser, laser base"
    ]
    assert len({observation.step for observation in observations}) == len(observations) > 2
    drawn = task.target_curve[:, :-1]
    np.testing.assert_allclose(task.target_curve[:, -1], task.plate_height)
    for observation in observations:
        goal = target_at(name, settings, observation.step)
        y = np.concatenate(
            [[*goal, task.plate_height], np.append(0.5 * goal, 0.1)]
        )  # a ray whose lens is on the plate at the goal
        np.testing.assert_allclose(observation.loss.residual(y), 0.0, atol=1e-12)
        assert np.linalg.norm(observation.loss.residual(y + 0.01)) > 1e-3
    last = target_at(name, settings, task.steps)
    if name == "arm-2d":
        assert drawn.min() <= last[0] <= drawn.max()
    else:
        assert np.linalg.norm(drawn - last, axis=1).min() < 1e-12


def target_at(name, s, step):
    """Return the target (dim - 1,) [m] of the beam spot at a step, computed independently."""
    n, lead = s["steps"], s["steps"] // 5
    if name == "arm-2d":
        return np.array([s["amplitude"] * np.sin(2.0 * np.pi * step / n)])
    if name == "arm-obstacles":
        return arm_obstacles.GOAL
    turn = 2.0 * np.pi * (step - lead) / (n - lead)
    return s["radius"] * np.array([np.cos(turn), np.sin(turn)])


def test_clamps_block_the_direct_path_and_constraint_is_squared_distance():
    """The straight path to the goal crosses both clamps. The edge of a clamp is at the limit of the
    constraint, its centre farthest inside."""
    task = arm_obstacles.task(find("arm-obstacles").resolve_settings(quick=True))
    (constraint,) = task.constraints
    assert constraint.effector == BEAM_EFFECTORS

    def kept(spot):
        return constraint.function(np.array([*spot, task.plate_height, *spot, 0.1]))

    straight = np.linspace([0.0, 0.0], arm_obstacles.GOAL, 50)
    assert all(min(kept(spot)[k] for spot in straight) < 1.0 for k in range(2))
    assert np.all(kept(arm_obstacles.GOAL) > 1.0)
    assert np.all(kept((0.0, 0.0)) > 1.0)
    for k, (x, y, r) in enumerate(arm_obstacles.CLAMPS):
        assert kept((x, y))[k] == pytest.approx(0.0, abs=1e-15)
        for turn in np.linspace(0.0, 6.0, 7):
            edge = np.array([x + r * np.cos(turn), y + r * np.sin(turn)])
            assert kept(edge)[k] == pytest.approx(1.0)
            assert kept(np.array([x, y]) + 2.0 * (edge - [x, y]))[k] == pytest.approx(4.0)


# Runs: every experiment is run in tests/zoo/test_run.py; here a smaller one, without its animation


@pytest.fixture(scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment_module, "write_animation", lambda *args, **options: [])
        yield partial(run, find("arm-2d"), quick=True, overrides=SMALL)


@pytest.fixture(scope="module")
def first(quickly, tmp_path_factory):
    """Return (result, folder) of a complete run."""
    folder = tmp_path_factory.mktemp("laser")
    return quickly(out=folder), folder


def values(result):
    """Return the metrics that are not times."""
    return {
        name: metric["value"] for name, metric in result["metrics"].items() if metric["unit"] != "s"
    }


def corners(folder: Path):
    """Return the samples of the model in the store of a folder."""
    with closing(sqlite3.connect(folder / "corners.sqlite")) as db:
        keys = [key for (key,) in db.execute("SELECT DISTINCT model FROM corners")]
    assert len(keys) == 1
    with CornerStore(folder / "corners.sqlite", key=keys[0]) as store:
        return store.samples()


def test_run_reports_path_accuracy_and_evaluation_metrics(first):
    result, folder = first
    assert result["status"] == "done"
    assert read_json(folder / "result.json") == result
    found = values(result)
    assert found["exact evaluations"] == len(corners(folder)) > 4
    assert found["reduction factor of evaluations"] == pytest.approx(
        found["shape queries"] / found["exact evaluations"]
    )
    assert found["reduction factor of evaluations"] > 2.0
    assert 0.0 < found["step error"] < 1e-5
    assert found["step error"] < found["step error relative to its increment"] < 0.1
    assert 0.0 < found["holdout error"] < 1e-5
    assert found["observed convergence order"] == pytest.approx(4.0, abs=1.0)
    assert found["refinement levels"] == 3  # 6 N, 3 N and 1.5 N
    assert found["replay cost of the full model"] == pytest.approx(found["objective"], rel=0.01)


def test_stored_run_has_the_reported_path_error(first):
    """Compute the rays from the stored positions and compare them with the targets."""
    result, folder = first
    s = result["settings"]
    robot = plane_arm(layers=s["layers"], across=s["across"])
    n = robot.body().rest.size
    states = read_trajectory(folder).path
    assert len(states) == s["steps"] + 1
    spots = []
    for x in states:
        (x1, z1), (x0, z0) = (robot.effector_position(name, x[:n]) for name in BEAM_EFFECTORS)
        spots.append(x0 + (x1 - x0) * (s["plate_height"] - z0) / (z1 - z0))
    off = np.abs(
        np.array(spots) - [target_at("arm-2d", s, k)[0] for k in range(s["steps"] + 1)]
    ).max()
    assert result["metrics"]["largest path error of the replay"]["value"] == pytest.approx(
        off, rel=1e-6
    )
    assert off < s["max_error"] * s["amplitude"]
    assert np.ptp(spots) > 1.9 * s["amplitude"]


def test_report_contains_the_certificate(first):
    result, folder = first
    text = html.unescape((folder / "report.html").read_text())
    assert len(result["notes"]) >= 6
    for start in (
        "largest surplus of each level",
        "observed order",
        "error at random points",
        "error of one step",
        "replay with the full model",
    ):
        assert any(note.startswith(start) for note in result["notes"])
    for note in result["notes"]:
        assert note in text
    for name in ("exact evaluations", "step error"):
        assert name in text


def test_resumed_run_makes_no_exact_evaluation_and_gives_the_same_metrics(
    first, quickly, monkeypatch, tmp_path
):
    result, folder = first[0], shutil.copytree(first[1], tmp_path / "copy")
    before = [(tuple(s.point), s.value.tobytes()) for s in corners(folder)]
    (folder / "result.json").unlink()

    def computed_again(self, sample):
        raise AssertionError(f"the corner {sample.point} was computed again")

    monkeypatch.setattr(CornerStore, "put", computed_again)
    resumed = quickly(out=folder, resume=True)
    assert values(resumed) == values(result)
    assert resumed["notes"] == result["notes"]
    assert resumed["key"] == result["key"]
    assert [(tuple(s.point), s.value.tobytes()) for s in corners(folder)] == before


def test_run_without_resume_evaluates_shapes_again(first, quickly, monkeypatch, tmp_path):
    """This shows that the test above can detect new evaluations."""
    result, folder = first[0], shutil.copytree(first[1], tmp_path / "copy")
    put, made = CornerStore.put, []
    monkeypatch.setattr(
        CornerStore, "put", lambda self, sample: (made.append(sample), put(self, sample))
    )
    fresh = quickly(out=folder)
    assert len(made) == values(fresh)["exact evaluations"]
    assert values(fresh) == values(result)


@pytest.mark.parametrize("name", ["cantilever", "block-drop"])
def test_cluster_option_is_rejected_by_experiments_without_exact_evaluations(
    name, raises_clear_error, tmp_path
):
    raises_clear_error(
        lambda: run(find(name), out=tmp_path / "none", cluster="tcp://127.0.0.1:1"),
        f"{name} makes no exact .* without --cluster",
    )
    assert not (tmp_path / "none").exists()
    with pytest.raises(InputError):
        run(find(name), cluster="tcp://127.0.0.1:1")


@every
def test_laser_experiments_can_use_a_cluster(name):
    assert find(name).uses_cluster
