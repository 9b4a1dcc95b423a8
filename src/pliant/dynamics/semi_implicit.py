"""Semi-implicit stepping: one linearisation and one solve a step (paper 001 eq. 2).

With all forces linearised at the step's start, the new velocity w solves
M (w - v) + h [alpha M w + D(q) w + h K(q) w + dW/dq(q, u)] = 0, and q' = q + h w. D and K are taken
at q, so the derivative of the step needs the third derivative of the energy, contracted with w.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant import linalg
from pliant.bodies import Fields
from pliant.core import (
    Array,
    Linearization,
    Space,
    Status,
    Step,
    by_columns,
    check_controls,
    finite_array,
)
from pliant.dynamics.cell_sums import CellSums
from pliant.dynamics.checks import check_dt, check_index, check_state, check_step
from pliant.dynamics.equations import Equations, Numbers
from pliant.dynamics.moved import Moved
from pliant.dynamics.stepping import Stepping
from pliant.robot import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """What a step's derivatives need, the factor included: it is the step's own."""

    owner: "Linearised"
    x: Array
    u: Array
    w: Array  # (n_dofs,) the new velocity
    numbers: Numbers
    solve: linalg.Solve


@dataclass(frozen=True, kw_only=True, eq=False)
class Linearised(Stepping):
    """Dynamics with one linearisation a step; made by SemiImplicit."""

    @property
    def space(self) -> Space:
        return Space(parts=("position", "velocity"), n_dofs=self.equations.n_dofs, rate=(0.0, 1.0))

    def state(self, position: Array, velocity: Array | None = None) -> Array:
        """The state with given positions [m] and velocities [m/s], each (n_dofs,)."""
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

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The state one step on; k is the step's index in time, which moving supports and changing
        loads look at: both are taken at its end."""
        return self.step_until((check_index(k) + 1) * self.dt, x, u, p)

    def step_until(self, end: float, x: Array, u: Array, p: Array | None = None) -> Step:
        """Return the state one step on, with supports and loads of the time `end` [s]."""
        eq, h = self.equations, self.dt
        u, x = check_controls(u, self.n_controls), check_state(x, self.space.size)
        q, v = np.split(x, 2)
        numbers = eq.numbers(p, end)
        w = np.where(eq.held, (eq.place_supports(q, end) - q) / h, 0.0)
        forces, blocks = eq.body.linearised(q, numbers.fields, self.robot.damping.stiffness / h)
        solve = self._factor(numbers, blocks, q, v, u)
        if solve is None:
            return Step(
                x,
                Status(
                    ok=False,
                    text="The linearised system is not positive definite: the step is long for so "
                    "much stress, or the body is buckled; take a smaller time step, or use "
                    "ImplicitEuler.",
                ),
            )
        w[eq.free] = solve(-self._residual(numbers, forces, q, v, w, u)[eq.free])
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
        if eq.body.inverted(new[: eq.n_dofs]) is not None:
            what = eq.body.beyond(new[: eq.n_dofs]) or "The step turned a cell inside out"
            status = Status(
                ok=False,
                iterations=1,
                text=f"{what}; take a smaller time step, or use ImplicitEuler.",
            )
        return Step(
            new, status, Tape(owner=self, x=x, u=u.copy(), w=w, numbers=numbers, solve=solve)
        )

    def _residual(
        self, numbers: Numbers, inside: Array, q: Array, v: Array, w: Array, u: Array
    ) -> Array:
        """g(w) [kg m/s], linear in w; `inside` is the gradient of the body's own energy at q."""
        eq, h = self.equations, self.dt
        forces = inside + eq.push(q, u) - numbers.outside
        if not w.any():
            return h * forces - eq.mass_times(numbers, v)
        # only moving supports have a velocity before the solve
        forces += h * self._stiffness_times(
            numbers, q, u, w, stiff_only=True
        ) + self._damping_force(numbers, q, v, w)
        return eq.mass_times(numbers, w - v) + h * (
            self.robot.damping.mass * eq.mass_times(numbers, w) + forces
        )

    def _stiffness_times(
        self, numbers: Numbers, q: Array, u: Array, y: Array, *, stiff_only: bool
    ) -> Array:
        """K(q) y with K the Hessian of the energies; tensions count as given forces where
        `stiff_only`, as in the paper."""
        elastic = self.equations.body.stiffness_times(q, numbers.fields, y)
        return elastic + self.equations.terms_times(q, u, y, stiff_only=stiff_only)

    def _damping_force(self, numbers: Numbers, q: Array, v: Array, w: Array) -> Array:
        eq, time = self.equations, self.robot.damping.stiffness
        out = (
            eq.body.viscous_push(q, q, w, self._viscous_moduli(numbers, time))
            if time > 0.0
            else np.zeros_like(q)
        )
        for drag in eq.drags:
            D = drag.viscosity(self._points(drag, q), self._points(drag, v))
            out += (drag.weights.T @ np.einsum("nij,nj->ni", D, self._points(drag, w))).ravel()
        return out

    def _viscous_moduli(self, numbers: Numbers, time: float) -> Array:
        return self.equations.body.viscous(
            numbers.fields, time, [1.0], []
        ).moduli  # those of every strain rate

    def _points(self, drag, y: Array) -> Array:
        return drag.weights @ y.reshape(-1, self.equations.body.dim)

    def _factor(
        self, numbers: Numbers, blocks: Array, q: Array, v: Array, u: Array
    ) -> linalg.Solve | None:
        """The solve with A; `blocks` are those of h K + D of the body over h."""
        eq, h = self.equations, self.dt
        points = [None if H is None else h**2 * H for H in eq.term_blocks(q, u, stiff_only=True)]
        points += [
            h * drag.viscosity(self._points(drag, q), self._points(drag, v)) for drag in eq.drags
        ]
        values = eq.tangent.values(
            h**2 * blocks, (1.0 + h * self.robot.damping.mass) * numbers.pair_mass, points
        )
        columns, weights = eq.rank_columns(q, u, stiff_only=True)
        return eq.tangent.factor(values, columns, h**2 * weights)

    # Derivatives

    def linearize(self, step: Step) -> Linearization:
        """The derivative of a step as operators, through its own factor."""
        check_step(step, self)
        t, moved, columns = step.tape, self._moved(step.tape), self._control_columns(step.tape)
        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=self.params.size,
            push=lambda dx, du, dp: self._jvp(t, moved, columns, dx, du, dp),
            pull=lambda x_bar: self._vjp(t, moved, columns, x_bar),
        )

    @cached_property
    def _sums(self) -> CellSums:
        body = self.equations.body
        return CellSums(
            cell_nodes=body.cell_nodes, n_nodes=self.equations.n_dofs // body.dim, dim=body.dim
        )

    def _moved(self, t: Tape) -> Moved:
        q, v = np.split(t.x, 2)
        return Moved(
            equations=self.equations,
            sums=self._sums,
            dt=self.dt,
            numbers=t.numbers,
            q=q,
            v=v,
            u=t.u,
            w=t.w,
        )

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """The transposed derivative of a step applied to x_bar: its shares for x, u and p."""
        return self.linearize(step).vjp(x_bar)

    def _control_columns(self, t: Tape) -> Array:
        """(n_dofs, n_controls) the derivative of the residual by the controls."""
        eq, h, q = self.equations, self.dt, t.x[: self.equations.n_dofs]
        return h * eq.control_columns(q, t.u) + h * h * eq.control_slopes(
            q, t.u, t.w, stiff_only=True
        )

    def _jvp(self, t: Tape, moved: Moved, columns: Array, dx: Array, du: Array, dp: Array) -> Array:
        """(n_state, k), all columns in one solve."""
        eq, h = self.equations, self.dt
        dq, dv = np.split(dx, 2)
        dg = columns @ du
        if dx.any():  # columns of controls alone need no matrix
            dg += moved.times(dq, dv)
        if dp.any():
            dg += by_columns(lambda change: (self._field_push(t, change),), dp)[0]
        dw = np.empty_like(dq)
        dw[eq.held] = -dq[eq.held] / h  # a held node's velocity is (place - q) / h
        dw[eq.free] = -t.solve(dg[eq.free])
        return np.concatenate([dq + h * dw, dw])

    def _field_push(self, t: Tape, dp: Array) -> Array:
        """(n_dofs,) the change of the residual with the parameters."""
        eq, (q, v) = self.equations, np.split(t.x, 2)
        change = eq.variables.spread(dp)
        return self.dt * self._field_forces(t, q, change) + eq.mass_of(
            change.density, self._specific_impulse(t, v)
        )

    def control_response(self, step: Step) -> Array:
        """(n_state, n_controls) dx'/du, all controls in one solve."""
        check_step(step, self)
        return self._ended(self._control_columns(step.tape), step.tape)

    def frozen_response(self, step: Step, dx: Array) -> Array:
        """(n_dofs, k) the change of w - v with columns dx (n_state, k) of a few nodes, where A
        stands still: A^-1 [h K dq + (h^2 K + h D) dv] with the signs of paper 001 eq. 13. Since h^2
        K + h D is A - M, no more than K dq is needed."""
        check_step(step, self)
        eq, t, h = self.equations, step.tape, self.dt
        q, (dq, dv) = t.x[: eq.n_dofs], np.split(dx, 2)
        push = self._few_times(eq.body.stiffness(q, t.numbers.fields), dq) + eq.terms_times(
            q, t.u, dq, stiff_only=True
        )
        out = self._ended(h * push - eq.mass_times(t.numbers, dv), t)[eq.n_dofs :]
        out[eq.free] -= dv[eq.free]
        return out

    def _few_times(self, blocks: Array, dq: Array) -> Array:
        """(n_dofs, k) node-pair blocks (n_pairs, dim, dim) times columns (n_dofs, k) that move a
        few nodes only."""
        body = self.equations.body
        Y = dq.reshape(-1, body.dim, dq.shape[1])
        pairs = body.pairs
        near = np.any(Y, axis=(1, 2))[pairs].any(axis=1)
        (i, j), B, out = pairs[near].T, blocks[near], np.zeros(Y.shape)
        np.add.at(out, i, B @ Y[j])
        np.add.at(out, j[i != j], np.swapaxes(B[i != j], 1, 2) @ Y[i[i != j]])
        return out.reshape(dq.shape)

    def _ended(self, dg: Array, t: Tape) -> Array:
        """(n_state, k) the change of the new state for a change (n_dofs, k) of the residual."""
        dw = np.zeros_like(dg)
        dw[self.equations.free] = -t.solve(dg[self.equations.free])
        return np.concatenate([self.dt * dw, dw])

    def _linear_part(self, t: Tape, q: Array, v: Array, w: Array) -> Array:
        """A w: the residual's share that is linear in the new velocity."""
        eq, h = self.equations, self.dt
        forces = h * self._stiffness_times(
            t.numbers, q, t.u, w, stiff_only=True
        ) + self._damping_force(t.numbers, q, v, w)
        return (1.0 + h * self.robot.damping.mass) * eq.mass_times(t.numbers, w) + h * forces

    def _specific_impulse(self, t: Tape, v: Array) -> Array:
        """(n_dofs,) [m/s] what the mass matrix multiplies in the residual."""
        return t.w - v + self.dt * (self.robot.damping.mass * t.w - self.equations.gravity)

    def _field_forces(self, t: Tape, q: Array, change: Fields) -> Array:
        eq = self.equations
        viscous = eq.body.viscous_at(t.numbers.fields, self.robot.damping.stiffness, 1.0, q, t.w)
        return eq.body.field_forces(
            q, t.numbers.fields, change, viscous
        ) + self.dt * eq.body.field_stiffness(q, t.numbers.fields, change, t.w)

    def _vjp(
        self, t: Tape, moved: Moved, columns: Array, x_bar: Array
    ) -> tuple[Array, Array, Array]:
        """The transpose of `_jvp`, all columns in one solve."""
        eq, h = self.equations, self.dt
        q_bar, w_bar = np.split(x_bar, 2)
        w_bar = w_bar + h * q_bar
        y = np.zeros_like(w_bar)
        y[eq.free] = -t.solve(w_bar[eq.free])
        dq, dv = moved.back(y)
        dq += q_bar
        dq[eq.held] -= w_bar[eq.held] / h
        p_bar = (
            by_columns(lambda row: (self._field_pull(t, row),), y)[0]
            if self.params.size
            else np.zeros((0, y.shape[1]))
        )
        return np.concatenate([dq, dv]), columns.T @ y, p_bar

    def _field_pull(self, t: Tape, y: Array) -> Array:
        """(n_params,) the transpose of `_field_push`."""
        eq, h, (q, v) = self.equations, self.dt, np.split(t.x, 2)
        viscous = eq.body.viscous_at(t.numbers.fields, self.robot.damping.stiffness, 1.0, q, t.w)
        first, second = (
            eq.body.field_work(q, t.numbers.fields, y, viscous),
            eq.body.field_stiffness_work(q, t.numbers.fields, y, t.w),
        )
        by_E, by_nu = (h * a + h * h * b for a, b in zip(first, second, strict=True))
        return eq.variables.collect(by_E, by_nu, eq.body.mass_work(y, self._specific_impulse(t, v)))


def SemiImplicit(
    robot: Robot, *, dt: float, design: Sequence[str] = (), solver: str | None = None
) -> Linearised:
    """One linearisation a step (paper 001 eq. 2): quick, first order, stable for moderate steps;
    state (position, velocity)."""
    return Linearised(
        equations=Equations(robot=robot, design=design, solver=solver), dt=check_dt(dt)
    )
