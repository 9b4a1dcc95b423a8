"""The core interface of every model, for every robot and integration rule of the registry."""

import numpy as np
import pytest
from cases import LINEAR, LINEAR_PAIRS, PAIRS, ROBOTS, RULES, start

import pliant as pl
from pliant import actuators, dynamics, linalg, mpm
from pliant.core import InputError, Linearizable, Reversible, TwiceDifferentiable
from pliant.materials import LAWS

every = pytest.mark.parametrize(
    ("name", "rule"), PAIRS, ids=[f"{rule}-{name}" for name, rule in PAIRS]
)
linear = pytest.mark.parametrize(
    ("name", "rule"), LINEAR_PAIRS, ids=[f"{rule}-{name}" for name, rule in LINEAR_PAIRS]
)
NOT_RULES = {
    "Check",
    "Rollout",
    "SolverOptions",
    "equilibrium",
    "gradcheck",
    "pullback",
    "simulate",
}


@pytest.fixture(scope="module")
def started():
    """Return a cached start(name, rule), which is evaluated once for all tests of a pair."""
    made = {}

    def get(name, rule):
        if (name, rule) not in made:
            made[name, rule] = start(name, rule)
        return made[name, rule]

    return get


@linear
def test_every_derivative_passes_taylors_test(started, name, rule):
    model, x, u = started(name, rule)
    checks = pl.gradcheck(model, x, u, k=3)
    assert [check.name for check in checks] == [
        *model.space.parts,
        *(["control"] if u.size else []),
        *(block.name for block in model.params.blocks),
    ]
    for check in checks:
        assert check.ok, check
        assert check.exact or check.slope == pytest.approx(2.0, abs=0.1), check


@pytest.mark.parametrize("rule", LINEAR)
def test_every_solver_gives_the_same_derivatives(rule):
    """Derivatives must also be correct without the extra `fast`."""
    pytest.importorskip("cvxopt")
    case = ROBOTS["neo-hookean box-1 tension"]
    make = (
        pl.Quasistatic
        if rule == "Quasistatic"
        else lambda robot, **options: getattr(pl, rule)(robot, dt=0.01, **options)
    )
    pulled = []
    for solver in linalg.available_solvers():
        model = make(case.robot, design=case.design, solver=solver)
        step = model.step(model.initial_state(), np.array(case.control))
        pulled.append(np.concatenate(model.pullback(step, np.cos(np.arange(model.space.size)))))
        assert all(check.ok for check in pl.gradcheck(model, step.x, np.array(case.control)))
    np.testing.assert_allclose(
        pulled[0], pulled[-1], rtol=1e-8, atol=1e-9 * np.abs(pulled[-1]).max()
    )


@every
def test_model_implements_the_reversible_interface(started, name, rule):
    model, x, u = started(name, rule)
    assert isinstance(model, Reversible)
    assert model.initial_state().shape == x.shape == (model.space.size,)
    assert u.shape == (model.n_controls,)
    shares = model.pullback(model.step(x, u, None, 3), np.ones_like(x))
    assert [share.shape for share in shares] == [x.shape, u.shape, (model.params.size,)]
    for limits in (*model.control_limits(), model.neutral_controls()):
        assert limits.shape == u.shape


def directions(model, x, u, rng):
    """Yield (name, dx, du, dp) for each part of the state, control and block of parameters."""
    p, starts = model.params.flat, model.space.starts
    for k, part in enumerate(model.space.parts):
        d, reach = (
            np.zeros_like(x),
            {"position": 1e-3, "velocity": 0.1, "affine": 1.0, "deformation": 0.01}[part],
        )
        d[starts[k] : starts[k + 1]] = reach * rng.standard_normal(starts[k + 1] - starts[k])
        yield part, d, 0.0 * u, 0.0 * p
    for j in range(u.size):
        yield f"control {j}", 0.0 * x, 0.3 * u * np.eye(u.size)[j], 0.0 * p
    names = np.repeat(
        [block.name for block in model.params.blocks],
        [block.value.size for block in model.params.blocks],
    )
    for block in model.params.blocks:
        yield (
            block.name,
            0.0 * x,
            0.0 * u,
            0.2 * p * rng.standard_normal(p.size) * (names == block.name),
        )


