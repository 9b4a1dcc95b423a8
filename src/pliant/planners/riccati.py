"""The linear-quadratic subproblem by Riccati's recursion: stages in, gains and a change of the
controls out."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pliant.core import Array, Condensing, InputError, Linearizable
from pliant.planners.augmented import Augmented
from pliant.planners.plan import NO_COUPLING, Evaluation
from pliant.problem import Problem

MOST_BYTES = 4e9  # of dense stages


@dataclass(frozen=True, kw_only=True, eq=False)
class Quadratic:
    """p . (z, u) + 1/2 (z, u) P (z, u), by blocks."""

    z: Array
    u: Array
    zz: Array
    uz: Array
    uu: Array


def stage_cost(
    problem: Problem,
    layout: Augmented,
    now: Evaluation,
    k: int,
    shift: float = 0.0,
    exact: bool = False,
) -> Quadratic:
    """What the terms of step k add, expanded about a run: looks at x_k, and at k < steps the terms
    of u_k; `shift` stiffens the latter."""
    m = problem.model.n_controls
    z, zz = np.zeros(layout.size), np.zeros((layout.size, layout.size))
    u, uz, uu = np.zeros(m), np.zeros((m, layout.size)), np.zeros((m, m))
    for look in layout.looks_at(k):
        rows = layout.look_rows(look)
        y = look.see(now.states, now.controls, problem.first_control)
        z += rows.T @ look.loss.slope(y)
        F = look.loss.factor(y) @ rows
        zz += rows.T @ look.loss.hessian(y) @ rows if exact else F.T @ F
    for smooth in problem.smooths if k < problem.steps else ():
        r = smooth.weight * smooth.residual(now.controls, problem.first_control)[k]
        S, c, w = (
            layout.stencil_rows(smooth.stencil),
            smooth.stencil[0],
            (1.0 + shift) * smooth.weight[:, None],
        )
        z, u = z + S.T @ r, u + c * r
        zz, uz, uu = zz + S.T @ (w * S), uz + c * w * S, uu + np.diag(c * c * w[:, 0])
    return Quadratic(z=z, u=u, zz=zz, uz=uz, uu=uu)


def stage_costs(problem: Problem, layout: Augmented, now: Evaluation) -> Quadratic:
    """stage_cost of all steps, each block (steps, ...) but for z and zz, which have the last
    state's too."""
    every = [stage_cost(problem, layout, now, k) for k in range(problem.steps + 1)]
    ends = {"z": every, "u": every[:-1], "zz": every, "uz": every[:-1], "uu": every[:-1]}
    return Quadratic(
        **{
            name: np.array([getattr(stage, name) for stage in stages])
            for name, stages in ends.items()
        }
    )


def dense_stages(
    model: Linearizable, layout: Augmented, now: Evaluation
) -> list[tuple[Array, Array]]:
    """dz'/dz and dz'/du of every step; a sentence where they would fill the memory, or where no
    control does anything."""
    size = 8.0 * layout.size**2 * len(now.steps)
    if size > MOST_BYTES:
        raise InputError(
            f"Dynamic programming would hold {len(now.steps)} dense matrices of {layout.size} x "
            f"{layout.size} numbers ({size / 1e9:.3g} GB); plan with gauss_newton, or with a "
            "condensed derivative."
        )
    out = []
    for step in now.steps:
        if isinstance(model, Condensing):
            out.append(layout.dynamics(*model.stage(step)))
            continue
        lin = model.linearize(step)
        out.append(layout.dynamics(lin.dense_state(), lin.dense_controls()))
    if layout.problem.looks and not any(np.any(B[: layout.n_state]) for _, B in out):
        raise InputError(NO_COUPLING)
    return out


def through(stage: Quadratic, A: Array, B: Array, P: Array, p: Array) -> Quadratic:
    """Q(z, u) = stage + V(A z + B u) (paper 003 eq. 19)."""
    PA, PB = P @ A, P @ B
    return Quadratic(
        z=stage.z + A.T @ p,
        u=stage.u + B.T @ p,
        zz=stage.zz + A.T @ PA,
        uz=stage.uz + B.T @ PA,
        uu=stage.uu + B.T @ PB,
    )


def lq_change(
    problem: Problem,
    layout: Augmented,
    now: Evaluation,
    stages: list[tuple[Array, Array]],
    shift: float,
    extra: float,
) -> Array:
    """(steps, n_controls) the change of the controls that minimises the quadratic model, with (1 +
    shift) times the terms of the controls and `extra` on each of them."""
    N, m = problem.steps, problem.model.n_controls
    last = stage_cost(problem, layout, now, N)
    P, p = last.zz, last.z
    gains, forward = [], []
    for k in range(N - 1, -1, -1):
        Q = through(stage_cost(problem, layout, now, k, shift), *stages[k], P, p)
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
