"""3 x 3 matrices as tuples: products and invariants against NumPy."""

import numpy as np
import pytest

from pliant import kernels


def flat(A):
    return tuple(A.ravel())


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("add", lambda A, B: A + B),
        ("sub", lambda A, B: A - B),
        ("mm", lambda A, B: A @ B),
        ("mtm", lambda A, B: A.T @ B),
        ("mmt", lambda A, B: A @ B.T),
        ("dot", lambda A, B: np.sum(A * B)),
    ],
)
@pytest.mark.parametrize("kind", [float, complex])
def test_products_equal_numpy(rng, name, oracle, kind):
    A, B = rng.standard_normal((2, 3, 3)) * (1.0 if kind is float else 1.0 + 0.5j)
    np.testing.assert_allclose(
        np.ravel(getattr(kernels, name)(flat(A), flat(B))), np.ravel(oracle(A, B)), atol=1e-14
    )


def test_invariants_equal_numpy(rng):
    A = rng.standard_normal((3, 3))
    assert kernels.det(flat(A)) == pytest.approx(np.linalg.det(A), abs=1e-14)
    assert kernels.trace(flat(A)) == pytest.approx(np.trace(A), abs=1e-14)
    np.testing.assert_allclose(kernels.sym(flat(A)), flat((A + A.T) / 2), atol=1e-15)


def test_cofactor_is_det_times_inverse_transpose(rng):
    A = rng.standard_normal((3, 3))
    np.testing.assert_allclose(
        kernels.cofactor(flat(A)), flat(np.linalg.det(A) * np.linalg.inv(A).T), atol=1e-13
    )


def test_cofactor_of_a_singular_matrix_satisfies_cramer(rng):
    A = np.outer(*rng.standard_normal((2, 3))) + np.outer(*rng.standard_normal((2, 3)))
    C = np.reshape(kernels.cofactor(flat(A)), (3, 3))
    np.testing.assert_allclose(A.T @ C, np.zeros((3, 3)), atol=1e-13)
    assert np.linalg.norm(C) > 0.1  # not zero: A has rank two


def test_cofactor_is_the_gradient_of_the_determinant(rng):
    A, D = rng.standard_normal((2, 3, 3))
    derivative = kernels.det(flat(A + 1e-30j * D)).imag / 1e-30
    assert kernels.dot(kernels.cofactor(flat(A)), flat(D)) == pytest.approx(derivative, rel=1e-13)


def test_cofactor_of_a_sum_is_quadratic(rng):
    A, B = rng.standard_normal((2, 3, 3))
    parts = np.add(kernels.cofactor(flat(A)), kernels.cofactor(flat(B))) + kernels.cross(
        flat(A), flat(B)
    )
    np.testing.assert_allclose(kernels.cofactor(flat(A + B)), parts, atol=1e-13)
    np.testing.assert_allclose(
        kernels.cross(flat(A), flat(A)), 2.0 * np.array(kernels.cofactor(flat(A))), atol=1e-13
    )
