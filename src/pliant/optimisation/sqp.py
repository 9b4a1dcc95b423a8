"""Sequential quadratic programming: objectives with constraints and bounds."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from pliant.core import Array, InputError, nearest, quoted, require_positive
from pliant.optimisation.constrained_points import (
    ConstrainedPoint,
    derivatives_at,
    empty_point,
    values_at,
)
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.lbfgsb import TRIALS, shortening
from pliant.optimisation.methods import FAILED_START, FEASIBLE, NO_DECREASE, Iterate, Stopping
from pliant.optimisation.quadratic import (
    Curvature,
    LinearConstraints,
    QuadraticSolution,
    bfgs_approximation,
    bfgs_curvature,
    gauss_newton_curvature,
    minimise_quadratic,
)
from pliant.optimisation.states import OptimiserState, pairs_array, restored_pairs
from pliant.planners.gradient_planner import LBFGS_PAIRS

HESSIANS = ("bfgs", "gauss_newton")
DAMPED_SHARE = 0.2  # least curvature of a pair, relative to that of the model [Powell 1978]
SHIFT = 1e-8  # of the Gauss-Newton Hessian, relative to its largest diagonal entry
CONTRADICTION = "the constraints contradict each other here"


@final
@dataclass(frozen=True, kw_only=True)
class SQP:
    """Sequential quadratic programming, for constraints and bounds.

    Parameters
    ----------
    hessian : "bfgs" (damped, limited memory), or "gauss_newton" for sums of squares
    first_step : largest change of a variable in the first step, without constraints

    Each step minimises a quadratic model within the linearised constraints. If they contradict each
    other, the sum of their violations is penalised instead. Steps lower the merit function, value
    plus penalty times the sum of violations; a step that does not is corrected to second order,
    then shortened. Raises InputError for values outside these ranges.

    >>> from pliant.optimisation import SQP
    >>> SQP(hessian="gauss_newton").name
    'sqp'
    """

    hessian: str = "bfgs"
    first_step: float = 0.1

    def __post_init__(self) -> None:
        if self.hessian not in HESSIANS:
            raise InputError(
                f"There is no Hessian {quoted(self.hessian)}; {nearest(self.hessian, HESSIANS)}"
            )
        require_positive("The first step of SQP", self.first_step, "")

    @property
    def name(self) -> str:
        return "sqp"

    @property
    def handles_constraints(self) -> bool:
        return True

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> "SqpOptimiser":
        """Return the running method."""
        if self.hessian == "gauss_newton":
            _ = evaluator.least_squares
        return SqpOptimiser(method=self, evaluator=evaluator, stopping=stopping)


@dataclass(kw_only=True, eq=False)
class SqpOptimiser:
    """A running SQP: the point, the pairs of the BFGS Hessian, and the penalty."""

    method: SQP
    evaluator: Evaluator
    stopping: Stopping
    first_value: float = 0.0
    penalty: float = 0.0
    pairs: deque[tuple[Array, Array]] = field(default_factory=lambda: deque(maxlen=LBFGS_PAIRS))

    def __post_init__(self) -> None:
        self.now = empty_point(self.evaluator, self.evaluator.start)
        self.multipliers = np.zeros(self.evaluator.m)

    @property
    def _least_squares(self) -> bool:
        return self.method.hessian == "gauss_newton"

    def _derivatives(self, z: Array) -> ConstrainedPoint:
        return derivatives_at(self.evaluator, z, least_squares=self._least_squares)

    def first(self) -> Iterate:
        """Return the start."""
        self.now = self._derivatives(self.evaluator.start)
        if self.now.failed:
            failed = self.now.failed
            return Iterate(z=self.now.z, value=np.inf, failed=failed, finished=FAILED_START)
        self.first_value = self.now.value
        return self._iterate(0.0)

    def iterate(self) -> Iterate:
        """Take one step."""
        curvature = self._curvature()
        found = self._subproblem(curvature, self._linear(self.now.constraints))
        if found is None:
            return self._iterate(0.0, "the quadratic subproblem has no finite solution")
        self.multipliers = found.multipliers
        slope = self._slope(found, curvature.quadratic_form(found.d))
        if self._negligible(-slope, found):
            return self._end(found)
        trial = self._search(curvature, found.d, slope)
        if trial is None and self.pairs:  # the next step starts from the gradient
            self.pairs.clear()
            return self._iterate(0.0)
        if trial is None:
            small = -slope <= 1e-5 * abs(self.now.value) and self._violation <= FEASIBLE
            return self._iterate(0.0, NO_DECREASE, small)
        return self._accept(trial, curvature)

    def _accept(self, trial: ConstrainedPoint, curvature: Curvature) -> Iterate:
        """Go to a point with derivatives, and update the BFGS pairs."""
        s = trial.z - self.now.z
        if not self._least_squares:
            y = trial.gradient - self.now.gradient
            y = y + (trial.jacobian - self.now.jacobian).T @ self.multipliers
            self._add_pair(s, y, curvature)
        self.now = trial
        return self._iterate(float(np.abs(s).max()))

    def _add_pair(self, s: Array, y: Array, curvature: Curvature) -> None:
        """Add a pair, damped such that the Hessian stays positive definite [Powell 1978]."""
        product = curvature.product(s)
        model, seen = float(s @ product), float(s @ y)
        if not self.pairs and seen > 0.0:
            model = 0.0  # the first Hessian is only a scale
        if seen < DAMPED_SHARE * model:
            share = (1.0 - DAMPED_SHARE) * model / (model - seen)
            y = share * y + (1.0 - share) * product
        if s @ y > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs.append((s, y))

    # The model

    def _curvature(self) -> Curvature:
        """Return the Hessian of the Lagrangian."""
        if self._least_squares:
            rows = self.now.residual_factor
            largest = float(np.sum(rows**2, axis=0).max(initial=0.0))
            return gauss_newton_curvature(rows, SHIFT * largest or 1.0)
        g = self.now.gradient + self.now.jacobian.T @ self.multipliers
        first = float(np.abs(g).max()) / self.method.first_step or 1.0
        return bfgs_curvature(bfgs_approximation(len(g), first, list(self.pairs)))

    def _linear(self, constraints: Array) -> LinearConstraints:
        """Return the linearised constraints on a step, for constraints (m,) at a zero step."""
        lower, upper = self.evaluator.constraint_bounds
        return LinearConstraints(
            A=self.now.jacobian, lower=lower - constraints, upper=upper - constraints
        )

    def _subproblem(
        self, curvature: Curvature, linear: LinearConstraints
    ) -> QuadraticSolution | None:
        """Minimise the model within the linearised constraints, or with a penalty on them."""
        lower, upper = self.evaluator.bounds
        bounds, g = (lower - self.now.z, upper - self.now.z), self.now.gradient
        found = minimise_quadratic(g, curvature, bounds, linear)
        if not len(linear.A) or (found is not None and found.violation <= FEASIBLE * linear.size):
            return found
        penalty = max(self.penalty, self._first_penalty())
        for _ in range(4):  # a larger penalty may lower the violation
            elastic = minimise_quadratic(g, curvature, bounds, linear, penalty)
            if elastic is None:
                break
            if found is None or elastic.violation < 0.9 * found.violation or found.violation == 0.0:
                found = elastic
            if np.abs(elastic.multipliers).max(initial=0.0) < 0.99 * penalty:
                break
            penalty *= 10.0
        return found

    def _first_penalty(self) -> float:
        """Return the size of multipliers that balance the gradient."""
        rows = float(np.linalg.norm(self.now.jacobian, axis=1).max(initial=0.0))
        return 10.0 * (float(np.linalg.norm(self.now.gradient)) or 1.0) / (rows or 1.0)

    # The merit function

    def _merit(self, point: ConstrainedPoint) -> float:
        violation = self._linear(point.constraints).violation(np.zeros(self.evaluator.n))
        return point.value + self.penalty * violation

    @property
    def _violation(self) -> float:
        return self.evaluator.violation(self.now.constraints)

    def _slope(self, found: QuadraticSolution, curvature: float) -> float:
        """Return the derivative of the merit function along a step, after an update of the
        penalty."""
        linear = self._linear(self.now.constraints)
        reduction = linear.violation(np.zeros(self.evaluator.n)) - found.violation
        slope = float(self.now.gradient @ found.d)
        least = 1.1 * float(np.abs(found.multipliers).max(initial=0.0))
        if reduction > 0.0:
            least = max(least, (slope + 0.5 * curvature) / (0.5 * reduction))
        if self.penalty < least:
            self.penalty = 1.5 * least
        return slope - self.penalty * reduction

    def _negligible(self, decrease: float, found: QuadraticSolution) -> bool:
        value, first = self.now.value, self.first_value
        feasible = self._violation <= FEASIBLE or found.violation > FEASIBLE
        return feasible and self.stopping.negligible(decrease, value, first)

    def _end(self, found: QuadraticSolution) -> Iterate:
        if self._violation > FEASIBLE:
            return self._iterate(0.0, CONTRADICTION)
        return self._iterate(0.0, "the predicted decrease is negligible", True)

    def _search(self, curvature: Curvature, d: Array, slope: float) -> ConstrainedPoint | None:
        """Return the first point along a step with sufficient decrease, with derivatives."""
        merit, share = self._merit(self.now), 1.0
        if not slope < 0.0:
            return None
        noise = 1e-14 * max(abs(merit), 1e-300)
        for trial in range(TRIALS):
            point = values_at(self.evaluator, self.evaluator.clip(self.now.z + share * d))
            points = [point]
            if trial == 0 and not point.failed and self.evaluator.m:
                points += self._corrected(curvature, d, point, merit + 1e-4 * slope)
            for one in points:
                if not one.failed and self._merit(one) <= merit + 1e-4 * share * slope + noise:
                    full = self._derivatives(one.z)
                    if not full.failed:
                        return full
            change = self._merit(point) - merit
            share *= shortening(np.inf if point.failed else change, share * slope)
        return None

    def _corrected(
        self, curvature: Curvature, d: Array, point: ConstrainedPoint, enough: float
    ) -> list[ConstrainedPoint]:
        """Return the point after a second-order correction, if the whole step was not enough."""
        if self._merit(point) <= enough:
            return []
        linear = self._linear(point.constraints - self.now.jacobian @ d)
        found = self._subproblem(curvature, linear)
        if found is None:
            return []
        return [values_at(self.evaluator, self.evaluator.clip(self.now.z + found.d))]

    def _iterate(self, step: float, finished: str = "", converged: bool = False) -> Iterate:
        g = self.now.gradient + self.now.jacobian.T @ self.multipliers
        g = self.evaluator.projected_gradient(self.now.z, g)
        return Iterate(
            z=self.now.z,
            value=self.now.value,
            gradient_norm=float(np.abs(g).max()),
            step=step,
            violation=self._violation,
            finished=finished,
            converged=converged,
            notes={"multipliers": self.multipliers.tolist()} if finished else {},
        )

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        arrays = {
            "z": self.now.z,
            "constraints": self.now.constraints,
            "gradient": self.now.gradient,
            "jacobian": self.now.jacobian,
            "multipliers": self.multipliers,
        }
        if self._least_squares:
            arrays["residual_factor"] = self.now.residual_factor
        else:
            arrays["pairs"] = pairs_array(self.pairs, self.evaluator.n)
        values = {
            "value": self.now.value,
            "first_value": self.first_value,
            "penalty": self.penalty,
            "n_pairs": len(self.pairs),
        }
        return OptimiserState(arrays=arrays, values=values)

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes."""
        arrays, values = dict(state.arrays), state.values
        self.multipliers = np.array(arrays.pop("multipliers"))
        if "pairs" in arrays:
            self.pairs = restored_pairs(arrays.pop("pairs"), int(values["n_pairs"]))
        arrays.setdefault("residual_factor", self.now.residual_factor)
        parts: dict[str, Any] = {name: np.array(part) for name, part in arrays.items()}
        self.now = ConstrainedPoint(value=float(values["value"]), **parts)
        self.first_value, self.penalty = float(values["first_value"]), float(values["penalty"])
