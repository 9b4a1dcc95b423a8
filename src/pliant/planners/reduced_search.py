"""The search of Gauss-Newton over reduced horizons, with feedback gains of the plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.constrained_model import ConstrainedModel
from pliant.planners.evaluation import Evaluation
from pliant.planners.horizon_reduction import expand_gains, reduce_horizon
from pliant.planners.plan_result import Options, Plan, SearchLog
from pliant.planners.reduced_model import ReducedModel
from pliant.planners.trust_region_search import minimise_by_trust_region
from pliant.problem import Problem

FIRST_TOLERANCE = 1e-6  # of the dropped directions, relative to the largest; each costs few solves
LEAST_TOLERANCE = 1e-12
# Largest bound of the truncation error relative to the Hessian. The step then lowers the exact
# quadratic model by at least 99.8 % of what is possible (horizon_reduction.py).
MAX_MODEL_ERROR = 0.02


def search_by_reduced_horizons(
    problem: Problem, *, guess: Array | None, options: Options | None
) -> Plan:
    """Plan a problem without constraints; the arguments are those of `gauss_newton`."""
    log = SearchLog(problem=problem, method="gauss_newton", options=options or Options())
    reducer = HorizonReducer(problem=problem)
    plan = minimise_by_trust_region(problem, reducer.model_at, guess, log)
    plan.notes.update(reducer.notes())
    if log.best is None or plan.interrupted:
        return plan
    plan = replace(plan, gains=reducer.gains_at(log.best))
    if log.options.folder is not None:
        plan.save(log.options.folder)
    return plan


@dataclass
class HorizonReducer:
    """Reduces horizons with the largest tolerance that keeps their error within its bound."""

    problem: Problem
    tolerance: float = FIRST_TOLERANCE

    def __post_init__(self) -> None:
        self.layout = AugmentedState(problem=self.problem)
        self.last: ReducedModel | None = None
        self.error = 0.0

    def notes(self) -> dict[str, Any]:
        """Return the rank of the last horizon and the bound of its error."""
        rank = 0 if self.last is None else self.last.stages.horizon.rank
        return {"route": "reduced", "rank": rank, "model_error": self.error}

    def model_at(self, now: Evaluation) -> ReducedModel | ConstrainedModel:
        """Return the quadratic model about an evaluation."""
        model = self._reduce(now, None)
        is_constrained = any(model.stages.horizon.constraints)
        return ConstrainedModel(model=model, now=now) if is_constrained else model

    def model_with_bases(self, now: Evaluation) -> tuple[ReducedModel, list[Array]]:
        """Return the model and the bases (size of z, r_k) of steps 0 to N - 1."""
        found: dict[int, Array] = {}
        model = self._reduce(now, found.__setitem__)
        return model, [found[k] for k in range(self.problem.steps)]

    def _reduce(
        self, now: Evaluation, on_basis: Callable[[int, Array], None] | None
    ) -> ReducedModel:
        while True:
            horizon = reduce_horizon(self.layout, now, self.tolerance, on_basis)
            model = ReducedModel.at(self.problem, now, horizon)
            self.error, self.last = model.truncation_error, model
            if self.error <= MAX_MODEL_ERROR or self.tolerance <= LEAST_TOLERANCE:
                return model
            self.tolerance *= 0.1

    def gains_at(self, now: Evaluation) -> Array | None:
        """Return the feedback gains (steps, n_controls, size of z) about an evaluation.

        Controls at their limits follow them. Return None if they do not exist.
        """
        try:
            model = self.last if self.last and self.last.now is now else self._reduce(now, None)
        except InputError:  # such as a limit point, where derivatives do not exist
            return None
        ok, gains, *_ = model.stages.policy(now.controls, model.metric.extra)
        if not ok:
            return None
        out = np.zeros((*now.controls.shape, self.layout.size))

        def expand(k: int, basis: Array) -> None:
            if k < len(gains):
                out[k] = expand_gains(self.layout, gains[k], basis)

        reduce_horizon(self.layout, now, self.tolerance, expand)
        return out
