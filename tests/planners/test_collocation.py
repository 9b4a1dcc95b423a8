"""Direct collocation finds the optimum of the shooting planners, with correct derivatives."""

import signal
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import pliant as pl
from pliant.actuators import Gripper, MovingFrame
from pliant.core import InputError, MissingExtra
from pliant.dynamics.residual import ImplicitResidual
from pliant.planners import Options, gauss_newton
from pliant.planners.collocation_planner import collocation
from pliant.planners.evaluation import evaluate
from pliant.planners.transcription import NonlinearProgram
from pliant.problem import Ball, Constraint, Effort, Goal, Interval, Limit, Problem, Residual
from pliant.store import read_json

pytest.importorskip("casadi")
RULES = {"euler": pl.ImplicitEuler, "bdf2": pl.BDF2}
TIGHT = Options(tolerance=1e-11)


def held_box(rule, *, damping=0.0, **parts):
    """Return a soft box of length 0.4 m, held by a moving gripper at its left end, at rest under
    gravity."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.4, 0.03, 0.03)),
        divisions=(4, 1, 1),
        order=1,
        gravity=(0, 0, -9.81),
        material=pl.Material(E=6e4, nu=0.4, density=35.0, law="neo-hookean"),
        damping=pl.Damping(stiffness=damping),
        actuators={"hand": Gripper(surface="x-", frame=MovingFrame(origin=(0, 0.015, 0.015)))},
        effectors={"tip": pl.Effector(surface="x+")},
        **parts,
    )
    model = RULES[rule](robot, dt=0.02)
    return model, model.state(pl.equilibrium(pl.Quasistatic(robot), np.zeros(6)).x)


def reach(rule, *, steps=8, damping=0.0, target=(0.37, 0.05, 0.05), **parts):
    model, x0 = held_box(rule, damping=damping)
    goal = Goal(effector="tip", target=target, time=steps * model.dt, weight=100.0)
    return Problem(
        model=model, steps=steps, x0=x0, terms=[goal, Effort(weight=1e-4, order=2)], **parts
    )


def thrown(**parts):
    """Return the linear-quadratic problem of two point masses, the first driven by a thrust."""
    body = pl.PointMass(points=[[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]], mass_each=0.2)
    robot = pl.Robot(
        shape=body,
        gravity=(0, 0, -9.81),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0, 0.0))},
        effectors={"ball": pl.Effector(point=(0.0, 0.0, 0.0))},
    )
    goal = Goal(effector="ball", target=(0.3, 0.1, 0.0), time=0.5, weight=50.0)
    return Problem(
        model=pl.ImplicitEuler(robot, dt=0.05), steps=10, terms=[goal, Effort(weight=1e-2)], **parts
    )


def bent(rule, motion=None):
    """Return a damped beam with a support, a length-driven cable and soft ground with friction.

    It covers every block of the derivatives."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.05, 0.05)),
        divisions=(2, 1, 1),
        order=1,
        gravity=(0, 0, -9.81),
        material=pl.Material(E=4e4, nu=0.35),
        damping=pl.Damping(mass=0.5, stiffness=0.02),
        supports=(pl.Support(region="x-", motion=motion),),
        effectors={"tip": pl.Effector(surface="x+")},
        actuators={
            "line": pl.Cable(
                points=[[0.02, 0.02, 0.04], [0.19, 0.02, 0.04]], drive="length", stiffness=200.0
            )
        },
        contacts=(
            pl.Contact(
                obstacle=pl.plane((0, 0, 1), height=0.004),
                stiffness=2e5,
                layer=0.02,
                friction=0.5,
                slip_speed=0.1,
            ),
        ),
    )
    return pl.Quasistatic(robot) if rule == "static" else RULES[rule](robot, dt=0.02)


