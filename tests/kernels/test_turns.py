"""Rotations by vectors beside SciPy's, and their slopes beside differences, across the switch from
series to closed forms."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.kernels.turns import Turns

SIZES = (0.0, 1e-9, 1e-3, 0.5, 0.999, 1.001, 2.0, 3.1, 5.5)


@pytest.fixture(params=SIZES)
def w(request):
    return request.param * np.array([2.0, -1.0, 2.0]) / 3.0


def test_a_turn_is_scipys(w):
    np.testing.assert_allclose(Turns(w=w).rotation, Rotation.from_rotvec(w).as_matrix(), atol=1e-14)


def test_slopes_and_bends_are_those_of_the_turn(w):
    h, M = 1e-6, np.cos(np.arange(9.0)).reshape(3, 3)
    pulled = lambda at: np.einsum("kij,ij->k", Turns(w=at).slopes, M)
    for k, e in enumerate(np.eye(3)):
        np.testing.assert_allclose(
            Turns(w=w).slopes[k],
            (Turns(w=w + h * e).rotation - Turns(w=w - h * e).rotation) / (2.0 * h),
            atol=1e-9,
        )
        np.testing.assert_allclose(
            Turns(w=w).bend(M)[k], (pulled(w + h * e) - pulled(w - h * e)) / (2.0 * h), atol=1e-9
        )
