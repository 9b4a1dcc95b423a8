"""Compiled steps of linked rigid bodies in potential flow, by Euler's rule [Jia2019, eq. 4] or the
classical fourth-order rule. `momentum_kernels` describes the state."""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.surrogate.cell_tables import FOUND, interpolate
from pliant.swimming.link_kernels import apply, cross, dot, moved_point, place_links, rotation
from pliant.swimming.mass_kernels import mass_matrix, solve_mass
from pliant.swimming.momentum_kernels import momentum_rate

EULER, RK4 = 0, 1  # stepping methods; the number of stages is 1 and 4
NOT_FINITE = 9  # a lookup result, beside those of cell_tables


@njit(error_model="numpy", cache=True)
def _rate(y: Any, u: Any, mass: Any, slope: Any, chain: Any, dy: Any) -> Any:
    """Fill dy with the rate of the core of a state."""
    n = len(chain.parent)
    xi = np.empty(6 + n, y.dtype)
    momentum_rate(y, u, mass, slope, chain, dy[7 + n :], xi)
    root_rotation = np.empty((3, 3), y.dtype)
    rotation(y[3:7], root_rotation)
    v = apply(root_rotation, xi[:3])
    q, w = y[3:7], xi[3:6]
    spin = cross(q[1:], w)
    dy[3] = -0.5 * (q[1] * w[0] + q[2] * w[1] + q[3] * w[2])
    for i in range(3):
        dy[i] = v[i]
        dy[4 + i] = 0.5 * (q[0] * w[i] + spin[i])
    for k in range(n):
        dy[7 + k] = xi[6 + k]


@njit(error_model="numpy", cache=True)
def _euler(y: Any, u: Any, h: Any, mass: Any, slope: Any, chain: Any, out: Any) -> Any:
    """Fill `out` with the core after one step of [Jia2019, eq. 4]: the momenta change by the forces
    at the old configuration, then the configuration by the new velocities."""
    n, links = len(chain.parent), len(chain.mass)
    xi, dP = np.empty(6 + n, y.dtype), np.empty(6 + n, y.dtype)
    momentum_rate(y, u, mass, slope, chain, dP, xi)
    for i in range(6 + n):
        out[7 + n + i] = y[7 + n + i] + h * dP[i]
    R, o = np.empty((links, 3, 3), y.dtype), np.empty((links, 3), y.dtype)
    axes, anchors = np.empty((n, 3), y.dtype), np.empty((n, 3), y.dtype)
    place_links(y[7 : 7 + n], chain, R, o, axes, anchors)
    M = np.empty((6 + n, 6 + n), y.dtype)
    mass_matrix(chain, R, o, axes, anchors, mass, M)
    solve_mass(M, out[7 + n :], xi)
    root_rotation = np.empty((3, 3), y.dtype)
    rotation(y[3:7], root_rotation)
    v = apply(root_rotation, xi[:3])
    for i in range(3):
        out[i] = y[i] + h * v[i]
    for k in range(n):
        out[7 + k] = y[7 + k] + h * xi[6 + k]
    w, q = (0.5 * h * xi[3], 0.5 * h * xi[4], 0.5 * h * xi[5]), y[3:7]  # half the rotation
    square = dot(w, w)
    if abs(square) < 1e-10:  # the next term of the series is below round-off
        cosine, sine = 1.0 - 0.5 * square, 1.0 - square / 6.0
    else:
        half = np.sqrt(square)
        cosine, sine = np.cos(half), np.sin(half) / half
    spin = cross(q[1:], w)
    out[3] = q[0] * cosine - sine * (q[1] * w[0] + q[2] * w[1] + q[3] * w[2])
    for i in range(3):
        out[4 + i] = q[1 + i] * cosine + sine * (q[0] * w[i] + spin[i])


@njit(error_model="numpy", cache=True)
def _normalise(y: Any) -> Any:
    """Scale the quaternion of a core to unit length."""
    size = np.sqrt(y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6])
    for i in range(3, 7):
        y[i] = y[i] / size