def filled(rule):
    """Return a plane frame whose cavity is full of a liquid."""
    mesh = pl.geometry.Rectangle(size=(0.3, 0.3)).mesh(divisions=(3, 3))
    away = np.abs(mesh.points[mesh.cells].mean(axis=1) / 0.3 - 0.5).max(axis=1)
    mesh = pl.geometry.Mesh(points=mesh.points, cells=mesh.cells[away > 1 / 6])
    mesh = pl.geometry.add_surface(
        pl.geometry.name_cavities(mesh), "x-", lambda centres: centres[:, 0] == 0.0
    )
    robot = pl.Robot(
        shape=mesh,
        order=1,
        gravity=(2.0, -9.0),
        material=pl.Material(E=4e4, nu=0.35),
        damping=pl.Damping(mass=0.5),
        supports=(pl.Support(region="x-"),),
        actuators={"water": pl.actuators.Hydraulic(cavity="cavity-1")},
    )
    return RULES[rule](robot, dt=0.02)


def matrix(entries, values, shape):
    return sp.csr_matrix((values, (entries.rows, entries.cols)), shape=shape).toarray()


def hessian(program, w, multipliers, scale=1.0):
    upper = matrix(
        program.hessian_entries, program.hessian(w, 1.0, multipliers, scale), (program.size,) * 2
    )
    return upper + upper.T - np.diag(np.diag(upper))


def central(f, d, h=1e-6):
    return (f(h * d) - f(-h * d)) / (2.0 * h)


@pytest.mark.parametrize(
    ("robot", "rule"),
    [*((bent, rule) for rule in [*RULES, "static"]), *((filled, r) for r in RULES)],
)
def test_blocks_of_the_residual_are_its_derivatives(robot, rule, rng):
    model = robot(rule)
    residual, n = ImplicitResidual(model=model), model.space.n_dofs
    x, u = model.initial_state() + 1e-3 * rng.standard_normal(model.space.size), np.array([0.9])
    q, move = model.equations.body.rest + 1e-3 * rng.standard_normal(n), np.zeros(n)
    move[model.equations.free] = rng.standard_normal(residual.n_free)
    new, old, control = residual.blocks(q, x, u)
    d, square = move[model.equations.free], (residual.n_free,) * 2
    g = lambda q, x, u: residual.force(q, x, u)[0]
    found = central(lambda e: g(q + e, x, u), move)
    np.testing.assert_allclose(
        matrix(residual.new_pattern, new, square) @ d, found, atol=1e-6 * np.abs(found).max()
    )
    for j, values in enumerate(old):
        dx = np.zeros_like(x)
        dx[j * n : (j + 1) * n] = move
        found = central(lambda e, dx=dx: g(q, x + e, u), dx)
        np.testing.assert_allclose(
            matrix(residual.old_pattern, values, square) @ d,
            found,
            atol=1e-6 * np.abs(found).max() + 1e-12,
        )
        assert residual.used[j] or not found.any()
    found = central(lambda e: g(q, x, u + e), np.ones(1))
    np.testing.assert_allclose(
        matrix(residual.control_pattern, control, (residual.n_free, 1))[:, 0],
        found,
        atol=1e-6 * np.abs(found).max(),
    )


@pytest.mark.parametrize("rule", RULES)
def test_residual_vanishes_at_the_new_state(rule):
    model = bent(rule)
    x, u, residual = model.initial_state(), np.array([0.9]), ImplicitResidual(model=model)
    step = model.step(x, u)
    g, scale = residual.force(model.space.position(step.x), x, u)
    assert np.abs(g).max() <= 1e-8 * scale


