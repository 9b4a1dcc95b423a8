"""Plan: what every planner returns, and the Journal that a planner keeps on its way so that nothing
is lost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from pliant.core import (
    Array,
    Condensing,
    Dynamics,
    InputError,
    Status,
    Step,
    StepError,
    finite_array,
)
from pliant.dynamics.overlaps import overlap_note, with_note
from pliant.planners.iteration import Iteration
from pliant.planners.model_summary import ModelSummary, effector_positions, summarise
from pliant.planners.options import Options, checked_options
from pliant.planners.plan_files import (
    FILE,
    header,
    plan_path,
    plan_table,
    progress_content,
    read_history,
    read_plan,
    write_plan,
)
from pliant.problem import Problem
from pliant.store import read_json, write_atomic, write_json

NOT_FINITE = "the objective of the run is not a finite number"
INTERRUPTED = "interrupted; this is the best iterate so far, go on with resume"
NO_COUPLING = (
    "No control moves anything that the terms look at (W_ea = 0): the effector is held by a "
    "support, or no actuator reaches it; attach one that does, or name another effector."
)
# relative difference between a saved cost and that of the saved controls here, beyond which the
# problem is another one
SAME = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """Controls, the run they give and its cost; infinite where a step failed, and then `failed`
    says which."""

    controls: Array  # (steps, n_controls)
    states: Array  # (steps + 1, n_state)
    steps: tuple[Step, ...]
    cost: float
    failed: str = ""


def evaluate(problem: Problem, controls: Array, *, keep: bool = True) -> Evaluation:
    """Simulate the controls and price the run; a failed step is a value, not an error. Without
    `keep` no tapes are held."""
    x, steps, states = problem.start, [], [problem.start]
    p = None if problem.params is None else np.asarray(problem.params, float)
    if not np.all(np.isfinite(controls)):
        return Evaluation(
            controls=controls,
            states=x[None],
            steps=(),
            cost=np.inf,
            failed="the controls are not finite",
        )
    for k, u in enumerate(controls):
        step = problem.model.step(x, u, p, k)
        if not step.status or not np.all(np.isfinite(step.x)):
            why = step.status.text if not step.status else "the state is not finite"
            return Evaluation(
                controls=controls, states=x[None], steps=(), cost=np.inf, failed=f"step {k}: {why}"
            )
        steps += [step] if keep else []
        x = step.x
        states.append(x)
    run = np.array(states)
    cost = problem.value(run, controls)
    return Evaluation(
        controls=controls,
        states=run,
        steps=tuple(steps),
        cost=cost if np.isfinite(cost) else np.inf,
        failed="" if np.isfinite(cost) else NOT_FINITE,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Controls that a planner found, the run they give, and how it got there."""

    method: str
    controls: Array  # (steps, n_controls)
    states: Array  # (steps + 1, n_state)
    cost: float
    status: Status
    history: tuple[Iteration, ...]
    misses: tuple[
        tuple[str, float, float], ...
    ] = ()  # (effector, time [s], distance) of every goal
    excess: float = 0.0  # beyond the limits of the controls, relative to their width
    violation: float = 0.0  # of the constraints
    gains: Array | None = None  # (steps, n_controls, n_augmented) of feedback, from ddp
    interrupted: bool = False
    notes: dict[str, Any] = field(
        default_factory=dict
    )  # what a method says beside, such as its route
    model: ModelSummary | None = None  # names and units of the controls, time step and robot
    before: Array | None = None  # (n_controls,) the control that stood before the first step
    params: Array | None = None  # (n_params,) of the model; None: as described
    positions: Mapping[str, Array] = field(default_factory=dict)  # effector -> (steps + 1, dim) [m]

    @classmethod
    def load(cls, path: str | Path, model: Dynamics | None = None) -> Self:
        """Return the plan that `save` wrote into a folder. With a model, a plan of another robot,
        time step or stepping rule is refused; a plan whose search was cut off needs it, to simulate
        its states. Raises InputError where the file is missing or damaged."""
        fields = read_plan(path, model)
        if model is not None:
            fields["positions"] = effector_positions(model, fields["states"])
        return cls(**fields)

    def replay(self, model: Dynamics, problem: Problem) -> float:
        """The objective of the plan's controls simulated anew; equal to `cost` bit for bit."""
        return evaluate(replace(problem, model=model), self.controls, keep=False).cost

    def save(self, folder: str | Path) -> None:
        """Write plan.json, states-DIGEST.npy and, of a plan with feedback, gains-DIGEST.npy, for
        `Plan.load` and `pliant drive --replay`."""
        write_plan(self, folder)

    def to_csv(self, path: str | Path) -> None:
        """Write a table with a row for each step: the time [s] at which it ends (the step's number
        of a quasistatic plan), its controls, and where the effectors are then [m]."""
        write_atomic(path, plan_table(self))

    def summary(self) -> str:
        """One sentence."""
        worst = (
            f", worst miss of a goal {max(miss for _, _, miss in self.misses):.3g} m"
            if self.misses
            else ""
        )
        return f"{self.method}: {self.status.text} (cost {self.cost:.6g}{worst})"

    def show(self) -> None:
        """Print the summary, how far each goal is missed, and the history."""
        print(self.summary())
        if self.misses:
            print(
                _aligned(
                    ("effector", "time [s]", "miss [m]"),
                    [(name, f"{t:.4g}", f"{miss:.3g}") for name, t, miss in self.misses],
                )
            )
        rows = [
            (str(k), f"{row.cost:.6g}", f"{row.step:.3g}", f"{row.seconds:.3g}")
            for k, row in enumerate(self.history)
        ]
        print(_aligned(("iteration", "cost", "step", "seconds"), rows))


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns end at one place, below an empty line."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    ]
    return "\n".join(["", *lines])


