"""A polynomial surrogate over a box, fitted to exact values and slopes."""

from functools import lru_cache
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np
from numba import njit
from scipy.linalg import lstsq

from pliant.core import Array, InputError, counted, is_integer, quoted, require_number
from pliant.surrogate.corners import Corner, Corners, check_corners
from pliant.surrogate.domain import Domain, check_domain, check_query
from pliant.surrogate.sample import Sample, SampleError

# of singular values relative to the largest; two equations per coefficient keep them above 1e-3
RANK_TOLERANCE = 1e-10


class Chebyshev:
    """The polynomial of total degree <= n that fits exact values and slopes over a box by least
    squares, in the Chebyshev measure.

    A point gives 1 + d equations, so there are `oversampling` / (1 + d) points per coefficient.
    Points where f fails are skipped. Raises SampleError if too few points remain.
    """

    def __init__(
        self, corners: Corners, *, domain: object, degree: int, oversampling: float = 2.0
    ) -> None:
        check_corners(corners)
        if not is_integer(degree) or degree < 1:
            raise InputError(
                f"The degree of the polynomial is {quoted(degree)}. Give a whole number of "
                "at least 1."
            )
        if (
            not 1.0
            <= require_number("The oversampling", oversampling, "equations per coefficient")
            < np.inf
        ):
            raise InputError(
                f"The oversampling is {oversampling:g} equations per coefficient. Give at least "
                "1, and 2 for a stable fit."
            )
        self.corners, self.degree, self.oversampling = corners, int(degree), float(oversampling)
        self.domain = _finite_domain(domain, self.dim)
        self.centre, self.half = (
            0.5 * (self.domain[0] + self.domain[1]),
            0.5 * (self.domain[1] - self.domain[0]),
        )
        self.powers = total_degree(self.dim, self.degree)  # (m, d)
        t = nested_points(ceil(self.oversampling * len(self.powers) / (1 + self.dim)), self.dim)
        self.points = self.centre + self.half * t  # (n_points, d)
        self._check_budget()
        self.coefficients = self._fit(t, corners.fetch(self.points))  # (m, r)

    @property
    def dim(self) -> int:
        return self.corners.dim

    @property
    def evaluations(self) -> int:
        return self.corners.evaluations

    @property
    def changes(self) -> int:
        """Zero: results never change."""
        return 0

    @property
    def warnings(self) -> list[str]:
        """Empty: the residual of the fit is not checked."""
        return []

    @property
    def size(self) -> Array:
        """The size (d,) of the box over the degree, comparable to a cell."""
        return 2.0 * self.half / self.degree

    def refined(self) -> "Chebyshev":
        """Return the fit of twice the degree."""
        return self.raised(2 * self.degree)

    def covers(self, x: Array) -> bool:
        """Return whether x is in the domain. No query needs another exact evaluation."""
        return bool(np.all((x >= self.domain[0]) & (x <= self.domain[1])))

    def new_samples(self) -> list[Sample]:
        """Return the samples that the fit of half the degree does not use."""
        half = total_degree(self.dim, self.degree // 2)
        first = ceil(self.oversampling * len(half) / (1 + self.dim))
        return [s for s in list(self.corners.samples.values())[first:] if not s.failed]

    def raised(self, degree: int) -> "Chebyshev":
        """Return the fit of a higher degree on the same corners. Its points include those of this
        one."""
        return Chebyshev(
            self.corners, domain=self.domain, degree=degree, oversampling=self.oversampling
        )

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the value (N,) and the exact slope (N, d) of the polynomial at x (d,)."""
        return self.corners.expand(self.rows(x))

    def rows(self, x: Array, second: bool = False) -> Array:
        """Return the coefficients (1 + d, r) of value and slopes, with `second` also of the second
        derivatives (0, 0), (0, 1), ..., (1, 1), ..."""
        orders = derivative_orders(self.dim, second)
        out = (
            products(
                (check_query(x, self.domain) - self.centre) / self.half,
                self.degree,
                self.powers,
                orders,
            )
            @ self.coefficients
        )
        return out / np.prod(self.half**orders, axis=1)[:, None]

    def _check_budget(self) -> None:
        corners, count = self.corners, len(self.points)
        elsewhere = corners.evaluations - sum(corners.known(x[None]) for x in self.points)
        if corners.budget is not None and elsewhere + count > corners.budget:
            spent = f", of which {elsewhere} are used for other points" if elsewhere else ""
            raise SampleError(
                f"Degree {self.degree} in {counted(self.dim, 'dimension')} takes {count} exact "
                f"evaluations, but the budget is {corners.budget}{spent}. Raise it to "
                f"{elsewhere + count}, or lower the degree."
            )

    def _fit(self, t: Array, found: list[Corner]) -> Array:
        """Return the least-squares coefficients (m, r) from the corners at t (n_points, d) in
        [-1, 1]^d."""
        d, m = self.dim, len(self.powers)
        good = np.array([not corner.failed for corner in found])
        self._require_enough(good, found)
        orders = derivative_orders(d, False)
        A = np.stack(
            [products(place, self.degree, self.powers, orders) for place in t[good]]
        )  # (n, 1 + d, m)
        b = _stacked([corner.rows for corner in found if not corner.failed])  # (n, 1 + d, r)
        if b.shape[2] == 0:  # a compressed constant: LAPACK needs at least one right-hand side
            return np.zeros((m, 0))
        b[:, 1:] *= self.half[:, None]
        # Slopes with respect to the angle arccos t, in which each T_k is a cosine. Slopes with
        # respect to t would dominate near the faces.
        weight = np.column_stack([np.ones(good.sum()), np.sqrt(1.0 - t[good] ** 2)])[..., None]
        solution, _, rank, _ = lstsq(
            (weight * A).reshape(-1, m),
            (weight * b).reshape(len(weight) * (1 + d), -1),
            cond=RANK_TOLERANCE,
            lapack_driver="gelsy",
            check_finite=False,
        )
        if rank < m:
            raise SampleError(
                f"The {good.sum()} exact values and slopes do not determine {m - rank} of the {m} "
                f"coefficients of degree {self.degree}. Raise the oversampling from "
                f"{self.oversampling:g}, or lower the degree."
            )
        return solution

    def _require_enough(self, good: Array, found: list[Corner]) -> None:
        m, equations = len(self.powers), int(good.sum()) * (1 + self.dim)
        if equations < m:
            k, n_failed = int(np.argmin(good)), int((~good).sum())
            at = np.array2string(self.points[k], precision=5)
            raise SampleError(
                f"The exact map has no value at {n_failed} of {good.size} points (first: {at}, "
                f"{found[k].failed}), and the others give {equations} equations for the {m} "
                f"coefficients of degree {self.degree}. Shrink the domain, raise the "
                "oversampling, or lower the degree."
            )


def _finite_domain(domain: object, dim: int) -> Domain:
    lower, upper = check_domain(domain, dim)
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper))):
        raise InputError(
            f"The domain goes from {lower} to {upper}. Give finite bounds along every axis: a "
            "polynomial needs a finite box."
        )
    return lower, upper


def _stacked(rows: list[Array]) -> Array:
    """Return rows of different widths as (n, 1 + d, r), padded with zeros."""
    out = np.zeros((len(rows), len(rows[0]), max(part.shape[1] for part in rows)))
    for k, part in enumerate(rows):
        out[k, :, : part.shape[1]] = part
    return out


def total_degree(d: int, n: int) -> Array:
    """Return the exponents (m, d) of d axes with sum at most n, by stars and bars."""
    return np.diff(list(combinations(range(n + d), d)), axis=1, prepend=-1) - 1


def nested_points(count: int, d: int) -> Array:
    """Return the first points (count, d) in [-1, 1]^d of a low-discrepancy sequence in the angle:
    multiples of powers of a generalised golden ratio."""
    golden = 2.0
    for _ in range(64):  # golden^(d + 1) = golden + 1
        golden = (1.0 + golden) ** (1.0 / (d + 1))
    angles = (0.5 + np.arange(1, count + 1)[:, None] * golden ** -np.arange(1.0, d + 1.0)) % 1.0
    # rounded, since the last bits of a cosine differ between machines
    return np.round(np.cos(np.pi * angles) * 2.0**32) / 2.0**32


@lru_cache
def derivative_orders(d: int, second: bool) -> Array:
    """Return the order of differentiation of each row along each axis: (1 + d, d), with `second`
    (1 + d + d (d + 1) / 2, d)."""
    axis = np.eye(d, dtype=np.int64)
    pairs = [axis[i] + axis[j] for i in range(d) for j in range(i, d)] if second else []
    return np.vstack([0 * axis[:1], axis, *pairs])


@njit(error_model="numpy", cache=True)
def products(t: Any, n: Any, powers: Any, orders: Any) -> Any:
    """Return the products (rows, m) of Chebyshev polynomials of degrees `powers` (m, d) at t (d,),
    differentiated by `orders` (rows, d)."""
    d = len(t)
    T = np.zeros((d, 3, n + 1))  # T_k, T_k' and T_k''
    for i in range(d):
        T[i, 0, 0], T[i, 0, 1], T[i, 1, 1] = 1.0, t[i], 1.0
        for k in range(2, n + 1):
            for order in range(3):
                T[i, order, k] = 2.0 * t[i] * T[i, order, k - 1] - T[i, order, k - 2]
                if order:
                    T[i, order, k] += 2.0 * order * T[i, order - 1, k - 1]
    out = np.ones((len(orders), len(powers)))
    for row in range(len(orders)):
        for j in range(len(powers)):
            for i in range(d):
                out[row, j] *= T[i, orders[row, i], powers[j, i]]
    return out
