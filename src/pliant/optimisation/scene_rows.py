"""Residuals of a scene: what Gauss-Newton needs of terms that are sums of squares."""

import numpy as np

from pliant.core import Array, InputError
from pliant.optimisation.scene_run import SceneRun
from pliant.planners.reverse_run import ReverseRun, RunFailed
from pliant.problem import AccumulatedCost, ControlCost, Loss, Problem
from pliant.problem.observations import SquaredLoss


def check_squares(problem: Problem) -> None:
    """Raise InputError if the objective of a scene is not a sum of squares."""
    costs = problem.extra_costs
    plain = [cost for cost in costs if cost.by != "sum" or cost.functions]
    losses = [one for one in problem.observations if not isinstance(one.loss, SquaredLoss)]
    inner = [
        one for cost in costs for one in cost.observations if not isinstance(one.loss, SquaredLoss)
    ]
    if plain or losses or inner:
        what = (
            "a function or an accumulator"
            if plain
            else f"the {type((losses + inner)[0].loss).__name__} of '{(losses + inner)[0].name}'"
        )
        raise InputError(
            f"Residuals need terms that are sums of squares, but the problem has {what}; choose "
            "another method, such as 'lbfgsb'."
        )


def residual_parts(run: ReverseRun) -> list[tuple[Loss, float]]:
    """Return the loss and the factor of every observation of the objective."""
    parts = [(one.loss, 1.0) for one in run.problem.observations]
    for cost in run.problem.extra_costs:
        parts += [(one.loss, cost.weight * cost.unit) for one in cost.observations]
    return parts


def control_costs_of(problem: Problem) -> list[tuple[ControlCost, float]]:
    """Return the control costs of a scene, each with its factor."""
    combined: list[tuple[AccumulatedCost, ControlCost]] = [
        (cost, part) for cost in problem.extra_costs for part in cost.control_costs
    ]
    return [(cost, 1.0) for cost in problem.control_costs] + [
        (part, cost.weight * cost.unit) for cost, part in combined
    ]


def run_residuals(run: ReverseRun, weight: float) -> Array:
    """Return the residuals (r,) of a finished run; half their squared norm is weight times its
    cost."""
    rows = [
        np.sqrt(weight * factor) * loss.residuals(y)  # type: ignore[attr-defined]
        for (loss, factor), y in zip(residual_parts(run), run.values, strict=False)
    ]
    first = run.problem.previous_control
    rows += [
        (np.sqrt(weight * factor * cost.weight) * cost.residual(run.controls, first)).ravel()
        for cost, factor in control_costs_of(run.problem)
    ]
    found = np.concatenate([np.zeros(0), *rows])
    if not np.all(np.isfinite(found)):
        raise RunFailed("a residual is not finite")
    return found


def residual_jacobian(scene: SceneRun, weight: float) -> tuple[Array, Array]:
    """Return the residuals (r,) and their derivative (r, n), by forward sensitivities."""
    run, observed = scene.observe_jacobian()
    rows = [
        np.sqrt(weight * factor) * loss.gauss_newton_factor(y) @ J
        for (loss, factor), y, J in zip(residual_parts(run), run.values, observed, strict=False)
    ]
    rows += [
        np.sqrt(weight * factor) * control_cost_jacobian(scene, cost)
        for cost, factor in control_costs_of(run.problem)
    ]
    found = np.concatenate([np.zeros((0, len(scene.z))), *rows])
    if not np.all(np.isfinite(found)):
        raise RunFailed("the Jacobian is not finite")
    return run_residuals(run, weight), found


def control_cost_jacobian(scene: SceneRun, cost: ControlCost) -> Array:
    """Return the derivative (steps n_controls, n) of the weighted residual of a control cost."""
    return np.tile(np.sqrt(cost.weight), scene.problem.steps)[:, None] * stencil_jacobian(
        scene, cost.stencil
    )


def stencil_jacobian(scene: SceneRun, stencil: Array) -> Array:
    """Return the derivative (steps n_controls, n) of `apply_stencil` by z."""
    steps, m = scene.problem.steps, scene.problem.model.n_controls
    by_controls = scene.layout.changes(scene.z, scene.k, "controls", steps * m)
    out = np.zeros_like(by_controls)
    for j, c in enumerate(stencil[:steps]):
        out[j * m :] += c * by_controls[: len(out) - j * m]
    return out
