"""The distance of two ellipsoids."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array

MAX_STEPS = 100  # of Newton's method, which takes about five


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedEllipsoid:
    """An ellipsoid: the image of the unit sphere by x -> rotation (semi_axes * x) + centre."""

    semi_axes: Array  # (3,) [m]
    rotation: Array  # (3, 3)
    centre: Array  # (3,) [m]

    @property
    def factor(self) -> Array:
        """The matrix (3, 3) [m] of the map; the support in direction u is |factor^T u|."""
        return self.rotation * self.semi_axes


def ellipsoid_distance(one: PlacedEllipsoid, other: PlacedEllipsoid) -> float:
    """Return the distance [m] of two ellipsoids, 0 if they overlap or touch.

    A plane with normal u leaves the gap g(u) = r . u - |P^T u| - |Q^T u| between them. Its largest
    value over the unit sphere is the distance. Newton's method starts with a separating plane."""
    P, Q, r = one.factor, other.factor, other.centre - one.centre
    u = _separating_normal(P, Q, r)
    if u is None:
        return 0.0
    gap = _plane_gap(P, Q, r, u)
    for _ in range(MAX_STEPS):
        tangents = np.linalg.svd(u[None])[2][1:].T
        gradient, hessian = _plane_gap_derivatives(P, Q, r, u)
        slope = tangents.T @ gradient
        # g is concave and g(s u) = s g(u), so this matrix is negative definite where g > 0
        step = tangents @ np.linalg.solve(tangents.T @ hessian @ tangents - gap * np.eye(2), slope)
        before = gap
        u, gap = _line_search(P, Q, r, u, step, gap)
        if gap <= before:
            break
    return gap


def _line_search(
    P: Array, Q: Array, r: Array, u: Array, step: Array, gap: float
) -> tuple[Array, float]:
    """Return a direction with a larger gap along minus `step` and the gap, or the start."""
    for halvings in range(40):
        trial = u - 0.5**halvings * step
        trial = trial / np.linalg.norm(trial)
        found = _plane_gap(P, Q, r, trial)
        if found > gap:
            return trial, found
    return u, gap


def _plane_gap(P: Array, Q: Array, r: Array, u: Array) -> float:
    return float(r @ u - np.linalg.norm(P.T @ u) - np.linalg.norm(Q.T @ u))


def _plane_gap_derivatives(P: Array, Q: Array, r: Array, u: Array) -> tuple[Array, Array]:
    gradient, hessian = r.copy(), np.zeros((3, 3))
    for F in (P, Q):
        v = F.T @ u
        size = np.linalg.norm(v)
        gradient -= F @ v / size
        hessian -= F @ (np.eye(3) - np.outer(v, v) / size**2) @ F.T / size
    return gradient, hessian


def _separating_normal(P: Array, Q: Array, r: Array) -> Array | None:
    """Return a unit vector u with a positive gap, or None if the ellipsoids meet [Perram1985].

    They are disjoint if and only if the maximum over 0 < t < 1 of
    t (1 - t) r . ((1 - t) P P^T + t Q Q^T)^-1 r exceeds 1. In the eigenvectors of one matrix by the
    other it is a sum of fractions, concave in t.
    """
    inner = np.linalg.solve(P, Q)
    ratios, vectors = np.linalg.eigh(inner @ inner.T)
    weights = (vectors.T @ np.linalg.solve(P, r)) ** 2
    low, high = 0.0, 1.0
    for _ in range(60):
        t = 0.5 * (low + high)
        mixed = 1.0 - t + t * ratios
        slope = weights @ (((1.0 - t) ** 2 - t * t * ratios) / mixed**2)
        low, high = (t, high) if slope > 0.0 else (low, t)
    normal = np.linalg.solve((1.0 - t) * P @ P.T + t * Q @ Q.T, r)
    size = np.linalg.norm(normal)
    if size == 0.0:
        return None
    return normal / size if _plane_gap(P, Q, r, normal / size) > 0.0 else None
