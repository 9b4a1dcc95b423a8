"""A condensed model of equilibria that a surrogate interpolates."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import Condensed
from pliant.planners import ddp, gauss_newton
from pliant.problem import StrokeLimit
from pliant.surrogate import Chebyshev


@pytest.fixture(scope="module")
def latent():
    domain = np.full(2, -6.0), np.full(2, 16.0)
    return pl.Latent(
        pl.robots.plane_arm(layers=8, across=2),
        dt=0.05,
        cell=6.0,
        start=[3.0, 3.0],
        surrogate=lambda corners: Chebyshev(corners, domain=domain, degree=4),
        workers=1,
    )


def test_step_and_control_derivative_are_those_of_the_latent_model(latent):
    seen, x, u = Condensed(model=latent), latent.initial_state(), np.array([2.0, 5.0])
    step = seen.step(x, u)
    np.testing.assert_array_equal(step.x, latent.step(x, u).x)
    B, h = seen.reduced_jacobians(step)[1], 1e-4
    for j, e in enumerate(h * np.eye(2)):
        change = seen.reduction @ (latent.step(x, u + e).x - latent.step(x, u - e).x)
        np.testing.assert_allclose(B[:, j], change / (2.0 * h), rtol=1e-5, atol=1e-9)


def test_condensed_plan_is_close_to_the_optimum_of_the_latent_model(latent):
    """The linear derivative neglects the stiffness, so its plan ends near the optimum."""
    start = latent.effector("laser", latent.initial_state())[0]
    goal = start + (0.01, -0.0005)
    terms = [
        pl.Goal(effector="laser", target=goal, weight=1e2),
        pl.Goal(effector="laser", target=goal, time=0.5, weight=1e4),
        pl.Effort(weight=1e-3, order=1),
    ]
    problem = pl.Problem(model=latent, steps=10, terms=terms, previous_control=[3.0, 3.0])
    condensed = pl.Problem(
        model=Condensed(model=latent), steps=10, terms=terms, previous_control=[3.0, 3.0]
    )
    best, found = gauss_newton(problem), ddp(condensed)
    first = problem.value(*motionless(problem))
    assert best.cost <= found.cost < best.cost + 0.01 * (first - best.cost)
    tips = [latent.effector("laser", plan.states[-1])[0] for plan in (best, found)]
    assert np.linalg.norm(tips[1] - tips[0]) < 0.02 * np.linalg.norm(goal - start)


def motionless(problem):
    """Return the states and the controls of the constant control before the first step."""
    controls = problem.guess()
    return pl.simulate(problem.model, controls).states, controls


def test_parts_without_meaning_for_a_latent_model_are_refused(latent):
    with pytest.raises(InputError, match="take 'linear' or 'exact'"):
        Condensed(model=latent, derivative="nonlinear")
    with pytest.raises(InputError, match="no points of the actuator"):
        Condensed(model=latent, actuators=tuple(latent.robot.actuators)[:1])
    seen = Condensed(model=latent)
    with pytest.raises(InputError, match="no coupling"):
        seen.coupling(seen.step(latent.initial_state(), np.zeros(2)))
    name = next(iter(latent.robot.actuators))
    with pytest.raises(InputError, match="stroke limit needs a stepping rule"):
        StrokeLimit(actuator=name, upper=0.01).attach(seen, 3)
