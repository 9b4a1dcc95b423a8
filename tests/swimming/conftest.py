"""Shared fixtures: chains of links, and Lamb's added masses of an ellipsoid."""

import numpy as np
import pytest
from scipy.integrate import quad

from pliant.swimming import Placement


def rotation(vector):
    """Return the matrix (3, 3) of a rotation vector (3,) [rad], by Rodrigues' formula."""
    angle = np.linalg.norm(vector)
    x, y, z = vector / angle if angle else np.zeros(3)
    S = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * S + (1.0 - np.cos(angle)) * S @ S


@pytest.fixture
def rotation_matrix():
    return rotation


@pytest.fixture
def chain():
    """Return chain(angles, half_lengths, gap, axes), the Placement of links along x.

    Hinge k lies in the middle of the gap after link k; its axis is given in the frame of link k."""

    def place(angles, half_lengths, gap, axes=None):
        n = len(half_lengths) - 1
        axes = np.tile([0.0, 0.0, 1.0], (n, 1)) if axes is None else np.asarray(axes, dtype=float)
        R, c = [np.eye(3)], [np.zeros(3)]
        rotated, anchors, moves = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n + 1, n), bool)
        for k in range(n):
            rotated[k] = R[k] @ axes[k]
            anchors[k] = c[k] + R[k] @ [half_lengths[k] + gap / 2, 0.0, 0.0]
            R.append(rotation(rotated[k] * angles[k]) @ R[k])
            c.append(anchors[k] + R[k + 1] @ [half_lengths[k + 1] + gap / 2, 0.0, 0.0])
            moves[k + 1 :, k] = True
        return Placement(
            rotations=np.array(R), centres=np.array(c), axes=rotated, anchors=anchors, moves=moves
        )

    return place


@pytest.fixture
def lamb():
    """Return lamb(semi_axes), the added masses (3,) over the displaced mass and the added moments
    of inertia (3,) over it, by numerical quadrature of Lamb's integrals (Hydrodynamics, 114)."""

    def shares(axes):
        squares = np.asarray(axes, dtype=float) ** 2

        def integrand(t, i):
            return 1.0 / ((squares[i] + t) * np.sqrt(np.prod(squares + t)))

        def total(i):
            middle = squares[1]
            near = quad(integrand, 0.0, middle, args=(i,), epsabs=0.0, epsrel=1e-11)[0]
            # the rest with t = middle / s
            far = quad(lambda s: integrand(middle / s, i) * middle / s**2, 0.0, 1.0, epsabs=0.0)[0]
            return np.prod(axes) * (near + far)

        alpha = np.array([total(i) for i in range(3)])
        moments = np.zeros(3)
        for i, (j, k) in enumerate([(1, 2), (2, 0), (0, 1)]):
            difference, total_square = squares[j] - squares[k], squares[j] + squares[k]
            if difference:
                moments[i] = (difference**2 * (alpha[k] - alpha[j]) / 5.0) / (
                    2.0 * difference + total_square * (alpha[j] - alpha[k])
                )
        return alpha / (2.0 - alpha), moments

    return shares
