"""Compiled equations of motion of linked rigid bodies in potential flow [Jia2019, eq. 3].

The core of a state is y = (r (3), q (4), theta (n), P (6 + n)): the root's position and unit
quaternion, the joint angles, and the momenta P = M(theta) xi of the velocities xi = (v, w, theta').
v and w are those of the root link in its own frame. With the kinetic energy T = 1/2 xi' M xi,

    p' = p x w + f,   l' = l x w + p x v + t,   pi_k' = dT/dtheta_k + Q_k + u_k

are the momentum equations (Hamel), with P = (p, l, pi) and the applied forces f, t, Q.

All functions work for real and for complex numbers, so that one complex step gives each column of
the Jacobian exactly. `mass` and `slope` are the packed added mass (r,) and its derivative (n, r).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.surrogate.cell_tables import FOUND, interpolate

COMPLEX_STEP = 1e-100
EULER, RK4 = 0, 1  # stepping methods; the number of stages is 1 and 4
NOT_FINITE = 9  # a lookup result, beside those of cell_tables


class Chain(NamedTuple):
    """A LinkedRobot as arrays. Hinges are in an order in which parents come first."""

    order: Array  # (n,) index of each hinge in this order
    parent: Array  # (n,) link index of each hinge's parent
    child: Array  # (n,)
    moves: Array  # (b, n) whether a hinge moves a link
    axis: Array  # (n, 3) in the parent's frame
    point: Array  # (n, 3) [m]
    child_point: Array  # (n, 3) [m]
    mass: Array  # (b,) [kg]
    inertia: Array  # (b, 3, 3) [kg m^2]
    center: Array  # (b, 3) [m] of mass
    displaced: Array  # (b,) [kg] of fluid
    centroid: Array  # (b, 3) [m] of volume
    gravity: Array  # (3,) [m/s^2]
    stiffness: Array  # (n,)
    damping: Array  # (n,)
    stop: Array  # (n,)
    lower: Array  # (n,) [rad]
    upper: Array  # (n,) [rad]
    motor: Array  # (n,) index of the control of each hinge, or -1
    effector_link: Array  # (e,)
    effector_point: Array  # (e, 3) [m]


@njit(error_model="numpy", cache=True, inline="always")
def _cross(a: Any, b: Any) -> Any:
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@njit(error_model="numpy", cache=True, inline="always")
def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(error_model="numpy", cache=True)
def rotation(q: Any, R: Any) -> Any:
    """Fill R (3, 3) with the rotation of a quaternion of any length but 0."""
    s = 2.0 / (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    w, x, y, z = q[0], q[1], q[2], q[3]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)
    R[1, 0], R[1, 1], R[1, 2] = s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)
    R[2, 0], R[2, 1], R[2, 2] = s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)


@njit(error_model="numpy", cache=True)
def _apply(R: Any, a: Any) -> Any:
    """Return R a."""
    return (_dot(R[0], a), _dot(R[1], a), _dot(R[2], a))


@njit(error_model="numpy", cache=True)
def _apply_transposed(R: Any, a: Any) -> Any:
    """Return R^T a."""
    return (
        R[0, 0] * a[0] + R[1, 0] * a[1] + R[2, 0] * a[2],
        R[0, 1] * a[0] + R[1, 1] * a[1] + R[2, 1] * a[2],
        R[0, 2] * a[0] + R[1, 2] * a[1] + R[2, 2] * a[2],
    )


@njit(error_model="numpy", cache=True)
def place_links(theta: Any, chain: Any, R: Any, o: Any, axes: Any, anchors: Any) -> Any:
    """Fill rotations R (b, 3, 3) and origins o (b, 3) of all links, hinge axes and anchors (n, 3),
    in the root's frame, for joint angles (n,)."""
    R[0] = np.eye(3)
    o[0] = 0.0
    for j in range(len(theta)):
        k = chain.order[j]
        a, b = chain.parent[k], chain.child[k]
        x, y, z = chain.axis[k, 0], chain.axis[k, 1], chain.axis[k, 2]
        s, c = np.sin(theta[k]), 1.0 - np.cos(theta[k])
        turn = (
            (1.0 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y),
            (c * x * y + s * z, 1.0 - c * (x * x + z * z), c * y * z - s * x),
            (c * x * z - s * y, c * y * z + s * x, 1.0 - c * (x * x + y * y)),
        )
        axis, arm = _apply(R[a], chain.axis[k]), _apply(R[a], chain.point[k])
        for i in range(3):
            axes[k, i] = axis[i]
            anchors[k, i] = o[a, i] + arm[i]
            for m in range(3):
                R[b, i, m] = (
                    R[a, i, 0] * turn[0][m] + R[a, i, 1] * turn[1][m] + R[a, i, 2] * turn[2][m]
                )
        arm = _apply(R[b], chain.child_point[k])
        for i in range(3):
            o[b, i] = anchors[k, i] - arm[i]


