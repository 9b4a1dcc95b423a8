"""AtRest: the mean squared velocity in closed form, its derivative, and a plan that stops."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.optimisation import optimise
from pliant.problem import AtRest, Constraint, Effort, Interval, Problem


def block() -> pl.Robot:
    shape = pl.Box(size=(0.1, 0.1, 0.1))
    return pl.Robot(shape=shape, divisions=(2, 2, 2), material=pl.Material(E=1e4, nu=0.3))


def rod() -> pl.Robot:
    rods = pl.geometry.Rods(
        points=[(0.0, 0.0, 0.0), (0.1, 0.0, 0.0)],
        rods=[[0, 1]],
        section=pl.geometry.CircularSection(radius=0.01),
    )
    return pl.Robot(shape=rods.refine(4), material=pl.Material(E=1e6, nu=0.3))


MODELS = {
    "FEM": lambda: pl.ImplicitEuler(block(), dt=0.01),
    "MPM": lambda: pl.MaterialPoint(block(), dt=0.01, cell=0.05),
    "beams": lambda: pl.ImplicitEuler(rod(), dt=0.01),
}


@pytest.mark.parametrize("name", MODELS)
def test_translation_has_its_squared_speed(name):
    model = MODELS[name]()
    (row,) = AtRest(speed=0.5, time=0.01).attach(model, 1)
    v = np.array([0.3, -0.4, 1.2])
    body = model.body
    points = getattr(body, "is_position", np.ones(body.rest.size // 3, bool))
    velocity = np.where(points[:, None], v, 7.0).ravel()  # rotations do not count
    assert row.function(velocity)[0] == pytest.approx((v @ v) / 0.5**2, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_taylor_remainder_of_the_derivative_is_the_row_of_the_change(name, rng):
    (row,) = AtRest(speed=0.2, time=0.01).attach(MODELS[name](), 1)
    v, d = rng.standard_normal((2, row.observation.size))
    for h in (1.0, 1e-1, 1e-2):
        remainder = row.function(v + h * d) - row.function(v) - h * row.jacobian(v) @ d
        np.testing.assert_allclose(remainder, h**2 * row.function(d), rtol=1e-9)


@pytest.mark.parametrize("speed", [0.01, 0.05])
def test_least_effort_to_stop_at_a_goal_is_that_of_the_closed_form(speed):
    """The least integral of u^2 that moves 1 kg by d in T, to the velocity v, is
    4 (3 d^2 - 3 d v T + v^2 T^2) / T^3. It decreases up to v = 3 d / (2 T)."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=1.0),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    d, T, steps = 0.1, 1.0, 50
    goal = Constraint(
        effector="tip",
        function=lambda y: 10.0 * y,
        inside=Interval(lower=(10.0 * d, 0.0), upper=(10.0 * d, 0.0)),
        time=T,
    )
    problem = Problem(
        model=pl.ImplicitEuler(robot, dt=T / steps),
        steps=steps,
        terms=[Effort(weight=2.0)],
        constraints=[goal, AtRest(speed=speed, time=T)],
        variables=["controls"],
    )
    result = optimise(problem, "sqp", iterations=30, progress=False)
    assert result.best.violation < 1e-6
    cost = 4.0 * (3.0 * d**2 - 3.0 * d * speed * T + (speed * T) ** 2) / T**3
    assert result.value == pytest.approx(cost, rel=0.05)


def test_a_speed_of_zero_is_an_error():
    with pytest.raises(InputError, match="speed of a body at rest"):
        AtRest(speed=0.0)


def test_a_model_without_a_body_is_an_error():
    class Numbers:
        pass

    with pytest.raises(InputError, match="Numbers has no body"):
        AtRest(speed=0.1).attach(Numbers(), 1)  # type: ignore[arg-type]
