"""The quadratic model of Gauss-Newton over a reduced horizon, minimised within a trust region and
limits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.optimize

from pliant.core import Array
from pliant.planners.evaluation import Evaluation
from pliant.planners.horizon_reduction import PROBE_FACTOR, ReducedHorizon, WeightedRows
from pliant.planners.reduced_program import minimise_by_program
from pliant.planners.reduced_stages import Held, ReducedStages
from pliant.planners.sensitivity import control_cost_gradient
from pliant.planners.trust_region import (
    ControlMetric,
    TrustRegionStep,
    check_derivatives,
    control_metric,
)
from pliant.problem import Problem

RADIUS_TOLERANCE = 1e-6  # relative difference of a step's size from the radius
MAX_ACTIVE_SETS = 20  # a set of controls at their bounds usually repeats after 3 to 6 of them


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedModel:
    """The model g . d + 1/2 d^T (B + J^T J) d of the cost over a reduced horizon."""

    stages: ReducedStages
    now: Evaluation  # at which the horizon is linearised
    controls: Array  # (steps, n_controls) at d = 0
    gradient: Array  # (steps, n_controls) at d = 0

    @classmethod
    def at(cls, problem: Problem, now: Evaluation, horizon: ReducedHorizon) -> "ReducedModel":
        """Return the model about the evaluation of a horizon."""
        check_derivatives(horizon.gradient, *horizon.B)
        stages = ReducedStages(problem=problem, horizon=horizon)
        return cls(stages=stages, now=now, controls=now.controls, gradient=horizon.gradient)

    @property
    def reuse_jacobian(self) -> Callable[[Evaluation], "ReducedModel"]:
        return self._at_trial

    def _at_trial(self, trial: Evaluation) -> "ReducedModel":
        """Return the model at a nearby evaluation with the same Jacobian."""
        problem, horizon = self._problem, self.stages.horizon
        slope = lambda of: control_cost_gradient(problem, of.controls)
        bars = [
            np.concatenate([np.zeros(0), *(self._residual_bar(one, trial) for one in here)])
            for here in horizon.observations
        ]
        change = slope(trial) - slope(self.now) + horizon.residual_vjp(bars)
        return replace(self, controls=trial.controls, gradient=horizon.gradient + change)

    def _residual_bar(self, one: WeightedRows, trial: Evaluation) -> Array:
        """Return the change of the residuals (r,) of an observation that explains the change of its
        loss gradient."""
        y = one.observation.evaluate(trial.states, trial.controls, self._problem.previous_control)
        change = one.observation.loss.gradient(y) - one.loss_gradient
        return np.linalg.lstsq(one.factor.T, change)[0]

    @property
    def _problem(self) -> Problem:
        return self.stages.problem

    @cached_property
    def metric(self) -> ControlMetric:
        size = self.stages.horizon.squared_size
        return control_metric(self._problem, size / self._problem.n_variables)

    @cached_property
    def _free_changes(self) -> Array:
        """The minimisers (steps, n_controls, 1 + PROBES) for the gradient and for the probes."""
        both = np.concatenate([self.gradient[..., None], self.stages.horizon.probes], axis=2)
        return self.stages.solve(both, 0.0, self.metric.extra)[0]

    @property
    def truncation_error(self) -> float:
        """A bound of the norm of (J - J') H'^-1/2.

        It holds with probability 1 - 10^-PROBES [Halko2011, eq. 4.3].
        """
        probes = self.stages.horizon.probes
        squares = -np.sum(probes * self._free_changes[..., 1:], axis=(0, 1))
        return float(PROBE_FACTOR * np.sqrt(max(squares.max(), 0.0)))

    def minimise(self, radius: float) -> TrustRegionStep:
        """Return the minimiser within the trust region and the limits."""
        shift, d = self._within_radius(radius)
        if self._problem.limit_violation(self.controls + d) > 1e-12:
            shift, d = self._within_limits(radius)
        return TrustRegionStep(change=d, gain=self.gain_of(d), size=self.size_of(d), shift=shift)

    def _within_radius(self, radius: float) -> tuple[float, Array]:
        """Return the least shift for which the step is within the radius, and the step."""
        found: dict[float, Array] = {}

        def excess(shift: float) -> float:
            found[shift] = self._solve(shift)[0] if shift else self._free_changes[..., 0]
            return 1.0 - radius / max(self.size_of(found[shift]), 1e-300)

        low, high = 0.0, 0.0
        while (over := excess(high)) > RADIUS_TOLERANCE:
            size = self.size_of(found[high])
            low, high = high, 2.0 * (1.0 + high) * size / radius - 1.0
        if high > 0.0 > over:
            scipy.optimize.brentq(excess, low, high, rtol=RADIUS_TOLERANCE)
        fits = lambda d: self.size_of(d) <= radius * (1.0 + 2.0 * RADIUS_TOLERANCE)
        shift = min(shift for shift, d in found.items() if fits(d))
        return shift, found[shift]

    def size_of(self, d: Array) -> float:
        """Return the length of a change in the norm of the control costs."""
        flat = d.T.ravel()
        return float(np.sqrt(max(flat @ (self.metric.sparse @ flat), 0.0)))

    def gain_of(self, d: Array) -> float:
        """Return the predicted decrease of the cost."""
        squares = sum(float(r @ r) for r in self.stages.horizon.residual_change(d))
        return -float(np.sum(self.gradient * d)) - 0.5 * (self.size_of(d) ** 2 + squares)

    def _solve(self, shift: float, held: Held | None = None) -> tuple[Array, Array]:
        return self.stages.solve(self.gradient, shift, self.metric.extra, held)

    # Limits

    def _within_limits(self, radius: float) -> tuple[float, Array]:
        """Return a shift and its step within the limits, at most 1.1 times as long as the
        radius."""
        shift = 0.0
        for _ in range(30):
            d = self._solve_limited(shift)
            if self.size_of(d) <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * self.size_of(d) / radius - 1.0)
        return shift, d

    def _solve_limited(self, shift: float) -> Array:
        """Return the minimiser within the limits (steps, n_controls)."""
        d = self._solve_bounded(shift)
        if d is not None and self._problem.limit_violation(self.controls + d) <= 1e-12:
            return d
        return minimise_by_program(
            self._problem,
            self.stages.horizon,
            self.controls,
            self.gradient,
            (1.0 + shift) * self.metric.sparse,
        )

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest change (steps, n_controls) by the limits of order 0."""
        plain = [bound for bound in self._problem.control_bounds if bound.order == 0]
        low, high = (
            np.max([bound.lower for bound in plain], axis=0),
            np.min([bound.upper for bound in plain], axis=0),
        )
        return low - self.controls, high - self.controls

    def _solve_bounded(self, shift: float) -> Array | None:
        """Return the minimiser within the limits of order 0 by a primal-dual active set method.

        Each set takes one recursion. If a set repeats, the optimality conditions hold. Returns None
        if none repeats.
        """
        low, high = self._bounds
        at_low, at_high = (
            (low == 0.0) & (self.gradient > 0.0),
            (high == 0.0) & (self.gradient < 0.0),
        )
        for _ in range(MAX_ACTIVE_SETS):
            held = Held(mask=at_low | at_high, values=np.where(at_low, low, high))
            d, slope = self._solve(shift, held)
            next_low = np.where(at_low, slope > 0.0, (d < low) & ~at_high)
            next_high = np.where(at_high, slope < 0.0, (d > high) & ~at_low)
            if np.array_equal(next_low, at_low) and np.array_equal(next_high, at_high):
                return d
            at_low, at_high = next_low, next_high
        return None
