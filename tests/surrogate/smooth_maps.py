"""Smooth maps R^d -> R^N with exact derivatives, for the tests of surrogates."""

from itertools import product

import numpy as np
from scipy.special import perm


def powers_up_to(d, n):
    """Return the powers (m, d) of all monomials of total degree <= n."""
    return np.array([p for p in product(range(n + 1), repeat=d) if sum(p) <= n])


class Polynomial:
    """A random polynomial of total degree n with d inputs."""

    def __init__(self, rng, d, n, outputs=2):
        self.powers = powers_up_to(d, n)
        self.coefficients = rng.standard_normal((len(self.powers), outputs))

    def derivative(self, x, orders):
        """Return the partial derivative (outputs,) with `orders` (d,) along the axes."""
        return (
            np.prod(perm(self.powers, orders) * x ** np.maximum(self.powers - orders, 0), axis=1)
            @ self.coefficients
        )

    def __call__(self, x, near=None):
        d = len(x)
        return self.derivative(x, np.zeros(d, int)), np.column_stack(
            [self.derivative(x, axis) for axis in np.eye(d, dtype=int)]
        )


def waves(x, near=None):
    """Return the values (3,) and slopes (3, d) of three smooth non-separable functions."""
    a, b = np.linspace(0.6, 1.1, len(x)), np.linspace(0.5, -0.4, len(x))
    phase, hill, growth = a @ x + 0.3 * x @ x, 1.0 / (1.0 + 0.3 * x @ x), np.exp(b @ x)
    return np.array([np.sin(phase), hill, growth]), np.array(
        [np.cos(phase) * (a + 0.6 * x), -0.6 * hill**2 * x, growth * b]
    )


class CountingMap:
    """A map that stores the points of its evaluations."""

    def __init__(self, f):
        self.f, self.points = f, []

    def __call__(self, x, near=None):
        self.points.append(np.array(x))
        return self.f(x, near)


def rms_errors(surrogate, f, points):
    """Return the root mean square errors of the values and slopes of a surrogate."""
    errors = [[got - want for got, want in zip(surrogate(x), f(x), strict=True)] for x in points]
    return tuple(float(np.sqrt(np.mean(np.square([pair[k] for pair in errors])))) for k in (0, 1))


def central_difference(f, x, e):
    """Return the central differences (n, d) of f: R^d -> R^n with step e."""
    return np.column_stack(
        [(f(x + e * axis) - f(x - e * axis)) / (2.0 * e) for axis in np.eye(len(x))]
    )


def hessians(rows, d):
    """Return the Hessians (r, d, d) of the last d (d + 1) / 2 rows of `rows`.

    The shape of `rows` is (1 + d + d (d + 1) / 2, r): value, slope and second derivatives.
    """
    out = np.empty((rows.shape[1], d, d))
    i, j = np.triu_indices(d)
    out[:, i, j] = out[:, j, i] = rows[1 + d :].T
    return out
