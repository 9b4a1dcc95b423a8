"""Gauss-Newton with the damping of Levenberg and Marquardt, for sums of squares with bounds."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.optimize import lsq_linear

from pliant.core import Array, counted, require_positive
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import FAILED_START, NO_DECREASE, Iterate, Stopping
from pliant.optimisation.objective import ObjectiveEvaluation
from pliant.optimisation.rejected_trials import RejectedTrial
from pliant.optimisation.states import OptimiserState

NEGLIGIBLE = "the predicted decrease is negligible"
TRIALS = 12  # dampings in an iteration, the last one 2**66 times the first one
# Simulations of a Jacobian, over those of residuals, above which secant updates replace most
# Jacobians. Forward sensitivities take 2, differences as many as there are variables. With one
# variable secant updates always do: they converge with the order 1.6 for one simulation, and
# Gauss-Newton with 2 for two or three.
SECANT_COST = 2.0
LEAST_SCALE = 1e-6  # of a column of the Jacobian, relative to the largest one, for the damping


@final
@dataclass(frozen=True, kw_only=True)
class GaussNewton:
    """Gauss-Newton with Levenberg-Marquardt damping and bounds, for sums of squares.

    Parameters
    ----------
    damping : first damping, relative to the squared columns of the Jacobian
    rank_tolerance : singular values of the scaled Jacobian below this share of the largest one
        count as zero

    The objective needs `residuals` and `jacobian`. A step that fails or does not lower the value is
    repeated with more damping. If there is one variable, or if a Jacobian takes more than two
    simulations for each of the residuals, as by differences, Broyden's secant updates follow the
    first one. It is evaluated again if a step fails, and before it converges. The residuals of a
    rejected step then choose the next damping. The notes have the rank of the Jacobian; the status
    says if the residuals do not determine all variables. Raises InputError for values that are not
    positive.

    >>> from pliant.optimisation import GaussNewton
    >>> GaussNewton().damping
    0.001
    """

    damping: float = 1e-3
    rank_tolerance: float = 1e-8

    def __post_init__(self) -> None:
        require_positive("The damping of Gauss-Newton", self.damping, "")
        require_positive("The rank tolerance of Gauss-Newton", self.rank_tolerance, "")

    @property
    def name(self) -> str:
        return "gauss_newton"

    @property
    def handles_constraints(self) -> bool:
        return False

    def optimiser(
        self, evaluator: Evaluator, stopping: Stopping, seed: int
    ) -> "GaussNewtonOptimiser":
        """Return the running method. Raises InputError for an objective without residuals."""
        _ = evaluator.least_squares
        return GaussNewtonOptimiser(method=self, evaluator=evaluator, stopping=stopping)


@dataclass(kw_only=True, eq=False)
class GaussNewtonOptimiser:
    """A running Gauss-Newton: the variables, and the Jacobian there as J = Q R. With secant updates
    it keeps J and the residuals as well."""

    method: GaussNewton
    evaluator: Evaluator
    stopping: Stopping
    value: float = 0.0
    first_value: float = 0.0
    damping: float = 0.0
    growth: float = 2.0  # factor on the damping after the next failure
    age: float = 0.0  # number of secant updates of the Jacobian

    def __post_init__(self) -> None:
        n = self.evaluator.n
        self.z, self.gradient = self.evaluator.start, np.zeros(n)
        self.R, self.right = np.zeros((n, n)), np.zeros(n)  # R (k, n), Q^T residuals (k,)
        self.scale = np.zeros(n)  # largest norms of the columns of the Jacobian
        self.jacobian, self.residuals = np.zeros((0, n)), np.zeros(0)  # empty: no secant updates
        self.damping = self.method.damping
        self._step_size = 0.0  # largest change of a variable
        self._rejected: RejectedTrial | None = None  # the last trial, if it was evaluated

    def first(self) -> Iterate:
        """Return the start."""
        there = self.evaluator.residuals(self.z)
        found = there if there.failed else self._evaluated_jacobian(self.z, there)
        if found.failed:
            return Iterate(z=self.z, value=np.inf, failed=found.failed, finished=FAILED_START)
        self._accept(self.z, found)
        if self._costs_more(found, there):
            self._keep(found)
        self.first_value = found.value
        return self._iterate(0.0)

    def _evaluated_jacobian(self, z: Array, there: ObjectiveEvaluation) -> ObjectiveEvaluation:
        """Return the Jacobian at z, where the residuals may have come with it."""
        return self.evaluator.jacobian(z) if there.jacobian is None else there

    def _costs_more(self, jacobian: ObjectiveEvaluation, residuals: ObjectiveEvaluation) -> bool:
        """Return whether secant updates save simulations."""
        dear = jacobian.simulations > SECANT_COST * residuals.simulations
        return residuals.jacobian is None and (self.evaluator.n == 1 or dear)

    def _keep(self, found: ObjectiveEvaluation) -> None:
        self.jacobian = np.array(found.jacobian, float)
        self.residuals = np.array(found.residuals, float)

    @property
    def _by_secants(self) -> bool:
        return len(self.residuals) > 0

    def _secant(self, z: Array, found: ObjectiveEvaluation) -> ObjectiveEvaluation:
        """Return residuals at z with Broyden's update of the Jacobian: the smallest change, in the
        scaled variables, that gives the change of the residuals along the step."""
        step, residuals = z - self.z, np.asarray(found.residuals, float)
        weights = self.scale**2 * step
        miss = residuals - self.residuals - self.jacobian @ step
        jacobian = self.jacobian + np.outer(miss, weights / (weights @ step))
        return replace(found, jacobian=jacobian)

    def _refresh(self) -> str:
        """Evaluate the Jacobian at the iterate. Return why it failed, or nothing."""
        found = self.evaluator.jacobian(self.z)
        if not found.failed:
            self._accept(self.z, found)
            self._keep(found)
            self.age = 0.0
        return found.failed

    def _accept(self, z: Array, found: ObjectiveEvaluation) -> None:
        jacobian = np.array(found.jacobian, float, order="C")
        residuals = np.asarray(found.residuals, float)
        self.z, self.value, self.gradient = z, found.value, jacobian.T @ residuals
        Q, R = np.linalg.qr(jacobian)
        n = self.evaluator.n
        self.R, self.right = np.zeros((n, n)), np.zeros(n)
        self.R[: len(R)], self.right[: len(R)] = R, Q.T @ residuals
        self.scale = np.maximum(self.scale, np.linalg.norm(jacobian, axis=0))

    def iterate(self) -> Iterate:
        """Take the first step with sufficient decrease, with more and more damping."""
        d, expected = self._first_step()
        small = self.stopping.negligible(expected, self.value, self.first_value)
        if small and self.age > 0.0:
            failed = self._refresh()
            if failed:
                return self._iterate(0.0, f"the Jacobian fails: {failed}")
            d, expected = self._first_step()
            small = self.stopping.negligible(expected, self.value, self.first_value)
        if small:
            return self._iterate(0.0, NEGLIGIBLE, True)
        failed = ""
        for _ in range(TRIALS):
            found = self._trial(d)
            if found is not None and not found.failed:
                return self._iterate(self._step_size)
            failed = "" if found is None else found.failed
            renewed = self.age > 0.0 and not self._refresh()
            if renewed:
                d, expected = self._first_step()
                if self.stopping.negligible(expected, self.value, self.first_value):
                    return self._iterate(0.0, NEGLIGIBLE, True)
            if self._rejected is not None:
                d = self._step_after(self._rejected, self.damping * (1.0 if renewed else 2.0))
            elif not renewed:
                self.damping *= self.growth
                self.growth *= 2.0
                d = self._step()
        if failed:
            return self._iterate(0.0, f"every smaller step fails: {failed}")
        # to the accuracy of a simulation
        return self._iterate(0.0, NO_DECREASE, expected <= 1e-5 * abs(self.value))

    def _first_step(self) -> tuple[Array, float]:
        """Return the step and its predicted decrease. If that is negligible because of the damping
        of earlier failures, the damping is the first one again."""
        d = self._step()
        expected = self._predicted_decrease(d)
        small = self.stopping.negligible(expected, self.value, self.first_value)
        if small and self.damping > self.method.damping:
            self.damping, self.growth = self.method.damping, 2.0
            d = self._step()
            expected = self._predicted_decrease(d)
        return d, expected

    def _trial(self, d: Array) -> ObjectiveEvaluation | None:
        """Accept a step with sufficient decrease. Return None without one, else its evaluation,
        which may have failed."""
        predicted = self._predicted_decrease(d)
        z = self.evaluator.clip(self.z + d)
        found, self._rejected = self.evaluator.residuals(z), None
        if not found.failed and not self.value - found.value > 1e-4 * predicted > 0.0:
            if self._by_secants and np.any(z != self.z):
                residuals = np.asarray(found.residuals, float)
                self._rejected = RejectedTrial(step=z - self.z, residuals=residuals)
            return None
        gain = (self.value - found.value) / (predicted or 1.0)
        if not found.failed and found.jacobian is None:
            found = self._secant(z, found) if self._by_secants else self.evaluator.jacobian(z)
        if not found.failed:
            self._relax(gain)
            self._step_size = float(np.abs(z - self.z).max())
            self._accept(z, found)
            if self._by_secants:
                self._keep(found)
                self.age += 1.0
        return found

    def _step_after(self, rejected: RejectedTrial, least: float) -> Array:
        """Return a step with the damping that a rejected trial suggests, `least` or more."""
        scale = np.where(self.scale > 0.0, self.scale, 1.0)
        self.damping = rejected.next_damping(
            self.residuals, self.jacobian, scale, least, self._step
        )
        self.growth = 2.0
        return self._step()

    def _relax(self, gain: float) -> None:
        """Reduce the damping after a success, as in Nielsen 1999."""
        self.damping = max(self.damping * max(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3), 1e-15)
        self.growth = 2.0

    def _predicted_decrease(self, d: Array) -> float:
        new = self.R @ d + self.right
        return 0.5 * float(self.right @ self.right - new @ new)

    def _step(self, damping: float | None = None) -> Array:
        """Return the minimiser d (n,) of |R d + right|^2 + damping |D d|^2 within the bounds."""
        damping = self.damping if damping is None else damping
        lower, upper = (bound - self.z for bound in self.evaluator.bounds)
        D = np.maximum(self.scale, LEAST_SCALE * self.scale.max(initial=0.0))
        D = np.sqrt(damping) * np.where(D > 0.0, D, 1.0)
        d, free = np.zeros(len(self.z)), lower < upper
        if not free.any():
            return d
        matrix = np.vstack([self.R[:, free] / D[free], np.eye(int(free.sum()))])
        right = np.concatenate([-self.right, np.zeros(int(free.sum()))])
        bounds = lower[free] * D[free], upper[free] * D[free]
        d[free] = lsq_linear(matrix, right, bounds, method="bvls").x / D[free]
        return np.clip(d, lower, upper)

    def _gradient_norm(self) -> float:
        return float(np.abs(self.evaluator.projected_gradient(self.z, self.gradient)).max())

    def _iterate(self, step: float, finished: str = "", converged: bool = False) -> Iterate:
        norm = self._gradient_norm()
        if norm == 0.0 and self.age > 0.0 and not self._refresh():
            norm = self._gradient_norm()  # that of a secant update may be zero at a bound
        if norm == 0.0 and not finished:
            finished, converged = "the gradient is zero", True
        notes = self._rank() if finished else {}
        if notes and notes["rank"] < notes["free variables"]:
            missing = counted(notes["free variables"] - notes["rank"], "direction")
            finished += f"; the residuals do not determine {missing} of the variables"
        return Iterate(
            z=self.z,
            value=self.value,
            gradient_norm=norm,
            step=step,
            finished=finished,
            converged=converged,
            notes=notes,
        )

    def _rank(self) -> dict[str, Any]:
        """Return the rank of the Jacobian by the variables that are not at a bound."""
        lower, upper = self.evaluator.bounds
        free = (self.z > lower) & (self.z < upper)
        values = np.linalg.svd(self.R[:, free], compute_uv=False)
        least = self.method.rank_tolerance * float(values.max(initial=0.0))
        return {
            "free variables": int(free.sum()),
            "rank": int(np.sum(values > least)),
            "singular values": values.tolist(),
        }

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        names = ("z", "gradient", "R", "right", "scale", "jacobian", "residuals")
        return OptimiserState(
            arrays={name: getattr(self, name) for name in names},
            values={
                "value": self.value,
                "first_value": self.first_value,
                "damping": self.damping,
                "growth": self.growth,
                "age": self.age,
            },
            growing=("jacobian", "residuals"),
        )

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state, in which the Jacobian and the residuals may be empty."""
        for name, array in state.arrays.items():
            setattr(self, name, np.array(array))
        for name, value in state.values.items():
            setattr(self, name, float(value))
        if self._by_secants:  # differences start from them, as before the interruption
            self.evaluator.least_squares.residuals(self.z)
