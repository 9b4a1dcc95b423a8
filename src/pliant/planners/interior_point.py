"""A primal-dual interior point method for linear-quadratic stages with limits.

It minimises f(d) + penalty s with s >= 0 and v(d) + s >= 0 for one-sided conditions v, where s = 0
without penalty. Each iteration has one factorisation and two solves (Mehrotra's predictor and
corrector). The factorisation is that of f with weights of the conditions on its Hessian, here a
Riccati recursion over a reduced horizon.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pliant.core import Array

MAX_ITERATIONS = 60  # about 10 to 20 are needed
TO_BOUNDARY = 0.995  # of the largest step to a bound


class Factorised(Protocol):
    """The Hessian of f plus weights of the limited values."""

    def solve(self, gradient: Array) -> Array: ...  # the minimiser of the model with this gradient


class LimitedModel(Protocol):
    """A quadratic function f and limited values y, linear in d."""

    def gradient_at(self, d: Array) -> Array: ...  # of f
    def values_change(self, d: Array) -> Array: ...  # of y (n,)
    def vjp(self, z: Array) -> Array: ...  # the transpose of the change of y
    def factorise(self, weights: Array) -> Factorised: ...  # weights (n,) of y


@dataclass(frozen=True, kw_only=True, eq=False)
class Conditions:
    """One-sided conditions sign y[index] >= bound on values y, with their penalties."""

    index: Array  # (m,)
    sign: Array  # (m,) 1.0 for lower and -1.0 for upper bounds
    bound: Array  # (m,)
    penalty: Array  # (m,) of a violation; infinite for conditions that must hold
    size: int  # of y

    @classmethod
    def between(cls, lower: Array, upper: Array, penalty: Array) -> "Conditions":
        """Return the finite bounds lower <= y <= upper."""
        at = [np.flatnonzero(np.isfinite(side)) for side in (lower, upper)]
        return cls(
            index=np.concatenate(at),
            sign=np.repeat([1.0, -1.0], [len(at[0]), len(at[1])]),
            bound=np.concatenate([lower[at[0]], -upper[at[1]]]),
            penalty=penalty[np.concatenate(at)],
            size=len(lower),
        )

    def values(self, y: Array) -> Array:
        """Return v = sign y - bound (m,)."""
        return self.sign * y[self.index] - self.bound

    def spread(self, z: Array) -> Array:
        """Return the sum (size,) of numbers (m,) of the conditions of each value."""
        return np.bincount(self.index, z, self.size)


@dataclass
class _Point:
    """The variables of the method: the change d, the slacks and the multipliers."""

    d: Array
    slack: Array  # (m,) of v + s
    z: Array  # (m,) multipliers of the conditions
    s: Array  # (m,) violations of the conditions with a penalty
    w: Array  # (m,) multipliers of s >= 0

    def moved(self, step: "_Point", length: float) -> "_Point":
        pairs = zip(vars(self).values(), vars(step).values(), strict=True)
        return _Point(*(value + length * change for value, change in pairs))

    def longest(self, step: "_Point") -> float:
        """Return the largest step, at most 1, that keeps slacks and multipliers positive."""
        ratios = [1.0]
        for name in ("slack", "z", "s", "w"):
            value, change = getattr(self, name), getattr(step, name)
            down = change < 0.0
            ratios.append(float(np.min(-value[down] / change[down], initial=1.0)))
        return min(ratios)


@dataclass(frozen=True, kw_only=True, eq=False)
class InteriorPointResult:
    """The minimiser, and whether the optimality conditions hold to the tolerance."""

    d: Array
    multipliers: Array  # (size of y,) of the upper minus the lower bounds
    iterations: int
    converged: bool


def minimise_within_limits(
    model: LimitedModel, conditions: Conditions, shape: tuple[int, ...], tolerance: float = 1e-10
) -> InteriorPointResult:
    """Minimise a quadratic function with limits on values that are linear in d.

    `tolerance` is relative to the gradient at d = 0 and to the bounds. The decrease is exact to a
    hundredth of it, because it is quadratic in the error of d.
    """
    soft = np.isfinite(conditions.penalty)
    rho = np.where(soft, conditions.penalty, 0.0)
    g0 = model.gradient_at(np.zeros(shape))
    free = model.factorise(np.zeros(conditions.size)).solve(g0)
    gain = max(-0.5 * float(np.sum(g0 * free)), 1e-300)
    at = _start(conditions, soft, rho, gain, model.values_change(free), free)
    size = max(float(np.abs(g0).max()), 1e-300)
    reach = np.abs(conditions.values(np.zeros(conditions.size))).max(initial=0.0) + 1e-300
    pairs = len(rho) + int(soft.sum())
    for done in range(MAX_ITERATIONS + 1):
        force = conditions.spread(conditions.sign * at.z)
        slope = model.gradient_at(at.d) - model.vjp(force)
        gap = conditions.values(model.values_change(at.d)) + at.s - at.slack
        mu = float(at.slack @ at.z + at.s @ at.w) / max(pairs, 1)
        is_optimal = (
            float(np.abs(slope).max()) <= tolerance * size
            and float(np.abs(gap).max(initial=0.0)) <= tolerance * reach
            and mu * pairs <= 0.01 * tolerance * gain
        )
        if is_optimal or done == MAX_ITERATIONS:
            return InteriorPointResult(
                d=at.d, multipliers=-force, iterations=done, converged=is_optimal
            )
        step = _Newton(model=model, conditions=conditions, soft=soft, at=at, slope=slope, gap=gap)
        try:
            move = step.predicted_and_corrected(mu, pairs)
        except np.linalg.LinAlgError:  # the weights of active conditions exceed round-off
            return InteriorPointResult(d=at.d, multipliers=-force, iterations=done, converged=False)
        at = at.moved(move, TO_BOUNDARY * at.longest(move))
    raise AssertionError("unreachable")


def _start(
    conditions: Conditions, soft: Array, rho: Array, gain: float, y: Array, free: Array
) -> _Point:
    """Return the minimiser without conditions, with slacks of its distance to the bounds."""
    v = conditions.values(y)
    margin = 0.1 * (np.abs(conditions.values(np.zeros_like(y))) + np.abs(v)) + 1e-300
    s = np.where(soft, np.maximum(-v, 0.0) + margin, 0.0)
    slack = np.maximum(v + s, margin)
    z = 0.1 * gain / (max(len(v), 1) * slack)
    z = np.where(soft, np.minimum(z, 0.5 * rho), z)
    return _Point(d=free, slack=slack, z=z, s=s, w=np.where(soft, rho - z, 0.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Newton:
    """Newton steps on the perturbed optimality conditions, with one factorisation."""

    model: LimitedModel
    conditions: Conditions
    soft: Array  # (m,) whether a condition has a penalty
    at: _Point
    slope: Array  # the gradient of the Lagrangian
    gap: Array  # (m,) v + s minus the slack

    @cached_property
    def _by_w(self) -> Array:
        return np.where(self.soft, 1.0 / np.where(self.soft, self.at.w, 1.0), 0.0)

    @cached_property
    def _width(self) -> Array:
        return self.at.slack + self.at.z * self.at.s * self._by_w

    @cached_property
    def _factor(self) -> Factorised:
        return self.model.factorise(self.conditions.spread(self.at.z / self._width))

    def predicted_and_corrected(self, mu: float, pairs: int) -> _Point:
        """Return Mehrotra's step from a point with mean complementarity `mu` of `pairs` pairs."""
        at = self.at
        ahead = self.towards(-at.slack * at.z, -at.s * at.w)
        there = at.moved(ahead, at.longest(ahead))
        mu_ahead = float(there.slack @ there.z + there.s @ there.w) / max(pairs, 1)
        centre = mu * (mu_ahead / mu) ** 3
        return self.towards(
            centre - at.slack * at.z - ahead.slack * ahead.z,
            np.where(self.soft, centre, 0.0) - at.s * at.w - ahead.s * ahead.w,
        )

    def towards(self, by_slack: Array, by_s: Array) -> _Point:
        """Return the step for which slack z changes by `by_slack` and s w by `by_s`, linearised."""
        at, conditions = self.at, self.conditions
        constant = (by_slack - at.z * (self.gap + by_s * self._by_w)) / self._width
        bars = self.model.vjp(conditions.spread(conditions.sign * constant))
        d = self._factor.solve(self.slope - bars)
        dv = conditions.sign * self.model.values_change(d)[conditions.index]
        dz = constant - at.z / self._width * dv
        ds = (by_s + at.s * dz) * self._by_w
        return _Point(d=d, slack=dv + ds + self.gap, z=dz, s=ds, w=np.where(self.soft, -dz, 0.0))
