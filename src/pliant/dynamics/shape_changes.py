"""Changes of the equations of a step with the rest shape of a solid, at a fixed topology."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pliant.actuators.cable import AttachedCable
from pliant.actuators.muscle import AttachedStress, StressActuator
from pliant.actuators.pressure import AttachedPressure
from pliant.bodies import COMPLEX_STEP, Solid, hessian_times
from pliant.bodies.shape_derivatives import RestChange, with_complex_part
from pliant.contact import AttachedContact, Friction
from pliant.core import Array, InputError
from pliant.dynamics.equations import Equations
from pliant.dynamics.implicit_model import ImplicitModel, ImplicitTape
from pliant.dynamics.integration_rules import combine
from pliant.dynamics.semi_implicit import SemiImplicit, SemiImplicitTape
from pliant.linalg import Solve

SUPPORTED = (AttachedCable, AttachedStress, AttachedPressure, AttachedContact)


def check_shape_support(equations: Equations) -> None:
    """Raise `InputError` unless all parts of a robot can be differentiated by its shape."""
    if not isinstance(equations.body, Solid):
        raise InputError(
            f"Shape parameters need a solid, not a {type(equations.body).__name__}; give the robot "
            "a shape such as Box, or a Mesh."
        )
    names = [
        *equations.robot.actuators,
        *(f"contact {k}" for k in range(len(equations.potentials))),
    ]
    for name, (term, _) in zip(names, equations.potentials, strict=False):
        if not isinstance(term, SUPPORTED):
            raise InputError(
                f"The part '{name}' of {equations.robot.name} has no derivative by the shape; with "
                "shape parameters use Cable, Muscle, Fluidic, Pressure and Contact."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class EquationsChange:
    """The change of a robot's equations for a change of the rest positions."""

    equations: Equations
    change: Array  # (n_dofs,) [m] of the rest positions

    @cached_property
    def rest(self) -> RestChange:
        assert isinstance(self.equations.body, Solid)
        return RestChange(solid=self.equations.body, change=self.change)

    @property
    def placed(self) -> Array:
        """The change (n_dofs,) [m] of the positions that supports prescribe."""
        return np.where(self.equations.held, self.change, 0.0)

    @cached_property
    def _terms(self) -> list[Any]:
        """The potentials with complex coefficients; None for those of a stress."""
        eq = self.equations
        return [
            self._complex_term(group, term)
            for group, (term, _) in zip(eq.groups, eq.potentials, strict=True)
        ]

    def _complex_term(self, group: str, term: Any) -> Any:
        if isinstance(term, AttachedStress):
            return None
        if isinstance(term, AttachedContact):
            return self._complex_contact(group, term)
        if isinstance(term, AttachedCable) and not term.follows_route:
            return with_complex_part(term, rest_length=0.0)
        y = term.weights @ self.rest.points + term.offset
        if isinstance(term, AttachedCable):
            return with_complex_part(term, rest_length=term.length(y).imag / COMPLEX_STEP)
        return with_complex_part(term, rest_volume=term.volume(y).imag / COMPLEX_STEP)

    def _complex_contact(self, group: str, term: AttachedContact) -> AttachedContact:
        area = self.rest.node_areas(term.contact.surface, lumped=True)[term.weights.indices]
        relative_size = self.rest.cell_size_change / self.equations.body.cell_size()
        given = term.contact.stiffness is not None
        if given or f"{group}.stiffness" in self.equations.design:
            stiffness = 0.0
        else:  # it is proportional to 1 / cell size
            stiffness = -term.stiffness_per_area * relative_size
        layer = 0.0 if term.contact.layer is not None else term.layer * relative_size
        return with_complex_part(
            term, area=area.imag / COMPLEX_STEP, stiffness_per_area=stiffness, layer=layer
        )

    def potential_forces(self, q: Array, u: Array) -> Array:
        """Return the change (n_dofs,) [N] of the gradient of all potentials at fixed q."""
        out = np.zeros_like(q)
        actuators: list[Any] = list(self.equations.robot.actuators.values())
        for k, (term, part) in enumerate(self.equations.potentials):
            if isinstance(term, AttachedStress):
                out += self._stress_forces(actuators[k], q, term.strength * float(u[part][0]))
                continue
            y = self.equations.points(term, q)
            change = self._terms[k].gradient(y, u[part]).imag / COMPLEX_STEP
            out += (term.weights.T @ change).ravel()
        return out

    def _stress_forces(self, actuator: StressActuator, q: Array, u: float) -> Array:
        cells, unit = actuator.stress(self.equations.body)
        S = np.zeros_like(self.rest.gradient)
        S[cells] = u * unit
        return self.rest.stress_force_change(q, np.zeros_like(q), S, np.zeros_like(S))

    def potential_products(self, q: Array, u: Array, w: Array) -> Array:
        """Return the change (n_dofs,) [N] of the Hessian of the stiff potentials times w."""
        out, dim = np.zeros_like(q), self.equations.dim
        for term, (real, part) in zip(self._terms, self.equations.potentials, strict=True):
            if not real.stiff:
                continue
            y, dz = self.equations.points(real, q), real.weights @ w.reshape(-1, dim)
            dg = hessian_times(term, y, u[part], dz)
            out += (real.weights.T @ (np.imag(dg) / COMPLEX_STEP)).ravel()
        return out

    def frictions(self) -> list[tuple[Friction, Friction]]:
        """Return each friction, and the same with complex coefficients."""
        pairs = zip(self._terms, self.equations.potentials, strict=True)
        terms = {id(real): term for term, (real, _) in pairs}
        return [
            (friction, Friction(contact=terms[id(friction.contact)]))
            for friction in self.equations.dissipations
            if isinstance(friction, Friction)
        ]

    def loads(self, time: float) -> Array:
        """Return the change (n_dofs,) [N] of the loads at a time [s], without gravity."""
        out, dim = np.zeros(self.equations.n_dofs), self.equations.dim
        body: Any = self.rest  # it has what loads use of a body
        for load in self.equations.robot.loads:
            out += np.imag(load.unit_forces(body) @ load.value(dim, time)) / COMPLEX_STEP
        return out


