"""Interpolated equilibria, corrected by their residual: their error without an exact solve."""

import numpy as np

from pliant.core import Array, EquilibriumTangent, StepError
from pliant.dynamics.equilibrium_manifold import EquilibriumManifold, ExactManifold
from pliant.dynamics.equilibrium_map import EquilibriumMap

# Largest ratio of two Newton steps. Below it the remaining error is about 0.1 % of the first step.
MAX_CONTRACTION = 0.1


def corrected_manifold(manifold: EquilibriumManifold) -> ExactManifold:
    """Return the manifold whose shapes are those of another one, corrected to equilibria."""
    equilibria = manifold.equilibrium_map
    return ExactManifold(
        equilibria,
        unit=manifold.unit,
        solve=lambda a: (*corrected_equilibrium(equilibria, a, manifold.positions(a)), ""),
    )


def corrected_equilibrium(
    equilibria: EquilibriumMap, a: Array, guess: Array
) -> tuple[Array, Array]:
    """Return the equilibrium (n_dofs,) [m] near a guess under the controls a (d,), and its slope
    (n_dofs, d).

    It takes two Newton steps, each with one factorisation. The slope uses the second factor: at
    the guess, the stress of the small interpolation error would change the bending stiffness of a
    slender robot by percents. If the second step is c times the first, the remaining error is about
    c^3 of the first. Raises StepError if c exceeds MAX_CONTRACTION."""
    tangents = [_tangent(equilibria, a, guess)]
    first = -tangents[0].solve(tangents[0].residual)
    tangents.append(_tangent(equilibria, a, tangents[0].q + first))
    second = -tangents[1].solve(tangents[1].residual)
    if np.linalg.norm(second) > max(
        MAX_CONTRACTION * np.linalg.norm(first), equilibria.tolerance * np.linalg.norm(guess)
    ):
        raise StepError("the correction of an interpolated shape does not converge")
    return tangents[1].q + second, -tangents[1].solve(tangents[1].control_jacobian)


def _tangent(equilibria: EquilibriumMap, a: Array, q: Array) -> EquilibriumTangent:
    tangent = equilibria.model.equilibrium_tangent(q, a)
    if tangent is None or not np.all(np.isfinite(tangent.residual)):
        raise StepError("an interpolated shape has no tangent stiffness")
    return tangent
