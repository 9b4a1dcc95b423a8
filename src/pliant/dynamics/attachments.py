"""What is attached to a body, all together: the energy, forces and derivatives of its terms."""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies import TINY, Term
from pliant.core import Array, InputError
from pliant.robot import Actuator, Robot

Made = TypeVar("Made")


def of_actuators(robot: Robot, make: Callable[[Actuator], Made]) -> list[tuple[Made, slice]]:
    """What `make` makes of each actuator, with its share of the controls; what is wrong with one is
    a sentence with its name."""
    out, start = [], 0
    for name, actuator in robot.actuators.items():
        try:
            out.append((make(actuator), slice(start, start + actuator.n_controls)))
        except InputError as error:
            raise InputError(f"Actuator '{name}': {error}") from None
        start += actuator.n_controls
    return out


class Attachments:
    """Terms, each with its share of the controls, on a body of n_dofs unknowns. All vectors are
    (n_dofs,) unless said otherwise."""

    dim: int
    n_dofs: int
    terms: tuple[tuple[Term, slice], ...]

    def points(self, term: Term, q: Array) -> Array:
        """(n_points, dim) what a term looks at."""
        return term.weights @ q.reshape(-1, self.dim) + term.offset

    def _points(self, q: Array) -> list[Array]:
        """Those of each term: one product is quicker than many."""
        weights, _, offset, places = self._all_points
        y = weights @ q.reshape(-1, self.dim) + offset
        return [y[place] for place in places]

    def pull(self, q: Array, u: Array) -> tuple[float, Array]:
        """Energy [J] and gradient [N] of all terms."""
        points = self._points(q)
        energy = sum(
            (term.energy(y, u[part]) for (term, part), y in zip(self.terms, points, strict=True)),
            0.0,
        )
        return energy, self._gradient(points, u)

    def push(self, q: Array, u: Array) -> Array:
        """[N] the gradient of all terms."""
        return self._gradient(self._points(q), u)

    def _gradient(self, points: list[Array], u: Array) -> Array:
        pulls = [
            term.gradient(y, u[part]) for (term, part), y in zip(self.terms, points, strict=True)
        ]
        return (
            (self._all_points[1] @ np.concatenate(pulls)).ravel()
            if pulls
            else np.zeros(self.n_dofs)
        )

    @cached_property
    def _all_points(self) -> tuple[sp.csr_matrix, sp.csr_matrix, Array, list[slice]]:
        """(weights, their transpose, offsets, where each term's stand) of the points of all
        terms."""
        none = sp.csr_matrix((0, self.n_dofs // self.dim))
        weights = sp.vstack([none, *(term.weights for term, _ in self.terms)], format="csr")
        offset = np.concatenate(
            [np.zeros((0, self.dim)), *(self._offset(term) for term, _ in self.terms)]
        )
        ends = np.cumsum([0, *(term.weights.shape[0] for term, _ in self.terms)])
        return weights, weights.T.tocsr(), offset, [slice(a, b) for a, b in pairwise(ends)]

    def _offset(self, term: Term) -> Array:
        return np.broadcast_to(term.offset, (term.weights.shape[0], self.dim))

    @cached_property
    def _spreads(self) -> tuple[sp.csr_matrix, ...]:
        """(n_nodes, n_points) the transposed weights of each term; made once, since scipy makes a
        new matrix of every transpose."""
        return tuple(term.weights.T.tocsr() for term, _ in self.terms)

    def control_columns(self, q: Array, u: Array) -> Array:
        """(n_dofs, n_controls) d gradient / du = -H_a^T."""
        _, spread, offset, places = self._all_points
        pulls = np.zeros((*offset.shape, u.size))
        for (term, part), y, place in zip(self.terms, self._points(q), places, strict=True):
            if term.n_controls:
                pulls[place, :, part] = np.moveaxis(term.control_gradient(y, u[part]), 0, 2)
        return (spread @ pulls.reshape(len(pulls), self.dim * u.size)).reshape(self.n_dofs, u.size)

    def _counted(
        self, q: Array, stiff_only: bool
    ) -> list[tuple[Term, slice, Array, sp.csr_matrix]]:
        """The terms that count, each with its controls, what it looks at and its transposed
        weights."""
        parts = zip(self.terms, self._points(q), self._spreads, strict=True)
        return [
            (term, part, y, spread)
            for (term, part), y, spread in parts
            if term.stiff or not stiff_only
        ]

    def rank_columns(self, q: Array, u: Array, *, stiff_only: bool = False) -> tuple[Array, Array]:
        """((n_dofs, r), (r,)) the rank-one shares of the Hessian."""
        columns, weights = [], []
        for term, part, y, spread in self._counted(q, stiff_only):
            rows, w = term.ranks(y, u[part])
            columns += [(spread @ row).ravel() for row in rows]
            weights += list(w)
        return (np.stack(columns, axis=1) if columns else np.zeros((self.n_dofs, 0))), np.array(
            weights
        )

    def term_blocks(self, q: Array, u: Array, *, stiff_only: bool = False) -> list[Array | None]:
        """The point Hessians of each term; None where it does not count."""
        parts = zip(self.terms, self._points(q), strict=True)
        return [
            term.curvature(y, u[part]) if term.stiff or not stiff_only else None
            for (term, part), y in parts
        ]

    def terms_times(self, q: Array, u: Array, y: Array, *, stiff_only: bool = False) -> Array:
        """The Hessian of all terms times y (n_dofs,) or columns (n_dofs, k)."""
        weights, spread, _, places = self._all_points
        dy = weights @ y.reshape(self.n_dofs // self.dim, -1)
        push = np.zeros_like(dy)
        for H, place in zip(self.term_blocks(q, u, stiff_only=stiff_only), places, strict=True):
            if H is not None:
                push[place] = np.matmul(H, dy[place].reshape(*H.shape[:2], -1)).reshape(
                    -1, dy.shape[1]
                )
        columns, shares = self.rank_columns(q, u, stiff_only=stiff_only)
        return (spread @ push).reshape(y.shape) + (columns * shares) @ (columns.T @ y)

    def terms_third(
        self, q: Array, u: Array, y: Array, z: Array, *, stiff_only: bool = False
    ) -> Array:
        """The derivative of y^T H(q) z over the terms, by the complex step of their Hessians; z
        (n_dofs,) or columns (n_dofs, k)."""
        dim, out = self.dim, np.zeros((self.n_dofs, z.size // self.n_dofs))
        for term, part, points, spread in self._counted(q, stiff_only):
            at = points + 1j * TINY * (term.weights @ y.reshape(-1, dim))
            H = term.curvature(at, u[part])
            dz = (term.weights @ z.reshape(self.n_dofs // dim, -1)).reshape(*H.shape[:2], -1)
            push = (H.imag / TINY) @ dz
            rows, weights = term.ranks(at, u[part])
            for row, w in zip(rows.reshape(-1, *H.shape[:2]), weights, strict=True):
                push += (w * row[:, :, None] * (row.ravel() @ dz.reshape(row.size, -1))).imag / TINY
            out += (spread @ push.reshape(term.weights.shape[0], -1)).reshape(out.shape)
        return out.reshape(z.shape)

    def control_slopes(self, q: Array, u: Array, y: Array, *, stiff_only: bool = False) -> Array:
        """(n_dofs, n_controls) the derivative of control_columns(q) along y over the terms, by the
        complex step."""
        dim, out = self.dim, np.zeros((self.n_dofs, u.size))
        for term, part, points, spread in self._counted(q, stiff_only):
            slope = term.control_gradient(
                points + 1j * TINY * (term.weights @ y.reshape(-1, dim)), u[part]
            )
            for k, change in enumerate(slope.imag / TINY):
                out[:, part.start + k] = (spread @ change).ravel()
        return out

    def control_curvature(self, q: Array, u: Array, y: Array, du: Array) -> Array:
        """(n_controls,) the derivative of control_columns(u)^T y along du."""
        out = np.zeros(u.size)
        for (term, part), points in zip(self.terms, self._points(q), strict=True):
            out[part] = term.control_curvature(
                points, u[part], term.weights @ y.reshape(-1, self.dim), du[part]
            )
        return out
