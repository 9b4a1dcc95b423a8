"""The Stiff-Flop arm: closed chambers, bending away from the one under pressure, and steps that
stay sound over the whole range."""

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
    """(n_dofs,) [m] the shape under pressures u as shares of the highest."""
    model = arm(divisions)
    step = model.step(model.initial_state(), np.zeros(6))
    for share in np.linspace(0.0, 1.0, stages + 1)[1:]:
        step = model.step(step.x, share * HIGHEST * np.array(u))
        assert step.status, step.status.text
    return step.x


def tip(u, **options):
    """(3,) [m] how far the pressures move the tip."""
    robot = arm(options.get("divisions", COARSE)).robot
    return robot.effector_position("tip", held(u, **options)) - robot.effector_position(
        "tip", held(6 * (0.0,), **options)
    )


def turned(q, z):
    """[degrees] how far the cross-section at a rest height has turned."""
    rest = arm().robot.body().rest.reshape(-1, 3)
    chosen = np.isclose(rest[:, 2], z, atol=1e-9)
    before, after = (x[chosen] - x[chosen].mean(axis=0) for x in (rest, q.reshape(-1, 3)))
    return np.degrees(Rotation.align_vectors(after, before)[0].magnitude())


def test_the_arm_has_six_equal_closed_chambers_and_hangs_from_its_base():
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


def test_one_chamber_at_its_highest_pressure_bends_its_own_section():
    """The upper section carries the lower one, whose weight straightens it."""
    upper, lower = (held(tuple(np.eye(6)[k])) for k in (0, 3))
    assert 18.0 < turned(upper, -0.1075) < 35.0
    assert abs(turned(upper, -0.215) - turned(upper, -0.1075)) < 8.0
    assert turned(lower, -0.1075) < 8.0
    assert 30.0 < turned(lower, -0.215) < 60.0
    assert tip(tuple(np.eye(6)[0]))[0] < -0.04
    assert tip(tuple(np.eye(6)[3]))[0] < -0.02


def test_the_three_chambers_bend_towards_three_sides():
    """The cut of the cells into tetrahedra has no threefold symmetry, which a coarse mesh shows in
    the last percents."""
    ways = np.array([tip(tuple(np.eye(6)[k]))[:2] for k in range(3)])
    np.testing.assert_allclose(np.linalg.norm(ways, axis=1), np.linalg.norm(ways[0]), rtol=0.05)
    angles = np.unwrap(np.arctan2(ways[:, 1], ways[:, 0]))
    np.testing.assert_allclose(np.diff(angles), 2 * np.pi / 3, atol=0.1)


def test_all_chambers_together_lengthen_the_arm():
    moved = tip(6 * (1.0,), stages=4)
    assert moved[2] < -0.02
    assert np.linalg.norm(moved[:2]) < 0.2 * abs(moved[2])


def test_a_finer_mesh_bends_little_further():
    coarse, fine = (
        tip((0.0, 0.0, 0.0, 0.4, 0.0, 0.0), divisions=divisions, stages=1)[0]
        for divisions in ((2, 2, 1), (3, 4, 1))
    )
    assert 0.9 < coarse / fine < 1.0  # elements are too stiff, never too soft


def test_full_steps_of_the_pressures_are_stable_with_one_linearisation_a_step():
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
