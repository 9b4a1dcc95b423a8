"""One clamped beam as particles and as finite elements: its static deflection and its first
frequency agree, the better the finer."""

import numba
import numpy as np
import pytest
from particle_scenes import box

import pliant as pl

DEPTH, E, RHO = 0.025, 1e5, 1000.0


@pytest.fixture(autouse=True)
def one_thread():
    """A few thousand particles are too few for two threads on a busy machine."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def beam(dim, length, gravity, damping=0.0):
    """A square bar along x, held at the left, under a weight that bends it by some hundredths of
    its length."""
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
    """[m] how far the mean of the free end went up."""
    return (
        model.effector_rows("tip")
        @ (model.space.position(x) - model.space.position(model.initial_state()))
    )[-1]


def run(model, steps):
    return pl.simulate(model, np.zeros((steps, 0))).states


def turns(model, steps):
    """[s] when the free end turns back."""
    v = np.diff([deflection(model, x) for x in run(model, steps)])
    k = np.flatnonzero(v[1:] * v[:-1] < 0.0)
    return model.dt * (k + 0.5 + v[k] / (v[k] - v[k + 1]))


@pytest.mark.parametrize(
    ("dim", "length", "gravity", "cells", "steps"),
    [(2, 0.1, -1.5, (2, 4, 6), 20), (3, 0.2, -0.12, (2, 3, 4), 60)],
)
def test_the_static_deflection_converges_to_that_of_finite_elements(
    rate, dim, length, gravity, cells, steps
):
    """Mass damping brings it to rest in little more than a period. On a grid of cells h a clamp
    acts a quarter of a cell behind its surface, where the spline of the first free node is zero, so
    that the bar is L + h/4 long and bends about h/L too far."""
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
    )  # what is left at h = 0


def test_the_first_frequency_converges_to_that_of_finite_elements():
    """A beam let go swings about its static deflection and turns back after every half period."""
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
