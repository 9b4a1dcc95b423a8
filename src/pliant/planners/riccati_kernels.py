"""Compiled kernels of the backward pass with bounds on the controls."""

from typing import Any

import numpy as np
from numba import njit

BOUND_TOLERANCE = 1e-10  # relative distance at which a control is on its bound


@njit(error_model="numpy", cache=True)
def _solve_free(H: Any, free: Any, b: Any) -> Any:
    """Return whether H is positive definite on the free unknowns, and H_ff^-1 b_f for b (m, k)."""
    m = len(free)
    L, x = np.zeros((m, m)), np.zeros(b.shape)
    for i in range(m):
        if not free[i]:
            continue
        for j in range(i + 1):
            if not free[j]:
                continue
            total = H[i, j]
            for k in range(j):
                if free[k]:
                    total -= L[i, k] * L[j, k]
            if i == j:
                if not total > 0.0:
                    return False, x
                L[i, i] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    for c in range(b.shape[1]):
        for i in range(m):
            if free[i]:
                total = b[i, c]
                for k in range(i):
                    if free[k]:
                        total -= L[i, k] * x[k, c]
                x[i, c] = total / L[i, i]
        for i in range(m - 1, -1, -1):
            if free[i]:
                total = x[i, c]
                for k in range(i + 1, m):
                    if free[k]:
                        total -= L[k, i] * x[k, c]
                x[i, c] = total / L[i, i]
    return True, x


@njit(error_model="numpy", cache=True)
def solve_box_qp(H: Any, g: Any, low: Any, high: Any) -> Any:
    """Minimise 1/2 d H d + g d with low <= d <= high by projected Newton steps.

    Return whether H is positive definite, and d (Tassa, Mansard and Todorov 2014).
    """
    m = len(g)
    free = np.ones(m, np.bool_)
    ok, x = _solve_free(H, free, -g.reshape(m, 1))
    d, unchanged, is_clipped = np.empty(m), np.empty(m), False
    for i in range(m):
        top = max(low[i], high[i])
        d[i], unchanged[i] = min(max(x[i, 0], low[i]), top), min(max(0.0, low[i]), top)
        is_clipped |= d[i] != x[i, 0]
    if not (ok and is_clipped):
        return ok, d
    # near an optimum most controls do not change
    if unchanged @ (0.5 * (H @ unchanged) + g) < d @ (0.5 * (H @ d) + g):
        d = unchanged
    size = np.abs(g).max() + 1e-300
    for _ in range(100):
        gradient = H @ d + g
        largest = 0.0
        for i in range(m):
            free[i] = not (
                (d[i] <= low[i] and gradient[i] > 0.0) or (d[i] >= high[i] and gradient[i] < 0.0)
            )
            if free[i]:
                largest = max(largest, abs(gradient[i]))
        if largest <= 1e-12 * size:
            break
        ok, x = _solve_free(H, free, -gradient.reshape(m, 1))
        if not ok:
            return ok, d
        value, a = 0.5 * d @ (H @ d) + g @ d, 1.0
        for _ in range(30):
            trial = np.minimum(np.maximum(d + a * x[:, 0], low), np.maximum(low, high))
            if 0.5 * trial @ (H @ trial) + g @ trial <= value + 1e-4 * (gradient @ (trial - d)):
                break
            a *= 0.5
        if np.all(trial == d):
            break
        d = trial
    return True, d


@njit(error_model="numpy", cache=True)
def backward_step(
    z: Any,
    u: Any,
    zz: Any,
    uz: Any,
    uu: Any,
    A: Any,
    B: Any,
    P: Any,
    p: Any,
    low: Any,
    high: Any,
    low_rows: Any,
    high_rows: Any,
    damping: Any,
) -> Any:
    """Compute one stage of the backward pass.

    Return whether Q_uu is positive definite, gains (m, n), forward (m,), the value function P and p
    before the stage, the predicted decrease, and the mean of |diag Q_uu|. z ... uu is the cost of
    the stage, A and B its dynamics, P and p the value function after it. d lies within low and
    high. A control at a bound follows the bound's derivative by the state.
    """
    PA, PB = P @ A, P @ B
    Qz, Qu = z + A.T @ p, u + B.T @ p
    Qzz, Quz, Quu = zz + A.T @ PA, uz + B.T @ PA, uu + B.T @ PB
    m = len(u)
    mean_diagonal = 0.0
    for i in range(m):
        mean_diagonal += abs(Quu[i, i]) / m
    H = Quu + damping * np.eye(m)
    ok, d = solve_box_qp(H, Qu, low, high)
    if not ok:
        return False, Quz, d, P, p, 0.0, mean_diagonal
    K = np.zeros(Quz.shape)
    free = _bound_gains(K, H @ d + Qu, d, low, high, low_rows, high_rows)
    right = -(Quz + H @ K)
    K += _solve_free(H, free, right)[1]
    predicted_reduction = -(Qu @ d + 0.5 * d @ (Quu @ d))
    QK = Quu @ K
    P_new = Qzz + K.T @ QK + K.T @ Quz + Quz.T @ K
    p_new = Qz + K.T @ (Quu @ d + Qu) + Quz.T @ d
    return True, K, d, 0.5 * (P_new + P_new.T), p_new, predicted_reduction, mean_diagonal