def plan_model(problem: Problem, states: Array) -> dict[str, Any]:
    """Return the fields of a Plan that say what its numbers mean."""
    return {
        "model": summarise(problem.model),
        "before": problem.first_control,
        "params": None if problem.params is None else np.asarray(problem.params, float),
        "positions": effector_positions(problem.model, states),
    }


def load_controls(folder: str | Path, shape: tuple[int, int]) -> tuple[Array, list[Iteration]]:
    """Controls (steps, n_controls) and history of a saved plan, or a sentence."""
    return _read(plan_path(folder), shape)[:2]


def _read(path: Path, shape: tuple[int, int]) -> tuple[Array, list[Iteration], float | None]:
    """(controls, history, cost of their run or None where they were not simulated) of a saved plan,
    or a sentence."""
    raw = read_json(path)
    try:
        history = list(read_history(raw["history"]))
        controls, cost = raw["controls"], raw.get("cost")
        cost = None if cost is None else float(cost)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} is not a saved plan; delete it and plan anew.") from None
    return finite_array(f"The controls in {path}", controls, shape), history, cost


def is_rough(model: Dynamics) -> bool:
    """Whether the derivatives of a model are approximations."""
    return isinstance(model, Condensing) and not model.exact


def check_exact(problem: Problem, method: str) -> None:
    """A sentence where a method that follows slopes is given a model whose derivatives are
    approximations."""
    if is_rough(problem.model):
        raise InputError(
            f"{method} needs the derivatives of the whole step, and those of this condensed "
            "model are approximations; plan with ddp, or give the model inside, or "
            "derivative='exact'."
        )


