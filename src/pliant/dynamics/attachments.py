"""The combined energy, forces and derivatives of all potentials that are attached to a body."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from pliant.bodies import COMPLEX_STEP, Potential, hessian_times, parameters_of, weight_change
from pliant.core import Array


class Attachments:
    """Potentials on a body with n_dofs unknowns, each with its slice of the controls. Vectors are
    (n_dofs,) unless a docstring gives another shape."""

    dim: int
    n_dofs: int
    potentials: tuple[tuple[Potential, slice], ...]
    groups: tuple[str, ...]  # of the parameters of each potential, such as "contact0"

    def points(self, potential: Potential, q: Array) -> Array:
        """Return the points (n_points, dim) that a potential depends on."""
        return potential.weights @ q.reshape(-1, self.dim) + potential.offset

    def _points(self, q: Array) -> list[Array]:
        """Return the points of each potential, by one product for all."""
        weights, _, offset, slices = self._all_points
        y = weights @ q.reshape(-1, self.dim) + offset
        return [y[rows] for rows in slices]

    def energy_and_gradient(self, q: Array, u: Array) -> tuple[float, Array]:
        """Return the energy [J] and the gradient [N] of all potentials."""
        points = self._points(q)
        energy = sum(
            (
                potential.energy(y, u[controls])
                for (potential, controls), y in zip(self.potentials, points, strict=True)
            ),
            0.0,
        )
        return energy, self._gradient(points, u)

    def gradient(self, q: Array, u: Array) -> Array:
        """Return the gradient [N] of all potentials."""
        return self._gradient(self._points(q), u)

    def _gradient(self, points: list[Array], u: Array) -> Array:
        gradients = [
            potential.gradient(y, u[controls])
            for (potential, controls), y in zip(self.potentials, points, strict=True)
        ]
        return (
            (self._all_points[1] @ np.concatenate(gradients)).ravel()
            if gradients
            else np.zeros(self.n_dofs)
        )

    @cached_property
    def _all_points(self) -> tuple[sp.csr_matrix, sp.csr_matrix, Array, list[slice]]:
        """The weights of the points of all potentials, their transpose, the offsets, and the rows
        of each potential."""
        none = sp.csr_matrix((0, self.n_dofs // self.dim))
        weights = sp.vstack(
            [none, *(potential.weights for potential, _ in self.potentials)], format="csr"
        )
        offset = np.concatenate(
            [
                np.zeros((0, self.dim)),
                *(self._offset(potential) for potential, _ in self.potentials),
            ]
        )
        ends = np.cumsum([0, *(potential.weights.shape[0] for potential, _ in self.potentials)])
        return weights, weights.T.tocsr(), offset, [slice(a, b) for a, b in pairwise(ends)]

    def _offset(self, potential: Potential) -> Array:
        return np.broadcast_to(potential.offset, (potential.weights.shape[0], self.dim))

    @cached_property
    def _transposed_weights(self) -> tuple[sp.csr_matrix, ...]:
        """The transposed weights (n_nodes, n_points) of each potential. They are cached, because
        SciPy copies the matrix for every transpose."""
        return tuple(potential.weights.T.tocsr() for potential, _ in self.potentials)

    def control_jacobian(self, q: Array, u: Array) -> Array:
        """Return d gradient / du = -H_a^T (n_dofs, n_controls)."""
        _, transposed, offset, slices = self._all_points
        gradients = np.zeros((*offset.shape, u.size))
        for (potential, controls), y, rows in zip(
            self.potentials, self._points(q), slices, strict=True
        ):
            if potential.n_controls:
                gradients[rows, :, controls] = np.moveaxis(
                    potential.control_gradient(y, u[controls]), 0, 2
                )
        return (transposed @ gradients.reshape(len(gradients), self.dim * u.size)).reshape(
            self.n_dofs, u.size
        )

    def parameter_jacobian(self, q: Array, u: Array, names: Sequence[str]) -> Array:
        """Return d gradient / dp (n_dofs, n) by parameters of the potentials, such as
        "contact0.stiffness". A name of other parameters has a column of zeros."""
        out = np.zeros((self.n_dofs, len(names)))
        for j, k, name in self._parametrised(names):
            out[:, j] += self._gradient_change(k, name, q, u)
        return out

    def parameter_jacobian_derivative(
        self, q: Array, u: Array, y: Array, names: Sequence[str], *, stiff_only: bool = False
    ) -> Array:
        """Return the derivative (n_dofs, n) of parameter_jacobian(q) along y, by complex-step
        differentiation."""
        out = np.zeros((self.n_dofs, len(names)))
        for j, k, name in self._parametrised(names):
            if self.potentials[k][0].stiff or not stiff_only:
                change = self._gradient_change(k, name, q + 1j * COMPLEX_STEP * y, u)
                out[:, j] += change.imag / COMPLEX_STEP
        return out

    def _gradient_change(self, k: int, name: str, q: Array, u: Array) -> Array:
        """Return the derivative of the gradient of a potential by one of its parameters. q may be
        complex."""
        (potential, controls), transposed = self.potentials[k], self._transposed_weights[k]
        y, u = self.points(potential, q), u[controls]
        slope = potential.parameter_gradient(name, y, u)  # type: ignore[attr-defined]
        moved = weight_change(potential, name)
        if moved is None:
            return (transposed @ slope).ravel()
        dy = moved[0] @ q.reshape(-1, self.dim) + moved[1]
        forces = moved[0].T @ potential.gradient(y, u)
        return (transposed @ (slope + hessian_times(potential, y, u, dy)) + forces).ravel()

    def _parametrised(self, names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield for each parameter of a potential that is in `names` its index there, the index of
        the potential and the parameter's own name."""
        for k, group in enumerate(self.groups):
            for param in parameters_of(self.potentials[k][0]):
                if f"{group}.{param.name}" in names:
                    yield names.index(f"{group}.{param.name}"), k, param.name

    def _included(
        self, q: Array, stiff_only: bool
    ) -> list[tuple[Potential, slice, Array, sp.csr_matrix]]:
        """Return the potentials (only the stiff ones with `stiff_only`), each with its controls,
        points and transposed weights."""
        parts = zip(self.potentials, self._points(q), self._transposed_weights, strict=True)
        return [
            (potential, controls, y, spread)
            for (potential, controls), y, spread in parts
            if potential.stiff or not stiff_only
        ]

    def rank_one_columns(
        self, q: Array, u: Array, *, stiff_only: bool = False
    ) -> tuple[Array, Array]:
        """Return the columns (n_dofs, r) and weights (r,) of the rank-one terms of the Hessian."""
        columns, weights = [], []
        for potential, controls, y, spread in self._included(q, stiff_only):
            rows, w = potential.rank_one_terms(y, u[controls])
            columns += [(spread @ row).ravel() for row in rows]
            weights += list(w)
        return (np.stack(columns, axis=1) if columns else np.zeros((self.n_dofs, 0))), np.array(
            weights
        )

    def potential_hessians(
        self, q: Array, u: Array, *, stiff_only: bool = False
    ) -> list[Array | None]:
        """Return the point Hessians of each potential; None for those that are excluded."""
        parts = zip(self.potentials, self._points(q), strict=True)
        return [
            potential.hessian(y, u[controls]) if potential.stiff or not stiff_only else None
            for (potential, controls), y in parts
        ]

    def potential_stiffness_times(
        self, q: Array, u: Array, y: Array, *, stiff_only: bool = False
    ) -> Array:
        """Return the Hessian of all potentials times y (n_dofs,) or columns (n_dofs, k)."""
        weights, transposed, _, slices = self._all_points
        dy = weights @ y.reshape(self.n_dofs // self.dim, -1)
        dg = np.zeros_like(dy)
        for H, rows in zip(
            self.potential_hessians(q, u, stiff_only=stiff_only), slices, strict=True
        ):
            if H is not None:
                dg[rows] = np.matmul(H, dy[rows].reshape(*H.shape[:2], -1)).reshape(-1, dy.shape[1])
        columns, rank_weights = self.rank_one_columns(q, u, stiff_only=stiff_only)
        return (transposed @ dg).reshape(y.shape) + (columns * rank_weights) @ (columns.T @ y)

    def potential_stiffness_derivative(
        self, q: Array, u: Array, y: Array, z: Array, *, stiff_only: bool = False
    ) -> Array:
        """Return the gradient by q of y^T H(q) z, with H of all potentials, by complex-step
        differentiation; z is (n_dofs,) or columns (n_dofs, k)."""
        dim, out = self.dim, np.zeros((self.n_dofs, z.size // self.n_dofs))
        for potential, controls, points, spread in self._included(q, stiff_only):
            at = points + 1j * COMPLEX_STEP * (potential.weights @ y.reshape(-1, dim))
            H = potential.hessian(at, u[controls])
            dz = (potential.weights @ z.reshape(self.n_dofs // dim, -1)).reshape(*H.shape[:2], -1)
            dg = (H.imag / COMPLEX_STEP) @ dz
            rows, weights = potential.rank_one_terms(at, u[controls])
            for row, w in zip(rows.reshape(-1, *H.shape[:2]), weights, strict=True):
                dg += (
                    w * row[:, :, None] * (row.ravel() @ dz.reshape(row.size, -1))
                ).imag / COMPLEX_STEP
            out += (spread @ dg.reshape(potential.weights.shape[0], -1)).reshape(out.shape)
        return out.reshape(z.shape)

    def control_jacobian_derivative(
        self, q: Array, u: Array, y: Array, *, stiff_only: bool = False
    ) -> Array:
        """Return the derivative (n_dofs, n_controls) of control_jacobian(q) along y, by
        complex-step differentiation."""
        dim, out = self.dim, np.zeros((self.n_dofs, u.size))
        for potential, controls, points, spread in self._included(q, stiff_only):
            slope = potential.control_gradient(
                points + 1j * COMPLEX_STEP * (potential.weights @ y.reshape(-1, dim)), u[controls]
            )
            for k, change in enumerate(slope.imag / COMPLEX_STEP):
                out[:, controls.start + k] = (spread @ change).ravel()
        return out

    def control_hessian_vector(self, q: Array, u: Array, y: Array, du: Array) -> Array:
        """Return the derivative (n_controls,) of control_jacobian(u)^T y along du."""
        out = np.zeros(u.size)
        for (potential, controls), points in zip(self.potentials, self._points(q), strict=True):
            out[controls] = potential.control_hessian_vector(
                points, u[controls], potential.weights @ y.reshape(-1, self.dim), du[controls]
            )
        return out