@pytest.mark.parametrize("rule", RULES)
def test_program_derivatives_match_finite_differences(rule, rng):
    model = bent(rule, motion=lambda t: np.array([0.0, 0.0, 0.1 * t]))
    problem = Problem(
        model=model,
        steps=4,
        limits=[Limit(lower=-9, upper=9, order=1), Limit(lower=-99, upper=99, order=2)],
        terms=[
            Residual(
                effector="tip", residual=lambda y: np.array([y[0] * y[1] - 0.1, np.sin(y[2])])
            ),
            Goal(effector="tip", target=(0.1, 0.2, 0.3), quantity="acceleration", time=0.06),
            Effort(weight=0.1, order=1),
        ],
        constraints=[
            Constraint(
                effector="tip",
                inside=Interval(upper=0.3),
                function=lambda y: y[:2] ** 2,
                quantity="velocity",
            ),
            Constraint(effector="tip", inside=Ball(centre=(0, 0, 0), radius=0.5), time=0.08),
        ],
    )
    program = NonlinearProgram(problem=problem)
    positions = np.tile(model.equations.body.rest, (4, 1)) + 1e-3 * rng.standard_normal(
        (4, model.space.n_dofs)
    )
    w, d = program.pack(positions, np.full((4, 1), 0.9)), rng.standard_normal(program.size)
    found = central(lambda e: program.constraints(w + e, 2.0), d)
    J = matrix(program.jacobian_entries, program.jacobian(w, 2.0), (len(found), program.size))
    np.testing.assert_allclose(J @ d, found, atol=1e-6 * np.abs(found).max())
    slope = central(lambda e: program.value(w + e), d)
    assert program.gradient(w) @ d == pytest.approx(slope, rel=1e-6)


def test_gradient_and_hessian_of_quadratic_terms_are_exact(rng):
    program = NonlinearProgram(problem=reach("bdf2"))
    w, d = rng.standard_normal((2, program.size))
    H = hessian(program, w, np.zeros(0))
    change = program.gradient(w + d) - program.gradient(w)
    np.testing.assert_allclose(H @ d, change, atol=1e-9 * np.abs(change).max())


@pytest.mark.parametrize("rule", RULES)
def test_lagrangian_hessian_includes_dynamics_curvature(rule, rng):
    program = NonlinearProgram(problem=reach(rule, steps=4), second_order=True)
    now = evaluate(program.problem, 0.05 * rng.standard_normal((4, 6)))
    w, d = (
        program.pack(now.states[1:, : program.n_dofs], now.controls),
        rng.standard_normal(program.size),
    )
    multipliers, scale = rng.standard_normal(program.n_positions), 3.0

    def slope(w):
        J = matrix(
            program.jacobian_entries,
            program.jacobian(w, scale),
            (program.n_positions, program.size),
        )
        return program.gradient(w) + J.T @ multipliers

    change = central(lambda e: slope(w + e), d)
    np.testing.assert_allclose(
        hessian(program, w, multipliers, scale) @ d, change, atol=1e-6 * np.abs(change).max()
    )
    without = hessian(NonlinearProgram(problem=program.problem), w, multipliers, scale)
    assert (
        np.abs(without @ d - change).max() > 1e-2 * np.abs(change).max()
    )  # the dynamics have an effect


def test_velocity_goals_need_dynamics_curvature():
    model, x0 = held_box("bdf2")
    hit = [
        Goal(effector="tip", target=(0.5, 0.1, 0.1), time=0.24, weight=500.0),
        Goal(effector="tip", quantity="velocity", target=(2.0, 0.0, 0.0), time=0.24, weight=0.5),
    ]
    problem = Problem(model=model, steps=12, x0=x0, terms=[*hit, Effort(weight=1e-3, order=2)])
    near = gauss_newton(problem, options=Options(tolerance=0.1)).controls
    plan = collocation(problem, guess=near, options=Options(iterations=100), second_order=True)
    assert plan.status, plan.status.text
    assert plan.notes["nlp cost"] == pytest.approx(
        gauss_newton(problem, options=TIGHT).cost, rel=1e-6
    )


