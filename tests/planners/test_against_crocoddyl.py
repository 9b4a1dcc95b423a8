"""DDP compared with crocoddyl on a small problem, and with a dense solve of the optimality
conditions of a linear problem."""

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import MovingFrame, Tether
from pliant.planners import Options, ddp
from pliant.problem import Effort, Goal, Problem

crocoddyl = pytest.importorskip("crocoddyl")
TIGHT = Options(tolerance=1e-13)
STEPS, DT = 15, 0.04


def swing():
    """Return the problem of a ball on an elastic tether with a moving upper end.

    It is nonlinear, with 6 states and 6 controls."""
    hand = MovingFrame(origin=(0.0, 0.0, 0.3))
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.0]], mass_each=0.1),
        gravity=(0, 0, -9.81),
        actuators={"hand": Tether(point=(0.0, 0.0, 0.0), frame=hand, length=0.29, stiffness=100.0)},
        effectors={"ball": pl.Effector(point=(0.0, 0.0, 0.0))},
    )
    goals = [
        Goal(effector="ball", target=(0.2, 0.1, 0.05), time=STEPS * DT, weight=50.0),
        Goal(effector="ball", target=(0.0, 0.0, 0.0), quantity="velocity", weight=0.5),
    ]
    return Problem(
        model=pl.ImplicitEuler(robot, dt=DT), steps=STEPS, terms=[*goals, Effort(weight=0.1)]
    )


def jet():
    """Return the linear-quadratic problem of a ball driven by a thrust against drag."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=0.2),
        gravity=(0.0, -9.81),
        damping=pl.Damping(mass=0.5),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"ball": pl.Effector(point=(0.0, 0.0))},
    )
    goals = [
        Goal(effector="ball", target=(0.3, 0.2), time=STEPS * DT, weight=50.0),
        Goal(effector="ball", target=(0.1, 0.0), weight=3.0),
    ]
    return Problem(
        model=pl.ImplicitEuler(robot, dt=DT), steps=STEPS, terms=[*goals, Effort(weight=1e-2)]
    )


class Stage(crocoddyl.ActionModelAbstract):
    """Step k of a problem for crocoddyl: the cost of x_k and u_k, and the step and derivative
    blocks of the model."""

    def __init__(self, problem, k):
        n, m = problem.model.space.size, problem.model.n_controls
        crocoddyl.ActionModelAbstract.__init__(self, crocoddyl.StateVector(n), m, 0)
        self.problem, self.k = problem, k
        self.observations = [
            observation for observation in problem.observations if observation.step == k
        ]

    def calc(self, data, x, u=None):
        cost = sum(
            observation.loss.value(observation.states[0] @ x) for observation in self.observations
        )
        if u is None:
            data.xnext = x
        else:
            cost += sum(
                0.5 * s.weight @ (u - s.reference[self.k]) ** 2 for s in self.problem.control_costs
            )
            data.xnext = self.problem.model.step(x, u, None, self.k).x
        data.cost = cost

    def calcDiff(self, data, x, u=None):
        n = len(x)
        data.Lx, data.Lxx = np.zeros(n), np.zeros((n, n))
        for observation in self.observations:
            y, C = observation.states[0] @ x, observation.states[0].toarray()
            data.Lx, data.Lxx = (
                data.Lx + C.T @ observation.loss.gradient(y),
                data.Lxx + C.T @ observation.loss.hessian(y) @ C,
            )
        if u is not None:
            data.Lu = sum(s.weight * (u - s.reference[self.k]) for s in self.problem.control_costs)
            data.Luu = np.diag(sum(s.weight for s in self.problem.control_costs))
            lin = self.problem.model.linearize(self.problem.model.step(x, u, None, self.k))
            data.Fx, data.Fu = lin.dense_state(), lin.dense_controls()


def theirs(problem, solver):
    """Return (cost, controls) of crocoddyl's optimum from the same guess."""
    stages = [Stage(problem, k) for k in range(problem.steps + 1)]
    found = solver(crocoddyl.ShootingProblem(problem.initial_state, stages[:-1], stages[-1]))
    found.th_stop = 1e-16
    guess = list(problem.guess())
    states = [problem.initial_state]
    for k, u in enumerate(guess):
        states.append(problem.model.step(states[-1], u, None, k).x)
    found.solve(states, guess, 200, True)
    return found.cost, np.array(found.us)


