"""The linear-quadratic subproblem, solved by a Riccati recursion."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pliant.core import Array, InputError, Linearizable, ReducedDynamics
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import Evaluation
from pliant.planners.plan_result import NO_COUPLING
from pliant.problem import Problem

MAX_DENSE_BYTES = 4e9  # memory limit of the dense stages


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticModel:
    """The blocks of the quadratic function p . (z, u) + 1/2 (z, u) P (z, u)."""

    z: Array
    u: Array
    zz: Array
    uz: Array
    uu: Array


def stage_cost(
    problem: Problem,
    layout: AugmentedState,
    now: Evaluation,
    k: int,
    shift: float = 0.0,
    exact: bool = False,
) -> QuadraticModel:
    """Return the cost of step k, expanded about an evaluation.

    It has the observations of x_k and, for k < steps, the control costs of u_k times 1 + shift.
    """
    m = problem.model.n_controls
    z, zz = np.zeros(layout.size), np.zeros((layout.size, layout.size))
    u, uz, uu = np.zeros(m), np.zeros((m, layout.size)), np.zeros((m, m))
    for observation in layout.observations_at(k):
        rows = layout.observation_matrix(observation)
        y = observation.evaluate(now.states, now.controls, problem.previous_control)
        z += rows.T @ observation.loss.gradient(y)
        F = observation.loss.gauss_newton_factor(y) @ rows
        zz += rows.T @ observation.loss.hessian(y) @ rows if exact else F.T @ F
    for control_cost in problem.control_costs if k < problem.steps else ():
        r = control_cost.weight * control_cost.residual(now.controls, problem.previous_control)[k]
        S, c, w = (
            layout.stencil_matrix(control_cost.stencil),
            control_cost.stencil[0],
            (1.0 + shift) * control_cost.weight[:, None],
        )
        z, u = z + S.T @ r, u + c * r
        zz, uz, uu = zz + S.T @ (w * S), uz + c * w * S, uu + np.diag(c * c * w[:, 0])
    return QuadraticModel(z=z, u=u, zz=zz, uz=uz, uu=uu)


def stage_costs(problem: Problem, layout: AugmentedState, now: Evaluation) -> QuadraticModel:
    """Return stage_cost of all steps; z and zz have one more row for the last state."""
    every = [stage_cost(problem, layout, now, k) for k in range(problem.steps + 1)]
    ends = {"z": every, "u": every[:-1], "zz": every, "uz": every[:-1], "uu": every[:-1]}
    return QuadraticModel(
        **{
            name: np.array([getattr(stage, name) for stage in stages])
            for name, stages in ends.items()
        }
    )


def linearise_stages(
    model: Linearizable, layout: AugmentedState, now: Evaluation
) -> list[tuple[Array, Array]]:
    """Return dz'/dz and dz'/du of every step.

    Raises InputError if they need too much memory or no control affects the terms.
    """
    size = 8.0 * layout.size**2 * len(now.steps)
    if size > MAX_DENSE_BYTES:
        raise InputError(
            f"Dynamic programming needs {len(now.steps)} dense matrices of {layout.size} x "
            f"{layout.size} numbers ({size / 1e9:.3g} GB); plan with gauss_newton, or with a "
            "condensed derivative."
        )
    out = []
    for step in now.steps:
        if isinstance(model, ReducedDynamics):
            out.append(layout.dynamics(*model.reduced_jacobians(step)))
            continue
        lin = model.linearize(step)
        out.append(layout.dynamics(lin.dense_state(), lin.dense_controls()))
    if layout.problem.observations and not any(np.any(B[: layout.n_state]) for _, B in out):
        raise InputError(NO_COUPLING)
    return out


def q_function(stage: QuadraticModel, A: Array, B: Array, P: Array, p: Array) -> QuadraticModel:
    """Return Q(z, u) = stage + V(A z + B u) [Zimmermann2021, eq. 19]."""
    PA, PB = P @ A, P @ B
    return QuadraticModel(
        z=stage.z + A.T @ p,
        u=stage.u + B.T @ p,
        zz=stage.zz + A.T @ PA,
        uz=stage.uz + B.T @ PA,
        uu=stage.uu + B.T @ PB,
    )


def riccati_step(
    problem: Problem,
    layout: AugmentedState,
    now: Evaluation,
    stages: list[tuple[Array, Array]],
    shift: float,
    extra: float,
) -> Array:
    """Return the change (steps, n_controls) of the controls that minimises the quadratic model.

    The control costs count 1 + shift times, with `extra` added to each diagonal entry.
    """
    N, m = problem.steps, problem.model.n_controls
    last = stage_cost(problem, layout, now, N)
    P, p = last.zz, last.z
    gains, forward = [], []
    for k in range(N - 1, -1, -1):
        Q = q_function(stage_cost(problem, layout, now, k, shift), *stages[k], P, p)
        factor = scipy.linalg.cho_factor(Q.uu + (1.0 + shift) * extra * np.eye(m))
        K, d = -scipy.linalg.cho_solve(factor, Q.uz), -scipy.linalg.cho_solve(factor, Q.u)
        P, p = Q.zz + Q.uz.T @ K, Q.z + Q.uz.T @ d
        P = 0.5 * (P + P.T)
        gains.append(K)
        forward.append(d)
    z, out = np.zeros(layout.size), np.zeros((N, m))
    for k, (K, d) in enumerate(zip(reversed(gains), reversed(forward), strict=True)):
        out[k] = d + K @ z
        z = stages[k][0] @ z + stages[k][1] @ out[k]
    return out
