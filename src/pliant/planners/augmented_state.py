"""The augmented state z = (x, past controls, past observations) [Zimmermann2021, eq. 28].

Dynamic programming needs it for terms that depend on several steps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError, Linearization, ReducedDynamics
from pliant.problem import Observation, Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class AugmentedState:
    """The layout of z: the state, u_{k-1} ... u_{k-j}, and observed parts of x_{k-1} ... x_{k-l}.

    For a reduced model the state is X = E x.
    """

    problem: Problem

    @cached_property
    def n_state(self) -> int:
        return self._reduction.shape[0]

    @cached_property
    def _reduction(self) -> sp.csr_matrix:
        """The matrix E (n_state, n)."""
        model = self.problem.model
        return (
            model.reduction
            if isinstance(model, ReducedDynamics)
            else sp.identity(model.space.size, format="csr")
        )

    @cached_property
    def _lift(self) -> sp.csr_matrix:
        """The matrix (n, n_state) that converts rows over x into rows over E x."""
        model = self.problem.model
        return model.expansion if isinstance(model, ReducedDynamics) else self._reduction.T

    def _reduced_rows(self, C: sp.csr_matrix, name: str) -> Array:
        """Return rows over x as rows over E x. Raises InputError if E x does not determine them."""
        rows = (C @ self._lift).toarray()
        if np.abs(rows @ self._reduction - C).max() > 1e-9 * abs(C).max():
            raise InputError(
                f"The term of '{name}' depends on more of the state than the condensed model "
                "follows; name its effector or actuator in Condensed(effectors=..., "
                "actuators=...)."
            )
        return rows

    @cached_property
    def n_past_controls(self) -> int:
        """Number j of past controls that terms and limits depend on."""
        stencils = [
            len(control_cost.stencil) - 1 for control_cost in self.problem.control_costs
        ] + [len(bound.stencil) - 1 for bound in self.problem.control_bounds]
        return max(
            [*stencils, *(len(observation.controls) for observation in self.problem.observations)],
            default=0,
        )

    @cached_property
    def _past(self) -> tuple[dict[int, slice], sp.csr_matrix, int]:
        """Return (matrix id -> its rows, all matrices over past states stacked, largest lag)."""
        found = {
            id(C): C for observation in self.problem.observations for C in observation.states[1:]
        }
        where, start = {}, 0
        for key, C in found.items():
            where[key] = slice(start, start + C.shape[0])
            start += C.shape[0]
        stacked = (
            sp.vstack(list(found.values()), format="csr")
            if found
            else sp.csr_matrix((0, self.problem.model.space.size))
        )
        return (
            where,
            stacked,
            max(
                (len(observation.states) - 1 for observation in self.problem.observations),
                default=0,
            ),
        )

    @cached_property
    def size(self) -> int:
        _, stacked, back = self._past
        return (
            self.n_state
            + self.n_past_controls * self.problem.model.n_controls
            + stacked.shape[0] * back
        )

    def _control_slice(self, j: int) -> slice:
        """Return the slice of u_{k-j} in z, j >= 1."""
        m = self.problem.model.n_controls
        return slice(self.n_state + (j - 1) * m, self.n_state + j * m)

    def _observation_slice(self, j: int) -> slice:
        """Return the slice of the observations of x_{k-j} in z, j >= 1."""
        first, rows = (
            self.n_state + self.n_past_controls * self.problem.model.n_controls,
            self._past[1].shape[0],
        )
        return slice(first + (j - 1) * rows, first + j * rows)

    def evaluate(self, k: int, states: Array, controls: Array) -> Array:
        """Return z_k (size,) for states and controls up to step k."""
        _, E, back = self._past
        past = [
            controls[k - j] if k >= j else self.problem.previous_control
            for j in range(1, self.n_past_controls + 1)
        ]
        return np.concatenate(
            [
                self._reduction @ states[k],
                *past,
                *(E @ states[max(k - j, 0)] for j in range(1, back + 1)),
            ]
        )

    def dynamics(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Return dz'/dz and dz'/du from dx'/dx and dx'/du."""
        _, E, back = self._past
        n, m = self.n_state, B.shape[1]
        Az, Bz = np.zeros((self.size, self.size)), np.zeros((self.size, m))
        Az[:n, :n], Bz[:n] = A, B
        if self.n_past_controls:
            Bz[self._control_slice(1)] = np.eye(m)
        for j in range(2, self.n_past_controls + 1):
            Az[self._control_slice(j), self._control_slice(j - 1)] = np.eye(m)
        if back and E.shape[0]:
            Az[self._observation_slice(1), :n] = self._reduced_rows(E, "a past state")
        for j in range(2, back + 1):
            Az[self._observation_slice(j), self._observation_slice(j - 1)] = np.eye(E.shape[0])
        return Az, Bz

    def vjp(self, lin: Linearization, bars: Array) -> tuple[Array, Array]:
        """Return the gradients (size, r) by z and (n_controls, r) by u before a step.

        `bars` (size, r) are those after the step. The matrices of `dynamics` are not formed.
        """
        _, E, back = self._past
        n, m = self.n_state, self.problem.model.n_controls
        out = np.zeros(bars.shape)
        out[:n], by_u, _ = lin.vjp(bars[:n])
        if self.n_past_controls:
            by_u = by_u + bars[n : n + m]
            end = n + self.n_past_controls * m
            out[n : end - m] = bars[n + m : end]
        if back and E.shape[0]:
            first, rows = self._observation_slice(1).start, E.shape[0]
            out[:n] += E.T @ bars[first : first + rows]
            out[first : len(out) - rows] = bars[first + rows :]
        return out, by_u

    @cached_property
    def _observations_by_step(self) -> dict[int, list[Observation]]:
        out: dict[int, list[Observation]] = {}
        for observation in self.problem.observations:
            out.setdefault(observation.step, []).append(observation)
        return out

    def observations_at(self, k: int) -> list[Observation]:
        """Return the observations at step k."""
        return self._observations_by_step.get(k, [])

    def observation_matrix(self, observation: Observation) -> Array:
        """Return the matrix (m, size) with y = matrix z_k for an observation at step k."""
        # Observations of one term share their matrices.
        key = (*map(id, observation.states), *map(id, observation.controls))
        if key not in self._rows:
            self._rows[key] = self._build_rows(observation)
        return self._rows[key]

    @cached_property
    def _rows(self) -> dict[tuple[int, ...], Array]:
        return {}

    def _build_rows(self, observation: Observation) -> Array:
        rows = np.zeros((observation.size, self.size))
        where = self._past[0]
        for j, C in enumerate(observation.states):
            if j == 0:
                rows[:, : self.n_state] = self._reduced_rows(C, observation.name)
            else:
                start = self._observation_slice(j).start
                rows[:, start + where[id(C)].start : start + where[id(C)].stop] += np.eye(
                    observation.size
                )
        for j, D in enumerate(observation.controls):
            rows[:, self._control_slice(j + 1)] += D
        return rows

    def stencil_matrix(self, stencil: Array) -> Array:
        """Return the matrix (n_controls, size) of sum_{j>=1} stencil_j u_{k-j} over z_k."""
        m = self.problem.model.n_controls
        rows = np.zeros((m, self.size))
        for j, c in enumerate(stencil[1:], start=1):
            rows[:, self._control_slice(j)] = c * np.eye(m)
        return rows
