"""The contract of every planner: the common optimum within limits, bit-identical replay, any guess,
and resumption after an interruption."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Gripper, MovingFrame
from pliant.core import InputError, StepError
from pliant.dynamics import SolverOptions
from pliant.planners import Options, choose, ddp, gauss_newton, gradient, newton
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.collocation_planner import collocation
from pliant.planners.evaluation import evaluate
from pliant.planners.newton_planner import hessian_vector
from pliant.planners.plan_result import FILE
from pliant.planners.sensitivity import (
    adjoint_jacobian,
    control_cost_gradient,
    forward_jacobian,
    loss_gradients,
)
from pliant.problem import Effort, Goal, Limit, Problem, Residual, Reward, apply_stencil

pytest.importorskip("casadi")

# Every planner with all of its variants; Ipopt's tolerance is a hundredth of ours, and below 1e-10
# round-off stops it
METHODS = {
    "gauss_newton adjoint": partial(gauss_newton, route="adjoint"),
    "gauss_newton forward": partial(gauss_newton, route="forward"),
    "gauss_newton riccati": partial(gauss_newton, route="riccati"),
    "gauss_newton reduced": partial(gauss_newton, route="reduced"),
    "newton": newton,
    "newton first order": partial(newton, second_order=False),
    "ddp": partial(ddp, second_order=True),
    "ddp first order": ddp,
    "gradient": gradient,
    "collocation": collocation,
}
SHOOTING = [name for name in METHODS if name != "collocation"]
TIGHT = Options(tolerance=1e-10)
EXACT = dict.fromkeys(SHOOTING, TIGHT) | {"collocation": Options(tolerance=1e-8)}
LIMITS = {
    "free": [],
    "joints": [Limit(lower=(-np.inf, -0.1, -np.inf), upper=(np.inf, 0.1, np.inf))],
    "rates": [Limit(lower=-0.7, upper=0.7, order=1)],
    "accelerations": [Limit(lower=-7.0, upper=7.0, order=2)],
    "all": [
        Limit(lower=-0.05, upper=0.1),
        Limit(lower=-1.5, upper=0.7, order=1),
        Limit(lower=-9.0, upper=7.0, order=2),
    ],
}
every = pytest.mark.parametrize("method", METHODS)


def whip(rule=pl.ImplicitEuler, *, damping=0.0, dt=0.03, iterations=100):
    """Return (model, state) of a foam strip at rest under gravity.

    A gripper moves and rotates its left end."""
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.4, 0.04)),
        divisions=(3, 1),
        thickness=0.04,
        order=1,
        gravity=(0, -9.81),
        material=pl.Material(E=6e4, nu=0.4, density=35.0, law="neo-hookean"),
        damping=pl.Damping(stiffness=damping),
        actuators={"hand": Gripper(surface="x-", frame=MovingFrame(origin=(0, 0.02)))},
        effectors={"tip": pl.Effector(surface="x+")},
    )
    model = rule(robot, dt=dt, solver_options=SolverOptions(iterations=iterations))
    return model, model.state(pl.equilibrium(pl.Quasistatic(robot), np.zeros(3)).x)


def hit(*, steps=6, target=(0.3, 0.2), limits=(), weight=100.0, model=None, **parts):
    """Return the problem of moving the tip to a target at the final time."""
    model, x0 = whip() if model is None else model
    goal = Goal(effector="tip", target=target, time=steps * model.dt, weight=weight)
    return Problem(
        model=model,
        steps=steps,
        x0=x0,
        limits=limits,
        terms=[goal, Effort(weight=1e-3, order=1), Effort(weight=1e-3, order=2)],
        **parts,
    )


@cache
def problem_with(limits):
    return hit(limits=LIMITS[limits])


@cache
def solved(method, limits="free"):
    return METHODS[method](problem_with(limits), options=EXACT[method])


@cache
def optimum(limits="free"):
    """Return the least cost of all planners."""
    return min(solved(method, limits).cost for method in METHODS)


def interrupt(after):
    def progress(what, done, total):
        if done >= after:
            raise KeyboardInterrupt

    return progress


def test_registry_every_planner_is_in_a_case():
    assert {name.split()[0] for name in METHODS} == set(choose.METHODS)


# The optimum


@every
@pytest.mark.parametrize("limits", LIMITS)
def test_every_planner_finds_the_common_optimum_within_limits(method, limits):
    problem, plan = problem_with(limits), solved(method, limits)
    assert plan.status, plan.status.text
    assert plan.cost == pytest.approx(optimum(limits), rel=1e-6)
    assert plan.limit_violation <= 1e-12
    for bound in problem.control_bounds:
        r = apply_stencil(bound.stencil, plan.controls, np.zeros(3))
        slack = 1e-12 * max(1.0, bound.stencil[0])
        assert np.all(r >= bound.lower - slack)
        assert np.all(r <= bound.upper + slack)


@pytest.mark.parametrize("limits", [name for name in LIMITS if name != "free"])
def test_limits_of_the_cases_are_active(limits):
    problem = problem_with(limits)
    assert problem.limit_violation(solved("newton").controls) > 0.01
    assert optimum(limits) > 1.05 * optimum()
    for bound in problem.control_bounds[1:]:
        r = apply_stencil(bound.stencil, solved("newton", limits).controls, np.zeros(3))
        assert min((bound.upper - r).min(), (r - bound.lower).min()) == pytest.approx(
            0.0, abs=1e-6 * bound.stencil[0]
        )


@pytest.mark.parametrize("limits", ["free", "all"])
def test_random_perturbations_do_not_lower_the_cost(limits, rng):
    problem, plan = problem_with(limits), solved("newton", limits)
    for _ in range(10):
        other = (
            plan.controls + rng.standard_normal(plan.controls.shape)
            if limits == "free"
            else _inside(problem, rng)
        )
        assert evaluate(problem, plan.controls + 1e-3 * (other - plan.controls)).cost > plan.cost


def _inside(problem, rng):
    """Return random controls within the limits at constant speed.

    The limits are convex, so intermediate points are also within them."""
    start = 0.005 * rng.uniform(-1, 1, 3)
    controls = np.outer(np.arange(1, problem.steps + 1), start)
    assert problem.limit_violation(controls) == 0.0
    return controls


@every
@pytest.mark.parametrize("limits", ["free", "all"])
def test_replay_is_bit_for_bit(method, limits):
    problem, plan = problem_with(limits), solved(method, limits)
    fresh, _ = whip()  # with separate caches
    assert plan.replay(problem.model, problem) == plan.cost
    assert plan.replay(fresh, problem) == plan.cost
    run = evaluate(problem, plan.controls)
    np.testing.assert_array_equal(run.states, plan.states)


@pytest.mark.parametrize("method", SHOOTING)
@pytest.mark.parametrize("limits", LIMITS)
def test_cost_never_increases(method, limits):
    plan = solved(method, limits)
    costs = [row.cost for row in plan.history]
    assert np.all(np.diff(costs) <= 0.0)
    assert costs[-1] == plan.cost
    assert costs[0] == evaluate(problem_with(limits), problem_with(limits).guess()).cost
    assert plan.status.iterations == len(costs) - 1


@pytest.mark.parametrize("method", SHOOTING)
@pytest.mark.parametrize("limits", ["free", "all"])
def test_warm_start_from_optimum_converges_at_once(method, limits):
    """Collocation is excluded, because its interior-point method starts away from the limits."""
    again = METHODS[method](problem_with(limits), guess=solved("newton", limits).controls)
    assert again.status
    assert len(again.history) - 1 <= 1
    assert again.cost == pytest.approx(optimum(limits), rel=1e-6)


@every
def test_repeated_call_is_bit_identical(method):
    first, again = (
        solved(method, "all"),
        METHODS[method](hit(limits=LIMITS["all"]), options=EXACT[method]),
    )
    np.testing.assert_array_equal(first.controls, again.controls)
    assert [(row.cost, row.step, row.regulariser) for row in first.history] == [
        (row.cost, row.step, row.regulariser) for row in again.history
    ]


@every
def test_guess_is_projected_to_limits(method):
    plan = METHODS[method](
        problem_with("rates"),
        guess=solved("newton").controls,
        options=replace(EXACT[method], iterations=400),
    )
    assert plan.limit_violation <= 1e-12
    assert plan.cost == pytest.approx(optimum("rates"), rel=1e-5)


@every
def test_unreachable_target_is_approached_and_reported(method):
    """A gripper that moves by at most 1 cm and rotates little cannot move the tip by 1 m."""
    problem = hit(steps=3, target=(1.0, 1.0), limits=[Limit(lower=-0.01, upper=0.01)])
    plan = METHODS[method](problem, options=EXACT[method])
    assert plan.status, plan.status.text
    assert "'tip' at t = 0.09 s is missed by" in plan.status.text
    assert "the closest that this objective and these limits allow" in plan.status.text
    assert (
        np.linalg.norm(
            problem.observations[0].evaluate(plan.states, plan.controls, np.zeros(3)) - (1.0, 1.0)
        )
        == plan.goal_errors[0][2]
    )
    assert plan.cost == pytest.approx(gauss_newton(problem, options=TIGHT).cost, rel=1e-6)


@every
def test_horizon_of_one_step_is_planned(method):
    problem = hit(steps=1)
    plan = METHODS[method](problem, options=EXACT[method])
    assert plan.status, plan.status.text
    assert plan.controls.shape == (1, 3)
    assert plan.cost == pytest.approx(newton(problem, options=TIGHT).cost, rel=1e-6)
    if plan.gains is not None:
        assert len(plan.gains) == 1


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_bad_horizon_is_rejected(steps):
    with pytest.raises(InputError, match="give a whole number, 1 or more"):
        replace(problem_with("free"), steps=steps)


# Printed output


def test_show_prints_goal_errors_and_history(capsys):
    plan = solved("newton")
    plan.show()
    summary, goals, history = capsys.readouterr().out.split("\n\n")
    assert summary == plan.summary()
    assert goals.split() == [
        "effector",
        "time",
        "[s]",
        "error",
        "[m]",
        "tip",
        "0.18",
        f"{plan.goal_errors[0][2]:.3g}",
    ]
    head, *rows = history.splitlines()
    assert head.split() == ["iteration", "cost", "step", "seconds"]
    assert [int(row.split()[0]) for row in rows] == list(range(len(plan.history)))
    np.testing.assert_allclose(
        [float(row.split()[1]) for row in rows], [row.cost for row in plan.history], rtol=1e-5
    )
    assert {len(row) for row in rows} == {len(head)}  # aligned


def test_show_without_position_goal_prints_no_goal_errors(capsys):
    replace(solved("newton"), goal_errors=()).show()
    assert "error [m]" not in capsys.readouterr().out


# Interruptions


@every
def test_interrupted_planner_returns_best_iterate_and_resumes(method, tmp_path):
    problem = problem_with("free")
    torn = METHODS[method](
        problem, options=replace(EXACT[method], folder=tmp_path, progress=interrupt(2))
    )
    assert torn.interrupted
    assert not torn.status
    assert "resume" in torn.status.text
    assert len(torn.history) == 3
    assert optimum() < torn.cost <= torn.history[0].cost
    assert torn.replay(problem.model, problem) == torn.cost
    if method in SHOOTING:
        assert torn.cost == min(row.cost for row in torn.history)
    whole = METHODS[method](problem, options=replace(EXACT[method], folder=tmp_path, resume=True))
    assert whole.status, whole.status.text
    assert not whole.interrupted
    assert whole.cost == pytest.approx(optimum(), rel=1e-6)
    assert [row.cost for row in whole.history[:3]] == [row.cost for row in torn.history]


@every
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"history": [{}], "controls": []}',
        '{"history": [], "controls": [[1, 2]]}',
    ],
)
def test_resume_from_damaged_file_is_rejected(method, text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError) as caught:
        METHODS[method](problem_with("free"), options=Options(folder=tmp_path, resume=True))
    assert FILE in str(caught.value)
    assert "\n" not in str(caught.value)


@every
def test_finished_plan_can_be_resumed(method, tmp_path):
    done = METHODS[method](problem_with("all"), options=replace(EXACT[method], folder=tmp_path))
    again = METHODS[method](
        problem_with("all"), options=replace(EXACT[method], folder=tmp_path, resume=True)
    )
    assert again.history[: len(done.history)] == done.history
    assert again.cost == pytest.approx(done.cost, rel=1e-6)


OTHERS = {
    "target": lambda: hit(target=(0.3, 0.2001)),
    "weight": lambda: hit(weight=100.1),
    "dt": lambda: hit(model=whip(dt=0.0301)),
    "start": lambda: replace(hit(), x0=1.01 * hit().x0),
    "failing": lambda: hit(model=whip(iterations=1)),
}


@pytest.mark.parametrize(
    ("method", "other"),
    [
        *((method, "target") for method in METHODS),
        *(("newton", other) for other in list(OTHERS)[1:]),
    ],
)
def test_resume_of_another_problem_is_rejected(method, other, tmp_path):
    METHODS[method](
        problem_with("free"), options=replace(EXACT[method], folder=tmp_path, iterations=3)
    )
    kept = (tmp_path / FILE).read_bytes()
    with pytest.raises(
        InputError,
        match=r"belongs to another problem.*here; plan without resume, or in another folder",
    ) as caught:
        METHODS[method](
            OTHERS[other](), options=replace(EXACT[method], folder=tmp_path, resume=True)
        )
    assert ("cannot be simulated" in str(caught.value)) == (other == "failing")
    assert (tmp_path / FILE).read_bytes() == kept


@every
def test_resume_from_empty_folder_starts_from_guess(method, tmp_path):
    plan = METHODS[method](
        hit(steps=2), options=replace(EXACT[method], folder=tmp_path / "new", resume=True)
    )
    assert plan.status, plan.status.text
    assert (tmp_path / "new" / FILE).is_file()


# Runs that cannot be simulated


@pytest.mark.parametrize("method", SHOOTING)
def test_failed_trial_is_shortened_and_reported(method):
    """With 6 Newton iterations fast motions fail, and the first trial is a fast motion."""
    problem = hit(target=(0.0, 0.3), model=whip(iterations=6))
    plan = METHODS[method](problem, options=Options(iterations=15))
    failed = sum(row.failed for row in plan.history)
    assert failed > 0
    assert f"{failed} trial steps failed to simulate" in plan.status.text
    assert plan.cost < 0.95 * plan.history[0].cost
    assert np.isfinite([row.cost for row in plan.history]).all()
    assert plan.replay(problem.model, problem) == plan.cost


@every
def test_guess_that_fails_to_simulate_is_rejected(method):
    problem = hit(steps=3, model=whip(iterations=2))
    with pytest.raises(
        StepError, match=r"The first guess cannot be simulated \(step 0: .*\); give another guess"
    ):
        METHODS[method](problem, guess=problem.guess() + 1.0)


@every
@pytest.mark.parametrize(
    ("guess", "message"),
    [
        (np.full((6, 3), np.nan), "is nan at entry 0, 0; it must be finite"),
        (np.zeros((5, 3)), r"has shape \(5, 3\); give numbers of shape \(6, 3\)"),
        (np.zeros(18), r"has shape \(18,\)"),
        ("fast", "give numbers of shape"),
    ],
)
def test_bad_guess_is_rejected(method, guess, message):
    with pytest.raises(InputError, match=message):
        METHODS[method](problem_with("free"), guess=guess)


# Derivatives


def curved(rule, damping, effort=0.1):
    """Return a problem with every kind of term, including terms over several steps."""
    model, x0 = whip(rule, damping=damping)
    terms = [
        Goal(effector="tip", target=(0.35, 0.1), time=0.12, weight=20.0),
        Goal(
            effector="tip",
            target=(3.0, 1.0),
            quantity="acceleration",
            time=(0.03, 0.09),
            weight=1e-3,
        ),
        Reward(effector="tip", direction=(0.5, 1.0), time=0.12, weight=0.1),
        Residual(
            effector="tip",
            residual=lambda y: np.array([y[0] * y[1], np.sin(3.0 * y[0])]),
            weight=5.0,
        ),
        *(Effort(weight=effort * 10.0 ** (-2 * order), order=order) for order in range(4)),
    ]
    return Problem(model=model, steps=4, x0=x0, terms=terms)


@pytest.fixture(
    params=[(pl.ImplicitEuler, 0.0), (pl.ImplicitEuler, 0.01), (pl.BDF2, 0.01)],
    ids=["euler", "viscous euler", "viscous bdf2"],
)
def moving(request, rng):
    """Return a problem, a simulation away from rest and a direction of its controls."""
    problem = curved(*request.param)
    now = evaluate(problem, problem.guess() + 0.05 * rng.standard_normal((4, 3)))
    return problem, now, rng.standard_normal((4, 3))


def test_adjoint_and_forward_jacobians_agree(moving):
    problem, now, _ = moving
    rows = adjoint_jacobian(problem, now)
    assert rows.shape == (sum(observation.size for observation in problem.observations), 4, 3)
    np.testing.assert_allclose(
        rows, forward_jacobian(problem, now), rtol=1e-9, atol=1e-9 * np.abs(rows).max()
    )
    for observation, last in zip(
        problem.observations,
        np.cumsum([observation.size for observation in problem.observations]),
        strict=True,
    ):
        assert not rows[
            last - observation.size : last, observation.step :
        ].any()  # later controls have no effect


def test_cost_gradient_and_hessian_pass_taylor_test(moving, rate):
    problem, now, d = moving
    g = control_cost_gradient(problem, now.controls) + np.tensordot(
        loss_gradients(problem, now), adjoint_jacobian(problem, now), axes=1
    )
    slope, bend = float(np.sum(g * d)), float(np.sum(d * hessian_vector(problem, now, d)))
    sizes = 1e-2 * 0.5 ** np.arange(5)
    change = np.array([evaluate(problem, now.controls + e * d).cost - now.cost for e in sizes])
    assert rate(sizes, np.abs(change - sizes * slope)) == pytest.approx(2.0, abs=0.15)
    assert rate(sizes, np.abs(change - sizes * slope - 0.5 * sizes**2 * bend)) == pytest.approx(
        3.0, abs=0.2
    )


def test_hessian_is_symmetric(moving, rng):
    problem, now, d = moving
    e = rng.standard_normal(d.shape)
    one, other = (
        np.sum(e * hessian_vector(problem, now, d)),
        np.sum(d * hessian_vector(problem, now, e)),
    )
    assert one == pytest.approx(other, rel=1e-8)


@pytest.mark.parametrize("method", SHOOTING)
def test_methods_agree_for_terms_over_several_steps(method):
    problem = curved(pl.BDF2, 0.0, effort=30.0)  # enough that there is one
    plan = METHODS[method](problem, options=TIGHT)
    assert plan.status, plan.status.text
    assert plan.cost == pytest.approx(newton(problem, options=TIGHT).cost, rel=1e-6)


# Feedback gains and regularisation of DDP


def jet(**parts):
    """Return the problem of a ball driven by a thrust: linear dynamics, quadratic cost over several
    steps."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=0.2),
        gravity=(0.0, -9.81),
        damping=pl.Damping(mass=0.5),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"ball": pl.Effector(point=(0.0, 0.0))},
    )
    terms = [
        Goal(effector="ball", target=(0.3, 0.2), weight=50.0),
        Effort(weight=1e-2, order=1),
        Effort(weight=1e-3),
    ]
    return Problem(model=pl.ImplicitEuler(robot, dt=0.05), steps=10, terms=terms, **parts)


