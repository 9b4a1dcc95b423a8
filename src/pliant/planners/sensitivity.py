"""How the observations of a run change with its controls: rows of the residual's Jacobian, by
adjoint or by forward sweeps."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array, Linearizable, Linearization
from pliant.planners.plan import Evaluation
from pliant.problem import Look, Problem


def adjoint_rows(problem: Problem, now: Evaluation) -> Array:
    """(rows, steps, n_controls) d y / d u of all looks, one after the other: one solve for each row
    and step before it, all rows of a step with the one factor of that step, which is dropped before
    the next. Looks that feel nothing keep rows of zero."""
    model, looks, N = _linearizable(problem), problem.looks, problem.steps
    feels = felt(problem, now)
    first = np.cumsum([0, *(look.size for look in looks)])
    R = np.zeros((first[-1], N, model.n_controls))
    bars = np.zeros((model.space.size, first[-1]))
    active = np.zeros(first[-1], bool)
    for k in range(N, 0, -1):
        for look, row, awake in zip(looks, first, feels, strict=False):
            lag = look.step - k
            if awake and 0 <= lag < len(look.states):
                bars[:, row : row + look.size] += look.states[lag].T.toarray()
                active[row : row + look.size] = True
        if active.any():
            bars[:, active], R[active, k - 1] = _pulled(
                model.linearize(now.steps[k - 1]), bars[:, active]
            )
    _add_direct(R, looks, first)
    return R


def felt(problem: Problem, now: Evaluation) -> list[bool]:
    """Which looks have a slope or a curvature at what they see; constraints that are kept have
    none."""
    seen = problem.observations(now.states, now.controls)
    return [
        bool(look.loss.slope(y).any() or look.loss.factor(y).any())
        for look, y in zip(problem.looks, seen, strict=True)
    ]


def _pulled(lin: Linearization, bars: Array) -> tuple[Array, Array]:
    x, u, _ = lin.vjp(bars)
    return x, u.T


def forward_rows(problem: Problem, now: Evaluation) -> Array:
    """The same by forward sweeps: n_controls solves for each pair of steps, as in paper 003 eq.
    9."""
    model, looks, N = _linearizable(problem), problem.looks, problem.steps
    first = np.cumsum([0, *(look.size for look in looks)])
    n = model.n_controls
    R = np.zeros((first[-1], N, n))
    S = np.zeros((model.space.size, 0))
    for k in range(1, N + 1):
        lin = model.linearize(now.steps[k - 1])
        S = np.concatenate([lin.jvp(S), lin.dense_controls()], axis=1)
        for look, row in zip(looks, first, strict=False):
            lag = look.step - k
            if 0 <= lag < len(look.states):
                R[row : row + look.size, :k] += (look.states[lag] @ S).reshape(look.size, k, n)
    _add_direct(R, looks, first)
    return R


def _add_direct(R: Array, looks: Sequence[Look], first: Array) -> None:
    """What the looks see of the controls themselves."""
    for look, row in zip(looks, first, strict=False):
        for j, D in enumerate(look.controls):
            if look.step > j:
                R[row : row + look.size, look.step - 1 - j] += D


def _linearizable(problem: Problem) -> Linearizable:
    return problem.model  # type: ignore[return-value]


def slopes(problem: Problem, now: Evaluation) -> Array:
    """(rows,) the derivative of the losses by the observations."""
    seen = problem.observations(now.states, now.controls)
    return np.concatenate(
        [np.zeros(0), *(look.loss.slope(y) for look, y in zip(problem.looks, seen, strict=True))]
    )


def smooth_gradient(problem: Problem, controls: Array) -> Array:
    """(steps, n_controls) of the terms that see the controls alone."""
    return sum(
        (s.gradient(controls, problem.first_control) for s in problem.smooths),
        np.zeros_like(controls),
    )


def factor_rows(problem: Problem, now: Evaluation, R: Array) -> Array:
    """(r, n_variables) the Gauss-Newton factor of the looks, F^T F = their Hessian, over the
    controls, one control after the other."""
    seen = problem.observations(now.states, now.controls)
    flat = np.swapaxes(R, 1, 2).reshape(len(R), R.shape[1] * R.shape[2])
    out, row = [np.zeros((0, flat.shape[1]))], 0
    for look, y in zip(problem.looks, seen, strict=True):
        out.append(look.loss.factor(y) @ flat[row : row + look.size])
        row += look.size
    return np.concatenate(out)
