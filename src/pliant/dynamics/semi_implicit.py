"""Semi-implicit stepping: one linearisation and one solve a step (paper 001 eq. 2).

With all forces linearised at the step's start, the new velocity w solves
M (w - v) + h [alpha M w + D(q) w + h K(q) w + dW/dq(q, u)] = 0, and q' = q + h w. D and K are taken at q, so the derivative of the
step needs the third derivative of the energy, contracted with w.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant import linalg
from pliant.bodies import NO_VISCOSITY, Fields, complex_slopes
from pliant.core import Array, Linearization, Space, Status, Step, by_columns, check_controls, finite_array
from pliant.dynamics.checks import check_dt, check_state, check_step
from pliant.dynamics.equations import Equations, Numbers
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
        return np.concatenate([q, np.zeros_like(q) if velocity is None else finite_array("The velocity", velocity, n, "m/s")])

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The state one step on; k is the step's index in time, which moving supports look at."""
        eq, h = self.equations, self.dt
        u, x = check_controls(u, self.n_controls), check_state(x, self.space.size)
        q, v = np.split(x, 2)
        numbers = eq.numbers(p)
        w = np.where(eq.held, (eq.place_supports(q, (k + 1) * h) - q) / h, 0.0)
        solve = self._factor(numbers, q, v, u)
        if solve is None:
            return Step(x, Status(ok=False, text="The linearised system is not positive definite: the step is long for so much stress, or "
                                  "the body is buckled; take a smaller time step, or use ImplicitEuler."))  # fmt: skip
        w[eq.free] = solve(-self._residual(numbers, q, v, w, u)[eq.free])
        new = np.concatenate([q + h * w, w])
        status = Status(iterations=1)
        if not np.all(np.isfinite(new)):
            return Step(
                x, Status(ok=False, text="The step overflowed; take a smaller time step or smaller controls, or use ImplicitEuler.")
            )
        if eq.body.inverted(new[: eq.n_dofs]) is not None:
            status = Status(
                ok=False, iterations=1, text="The step turned a cell inside out; take a smaller time step, or use ImplicitEuler."
            )
        return Step(new, status, Tape(owner=self, x=x, u=u.copy(), w=w, numbers=numbers, solve=solve))

    def _residual(self, numbers: Numbers, q: Array, v: Array, w: Array, u: Array) -> Array:
        """g(w) [kg m/s]; linear in w."""
        eq, h = self.equations, self.dt
        forces = eq.body.gradient(q, numbers.fields) + eq.given(numbers, q, u)[1]
        if w.any():  # only moving supports have a velocity before the solve
            forces += h * self._stiffness_times(numbers, q, u, w, stiff_only=True) + self._damping_force(numbers, q, v, w)
        return eq.mass_times(numbers, w - v) + h * (self.robot.damping.mass * eq.mass_times(numbers, w) + forces)

    def _stiffness_times(self, numbers: Numbers, q: Array, u: Array, y: Array, *, stiff_only: bool) -> Array:
        """K(q) y with K the Hessian of the energies; tensions count as given forces where `stiff_only`, as in the paper."""
        elastic = self.equations.body.stiffness_times(q, numbers.fields, y)
        return elastic + self.equations.terms_times(q, u, y, stiff_only=stiff_only)

    def _damping_force(self, numbers: Numbers, q: Array, v: Array, w: Array) -> Array:
        eq, time = self.equations, self.robot.damping.stiffness
        out = eq.body.viscous_push(q, q, w, self._viscous_moduli(numbers, time)) if time > 0.0 else np.zeros_like(q)
        for drag in eq.drags:
            D = drag.viscosity(self._points(drag, q), self._points(drag, v))
            out += (drag.weights.T @ np.einsum("nij,nj->ni", D, self._points(drag, w))).ravel()
        return out

    def _viscous_moduli(self, numbers: Numbers, time: float) -> Array:
        zero = np.zeros(self.equations.n_dofs)
        return self.equations.body.viscous_at(numbers.fields, time, 1.0, self.equations.body.rest, zero).moduli

    def _points(self, drag, y: Array) -> Array:
        return drag.weights @ y.reshape(-1, self.equations.body.dim)

    def _factor(self, numbers: Numbers, q: Array, v: Array, u: Array) -> linalg.Solve | None:
        eq, h = self.equations, self.dt
        time = self.robot.damping.stiffness
        still = np.zeros(eq.n_dofs)
        viscous = eq.body.viscous_at(numbers.fields, time, 1.0 / h, q, still) if time > 0.0 else NO_VISCOSITY
        blocks = h**2 * eq.body.stiffness(q, numbers.fields, viscous)
        points = [h**2 * H for H in eq.term_blocks(q, u, stiff_only=True)]
        points += [h * drag.viscosity(self._points(drag, q), self._points(drag, v)) for drag in eq.drags]
        values = eq.tangent.values(blocks, (1.0 + h * self.robot.damping.mass) * numbers.pair_mass, points)
        columns, weights = eq.rank_columns(q, u, stiff_only=True)
        return eq.tangent.factor(values, columns, h**2 * weights)

    # Derivatives

    def linearize(self, step: Step) -> Linearization:
        """The derivative of a step as operators, through its own factor."""
        check_step(step, self)
        return Linearization(n_state=self.space.size, n_controls=self.n_controls, n_params=self.params.size,
                             push=lambda *d: by_columns(lambda dx, du, dp: (self._jvp(step, dx, du, dp),), *d)[0],
                             pull=lambda x_bar: by_columns(lambda bar: self._vjp(step, bar), x_bar))  # type: ignore[arg-type, return-value]  # fmt: skip

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """The transposed derivative of a step applied to x_bar: its shares for x, u and p."""
        return self.linearize(step).vjp(x_bar)

    def _jvp(self, step: Step, dx: Array, du: Array, dp: Array) -> Array:
        eq, t, h = self.equations, step.tape, self.dt
        q, v = np.split(t.x, 2)
        dq, dv = np.split(dx, 2)
        held = np.where(eq.held, -dq / h, 0.0)  # a held node's velocity is (place - q) / h
        dg = self._moved(t, q, v, dq, dv) - eq.mass_times(t.numbers, dv) + self._linear_part(t, q, v, held)
        dg += (h * eq.control_columns(q, t.u) + h * h * eq.control_slopes(q, t.u, t.w, stiff_only=True)) @ du
        if dp.size:
            change = eq.variables.spread(dp)
            dg += h * self._field_forces(t, q, change)
            dg += eq.mass_of(change.density, self._specific_impulse(t, v))
        dw = held
        dw[eq.free] = -t.solve(dg[eq.free])
        return np.concatenate([dq + h * dw, dw])

    def _linear_part(self, t: Tape, q: Array, v: Array, w: Array) -> Array:
        """A w: the residual's share that is linear in the new velocity."""
        eq, h = self.equations, self.dt
        forces = h * self._stiffness_times(t.numbers, q, t.u, w, stiff_only=True) + self._damping_force(t.numbers, q, v, w)
        return (1.0 + h * self.robot.damping.mass) * eq.mass_times(t.numbers, w) + h * forces

    def _moved(self, t: Tape, q: Array, v: Array, dq: Array, dv: Array) -> Array:
        """The change of the residual with q and (friction) v at a fixed new velocity."""
        eq, h = self.equations, self.dt
        out = h * self._stiffness_times(t.numbers, q, t.u, dq, stiff_only=False)
        out += h * h * (eq.body.third(q, t.numbers.fields, dq, t.w) + eq.terms_third(q, t.u, dq, t.w, stiff_only=True))
        if self.robot.damping.stiffness > 0.0:
            m = self._viscous_moduli(t.numbers, self.robot.damping.stiffness)
            out += h * (eq.body.viscous_push(dq, q, t.w, m) + eq.body.viscous_push(q, t.w, dq, m))
        for drag in eq.drags:
            by_q, by_v = self._drag_slopes(drag, q, v, t.w)
            change = np.einsum("nij,nj->ni", by_q, self._points(drag, dq)) + np.einsum("nij,nj->ni", by_v, self._points(drag, dv))
            out += h * (drag.weights.T @ change).ravel()
        return out

    def _drag_slopes(self, drag, q: Array, v: Array, w: Array) -> tuple[Array, Array]:
        """(n, dim, dim) the derivatives of a drag's force with respect to old positions and old velocities."""
        y, s, new = (self._points(drag, part) for part in (q, v, w))
        push = lambda at, speed: np.einsum("nij,nj->ni", drag.viscosity(at, speed), new)  # noqa: E731
        return complex_slopes(lambda at: push(at, s), y), complex_slopes(lambda speed: push(y, speed), s)

    def _specific_impulse(self, t: Tape, v: Array) -> Array:
        """(n_dofs,) [m/s] what the mass matrix multiplies in the residual."""
        return t.w - v + self.dt * (self.robot.damping.mass * t.w - self.equations.gravity)

    def _field_forces(self, t: Tape, q: Array, change: Fields) -> Array:
        eq = self.equations
        viscous = eq.body.viscous_at(t.numbers.fields, self.robot.damping.stiffness, 1.0, q, t.w)
        return eq.body.field_forces(q, t.numbers.fields, change, viscous) + self.dt * eq.body.field_stiffness(
            q, t.numbers.fields, change, t.w
        )

    def _vjp(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        eq, t, h = self.equations, step.tape, self.dt
        q, v = np.split(t.x, 2)
        q_bar, w_bar = np.split(x_bar, 2)
        w_bar = w_bar + h * q_bar
        y = np.zeros(eq.n_dofs)
        y[eq.free] = -t.solve(w_bar[eq.free])
        dq, dv = self._moved_back(t, q, v, y)
        held = np.where(eq.held, -(w_bar + self._linear_part(t, q, v, y)) / h, 0.0)
        u_bar = (h * eq.control_columns(q, t.u) + h * h * eq.control_slopes(q, t.u, t.w, stiff_only=True)).T @ y
        p_bar = np.zeros(0)
        if self.params.size:
            viscous = eq.body.viscous_at(t.numbers.fields, self.robot.damping.stiffness, 1.0, q, t.w)
            first, second = eq.body.field_work(q, t.numbers.fields, y, viscous), eq.body.field_stiffness_work(q, t.numbers.fields, y, t.w)
            by_E, by_nu = (h * a + h * h * b for a, b in zip(first, second, strict=True))
            density = eq.body.mass_work(y, self._specific_impulse(t, v))
            p_bar = eq.variables.collect(by_E, by_nu, density)
        return np.concatenate([q_bar + dq + held, dv - eq.mass_times(t.numbers, y)]), u_bar, p_bar

    def _moved_back(self, t: Tape, q: Array, v: Array, y: Array) -> tuple[Array, Array]:
        """The transpose of `_moved`: shares for q and v."""
        eq, h = self.equations, self.dt
        dq = h * self._stiffness_times(t.numbers, q, t.u, y, stiff_only=False)
        dq += h * h * (eq.body.third(q, t.numbers.fields, y, t.w) + eq.terms_third(q, t.u, y, t.w, stiff_only=True))
        dv = np.zeros_like(dq)
        if self.robot.damping.stiffness > 0.0:
            m = self._viscous_moduli(t.numbers, self.robot.damping.stiffness)
            dq += h * (eq.body.viscous_push(y, q, t.w, m) + eq.body.viscous_push(t.w, q, y, m))
        for drag in eq.drags:
            by_q, by_v = self._drag_slopes(drag, q, v, t.w)
            dq += h * (drag.weights.T @ np.einsum("nij,ni->nj", by_q, self._points(drag, y))).ravel()
            dv += h * (drag.weights.T @ np.einsum("nij,ni->nj", by_v, self._points(drag, y))).ravel()
        return dq, dv


def SemiImplicit(robot: Robot, *, dt: float, design: Sequence[str] = (), solver: str | None = None) -> Linearised:
    """One linearisation a step (paper 001 eq. 2): quick, first order, stable for moderate steps; state (position, velocity)."""
    return Linearised(equations=Equations(robot=robot, design=design, solver=solver), dt=check_dt(dt))
