"""The derivatives of a step's residual by the parameters that are not of the material: damping,
gravity, and those of actuators, contacts and supports."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.dynamics.equations import Equations, ModelCoefficients
from pliant.dynamics.integration_rules import combine


def implicit_columns(model: Any, t: Any) -> Array:
    """Return dg/dp (n_dofs, n) of the residual of an `ImplicitModel` at its tape t, for the
    parameters `variables.other_names`."""
    eq, parts = model.equations, np.split(t.x, len(model.rule.parts))

    def friction(dissipation: Any, name: str) -> Array:
        new, old = (dissipation.weights @ y.reshape(-1, eq.dim) for y in (t.q, parts[0]))
        if not model.rule.velocity[0] > 0.0:  # friction does not act on an equilibrium
            return np.zeros_like(new)
        return dissipation.parameter_gradient(name, new, old, model.dt)

    return _force_columns(
        eq,
        eq.parameter_jacobian(t.q, t.u, eq.variables.other_names),
        t.coefficients,
        lambda: _implicit_momentum(model, t, parts),
        lambda: _unit_viscous_force(model, t, parts),
        friction,
    )


def _implicit_momentum(model: Any, t: Any, parts: Sequence[Array]) -> Array:
    """Return the mass matrix times the velocity (n_dofs,) [kg m/s] at the end of a step."""
    velocity = model.rule.velocity
    momentum = model.equations.mass_times(t.coefficients, combine(velocity, [t.q, *parts]))
    liquids = model.liquids_after(parts, np.array(velocity))
    return sum((liquid.gradient(t.q) for liquid in liquids), momentum)


def _unit_viscous_force(model: Any, t: Any, parts: Sequence[Array]) -> Array:
    """Return the viscous force (n_dofs,) [N/s] at a stiffness damping of 1 s."""
    body, fields = model.equations.damped_body, t.coefficients.fields
    viscous = model.viscous_at(1.0, t.coefficients, parts)
    return body.energy(t.q, fields, viscous)[1] - body.energy(t.q, fields)[1]


def semi_implicit_columns(model: Any, t: Any) -> Array:
    """Return dg/dp (n_dofs, n) of the residual of a `SemiImplicit` model at its tape t, for the
    parameters `variables.other_names`."""
    eq, h, (q, v) = model.equations, model.dt, np.split(t.x, 2)
    names = eq.variables.other_names

    def friction(dissipation: Any, name: str) -> Array:
        old, velocity, new = (dissipation.weights @ y.reshape(-1, eq.dim) for y in (q, v, t.w))
        return np.einsum("nij,nj->ni", dissipation.parameter_viscosity(name, old, velocity), new)

    forces = eq.parameter_jacobian(q, t.u, names) + h * eq.parameter_jacobian_derivative(
        q, t.u, t.w, names, stiff_only=True
    )
    viscous = lambda: eq.body.viscous_jvp(q, q, t.w, model.viscous_moduli(t.coefficients, 1.0))
    momentum = lambda: sum(
        (liquid.mass_times(t.w) for liquid in model.liquids_at(q, v)),
        eq.mass_times(t.coefficients, t.w),
    )
    return h * _force_columns(eq, forces, t.coefficients, momentum, viscous, friction)


def _force_columns(
    eq: Equations,
    potentials: Array,
    coefficients: ModelCoefficients,
    momentum: Callable[[], Array],
    unit_viscous_force: Callable[[], Array],
    friction: Callable[[Any, str], Array],
) -> Array:
    """Return the derivatives (n_dofs, n) of minus the forces by `variables.other_names`, from those
    of the potentials. `friction(dissipation, name)` is that of the friction at its points."""
    out = potentials.copy()
    for j, name in enumerate(eq.variables.other_names):
        group, _, key = name.rpartition(".")
        if group == "gravity":
            out[:, j] -= eq.unit_weight(coefficients.fields, key)
        elif name == "damping.mass":
            out[:, j] += momentum()
        elif name == "damping.stiffness":
            out[:, j] += unit_viscous_force()
        for owner, dissipation in eq.frictions:
            if owner == group:
                out[:, j] += (dissipation.weights.T @ friction(dissipation, key)).ravel()
    return out
