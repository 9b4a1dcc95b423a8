"""A robot's equations of motion: energies, forces and tangents of body, attachments and contacts on its free unknowns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant import linalg
from pliant.bodies import TINY, Body, Drag, Fields, Term
from pliant.contact import Friction
from pliant.core import Array, InputError, Param, Params, finite_array, require_kind
from pliant.robot import Robot

FIELDS = ("E", "nu", "density")


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """What the parameters decide: the fields of each cell and the mass of each node pair."""

    fields: Fields
    mass: sp.csr_matrix  # (n_nodes, n_nodes) [kg]
    pair_mass: Array  # (n_pairs,) [kg]
    outside: Array  # (n_dofs,) [N] gravity and loads


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations:
    """Everything of a robot that does not depend on the stepping rule. All vectors are (n_dofs,) unless said otherwise."""

    robot: Robot
    design: Sequence[str] = ()  # active parameters: "soft.E", "body.nu", "cells.density", ...
    solver: str | None = None

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        if isinstance(self.design, str) or len(set(self.design)) < len(self.design):
            raise InputError(f"The design parameters are {self.design!r}; give a list of different names such as ['body.E'].")
        self._check_overlap()
        if self.solver not in (None, "cholmod", "superlu"):
            raise InputError(f"There is no sparse solver '{self.solver}'; choose 'cholmod', 'superlu' or None for the best one here.")
        if self.design:
            self.params  # noqa: B018, an unknown name is a sentence now, not at the first step

    def _check_overlap(self) -> None:
        """One field of one cell may be named once only, or its value and its derivative would part."""
        names = [name.partition(".") for name in self.design]
        for key in {key for _, _, key in names}:
            groups = [group for group, _, name in names if name == key]
            if "cells" in groups and len(groups) > 1:
                raise InputError(f"The design names cells.{key} beside {', '.join(set(groups) - {'cells'})}.{key}, which are the same "
                                 "numbers; name one of the two.")  # fmt: skip

    @cached_property
    def body(self) -> Body:
        return self.robot.body()

    @cached_property
    def n_dofs(self) -> int:
        return self.body.rest.size

    # Attachments

    @cached_property
    def terms(self) -> tuple[tuple[Term, slice], ...]:
        """Each attachment with its share of the controls: actuators first, contacts after."""
        out, start = [], 0
        for name, actuator in self.robot.actuators.items():
            try:
                term = actuator.on(self.body)
            except InputError as error:
                raise InputError(f"Actuator '{name}': {error}") from None
            out.append((term, slice(start, start + term.n_controls)))
            start += term.n_controls
        return (*out, *((contact, slice(start, start)) for contact in self._contacts))

    @cached_property
    def _contacts(self) -> tuple:
        return tuple(contact.on(self.body) for contact in self.robot.contacts)

    @cached_property
    def drags(self) -> tuple[Drag, ...]:
        return tuple(Friction(contact=contact) for contact in self._contacts if contact.contact.friction > 0.0)

    @cached_property
    def _load(self) -> Array:
        return sum((load.on(self.body) for load in self.robot.loads), np.zeros(self.n_dofs))

    @cached_property
    def gravity(self) -> Array:
        """(n_dofs,) [m/s^2] the acceleration of gravity at every node."""
        dim = self.body.dim
        g = np.zeros(dim) if self.robot.gravity is None else finite_array("Gravity", self.robot.gravity, (dim,), "m/s^2")
        return np.tile(g, self.n_dofs // self.body.dim)

    # Supports

    @cached_property
    def held(self) -> Array:
        """(n_dofs,) bool, the unknowns that supports decide."""
        held = np.zeros(self.n_dofs, bool)
        for dofs, _ in self._supports:
            held[dofs] = True
        return held

    @cached_property
    def free(self) -> Array:
        return np.flatnonzero(~self.held)

    @cached_property
    def _supports(self) -> list:
        out = []
        for support in self.robot.supports:
            axes = [axis for axis in range(self.body.dim) if "xyz"[axis] in support.axes]
            nodes = self.body.region(support.region)
            if not axes or not len(nodes):
                raise InputError(f"The support on '{support.region}' along '{support.axes}' holds nothing of a body in {self.body.dim} "
                                 "dimensions; name other axes or another region.")  # fmt: skip
            out.append(((nodes[:, None] * self.body.dim + np.array(axes)).ravel(), (support.motion, axes)))
        return out

    def place_supports(self, q: Array, time: float) -> Array:
        """A copy of q with every held unknown where its support has it at a time [s]."""
        q = q.copy()
        for dofs, (motion, axes) in self._supports:
            dim = self.body.dim
            move = (
                np.zeros(dim) if motion is None else finite_array(f"The motion of a support at t = {time:g} s", motion(time), (dim,), "m")
            )
            q[dofs] = self.body.rest[dofs] + np.tile(move[axes], len(dofs) // len(axes))
        return q

    def free_rigid_motions(self) -> list[str]:
        """The rigid motions that no support hinders, in words."""
        dim, x = self.body.dim, self.body.rest.reshape(-1, self.body.dim)
        middle = x[self.held.reshape(x.shape).any(axis=1)].mean(axis=0) if self.held.any() else x.mean(axis=0)
        planes = [(1, 2), (2, 0), (0, 1)] if dim == 3 else [(0, 1)]
        names = [f"translation along {'xyz'[a]}" for a in range(dim)]
        names += [f"rotation about {'xyz'[a]}" for a in range(3)] if dim == 3 else ["rotation in the plane"]
        modes = [np.tile(np.eye(dim)[a], (len(x), 1)) for a in range(dim)]
        for i, j in planes:
            turn = np.zeros_like(x)
            turn[:, i], turn[:, j] = -(x - middle)[:, j], (x - middle)[:, i]
            modes.append(turn)
        basis = np.stack([mode.ravel() / np.linalg.norm(mode) if np.any(mode) else mode.ravel() for mode in modes], axis=1)
        _, s, vt = np.linalg.svd(np.vstack([basis[self.held], np.zeros((len(names), len(names)))]))
        loose = vt[s < 1e-9 * max(1.0, s.max(initial=0.0))]
        return [names[k] for k in range(len(names)) if loose.size and np.abs(loose[:, k]).max() > 1e-6 and np.any(modes[k])]

    # Parameters

    @cached_property
    def params(self) -> Params:
        return Params(blocks=tuple(self._param(name) for name in self.design))

    def _param(self, name: str) -> Param:
        group, _, key = name.partition(".")
        known = [f"{g}.{k}" for g in (*self.body.groups, "cells") for k in self.body.bounds]
        if name not in known:
            raise InputError(f"There is no parameter '{name}'; this robot has {', '.join(known)}.")
        lower, upper, unit = self.body.bounds[key]
        values = getattr(self.body.fields, key)
        value = values.copy() if group == "cells" else values[self.body.groups[group][:1]]
        return Param(name=name, value=value, unit=unit, lower=lower, upper=upper)

    def numbers(self, p: Array | None) -> Numbers:
        """The fields and masses for a parameter vector (None: as described)."""
        if p is None or not self.design:
            self.params.split(p)
            return self._default_numbers
        fields = {key: getattr(self.body.fields, key).copy() for key in FIELDS}
        for name, value in self.params.split(p).items():
            group, _, key = name.partition(".")
            fields[key][slice(None) if group == "cells" else self.body.groups[group]] = value
        return self._numbers(replace(self.body.fields, **fields))

    @cached_property
    def _default_numbers(self) -> Numbers:
        return self._numbers(self.body.fields)

    def _numbers(self, fields: Fields) -> Numbers:
        pair_mass = self.body.mass(fields.density)
        n = self.n_dofs // self.body.dim
        i, j = self.body.pairs.T
        off = i != j
        values, rows, cols = (np.concatenate([a, b[off]]) for a, b in ((pair_mass, pair_mass), (i, j), (j, i)))
        mass = sp.csr_matrix((values, (rows, cols)), shape=(n, n))
        outside = self._load + (mass @ self.gravity.reshape(-1, self.body.dim)).ravel()
        return Numbers(fields=fields, mass=mass, pair_mass=pair_mass, outside=outside)

    def spread_params(self, change: Array) -> Fields:
        """The change of each cell's fields for a change of the flat parameters."""
        fields = {key: np.zeros(len(self.body.fields.E)) for key in FIELDS}
        start = 0
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            cells = slice(None) if group == "cells" else self.body.groups[group]
            fields[key][cells] += change[start : start + block.value.size]
            start += block.value.size
        return replace(self.body.fields, **fields)

    def collect_params(self, E: Array, nu: Array, density: Array) -> Array:
        """The transpose of `spread_params`: from shares of each cell's fields to the flat parameters."""
        by_field, out = {"E": E, "nu": nu, "density": density}, []
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            values = by_field[key]
            out.append(values if group == "cells" else [values[self.body.groups[group]].sum()])
        return np.concatenate(out) if out else np.zeros(0)

    # Energies and forces

    def mass_times(self, numbers: Numbers, y: Array) -> Array:
        return (numbers.mass @ y.reshape(-1, self.body.dim)).ravel()

    def points(self, term: Term, q: Array) -> Array:
        """(n_points, dim) what a term looks at."""
        return term.weights @ q.reshape(-1, self.body.dim) + term.offset

    def given(self, numbers: Numbers, q: Array, u: Array) -> tuple[float, Array]:
        """Energy [J] and gradient [N] of all that is not the body's own: gravity, loads, actuators and contacts."""
        energy, g = -float(numbers.outside @ (q - self.body.rest)), -numbers.outside
        for term, part in self.terms:
            y = self.points(term, q)
            energy += term.energy(y, u[part])
            g = g + (term.weights.T @ term.gradient(y, u[part])).ravel()
        return energy, g

    def control_columns(self, q: Array, u: Array) -> Array:
        """(n_dofs, n_controls) d gradient / du = -H_a^T."""
        columns = np.zeros((self.n_dofs, u.size))
        for term, part in self.terms:
            for k, y in enumerate(term.control_gradient(self.points(term, q), u[part])):
                columns[:, part.start + k] = (term.weights.T @ y).ravel()
        return columns

    def _counted(self, stiff_only: bool) -> list[tuple[Term, slice]]:
        return [(term, part) for term, part in self.terms if term.stiff or not stiff_only]

    def rank_columns(self, q: Array, u: Array, *, stiff_only: bool = False) -> tuple[Array, Array]:
        """((n_dofs, r), (r,)) the rank-one shares of the Hessian."""
        columns, weights = [], []
        for term, part in self._counted(stiff_only):
            rows, w = term.ranks(self.points(term, q), u[part])
            columns += [(term.weights.T @ row).ravel() for row in rows]
            weights += list(w)
        return (np.stack(columns, axis=1) if columns else np.zeros((self.n_dofs, 0))), np.array(weights)

    def term_blocks(self, q: Array, u: Array, *, stiff_only: bool = False) -> list[Array]:
        """The point Hessians of each term; zeros where it does not count."""
        blocks = [term.curvature(self.points(term, q), u[part]) for term, part in self.terms]
        return [H if term.stiff or not stiff_only else 0.0 * H for H, (term, _) in zip(blocks, self.terms, strict=True)]

    def terms_times(self, q: Array, u: Array, y: Array, *, stiff_only: bool = False) -> Array:
        """The Hessian of all terms times y."""
        dim, out = self.body.dim, np.zeros(self.n_dofs)
        for term, part in self._counted(stiff_only):
            H = term.curvature(self.points(term, q), u[part])
            dy = (term.weights @ y.reshape(-1, dim)).reshape(H.shape[0], -1)
            out += (term.weights.T @ np.einsum("gij,gj->gi", H, dy).reshape(-1, dim)).ravel()
        columns, weights = self.rank_columns(q, u, stiff_only=stiff_only)
        return out + columns @ (weights * (columns.T @ y))

    def terms_third(self, q: Array, u: Array, y: Array, z: Array) -> Array:
        """The derivative of y^T H(q) z over the stiff terms, by the complex step of their Hessians."""
        dim, out = self.body.dim, np.zeros(self.n_dofs)
        for term, part in self._counted(True):
            dy, dz = (term.weights @ v.reshape(-1, dim) for v in (y, z))
            at = self.points(term, q) + 1j * TINY * dy
            H = term.curvature(at, u[part])
            push = np.einsum("gij,gj->gi", H, dz.reshape(H.shape[0], -1)).reshape(-1, dim)
            rows, weights = term.ranks(at, u[part])
            push = push + sum((w * row * np.sum(row * dz) for row, w in zip(rows, weights, strict=True)), 0.0)
            out += (term.weights.T @ (push.imag / TINY)).ravel()
        return out

    def control_slopes(self, q: Array, u: Array, y: Array) -> Array:
        """(n_dofs, n_controls) the derivative of control_columns(q) along y over the stiff terms, by the complex step."""
        dim, out = self.body.dim, np.zeros((self.n_dofs, u.size))
        for term, part in self._counted(True):
            slope = term.control_gradient(self.points(term, q) + 1j * TINY * (term.weights @ y.reshape(-1, dim)), u[part])
            for k, change in enumerate(slope.imag / TINY):
                out[:, part.start + k] = (term.weights.T @ change).ravel()
        return out

    # The sparse tangent

    @cached_property
    def _layout(self) -> tuple[Array, list[tuple[Any, ...]], linalg.Pattern, Array]:
        """(pairs, each attachment's triplets, pattern of the free unknowns, gather from blocks to the pattern's values)."""
        dim, n = self.body.dim, self.n_dofs // self.body.dim
        looks = [(term.weights, term.group) for term, _ in self.terms] + [(drag.weights, 1) for drag in self.drags]
        triplets = [_pair_triplets(weights, group) for weights, group in looks]
        keys = np.unique(np.concatenate([self.body.pairs @ np.array([1, n]), *(t[0] @ np.array([1, n]) for t in triplets)]))
        pairs = np.stack([keys % n, keys // n], axis=1)
        where = [(np.searchsorted(keys, t[0] @ np.array([1, n])), *t[1:]) for t in triplets]
        return pairs, where, *_free_pattern(pairs, self.held, dim)

    @cached_property
    def analysis(self) -> linalg.Analysis:
        return linalg.analyse(self._layout[2], self.solver)

    def values(self, numbers: Numbers, body_blocks: Array, mass_weight: float, point_blocks: Sequence[Array],
               project: bool = False) -> Array:  # fmt: skip
        """(nnz,) the free tangent in the factor's pattern: body blocks + mass_weight M + the Hessians of all points."""
        pairs, where, _, gather = self._layout
        dim = self.body.dim
        blocks = np.zeros((len(pairs), dim, dim))
        mine = self._body_pairs
        blocks[mine] = body_blocks + (mass_weight * numbers.pair_mass)[:, None, None] * np.eye(dim)
        for (index, group, a, b, coefficient), H in zip(where, point_blocks, strict=True):
            H = _positive(H) if project else H
            share = H.reshape(len(H), -1, dim, H.shape[1] // dim, dim)[group, a, :, b, :]
            np.add.at(blocks, index, coefficient[:, None, None] * share)
        return blocks.ravel()[gather]

    def factor(self, values: Array, numbers: Numbers, columns: Array, weights: Array, *, shifted: bool) -> linalg.Solve | None:
        """The solve with a tangent and its rank-one shares, None where it is not positive definite; `shifted` adds as much mass as
        it takes to make it so."""
        if not np.all(np.isfinite(values)):
            return None
        solve = self.analysis.factor(values)
        if solve is None and weights.size and not shifted:  # a buckled body may be held by a length-driven cable
            return linalg.factor_with(self.analysis.pattern, values, columns[self.free], weights)
        if solve is None and shifted:
            unit = self._mass_values(numbers)
            ratio = np.abs(values).max() / np.abs(unit).max()
            tries = (self.analysis.factor(values + share * ratio * unit) for share in (1e-8, 1e-6, 1e-4, 1e-2, 1.0))
            solve = next((found for found in tries if found is not None), None)
        return None if solve is None else linalg.low_rank(solve, columns[self.free], weights)

    def _mass_values(self, numbers: Numbers) -> Array:
        still = [np.zeros((term.weights.shape[0] // term.group, *[term.group * self.body.dim] * 2)) for term, _ in self.terms]
        still += [np.zeros((drag.weights.shape[0], self.body.dim, self.body.dim)) for drag in self.drags]
        return self.values(numbers, np.zeros((len(self.body.pairs), self.body.dim, self.body.dim)), 1.0, still)

    def unit_numbers(self, density: Array) -> Numbers:
        """Numbers whose mass matrix has a given density [kg/m^3] in each cell; for derivatives, so any sign."""
        return self._numbers(replace(self.body.fields, density=density))

    @cached_property
    def _body_pairs(self) -> Array:
        n = self.n_dofs // self.body.dim
        keys = self._layout[0] @ np.array([1, n])
        return np.searchsorted(keys, self.body.pairs @ np.array([1, n]))


def _positive(H: Array) -> Array:
    """Each small symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(H)
    return np.einsum("nik,nk,njk->nij", vectors, np.maximum(values, 0.0), vectors)


def _pair_triplets(weights: sp.csr_matrix, group: int) -> tuple[Array, ...]:
    """For every pair of nodes i >= j that a group of points looks at: (pairs (k, 2), group, point a, point b, coefficient)."""
    rows: list[tuple] = []
    index, data, start = weights.indices, weights.data, weights.indptr
    for k in range(weights.shape[0] // group * group * group):
        g, a, b = k // group**2, k // group % group, k % group
        A, B = (slice(start[g * group + c], start[g * group + c + 1]) for c in (a, b))
        i, j = np.repeat(index[A], len(index[B])), np.tile(index[B], len(index[A]))
        keep = i >= j
        rows.append((np.stack([i, j], 1)[keep], *(np.full(keep.sum(), c) for c in (g, a, b)), np.outer(data[A], data[B]).ravel()[keep]))
    if not rows:
        return np.zeros((0, 2), int), *(np.zeros(0, int) for _ in range(3)), np.zeros(0)
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def _free_pattern(pairs: Array, held: Array, dim: int) -> tuple[linalg.Pattern, Array]:
    """The lower triangle of the free unknowns for node pairs i >= j, and where in the blocks its values lie."""
    number = np.cumsum(~held) - 1
    block, r, c = (m.ravel() for m in np.meshgrid(np.arange(len(pairs)), np.arange(dim), np.arange(dim), indexing="ij"))
    row, col = pairs[block, 0] * dim + r, pairs[block, 1] * dim + c
    keep = np.flatnonzero((row >= col) & ~held[row] & ~held[col])
    row, col = number[row[keep]], number[col[keep]]
    order = np.lexsort((row, col))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=int((~held).sum())))])
    return linalg.Pattern(indptr=indptr, indices=row[order]), keep[order]
