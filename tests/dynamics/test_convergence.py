"""Convergence orders: in space with a compressed column, in time with a spring pendulum."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import pliant as pl

# Space: a column between frictionless walls, compressed to a quarter of its height by its weight


HEIGHT, G = 0.5, 9.81
SOFT = pl.Material(E=2e4, nu=0.3, density=1000.0)


def column(dim, order, n):
    """Return a column whose walls hold the horizontal axes and whose floor holds the vertical
    one."""
    across, up = "xyz"[: dim - 1], "xyz"[dim - 1]
    size = (0.1,) * (dim - 1) + (HEIGHT,)
    shape, counts = (
        (pl.Box if dim == 3 else pl.geometry.Rectangle)(size=size),
        (1,) * (dim - 1) + (n,),
    )
    walls = [pl.Support(region=f"{axis}{side}", axes=axis) for axis in across for side in "-+"]
    return pl.Robot(
        shape=shape,
        divisions=counts,
        order=order,
        material=SOFT,
        gravity=(0.0,) * (dim - 1) + (-G,),
        supports=[*walls, pl.Support(region=f"{up}-", axes=up)],
    )


def exact_heights(y):
    """Return the deformed heights: integrate the stretch l with P(l) = -rho g (H - y)."""
    mu, lam = 2e4 / 2.6, 2e4 * 0.3 / (1.3 * 0.4)
    P = lambda l: mu * (l - 1 / l) + lam * np.log(l) / l
    stretch = lambda s: brentq(lambda l: P(l) + 1000.0 * G * (HEIGHT - s), 0.1, 1.0, xtol=1e-15)
    at, w = np.polynomial.legendre.leggauss(20)
    return np.array(
        [
            end / 2 * sum(wi * stretch(end / 2 * (a + 1)) for a, wi in zip(at, w, strict=True))
            for end in y
        ]
    )


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(("order", "least"), [(1, 1.9), (2, 2.7)])
def test_displacements_converge_with_element_order_plus_one(rate, dim, order, least):
    s = (np.arange(29) + 0.37) / 29 * HEIGHT  # between the nodes, where the error is larger
    exact, errors, counts = exact_heights(s), [], np.array([4, 8, 16])
    for n in counts:
        robot = column(dim, order, int(n))
        q = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0)).x.reshape(-1, dim)
        points = np.column_stack([*(np.full(s.size, 0.037) for _ in range(dim - 1)), s])
        errors.append(np.sqrt(np.mean((robot.body().locate(points) @ q[:, -1] - exact) ** 2)))
    assert least < rate(HEIGHT / counts, errors) < order + 1.3
    assert errors[-1] < {1: 1e-3, 2: 1e-4}[order] * HEIGHT


# Time: a mass on a taut one-sided spring under gravity, compared with an eighth-order integrator

MASS, SPRING, GUIDE, START = 0.5, 40.0, np.array([0.0, 0.5]), np.array([0.3, 0.0])
FREE = 0.1 * np.linalg.norm(GUIDE - START)
PULL = np.array([0.1])  # the free length relative to the rest length


def acceleration(q):
    r = q - GUIDE
    size = np.linalg.norm(r)
    return np.array([0.0, -G]) - SPRING / MASS * (size - FREE) * r / size


def pendulum(duration):
    run = solve_ivp(
        lambda t, y: [*y[2:], *acceleration(y[:2])],
        (0, duration),
        [*START, 0.4, -0.2],
        method="DOP853",
        rtol=1e-12,
        atol=1e-12,
    )
    assert (
        np.linalg.norm(run.y[:2].T - GUIDE, axis=1).min() > FREE
    )  # always taut, so the force is smooth
    return run.y[:, -1]


RULES = [(pl.ImplicitEuler, 1), (pl.SemiImplicit, 1), (pl.BDF2, 2)]


@pytest.mark.parametrize(("rule", "order"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_time_steps_converge_with_order_of_rule(rate, rule, order):
    robot = pl.Robot(
        shape=pl.PointMass(points=[START], mass_each=MASS),
        gravity=(0.0, -G),
        actuators={
            "spring": pl.Cable(points=[START], guide=GUIDE, drive="length", stiffness=SPRING)
        },
    )
    duration, counts, errors = 0.4, np.array([100, 200, 400]), []
    exact, velocity = pendulum(duration), np.array([0.4, -0.2])
    for n in counts:
        model = rule(robot, dt=duration / n)
        start = {"controls": PULL} if rule is pl.BDF2 else {}
        run = pl.simulate(model, np.tile(PULL, (n, 1)), x0=model.state(START, velocity, **start))
        end = np.concatenate(
            [model.space.position(run.states[-1]), 0.1 * model.space.velocity(run.states[-1])]
        )
        errors.append(np.linalg.norm(end - exact * [1, 1, 0.1, 0.1]))
    assert rate(duration / counts, errors) == pytest.approx(order, abs=0.15)


MOTIONS = {
    "fixed": lambda t: np.zeros(2),
    "accelerated": lambda t: np.array([0.0, 2.0 * t**2]),
}


@pytest.mark.parametrize("motion", MOTIONS)
def test_bdf2_is_second_order_from_rest_under_gravity(rate, motion):
    """The mesh of a damped clamped beam is so coarse that the time steps resolve its modes.

    The errors are the differences between successive refinements."""
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.3, 0.06)),
        divisions=(4, 1),
        material=pl.Material(E=3e4, nu=0.3),
        gravity=(0.0, -G),
        supports=[pl.Support(region="x-", motion=MOTIONS[motion])],
        damping=pl.Damping(mass=1.0, stiffness=0.01),
    )
    duration, counts, ends = 0.08, np.array([16, 32, 64, 128]), []
    for n in counts:
        model = pl.BDF2(robot, dt=duration / n)
        ends.append(model.space.position(pl.simulate(model, np.zeros((n, 0))).states[-1]))
    errors = [np.linalg.norm(a - b) for a, b in pairwise(ends)]
    assert rate(duration / counts[:-1], errors) == pytest.approx(2.0, abs=0.15)
