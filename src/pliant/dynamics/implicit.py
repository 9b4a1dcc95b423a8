"""Implicit stepping: quasistatic, backward Euler (BDF1) and BDF2, one residual with three tables of
coefficients.

The new positions q' make g(q') = M a + damping + dW/dq' = 0 (paper 000 eq. 2 and 7, paper 003 eq.
4), where the acceleration a is a combination of q' and the parts of the state. g is the gradient of
an incremental potential, so Newton's method with a line search finds q', and its sparse factor
gives every derivative of the step by the implicit function theorem.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pliant import linalg
from pliant.actuators import AttachedPressure
from pliant.bodies import Fields
from pliant.bodies.assembly import Viscous
from pliant.core import (
    Array,
    Bend,
    InputError,
    Linearization,
    Space,
    Status,
    Step,
    by_columns,
    check_controls,
    finite_array,
)
from pliant.dynamics.checks import check_dt, check_index, check_state, check_step
from pliant.dynamics.equations import Equations, Numbers
from pliant.dynamics.newton import Newton, Potential, minimise
from pliant.dynamics.second import bend
from pliant.dynamics.stepping import Stepping
from pliant.robot import Robot


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The coefficients of a stepping rule over (q', part 0, part 1, ...) of the state; part 0 is
    the position q."""

    parts: tuple[str, ...]
    acceleration: tuple[float, ...]
    velocity: tuple[float, ...]  # for damping; over positions only
    following: tuple[tuple[float, ...], ...]  # each part of the new state
    guess: tuple[float, ...]  # where to start Newton, over the parts
    rate: tuple[float, ...]  # the velocity of a state, over its parts


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """What a step's derivatives need. The factor is not kept: `linearize` makes it anew at the
    step's end, so that a long rollout holds vectors and no factors."""

    owner: "Implicit"
    x: Array
    u: Array
    q: Array  # (n_dofs,) the new positions
    numbers: Numbers
    viscous: Viscous


