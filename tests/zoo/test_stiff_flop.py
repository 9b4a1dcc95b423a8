"""The Stiff-Flop arm: closed chambers, bending away from the pressurised chamber, and stable steps
over the whole range."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pliant as pl
from pliant.geometry import find_cavities
from pliant.geometry.cavities import signed_enclosed_volume

COARSE, HIGHEST = (2, 2, 1), 3e4


@cache
def arm(divisions=COARSE):
    return pl.Quasistatic(pl.robots.stiff_flop(divisions=divisions))


@cache
def held(u, divisions=COARSE, stages=2):
    """Return the equilibrium (n_dofs,) [m] for pressures as fractions of the maximum."""
    model = arm(divisions)
    step = model.step(model.initial_state(), np.zeros(6))
    for share in np.linspace(0.0, 1.0, stages + 1)[1:]:
        step = model.step(step.x, share * HIGHEST * np.array(u))
        assert step.status, step.status.text
    return step.x


def tip(u, **options):
    """Return the tip displacement (3,) [m] by the pressures."""
    robot = arm(options.get("divisions", COARSE)).robot
    return robot.effector_position("tip", held(u, **options)) - robot.effector_position(
        "tip", held(6 * (0.0,), **options)
    )


def rotation_degrees(q, z):
    """Return the rotation angle [degrees] of the cross-section at a rest height."""
    rest = arm().robot.body().rest.reshape(-1, 3)
    chosen = np.isclose(rest[:, 2], z, atol=1e-9)
    before, after = (x[chosen] - x[chosen].mean(axis=0) for x in (rest, q.reshape(-1, 3)))
    return np.degrees(Rotation.align_vectors(after, before)[0].magnitude())


def test_arm_has_six_equal_closed_chambers_and_hangs_from_its_base():
    robot = pl.robots.stiff_flop()
    mesh, (low, high) = robot.mesh(), robot.control_limits()
    assert robot.n_controls == 6
    assert list(robot.actuators)[:6] == [
        f"{part}-{k}" for part in ("upper", "lower") for k in (1, 2, 3)
    ]
    np.testing.assert_array_equal(low, 0.0)
    np.testing.assert_array_equal(high, HIGHEST)
    assert mesh.n_points < 2000
    walls = find_cavities(mesh)
    np.testing.assert_allclose(
        [signed_enclosed_volume(mesh.points, wall) for wall in walls],
        signed_enclosed_volume(mesh.points, walls[0]),
        rtol=1e-9,
    )
    assert len(walls) == 6
    np.testing.assert_allclose(
        robot.effector_position("tip", robot.body().rest), (0.0, 0.0, -0.215), atol=1e-12
    )
    np.testing.assert_allclose(
        robot.effector_position("middle", robot.body().rest), (0.0, 0.0, -0.1075), atol=1e-12
    )
    for name, z in (("upper-1", -0.055), ("lower-1", -0.16)):
        place = mesh.points[mesh.nodes(robot.actuators[name].cavity)].mean(axis=0)
        assert place[2] == pytest.approx(z, abs=1e-3)
        assert place[0] > 0.005


def test_one_chamber_at_maximum_pressure_bends_its_own_section():
    """The upper section carries the lower one, whose weight straightens it."""
    upper, lower = (held(tuple(np.eye(6)[k])) for k in (0, 3))
    assert 18.0 < rotation_degrees(upper, -0.1075) < 35.0
    assert abs(rotation_degrees(upper, -0.215) - rotation_degrees(upper, -0.1075)) < 8.0
    assert rotation_degrees(lower, -0.1075) < 8.0
    assert 30.0 < rotation_degrees(lower, -0.215) < 60.0
    assert tip(tuple(np.eye(6)[0]))[0] < -0.04
    assert tip(tuple(np.eye(6)[3]))[0] < -0.02


def test_three_chambers_bend_in_three_directions():
    """The tetrahedra have no threefold symmetry, which causes differences of a few percent on a
    coarse mesh."""
    ways = np.array([tip(tuple(np.eye(6)[k]))[:2] for k in range(3)])
    np.testing.assert_allclose(np.linalg.norm(ways, axis=1), np.linalg.norm(ways[0]), rtol=0.05)
    angles = np.unwrap(np.arctan2(ways[:, 1], ways[:, 0]))
    np.testing.assert_allclose(np.diff(angles), 2 * np.pi / 3, atol=0.1)


def test_all_chambers_together_extend_the_arm():
    moved = tip(6 * (1.0,), stages=4)
    assert moved[2] < -0.02
    assert np.linalg.norm(moved[:2]) < 0.2 * abs(moved[2])


def test_finer_mesh_changes_bending_by_less_than_ten_percent():
    coarse, fine = (
        tip((0.0, 0.0, 0.0, 0.4, 0.0, 0.0), divisions=divisions, stages=1)[0]
        for divisions in ((2, 2, 1), (3, 4, 1))
    )
    assert 0.9 < coarse / fine < 1.0  # finite elements are too stiff, never too soft


def test_semi_implicit_steps_to_maximum_pressure_are_stable():
    robot = pl.robots.stiff_flop(divisions=COARSE)
    model = pl.SemiImplicit(robot, dt=0.01)
    x, rest = model.initial_state(), None
    for k in range(160):
        u = HIGHEST * np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]) * (k < 80)
        step = model.step(x, u, None, k)
        assert step.status, step.status.text
        x = step.x
        rest = robot.effector_position("tip", model.space.position(x)) if k == 79 else rest
    assert np.linalg.norm(rest[:2]) > 0.03
    assert np.linalg.norm(robot.effector_position("tip", model.space.position(x))[:2]) < 0.002
