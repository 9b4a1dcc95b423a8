"""Newton's method for an incremental potential, with a line search that handles barrier
energies."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Status,
    counted,
    is_integer,
    quoted,
    require_number,
)
from pliant.linalg import Solve


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """The stopping criteria of Newton's method.

    >>> import pliant as pl
    >>> options = pl.SolverOptions(tolerance=1e-10)
    """

    tolerance: float = 1e-10  # residual force relative to the largest acting force
    iterations: int = 100  # the largest number of iterations

    def __post_init__(self) -> None:
        tolerance = require_number("Newton's tolerance", self.tolerance, "-")
        if not (0.0 < tolerance < 1.0 and is_integer(self.iterations) and self.iterations >= 1):
            raise InputError(
                f"Newton's tolerance {tolerance:g} must lie between 0 and 1, and its iterations "
                f"({quoted(self.iterations)}) must be an integer of 1 or more."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyFunction:
    """A function to minimise over the free unknowns z."""

    # z -> value (infinite if inadmissible), gradient, largest acting force [N]
    evaluate: Callable[[Array], tuple[float, Array, float]]
    # (z, project to positive definite) -> solve with the Hessian; None if not positive definite
    factor: Callable[[Array, bool], Solve | None]
    gradient_floor: float  # [N] round-off of the gradient
    value_noise: float  # [J] round-off of the value
    remedy: str = "start closer to the minimum"


def minimise(potential: EnergyFunction, z: Array, options: SolverOptions) -> tuple[Array, Status]:
    """Minimise a potential from z. Return the minimiser and the status. Overflow is treated as an
    infinite value."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _minimise(potential, z, options)


def _minimise(potential: EnergyFunction, z: Array, options: SolverOptions) -> tuple[Array, Status]:
    value, g, scale = potential.evaluate(z)
    if not np.isfinite(value):
        return z, Status(
            ok=False,
            text="The start of the step is inverted or not finite, so its energy is unbounded; "
            "start from a state without inverted cells, move supports more slowly, or use the law "
            "'fixed-corotated', which recovers.",
        )
    solve: Solve | None = None
    for iteration in range(options.iterations + 1):
        residual = float(np.abs(g).max(initial=0.0))
        # A start within the tolerance still gets one iteration; otherwise warm starts would drift.
        if residual <= max(
            options.tolerance * scale if iteration else 0.0, potential.gradient_floor
        ):
            return z, Status(iterations=iteration, residual=residual)
        if iteration == options.iterations or not np.isfinite(residual):
            break
        found, at_round_off = _chord(potential, z, value, g, solve), False
        if found is None:
            found, solve, at_round_off = _descend(
                potential, z, value, g, at_rest=residual <= AT_REST * scale
            )
        if found is None:
            if at_round_off:
                return z, Status(
                    text="converged to round-off", iterations=iteration, residual=residual
                )
            return z, Status(
                ok=False,
                text=f"No step lowers the energy any more (residual {residual:.2e} N after "
                f"{counted(iteration, 'iteration')}); {potential.remedy}.",
                iterations=iteration,
                residual=residual,
            )
        z, value, g, scale = found
    return z, Status(
        ok=False,
        text=f"Newton did not converge in {counted(iteration, 'iteration')} (residual "
        f"{residual:.2e} N against forces of {scale:.2e} N); {potential.remedy}.",
        iterations=iteration,
        residual=residual,
    )


AT_REST = 1e-6  # residual relative to the largest force, below which the value is all round-off
Point = tuple[Array, float, Array, float]  # z, value, gradient, largest force


def _chord(
    potential: EnergyFunction, z: Array, value: float, g: Array, solve: Solve | None
) -> Point | None:
    """Return the step with the last iteration's factor, or None unless it reduces the residual to a
    tenth. Near the solution an old factor replaces a new factorisation."""
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
    potential: EnergyFunction, z: Array, value: float, g: Array, *, at_rest: bool
) -> tuple[Point | None, Solve | None, bool]:
    """Return a point of lower value along Newton's direction, the exact Hessian's solve for later
    chord steps, and whether only round-off is left to gain.

    The Hessian is exact if it is positive definite and projected otherwise. With the projected one,
    as in an unstable equilibrium, round-off is accepted only if `at_rest`."""
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


def _noise(potential: EnergyFunction, value: float) -> float:
    """Return the energy [J] below which differences of the value are round-off."""
    return potential.value_noise + 1e-14 * abs(value)


def _line_search(
    potential: EnergyFunction, z: Array, value: float, g: Array, d: Array
) -> Point | None:
    """Halve the step until the value decreases enough (Armijo). If the value is all round-off,
    accept a step that halves the gradient. Return None if there is none."""
    slope, t, noise = float(g @ d), 1.0, _noise(potential, value)
    while t > 1e-13:
        trial = z + t * d
        new, g_new, scale = potential.evaluate(trial)
        gradient_halves = (
            t == 1.0 and new <= value + 10.0 * noise and np.abs(g_new).max() < 0.5 * np.abs(g).max()
        )
        if np.isfinite(new) and (
            gradient_halves or (new <= value + 1e-4 * t * slope and -slope > noise)
        ):
            return trial, new, g_new, scale
        if -slope <= noise and np.isfinite(new):
            return None
        t *= 0.5
    return None
