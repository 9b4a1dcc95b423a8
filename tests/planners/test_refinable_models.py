"""Algorithm 1 and its certificate for a model that is not a soft robot: a pendulum on a grid of a
closed-form torque."""

import numpy as np
import pytest
from refinable_pendulum import EstimatingPendulum, Pendulum, torque
from scipy.optimize import minimize

import pliant as pl
from pliant.core import InputError, Refinable, StepErrorEstimating
from pliant.planners import plan_refined, refine
from pliant.planners.certificate import certify_motion
from pliant.problem import Effort, Goal, Problem
from pliant.surrogate import SampleError

STEPS, DT = 40, 0.05


def swing(model):
    return Problem(
        model=model,
        steps=STEPS,
        terms=[
            Goal(effector="angle", target=(1.5,), time=STEPS * DT, weight=1e2),
            Effort(weight=1e-2),
        ],
    )


@pytest.fixture(scope="module")
def refined():
    return plan_refined(swing(EstimatingPendulum.on_grid(dt=DT, cell=0.4)), eta=0.1)


def test_pendulum_is_refinable_and_its_exact_model_is_not():
    model = Pendulum.on_grid(dt=DT, cell=0.4)
    assert isinstance(model, Refinable)
    assert not isinstance(model, StepErrorEstimating)
    assert not isinstance(model.exact(), Refinable)
    with pytest.raises(InputError, match="needs a model on a surrogate, not Pendulum"):
        plan_refined(swing(model.exact()), eta=0.1)
    with pytest.raises(InputError, match="needs a model on a surrogate, not Pendulum"):
        refine(lambda model, guess: None, model.exact(), eta=0.1)


def test_pendulum_plan_refines_and_reaches_its_goal(refined):
    assert [level.cell for level in refined.levels] == pytest.approx([0.4, 0.2, 0.1])
    assert refined.plan.states[-1, 0] == pytest.approx(1.5, abs=0.01)
    # every corner of a path from 0 to 1.5, each made once, and far fewer than steps
    assert refined.evaluations == len(refined.levels[-1].model.surrogate.corners.samples)
    assert 16 <= refined.evaluations <= 40
    assert refined.queries >= refined.simulated_steps >= 3 * STEPS


def test_pendulum_certificate_matches_closed_form_errors(refined):
    c, model, plan = refined.certificate, refined.levels[-1].model, refined.plan
    angles = plan.states[:-1, :1]
    wrong = np.array([model.grid(x)[0] - torque(x)[0] for x in angles])[:, 0]
    relative = np.abs(wrong) / np.abs([torque(x)[0][0] for x in angles])
    assert 0.0 < c.holdout_error <= relative.max()
    positions = DT**2 * np.abs(wrong) / np.abs(plan.states[1:, 0])
    np.testing.assert_allclose(c.estimated_step_errors.position, positions, rtol=1e-6)
    velocity = np.diff(plan.states[:, 0]) / DT
    both = np.abs(wrong) * np.hypot(DT**2, DT) / np.hypot(plan.states[1:, 0], velocity)
    np.testing.assert_allclose(c.estimated_step_errors.state, both, rtol=1e-6)
    np.testing.assert_allclose(
        c.estimated_step_errors.increment,
        DT**2 * np.abs(wrong) / np.abs(np.diff(plan.states[:, 0])),
        rtol=1e-6,
    )
    # the errors at random steps are among those of all steps
    for some, every in (
        (c.exact_step_errors.state, c.estimated_step_errors.state),
        (c.exact_step_errors.position, c.estimated_step_errors.position),
    ):
        assert len(some) == 6
        assert np.abs(some[:, None] / every - 1.0).min(axis=1).max() < 1e-3
    assert c.step_error > c.position_error  # velocities of a light pendulum err more
    assert c.estimated_step_error >= 0.999 * c.step_error
    assert c.observed_order == pytest.approx(4.0, abs=1.0)
    assert c.exact_evaluations == 12  # a point and a step each


