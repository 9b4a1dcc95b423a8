"""A fluid that partly fills a closed surface: level, weight, and forces as the gradient of the
energy."""

from math import pi

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.geometry import Box, Surface, hare_surface, icosphere, remove_unused_points
from pliant.hydrostatics import hydrostatic_load, solve_free_surface, volume_properties

WATER, G = 1000.0, 9.81
HARE, DOWN = hare_surface(0.02, divisions=14), (0.0, 0.0, -9.81)
TANK = Surface(
    points=(
        tank := remove_unused_points(
            (box := Box(size=(0.2, 0.1, 0.3)).mesh(divisions=(2, 2, 2))).points, box.boundary()
        )
    )[0],
    triangles=tank[1],
)


def solve(surface, fraction, gravity=DOWN, points=None):
    volume = fraction * surface.volume()
    return solve_free_surface(
        surface.points if points is None else points,
        surface.triangles,
        volume=volume,
        density=WATER,
        gravity=gravity,
    )


@pytest.mark.parametrize("fraction", [1e-6, 0.2, 0.5, 0.77, 1.0])
def test_level_of_a_tank_is_proportional_to_volume(fraction):
    found = solve(TANK, fraction)
    height = 0.3 * fraction
    assert found.level == pytest.approx(height, rel=1e-12)
    if 0.0 < fraction < 1.0:
        assert found.area == pytest.approx(0.02, rel=1e-12)
    assert found.energy == pytest.approx(WATER * G * 0.02 * height * height / 2, rel=1e-12)


def test_sides_and_floor_of_a_tank_carry_the_hydrostatic_force():
    """Each side carries rho g h^2 / 2 per metre of width. The pressure on the floor is rho g h."""
    found, h = solve(TANK, 0.6), 0.18
    x, y, z = TANK.points.T
    force = WATER * G * h**2 / 2
    assert found.forces[x == 0.2, 0].sum() == pytest.approx(force * 0.1, rel=1e-12)
    assert found.forces[y == 0.0, 1].sum() == pytest.approx(-force * 0.2, rel=1e-12)
    assert found.forces[z == 0.0, 2].sum() == pytest.approx(-WATER * G * h * 0.02, rel=1e-12)


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.8])
def test_level_in_a_ball_converges_to_that_of_a_spherical_cap(rate, fraction):
    """A cap of height h of a ball of radius 1 has the volume pi h^2 (3 - h) / 3."""
    h = np.roots([-1.0, 3.0, 0.0, -4.0 * fraction])
    exact = float(h[(h > 0.0) & (h < 2.0)].real[0]) - 1.0
    found = [solve(icosphere(1.0, subdivisions=k), fraction) for k in (2, 3, 4)]
    assert rate(2.0 ** np.arange(3), [abs(f.level - exact) for f in found]) < -1.8
    assert rate(2.0 ** np.arange(3), [abs(f.area - pi * (1.0 - exact**2)) for f in found]) < -1.8


@pytest.mark.parametrize("fraction", [1e-6, 0.02, 0.4, 0.8, 0.999, 1.0])
@pytest.mark.parametrize("gravity", [DOWN, (0.0, 0.0, 3.0), (5.0, 0.0, 0.0), (3.0, -5.0, 2.0)])
def test_resultant_force_is_the_weight_for_any_gravity_direction(fraction, gravity):
    points = Rotation.from_rotvec((0.4, -1.1, 2.0)).apply(HARE.points.copy())
    found = solve(HARE, fraction, gravity, points)
    weight = WATER * fraction * HARE.volume() * np.array(gravity)
    np.testing.assert_allclose(
        found.forces.sum(axis=0), weight, atol=1e-11 * np.linalg.norm(weight)
    )
    up = -np.array(gravity) / np.linalg.norm(gravity)
    lowest = np.full(
        len(points), np.inf
    )  # height of the lowest corner of the triangles around a node
    np.minimum.at(lowest, HARE.triangles, (points @ up)[HARE.triangles].min(axis=1, keepdims=True))
    np.testing.assert_array_equal(found.forces[lowest > found.level], 0.0)


def test_full_surface_has_forces_of_hydrostatic_load():
    found, full = (
        solve(HARE, 1.0),
        hydrostatic_load(HARE.points, HARE.triangles, density=WATER, gravity=DOWN),
    )
    np.testing.assert_allclose(found.forces, full.forces, atol=1e-12 * np.abs(full.forces).max())
    centroid = volume_properties(HARE.points, HARE.triangles).centroid
    assert found.energy == pytest.approx(WATER * G * full.volume * centroid[2], rel=1e-10)


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.7, 0.99])
def test_forces_are_minus_energy_gradient(taylor, rng, fraction):
    d, volume = 0.002 * rng.standard_normal(HARE.points.shape), fraction * HARE.volume()
    at = lambda e: solve_free_surface(
        HARE.points + e * d, HARE.triangles, volume=volume, density=WATER, gravity=(1.0, 2.0, -9.0)
    )
    assert taylor(lambda e: at(e).energy, -np.sum(at(0.0).forces * d)) == pytest.approx(
        2.0, abs=0.1
    )


def test_torque_is_that_of_the_weight_at_the_fluid_centroid():
    """The fluid in the tilted tank is a prism with a known centroid. The whole floor stays wet."""
    gravity = np.array([2.0, 0.0, -8.0])
    found = solve(TANK, 0.5, gravity)
    slope, h = (
        0.25,
        0.15,
    )  # the free surface rises by 2/8 per metre towards x = 0.2; its mean height is h
    x = 0.1 + slope * 0.2**2 / (12 * h)
    z = (h**2 + (slope * 0.2) ** 2 / 12) / (2 * h)
    weight = WATER * 0.003 * gravity
    np.testing.assert_allclose(
        np.cross(TANK.points, found.forces).sum(axis=0), np.cross((x, 0.05, z), weight), atol=1e-10
    )
    up = -gravity / np.linalg.norm(gravity)
    assert found.energy == pytest.approx(
        WATER * np.linalg.norm(gravity) * 0.003 * (up @ (x, 0.05, z)), rel=1e-10
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"volume": 0.007}, r"0.007 m\^3, but the wall encloses 0.006"),
        (
            {"volume": 0.006 * (1.0 + 1e-9)},
            r"but the wall encloses 0.006 m\^3, which is 6e-12 m\^3 less",
        ),
        ({"volume": 0.0}, "volume of the fluid is 0"),
        ({"volume": np.nan}, "volume of the fluid is nan"),
        ({"density": -1.0}, "density of the fluid is -1"),
        ({"gravity": (0.0, 0.0, 0.0)}, "gravity of the fluid is zero"),
        ({"triangles": TANK.triangles[1:]}, "leaks"),
        ({"triangles": TANK.triangles[:, ::-1]}, "point inward"),
        ({"points": TANK.points * np.nan}, "points of the wall is nan"),
    ],
)
def test_bad_fluid_volume_or_surface_raises(raises_clear_error, change, message):
    case = {
        "points": TANK.points,
        "triangles": TANK.triangles,
        "volume": 0.003,
        "density": WATER,
        "gravity": DOWN,
        **change,
    }
    raises_clear_error(
        lambda: solve_free_surface(case.pop("points"), case.pop("triangles"), **case), message
    )
