"""Strains of a rod as functions of the positions and rotations of its ends, with two derivatives.

With t = x_2 - x_1, l = |t|, e = t / l and the section axes b_i = R_i b, c_i = R_i c of each end,
the measures are p = (l, e.b_1, e.c_1, e.b_2, e.c_2, (b_1.c_2 - c_1.b_2) / 2). They are invariant
under rigid motions. The strains are p minus the rest length, with sines converted to angles. All
functions accept complex arguments.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb, perm

import numpy as np

from pliant.core import Array
from pliant.kernels.rotations import Rotations

TWIST_SIGNS = np.array([[1.0, -1.0], [-1.0, 1.0]])  # of the axes b and c of each end in the twist
SERIES_LIMIT = 0.05  # sine^2 below which the power series is used
MAX_SINE_SQUARED = 1.0 - 1e-9  # sine^2 is clipped here, close to a right angle


@dataclass(frozen=True, kw_only=True, eq=False)
class RodStrains:
    """Strains of m rods at given positions and rotations of their ends."""

    ends: Array  # (m, 4, 3) x_1, x_2 [m], theta_1, theta_2 [rad]
    axes: Array  # (m, 3, 3) a, b and c at rest, as rows
    lengths: Array  # (m,) [m] at rest

    @cached_property
    def _rotations(self) -> Rotations:
        return Rotations(w=self.ends[:, 2:])

    @cached_property
    def _chord(self) -> tuple[Array, Array]:
        """Return the lengths l (m,) and directions e (m, 3) of the chords."""
        t = self.ends[:, 1] - self.ends[:, 0]
        length = np.sqrt(np.sum(t * t, axis=1))
        return length, t / length[:, None]

    @cached_property
    def _end_axes(self) -> Array:
        """Return the axes (m, 2, 3, 3) of both ends: rod, end, (a, b, c), component."""
        return self.axes[:, None] @ np.swapaxes(self._rotations.rotation, 2, 3)

    @cached_property
    def _side_jacobians(self) -> Array:
        """Return the derivatives (m, 2, 2, 3, 3) of b and c: rod, end, (b, c), component of theta,
        component."""
        by_side = self._rotations.jacobian.reshape(-1, 18, 3) @ np.swapaxes(self.axes[:, 1:], 1, 2)
        return np.ascontiguousarray(np.moveaxis(by_side.reshape(-1, 2, 3, 3, 2), 4, 2))

    @cached_property
    def measures(self) -> Array:
        """Return the measures p (m, 6)."""
        length, e = self._chord
        sines = self._end_axes[:, :, 1:].reshape(-1, 4, 3) @ e[:, :, None]
        (b1, c1), (b2, c2) = np.moveaxis(self._end_axes[:, :, 1:], 0, 2)
        twist = 0.5 * np.sum(b1 * c2 - c1 * b2, axis=1)
        return np.concatenate([length[:, None], sines[..., 0], twist[:, None]], axis=1)

    @cached_property
    def _twist_partners(self) -> Array:
        """Return for each section axis its signed partner (m, 2, 2, 3) at the other end in the
        twist measure."""
        return TWIST_SIGNS[:, :, None] * self._end_axes[:, ::-1, :0:-1]

    @cached_property
    def _measure_jacobian(self) -> Array:
        """Return dp / d(x_1, x_2, theta_1, theta_2), (m, 6, 12)."""
        (length, e), p, J = self._chord, self.measures, self._side_jacobians
        out = np.zeros((len(e), 6, 4, 3), dtype=self.ends.dtype)
        out[:, 0, 1] = e
        out[:, 1:5, 1] = (
            self._end_axes[:, :, 1:].reshape(-1, 4, 3) - p[:, 1:5, None] * e[:, None]
        ) / length[:, None, None]
        out[:, :, 0] = -out[:, :, 1]
        leaned = (J.reshape(-1, 12, 3) @ e[:, :, None]).reshape(-1, 4, 3)
        out[:, 1:3, 2], out[:, 3:5, 3] = leaned[:, :2], leaned[:, 2:]
        out[:, 5, 2:] = 0.5 * (J @ self._twist_partners[..., None])[..., 0].sum(axis=2)
        return out.reshape(-1, 6, 12)

    def _measure_hessian(self, s: Array) -> Array:
        """Return sum_k s_k d^2 p_k, (m, 12, 12), for s (m, 6)."""
        (length, e), J = self._chord, self._side_jacobians
        length = length[:, None, None]
        bending, twist = s[:, 1:5].reshape(-1, 2, 2, 1), 0.5 * s[:, 5, None, None]
        ee = e[:, :, None] * e[:, None, :]
        flat = (np.eye(3) - ee) / length
        v = np.sum(bending * self._end_axes[:, :, 1:], axis=(1, 2))
        ev, ve = (
            np.sum(e * v, axis=1)[:, None, None] / length,
            v[:, :, None] * e[:, None, :] / length,
        )
        along = (s[:, 0, None, None] - ev) * flat + (
            2.0 * ev * ee - ve - np.swapaxes(ve, 1, 2)
        ) / length
        # For a fixed chord and other end, the measures depend on the rotation of an end as M : R,
        # where M is the sum of w v^T over its axes b and c.
        w = bending * e[:, None, None] + twist[:, None] * self._twist_partners
        bent = self._rotations.hessian(np.swapaxes(w, 2, 3) @ self.axes[:, None, 1:])
        mixed = np.sum(bending[..., None] * J, axis=2).reshape(-1, 6, 3) @ flat
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
        """Return the sines (m, 2, 2) of the angles of each end along b and c."""
        return self.measures[:, 1:5].reshape(-1, 2, 2)

    @cached_property
    def _angle_ratios(self) -> tuple[Array, ...]:
        """Return asin(x) / x at the sine x of each end and its first two derivatives by x^2, (m, 2,
        1, 1) each."""
        return tuple(g[:, :, None, None] for g in arcsine_ratio(np.sum(self._sines**2, axis=2)))

    @cached_property
    def _cosine(self) -> Array:
        """Return the cosine (m,) of the twist."""
        return np.sqrt(_one_minus(self.measures[:, 5] ** 2))

    @cached_property
    def strains(self) -> Array:
        """Return the strains (m, 6).

        They are the elongation [m], the angles [rad] between each end and the chord along b and c,
        and the twist [rad].
        """
        out = self.measures.copy()
        out[:, 0] -= self.lengths
        out[:, 1:5] = (self._angle_ratios[0][..., 0] * self._sines).reshape(-1, 4)
        out[:, 5] = np.arctan(self.measures[:, 5] / self._cosine)
        return out

    @cached_property
    def _strain_by_measure(self) -> Array:
        """Return d strains / dp, (m, 6, 6)."""
        g, dg, _ = self._angle_ratios
        ends = g * np.eye(2) + 2.0 * dg * (self._sines[..., :, None] * self._sines[..., None, :])
        return _block_diagonal(np.ones(len(ends)), ends, 1.0 / self._cosine)

    def _strain_by_measure_hessian(self, s: Array) -> Array:
        """Return sum_k s_k d^2 strains_k / dp^2, (m, 6, 6), for s (m, 6)."""
        (_, dg, ddg), P, S = self._angle_ratios, self._sines, s[:, 1:5].reshape(-1, 2, 2)
        along, mixed = np.sum(P * S, axis=2)[..., None, None], S[..., :, None] * P[..., None, :]
        ends = 2.0 * dg * (mixed + np.swapaxes(mixed, 2, 3) + along * np.eye(2))
        ends = ends + 4.0 * ddg * along * (P[..., :, None] * P[..., None, :])
        return _block_diagonal(
            np.zeros(len(ends)), ends, s[:, 5] * self.measures[:, 5] / self._cosine**3
        )

    @cached_property
    def jacobian(self) -> Array:
        """Return d strains / d(x_1, x_2, theta_1, theta_2), (m, 6, 12)."""
        return self._strain_by_measure @ self._measure_jacobian

    def weighted_hessian(self, s: Array) -> Array:
        """Return sum_k s_k d^2 strains_k, (m, 12, 12), for s (m, 6)."""
        B = self._measure_jacobian
        s_p = (np.swapaxes(self._strain_by_measure, 1, 2) @ s[:, :, None])[..., 0]
        return np.swapaxes(B, 1, 2) @ self._strain_by_measure_hessian(
            s
        ) @ B + self._measure_hessian(s_p)

    def cosines(self) -> Array:
        """Return the cosines (m, 3) of the angles of both ends to the chord and of the twist.

        The strains are not invertible if one is not positive.
        """
        one, other = np.moveaxis(self._end_axes, 1, 0)
        leaned = self._end_axes[:, :, 0] @ self._chord[1][:, :, None]
        twist = 0.5 * np.sum(one[:, 1:] * other[:, 1:], axis=(1, 2))
        return np.concatenate([leaned[..., 0], twist[:, None]], axis=1)


def _block_diagonal(first: Array, ends: Array, last: Array) -> Array:
    """Return block-diagonal matrices (m, 6, 6) of the length (m,), the end angles (m, 2, 2, 2) and
    the twist (m,)."""
    out = np.zeros((len(ends), 6, 6), dtype=ends.dtype)
    out[:, 0, 0], out[:, 1:3, 1:3], out[:, 3:5, 3:5], out[:, 5, 5] = (
        first,
        ends[:, 0],
        ends[:, 1],
        last,
    )
    return out


def arcsine_ratio(S: Array) -> tuple[Array, Array, Array]:
    """Return asin(x) / x at S = x^2 and its first two derivatives by S. Small S use a power
    series."""
    near = S.real < SERIES_LIMIT
    series = _series(np.where(near, S, 0.0))
    if near.all():
        return series
    far = np.where(near, SERIES_LIMIT, S)
    x, cosine = np.sqrt(far), np.sqrt(_one_minus(far))
    g = np.arctan(x / cosine) / x
    dg = 0.5 * (1.0 / cosine - g) / far
    closed = (g, dg, (0.25 / cosine**3 - 1.5 * dg) / far)
    g, dg, ddg = (np.where(near, low, high) for low, high in zip(series, closed, strict=True))
    return g, dg, ddg


def _one_minus(S: Array) -> Array:
    """Return 1 - S, clipped to a positive value."""
    return np.where(S.real < MAX_SINE_SQUARED, 1.0 - S, 1.0 - MAX_SINE_SQUARED)


def _series(S: Array) -> tuple[Array, Array, Array]:
    """Return the three functions of `arcsine_ratio` by their power series."""
    out = np.zeros((3, *S.shape), dtype=S.dtype)
    for row in ARCSINE_SERIES.T[::-1]:
        out = out * S + row.reshape(3, *(1,) * S.ndim)
    return out[0], out[1], out[2]


def _coefficient(k: int) -> float:
    """Return the coefficient of S^k in asin(x) / x at S = x^2."""
    return comb(2 * k, k) / (4.0**k * (2 * k + 1))


ARCSINE_SERIES = np.array(
    [[_coefficient(k + d) * perm(k + d, d) for k in range(14)] for d in range(3)]
)  # of g, g' and g''
