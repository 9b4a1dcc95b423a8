"""Compiled Jacobians of the steps of linked rigid bodies; each column is one complex step."""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.surrogate.cell_tables import FOUND, interpolate
from pliant.swimming.step_kernels import evaluate_stage, finish_step, n_stages, stage_state

COMPLEX_STEP = 1e-100


@njit(error_model="numpy", cache=True)
def _record_stages(
    method: Any, y: Any, u: Any, h: Any, cells: Any, chain: Any, theta: Any, rows: Any
) -> Any:
    """Fill the angles (stages, n) and the interpolated rows of each stage of a step. Return the
    outcome of the lookups."""
    n = len(chain.parent)
    stage, rates = np.empty(len(y)), np.empty((4, len(y)))
    for s in range(n_stages(method)):
        stage_state(s, y, rates, h, stage)
        theta[s] = stage[7 : 7 + n]
        found = interpolate(theta[s], cells, rows[s])
        if found != FOUND:
            return found
        evaluate_stage(method, stage, u, h, rows[s, 0], rows[s, 1 : 1 + n], chain, rates[s])
    return FOUND


@njit(error_model="numpy", cache=True, parallel=True)
def batch_jacobians(
    method: Any, y: Any, u: Any, h: Any, cells: Any, chain: Any, jacobians: Any
) -> Any:
    """Fill the Jacobians (b, c + 3 (2 + e), c + n_controls) of steps from cores (b, c). Return the
    outcomes (b,) of the lookups; `cells` has second derivatives."""
    n, r, stages = len(chain.parent), cells.tables.shape[2], n_stages(method)
    found = np.zeros(len(y), np.int64)
    for i in prange(len(y)):
        theta = np.zeros((stages, n))
        rows = np.zeros((stages, 1 + n + n * (n + 1) // 2, r))
        found[i] = _record_stages(method, y[i], u[i], h, cells, chain, theta, rows)
        if found[i] == FOUND:
            step_jacobian(method, y[i], u[i], h, theta, rows, chain, jacobians[i])
    return found


@njit(error_model="numpy", cache=True)
def step_jacobian(
    method: Any, y: Any, u: Any, h: Any, theta: Any, rows: Any, chain: Any, jacobian: Any
) -> Any:
    """Fill `jacobian` (c + 3 (2 + e), c + n_controls) of the new core and the effector points.

    `theta` (stages, n) are the angles of the stages, `rows` (stages, 1 + n + n (n + 1) / 2, r) the
    added mass, its slopes and its second derivatives there. Each column is one complex step.
    """
    n, size = len(chain.parent), len(y)
    r, effectors = rows.shape[2], 3 * (2 + len(chain.effector_link))
    yc, uc = y.astype(np.complex128), u.astype(np.complex128)
    stage, rates = np.empty(size, np.complex128), np.empty((4, size), np.complex128)
    mass, slope = np.empty(r, np.complex128), np.empty((n, r), np.complex128)
    out, points = np.empty(size, np.complex128), np.empty(effectors, np.complex128)
    for column in range(size + len(u)):
        if column < size:
            yc[column] += 1j * COMPLEX_STEP
        else:
            uc[column - size] += 1j * COMPLEX_STEP
        for s in range(n_stages(method)):
            stage_state(s, yc, rates, h, stage)
            for m in range(r):
                mass[m] = rows[s, 0, m]
            for k in range(n):
                change = stage[7 + k] - theta[s, k]
                for m in range(r):
                    mass[m] += change * rows[s, 1 + k, m]
                    slope[k, m] = rows[s, 1 + k, m]
            at = 1 + n
            for i in range(n):
                for j in range(i, n):
                    for m in range(r):
                        slope[i, m] += (stage[7 + j] - theta[s, j]) * rows[s, at, m]
                        if i != j:
                            slope[j, m] += (stage[7 + i] - theta[s, i]) * rows[s, at, m]
                    at += 1
            evaluate_stage(method, stage, uc, h, mass, slope, chain, rates[s])
        finish_step(method, yc, rates, h, chain, out, points)
        for i in range(size):
            jacobian[i, column] = out[i].imag / COMPLEX_STEP
        for i in range(effectors):
            jacobian[size + i, column] = points[i].imag / COMPLEX_STEP
        if column < size:
            yc[column] = y[column]
        else:
            uc[column - size] = u[column - size]
