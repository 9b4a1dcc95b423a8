"""How the residual of a semi-implicit step changes with the state that it starts from, for one
column or for hundreds."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Drag, complex_slopes
from pliant.core import Array, by_columns
from pliant.dynamics.cell_sums import CellSums
from pliant.dynamics.equations import Equations, Numbers

FEW = 4  # columns; for more, the body's share is worth a sparse matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Moved:
    """The derivative of g = A(q, v) w - M v + h dW/dq(q, u) by q and v at a fixed w of the free
    unknowns. That of a held one is (place - q) / h and moves with its q, so that h K, which sees q
    + h w, does not see it. Columns are (n_dofs, k)."""

    equations: Equations
    sums: CellSums
    dt: float  # [s]
    numbers: Numbers
    q: Array  # (n_dofs,) [m] old positions
    v: Array  # (n_dofs,) [m/s] old velocities
    u: Array
    w: Array  # (n_dofs,) [m/s] new velocities

    def times(self, dq: Array, dv: Array) -> Array:
        """(n_dofs, k) [kg m/s] the change of the residual."""
        eq, h, held = self.equations, self.dt, self._held(dq)
        out = (
            self._of_body(dq)
            + h * eq.terms_times(self.q, self.u, dq)
            - eq.mass_times(self.numbers, dv + self._inertia * held)
        )
        out += h * h * eq.terms_third(self.q, self.u, self.w, dq, stiff_only=True)
        if held.any():
            out -= h * eq.terms_times(self.q, self.u, held, stiff_only=True)
        for drag, by_q, by_v, D in self._drags:
            push = h * (
                by_q @ self._points(drag, dq) + by_v @ self._points(drag, dv)
            ) - D @ self._points(drag, held)
            out += self._spread(drag, push)
        return out

    def back(self, y: Array) -> tuple[Array, Array]:
        """((n_dofs, k), (n_dofs, k)) the transpose of `times`: shares for q and v."""
        eq, h = self.equations, self.dt
        dq = self._of_body(y, back=True) + h * eq.terms_times(self.q, self.u, y)
        dq += h * h * eq.terms_third(self.q, self.u, self.w, y, stiff_only=True)
        dv = -eq.mass_times(self.numbers, y)
        held = h * eq.terms_times(self.q, self.u, y, stiff_only=True) - self._inertia * dv
        for drag, by_q, by_v, D in self._drags:
            at = self._points(drag, y)
            dq += h * self._spread(drag, np.swapaxes(by_q, 1, 2) @ at)
            dv += h * self._spread(drag, np.swapaxes(by_v, 1, 2) @ at)
            held += self._spread(drag, D @ at)  # D is symmetric
        return dq - self._held(held), dv

    def _held(self, columns: Array) -> Array:
        """The columns with zeros for the free unknowns."""
        out, held = np.zeros_like(columns), self.equations.held
        out[held] = columns[held]
        return out

    @property
    def _inertia(self) -> float:
        """[1/s] how A sees the mass, over h."""
        return 1.0 / self.dt + self.equations.robot.damping.mass

    # The body's share

    def _of_body(self, columns: Array, *, back: bool = False) -> Array:
        """(n_dofs, k) the body's share, or its transpose, of each column."""
        if columns.shape[1] > FEW:
            return (self._matrix.T if back else self._matrix) @ columns
        one = self._of_body_back if back else self._of_body_along
        return by_columns(lambda column: (one(column),), columns)[0]

    @cached_property
    def _viscous_moduli(self) -> Array | None:
        """Those of every strain rate; None without viscosity."""
        time = self.equations.robot.damping.stiffness
        return (
            self.equations.body.viscous(self.numbers.fields, time, [1.0], []).moduli
            if time > 0.0
            else None
        )

    def _of_body_along(self, dq: Array) -> Array:
        body, fields, h, m = self.equations.body, self.numbers.fields, self.dt, self._viscous_moduli
        held = np.where(self.equations.held, dq, 0.0)
        out = h * body.stiffness_times(self.q, fields, dq - held) + h * h * body.third(
            self.q, fields, dq, self.w
        )
        if m is not None:
            out += h * body.viscous_moved(self.q, self.w, dq, m)
            out -= body.viscous_push(self.q, self.q, held, m) if held.any() else 0.0
        return out

    def _of_body_back(self, y: Array) -> Array:
        body, fields, h, m = self.equations.body, self.numbers.fields, self.dt, self._viscous_moduli
        out = h * h * body.third(self.q, fields, y, self.w)
        drag = np.zeros_like(y)
        if m is not None:
            out += h * body.viscous_moved_back(self.q, self.w, y, m)
            drag = body.viscous_push(self.q, self.q, y, m)
        return out + np.where(
            self.equations.held, -drag, h * body.stiffness_times(self.q, fields, y)
        )

    @cached_property
    def _matrix(self) -> sp.csr_matrix:
        """(n_dofs, n_dofs) the same for many columns: h K of the free and -D of the held unknowns,
        h^2 dK/dq w + h dD/dq w of all."""
        body, h, m = self.equations.body, self.dt, self._viscous_moduli
        held = self.equations.held[self.sums.dofs][:, None, :].astype(float)
        K, T = body.stiffness_cells(self.q, self.numbers.fields, self.w)
        blocks = h * (1.0 - held) * K + h * h * T
        if m is not None:
            blocks += h * body.viscous_moved_cells(self.q, self.w, m)
            blocks -= held * body.viscous_cells(self.q, self.q, m) if held.any() else 0.0
        return self.sums.matrix(blocks)

    # Friction

    def _points(self, drag: Drag, columns: Array) -> Array:
        """(n_points, dim, k)"""
        at = drag.weights @ columns.reshape(self.sums.n_nodes, -1)
        return at.reshape(len(at), self.sums.dim, -1)

    def _spread(self, drag: Drag, push: Array) -> Array:
        """(n_dofs, k) from (n_points, dim, k)"""
        return (drag.weights.T @ push.reshape(len(push), -1)).reshape(-1, push.shape[2])

    @cached_property
    def _drags(self) -> list[tuple[Drag, Array, Array, Array]]:
        """Each drag with the derivatives (n_points, dim, dim) of its force by old positions, old
        and new velocities."""
        return [(drag, *self._drag_slopes(drag)) for drag in self.equations.drags]

    def _drag_slopes(self, drag: Drag) -> tuple[Array, Array, Array]:
        y, s, new = (self._points(drag, part)[..., 0] for part in (self.q, self.v, self.w))
        push = lambda at, speed: np.einsum("nij,nj->ni", drag.viscosity(at, speed), new)
        return (
            complex_slopes(lambda at: push(at, s), y),
            complex_slopes(lambda speed: push(y, speed), s),
            drag.viscosity(y, s),
        )
