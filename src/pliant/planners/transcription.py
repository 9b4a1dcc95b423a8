"""The nonlinear program of direct collocation in plain NumPy: variables, objective, constraints and
their sparse derivatives.

Every part of a state is a linear function of the last positions, so states are no variables, and
what a term sees is linear in them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.residual import Entries, Residual, entries
from pliant.problem import Ball, Interval, Linear, Look, Problem, Quadratic, Watch, stencilled
from pliant.problem.looks import jacobian


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """The problem as a nonlinear program over w = (free positions of steps 1 to N, controls of
    steps 0 to N - 1), flat."""

    problem: Problem
    second_order: bool = False  # the Hessian holds the curvature of the dynamics as well

    @property
    def model(self) -> Implicit:
        return self.problem.model  # type: ignore[return-value]

    @cached_property
    def residual(self) -> Residual:
        return Residual(
            model=self.model,
            params=None if self.problem.params is None else np.asarray(self.problem.params, float),
        )

    @property
    def n_dofs(self) -> int:
        return self.model.space.n_dofs

    @property
    def n_positions(self) -> int:
        return self.problem.steps * self.residual.n_free

    @property
    def size(self) -> int:
        return self.n_positions + self.problem.n_variables

    @cached_property
    def _placed(self) -> Array:
        """(steps, n_dofs) where the supports have their unknowns."""
        eq = self.model.equations
        return np.array(
            [
                eq.place_supports(eq.body.rest, (k + 1) * self.model.dt)
                for k in range(self.problem.steps)
            ]
        )

    @cached_property
    def memory(self) -> tuple[Array, ...]:
        """(n_parts,) each: the shares of q_k, q_{k-1}, ... in the parts of x_k, from part_i' = F_i0
        q' + sum_j F_ij part_j unrolled."""
        table = np.array(self.model.rule.following)
        out = [table[:, 0]]
        while np.any(
            table[:, 1:] @ out[-1]
        ):  # the rules' tables are nilpotent: a state holds a few positions and no more
            out.append(table[:, 1:] @ out[-1])
        return tuple(out)

    def pack(self, positions: Array, controls: Array) -> Array:
        """w from positions (steps, n_dofs) and controls (steps, n_controls)."""
        return np.concatenate([positions[:, self.model.equations.free].ravel(), controls.ravel()])

    def unpack(self, w: Array) -> tuple[Array, Array, Array]:
        """(states (steps + 1, n_state), positions (steps, n_dofs), controls (steps,
        n_controls))."""
        N, table = self.problem.steps, np.array(self.model.rule.following)
        positions = self._placed.copy()
        positions[:, self.model.equations.free] = w[: self.n_positions].reshape(N, -1)
        states = [self.problem.start.reshape(len(self.model.rule.parts), -1)]
        for q in positions:
            states.append(table @ np.concatenate([q[None], states[-1]]))
        return np.array(states).reshape(N + 1, -1), positions, self._controls(w)

    def _controls(self, w: Array) -> Array:
        return w[self.n_positions :].reshape(self.problem.steps, -1)

    # Objective

    def _view(self, look: Look) -> sp.csr_matrix:
        """(look.size, size) what a look sees of w."""
        n, nf, m = self.n_dofs, self.residual.n_free, self.model.n_controls
        pieces = []  # (first column, matrix)
        for lag, C in enumerate(look.states):
            for back, shares in enumerate(self.memory):
                k = max(look.step - lag, 0) - back
                if k >= 1:
                    C_k = sum(
                        c * C[:, j * n : (j + 1) * n] for j, c in enumerate(shares) if c != 0.0
                    )
                    pieces.append(((k - 1) * nf, sp.coo_matrix(C_k[:, self.model.equations.free])))
        for lag, D in enumerate(look.controls):
            if look.step > lag:
                pieces.append((self.n_positions + (look.step - 1 - lag) * m, sp.coo_matrix(D)))
        rows, cols, data = (
            np.concatenate([np.zeros(0), *part])
            for part in (
                [P.row for _, P in pieces],
                [first + P.col for first, P in pieces],
                [P.data for _, P in pieces],
            )
        )
        return sp.csr_matrix(
            (data, (rows.astype(int), cols.astype(int))), shape=(look.size, self.size)
        )

    def _linear_view(self, looks: tuple[Look, ...]) -> tuple[sp.csr_matrix, Array, list[slice]]:
        """(R, y0, the rows of each look): all of them see R w + y0."""
        states, _, controls = self.unpack(np.zeros(self.size))
        ends = np.cumsum([0, *(look.size for look in looks)])
        y0 = np.concatenate(
            [
                np.zeros(0),
                *(look.see(states, controls, self.problem.first_control) for look in looks),
            ]
        )
        R = sp.vstack(
            [sp.csr_matrix((0, self.size)), *(self._view(look) for look in looks)], format="csr"
        )
        return R, y0, [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def _looks(self) -> tuple[sp.csr_matrix, Array, list[slice]]:
        return self._linear_view(self.problem.looks)

    def _seen(self, w: Array) -> list[tuple[Look, Array]]:
        """Each look with what it sees."""
        R, y0, rows = self._looks
        y = R @ w + y0
        return [(look, y[part]) for look, part in zip(self.problem.looks, rows, strict=True)]

    def value(self, w: Array) -> float:
        """The problem's objective; where w is a run, that of the run."""
        looks = sum(look.loss.value(y) for look, y in self._seen(w))
        return float(
            looks
            + sum(
                smooth.value(self._controls(w), self.problem.first_control)
                for smooth in self.problem.smooths
            )
        )

    def gradient(self, w: Array) -> Array:
        """(size,)"""
        out = self._looks[0].T @ np.concatenate(
            [np.zeros(0), *(look.loss.slope(y) for look, y in self._seen(w))]
        )
        for smooth in self.problem.smooths:
            out[self.n_positions :] += smooth.gradient(
                self._controls(w), self.problem.first_control
            ).ravel()
        return out

    def cost_scale(self, w: Array) -> float:
        """What the cost is measured by: its value at w, or what moving by a tenth of the body
        changes."""
        slope = float(np.abs(self.gradient(w)[: self.n_positions]).max(initial=0.0))
        extent = float(np.ptp(self.model.equations.body.rest))
        return max(abs(self.value(w)), 0.1 * extent * slope) or 1.0

    @cached_property
    def _smooth_hessian(self) -> sp.csr_matrix:
        H = sp.csr_matrix((self.problem.n_variables,) * 2)
        for smooth in self.problem.smooths:
            D = _differences(smooth.stencil, self.problem.steps)
            H = H + sp.kron(D.T @ D, sp.diags(smooth.weight))
        return sp.block_diag([sp.csr_matrix((self.n_positions,) * 2), H], format="csr")

    def _hessian(
        self, R: sp.csr_matrix, smooth: sp.csr_matrix, factors: list[Array]
    ) -> tuple[Array, Array, Array]:
        """(rows, columns, values) of the upper triangle of R^T F^T F R + smooth, from factors F (r,
        m) of all looks and constraints."""
        FR = sp.block_diag([sp.csr_matrix((0, 0)), *factors], format="csr") @ R
        H = sp.triu(FR.T @ FR + smooth).tocoo()
        return H.row.astype(np.int64), H.col.astype(np.int64), H.data

    @cached_property
    def _all_views(self) -> sp.csr_matrix:
        return sp.vstack([self._looks[0], self._watches[0]], format="csr")

    @cached_property
    def hessian_entries(self) -> Entries:
        """The upper triangle, column after column."""
        cost, curved = self._cost_entries, self._curved_places
        found = entries(
            np.concatenate([cost.rows, *(rows for rows, _ in curved)]),
            np.concatenate([cost.cols, *(cols for _, cols in curved)]),
            self.size,
        )
        order = np.lexsort((found.rows, found.cols))
        return Entries(rows=found.rows[order], cols=found.cols[order])

    @cached_property
    def _cost_entries(self) -> Entries:
        """Those of the objective and of the sets."""
        factors = [_factor_pattern(look) for look in self.problem.looks]
        factors += [np.ones((int(w.inside.curved), w.watch.look.size)) for w in self._watched]
        rows, cols, _ = self._hessian(
            abs(self._all_views), abs(self._smooth_hessian), factors
        )  # signs could cancel
        return Entries(rows=rows, cols=cols)

    @cached_property
    def _curved_places(self) -> list[tuple[Array, Array]]:
        """Of each step: by its new positions twice, by them and its controls, by its controls
        twice."""
        if not self.second_order:
            return []
        res, nf, m, out = self.residual, self.residual.n_free, self.model.n_controls, []
        for k in range(self.problem.steps):
            q, u = k * nf, self.n_positions + k * m
            i, j = np.triu_indices(m)
            out += [
                (res.by_new.rows[self._upper] + q, res.by_new.cols[self._upper] + q),
                (res.by_control.rows + q, res.by_control.cols + u),
                (i + u, j + u),
            ]
        return out

    @cached_property
    def _upper(self) -> Array:
        return self.residual.by_new.rows <= self.residual.by_new.cols

    @cached_property
    def _hessian_layout(self) -> tuple[Array, Array]:
        """(where the entries of the objective stand in `hessian_entries`, where those of the
        dynamics do)"""
        find = self.hessian_entries.find
        curved = [find(*place) for place in self._curved_places]
        return find(self._cost_entries.rows, self._cost_entries.cols), np.concatenate(
            [np.zeros(0, int), *curved]
        )

    def hessian(self, w: Array, share: float, multipliers: Array, scale: float) -> Array:
        """(nnz,) in `hessian_entries`: `share` of the Gauss-Newton Hessian of the objective, the
        curvature of the sets, and with `second_order` that of the dynamics, whose constraints are
        forces over `scale` [N]."""
        cost, curved = self._hessian_layout
        plain = self._plain_hessian
        out = np.zeros(len(self.hessian_entries.rows))
        out[cost] = self._cost_values(w, share, multipliers) if plain is None else share * plain
        if self.second_order:
            out += np.bincount(
                curved, self._curved_values(w, multipliers[: self.n_positions] / scale), len(out)
            )
        return out

    def _curved_values(self, w: Array, forces: Array) -> Array:
        """In the order of `_curved_places`, for multipliers of the residual forces."""
        states, positions, controls = self.unpack(w)
        out, upper = [], np.triu_indices(self.model.n_controls)
        for q, x, u, y in zip(
            positions, states[:-1], controls, forces.reshape(len(positions), -1), strict=True
        ):
            new, mixed, double = self.residual.curvature(q, x, u, y)
            out += [new[self._upper], mixed, double[upper]]
        return np.concatenate(out)

    @cached_property
    def _plain_hessian(self) -> Array | None:
        plain = all(isinstance(look.loss, Quadratic | Linear) for look in self.problem.looks)
        plain = plain and not any(w.inside.curved for w in self._watched)
        return (
            self._cost_values(np.zeros(self.size), 1.0, np.zeros(len(self.constraint_bounds[0])))
            if plain
            else None
        )

    def _cost_values(self, w: Array, share: float, multipliers: Array) -> Array:
        factors = [np.sqrt(share) * look.loss.factor(y) for look, y in self._seen(w)]
        for watched, y in self._observed(w):
            bend = watched.inside.factor
            factors.append(
                np.zeros((0, len(y)))
                if bend is None
                else bend(multipliers[watched.rows]) @ jacobian(watched.watch.function, y)
            )
        rows, cols, values = self._hessian(self._all_views, share * self._smooth_hessian, factors)
        out = np.zeros(len(self._cost_entries.rows))
        out[self._cost_entries.find(rows, cols)] = values
        return out

    # Constraints

    @cached_property
    def control_bounds(self) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) what all limits of order 0 leave."""
        plain = [band for band in self.problem.bands if band.order == 0]
        low, high = (
            np.max([band.lower for band in plain], axis=0),
            np.min([band.upper for band in plain], axis=0),
        )
        bad = np.flatnonzero(low > high)
        if bad.size:
            raise InputError(
                f"The limits of control {bad[0]} leave nothing: from {low[bad[0]]:g} to "
                f"{high[bad[0]]:g}; widen one of them."
            )
        return low, high

    @property
    def bounds(self) -> tuple[Array, Array]:
        """((size,), (size,)) of w: positions are free."""
        low, high = (np.tile(side, self.problem.steps) for side in self.control_bounds)
        return np.concatenate([np.full(self.n_positions, -np.inf), low]), np.concatenate(
            [np.full(self.n_positions, np.inf), high]
        )

    def forces(self, w: Array) -> tuple[Array, float]:
        """((steps, n_free) g of every step [N], the largest force at work [N])."""
        states, positions, controls = self.unpack(w)
        found = [
            self.residual.force(q, x, u, k)
            for k, (q, x, u) in enumerate(zip(positions, states[:-1], controls, strict=True))
        ]
        return np.array([g for g, _ in found]), max(scale for _, scale in found)

    def force_scale(self, w: Array) -> float:
        """[N] what residuals are measured by: the largest force at work in w, at least what a
        thousandth of a cell's size makes."""
        states, positions, controls = self.unpack(w)
        stiffness = float(
            np.abs(self.residual.blocks(positions[0], states[0], controls[0])[0]).max()
        )
        scale = max(self.forces(w)[1], 1e-3 * stiffness * self.model.equations.body.cell_size())
        return scale if np.isfinite(scale) else 1.0

    @cached_property
    def _bands(self) -> tuple[sp.coo_matrix, Array, Array]:
        """(G, low, high): low <= G controls <= high of the limits on rates and accelerations, in
        units of the control."""
        N, first, m = self.problem.steps, self.problem.first_control, self.model.n_controls
        G, low, high = [sp.csr_matrix((0, N * m))], [np.zeros(0)], [np.zeros(0)]
        for band in (band for band in self.problem.bands if band.order > 0):
            unit = 1.0 / band.stencil[0]
            before = stencilled(band.stencil, np.zeros((N, m)), first)
            held = np.flatnonzero(np.tile(np.isfinite(band.lower) | np.isfinite(band.upper), N))
            G.append(
                sp.kron(_differences(unit * band.stencil, N), sp.identity(m), format="csr")[held]
            )
            low.append(unit * (band.lower - before).ravel()[held])
            high.append(unit * (band.upper - before).ravel()[held])
        return sp.vstack(G, format="coo"), np.concatenate(low), np.concatenate(high)

    @cached_property
    def _watches(self) -> tuple[sp.csr_matrix, Array, list[slice]]:
        return self._linear_view(tuple(watch.look for watch in self.problem.watches))

    @cached_property
    def _watched(self) -> list["Watched"]:
        R, _, parts = self._watches
        out, first = [], self.n_positions + self._bands[0].shape[0]
        for watch, part in zip(self.problem.watches, parts, strict=True):
            inside = _inside(watch, watch.function(np.zeros(watch.look.size)))
            rows = slice(first, first + len(inside.low))
            columns = np.unique(R[part].indices)
            out.append(
                Watched(
                    watch=watch,
                    inside=inside,
                    rows=rows,
                    columns=columns,
                    view=R[part][:, columns].toarray(),
                )
            )
            first = rows.stop
        return out

    def _observed(self, w: Array) -> list[tuple["Watched", Array]]:
        """Each constraint with what it sees."""
        R, y0, parts = self._watches
        y = R @ w + y0
        return [(watched, y[part]) for watched, part in zip(self._watched, parts, strict=True)]

    @property
    def constraint_bounds(self) -> tuple[Array, Array]:
        still, (_, low, high) = np.zeros(self.n_positions), self._bands
        return (
            np.concatenate([still, low, *(w.inside.low for w in self._watched)]),
            np.concatenate([still, high, *(w.inside.high for w in self._watched)]),
        )

    def constraints(self, w: Array, scale: float) -> Array:
        """The residual forces over `scale` [N], the limits on rates and accelerations, and the
        constraints on effectors."""
        seen = [watched.inside.value(watched.watch.function(y)) for watched, y in self._observed(w)]
        return np.concatenate(
            [self.forces(w)[0].ravel() / scale, self._bands[0] @ w[self.n_positions :], *seen]
        )

    def _backs(self, k: int) -> list[int]:
        """How many steps back from x_k step k looks at positions that are variables."""
        used = np.array(self.residual.used)
        return [
            back
            for back, shares in enumerate(self.memory)
            if k - back >= 1 and np.any(shares[used])
        ]

    @cached_property
    def _dynamics_entries(self) -> Entries:
        """Of each step: by q_{k+1}, by q_k, q_{k-1}, ... as far as they are variables, by u_k."""
        res, nf, m = self.residual, self.residual.n_free, self.model.n_controls
        rows, cols = [], []
        for k in range(self.problem.steps):
            blocks = [
                (res.by_new, k * nf),
                *((res.by_old, (k - 1 - back) * nf) for back in self._backs(k)),
                (res.by_control, self.n_positions + k * m),
            ]
            rows += [where.rows + k * nf for where, _ in blocks]
            cols += [where.cols + first for where, first in blocks]
        return Entries(rows=np.concatenate(rows), cols=np.concatenate(cols))

    def _dynamics_values(self, w: Array) -> Array:
        states, positions, controls = self.unpack(w)
        out = []
        for k, (q, x, u) in enumerate(zip(positions, states[:-1], controls, strict=True)):
            new, old, control = self.residual.blocks(q, x, u)
            out += [new, *(self.memory[back] @ old for back in self._backs(k)), control]
        return np.concatenate(out)

    @cached_property
    def _jacobian_layout(self) -> tuple[Entries, Array]:
        """(entries column after column, where each of them comes from: dynamics, then limits, then
        constraints on effectors)."""
        G = self._bands[0]
        i, j = (
            [self._dynamics_entries.rows, G.row + self.n_positions],
            [self._dynamics_entries.cols, G.col + self.n_positions],
        )
        for watched in self._watched:
            i.append(
                np.repeat(np.arange(watched.rows.start, watched.rows.stop), len(watched.columns))
            )
            j.append(np.tile(watched.columns, len(watched.inside.low)))
        rows, cols = np.concatenate(i).astype(np.int64), np.concatenate(j).astype(np.int64)
        order = np.lexsort((rows, cols))
        return Entries(rows=rows[order], cols=cols[order]), order

    @property
    def jacobian_entries(self) -> Entries:
        return self._jacobian_layout[0]

    def jacobian(self, w: Array, scale: float) -> Array:
        """(nnz,) of `constraints` in `jacobian_entries`."""
        seen = []
        for watched, y in self._observed(w):
            J = watched.inside.slope(watched.watch.function(y)) @ jacobian(
                watched.watch.function, y
            )
            seen.append((J @ watched.view).ravel())
        return np.concatenate([self._dynamics_values(w) / scale, self._bands[0].data, *seen])[
            self._jacobian_layout[1]
        ]


