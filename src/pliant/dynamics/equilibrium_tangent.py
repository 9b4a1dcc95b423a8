"""The linearised equilibrium of a Quasistatic model, with one factorisation [Rodriguez2017, eq. 2
and 4]."""

import numpy as np

from pliant import linalg
from pliant.bodies.body import SemiImplicitBody, require_protocol
from pliant.core import Array, EquilibriumTangent
from pliant.dynamics.equations import Equations, ModelCoefficients


def equilibrium_tangent(
    eq: Equations, x: Array, u: Array, time: float
) -> EquilibriumTangent | None:
    """Return the linearisation K dq = -r - B du at positions x (n_dofs,), controls u (n_controls,)
    and a time [s]. Return None if no factorisation exists.

    K is the tangent stiffness if it is positive definite. Otherwise each cell is projected to a
    positive definite one, and the geometric stiffness of the actuators' forces is omitted."""
    body = require_protocol(eq.body, SemiImplicitBody, "Inverse control")
    q, coefficients = eq.place_supports(x, time), eq.coefficients(None, time)
    internal, blocks = body.gradient_and_stiffness(q, coefficients.fields, 0.0)
    factor, stable = _factor(eq, coefficients, blocks, q, u)
    if factor is None:
        return None

    def solve(force: Array) -> Array:
        out = np.zeros_like(force)
        out[eq.free] = factor(force[eq.free])
        return out

    def residual_at(q: Array, u: Array) -> Array | None:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            energy, internal = eq.body.energy(q, coefficients.fields)
            r = internal + eq.gradient(q, u) - coefficients.external_force
        return r if np.isfinite(energy) and np.all(np.isfinite(r)) else None

    return EquilibriumTangent(
        q=q,
        residual=internal + eq.gradient(q, u) - coefficients.external_force,
        control_jacobian=eq.control_jacobian(q, u),
        solve=solve,
        stable=stable,
        residual_at=residual_at,
    )


def _factor(
    eq: Equations, coefficients: ModelCoefficients, blocks: Array, q: Array, u: Array
) -> tuple[linalg.Solve | None, bool]:
    """Return (the solve, whether it is that of the whole tangent)."""
    no_mass = np.zeros_like(coefficients.pair_mass)
    points = [*eq.potential_hessians(q, u), *(None for _ in eq.dissipations)]
    solve = eq.tangent.factor(
        eq.tangent.values(blocks, no_mass, points), *eq.rank_one_columns(q, u)
    )
    if solve is not None:
        return solve, True
    points = [*eq.potential_hessians(q, u, stiff_only=True), *(None for _ in eq.dissipations)]
    positive = eq.body.stiffness(q, coefficients.fields, project=True)
    values = eq.tangent.values(positive, no_mass, points, project=True)
    rank_one = eq.rank_one_columns(q, u, stiff_only=True)
    return eq.tangent.factor_shifted(values, coefficients.pair_mass, *rank_one), False
