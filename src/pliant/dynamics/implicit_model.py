"""The implicit step of a robot's equations, shared by Quasistatic, ImplicitEuler and BDF2.

The new positions q' solve g(q') = M a + damping + dW/dq' = 0 [Jia2019, eq. 2 and 7]
[Zimmermann2021, eq. 4]. The acceleration a is a combination of q' and the parts of the state. g is
the gradient of an incremental potential, so Newton's method with a line search finds q'. The sparse
factor of dg/dq' gives every derivative of the step by the implicit function theorem.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from pliant import linalg
from pliant.actuators import AttachedPressure
from pliant.argument_checks import check_index, check_state, check_step
from pliant.bodies import (
    NO_VISCOSITY,
    MaterialFields,
    SecondOrderBody,
    Viscosity,
    limit_message,
    missing_members,
    viscous_argument,
)
from pliant.core import (
    Array,
    HessianVector,
    InputError,
    Linearization,
    Space,
    Status,
    Step,
    check_controls,
    finite_array,
    map_columns,
)
from pliant.dynamics.energy_minimisation import EnergyFunction, SolverOptions, minimise
from pliant.dynamics.equations import ModelCoefficients
from pliant.dynamics.integration_rules import IntegrationRule, combine
from pliant.dynamics.liquid_steps import ImplicitLiquid
from pliant.dynamics.parameter_columns import implicit_columns
from pliant.dynamics.robot_model import RobotModel
from pliant.dynamics.second_order import step_hessian_vector


@dataclass(frozen=True, kw_only=True, eq=False)
class ImplicitTape:
    """The data of a step that its derivatives need. `linearize` factorises again, so a long rollout
    keeps vectors but no factors."""

    owner: "ImplicitModel"
    model: "ImplicitModel"  # the owner at the step's parameters
    x: Array
    u: Array
    q: Array  # (n_dofs,) the new positions
    coefficients: ModelCoefficients
    viscous: Viscosity


@dataclass(frozen=True, kw_only=True, eq=False)
class StepHistory:
    """The data of the old state that the forces of a step need at any new positions."""

    old: Array  # (n_dofs,) [m] the old positions
    inertial: Array  # (n_dofs,) [m] the new positions of a motion without forces
    liquids: tuple[ImplicitLiquid, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitModel(RobotModel):
    """A robot's dynamics by an implicit rule: Quasistatic, ImplicitEuler or BDF2."""

    _: KW_ONLY
    solver_options: SolverOptions = field(default_factory=SolverOptions)

    @property
    @abstractmethod
    def rule(self) -> IntegrationRule:
        """The coefficients of the time-stepping rule."""

    @property
    def space(self) -> Space:
        return Space(parts=self.rule.parts, n_dofs=self.equations.n_dofs, rate=self.rule.rate)

    def state(
        self,
        position: Array,
        velocity: Array | None = None,
        acceleration: Array | None = None,
        *,
        controls: Array | None = None,
        p: Array | None = None,
    ) -> Array:
        """Return the state with given positions [m] and velocities [m/s], each (n_dofs,).

        BDF2 also needs the acceleration [m/s^2] (n_dofs,), for the positions before the start. Left
        out, it is that of a robot which starts to move under `controls` (n_controls,) (default:
        neutral) with parameters `p`."""
        n = (self.equations.n_dofs,)
        q = finite_array("The position", position, n, "m")
        v = (
            np.zeros_like(q)
            if velocity is None
            else finite_array("The velocity", velocity, n, "m/s")
        )
        if acceleration is not None:
            a = finite_array("The acceleration", acceleration, n, "m/s^2")
        else:
            a = self.initial_acceleration(q, v, controls, p)
        h = self.dt
        made = {
            "position": q,
            "velocity": v,
            "previous": q - h * v + 0.5 * h**2 * a,
            "before": q - 2.0 * h * v + 2.0 * h**2 * a,
        }
        return np.concatenate([made[part] for part in self.rule.parts])

    def initial_state(self, *, controls: Array | None = None, p: Array | None = None) -> Array:
        """Return the rest shape at rest. BDF2 starts as if to move under `controls` (n_controls,)
        (default: neutral) with parameters `p`; the other rules do not depend on them."""
        return self.state(self.equations.body.rest, controls=controls, p=p)

    @abstractmethod
    def initial_acceleration(
        self, q: Array, v: Array, controls: Array | None, p: Array | None
    ) -> Array:
        """Return the acceleration (n_dofs,) [m/s^2] at the start; zeros if the rule has no
        history."""

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step. k is the index of the step in time; moving supports and
        time-dependent loads are evaluated at its end."""
        return self.at(p)._step(self, x, u, p, (check_index(k) + 1) * self.dt)

    def _step(
        self, owner: "ImplicitModel", x: Array, u: Array, p: Array | None, end: float
    ) -> Step:
        """Return the step of `owner`, which is this model up to its parameters, to the time `end`
        [s]."""
        u = check_controls(u, self.n_controls)
        x = check_state(x, self.space.size)
        parts = np.split(x, len(self.rule.parts))
        coefficients = self.equations.coefficients(p, end)
        viscous = self._viscous(coefficients, parts)
        q, status = self._solve(
            coefficients, viscous, parts, u, self.equations.place_supports(parts[0], end)
        )
        new = np.concatenate([combine(row, [q, *parts]) for row in self.rule.new_state])
        return Step(
            new,
            status,
            ImplicitTape(
                owner=owner,
                model=self,
                x=x,
                u=u.copy(),
                q=q,
                coefficients=coefficients,
                viscous=viscous,
            ),
        )

    def _viscous(self, coefficients: ModelCoefficients, parts: list[Array]) -> Viscosity:
        return self.viscous_at(
            self.robot.damping.stiffness if self.rule.velocity[0] > 0.0 else 0.0,
            coefficients,
            parts,
        )

    def viscous_at(
        self, time: float, coefficients: ModelCoefficients, parts: list[Array]
    ) -> Viscosity:
        """Return the viscosity of a step from the parts of a state, for a stiffness damping [s]."""
        used = [
            (r, y)
            for r, y in zip(self.rule.velocity[1:], parts, strict=True)
            if r != 0.0 and time > 0.0
        ]
        if not time > 0.0:
            return NO_VISCOSITY
        return self.equations.damped_body.viscosity_of_step(
            coefficients.fields,
            time,
            [self.rule.velocity[0] * (time > 0.0), *(r for r, _ in used)],
            [y for _, y in used],
        )

    @property
    def inertia(self) -> Array:
        """Coefficients of M over (q', parts): acceleration plus mass damping times velocity."""
        return np.array(self.rule.acceleration) + self.robot.damping.mass * np.array(
            self.rule.velocity
        )

    def tape_at(
        self, coefficients: ModelCoefficients, x: Array, u: Array, q: Array
    ) -> ImplicitTape:
        """Return the tape of a step from x to given positions q, whether or not they solve it."""
        return ImplicitTape(
            owner=self,
            model=self,
            x=x,
            u=u,
            q=q,
            coefficients=coefficients,
            viscous=self._viscous(coefficients, np.split(x, len(self.rule.parts))),
        )

    def forces(self, t: ImplicitTape) -> tuple[float, Array, float]:
        """Return the incremental potential [J], its gradient g (n_dofs,) [N] and the largest acting
        force [N] at the tape's positions."""
        parts = np.split(t.x, len(self.rule.parts))
        return self._forces(t.coefficients, t.viscous, self._history(parts), t.u, t.q)

    def _history(self, parts: list[Array]) -> StepHistory:
        c = self.inertia
        return StepHistory(
            old=parts[0],
            inertial=-combine(c[1:], parts) / c[0] if c[0] > 0.0 else parts[0],
            liquids=self.liquids_after(parts),
        )

    def liquids_after(
        self, parts: list[Array], coefficients: Array | None = None
    ) -> tuple[ImplicitLiquid, ...]:
        """Return the inertia of each liquid after a state, for coefficients over (q', parts)
        (default: those of the inertia). There are none in an equilibrium."""
        if not self.equations.liquids or self.rule.acceleration[0] == 0.0:
            return ()
        olds = [combine(row, parts) for row in self.rule.old_positions]
        c = self.rule.over_positions(self.inertia if coefficients is None else coefficients)
        return tuple(ImplicitLiquid.of(liquid, olds, c) for liquid in self.equations.liquids)

    def _forces(
        self,
        coefficients: ModelCoefficients,
        viscous: Viscosity,
        history: StepHistory,
        u: Array,
        q: Array,
    ) -> tuple[float, Array, float]:
        eq, moved = self.equations, q - history.inertial
        energy, internal = eq.body.energy(q, coefficients.fields, *viscous_argument(viscous))
        inertia = self.inertia[0] * eq.mass_times(coefficients, moved)
        kinetic = 0.5 * float(inertia @ moved)
        for liquid in history.liquids:
            value, gradient = liquid.value_and_gradient(q)
            kinetic, inertia = kinetic + value, inertia + gradient
        external, external_gradient = eq.external_energy_and_gradient(coefficients, q, u)
        dissipated, dissipation_gradient = self._dissipation(q, history.old)
        value = kinetic + energy + external + dissipated
        scale = max(float(np.abs(f).max()) for f in (inertia, internal, external_gradient))
        return value, inertia + internal + external_gradient + dissipation_gradient, scale

    def _solve(
        self,
        coefficients: ModelCoefficients,
        viscous: Viscosity,
        parts: list[Array],
        u: Array,
        placed: Array,
    ) -> tuple[Array, Status]:
        eq = self.equations
        full, potential = self._potential(coefficients, viscous, parts, u, placed)
        guess, rest = combine(self.rule.guess, parts)[eq.free], placed[eq.free]
        z, status = minimise(potential, guess, self.solver_options)
        if not status and not np.array_equal(guess, rest):  # the extrapolation may be a bad start
            z, status = minimise(potential, rest, self.solver_options)
        if not status and len(stages := _poisson_stages(coefficients)) > 1:
            z, status = self._solve_by_poisson_stages(stages, parts, u, placed)
        exceeded = "" if status else limit_message(eq.body, full(z))
        return full(z), replace(status, text=f"{exceeded}.") if exceeded else status

    def _solve_by_poisson_stages(
        self, stages: list[ModelCoefficients], parts: list[Array], u: Array, placed: Array
    ) -> tuple[Array, Status]:
        """Solve at growing Poisson's ratios, each from the solution at the one before."""
        z, remedy = placed[self.equations.free], self._remedy()
        for coefficients in stages:
            viscous = self._viscous(coefficients, parts)
            _, potential = self._potential(coefficients, viscous, parts, u, placed)
            z, status = minimise(replace(potential, remedy=remedy), z, self.solver_options)
            if not status:
                break
            remedy = (
                f"Poisson's ratio {float(stages[-1].fields.nu.max()):.8g} is nearly "
                "incompressible, which makes the equations ill-conditioned; take nu = "
                f"{NEARLY_INCOMPRESSIBLE:g}"
            )
        return z, status

    def _potential(
        self,
        coefficients: ModelCoefficients,
        viscous: Viscosity,
        parts: list[Array],
        u: Array,
        placed: Array,
    ) -> tuple[Callable[[Array], Array], EnergyFunction]:
        """Return the map from free unknowns z to positions q', and the potential of z."""
        eq, free, history = self.equations, self.equations.free, self._history(parts)

        def full(z: Array) -> Array:
            q = placed.copy()
            q[free] = z
            return q

        def evaluate(z: Array) -> tuple[float, Array, float]:
            value, g, scale = self._forces(coefficients, viscous, history, u, full(z))
            return value, g[free], scale

        # [J] energy densities cancel from about E
        noise = 1e-14 * float(coefficients.fields.E @ eq.body.volumes())
        return full, EnergyFunction(
            evaluate=evaluate,
            gradient_floor=self._gradient_floor(coefficients.fields),
            value_noise=noise,
            remedy=self._remedy(),
            factor=lambda z, project: self._factor(
                coefficients, viscous, full(z), history, u, project
            ),
        )

    def _remedy(self) -> str:
        """Return the advice for a failed step. A smaller time step rarely helps: it has less
        numerical damping, and the same forces act on the same cell."""
        if self.inertia[0] > 0.0:
            return (
                "reduce the controls or loads, change them more slowly, or add "
                "Damping(stiffness=...)"
            )
        remedy = "approach the load in smaller stages, or check its size and unit"
        if any(isinstance(term, AttachedPressure) for term, _ in self.equations.potentials):
            remedy += ": beyond a cavity's largest pressure there is no equilibrium"
        return remedy

    def _gradient_floor(self, fields: MaterialFields) -> float:
        """Return the round-off [N] of a nodal force. A strain has the relative error eps times body
        size over cell size, and acts on a facet of a cell."""
        body = self.equations.body
        cell = body.cell_size()
        facet = float((body.volumes() / cell).max())
        viscous = 1.0 + self.robot.damping.stiffness * self.rule.velocity[0]
        return (
            1e-14
            * float(fields.E.max())
            * float(np.abs(body.rest).max(initial=0.0))
            / cell
            * facet
            * viscous
        )

    # Dissipation

    def _active_dissipations(self) -> tuple:
        return self.equations.dissipations if self.rule.velocity[0] > 0.0 else ()

    def _points(self, dissipation: Any, q: Array) -> Array:
        return dissipation.weights @ q.reshape(-1, self.equations.body.dim)

    def _dissipation(self, q: Array, old: Array) -> tuple[float, Array]:
        """Return the energy [J] and gradient [N] of all dissipation over the step."""
        energy, out = 0.0, np.zeros_like(q)
        for dissipation in self._active_dissipations():
            new, start = self._points(dissipation, q), self._points(dissipation, old)
            energy += dissipation.energy(new, start, self.dt)
            out += (dissipation.weights.T @ dissipation.gradient(new, start, self.dt)).ravel()
        return energy, out

    # Factor and derivatives

    def _factor(
        self,
        coefficients: ModelCoefficients,
        viscous: Viscosity,
        q: Array,
        history: StepHistory,
        u: Array,
        project: bool,
    ) -> linalg.Solve | None:
        eq = self.equations
        values, columns, weights = self._tangent_values(
            coefficients, viscous, q, history, u, project
        )
        if project:
            return eq.tangent.factor_shifted(values, coefficients.pair_mass, columns, weights)
        return eq.tangent.factor(values, columns, weights)

    def tangent_values(self, t: ImplicitTape) -> tuple[Array, Array, Array]:
        """Return dg/dq' at the tape's positions: the values (nnz,) in the factor's pattern, and the
        columns (n_dofs, r) and weights (r,) of its rank-one terms."""
        history = self._history(np.split(t.x, len(self.rule.parts)))
        return self._tangent_values(t.coefficients, t.viscous, t.q, history, t.u, False)

    def _tangent_values(
        self,
        coefficients: ModelCoefficients,
        viscous: Viscosity,
        q: Array,
        history: StepHistory,
        u: Array,
        project: bool,
    ) -> tuple[Array, Array, Array]:
        eq = self.equations
        blocks = eq.body.stiffness(
            q, coefficients.fields, *viscous_argument(viscous), project=project
        )
        points = eq.potential_hessians(q, u) + [
            np.zeros((d.weights.shape[0], eq.body.dim, eq.body.dim)) for d in eq.dissipations
        ]
        for k, dissipation in enumerate(self._active_dissipations()):
            points[len(eq.potentials) + k] = dissipation.hessian(
                self._points(dissipation, q), self._points(dissipation, history.old), self.dt
            )
        columns, weights = eq.rank_one_columns(q, u)
        pair_mass = self.inertia[0] * coefficients.pair_mass
        if history.liquids:
            parts = [liquid.hessian(q) for liquid in history.liquids]
            for liquid, part in zip(eq.liquids, parts, strict=True):
                points[liquid.index] = points[liquid.index] + part[0]
            pair_mass = pair_mass + eq.liquid_pair_mass([part[1] for part in parts])
            columns = np.concatenate([columns, *(part[2] for part in parts)], axis=1)
            weights = np.concatenate([weights, *(part[3] for part in parts)])
        return eq.tangent.values(blocks, pair_mass, points, project), columns, weights

    def tangent(self, step: Step) -> linalg.Solve:
        """Return the solve with dg/dq' at the end of the step, on the free unknowns. Raises
        InputError if dg/dq' is not positive definite."""
        solve = step.tape.model._factor_of_tape(step.tape)
        if solve is None:
            raise InputError(
                "The step ended at a limit point or a bifurcation, which is no strict minimum of "
                "its energy, so it has no derivative. Perturb the control or the state."
            )
        return solve

    def is_strict_minimum(self, step: Step) -> bool:
        """Return whether the end of the step is a strict minimum of its energy: a stable
        equilibrium."""
        return step.tape.model._factor_of_tape(step.tape) is not None

    def _factor_of_tape(self, t: ImplicitTape) -> linalg.Solve | None:
        history = self._history(np.split(t.x, len(self.rule.parts)))
        return self._factor(t.coefficients, t.viscous, t.q, history, t.u, False)

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        solve, model = self.tangent(step), step.tape.model
        columns = model.equations.control_jacobian(step.tape.q, step.tape.u)

        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=self.params.size,
            jvp_columns=lambda dx, du, dp: model._jvp(step, solve, columns, dx, du, dp),
            vjp_columns=lambda x_bar: model._vjp(step, solve, columns, x_bar),
            solve=solve,
        )

    @property
    def has_second_derivatives(self) -> bool:
        """Whether `hessian_vector` is available. Friction has no second derivatives."""
        return not self._active_dissipations() and not missing_members(
            self.equations.body, SecondOrderBody
        )

    def hessian_vector(
        self, step: Step, x_bar: Array, lin: Linearization | None = None
    ) -> HessianVector:
        """Return the Hessian-vector product of x_bar . x'. `lin` is the step's linearisation, if it
        is already known. Raises InputError if there are no second derivatives."""
        check_step(step, self)
        lin = self.linearize(step) if lin is None else lin
        return step_hessian_vector(step.tape.model, step, x_bar, lin)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        return self.linearize(step).vjp(x_bar)

    def _jvp(
        self, step: Step, solve: linalg.Solve, columns: Array, dx: Array, du: Array, dp: Array
    ) -> Array:
        eq, t, c = self.equations, step.tape, self.inertia
        parts, dparts = (np.split(y, len(self.rule.parts)) for y in (t.x, dx))
        dg = eq.mass_times(t.coefficients, combine(c[1:], dparts)) + columns @ du
        olds = [combine(row, dparts) for row in self.rule.old_positions]
        for liquid in self._history(parts).liquids:
            dg += liquid.olds_jvp(t.q, olds)
        if t.viscous.rate > 0.0:
            for r, y, dy in zip(self.rule.velocity[1:], parts, dparts, strict=True):
                dg += r * self._viscous_columns(t, t.q, y, dy) if r != 0.0 else 0.0
        for dissipation in self._active_dissipations():
            slope = dissipation.mixed_hessian(
                self._points(dissipation, t.q), self._points(dissipation, parts[0]), self.dt
            )
            dg += self._dissipation_columns(dissipation, slope, dparts[0])
        if dp.any():
            dg += self._parameters_jvp(t, dp)
        dq = np.zeros_like(dg)
        dq[eq.free] = -solve(dg[eq.free])
        return np.concatenate([combine(row, [dq, *dparts]) for row in self.rule.new_state])

    def _viscous_columns(self, t: ImplicitTape, q: Array, level: Array, change: Array) -> Array:
        jvp = lambda dy: (self.equations.damped_body.viscous_jvp(q, level, dy, t.viscous.moduli),)
        return map_columns(jvp, change)[0]

    def _dissipation_columns(self, dissipation: Any, slope: Array, change: Array) -> Array:
        """Return the change (n_dofs, k) of a dissipation's gradient for derivatives (n_points, dim,
        dim) of its gradient and changes (n_dofs, k) of the nodes."""
        dim = self.equations.body.dim
        at_points = (dissipation.weights @ change.reshape(len(change) // dim, -1)).reshape(
            -1, dim, change.shape[1]
        )
        dg = np.einsum("nij,njk->nik", slope, at_points)
        return (dissipation.weights.T @ dg.reshape(len(dg), -1)).reshape(change.shape)

    def _parameters_jvp(self, t: ImplicitTape, dp: Array) -> Array:
        """Return the change (n_dofs, k) of g for changes (n_params, k) of the parameters."""
        variables = self.equations.variables
        out = implicit_columns(self, t) @ dp[variables.is_other]
        if variables.material_names:
            out += map_columns(lambda change: (self._material_jvp(t, change),), dp)[0]
        return out

    def _material_jvp(self, t: ImplicitTape, dp: Array) -> Array:
        change = self.equations.variables.fields_jvp(dp)
        forces = self.equations.differentiable_body.material_jvp(
            t.q, t.coefficients.fields, change, t.viscous
        )
        return forces + self.equations.density_mass_times(change.density, self._specific_force(t))

    def _specific_force(self, t: ImplicitTape) -> Array:
        """Return the factor (n_dofs,) [m/s^2] of the mass matrix in g: acceleration + damping
        velocity - gravity."""
        parts = np.split(t.x, len(self.rule.parts))
        return combine(self.inertia, [t.q, *parts]) - self.equations.gravity

    def _vjp(
        self, step: Step, solve: linalg.Solve, columns: Array, x_bar: Array
    ) -> tuple[Array, Array, Array]:
        eq, t, bars = self.equations, step.tape, np.split(x_bar, len(self.rule.parts))
        table = np.array(self.rule.new_state)
        y = np.zeros((eq.n_dofs, x_bar.shape[1]))
        y[eq.free] = -solve(combine(table[:, 0], bars)[eq.free])
        kept = np.concatenate([combine(table[:, j + 1], bars) for j in range(len(bars))])
        p_bar = self._parameters_vjp(t, y)
        by_x, by_u = self.state_vjp(step, y, columns)
        return kept + by_x, by_u, p_bar

    def state_vjp(self, step: Step, y: Array, columns: Array | None = None) -> tuple[Array, Array]:
        """Return the gradients (n_state, k) and (n_controls, k) of y . g by the old state and the
        control, for columns y (n_dofs, k)."""
        eq, t, c = self.equations, step.tape, self.inertia
        parts = np.split(t.x, len(self.rule.parts))
        columns = eq.control_jacobian(t.q, t.u) if columns is None else columns
        My = eq.mass_times(t.coefficients, y)
        back = [c[j + 1] * My for j in range(len(parts))]
        for liquid in self._history(parts).liquids:
            by_olds = liquid.olds_vjp(t.q, y)
            back = [part + by for part, by in zip(back, self.by_parts(by_olds), strict=True)]
        if t.viscous.rate > 0.0:
            for j, r in enumerate(self.rule.velocity[1:]):
                back[j] += r * self._viscous_columns(t, parts[j], t.q, y) if r != 0.0 else 0.0
        for dissipation in self._active_dissipations():
            slope = dissipation.mixed_hessian(
                self._points(dissipation, t.q), self._points(dissipation, parts[0]), self.dt
            )
            back[0] += self._dissipation_columns(dissipation, np.swapaxes(slope, 1, 2), y)
        return np.concatenate(back), columns.T @ y

    def by_parts(self, by_olds: list[Array]) -> list[Array]:
        """Return gradients by the old positions as gradients by the parts of the state."""
        return [combine(column, by_olds) for column in np.transpose(self.rule.old_positions)]

    def _parameters_vjp(self, t: ImplicitTape, y: Array) -> Array:
        """Return the gradients (n_params, k) of y . g by the parameters, for columns y
        (n_dofs, k)."""
        variables = self.equations.variables
        out = np.zeros((len(variables.is_other), y.shape[1]))
        if not len(out):
            return out
        if variables.material_names:
            out += map_columns(lambda row: (self._material_vjp(t, row),), y)[0]
        out[variables.is_other] = implicit_columns(self, t).T @ y
        return out

    def _material_vjp(self, t: ImplicitTape, y: Array) -> Array:
        eq = self.equations
        by_E, by_nu = eq.differentiable_body.material_vjp(t.q, t.coefficients.fields, y, t.viscous)
        return eq.variables.fields_vjp(
            by_E, by_nu, eq.differentiable_body.mass_vjp(y, self._specific_force(t))
        )


NEARLY_INCOMPRESSIBLE = 0.49  # Poisson's ratio up to which Newton's method needs no stages


def _poisson_stages(coefficients: ModelCoefficients) -> list[ModelCoefficients]:
    """Return `numbers` with Poisson's ratio brought to its value in stages, the last as given.

    Each stage has a tenth of the compressibility 1 - 2 nu of the one before: Newton's method
    follows the solution from stage to stage, where it fails from afar."""
    nu, stages = coefficients.fields.nu, []
    gap = 1.0 - 2.0 * NEARLY_INCOMPRESSIBLE
    while gap > 1.0 - 2.0 * float(nu.max()):
        limited = replace(coefficients.fields, nu=np.minimum(nu, 0.5 * (1.0 - gap)))
        stages.append(replace(coefficients, fields=limited))
        gap *= 0.1
    return [*stages, coefficients]
