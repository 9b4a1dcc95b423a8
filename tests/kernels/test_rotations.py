"""Rotation vectors against SciPy, and their derivatives against finite differences, on both sides
of the switch from series to closed forms."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.kernels.rotations import Rotations

SIZES = (0.0, 1e-9, 1e-3, 0.5, 0.999, 1.001, 2.0, 3.1, 5.5)


@pytest.fixture(params=SIZES)
def w(request):
    return request.param * np.array([2.0, -1.0, 2.0]) / 3.0


def test_rotation_matrix_equals_scipy(w):
    np.testing.assert_allclose(
        Rotations(w=w).rotation, Rotation.from_rotvec(w).as_matrix(), atol=1e-14
    )


def test_jacobian_and_hessian_equal_finite_differences(w):
    h, M = 1e-6, np.cos(np.arange(9.0)).reshape(3, 3)
    vjp = lambda at: np.einsum("kij,ij->k", Rotations(w=at).jacobian, M)
    for k, e in enumerate(np.eye(3)):
        np.testing.assert_allclose(
            Rotations(w=w).jacobian[k],
            (Rotations(w=w + h * e).rotation - Rotations(w=w - h * e).rotation) / (2.0 * h),
            atol=1e-9,
        )
        np.testing.assert_allclose(
            Rotations(w=w).hessian(M)[k],
            (vjp(w + h * e) - vjp(w - h * e)) / (2.0 * h),
            atol=1e-9,
        )
