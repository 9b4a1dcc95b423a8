"""Analytic policy gradients are derivatives of whole episodes, and training lowers their cost."""

from dataclasses import replace

import numpy as np
import pytest
from models import fem, latent, reach
from point import OBSERVER, Point, go_there, loop

import pliant as pl
from pliant.core import InputError, StepError
from pliant.learning import (
    MLP,
    ClosedLoop,
    CosineRate,
    EffectorObserver,
    PolicyGradient,
    SineGait,
    train,
)
from pliant.learning.loop_episodes import LoopEpisodes


def episodes(loop, task, count=2):
    return LoopEpisodes.draw(loop, task, count=count, seed=1)


def directional(found, w, direction, h):
    """Return the central difference of the mean cost along a direction."""
    return (
        found.performance(w + h * direction).cost - found.performance(w - h * direction).cost
    ) / (2.0 * h)


def checked_gradient(found, w, tapes, h, tolerance):
    """Assert that the gradient agrees with central differences along random directions."""
    performance, g = found.gradient(w, tapes)
    assert performance.cost == found.performance(w).cost
    rng = np.random.default_rng(0)
    for _ in range(3):
        d = rng.standard_normal(len(w))
        assert g @ d == pytest.approx(directional(found, w, d, h), rel=tolerance)


def test_gradient_of_120_steps_agrees_with_differences():
    task = go_there(steps=120, spread={"position": 0.5})
    found = episodes(loop(), task)
    w = found.loop.controller.params.flat
    w = w + 0.1 * np.random.default_rng(2).standard_normal(len(w))  # away from zero controls
    checked_gradient(found, w, 120, 1e-6, 1e-6)


@pytest.mark.parametrize("model", [fem, latent], ids=["FEM", "latent"])
def test_gradient_through_a_robot_of_100_steps_agrees_with_differences(model):
    made = model()
    observer = EffectorObserver()
    closed = ClosedLoop(made, observer, MLP.for_model(made, observer, hidden=(6,)))
    found = episodes(closed, reach(steps=100))
    checked_gradient(found, found.loop.controller.params.flat, 10, 1e-4, 1e-4)


def test_number_of_stored_steps_changes_no_bit():
    found = episodes(loop(), go_there(steps=23, spread={"velocity": 0.3}))
    w = found.loop.controller.params.flat
    (first, g), *others = [found.gradient(w, tapes) for tapes in (23, 1, 4, 22)]
    for performance, again in others:
        assert performance.cost == first.cost
        np.testing.assert_array_equal(again, g)


def test_memory_limits_the_stored_steps():
    found = episodes(loop(), go_there())
    assert found.tape_limit(1.0) == 1
    assert 1 < found.tape_limit(2e4) < 50
    assert found.tape_limit(1e9) == 50


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_training_lowers_the_cost_fivefold(optimiser):
    result = train(
        loop(), go_there(), PolicyGradient(optimiser=optimiser, rate=0.02), iterations=40
    )
    assert result.status.ok
    assert result.history[0].mean_return == pytest.approx(-2.5)  # untrained: no force
    assert result.mean_return > -2.5 / 5.0
    assert result.mean_return == max(row.mean_return for row in result.history)
    assert result.history[0].steps == 0
    assert result.steps >= 40 * 50


def test_trained_feedback_beats_the_best_constant_thrust():
    """Only a feedback brakes in time. The best constant control is found by a fine search."""
    task = go_there()
    problem = task.problem(Point())
    constant = min(
        pl.planners.evaluate(problem, np.full((50, 1), u)).cost for u in np.linspace(-1, 1, 201)
    )
    result = train(loop(), task, PolicyGradient(rate=0.02), iterations=40)
    assert -result.mean_return < 0.8 * constant


def test_gait_without_observer_is_trained():
    swing = ClosedLoop(Point(), None, SineGait(n_controls=1, amplitude=0.3, frequency=0.2))
    result = train(swing, go_there(), PolicyGradient(rate=0.02), iterations=30)
    assert result.mean_return > 0.8 * result.history[0].mean_return


def test_training_is_bitwise_reproducible():
    task = go_there(spread={"position": 0.5})
    results = [train(loop(), task, iterations=5, seed=3) for _ in range(2)]
    np.testing.assert_array_equal(results[0].weights, results[1].weights)
    other = train(loop(), task, iterations=5, seed=4)
    assert other.mean_return != results[0].mean_return


