"""Inverse control with stiff drives, at rate limits, and with arbitrary states."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import arm, can

import pliant as pl
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.planners.inverse_control import REACHED, UNREACHABLE, inverse_control
from pliant.problem import Limit, StrokeLimit


def test_large_volume_change_takes_several_dynamic_steps():
    """A linearised step can follow a stiff drive only in small increments."""
    controller = inverse_control(SemiImplicit(can("volume", (0.8, 1.5)), dt=0.01), "top")
    state = controller.begin()
    motions = []
    for _ in range(60):
        state = controller.manual(state, [1.2, 0.5])
        motions.append(state.u.copy())
    np.testing.assert_allclose(state.u, [1.2, 0.5])
    assert state.message == "manual"
    assert np.all(np.diff(np.array(motions), axis=0) >= -1e-12)
    still = equilibrium(Quasistatic(can("volume", (0.8, 1.5))), state.u)
    np.testing.assert_allclose(state.x[: still.x.size], still.x, atol=1e-4 * controller.length)


def test_dynamic_robot_with_volume_drive_reaches_a_target():
    controller = inverse_control(SemiImplicit(can("volume", (0.8, 1.5)), dt=0.01), "top")
    state = controller.begin()
    target = state.positions + (0.0, 0.0, 0.002)
    for _ in range(60):
        state = controller.follow(state, target)
    assert state.error < 1e-4 * controller.length


@pytest.mark.parametrize("rate", [0.05, 5.0])
def test_rate_limited_motion_is_not_unreachable(rate):
    controller = inverse_control(
        Quasistatic(can("pressure", (0.0, 1e4))),
        "top",
        limits=[Limit(lower=-rate, upper=rate, order=1)],
    )
    first = controller.begin()
    state = controller.settle(first, first.positions + (0.0, 0.0, 0.002), max_steps=20)
    assert (state.k, state.ok, state.message) == (20, True, "still moving after 20 control steps")
    assert state.u[0] == pytest.approx(20 * rate, rel=1e-6)
    assert controller.follow(first, first.positions + (0.0, 0.0, 0.002)).message.startswith(
        "moving"
    )


def test_state_that_is_not_finite_raises(raises_clear_error):
    controller = inverse_control(Quasistatic(can("volume", (0.8, 1.5))), "top")
    state = controller.begin()
    raises_clear_error(
        lambda: controller.follow(replace(state, x=np.nan * state.x), state.positions),
        "The state of the control state is nan",
    )
    raises_clear_error(
        lambda: controller.manual(replace(state, u=np.inf * (1.0 + state.u)), state.u),
        "The array of controls of the control state is inf",
    )


@pytest.mark.parametrize(("slowest", "outcome"), [(0.0, UNREACHABLE), (-300.0, REACHED)])
def test_target_against_an_irreversible_rate_is_unreachable(slowest, outcome):
    limits = [Limit(lower=slowest, upper=300.0, order=1)]
    controller = inverse_control(
        Quasistatic(can("pressure", (0.0, 1e4))),
        "top",
        fixed={"pull": 0.0},
        directions="z",
        limits=limits,
    )
    first = controller.begin(u=[2000.0, 0.0])
    state = controller.settle(first, first.positions - (0.0, 0.0, 5e-4), max_steps=60)
    assert state.outcome == outcome
    assert state.u[0] == 2000.0 if outcome == UNREACHABLE else state.u[0] < 1500.0


def test_resume_keeps_the_state_unchanged():
    """Nothing is solved, and the state is copied."""
    controller = inverse_control(Quasistatic(arm()))
    first = controller.begin()
    given = 1.01 * first.x
    state = controller.resume(given, first.u, 7)
    assert state.k == 7
    np.testing.assert_array_equal(state.x, 1.01 * first.x)
    np.testing.assert_allclose(state.positions, 1.01 * first.positions, rtol=1e-12)
    given[:] = 0.0
    np.testing.assert_array_equal(state.x, 1.01 * first.x)


@pytest.mark.parametrize("away", [0.0, 10.0])
@pytest.mark.parametrize(("fraction", "stands"), [(0.005, True), (0.02, False)])
def test_stability_does_not_depend_on_the_origin(away, fraction, stands):
    """A bar is stable if its end is within 1 % of its length of equilibrium."""
    across = pl.Cable(points=[(away + x, 0.02, 0.08) for x in (0.0, 0.04)], limits=(0.0, 1.0))
    robot = arm(
        shape=pl.Box(size=(0.04, 0.04, 0.16), origin=(away, 0.0, 0.0)),
        actuators={"across": across},
        effectors={"tip": pl.Effector(surface="z+")},
        material=pl.Material(E=1e5, nu=0.0),
        gravity=None,
    )
    controller = inverse_control(Quasistatic(robot))
    first = controller.begin()
    stretched = first.x * np.tile([1.0, 1.0, 1.0 + fraction], len(first.x) // 3)
    after = controller.manual(controller.resume(stretched, first.u, 0), first.u)
    assert (after.stable_equilibrium is not None) == stands


def test_manual_mode_takes_up_slack():
    """Taking up slack moves nothing, which is not a loss of equilibrium."""
    controller = inverse_control(Quasistatic(arm("length")))
    state = controller.begin(u=[1.0, 1.02, 1.0, 1.02])
    for _ in range(60):
        state = controller.manual(state, [0.95, 1.02, 1.0, 1.02])
        assert "equilibrium" not in state.message
    assert (state.message, state.limit_points) == ("manual", ())
    np.testing.assert_allclose(state.u, [0.95, 1.02, 1.0, 1.02])


@pytest.mark.parametrize("k", [-1, 2.5, None, True, np.nan])
def test_resume_rejects_an_invalid_step(k, raises_clear_error):
    controller = inverse_control(Quasistatic(arm()))
    first = controller.begin()
    raises_clear_error(
        lambda: controller.resume(first.x, first.u, k), "The control step to resume from"
    )


def test_resume_rejects_an_inverted_cell(raises_clear_error):
    controller = inverse_control(
        Quasistatic(arm(material=pl.Material(E=1e5, nu=0.3, law="neo-hookean")))
    )
    first = controller.begin()
    raises_clear_error(lambda: controller.resume(-first.x, first.u, 0), "an inverted cell")


def test_active_stroke_is_named_and_satisfied_under_a_growing_load():
    """A growing load pulls a cable beyond its stroke: the equilibrium is not admissible."""
    pull = pl.PointLoad(point=(0.02, 0.02, 0.16), force=lambda t: (-0.2 * t, 0.0, 0.0))
    controller = inverse_control(
        Quasistatic(arm(loads=[pull])),
        strokes=[StrokeLimit(actuator="a", upper=0.003)],
        limits=[Limit(upper=0.05)],
    )
    state, said = controller.begin(), []
    for _ in range(20):
        state = controller.follow(state, [[0.02, 0.02, 0.16]])
        assert controller.strokes[0].value(state.x) <= 0.003
        said.append(state.message)
    assert "constraint violated: the stroke of 'a'" in said
    assert said[-1] == "no step satisfies all constraints"


def test_dynamic_begin_uses_the_models_solver_and_copies_the_state():
    controller = inverse_control(SemiImplicit(arm(), dt=0.02, solver="multifrontal"))
    first = controller.begin()
    given = first.x.copy()
    assert controller.rule._quasistatic_model.equations.solver == "multifrontal"
    state = controller.begin(given)
    given[:] = 0.0
    np.testing.assert_array_equal(state.x, first.x)
