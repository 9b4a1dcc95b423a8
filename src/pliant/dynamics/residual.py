"""The residual force of an implicit step at arbitrary new positions, and its sparse derivatives
with fixed patterns.

ImplicitModel.step solves g(q', x, u) = 0 for q'. Direct transcription uses g as a constraint
between variables. It needs g away from its root, and the blocks dg/dq', dg/dx and dg/du themselves.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.bodies import DampedCellsBody, require_protocol
from pliant.core import Array, InputError
from pliant.dynamics.equations import ModelCoefficients
from pliant.dynamics.implicit_model import ImplicitModel, ImplicitTape


@dataclass(frozen=True, kw_only=True, eq=False)
class SparsityPattern:
    """The rows and columns of the entries of a sparse matrix, without duplicates."""

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
        """Return the index of the entry at each given row and column. All of them must exist."""
        keys, order = self._keys
        return order[np.searchsorted(keys, rows * self._width + cols)]


def unique_pattern(rows: Array, cols: Array, n: int) -> SparsityPattern:
    """Return the pattern of a list of entries with duplicates; the matrix has n columns."""
    keys = np.unique(np.asarray(rows, np.int64) * n + cols)
    return SparsityPattern(rows=keys // n, cols=keys % n)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImplicitResidual:
    """The residual g of a model and its derivatives on the free unknowns. Positions q are (n_dofs,)
    and satisfy the supports; states x are (n_state,)."""

    model: ImplicitModel
    params: Array | None = None  # (n_params,); None: the robot's values

    @cached_property
    def coefficients(self) -> ModelCoefficients:
        return self.model.equations.coefficients(self.params)

    @property
    def n_free(self) -> int:
        return len(self.model.equations.free)

    def _tape(self, q: Array, x: Array, u: Array) -> ImplicitTape:
        return self.model.tape_at(self.coefficients, x, u, q)

    def force(self, q: Array, x: Array, u: Array, k: int = 0) -> tuple[Array, float]:
        """Return g (n_free,) [N] of step k and the largest acting force [N]. g is NaN if a material
        with a barrier energy is inverted. Only g depends on k: time-dependent loads are dead
        loads."""
        coefficients = self.model.equations.with_loads_at(
            self.coefficients, (k + 1) * self.model.dt
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value, g, scale = self.model.forces(self.model.tape_at(coefficients, x, u, q))
        g = g[self.model.equations.free]
        return (g if np.isfinite(value) else np.full_like(g, np.nan)), scale

    def blocks(self, q: Array, x: Array, u: Array) -> tuple[Array, Array, Array]:
        """Return dg/dq' in `new_pattern`, dg/dx of each part of the state in `old_pattern`
        (n_parts, nnz), and dg/du in `control_pattern`."""
        t, free = self._tape(q, x, u), self.model.equations.free
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            columns = self.model.equations.control_jacobian(q, u)[free]
            return (
                self._new_values(t),
                self._old_values(t),
                columns[self.control_pattern.rows, self.control_pattern.cols],
            )

    def curvature(self, q: Array, x: Array, u: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return the second derivatives of y . g for y (n_free,): by q' twice in `new_pattern`, by
        q' and u in `control_pattern`, by u twice (m, m).

        dg/dq' is symmetric, so the first is its change along y. A central difference computes it
        and moves no node by more than 1e-5 cells. The coupling of new and old positions by
        viscosity and friction is neglected."""
        eq = self.model.equations
        along = np.zeros(eq.n_dofs)
        along[eq.free] = y
        h = 1e-5 * eq.body.cell_size() / max(float(np.abs(y).max(initial=0.0)), 1e-300)
        ahead, behind = (
            self._new_values(self._tape(q + side * h * along, x, u)) for side in (1.0, -1.0)
        )
        mixed = eq.control_jacobian_derivative(q, u, along)[eq.free]
        control_hessian = [eq.control_hessian_vector(q, u, along, du) for du in np.eye(u.size)]
        return (
            (ahead - behind) / (2.0 * h),
            mixed[self.control_pattern.rows, self.control_pattern.cols],
            np.reshape(control_hessian, (u.size, u.size)),
        )

    # By the new positions

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        pattern = self.model.equations.tangent.analysis.pattern
        return pattern.indices, np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))

    @cached_property
    def _rank_one_unknowns(self) -> Array:
        """The unknowns (n_free,), bool, of potentials with rank-one Hessian terms. They are found
        on the rest shape and on one three times as large, which makes every cable taut."""
        eq = self.model.equations
        seen = np.zeros(eq.n_dofs, bool)
        for potential, part in eq.potentials:
            u = self.model.neutral_controls()[part]
            if any(
                len(potential.rank_one_terms(eq.points(potential, size * eq.body.rest), u)[1])
                for size in (1.0, 3.0)
            ):
                seen |= np.repeat(potential.weights.getnnz(axis=0) > 0, eq.body.dim)
        for wall in self._liquid_walls:
            seen[wall] = True
        return seen[eq.free]

    @cached_property
    def _liquid_walls(self) -> list[Array]:
        """The free unknowns of the wall of each liquid with inertia, which couples all of them."""
        eq = self.model.equations
        if self.model.inertia[0] == 0.0:
            return []
        return [
            np.flatnonzero(np.repeat(liquid.fractions != 0.0, eq.body.dim) & ~eq.held)
            for liquid in eq.liquids
        ]

    @cached_property
    def new_pattern(self) -> SparsityPattern:
        (i, j), filled = self._triangle, np.flatnonzero(self._rank_one_unknowns)
        rows, cols = (
            np.concatenate([i, j, np.repeat(filled, len(filled))]),
            np.concatenate([j, i, np.tile(filled, len(filled))]),
        )
        return unique_pattern(rows, cols, self.n_free)

    @cached_property
    def _symmetric_places(self) -> tuple[Array, Array]:
        i, j = self._triangle
        return self.new_pattern.find(i, j), self.new_pattern.find(j, i)

    def _new_values(self, t: ImplicitTape) -> Array:
        values, columns, weights = self.model.tangent_values(t)
        out = np.zeros(len(self.new_pattern.rows))
        for where in self._symmetric_places:
            out[where] = values
        h = columns[self.model.equations.free]
        if np.any(h[~self._rank_one_unknowns]):
            raise InputError(
                "An actuator couples all of its points only in some positions, but the sparsity "
                "pattern of this model's derivatives is fixed; plan with gauss_newton."
            )
        for column, weight in zip(h.T, weights, strict=True):
            out += weight * column[self.new_pattern.rows] * column[self.new_pattern.cols]
        return out

    # By the parts of the old state

    @cached_property
    def used(self) -> tuple[bool, ...]:
        """The parts of the state that g depends on."""
        eq, rates = self.model.equations, self.model.rule.velocity
        moves = [
            c != 0.0 or (r != 0.0 and self._damped)
            for c, r in zip(self.model.inertia[1:], rates[1:], strict=True)
        ]
        return (moves[0] or (bool(eq.dissipations) and rates[0] > 0.0), *moves[1:])

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
    def old_pattern(self) -> SparsityPattern:
        places = [self._mass[:2]]
        places += [self._cells[:2]] if self._damped else []
        places += [slide[:2] for slide in self._dissipation_entries]
        places += self._liquid_entries
        rows, cols = (np.concatenate(part) for part in zip(*places, strict=True))
        return (
            unique_pattern(rows, cols, self.n_free)
            if any(self.used)
            else SparsityPattern(rows=rows[:0], cols=cols[:0])
        )

    @cached_property
    def _liquid_entries(self) -> list[tuple[Array, Array]]:
        """The rows and columns of all entries between the unknowns of the wall of each liquid."""
        found = [self._free_index[wall] for wall in self._liquid_walls]
        return [(np.repeat(wall, len(wall)), np.tile(wall, len(wall))) for wall in found]

    def _add_liquids(self, t: ImplicitTape, parts: list[Array], out: Array) -> None:
        """Add the derivative of the inertia of liquids by each part of the state."""
        model, n = self.model, self.model.equations.n_dofs
        liquids = model.liquids_after(parts)
        for liquid, wall, places in zip(
            liquids, self._liquid_walls, self._liquid_entries, strict=True
        ):
            where, units = self.old_pattern.find(*places), np.zeros((n, len(wall)))
            units[wall, np.arange(len(wall))] = 1.0
            for values, column in zip(out, np.transpose(model.rule.old_positions), strict=True):
                changes = [share * units for share in column]
                values[where] += liquid.olds_jvp(t.q, changes)[wall].ravel()

    @cached_property
    def _free_index(self) -> Array:
        """The index (n_dofs,) among the free unknowns; -1 for a held one."""
        held = self.model.equations.held
        return np.where(held, -1, np.cumsum(~held) - 1)

    def _among_free(self, rows: Array, cols: Array) -> tuple[Array, Array, Array]:
        """Return the rows, the columns and the indices of the entries between free unknowns."""
        rows, cols = self._free_index[rows].ravel(), self._free_index[cols].ravel()
        keep = np.flatnonzero((rows >= 0) & (cols >= 0))
        return rows[keep], cols[keep], keep

    @cached_property
    def _mass(self) -> tuple[Array, Array, Array]:
        M = sp.kron(self.coefficients.mass, sp.identity(self.model.equations.body.dim)).tocoo()
        rows, cols, keep = self._among_free(M.row, M.col)
        return rows, cols, M.data[keep]

    @cached_property
    def _cells(self) -> tuple[Array, Array, Array]:
        """The entries of each cell's (nodes dim) x (nodes dim) block."""
        body = require_protocol(
            self.model.equations.body, DampedCellsBody, "Collocation with stiffness damping"
        )
        dofs = (body.cell_nodes[:, :, None] * body.dim + np.arange(body.dim)).reshape(
            len(body.cell_nodes), -1
        )
        return self._among_free(*np.broadcast_arrays(dofs[:, :, None], dofs[:, None, :]))

    @cached_property
    def _dissipation_entries(self) -> list[tuple[Array, Array, Array, Array]]:
        """For each dissipation: rows, columns, and the (point, axis, axis) index and coefficient of
        each entry."""
        eq, out = self.model.equations, []
        for dissipation in eq.dissipations if self.model.rule.velocity[0] > 0.0 else ():
            pairs = [
                np.meshgrid(*[dissipation.weights[p].indices] * 2, indexing="ij")
                for p in range(dissipation.weights.shape[0])
            ]
            a, b = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
            point = np.repeat(np.arange(len(pairs)), [pair[0].size for pair in pairs])
            share = (
                np.asarray(dissipation.weights[point, a]).ravel()
                * np.asarray(dissipation.weights[point, b]).ravel()
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
        find = self.old_pattern.find
        cells = find(*self._cells[:2]) if self._damped else np.zeros(0, int)
        return (
            find(*self._mass[:2]),
            cells,
            [find(rows, cols) for rows, cols, _, _ in self._dissipation_entries],
        )

    def _old_values(self, t: ImplicitTape) -> Array:
        model, n = self.model, len(self.old_pattern.rows)
        parts = np.split(t.x, len(model.rule.parts))
        out = np.zeros((len(parts), n))
        if not n:
            return out
        mass, cells, slides = self._old_places
        body: Any = model.equations.body
        for j, (c, r, y) in enumerate(
            zip(model.inertia[1:], model.rule.velocity[1:], parts, strict=True)
        ):
            out[j, mass] += c * self._mass[2]
            if self._damped and r != 0.0:
                out[j] += r * np.bincount(
                    cells,
                    body.cell_viscous_matrices(t.q, y, t.viscous.moduli).ravel()[self._cells[2]],
                    n,
                )
        dissipations = model.equations.dissipations if model.rule.velocity[0] > 0.0 else ()
        for dissipation, where, (_, _, source, share) in zip(
            dissipations, slides, self._dissipation_entries, strict=True
        ):
            new, old = (
                dissipation.weights @ q.reshape(-1, model.equations.body.dim)
                for q in (t.q, parts[0])
            )
            out[0] += np.bincount(
                where, share * dissipation.mixed_hessian(new, old, model.dt).ravel()[source], n
            )
        self._add_liquids(t, parts, out)
        return out

    # By the controls

    @cached_property
    def control_pattern(self) -> SparsityPattern:
        eq = self.model.equations
        rows, cols = [np.zeros(0, int)], [np.zeros(0, int)]
        for potential, part in eq.potentials:
            dofs = np.flatnonzero(
                np.repeat(potential.weights.getnnz(axis=0) > 0, eq.body.dim) & ~eq.held
            )
            rows.append(np.repeat(self._free_index[dofs], part.stop - part.start))
            cols.append(np.tile(np.arange(part.start, part.stop), len(dofs)))
        return SparsityPattern(rows=np.concatenate(rows), cols=np.concatenate(cols))
