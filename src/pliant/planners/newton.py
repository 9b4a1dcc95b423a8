"""Batch Newton (paper 003 section III): the dense Hessian of the cost over all controls, from
forward sensitivities."""

from typing import Any

import numpy as np

from pliant.core import Array, Curved, InputError, Linearizable, require_kind
from pliant.planners.lagrangian import constrained
from pliant.planners.options import reported
from pliant.planners.plan import Evaluation, Journal, Options, Plan
from pliant.planners.quadratic import Model, check_finite, dense_model, metric
from pliant.planners.sensitivity import factor_rows, forward_rows, slopes, smooth_gradient
from pliant.planners.shooting import descend
from pliant.problem import Problem


@reported
def newton(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    second_order: bool = True,
) -> Plan:
    """Plan by batch Newton with a trust region: the exact Hessian (eq. 10), or the Gauss-Newton one
    (eq. 11) without second_order."""
    kind: Any = Curved if second_order else Linearizable
    require_kind(
        "The model of newton",
        problem.model,
        kind,
        "second_order=True needs a model with `bend` (ImplicitEuler, BDF2, "
        "Quasistatic); else take second_order=False or method='gradient'",
    )
    if problem.constraints:
        return constrained(problem, newton, guess=guess, options=options, second_order=second_order)
    check_bends(problem, second_order)
    journal = Journal(
        problem=problem,
        method="newton" if second_order else "batch gauss-newton",
        options=options or Options(),
    )
    return descend(problem, lambda now: model_at(problem, now, second_order), guess, journal)


def check_bends(problem: Problem, second_order: bool) -> None:
    """A sentence where second derivatives are asked for of a model that has none, such as one with
    friction."""
    model: Any = problem.model
    if second_order and not model.bends:
        raise InputError(
            "A part of the model, such as friction, has no second derivatives; plan with "
            "second_order=False, or by gauss_newton."
        )


def model_at(problem: Problem, now: Evaluation, second_order: bool) -> Model:
    """The whole Hessian, dense."""
    R = forward_rows(problem, now)
    g = smooth_gradient(problem, now.controls) + np.tensordot(slopes(problem, now), R, axes=1)
    rows = factor_rows(problem, now, R)
    check_finite(g, rows)
    m = metric(problem, float(np.sum(rows**2)) / rows.shape[1])
    H = m.sparse.toarray() + (
        rows.T @ rows if not second_order else _looks_hessian(problem, now, R)
    )
    if second_order:
        bend = bend_hessian(problem, now)
        H = H + 0.5 * (bend + bend.T)
    return dense_model(problem, now.controls, g.T.ravel(), m, H)


def _looks_hessian(problem: Problem, now: Evaluation, R: Array) -> Array:
    """R^T (exact Hessians of the losses) R."""
    flat, row = np.swapaxes(R, 1, 2).reshape(len(R), R.shape[1] * R.shape[2]), 0
    H = np.zeros((flat.shape[1], flat.shape[1]))
    for look, y in zip(problem.looks, problem.observations(now.states, now.controls), strict=True):
        part = flat[row : row + look.size]
        H += part.T @ look.loss.hessian(y) @ part
        row += look.size
    return H


def bend_hessian(problem: Problem, now: Evaluation) -> Array:
    """(n_variables, n_variables) what the curvature of the dynamics adds, by second-order adjoints
    of all directions at once."""
    N, m = problem.steps, problem.model.n_controls
    directions = np.eye(N * m).reshape(N, m, N * m)  # a direction for each step and control
    H = second_order_sweep(
        problem, now, directions
    )  # (N, m, N m), rows and columns step after step
    order = np.arange(N * m).reshape(N, m).T.ravel()
    return H.reshape(N * m, N * m)[np.ix_(order, order)]


def second_order_sweep(problem: Problem, now: Evaluation, directions: Array) -> Array:
    """(steps, n_controls, k) the change of the gradient along k directions (steps, n_controls, k)
    that the dynamics' curvature makes."""
    model: Any = problem.model
    k = directions.shape[2]
    lins = [model.linearize(step) for step in now.steps]
    tangents = [np.zeros((model.space.size, k))]
    for lin, du in zip(lins, directions, strict=True):
        tangents.append(lin.jvp(tangents[-1], du))
    seen = problem.observations(now.states, now.controls)
    bar, second, out = (
        np.zeros(model.space.size),
        np.zeros((model.space.size, k)),
        np.zeros_like(directions),
    )
    for j in range(problem.steps, 0, -1):
        for look, y in zip(problem.looks, seen, strict=True):
            lag = look.step - j
            if 0 <= lag < len(look.states):
                bar = bar + look.states[lag].T @ look.loss.slope(y)
        by_x, by_u = model.bend(now.steps[j - 1], bar, lins[j - 1])(
            tangents[j - 1], directions[j - 1]
        )
        pulled_x, pulled_u, _ = lins[j - 1].vjp(np.column_stack([second, bar]))
        second, out[j - 1] = pulled_x[:, :-1] + by_x, pulled_u[:, :-1] + by_u
        bar = pulled_x[:, -1]
    return out


def hessian_times(problem: Problem, now: Evaluation, direction: Array) -> Array:
    """(steps, n_controls) the exact Hessian of the cost times a direction (steps, n_controls)."""
    model: Any = problem.model
    curved = second_order_sweep(problem, now, direction[:, :, None])[:, :, 0]
    R = forward_rows(problem, now)
    seen, row, out = problem.observations(now.states, now.controls), 0, np.zeros_like(direction)
    for look, y in zip(problem.looks, seen, strict=True):
        part = R[row : row + look.size]
        out += np.tensordot(
            look.loss.hessian(y) @ np.tensordot(part, direction, axes=2), part, axes=1
        )
        row += look.size
    for smooth in problem.smooths:
        zero = np.zeros(model.n_controls)
        flat = type(smooth)(
            stencil=smooth.stencil, weight=smooth.weight, reference=0.0 * smooth.reference
        )
        out += flat.gradient(direction, zero)
    return out + curved
