"""The quadratic programs of inverse control, checked by the KKT conditions and a second solver."""

from functools import cache

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm
from scipy.optimize import minimize, nnls

import pliant as pl
from pliant.planners.inverse_control import inverse_control
from pliant.planners.inverse_control.motion_constraints import ConstraintRows
from pliant.planners.inverse_control.task_qp import TaskQP, task_qp
from pliant.problem import Limit, StrokeLimit


def kkt(P, c, A, low, high, z):
    """Return infeasibility, dual residual and complementarity.

    The dual residual is the part of the gradient without multipliers of the correct sign."""
    at = A @ z
    gaps = np.concatenate([at - low, high - at])
    near = np.flatnonzero(gaps < 1e-3)
    pushes = np.vstack([A, -A])[near]  # admissible signs of the multipliers
    multipliers, unexplained = (
        nnls(pushes.T, P @ z + c) if len(near) else (np.zeros(0), float(np.linalg.norm(P @ z + c)))
    )
    return (
        float(np.maximum(-gaps, 0.0).max(initial=0.0)),
        unexplained,
        float((multipliers * np.abs(gaps[near])).max(initial=0.0)),
    )


def second(P, c, A, low, high):
    """Return the optimum by sequential quadratic programming."""
    sides = [(A[j], low[j], 1.0) for j in np.flatnonzero(np.isfinite(low))] + [
        (A[j], high[j], -1.0) for j in np.flatnonzero(np.isfinite(high))
    ]
    rules = [
        {
            "type": "ineq",
            "fun": lambda z, a=a, b=b, s=s: s * (a @ z - b),
            "jac": lambda z, a=a, s=s: s * a,
        }
        for a, b, s in sides
    ]
    found = minimize(
        lambda z: 0.5 * z @ P @ z + c @ z,
        np.zeros(len(c)),
        jac=lambda z: P @ z + c,
        constraints=rules,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


STROKES = [StrokeLimit(actuator=name, upper=0.004) for name in "abcd"]
BALL = pl.Contact(obstacle=pl.sphere((0.07, 0.02, 0.15), 0.02))  # 1 cm beside the arm's tip
CASES = {name: (make, None, {}) for name, make in ROBOTS.items()} | {
    "arm with strokes": (arm, None, {"strokes": STROKES}),
    "arm with rates": (arm, None, {"limits": [Limit(lower=-0.2, upper=0.2, order=1)]}),
    "arm beside a ball": (lambda: arm(contacts=[BALL]), None, {}),
    "dynamic arm": (arm, 0.01, {"strokes": STROKES}),
    "dynamic arm beside a ball": (lambda: arm(contacts=[BALL]), 0.01, {}),
    "dynamic water": (ROBOTS["finger of water"], 0.01, {}),
}
ROWS = {
    "arm of lengths",
    "arm with strokes",
    "arm beside a ball",
    "dynamic arm",
    "dynamic arm beside a ball",
}  # beside limits
FREE = {"liandford"}  # never at a limit


@cache
def programs(case, steps=12):
    """Return the programs of some control steps towards random targets."""
    (make, dt, options), rng, out = CASES[case], np.random.default_rng(5), []
    controller = inverse_control(
        pl.Quasistatic(make()) if dt is None else pl.SemiImplicit(make(), dt=dt), **options
    )
    begun = state = controller.begin()
    target = begun.positions
    for k in range(steps):
        target = (
            begun.positions + 0.15 * controller.length * rng.uniform(-1.0, 1.0, target.shape)
            if k % 4 == 0
            else target
        )
        out.append(controller.quadratic_program(state, target))
        state = controller.follow(state, target)
    return out


@pytest.mark.parametrize("case", CASES)
def test_qp_solution_is_optimal(case):
    active = np.zeros(2, int)  # control steps at a limit, and at a row
    for qp in programs(case):
        parts = qp.matrices
        found = qp.solve()
        assert found is not None
        assert found[1] == ()
        z = found[0] / qp.unit
        infeasible, unexplained, loose = kkt(*parts, z)
        assert infeasible < 1e-9
        assert unexplained < 1e-9
        assert loose < 1e-9
        other = second(*parts)
        cost = lambda y, parts=parts: 0.5 * y @ parts[0] @ y + parts[1] @ y
        assert cost(z) <= cost(other) + 1e-8 * max(1.0, abs(cost(other)))
        np.testing.assert_allclose(qp.J @ z, qp.J @ other, atol=2e-4)
        at = (parts[2] @ z <= parts[3] + 1e-7) | (parts[2] @ z >= parts[4] - 1e-7)
        active += at[: len(z)].any(), at[len(z) :].any()
    assert active.sum() > 0 or case in FREE  # otherwise the bounds were not tested
    assert active[1] > 0 or case not in ROWS


@pytest.mark.parametrize("case", CASES)
def test_reduce_effort_moves_no_effector_and_satisfies_bounds(case):
    for qp in programs(case):
        z = qp.solve()[0]
        away = np.random.default_rng(0).uniform(-0.05, 0.05, len(z))
        relaxed = qp.reduce_effort(z, away, 0.01)
        assert np.linalg.norm(away + relaxed) <= np.linalg.norm(away + z) * (1.0 + 1e-12)
        np.testing.assert_allclose(
            qp.J @ relaxed, qp.J @ z, atol=1e-7 * np.abs(relaxed - z).max() + 1e-15
        )
        for rows, low, high in (
            (np.eye(len(z)), qp.lower, qp.upper),
            (qp.G, qp.low, qp.high),
        ):
            assert np.all(rows @ relaxed >= np.minimum(low, rows @ z) - 1e-9)
            assert np.all(rows @ relaxed <= np.maximum(high, rows @ z) + 1e-9)


def test_contradicting_rows_are_violated_least_and_named():
    """Two walls without space between them: the solution is their middle."""
    rows = [
        ConstraintRows(
            name=name, slope=np.array([[side, 0.0]]), low=np.array([0.01]), high=np.array([np.inf])
        )
        for name, side in (("left", 1.0), ("right", -1.0))
    ]
    qp = task_qp(
        np.eye(2),
        np.array([0.003, 0.002]),
        np.full(2, -1.0),
        np.full(2, 1.0),
        rows,
        np.ones(2),
        1e-6,
        1e-9,
    )
    z, broken = qp.solve()
    assert broken == ("left", "right")
    np.testing.assert_allclose(z, [0.0, 0.002], atol=1e-5)


def test_contradicting_limits_have_no_solution():
    qp = task_qp(
        np.eye(2),
        np.ones(2),
        np.array([0.0, 0.5]),
        np.array([1.0, 0.4]),
        [],
        np.ones(2),
        1e-6,
        1e-9,
    )
    assert qp.solve() is None


def test_nan_has_no_solution():
    nan = np.array([[np.nan, 0.0], [0.0, 1.0]])
    parts = {
        "damping": 1e-6,
        "lower": -np.ones(2),
        "upper": np.ones(2),
        "G": np.zeros((0, 2)),
        "low": np.zeros(0),
        "high": np.zeros(0),
    }
    assert TaskQP(J=nan, e=np.ones(2), names=(), unit=1.0, **parts).solve() is None


def test_row_without_effect_is_ignored():
    rows = [
        ConstraintRows(
            name="far", slope=np.zeros((1, 2)), low=np.array([1.0]), high=np.array([np.inf])
        )
    ]
    qp = task_qp(
        np.eye(2),
        np.array([0.1, 0.2]),
        np.full(2, -1.0),
        np.full(2, 1.0),
        rows,
        np.ones(2),
        1e-9,
        1e-9,
    )
    np.testing.assert_allclose(qp.solve()[0], [0.1, 0.2], rtol=1e-6)


def test_result_does_not_depend_on_control_units():
    """The same robot with tensions in millinewtons takes the same control steps."""
    small = arm()
    motions = []
    for unit in (1.0, 1e-3):
        cables = {name: _Scaled(cable, unit) for name, cable in small.actuators.items()}
        controller = inverse_control(pl.Quasistatic(arm(actuators=cables)))
        state = controller.begin()
        for _ in range(6):
            state = controller.follow(state, controller.begin().positions + (0.006, 0.004, -0.003))
        motions.append((state.positions, unit * state.u))
    np.testing.assert_allclose(motions[0][0], motions[1][0], atol=1e-9)
    np.testing.assert_allclose(motions[0][1], motions[1][1], atol=1e-6)


class _Scaled:
    """A cable whose control is in another unit."""

    n_controls, neutral, units = 1, 0.0, ("-",)

    def __init__(self, cable, unit):
        self.cable, self.unit = cable, unit
        self.limits = tuple(limit / unit for limit in cable.limits)

    def attach(self, body):
        return _ScaledTerm(self.cable.attach(body), self.unit)

    def polylines(self, body):
        return self.cable.polylines(body)


class _ScaledTerm:
    n_controls = points_per_block = 1
    stiff = False

    def __init__(self, term, unit):
        self.term, self.unit, self.weights, self.offset = term, unit, term.weights, term.offset

    def energy(self, y, u):
        return self.term.energy(y, self.unit * u)

    def gradient(self, y, u):
        return self.term.gradient(y, self.unit * u)

    def hessian(self, y, u):
        return self.term.hessian(y, self.unit * u)

    def rank_one_terms(self, y, u):
        return self.term.rank_one_terms(y, self.unit * u)

    def control_gradient(self, y, u):
        return self.unit * self.term.control_gradient(y, self.unit * u)

    def control_hessian_vector(self, y, u, bar, du):
        return np.zeros(1)


def test_weak_active_control_is_named():
    """The only helpful control moves the effector a thousandth as far as another control."""
    weak = task_qp(
        np.diag([1.0, 8e-4]),
        np.array([0.0, 0.01]),
        np.full(2, -0.01),
        np.array([0.01, 0.0]),
        [],
        np.ones(2),
        1e-6,
        1e-12,
    )
    assert weak.active_constraints(np.zeros(2)) == ([1], ())
