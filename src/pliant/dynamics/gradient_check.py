"""Checks of every derivative of a step against finite differences, by Taylor's test: the remainder
must decrease with the square of the perturbation."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pliant.core import (
    Array,
    Linearizable,
    Param,
    Reversible,
    Step,
    StepError,
    check_controls,
    finite_array,
)

SCALES = (1e-3, 1e-2, 1e-1)  # perturbations relative to the size of the input, tried in turn
SIZES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # of the perturbations, relative to the scale


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result for one derivative: the order of its Taylor remainder (2 is correct), its relative
    error, and the difference of jvp and vjp."""

    name: str
    slope: float
    # relative to a second-order difference: central, or one-sided near a control limit
    error: float
    duality: float  # relative |<w, J d> - <J^T w, d>|; zero if the model has only J^T
    exact: bool = False  # the step is linear in this input, so it has no remainder

    @property
    def ok(self) -> bool:
        return (
            self.duality < 1e-8
            and self.error < 1e-5
            and (self.exact or abs(self.slope - 2.0) <= 0.1)
        )


def gradcheck(
    model: Reversible, x: Array, u: Array, p: Array | None = None, *, k: int = 0, seed: int = 0
) -> list[Check]:
    """Check dx'/dx (part by part), dx'/du and dx'/dp (block by block) of the step from a state x
    under a control u. Return one Check for each.

    A model with only a pullback is checked on a random linear combination of the new state. Raises
    StepError if the step fails.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> checks = pl.gradcheck(model, np.array([0.1, 0.2, 0.3, 0.4]), np.ones(2))
    >>> all(check.ok for check in checks)
    True
    """
    x, u = finite_array("The state", x, (model.space.size,)), check_controls(u, model.n_controls)
    p = (
        model.params.flat
        if p is None
        else finite_array("The parameter vector", p, (model.params.size,))
    )
    rng = np.random.default_rng(seed)
    step = _checked(model, x, u, p, k)
    derivative = (
        _StateDerivative(model, step)
        if isinstance(model, Linearizable)
        else _ProjectedDerivative(model, step, rng)
    )
    tests = []
    # a body of one point has no extent
    extent, ends = float(np.ptp(x[: model.space.n_dofs])) or 1.0, model.space.starts
    for part, first, end in zip(
        model.space.parts, ends, ends[1:], strict=False
    ):  # a thousandth of the extent is far less than a cell
        dx = np.zeros_like(x)
        scale = 0.1 * float(np.abs(x[first:end]).max()) if part in ("velocity", "affine") else 0.0
        minimum = 2e-3 if part == "deformation" else 2e-3 * extent
        dx[first:end] = rng.standard_normal(end - first) * max(scale, minimum)
        tests.append((part, dx, np.zeros_like(u), np.zeros_like(p)))
    if u.size:
        du = rng.standard_normal(u.size) * np.maximum(np.abs(u), 1e-3)
        tests.append(
            ("control", np.zeros_like(x), _inward(u, du, *model.control_limits()), np.zeros_like(p))
        )
    start = 0
    for block in model.params.blocks:
        own = slice(start, start + block.value.size)
        dp = np.zeros_like(p)
        dp[own] = 0.3 * rng.standard_normal(block.value.size) * _parameter_scale(block, p[own])
        bounds = np.full((2, block.value.size), [[block.lower], [block.upper]])
        dp[own] = _inward(p[own], dp[own], *bounds)
        tests.append((block.name, np.zeros_like(x), np.zeros_like(u), dp))
        start += block.value.size
    return [
        _check(model, (x, u, p), k, name, (dx, du, dp), derivative, rng)
        for name, dx, du, dp in tests
    ]


# sizes of parameters that may be zero, by unit
TYPICAL = {"-": 0.1, "1/s": 1.0, "s": 1e-2, "m/s^2": 10.0}


def _parameter_scale(block: Param, value: Array) -> Array:
    """Return the size (size,) of a change of a parameter: the one that it states, or its value, or
    a typical value if it is zero."""
    if block.typical is not None:
        return np.full(value.shape, block.typical)
    typical = TYPICAL.get(block.unit, 0.0)
    least = typical if block.unit == "-" else 0.0
    return np.where(value == 0.0, typical, np.maximum(np.abs(value), least))


