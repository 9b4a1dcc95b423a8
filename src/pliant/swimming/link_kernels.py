"""Compiled kinematics of linked rigid bodies: vectors, rotations, and the poses of all links.

All functions work for real and for complex numbers, so that one complex step gives each column of
the Jacobian of a step exactly.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pliant.core import Array


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
    centre: Array  # (b, 3) [m] of mass
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
def cross(a: Any, b: Any) -> Any:
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@njit(error_model="numpy", cache=True, inline="always")
def dot(a: Any, b: Any) -> Any:
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
def apply(R: Any, a: Any) -> Any:
    """Return R a."""
    return (dot(R[0], a), dot(R[1], a), dot(R[2], a))


@njit(error_model="numpy", cache=True)
def apply_transposed(R: Any, a: Any) -> Any:
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
    for i in range(3):
        o[0, i] = 0.0
        for m in range(3):
            R[0, i, m] = 1.0 if i == m else 0.0
    for j in range(len(theta)):
        k = chain.order[j]
        a, b = chain.parent[k], chain.child[k]
        x, y, z = chain.axis[k, 0], chain.axis[k, 1], chain.axis[k, 2]
        s, c = np.sin(theta[k]), 1.0 - np.cos(theta[k])
        hinge_rotation = (
            (1.0 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y),
            (c * x * y + s * z, 1.0 - c * (x * x + z * z), c * y * z - s * x),
            (c * x * z - s * y, c * y * z + s * x, 1.0 - c * (x * x + y * y)),
        )
        axis, arm = apply(R[a], chain.axis[k]), apply(R[a], chain.point[k])
        for i in range(3):
            axes[k, i] = axis[i]
            anchors[k, i] = o[a, i] + arm[i]
            for m in range(3):
                R[b, i, m] = (
                    R[a, i, 0] * hinge_rotation[0][m]
                    + R[a, i, 1] * hinge_rotation[1][m]
                    + R[a, i, 2] * hinge_rotation[2][m]
                )
        arm = apply(R[b], chain.child_point[k])
        for i in range(3):
            o[b, i] = anchors[k, i] - arm[i]


@njit(error_model="numpy", cache=True)
def moved_point(chain: Any, b: Any, R: Any, o: Any, local: Any) -> Any:
    """Return a point of link b in the root's frame."""
    arm = apply(R[b], local)
    return (o[b, 0] + arm[0], o[b, 1] + arm[1], o[b, 2] + arm[2])


@njit(error_model="numpy", cache=True)
def rotated_inertia(R: Any, I: Any, J: Any) -> Any:
    """Fill J (3, 3) with R I R^T."""
    for i in range(3):
        row = apply(I, R[i])  # I is symmetric
        for j in range(3):
            J[i, j] = dot(R[j], row)
