"""The quadratic model over a reduced horizon with constraints, minimised by an interior point
method whose iterations are Riccati recursions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array
from pliant.planners.evaluation import Evaluation
from pliant.planners.exact_penalty import ExactPenaltyLoss, distances
from pliant.planners.interior_point import (
    Conditions,
    InteriorPointResult,
    minimise_within_limits,
)
from pliant.planners.limited_stages import LimitedStages
from pliant.planners.reduced_model import ReducedModel
from pliant.planners.trust_region import TrustRegionStep, clip_to_limits, unflatten_controls
from pliant.problem import apply_stencil


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedModel:
    """The model of the cost plus penalty |distance| of the linearised constraints.

    The limits of the controls, their rates and their accelerations hold exactly.
    """

    model: ReducedModel
    now: Evaluation  # at d = 0

    @property
    def reuse_jacobian(self) -> Callable[[Evaluation], "ConstrainedModel"]:
        return lambda trial: ConstrainedModel(model=self.model.reuse_jacobian(trial), now=trial)

    @cached_property
    def _limited(self) -> tuple[Array, Array, Array]:
        """The distances to the lower and the upper bounds of all limited values, and their
        penalties, infinite for limits of the controls."""
        problem, now = self.model.stages.problem, self.now
        lower, upper, penalty = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
        for here in self.model.stages.horizon.constraints:
            for one in here:
                loss = one.observation.loss
                assert isinstance(loss, ExactPenaltyLoss)
                y = one.observation.evaluate(now.states, now.controls, problem.previous_control)
                c, (low, high) = loss.limited_values(y), loss.bounds(y)
                lower.append(low - c)
                upper.append(high - c)
                penalty.append(np.full(len(c), loss.penalty))
        for bound in problem.control_bounds:
            c = apply_stencil(bound.stencil, now.controls, problem.previous_control)
            lower.append((bound.lower - c).ravel())
            upper.append((bound.upper - c).ravel())
            penalty.append(np.full(c.size, np.inf))
        return np.concatenate(lower), np.concatenate(upper), np.concatenate(penalty)

    def stages(self, shift: float) -> LimitedStages:
        """Return the stages with 1 + shift times the control costs."""
        model, metric = self.model, self.model.metric
        return LimitedStages(
            stages=model.stages,
            gradient=model.gradient,
            metric=(1.0 + shift) * metric.sparse,
            shift=shift,
            extra=metric.extra,
            bounds=model.stages.problem.control_bounds,
        )

    def solve(self, shift: float = 0.0) -> InteriorPointResult:
        """Return the minimiser of the model with a shift."""
        conditions = Conditions.between(*self._limited)
        return minimise_within_limits(self.stages(shift), conditions, self.now.controls.shape)

    def minimise(self, radius: float) -> TrustRegionStep:
        """Return the minimiser at most 1.1 times as long as the radius."""
        model, shift = self.model, 0.0
        for _ in range(30):
            d = self._clipped(self.solve(shift).d)
            size = model.size_of(d)
            if size <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * size / radius - 1.0)
        return TrustRegionStep(change=d, gain=self.gain_of(d), size=size, shift=shift)

    def _clipped(self, d: Array) -> Array:
        flat = clip_to_limits(self.model.stages.problem, self.now.controls, d.T.ravel())
        return unflatten_controls(flat, d.shape)

    def gain_of(self, d: Array) -> float:
        """Return the predicted decrease of the cost with penalties."""
        lower, upper, penalty = self._limited
        n = int(np.isfinite(penalty).sum())
        c = np.concatenate([np.zeros(0), *self.model.stages.horizon.row_changes(d)[1]])
        before, after = (distances(y, lower[:n], upper[:n]) for y in (np.zeros(n), c))
        return self.model.gain_of(d) + float(penalty[:n] @ (before - after))
