"""Crocoddyl's control-limited DDP as a peer: its backward pass on the very stages that ours takes.

The stages are linear-quadratic action models about z = 0 and u = 0, whose derivatives are found
before the clock starts. Crocoddyl leaves out of V_z what a clamped control does that is still to
move (Q_zu k of the clamped ones), so that both agree only where clamped controls already rest on
their bounds: `settled` leads there.
"""

from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra
from pliant.planners.linear_quadratic import stack_stages
from pliant.planners.riccati_kernels import backward_pass

Stages = tuple[Array, ...]  # Expansion.blocks


def crocoddyl_solver(stages: Stages) -> Any:
    """SolverBoxDDP at z = 0 and u = 0, all derivatives found; backwardPass() is then the
    linear-quadratic work alone."""
    crocoddyl = _import_crocoddyl()
    z, u, zz, uz, uu, A, B, low, high, *_ = stages
    N, m = u.shape
    n = z.shape[1]
    last = crocoddyl.ActionModelLQR(
        np.eye(n),
        np.zeros((n, m)),
        zz[N],
        np.zeros((m, m)),
        np.zeros((n, m)),
        np.zeros(n),
        z[N],
        np.zeros(m),
    )
    models = [
        crocoddyl.ActionModelLQR(A[k], B[k], zz[k], uu[k], uz[k].T.copy(), np.zeros(n), z[k], u[k])
        for k in range(N)
    ]
    for k, model in enumerate(models):
        model.u_lb, model.u_ub = low[k], high[k]
    problem = crocoddyl.ShootingProblem(np.zeros(n), models, last)
    solver = crocoddyl.SolverBoxDDP(problem)
    states, controls = [np.zeros(n)] * (N + 1), [np.zeros(m)] * N
    solver.setCandidate(states, controls, True)
    problem.calc(states, controls)
    problem.calcDiff(states, controls)
    solver.preg = solver.dreg = 0.0
    return solver


def _import_crocoddyl() -> Any:
    try:
        import crocoddyl
    except ImportError as error:
        raise MissingExtra(
            "Crocoddyl is not installed. Run: pip install 'pliant[bench]'."
        ) from error
    return crocoddyl


def crocoddyl_policy(solver: Any) -> tuple[Array, Array]:
    """(gains (N, m, n), forward (N, m)) in our signs: theirs are u = u_now - k - K (z - z_now)."""
    return -np.array(list(solver.K)), -np.array(list(solver.k))


def settled(stages: Stages, tries: int = 1000) -> Stages:
    """The stages about the optimum of their own linear-quadratic problem within the limits, by our
    passes, damped where a step goes too far."""
    damping, width = 0.0, float(np.abs(stages[8] - stages[7]).max())
    for _ in range(tries):
        _, gains, forward, promised, size = backward_pass(*(*stack_stages(stages), damping))
        run = _run(stages, gains, forward)
        if _value(stages, *run) < -1e-14 * abs(promised):
            stages, damping = _about(stages, *run), 0.1 * damping if damping > 1e-9 * size else 0.0
        elif np.abs(forward).max() <= 1e-14 * width or damping > 1e6 * size:
            break
        else:
            damping = max(10.0 * damping, 1e-6 * size)
    return stages


def _run(stages: Stages, gains: Array, forward: Array) -> tuple[Array, Array]:
    """(states (N + 1, n), controls (N, m)) of a policy, every control within its limits."""
    z, u, _, _, _, A, B, low, high, *_ = stages
    x, d = np.zeros_like(z), np.zeros_like(u)
    for k in range(len(u)):
        d[k] = np.clip(forward[k] + gains[k] @ x[k], low[k], high[k])
        x[k + 1] = A[k] @ x[k] + B[k] @ d[k]
    return x, d


def _slopes(stages: Stages, x: Array, d: Array) -> tuple[Array, Array]:
    """What a run adds to the slopes z and u."""
    _, _, zz, uz, uu, *_ = stages
    by_x, by_d = (
        np.einsum("kij,kj->ki", zz, x),
        np.einsum("kij,kj->ki", uz, x[:-1]) + np.einsum("kij,kj->ki", uu, d),
    )
    by_x[:-1] += np.einsum("kji,kj->ki", uz, d)
    return by_x, by_d


def _value(stages: Stages, x: Array, d: Array) -> float:
    """What a run costs beside standing still."""
    by_x, by_d = _slopes(stages, x, d)
    return float(np.sum((stages[0] + 0.5 * by_x) * x) + np.sum((stages[1] + 0.5 * by_d) * d))


def _about(stages: Stages, x: Array, d: Array) -> Stages:
    """The stages about a run, which is zero then."""
    by_x, by_d = _slopes(stages, x, d)
    z, u, *blocks = stages
    return (z + by_x, u + by_d, *blocks[:5], blocks[5] - d, blocks[6] - d, *blocks[7:])
