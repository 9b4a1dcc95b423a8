"""Rotation vectors: R = exp([w]) and its derivatives, for one or many w, analytic in complex w.

R = I + a(s) W + b(s) W^2 with W = [w] and s = |w|^2 (Rodrigues). The chart is smooth below a full
turn.
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
FLAT = SKEW.reshape(3, 9)
EYE = np.eye(3)
SQUARES = (SKEW[:, None] @ SKEW + SKEW @ SKEW[:, None]).reshape(
    3, 27
)  # w @ SQUARES: dW^2/dw, one component of w after the other
TERMS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Turns:
    """Rotation vectors with what follows from them, each found once."""

    w: Array  # (..., 3) [rad]

    @cached_property
    def _coefficients(self) -> tuple[Array, ...]:
        return tuple(c[..., None, None] for c in rodrigues(np.sum(self.w * self.w, axis=-1)))

    @cached_property
    def _skew(self) -> Array:
        return (self.w @ FLAT).reshape(*self.w.shape, 3)

    @cached_property
    def _square(self) -> Array:
        """W^2 = w w^T - |w|^2 I"""
        w = self.w
        return w[..., :, None] * w[..., None, :] - np.sum(w * w, axis=-1)[..., None, None] * EYE

    @cached_property
    def rotation(self) -> Array:
        """(..., 3, 3) R"""
        a, b = self._coefficients[:2]
        return EYE + a * self._skew + b * self._square

    @cached_property
    def slopes(self) -> Array:
        """(..., 3, 3, 3) dR/dw, the first of the three new axes counting the components of w."""
        w, (a, b, da, db, _, _) = self.w, self._coefficients
        along = 2.0 * (da * self._skew + db * self._square)
        squares = (w @ SQUARES).reshape(*w.shape, 3, 3)
        return (
            w[..., None, None] * along[..., None, :, :]
            + a[..., None] * SKEW
            + b[..., None] * squares
        )

    def bend(self, M: Array) -> Array:
        """(..., 3, 3) the second derivative of sum(M * rotation) by w, for M (..., 3, 3).

        M : R = tr(M) cos t + a w . m + b w . M w with m the axial vector of M, where d cos t / ds =
        -a / 2.
        """
        w, (a, b, da, db, dda, ddb) = self.w[..., None], self._coefficients
        m = (M.reshape(*M.shape[:-2], 9) @ FLAT.T)[..., None]
        both = M + np.swapaxes(M, -1, -2)
        n = both @ w
        trace, along, twice = (
            np.trace(M, axis1=-2, axis2=-1)[..., None, None],
            _dot(w, m),
            0.5 * _dot(w, n),
        )
        first = -0.5 * a * trace + da * along + db * twice
        second = -0.5 * da * trace + dda * along + ddb * twice
        cross = w * np.swapaxes(2.0 * (second * w + da * m + db * n), -1, -2)
        return 2.0 * first * EYE + cross + np.swapaxes(cross, -1, -2) + b * both


def _dot(x: Array, y: Array) -> Array:
    """(..., 1, 1) of columns (..., 3, 1)"""
    return np.sum(x * y, axis=-2, keepdims=True)


def rodrigues(s: Array) -> tuple[Array, ...]:
    """a = sin t / t and b = (1 - cos t) / t^2 at t^2 = s, then their first and their second
    derivatives in s; by their series for turns below a radian."""
    small = s.real < 1.0
    if small.all():
        return _series(s)
    far = np.where(small, 1.0, s)
    t = np.sqrt(far)
    a, b = np.sin(t) / t, (1.0 - np.cos(t)) / far
    da, db = 0.5 * (np.cos(t) - a) / far, (0.5 * a - b) / far
    closed = (a, b, da, db, -(0.25 * a + 1.5 * da) / far, (0.5 * da - 2.0 * db) / far)
    if not small.any():
        return closed
    return tuple(
        np.where(small, near, away)
        for near, away in zip(_series(np.where(small, s, 0.0)), closed, strict=True)
    )


def _series(s: Array) -> tuple[Array, ...]:
    out = np.zeros((6, *s.shape), dtype=s.dtype)
    for row in SERIES.T[::-1]:
        out = out * s + row.reshape(6, *(1,) * s.ndim)
    return tuple(out)


def _row(first: int, order: int) -> list[float]:
    """The series in s of the derivative of an order of sum_k (-1)^k s^k / (2 k + first)!"""

    def coefficient(k: int) -> float:
        return (-1.0) ** k / factorial(2 * k + first) * factorial(k) / factorial(k - order)

    return [coefficient(k + order) for k in range(TERMS)]


SERIES = np.array(
    [_row(first, order) for order in range(3) for first in (1, 2)]
)  # (6, TERMS) in the order of `rodrigues`