def test_pendulum_replay_uses_the_exact_model(refined):
    c, plan, x = refined.certificate, refined.plan, np.zeros(2)
    angles = [0.0]
    for u in plan.controls:
        x = np.array([2.0 * x[0] - x[1] + DT**2 * (torque(x[:1])[0][0] + u[0]), x[0]])
        angles.append(x[0])
    assert c.effector_error == pytest.approx(np.abs(plan.states[:, 0] - angles).max(), rel=1e-9)
    assert 0.0 < c.effector_error < 1e-3
    assert c.replay_cost == pytest.approx(plan.cost, rel=1e-2)
    assert c.replay_evaluations == len(plan.controls)  # one value of the exact map for each step
    assert c.replay_failed == ""
    assert f", {len(plan.controls)} exact evaluations" in c.lines()[-1]


class PendulumWithoutReplay(Pendulum):
    def replay_model(self, x):
        raise InputError("the full model has no state for this one")


def test_failed_replay_tells_the_reason():
    c = plan_refined(swing(PendulumWithoutReplay.on_grid(dt=DT, cell=0.4)), eta=0.4).certificate
    assert c.replay is None
    assert c.replay_cost is None
    assert c.replay_failed == "the full model has no state for this one"
    assert (
        "replay with the full model: failed: the full model has no state for this one" in c.lines()
    )


def test_model_without_estimate_has_errors_at_random_steps_only():
    c = plan_refined(swing(Pendulum.on_grid(dt=DT, cell=0.4)), eta=0.2, points=3).certificate
    assert c.estimated_step_errors is None
    assert c.estimated_step_error is None
    assert np.isfinite(c.exact_step_errors.state).sum() == 3
    assert any(line.startswith("error of one step, largest of 3 random") for line in c.lines())
    assert not any(line.startswith("estimated error of one step") for line in c.lines())


def train(model, gains, steps=STEPS):
    """Return the gains (2,) of a PD controller after descent on the distance to 1 rad."""

    def cost(gains):
        x, total = np.zeros(2), 0.0
        for k in range(steps):
            u = np.array([gains[0] * (1.0 - x[0]) - gains[1] * (x[0] - x[1]) / DT])
            x = model.step(x, u, k=k).x
            total += (x[0] - 1.0) ** 2
        return total

    return minimize(cost, gains, method="Nelder-Mead", options={"maxiter": 60}).x


def test_refine_trains_a_controller_and_certifies_its_motion():
    """`refine` and `certify_motion` need no Problem, as for closed loops without free controls."""
    levels = refine(train, Pendulum.on_grid(dt=DT, cell=0.4), eta=0.1, guess=np.array([5.0, 1.0]))
    assert [level.cell for level in levels] == pytest.approx([0.4, 0.2, 0.1])
    model, gains = levels[-1].model, levels[-1].result
    controller = lambda k, x: gains[:1] * (1.0 - x[0]) - gains[1:] * (x[0] - x[1]) / DT
    run = pl.simulate(model, controller, steps=STEPS)
    c = certify_motion(
        [level.model for level in levels], run.states, run.controls, cost=0.0, replay=None
    )
    assert 0.0 < c.step_error < 1e-4
    assert c.replay_cost is None
    assert c.effector_error is None
    assert any("replay with the full model: not available" in line for line in c.lines())
    assert abs(run.states[-1, 0] - 1.0) < 0.2


def test_failed_training_level_keeps_coarser_levels():
    def solve(model, guess):
        if model.surrogate.size.max() < 0.3:
            raise SampleError("the budget is spent")
        return 1.0

    levels = refine(solve, Pendulum.on_grid(dt=DT, cell=0.4), eta=0.1)
    assert [level.cell for level in levels] == [0.4]
    assert "stopped before cell 0.2: the budget is spent" in levels[-1].stop_reason