@njit(error_model="numpy", cache=True)
def effector_points(y: Any, chain: Any, out: Any) -> Any:
    """Fill `out` (3 (2 + e),) with the positions of the root, the centre of mass and the
    effectors."""
    n, links, effectors = len(chain.parent), len(chain.mass), len(chain.effector_link)
    R, o = np.empty((links, 3, 3), y.dtype), np.empty((links, 3), y.dtype)
    axes, anchors = np.empty((n, 3), y.dtype), np.empty((n, 3), y.dtype)
    place_links(y[7 : 7 + n], chain, R, o, axes, anchors)
    root_rotation = np.empty((3, 3), y.dtype)
    rotation(y[3:7], root_rotation)
    mean, total = (0.0 * y[0], 0.0 * y[0], 0.0 * y[0]), chain.mass.sum()
    for b in range(links):
        c, share = moved_point(chain, b, R, o, chain.centre[b]), chain.mass[b] / total
        mean = (mean[0] + share * c[0], mean[1] + share * c[1], mean[2] + share * c[2])
    for i in range(3):
        out[i] = y[i]
    for e in range(-1, effectors):
        local = (
            mean
            if e < 0
            else moved_point(chain, chain.effector_link[e], R, o, chain.effector_point[e])
        )
        moved = apply(root_rotation, local)
        for i in range(3):
            out[6 + 3 * e + i] = y[i] + moved[i]


@njit(error_model="numpy", cache=True)
def stage_state(stage: Any, y: Any, rates: Any, h: Any, out: Any) -> Any:
    """Fill `out` with the core at a stage (0 to 3) of the classical fourth-order rule."""
    if stage == 0:
        out[:] = y
    else:
        step = h if stage == 3 else 0.5 * h
        for i in range(len(y)):
            out[i] = y[i] + step * rates[stage - 1, i]


@njit(error_model="numpy", cache=True)
def evaluate_stage(
    method: Any, y: Any, u: Any, h: Any, mass: Any, slope: Any, chain: Any, out: Any
) -> Any:
    """Fill `out` with the rate of the core at a stage, or with the new core by Euler's rule."""
    if method == EULER:
        _euler(y, u, h, mass, slope, chain, out)
    else:
        _rate(y, u, mass, slope, chain, out)


@njit(error_model="numpy", cache=True)
def finish_step(method: Any, y: Any, rates: Any, h: Any, chain: Any, out: Any, points: Any) -> Any:
    """Fill the new core and the effector points (3 (2 + e),) from the results of the stages."""
    if method == EULER:
        out[:] = rates[0]
    else:
        for i in range(len(y)):
            out[i] = y[i] + h / 6.0 * (
                rates[0, i] + 2.0 * rates[1, i] + 2.0 * rates[2, i] + rates[3, i]
            )
    _normalise(out)
    effector_points(out, chain, points)


@njit(error_model="numpy", cache=True)
def n_stages(method: Any) -> Any:
    return 1 if method == EULER else 4


@njit(error_model="numpy", cache=True)
def _step_core(
    method: Any, y: Any, u: Any, h: Any, cells: Any, chain: Any, out: Any, points: Any
) -> Any:
    """Step one core with an interpolated added mass. Return the outcome of the lookups and the
    angles (n,) of the last one."""
    n, size = len(chain.parent), len(y)
    r = (6 + n) * (7 + n) // 2
    stage, rates = np.empty(size), np.empty((4, size))
    rows = np.zeros((1 + n, r))
    for s in range(n_stages(method)):
        stage_state(s, y, rates, h, stage)
        theta = stage[7 : 7 + n].copy()
        found = interpolate(theta, cells, rows)
        if found != FOUND:
            return found, theta
        evaluate_stage(method, stage, u, h, rows[0], rows[1:], chain, rates[s])
    finish_step(method, y, rates, h, chain, out, points)
    if not np.all(np.isfinite(out)):
        return NOT_FINITE, out[7 : 7 + n].copy()
    return FOUND, out[7 : 7 + n].copy()


@njit(error_model="numpy", cache=True, nogil=True)
def step_rows(
    method: Any, y: Any, u: Any, h: Any, cells: Any, chain: Any, out: Any, points: Any
) -> Any:
    """Do the same as `step_batch` on one thread, which is faster for a few rows."""
    n = len(chain.parent)
    found, theta = np.zeros(len(y), np.int64), np.zeros((len(y), n))
    for i in range(len(y)):
        found[i], theta[i] = _step_core(method, y[i], u[i], h, cells, chain, out[i], points[i])
    return found, theta


@njit(error_model="numpy", cache=True, parallel=True)
def step_batch(
    method: Any, y: Any, u: Any, h: Any, cells: Any, chain: Any, out: Any, points: Any
) -> Any:
    """Step cores (b, c) in parallel. Return the outcomes (b,) and angles (b, n) of the last
    lookups."""
    n = len(chain.parent)
    found, theta = np.zeros(len(y), np.int64), np.zeros((len(y), n))
    for i in prange(len(y)):
        found[i], theta[i] = _step_core(method, y[i], u[i], h, cells, chain, out[i], points[i])
    return found, theta
