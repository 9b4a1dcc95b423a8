"""Compiled mass matrix of linked rigid bodies with the added mass of the fluid."""

from typing import Any

import numpy as np
from numba import njit

from pliant.swimming.link_kernels import (
    apply,
    cross,
    dot,
    moved_point,
    place_links,
    rotated_inertia,
)


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
    # velocities of a link's centre of mass and its rotation, for unit velocities 3 to 5 + n; those
    # for 0 to 2 are the unit vectors and zero
    linear, angular = np.zeros((size, 3), M.dtype), np.zeros((size, 3), M.dtype)
    for i in range(3):
        angular[3 + i, i] = 1.0
    for b in range(len(R)):
        m, c = chain.mass[b], moved_point(chain, b, R, o, chain.centre[b])
        rotated_inertia(R[b], chain.inertia[b], J)
        linear[3, 1], linear[3, 2] = -c[2], c[1]  # e_x x c
        linear[4, 0], linear[4, 2] = c[2], -c[0]
        linear[5, 0], linear[5, 1] = -c[1], c[0]
        for k in range(n):
            if chain.moves[b, k]:
                arm = (c[0] - anchors[k, 0], c[1] - anchors[k, 1], c[2] - anchors[k, 2])
                v = cross(axes[k], arm)
                for i in range(3):
                    linear[6 + k, i] = v[i]
                    angular[6 + k, i] = axes[k, i]
        for i in range(3):
            M[i, i] += m
        for i in range(3, size):
            if i >= 6 and not chain.moves[b, i - 6]:
                continue
            for j in range(3):
                M[j, i] += m * linear[i, j]
            turning = apply(J, angular[i])
            for j in range(i, size):
                if j < 6 or chain.moves[b, j - 6]:
                    M[i, j] += m * dot(linear[i], linear[j]) + dot(turning, angular[j])
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
