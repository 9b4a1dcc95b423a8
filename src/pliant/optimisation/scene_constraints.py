"""Constraints of a scene as rows between bounds: those of the problem, and limits on rates."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, Linearizable
from pliant.optimisation.scene_rows import stencil_jacobian
from pliant.optimisation.scene_run import SceneRun
from pliant.planners.checkpoints import Checkpoints
from pliant.planners.reverse_run import Adjoint, ReverseRun, RunFailed
from pliant.problem import ControlBound, Observation, Problem, apply_stencil
from pliant.problem.constraint_bounds import row_bounds, row_jacobian, row_value
from pliant.problem.variables import CONTROLS


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneConstraints:
    """The constraints of one scene: lower <= rows <= upper."""

    problem: Problem

    @property
    def extra(self) -> tuple[Observation, ...]:
        """The observations of the constraints."""
        return tuple(row.observation for row in self.problem.constraint_rows)

    @cached_property
    def limits(self) -> list[ControlBound]:
        """The limits on rates and accelerations of controls that are variables."""
        if CONTROLS not in self.problem.variable_names:
            return []
        return [bound for bound in self.problem.control_bounds if bound.order > 0]

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and upper bounds (m,) each."""
        problem, x = self.problem, self.problem.initial_state
        states = np.broadcast_to(x, (problem.steps + 1, len(x)))  # only their sizes matter
        controls, before = problem.fixed_controls, problem.previous_control
        pairs = [
            row_bounds(row, row.observation.evaluate(states, controls, before))
            for row in problem.constraint_rows
        ]
        pairs += [
            (np.tile(bound.lower, self.problem.steps), np.tile(bound.upper, self.problem.steps))
            for bound in self.limits
        ]
        lower, upper = (
            (np.concatenate([np.zeros(0), *side]) for side in zip(*pairs, strict=True))
            if pairs
            else (np.zeros(0), np.zeros(0))
        )
        return lower, upper

    def values(self, run: ReverseRun) -> Array:
        """Return the rows (m,) of a finished run."""
        seen = run.values[run.first_extra :]
        rows = [
            row_value(row, y) for row, y in zip(self.problem.constraint_rows, seen, strict=True)
        ]
        before = self.problem.previous_control
        rows += [apply_stencil(b.stencil, run.controls, before).ravel() for b in self.limits]
        found = np.concatenate([np.zeros(0), *rows])
        if not np.all(np.isfinite(found)):
            raise RunFailed("a constraint is not finite")
        return found

    def adjoints(self, run: ReverseRun) -> list[Adjoint]:
        """Return an adjoint for every row of the constraints on states."""
        out = []
        for index, row in enumerate(self.problem.constraint_rows, start=run.first_extra):
            out += [run.adjoint({index: slope}) for slope in row_jacobian(row, run.values[index])]
        return out

    @property
    def n_state_rows(self) -> int:
        """The number of rows that constrain states."""
        limits = sum(len(bound.lower) * self.problem.steps for bound in self.limits)
        return len(self.bounds[0]) - limits

    def takes_adjoints(self, n: int) -> bool:
        """Return whether adjoints are the way to the derivative by n variables: one for each row
        on states. Forward sensitivities are another, if the model has them and they are fewer."""
        return not isinstance(self.problem.model, Linearizable) or n >= self.n_state_rows

    def by_variables(self, scene: SceneRun, by_states: list[Array]) -> Array:
        """Return the derivative (m, n) of the rows, from the gradients (n,) of those on states."""
        rows = [g[None] for g in by_states]
        rows += [stencil_jacobian(scene, bound.stencil) for bound in self.limits]
        return np.concatenate([np.zeros((0, scene.layout.size)), *rows])

    def jacobian(self, scene: SceneRun, checkpoints: Checkpoints) -> tuple[ReverseRun, Array]:
        """Return the finished run of a scene with `extra` and the derivative (m, n) of the rows."""
        if not self.takes_adjoints(scene.layout.size):
            run, observed = scene.observe_jacobian()
            by_states = [
                slope
                for row, y, J in zip(
                    self.problem.constraint_rows,
                    run.values[run.first_extra :],
                    observed[run.first_extra :],
                    strict=True,
                )
                for slope in row_jacobian(row, y) @ J
            ]
        else:
            run, _, by_states = scene.gradients(checkpoints, self.adjoints)
        return run, self.by_variables(scene, by_states)
