"""The laser at the tip of a soft arm: rays in closed form, targets, and a run that resumes with its
stored shapes."""

import html
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pliant.core import InputError
from pliant.dynamics.latent import Latent
from pliant.store import read_json, read_trajectory
from pliant.surrogate import CornerStore
from pliant.zoo import experiment as experiment_module
from pliant.zoo.clearance import beam_clearance, surface_clearance
from pliant.zoo.experiment import run
from pliant.zoo.experiments import arm_2d, arm_circle, arm_obstacles
from pliant.zoo.laser import BEAM_EFFECTORS, beam_spot, spot_target
from pliant.zoo.registry import find
from pliant.zoo.robots import line_arm, plane_arm
from pliant.zoo.robots.line_arms import WIDTH

SMALL = {"layers": "8", "across": "2", "steps": "12", "dt": "0.4"}  # of arm-2d
TASKS = {"arm-circle": arm_circle.task, "arm-obstacles": arm_obstacles.task, "arm-2d": arm_2d.task}
SETTINGS = find("arm-circle").resolve_settings(quick=True)
CIRCLE_STEPS = range(SETTINGS["steps"] // 5, SETTINGS["steps"] + 1)
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
    angle = 2.0 * np.pi * (step - lead) / (n - lead)
    return s["radius"] * np.array([np.cos(angle), np.sin(angle)])


def test_circle_errors_measure_radius_angle_and_timing():
    """A spot that stands still on the circle has no radial error, but is half a turn wrong. So is
    one that runs backwards. One that is a step late is behind by the angle of a step."""
    task = arm_circle.task(find("arm-circle").resolve_settings(quick=True))
    radius, lead = 0.05, task.steps // 5
    good = np.vstack(
        [np.zeros((lead, 2)), [target_at("arm-circle", SETTINGS, k) for k in CIRCLE_STEPS]]
    )
    angle = 360.0 / (task.steps - lead)

    def errors(spots):
        found = arm_circle.circle_errors(spots, task, radius)
        return [found[name].value for name in ("radial error", "angle error", "timed path error")]

    np.testing.assert_allclose(errors(good), 0.0, atol=1e-9)
    still = np.tile([radius, 0.0], (task.steps + 1, 1))
    np.testing.assert_allclose(errors(still), [0.0, 180.0, 2.0], atol=1e-9)
    backwards = good * [1.0, -1.0]
    assert errors(backwards)[0] == pytest.approx(0.0, abs=1e-9)
    assert errors(backwards)[1] > 170.0
    late = np.vstack([good[:lead], good[lead : lead + 1], good[lead:-1]])
    chord = 2.0 * np.sin(np.deg2rad(angle) / 2.0)
    np.testing.assert_allclose(errors(late), [0.0, angle, chord], atol=1e-9)
    wide = np.vstack([good[:lead], 1.1 * good[lead:]])
    np.testing.assert_allclose(errors(wide), [0.1, 0.0, 0.1], atol=1e-9)


def test_beam_that_stands_still_on_the_circle_does_not_reach_its_goal(monkeypatch, tmp_path):
    """The experiment fails for a plan whose spot is on the circle all the time, without moving."""
    true = arm_circle.plan_laser

    def stands_still(context, task):
        planned = true(context, task)
        still = np.tile([float(SETTINGS["radius"]), 0.0], (task.steps + 1, 1))
        return replace(planned, replayed_spots=still)

    monkeypatch.setattr(arm_circle, "plan_laser", stands_still)
    monkeypatch.setattr(experiment_module, "write_animation", lambda *args, **options: [])
    result = run(find("arm-circle"), out=tmp_path, quick=True)
    assert result["metrics"]["largest radial error of the replay"]["value"] < 1e-12
    assert result["status"].startswith("not reached: the spot of the replay is up to 200.0%")


def test_obstacles_block_the_direct_beam_and_constraints_are_squared_distances():
    """The straight path of the spot crosses both clamps. The edge of a clamp, wider by the margin,
    is at the limit of the constraint."""
    settings = find("arm-obstacles").resolve_settings(quick=True)
    task = arm_obstacles.task(settings)
    beam, side = task.constraints
    assert beam.effector == BEAM_EFFECTORS
    height, margin = task.plate_height, settings["margin"]

    def kept(spot):
        return beam.function(np.array([*spot, height, *spot, 0.1]))  # a vertical beam

    straight = np.linspace([0.0, 0.0], arm_obstacles.GOAL, 50)
    assert all(min(kept(spot)[k] for spot in straight) < 1.0 for k in range(2))
    assert np.all(kept(arm_obstacles.GOAL) > 1.0)
    assert np.all(kept((0.0, 0.0)) > 1.0)
    for k, (x, y, r) in enumerate(arm_obstacles.CLAMPS):
        assert kept((x, y))[k] == pytest.approx(0.0, abs=1e-15)
        for angle in np.linspace(0.0, 6.0, 7):
            edge = np.array([np.cos(angle), np.sin(angle)]) * (r + margin) + [x, y]
            assert kept(edge)[k] == pytest.approx(1.0)
            assert kept(np.array([x, y]) + 2.0 * (edge - [x, y]))[k] == pytest.approx(4.0)
    # an oblique beam: its distance from the centre, not that of its spot
    spot, base = np.array([0.05, 0.012, height]), np.array([0.0, 0.012, 0.1])
    lens = 0.5 * (spot + base)
    x, y, r = arm_obstacles.CLAMPS[0]
    along = (spot - base) / np.linalg.norm(spot - base)
    true = np.linalg.norm(np.cross(np.array([x, y, height]) - base, along))
    found = beam.function(np.concatenate([lens, base]))[0]
    assert found == pytest.approx((true / (r + margin)) ** 2)
    ball = np.array(arm_obstacles.BALL)
    points = np.stack([ball[:3] + [ball[3] + margin, 0.0, 0.0], ball[:3] + [0.0, 0.0, ball[3]]])
    inside = side.function(points.ravel())
    np.testing.assert_allclose(inside, [1.0, (ball[3] / (ball[3] + margin)) ** 2])


def test_obstacles_are_outside_the_arm_and_the_beam_at_rest():
    task = arm_obstacles.task(find("arm-obstacles").resolve_settings(quick=True))
    body = task.robot.body()
    nodes = body.rest.reshape(1, -1, 3).repeat(3, axis=0)
    clearance = surface_clearance(nodes, body.mesh.boundary()[:, :3], task.spheres)
    x, _, _, r = arm_obstacles.BALL
    assert clearance == pytest.approx(x - r - WIDTH / 2)
    beams = np.tile([[0.0, 0.0, 0.2], [0.0, 0.0, task.plate_height]], (3, 1, 1))
    cx, cy, cr = arm_obstacles.CLAMPS[0]
    assert beam_clearance(beams, task.spheres) == pytest.approx(np.hypot(cx, cy) - cr)


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
    for count in ("shape queries", "simulated steps"):
        assert found[f"reduction factor of {count}"] == pytest.approx(
            found[count] / found["exact evaluations"]
        )
    runs = found["iterations"] + found["refinement levels"]  # one more on each level, the guess
    assert found["simulated steps"] == int(SMALL["steps"]) * runs
    assert found["shape queries"] > found["simulated steps"] > found["exact evaluations"]
    units = {name: metric["unit"] for name, metric in result["metrics"].items()}
    assert units["step error"] == units["estimated step error"] == "of positions and velocities"
    assert units["position error of a step"] == "of the positions"
    assert 0.0 < found["step error"] <= 1.02 * found["estimated step error"] < 1e-5
    assert 0.0 < found["position error of a step"] < 1e-5
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
        "error of one step, largest of 6 random steps",
        "estimated error of one step, largest of 12 steps",
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
        f"{name} has no evaluations or trainings .* without --cluster",
    )
    assert not (tmp_path / "none").exists()
    with pytest.raises(InputError):
        run(find(name), cluster="tcp://127.0.0.1:1")


@every
def test_laser_experiments_can_use_a_cluster(name):
    assert find(name).uses_cluster
