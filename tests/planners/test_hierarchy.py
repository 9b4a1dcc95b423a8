"""Algorithm 1 of [Jia2019]: refinement between plans, its convergence (Lemma IV.1), its certificate
and its store."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import pliant as pl
from pliant.core import InputError, StepError
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.planners import Options, gauss_newton, plan_refined, refine
from pliant.planners.certificate import certify
from pliant.planners.hierarchy import level_count
from pliant.problem import Effort, Goal, Problem
from pliant.surrogate import corners

STEPS, DT = 10, 0.1
TARGET = (0.04, 0.195)


@pytest.fixture(scope="module")
def arm():
    return pl.robots.plane_arm(layers=4, across=2)


def problem(model):
    return Problem(
        model=model,
        steps=STEPS,
        terms=[Goal(effector="laser", target=TARGET, weight=1e3), Effort(weight=1e-3, order=1)],
    )


def latent(arm, **options):
    return pl.Latent(arm, dt=DT, **{"cell": 8.0, "compress": 1e-10, **options})


# Number of levels


@pytest.mark.parametrize(
    ("cell", "eta", "count"),
    [(0.5, 0.2, 3), (0.3, 0.1, 3), (1.0, 1.0, 1), (1.0, 0.5, 2), (1.0, 0.49, 3)],
)
def test_level_count_matches_algorithm_1(cell, eta, count):
    assert level_count(cell, eta) == count


def test_eta_larger_than_the_cell_is_rejected(arm):
    with pytest.raises(InputError, match=r"eta = 9 is larger than the first cell 8"):
        plan_refined(problem(latent(arm)), eta=9.0)
    with pytest.raises(InputError, match="positive"):
        plan_refined(problem(latent(arm)), eta=0.0)


def test_only_latent_models_are_refined(arm):
    with pytest.raises(InputError, match="make one with Latent"):
        plan_refined(problem(pl.ImplicitEuler(arm, dt=DT)), eta=1.0)
    with pytest.raises(InputError, match="resumed by its store"):
        plan_refined(problem(latent(arm)), eta=4.0, options=Options(resume=True))


# Convergence


def test_refined_cost_converges_to_exact_plan(arm):
    """Lemma IV.1: each halving of the cell reduces the difference to the exact plan by about
    2^4."""
    refined = plan_refined(problem(latent(arm)), eta=1.0)
    best = gauss_newton(
        replace(problem(latent(arm)), model=refined.levels[-1].model.exact()),
        guess=refined.plan.controls,
    )
    assert best.status
    gaps = [abs(level.result.cost - best.cost) / best.cost for level in refined.levels]
    rates = np.log2(np.array(gaps[:-1]) / gaps[1:])
    assert len(gaps) == 4
    assert np.all(np.diff(gaps) < 0.0), gaps
    assert 3.0 <= np.mean(rates) <= 5.5, (gaps, rates)
    np.testing.assert_allclose(
        refined.plan.controls, best.controls, atol=2e-3 * np.abs(best.controls).max()
    )


@pytest.mark.parametrize("method", ["gauss_newton", "ddp", "gradient"])
def test_refinement_works_with_every_planner(arm, method):
    refined = plan_refined(
        problem(latent(arm)), eta=4.0, method=method, options=Options(iterations=60)
    )
    assert refined.plan.method == {"ddp": "ilqr"}.get(method, method)
    assert refined.plan.cost == pytest.approx(
        plan_refined(problem(latent(arm)), eta=4.0).plan.cost, rel=1e-3
    )


def closed_loop(model, gains):
    """Return (cost, gradient) of a controller u = gains (1, tip) that moves the tip to its
    target."""
    W = gains.reshape(2, 3)
    rows = model.effector_rows("laser").toarray()
    sees = lambda x: np.concatenate([[1.0], rows @ model.space.position(x)])
    run = pl.simulate(model, lambda k, x: W @ sees(x), steps=STEPS, keep=True)
    miss = np.array([rows @ model.space.position(x) - TARGET for x in run.states[1:]])
    cost = 0.5 * 1e3 * DT * np.sum(miss**2) + 0.5 * 1e-3 * DT * np.sum(run.controls**2)
    bar, g = np.zeros(model.space.size), np.zeros((2, 3))
    for k in reversed(range(STEPS)):
        bar[: rows.shape[1]] += 1e3 * DT * rows.T @ miss[k]
        bar, u_bar, _ = model.pullback(run.steps[k], bar)
        u_bar = u_bar + 1e-3 * DT * run.controls[k]
        g += np.outer(u_bar, sees(run.states[k]))
        bar[: rows.shape[1]] += rows.T @ W[:, 1:].T @ u_bar
    return cost, g.ravel()


def test_refined_feedback_controller_halves_the_exact_cost(arm):
    """Equation 6: the same refinement with controller parameters instead of controls."""

    def train(model, gains):
        found = minimize(
            lambda w: closed_loop(model, w),
            gains,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-13},
        )
        return found.x

    model = latent(arm, domain=(-60.0, 60.0))
    start = np.array([0.5, 0.0, 0.0, 1.0, 0.0, 0.0])
    h, (_, g) = 1e-4, closed_loop(model, start)
    for i, e in enumerate(np.eye(6)):
        assert (closed_loop(model, start + h * e)[0] - closed_loop(model, start - h * e)[0]) / (
            2 * h
        ) == pytest.approx(g[i], rel=1e-4)
    levels = refine(train, model, eta=1.0, guess=start)
    assert [level.cell for level in levels] == [8.0, 4.0, 2.0, 1.0]
    exact = levels[-1].model.exact()
    costs = [closed_loop(exact, level.result)[0] for level in levels]
    assert costs[-1] < 0.5 * closed_loop(exact, start)[0]
    assert closed_loop(levels[-1].model, levels[-1].result)[0] == pytest.approx(costs[-1], rel=1e-3)


# The certificate


def test_certificate_matches_true_errors(arm):
    refined = plan_refined(problem(latent(arm, cell=4.0)), eta=1.0)
    c, model = refined.certificate, refined.levels[-1].model
    exact = model.exact()
    true = max(
        np.linalg.norm(model.positions(x) - exact.positions(x)) / np.linalg.norm(exact.positions(x))
        for x in refined.plan.states
    )
    assert 0.0 < c.holdout_error <= true
    assert c.largest_surpluses[0] > c.largest_surpluses[1] > c.holdout_error
    for level, coarse, largest in zip(
        c.surpluses, refined.levels, c.largest_surpluses, strict=False
    ):
        assert largest == max(size for _, size in level)
        point, size = level[-1]
        found, true_shape = (
            coarse.model.manifold.positions(point),
            model.manifold.equilibrium_map(point, None)[0],
        )
        assert size == pytest.approx(
            np.linalg.norm(found - true_shape) / np.linalg.norm(true_shape), rel=1e-6
        )
    assert 3.0 <= c.observed_order <= 5.0
    along = [np.array([one.positions(x) for x in refined.plan.states]) for one in (model, exact)]
    mean = np.linalg.norm(along[0] - along[1]) / np.linalg.norm(along[1])
    assert 0.4 * mean <= c.richardson_error <= 2.5 * mean
    assert c.increment_error > c.position_error
    assert len(c.estimated_step_errors.state) == STEPS
    for some, every in (
        (c.exact_step_errors.state, c.estimated_step_errors.state),
        (c.exact_step_errors.position, c.estimated_step_errors.position),
    ):  # each exact error is among the estimates of all steps
        assert len(some) == 6
        assert np.abs(some[:, None] / every - 1.0).min(axis=1).max() < 0.02
    assert 0.98 * c.step_error <= c.estimated_step_error
    full = pl.ImplicitEuler(arm, dt=DT)
    run = pl.simulate(
        full, refined.plan.controls, x0=full.state(model.positions(refined.plan.states[0]))
    )
    again = replace(problem(model), model=full, x0=run.states[0])
    assert c.replay_cost == pytest.approx(again.value(run.states, refined.plan.controls), rel=1e-9)
    tips = np.array([arm.effector_position("laser", full.space.position(x)) for x in run.states])
    bases = np.array(
        [arm.effector_position("laser base", full.space.position(x)) for x in run.states]
    )
    apart = [
        np.linalg.norm(tips - refined.plan.states[:, :2], axis=1),
        np.linalg.norm(bases - refined.plan.states[:, 2:4], axis=1),
    ]
    assert c.effector_error == pytest.approx(np.max(apart), rel=1e-9)
    assert any("Richardson" in line for line in c.lines())


def test_replay_keeps_the_initial_velocity(arm):
    model = latent(arm, cell=2.0)
    x0 = model.state(np.array([1.0, 0.0]))
    x0[-2:] = [0.6, 0.0]  # one step before
    x0[4:8] = model.state(np.array([0.6, 0.0]))[:4]
    refined = plan_refined(replace(problem(model), x0=x0), eta=2.0)
    assert refined.certificate.effector_error < 2e-3
    assert refined.certificate.replay_cost == pytest.approx(refined.plan.cost, rel=0.1)


def test_increment_error_is_none_without_motion(arm):
    model = latent(arm)
    stay = Problem(model=model, steps=4, terms=[Effort(weight=1.0)])
    c = plan_refined(stay, eta=4.0).certificate
    assert c.increment_error is None
    assert any("- relative to the increment" in line for line in c.lines())


def test_failed_exact_step_keeps_the_plan(arm, monkeypatch):
    model = latent(arm, workers=1)
    refined = plan_refined(problem(model), eta=8.0)

    def fails(self, a, near):
        raise StepError("no equilibrium was found: it was made to fail")

    monkeypatch.setattr(EquilibriumMap, "__call__", fails)
    c = certify(problem(model), [model], refined.plan)
    assert c.holdout_error is None
    assert any("could not be checked" in note for note in c.notes)
    assert c.replay_cost is not None


def test_failed_level_keeps_coarser_levels(arm):
    first = plan_refined(problem(latent(arm)), eta=8.0).evaluations
    refined = plan_refined(problem(latent(arm, budget=first + 2)), eta=1.0)
    assert [level.cell for level in refined.levels] == [8.0]
    assert any(
        "stopped before cell 4" in note and "budget" in note for note in refined.certificate.notes
    )


def test_bad_points_and_options_are_rejected(arm):
    wrong = (
        ({"points": 0}, "'0' points"),
        ({"points": -1}, "'-1' points"),
        ({"options": {"iterations": 3}}, "The options of a planner"),
    )
    for options, says in wrong:
        with pytest.raises(InputError, match=says):
            plan_refined(problem(latent(arm)), eta=4.0, **options)


def test_richardson_error_needs_three_levels(arm):
    c = plan_refined(problem(latent(arm)), eta=4.0).certificate
    assert c.observed_order is None
    assert c.richardson_error is None
    assert any("three levels are needed" in line for line in c.lines())


def test_richardson_error_needs_plausible_order(arm, monkeypatch):
    """A surrogate with noisy corners does not converge and has no Richardson error estimate."""
    true, rng = corners.evaluate, np.random.default_rng(0)

    def noisy(f, x, near):
        sample = true(f, x, near)
        return replace(sample, value=sample.value + 2e-6 * rng.standard_normal(sample.value.size))

    monkeypatch.setattr(corners, "evaluate", noisy)
    refined = plan_refined(
        problem(latent(arm, cell=2.0, workers=1)), eta=0.5, options=Options(iterations=2)
    )
    assert not 3.0 <= refined.certificate.observed_order <= 5.0
    assert refined.certificate.richardson_error is None
    assert any(
        "not available, the order is not 3 to 5" in line for line in refined.certificate.lines()
    )


def test_show_prints_levels_and_certificate(arm, capsys):
    plan_refined(problem(latent(arm)), eta=4.0).show()
    said = capsys.readouterr().out
    assert said.count("exact evaluations\n") == 2
    assert "replay with the full model" in said


# The store


def test_store_gives_the_same_plan_bit_for_bit(arm, tmp_path):
    store = tmp_path / "corners.sqlite"
    first = plan_refined(problem(latent(arm, store=store, workers=1)), eta=2.0)
    model = latent(arm, store=store, workers=1)
    again = plan_refined(problem(model), eta=2.0)
    assert model.surrogate.corners.computed == 0
    assert again.levels[-1].evaluations == first.levels[-1].evaluations
    np.testing.assert_array_equal(again.plan.controls, first.plan.controls)
    np.testing.assert_array_equal(again.plan.states, first.plan.states)


@pytest.mark.parametrize("stop", [2, 5, 7, 11, 16, 21])
def test_interrupted_refinement_resumes_to_the_same_bits(arm, whole, tmp_path, stop):
    """Plans and corners are identical for every interruption, also within a batch and while the
    first process still runs."""
    store = tmp_path / "corners.sqlite"

    def interrupt(what, done, total):
        if what == "exact evaluations" and done == stop:
            raise KeyboardInterrupt

    stopped = latent(arm, store=store, workers=1, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        plan_refined(problem(stopped), eta=2.0)
    model = latent(arm, store=store, workers=1)
    gone_on = plan_refined(problem(model), eta=2.0)
    first, second = (
        list(one.levels[-1].model.surrogate.corners.samples.values()) for one in (whole, gone_on)
    )
    assert [s.point.tobytes() for s in first] == [s.point.tobytes() for s in second]
    assert all(
        np.array_equal(a.value, b.value) and np.array_equal(a.slope, b.slope)
        for a, b in zip(first, second, strict=True)
    )
    np.testing.assert_array_equal(gone_on.plan.controls, whole.plan.controls)
    np.testing.assert_array_equal(gone_on.plan.states, whole.plan.states)


@pytest.fixture(scope="module")
def whole(arm):
    return plan_refined(problem(latent(arm, workers=1)), eta=2.0)


def test_store_can_be_shared_between_cell_sizes(arm, tmp_path):
    """Corners are shared, data of cells are not. The second plan equals that with a separate
    store."""
    store = tmp_path / "corners.sqlite"
    plan_refined(problem(latent(arm, cell=6.0, store=store, workers=1)), eta=3.0)
    shared, alone = (
        plan_refined(problem(latent(arm, store=path, workers=1)), eta=4.0) for path in (store, None)
    )
    assert shared.plan.cost == pytest.approx(alone.plan.cost, rel=1e-7)


def test_plans_of_all_levels_are_saved(arm, tmp_path):
    plan_refined(problem(latent(arm)), eta=4.0, options=Options(folder=tmp_path))
    saved = [json.loads((tmp_path / f"level-{k}" / "plan.json").read_text()) for k in (0, 1)]
    assert all(len(plan["controls"]) == STEPS for plan in saved)
