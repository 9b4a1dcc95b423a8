"""Slender beams compared with Timoshenko's theory and the elastica."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp

import pliant as pl
from pliant.materials import LAWS

E = 1e6


def tip_of_cantilever(*, length, depth, force, divisions, order=2, nu=0.0, law="neo-hookean"):
    """Return the displacement (3,) [m] of the loaded end of a clamped square beam."""
    robot = pl.Robot(
        shape=pl.Box(size=(length, depth, depth)),
        divisions=divisions,
        order=order,
        material=pl.Material(E=E, nu=nu, law=law),
        supports=(pl.Support(region="x-"),),
        loads=(pl.SurfaceLoad(surface="x+", traction=(0.0, 0.0, -force / depth**2)),),
        effectors={"tip": pl.Effector(surface="x+")},
    )
    q = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0)).x
    moved = (q - robot.body().rest).reshape(-1, 3)
    return np.ravel(robot.effectors["tip"].attach(robot.body()) @ moved)


def timoshenko(length, depth, force, nu):
    """Return the deflection by bending and shear, with Cowper's coefficient of a rectangle."""
    I, A, G, k = depth**4 / 12, depth**2, E / (2 * (1 + nu)), 10 * (1 + nu) / (12 + 11 * nu)
    return force * length**3 / (3 * E * I) + force * length / (k * G * A)


def elastica(load):
    """Return the tip position (x, y) / L of a cantilever for load = P L^2 / E I.

    It solves theta'' = -load cos(theta), clamped at the start and free at the end."""
    field = lambda s, y: np.array([y[1], -load * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])])
    ends = lambda a, b: np.array([a[0], b[1], a[2], a[3]])
    solution = solve_bvp(
        field, ends, np.linspace(0, 1, 50), np.zeros((4, 50)), tol=1e-9, max_nodes=100_000
    )
    assert solution.success
    return solution.y[2:, -1]


@pytest.mark.parametrize(
    ("slender", "nu", "within"), [(5, 0.0, 0.005), (10, 0.0, 0.002), (10, 0.3, 0.02)]
)
def test_cantilever_deflection_matches_timoshenko(slender, nu, within):
    """The deflection is 1 % of the length, so nonlinear effects are about 1e-4.

    With nu = 0 the clamp agrees with the theory. With nu > 0 the clamp prevents the transverse
    contraction, which stiffens the beam over about its depth."""
    depth, length = 0.1, 0.1 * slender
    force = 0.01 * 3 * E * depth**4 / 12 / length**2
    tip = tip_of_cantilever(
        length=length, depth=depth, force=force, divisions=(2 * slender, 2, 2), nu=nu
    )
    assert -tip[2] == pytest.approx(timoshenko(length, depth, force, nu), rel=within)
    assert tip[1] == pytest.approx(0.0, abs=1e-6 * abs(tip[2]))


@pytest.mark.parametrize("law", LAWS)
def test_long_strip_matches_elastica(law):
    """At P L^2 / E I = 3 the tip deflects by 60 % of the length. Strains stay under 6 %, where all
    laws agree with Hooke's law."""
    length, depth, load = 1.0, 0.05, 3.0
    force = load * E * depth**4 / 12 / length**2
    tip = tip_of_cantilever(
        length=length, depth=depth, force=force, divisions=(40, 1, 1), nu=0.3, law=law
    )
    x, y = elastica(load)
    assert y == pytest.approx(0.603, abs=1e-3)  # Bisshopp and Drucker 1945
    assert -tip[2] / length == pytest.approx(y, rel=0.02)
    assert -tip[0] / length == pytest.approx(1.0 - x, rel=0.02)


def test_four_node_cells_lock_and_ten_node_cells_do_not():
    depth, length = 0.1, 1.0
    force = 0.01 * 3 * E * depth**4 / 12 / length**2
    right = timoshenko(length, depth, force, 0.0)
    linear, quadratic = (
        -tip_of_cantilever(
            length=length, depth=depth, force=force, divisions=(20, 1, 1), order=order
        )[2]
        for order in (1, 2)
    )
    assert linear < 0.5 * right
    assert quadratic == pytest.approx(right, rel=0.02)
