"""Batch Newton: the dense Hessian of the cost from forward sensitivities
[Zimmermann2021, section III]."""

from typing import Any

import numpy as np

from pliant.core import Array, InputError, Linearizable, TwiceDifferentiable, require_kind
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.evaluation import Evaluation
from pliant.planners.options import with_progress
from pliant.planners.plan_result import Options, Plan, SearchLog
from pliant.planners.sensitivity import (
    control_cost_gradient,
    forward_jacobian,
    gauss_newton_rows,
    loss_gradients,
)
from pliant.planners.trust_region import (
    TrustRegionModel,
    check_derivatives,
    control_metric,
    dense_model,
)
from pliant.planners.trust_region_search import minimise_by_trust_region
from pliant.problem import Problem


@with_progress
def newton(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    second_order: bool = True,
) -> Plan:
    """Plan by batch Newton with a trust region.

    `second_order` uses the exact Hessian [Zimmermann2021, eq. 10], otherwise the Gauss-Newton
    Hessian (eq. 11). Raises InputError if the model lacks the derivatives.
    """
    kind: Any = TwiceDifferentiable if second_order else Linearizable
    require_kind(
        "The model of newton",
        problem.model,
        kind,
        "second_order=True needs a model with `hessian_vector` (ImplicitEuler, BDF2, "
        "Quasistatic); otherwise take second_order=False or method='gradient'",
    )
    if problem.constraints:
        return plan_with_constraints(
            problem, newton, guess=guess, options=options, second_order=second_order
        )
    check_second_order(problem, second_order)
    log = SearchLog(
        problem=problem,
        method="newton" if second_order else "batch gauss-newton",
        options=options or Options(),
    )
    return minimise_by_trust_region(
        problem, lambda now: model_at(problem, now, second_order), guess, log
    )


def check_second_order(problem: Problem, second_order: bool) -> None:
    """Raise InputError if second derivatives are needed but the model has none."""
    model: Any = problem.model
    if second_order and not model.has_second_derivatives:
        raise InputError(
            "A part of the model, such as friction, has no second derivatives; plan with "
            "second_order=False, or with gauss_newton."
        )


def model_at(problem: Problem, now: Evaluation, second_order: bool) -> TrustRegionModel:
    """Return the quadratic model of the cost with a dense Hessian."""
    R = forward_jacobian(problem, now)
    g = control_cost_gradient(problem, now.controls) + np.tensordot(
        loss_gradients(problem, now), R, axes=1
    )
    rows = gauss_newton_rows(problem, now, R)
    check_derivatives(g, rows)
    m = control_metric(problem, float(np.sum(rows**2)) / rows.shape[1])
    H = m.sparse.toarray() + (
        rows.T @ rows if not second_order else _observation_hessian(problem, now, R)
    )
    if second_order:
        D = dynamics_hessian(problem, now)
        H = H + 0.5 * (D + D.T)
    return dense_model(problem, now.controls, g.T.ravel(), m, H)


def _observation_hessian(problem: Problem, now: Evaluation, R: Array) -> Array:
    """Return R^T diag(exact Hessians of the losses) R."""
    flat, row = np.swapaxes(R, 1, 2).reshape(len(R), R.shape[1] * R.shape[2]), 0
    H = np.zeros((flat.shape[1], flat.shape[1]))
    for observation, y in zip(
        problem.observations, problem.observe(now.states, now.controls), strict=True
    ):
        part = flat[row : row + observation.size]
        H += part.T @ observation.loss.hessian(y) @ part
        row += observation.size
    return H


def dynamics_hessian(problem: Problem, now: Evaluation) -> Array:
    """Return the part (n_variables, n_variables) of the Hessian from the dynamics' curvature.

    It uses second-order adjoints of all directions at once.
    """
    N, m = problem.steps, problem.model.n_controls
    directions = np.eye(N * m).reshape(N, m, N * m)  # one for each step and control
    H = second_order_adjoint(problem, now, directions)  # (N, m, N m), ordered by steps
    order = np.arange(N * m).reshape(N, m).T.ravel()
    return H.reshape(N * m, N * m)[np.ix_(order, order)]


def second_order_adjoint(problem: Problem, now: Evaluation, directions: Array) -> Array:
    """Return the dynamics' part of the Hessian times k directions (steps, n_controls, k)."""
    model: Any = problem.model
    k = directions.shape[2]
    lins = [model.linearize(step) for step in now.steps]
    tangents = [np.zeros((model.space.size, k))]
    for lin, du in zip(lins, directions, strict=True):
        tangents.append(lin.jvp(tangents[-1], du))
    seen = problem.observe(now.states, now.controls)
    bar, second, out = (
        np.zeros(model.space.size),
        np.zeros((model.space.size, k)),
        np.zeros_like(directions),
    )
    for j in range(problem.steps, 0, -1):
        for observation, y in zip(problem.observations, seen, strict=True):
            lag = observation.step - j
            if 0 <= lag < len(observation.states):
                bar = bar + observation.states[lag].T @ observation.loss.gradient(y)
        by_x, by_u = model.hessian_vector(now.steps[j - 1], bar, lins[j - 1])(
            tangents[j - 1], directions[j - 1]
        )
        x_bar, u_bar, _ = lins[j - 1].vjp(np.column_stack([second, bar]))
        second, out[j - 1] = x_bar[:, :-1] + by_x, u_bar[:, :-1] + by_u
        bar = x_bar[:, -1]
    return out


def hessian_vector(problem: Problem, now: Evaluation, direction: Array) -> Array:
    """Return the exact Hessian of the cost times a direction (steps, n_controls)."""
    model: Any = problem.model
    dynamics_part = second_order_adjoint(problem, now, direction[:, :, None])[:, :, 0]
    R = forward_jacobian(problem, now)
    seen, row, out = problem.observe(now.states, now.controls), 0, np.zeros_like(direction)
    for observation, y in zip(problem.observations, seen, strict=True):
        part = R[row : row + observation.size]
        out += np.tensordot(
            observation.loss.hessian(y) @ np.tensordot(part, direction, axes=2), part, axes=1
        )
        row += observation.size
    for control_cost in problem.control_costs:
        zero = np.zeros(model.n_controls)
        flat = type(control_cost)(
            stencil=control_cost.stencil,
            weight=control_cost.weight,
            reference=0.0 * control_cost.reference,
        )
        out += flat.gradient(direction, zero)
    return out + dynamics_part