@njit(error_model="numpy", cache=True)
def _moved(chain: Any, b: Any, R: Any, o: Any, local: Any) -> Any:
    """Return a point of link b in the root's frame."""
    arm = _apply(R[b], local)
    return (o[b, 0] + arm[0], o[b, 1] + arm[1], o[b, 2] + arm[2])


@njit(error_model="numpy", cache=True)
def _rotated_inertia(R: Any, I: Any, J: Any) -> Any:
    """Fill J (3, 3) with R I R^T."""
    for i in range(3):
        row = _apply(I, R[i])  # I is symmetric
        for j in range(3):
            J[i, j] = _dot(R[j], row)


@njit(error_model="numpy", cache=True)
def mass_matrix(chain: Any, R: Any, o: Any, axes: Any, anchors: Any, mass: Any, M: Any) -> Any:
    """Fill M (6 + n, 6 + n) with the mass matrix of links and fluid."""
    n, size = len(axes), 6 + len(axes)
    at = 0
    for i in range(size):
        for j in range(i, size):
            M[i, j] = mass[at]
            at += 1
    J = np.empty((3, 3), M.dtype)
    linear, angular = np.zeros((size, 3), M.dtype), np.zeros((size, 3), M.dtype)
    for b in range(len(R)):
        c = _moved(chain, b, R, o, chain.center[b])
        _rotated_inertia(R[b], chain.inertia[b], J)
        for i in range(3):
            for j in range(3):
                linear[i, j] = 1.0 if i == j else 0.0
                angular[3 + i, j] = 1.0 if i == j else 0.0
        linear[3, 0], linear[3, 1], linear[3, 2] = 0.0, -c[2], c[1]  # e_x x c
        linear[4, 0], linear[4, 1], linear[4, 2] = c[2], 0.0, -c[0]
        linear[5, 0], linear[5, 1], linear[5, 2] = -c[1], c[0], 0.0
        for k in range(n):
            if chain.moves[b, k]:
                arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                v = _cross(axes[k], arm)
                for i in range(3):
                    linear[6 + k, i] = v[i]
                    angular[6 + k, i] = axes[k, i]
            else:
                linear[6 + k] = 0.0
                angular[6 + k] = 0.0
        for i in range(size):
            turning = _apply(J, angular[i])
            for j in range(i, size):
                M[i, j] += chain.mass[b] * _dot(linear[i], linear[j]) + _dot(turning, angular[j])
    for i in range(size):
        for j in range(i):
            M[i, j] = M[j, i]


@njit(error_model="numpy", cache=True)
def total_mass(theta: Any, mass: Any, chain: Any) -> Any:
    """Return the mass matrix (6 + n, 6 + n) at joint angles (n,)."""
    n, links = len(chain.parent), len(chain.mass)
    R, o = np.empty((links, 3, 3), theta.dtype), np.empty((links, 3), theta.dtype)
    axes, anchors = np.empty((n, 3), theta.dtype), np.empty((n, 3), theta.dtype)
    place_links(theta, chain, R, o, axes, anchors)
    M = np.empty((6 + n, 6 + n), theta.dtype)
    mass_matrix(chain, R, o, axes, anchors, mass, M)
    return M


@njit(error_model="numpy", cache=True)
def solve_mass(M: Any, P: Any, xi: Any) -> Any:
    """Fill xi with M^-1 P by an LDL^T factorisation, which overwrites M. There is no pivoting,
    because M is positive definite; complex parts are tiny."""
    n = len(P)
    for j in range(n):
        for i in range(j + 1, n):
            M[i, j] = M[j, i] / M[j, j]
        for i in range(j + 1, n):
            for k in range(i, n):
                M[i, k] -= M[i, j] * M[j, k]
    for i in range(n):
        value = P[i]
        for j in range(i):
            value = value - M[i, j] * xi[j]
        xi[i] = value
    for i in range(n - 1, -1, -1):
        value = xi[i] / M[i, i]
        for j in range(i + 1, n):
            value = value - M[j, i] * xi[j]
        xi[i] = value