@pytest.mark.parametrize(("rule", "damping"), [("euler", 0.0), ("bdf2", 0.0), ("bdf2", 0.002)])
def test_collocation_finds_the_optimum_of_gauss_newton(rule, damping):
    problem = reach(rule, damping=damping)
    plan, peer = collocation(problem), gauss_newton(problem, options=TIGHT)
    assert plan.status, plan.status.text
    assert plan.cost == pytest.approx(peer.cost, rel=1e-6)
    assert plan.replay(problem.model, problem) == plan.cost
    assert abs(plan.notes["replay gap"]) < 1e-6
    assert plan.notes["ipopt status"] == "Solve_Succeeded"
    assert (
        max(row.infeasibility for row in plan.history[1:3]) > 1e-3
    )  # the dynamics are violated during the iterations
    assert plan.history[-1].infeasibility < 1e-8 * plan.notes["force scale"]


def test_collocation_starts_from_the_initial_state():
    problem = reach("euler")
    plan = collocation(
        problem, simulate_guess=False, guess=problem.guess() + 0.02
    )  # the gripper starts at another position
    assert plan.history[0].infeasibility > 0.1
    assert plan.cost == pytest.approx(gauss_newton(problem, options=TIGHT).cost, rel=1e-6)


def test_collocation_of_point_masses_finds_the_optimum_of_gauss_newton():
    problem = thrown()
    assert collocation(problem).cost == pytest.approx(
        gauss_newton(problem, options=TIGHT).cost, rel=1e-6
    )


@pytest.mark.parametrize(
    "limits",
    [
        [Limit(lower=-1.0, upper=1.3)],
        [Limit(lower=-2.0, upper=9.0, order=1)],
        [Limit(lower=-80.0, upper=90.0, order=2)],
    ],
)
def test_collocation_satisfies_active_limits(limits):
    problem, free = thrown(limits=limits), thrown()
    assert problem.limit_violation(collocation(free).controls) > 0.01  # the limits are active
    plan, peer = (
        collocation(problem, options=Options(tolerance=1e-8)),
        gauss_newton(problem, options=TIGHT),
    )
    assert plan.status, plan.status.text
    assert plan.cost == pytest.approx(peer.cost, rel=1e-6)
    assert plan.limit_violation <= 1e-8


def test_collocation_of_a_soft_body_satisfies_an_active_limit():
    problem = reach("euler", limits=[Limit(lower=-0.04, upper=0.04)])
    plan, peer = collocation(problem), gauss_newton(problem, options=TIGHT)
    assert np.abs(plan.controls).max() == pytest.approx(0.04, rel=1e-6)
    assert plan.limit_violation == 0.0
    assert plan.cost == pytest.approx(peer.cost, rel=1e-6)


def test_collocation_accepts_supports_and_quasistatic_models():
    robot, taut = bent("static").robot, np.array([0.9])
    for model, steps in ((pl.BDF2(robot, dt=0.02), 6), (pl.Quasistatic(robot), 3)):
        x0 = model.state(
            pl.equilibrium(pl.Quasistatic(robot), taut).x
        )  # away from the kink where the cable becomes slack
        goal = Goal(effector="tip", target=(0.18, 0.02, 0.04), weight=10.0)
        problem = Problem(
            model=model,
            steps=steps,
            x0=x0,
            previous_control=taut,
            terms=[goal, Effort(weight=1e-3, reference=0.9)],
        )
        plan, peer = collocation(problem), gauss_newton(problem, options=TIGHT)
        assert plan.status, plan.status.text
        assert plan.cost == pytest.approx(peer.cost, rel=1e-6)
        assert np.all(
            NonlinearProgram(problem=problem).unpack(
                np.zeros(NonlinearProgram(problem=problem).size)
            )[1][:, model.equations.held]
            == model.equations.body.rest[model.equations.held]
        )


def test_collocation_satisfies_effector_constraints():
    under = Constraint(effector="tip", inside=Interval(lower=-1.0, upper=(1.0, 1.0, 0.03)))
    near = Constraint(
        effector="tip", inside=Ball(centre=(0.37, 0.03, 0.03), radius=0.01), time=0.16
    )
    for constraint in (under, near):
        plan = collocation(reach("euler", constraints=[constraint]))
        assert plan.status, plan.status.text
        assert plan.constraint_violation < 1e-6
    assert (
        np.linalg.norm(plan.goal_errors[0][2]) > 0.01
    )  # the ball constraint prevents the tip from reaching its goal


