"""Newton's method on an incremental potential, with a line search that a barrier law cannot fool."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, Status
from pliant.linalg import Solve


@dataclass(frozen=True, kw_only=True)
class Newton:
    """How far and how hard to try."""

    tolerance: float = 1e-10  # residual force relative to the largest force at work
    iterations: int = 100

    def __post_init__(self) -> None:
        if not (0.0 < self.tolerance < 1.0 and self.iterations >= 1):
            raise InputError(f"Newton's tolerance {self.tolerance:g} must lie between 0 and 1, and its iterations "
                             f"({self.iterations}) be 1 or more.")  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Potential:
    """A function to minimise over the free unknowns z."""

    value: Callable[[Array], float]  # infinite where not allowed
    gradient: Callable[[Array], tuple[Array, float]]  # and the largest force at work [N]
    factor: Callable[[Array, bool], Solve | None]  # (z, made positive?) -> solve with the Hessian, None where not positive
    floor: float  # [N] what round-off alone leaves of the gradient


def minimise(potential: Potential, z: Array, newton: Newton) -> tuple[Array, Status]:
    """The minimiser found from z, and why the search stopped."""
    value = potential.value(z)
    if not np.isfinite(value):
        return z, Status(ok=False, text="The start of the step is inverted or not finite, so its energy is unbounded; take a smaller "
                         "step, move supports more slowly, or use the law 'fixed-corotated', which recovers.")  # fmt: skip
    for iteration in range(newton.iterations + 1):
        g, scale = potential.gradient(z)
        residual = float(np.abs(g).max(initial=0.0))
        if residual <= max(newton.tolerance * scale, potential.floor):
            return z, Status(iterations=iteration, residual=residual)
        if iteration == newton.iterations or not np.isfinite(residual):
            break
        z_new, value_new = _descend(potential, z, value, g)
        if z_new is None:
            if residual <= 1e-6 * scale:  # round-off in the energy hides what is left
                return z, Status(text="converged to round-off", iterations=iteration, residual=residual)
            return z, Status(ok=False, text=f"No step lowers the energy any more (residual {residual:.2e} N after {iteration} "
                             "iterations); take a smaller time step or approach the load in stages.",
                             iterations=iteration, residual=residual)  # fmt: skip
        z, value = z_new, value_new
    return z, Status(ok=False, text=f"Newton did not converge in {iteration} iterations (residual {residual:.2e} N against forces of "
                     f"{scale:.2e} N); take a smaller time step or approach the load in stages.",
                     iterations=iteration, residual=residual)  # fmt: skip


def _descend(potential: Potential, z: Array, value: float, g: Array) -> tuple[Array | None, float]:
    """A point of lower value along Newton's direction: the exact Hessian where it is positive, else the projected one."""
    for project in (False, True):
        solve = potential.factor(z, project)
        if solve is None:
            continue
        d = -solve(g)
        slope = float(g @ d)
        if not (np.isfinite(slope) and slope < 0.0):
            continue
        found = _line_search(potential, z, value, d, slope)
        if found[0] is not None:
            return found
    return None, value


def _line_search(potential: Potential, z: Array, value: float, d: Array, slope: float) -> tuple[Array | None, float]:
    """Halve until the value falls enough (Armijo); at the end of the road, where the value is all round-off, trust the gradient."""
    noise = 1e-13 * (abs(value) + abs(slope))
    t = 1.0
    for _ in range(45):
        trial = z + t * d
        new = potential.value(trial)
        if np.isfinite(new) and new <= value + 1e-4 * t * slope:
            return trial, new
        if np.isfinite(new) and t == 1.0 and new <= value + 1e3 * noise:
            here, there = (np.abs(potential.gradient(at)[0]).max() for at in (z, trial))
            if there < 0.5 * here:
                return trial, new
        t *= 0.5
    return None, value
