"""Loops and user actuators on a model whose initial state depends on its parameters."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import ParametrisedStart
from pliant.design import ParametrisedRobot, Stretch
from pliant.learning import (
    ClosedLoop,
    EffectorObserver,
    LinearFeedback,
    UserActuation,
    UserActuator,
)
from pliant.optimisation import ProblemObjective

LENGTH = 0.13  # [m] beside the start, 0.1


def shape_model(kind):
    """Return a cantilever with a cable and the parameter shape.length."""
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(4, 1),
        order=1,
        material=pl.Material(E=2e4, nu=0.4),
        supports=[pl.Support(region="x-")],
        effectors={"tip": pl.Effector(point=(0.1, 0.01))},
        actuators={"cable": pl.Cable(points=[(0.0, 0.018), (0.1, 0.018)])},
        gravity=(0.0, -9.81),
    )
    length = Stretch(axis="x", value=0.1, lower=0.05, upper=0.2)
    shape = ParametrisedRobot(make=robot, parameters={"length": length})
    options = {"cell": 0.02} if kind is pl.MaterialPoint else {}
    return shape.model(kind, dt=0.005, **options)


def loop(model):
    tip = EffectorObserver(effectors=["tip"])
    gains = np.array([[0.0, -1.0, 0.0, -0.2]])
    feedback = LinearFeedback(gains=gains, reference=[0.1, 0.01, 0.0, 0.0], controls=[0.5])
    return ClosedLoop(model, tip, feedback)


def actuated(model):
    return UserActuation(model, {"cable": UserActuator(function=lambda u, y: 2.0 * u)})


MADE = {"loop": loop, "user actuation": actuated}


@pytest.mark.parametrize("made", MADE)
def test_initial_state_is_the_rest_shape_of_the_parameters(made):
    model = shape_model(pl.ImplicitEuler)
    one = MADE[made](model)
    assert isinstance(one, ParametrisedStart)
    p = np.array(one.params.flat)
    p[-1] = LENGTH
    run = pl.simulate(one, np.zeros((1, one.n_controls)), p=p)
    n = model.space.size
    np.testing.assert_array_equal(run.states[0][:n], model.initial_state(p=p[-1:]))
    assert model.effector("tip", run.states[0][:n])[0, 0] == pytest.approx(LENGTH)


@pytest.mark.parametrize("kind", [pl.ImplicitEuler, pl.MaterialPoint])
@pytest.mark.parametrize("made", MADE)
def test_gradient_by_a_length_contains_the_initial_state(made, kind):
    one = MADE[made](shape_model(kind))
    names = ["shape.length", *(["controller"] if made == "loop" else ["controls"])]
    goal = pl.Goal(effector="tip", target=(0.05, 0.03), time=0.02)
    objective = ProblemObjective(pl.Problem(model=one, steps=4, terms=[goal], variables=names))
    z = objective.start + 0.02
    found = objective.gradient(z).gradient
    for k in (0, 1):
        h = 1e-5 * np.eye(len(z))[k]
        slope = (objective.value(z + h).value - objective.value(z - h).value) / 2e-5
        assert found[k] == pytest.approx(slope, rel=1e-5, abs=1e-12)


def test_the_value_of_an_initial_state_follows_the_shape():
    model = shape_model(pl.ImplicitEuler)
    goal = pl.Goal(effector="tip", target=(0.05, 0.03), time=0.005)
    problem = pl.Problem(
        model=model, steps=1, terms=[goal], variables=["shape.length", "initial.position"]
    )
    z = np.array(problem.layout.start)
    z[0] = problem.layout.blocks[0].scaled(np.array([LENGTH]))[0]
    values = problem.layout.values(z)
    assert values["shape.length"] == pytest.approx(LENGTH)
    n = model.space.n_dofs
    np.testing.assert_allclose(values["initial.position"], model.initial_state(p=[LENGTH])[:n])


def test_a_model_with_a_fixed_start_gives_a_loop_with_a_fixed_start():
    model = shape_model(pl.ImplicitEuler).at()
    assert not isinstance(loop(model), ParametrisedStart)
    assert not isinstance(actuated(model), ParametrisedStart)