@dataclass(frozen=True, kw_only=True, eq=False)
class Implicit(Stepping):
    """Dynamics of a robot by an implicit rule; made by Quasistatic, ImplicitEuler or BDF2."""

    rule: Rule
    newton: Newton = field(default_factory=Newton)

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
            a = self._acceleration(q, v, controls, p)
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

    def _acceleration(self, q: Array, v: Array, u: Array | None, p: Array | None) -> Array:
        """Return the acceleration (n_dofs,) [m/s^2] of one backward Euler step from time zero.

        Its error is O(dt), which keeps BDF2 at second order. The exact M^-1 f would excite every
        mode that is too stiff for the time step; backward Euler damps those. Returns zeros if the
        rule has no history, and with a warning if the step fails."""
        if "previous" not in self.rule.parts:
            return np.zeros_like(q)
        eq, h = self.equations, self.dt
        now, soon, later = (eq.place_supports(q, t) for t in (0.0, h, 2.0 * h))
        # Held unknowns get the velocity for which the step has the supports' own acceleration.
        v = np.where(eq.held, (soon - q - (now - 2.0 * soon + later)) / h, v)
        u = self.neutral_controls() if u is None else u
        euler = replace(self, rule=_euler_rule(h))
        step = euler.step(np.concatenate([q, v]), u, p)
        if not step.status:
            warnings.warn(
                f"BDF2 starts {self.robot.name} without acceleration, which costs it its second "
                f"order: the backward Euler step for it failed ({step.status.text}).",
                stacklevel=3,
            )
            return np.zeros_like(q)
        return (step.x[: q.size] - q - h * v) / h**2

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The state one step on; k is the step's index in time, which moving supports and changing
        loads look at: both are taken at its end."""
        u = check_controls(u, self.n_controls)
        x = check_state(x, self.space.size)
        parts = np.split(x, len(self.rule.parts))
        end = (check_index(k) + 1) * self.dt
        numbers = self.equations.numbers(p, end)
        viscous = self._viscous(numbers, parts)
        q, status = self._solve(
            numbers, viscous, parts, u, self.equations.place_supports(parts[0], end)
        )
        new = np.concatenate([_combine(row, [q, *parts]) for row in self.rule.following])
        return Step(
            new, status, Tape(owner=self, x=x, u=u.copy(), q=q, numbers=numbers, viscous=viscous)
        )

    def _viscous(self, numbers: Numbers, parts: list[Array]) -> Viscous:
        time = self.robot.damping.stiffness if self.rule.velocity[0] > 0.0 else 0.0
        used = [
            (r, y)
            for r, y in zip(self.rule.velocity[1:], parts, strict=True)
            if r != 0.0 and time > 0.0
        ]
        return self.equations.body.viscous(
            numbers.fields,
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

    def at(self, numbers: Numbers, x: Array, u: Array, q: Array) -> Tape:
        """The tape of a step from x that would end at positions q, in balance or not."""
        return Tape(
            owner=self,
            x=x,
            u=u,
            q=q,
            numbers=numbers,
            viscous=self._viscous(numbers, np.split(x, len(self.rule.parts))),
        )

    def forces(self, t: Tape) -> tuple[float, Array, float]:
        """(the incremental potential [J], its gradient g (n_dofs,) [N], the largest force at work
        [N]) at a tape's positions."""
        parts = np.split(t.x, len(self.rule.parts))
        return self._forces(t.numbers, t.viscous, self._pull(parts), parts[0], t.u, t.q)

    def _pull(self, parts: list[Array]) -> Array:
        """Where inertia alone would lead."""
        c = self.inertia
        return -_combine(c[1:], parts) / c[0] if c[0] > 0.0 else parts[0]

    def _forces(
        self, numbers: Numbers, viscous: Viscous, pull: Array, old: Array, u: Array, q: Array
    ) -> tuple[float, Array, float]:
        eq = self.equations
        energy, inside = eq.body.energy(q, numbers.fields, viscous)
        inertia = self.inertia[0] * eq.mass_times(numbers, q - pull)
        given, given_force = eq.given(numbers, q, u)
        drag, drag_force = self._drag(q, old)
        value = 0.5 * float(inertia @ (q - pull)) + energy + given + drag
        scale = max(float(np.abs(f).max()) for f in (inertia, inside, given_force))
        return value, inertia + inside + given_force + drag_force, scale

    def _solve(
        self, numbers: Numbers, viscous: Viscous, parts: list[Array], u: Array, placed: Array
    ) -> tuple[Array, Status]:
        eq = self.equations
        full, potential = self._potential(numbers, viscous, parts, u, placed)
        guess, rest = _combine(self.rule.guess, parts)[eq.free], placed[eq.free]
        z, status = minimise(potential, guess, self.newton)
        if not status and not np.array_equal(guess, rest):  # the extrapolation may lead astray
            z, status = minimise(potential, rest, self.newton)
        if not status and len(stages := _poisson_stages(numbers)) > 1:
            z, status = self._solve_by_poisson_stages(stages, parts, u, placed)
        beyond = "" if status else eq.body.beyond(full(z))
        return full(z), replace(status, text=f"{beyond}.") if beyond else status

    def _solve_by_poisson_stages(
        self, stages: list[Numbers], parts: list[Array], u: Array, placed: Array
    ) -> tuple[Array, Status]:
        """Solve at growing Poisson's ratios, each from the solution at the one before."""
        z, remedy = placed[self.equations.free], self._remedy()
        for numbers in stages:
            viscous = self._viscous(numbers, parts)
            _, potential = self._potential(numbers, viscous, parts, u, placed)
            z, status = minimise(replace(potential, remedy=remedy), z, self.newton)
            if not status:
                break
            remedy = (
                f"Poisson's ratio {float(stages[-1].fields.nu.max()):.8g} is nearly "
                "incompressible, which makes the equations ill-conditioned; take nu = "
                f"{NEARLY_INCOMPRESSIBLE:g}"
            )
        return z, status

    def _potential(
        self, numbers: Numbers, viscous: Viscous, parts: list[Array], u: Array, placed: Array
    ) -> tuple[Callable[[Array], Array], Potential]:
        """Return the map from free unknowns z to positions q', and what z minimises."""
        eq, free, old, pull = self.equations, self.equations.free, parts[0], self._pull(parts)

        def full(z: Array) -> Array:
            q = placed.copy()
            q[free] = z
            return q

        def evaluate(z: Array) -> tuple[float, Array, float]:
            value, g, scale = self._forces(numbers, viscous, pull, old, u, full(z))
            return value, g[free], scale

        # [J] energy densities cancel from about E
        noise = 1e-14 * float(numbers.fields.E @ eq.body.volumes())
        return full, Potential(
            evaluate=evaluate,
            floor=self._floor(numbers.fields),
            noise=noise,
            remedy=self._remedy(),
            factor=lambda z, project: self._factor(numbers, viscous, full(z), old, u, project),
        )

    def _remedy(self) -> str:
        """Return what helps where Newton's method fails. A smaller time step rarely does: it has
        less numerical damping, and the same forces crush the same cell."""
        if self.inertia[0] > 0.0:
            return (
                "reduce the controls or loads, change them more slowly, or add "
                "Damping(stiffness=...)"
            )
        still = "approach the load in smaller stages, or check its size and unit"
        if any(isinstance(term, AttachedPressure) for term, _ in self.equations.terms):
            still += ": beyond a cavity's largest pressure there is no balance"
        return still

    def _floor(self, fields: Fields) -> float:
        """[N] round-off of a nodal force: strains are known to eps times size over cell, on a facet
        of a cell."""
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

    # Friction

    def _drags(self) -> tuple:
        return self.equations.drags if self.rule.velocity[0] > 0.0 else ()

    def _points(self, drag, q: Array) -> Array:
        return drag.weights @ q.reshape(-1, self.equations.body.dim)

    def _drag(self, q: Array, old: Array) -> tuple[float, Array]:
        """Energy [J] and gradient [N] of all friction over the step."""
        energy, out = 0.0, np.zeros_like(q)
        for drag in self._drags():
            new, start = self._points(drag, q), self._points(drag, old)
            energy += drag.energy(new, start, self.dt)
            out += (drag.weights.T @ drag.gradient(new, start, self.dt)).ravel()
        return energy, out

    # Factor and derivatives

    def _factor(
        self, numbers: Numbers, viscous: Viscous, q: Array, old: Array, u: Array, project: bool
    ) -> linalg.Solve | None:
        eq = self.equations
        values, columns, weights = self._tangent_values(numbers, viscous, q, old, u, project)
        if project:
            return eq.tangent.factor_shifted(values, numbers.pair_mass, columns, weights)
        return eq.tangent.factor(values, columns, weights)

    def tangent_values(self, t: Tape) -> tuple[Array, Array, Array]:
        """dg/dq' at a tape's positions: (nnz,) in the pattern of the factor, and the rank-one
        shares ((n_dofs, r), (r,)) beside."""
        return self._tangent_values(
            t.numbers, t.viscous, t.q, np.split(t.x, len(self.rule.parts))[0], t.u, False
        )

    def _tangent_values(
        self, numbers: Numbers, viscous: Viscous, q: Array, old: Array, u: Array, project: bool
    ) -> tuple[Array, Array, Array]:
        eq = self.equations
        blocks = eq.body.stiffness(q, numbers.fields, viscous, project=project)
        points = eq.term_blocks(q, u) + [
            np.zeros((d.weights.shape[0], eq.body.dim, eq.body.dim)) for d in eq.drags
        ]
        for k, drag in enumerate(self._drags()):
            points[len(eq.terms) + k] = drag.curvature(
                self._points(drag, q), self._points(drag, old), self.dt
            )
        return eq.tangent.values(
            blocks, self.inertia[0] * numbers.pair_mass, points, project
        ), *eq.rank_columns(q, u)

    def tangent(self, step: Step) -> linalg.Solve:
        """The solve with dg/dq' at the step's end, on the free unknowns."""
        solve = self._own_factor(step.tape)
        if solve is None:
            raise InputError(
                "The step ended at a point that is not a strict minimum of its energy (a fold or "
                "a bifurcation), where it has no derivative; perturb the control or the state."
            )
        return solve

    def ends_in_minimum(self, step: Step) -> bool:
        """Whether the step's end is a strict minimum of its energy, which a small push does not
        end."""
        return self._own_factor(step.tape) is not None

    def _own_factor(self, t: Tape) -> linalg.Solve | None:
        return self._factor(
            t.numbers, t.viscous, t.q, np.split(t.x, len(self.rule.parts))[0], t.u, False
        )

    def linearize(self, step: Step) -> Linearization:
        """The derivative of a step as operators, through its own factor."""
        check_step(step, self)
        solve = self.tangent(step)
        columns = self.equations.control_columns(step.tape.q, step.tape.u)

        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=self.params.size,
            push=lambda dx, du, dp: self._jvp(step, solve, columns, dx, du, dp),
            pull=lambda x_bar: self._vjp(step, solve, columns, x_bar),
            solve=solve,
        )

    @property
    def bends(self) -> bool:
        """Whether `bend` is there: friction has no second derivatives."""
        return not self._drags()

    def bend(self, step: Step, x_bar: Array, lin: Linearization | None = None) -> Bend:
        """How the pullback of x_bar changes with x and u; `lin` is the step's linearisation, where
        it is at hand."""
        check_step(step, self)
        return bend(self, step, x_bar, self.linearize(step) if lin is None else lin)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """The transposed derivative of a step applied to x_bar: its shares for x, u and p."""
        return self.linearize(step).vjp(x_bar)

    def _jvp(
        self, step: Step, solve: linalg.Solve, columns: Array, dx: Array, du: Array, dp: Array
    ) -> Array:
        eq, t, c = self.equations, step.tape, self.inertia
        parts, dparts = (np.split(y, len(self.rule.parts)) for y in (t.x, dx))
        dg = eq.mass_times(t.numbers, _combine(c[1:], dparts)) + columns @ du
        if t.viscous.rate > 0.0:
            for r, y, dy in zip(self.rule.velocity[1:], parts, dparts, strict=True):
                dg += r * self._viscous_columns(t, t.q, y, dy) if r != 0.0 else 0.0
        for drag in self._drags():
            slope = drag.coupling(self._points(drag, t.q), self._points(drag, parts[0]), self.dt)
            dg += self._drag_columns(drag, slope, dparts[0])
        if dp.any():
            dg += by_columns(lambda change: (self._field_push(t, change),), dp)[0]
        dq = np.zeros_like(dg)
        dq[eq.free] = -solve(dg[eq.free])
        return np.concatenate([_combine(row, [dq, *dparts]) for row in self.rule.following])

    def _viscous_columns(self, t: Tape, q: Array, level: Array, change: Array) -> Array:
        push = lambda dy: (self.equations.body.viscous_push(q, level, dy, t.viscous.moduli),)
        return by_columns(push, change)[0]

    def _drag_columns(self, drag, slope: Array, change: Array) -> Array:
        """(n_dofs, k) a drag's change for slopes (n_points, dim, dim) of its gradient and changes
        (n_dofs, k) of the nodes."""
        dim = self.equations.body.dim
        moved = (drag.weights @ change.reshape(len(change) // dim, -1)).reshape(
            -1, dim, change.shape[1]
        )
        push = np.einsum("nij,njk->nik", slope, moved)
        return (drag.weights.T @ push.reshape(len(push), -1)).reshape(change.shape)

    def _field_push(self, t: Tape, dp: Array) -> Array:
        change = self.equations.variables.spread(dp)
        forces = self.equations.body.field_forces(t.q, t.numbers.fields, change, t.viscous)
        return forces + self.equations.mass_of(change.density, self._specific_force(t))

    def _specific_force(self, t: Tape) -> Array:
        """(n_dofs,) [m/s^2] what the mass matrix multiplies: acceleration + damping velocity -
        gravity."""
        parts = np.split(t.x, len(self.rule.parts))
        return _combine(self.inertia, [t.q, *parts]) - self.equations.gravity

    def _vjp(
        self, step: Step, solve: linalg.Solve, columns: Array, x_bar: Array
    ) -> tuple[Array, Array, Array]:
        eq, t, bars = self.equations, step.tape, np.split(x_bar, len(self.rule.parts))
        table = np.array(self.rule.following)
        y = np.zeros((eq.n_dofs, x_bar.shape[1]))
        y[eq.free] = -solve(_combine(table[:, 0], bars)[eq.free])
        kept = np.concatenate([_combine(table[:, j + 1], bars) for j in range(len(bars))])
        p_bar = np.zeros((0, y.shape[1]))
        if self.params.size:
            p_bar = by_columns(lambda row: (self._field_pull(t, row),), y)[0]
        by_x, by_u = self.state_share(step, y, columns)
        return kept + by_x, by_u, p_bar

    def state_share(
        self, step: Step, y: Array, columns: Array | None = None
    ) -> tuple[Array, Array]:
        """((n_state, k), (n_controls, k)) the derivatives of y . g by the old state and the
        control, for columns y (n_dofs, k)."""
        eq, t, c = self.equations, step.tape, self.inertia
        parts = np.split(t.x, len(self.rule.parts))
        columns = eq.control_columns(t.q, t.u) if columns is None else columns
        My = eq.mass_times(t.numbers, y)
        back = [c[j + 1] * My for j in range(len(parts))]
        if t.viscous.rate > 0.0:
            for j, r in enumerate(self.rule.velocity[1:]):
                back[j] += r * self._viscous_columns(t, parts[j], t.q, y) if r != 0.0 else 0.0
        for drag in self._drags():
            slope = drag.coupling(self._points(drag, t.q), self._points(drag, parts[0]), self.dt)
            back[0] += self._drag_columns(drag, np.swapaxes(slope, 1, 2), y)
        return np.concatenate(back), columns.T @ y

    def _field_pull(self, t: Tape, y: Array) -> Array:
        eq = self.equations
        by_E, by_nu = eq.body.field_work(t.q, t.numbers.fields, y, t.viscous)
        return eq.variables.collect(by_E, by_nu, eq.body.mass_work(y, self._specific_force(t)))


NEARLY_INCOMPRESSIBLE = 0.49  # Poisson's ratio up to which Newton's method needs no stages


def _poisson_stages(numbers: Numbers) -> list[Numbers]:
    """Return `numbers` with Poisson's ratio brought to its value in stages, the last as given.

    Each stage has a tenth of the compressibility 1 - 2 nu of the one before: Newton's method
    follows the solution from stage to stage, where it fails from afar."""
    nu, stages = numbers.fields.nu, []
    gap = 1.0 - 2.0 * NEARLY_INCOMPRESSIBLE
    while gap > 1.0 - 2.0 * float(nu.max()):
        limited = replace(numbers.fields, nu=np.minimum(nu, 0.5 * (1.0 - gap)))
        stages.append(replace(numbers, fields=limited))
        gap *= 0.1
    return [*stages, numbers]


def _combine(coefficients: Sequence[float] | Array, vectors: Sequence[Array]) -> Array:
    return sum(
        (c * v for c, v in zip(coefficients, vectors, strict=True) if c != 0.0),
        np.zeros_like(vectors[0]),
    )


def Quasistatic(
    robot: Robot,
    *,
    design: Sequence[str] = (),
    newton: Newton | None = None,
    solver: str | None = None,
) -> Implicit:
    """Each step is the equilibrium 0 = p(q') + c(q', u) (paper 000 eq. 7), found from the last one;
    friction has no say."""
    equations = Equations(robot=robot, design=design, solver=solver)
    loose = equations.free_rigid_motions()
    if loose:
        raise InputError(
            f"{robot.name} cannot be held in a quasistatic solve: nothing stops its "
            f"{', '.join(loose)}. Add a Support, or let it move with inertia: by ImplicitEuler "
            "or SemiImplicit, or with pliant drive --dynamic."
        )
    rule = Rule(
        parts=("position",),
        acceleration=(0.0, 0.0),
        velocity=(0.0, 0.0),
        following=((1.0, 0.0),),
        guess=(1.0,),
        rate=(0.0,),
    )
    return Implicit(equations=equations, rule=rule, dt=1.0, newton=newton or Newton())


def ImplicitEuler(
    robot: Robot,
    *,
    dt: float,
    design: Sequence[str] = (),
    newton: Newton | None = None,
    solver: str | None = None,
) -> Implicit:
    """Backward Euler (BDF1): first order, unconditionally stable; state (position, velocity)."""
    h = check_dt(dt)
    return Implicit(
        equations=Equations(robot=robot, design=design, solver=solver),
        rule=_euler_rule(h),
        dt=h,
        newton=newton or Newton(),
    )


def _euler_rule(h: float) -> Rule:
    return Rule(
        parts=("position", "velocity"),
        acceleration=(1 / h**2, -1 / h**2, -1 / h),
        velocity=(1 / h, -1 / h, 0.0),
        following=((1.0, 0.0, 0.0), (1 / h, -1 / h, 0.0)),
        guess=(1.0, h),
        rate=(0.0, 1.0),
    )


def BDF2(
    robot: Robot,
    *,
    dt: float,
    design: Sequence[str] = (),
    newton: Newton | None = None,
    solver: str | None = None,
) -> Implicit:
    """Second order backward differences (paper 003 eq. 4); state (position, previous, before), the
    last three positions.

    `initial_state()` chooses the two before the start so that the order is 2 from the first step
    under neutral controls. If the first control u0 is another one, start from
    `initial_state(controls=u0)`; otherwise the order is 1."""
    h = check_dt(dt)
    rule = Rule(
        parts=("position", "previous", "before"),
        acceleration=(2 / h**2, -5 / h**2, 4 / h**2, -1 / h**2),
        velocity=(1.5 / h, -2 / h, 0.5 / h, 0.0),
        guess=(3.0, -3.0, 1.0),
        rate=(1.5 / h, -2 / h, 0.5 / h),
        following=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
    )
    return Implicit(
        equations=Equations(robot=robot, design=design, solver=solver),
        rule=rule,
        dt=h,
        newton=newton or Newton(),
    )
