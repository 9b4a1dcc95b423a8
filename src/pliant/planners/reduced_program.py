"""The step within limits of rates and accelerations: a sparse quadratic program over a reduced
horizon."""

import numpy as np
import scipy.sparse as sp

from pliant.core import Array
from pliant.planners.horizon_reduction import ReducedHorizon
from pliant.planners.trust_region import (
    clip_to_limits,
    limit_rows,
    solve_qp,
    unflatten_controls,
)
from pliant.problem import Problem


def minimise_by_program(
    problem: Problem,
    horizon: ReducedHorizon,
    controls: Array,
    gradient: Array,
    metric: sp.csc_matrix,
) -> Array:
    """Return the change (steps, n_controls) of the controls that minimises the model within all
    limits.

    The variables are this change, the coordinates xi and the residuals. The constraints connect
    neighbouring steps only, so the factorisations take a time proportional to the steps.
    """
    n = problem.n_variables
    A, n_xi, n_rows = _dynamics_rows(horizon)
    scale = max(float(np.abs(gradient).max()), 1e-300)
    P = sp.block_diag(
        [metric / scale, sp.csc_matrix((n_xi, n_xi)), sp.identity(n_rows) / scale], format="csc"
    )
    G, low, high = limit_rows(problem, controls)
    G = sp.hstack([G, sp.csc_matrix((G.shape[0], n_xi + n_rows))], format="csc")
    c = np.concatenate([gradient.T.ravel() / scale, np.zeros(n_xi + n_rows)])
    d = solve_qp(P, c, A, np.zeros(n_xi + n_rows), G, low, high)[:n]
    return unflatten_controls(clip_to_limits(problem, controls, d), controls.shape)


def _dynamics_rows(horizon: ReducedHorizon) -> tuple[sp.csc_matrix, int, int]:
    """The equations over (controls, xi, residuals), and the numbers of xi and of residuals."""
    N, m = horizon.gradient.shape
    xi = np.cumsum([0, *(len(B) for B in horizon.B)])
    y = xi[-1] + np.cumsum([0, *(len(rows) for rows in horizon.rows)])
    parts: list[tuple[int, Array, Array]] = []  # first row, columns, block
    for k in range(N):
        new, controls = N * m + xi[k], np.arange(m) * N + k
        r, p = len(horizon.B[k]), len(horizon.rows[k])
        parts += [
            (xi[k], new + np.arange(r), np.eye(r)),
            (xi[k], controls, -horizon.B[k]),
            (y[k], N * m + y[k] + np.arange(p), np.eye(p)),
            (y[k], new + np.arange(r), -horizon.rows[k]),
        ]
        if k > 0:
            before = N * m + xi[k - 1] + np.arange(len(horizon.B[k - 1]))
            parts.append((xi[k], before, -horizon.A[k]))
    rows, cols, data = (
        np.concatenate([part.ravel() for part in column])
        for column in zip(
            *(
                (
                    np.broadcast_to(first + np.arange(len(block))[:, None], block.shape),
                    np.broadcast_to(columns, block.shape),
                    block,
                )
                for first, columns, block in parts
            ),
            strict=True,
        )
    )
    A = sp.csc_matrix((data, (rows, cols)), shape=(y[-1], N * m + y[-1]))
    A.eliminate_zeros()
    return A, int(xi[-1]), int(y[-1] - xi[-1])
