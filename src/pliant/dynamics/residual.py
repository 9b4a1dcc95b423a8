"""The residual force of an implicit step at any new positions, in balance or not, and its sparse
derivatives on fixed patterns.

Implicit.step solves g(q', x, u) = 0 for q'. Direct transcription makes it a constraint between
variables instead, and for that needs g away from its root, and the blocks dg/dq', dg/dx and dg/du
by themselves rather than through the factor of dg/dq'.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError
from pliant.dynamics.equations import Numbers
from pliant.dynamics.implicit import Implicit, Tape


@dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """Where the numbers of a sparse matrix stand, each place once."""

    rows: Array  # (nnz,)
    cols: Array  # (nnz,)

    @cached_property
    def _keys(self) -> tuple[Array, Array]:
        keys = self.rows * self._width + self.cols
        order = np.argsort(keys)
        return keys[order], order

    @property
    def _width(self) -> int:
        return int(self.cols.max(initial=0)) + 1

    def find(self, rows: Array, cols: Array) -> Array:
        """Which entry stands at each of some places, all of which there are."""
        keys, order = self._keys
        return order[np.searchsorted(keys, rows * self._width + cols)]


def entries(rows: Array, cols: Array, n: int) -> Entries:
    """The places of a list that may name some of them more than once; n columns."""
    keys = np.unique(np.asarray(rows, np.int64) * n + cols)
    return Entries(rows=keys // n, cols=keys % n)


@dataclass(frozen=True, kw_only=True, eq=False)
class Residual:
    """g of a model and its derivatives on the free unknowns. Positions q are (n_dofs,) with the
    supports in place, states x (n_state,)."""

    model: Implicit
    params: Array | None = None  # (n_params,); None: as described

    @cached_property
    def numbers(self) -> Numbers:
        return self.model.equations.numbers(self.params)

    @property
    def n_free(self) -> int:
        return len(self.model.equations.free)

    def _tape(self, q: Array, x: Array, u: Array) -> Tape:
        return self.model.at(self.numbers, x, u, q)

    def force(self, q: Array, x: Array, u: Array, k: int = 0) -> tuple[Array, float]:
        """((n_free,) g [N], the largest force at work [N]) of step k; NaN where a law with a
        barrier is inverted. Loads that change in time are dead, so that of all that is here only
        the force looks at k."""
        numbers = self.model.equations.at_time(self.numbers, (k + 1) * self.model.dt)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value, g, scale = self.model.forces(self.model.at(numbers, x, u, q))
        g = g[self.model.equations.free]
        return (g if np.isfinite(value) else np.full_like(g, np.nan)), scale

    def blocks(self, q: Array, x: Array, u: Array) -> tuple[Array, Array, Array]:
        """(dg/dq' in `by_new`, dg/dpart of each part of the state in `by_old` (n_parts, nnz), dg/du
        in `by_control`)."""
        t, free = self._tape(q, x, u), self.model.equations.free
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            columns = self.model.equations.control_columns(q, u)[free]
            return (
                self._new_values(t),
                self._old_values(t),
                columns[self.by_control.rows, self.by_control.cols],
            )

    def curvature(self, q: Array, x: Array, u: Array, y: Array) -> tuple[Array, Array, Array]:
        """The second derivatives of y . g for y (n_free,): by q' twice in `by_new`, by q' and u in
        `by_control`, by u twice (m, m).

        dg/dq' is symmetric, so the first is its change along y, taken by a central difference that
        moves no node by more than 1e-5 cells. What viscosity and friction couple between the new
        and the old positions is left out."""
        eq = self.model.equations
        along = np.zeros(eq.n_dofs)
        along[eq.free] = y
        h = 1e-5 * eq.body.cell_size() / max(float(np.abs(y).max(initial=0.0)), 1e-300)
        ahead, behind = (
            self._new_values(self._tape(q + side * h * along, x, u)) for side in (1.0, -1.0)
        )
        mixed = eq.control_slopes(q, u, along)[eq.free]
        double = [eq.control_curvature(q, u, along, du) for du in np.eye(u.size)]
        return (
            (ahead - behind) / (2.0 * h),
            mixed[self.by_control.rows, self.by_control.cols],
            np.reshape(double, (u.size, u.size)),
        )

    # By the new positions

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        pattern = self.model.equations.tangent.analysis.pattern
        return pattern.indices, np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))

    @cached_property
    def _filled(self) -> Array:
        """(n_free,) bool: the unknowns of terms with rank-one shares. On a body thrice as large
        every cord is taut."""
        eq = self.model.equations
        seen = np.zeros(eq.n_dofs, bool)
        for term, part in eq.terms:
            u = self.model.neutral_controls()[part]
            if any(
                len(term.ranks(eq.points(term, size * eq.body.rest), u)[1]) for size in (1.0, 3.0)
            ):
                seen |= np.repeat(term.weights.getnnz(axis=0) > 0, eq.body.dim)
        return seen[eq.free]

    @cached_property
    def by_new(self) -> Entries:
        (i, j), filled = self._triangle, np.flatnonzero(self._filled)
        rows, cols = (
            np.concatenate([i, j, np.repeat(filled, len(filled))]),
            np.concatenate([j, i, np.tile(filled, len(filled))]),
        )
        return entries(rows, cols, self.n_free)

    @cached_property
    def _mirrored(self) -> tuple[Array, Array]:
        i, j = self._triangle
        return self.by_new.find(i, j), self.by_new.find(j, i)

    def _new_values(self, t: Tape) -> Array:
        values, columns, weights = self.model.tangent_values(t)
        out = np.zeros(len(self.by_new.rows))
        for where in self._mirrored:
            out[where] = values
        h = columns[self.model.equations.free]
        if np.any(h[~self._filled]):
            raise InputError(
                "An actuator couples all of its points only in some positions, which the fixed "
                "pattern of this model's derivatives cannot follow; plan with gauss_newton."
            )
        for column, weight in zip(h.T, weights, strict=True):
            out += weight * column[self.by_new.rows] * column[self.by_new.cols]
        return out

    # By the parts of the old state

    @cached_property
    def used(self) -> tuple[bool, ...]:
        """Which parts of the state g looks at."""
        eq, rates = self.model.equations, self.model.rule.velocity
        moves = [
            c != 0.0 or (r != 0.0 and self._damped)
            for c, r in zip(self.model.inertia[1:], rates[1:], strict=True)
        ]
        return (moves[0] or (bool(eq.drags) and rates[0] > 0.0), *moves[1:])

    @cached_property
    def _damped(self) -> bool:
        model = self.model
        return (
            self._tape(
                model.equations.body.rest, model.initial_state(), model.neutral_controls()
            ).viscous.rate
            > 0.0
        )

    @cached_property
    def by_old(self) -> Entries:
        places = [self._mass[:2]]
        places += [self._cells[:2]] if self._damped else []
        places += [slide[:2] for slide in self._slides]
        rows, cols = (np.concatenate(part) for part in zip(*places, strict=True))
        return (
            entries(rows, cols, self.n_free)
            if any(self.used)
            else Entries(rows=rows[:0], cols=cols[:0])
        )

    @cached_property
    def _number(self) -> Array:
        """(n_dofs,) the place among the free unknowns, -1 of a held one."""
        held = self.model.equations.held
        return np.where(held, -1, np.cumsum(~held) - 1)

    def _among_free(self, rows: Array, cols: Array) -> tuple[Array, Array, Array]:
        """(rows, columns, which of them) of the entries between free unknowns."""
        rows, cols = self._number[rows].ravel(), self._number[cols].ravel()
        keep = np.flatnonzero((rows >= 0) & (cols >= 0))
        return rows[keep], cols[keep], keep

    @cached_property
    def _mass(self) -> tuple[Array, Array, Array]:
        M = sp.kron(self.numbers.mass, sp.identity(self.model.equations.body.dim)).tocoo()
        rows, cols, keep = self._among_free(M.row, M.col)
        return rows, cols, M.data[keep]

    @cached_property
    def _cells(self) -> tuple[Array, Array, Array]:
        """The entries of each cell's (nodes dim) x (nodes dim) block."""
        body = self.model.equations.body
        dofs = (body.cell_nodes[:, :, None] * body.dim + np.arange(body.dim)).reshape(
            len(body.cell_nodes), -1
        )
        return self._among_free(*np.broadcast_arrays(dofs[:, :, None], dofs[:, None, :]))

    @cached_property
    def _slides(self) -> list[tuple[Array, Array, Array, Array]]:
        """Of each drag: rows, columns, and the (point, axis, axis) and coefficient of each of its
        entries."""
        eq, out = self.model.equations, []
        for drag in eq.drags if self.model.rule.velocity[0] > 0.0 else ():
            pairs = [
                np.meshgrid(*[drag.weights[p].indices] * 2, indexing="ij")
                for p in range(drag.weights.shape[0])
            ]
            a, b = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
            point = np.repeat(np.arange(len(pairs)), [pair[0].size for pair in pairs])
            share = (
                np.asarray(drag.weights[point, a]).ravel()
                * np.asarray(drag.weights[point, b]).ravel()
            )
            axis = np.arange(eq.body.dim)
            rows, cols = np.broadcast_arrays(
                (a[:, None] * eq.body.dim + axis)[:, :, None],
                (b[:, None] * eq.body.dim + axis)[:, None, :],
            )
            source = (point[:, None, None] * eq.body.dim + axis[:, None]) * eq.body.dim + axis
            rows, cols, keep = self._among_free(rows, cols)
            out.append((rows, cols, source.ravel()[keep], np.repeat(share, eq.body.dim**2)[keep]))
        return out

    @cached_property
    def _old_places(self) -> tuple[Array, Array, list[Array]]:
        find = self.by_old.find
        cells = find(*self._cells[:2]) if self._damped else np.zeros(0, int)
        return find(*self._mass[:2]), cells, [find(rows, cols) for rows, cols, _, _ in self._slides]

    def _old_values(self, t: Tape) -> Array:
        model, n = self.model, len(self.by_old.rows)
        parts = np.split(t.x, len(model.rule.parts))
        out = np.zeros((len(parts), n))
        if not n:
            return out
        mass, cells, slides = self._old_places
        viscous = model.equations.body.viscous_cells
        for j, (c, r, y) in enumerate(
            zip(model.inertia[1:], model.rule.velocity[1:], parts, strict=True)
        ):
            out[j, mass] += c * self._mass[2]
            if self._damped and r != 0.0:
                out[j] += r * np.bincount(
                    cells, viscous(t.q, y, t.viscous.moduli).ravel()[self._cells[2]], n
                )
        drags = model.equations.drags if model.rule.velocity[0] > 0.0 else ()
        for drag, where, (_, _, source, share) in zip(drags, slides, self._slides, strict=True):
            new, old = (
                drag.weights @ q.reshape(-1, model.equations.body.dim) for q in (t.q, parts[0])
            )
            out[0] += np.bincount(
                where, share * drag.coupling(new, old, model.dt).ravel()[source], n
            )
        return out

    # By the controls

    @cached_property
    def by_control(self) -> Entries:
        eq = self.model.equations
        rows, cols = [np.zeros(0, int)], [np.zeros(0, int)]
        for term, part in eq.terms:
            dofs = np.flatnonzero(
                np.repeat(term.weights.getnnz(axis=0) > 0, eq.body.dim) & ~eq.held
            )
            rows.append(np.repeat(self._number[dofs], part.stop - part.start))
            cols.append(np.tile(np.arange(part.start, part.stop), len(dofs)))
        return Entries(rows=np.concatenate(rows), cols=np.concatenate(cols))
