"""Every derivative of a step against finite differences, by Taylor's test: the remainder must fall
with the square of the step."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pliant.core import (
    Array,
    Linearizable,
    Reversible,
    Step,
    StepError,
    check_controls,
    finite_array,
)

SCALES = (1e-3, 1e-2, 1e-1)  # perturbations relative to the input's natural size, tried in turn
SIZES = (1.0, 0.5, 0.25, 0.125, 0.0625)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One derivative: how fast its remainder falls (2 is right), its relative error and the gap
    between jvp and vjp."""

    name: str
    slope: float
    # of the derivative against a difference of second order: central, or away from a limit of the
    # controls
    error: float
    duality: float  # |<w, J d> - <J^T w, d>| relative; zero where the model has only J^T
    exact: bool = False  # the step is linear in this input, so that there is no remainder to fall

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
    under a control u. Of a model that can only be gone back over, a random mixture of the new state
    is looked at."""
    x, u = finite_array("The state", x, (model.space.size,)), check_controls(u, model.n_controls)
    p = (
        model.params.flat
        if p is None
        else finite_array("The parameter vector", p, (model.params.size,))
    )
    rng = np.random.default_rng(seed)
    step = _checked(model, x, u, p, k)
    derivative = (
        _Whole(model, step) if isinstance(model, Linearizable) else _Mixed(model, step, rng)
    )
    tests = []
    extent, ends = float(np.ptp(x[: model.space.n_dofs])), model.space.starts
    for part, first, end in zip(
        model.space.parts, ends, ends[1:], strict=False
    ):  # a thousandth of the extent is far less than a cell
        dx = np.zeros_like(x)
        reach = 0.1 * float(np.abs(x[first:end]).max()) if part in ("velocity", "affine") else 0.0
        least = 2e-3 if part == "deformation" else 2e-3 * extent
        dx[first:end] = rng.standard_normal(end - first) * max(reach, least)
        tests.append((part, dx, np.zeros_like(u), np.zeros_like(p)))
    if u.size:
        du = rng.standard_normal(u.size) * np.maximum(np.abs(u), 1e-3)
        tests.append(
            ("control", np.zeros_like(x), _inward(u, du, *model.control_limits()), np.zeros_like(p))
        )
    start = 0
    for block in model.params.blocks:
        dp = np.zeros_like(p)
        dp[start : start + block.value.size] = (
            rng.standard_normal(block.value.size)
            * np.maximum(np.abs(block.value), 0.1 if block.unit == "-" else 0.0)
            * 0.3
        )
        tests.append((block.name, np.zeros_like(x), np.zeros_like(u), dp))
        start += block.value.size
    return [
        _check(model, (x, u, p), k, name, (dx, du, dp), derivative, rng)
        for name, dx, du, dp in tests
    ]


def _inward(u: Array, du: Array, lower: Array, upper: Array) -> Array:
    """(n_controls,) du turned to the side with more room, and short enough for it, where a limit is
    near: beyond one a cable is slack, and has no derivative to be compared."""
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


class _Whole:
    """The new state itself, and its derivative along a direction beside the transposed one."""

    def __init__(self, model: Linearizable, step: Step) -> None:
        self.lin, self.now, self.size = model.linearize(step), step.x, float(np.linalg.norm(step.x))

    def see(self, x: Array) -> Array:
        return x

    def along(self, direction: tuple[Array, ...], rng: np.random.Generator) -> tuple[Array, float]:
        J = self.lin.jvp(*direction)
        w = rng.standard_normal(J.size)
        forward, reverse = (
            float(w @ J),
            float(sum(b @ d for b, d in zip(self.lin.vjp(w), direction, strict=True))),
        )
        return J, abs(forward - reverse) / max(
            abs(forward), 1e-12 * float(np.linalg.norm(w) * np.linalg.norm(self.now))
        )


class _Mixed:
    """A random mixture of the new state, and its derivative along a direction by the pullback."""

    def __init__(self, model: Reversible, step: Step, rng: np.random.Generator) -> None:
        ends = model.space.starts
        sizes = [
            max(float(np.abs(step.x[a:b]).max()), 1e-3) for a, b in pairwise(ends)
        ]  # so that no part hides another
        self.weights = rng.standard_normal(step.x.size) / np.repeat(sizes, np.diff(ends))
        self.back, self.now = model.pullback(step, self.weights), self.see(step.x)
        self.size = float(np.linalg.norm(self.weights * step.x))

    def see(self, x: Array) -> Array:
        return np.array([self.weights @ x])

    def along(self, direction: tuple[Array, ...], rng: np.random.Generator) -> tuple[Array, float]:
        return np.array([float(sum(b @ d for b, d in zip(self.back, direction, strict=True)))]), 0.0


def _check(model, at, k, name, direction, derivative, rng) -> Check:
    J, duality = derivative.along(direction, rng)
    x_new = derivative.now
    x, u, p = at
    dx, du, dp = direction
    move = lambda e: derivative.see(_checked(model, x + e * dx, u + e * du, p + e * dp, k).x)
    if (
        not J.any()
    ):  # the step does not depend on this input; then it must not follow a change of it either
        size = np.linalg.norm(
            np.concatenate(direction)
        )  # a long step may take up slack, a short one drown in round-off
        follows = min(float(np.linalg.norm(move(e) - x_new) / (e * size)) for e in SCALES)
        return Check(name=name, slope=np.nan, error=follows, duality=float(duality), exact=True)
    noise = 1e-12 * derivative.size
    slope, sizes = (
        np.nan,
        np.array([SCALES[-1]]),
    )  # where there is no remainder, the largest step has the least round-off
    for scale in SCALES:  # the smallest perturbation whose remainder stands clear of round-off
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
    found = (
        (move(e) - move(-e)) / (2.0 * e)
        if central
        else (4.0 * move(e) - move(2.0 * e) - 3.0 * x_new) / (2.0 * e)
    )
    error = float(np.linalg.norm(found - J) / max(np.linalg.norm(J), 1e3 * noise / e))
    return Check(
        name=name, slope=slope, error=error, duality=float(duality), exact=bool(np.isnan(slope))
    )
