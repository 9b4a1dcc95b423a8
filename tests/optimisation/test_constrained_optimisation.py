"""Constrained optimisation of the problems of Hock and Schittkowski 1981, with known minima."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from pliant.optimisation import (
    SQP,
    ConstrainedObjective,
    FunctionObjective,
    ObjectiveEvaluation,
    OptimisationResult,
    optimise,
)

METHODS = ["interior_point", "sqp"]
INF = np.inf


@dataclass(frozen=True, kw_only=True)
class Known:
    """A problem with its minimum. Derivatives are complex steps."""

    f: Any
    c: Any
    start: list
    value: float
    low: list  # of the constraints
    high: list
    lower: Any = -INF
    upper: Any = INF
    solution: list | None = None

    def objective(self, **changes):
        return ConstrainedObjective(
            objective=FunctionObjective(
                function=lambda z: float(self.f(z)),
                gradient_function=lambda z: complex_step(lambda w: np.array([self.f(w)]), z)[0],
                start=self.start,
                lower=self.lower,
                upper=self.upper,
            ),
            constraint_function=self.c,
            constraint_jacobian_function=lambda z: complex_step(self.c, z),
            constraint_lower=self.low,
            constraint_upper=self.high,
            **changes,
        )


def complex_step(f, z):
    return np.array([np.imag(f(z + 1e-30j * e)) / 1e-30 for e in np.eye(len(z))]).T


HS = {
    6: Known(
        f=lambda z: (1.0 - z[0]) ** 2,
        c=lambda z: np.array([10.0 * (z[1] - z[0] ** 2)]),
        start=[-1.2, 1.0],
        low=[0.0],
        high=[0.0],
        value=0.0,
        solution=[1.0, 1.0],
    ),
    7: Known(
        f=lambda z: np.log(1.0 + z[0] ** 2) - z[1],
        c=lambda z: np.array([(1.0 + z[0] ** 2) ** 2 + z[1] ** 2]),
        start=[2.0, 2.0],
        low=[4.0],
        high=[4.0],
        value=-np.sqrt(3.0),
        solution=[0.0, np.sqrt(3.0)],
    ),
    26: Known(
        f=lambda z: (z[0] - z[1]) ** 2 + (z[1] - z[2]) ** 4,
        c=lambda z: np.array([(1.0 + z[1] ** 2) * z[0] + z[2] ** 4 - 3.0]),
        start=[-2.6, 2.0, 2.0],
        low=[0.0],
        high=[0.0],
        value=0.0,
    ),
    28: Known(
        f=lambda z: (z[0] + z[1]) ** 2 + (z[1] + z[2]) ** 2,
        c=lambda z: np.array([z[0] + 2.0 * z[1] + 3.0 * z[2]]),
        start=[-4.0, 1.0, 1.0],
        low=[1.0],
        high=[1.0],
        value=0.0,
        solution=[0.5, -0.5, 0.5],
    ),
    35: Known(
        f=lambda z: (
            9.0
            - 8.0 * z[0]
            - 6.0 * z[1]
            - 4.0 * z[2]
            + 2.0 * z[0] ** 2
            + 2.0 * z[1] ** 2
            + z[2] ** 2
            + 2.0 * z[0] * z[1]
            + 2.0 * z[0] * z[2]
        ),
        c=lambda z: np.array([z[0] + z[1] + 2.0 * z[2]]),
        start=[0.5, 0.5, 0.5],
        low=[-INF],
        high=[3.0],
        lower=0.0,
        value=1.0 / 9.0,
        solution=[4.0 / 3.0, 7.0 / 9.0, 4.0 / 9.0],
    ),
    71: Known(
        f=lambda z: z[0] * z[3] * (z[0] + z[1] + z[2]) + z[2],
        c=lambda z: np.array([z[0] * z[1] * z[2] * z[3], np.sum(z**2)]),
        start=[1.0, 5.0, 5.0, 1.0],
        low=[25.0, 40.0],
        high=[INF, 40.0],
        lower=1.0,
        upper=5.0,
        value=17.0140173,
        solution=[1.0, 4.7429994, 3.8211503, 1.3794082],
    ),
}


def run(objective, method, **options):
    return optimise(objective, method, **{"iterations": 200, "progress": False, **options})


@pytest.mark.parametrize("number", sorted(HS))
@pytest.mark.parametrize("method", METHODS)
def test_hock_schittkowski_minimum_is_found(method, number):
    known = HS[number]
    result = run(known.objective(), method)
    assert result.status.ok, result.status.text
    assert result.value == pytest.approx(known.value, abs=2e-6)
    assert result.best.violation < 1e-6
    if known.solution is not None:
        np.testing.assert_allclose(result.z, known.solution, atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_resumed_constrained_optimisation_equals_one_run_bit_for_bit(method, tmp_path):
    whole = run(HS[71].objective(), method, iterations=6)
    run(HS[71].objective(), method, iterations=3, folder=tmp_path)
    resumed = run(HS[71].objective(), method, iterations=6, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(whole.z, resumed.z)
    assert [row.value for row in whole.history] == [row.value for row in resumed.history]
    loaded = OptimisationResult.load(tmp_path)
    assert loaded.best.violation == whole.best.violation
    for name, array in whole.state.arrays.items():
        np.testing.assert_array_equal(array, loaded.state.arrays[name], err_msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_constraints_that_contradict_each_other_have_a_clear_status(method):
    """z^2 = -1: the violation is least at 0."""
    known = replace(HS[6], c=lambda z: np.array([z[0] ** 2]), low=[-1.0], high=[-1.0])
    result = run(known.objective(), method)
    assert not result.status.ok
    assert "constraints" in result.status.text
    assert abs(result.z[0]) < 1e-2
    assert result.best.violation == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_failing_region_beside_the_constrained_minimum_is_avoided(method):
    """The whole first step fails."""
    known = HS[35]
    fails = replace(known, f=lambda z: known.f(z) if z[0].real < 1.4 else np.nan * z[0])
    result = run(fails.objective(), method)
    np.testing.assert_allclose(result.z, known.solution, atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_failing_constraint_at_the_start_has_a_clear_status(method):
    known = replace(HS[35], c=lambda z: np.array([np.nan]))
    result = run(known.objective(), method)
    assert not result.status.ok
    assert "constraint" in result.status.text


class SquaresOnCircle:
    """1/2 |z - p|^2 on a circle: the minimum is p / |p|."""

    n_samples, start = 1, np.array([0.5, 0.1])
    bounds = (np.full(2, -INF), np.full(2, INF))
    constraint_bounds = (np.ones(1), np.ones(1))
    p = np.array([3.0, 4.0])

    def jacobian(self, z, samples=None):
        r = z - self.p
        return ObjectiveEvaluation(
            value=0.5 * r @ r, residuals=r, jacobian=np.eye(2), gradient=r, simulations=2
        )

    residuals = value = gradient = jacobian

    def constraints(self, z):
        return ObjectiveEvaluation(
            constraints=np.array([z @ z]), constraint_jacobian=2.0 * z[None], simulations=1
        )

    constraint_jacobian = constraints


@pytest.mark.parametrize("method", [SQP(hessian="gauss_newton"), *METHODS])
def test_projection_on_a_circle_finds_the_nearest_point(method, tmp_path):
    result = run(SquaresOnCircle(), method, folder=tmp_path, tolerance=1e-12)
    np.testing.assert_allclose(result.z, [0.6, 0.8], atol=1e-5)
    run(SquaresOnCircle(), method, folder=tmp_path, tolerance=1e-12, resume=True)


def test_multipliers_are_those_of_the_lagrangian():
    """At the minimum the gradient is minus the transposed Jacobian times the multipliers."""
    result = run(SquaresOnCircle(), "sqp")
    g = result.z - SquaresOnCircle.p
    np.testing.assert_allclose(g + 2.0 * result.z * result.notes["multipliers"][0], 0.0, atol=1e-4)


def test_other_methods_refuse_constraints(raises_clear_error):
    raises_clear_error(lambda: run(HS[6].objective(), "adam"), "1 constraint, which adam does not")


def test_wrong_constraints_are_clear_errors(raises_clear_error):
    raises_clear_error(
        lambda: run(replace(HS[6], low=[1.0], high=[0.0]).objective(), "sqp"), "constraints"
    )
    raises_clear_error(lambda: replace(HS[6], low=[np.nan]).objective(), "NaN")
    raises_clear_error(lambda: SQP(hessian="newton"), "Hessian")
    raises_clear_error(
        lambda: run(HS[6].objective(), SQP(hessian="gauss_newton")), "residuals and jacobian"
    )
    wrong = replace(HS[6], c=lambda z: np.array([z[0], z[1]]))
    raises_clear_error(lambda: run(wrong.objective(), "sqp"), "constraints of shape .2,.")