def test_inverted_trial_shortens_the_step(monkeypatch):
    problem, bad, plain = (
        reach("euler", steps=3, target=(0.1, 0.3, 0.2)),
        [],
        ImplicitResidual.force,
    )

    def force(self, q, x, u, k=0):
        g, scale = plain(self, q, x, u, k)
        bad.append(not np.all(np.isfinite(g)))
        return g, scale

    monkeypatch.setattr(ImplicitResidual, "force", force)
    plan = collocation(problem, options=Options(iterations=30))
    assert any(bad)
    assert np.isfinite(plan.cost)
    assert plan.cost < plan.history[0].cost


def test_interrupted_collocation_can_be_resumed(tmp_path):
    problem = reach("euler")

    def stop(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    plan = collocation(problem, options=Options(progress=stop, folder=tmp_path))
    assert plan.interrupted
    assert not plan.status
    assert plan.replay(problem.model, problem) == plan.cost < plan.history[0].cost
    assert len(plan.history) == 3
    again = collocation(problem, options=Options(folder=tmp_path, resume=True))
    assert again.status, again.status.text
    assert len(again.history) > 3


def test_crashed_collocation_can_be_resumed(tmp_path):
    """An iterate is not a simulation, so its file contains no cost to compare."""

    def crash(what, done, total):
        if done == 2:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        collocation(reach("euler"), options=Options(progress=crash, folder=tmp_path))
    kept = read_json(tmp_path / "plan.json")
    assert kept["cost"] is None
    again = collocation(reach("euler"), options=Options(folder=tmp_path, resume=True))
    assert again.status, again.status.text
    assert [row.cost for row in again.history[:3]] == [row["cost"] for row in kept["history"]]
    assert read_json(tmp_path / "plan.json")["cost"] == again.cost


def test_interrupt_between_callbacks_stops_ipopt():
    problem, before = (
        reach("bdf2", steps=10, limits=[Limit(lower=-0.04, upper=0.04)]),
        signal.getsignal(signal.SIGINT),
    )
    tell = lambda what, done, total: signal.raise_signal(signal.SIGINT) if done == 3 else None
    plan = collocation(problem, options=Options(progress=tell))
    assert plan.interrupted
    assert len(plan.history) == 4
    assert signal.getsignal(signal.SIGINT) is before


def test_too_few_iterations_are_reported():
    plan = collocation(reach("euler"), options=Options(iterations=2))
    assert not plan.status
    assert "Options(iterations=...)" in plan.status.text
    assert len(plan.history) == 3


def test_exception_in_a_term_is_raised():
    calls = []

    def moody(y):
        calls.append(1)
        if len(calls) > 40:
            raise ValueError("no more")
        return y - 0.1

    model, x0 = held_box("euler")
    with pytest.raises(ValueError, match="no more"):
        collocation(
            Problem(
                model=model,
                steps=4,
                x0=x0,
                terms=[Residual(effector="tip", residual=moody), Effort(weight=1e-3)],
            )
        )


def test_bad_collocation_input_is_rejected(monkeypatch):
    problem = reach("euler")
    semi = pl.SemiImplicit(problem.model.robot, dt=0.02)
    with pytest.raises(InputError, match="collocation needs an implicit rule"):
        collocation(Problem(model=semi, steps=4, terms=problem.terms[1:]))

    class Cone:
        def project(self, c):
            return c

        def slope(self, c):
            return np.eye(len(c))

    with pytest.raises(InputError, match="Interval and Ball"):
        collocation(reach("euler", constraints=[Constraint(effector="tip", inside=Cone())]))
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[nlp\]'"):
        collocation(problem)
