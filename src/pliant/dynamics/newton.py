"""Newton's method on an incremental potential, with a line search that a barrier law cannot
fool."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Status,
    is_whole,
    quoted,
    require_number,
)
from pliant.linalg import Solve


@dataclass(frozen=True, kw_only=True)
class Newton:
    """How far and how hard to try."""

    tolerance: float = 1e-10  # residual force relative to the largest force at work
    iterations: int = 100

    def __post_init__(self) -> None:
        tolerance = require_number("Newton's tolerance", self.tolerance, "-")
        if not (0.0 < tolerance < 1.0 and is_whole(self.iterations) and self.iterations >= 1):
            raise InputError(
                f"Newton's tolerance {tolerance:g} must lie between 0 and 1, and its iterations "
                f"({quoted(self.iterations)}) be a whole number of 1 or more."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Potential:
    """A function to minimise over the free unknowns z."""

    evaluate: Callable[
        [Array], tuple[float, Array, float]
    ]  # value, infinite where not allowed; gradient; largest force at work [N]
    factor: Callable[
        [Array, bool], Solve | None
    ]  # (z, made positive?) -> solve with the Hessian, None where not positive
    floor: float  # [N] what round-off alone leaves of the gradient
    noise: float  # [J] what round-off makes of the value
    remedy: str = "start closer to the minimum"


def minimise(potential: Potential, z: Array, newton: Newton) -> tuple[Array, Status]:
    """The minimiser found from z, and why the search stopped; what overflows on the way is caught
    as not finite."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _minimise(potential, z, newton)


def _minimise(potential: Potential, z: Array, newton: Newton) -> tuple[Array, Status]:
    value, g, scale = potential.evaluate(z)
    if not np.isfinite(value):
        return z, Status(
            ok=False,
            text="The start of the step is inverted or not finite, so its energy is unbounded; "
            "start from a state without inverted cells, move supports more slowly, or use the law "
            "'fixed-corotated', which recovers.",
        )
    solve: Solve | None = None
    for iteration in range(newton.iterations + 1):
        residual = float(np.abs(g).max(initial=0.0))
        # A start that already satisfies the tolerance gets one iteration all the same: warm starts
        # would creep otherwise.
        if residual <= max(newton.tolerance * scale if iteration else 0.0, potential.floor):
            return z, Status(iterations=iteration, residual=residual)
        if iteration == newton.iterations or not np.isfinite(residual):
            break
        found, settled = _chord(potential, z, value, g, solve), False
        if found is None:
            found, solve, settled = _descend(
                potential, z, value, g, at_rest=residual <= AT_REST * scale
            )
        if found is None:
            if settled:
                return z, Status(
                    text="converged to round-off", iterations=iteration, residual=residual
                )
            return z, Status(
                ok=False,
                text=f"No step lowers the energy any more (residual {residual:.2e} N after "
                f"{iteration} iterations); {potential.remedy}.",
                iterations=iteration,
                residual=residual,
            )
        z, value, g, scale = found
    return z, Status(
        ok=False,
        text=f"Newton did not converge in {iteration} iterations (residual {residual:.2e} N "
        f"against forces of {scale:.2e} N); {potential.remedy}.",
        iterations=iteration,
        residual=residual,
    )


AT_REST = 1e-6  # residual relative to the largest force at work, where the value shows no more
Point = tuple[Array, float, Array, float]  # z, value, gradient, largest force


def _chord(
    potential: Potential, z: Array, value: float, g: Array, solve: Solve | None
) -> Point | None:
    """A step with the last iteration's factor, kept only where it takes nine tenths off the
    residual: near the end a solve with an old factor does what a new factorisation would."""
    if solve is None:
        return None
    trial = z - solve(g)
    new, g_new, scale = potential.evaluate(trial)
    good = (
        np.isfinite(new)
        and new <= value + 10.0 * _noise(potential, value)
        and np.abs(g_new).max() <= 0.1 * np.abs(g).max()
    )
    return (trial, new, g_new, scale) if good else None


def _descend(
    potential: Potential, z: Array, value: float, g: Array, *, at_rest: bool
) -> tuple[Point | None, Solve | None, bool]:
    """A point of lower value along Newton's direction: the exact Hessian where it is positive, else
    the projected one; with the exact Hessian's solve, for chords. The last is True where there is
    none because all that is left to gain is round-off; with the projected one, as in a balance that
    the least push ends, that counts only `at_rest`."""
    for project in (False, True):
        solve = potential.factor(z, project)
        if solve is None:
            continue
        d = -solve(g)
        slope = float(g @ d)
        if np.isfinite(slope) and slope < 0.0:
            found = _line_search(potential, z, value, g, d)
            if found is not None:
                return found, None if project else solve, False
            if -slope <= _noise(potential, value) and (at_rest or not project):
                return None, None, True
    return None, None, False


def _noise(potential: Potential, value: float) -> float:
    """[J] differences of the value below this are round-off."""
    return potential.noise + 1e-14 * abs(value)


def _line_search(potential: Potential, z: Array, value: float, g: Array, d: Array) -> Point | None:
    """Halve until the value falls enough (Armijo); at the end of the road, where the value is all
    round-off, trust the gradient."""
    slope, t, noise = float(g @ d), 1.0, _noise(potential, value)
    while t > 1e-13:
        trial = z + t * d
        new, g_new, scale = potential.evaluate(trial)
        settles = (
            t == 1.0 and new <= value + 10.0 * noise and np.abs(g_new).max() < 0.5 * np.abs(g).max()
        )
        if np.isfinite(new) and (settles or (new <= value + 1e-4 * t * slope and -slope > noise)):
            return trial, new, g_new, scale
        if -slope <= noise and np.isfinite(new):
            return None
        t *= 0.5
    return None