def test_ddp_gains_stabilise_the_plan():
    """The policy of a linear-quadratic problem is optimal from every state. After a disturbance it
    equals a new plan."""
    problem = jet()
    plan, layout = ddp(problem, options=TIGHT), AugmentedState(problem=problem)
    assert plan.gains.shape == (10, 2, layout.size) == (10, 2, 4 + 2)
    pushed = replace(problem, x0=problem.initial_state + np.array([0.02, -0.03, 0.3, 0.1]))
    states, controls = np.tile(pushed.initial_state, (11, 1)), plan.controls.copy()
    for k in range(10):
        controls[k] = plan.controls[k] + plan.gains[k] @ (
            layout.evaluate(k, states, controls) - layout.evaluate(k, plan.states, plan.controls)
        )
        states[k + 1] = problem.model.step(states[k], controls[k], None, k).x
    closed, best = problem.value(states, controls), ddp(pushed, options=TIGHT).cost
    assert closed == pytest.approx(best, rel=1e-9)
    assert evaluate(pushed, plan.controls).cost > best + 0.5 * (best - plan.cost)


def test_fixed_regulariser_does_not_change_the_optimum():
    problem = jet()
    exact, slow = ddp(problem, options=TIGHT), ddp(problem, options=TIGHT, regulariser=1e-2)
    assert len(exact.history) - 1 == 1
    assert len(slow.history) > len(exact.history)
    assert slow.status, slow.status.text
    assert {row.regulariser for row in slow.history[1:]} == {1e-2}
    assert slow.cost == pytest.approx(exact.cost, rel=1e-6)


