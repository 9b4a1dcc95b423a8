"""Algorithm 1 for controllers, certificates of closed loops, seeds in parallel, and reports."""

import json
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from models import latent, reach
from point import OBSERVER, Point, go_there, loop, policy
from refinable_point import DRAG, SurrogatePoint, drag

import pliant as pl
from pliant.core import InputError, Status, StepError
from pliant.learning import (
    MLP,
    PPO,
    ClosedLoop,
    EffectorObserver,
    PolicyGradient,
    certify_controller,
    train,
    train_refined,
    train_seeds,
)
from pliant.surrogate import Corners, Grid

SMALL = PPO(steps=128, environments=4, batch=32, epochs=2, threads=1)
GRADIENT = PolicyGradient(rate=0.02)


def coarse_loop(cell=2.0):
    return loop(SurrogatePoint.on_cell(cell))


def test_each_level_halves_the_cell_and_starts_from_the_weights_before():
    found = train_refined(coarse_loop(), go_there(), GRADIENT, eta=0.5, iterations=8)
    assert [level.cell for level in found.levels] == [2.0, 1.0, 0.5]
    first = [level.result.history[0].mean_return for level in found.levels]
    assert first[0] == pytest.approx(-2.5, rel=0.01)
    # the surrogates differ little, so a level begins where the one before ended
    for before, start in zip(found.levels, first[1:], strict=False):
        assert start == pytest.approx(before.result.history[-1].mean_return, rel=0.02)
    steps = [level.result.history[0].steps for level in found.levels]
    assert steps == sorted(steps)
    assert steps[1] > 0
    assert found.result.mean_return > -0.6
    evaluations = [level.evaluations for level in found.levels]
    assert evaluations == sorted(evaluations)
    assert found.evaluations == evaluations[-1] < 30
    # the history tells when they were made
    counts = [row.evaluations for level in found.levels for row in level.result.history]
    assert counts == sorted(counts)
    assert counts[0] > 0
    assert counts[-1] == found.evaluations


def test_certificate_finds_the_error_of_the_closed_loop():
    """The exact model is known: the error of a replay is measured here independently."""
    found = train_refined(coarse_loop(), go_there(), GRADIENT, eta=0.5, iterations=4)
    certificate = found.certificate
    exact = ClosedLoop(SurrogatePoint(None), OBSERVER, found.result.controller)
    run = train(exact, go_there(), iterations=1).history[0]  # the first weights are those found
    assert certificate.exact_return == pytest.approx(run.mean_return, rel=1e-12)
    assert certificate.surrogate_return == pytest.approx(found.result.mean_return, rel=1e-12)
    a, b = (pl.simulate(one, np.zeros((50, 0))).states for one in (found.result.loop, exact))
    assert certificate.effector_error == pytest.approx(np.abs(a[:, 0] - b[:, 0]).max(), rel=1e-9)
    assert 0.0 < certificate.step_error < 1e-3
    assert certificate.replay_evaluations == 50  # one for each step
    assert len(certificate.lines()) > 4


class StuckPoint(SurrogatePoint):
    """A point whose exact model cannot pass 0.2."""

    def replay_model(self, x):
        return StuckPoint(None), np.array(x)

    def step(self, x, u, p=None, k=0):
        step = super().step(x, u, p, k)
        blocked = self.grid is None and step.x[0] > 0.2
        return replace(step, status=Status(ok=False, text="a wall")) if blocked else step


def test_failed_replay_of_a_controller_tells_the_reason_and_its_evaluations():
    model = StuckPoint(SurrogatePoint.on_cell(1.0).grid)
    result = train(loop(model), go_there(), GRADIENT, iterations=20)
    certificate = certify_controller(result)
    passed = int(np.argmax(result.replay(model)[0].states[:, 0] > 0.2))  # the step that is blocked
    assert certificate.exact_return is None
    assert certificate.replay_failed == f"step {passed - 1}: a wall"
    assert certificate.replay_evaluations == passed
    assert f"failed (step {passed - 1}: a wall) on replay" in certificate.lines()[0]


def budgeted(budget, cell=0.5):
    return loop(SurrogatePoint(Grid(Corners(drag, dim=1, budget=budget), cell=cell)))


@pytest.mark.parametrize("method", [GRADIENT, SMALL], ids=["gradient", "ppo"])
def test_spent_budget_ends_a_training_with_its_reason(method):
    if method is SMALL:
        pytest.importorskip("stable_baselines3")
    result = train(budgeted(3), go_there(), method, iterations=30)
    assert "The budget of 3 exact evaluations is spent" in result.status.text
    assert 1 < len(result.history) <= 31
    assert result.history[-1].evaluations <= 3
    assert result.status.ok  # the best weights are those of an episode that did not fail
    assert "The budget of 3 exact evaluations is spent" in result.summary()