@njit(error_model="numpy", cache=True)
def _bound_gains(
    K: Any, gradient: Any, d: Any, low: Any, high: Any, low_rows: Any, high_rows: Any
) -> Any:
    """Return which controls (m,) are free. Rows of K of the others follow their bound."""
    free = np.ones(len(d), np.bool_)
    for i in range(len(d)):
        at_low, at_high = (
            d[i] <= low[i] + _bound_tolerance(low[i]),
            d[i] >= high[i] - _bound_tolerance(high[i]),
        )
        # if the bounds are equal, take the one that is active
        if at_low and not (at_high and gradient[i] < 0.0):
            K[i], free[i] = low_rows[i], False
        elif at_high:
            K[i], free[i] = high_rows[i], False
    return free


@njit(error_model="numpy", cache=True)
def _bound_tolerance(bound: Any) -> Any:
    return BOUND_TOLERANCE * max(1.0, abs(bound)) if np.isfinite(bound) else 0.0


@njit(error_model="numpy", cache=True)
def backward_pass(
    C: Any, last: Any, M: Any, low: Any, high: Any, low_rows: Any, high_rows: Any, damping: Any
) -> Any:
    """Compute a backward pass over N stages with few states.

    Return whether every Q_uu is positive definite, gains (N, m, n), forward (N, m), the predicted
    decrease, and the mean of |diag Q_uu|. The variables are y = (z, 1, u), so gradients are columns
    of one matrix Q. C (N, s, s) are the stage costs, last (n + 1, n + 1) the final cost and M (N, n
    + 1, s) the dynamics. Loops work in place, because allocations dominate for few states.
    """
    (N, m), n = low.shape, len(last) - 1
    u = n + 1  # index of the first control in y
    P, Q, PM, T, H = (
        last.copy(),
        np.empty(C.shape[1:]),
        np.empty(M.shape[1:]),
        np.empty((m, u)),
        np.empty((m, m)),
    )
    gains, forward, mean_diagonal = np.zeros((N, m, n)), np.zeros((N, m)), 0.0
    K, g, right = (
        np.empty((m, u)),
        np.empty(m),
        np.empty((m, n)),
    )  # K: gains and forward
    for k in range(N - 1, -1, -1):
        Q[:] = C[k]
        _add_congruence(M[k], P, Q, PM)
        for i in range(m):
            mean_diagonal += abs(Q[u + i, u + i]) / m
            g[i] = Q[u + i, n]
            for j in range(m):
                H[i, j] = Q[u + i, u + j]
            H[i, i] += damping
        ok, d = solve_box_qp(H, g, low[k], high[k])
        if not ok:
            return False, gains, forward, -0.5 * P[n, n], mean_diagonal / (N - k)
        free = _bound_gains(gains[k], H @ d + g, d, low[k], high[k], low_rows[k], high_rows[k])
        for i in range(m):
            for j in range(n):
                right[i, j] = -Q[u + i, j]
                for c in range(m):
                    right[i, j] -= H[i, c] * gains[k, c, j]
        feedback = _solve_free(H, free, right)[1]
        for i in range(m):
            for j in range(n):
                gains[k, i, j] += feedback[i, j]
                K[i, j] = gains[k, i, j]
            K[i, n] = forward[k, i] = d[i]
        for i in range(m):
            for j in range(u):
                T[i, j] = Q[u + i, j]
                for c in range(m):
                    T[i, j] += 0.5 * Q[u + i, u + c] * K[c, j]
        for i in range(u):
            for j in range(u):
                P[i, j] = 0.5 * (Q[i, j] + Q[j, i])
                for c in range(m):
                    P[i, j] += K[c, i] * T[c, j] + T[c, i] * K[c, j]
    return True, gains, forward, -0.5 * P[n, n], mean_diagonal / N


@njit(error_model="numpy", cache=True)
def _add_congruence(M: Any, P: Any, out: Any, work: Any) -> Any:
    """out += M^T P M."""
    n, s = M.shape
    work[:] = 0.0
    for i in range(n):
        for k in range(n):
            for j in range(s):
                work[i, j] += P[i, k] * M[k, j]
    for k in range(n):
        for i in range(s):
            if M[k, i] != 0.0:  # most entries are zero
                for j in range(s):
                    out[i, j] += M[k, i] * work[k, j]