def _inward(u: Array, du: Array, lower: Array, upper: Array) -> Array:
    """Return changes du (n,) of controls or parameters u, shortened and directed away from a nearby
    limit. Beyond a limit a cable is slack and has no derivative, and a parameter is refused."""
    down, up, longest = (
        u - lower,
        upper - u,
        2.0 * SCALES[-1],
    )  # a one-sided difference goes two steps
    fits = np.minimum(np.abs(du), np.maximum(down, up) / longest)
    return np.where(
        np.minimum(down, up) < longest * np.abs(du), np.where(up >= down, fits, -fits), du
    )


def _checked(model: Reversible, x: Array, u: Array, p: Array, k: int) -> Step:
    step = model.step(x, u, p, k)
    if not step.status:
        raise StepError(f"The step to be checked failed: {step.status.text}")
    return step


class _StateDerivative:
    """The new state, and its directional derivative by jvp and vjp."""

    def __init__(self, model: Linearizable, step: Step) -> None:
        self.lin, self.now, self.size = model.linearize(step), step.x, float(np.linalg.norm(step.x))

    def project(self, x: Array) -> Array:
        return x

    def directional(
        self, direction: tuple[Array, ...], rng: np.random.Generator
    ) -> tuple[Array, float]:
        J = self.lin.jvp(*direction)
        w = rng.standard_normal(J.size)
        forward, reverse = (
            float(w @ J),
            float(sum(b @ d for b, d in zip(self.lin.vjp(w), direction, strict=True))),
        )
        return J, abs(forward - reverse) / max(
            abs(forward), 1e-12 * float(np.linalg.norm(w) * np.linalg.norm(self.now))
        )


class _ProjectedDerivative:
    """A random linear combination of the new state, and its directional derivative by pullback."""

    def __init__(self, model: Reversible, step: Step, rng: np.random.Generator) -> None:
        ends = model.space.starts
        sizes = [
            max(float(np.abs(step.x[a:b]).max()), 1e-3) for a, b in pairwise(ends)
        ]  # balances the parts
        self.weights = rng.standard_normal(step.x.size) / np.repeat(sizes, np.diff(ends))
        self.back, self.now = model.pullback(step, self.weights), self.project(step.x)
        self.size = float(np.linalg.norm(self.weights * step.x))

    def project(self, x: Array) -> Array:
        return np.array([self.weights @ x])

    def directional(
        self, direction: tuple[Array, ...], rng: np.random.Generator
    ) -> tuple[Array, float]:
        return np.array([float(sum(b @ d for b, d in zip(self.back, direction, strict=True)))]), 0.0


def _check(
    model: Any, at: Any, k: Any, name: Any, direction: Any, derivative: Any, rng: Any
) -> Check:
    J, duality = derivative.directional(direction, rng)
    x_new = derivative.now
    x, u, p = at
    dx, du, dp = direction
    move = lambda e: derivative.project(_checked(model, x + e * dx, u + e * du, p + e * dp, k).x)
    if not J.any():  # the step claims not to depend on this input: check that it does not
        size = np.linalg.norm(
            np.concatenate(direction)
        )  # a long step may tighten a slack cable, a short one is lost in round-off
        change = min(float(np.linalg.norm(move(e) - x_new) / (e * size)) for e in SCALES)
        return Check(name=name, slope=np.nan, error=change, duality=float(duality), exact=True)
    noise = 1e-12 * derivative.size
    slope, sizes = (
        np.nan,
        np.array([SCALES[-1]]),
    )  # without a remainder, the largest step has the least round-off
    for scale in SCALES:  # the smallest perturbation whose remainder exceeds round-off
        trial = scale * np.array(SIZES)
        remainders = np.array([np.linalg.norm(move(e) - x_new - e * J) for e in trial])
        clear = remainders > 30.0 * noise
        if clear.sum() >= 3:
            slope, sizes = (
                float(np.polyfit(np.log(trial[clear]), np.log(remainders[clear]), 1)[0]),
                trial,
            )
            break
    e = sizes[-1]
    lower, upper = model.control_limits()
    central = np.all((u - e * du >= np.minimum(lower, u)) & (u - e * du <= np.maximum(upper, u)))
    lower, upper = model.params.bounds
    central &= np.all((p - e * dp >= np.minimum(lower, p)) & (p - e * dp <= np.maximum(upper, p)))
    found = (
        (move(e) - move(-e)) / (2.0 * e)
        if central
        else (4.0 * move(e) - move(2.0 * e) - 3.0 * x_new) / (2.0 * e)
    )
    error = float(np.linalg.norm(found - J) / max(np.linalg.norm(J), 1e3 * noise / e))
    return Check(
        name=name, slope=slope, error=error, duality=float(duality), exact=bool(np.isnan(slope))
    )