@pytest.mark.parametrize("regulariser", [-1.0, np.inf, np.nan])
def test_bad_regulariser_is_rejected(regulariser):
    with pytest.raises(InputError, match="give a number that is not negative"):
        ddp(jet(), regulariser=regulariser)


def test_friction_is_planned_without_second_derivatives():
    """The error of the exact Newton method names the alternative."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=0.2),
        gravity=(0.0, -9.81),
        effectors={"puck": pl.Effector(point=(0, 0))},
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        contacts=(pl.Contact(obstacle=pl.plane((0, 1)), stiffness=1e3, layer=0.02, friction=0.3),),
    )
    problem = Problem(
        model=pl.ImplicitEuler(robot, dt=0.05),
        steps=4,
        terms=[Goal(effector="puck", target=(0.1, 0.0)), Effort(weight=1e-4)],
    )
    for exact in (newton, partial(ddp, second_order=True)):
        with pytest.raises(
            InputError, match=r"friction.* no second derivatives.*second_order=False"
        ):
            exact(problem)
    assert newton(problem, second_order=False).cost == pytest.approx(ddp(problem).cost, rel=1e-4)


def test_active_rate_limit_does_not_stall_gauss_newton():
    """The unconstrained step is far longer than the limited step. Its trust-region multiplier is
    not valid for the limited step."""
    strip = pl.Robot(
        shape=pl.Box(size=(0.2, 0.03, 0.01)),
        divisions=(5, 1, 1),
        order=1,
        gravity=(0, 0, -9.81),
        material=pl.Material(E=2e5, nu=0.4, density=200.0),
        damping=pl.Damping(stiffness=0.005),
        actuators={
            "hand": pl.Gripper(
                surface="x-", frame=pl.actuators.MovingFrame(origin=(0, 0.015, 0.005))
            )
        },
        effectors={"tip": pl.Effector(surface="x+")},
    )
    model = pl.ImplicitEuler(strip, dt=0.05)
    x0 = model.state(pl.equilibrium(pl.Quasistatic(strip), strip.neutral_controls()).x)
    around = pl.paths.circle(
        centre=strip.effector_position("tip", model.space.position(x0)) - [0.02, 0, 0],
        radius=0.02,
        period=0.4,
        normal=(0, 1, 0),
    )
    terms = pl.problem.tracking_terms("tip", around, weight=100.0, effort=1e-4, order=2)
    plan = pl.plan(model, terms, steps=8, x0=x0, limits=[Limit(lower=-0.15, upper=0.15, order=1)])
    assert plan.status
    assert len(plan.history) <= 12
    assert plan.limit_violation == pytest.approx(0.0, abs=1e-12)
