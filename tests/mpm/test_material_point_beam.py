"""A clamped beam of particles: its static deflection and first frequency converge to those of
finite elements."""

import numba
import numpy as np
import pytest
from particle_scenes import box

import pliant as pl

DEPTH, E, RHO = 0.025, 1e5, 1000.0


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread, because a few thousand particles are too few for two."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def beam(dim, length, gravity, damping=0.0):
    """Return a square bar along x, held at the left.

    Its weight bends it by some hundredths of its length."""
    size = (length, *(dim - 1) * [DEPTH])
    return pl.Robot(
        shape=box(size),
        divisions=(16, 4) if dim == 2 else (16, 2, 2),
        material=pl.Material(E=E, nu=0.3, density=RHO),
        supports=[pl.Support(region="x-")],
        gravity=(*(dim - 1) * [0.0], gravity),
        damping=pl.Damping(mass=damping),
        effectors={"tip": pl.Effector(surface="x+")},
    )


def deflection(model, x):
    """Return the mean vertical displacement [m] of the free end."""
    return (
        model.effector_rows("tip")
        @ (model.space.position(x) - model.space.position(model.initial_state()))
    )[-1]


def run(model, steps):
    return pl.simulate(model, np.zeros((steps, 0))).states


def turns(model, steps):
    """Return the times [s] at which the free end reverses."""
    v = np.diff([deflection(model, x) for x in run(model, steps)])
    k = np.flatnonzero(v[1:] * v[:-1] < 0.0)
    return model.dt * (k + 0.5 + v[k] / (v[k] - v[k + 1]))


@pytest.mark.parametrize(
    ("dim", "length", "gravity", "cells", "steps"),
    [(2, 0.1, -1.5, (2, 4, 6), 20), (3, 0.2, -0.12, (2, 3, 4), 60)],
)
def test_static_deflection_converges_to_finite_elements(rate, dim, length, gravity, cells, steps):
    """Mass damping brings the bar to rest in little more than a period.

    On a grid of cells h a clamp acts a quarter of a cell behind its surface, where the spline of
    the first free node is zero. The bar has the effective length L + h/4 and its deflection is too
    large by about h/L."""
    model = pl.Quasistatic(beam(dim, length, gravity))
    exact = deflection(model, pl.equilibrium(model, np.zeros(0)).x)
    assert 0.02 < -exact / length < 0.05
    frequency = 3.516 * np.sqrt(E * DEPTH**2 / (12.0 * RHO)) / length**2
    robot, errors = beam(dim, length, gravity, damping=1.4 * frequency), []
    for count in cells:
        model = pl.MaterialPoint(robot, dt=0.02, cell=DEPTH / count)
        errors.append(deflection(model, run(model, steps)[-1]) / exact - 1.0)
    share = DEPTH / np.array(cells) / length
    assert errors[0] > errors[1] > errors[2] > 0.0
    assert rate(share, errors) > 0.9
    assert errors[2] < 0.05
    np.testing.assert_allclose(errors, share, rtol=0.75)
    assert (
        abs(errors[2] - share[2] * (errors[1] - errors[2]) / (share[1] - share[2])) < 0.02
    )  # the extrapolated error at h = 0


def test_first_frequency_converges_to_finite_elements():
    """A released beam oscillates about its static deflection and reverses every half period."""
    robot = beam(2, 0.1, -1.5)
    exact = turns(pl.BDF2(robot, dt=0.002), 130)[1]
    periods = [
        turns(pl.MaterialPoint(robot, dt=0.004, cell=DEPTH / count), 70)[1] for count in (2, 4, 6)
    ]
    errors = np.array(periods) / exact - 1.0
    assert errors[0] > errors[1] > errors[2] > 0.0
    assert errors[2] < 0.03
    thin = (
        2.0 * np.pi / 3.516 * np.sqrt(12.0 * RHO * (1.0 - 0.3**2) / E) * 0.1**2 / DEPTH
    )  # Euler and Bernoulli's, without shear, which is 3 % here
    assert periods[2] == pytest.approx(thin, rel=0.08)
