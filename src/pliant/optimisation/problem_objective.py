"""ProblemObjective: a Problem as an objective of one vector of scaled variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core import Array, InputError, Linearizable, Reversible, is_integer, quoted, require_kind
from pliant.optimisation.central_differences import difference_points, quotients
from pliant.optimisation.dependencies import Dependencies
from pliant.optimisation.objective import Indices, ObjectiveEvaluation
from pliant.optimisation.scene_constraints import SceneConstraints
from pliant.optimisation.scene_rows import check_squares, residual_jacobian, run_residuals
from pliant.optimisation.scene_run import FAILURES, SceneRun
from pliant.parallel import make_workers
from pliant.planners.checkpoints import Checkpoints
from pliant.planners.reverse_run import Adjoint, ReverseRun
from pliant.problem import Problem, VariableLayout


@dataclass(frozen=True, eq=False)
class ProblemObjective:
    """A problem as an objective of scaled variables z (n,), for `optimise`.

    The samples are the scenes; the value is the sum of their objectives, times their weights. A
    scene that cannot be simulated makes the value infinite, and `failed` says which and why.

    Parameters
    ----------
    problem : any Problem
    checkpoints : "sqrt", "all" or a memory limit [bytes] for the states and steps of a gradient
    workers : number of processes for Jacobians by differences; None for one per core

    Gradients need a model with `pullback`. Jacobians of residuals use `linearize`, or central
    differences if the model has none. Both raise InputError if a term depends on no variable.

    >>> import pliant as pl
    >>> from pliant.optimisation.problem_objective import ProblemObjective
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> goal = pl.problem.StateGoal(part="position", target=(0.1, 0.0), time=0.5)
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> problem = pl.Problem(model=model, steps=5, terms=[goal], variables=["initial.velocity"])
    >>> objective = ProblemObjective(problem)
    >>> float(objective.value(objective.start).value)
    0.005
    """

    problem: Problem
    checkpoints: Checkpoints = "sqrt"
    workers: int | None = 1
    dependencies: Dependencies = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_kind("The problem", self.problem, Problem, "make one with pl.Problem(...)")
        if self.workers is not None and (not is_integer(self.workers) or self.workers < 1):
            raise InputError(
                f"The number of workers is {quoted(self.workers)}; give a whole number, 1 or more, "
                "or None for one per core."
            )
        object.__setattr__(self, "dependencies", Dependencies(self.problem))

    # The variables

    @property
    def layout(self) -> VariableLayout:
        """The variables of the problem."""
        return self.problem.layout

    @property
    def start(self) -> Array:
        return self.layout.start

    @property
    def bounds(self) -> tuple[Array, Array]:
        return self.layout.bounds

    @property
    def n_samples(self) -> int:
        return len(self.problem.scene_problems)

    @property
    def identity(self) -> dict[str, Any]:
        """What must agree for an optimisation to be resumed."""
        return {
            "model": type(self.problem.model).__name__,
            "scenes": [scene.steps for scene in self.problem.scene_problems],
            "variables": {block.name: block.first.size for block in self.layout.blocks},
        }

    def named_values(self, z: Array) -> Mapping[str, Array]:
        """Return the values of the variables by name, in their units."""
        return self.layout.values(z)

    # The value and its gradient

    def scene(self, k: int, z: Array) -> SceneRun:
        """Return scene k for variables z, with the observations of its constraints."""
        extra = self.scene_constraints[k].extra
        return SceneRun(layout=self.layout, k=k, z=np.asarray(z, float), extra=extra)

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the value, summed over the scenes `samples`, and with all of them the
        constraints."""
        chosen, total, rows = self._chosen(samples), 0.0, []
        for count, k in enumerate(chosen, start=1):
            try:
                run = self.scene(k, z).simulate()
                rows.append(self.scene_constraints[k].values(run))
            except FAILURES as why:
                return self._failure(k, why, count)
            total += self.problem.scene_weights[k] * run.cost
        return ObjectiveEvaluation(
            value=total,
            constraints=np.concatenate(rows) if samples is None else None,
            simulations=len(chosen),
        )

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the value and its gradient (n,), by one checkpointed sweep for each scene."""
        self._require_gradients()
        chosen, total, g, rows = self._chosen(samples), 0.0, np.zeros(self.layout.size), []
        for count, k in enumerate(chosen, start=1):
            try:
                run, by_z = self._scene_gradient(k, z)
                rows.append(self.scene_constraints[k].values(run))
            except FAILURES as why:
                return self._failure(k, why, 2 * count)
            total += self.problem.scene_weights[k] * run.cost
            g += self.problem.scene_weights[k] * by_z
        return ObjectiveEvaluation(
            value=total,
            gradient=g,
            constraints=np.concatenate(rows) if samples is None else None,
            simulations=2 * len(chosen),
        )

    def _scene_gradient(self, k: int, z: Array) -> tuple[ReverseRun, Array]:
        """Return the finished run of a scene and its gradient (n,). The first call also tests which
        terms depend on the variables."""

        def outputs(run: ReverseRun) -> list[Adjoint]:
            return [run.objective_adjoint(), *self.dependencies.adjoints(run, k)]

        run, adjoints, gradients = self.scene(k, z).gradients(self.checkpoints, outputs)
        self.dependencies.record(k, adjoints[1:], gradients[1:])
        return run, gradients[0]

    def _require_gradients(self) -> None:
        for scene in self.problem.scene_problems:
            require_kind(
                "The model of the problem",
                scene.model,
                Reversible,
                "take a rule with `pullback`, such as ImplicitEuler, or method='cmaes'",
            )

    def _chosen(self, samples: Indices | None) -> Sequence[int]:
        return range(self.n_samples) if samples is None else [int(k) for k in samples]

    def _failure(self, k: int, why: Exception, simulations: float) -> ObjectiveEvaluation:
        scene = f"scene {self.problem.scene_name(k)}: " if self.n_samples > 1 else ""
        return ObjectiveEvaluation(failed=f"{scene}{why}", simulations=simulations)