@njit(error_model="numpy", cache=True)
def _packed_energy_slope(slope: Any, xi: Any) -> Any:
    """Return 1/2 xi' dM xi for a packed symmetric dM (r,)."""
    size = len(xi)
    total, at = 0.0 * xi[0], 0
    for i in range(size):
        row = 0.5 * slope[at] * xi[i]
        at += 1
        for j in range(i + 1, size):
            row += slope[at] * xi[j]
            at += 1
        total += row * xi[i]
    return total


@njit(error_model="numpy", cache=True)
def joint_torques(chain: Any, theta: Any, rates: Any, u: Any, out: Any) -> Any:
    """Fill out (n,) with the torques of motors, springs, dampers and stops."""
    for k in range(len(theta)):
        value = -chain.stiffness[k] * theta[k] - chain.damping[k] * rates[k]
        if chain.motor[k] >= 0:
            value = value + u[chain.motor[k]]
        if theta[k].real > chain.upper[k]:
            value = value - chain.stop[k] * (theta[k] - chain.upper[k]) ** 2
        elif theta[k].real < chain.lower[k]:
            value = value + chain.stop[k] * (theta[k] - chain.lower[k]) ** 2
        out[k] = value


@njit(error_model="numpy", cache=True)
def _link_momenta(
    chain: Any, R: Any, o: Any, axes: Any, anchors: Any, xi: Any, p: Any, l: Any
) -> Any:
    """Fill p and l (b, 3) with the linear and angular momentum of each link about the root's
    origin."""
    J = np.empty((3, 3), R.dtype)
    for b in range(len(R)):
        c = _moved(chain, b, R, o, chain.center[b])
        turning = _cross(xi[3:6], c)
        v = (xi[0] + turning[0], xi[1] + turning[1], xi[2] + turning[2])
        w = (xi[3], xi[4], xi[5])
        for k in range(len(axes)):
            if chain.moves[b, k]:
                rate = xi[6 + k]
                arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                t = _cross(axes[k], arm)
                v = (v[0] + rate * t[0], v[1] + rate * t[1], v[2] + rate * t[2])
                w = (w[0] + rate * axes[k, 0], w[1] + rate * axes[k, 1], w[2] + rate * axes[k, 2])
        _rotated_inertia(R[b], chain.inertia[b], J)
        m = chain.mass[b]
        p[b, 0], p[b, 1], p[b, 2] = m * v[0], m * v[1], m * v[2]
        spin, orbit = _apply(J, w), _cross(c, p[b])
        for i in range(3):
            l[b, i] = spin[i] + orbit[i]


@njit(error_model="numpy", cache=True)
def _energy_slopes(
    chain: Any, R: Any, o: Any, axes: Any, anchors: Any, xi: Any, slope: Any, out: Any
) -> Any:
    """Add dT/dtheta_k (n,) of links and fluid to `out`.

    A rotation of the links beyond hinge k by its twist s = (a x e, e) changes their energy by
    -h . [s, V], with h their momentum and V the twist of their parent link.
    """
    p, l = np.empty(o.shape, o.dtype), np.empty(o.shape, o.dtype)
    _link_momenta(chain, R, o, axes, anchors, xi, p, l)
    for k in range(len(axes)):
        v, w = (xi[0], xi[1], xi[2]), (xi[3], xi[4], xi[5])
        for j in range(len(axes)):
            if chain.moves[chain.parent[k], j]:
                t, rate = _cross(anchors[j], axes[j]), xi[6 + j]
                v = (v[0] + rate * t[0], v[1] + rate * t[1], v[2] + rate * t[2])
                w = (w[0] + rate * axes[j, 0], w[1] + rate * axes[j, 1], w[2] + rate * axes[j, 2])
        e = axes[k]
        s = _cross(anchors[k], e)
        first, second, angular = _cross(e, v), _cross(s, w), _cross(e, w)
        linear = (first[0] + second[0], first[1] + second[1], first[2] + second[2])
        value = _packed_energy_slope(slope[k], xi)
        for b in range(len(R)):
            if chain.moves[b, k]:
                value = value - _dot(p[b], linear) - _dot(l[b], angular)
        out[k] += value


@njit(error_model="numpy", cache=True)
def _add_weight(chain: Any, R: Any, o: Any, axes: Any, anchors: Any, gravity: Any, out: Any) -> Any:
    """Add the generalised forces (6 + n,) of weight and buoyancy; gravity (3,) is in the root's
    frame."""
    for b in range(len(R)):
        for kind in range(2):
            m = chain.mass[b] if kind == 0 else -chain.displaced[b]
            c = _moved(chain, b, R, o, chain.center[b] if kind == 0 else chain.centroid[b])
            F = (m * gravity[0], m * gravity[1], m * gravity[2])
            moment = _cross(c, F)
            for i in range(3):
                out[i] += F[i]
                out[3 + i] += moment[i]
            for k in range(len(axes)):
                if chain.moves[b, k]:
                    arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                    out[6 + k] += _dot(axes[k], _cross(arm, F))