OTHERS = [pair for pair in PAIRS if pair not in LINEAR_PAIRS]


@pytest.mark.parametrize(("name", "rule"), OTHERS, ids=[f"{rule}-{name}" for name, rule in OTHERS])
def test_pullback_passes_taylors_test(started, taylor, rng, name, rule):
    """Check rules without `linearize` for each state part, control and parameter block."""
    model, x, u = started(name, rule)
    assert not isinstance(model, Linearizable)
    p, n = model.params.flat, model.space.starts
    step = model.step(x, u, p, 3)
    bar = np.concatenate(
        [
            rng.standard_normal(n[k + 1] - n[k]) / (1.0 + np.abs(step.x[n[k] : n[k + 1]]).max())
            for k in range(len(n) - 1)
        ]
    )
    back = model.pullback(step, bar)
    for what, *d in directions(model, x, u, rng):
        move = lambda e, d=d: bar @ model.step(x + e * d[0], u + e * d[1], p + e * d[2], 3).x
        slope = sum(share @ part for share, part in zip(back, d, strict=True))
        assert (move(1e-4) - move(-1e-4)) / 2e-4 == pytest.approx(slope, rel=1e-6), what
        if (
            abs(move(1e-2) - move(0.0) - 1e-2 * slope) > 1e-10
        ):  # otherwise the step is linear in this input
            assert taylor(move, slope) == pytest.approx(2.0, abs=0.1), what


@linear
def test_model_implements_the_core_interface(started, name, rule):
    model, x, u = started(name, rule)
    assert isinstance(model, Linearizable)
    lin = model.linearize(model.step(x, u, None, 3))
    n, m, k = model.space.size, model.n_controls, model.params.size
    assert (lin.n_state, lin.n_controls, lin.n_params) == (n, m, k)
    assert lin.dense_state().shape == (n, n)
    assert lin.dense_controls().shape == (n, m)
    assert lin.dense_params().shape == (n, k)


@linear
def test_jvp_vjp_pullback_and_dense_blocks_agree(started, rng, name, rule):
    model, x, u = started(name, rule)
    step = model.step(x, u, None, 3)
    lin = model.linearize(step)
    blocks = lin.dense_state(), lin.dense_controls(), lin.dense_params()
    directions = [rng.standard_normal((block.shape[1], 2)) * 1e-3 for block in blocks]
    together = sum(block @ d for block, d in zip(blocks, directions, strict=True))
    # The sums have another order, and the factor has a condition number up to 1e6.
    np.testing.assert_allclose(lin.jvp(*directions), together, atol=1e-9 * np.abs(together).max())
    x_bar = rng.standard_normal((model.space.size, 2))
    for got, block in zip(lin.vjp(x_bar), blocks, strict=True):
        np.testing.assert_allclose(
            got,
            block.T @ x_bar,
            atol=1e-9 * max(np.abs(block).max(initial=0.0), 1.0) * np.abs(x_bar).sum(),
        )
    for got, one in zip(model.pullback(step, x_bar[:, 0]), lin.vjp(x_bar[:, 0]), strict=True):
        np.testing.assert_array_equal(got, one)


@every
def test_step_does_not_modify_inputs_or_share_memory(started, name, rule):
    model, x, u = started(name, rule)
    p = model.params.flat
    kept = [a.copy() for a in (x, u, p)]
    step = model.step(x, u, p, 3)
    model.pullback(step, np.ones_like(x))
    for a, before in zip((x, u, p), kept, strict=True):
        np.testing.assert_array_equal(a, before)
        assert not np.shares_memory(a, step.x)
    assert not np.shares_memory(model.robot.body().rest, step.x)


