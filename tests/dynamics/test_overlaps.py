"""Overlapping bodies of one robot are found and reported. A single body is not checked."""

import re

import numpy as np
import pytest

import pliant as pl
from pliant.geometry import Disc, Ellipsoid, Rectangle, overlap
from pliant.geometry.overlap import ConnectedBodies
from pliant.problem import Effort, Goal, Problem
from pliant.viewer import make_session
from pliant.zoo.check import check
from pliant.zoo.experiment import run
from pliant.zoo.task import task_experiment

SOFT = pl.Material(E=1e5, nu=0.3)
SIDE, GAP = 0.02, 0.005


def joined(**parts):
    """Return one mesh of several, each of which is a region."""
    points, cells, regions, surfaces = [], [], {}, {}
    n = m = 0
    for name, mesh in parts.items():
        points.append(mesh.points)
        cells.append(mesh.cells + n)
        regions[name] = np.arange(m, m + mesh.n_cells)
        surfaces |= {f"{name} {side}": facets + n for side, facets in mesh.surfaces.items()}
        n, m = n + mesh.n_points, m + mesh.n_cells
    return pl.Mesh(
        points=np.vstack(points), cells=np.vstack(cells), regions=regions, surfaces=surfaces
    )


def beam(x, order=1):
    """Return an upright finger that starts at x [m]."""
    return pl.Box(size=(SIDE / 2, SIDE, 0.08), origin=(x, 0, 0)).mesh(
        divisions=(1, 2, 8), order=order
    )


def ball(order=1):
    return Ellipsoid(radii=(SIDE,) * 3, origin=(0.0, SIDE / 2, 0.08)).mesh(
        divisions=(2,), order=order
    )


def hand(order=1):
    """Return two fingers with a ball between their tips. Cables pull the fingers together."""
    left, right = -SIDE - GAP - SIDE / 2, SIDE + GAP
    mesh = joined(left=beam(left, order), right=beam(right, order), ball=ball(order))
    inner = {"left": left + SIDE / 2, "right": right}
    return pl.Robot(
        name="hand",
        shape=mesh,
        order=order,
        material=SOFT,
        supports=[pl.Support(region=r) for r in ("left z-", "right z-", "ball outside")],
        actuators={
            name: pl.Cable(points=[(x, SIDE / 2, 0.001), (x, SIDE / 2, 0.079)])
            for name, x in inner.items()
        },
        effectors={"tip": pl.Effector(surface="left z+")},
    )


SAYS = r"; bodies '(left|right)' and 'ball' overlap by ([\d.]+) mm: contact between bodies is not"


@pytest.fixture(scope="module")
def model():
    return pl.Quasistatic(hand())


@pytest.fixture(scope="module")
def closed(model):
    """Return the controls under which the fingers penetrate the ball."""
    return np.full(2, 0.3)


def test_equilibrium_reports_overlapping_bodies(model, closed):
    step = pl.equilibrium(model, closed)
    assert step.status
    found = re.match(r"converged" + SAYS, step.status.text)
    assert found, step.status.text
    assert pl.equilibrium(model, np.zeros(2)).status.text == "converged"


def test_simulation_reports_a_temporary_overlap(model, closed):
    there_and_back = np.outer(np.r_[0.0, 0.5, 1.0, 0.5, 0.0], closed)
    rollout = pl.simulate(model, there_and_back)
    assert re.match(r"converged" + SAYS, rollout.status.text)
    assert pl.simulate(model, 0.0 * there_and_back).status.text == "converged"


def test_plan_reports_an_overlap(model, closed):
    at = model.robot.effector_position("tip", pl.equilibrium(model, closed).x)
    problem = Problem(
        model=model, steps=1, terms=[Goal(effector="tip", target=at), Effort(weight=1e-12)]
    )
    plan = pl.plan(problem)
    assert re.search(SAYS, plan.status.text), plan.status.text


def test_drive_session_reports_an_overlap(model, closed):
    session = make_session(hand())
    assert session.text == session.state.message
    target = model.robot.effector_position("tip", pl.equilibrium(model, closed).x)
    session.command.targets["tip"][:] = target
    for _ in range(60):
        session.step(1 / 60)
    assert re.search(SAYS, session.text), session.text