@njit(error_model="numpy", cache=True)
def momentum_rate(y: Any, u: Any, mass: Any, slope: Any, chain: Any, dP: Any, xi: Any) -> Any:
    """Fill the rate of the momenta dP (6 + n,) and the velocities xi (6 + n,) of a state."""
    n, links = len(chain.parent), len(chain.mass)
    theta, P = y[7 : 7 + n], y[7 + n :]
    R, o = np.empty((links, 3, 3), y.dtype), np.empty((links, 3), y.dtype)
    axes, anchors = np.empty((n, 3), y.dtype), np.empty((n, 3), y.dtype)
    place_links(theta, chain, R, o, axes, anchors)
    M = np.empty((6 + n, 6 + n), y.dtype)
    mass_matrix(chain, R, o, axes, anchors, mass, M)
    solve_mass(M, P, xi)
    first, second, third = _cross(P[:3], xi[3:6]), _cross(P[3:6], xi[3:6]), _cross(P[:3], xi[:3])
    for i in range(3):
        dP[i] = first[i]
        dP[3 + i] = second[i] + third[i]
    joint_torques(chain, theta, xi[6:], u, dP[6:])
    _energy_slopes(chain, R, o, axes, anchors, xi, slope, dP[6:])
    if chain.gravity[0] != 0.0 or chain.gravity[1] != 0.0 or chain.gravity[2] != 0.0:
        turn = np.empty((3, 3), y.dtype)
        rotation(y[3:7], turn)
        _add_weight(chain, R, o, axes, anchors, _apply_transposed(turn, chain.gravity), dP)


@njit(error_model="numpy", cache=True)
def _rate(y: Any, u: Any, mass: Any, slope: Any, chain: Any, dy: Any) -> Any:
    """Fill dy with the rate of the core of a state."""
    n = len(chain.parent)
    xi = np.empty(6 + n, y.dtype)
    momentum_rate(y, u, mass, slope, chain, dy[7 + n :], xi)
    turn = np.empty((3, 3), y.dtype)
    rotation(y[3:7], turn)
    v = _apply(turn, xi[:3])
    q, w = y[3:7], xi[3:6]
    spin = _cross(q[1:], w)
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
    turn = np.empty((3, 3), y.dtype)
    rotation(y[3:7], turn)
    v = _apply(turn, xi[:3])
    for i in range(3):
        out[i] = y[i] + h * v[i]
    for k in range(n):
        out[7 + k] = y[7 + k] + h * xi[6 + k]
    w, q = (0.5 * h * xi[3], 0.5 * h * xi[4], 0.5 * h * xi[5]), y[3:7]  # half the rotation
    square = _dot(w, w)
    if abs(square) < 1e-10:  # the next term of the series is below round-off
        cosine, sine = 1.0 - 0.5 * square, 1.0 - square / 6.0
    else:
        half = np.sqrt(square)
        cosine, sine = np.cos(half), np.sin(half) / half
    spin = _cross(q[1:], w)
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
    """Fill `out` (3 (2 + e),) with the positions of the root, the center of mass and the
    effectors."""
    n, links, effectors = len(chain.parent), len(chain.mass), len(chain.effector_link)
    R, o = np.empty((links, 3, 3), y.dtype), np.empty((links, 3), y.dtype)
    axes, anchors = np.empty((n, 3), y.dtype), np.empty((n, 3), y.dtype)
    place_links(y[7 : 7 + n], chain, R, o, axes, anchors)
    turn = np.empty((3, 3), y.dtype)
    rotation(y[3:7], turn)
    mean, total = (0.0 * y[0], 0.0 * y[0], 0.0 * y[0]), chain.mass.sum()
    for b in range(links):
        c, share = _moved(chain, b, R, o, chain.center[b]), chain.mass[b] / total
        mean = (mean[0] + share * c[0], mean[1] + share * c[1], mean[2] + share * c[2])
    for i in range(3):
        out[i] = y[i]
    for e in range(-1, effectors):
        local = (
            mean if e < 0 else _moved(chain, chain.effector_link[e], R, o, chain.effector_point[e])
        )
        moved = _apply(turn, local)
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
