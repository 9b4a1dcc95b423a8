"""Compiled momentum equations of linked rigid bodies in potential flow [Jia2019, eq. 3].

The core of a state is y = (r (3), q (4), theta (n), P (6 + n)): the root's position and unit
quaternion, the joint angles, and the momenta P = M(theta) xi of the velocities xi = (v, w, theta').
v and w are those of the root link in its own frame. With the kinetic energy T = 1/2 xi' M xi,

    p' = p x w + f,   l' = l x w + p x v + t,   pi_k' = dT/dtheta_k + Q_k + u_k

are the momentum equations (Hamel), with P = (p, l, pi) and the applied forces f, t, Q. `mass` and
`slope` are the packed added mass (r,) and its derivative (n, r).
"""

from typing import Any

import numpy as np
from numba import njit

from pliant.swimming.link_kernels import (
    apply,
    apply_transposed,
    cross,
    dot,
    moved_point,
    place_links,
    rotated_inertia,
    rotation,
)
from pliant.swimming.mass_kernels import mass_matrix, solve_mass


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
        c = moved_point(chain, b, R, o, chain.centre[b])
        turning = cross(xi[3:6], c)
        v = (xi[0] + turning[0], xi[1] + turning[1], xi[2] + turning[2])
        w = (xi[3], xi[4], xi[5])
        for k in range(len(axes)):
            if chain.moves[b, k]:
                rate = xi[6 + k]
                arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                t = cross(axes[k], arm)
                v = (v[0] + rate * t[0], v[1] + rate * t[1], v[2] + rate * t[2])
                w = (w[0] + rate * axes[k, 0], w[1] + rate * axes[k, 1], w[2] + rate * axes[k, 2])
        rotated_inertia(R[b], chain.inertia[b], J)
        m = chain.mass[b]
        p[b, 0], p[b, 1], p[b, 2] = m * v[0], m * v[1], m * v[2]
        spin, orbit = apply(J, w), cross(c, p[b])
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
                t, rate = cross(anchors[j], axes[j]), xi[6 + j]
                v = (v[0] + rate * t[0], v[1] + rate * t[1], v[2] + rate * t[2])
                w = (w[0] + rate * axes[j, 0], w[1] + rate * axes[j, 1], w[2] + rate * axes[j, 2])
        e = axes[k]
        s = cross(anchors[k], e)
        first, second, angular = cross(e, v), cross(s, w), cross(e, w)
        linear = (first[0] + second[0], first[1] + second[1], first[2] + second[2])
        value = _packed_energy_slope(slope[k], xi)
        for b in range(len(R)):
            if chain.moves[b, k]:
                value = value - dot(p[b], linear) - dot(l[b], angular)
        out[k] += value


@njit(error_model="numpy", cache=True)
def _add_weight(chain: Any, R: Any, o: Any, axes: Any, anchors: Any, gravity: Any, out: Any) -> Any:
    """Add the generalised forces (6 + n,) of weight and buoyancy; gravity (3,) is in the root's
    frame."""
    for b in range(len(R)):
        for kind in range(2):
            m = chain.mass[b] if kind == 0 else -chain.displaced[b]
            c = moved_point(chain, b, R, o, chain.centre[b] if kind == 0 else chain.centroid[b])
            F = (m * gravity[0], m * gravity[1], m * gravity[2])
            moment = cross(c, F)
            for i in range(3):
                out[i] += F[i]
                out[3 + i] += moment[i]
            for k in range(len(axes)):
                if chain.moves[b, k]:
                    arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                    out[6 + k] += dot(axes[k], cross(arm, F))


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
    first, second, third = cross(P[:3], xi[3:6]), cross(P[3:6], xi[3:6]), cross(P[:3], xi[:3])
    for i in range(3):
        dP[i] = first[i]
        dP[3 + i] = second[i] + third[i]
    joint_torques(chain, theta, xi[6:], u, dP[6:])
    _energy_slopes(chain, R, o, axes, anchors, xi, slope, dP[6:])
    if chain.gravity[0] != 0.0 or chain.gravity[1] != 0.0 or chain.gravity[2] != 0.0:
        root_rotation = np.empty((3, 3), y.dtype)
        rotation(y[3:7], root_rotation)
        _add_weight(chain, R, o, axes, anchors, apply_transposed(root_rotation, chain.gravity), dP)
