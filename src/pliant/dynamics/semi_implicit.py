"""Semi-implicit time stepping: one linearisation and one solve per step [Menager2024, eq. 2].

With all forces linearised at the start of the step, the new velocity w solves
M (w - v) + h [alpha M w + D(q) w + h K(q) w + dW/dq(q, u)] = 0, and q' = q + h w. D and K are taken
at q, so the derivative of the step needs the third derivative of the energy, contracted with w.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from pliant import linalg
from pliant.argument_checks import check_index, check_state, check_step
from pliant.bodies import (
    NO_VISCOSITY,
    DampedSemiImplicitBody,
    MaterialFields,
    SemiImplicitBody,
    StiffnessMaterialDerivatives,
    Viscosity,
    limit_message,
    require_protocol,
)
from pliant.core import (
    Array,
    Linearization,
    Space,
    Status,
    Step,
    check_controls,
    finite_array,
    map_columns,
)
from pliant.dynamics.cell_sums import CellSums
from pliant.dynamics.equations import ModelCoefficients
from pliant.dynamics.implicit import Quasistatic
from pliant.dynamics.liquid_steps import SemiImplicitLiquid
from pliant.dynamics.parameter_columns import semi_implicit_columns
from pliant.dynamics.robot_model import RobotModel
from pliant.dynamics.semi_implicit_jacobian import StateJacobian


@dataclass(frozen=True, kw_only=True, eq=False)
class SemiImplicitTape:
    """The data of a step that its derivatives need, with the factor of the step."""

    owner: "SemiImplicit"
    model: "SemiImplicit"  # the owner at the step's parameters
    x: Array
    u: Array
    w: Array  # (n_dofs,) the new velocity
    coefficients: ModelCoefficients
    solve: linalg.Solve


@final
@dataclass(frozen=True, eq=False, repr=False)
class SemiImplicit(RobotModel):
    """Semi-implicit Euler: one linearisation and one solve per step [Menager2024, eq. 2]. It is
    fast, of first order, and stable for moderate steps. The state is (position, velocity).

    `dt` [s] is the time step, `design` names the active parameters, such as "body.E". `solver` is
    "multifrontal", "cholmod" or None for the faster one. `equations` are built if they are left
    out.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> run = pl.simulate(pl.SemiImplicit(robot, dt=0.1), np.ones((5, 2)))
    >>> run.states.shape  # position (2,) and velocity (2,) in each state
    (6, 4)
    """

    def initial_state(self) -> Array:
        """Return the rest shape at rest."""
        return self.state(self.equations.body.rest)

    @property
    def space(self) -> Space:
        return Space(parts=("position", "velocity"), n_dofs=self.equations.n_dofs, rate=(0.0, 1.0))

    def state(self, position: Array, velocity: Array | None = None) -> Array:
        """Return the state with given positions [m] and velocities [m/s], each (n_dofs,)."""
        n = (self.equations.n_dofs,)
        q = finite_array("The position", position, n, "m")
        return np.concatenate(
            [
                q,
                np.zeros_like(q)
                if velocity is None
                else finite_array("The velocity", velocity, n, "m/s"),
            ]
        )

    @cached_property
    def _body(self) -> Any:
        """The body. Raises `InputError` if it lacks what this rule needs."""
        body = require_protocol(self.equations.body, SemiImplicitBody, "SemiImplicit")
        if self.robot.damping.stiffness > 0.0 or "damping.stiffness" in self.design:
            require_protocol(body, DampedSemiImplicitBody, "Stiffness damping in SemiImplicit")
        if self.equations.variables.material_names:
            require_protocol(
                body, StiffnessMaterialDerivatives, "A design parameter in SemiImplicit"
            )
        return body

    def with_time_step(self, dt: float) -> "SemiImplicit":
        """Return the same model with another time step [s]."""
        return replace(self, dt=dt)

    def quasistatic_model(self) -> Quasistatic | None:
        """Return the model of the same robot without inertia, None if rigid motions are free."""
        if self.equations.free_rigid_motions():
            return None
        return Quasistatic(self.robot, solver=self.equations.solver)

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step. k is the index of the step in time; moving supports and
        time-dependent loads are evaluated at its end."""
        return self.step_until((check_index(k) + 1) * self.dt, x, u, p)

    def step_until(self, end: float, x: Array, u: Array, p: Array | None = None) -> Step:
        """Return the state after one step, with supports and loads at the time `end` [s]."""
        return self.at(p)._step_until(self, end, x, u, p)

    def _step_until(
        self, owner: "SemiImplicit", end: float, x: Array, u: Array, p: Array | None
    ) -> Step:
        """Return the step of `owner`, which is this model up to its parameters."""
        eq, h = self.equations, self.dt
        u, x = check_controls(u, self.n_controls), check_state(x, self.space.size)
        q, v = np.split(x, 2)
        coefficients = eq.coefficients(p, end)
        w = np.where(eq.held, (eq.place_supports(q, end) - q) / h, 0.0)
        forces, blocks = self._body.gradient_and_stiffness(
            q, coefficients.fields, self.robot.damping.stiffness / h
        )
        liquids = self.liquids_at(q, v)
        solve = self._factor(coefficients, blocks, q, v, u, liquids)
        if solve is None:
            return Step(
                x,
                Status(
                    ok=False,
                    text="The linearised system is not positive definite: the time step is too "
                    "long for this stress, or the body has buckled; take a smaller time step, or "
                    "use ImplicitEuler.",
                ),
            )
        g = self._residual(coefficients, forces, q, v, w, u)
        for liquid in liquids:
            difference = (1.0 + h * self.robot.damping.mass) * w - v
            g += liquid.mass_times(difference) + liquid.convective_impulse
        w[eq.free] = solve(-g[eq.free])
        new = np.concatenate([q + h * w, w])
        status = Status(iterations=1)
        if not np.all(np.isfinite(new)):
            return Step(
                x,
                Status(
                    ok=False,
                    text="The step overflowed; take a smaller time step or smaller controls, or "
                    "use ImplicitEuler.",
                ),
            )
        if eq.body.inadmissible_cell(new[: eq.n_dofs]) is not None:
            what = limit_message(eq.body, new[: eq.n_dofs]) or "The step inverted a cell"
            status = Status(
                ok=False,
                iterations=1,
                text=f"{what}; take a smaller time step, or use ImplicitEuler.",
            )
        return Step(
            new,
            status,
            SemiImplicitTape(
                owner=owner,
                model=self,
                x=x,
                u=u.copy(),
                w=w,
                coefficients=coefficients,
                solve=solve,
            ),
        )

    def _residual(
        self,
        coefficients: ModelCoefficients,
        internal: Array,
        q: Array,
        v: Array,
        w: Array,
        u: Array,
    ) -> Array:
        """Return g(w) [kg m/s], linear in w, with liquids that have the volume at rest; `internal`
        is the gradient of the body's energy at q."""
        eq, h = self.equations, self.dt
        forces = internal + eq.gradient(q, u) - coefficients.external_force
        if not w.any():
            return h * forces - eq.mass_times(coefficients, v)
        # only moving supports have a velocity before the solve
        forces += h * self._stiffness_times(
            coefficients, q, u, w, stiff_only=True
        ) + self._damping_force(coefficients, q, v, w)
        return eq.mass_times(coefficients, w - v) + h * (
            self.robot.damping.mass * eq.mass_times(coefficients, w) + forces
        )

    def _stiffness_times(
        self, coefficients: ModelCoefficients, q: Array, u: Array, y: Array, *, stiff_only: bool
    ) -> Array:
        """Return K(q) y with K the Hessian of the energies. With `stiff_only`, tensions count as
        prescribed forces, as in [Menager2024]."""
        elastic = self._body.stiffness_times(q, coefficients.fields, y)
        return elastic + self.equations.potential_stiffness_times(q, u, y, stiff_only=stiff_only)

    def _damping_force(
        self, coefficients: ModelCoefficients, q: Array, v: Array, w: Array
    ) -> Array:
        eq, time = self.equations, self.robot.damping.stiffness
        out = (
            self._body.viscous_jvp(q, q, w, self.viscous_moduli(coefficients, time))
            if time > 0.0
            else np.zeros_like(q)
        )
        for dissipation in eq.dissipations:
            D = dissipation.viscosity(self._points(dissipation, q), self._points(dissipation, v))
            out += (
                dissipation.weights.T @ np.einsum("nij,nj->ni", D, self._points(dissipation, w))
            ).ravel()
        return out

    def viscous_moduli(self, coefficients: ModelCoefficients, time: float) -> Array:
        return self._body.viscosity_of_step(coefficients.fields, time, [1.0], []).moduli

    def _points(self, dissipation: Any, y: Array) -> Array:
        return dissipation.weights @ y.reshape(-1, self.equations.body.dim)

    def liquids_at(self, q: Array, v: Array) -> list[SemiImplicitLiquid]:
        """Return the inertia of each liquid in a step from a state."""
        damping = self.robot.damping.mass
        return [
            SemiImplicitLiquid(inertia=liquid, q=q, v=v, dt=self.dt, damping=damping)
            for liquid in self.equations.liquids
        ]

    def _factor(
        self,
        coefficients: ModelCoefficients,
        blocks: Array,
        q: Array,
        v: Array,
        u: Array,
        liquids: list[SemiImplicitLiquid],
    ) -> linalg.Solve | None:
        """Return the solve with A, or None; `blocks` are those of (h K + D) / h of the body."""
        eq, h = self.equations, self.dt
        points = [
            None if H is None else h**2 * H for H in eq.potential_hessians(q, u, stiff_only=True)
        ]
        points += [
            h * dissipation.viscosity(self._points(dissipation, q), self._points(dissipation, v))
            for dissipation in eq.dissipations
        ]
        pair_mass = (1.0 + h * self.robot.damping.mass) * coefficients.pair_mass
        columns, weights = eq.rank_one_columns(q, u, stiff_only=True)
        weights = h**2 * weights
        if liquids:
            parts = [liquid.hessian() for liquid in liquids]
            pair_mass = pair_mass + eq.liquid_pair_mass([part[0] for part in parts])
            columns = np.concatenate([columns, *(part[1] for part in parts)], axis=1)
            weights = np.concatenate([weights, *(part[2] for part in parts)])
        return eq.tangent.factor(
            eq.tangent.values(h**2 * blocks, pair_mass, points), columns, weights
        )

    # Derivatives

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        t, model = step.tape, step.tape.model
        state_jacobian, columns = model._state_jacobian(t), model._control_columns(t)
        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=self.params.size,
            jvp_columns=lambda dx, du, dp: model._jvp(t, state_jacobian, columns, dx, du, dp),
            vjp_columns=lambda x_bar: model._vjp(t, state_jacobian, columns, x_bar),
        )

    @cached_property
    def _sums(self) -> CellSums:
        body = self._body
        return CellSums(
            cell_nodes=body.cell_nodes, n_nodes=self.equations.n_dofs // body.dim, dim=body.dim
        )

    def _state_jacobian(self, t: SemiImplicitTape) -> StateJacobian:
        q, v = np.split(t.x, 2)
        return StateJacobian(
            equations=self.equations,
            sums=self._sums,
            dt=self.dt,
            coefficients=t.coefficients,
            q=q,
            v=v,
            u=t.u,
            w=t.w,
            liquids=[liquid.derivative(t.w) for liquid in self.liquids_at(q, v)],
        )

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        return self.linearize(step).vjp(x_bar)

    def _control_columns(self, t: SemiImplicitTape) -> Array:
        """Return the derivative (n_dofs, n_controls) of the residual by the controls."""
        eq, h, q = self.equations, self.dt, t.x[: self.equations.n_dofs]
        return h * eq.control_jacobian(q, t.u) + h * h * eq.control_jacobian_derivative(
            q, t.u, t.w, stiff_only=True
        )

    def _jvp(
        self,
        t: SemiImplicitTape,
        state_jacobian: StateJacobian,
        columns: Array,
        dx: Array,
        du: Array,
        dp: Array,
    ) -> Array:
        """Return the change (n_state, k) of the new state, with one solve for all columns."""
        eq, h = self.equations, self.dt
        dq, dv = np.split(dx, 2)
        dg = columns @ du
        if dx.any():  # changes of controls alone need no matrix
            dg += state_jacobian.jvp(dq, dv)
        if dp.any():
            dg += self._parameters_jvp(t, dp)
        dw = np.empty_like(dq)
        dw[eq.held] = -dq[eq.held] / h  # the velocity of a held node is (support - q) / h
        dw[eq.free] = -t.solve(dg[eq.free])
        return np.concatenate([dq + h * dw, dw])

    def _parameters_jvp(self, t: SemiImplicitTape, dp: Array) -> Array:
        """Return the change (n_dofs, k) of the residual with the parameters."""
        variables = self.equations.variables
        out = semi_implicit_columns(self, t) @ dp[variables.is_other]
        if variables.material_names:
            out += map_columns(lambda change: (self._material_jvp(t, change),), dp)[0]
        return out

    def _material_jvp(self, t: SemiImplicitTape, dp: Array) -> Array:
        """Return the change (n_dofs,) of the residual with the parameters of the material."""
        eq, (q, v) = self.equations, np.split(t.x, 2)
        change = eq.variables.fields_jvp(dp)
        return self.dt * self._material_force_jvp(t, q, change) + eq.density_mass_times(
            change.density, self._specific_impulse(t, v)
        )

    def control_response(self, step: Step) -> Array:
        """Return dx'/du (n_state, n_controls), with one solve for all controls."""
        check_step(step, self)
        model = step.tape.model
        return model._state_change(model._control_columns(step.tape), step.tape)

    def frozen_response(self, step: Step, dx: Array) -> Array:
        """Return the change (n_dofs, k) of w - v for columns dx (n_state, k) that move a few nodes,
        at fixed A: A^-1 [h K dq + (h^2 K + h D) dv], signs as in [Menager2024, eq. 13]. Since
        h^2 K + h D = A - M, only K dq is needed."""
        check_step(step, self)
        return step.tape.model._frozen_response(step.tape, dx)

    def _frozen_response(self, t: SemiImplicitTape, dx: Array) -> Array:
        eq, h = self.equations, self.dt
        (q, v), (dq, dv) = np.split(t.x, 2), np.split(dx, 2)
        restoring = self._sparse_columns_product(
            eq.body.stiffness(q, t.coefficients.fields), dq
        ) + eq.potential_stiffness_times(q, t.u, dq, stiff_only=True)
        dg = h * restoring - eq.mass_times(t.coefficients, dv)
        for liquid in self.liquids_at(q, v):
            dg -= liquid.mass_times(dv)
        out = self._state_change(dg, t)[eq.n_dofs :]
        out[eq.free] -= dv[eq.free]
        return out

    def _sparse_columns_product(self, blocks: Array, dq: Array) -> Array:
        """Return node-pair blocks (n_pairs, dim, dim) times columns (n_dofs, k) in which only a few
        nodes move."""
        body = self.equations.body
        Y = dq.reshape(-1, body.dim, dq.shape[1])
        pairs = body.pairs
        near = np.any(Y, axis=(1, 2))[pairs].any(axis=1)
        (i, j), B, out = pairs[near].T, blocks[near], np.zeros(Y.shape)
        np.add.at(out, i, B @ Y[j])
        np.add.at(out, j[i != j], np.swapaxes(B[i != j], 1, 2) @ Y[i[i != j]])
        return out.reshape(dq.shape)

    def _state_change(self, dg: Array, t: SemiImplicitTape) -> Array:
        """Return the change (n_state, k) of the new state for a change (n_dofs, k) of the
        residual."""
        dw = np.zeros_like(dg)
        dw[self.equations.free] = -t.solve(dg[self.equations.free])
        return np.concatenate([self.dt * dw, dw])

    def linear_part(self, t: SemiImplicitTape, q: Array, v: Array, w: Array) -> Array:
        """Return A w, the part of the residual that is linear in the new velocity."""
        eq, h = self.equations, self.dt
        forces = h * self._stiffness_times(
            t.coefficients, q, t.u, w, stiff_only=True
        ) + self._damping_force(t.coefficients, q, v, w)
        return (1.0 + h * self.robot.damping.mass) * eq.mass_times(t.coefficients, w) + h * forces

    def _specific_impulse(self, t: SemiImplicitTape, v: Array) -> Array:
        """Return the factor (n_dofs,) [m/s] of the mass matrix in the residual."""
        return t.w - v + self.dt * (self.robot.damping.mass * t.w - self.equations.gravity)

    def _material_force_jvp(self, t: SemiImplicitTape, q: Array, change: MaterialFields) -> Array:
        viscous = self._viscosity(t, q)
        return self._body.material_jvp(
            q, t.coefficients.fields, change, viscous
        ) + self.dt * self._body.stiffness_material_jvp(q, t.coefficients.fields, change, t.w)

    def _viscosity(self, t: SemiImplicitTape, q: Array) -> Viscosity:
        time = self.robot.damping.stiffness
        if not time > 0.0:
            return NO_VISCOSITY
        return self._body.viscosity_at_velocity(t.coefficients.fields, time, 1.0, q, t.w)

    def _vjp(
        self, t: SemiImplicitTape, state_jacobian: StateJacobian, columns: Array, x_bar: Array
    ) -> tuple[Array, Array, Array]:
        """Return the transpose of `_jvp`, with one solve for all columns."""
        eq, h = self.equations, self.dt
        q_bar, v_bar = np.split(x_bar, 2)
        w_bar = h * q_bar
        w_bar += v_bar
        y = np.zeros_like(w_bar)
        y[eq.free] = -t.solve(w_bar[eq.free])
        dq, dv = state_jacobian.vjp(y)
        dq += q_bar
        dq[eq.held] -= w_bar[eq.held] / h
        return np.concatenate([dq, dv]), columns.T @ y, self._parameters_vjp(t, y)

    def _parameters_vjp(self, t: SemiImplicitTape, y: Array) -> Array:
        """Return the transpose (n_params, k) of `_parameters_jvp`."""
        variables = self.equations.variables
        out = np.zeros((len(variables.is_other), y.shape[1]))
        if not len(out):
            return out
        if variables.material_names:
            out += map_columns(lambda row: (self._material_vjp(t, row),), y)[0]
        out[variables.is_other] = semi_implicit_columns(self, t).T @ y
        return out

    def _material_vjp(self, t: SemiImplicitTape, y: Array) -> Array:
        """Return the transpose (n_params,) of `_material_jvp`."""
        eq, h, (q, v) = self.equations, self.dt, np.split(t.x, 2)
        viscous = self._viscosity(t, q)
        first, second = (
            self._body.material_vjp(q, t.coefficients.fields, y, viscous),
            self._body.stiffness_material_vjp(q, t.coefficients.fields, y, t.w),
        )
        by_E, by_nu = (h * a + h * h * b for a, b in zip(first, second, strict=True))
        return eq.variables.fields_vjp(
            by_E, by_nu, self._body.mass_vjp(y, self._specific_impulse(t, v))
        )
