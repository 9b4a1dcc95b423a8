"""Quadratic subproblems within bounds and linear constraints, by PIQP."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array
from pliant.planners.gradient_planner import BfgsHessian, bfgs_hessian
from pliant.planners.trust_region import ControlMetric

# of the violation of a subproblem, relative to its numbers; PIQP solves to 1e-10
FEASIBLE = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Curvature:
    """The Hessian B = (I, F^T) P (I; F) of a quadratic model, with few rows F (k, n)."""

    P: sp.csc_matrix  # (n + k, n + k)
    F: Array  # (k, n)

    def quadratic_form(self, d: Array) -> float:
        """Return d^T B d."""
        both = np.concatenate([d, self.F @ d])
        return float(both @ (self.P @ both))

    def product(self, d: Array) -> Array:
        """Return B d."""
        n = len(d)
        both = self.P @ np.concatenate([d, self.F @ d])
        return both[:n] + self.F.T @ both[n:]


def bfgs_approximation(n: int, first: float, pairs: list[tuple[Array, Array]]) -> BfgsHessian:
    """Return the BFGS Hessian of pairs (change of z, change of the gradient), oldest first. Without
    pairs it is `first` times the identity."""
    identity = ControlMetric(banded=np.ones((1, n)), lower=np.ones((1, n)))
    return bfgs_hessian(identity, first, pairs)


def bfgs_curvature(B: BfgsHessian) -> Curvature:
    """Return a BFGS Hessian with the metric I for a subproblem."""
    n = B.R.shape[0]
    cross = sp.csc_matrix(B.c * B.V)
    P = sp.bmat(
        [[B.c**2 * sp.identity(n), cross], [cross.T, sp.csc_matrix(B.V.T @ B.V)]], format="csc"
    )
    return Curvature(P=sp.csc_matrix(P), F=B.R.T)


def gauss_newton_curvature(jacobian: Array, shift: float) -> Curvature:
    """Return J^T J + shift I for a subproblem."""
    r, n = jacobian.shape
    P = sp.block_diag([shift * sp.identity(n), sp.identity(r)], format="csc")
    return Curvature(P=sp.csc_matrix(P), F=jacobian)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticSolution:
    """The minimiser of a subproblem."""

    d: Array  # (n,)
    multipliers: Array  # (m,) of the constraints: gradient + B d + A^T multipliers + ... = 0
    violation: float  # sum of the violations of the linear constraints


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearConstraints:
    """lower <= A d <= upper."""

    A: Array  # (m, n)
    lower: Array  # (m,)
    upper: Array

    def violation(self, d: Array) -> float:
        """Return the sum of the violations."""
        seen = self.A @ d
        return float(np.sum(np.maximum(np.maximum(self.lower - seen, seen - self.upper), 0.0)))

    @cached_property
    def size(self) -> float:
        """The size of the numbers, for a relative violation."""
        finite = [part[np.isfinite(part)] for part in (self.lower, self.upper)]
        return max(1.0, *(float(np.abs(part).max(initial=0.0)) for part in finite))


def no_constraints(n: int) -> LinearConstraints:
    """Return no constraints on n variables."""
    return LinearConstraints(A=np.zeros((0, n)), lower=np.zeros(0), upper=np.zeros(0))


def minimise_quadratic(
    g: Array,
    curvature: Curvature,
    bounds: tuple[Array, Array],
    linear: LinearConstraints,
    penalty: float | None = None,
) -> QuadraticSolution | None:
    """Minimise g d + 1/2 d B d within bounds on d and linear constraints.

    With a penalty, violated constraints cost penalty times the sum of their violations (elastic
    mode), so there is always a solution. Return None if PIQP finds no numbers.
    """
    import piqp

    n, k, m = len(g), len(curvature.F), len(linear.A)
    slacks = 0 if penalty is None else 2 * m
    size = n + k + slacks
    scale = float(np.abs(g).max(initial=0.0)) or 1.0
    P = sp.block_diag([curvature.P / scale, sp.csc_matrix((slacks, slacks))], format="csc")
    c = np.concatenate([g / scale, np.zeros(k), np.full(slacks, (penalty or 0.0) / scale)])
    rows = _rows(linear, k, slacks)
    equal = linear.lower == linear.upper
    link = sp.hstack(
        [sp.csc_matrix(curvature.F), -sp.identity(k), sp.csc_matrix((k, slacks))], format="csc"
    )
    A = sp.vstack([link, rows[equal]], format="csc")
    b = np.concatenate([np.zeros(k), linear.lower[equal]])
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    low[:n], high[:n] = bounds
    low[n + k :] = 0.0
    if not all(np.all(np.isfinite(part)) for part in (P.data, c, A.data, b, rows.data)):
        return None  # PIQP would not refuse them
    solver = piqp.SparseSolver()
    solver.settings.verbose = False
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    solver.setup(
        P, c, A, b, rows[~equal].tocsc(), linear.lower[~equal], linear.upper[~equal], low, high
    )
    solver.solve()  # its status does not tell an infeasible problem from a slow one
    found = solver.result
    d = np.array(found.x)[:n]
    if not np.all(np.isfinite(d)):
        return None
    d = np.clip(d, *bounds)
    multipliers = np.zeros(m)
    multipliers[equal] = np.array(found.y)[k:]
    multipliers[~equal] = np.array(found.z_u) - np.array(found.z_l)
    multipliers = scale * np.where(np.isfinite(multipliers), multipliers, 0.0)
    return QuadraticSolution(d=d, multipliers=multipliers, violation=linear.violation(d))


def _rows(linear: LinearConstraints, k: int, slacks: int) -> sp.csr_matrix:
    """Return the rows (m, n + k + slacks) of the constraints."""
    m = len(linear.A)
    parts = [sp.csr_matrix(linear.A), sp.csr_matrix((m, k))]
    if slacks:
        parts += [sp.identity(m, format="csr"), -sp.identity(m, format="csr")]
    return sp.csr_matrix(sp.hstack(parts, format="csr"))
