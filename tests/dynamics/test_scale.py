"""Memory of large models is almost proportional to the number of unknowns."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import pliant as pl

DIVISIONS = ((6, 6, 6), (10, 10, 10))  # 1,029 and 3,993 unknowns


def _block(divisions: tuple[int, int, int]) -> pl.Robot:
    return pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1)).mesh(divisions=divisions),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=[pl.Support(region="z-")],
    )


def _peak_bytes(work: Callable[[], object]) -> int:
    """Return the peak memory of NumPy during a call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _set_up(robot: pl.Robot) -> None:
    pl.Quasistatic(robot)


def _step_and_derivative(make: Callable[[pl.Robot], pl.core.Linearizable]):
    def work(robot: pl.Robot) -> None:
        model = make(robot)
        step = model.step(model.initial_state(), np.zeros(0))
        model.pullback(step, np.ones_like(step.x))

    return work


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(_set_up, id="set-up"),
        pytest.param(_step_and_derivative(pl.Quasistatic), id="quasistatic"),
        pytest.param(
            _step_and_derivative(lambda robot: pl.ImplicitEuler(robot, dt=0.01)), id="implicit"
        ),
        pytest.param(
            _step_and_derivative(lambda robot: pl.SemiImplicit(robot, dt=0.01)), id="semi-implicit"
        ),
    ],
)
def test_memory_grows_almost_linearly_with_unknowns(work):
    robots = [_block(divisions) for divisions in DIVISIONS]
    unknowns = [3 * robot.shape.n_points for robot in robots]
    work(_block(DIVISIONS[0]))  # compile first
    peaks = [_peak_bytes(lambda robot=robot: work(robot)) for robot in robots]
    exponent = np.log(peaks[1] / peaks[0]) / np.log(unknowns[1] / unknowns[0])
    assert exponent < 1.4
    assert peaks[1] < 0.5 * 8 * unknowns[1] ** 2