def test_step_to_a_failed_episode_is_taken_back():
    """With a wall close behind the target, a large rate hits it. The best weights do not."""
    near = loop(Point(wall=1.5))
    result = train(near, go_there(failure_cost=100.0), PolicyGradient(rate=0.5), iterations=30)
    assert any(row.failed for row in result.history)
    assert result.status.ok
    assert result.mean_return > result.history[0].mean_return
    assert not any(episode.failed for episode in result.replay())


def test_first_episode_that_fails_is_reported():
    task = go_there(x0=np.array([1.4, 5.0]))
    with pytest.raises(StepError, match="the point hit the wall"):
        train(loop(Point(wall=1.5)), task, iterations=1)


def test_cosine_rate_ends_at_its_last_factor():
    schedule = CosineRate(iterations=10, last=0.1)
    assert schedule(0) == 1.0
    assert schedule(5) == pytest.approx(0.55)
    assert schedule(10) == schedule(99) == pytest.approx(0.1)
    task = go_there()
    free = train(loop(), task, PolicyGradient(rate=0.02), iterations=6)
    slow = train(loop(), task, PolicyGradient(rate=0.02, schedule=schedule), iterations=6)
    assert free.history[1].mean_return == slow.history[1].mean_return
    assert free.history[-1].mean_return != slow.history[-1].mean_return


def test_large_gradient_is_clipped():
    """One episode near the wall of a stiff task has a large gradient; clipped, it moves Adam's
    running means less."""
    found = episodes(loop(), go_there(), count=1)
    moved = []
    for clip in (1e9, 1e-3):
        trainer = PolicyGradient(clip=clip).trainer(found, found.loop.controller.params.flat, 0)
        trainer.first()
        trainer.iterate()
        trainer.gradient = 1e6 * trainer.gradient
        before = trainer.moments.mean.copy()
        trainer.iterate()
        moved.append(np.linalg.norm(trainer.moments.mean - before))
    assert moved[1] < 1e-6 * moved[0]


def test_interrupt_keeps_the_best_weights():
    def stop(what, done, total):
        if done == 7:
            raise KeyboardInterrupt

    result = train(loop(), go_there(), iterations=50, progress=stop)
    assert result.interrupted
    assert not result.status.ok
    assert "interrupted" in result.status.text
    assert len(result.history) == 8
    assert result.mean_return == max(row.mean_return for row in result.history)


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (lambda: PolicyGradient(optimiser="adem"), "no optimiser 'adem'"),
        (lambda: PolicyGradient(rate=0.0), "rate"),
        (lambda: PolicyGradient(clip=-1.0), "clip"),
        (lambda: PolicyGradient(memory=np.nan), "memory"),
        (lambda: PolicyGradient(schedule=0.5), "schedule"),
        (lambda: CosineRate(iterations=0), "iterations"),
        (lambda: CosineRate(iterations=5, last=2.0), "last factor"),
        (lambda: train(Point(), go_there()), "The loop"),
        (lambda: train(loop(), 3), "The task"),
        (lambda: train(loop(), go_there(), "adam"), "no training method"),
        (lambda: train(loop(), go_there(), 5), "The method of training"),
        (lambda: train(loop(), go_there(), iterations=0), "iterations"),
        (lambda: train(loop(), go_there(), seed=-1), "seed"),
        (lambda: train(loop(), go_there(), resume=True), "folder"),
        (
            lambda: train(loop(), go_there(spread={"position": 1.0}), PolicyGradient(episodes=0)),
            "episodes",
        ),
    ],
)
def test_invalid_argument_is_named(make, pattern, raises_clear_error):
    raises_clear_error(make, pattern)


def test_model_without_pullback_is_refused():
    class Opaque:
        """A point without derivatives."""

        def __init__(self, point):
            for name in (
                "space",
                "n_controls",
                "params",
                "dt",
                "control_limits",
                "neutral_controls",
                "effector_rows",
                "initial_state",
                "step",
            ):
                setattr(self, name, getattr(point, name))

    opaque = replace(loop(), model=Opaque(Point()))
    assert opaque.observer is OBSERVER
    with pytest.raises(InputError, match="pullback"):
        train(opaque, go_there(), iterations=1)
