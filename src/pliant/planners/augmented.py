"""The state that dynamic programming needs where terms look back: z = (x, past controls, past
observations) (paper 003 eq. 28)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, Condensing, InputError
from pliant.problem import Look, Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Augmented:
    """The layout of z: the state, u_{k-1} ... u_{k-j}, and what some looks saw of x_{k-1} ...
    x_{k-l}, which is all they need of it. Of a condensed model the state is what it sees, X = E
    x."""

    problem: Problem

    @cached_property
    def n_state(self) -> int:
        return self._seen_of_state.shape[0]

    @cached_property
    def _seen_of_state(self) -> sp.csr_matrix:
        """(n, n_state) E."""
        model = self.problem.model
        return (
            model.seen
            if isinstance(model, Condensing)
            else sp.identity(model.space.size, format="csr")
        )

    @cached_property
    def _through(self) -> sp.csr_matrix:
        """(n_state, n) what turns rows over the state into rows over E x, where they can be."""
        model = self.problem.model
        return model.lift if isinstance(model, Condensing) else self._seen_of_state.T

    def _over_seen(self, C: sp.csr_matrix, name: str) -> Array:
        """(m, n) rows over the state as rows over what is seen of it."""
        rows = (C @ self._through).toarray()
        if np.abs(rows @ self._seen_of_state - C).max() > 1e-9 * abs(C).max():
            raise InputError(
                f"The term of '{name}' looks at more of the state than the condensed model "
                "follows; name its effector or actuator in Condensed(effectors=..., "
                "actuators=...)."
            )
        return rows

    @cached_property
    def controls_back(self) -> int:
        """j: how many past controls anything looks at."""
        stencils = [len(smooth.stencil) - 1 for smooth in self.problem.smooths] + [
            len(band.stencil) - 1 for band in self.problem.bands
        ]
        return max([*stencils, *(len(look.controls) for look in self.problem.looks)], default=0)

    @cached_property
    def _past(self) -> tuple[dict[int, slice], sp.csr_matrix, int]:
        """(matrix id -> its rows, all matrices that look back stacked, how far back)."""
        found = {id(C): C for look in self.problem.looks for C in look.states[1:]}
        where, start = {}, 0
        for key, C in found.items():
            where[key] = slice(start, start + C.shape[0])
            start += C.shape[0]
        stacked = (
            sp.vstack(list(found.values()), format="csr")
            if found
            else sp.csr_matrix((0, self.problem.model.space.size))
        )
        return where, stacked, max((len(look.states) - 1 for look in self.problem.looks), default=0)

    @cached_property
    def size(self) -> int:
        _, stacked, back = self._past
        return (
            self.n_state
            + self.controls_back * self.problem.model.n_controls
            + stacked.shape[0] * back
        )

    def _control(self, j: int) -> slice:
        """Where u_{k-j} stands, j from 1."""
        m = self.problem.model.n_controls
        return slice(self.n_state + (j - 1) * m, self.n_state + j * m)

    def _seen(self, j: int) -> slice:
        """Where the looks at x_{k-j} stand, j from 1."""
        first, rows = (
            self.n_state + self.controls_back * self.problem.model.n_controls,
            self._past[1].shape[0],
        )
        return slice(first + (j - 1) * rows, first + j * rows)

    def at(self, k: int, states: Array, controls: Array) -> Array:
        """z_k of a run; only what lies before step k is looked at."""
        _, E, back = self._past
        past = [
            controls[k - j] if k >= j else self.problem.first_control
            for j in range(1, self.controls_back + 1)
        ]
        return np.concatenate(
            [
                self._seen_of_state @ states[k],
                *past,
                *(E @ states[max(k - j, 0)] for j in range(1, back + 1)),
            ]
        )

    def dynamics(self, A: Array, B: Array) -> tuple[Array, Array]:
        """dz'/dz and dz'/du from dx'/dx and dx'/du."""
        _, E, back = self._past
        n, m = self.n_state, B.shape[1]
        Az, Bz = np.zeros((self.size, self.size)), np.zeros((self.size, m))
        Az[:n, :n], Bz[:n] = A, B
        if self.controls_back:
            Bz[self._control(1)] = np.eye(m)
        for j in range(2, self.controls_back + 1):
            Az[self._control(j), self._control(j - 1)] = np.eye(m)
        if back and E.shape[0]:
            Az[self._seen(1), :n] = self._over_seen(E, "a look back")
        for j in range(2, back + 1):
            Az[self._seen(j), self._seen(j - 1)] = np.eye(E.shape[0])
        return Az, Bz

    @cached_property
    def _looks(self) -> dict[int, list[Look]]:
        out: dict[int, list[Look]] = {}
        for look in self.problem.looks:
            out.setdefault(look.step, []).append(look)
        return out

    def looks_at(self, k: int) -> list[Look]:
        """The looks of step k."""
        return self._looks.get(k, [])

    def look_rows(self, look: Look) -> Array:
        """(m, size) y = rows z_k of a look at step k."""
        key = (
            *map(id, look.states),
            *map(id, look.controls),
        )  # a term's looks share their matrices
        if key not in self._rows:
            self._rows[key] = self._rows_of(look)
        return self._rows[key]

    @cached_property
    def _rows(self) -> dict[tuple[int, ...], Array]:
        return {}

    def _rows_of(self, look: Look) -> Array:
        rows = np.zeros((look.size, self.size))
        where = self._past[0]
        for j, C in enumerate(look.states):
            if j == 0:
                rows[:, : self.n_state] = self._over_seen(C, look.name)
            else:
                seen = self._seen(j)
                rows[:, seen.start + where[id(C)].start : seen.start + where[id(C)].stop] += np.eye(
                    look.size
                )
        for j, D in enumerate(look.controls):
            rows[:, self._control(j + 1)] += D
        return rows

    def stencil_rows(self, stencil: Array) -> Array:
        """(n_controls, size) sum_j>=1 stencil_j u_{k-j} as rows of z_k."""
        m = self.problem.model.n_controls
        rows = np.zeros((m, self.size))
        for j, c in enumerate(stencil[1:], start=1):
            rows[:, self._control(j)] = c * np.eye(m)
        return rows
