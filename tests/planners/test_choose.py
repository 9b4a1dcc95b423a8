"""The function `plan`: its choice of planner, its arguments and its errors."""

import numpy as np
import pytest
from planner_models import jet

import pliant as pl
from pliant.core import InputError, Step
from pliant.planners.choose import METHODS, best_method, plan
from pliant.planners.plan_result import Options
from pliant.problem import Constraint, Effort, Goal, Interval, Limit, Problem

TERMS = (Goal(effector="tip", target=(1.0, 0.5), time=0.5, weight=10.0), Effort(weight=0.01))


class Bare:
    """A model without derivatives: x' = x + u."""

    space = jet().space
    n_controls, dt, params = 2, 0.1, jet().params

    def control_limits(self):
        return np.full(2, -np.inf), np.full(2, np.inf)

    def neutral_controls(self):
        return np.zeros(2)

    def effector_rows(self, name):
        return jet().effector_rows(name)

    def initial_state(self):
        return np.zeros(4)

    def step(self, x, u, p=None, k=0):
        return Step(x + np.concatenate([u, 0.0 * u]), pl.core.Status())


class Backward(Bare):
    def pullback(self, step, x_bar):
        return x_bar, x_bar[:2], np.zeros(0)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "collocation"])
def test_every_method_finds_the_same_plan(method):
    found = plan(jet(), TERMS, steps=5, method=method)
    assert found.status, found.status.text
    assert found.cost == pytest.approx(
        plan(Problem(model=jet(), terms=TERMS, steps=5)).cost, rel=1e-6
    )


def test_collocation_finds_the_same_plan():
    found = plan(jet(), TERMS, steps=5, method="collocation")
    assert found.cost == pytest.approx(plan(jet(), TERMS, steps=5).cost, rel=1e-5)


def test_default_method_for_each_model():
    assert best_method(jet()) == "gauss_newton"
    assert best_method(Backward()) == "gradient"
    assert plan(jet(), TERMS, steps=5).method == "gauss_newton"
    found = plan(Backward(), TERMS, steps=5)
    assert found.method == "gradient"
    assert found.status
    with pytest.raises(InputError, match="Bare has neither `linearize` nor `pullback`"):
        plan(Bare(), TERMS, steps=5)


def test_problem_fields_are_keywords_of_plan():
    model = jet()
    x0 = model.state(np.array([0.5, 0.5]), np.array([0.0, 1.0]))
    found = plan(
        model,
        TERMS,
        steps=5,
        x0=x0,
        previous_control=(1.0, 0.0),
        limits=[Limit(lower=-1.0, upper=1.0)],
    )
    np.testing.assert_array_equal(found.states[0], x0)
    assert np.abs(found.controls).max() <= 1.0 + 1e-9
    assert plan(model, TERMS[1], steps=3).cost == 0.0  # one term alone


@pytest.mark.parametrize("method", [name for name in METHODS if name != "collocation"])
def test_every_method_satisfies_constraints(method):
    fast = Constraint(effector="tip", inside=Interval(upper=1.0), quantity="velocity")
    found = plan(
        jet(), TERMS, steps=5, method=method, constraints=[fast], options=Options(iterations=1000)
    )
    assert found.status, found.status.text
    assert found.constraint_violation <= 1e-5
    assert plan(jet(), TERMS, steps=5, method=method).states[:, 2:].max() > 1.5


def test_planner_keywords_are_passed_on():
    assert (
        plan(jet(), TERMS, steps=5, method="gauss_newton", route="forward").notes["route"]
        == "forward"
    )
    assert plan(jet(), TERMS, steps=5, method="ddp", second_order=True).method == "ddp"
    found = plan(
        jet(), TERMS, steps=5, method="gradient", optimiser="adam", options=Options(iterations=10)
    )
    assert len(found.history) == 11
    guess = np.ones((5, 2))
    assert (
        plan(jet(), TERMS, steps=5, guess=guess, options=Options(iterations=1)).history[0].cost
        > 1.0
    )


def test_other_variables_are_refused_with_the_function_to_use():
    with pytest.raises(InputError, match=r"variables initial.velocity; use pl.optimisation"):
        plan(jet(), TERMS, steps=5, variables=["initial.velocity"])


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {"method": "gaus_newton"}, "did you mean 'gauss_newton'"),
        ((), {"method": "magic"}, "choose one of gauss_newton, newton"),
        ((), {"rout": "forward"}, "does not accept all of rout"),
        ((TERMS,), {}, "already has terms"),
        ((), {"limits": ()}, "already has limits"),
    ],
)
def test_bad_arguments_of_plan_are_rejected(args, kwargs, says):
    with pytest.raises(InputError, match=says):
        plan(Problem(model=jet(), terms=TERMS, steps=5), *args, **kwargs)


def test_plan_of_a_model_requires_terms_and_steps():
    with pytest.raises(InputError, match="terms is missing"):
        plan(jet(), steps=5)
    with pytest.raises(InputError, match="steps is missing"):
        plan(jet(), TERMS)
    with pytest.raises(InputError, match="make one with ImplicitEuler"):
        plan("robot", TERMS, steps=5)
