"""whip-feedback: feedback with the gains of DDP around a plan, and its measurement of another
mesh."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pliant.dynamics import BDF2, simulate
from pliant.planners import Options
from pliant.zoo.experiments import whip_feedback
from pliant.zoo.gripper_tasks import equilibrium_state, problem_of
from pliant.zoo.plan_feedback import PlanFeedback, state_measurement
from pliant.zoo.registry import find

pytest.importorskip("pinocchio")
SETTINGS = {
    **find("whip-feedback").resolve_settings(quick=True),
    "layers": 4,
    "steps": 16,
    "push": 0.2,
}


@cache
def planned():
    """Return the task, its problem and a plan with gains."""
    task = whip_feedback.task_of(SETTINGS)
    problem = problem_of(task, task.model)
    return task, problem, whip_feedback.plan_with_gains(problem, Options(progress=False))


def feedback(problem, plan):
    model = problem.model
    return PlanFeedback(problem=problem, plan=plan, measure=state_measurement(model, model.body))


def test_feedback_without_a_disturbance_returns_the_planned_controls():
    _, problem, plan = planned()
    run = simulate(
        problem.model, feedback(problem, plan), steps=problem.steps, x0=problem.initial_state
    )
    np.testing.assert_allclose(run.controls, plan.controls, rtol=0.0, atol=1e-9)


def test_feedback_is_a_local_optimum_after_a_disturbance():
    """From a slightly different initial state, no multiple of the gains has a lower cost."""
    _, problem, plan = planned()
    model = problem.model
    q = model.space.position(problem.initial_state)
    push = np.zeros_like(q)
    push[0::3] = 2e-4 * (q[2::3].max() - q[2::3])
    x0 = model.state(q + push)
    costs = []
    for factor in (0.0, 0.5, 1.0, 1.5):
        policy = feedback(problem, replace(plan, gains=factor * plan.gains))
        run = simulate(model, policy, steps=problem.steps, x0=x0)
        costs.append(problem.value(run.states, run.controls))
    assert int(np.argmin(costs)) == 2


def test_measurement_of_a_finer_mesh_is_exact_for_linear_fields():
    _, problem, _ = planned()
    model = problem.model
    finer = BDF2(whip_feedback.rods(SETTINGS)["finer mesh"], dt=model.dt)
    measure = state_measurement(model, finer.body)
    A = np.random.default_rng(0).standard_normal((3, 3))

    def state(one, scale):
        q = one.body.rest.reshape(-1, 3) @ (scale * A).T
        return np.concatenate([(k + 1) * q.ravel() for k in range(3)])

    np.testing.assert_allclose(measure @ state(finer, 1.0), state(model, 1.0), atol=1e-12)


def test_finer_rod_has_the_static_deflection_of_the_planning_model():
    rods = whip_feedback.rods({**SETTINGS, "stiffness_factor": 1.0, "damping": 0.0})
    finer, real = (whip_feedback.sideways_deflection(rods[n]) for n in ("finer mesh", "real rod"))
    planned_rod = replace(rods["push"], loads=[])
    assert finer == pytest.approx(whip_feedback.sideways_deflection(planned_rod), rel=1e-3)
    assert real == pytest.approx(finer, rel=1e-12)


def test_feedback_rejects_a_push_within_the_joint_limits():
    task, problem, plan = planned()
    robot = whip_feedback.rods(SETTINGS)["push"]
    compared = whip_feedback.compare(robot, problem, plan)
    target = np.asarray(task.targets[0].target)[-1]
    errors = {name: whip_feedback.tip_error(tip, target) for name, tip in compared.tips.items()}
    assert errors["plan alone"] > 0.01
    assert errors["with feedback"] < 0.1 * errors["plan alone"]
    assert problem.limit_violation(compared.runs["with feedback"].controls) < 1e-9
    np.testing.assert_array_equal(
        compared.runs["plan alone"].states[0],
        equilibrium_state(BDF2(replace(robot, loads=[]), dt=problem.model.dt)),
    )