def implicit_residual_change(
    model: ImplicitModel, t: ImplicitTape, change: EquationsChange, end: float
) -> Array:
    """Return the change (n_dofs,) [N] of the residual g of an implicit step that ends at a time
    [s], with the supports moved."""
    eq, parts, fields = model.equations, np.split(t.x, len(model.rule.parts)), t.coefficients.fields
    placed = change.placed
    dg = change.rest.force_change(t.q, fields, placed)
    if t.viscous.rate > 0.0:
        used = [(r, y) for r, y in zip(model.rule.velocity[1:], parts, strict=True) if r != 0.0]
        dg += change.rest.viscous_force_change(
            t.q,
            fields,
            t.viscous.time,
            [model.rule.velocity[0], *(r for r, _ in used)],
            [y for _, y in used],
            placed,
        )
    force = combine(model.inertia, [t.q, *parts]) - eq.gravity
    dg += change.rest.mass_times_change(fields.density, force) - change.loads(end)
    dg += change.potential_forces(t.q, t.u)
    if model.rule.velocity[0] > 0.0:
        dg += _friction_change(change, t.q, parts[0], model.dt)
    if placed.any():
        dg += model.inertia[0] * eq.mass_times(t.coefficients, placed)
        dg += eq.potential_stiffness_times(t.q, t.u, placed)
    return dg


def _friction_change(change: EquationsChange, q: Array, old: Array, dt: float) -> Array:
    eq, out = change.equations, np.zeros_like(q)
    for friction, moved in change.frictions():
        y, start, dy = (friction.weights @ z.reshape(-1, eq.dim) for z in (q, old, change.placed))
        dg = moved.gradient(y, start, dt).imag / COMPLEX_STEP
        dg += np.einsum("nij,nj->ni", friction.hessian(y, start, dt), dy)
        out += (friction.weights.T @ dg).ravel()
    return out


def semi_implicit_residual_change(
    model: SemiImplicit, t: SemiImplicitTape, change: EquationsChange, end: float
) -> Array:
    """Return the change (n_dofs,) [kg m/s] of the residual g(w) of a semi-implicit step that ends
    at a time [s], at a fixed new velocity w."""
    eq, h, fields = model.equations, model.dt, t.coefficients.fields
    q, v = np.split(t.x, 2)
    forces = change.rest.force_change(q, fields, np.zeros_like(q))
    forces += h * change.rest.stiffness_times_change(q, fields, t.w)
    if (time := model.robot.damping.stiffness) > 0.0:
        forces += change.rest.viscous_jvp_change(q, t.w, time * fields.moduli[:, :2])
    forces += change.potential_forces(q, t.u) + h * change.potential_products(q, t.u, t.w)
    for friction, moved in change.frictions():
        y, speed, slip = (friction.weights @ z.reshape(-1, eq.dim) for z in (q, v, t.w))
        D = moved.viscosity(y, speed).imag / COMPLEX_STEP
        forces += (friction.weights.T @ np.einsum("nij,nj->ni", D, slip)).ravel()
    impulse = (1.0 + h * model.robot.damping.mass) * t.w - v - h * eq.gravity
    return change.rest.mass_times_change(fields.density, impulse) + h * (forces - change.loads(end))


def state_columns(
    model: ImplicitModel | SemiImplicit,
    tape: ImplicitTape | SemiImplicitTape,
    changes: Sequence[Array],
    end: float,
    solve: Solve | None,
) -> Array:
    """Return dx'/ds (n_state, m) of a step that ends at a time [s], for m changes (n_dofs,) of the
    rest positions. `solve` solves with the Jacobian of an implicit step."""
    if not changes:
        return np.zeros((model.space.size, 0))
    model = tape.model  # with the step's parameters
    eq = model.equations
    made = [EquationsChange(equations=eq, change=change) for change in changes]
    placed = np.stack([change.placed for change in made], axis=1)
    if isinstance(model, SemiImplicit):
        assert isinstance(tape, SemiImplicitTape)
        return _semi_implicit_columns(model, tape, made, placed, end)
    assert isinstance(tape, ImplicitTape)
    assert solve is not None
    dg = [implicit_residual_change(model, tape, change, end) for change in made]
    dq = placed
    dq[eq.free] = -solve(np.stack(dg, axis=1)[eq.free])
    return np.concatenate([row[0] * dq for row in model.rule.new_state])


def _semi_implicit_columns(
    model: SemiImplicit,
    tape: SemiImplicitTape,
    made: list[EquationsChange],
    placed: Array,
    end: float,
) -> Array:
    eq, h = model.equations, model.dt
    dg = np.stack([semi_implicit_residual_change(model, tape, c, end) for c in made], axis=1)
    dw = placed / h
    if placed.any():  # A dw of the moved supports
        q, v = np.split(tape.x, 2)
        dg += np.stack([model.linear_part(tape, q, v, column) for column in dw.T], axis=1)
    dw[eq.free] = -tape.solve(dg[eq.free])
    return np.concatenate([h * dw, dw])