def test_single_body_is_not_checked_for_overlaps(monkeypatch):
    monkeypatch.setattr("pliant.geometry.overlap._deepest", lambda *_: pytest.fail("looked"))
    robot = pl.Robot(
        shape=pl.Box(size=(0.1, 0.02, 0.02)),
        divisions=(4, 1, 1),
        material=SOFT,
        supports=[pl.Support(region="x-")],
    )
    assert (
        pl.simulate(pl.ImplicitEuler(robot, dt=0.01), np.zeros((2, 0))).status.text == "converged"
    )


def test_only_bodies_with_overlapping_bounding_boxes_are_compared(monkeypatch):
    boxes = {
        f"box {k}": pl.Box(size=(0.01,) * 3, origin=(0.02 * k, 0, 0)).mesh(divisions=(2, 2, 2))
        for k in range(8)
    }
    bodies, calls = ConnectedBodies(mesh=joined(**boxes)), []
    points = np.array(bodies.mesh.points)
    points[bodies.mesh.nodes("box 5"), 0] -= 0.012
    deepest = overlap._deepest
    monkeypatch.setattr(overlap, "_deepest", lambda *two: calls.append(two) or deepest(*two))
    (found,) = bodies.overlaps(points)
    assert found.bodies == ("'box 4'", "'box 5'")
    assert found.depth == pytest.approx(0.002, rel=1e-9)
    assert len(calls) == 2
    np.testing.assert_allclose(bodies.lengths, 0.01)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("depth", [-1e-3, 0.0, 1e-3, 5e-3])
def test_overlap_depth_of_two_boxes_is_exact(order, depth):
    two = [
        pl.Box(size=(0.02,) * 3, origin=(x, 0.003, 0.001)).mesh(divisions=(3, 3, 3), order=order)
        for x in (0.0, 0.03)
    ]
    mesh = joined(one=two[0], other=two[1])
    points = np.array(mesh.points)
    points[len(two[0].points) :, 0] -= 0.01 + depth
    points[len(two[0].points) :, 1:] += 0.004
    found = ConnectedBodies(mesh=mesh).overlaps(points)
    assert len(found) == (depth > 0)
    if found:
        assert found[0].depth == pytest.approx(depth, rel=1e-9)
        assert found[0].text == f"bodies 'one' and 'other' overlap by {1e3 * depth:.3g} mm"


def test_overlap_of_plane_bodies_is_found():
    mesh = joined(
        disc=Disc(radius=0.01, origin=(0.0, 0.0)).mesh(divisions=(3,)),
        bar=Rectangle(size=(0.05, 0.01), origin=(0.02, -0.005)).mesh(divisions=(10, 2)),
    )
    bodies, points = ConnectedBodies(mesh=mesh), np.array(mesh.points)
    assert bodies.overlaps(points) == []
    points[mesh.nodes("bar"), 0] -= 0.012
    (found,) = bodies.overlaps(points)
    assert found.depth == pytest.approx(0.002, rel=0.05)


def test_body_in_cavity_of_another_does_not_overlap():
    shell = pl.geometry.ClosedCylinder(radius=0.05, wall=0.005, length=0.1, cap=0.005).mesh(
        cell=0.02
    )
    inner = Ellipsoid(radii=(0.02,) * 3, origin=(0.0, 0.0, 0.05)).mesh(divisions=(2,))
    assert (
        ConnectedBodies(mesh=joined(shell=shell, ball=inner)).overlaps(
            np.vstack([shell.points, inner.points])
        )
        == []
    )


FILE = """
[geometry]
cell = 0.01
order = 2
[geometry.parts.low]
shape = "box"
size = [0.02, 0.02, 0.02]
[geometry.parts.high]
shape = "box"
size = [0.02, 0.02, 0.02]
origin = [0, 0, 0.03]
[material]
E = 1e5
nu = 0.3
[[supports]]
region = "low"
[[supports]]
region = "high"
motion = { times = [0, 0.02], values = [[0, 0, 0], [0, 0, -0.015]] }
[task]
rule = "implicit-euler"
dt = 0.01
steps = 2
"""


def test_check_and_run_of_robot_file_name_overlapping_bodies(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(FILE)
    (said,) = check(path).warnings
    assert "2 bodies ('low', 'high'), and contact between bodies is not modelled" in said
    assert said.endswith("they are apart at rest.")
    notes = run(task_experiment(path), out=tmp_path / "out")["notes"]
    assert notes == [
        "Bodies 'low' and 'high' overlap by 5 mm: contact between bodies is not modelled."
    ]