@every
def test_repeated_call_is_bit_identical(started, name, rule):
    model, x, u = started(name, rule)
    again = RULES[rule](ROBOTS[name].robot, ROBOTS[name].design)  # with separate caches
    first = model.step(x, u, None, 3)
    model.step(x, 0.5 * u, None, 7)  # an intermediate step has no effect
    for other in (model, again):
        second = other.step(x, u, None, 3)
        np.testing.assert_array_equal(first.x, second.x)
        assert first.status == second.status
        for a, b in zip(
            model.pullback(first, np.ones_like(x)),
            other.pullback(second, np.ones_like(x)),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


@every
def test_parameters_of_robot_are_the_default(started, name, rule):
    model, x, u = started(name, rule)
    np.testing.assert_allclose(
        model.step(x, u, model.params.flat, 3).x,
        model.step(x, u, None, 3).x,
        rtol=1e-12,
        atol=1e-13,
    )


def test_registry_every_law_is_in_a_case():
    materials = [
        case.robot.material
        for case in ROBOTS.values()
        if isinstance(case.robot.material, pl.Material)
    ]
    assert {material.law for material in materials} == set(LAWS)
    assert {0, 2} <= {material.power for material in materials}


def test_registry_every_rule_is_in_a_case():
    rules = {*dynamics.__all__, *mpm.__all__} - NOT_RULES
    assert set(RULES) == {rule for _, rule in PAIRS}
    # the name of a rule may end with its options
    assert rules == {rule.partition(" ")[0] for rule in RULES}


def test_registry_every_actuator_is_in_a_case():
    exported = {
        name
        for name in actuators.__all__
        if callable(getattr(getattr(actuators, name), "attach", None))
    }
    used = [actuator for case in ROBOTS.values() for actuator in case.robot.actuators.values()]
    assert {type(actuator).__name__ for actuator in used} == exported
    assert {actuator.drive for actuator in used if isinstance(actuator, pl.Cable)} == {
        "tension",
        "length",
    }


def test_registry_every_element_and_attachment_is_in_a_case():
    robots = [case.robot for case in ROBOTS.values()]
    solids = [
        robot.mesh()
        for robot in robots
        if not isinstance(robot.shape, pl.PointMass | pl.geometry.Rods)
    ]
    assert {(mesh.dim, mesh.order) for mesh in solids} == {(2, 1), (2, 2), (3, 1), (3, 2)}
    assert any(isinstance(robot.shape, pl.PointMass) for robot in robots)
    assert any(isinstance(robot.shape, pl.geometry.Rods) for robot in robots)
    assert {type(load) for robot in robots for load in robot.loads} == {
        pl.PointLoad,
        pl.SurfaceLoad,
    }
    assert any(contact.friction > 0.0 for robot in robots for contact in robot.contacts)
    assert any(contact.friction == 0.0 for robot in robots for contact in robot.contacts)
    assert any(support.motion for robot in robots for support in robot.supports)


def second_order_pairs():
    """Yield every robot once with alternating rules.

    A damped robot is never paired with a rule without velocity."""
    for i, (name, case) in enumerate(ROBOTS.items()):
        damped = case.robot.damping.stiffness > 0.0 or case.robot.damping.mass > 0.0
        rules = [
            rule
            for rule in case.rules
            if isinstance(RULES[rule](case.robot, ()), TwiceDifferentiable)
            and not (damped and rule == "Quasistatic")
        ]
        if rules:
            yield name, rules[i % len(rules)]


SECOND = list(second_order_pairs())
RUBS = [
    pair
    for pair in SECOND
    if pair[1] != "Quasistatic"
    and any(contact.friction > 0.0 for contact in ROBOTS[pair[0]].robot.contacts)
]
BENT = [pair for pair in SECOND if pair not in RUBS]
bent = pytest.mark.parametrize(
    ("name", "rule"), BENT, ids=[f"{rule}-{name}" for name, rule in BENT]
)


def hessian_vector_at(started, name, rule, rng):
    """Return a fixed x_bar, its Hessian-vector function, and two directions (dx, du).

    dx has a tenth of the body size [m, m/s]. An equilibrium does not depend on x; its du is larger,
    so that the curvature exceeds the accuracy of the forces."""
    model, x, u = started(name, rule)
    x_bar, reach = rng.standard_normal(x.size), 0.3 if any(model.space.rate) else 10.0 * np.abs(u)
    directions = [
        (1e-2 * rng.standard_normal(x.size), reach * rng.standard_normal(u.size)) for _ in range(2)
    ]
    return model, x, u, x_bar, model.hessian_vector(model.step(x, u, None, 3), x_bar), directions


@bent
def test_hessian_vector_is_derivative_of_pullback(started, taylor, rng, name, rule):
    model, x, u, x_bar, hessian_vector, ((dx, du), _) = hessian_vector_at(started, name, rule, rng)
    assert model.has_second_derivatives
    pulled = lambda e: np.concatenate(
        model.pullback(model.step(x + e * dx, u + e * du, None, 3), x_bar)[:2]
    )
    change = np.concatenate(hessian_vector(dx[:, None], du[:, None]))[:, 0]
    far = np.linalg.norm(pulled(1e-2) - pulled(0.0))
    if far <= 1e-9 * np.linalg.norm(pulled(0.0)):  # a linear step
        assert np.linalg.norm(change) <= 1e-9 * np.linalg.norm(pulled(0.0))
    else:
        assert taylor(pulled, change) == pytest.approx(2.0, abs=0.15)


@bent
def test_second_derivatives_are_symmetric(started, rng, name, rule):
    _, _, _, _, hessian_vector, ((dx, du), (ex, eu)) = hessian_vector_at(started, name, rule, rng)
    by_x, by_u = hessian_vector(np.stack([dx, ex], axis=1), np.stack([du, eu], axis=1))
    table = np.array(
        [[d @ by_x[:, j] + e @ by_u[:, j] for j in range(2)] for d, e in ((dx, du), (ex, eu))]
    )
    assert table[0, 1] == pytest.approx(table[1, 0], abs=1e-8 * np.abs(table).max() + 1e-15)


@pytest.mark.parametrize(("name", "rule"), RUBS, ids=[f"{rule}-{name}" for name, rule in RUBS])
def test_friction_has_no_second_derivative_and_raises(started, name, rule):
    model, x, u = started(name, rule)
    assert not model.has_second_derivatives
    with pytest.raises(InputError, match=r"Friction has no second derivatives.*second_order=False"):
        model.hessian_vector(model.step(x, u, None, 3), np.ones_like(x))


def test_registry_has_second_derivative_cases_for_every_rule_law_actuator_and_damping():
    robots = [ROBOTS[name].robot for name, _ in BENT]
    curved = set(LINEAR) - {"SemiImplicit"}
    assert {rule for _, rule in BENT} == curved
    assert {rule for _, rule in RUBS} <= curved - {"Quasistatic"}
    assert RUBS
    assert {
        robot.material.law for robot in robots if isinstance(robot.material, pl.Material)
    } == set(LAWS)
    used = {
        type(actuator) for case in ROBOTS.values() for actuator in case.robot.actuators.values()
    }
    assert {type(actuator) for robot in robots for actuator in robot.actuators.values()} == used
    viscous = {
        (rule, ROBOTS[name].robot.material.law)
        for name, rule in BENT
        if ROBOTS[name].robot.damping.stiffness > 0.0
    }
    assert {rule for rule, _ in viscous} == {"ImplicitEuler", "BDF2"}
    assert not isinstance(pl.SemiImplicit(ROBOTS["point load"].robot, dt=0.01), TwiceDifferentiable)
