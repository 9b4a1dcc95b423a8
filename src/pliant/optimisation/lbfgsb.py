"""L-BFGS with bounds: a quasi-Newton method for smooth objectives of any number of variables."""

from collections import deque
from dataclasses import dataclass, field
from typing import final

import numpy as np

from pliant.core import Array, require_positive
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import FAILED_START, NO_DECREASE, Iterate, Stopping
from pliant.optimisation.objective import ObjectiveEvaluation
from pliant.optimisation.quadratic import (
    bfgs_approximation,
    bfgs_curvature,
    minimise_quadratic,
    no_constraints,
)
from pliant.optimisation.states import OptimiserState, pairs_array, restored_pairs
from pliant.planners.gradient_planner import LBFGS_PAIRS

TRIALS = 20  # of a line search; the last one is at most 2e-6 of the step


@final
@dataclass(frozen=True, kw_only=True)
class LBFGSB:
    """L-BFGS with bounds, for smooth objectives with exact gradients.

    Parameters
    ----------
    first_step : largest change of a variable in the first step

    A quadratic program finds the step within the bounds. A step that fails or does not lower the
    value enough is shortened. Where the curvature is not positive, the first step doubles. Raises
    InputError for a first step that is not positive.

    >>> from pliant.optimisation import LBFGSB
    >>> LBFGSB(first_step=0.05).name
    'lbfgsb'
    """

    first_step: float = 0.1

    def __post_init__(self) -> None:
        require_positive("The first step of L-BFGS-B", self.first_step, "")

    @property
    def name(self) -> str:
        return "lbfgsb"

    @property
    def handles_constraints(self) -> bool:
        return False

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> "LbfgsOptimiser":
        """Return the running method."""
        return LbfgsOptimiser(method=self, evaluator=evaluator, stopping=stopping)


@dataclass(kw_only=True, eq=False)
class LbfgsOptimiser:
    """A running L-BFGS: the variables, their gradient and the pairs of changes."""

    method: LBFGSB
    evaluator: Evaluator
    stopping: Stopping
    value: float = 0.0
    first_value: float = 0.0
    largest_change: float = 0.0  # of a variable in a step without pairs
    pairs: deque[tuple[Array, Array]] = field(default_factory=lambda: deque(maxlen=LBFGS_PAIRS))

    def __post_init__(self) -> None:
        self.z, self.gradient = self.evaluator.start, np.zeros(self.evaluator.n)
        self.largest_change = self.method.first_step

    def first(self) -> Iterate:
        """Return the start."""
        found = self.evaluator.gradient(self.z)
        if found.failed:
            return Iterate(z=self.z, value=np.inf, failed=found.failed, finished=FAILED_START)
        self.value = self.first_value = found.value
        self.gradient = np.array(found.gradient, float)
        return self._iterate(0.0)

    def iterate(self) -> Iterate:
        """Take one step."""
        d, gain = self._step()
        if self.stopping.negligible(gain, self.value, self.first_value):
            return self._iterate(0.0, "the predicted decrease is negligible", True)
        z, found = self._line_search(d)
        if found is None and self.pairs:  # start again from the gradient
            self.pairs.clear()
            self.largest_change = self.method.first_step
            d, gain = self._step()
            z, found = self._line_search(d)
        if found is None:
            # to the accuracy of a simulation
            small = gain <= 1e-5 * abs(self.value)
            return self._iterate(0.0, NO_DECREASE, small)
        s, y = z - self.z, np.asarray(found.gradient) - self.gradient
        if s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs.append((s, y))
        else:
            self.largest_change *= 2.0
        self.z, self.value = z, found.value
        self.gradient = np.array(found.gradient, float)
        return self._iterate(float(np.abs(s).max()))

    def _step(self) -> tuple[Array, float]:
        """Return the minimiser of the quadratic model within the bounds, and its decrease."""
        g = self.gradient
        lower, upper = (bound - self.z for bound in self.evaluator.bounds)
        first = float(np.abs(g).max()) / self.largest_change or 1.0
        B = bfgs_approximation(len(g), first, list(self.pairs))
        d = -B.solve(g)
        if np.any(d < lower) or np.any(d > upper):
            d = np.clip(d, lower, upper)  # the minimiser, if there are no pairs
            if self.pairs:
                curvature = bfgs_curvature(B)
                found = minimise_quadratic(g, curvature, (lower, upper), no_constraints(len(g)))
                d = d if found is None else found.d
        return d, -float(g @ d + 0.5 * B.quadratic_form(d))

    def _line_search(self, d: Array) -> tuple[Array, ObjectiveEvaluation | None]:
        """Return the first point along d with sufficient decrease, and its evaluation or None."""
        slope, share = float(self.gradient @ d), 1.0
        if not slope < 0.0:
            return self.z, None
        for _ in range(TRIALS):
            z = self.evaluator.clip(self.z + share * d)
            found = self.evaluator.gradient(z)
            if not found.failed and found.value < self.value + 1e-4 * share * slope:
                return z, found
            share *= shortening(found.value - self.value, share * slope)
        return self.z, None

    def _iterate(self, step: float, finished: str = "", converged: bool = False) -> Iterate:
        g = self.evaluator.projected_gradient(self.z, self.gradient)
        norm = float(np.abs(g).max())
        if norm == 0.0 and not finished:
            finished, converged = "the gradient is zero", True
        return Iterate(
            z=self.z,
            value=self.value,
            gradient_norm=norm,
            step=step,
            finished=finished,
            converged=converged,
        )

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        return OptimiserState(
            arrays={
                "z": self.z,
                "gradient": self.gradient,
                "pairs": pairs_array(self.pairs, self.evaluator.n),
            },
            values={
                "value": self.value,
                "first_value": self.first_value,
                "largest_change": self.largest_change,
                "n_pairs": len(self.pairs),
            },
        )

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes."""
        self.z, self.gradient = (np.array(state.arrays[name]) for name in ("z", "gradient"))
        self.pairs = restored_pairs(state.arrays["pairs"], int(state.values["n_pairs"]))
        self.value = float(state.values["value"])
        self.first_value = float(state.values["first_value"])
        self.largest_change = float(state.values["largest_change"])


def shortening(change: float, slope: float) -> float:
    """Return the factor on a step that changed the value by `change` instead of about `slope`: the
    minimiser of the parabola, between 0.1 and 0.5; 0.25 if the step failed."""
    if not np.isfinite(change):
        return 0.25
    return float(np.clip(-0.5 * slope / (change - slope), 0.1, 0.5)) if change > slope else 0.5
