"""The backward pass of Crocoddyl's box-constrained DDP on the same stages as ours.

The stages are linear-quadratic action models about z = 0 and u = 0. Their derivatives are computed
before the measurement. Crocoddyl omits the term Q_zu k of the clamped controls in V_z. Both passes
therefore agree only if the clamped controls are already at their bounds; `shift_to_optimum` returns
such stages.
"""

from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra
from pliant.planners.linear_quadratic import stack_stages
from pliant.planners.riccati_kernels import backward_pass

Stages = tuple[Array, ...]  # Expansion.blocks


def crocoddyl_solver(stages: Stages) -> Any:
    """Return a SolverBoxDDP at z = 0 and u = 0 with computed derivatives. Its backwardPass() then
    does only the linear-quadratic work."""
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
    """Return the gains (N, m, n) and the feedforward terms (N, m) with our signs. Crocoddyl uses
    u = u_now - k - K (z - z_now)."""
    return -np.array(list(solver.K)), -np.array(list(solver.k))


def shift_to_optimum(stages: Stages, tries: int = 1000) -> Stages:
    """Return the stages about the optimum of their box-constrained linear-quadratic problem. The
    optimum is found by damped iterations of our backward pass."""
    damping, width = 0.0, float(np.abs(stages[8] - stages[7]).max())
    for _ in range(tries):
        _, gains, forward, expected, size = backward_pass(*(*stack_stages(stages), damping))
        run = _rollout(stages, gains, forward)
        if _cost_change(stages, *run) < -1e-14 * abs(expected):
            stages, damping = (
                _shifted(stages, *run),
                0.1 * damping if damping > 1e-9 * size else 0.0,
            )
        elif np.abs(forward).max() <= 1e-14 * width or damping > 1e6 * size:
            break
        else:
            damping = max(10.0 * damping, 1e-6 * size)
    return stages


def _rollout(stages: Stages, gains: Array, forward: Array) -> tuple[Array, Array]:
    """Return the states (N + 1, n) and the clamped controls (N, m) of a policy."""
    z, u, _, _, _, A, B, low, high, *_ = stages
    x, d = np.zeros_like(z), np.zeros_like(u)
    for k in range(len(u)):
        d[k] = np.clip(forward[k] + gains[k] @ x[k], low[k], high[k])
        x[k + 1] = A[k] @ x[k] + B[k] @ d[k]
    return x, d


def _gradient_changes(stages: Stages, x: Array, d: Array) -> tuple[Array, Array]:
    """Return the changes of the cost gradients by z and u along states x and controls d."""
    _, _, zz, uz, uu, *_ = stages
    by_x, by_d = (
        np.einsum("kij,kj->ki", zz, x),
        np.einsum("kij,kj->ki", uz, x[:-1]) + np.einsum("kij,kj->ki", uu, d),
    )
    by_x[:-1] += np.einsum("kji,kj->ki", uz, d)
    return by_x, by_d


def _cost_change(stages: Stages, x: Array, d: Array) -> float:
    """Return the cost of states x and controls d, relative to zero states and controls."""
    by_x, by_d = _gradient_changes(stages, x, d)
    return float(np.sum((stages[0] + 0.5 * by_x) * x) + np.sum((stages[1] + 0.5 * by_d) * d))


def _shifted(stages: Stages, x: Array, d: Array) -> Stages:
    """Return the stages about states x and controls d, which become zero."""
    by_x, by_d = _gradient_changes(stages, x, d)
    z, u, *blocks = stages
    return (z + by_x, u + by_d, *blocks[:5], blocks[5] - d, blocks[6] - d, *blocks[7:])
