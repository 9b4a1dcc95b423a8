"""Second derivatives of an implicit step, as Hessian-vector products.

With y = -K^-1 b the adjoint of the residual g(q', x, u), the pullback is (dg/dx)^T y and
(dg/du)^T y. Along (dx, du), q' changes by dq' and y by -K^-1 times the derivative of (dg/dq')^T y.
This needs the third derivative of the energies, contracted with two vectors; bodies provide it.
"""

from typing import Any

import numpy as np

from pliant.bodies import DampedSecondOrderBody, require_protocol
from pliant.core import Array, HessianVector, InputError, Linearization, Step, map_columns
from pliant.dynamics.equations import Equations
from pliant.dynamics.integration_rules import combine


def step_hessian_vector(model: Any, step: Step, x_bar: Array, lin: Linearization) -> HessianVector:
    """Return the Hessian-vector product of x_bar . x' for a step of an `ImplicitModel`. Raises
    InputError for friction; see `core.TwiceDifferentiable`."""
    if not model.has_second_derivatives:
        raise InputError(
            "Friction has no second derivatives here; plan without them (gauss_newton, ddp, or "
            "newton(second_order=False))."
        )
    solve: Any = lin.solve
    t, eq, parts = step.tape, model.equations, len(model.rule.parts)
    table = np.array(model.rule.new_state)
    ends = np.einsum("i,in->n", table[:, 0], np.reshape(x_bar, (parts, -1)))
    y = np.zeros(eq.n_dofs)
    y[eq.free] = -solve(ends[eq.free])
    mixed_hessian = eq.control_jacobian_derivative(t.q, t.u, y)
    control_hessian = (
        np.stack([eq.control_hessian_vector(t.q, t.u, y, du) for du in np.eye(t.u.size)], axis=1)
        if t.u.size
        else np.zeros((0, 0))
    )

    def apply(dx: Array, du: Array) -> tuple[Array, Array]:
        dq = np.split(lin.jvp(dx, du), parts)[0]  # the change of q'
        body_q, by_x = map_columns(
            lambda dq, dx: _body_second_derivative(eq, model.rule.velocity, t, y, dq, dx), dq, dx
        )
        if eq.liquids:
            liquid_q, liquid_x = map_columns(
                lambda dq, dx: _liquid_second_derivative(model, t, y, dq, dx), dq, dx
            )
            body_q, by_x = body_q + liquid_q, by_x + liquid_x
        by_q = body_q + eq.potential_stiffness_derivative(t.q, t.u, y, dq) + mixed_hessian @ du
        by_u = mixed_hessian.T @ dq + control_hessian @ du
        dy = np.zeros_like(by_q)
        dy[eq.free] = -solve(by_q[eq.free])
        vjp_x, vjp_u = model.state_vjp(step, dy)
        return by_x + vjp_x, by_u + vjp_u

    return apply


def _liquid_second_derivative(
    model: Any, t: Any, y: Array, dq: Array, dx: Array
) -> tuple[Array, Array]:
    """Return the contribution of the inertia of liquids, as `_body_second_derivative`."""
    parts, dparts = (np.split(vector, len(model.rule.parts)) for vector in (t.x, dx))
    by_q, by_x, olds = (
        np.zeros_like(dq),
        np.zeros_like(dx),
        [combine(row, dparts) for row in model.rule.old_positions],
    )
    for liquid in model.liquids_after(parts):
        liquid_q, by_olds = liquid.second_derivative(t.q, y, dq, olds)
        by_q += liquid_q
        by_x += np.concatenate(model.by_parts(by_olds))
    return by_q, by_x


def _body_second_derivative(
    eq: Equations, rates: tuple[float, ...], t: Any, y: Array, dq: Array, dx: Array
) -> tuple[Array, Array]:
    """Return the body's contribution to the second derivative of y . g along (dq, dx), by q' and by
    x."""
    by_q, by_x = (
        eq.second_order_body.stiffness_derivative(t.q, t.coefficients.fields, y, dq),
        np.zeros_like(dx),
    )
    if t.viscous.rate > 0.0:
        parts, dparts = np.split(t.x, len(rates) - 1), np.split(dx, len(rates) - 1)
        viscous_q, viscous_x = require_protocol(
            eq.body, DampedSecondOrderBody, "A second derivative with stiffness damping"
        ).viscous_second_derivative(t.q, t.viscous, y, dq, list(rates), parts, dparts)
        by_q, by_x = by_q + viscous_q, by_x + np.concatenate(viscous_x)
    return by_q, by_x
