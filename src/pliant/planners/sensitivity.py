"""The Jacobian of all observations by the controls, by adjoint or forward sweeps."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array, Linearizable, Linearization
from pliant.planners.evaluation import Evaluation
from pliant.problem import Observation, Problem


def adjoint_jacobian(problem: Problem, now: Evaluation) -> Array:
    """Return dy/du (rows, steps, n_controls) of all observations by adjoint sweeps.

    It takes one solve for each row and earlier step. All rows share the factor of a step, which is
    released before the next. Rows of inactive observations are zero.
    """
    model, observations, N = _linearizable(problem), problem.observations, problem.steps
    is_active = active_observations(problem, now)
    first = np.cumsum([0, *(observation.size for observation in observations)])
    R = np.zeros((first[-1], N, model.n_controls))
    bars = np.zeros((model.space.size, first[-1]))
    active = np.zeros(first[-1], bool)
    for k in range(N, 0, -1):
        for observation, row, wanted in zip(observations, first, is_active, strict=False):
            lag = observation.step - k
            if wanted and 0 <= lag < len(observation.states):
                bars[:, row : row + observation.size] += observation.states[lag].T.toarray()
                active[row : row + observation.size] = True
        if active.any():
            bars[:, active], R[active, k - 1] = _vjp_columns(
                model.linearize(now.steps[k - 1]), bars[:, active]
            )
    _add_control_terms(R, observations, first)
    return R


def active_observations(problem: Problem, now: Evaluation) -> list[bool]:
    """Return which observations have a nonzero gradient or curvature.

    Satisfied constraints have neither.
    """
    values = problem.observe(now.states, now.controls)
    return [
        bool(observation.loss.gradient(y).any() or observation.loss.gauss_newton_factor(y).any())
        for observation, y in zip(problem.observations, values, strict=True)
    ]


def _vjp_columns(lin: Linearization, bars: Array) -> tuple[Array, Array]:
    x, u, _ = lin.vjp(bars)
    return x, u.T


def forward_jacobian(problem: Problem, now: Evaluation) -> Array:
    """Return dy/du (rows, steps, n_controls) by forward sweeps [Zimmermann2021, eq. 9].

    It takes n_controls solves for each pair of steps.
    """
    model, observations, N = _linearizable(problem), problem.observations, problem.steps
    first = np.cumsum([0, *(observation.size for observation in observations)])
    n = model.n_controls
    R = np.zeros((first[-1], N, n))
    S = np.zeros((model.space.size, 0))
    for k in range(1, N + 1):
        lin = model.linearize(now.steps[k - 1])
        S = np.concatenate([lin.jvp(S), lin.dense_controls()], axis=1)
        for observation, row in zip(observations, first, strict=False):
            lag = observation.step - k
            if 0 <= lag < len(observation.states):
                R[row : row + observation.size, :k] += (observation.states[lag] @ S).reshape(
                    observation.size, k, n
                )
    _add_control_terms(R, observations, first)
    return R


def _add_control_terms(R: Array, observations: Sequence[Observation], first: Array) -> None:
    """Add the direct dependence of the observations on the controls to R."""
    for observation, row in zip(observations, first, strict=False):
        for j, D in enumerate(observation.controls):
            if observation.step > j:
                R[row : row + observation.size, observation.step - 1 - j] += D


def _linearizable(problem: Problem) -> Linearizable:
    return problem.model  # type: ignore[return-value]


def loss_gradients(problem: Problem, now: Evaluation) -> Array:
    """Return the derivatives (rows,) of the losses by the observations."""
    values = problem.observe(now.states, now.controls)
    return np.concatenate(
        [
            np.zeros(0),
            *(
                observation.loss.gradient(y)
                for observation, y in zip(problem.observations, values, strict=True)
            ),
        ]
    )


def control_cost_gradient(problem: Problem, controls: Array) -> Array:
    """Return the gradient (steps, n_controls) of the control costs."""
    return sum(
        (s.gradient(controls, problem.previous_control) for s in problem.control_costs),
        np.zeros_like(controls),
    )


def gauss_newton_rows(problem: Problem, now: Evaluation, R: Array) -> Array:
    """Return F (r, n_variables), where F^T F is the Gauss-Newton Hessian of the observations.

    Columns are ordered one control after the other.
    """
    values = problem.observe(now.states, now.controls)
    flat = np.swapaxes(R, 1, 2).reshape(len(R), R.shape[1] * R.shape[2])
    out, row = [np.zeros((0, flat.shape[1]))], 0
    for observation, y in zip(problem.observations, values, strict=True):
        out.append(observation.loss.gauss_newton_factor(y) @ flat[row : row + observation.size])
        row += observation.size
    return np.concatenate(out)
