"""A backward pass by its stages, compiled: the value function through the dynamics, and the control
within its bounds."""

import numpy as np
from numba import njit

NEAR = 1e-10  # how close to a bound counts as on it, beside its size


@njit(error_model="numpy", cache=True)
def _solved(H, free, b):
    """(whether H is positive on the free unknowns, H_ff^-1 b_f, zero elsewhere) for columns b (m,
    k), by Cholesky."""
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
def boxed(H, g, low, high):
    """(whether H is positive, d) of min 1/2 d H d + g d with low <= d <= high, by projected Newton
    steps (Tassa, Mansard and Todorov 2014)."""
    m = len(g)
    free = np.ones(m, np.bool_)
    ok, x = _solved(H, free, -g.reshape(m, 1))
    d, rest, cut = np.empty(m), np.empty(m), False
    for i in range(m):
        top = max(low[i], high[i])
        d[i], rest[i] = min(max(x[i, 0], low[i]), top), min(max(0.0, low[i]), top)
        cut |= d[i] != x[i, 0]
    if not (ok and cut):
        return ok, d
    if rest @ (0.5 * (H @ rest) + g) < d @ (
        0.5 * (H @ d) + g
    ):  # near an optimum most controls stay where they are
        d = rest
    size = np.abs(g).max() + 1e-300
    for _ in range(100):
        slope = H @ d + g
        most = 0.0
        for i in range(m):
            free[i] = not (
                (d[i] <= low[i] and slope[i] > 0.0) or (d[i] >= high[i] and slope[i] < 0.0)
            )
            if free[i]:
                most = max(most, abs(slope[i]))
        if most <= 1e-12 * size:
            break
        ok, x = _solved(H, free, -slope.reshape(m, 1))
        if not ok:
            return ok, d
        value, a = 0.5 * d @ (H @ d) + g @ d, 1.0
        for _ in range(30):
            trial = np.minimum(np.maximum(d + a * x[:, 0], low), np.maximum(low, high))
            if 0.5 * trial @ (H @ trial) + g @ trial <= value + 1e-4 * (slope @ (trial - d)):
                break
            a *= 0.5
        if np.all(trial == d):
            break
        d = trial
    return True, d


@njit(error_model="numpy", cache=True)
def back(z, u, zz, uz, uu, A, B, P, p, low, high, low_rows, high_rows, damping):
    """(whether Q_uu is positive, gains (m, n), forward (m,), P and p before the stage, promised
    gain, mean |diagonal of Q_uu|).

    z ... uu is what the stage's own terms add, A and B its dynamics, P and p the value after it; d
    lies within low and high, and a control at a bound follows the bound's rows as the state moves.
    """
    PA, PB = P @ A, P @ B
    Qz, Qu = z + A.T @ p, u + B.T @ p
    Qzz, Quz, Quu = zz + A.T @ PA, uz + B.T @ PA, uu + B.T @ PB
    m = len(u)
    diagonal = 0.0
    for i in range(m):
        diagonal += abs(Quu[i, i]) / m
    H = Quu + damping * np.eye(m)
    ok, d = boxed(H, Qu, low, high)
    if not ok:
        return False, Quz, d, P, p, 0.0, diagonal
    K = np.zeros(Quz.shape)
    free = _follow(K, H @ d + Qu, d, low, high, low_rows, high_rows)
    right = -(Quz + H @ K)
    K += _solved(H, free, right)[1]
    gain = -(Qu @ d + 0.5 * d @ (Quu @ d))
    QK = Quu @ K
    P_new = Qzz + K.T @ QK + K.T @ Quz + Quz.T @ K
    p_new = Qz + K.T @ (Quu @ d + Qu) + Quz.T @ d
    return True, K, d, 0.5 * (P_new + P_new.T), p_new, gain, diagonal


@njit(error_model="numpy", cache=True)
def _follow(K, slope, d, low, high, low_rows, high_rows):
    """(m,) which of d are free; the rows of K of the others become those of the bound that they are
    at."""
    free = np.ones(len(d), np.bool_)
    for i in range(len(d)):
        at_low, at_high = d[i] <= low[i] + _near(low[i]), d[i] >= high[i] - _near(high[i])
        if at_low and not (
            at_high and slope[i] < 0.0
        ):  # where there is no room at all, the bound that it presses against
            K[i], free[i] = low_rows[i], False
        elif at_high:
            K[i], free[i] = high_rows[i], False
    return free


@njit(error_model="numpy", cache=True)
def _near(bound):
    return NEAR * max(1.0, abs(bound)) if np.isfinite(bound) else 0.0


@njit(error_model="numpy", cache=True)
def sweep(C, last, M, low, high, low_rows, high_rows, damping):
    """(whether every Q_uu is positive, gains (N, m, n), forward (N, m), promised gain, mean
    |diagonal of Q_uu| of the stages done): all of a backward pass over N stages of few states.

    It works on y = (z, 1, u), so that slopes are columns of one curvature Q: C (N, s, s) is what
    each stage adds, last (n + 1, n + 1) the cost of the last state and M (N, n + 1, s) the
    dynamics. Loops write in place, for on few states calls and new arrays cost the most.
    """
    (N, m), n = low.shape, len(last) - 1
    u = n + 1  # where the controls stand in y
    P, Q, PM, T, H = (
        last.copy(),
        np.empty(C.shape[1:]),
        np.empty(M.shape[1:]),
        np.empty((m, u)),
        np.empty((m, m)),
    )
    gains, forward, diagonal = np.zeros((N, m, n)), np.zeros((N, m)), 0.0
    K, g, right = (
        np.empty((m, u)),
        np.empty(m),
        np.empty((m, n)),
    )  # K: gains and forward side by side
    for k in range(N - 1, -1, -1):
        Q[:] = C[k]
        _add_congruent(M[k], P, Q, PM)
        for i in range(m):
            diagonal += abs(Q[u + i, u + i]) / m
            g[i] = Q[u + i, n]
            for j in range(m):
                H[i, j] = Q[u + i, u + j]
            H[i, i] += damping
        ok, d = boxed(H, g, low[k], high[k])
        if not ok:
            return False, gains, forward, -0.5 * P[n, n], diagonal / (N - k)
        free = _follow(gains[k], H @ d + g, d, low[k], high[k], low_rows[k], high_rows[k])
        for i in range(m):
            for j in range(n):
                right[i, j] = -Q[u + i, j]
                for c in range(m):
                    right[i, j] -= H[i, c] * gains[k, c, j]
        moved = _solved(H, free, right)[1]
        for i in range(m):
            for j in range(n):
                gains[k, i, j] += moved[i, j]
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
    return True, gains, forward, -0.5 * P[n, n], diagonal / N


@njit(error_model="numpy", cache=True)
def _add_congruent(M, P, out, work):
    """out += M^T P M."""
    n, s = M.shape
    work[:] = 0.0
    for i in range(n):
        for k in range(n):
            for j in range(s):
                work[i, j] += P[i, k] * M[k, j]
    for k in range(n):
        for i in range(s):
            if M[k, i] != 0.0:  # most of the dynamics of a memory are zeros
                for j in range(s):
                    out[i, j] += M[k, i] * work[k, j]
