"""What is attached to a body, all together: the energy, forces and derivatives of its terms."""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies import TINY, Term
from pliant.core import Array, InputError
from pliant.robot import Actuator, Robot

Made = TypeVar("Made")


def of_actuators(robot: Robot, make: Callable[[Actuator], Made]) -> list[tuple[Made, slice]]:
    """What `make` makes of each actuator, with its share of the controls; what is wrong with one is a sentence with its name."""
    out, start = [], 0
    for name, actuator in robot.actuators.items():
        try:
            out.append((make(actuator), slice(start, start + actuator.n_controls)))
        except InputError as error:
            raise InputError(f"Actuator '{name}': {error}") from None
        start += actuator.n_controls
    return out


class Attachments:
    """Terms, each with its share of the controls, on a body of n_dofs unknowns. All vectors are (n_dofs,) unless said otherwise."""

    dim: int
    n_dofs: int
    terms: tuple[tuple[Term, slice], ...]

    def points(self, term: Term, q: Array) -> Array:
        """(n_points, dim) what a term looks at."""
        return term.weights @ q.reshape(-1, self.dim) + term.offset

    def pull(self, q: Array, u: Array) -> tuple[float, Array]:
        """Energy [J] and gradient [N] of all terms."""
        energy, g = 0.0, np.zeros(self.n_dofs)
        for (term, part), spread in zip(self.terms, self._spreads, strict=True):
            y = self.points(term, q)
            energy += term.energy(y, u[part])
            g = g + (spread @ term.gradient(y, u[part])).ravel()
        return energy, g

    @cached_property
    def _spreads(self) -> tuple[sp.csr_matrix, ...]:
        """(n_nodes, n_points) the transposed weights of each term; made once, since scipy makes a new matrix of every transpose."""
        return tuple(term.weights.T.tocsr() for term, _ in self.terms)

    def control_columns(self, q: Array, u: Array) -> Array:
        """(n_dofs, n_controls) d gradient / du = -H_a^T."""
        columns = np.zeros((self.n_dofs, u.size))
        for (term, part), spread in zip(self.terms, self._spreads, strict=True):
            if term.n_controls:
                y = np.moveaxis(term.control_gradient(self.points(term, q), u[part]), 0, 2)
                columns[:, part] = (spread @ y.reshape(len(y), -1)).reshape(self.n_dofs, -1)
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
        dim, out = self.dim, np.zeros(self.n_dofs)
        for term, part in self._counted(stiff_only):
            H = term.curvature(self.points(term, q), u[part])
            dy = (term.weights @ y.reshape(-1, dim)).reshape(H.shape[0], -1)
            out += (term.weights.T @ np.einsum("gij,gj->gi", H, dy).reshape(-1, dim)).ravel()
        columns, weights = self.rank_columns(q, u, stiff_only=stiff_only)
        return out + columns @ (weights * (columns.T @ y))

    def terms_third(self, q: Array, u: Array, y: Array, z: Array, *, stiff_only: bool = False) -> Array:
        """The derivative of y^T H(q) z over the terms, by the complex step of their Hessians; z (n_dofs,) or columns (n_dofs, k)."""
        dim, out = self.dim, np.zeros((self.n_dofs, z.size // self.n_dofs))
        for term, part in self._counted(stiff_only):
            at = self.points(term, q) + 1j * TINY * (term.weights @ y.reshape(-1, dim))
            H = term.curvature(at, u[part])
            dz = (term.weights @ z.reshape(self.n_dofs // dim, -1)).reshape(*H.shape[:2], -1)
            push = np.einsum("gij,gjk->gik", H, dz)
            rows, weights = term.ranks(at, u[part])
            for row, w in zip(rows.reshape(-1, *H.shape[:2]), weights, strict=True):
                push = push + w * row[:, :, None] * np.einsum("gi,gik->k", row, dz)
            out += (term.weights.T @ (push.imag / TINY).reshape(term.weights.shape[0], -1)).reshape(out.shape)
        return out.reshape(z.shape)

    def control_slopes(self, q: Array, u: Array, y: Array, *, stiff_only: bool = False) -> Array:
        """(n_dofs, n_controls) the derivative of control_columns(q) along y over the terms, by the complex step."""
        dim, out = self.dim, np.zeros((self.n_dofs, u.size))
        for term, part in self._counted(stiff_only):
            slope = term.control_gradient(self.points(term, q) + 1j * TINY * (term.weights @ y.reshape(-1, dim)), u[part])
            for k, change in enumerate(slope.imag / TINY):
                out[:, part.start + k] = (term.weights.T @ change).ravel()
        return out

    def control_curvature(self, q: Array, u: Array, y: Array, du: Array) -> Array:
        """(n_controls,) the derivative of control_columns(u)^T y along du."""
        out = np.zeros(u.size)
        for term, part in self.terms:
            bar = term.weights @ y.reshape(-1, self.dim)
            out[part] = term.control_curvature(self.points(term, q), u[part], bar, du[part])
        return out
