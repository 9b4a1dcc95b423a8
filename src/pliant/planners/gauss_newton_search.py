"""The search of the Gauss-Newton planner: the quadratic model of an iteration by adjoint sweeps, by
forward sweeps, by a Riccati recursion or by a reduced horizon, and its minimisation within a trust
region."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import Evaluation
from pliant.planners.operation_counts import cheapest_route
from pliant.planners.plan_result import (
    NO_COUPLING,
    Options,
    Plan,
    SearchLog,
)
from pliant.planners.reduced_search import search_by_reduced_horizons
from pliant.planners.riccati import linearise_stages, riccati_step
from pliant.planners.sensitivity import (
    active_observations,
    adjoint_jacobian,
    control_cost_gradient,
    forward_jacobian,
    gauss_newton_rows,
    loss_gradients,
)
from pliant.planners.trust_region import (
    ControlMetric,
    TrustRegionModel,
    TrustRegionStep,
    control_metric,
    low_rank_model,
)
from pliant.planners.trust_region_search import minimise_by_trust_region
from pliant.problem import Problem


def search_by_gauss_newton(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    route: str | None = None,
) -> Plan:
    """Plan a problem without constraints; the arguments are those of `gauss_newton`."""
    chosen = route or cheapest_route(problem)
    if chosen == "reduced":
        return search_by_reduced_horizons(problem, guess=guess, options=options)
    log = SearchLog(problem=problem, method="gauss_newton", options=options or Options())
    build = (
        riccati_model
        if chosen == "riccati"
        else lambda problem, now: row_model(problem, now, chosen)
    )
    plan = minimise_by_trust_region(problem, lambda now: build(problem, now), guess, log)
    plan.notes["route"] = chosen
    return plan


def row_model(problem: Problem, now: Evaluation, route: str) -> TrustRegionModel:
    """Return the quadratic model from the Jacobian by adjoint or forward sweeps.

    Raises InputError if no control affects the terms.
    """
    R = adjoint_jacobian(problem, now) if route == "adjoint" else forward_jacobian(problem, now)
    if not np.any(R) and any(active_observations(problem, now)):
        raise InputError(NO_COUPLING)
    return _model_with_jacobian(problem, now, R)


def _model_with_jacobian(problem: Problem, now: Evaluation, R: Array) -> TrustRegionModel:
    g = control_cost_gradient(problem, now.controls) + np.tensordot(
        loss_gradients(problem, now), R, axes=1
    )
    model = low_rank_model(problem, now.controls, g.T.ravel(), gauss_newton_rows(problem, now, R))
    return replace(model, reuse_jacobian=lambda trial: _model_with_jacobian(problem, trial, R))


def riccati_model(problem: Problem, now: Evaluation) -> "RiccatiModel":
    """Return the quadratic model that a Riccati recursion minimises."""
    return RiccatiModel(problem=problem, now=now)


@dataclass(frozen=True, kw_only=True, eq=False)
class RiccatiModel:
    """The Gauss-Newton model, minimised by a Riccati recursion over dense stages.

    If the step violates limits, the model with Jacobian rows computes it instead.
    """

    problem: Problem
    now: Evaluation

    reuse_jacobian: None = None  # not available for this model

    @cached_property
    def _layout(self) -> AugmentedState:
        return AugmentedState(problem=self.problem)

    @cached_property
    def _stages(self) -> list[tuple[Array, Array]]:
        return linearise_stages(self.problem.model, self._layout, self.now)  # type: ignore[arg-type]

    @cached_property
    def _gradient(self) -> Array:
        """Gradient (steps, n_controls) by one adjoint sweep over the dense stages."""
        problem, now = self.problem, self.now
        values = problem.observe(now.states, now.controls)
        g = control_cost_gradient(problem, now.controls)
        bar = np.zeros(self._layout.size)
        for k in range(problem.steps, 0, -1):
            for observation, y in zip(problem.observations, values, strict=True):
                if observation.step == k:
                    bar = bar + self._layout.observation_matrix(
                        observation
                    ).T @ observation.loss.gradient(y)
            A, B = self._stages[k - 1]
            g[k - 1] += B.T @ bar
            bar = A.T @ bar
        return g

    @cached_property
    def _metric(self) -> ControlMetric:
        observations = zip(
            self.problem.observations,
            self.problem.observe(self.now.states, self.now.controls),
            strict=True,
        )
        B = np.mean([np.sum(stage[1] ** 2) for stage in self._stages])
        return control_metric(
            self.problem,
            float(
                B
                * sum(
                    np.sum(observation.loss.gauss_newton_factor(y) ** 2)
                    for observation, y in observations
                )
            ),
        )

    @cached_property
    def _row_model(self) -> TrustRegionModel:
        return row_model(self.problem, self.now, "adjoint")

    def minimise(self, radius: float) -> TrustRegionStep:
        """Return the minimiser within the trust region and the limits."""
        shift = 0.0
        for _ in range(30):
            change = riccati_step(
                self.problem, self._layout, self.now, self._stages, shift, self._metric.extra
            )
            d = change.T.ravel()
            size = float(np.sqrt(max(d @ (self._metric.sparse @ d), 0.0)))
            if size <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * size / radius - 1.0)
        if self.problem.limit_violation(self.now.controls + change) > 1e-12:
            return self._row_model.minimise(radius)
        gain = -0.5 * float(np.sum(self._gradient * change)) + 0.5 * shift * size**2
        return TrustRegionStep(change=change, gain=gain, size=size, shift=shift)
