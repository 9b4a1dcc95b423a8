"""The augmented Lagrangian method (method of multipliers), which adds constraints to any planner
(ALGENCAN, Birgin and Martinez 2014).

Each round minimises the cost plus penalty/2 |z - P(z)|^2 with z = c + multiplier / penalty over all
constraints c in sets with projection P. It starts at the result of the round before. Then the
multipliers become penalty (z - P(z)). The penalty of a constraint grows if its violation did not
fall to a quarter. No scaling parameters are needed: the first penalty balances violation and cost,
and the tolerance is relative to the size of the constraint. For a model with approximate
derivatives only the first round uses them, because multipliers need accurate minimisers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError, counted
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import Evaluation, evaluate
from pliant.planners.exact_penalty import ExactPenaltyLoss
from pliant.planners.gauss_newton_search import search_by_gauss_newton
from pliant.planners.options import with_progress
from pliant.planners.plan_result import (
    INTERRUPTED,
    Iteration,
    Options,
    Plan,
    SearchLog,
    has_approximate_derivatives,
)
from pliant.planners.trust_region_search import missed_goal_text
from pliant.problem import (
    AugmentedLagrangianLoss,
    ConstraintRow,
    Interval,
    Loss,
    Observation,
    Problem,
)
from pliant.store import read_json, write_json

FILE = "multipliers.json"
# After so many rounds without progress, each with a hundredfold penalty, the problem is infeasible.
MAX_STALLED_ROUNDS = 4
MAX_PENALTY_GROWTH = 1e10  # with a larger penalty, round-off hides the cost
# Of an exact penalty, times cost / size of the constraint. It must exceed the multipliers, which
# are about as large; a larger one only shortens steps along curved constraints.
FIRST_EXACT_PENALTY = 100.0


@dataclass(kw_only=True)
class ConstraintMultipliers:
    """A constraint of the user at all its steps, with its multipliers and penalty."""

    constraint_rows: Sequence[ConstraintRow]
    dt: float
    label: str  # its name in messages
    scale: float = 0.0  # of an exact penalty (exact_penalty.py); 0: augmented Lagrangian
    multipliers: list[Array] = field(default_factory=list)
    penalty: float = 0.0  # 0: not chosen yet
    size: float = 0.0  # largest value of the constraint so far
    gap: float = np.inf  # |c - P(z)|, at least the violation; zero at a solution
    stalled: int = 0  # rounds without progress
    penalty_growth: float = 1.0  # ratio of the penalty to the first one

    def observations(self) -> list[Observation]:
        return [
            replace(w.observation, loss=self._loss(w, m))
            for w, m in zip(self.constraint_rows, self.multipliers, strict=True)
        ]

    @property
    def is_exact(self) -> bool:
        return self.scale > 0.0

    def _loss(self, constraint_row: ConstraintRow, multiplier: Array) -> Loss:
        if self.is_exact:
            return ExactPenaltyLoss(
                constraint_row=constraint_row, penalty=self.penalty, scale=self.scale
            )
        return self._augmented_loss(constraint_row, multiplier)

    def _augmented_loss(
        self, constraint_row: ConstraintRow, multiplier: Array
    ) -> AugmentedLagrangianLoss:
        return AugmentedLagrangianLoss(
            constraint_row=constraint_row, multiplier=multiplier, penalty=self.penalty
        )

    def observe(self, states: Array, controls: Array, previous_control: Array) -> list[Array]:
        return [
            constraint_row.observation.evaluate(states, controls, previous_control)
            for constraint_row in self.constraint_rows
        ]

    def largest_violation(self, values: Sequence[Array]) -> tuple[float, float]:
        """Return the largest violation and its time [s]."""
        amounts = [
            constraint_row.violation(y)
            for constraint_row, y in zip(self.constraint_rows, values, strict=True)
        ]
        return max(amounts), self.dt * self.constraint_rows[
            int(np.argmax(amounts))
        ].observation.step

    def initialise(self, values: Sequence[Array], cost: float) -> None:
        """Set the multipliers to zero and choose the first penalty."""
        functions = [
            constraint_row.function(y)
            for constraint_row, y in zip(self.constraint_rows, values, strict=True)
        ]
        self.multipliers = [np.zeros_like(c) for c in functions]
        self.update_size(values)
        if self.is_exact:
            size = max(self.size, self._smallest_bound()) or 1.0
            self.penalty = FIRST_EXACT_PENALTY * (abs(cost) or 1.0) / (size * self.scale)
            return
        squared = sum(
            constraint_row.violation(y) ** 2
            for constraint_row, y in zip(self.constraint_rows, values, strict=True)
        )
        self.penalty = first_penalty(
            cost, squared, len(functions) * (max(self.size, self._smallest_bound()) or 1.0) ** 2
        )

    def _smallest_bound(self) -> float:
        """Return the smallest nonzero bound of the intervals; 0 if there is none."""
        sides = [
            np.ravel(side)
            for w in self.constraint_rows
            if isinstance(w.inside, Interval)
            for side in (w.inside.lower, w.inside.upper)
        ]
        ends = np.abs(np.concatenate([np.zeros(0), *sides]).astype(float))
        ends = ends[np.isfinite(ends) & (ends > 0.0)]
        return float(ends.min()) if ends.size else 0.0

    def update_size(self, values: Sequence[Array]) -> None:
        """Update the size of the constraint from the observations."""
        largest = [
            float(np.abs(constraint_row.function(y)).max(initial=0.0))
            for constraint_row, y in zip(self.constraint_rows, values, strict=True)
        ]
        floor = [1e-9 * float(np.abs(y).max(initial=0.0)) for y in values]
        self.size = max(self.size, *largest, *floor)

    def update(self, values: Sequence[Array], tolerance: float) -> None:
        """Update the multipliers, and the penalty if the gap did not fall enough."""
        if self.is_exact:
            self._update_exact(values, tolerance)
            return
        losses = [
            self._augmented_loss(w, m)
            for w, m in zip(self.constraint_rows, self.multipliers, strict=True)
        ]
        found = [loss.next_multiplier(y) for loss, y in zip(losses, values, strict=True)]
        changes = zip(found, self.multipliers, strict=True)
        gap = max(float(np.linalg.norm(new - old)) for new, old in changes) / self.penalty
        reduction = gap / self.gap if self.gap > 0.0 else 0.0
        self.stalled = self.stalled + 1 if reduction > 0.9 else 0
        factor = 100.0 if reduction > 0.9 else 10.0 if reduction > 0.25 else 1.0
        self.penalty, self.penalty_growth = self.penalty * factor, self.penalty_growth * factor
        self.gap, self.multipliers = gap, found

    def _update_exact(self, values: Sequence[Array], tolerance: float) -> None:
        """Increase the penalty if the constraint is violated: it was below the multiplier."""
        gap = self.largest_violation(values)[0]
        self.stalled = self.stalled + 1 if gap > 0.9 * self.gap else 0
        factor = 1.0 if gap <= tolerance * self.size else 100.0
        self.penalty, self.penalty_growth = self.penalty * factor, self.penalty_growth * factor
        self.gap = gap

    def is_satisfied(self, tolerance: float) -> bool:
        return self.gap <= tolerance * self.size


def first_penalty(cost: float, squared: float, size: float) -> float:
    """Return the first penalty 2 |f| / |c - P(c)|^2 of ALGENCAN, within bounds.

    `squared` is |c - P(c)|^2 and `size` is |c|^2. The bounds are 2 |f| / size and 1e4 |f| / size.
    """
    f, size = abs(cost) or 1.0, size or 1.0
    return float(
        np.clip(
            2.0 * f / squared if squared > 0.0 else 2.0 * f / size, 2.0 * f / size, 1e4 * f / size
        )
    )


def row_scale(problem: Problem, now: Evaluation, constraint_rows: Sequence[ConstraintRow]) -> float:
    """Return the factor that makes the rows of a constraint as large as those of the residuals."""
    args = now.states, now.controls, problem.previous_control
    residuals = [one.loss.gauss_newton_factor(one.evaluate(*args)) for one in problem.observations]
    rows = [row.jacobian(row.observation.evaluate(*args)) for row in constraint_rows]
    largest, own = (
        max((float(np.abs(F).max(initial=0.0)) for F in part), default=0.0)
        for part in (residuals, rows)
    )
    return (largest or 1.0) / (own or 1.0)


@with_progress
def plan_with_constraints(
    problem: Problem,
    planner: Callable[..., Plan],
    *,
    guess: Array | None = None,
    options: Options | None = None,
    tolerance: float = 1e-6,
    rounds: int = 40,
    exact: bool = False,
    **kwargs: Any,
) -> Plan:
    """Plan a problem with constraints by several rounds of a planner without constraints.

    Parameters
    ----------
    problem, guess : as for the planner
    planner : function (problem, guess=..., options=...) -> Plan, such as ddp
    options : options.iterations limits the sum over all rounds
    tolerance : largest violation, relative to the size of the constraint
    rounds : largest number of rounds
    exact : exact penalties instead of multipliers, for a planner whose quadratic models take them
        as constraints, and for sets with bounds (exact_penalty.py)
    kwargs : arguments of the planner

    Raises InputError for a bad tolerance or number of rounds.
    """
    if not problem.constraints:
        return planner(problem, guess=guess, options=options, **kwargs)
    if not (0.0 < tolerance < 1.0 and rounds >= 1):
        raise InputError(
            f"The tolerance of the constraints is {tolerance:g} and the rounds {rounds}; give a "
            "tolerance between 0 and 1 and 1 round or more."
        )
    options = options or Options()
    log = SearchLog(problem=problem, method=planner.__name__, options=options, keep=False)
    now = log.evaluate_guess(guess)
    constraints = _constraint_multipliers(problem)
    if exact:
        for constraint in constraints:
            constraint.scale = row_scale(problem, now, constraint.constraint_rows)
    for constraint in constraints:
        constraint.initialise(
            constraint.observe(now.states, now.controls, problem.previous_control), now.cost
        )
    _load_multipliers(constraints, options)
    search = _AugmentedLagrangianSearch(
        problem=problem,
        planner=planner,
        log=log,
        constraints=constraints,
        tolerance=tolerance,
        kwargs=kwargs,
        controls=now.controls,
        least_violating=now.controls,
    )
    try:
        return search.run(rounds)
    except KeyboardInterrupt:
        return search.finish(False, INTERRUPTED, interrupted=True)


@dataclass(kw_only=True)
class _AugmentedLagrangianSearch:
    """The search over all rounds, with the last controls and those of least violation."""

    problem: Problem
    planner: Callable[..., Plan]
    log: SearchLog
    constraints: list[ConstraintMultipliers]
    tolerance: float
    kwargs: dict[str, Any]
    controls: Array
    least_violating: Array
    least: float = np.inf
    gains: Array | None = None

    def run(self, rounds: int) -> Plan:
        options, tolerance_now = self.log.options, 1e-2
        if any(constraint.is_exact for constraint in self.constraints):
            tolerance_now = options.tolerance  # a round that is not finished says nothing
        if has_approximate_derivatives(self.problem.model):
            self._store(self._round(tolerance_now, partial(self.planner, **self.kwargs), 0.5))
            self.planner, self.kwargs = _plan_on_full_model, {}
        for done in range(1, rounds + 1):
            tolerance_now = max(options.tolerance, 0.1 * tolerance_now)
            plan = self._round(tolerance_now, partial(self.planner, **self.kwargs))
            self._store(plan)
            if plan.interrupted:
                return self.finish(False, INTERRUPTED, interrupted=True)
            if all(constraint.is_satisfied(self.tolerance) for constraint in self.constraints):
                if tolerance_now <= options.tolerance and plan.status.ok:
                    return self.finish(
                        True,
                        f"converged in {counted(self.log.iterations_done, 'iteration')} and {done} "
                        "rounds of multipliers",
                    )
                if tolerance_now <= options.tolerance:
                    return self.finish(
                        False, f"all constraints are satisfied, but {plan.status.text}"
                    )
                tolerance_now = options.tolerance
            if self.log.iterations_done >= options.iterations:
                return self.finish(
                    False,
                    f"not converged in {counted(options.iterations, 'iteration')}; allow more with "
                    "Options(iterations=...)",
                )
            stuck = [
                constraint
                for constraint in self.constraints
                if constraint.stalled >= MAX_STALLED_ROUNDS
                or constraint.penalty_growth > MAX_PENALTY_GROWTH
            ]
            if stuck:
                self.controls = self.least_violating
                return self.finish(
                    False,
                    "no controls were found that satisfy all constraints; relax one, or try "
                    "another guess",
                )
        return self.finish(
            False, f"not converged in {rounds} rounds of multipliers; allow more with rounds=..."
        )

    def _round(
        self, tolerance_now: float, planner: Callable[..., Plan], share: float = 1.0
    ) -> Plan:
        """Minimise with fixed multipliers, using a share of the remaining iterations."""
        log, options = self.log, self.log.options
        before, total, seconds = log.iterations_done, options.iterations, log.history[-1].seconds
        inner = replace(
            options,
            iterations=max(1, int(share * (total - before))),
            tolerance=tolerance_now,
            resume=False,
            folder=None,
            progress=lambda what, done, _: options.report(what, min(before + done, total), total),
        )
        augmented = self.problem.with_observations(
            [
                observation
                for constraint in self.constraints
                for observation in constraint.observations()
            ]
        )
        plan = planner(augmented, guess=self.controls, options=inner)
        for constraint in self.constraints:
            values = constraint.observe(plan.states, plan.controls, self.problem.previous_control)
            constraint.update_size(values)
            constraint.update(values, self.tolerance)
        violation = self.problem.constraint_violation(plan.states, plan.controls)
        log.history += [_shift_iteration(row, seconds, violation) for row in plan.history[1:]]
        return plan

    def _store(self, plan: Plan) -> None:
        """Store the controls of a round, and write the files that `resume` needs."""
        self.controls = plan.controls
        before = self.problem.previous_control
        worst = max(
            constraint.largest_violation(constraint.observe(plan.states, plan.controls, before))[0]
            / (constraint.size or 1.0)
            for constraint in self.constraints
        )
        if worst < self.least:
            self.least_violating, self.least = plan.controls, worst
        size = AugmentedState(problem=self.problem).size
        self.gains = plan.gains if plan.gains is not None and plan.gains.shape[-1] == size else None
        folder = self.log.options.folder
        if folder is not None:
            found = [
                np.concatenate([np.zeros(0), *constraint.multipliers])
                for constraint in self.constraints
            ]
            write_json(
                Path(folder) / FILE,
                {
                    "multipliers": found,
                    "penalties": [constraint.penalty for constraint in self.constraints],
                },
            )
            self.log.save_best(evaluate(self.problem, self.controls, keep=False))

    def finish(self, ok: bool, text: str, interrupted: bool = False) -> Plan:
        """Return the plan at the best controls. The status names a violated constraint."""
        self.log.best = now = evaluate(self.problem, self.controls, keep=False)
        text += missed_goal_text(self.problem, now) if ok else ""
        return self.log.finish(
            ok,
            text + self._violation_text(now.states, now.controls),
            interrupted=interrupted,
            gains=self.gains,
            notes={"penalties": [constraint.penalty for constraint in self.constraints]},
        )

    def _violation_text(self, states: Array, controls: Array) -> str:
        """Return a message about the constraint with the largest relative violation, or ""."""
        found = [
            (
                constraint,
                *constraint.largest_violation(
                    constraint.observe(states, controls, self.problem.previous_control)
                ),
            )
            for constraint in self.constraints
        ]
        if not found:
            return ""
        constraint, amount, time = max(found, key=lambda row: row[1] / (row[0].size or 1.0))
        if amount <= 10.0 * self.tolerance * constraint.size:
            return ""
        return f"; {constraint.label} at t = {time:.3g} s is still violated by {amount:.3g}"


def _plan_on_full_model(problem: Problem, *, guess: Array, options: Options) -> Plan:
    """Plan by Gauss-Newton with the derivatives of the full model."""
    full_model = problem.model.full_model  # type: ignore[attr-defined]
    return search_by_gauss_newton(replace(problem, model=full_model), guess=guess, options=options)


def _shift_iteration(row: Iteration, seconds: float, violation: float) -> Iteration:
    """Return an iteration of a round for the history of all rounds. Its cost has penalties."""
    return replace(row, seconds=row.seconds + seconds, infeasibility=violation)


def _load_multipliers(constraints: list[ConstraintMultipliers], options: Options) -> None:
    """Load the multipliers of a resumed search. Raises InputError if they do not fit."""
    if not options.resume or options.folder is None or not (Path(options.folder) / FILE).is_file():
        return
    raw = read_json(Path(options.folder) / FILE)
    try:
        found, penalties = (
            [np.asarray(row, float) for row in raw["multipliers"]],
            [float(p) for p in raw["penalties"]],
        )
        sizes = [sum(m.size for m in constraint.multipliers) for constraint in constraints]
        if (
            [row.size for row in found] != sizes
            or not all(np.all(np.isfinite(row)) for row in found)
            or min(penalties) <= 0.0
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{Path(options.folder) / FILE} does not belong to these constraints; delete it and "
            "plan again."
        ) from None
    for constraint, row, penalty in zip(constraints, found, penalties, strict=True):
        constraint.multipliers = np.split(
            row, np.cumsum([m.size for m in constraint.multipliers])[:-1]
        )
        constraint.penalty = penalty


def _constraint_multipliers(problem: Problem) -> list[ConstraintMultipliers]:
    dt = problem.model.dt
    return [
        ConstraintMultipliers(
            constraint_rows=c.attach(problem.model, problem.steps), dt=dt, label=c.label
        )
        for c in problem.constraints
    ]