def _factor_pattern(look: Look) -> Array:
    """(r, m) ones where the Gauss-Newton factor of a look makes entries of the Hessian."""
    if isinstance(look.loss, Quadratic):
        return np.eye(look.size)
    return np.zeros((0, look.size)) if isinstance(look.loss, Linear) else np.ones((1, look.size))


def _differences(stencil: Array, steps: int) -> sp.csr_matrix:
    """(steps, steps) sum_j stencil_j u_{k-j} as a matrix."""
    reach = min(len(stencil), steps)
    return sp.diags(
        [np.full(steps - j, stencil[j]) for j in range(reach)],
        [-j for j in range(reach)],
        shape=(steps, steps),
        format="csr",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Inside:
    """A set as smooth inequalities low <= value(c) <= high."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]  # (r, m)
    low: Array  # (r,)
    high: Array  # (r,)
    factor: Callable[[Array], Array] | None = (
        None  # of multipliers (r,): (k, m), its square the curvature they give the Lagrangian
    )

    @property
    def curved(self) -> bool:
        return self.factor is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class Watched:
    """A constraint on an effector in the program."""

    watch: Watch
    inside: Inside
    rows: slice  # its constraints
    columns: Array  # (k,) of w that it sees
    view: Array  # (m, k) what it sees of them


def _inside(watch: Watch, c: Array) -> Inside:
    region = watch.inside
    if isinstance(region, Interval):
        low, high = (
            np.array(np.broadcast_to(np.asarray(side, float), c.shape))
            for side in (region.lower, region.upper)
        )
        return Inside(value=lambda c: c, slope=lambda c: np.eye(len(c)), low=low, high=high)
    if (
        isinstance(region, Ball) and region.radius > 0.0
    ):  # (|c - center|^2 - r^2) / 2r is smooth, and a distance near the sphere
        center, r = np.asarray(region.center, float), region.radius
        return Inside(
            value=lambda c: np.array([((c - center) @ (c - center) - r * r) / (2.0 * r)]),
            slope=lambda c: (c - center)[None] / r,
            low=np.array([-np.inf]),
            high=np.zeros(1),
            factor=lambda pull: np.sqrt(max(pull[0], 0.0) / r) * np.eye(len(center)),
        )
    raise InputError(
        "Collocation keeps constraints within an Interval or a Ball of a positive radius, not a "
        f"{type(region).__name__}; write the set as a function with an Interval."
    )
