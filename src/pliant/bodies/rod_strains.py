"""How a rod is strained by the places and turns of its two ends, with first and second derivatives;
all analytic in complex unknowns.

With t = x_2 - x_1, l = |t|, e = t / l and the sides b_i = R_i b, c_i = R_i c of each end's section,
the measures are p = (l, e.b_1, e.c_1, e.b_2, e.c_2, (b_1.c_2 - c_1.b_2) / 2), which no rigid motion
changes. The strains are p with the length at rest taken off and its sines made angles.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb, perm

import numpy as np

from pliant.core import Array
from pliant.kernels.turns import Turns

SIGNS = np.array([[1.0, -1.0], [-1.0, 1.0]])  # of the ends' sides (b, c) in the twist
NEAR = 0.05  # sine^2 below which an angle comes from its series
EDGE = 1.0 - 1e-9  # sine^2 where a right angle is cut off


@dataclass(frozen=True, kw_only=True, eq=False)
class RodStrains:
    """m rods at some places and turns of their ends."""

    ends: Array  # (m, 4, 3) x_1, x_2 [m], theta_1, theta_2 [rad]
    axes: Array  # (m, 3, 3) a, b and c at rest, as rows
    lengths: Array  # (m,) [m] at rest

    @cached_property
    def _turns(self) -> Turns:
        return Turns(w=self.ends[:, 2:])

    @cached_property
    def _chord(self) -> tuple[Array, Array]:
        """((m,) l, (m, 3) e)"""
        t = self.ends[:, 1] - self.ends[:, 0]
        length = np.sqrt(np.sum(t * t, axis=1))
        return length, t / length[:, None]

    @cached_property
    def _turned(self) -> Array:
        """(m, 2, 3, 3) the axes of both ends: rod, end, (a, b, c), component."""
        return self.axes[:, None] @ np.swapaxes(self._turns.rotation, 2, 3)

    @cached_property
    def _side_slopes(self) -> Array:
        """(m, 2, 2, 3, 3) the derivative of the sides: rod, end, (b, c), component of theta,
        component."""
        by_side = self._turns.slopes.reshape(-1, 18, 3) @ np.swapaxes(self.axes[:, 1:], 1, 2)
        return np.ascontiguousarray(np.moveaxis(by_side.reshape(-1, 2, 3, 3, 2), 4, 2))

    @cached_property
    def measures(self) -> Array:
        """(m, 6) p"""
        length, e = self._chord
        sines = self._turned[:, :, 1:].reshape(-1, 4, 3) @ e[:, :, None]
        (b1, c1), (b2, c2) = np.moveaxis(self._turned[:, :, 1:], 0, 2)
        twist = 0.5 * np.sum(b1 * c2 - c1 * b2, axis=1)
        return np.concatenate([length[:, None], sines[..., 0], twist[:, None]], axis=1)

    @cached_property
    def _crossed(self) -> Array:
        """(m, 2, 2, 3) of each side the one of the other end that it twists against, with the sign
        that it has in p."""
        return SIGNS[:, :, None] * self._turned[:, ::-1, :0:-1]

    @cached_property
    def _measure_slopes(self) -> Array:
        """(m, 6, 12) dp / d(x_1, x_2, theta_1, theta_2)"""
        (length, e), p, J = self._chord, self.measures, self._side_slopes
        out = np.zeros((len(e), 6, 4, 3), dtype=self.ends.dtype)
        out[:, 0, 1] = e
        out[:, 1:5, 1] = (
            self._turned[:, :, 1:].reshape(-1, 4, 3) - p[:, 1:5, None] * e[:, None]
        ) / length[:, None, None]
        out[:, :, 0] = -out[:, :, 1]
        leaned = (J.reshape(-1, 12, 3) @ e[:, :, None]).reshape(-1, 4, 3)
        out[:, 1:3, 2], out[:, 3:5, 3] = leaned[:, :2], leaned[:, 2:]
        out[:, 5, 2:] = 0.5 * (J @ self._crossed[..., None])[..., 0].sum(axis=2)
        return out.reshape(-1, 6, 12)

    def _measure_bend(self, s: Array) -> Array:
        """(m, 12, 12) sum_k s_k d^2 p_k, for s (m, 6)."""
        (length, e), J = self._chord, self._side_slopes
        length = length[:, None, None]
        pull, twist = s[:, 1:5].reshape(-1, 2, 2, 1), 0.5 * s[:, 5, None, None]
        ee = e[:, :, None] * e[:, None, :]
        flat = (np.eye(3) - ee) / length
        v = np.sum(pull * self._turned[:, :, 1:], axis=(1, 2))
        ev, ve = (
            np.sum(e * v, axis=1)[:, None, None] / length,
            v[:, :, None] * e[:, None, :] / length,
        )
        along = (s[:, 0, None, None] - ev) * flat + (
            2.0 * ev * ee - ve - np.swapaxes(ve, 1, 2)
        ) / length
        # At a fixed chord and a fixed other end, an end's turn changes M : R with M the sum over
        # its sides of w v^T
        w = pull * e[:, None, None] + twist[:, None] * self._crossed
        bent = self._turns.bend(np.swapaxes(w, 2, 3) @ self.axes[:, None, 1:])
        mixed = np.sum(pull[..., None] * J, axis=2).reshape(-1, 6, 3) @ flat
        twisted = twist * (
            J[:, 0, 0] @ np.swapaxes(J[:, 1, 1], 1, 2) - J[:, 0, 1] @ np.swapaxes(J[:, 1, 0], 1, 2)
        )
        out = np.empty((len(e), 12, 12), dtype=mixed.dtype)
        out[:, :3, :3] = out[:, 3:6, 3:6] = along
        out[:, :3, 3:6] = out[:, 3:6, :3] = -along
        out[:, 6:, 3:6], out[:, 6:, :3] = mixed, -mixed
        out[:, 3:6, 6:], out[:, :3, 6:] = np.swapaxes(mixed, 1, 2), -np.swapaxes(mixed, 1, 2)
        out[:, 6:9, 6:9], out[:, 9:, 9:] = bent[:, 0], bent[:, 1]
        out[:, 6:9, 9:], out[:, 9:, 6:9] = twisted, np.swapaxes(twisted, 1, 2)
        return out

    # From sines to angles

    @cached_property
    def _sines(self) -> Array:
        """(m, 2, 2) of each end, along b and c"""
        return self.measures[:, 1:5].reshape(-1, 2, 2)

    @cached_property
    def _gains(self) -> tuple[Array, ...]:
        """(m, 2, 1, 1) each: g = asin(x) / x at the sine x of each end, and its first two
        derivatives in x^2."""
        return tuple(g[:, :, None, None] for g in angle_gain(np.sum(self._sines**2, axis=2)))

    @cached_property
    def _cosine(self) -> Array:
        """(m,) of the twist"""
        return np.sqrt(_rest_of(self.measures[:, 5] ** 2))

    @cached_property
    def strains(self) -> Array:
        """(m, 6) the lengthening [m], the angles [rad] of each end to the chord along b and c, the
        twist [rad]."""
        out = self.measures.copy()
        out[:, 0] -= self.lengths
        out[:, 1:5] = (self._gains[0][..., 0] * self._sines).reshape(-1, 4)
        out[:, 5] = np.arctan(self.measures[:, 5] / self._cosine)
        return out

    @cached_property
    def _strain_gains(self) -> Array:
        """(m, 6, 6) d strains / dp"""
        g, dg, _ = self._gains
        ends = g * np.eye(2) + 2.0 * dg * (self._sines[..., :, None] * self._sines[..., None, :])
        return _by_end(np.ones(len(ends)), ends, 1.0 / self._cosine)

    def _gain_bend(self, s: Array) -> Array:
        """(m, 6, 6) sum_k s_k d^2 strains_k / dp^2, for s (m, 6)."""
        (_, dg, ddg), P, S = self._gains, self._sines, s[:, 1:5].reshape(-1, 2, 2)
        along, mixed = np.sum(P * S, axis=2)[..., None, None], S[..., :, None] * P[..., None, :]
        ends = 2.0 * dg * (mixed + np.swapaxes(mixed, 2, 3) + along * np.eye(2))
        ends = ends + 4.0 * ddg * along * (P[..., :, None] * P[..., None, :])
        return _by_end(np.zeros(len(ends)), ends, s[:, 5] * self.measures[:, 5] / self._cosine**3)

    @cached_property
    def slopes(self) -> Array:
        """(m, 6, 12) d strains / d(x_1, x_2, theta_1, theta_2)"""
        return self._strain_gains @ self._measure_slopes

    def bend(self, s: Array) -> Array:
        """(m, 12, 12) sum_k s_k d^2 strains_k, for s (m, 6)."""
        B = self._measure_slopes
        s_p = (np.swapaxes(self._strain_gains, 1, 2) @ s[:, :, None])[..., 0]
        return np.swapaxes(B, 1, 2) @ self._gain_bend(s) @ B + self._measure_bend(s_p)

    def cosines(self) -> Array:
        """(m, 3) of the angles of both ends to the chord and of the twist; where one is not
        positive, the strains fold back."""
        one, other = np.moveaxis(self._turned, 1, 0)
        leaned = self._turned[:, :, 0] @ self._chord[1][:, :, None]
        twist = 0.5 * np.sum(one[:, 1:] * other[:, 1:], axis=(1, 2))
        return np.concatenate([leaned[..., 0], twist[:, None]], axis=1)


def _by_end(first: Array, ends: Array, last: Array) -> Array:
    """(m, 6, 6) from the shares of the length (m,), of each end's angles (m, 2, 2, 2) and of the
    twist (m,), which do not mix."""
    out = np.zeros((len(ends), 6, 6), dtype=ends.dtype)
    out[:, 0, 0], out[:, 1:3, 1:3], out[:, 3:5, 3:5], out[:, 5, 5] = (
        first,
        ends[:, 0],
        ends[:, 1],
        last,
    )
    return out


def angle_gain(S: Array) -> tuple[Array, Array, Array]:
    """g = asin(x) / x at S = x^2, with its first two derivatives in S; by their series near
    zero."""
    near = S.real < NEAR
    series = _series(np.where(near, S, 0.0))
    if near.all():
        return series
    far = np.where(near, NEAR, S)
    x, cosine = np.sqrt(far), np.sqrt(_rest_of(far))
    g = np.arctan(x / cosine) / x
    dg = 0.5 * (1.0 / cosine - g) / far
    closed = (g, dg, (0.25 / cosine**3 - 1.5 * dg) / far)
    g, dg, ddg = (np.where(near, low, high) for low, high in zip(series, closed, strict=True))
    return g, dg, ddg


def _rest_of(S: Array) -> Array:
    """1 - S, kept positive."""
    return np.where(S.real < EDGE, 1.0 - S, 1.0 - EDGE)


def _series(S: Array) -> tuple[Array, Array, Array]:
    out = np.zeros((3, *S.shape), dtype=S.dtype)
    for row in SERIES.T[::-1]:
        out = out * S + row.reshape(3, *(1,) * S.ndim)
    return out[0], out[1], out[2]


def _coefficient(k: int) -> float:
    """Of S^k in asin(x) / x at S = x^2."""
    return comb(2 * k, k) / (4.0**k * (2 * k + 1))


SERIES = np.array(
    [[_coefficient(k + d) * perm(k + d, d) for k in range(14)] for d in range(3)]
)  # of g, g' and g''
