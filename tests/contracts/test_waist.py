"""What every model owes to whoever plans with it, over every robot and rule of the registry."""

import numpy as np
import pytest
from cases import PAIRS, ROBOTS, RULES, start

import pliant as pl
from pliant import actuators, dynamics
from pliant.core import Linearizable
from pliant.materials import LAWS

every = pytest.mark.parametrize(("name", "rule"), PAIRS, ids=[f"{rule}-{name}" for name, rule in PAIRS])
VERBS = {"gradcheck", "simulate", "equilibrium", "pullback", "Check", "Newton", "Rollout"}


@pytest.fixture(scope="module")
def started():
    """start(name, rule), once for all tests of a pair."""
    made = {}

    def get(name, rule):
        if (name, rule) not in made:
            made[name, rule] = start(name, rule)
        return made[name, rule]

    return get


@every
def test_every_derivative_passes_taylors_test(started, name, rule):
    model, x, u = started(name, rule)
    checks = pl.gradcheck(model, x, u, k=3)
    assert [check.name for check in checks] == [
        *model.space.parts, *(["control"] if u.size else []), *(block.name for block in model.params.blocks)
    ]  # fmt: skip
    for check in checks:
        assert check.ok, check
        assert check.exact or check.slope == pytest.approx(2.0, abs=0.1), check


@pytest.mark.parametrize("rule", RULES)
def test_the_built_in_solver_gives_the_same_derivatives(rule):
    """`make run` has SuperLU only; the extra `fast`, which these tests prefer, must not be what makes a derivative right."""
    case = ROBOTS["neo-hookean box-1 tension"]
    make = pl.Quasistatic if rule == "Quasistatic" else lambda robot, **options: getattr(pl, rule)(robot, dt=0.01, **options)
    pulled = []
    for solver in ("superlu", None):
        model = make(case.robot, design=case.design, solver=solver)
        step = model.step(model.initial_state(), np.array(case.control))
        pulled.append(np.concatenate(model.pullback(step, np.cos(np.arange(model.space.size)))))
        assert all(check.ok for check in pl.gradcheck(model, step.x, np.array(case.control)))
    np.testing.assert_allclose(pulled[0], pulled[1], rtol=1e-8, atol=1e-9 * np.abs(pulled[1]).max())


@every
def test_it_speaks_the_whole_waist(started, name, rule):
    model, x, u = started(name, rule)
    assert isinstance(model, Linearizable)
    assert model.initial_state().shape == x.shape == (model.space.size,)
    assert u.shape == (model.n_controls,)
    lin = model.linearize(model.step(x, u, None, 3))
    n, m, k = model.space.size, model.n_controls, model.params.size
    assert (lin.n_state, lin.n_controls, lin.n_params) == (n, m, k)
    assert lin.dense_state().shape == (n, n)
    assert lin.dense_controls().shape == (n, m)
    assert lin.dense_params().shape == (n, k)


@every
def test_jvp_vjp_pullback_and_blocks_are_one_derivative(started, rng, name, rule):
    model, x, u = started(name, rule)
    step = model.step(x, u, None, 3)
    lin = model.linearize(step)
    blocks = lin.dense_state(), lin.dense_controls(), lin.dense_params()
    directions = [rng.standard_normal((block.shape[1], 2)) * 1e-3 for block in blocks]
    together = sum(block @ d for block, d in zip(blocks, directions, strict=True))
    # Sums of the same numbers in another order, through a factor of condition up to 1e6.
    np.testing.assert_allclose(lin.jvp(*directions), together, atol=1e-9 * np.abs(together).max())
    x_bar = rng.standard_normal((model.space.size, 2))
    for got, block in zip(lin.vjp(x_bar), blocks, strict=True):
        np.testing.assert_allclose(got, block.T @ x_bar, atol=1e-9 * max(np.abs(block).max(initial=0.0), 1.0) * np.abs(x_bar).sum())
    for got, one in zip(model.pullback(step, x_bar[:, 0]), lin.vjp(x_bar[:, 0]), strict=True):
        np.testing.assert_array_equal(got, one)


@every
def test_a_step_changes_none_of_its_inputs_and_shares_no_memory(started, name, rule):
    model, x, u = started(name, rule)
    p = model.params.flat
    kept = [a.copy() for a in (x, u, p)]
    step = model.step(x, u, p, 3)
    model.pullback(step, np.ones_like(x))
    for a, before in zip((x, u, p), kept, strict=True):
        np.testing.assert_array_equal(a, before)
        assert not np.shares_memory(a, step.x)
    assert not np.shares_memory(model.equations.body.rest, step.x)


@every
def test_the_same_call_gives_the_same_bits(started, name, rule):
    model, x, u = started(name, rule)
    again = RULES[rule](ROBOTS[name].robot, ROBOTS[name].design)  # with caches of its own
    first = model.step(x, u, None, 3)
    model.step(x, 0.5 * u, None, 7)  # a step between leaves no trace
    for other in (model, again):
        second = other.step(x, u, None, 3)
        np.testing.assert_array_equal(first.x, second.x)
        assert first.status == second.status
        for a, b in zip(model.pullback(first, np.ones_like(x)), other.pullback(second, np.ones_like(x)), strict=True):
            np.testing.assert_array_equal(a, b)


@every
def test_parameters_as_described_are_the_default(started, name, rule):
    model, x, u = started(name, rule)
    np.testing.assert_allclose(model.step(x, u, model.params.flat, 3).x, model.step(x, u, None, 3).x, rtol=1e-12, atol=1e-13)


def test_registry_every_law_is_in_a_case():
    materials = [case.robot.material for case in ROBOTS.values() if isinstance(case.robot.material, pl.Material)]
    assert {material.law for material in materials} == set(LAWS)
    assert {0, 2} <= {material.power for material in materials}


def test_registry_every_rule_is_in_a_case():
    rules = {name for name in dynamics.__all__ if name not in VERBS}
    assert rules == set(RULES) == {rule for _, rule in PAIRS}


def test_registry_every_actuator_is_in_a_case():
    exported = {name for name in actuators.__all__ if callable(getattr(getattr(actuators, name), "on", None))}
    used = [actuator for case in ROBOTS.values() for actuator in case.robot.actuators.values()]
    assert {type(actuator).__name__ for actuator in used} == exported
    assert {actuator.drive for actuator in used if isinstance(actuator, pl.Cable)} == {"tension", "length"}


def test_registry_every_element_and_attachment_is_in_a_case():
    robots = [case.robot for case in ROBOTS.values()]
    solids = [robot.mesh() for robot in robots if not isinstance(robot.shape, pl.PointMass)]
    assert {(mesh.dim, mesh.order) for mesh in solids} == {(2, 1), (2, 2), (3, 1), (3, 2)}
    assert any(isinstance(robot.shape, pl.PointMass) for robot in robots)
    assert {type(load) for robot in robots for load in robot.loads} == {pl.PointLoad, pl.SurfaceLoad}
    assert any(contact.friction > 0.0 for robot in robots for contact in robot.contacts)
    assert any(contact.friction == 0.0 for robot in robots for contact in robot.contacts)
    assert any(support.motion for robot in robots for support in robot.supports)
