"""ProblemObjective: a Problem as an objective of one vector of scaled variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    Reversible,
    is_integer,
    quoted,
    require_kind,
)
from pliant.optimisation.central_differences import difference_points, quotients
from pliant.optimisation.dependencies import Dependencies
from pliant.optimisation.objective import Indices, ObjectiveEvaluation
from pliant.optimisation.problem_identity import problem_identity
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
    allow_independent : whether terms may depend on no variable, as in a fit to data that do not
        determine a parameter

    Gradients need a model with `pullback`. Jacobians of residuals use `linearize`, or central
    differences if the model has none. Both raise InputError if a term depends on no variable,
    unless that is allowed.

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
    allow_independent: bool = False
    dependencies: Dependencies = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_kind("The problem", self.problem, Problem, "make one with pl.Problem(...)")
        if self.workers is not None and (not is_integer(self.workers) or self.workers < 1):
            raise InputError(
                f"The number of workers is {quoted(self.workers)}; give a whole number, 1 or more, "
                "or None for one per core."
            )
        dependencies = Dependencies(self.problem)
        if self.allow_independent:
            dependencies.pending.clear()
        object.__setattr__(self, "dependencies", dependencies)

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

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must agree for an optimisation to be resumed."""
        return problem_identity(self.problem)

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
        chosen, rows = self._chosen(samples), []
        total = sum(cost.value(self.layout.params(z)) for cost in self.problem.parameter_costs)
        total *= len(chosen) / self.n_samples
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
        """Return the value and its gradient (n,), by one checkpointed sweep for each scene. With
        all scenes, the same sweep gives the Jacobian of the constraints if it takes adjoints."""
        self._require_gradients()
        chosen, rows, jacobians = self._chosen(samples), [], []
        with_rows = samples is None and self._takes_adjoints
        total, g = self._parameter_terms(z)
        total, g = total * len(chosen) / self.n_samples, g * len(chosen) / self.n_samples
        for count, k in enumerate(chosen, start=1):
            try:
                run, adjoints, gradients = self._scene_gradients(k, z, with_rows)
                rows.append(self.scene_constraints[k].values(run))
            except FAILURES as why:
                return self._failure(k, why, 2 * count)
            first = 1 + (self.scene_constraints[k].n_state_rows if with_rows else 0)
            self.dependencies.record(k, adjoints[first:], gradients[first:])
            by_states = gradients[1:first]
            jacobians.append(self.scene_constraints[k].by_variables(self.scene(k, z), by_states))
            total += self.problem.scene_weights[k] * run.cost
            g += self.problem.scene_weights[k] * gradients[0]
        return ObjectiveEvaluation(
            value=total,
            gradient=g,
            constraints=np.concatenate(rows) if samples is None else None,
            constraint_jacobian=np.concatenate(jacobians) if with_rows else None,
            simulations=2 * len(chosen),
        )

    def _scene_gradients(
        self, k: int, z: Array, with_rows: bool
    ) -> tuple[ReverseRun, list[Adjoint], list[Array]]:
        """Return the finished run of a scene and the gradients (n,) of its objective, of its
        constraints on states if asked for, and of terms that are still to be tested."""

        def outputs(run: ReverseRun) -> list[Adjoint]:
            rows = self.scene_constraints[k].adjoints(run) if with_rows else []
            return [run.objective_adjoint(), *rows, *self.dependencies.adjoints(run, k)]

        return self.scene(k, z).gradients(self.checkpoints, outputs)

    @property
    def _takes_adjoints(self) -> bool:
        """Whether the sweep of the gradient gives the Jacobian of the constraints as well."""
        return all(one.takes_adjoints(self.layout.size) for one in self.scene_constraints)

    # Residuals

    def residuals(self, z: Array) -> ObjectiveEvaluation:
        """Return the residuals (r,) of all terms; half their squared norm is the value.

        Raises InputError if a term is not a sum of squares.
        """
        self._require_squares()
        found = []
        for k in range(self.n_samples):
            try:
                found.append(self._scene_residuals(k, z))
            except FAILURES as why:
                return self._failure(k, why, k + 1)
        p = self.layout.params(z)
        r = np.concatenate([*found, *(cost.residuals(p) for cost in self.problem.parameter_costs)])
        return ObjectiveEvaluation(
            value=0.5 * float(r @ r), residuals=r, simulations=self.n_samples
        )

    def jacobian(self, z: Array) -> ObjectiveEvaluation:
        """Return the residuals (r,) and their derivative (r, n).

        It uses `linearize` of the model, or central differences of scaled variables.
        """
        self._require_squares()
        found: dict[int, tuple[Array, Array]] = {}
        count = 0.0
        for k in range(self.n_samples):
            if not isinstance(self.problem.scene_problems[k].model, Linearizable):
                continue
            try:
                found[k] = residual_jacobian(self.scene(k, z), self.problem.scene_weights[k])
            except FAILURES as why:
                return self._failure(k, why, count + 1)
            count += 2.0
        others = [k for k in range(self.n_samples) if k not in found]
        try:
            by_differences, simulations = self._difference_jacobians(others, z)
        except SceneFailed as why:
            return self._failure(why.scene, why.reason, count + why.simulations)
        found |= by_differences
        count += simulations
        rows = [found[k] for k in range(self.n_samples)]
        self._check_rows(rows)
        p = self.layout.params(z)
        for cost in self.problem.parameter_costs:
            by_z = self.layout.changes(z, 0, "params", len(p))
            rows.append((cost.residuals(p), cost.jacobian(p) @ by_z))
        r, J = (np.concatenate(part) for part in zip(*rows, strict=True))
        value = 0.5 * float(r @ r)
        return ObjectiveEvaluation(
            value=value, gradient=J.T @ r, residuals=r, jacobian=J, simulations=count
        )

    def _scene_residuals(self, k: int, z: Array) -> Array:
        return run_residuals(self.scene(k, z).simulate(), self.problem.scene_weights[k])

    def _difference_jacobians(
        self, scenes: Sequence[int], z: Array
    ) -> tuple[dict[int, tuple[Array, Array]], int]:
        """Return the residuals of scenes and their derivatives by central differences, and the
        number of simulations. All simulations are independent jobs of the workers."""
        if not scenes:
            return {}, 0
        at, jobs, quotient_weights = np.asarray(z, float), [], []
        for k in scenes:
            jobs.append((k, at))
            for j in self._columns(k):
                a, b, w = difference_points(at, j, self.bounds)
                jobs += [(k, a), (k, b)]
                quotient_weights.append(w)
        results: dict[int, Array | SceneFailed] = {}
        workers = make_workers(self._residuals_or_failure, workers=self.workers)
        try:
            for index, result in workers.map(jobs):
                results[index] = result
                if isinstance(result, SceneFailed):
                    result.simulations = len(jobs)  # the same for any number of workers
                    raise result
        finally:
            workers.close()
        ordered, weights = iter([results[i] for i in range(len(jobs))]), iter(quotient_weights)
        out = {}
        for k in scenes:
            r: Any = next(ordered)
            J = np.zeros((len(r), self.layout.size))
            for j in self._columns(k):
                ends: Any = (next(ordered), next(ordered), r)
                J[:, j] = quotients(ends, next(weights))
            out[k] = r, J
        return out, len(jobs)

    def _columns(self, k: int) -> list[int]:
        """Return the indices in z of the variables of scene k."""
        return [j for block in self.layout.of_scene(k) for j in range(self.layout.size)[block.at]]

    def _residuals_or_failure(self, k: int, z: Array) -> "Array | SceneFailed":
        """Return the residuals of scene k. A failure is a value, which processes can return."""
        try:
            return self._scene_residuals(k, z)
        except FAILURES as why:
            return SceneFailed(k, str(why))

    def _require_squares(self) -> None:
        for scene in self.problem.scene_problems:
            check_squares(scene)

    def _check_rows(self, found: list[tuple[Array, Array]]) -> None:
        """Raise InputError if the residuals of a whole scene depend on no variable."""
        if self.allow_independent:
            return
        for k, (_, J) in enumerate(found):
            if len(J) and not J.any():
                names = ", ".join(self.problem.variable_names)
                raise InputError(
                    f"The terms of scene {self.problem.scene_name(k)} do not depend on any "
                    f"variable ({names}); omit the scene, or name other variables."
                )

    # Constraints

    @cached_property
    def scene_constraints(self) -> tuple[SceneConstraints, ...]:
        """The constraints of each scene."""
        return tuple(SceneConstraints(problem=scene) for scene in self.problem.scene_problems)

    @cached_property
    def constraint_bounds(self) -> tuple[Array, Array]:
        """The lower and upper bounds (m,) of the constraints, scene after scene: those of the
        problem, then limits on rates and accelerations."""
        lower, upper = zip(*(rows.bounds for rows in self.scene_constraints), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def constraints(self, z: Array) -> ObjectiveEvaluation:
        """Return the constraints (m,) and the value."""
        return self.value(z)

    def constraint_jacobian(self, z: Array) -> ObjectiveEvaluation:
        """Return the constraints (m,) and their derivative (m, n)."""
        self._require_gradients()
        values, rows = [], []
        for k, constraints in enumerate(self.scene_constraints):
            try:
                run, J = constraints.jacobian(self.scene(k, z), self.checkpoints)
                values.append(constraints.values(run))
            except FAILURES as why:
                return self._failure(k, why, 2.0 * (k + 1))
            rows.append(J)
        return ObjectiveEvaluation(
            constraints=np.concatenate(values),
            constraint_jacobian=np.concatenate(rows),
            simulations=2.0 * self.n_samples,
        )

    def _parameter_terms(self, z: Array) -> tuple[float, Array]:
        """Return the value and the gradient (n,) of the terms of the parameters alone."""
        p = self.layout.params(z)
        costs = self.problem.parameter_costs
        by_p = sum((cost.gradient(p) for cost in costs), np.zeros(len(p)))
        return sum(cost.value(p) for cost in costs), self.layout.params_gradient(z, by_p)

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

    def _failure(self, k: int, why: Exception | str, simulations: float) -> ObjectiveEvaluation:
        scene = f"scene {self.problem.scene_name(k)}: " if self.n_samples > 1 else ""
        return ObjectiveEvaluation(failed=f"{scene}{why}", simulations=simulations)


class SceneFailed(Exception):
    """A scene could not be simulated."""

    def __init__(self, scene: int, reason: str) -> None:
        super().__init__(scene, reason)
        self.scene, self.reason, self.simulations = scene, reason, 0
