"""Constraints around any planner by the augmented Lagrangian (method of multipliers; ALGENCAN,
Birgin and Martinez 2014).

Each round minimises the cost plus penalty/2 |z - P(z)|^2, z = c + multiplier / penalty, over all
constraints c in sets with projection P, from where the last round ended; then multipliers become
penalty (z - P(z)), and the penalty of a constraint that did not fall to a quarter grows. Nothing is
to be scaled by hand: the first penalty weighs the violation like the cost, and a violation is small
when it is so beside the constraint's own size. Of a model with approximate derivatives the first
round leads near, and the others follow those of the whole step: what ends somewhere near an optimum
has no multipliers to learn from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.augmented import Augmented
from pliant.planners.options import reported
from pliant.planners.plan import INTERRUPTED, Iteration, Journal, Options, Plan, evaluate, is_rough
from pliant.planners.shooting import missed
from pliant.problem import Interval, Look, Penalty, Problem, Watch
from pliant.store import read_json, write_json

FILE = "multipliers.json"
# rounds without progress, each with a hundredfold penalty, after which a constraint counts as
# impossible
STALLED = 4
LARGEST = (
    1e10  # growth of a penalty in all; beyond it the round-off of the cost is all that is seen
)


@dataclass(kw_only=True)
class Hold:
    """One constraint of the user at all its steps, and what the method knows of it."""

    watches: Sequence[Watch]
    dt: float
    what: str  # its name in a sentence
    multipliers: list[Array] = field(default_factory=list)
    penalty: float = 0.0  # 0: not chosen yet
    size: float = 0.0  # of the constraint's values, the largest seen
    gap: float = (
        np.inf
    )  # |c - P(z)|: no less than the violation, zero where it is kept and its multiplier is right
    stalled: int = 0
    grown: float = 1.0  # penalty over the first one

    def looks(self) -> list[Look]:
        return [
            replace(w.look, loss=self._loss(w, m))
            for w, m in zip(self.watches, self.multipliers, strict=True)
        ]

    def _loss(self, watch: Watch, multiplier: Array) -> Penalty:
        return Penalty(watch=watch, multiplier=multiplier, penalty=self.penalty)

    def seen(self, states: Array, controls: Array, before: Array) -> list[Array]:
        return [watch.look.see(states, controls, before) for watch in self.watches]

    def worst(self, seen: Sequence[Array]) -> tuple[float, float]:
        """(violation, its time [s])."""
        amounts = [watch.violation(y) for watch, y in zip(self.watches, seen, strict=True)]
        return max(amounts), self.dt * self.watches[int(np.argmax(amounts))].look.step

    def begin(self, seen: Sequence[Array], cost: float) -> None:
        """Multipliers of zero, and the first penalty."""
        values = [watch.function(y) for watch, y in zip(self.watches, seen, strict=True)]
        self.multipliers = [np.zeros_like(c) for c in values]
        self.measure(seen)
        squared = sum(watch.violation(y) ** 2 for watch, y in zip(self.watches, seen, strict=True))
        self.penalty = first_penalty(
            cost, squared, len(values) * (max(self.size, self._narrowest()) or 1.0) ** 2
        )

    def _narrowest(self) -> float:
        """The least end of its intervals that is not zero, for a constraint whose values all are
        nearly that at the start; 0: none."""
        sides = [
            np.ravel(side)
            for w in self.watches
            if isinstance(w.inside, Interval)
            for side in (w.inside.lower, w.inside.upper)
        ]
        ends = np.abs(np.concatenate([np.zeros(0), *sides]).astype(float))
        ends = ends[np.isfinite(ends) & (ends > 0.0)]
        return float(ends.min()) if ends.size else 0.0

    def measure(self, seen: Sequence[Array]) -> None:
        """Learn the size of the constraint."""
        largest = [
            float(np.abs(watch.function(y)).max(initial=0.0))
            for watch, y in zip(self.watches, seen, strict=True)
        ]
        floor = [1e-9 * float(np.abs(y).max(initial=0.0)) for y in seen]
        self.size = max(self.size, *largest, *floor)

    def update(self, seen: Sequence[Array]) -> None:
        """New multipliers from the optimum of a round, and a larger penalty where it did not help
        enough."""
        losses = [self._loss(w, m) for w, m in zip(self.watches, self.multipliers, strict=True)]
        found = [loss.next_multiplier(y) for loss, y in zip(losses, seen, strict=True)]
        changes = zip(found, self.multipliers, strict=True)
        gap = max(float(np.linalg.norm(new - old)) for new, old in changes) / self.penalty
        falls = gap / self.gap if self.gap > 0.0 else 0.0
        self.stalled = self.stalled + 1 if falls > 0.9 else 0
        factor = 100.0 if falls > 0.9 else 10.0 if falls > 0.25 else 1.0
        self.penalty, self.grown = self.penalty * factor, self.grown * factor
        self.gap, self.multipliers = gap, found

    def kept(self, tolerance: float) -> bool:
        return self.gap <= tolerance * self.size


def first_penalty(cost: float, squared: float, size: float) -> float:
    """2 |f| / |c - P(c)|^2 (ALGENCAN's), within bounds that scale with the cost and the constraint:
    `size` is its |c|^2."""
    f, size = abs(cost) or 1.0, size or 1.0
    return float(
        np.clip(
            2.0 * f / squared if squared > 0.0 else 2.0 * f / size, 2.0 * f / size, 1e4 * f / size
        )
    )


@reported
def constrained(
    problem: Problem,
    planner: Callable[..., Plan],
    *,
    guess: Array | None = None,
    options: Options | None = None,
    tolerance: float = 1e-6,
    rounds: int = 40,
    **kwargs: Any,
) -> Plan:
    """Plan within `problem.constraints` by rounds of a planner that knows none. A constraint is
    kept when it is violated by less than `tolerance` times its size. `kwargs` go to the planner;
    `options.iterations` counts those of all rounds."""
    if not problem.constraints:
        return planner(problem, guess=guess, options=options, **kwargs)
    if not (0.0 < tolerance < 1.0 and rounds >= 1):
        raise InputError(
            f"The tolerance of the constraints is {tolerance:g} and the rounds {rounds}; give a "
            "tolerance between 0 and 1 and 1 round or more."
        )
    options = options or Options()
    journal = Journal(problem=problem, method=planner.__name__, options=options, keep=False)
    now = journal.first(guess)
    holds = _holds(problem)
    for hold in holds:
        hold.begin(hold.seen(now.states, now.controls, problem.first_control), now.cost)
    _recall(holds, options)
    search = _Search(
        problem=problem,
        planner=planner,
        journal=journal,
        holds=holds,
        tolerance=tolerance,
        kwargs=kwargs,
        controls=now.controls,
        calmest=now.controls,
    )
    try:
        return search.run(rounds)
    except KeyboardInterrupt:
        return search.finish(False, INTERRUPTED, interrupted=True)


@dataclass(kw_only=True)
class _Search:
    """The rounds, with the controls of the last one and those with the least violation beside each
    constraint's size."""

    problem: Problem
    planner: Callable[..., Plan]
    journal: Journal
    holds: list[Hold]
    tolerance: float
    kwargs: dict[str, Any]
    controls: Array
    calmest: Array
    least: float = np.inf
    gains: Array | None = None

    def run(self, rounds: int) -> Plan:
        options, exact = self.journal.options, 1e-2
        if is_rough(self.problem.model):
            self._keep(self._round(exact, partial(self.planner, **self.kwargs), 0.5))
            self.planner, self.kwargs = _on_whole_model, {}
        for done in range(1, rounds + 1):
            exact = max(options.tolerance, 0.1 * exact)
            plan = self._round(exact, partial(self.planner, **self.kwargs))
            self._keep(plan)
            if plan.interrupted:
                return self.finish(False, INTERRUPTED, interrupted=True)
            if all(hold.kept(self.tolerance) for hold in self.holds):
                if exact <= options.tolerance and plan.status.ok:
                    return self.finish(
                        True,
                        f"converged in {self.journal.done} iterations and {done} rounds of "
                        "multipliers",
                    )
                if exact <= options.tolerance:
                    return self.finish(False, f"all constraints are kept, but {plan.status.text}")
                exact = options.tolerance
            if self.journal.done >= options.iterations:
                return self.finish(
                    False,
                    f"not converged in {options.iterations} iterations; allow more with "
                    "Options(iterations=...)",
                )
            stuck = [hold for hold in self.holds if hold.stalled >= STALLED or hold.grown > LARGEST]
            if stuck:
                self.controls = self.calmest
                return self.finish(
                    False,
                    "no controls were found that keep all constraints; relax one, or try another "
                    "guess",
                )
        return self.finish(
            False, f"not converged in {rounds} rounds of multipliers; allow more with rounds=..."
        )

    def _round(self, exact: float, planner: Callable[..., Plan], share: float = 1.0) -> Plan:
        """Minimise with the multipliers as they are, in a share of the iterations that are left."""
        journal, options = self.journal, self.journal.options
        before, total, seconds = journal.done, options.iterations, journal.history[-1].seconds
        inner = replace(
            options,
            iterations=max(1, int(share * (total - before))),
            tolerance=exact,
            resume=False,
            folder=None,
            progress=lambda what, done, _: options.report(what, min(before + done, total), total),
        )
        priced = self.problem.with_looks([look for hold in self.holds for look in hold.looks()])
        plan = planner(priced, guess=self.controls, options=inner)
        for hold in self.holds:
            seen = hold.seen(plan.states, plan.controls, self.problem.first_control)
            hold.measure(seen)
            hold.update(seen)
        violation = self.problem.violation(plan.states, plan.controls)
        journal.history += [_later(row, seconds, violation) for row in plan.history[1:]]
        return plan

    def _keep(self, plan: Plan) -> None:
        """The controls of a round, and all that a resumed search needs."""
        self.controls = plan.controls
        before = self.problem.first_control
        worst = max(
            hold.worst(hold.seen(plan.states, plan.controls, before))[0] / (hold.size or 1.0)
            for hold in self.holds
        )
        if worst < self.least:
            self.calmest, self.least = plan.controls, worst
        size = Augmented(problem=self.problem).size
        self.gains = plan.gains if plan.gains is not None and plan.gains.shape[-1] == size else None
        folder = self.journal.options.folder
        if folder is not None:
            found = [np.concatenate([np.zeros(0), *hold.multipliers]) for hold in self.holds]
            write_json(
                Path(folder) / FILE,
                {"multipliers": found, "penalties": [hold.penalty for hold in self.holds]},
            )
            self.journal.keep_best(evaluate(self.problem, self.controls, keep=False))

    def finish(self, ok: bool, text: str, interrupted: bool = False) -> Plan:
        """The plan of the problem itself at the best controls; where a constraint is not kept, its
        name is in the text."""
        self.journal.best = now = evaluate(self.problem, self.controls, keep=False)
        text += missed(self.problem, now) if ok else ""
        return self.journal.finish(
            ok,
            text + self._left(now.states, now.controls),
            interrupted=interrupted,
            gains=self.gains,
            notes={"penalties": [hold.penalty for hold in self.holds]},
        )

    def _left(self, states: Array, controls: Array) -> str:
        """What to say of the constraint that is violated most beside its size."""
        found = [
            (hold, *hold.worst(hold.seen(states, controls, self.problem.first_control)))
            for hold in self.holds
        ]
        if not found:
            return ""
        hold, amount, time = max(found, key=lambda row: row[1] / (row[0].size or 1.0))
        if amount <= 10.0 * self.tolerance * hold.size:
            return ""
        return f"; {hold.what} at t = {time:.3g} s is still violated by {amount:.3g}"


def _on_whole_model(problem: Problem, *, guess: Array, options: Options) -> Plan:
    """Gauss-Newton with the derivatives of the whole step."""
    from pliant.planners.gauss_newton import (
        gauss_newton,
    )  # which keeps its constraints by this file

    return gauss_newton(replace(problem, model=problem.model.whole), guess=guess, options=options)  # type: ignore[attr-defined]


def _later(row: Iteration, seconds: float, violation: float) -> Iteration:
    """A round's iteration in the whole search; its infeasibility is that of the end of its round,
    its cost has the penalties in it."""
    return replace(row, seconds=row.seconds + seconds, infeasibility=violation)


def _recall(holds: list[Hold], options: Options) -> None:
    """Take up the multipliers of a search that is resumed."""
    if not options.resume or options.folder is None or not (Path(options.folder) / FILE).is_file():
        return
    raw = read_json(Path(options.folder) / FILE)
    try:
        found, penalties = (
            [np.asarray(row, float) for row in raw["multipliers"]],
            [float(p) for p in raw["penalties"]],
        )
        sizes = [sum(m.size for m in hold.multipliers) for hold in holds]
        if (
            [row.size for row in found] != sizes
            or not all(np.all(np.isfinite(row)) for row in found)
            or min(penalties) <= 0.0
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{Path(options.folder) / FILE} does not belong to these constraints; delete it and "
            "plan anew."
        ) from None
    for hold, row, penalty in zip(holds, found, penalties, strict=True):
        hold.multipliers = np.split(row, np.cumsum([m.size for m in hold.multipliers])[:-1])
        hold.penalty = penalty


def _holds(problem: Problem) -> list[Hold]:
    dt = problem.model.dt
    return [
        Hold(watches=c.on(problem.model, problem.steps), dt=dt, what=c.label)
        for c in problem.constraints
    ]
