"""ProblemObjective: a Problem as an objective of one vector of scaled variables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from pliant.optimisation.dependencies import Dependencies
from pliant.optimisation.objective import Indices, ObjectiveEvaluation
from pliant.optimisation.one_sided_differences import difference_point, step_size
from pliant.optimisation.problem_identity import problem_identity
from pliant.optimisation.scene_constraints import SceneConstraints
from pliant.optimisation.scene_rows import check_squares, residual_jacobian, run_residuals
from pliant.optimisation.scene_run import FAILURES, SceneRun
from pliant.parallel import SerialWorkers, Workers, make_workers
from pliant.planners.checkpoints import Checkpoints, checked_checkpoints
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
    workers : number of processes for scenes, and for Jacobians by differences; None for one per
        core. They start if there is enough work, and stay until `close`. The results do not
        depend on their number.
    allow_independent : whether terms may depend on no variable, as in a fit to data that do not
        determine a parameter

    Gradients need a model with `pullback`. Jacobians of residuals use `linearize`, or one-sided
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
    # the processes, and the last residuals
    _kept: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        require_kind("The problem", self.problem, Problem, "make one with pl.Problem(...)")
        checked_checkpoints(self.checkpoints)
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
        chosen = self._chosen(samples)
        try:
            found = self._of_scenes("value", chosen, z)
        except SceneFailed as why:
            return self._failure(why, why.count)
        total = sum(cost.value(self.layout.params(z)) for cost in self.problem.parameter_costs)
        total *= len(chosen) / self.n_samples
        total += sum(self.problem.scene_weights[k] * one.cost for k, one in found.items())
        return ObjectiveEvaluation(
            value=total,
            constraints=_joined(one.constraints for one in found.values())
            if samples is None
            else None,
            simulations=len(chosen),
        )

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the value and its gradient (n,), by one checkpointed sweep for each scene. With
        all scenes, the same sweep gives the Jacobian of the constraints if it takes adjoints."""
        self._require_gradients()
        chosen = self._chosen(samples)
        with_rows = samples is None and self._takes_adjoints
        try:
            found = self._of_scenes("gradient and rows" if with_rows else "gradient", chosen, z)
        except SceneFailed as why:
            return self._failure(why, 2 * why.count)
        total, g = self._parameter_terms(z)
        total, g = total * len(chosen) / self.n_samples, g * len(chosen) / self.n_samples
        for k, one in found.items():
            total += self.problem.scene_weights[k] * one.cost
            g += self.problem.scene_weights[k] * one.gradient
        return ObjectiveEvaluation(
            value=total,
            gradient=g,
            constraints=_joined(one.constraints for one in found.values())
            if samples is None
            else None,
            constraint_jacobian=_joined(one.constraint_jacobian for one in found.values())
            if with_rows
            else None,
            simulations=2 * len(chosen),
        )

    def _scene_value(self, k: int, z: Array) -> "SceneValue":
        run = self.scene(k, z).simulate()
        return SceneValue(cost=run.cost, constraints=self.scene_constraints[k].values(run))

    def _scene_gradient(self, k: int, z: Array, *, with_rows: bool) -> "SceneValue":
        """Return the cost of a scene, its gradient (n,) and its constraints, with their Jacobian if
        asked for. Terms that no gradient has been seen of yet are tested in the same sweep."""
        constraints = self.scene_constraints[k]

        def outputs(run: ReverseRun) -> list[Adjoint]:
            rows = constraints.adjoints(run) if with_rows else []
            return [run.objective_adjoint(), *rows, *self.dependencies.adjoints(run, k)]

        run, adjoints, gradients = self.scene(k, z).gradients(self.checkpoints, outputs)
        first = 1 + (constraints.n_state_rows if with_rows else 0)
        return SceneValue(
            cost=run.cost,
            constraints=constraints.values(run),
            gradient=gradients[0],
            constraint_jacobian=constraints.by_variables(self.scene(k, z), gradients[1:first]),
            tested=(adjoints[first:], gradients[first:]),
        )

    # Scenes in processes

    def evaluate_scene(self, kind: str, k: int, z: Array) -> Any:
        """Return the value, gradient or residuals of scene k at z. A failure is a value, which
        processes can return."""
        try:
            if kind == "residuals":
                return run_residuals(self.scene(k, z).simulate(), self.problem.scene_weights[k])
            if kind == "value":
                return self._scene_value(k, z)
            return self._scene_gradient(k, z, with_rows=kind == "gradient and rows")
        except FAILURES as why:
            return SceneFailed(k, str(why))

    def _of_scenes(self, kind: str, scenes: Sequence[int], z: Array) -> dict[int, Any]:
        """Return the results of scenes at z, by scene. Raises SceneFailed for the first that
        fails."""
        at = np.asarray(z, float)
        return dict(zip(scenes, self._evaluated([(kind, k, at) for k in scenes]), strict=True))

    def _evaluated(self, jobs: Sequence[tuple[str, int, Array]]) -> list[Any]:
        """Return the results of jobs (kind, scene, z). Raises SceneFailed for the first that fails,
        with its number. The workers do not matter: the result is the same for any number."""
        results: dict[int, Any] = {}
        # which terms depend on variables is tested in this process, scene after scene
        tests = bool(self.dependencies.pending) and jobs[0][0].startswith("gradient")
        alone = self.workers == 1 or tests
        workers = SerialWorkers(self.evaluate_scene) if alone else self._pool
        for index, result in workers.map(jobs):
            results[index] = result
            if isinstance(result, SceneValue) and result.gradient is not None:
                self.dependencies.record(jobs[index][1], *result.tested)
            if alone and isinstance(result, SceneFailed):
                break
        for index in sorted(results):
            if isinstance(results[index], SceneFailed):
                raise results[index].numbered(index + 1)
        return [results[index] for index in range(len(jobs))]

    @property
    def _pool(self) -> Workers:
        """The processes, which stay until `close`."""
        if "pool" not in self._kept:
            alone = replace(self, workers=1)
            alone.dependencies.pending.clear()
            self._kept["pool"] = make_workers(alone.evaluate_scene, workers=self.workers)
        return self._kept["pool"]

    def close(self) -> None:
        """Stop the processes. The next evaluation starts new ones."""
        if "pool" in self._kept:
            self._kept.pop("pool").close()

    @property
    def _takes_adjoints(self) -> bool:
        """Whether the sweep of the gradient gives the Jacobian of the constraints as well."""
        return all(one.takes_adjoints(self.layout.size) for one in self.scene_constraints)

    # Residuals

    def residuals(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the residuals (r,) of all terms in the scenes `samples`; half their squared norm
        is the value.

        Raises InputError if a term is not a sum of squares.
        """
        self._require_squares()
        chosen = self._chosen(samples)
        try:
            found = self._of_scenes("residuals", chosen, z)
        except SceneFailed as why:
            return self._failure(why, why.count)
        self._keep_residuals(z, found)
        p, share = self.layout.params(z), len(chosen) / self.n_samples
        costs = self.problem.parameter_costs
        of_params = (np.sqrt(share) * cost.residuals(p) for cost in costs)
        r = np.concatenate([*found.values(), *of_params])
        return ObjectiveEvaluation(value=0.5 * float(r @ r), residuals=r, simulations=len(chosen))

    def _keep_residuals(self, z: Array, found: dict[int, Array]) -> None:
        """Keep the residuals of the last two z: differences start from the iterate or the trial."""
        kept = self._kept.setdefault("residuals", {})
        kept[np.asarray(z, float).tobytes()] = found
        for old in list(kept)[:-2]:
            del kept[old]

    def jacobian(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the residuals (r,) in the scenes `samples` and their derivative (r, n).

        It uses `linearize` of the model, or one-sided differences of scaled variables.
        """
        self._require_squares()
        chosen = self._chosen(samples)
        found: dict[int, tuple[Array, Array]] = {}
        count = 0.0
        for k in chosen:
            if not isinstance(self.problem.scene_problems[k].model, Linearizable):
                continue
            try:
                found[k] = residual_jacobian(self.scene(k, z), self.problem.scene_weights[k])
            except FAILURES as why:
                return self._failure(SceneFailed(k, str(why)), count + 1)
            count += 2.0
        others = [k for k in chosen if k not in found]
        try:
            by_differences, simulations = self._difference_jacobians(others, z)
        except SceneFailed as why:
            return self._failure(why, count + why.count)
        found |= by_differences
        count += simulations
        self._check_rows(found)
        rows = [found[k] for k in chosen]
        p, share = self.layout.params(z), len(chosen) / self.n_samples
        for cost in self.problem.parameter_costs:
            by_z = np.sqrt(share) * self.layout.changes(z, 0, "params", len(p))
            rows.append((np.sqrt(share) * cost.residuals(p), cost.jacobian(p) @ by_z))
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
        """Return the residuals of scenes and their derivatives by one-sided differences, and the
        number of simulations. Residuals at z that were evaluated before are used again."""
        if not scenes:
            return {}, 0
        at = np.asarray(z, float)
        known = self._kept.get("residuals", {}).get(at.tobytes(), {})
        starts = [("residuals", k, at) for k in scenes if k not in known]
        sizes = {k: step_size(self.problem.scene_problems[k].model) for k in scenes}
        steps = [
            (k, j, *difference_point(at, j, self.bounds, sizes[k]))
            for k in scenes
            for j in self._columns(k)
        ]
        jobs = [*starts, *(("residuals", k, end) for k, _, end, _ in steps)]
        try:
            found = self._evaluated(jobs)
        except SceneFailed as why:
            raise why.numbered(len(jobs)) from None
        base = known | {k: r for (_, k, _), r in zip(starts, found, strict=False)}
        out = {k: (base[k], np.zeros((len(base[k]), self.layout.size))) for k in scenes}
        for (k, j, _, h), r in zip(steps, found[len(starts) :], strict=True):
            out[k][1][:, j] = (r - base[k]) / h
        return out, len(jobs)

    def _columns(self, k: int) -> list[int]:
        """Return the indices in z of the variables of scene k."""
        return [j for block in self.layout.of_scene(k) for j in range(self.layout.size)[block.at]]

    def _require_squares(self) -> None:
        for scene in self.problem.scene_problems:
            check_squares(scene)

    def _check_rows(self, found: Mapping[int, tuple[Array, Array]]) -> None:
        """Raise InputError if the residuals of a whole scene depend on no variable."""
        if self.allow_independent:
            return
        for k, (_, J) in found.items():
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
                return self._failure(SceneFailed(k, str(why)), 2.0 * (k + 1))
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

    def _failure(self, why: "SceneFailed", simulations: float) -> ObjectiveEvaluation:
        scene = f"scene {self.problem.scene_name(why.scene)}: " if self.n_samples > 1 else ""
        return ObjectiveEvaluation(failed=f"{scene}{why.reason}", simulations=simulations)


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneValue:
    """The cost of a scene and its constraints, with derivatives if they were asked for."""

    cost: float
    constraints: Array  # (m,)
    gradient: Array | None = None  # (n,)
    constraint_jacobian: Array | None = None  # (m, n)
    # the adjoints of terms that no gradient has been seen of yet, and their gradients (n,)
    tested: tuple[Sequence[Adjoint], Sequence[Array]] = ((), ())


class SceneFailed(Exception):
    """A scene could not be simulated."""

    def __init__(self, scene: int, reason: str, count: int = 1) -> None:
        super().__init__(scene, reason, count)
        self.scene, self.reason = scene, reason
        self.count = count  # its number among the evaluated scenes

    def numbered(self, count: int) -> "SceneFailed":
        """Return the same failure with another number."""
        return SceneFailed(self.scene, self.reason, count)


def _joined(parts: Iterable[Array]) -> Array:
    return np.concatenate(list(parts))
