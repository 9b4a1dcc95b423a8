"""The second derivative of an implicit step, contracted: how its pullback changes with the state
and the control.

With y = -K^-1 b the adjoint of the residual g(q', x, u), the pullback is (dg/dx)^T y and (dg/du)^T
y. Along a change (dx, du) the new positions move by dq' and y by -K^-1 of the derivative of
(dg/dq')^T y; what is needed of the energies is their third derivative contracted with two vectors,
which the bodies have.
"""

from typing import Any

import numpy as np

from pliant.core import Array, Bend, InputError, Linearization, Step, by_columns
from pliant.dynamics.equations import Equations


def bend(model: Any, step: Step, x_bar: Array, lin: Linearization) -> Bend:
    """For an Implicit model: see core.Curved."""
    if not model.bends:
        raise InputError(
            "Friction has no second derivatives here; plan without them (gauss_newton, ddp, or "
            "newton(second_order=False))."
        )
    solve: Any = lin.solve
    t, eq, parts = step.tape, model.equations, len(model.rule.parts)
    table = np.array(model.rule.following)
    ends = np.einsum("i,in->n", table[:, 0], np.reshape(x_bar, (parts, -1)))
    y = np.zeros(eq.n_dofs)
    y[eq.free] = -solve(ends[eq.free])
    mixed = eq.control_slopes(t.q, t.u, y)
    double = (
        np.stack([eq.control_curvature(t.q, t.u, y, du) for du in np.eye(t.u.size)], axis=1)
        if t.u.size
        else np.zeros((0, 0))
    )

    def apply(dx: Array, du: Array) -> tuple[Array, Array]:
        dq = np.split(lin.jvp(dx, du), parts)[0]  # the change of q'
        body_q, by_x = by_columns(
            lambda dq, dx: _body_curvature(eq, model.rule.velocity, t, y, dq, dx), dq, dx
        )
        by_q = body_q + eq.terms_third(t.q, t.u, y, dq) + mixed @ du
        by_u = mixed.T @ dq + double @ du
        dy = np.zeros_like(by_q)
        dy[eq.free] = -solve(by_q[eq.free])
        back_x, back_u = model.state_share(step, dy)
        return by_x + back_x, by_u + back_u

    return apply


def _body_curvature(
    eq: Equations, rates: tuple[float, ...], t: Any, y: Array, dq: Array, dx: Array
) -> tuple[Array, Array]:
    """What the body's own energies add to the second derivative of y . g along (dq, dx): shares for
    q' and for x."""
    by_q, by_x = eq.body.third(t.q, t.numbers.fields, y, dq), np.zeros_like(dx)
    if t.viscous.rate > 0.0:
        parts, dparts = np.split(t.x, len(rates) - 1), np.split(dx, len(rates) - 1)
        twist, shares = eq.body.viscous_third(t.q, t.viscous, y, dq, list(rates), parts, dparts)
        by_q, by_x = by_q + twist, by_x + np.concatenate(shares)
    return by_q, by_x
