"""The adjoint of MaterialPoint: Taylor tests by every input over 200 substeps with every boundary
condition, and bit-identical results for every checkpoint schedule and number of threads."""

import tracemalloc
from dataclasses import replace

import numba
import numpy as np
import pytest
from contact_scenes import SCALES, SCENES, directions, scene, taylor

import pliant as pl
from pliant.core import InputError
from pliant.planners.checkpoints import retained_bytes

every_dim = pytest.mark.parametrize("dim", [2, 3])


# Taylor's test


@every_dim
@pytest.mark.parametrize("name", SCENES)
def test_gradient_by_every_input_passes_taylor_test_over_200_substeps_with_contact(
    rng, rate, dim, name
):
    model, x, U = scene(dim, name)
    p, n = model.params.flat, model.space.starts
    weights = np.concatenate(
        [rng.standard_normal(n[k + 1] - n[k]) / (10.0 * s) for k, s in enumerate(SCALES.values())]
    )
    rollout = pl.simulate(model, U, x0=x, p=p, keep=True)
    assert len(U) * model.substeps == 200
    free = replace(model, robot=replace(model.robot, contacts=()), design=())
    assert (
        np.abs(pl.simulate(free, U, x0=x).states[-1] - rollout.states[-1])[: n[1]].max() > 1e-3
    )  # [m] the boundary conditions have an effect
    by_x, by_u, by_p = pl.pullback(model, rollout, weights)
    for what, (dx, dU, dp) in directions(model, x, U, rng).items():
        f = lambda e, d=(dx, dU, dp): (
            weights @ pl.simulate(model, U + e * d[1], x0=x + e * d[0], p=p + e * d[2]).states[-1]
        )
        order, error = taylor(f, by_x @ dx + np.sum(by_u * dU) + by_p @ dp, rate)
        assert order == pytest.approx(2.0, abs=0.1), what
        assert error < 1e-5, what


# One gradient for every memory limit and number of threads


def taken(dim, **options):
    """Return (model, step, gradient by the last state) after a few steps with all actuators and a
    contact."""
    model, x, U = scene(dim, "friction terrain")
    model = replace(model, **options)
    x = pl.simulate(model, U[:4], x0=x).states[-1]
    return model, model.step(x, U[4]), np.random.default_rng(3).standard_normal(x.size)


def least_memory(dim):
    """Return the least memory [bytes] that the error for too little memory reports."""
    with pytest.raises(InputError, match="give memory=") as caught:
        (found := taken(dim, memory=1.0))[0].pullback(*found[1:])
    return int(str(caught.value).split("memory=")[1].split()[0])


@every_dim
def test_every_checkpoint_schedule_is_bit_identical(dim):
    least = least_memory(dim)
    model, step, bar = taken(dim)
    expected = np.concatenate(model.pullback(step, bar))
    for memory in (least, 1.5 * least, 3 * least, 10 * least, 1e12, np.inf):
        model, step, bar = taken(dim, memory=memory)
        np.testing.assert_array_equal(np.concatenate(model.pullback(step, bar)), expected)
    with pytest.raises(InputError, match=f"give memory={least} or more"):
        (found := taken(dim, memory=least - 1))[0].pullback(*found[1:])


@every_dim
@pytest.mark.parametrize("transfer", ["updated", "total"])
def test_stored_substeps_give_the_same_bits_without_a_second_simulation(dim, transfer, monkeypatch):
    model, x, U = scene(dim, "friction terrain", transfer)
    stored = replace(model, store_substeps=True)
    step, same = model.step(x, U[4]), stored.step(x, U[4])
    bar = np.random.default_rng(3).standard_normal(x.size)
    expected, substeps = np.concatenate(model.pullback(step, bar)), model.taped_substeps(step)
    name = "_advance" if transfer == "updated" else "_substep"
    monkeypatch.setattr(type(substeps), name, None)  # no substep can be simulated any more
    np.testing.assert_array_equal(same.x, step.x)
    for _ in range(2):  # a pullback does not modify the stored substeps
        np.testing.assert_array_equal(np.concatenate(stored.pullback(same, bar)), expected)


def test_memory_of_a_step_counts_its_stored_substeps():
    model, x, U = scene(2, "friction terrain")
    sizes = [
        retained_bytes(one.step(x, U[0]).tape, without=one)
        for one in (model, replace(model, store_substeps=True))
    ]
    assert sizes[1] - sizes[0] > model.substeps * x.nbytes


def test_store_substeps_that_is_no_truth_value_is_an_error():
    model, _, _ = scene(2, "friction terrain")
    with pytest.raises(InputError, match="give True or False"):
        replace(model, store_substeps=2)


def held(**options):
    """Return the peak memory [bytes] of a pullback over 60 substeps of 8,100 particles.

    The first value is measured, the second is reported by the model."""
    block = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.3, 0.3)),
        material=pl.Material(E=1e4, nu=0.3),
        order=1,
        divisions=(2, 2),
    )
    model = pl.MaterialPoint(block, dt=0.02, cell=1 / 150, substeps=60, **options)
    step, bar = model.step(model.initial_state(), np.zeros(0)), np.ones(model.space.size)
    model.pullback(step, bar)  # compiles
    model.tape_memory.free.clear()
    tracemalloc.start()
    try:
        model.pullback(step, bar)
        return tracemalloc.get_traced_memory()[1], model.peak_bytes(step)
    finally:
        tracemalloc.stop()


def test_pullback_memory_is_within_the_reported_bound():
    state = 8 * 8100 * 12
    for memory in (14 * state, 30 * state):
        counted, said = held(memory=memory)
        assert (
            0.85 * memory < counted < 1.05 * memory
        )  # additional memory: the sorted particles on the grid
        assert counted == pytest.approx(said, rel=0.05)
    single, double = held(precision="float32"), held()
    assert single[0] < 0.55 * double[0]
    assert (
        0.85 * double[1] < double[0] < 1.05 * double[1]
    )  # an upper bound: the longest segment does not keep all states


def test_single_precision_gradient_is_close_to_double_precision():
    (model, step, bar), (single, its, _) = taken(2), taken(2, precision="float32")
    full, half = (np.concatenate(m.pullback(s, bar)) for m, s in ((model, step), (single, its)))
    assert np.linalg.norm(half - full) < 1e-3 * np.linalg.norm(full)


@every_dim
def test_gradient_is_bit_identical_for_every_thread_count(dim):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("this machine has one thread")
    model, step, bar = taken(dim, substeps=8)
    before, found = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            sweep = model.taped_substeps(step)  # a step uses one thread for so few particles
            found.append([sweep.forward(step.tape.x)[0], *sweep.backward(step.tape.x, bar)])
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_repeated_pullback_is_bit_identical_and_does_not_modify_the_step():
    model, step, bar = taken(3)
    kept = [part.copy() for part in (step.x, step.tape.x, step.tape.u, bar)]
    first, second = model.pullback(step, bar), model.pullback(step, bar)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    for part, before in zip((step.x, step.tape.x, step.tape.u, bar), kept, strict=True):
        np.testing.assert_array_equal(part, before)