@pytest.mark.parametrize("solver", ["SolverDDP", "SolverFDDP"])
def test_crocoddyl_finds_the_same_optimum(solver):
    problem = swing()
    plan = ddp(problem, options=TIGHT)
    cost, controls = theirs(problem, getattr(crocoddyl, solver))
    assert plan.status, plan.status.text
    assert plan.cost < 0.5 * plan.history[0].cost
    assert plan.cost == pytest.approx(cost, rel=1e-8)
    np.testing.assert_allclose(plan.controls, controls, atol=1e-5 * np.abs(controls).max())


def test_second_derivatives_do_not_change_the_optimum():
    problem = swing()
    first = ddp(problem, options=TIGHT)
    exact = ddp(problem, options=TIGHT, second_order=True, guess=first.controls + 0.01)
    assert exact.status, exact.status.text
    assert exact.cost == pytest.approx(first.cost, rel=1e-8)
    np.testing.assert_allclose(
        exact.controls, first.controls, atol=1e-5 * np.abs(first.controls).max()
    )


def test_one_iteration_solves_a_linear_quadratic_problem():
    problem = jet()
    plan = ddp(problem, options=TIGHT)
    assert len(plan.history) - 1 == 1
    controls = dense_optimum(problem)
    np.testing.assert_allclose(
        plan.controls, controls, rtol=1e-8, atol=1e-8 * np.abs(controls).max()
    )
    cost, theirs_u = theirs(problem, crocoddyl.SolverDDP)
    assert plan.cost == pytest.approx(cost, rel=1e-8)
    np.testing.assert_allclose(theirs_u, controls, atol=1e-6 * np.abs(controls).max())


def dense_optimum(problem):
    """Return the controls (steps, n_controls) that solve the optimality conditions.

    One dense system contains all states, controls and multipliers. Single steps give the dynamics
    x' = A x + B u + c; the cost is implemented independently."""
    model, x0, N, h = problem.model, problem.initial_state, problem.steps, problem.model.dt
    n, m = x0.size, model.n_controls
    step = lambda x, u: model.step(x, u).x
    c = step(np.zeros(n), np.zeros(m))
    A = np.stack([step(e, np.zeros(m)) - c for e in np.eye(n)], axis=1)
    B = np.stack([step(np.zeros(n), e) - c for e in np.eye(m)], axis=1)
    size = N * (n + m)
    x, u = (
        (lambda k: slice((k - 1) * n, k * n)),
        (lambda k: slice(N * n + k * m, N * n + (k + 1) * m)),
    )
    H, f, D, d = np.zeros((size, size)), np.zeros(size), np.zeros((N * n, size)), np.zeros(N * n)
    C = np.eye(2, n)  # the ball's position
    for k in range(1, N + 1):
        for weight, target in [(3.0 * h, (0.1, 0.0)), *([(50.0, (0.3, 0.2))] if k == N else [])]:
            H[x(k), x(k)] += weight * C.T @ C
            f[x(k)] -= weight * C.T @ np.array(target)
        H[u(k - 1), u(k - 1)] += 1e-2 * h * np.eye(m)
        row = slice((k - 1) * n, k * n)
        D[row, x(k)], D[row, u(k - 1)], d[row] = np.eye(n), -B, c + (A @ x0 if k == 1 else 0.0)
        if k > 1:
            D[row, x(k - 1)] = -A
    kkt = np.block([[H, D.T], [D, np.zeros((N * n, N * n))]])
    return np.linalg.solve(kkt, np.concatenate([-f, d]))[N * n : size].reshape(N, m)
