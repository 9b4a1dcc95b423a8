"""Rotation vectors: R = exp([w]) and its derivatives, for one or many w, analytic in complex w.

R = I + a(s) W + b(s) W^2 with W = [w] and s = |w|^2 (Rodrigues). The map is smooth for rotations of
less than 2 pi.
"""

from dataclasses import dataclass
from functools import cached_property
from math import factorial

import numpy as np

from pliant.core import Array

SKEW = np.array(
    [
        [[0, 0, 0], [0, 0, -1], [0, 1, 0]],
        [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
        [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
    ],
    float,
)
SKEW_FLAT = SKEW.reshape(3, 9)
EYE = np.eye(3)
# w @ SKEW_SQUARED_JACOBIAN is dW^2/dw, ordered by the component of w.
SKEW_SQUARED_JACOBIAN = (SKEW[:, None] @ SKEW + SKEW @ SKEW[:, None]).reshape(3, 27)
SERIES_TERMS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Rotations:
    """Rotation vectors and their rotation matrices with derivatives, computed once on demand."""

    w: Array  # (..., 3) [rad]

    @cached_property
    def _coefficients(self) -> tuple[Array, ...]:
        return tuple(
            c[..., None, None] for c in rodrigues_coefficients(np.sum(self.w * self.w, axis=-1))
        )

    @cached_property
    def _skew(self) -> Array:
        return (self.w @ SKEW_FLAT).reshape(*self.w.shape, 3)

    @cached_property
    def _square(self) -> Array:
        """Return W^2 = w w^T - |w|^2 I."""
        w = self.w
        return w[..., :, None] * w[..., None, :] - np.sum(w * w, axis=-1)[..., None, None] * EYE

    @cached_property
    def rotation(self) -> Array:
        """Return the rotation matrices R (..., 3, 3)."""
        a, b = self._coefficients[:2]
        return EYE + a * self._skew + b * self._square

    @cached_property
    def jacobian(self) -> Array:
        """Return dR/dw (..., 3, 3, 3); the first of the three new axes is the component of w."""
        w, (a, b, da, db, _, _) = self.w, self._coefficients
        along_w = 2.0 * (da * self._skew + db * self._square)
        squares = (w @ SKEW_SQUARED_JACOBIAN).reshape(*w.shape, 3, 3)
        return (
            w[..., None, None] * along_w[..., None, :, :]
            + a[..., None] * SKEW
            + b[..., None] * squares
        )

    def hessian(self, M: Array) -> Array:
        """Return the Hessian (..., 3, 3) of sum(M * R) by w, for M (..., 3, 3).

        M : R = tr(M) cos t + a w . m + b w . M w, where m is the axial vector of M and
        d cos t / ds = -a / 2.
        """
        w, (a, b, da, db, dda, ddb) = self.w[..., None], self._coefficients
        m = (M.reshape(*M.shape[:-2], 9) @ SKEW_FLAT.T)[..., None]
        symmetric = M + np.swapaxes(M, -1, -2)
        n = symmetric @ w
        trace, w_m, w_M_w = (
            np.trace(M, axis1=-2, axis2=-1)[..., None, None],
            _dot(w, m),
            0.5 * _dot(w, n),
        )
        first = -0.5 * a * trace + da * w_m + db * w_M_w
        second = -0.5 * da * trace + dda * w_m + ddb * w_M_w
        cross = w * np.swapaxes(2.0 * (second * w + da * m + db * n), -1, -2)
        return 2.0 * first * EYE + cross + np.swapaxes(cross, -1, -2) + b * symmetric


def _dot(x: Array, y: Array) -> Array:
    """Return the inner products (..., 1, 1) of columns (..., 3, 1)."""
    return np.sum(x * y, axis=-2, keepdims=True)


def rodrigues_coefficients(s: Array) -> tuple[Array, ...]:
    """Return a = sin t / t and b = (1 - cos t) / t^2 at t^2 = s with their derivatives by s.

    The order is a, b, a', b', a'', b''. Rotations of less than one radian use power series.
    """
    small = s.real < 1.0
    if small.all():
        return _series(s)
    large = np.where(small, 1.0, s)
    t = np.sqrt(large)
    a, b = np.sin(t) / t, (1.0 - np.cos(t)) / large
    da, db = 0.5 * (np.cos(t) - a) / large, (0.5 * a - b) / large
    closed = (a, b, da, db, -(0.25 * a + 1.5 * da) / large, (0.5 * da - 2.0 * db) / large)
    if not small.any():
        return closed
    return tuple(
        np.where(small, series, closed_form)
        for series, closed_form in zip(_series(np.where(small, s, 0.0)), closed, strict=True)
    )


def _series(s: Array) -> tuple[Array, ...]:
    """Return the six functions of `rodrigues_coefficients` by their power series."""
    out = np.zeros((6, *s.shape), dtype=s.dtype)
    for row in SERIES.T[::-1]:
        out = out * s + row.reshape(6, *(1,) * s.ndim)
    return tuple(out)


def _row(first: int, order: int) -> list[float]:
    """Return the power series in s of a derivative of sum_k (-1)^k s^k / (2 k + first)!"""

    def coefficient(k: int) -> float:
        return (-1.0) ** k / factorial(2 * k + first) * factorial(k) / factorial(k - order)

    return [coefficient(k + order) for k in range(SERIES_TERMS)]


# (6, SERIES_TERMS), ordered as in `rodrigues_coefficients`
SERIES = np.array([_row(first, order) for order in range(3) for first in (1, 2)])