def test_budget_below_one_episode_cannot_start():
    with pytest.raises(StepError, match=r"cannot start\. The budget of 2 exact evaluations"):
        train(budgeted(2), go_there(spread={"velocity": 1.0}), GRADIENT, iterations=1)


def test_spent_budget_keeps_the_coarser_levels():
    found = train_refined(budgeted(3, cell=2.0), go_there(), GRADIENT, eta=0.5, iterations=2)
    assert len(found.levels) < 3
    assert "budget of 3 exact evaluations is spent" in found.certificate.lines()[-1]


def test_first_level_ends_at_the_target_return():
    run = lambda **options: train_refined(
        coarse_loop(), go_there(), GRADIENT, eta=1.0, iterations=[30, 2], **options
    )
    whole, early = run(), run(target_return=-1.5)
    returns = [row.mean_return for row in early.levels[0].result.history]
    assert returns[-1] >= -1.5 > max(returns[:-1])
    assert "reached a mean return of -1.5" in early.levels[0].result.status.text
    assert [row.mean_return for row in whole.levels[0].result.history][: len(returns)] == returns
    assert len(early.result.history) == 3  # finer levels have all iterations


def test_each_level_has_its_own_number_of_iterations(raises_clear_error):
    run = lambda counts: train_refined(
        coarse_loop(), go_there(), GRADIENT, eta=1.0, iterations=counts
    )
    assert [len(level.result.history) - 1 for level in run([3, 1]).levels] == [3, 1]
    raises_clear_error(lambda: run([3, 2, 1]), "iterations has 3 numbers, but 2 levels")
    raises_clear_error(lambda: run([3, 0]), "The number of iterations is '0'")
    raises_clear_error(lambda: run([]), "The number of iterations is '0'")


@pytest.mark.parametrize("method", [GRADIENT, SMALL], ids=["gradient", "ppo"])
def test_finer_surrogates_have_smaller_errors(method):
    """The interpolation has order 4; two halvings reduce the error of a step about 256 times."""
    if method is SMALL:
        pytest.importorskip("stable_baselines3")
    errors = []
    for cell in (2.0, 0.5):
        result = train(coarse_loop(cell), go_there(), method, iterations=2)
        errors.append(certify_controller(result, points=50).step_error)
    assert errors[1] < errors[0] / 30.0


def test_ppo_is_refined_with_its_value_function_and_optimiser():
    pytest.importorskip("stable_baselines3")
    found = train_refined(coarse_loop(), go_there(), SMALL, eta=1.0, iterations=2)
    first, second = (level.result for level in found.levels)
    assert second.history[0].steps == first.steps == 256
    assert second.state.values["updates"] == 2 * first.state.values["updates"]


def test_soft_robot_is_trained_on_refined_grids():
    model, observer = latent(), EffectorObserver()
    closed = ClosedLoop(model, observer, MLP.for_model(model, observer, hidden=(8,)))
    found = train_refined(closed, reach(steps=10), GRADIENT, eta=0.25, iterations=6)
    assert found.result.mean_return > found.levels[0].result.history[0].mean_return
    certificate = found.certificate
    # the replay is the full model of all nodes, so it differs by more than the interpolation
    assert certificate.effector_error < 5e-3
    assert certificate.exact_return == pytest.approx(certificate.surrogate_return, rel=0.2)
    assert certificate.step_error < 1e-3


def test_interrupted_refinement_resumes_bit_for_bit(tmp_path):
    task = go_there(spread={"position": 0.3, "velocity": 0.3})

    def run(store, **options):
        with SurrogatePoint.on_store(tmp_path / store, cell=2.0) as model:
            return train_refined(
                loop(model), task, GRADIENT, eta=1.0, iterations=4, **options
            ).result

    def stop_in_second_level(what, done, total):
        seen.extend([done] if what.startswith("training") else [])
        if seen == [0, 1, 2, 3, 0, 1, 2]:
            raise KeyboardInterrupt

    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run("stopped", folder=tmp_path / "levels", progress=stop_in_second_level)
    resumed = run("stopped", folder=tmp_path / "levels", resume=True)
    whole = run("whole")
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.state.arrays["mean"], whole.state.arrays["mean"])
    assert [row.mean_return for row in resumed.history] == [
        row.mean_return for row in whole.history
    ]


def test_model_without_surrogate_is_refused(raises_clear_error):
    raises_clear_error(
        lambda: train_refined(loop(), go_there(), eta=0.1), "needs a model with a surrogate"
    )
    result = train(loop(), go_there(), iterations=1)
    raises_clear_error(lambda: certify_controller(result), "needs a model with a surrogate")
    raises_clear_error(lambda: train_refined(coarse_loop(), go_there(), eta=9.0), "larger than")
    surrogate = train(coarse_loop(), go_there(), iterations=1)
    raises_clear_error(lambda: certify_controller(surrogate, points=0), "points")


# Several seeds


