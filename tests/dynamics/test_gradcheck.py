"""The gradient check itself: correct derivatives pass, wrong derivatives fail."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import pliant as pl
from pliant.core import StepError


def arm():
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.1)),
        divisions=(2, 1),
        order=2,
        material=pl.Material(E=4e4, nu=0.35, power=2),
        thickness=0.1,
        supports=(pl.Support(region="x-"),),
        gravity=(0.0, -9.81),
        actuators={"line": pl.Cable(points=[[0.02, 0.08], [0.19, 0.08]])},
    )


class Wrong:
    """A model whose linearisation has a wrong factor in one of its three inputs."""

    def __init__(self, model, which, factor=1.01):
        self.model, self.which, self.factor = model, which, factor

    def __getattr__(self, name):
        return getattr(self.model, name)

    def linearize(self, step):
        lin = self.model.linearize(step)
        scale = [self.factor if k == self.which else 1.0 for k in range(3)]
        jvp = lambda *d: lin.jvp(*(s * y for s, y in zip(scale, d, strict=True)))
        vjp = lambda x_bar: tuple(s * y for s, y in zip(scale, lin.vjp(x_bar), strict=True))
        return SimpleNamespace(jvp=jvp, vjp=vjp)


@pytest.fixture
def model():
    return pl.ImplicitEuler(arm(), dt=0.01, design=("body.E",))


@pytest.mark.parametrize(
    ("which", "names"), [(0, {"position", "velocity"}), (1, {"control"}), (2, {"body.E"})]
)
def test_derivative_error_of_one_percent_is_found_and_named(model, which, names):
    x = model.step(model.initial_state(), np.array([0.5])).x
    assert all(check.ok for check in pl.gradcheck(model, x, np.array([0.8])))
    checks = pl.gradcheck(Wrong(model, which), x, np.array([0.8]))
    assert {check.name for check in checks if not check.ok} == names


@pytest.mark.parametrize("tension", [0.0, 2.0])
def test_one_sided_derivative_is_checked_at_a_control_limit(tension):
    """A cable pulls for positive tension and is slack for negative tension."""
    robot = arm()
    line = replace(robot.actuators["line"], limits=(0.0, 2.0))
    model = pl.ImplicitEuler(replace(robot, actuators={"line": line}), dt=0.01)
    x, u = model.initial_state(), np.array([tension])
    assert all(check.ok for check in pl.gradcheck(model, x, u))
    assert {check.name for check in pl.gradcheck(Wrong(model, 1), x, u) if not check.ok} == {
        "control"
    }


@pytest.mark.parametrize("lower", [0.9, 0.95, 0.98])
@pytest.mark.parametrize("seed", range(3))
def test_perturbation_stays_inside_narrow_control_limits(lower, seed):
    """A length-driven cable is just taut at its upper limit and slack beyond it.

    It is slack at the limit if gravity has shortened its route."""
    line = pl.Cable(points=[[0.02, 0.08], [0.19, 0.08]], drive="length", limits=(lower, 1.0))
    for gravity in (None, (0.0, 9.81)):
        model = pl.ImplicitEuler(replace(arm(), actuators={"line": line}, gravity=gravity), dt=0.01)
        x = (
            model.initial_state()
            if gravity is None
            else model.step(model.initial_state(), np.ones(1)).x
        )
        (check,) = (
            check
            for check in pl.gradcheck(model, x, np.ones(1), seed=seed)
            if check.name == "control"
        )
        assert check.ok, check


def test_round_off_of_small_derivative_is_not_an_error():
    """A step of a heavily damped robot in its rest shape depends weakly and linearly on the
    velocities."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.02, 0.02, 0.1)),
        divisions=(1, 1, 5),
        order=2,
        material=pl.Material(E=3e5, nu=0.45),
        supports=(pl.Support(region="z-"),),
        gravity=(0.0, 0.0, -9.81),
        damping=pl.Damping(stiffness=100.0),
    )
    model = pl.ImplicitEuler(robot, dt=0.001)
    for check in pl.gradcheck(model, model.initial_state(), np.zeros(0)):
        assert check.ok, check


def test_jvp_that_disagrees_with_vjp_is_found(model):
    class Lopsided(Wrong):
        def linearize(self, step):
            return SimpleNamespace(
                jvp=self.model.linearize(step).jvp, vjp=super().linearize(step).vjp
            )

    checks = pl.gradcheck(Lopsided(model, 1), model.initial_state(), np.array([0.8]))
    assert [check.ok for check in checks if check.name == "control"] == [False]


def test_equilibrium_can_be_checked():
    """Newton's method needs no iteration at an equilibrium. Its residual must not be mistaken for a
    Taylor remainder."""
    model = pl.Quasistatic(arm(), design=("body.E", "body.nu", "body.density"))
    u = np.array([0.8])
    x = model.initial_state()
    for share in (0.8, 0.9, 1.0):
        x = model.step(x, share * u).x
    assert all(check.ok for check in pl.gradcheck(model, x, u))


def test_single_point_can_be_checked():
    """It has no extent, which sets the size of changes of the positions of other bodies."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"line": pl.Cable(points=[(0.0, 0.0)], guide=(0.1, 0.1))},
    )
    model = pl.ImplicitEuler(robot, dt=0.01, design=["actuators.line.guide.x"])
    x = model.state(np.zeros(2), np.array([0.1, 0.2]))
    checks = pl.gradcheck(model, x, np.array([0.5]))
    assert [check.name for check in checks if not check.ok] == []


def test_failed_step_raises_step_error():
    model = pl.Quasistatic(arm(), solver_options=pl.SolverOptions(iterations=1))
    with pytest.raises(StepError, match="The step to be checked failed"):
        pl.gradcheck(model, model.initial_state(), np.array([5.0]))
