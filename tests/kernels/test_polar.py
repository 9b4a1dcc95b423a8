"""Closest rotation to a matrix against the singular value decomposition, and its derivative."""

import numpy as np
import pytest

from pliant.kernels import plane_rotation, rotation, rotation_differential, spin_inverse

EPS = np.finfo(float).eps


def oracle(F):
    """Return R and the sum of the two smallest signed singular values, the inverse condition of
    R."""
    U, s, Vt = np.linalg.svd(F)
    sign = np.sign(np.linalg.det(U @ Vt))
    U[:, -1] *= sign
    return U @ Vt, s[-2] + sign * s[-1]


def polar(F, find=rotation):
    return np.reshape(find(tuple(np.ravel(F))), (3, 3))


def with_singular_values(rng, values):
    """Return U diag(values) V^T with proper rotations; a negative value inverts the matrix."""
    U, V = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    U, V = (A * np.linalg.det(A) for A in (U, V))
    return U @ np.diag(values) @ V.T


KINDS = {
    "near the identity": (1.01, 1.0, 0.99),
    "equal": (1.0, 1.0, 1.0),
    "stretched": (3.0, 1.0, 0.2),
    "singular": (1.2, 0.9, 0.0),
    "inverted": (1.2, 0.9, -0.5),
    "barely inverted": (1.2, 0.9, -1e-9),
    "nearly rank one": (1.0, 1e-4, 1e-5),
    "almost mirrored": (1.0, 0.5, -0.4999),
    "tiny": (1.2e-9, 0.9e-9, 0.4e-9),
    "huge": (1.2e9, 0.9e9, 0.4e9),
}


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_rotation_equals_svd(rng, values):
    for _ in range(50):
        F = with_singular_values(rng, values)
        R, gap = oracle(F)
        # Round-off in F changes R by eps |F| / gap. The factor covers about forty operations.
        np.testing.assert_allclose(polar(F), R, atol=100 * EPS * (1.0 + np.linalg.norm(F) / gap))


@pytest.mark.parametrize(
    "values", [(1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 0.5, -0.5), (1.0, 1.0, -1.0)]
)
def test_rotation_is_optimal_if_it_is_not_unique(rng, values):
    F = with_singular_values(rng, values)
    R = polar(F)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(R) == pytest.approx(1.0, abs=1e-14)
    # R : F is stationary there, so an error in R has a second-order effect, below round-off.
    assert np.sum(R * F) == pytest.approx(sum(values), abs=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_plane_rotation_equals_plane_svd(rng, scale):
    for A in scale * rng.standard_normal((50, 2, 2)):  # half of these are inverted
        F = np.eye(3)
        F[:2, :2] = A
        R, gap = oracle(A)
        out = polar(F, plane_rotation)
        np.testing.assert_allclose(out[:2, :2], R, atol=20 * EPS * (1.0 + np.linalg.norm(A) / gap))
        np.testing.assert_array_equal(out[2], [0.0, 0.0, 1.0])


def test_plane_rotation_of_a_collapsed_cell_is_the_identity():
    np.testing.assert_array_equal(polar(np.diag([0.0, 0.0, 1.0]), plane_rotation), np.eye(3))


@pytest.mark.parametrize(
    "values",
    [(1.1, 1.0, 0.9), (1.2, 0.9, 0.0), (1.2, 0.9, -0.5)],
    ids=["regular", "singular", "inverted"],
)
def test_rotation_differential_is_second_order_accurate(rng, taylor, values):
    F, D = with_singular_values(rng, values), rng.standard_normal((3, 3))
    R = rotation(tuple(F.ravel()))
    derivative = np.reshape(rotation_differential(tuple(F.ravel()), R, tuple(D.ravel())), (3, 3))
    assert taylor(lambda e: polar(F + e * D), derivative) == pytest.approx(2.0, abs=0.1)


def test_plane_rotation_differential_is_second_order_accurate(rng, taylor):
    F, D = np.eye(3), np.zeros((3, 3))
    F[:2, :2], D[:2, :2] = (
        np.eye(2) + 0.3 * rng.standard_normal((2, 2)),
        rng.standard_normal((2, 2)),
    )
    R = plane_rotation(tuple(F.ravel()))
    derivative = np.reshape(rotation_differential(tuple(F.ravel()), R, tuple(D.ravel())), (3, 3))
    assert taylor(lambda e: polar(F + e * D, plane_rotation), derivative) == pytest.approx(
        2.0, abs=0.1
    )
    np.testing.assert_array_equal(derivative[2], 0.0)


def test_spin_inverse_is_the_inverse(rng):
    F = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    R = polar(F)
    S = R.T @ F
    G = np.reshape(spin_inverse(tuple(F.ravel()), tuple(R.ravel())), (3, 3))
    np.testing.assert_allclose(G @ (np.trace(S) * np.eye(3) - S), np.eye(3), atol=1e-13)