def make_loop(seed):
    """Return the loop of a seed; workers import this function."""
    return loop(SurrogatePoint.on_cell(1.0), seed=seed)


def test_seeds_in_parallel_give_the_results_of_each_alone(tmp_path):
    task = go_there(spread={"position": 0.2})
    method = PolicyGradient(rate=0.02, episodes=2)
    arguments = {"seeds": (3, 5), "iterations": 3, "certified": True}
    serial = train_seeds(make_loop, task, method, workers=1, **arguments)
    pool = train_seeds(make_loop, task, method, workers=2, folder=tmp_path, **arguments)
    for seed, one, other in zip((3, 5), serial.results, pool.results, strict=True):
        alone = train(make_loop(seed), task, method, iterations=3, seed=seed)
        assert one.seed == other.seed == seed
        for found in (one, other):
            np.testing.assert_array_equal(found.weights, alone.weights)
            assert [row.mean_return for row in found.history] == [
                row.mean_return for row in alone.history
            ]
    assert serial.results[0].mean_return != serial.results[1].mean_return
    assert [c.step_error for c in serial.certificates] == [c.step_error for c in pool.certificates]
    assert serial.best.mean_return == max(one.mean_return for one in serial.results)
    failed = replace(serial.best, status=Status(ok=False, text="an episode failed"))
    others = tuple(one for one in serial.results if one is not serial.best)
    assert replace(serial, results=(failed, *others)).best is others[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-3", "seed-5"]


def test_seeds_are_trained_in_worker_processes(monkeypatch):
    """Without a lower limit of the work, the pool starts its workers at once."""
    from pliant.parallel import pool

    monkeypatch.setattr(pool, "MIN_WORK_PER_WORKER", 0.0)
    here = train_seeds(make_loop, go_there(), GRADIENT, seeds=(0, 1, 2), iterations=2, workers=1)
    there = train_seeds(make_loop, go_there(), GRADIENT, seeds=(0, 1, 2), iterations=2, workers=2)
    for one, other in zip(here.results, there.results, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)


def test_seeds_are_trained_on_a_cluster():
    dask = pytest.importorskip("distributed")
    arguments = {"seeds": (0, 1), "iterations": 2, "certified": True}
    here = train_seeds(make_loop, go_there(), GRADIENT, workers=1, **arguments)
    with dask.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as local:
        address = local.scheduler_address
        there = train_seeds(make_loop, go_there(), GRADIENT, cluster=address, **arguments)
    for one, other in zip(here.results, there.results, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)
    assert [c.step_error for c in here.certificates] == [c.step_error for c in there.certificates]


def test_invalid_seeds_are_named(raises_clear_error):
    for seeds in ((), (1, 1)):
        raises_clear_error(lambda seeds=seeds: train_seeds(make_loop, go_there(), seeds=seeds), "s")
    with pytest.raises(InputError, match="seed"):
        train_seeds(make_loop, go_there(), seeds=(-1,))
    with pytest.raises(InputError, match="function"):
        train_seeds(loop(), go_there())


# Reports


def test_report_has_learning_curves_and_an_episode(tmp_path):
    model, observer = latent(), EffectorObserver()
    closed = ClosedLoop(model, observer, MLP.for_model(model, observer, hidden=(8,)))
    result = train(closed, reach(steps=8), GRADIENT, iterations=4)
    page = result.report(tmp_path / "one", small=True).read_text()
    assert "Learning curve over environment steps" in page
    assert "Learning curve over time" in page
    content = json.loads((tmp_path / "one" / "result.json").read_text())
    assert content["metrics"]["mean return"]["value"] == result.mean_return
    assert content["metrics"]["environment steps"]["value"] == 4 * 8
    assert (tmp_path / "one" / "animation.mp4").is_file()
    loaded = pl.learning.TrainingResult.load(tmp_path / "one", closed, reach(steps=8))
    np.testing.assert_array_equal(loaded.weights, result.weights)


def test_report_of_seeds_has_a_curve_for_each(tmp_path):
    found = train_seeds(make_loop, go_there(), GRADIENT, seeds=(0, 7), iterations=2, workers=1)
    found.report(tmp_path / "seeds", small=True)
    content = json.loads((tmp_path / "seeds" / "result.json").read_text())
    assert content["metrics"]["mean return"]["value"] == found.best.mean_return
    assert len(content["notes"]) == 2
    assert found.mean_return <= found.best.mean_return


def test_drag_of_the_test_model_is_that_of_its_surrogate():
    """The certificate tests rely on it."""
    with ExitStack() as stack:
        model = stack.enter_context(SurrogatePoint.on_store(None, cell=0.25))
        v = np.array([0.7])
        assert model.surrogate(v)[0][0] == pytest.approx(DRAG * 0.7 * np.cosh(0.35), rel=1e-5)
    assert policy(Point()).n_controls == 1
