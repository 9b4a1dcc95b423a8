"""Controllers of a swimming robot: gradients through its pose on SE(3), training and namespaces."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pliant.learning import (
    MLP,
    PPO,
    ClosedLoop,
    ControlTask,
    PartObserver,
    PolicyGradient,
    SineGait,
    certify_controller,
    train,
)
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.problem import Effort, Reward
from pliant.swimming import SwimmerModel

sys.path.append(str(Path(__file__).parents[1] / "swimming"))
from swimming_robots import POINTS, eel

OBSERVER = PartObserver(parts=("angles", "orientation", "momentum"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a file of added masses, which all models here use."""
    return tmp_path_factory.mktemp("swimmer") / "added-mass"


def swimmer(store, **options):
    return SwimmerModel(eel(), dt=0.02, cell=0.4, points=POINTS, store=store, **options)


def swim(steps):
    """Return the task to move forward along x with little effort."""
    forward = Reward(effector="centre of mass", direction=(1.0, 0.0, 0.0), time=steps * 0.02)
    return ControlTask(steps=steps, terms=[forward, Effort(weight=1.0)])


def network(model):
    made = MLP.for_model(model, OBSERVER, hidden=(6,))
    rng = np.random.default_rng(3)
    return made.with_weights(made.params.flat + 0.3 * rng.standard_normal(made.params.size))


def test_gradient_of_100_steps_agrees_with_differences(store):
    model = swimmer(store)
    found = LoopEpisodes.draw(
        ClosedLoop(model, OBSERVER, network(model)), swim(100), count=1, seed=0
    )
    w = found.loop.controller.params.flat
    performance, g = found.gradient(w, 100)
    assert not performance.failed
    d = np.random.default_rng(0).standard_normal(len(w))
    h = 1e-5
    costs = [found.performance(w + sign * h * d).cost for sign in (1.0, -1.0)]
    assert g @ d == pytest.approx((costs[0] - costs[1]) / (2.0 * h), rel=1e-5)


def test_gait_learns_to_swim_faster(store):
    """The gait starts as a travelling wave, which is the motion of a fish."""
    gait = SineGait(n_controls=2, amplitude=0.01, frequency=1.0, phase=(0.0, -1.0))
    loop = ClosedLoop(swimmer(store), None, gait)
    task = ControlTask(
        steps=100,
        terms=[Reward(effector="centre of mass", direction=(1.0, 0.0, 0.0)), Effort(weight=1.0)],
    )
    result = train(loop, task, PolicyGradient(rate=0.002), iterations=15)
    assert result.mean_return > result.history[0].mean_return
    certificate = certify_controller(result, points=3)
    assert certificate.step_error < 1e-3
    assert certificate.exact_return == pytest.approx(result.mean_return, rel=0.05)


def test_ppo_of_seeds_on_one_store_is_that_of_each_alone(store, tmp_path):
    pytest.importorskip("stable_baselines3")
    small = PPO(steps=64, environments=4, batch=32, epochs=1, threads=1)

    def run(path, seed):
        model = swimmer(path, namespace=f"seed-{seed}")
        loop = ClosedLoop(model, OBSERVER, MLP.for_model(model, OBSERVER, hidden=(6,), seed=seed))
        return train(loop, swim(20), small, iterations=2, seed=seed)

    together = {seed: run(tmp_path / "shared", seed) for seed in (0, 1)}
    alone = run(tmp_path / "alone", 1)
    np.testing.assert_array_equal(together[1].weights, alone.weights)
    assert [row.mean_return for row in together[1].history] == [
        row.mean_return for row in alone.history
    ]


@pytest.mark.parametrize("spread", [{"angles": 0.1}, {"angles": 0.1, "momentum": 0.01}])
def test_spread_of_a_swimmer_moves_its_effectors(spread, store):
    model = swimmer(store)
    task = ControlTask(steps=2, terms=[Effort(weight=1.0)], spread=spread)
    x = task.initial_state(model, np.random.default_rng(2))
    parts = model.space.split(x)
    assert np.abs(parts.angles).min() > 0.01
    expected = model.state(
        root=parts.root,
        orientation=parts.orientation,
        angles=parts.angles,
        velocities=model.velocities(x),
    )
    np.testing.assert_allclose(x, expected, atol=1e-12)


def test_spread_of_effectors_of_a_swimmer_is_refused(store, raises_clear_error):
    task = ControlTask(steps=2, terms=[Effort(weight=1.0)], spread={"position": 0.1})
    raises_clear_error(
        lambda: task.initial_state(swimmer(store), np.random.default_rng(2)),
        "follows from the other parts of the state; give one of root, orientation, angles",
    )


@pytest.mark.parametrize(
    ("other", "pattern"),
    [
        ({"points": POINTS + 20}, "another exact map of the model"),
        ({"cell": 0.2}, "another cell of the model"),
        ({"method": "rk4"}, "another method of the model"),
    ],
)
def test_training_on_a_model_of_other_accuracy_is_not_resumed(
    other, pattern, store, tmp_path, raises_clear_error
):
    def resumed(resume, iterations, **options):
        model = SwimmerModel(
            eel(),
            store=store,
            **{"dt": 0.02, "cell": 0.4, "method": "euler", "points": POINTS, **options},
        )
        observer = PartObserver(parts=("angles",))
        network = MLP.for_model(model, observer, hidden=(4,), scale=1e-3)
        closed = ClosedLoop(model, observer, network)
        task = ControlTask(steps=2, terms=[Effort(weight=1.0)])
        return train(closed, task, iterations=iterations, folder=tmp_path, resume=resume)

    resumed(False, 1)
    raises_clear_error(lambda: resumed(True, 2, **other), pattern)
    assert len(resumed(True, 2).history) == 3
