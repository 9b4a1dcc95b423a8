"""Compression stores long vectors by few coefficients in a basis that only grows."""

import numpy as np
import pytest

from pliant.surrogate.compress import Compression

N, D = 500, 2


def curved_map(rng, rank=3, curvature=1.0):
    """Return a map x -> (value, slope) to a curved surface in an affine subspace of R^500."""
    frame = np.linalg.qr(rng.standard_normal((N, rank)))[0]
    centre, a = rng.standard_normal(N), rng.standard_normal((rank, D))

    def f(x):
        s = a @ x
        return centre + frame @ (s + curvature * s**2), frame @ (
            (1.0 + 2.0 * curvature * s)[:, None] * a
        )

    return f


def test_basis_size_is_rank_of_the_map(rng):
    f, compression = curved_map(rng), Compression(1e-9)
    sizes = []
    for x in rng.uniform(-1.0, 1.0, (20, D)):
        compression.add(*f(x))
        sizes.append(compression.size)
    assert sizes[0] == D  # the slopes of the first sample
    assert sizes[-1] == 3
    np.testing.assert_allclose(compression.basis @ compression.basis.T, np.eye(3), atol=1e-14)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
def test_expanded_values_are_within_tolerance(rng, tolerance):
    """The size of each direction is a tenth of the previous one. The error of the value and of each
    slope is within the tolerance."""
    frame = np.linalg.qr(rng.standard_normal((N, 12)))[0] * 0.1 ** np.arange(12)
    a, compression = rng.standard_normal((12, D)), Compression(tolerance)
    f = lambda x: (frame @ np.sin(3.0 * a @ x), frame @ (3.0 * np.cos(3.0 * a @ x)[:, None] * a))
    for x in rng.uniform(-1.0, 1.0, (40, D)):
        value, slope = f(x)
        got, change = compression.expand(compression.add(value, slope))
        error = np.linalg.norm(np.column_stack([got - value, change - slope]), axis=0)
        assert np.all(error <= 1.01 * tolerance * compression.scale)
    assert compression.size <= 4 - np.log10(tolerance)


def test_old_coefficients_stay_valid_when_basis_grows(rng):
    f, compression = curved_map(rng, rank=8), Compression(1e-10)
    points = rng.uniform(-1.0, 1.0, (10, D))
    rows = [compression.add(*f(x)) for x in points]
    assert rows[0].shape[1] < compression.size == rows[-1].shape[1]
    for x, row in zip(points, rows, strict=True):
        padded = np.pad(row, ((0, 0), (0, compression.size - row.shape[1])))
        for coefficients in (row, padded):
            for got, want in zip(compression.expand(coefficients), f(x), strict=True):
                np.testing.assert_allclose(got, want, atol=1e-9 * compression.scale)


def test_basis_of_linear_map_is_its_slopes(rng):
    compression = Compression(1e-9)
    slope, value = rng.standard_normal((N, D)), rng.standard_normal(N)
    for x in rng.uniform(-1.0, 1.0, (10, D)):
        row = compression.add(value + slope @ x, slope)
    assert compression.size == D
    assert row.shape == (1 + D, D)


def test_compression_does_not_modify_its_input(rng):
    value, slope = rng.standard_normal(N), rng.standard_normal((N, D))
    compression = Compression(1e-9)
    for _ in range(2):
        compression.add(value, slope)
    compression.centre[:] = 0.0
    assert np.all(value != 0.0)