@dataclass(kw_only=True)
class Journal:
    """A planner's memory of its way: keeps the history, tells the progress, and writes the best
    iterate after every iteration."""

    problem: Problem
    method: str
    options: Options
    history: list[Iteration] = field(default_factory=list)
    best: Evaluation | None = None
    began: float = field(default_factory=time.perf_counter)
    keep: bool = True  # the tapes of the first run

    def __post_init__(self) -> None:
        checked_options(self.options)

    def first(self, guess: Array | None) -> Evaluation:
        """The run of the guess, of what is in the folder, or of standing still, brought within the
        limits."""
        from pliant.planners.quadratic import within_limits  # which knows Evaluation

        problem, shape, cost = (
            self.problem,
            (self.problem.steps, self.problem.model.n_controls),
            None,
        )
        folder = self.options.folder
        if self.options.resume and folder is not None and (Path(folder) / FILE).is_file():
            controls, self.history, cost = _read(Path(folder) / FILE, shape)
            self.began -= self.history[-1].seconds if self.history else 0.0
        else:
            controls = (
                problem.guess()
                if guess is None
                else finite_array("The guess of the controls", guess, shape)
            )
        now = evaluate(problem, within_limits(problem, controls), keep=self.keep)
        if now.failed in ("", NOT_FINITE):  # every step was simulated
            problem.check_not_nan(now.states, now.controls)
        if cost is not None:
            unchanged = np.array_equal(now.controls, controls)
            self._check_same(
                cost, now.cost if unchanged else evaluate(problem, controls, keep=False).cost
            )
        if now.failed:
            raise StepError(
                f"The first guess cannot be simulated ({now.failed}); give another guess, or a "
                "smaller time step."
            )
        self.best = now
        if not self.history:
            self.note(now, step=0.0, regulariser=0.0)
        return now

    def _check_same(self, cost: float, here: float) -> None:
        """A sentence where the saved controls do not cost here what they did when they were
        saved."""
        first = self.history[0].cost if self.history else cost
        if not abs(here - cost) <= SAME * max(abs(cost), 1e-9 * abs(first)):
            now = f"cost {here:.9g} here" if np.isfinite(here) else "cannot be simulated here"
            raise InputError(
                f"What is saved in {self.options.folder} was planned for another problem: its "
                f"controls cost {cost:.9g} there and {now}; plan without resume, or in another "
                "folder."
            )

    @cached_property
    def _header(self) -> dict[str, Any]:
        problem = self.problem
        model = summarise(problem.model)
        return header(model, problem.start, problem.first_control, problem.params)

    @property
    def done(self) -> int:
        """Iterations so far."""
        return len(self.history) - 1

    @property
    def lowered(self) -> bool:
        """Whether any iteration has lowered the cost."""
        return self.history[-1].cost < self.history[0].cost

    def note(
        self,
        now: Evaluation,
        *,
        step: float,
        regulariser: float,
        failed: int = 0,
        infeasibility: float = 0.0,
    ) -> None:
        """An iteration has ended at `now`."""
        seconds = time.perf_counter() - self.began
        self.history.append(
            Iteration(
                cost=now.cost,
                step=step,
                regulariser=regulariser,
                seconds=seconds,
                failed=failed,
                infeasibility=infeasibility,
            )
        )
        if self.best is None or now.cost <= self.best.cost:
            self.best = now
        self.keep_best(self.best)
        self.options.report(
            f"planning ({self.method})",
            min(self.done, self.options.iterations),
            self.options.iterations,
        )

    def keep_best(self, now: Evaluation) -> None:
        """Take a run as the best so far, and write it."""
        self.best = now
        self.write(now.controls, now.cost)

    def write(self, controls: Array, cost: float | None) -> None:
        """Keep controls in the folder with the cost of their run, None where they were not
        simulated."""
        if self.options.folder is not None:
            content = progress_content(self.method, controls, cost, self.history, "not finished")
            write_json(Path(self.options.folder) / FILE, {**self._header, **content})

    def negligible(self, gain: float, share: float) -> bool:
        """Is a promised gain less than a share of the cost? An optimum of zero counts beside the
        first cost."""
        return gain <= share * max(abs(self.history[-1].cost), 1e-9 * abs(self.history[0].cost))

    def finish(
        self,
        ok: bool,
        text: str,
        *,
        interrupted: bool = False,
        gains: Array | None = None,
        notes: dict[str, Any] | None = None,
    ) -> Plan:
        """The plan at the best iterate."""
        problem, now = self.problem, self.best
        assert now is not None
        misses = problem.misses(now.states, now.controls)
        failed = sum(row.failed for row in self.history)
        text += f"; {failed} trial runs failed on the way and were shortened" if failed else ""
        text = with_note(text, overlap_note(problem.model, now.states))
        plan = Plan(
            method=self.method,
            controls=now.controls,
            states=now.states,
            cost=now.cost,
            history=tuple(self.history),
            status=Status(ok=ok, text=text, iterations=self.done),
            misses=tuple(misses),
            excess=problem.excess(now.controls),
            violation=problem.violation(now.states, now.controls),
            gains=gains,
            interrupted=interrupted,
            notes=notes or {},
            **plan_model(problem, now.states),
        )
        if self.options.folder is not None:
            plan.save(self.options.folder)
        return plan
