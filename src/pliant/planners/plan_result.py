"""Plan, the result of every planner, and SearchLog, the history of a running planner."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    ReducedDynamics,
    Status,
    StepError,
    counted,
    finite_array,
    require_kind,
)
from pliant.dynamics.overlaps import overlap_note, with_note
from pliant.planners.evaluation import NOT_FINITE, Evaluation, evaluate
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
from pliant.planners.trust_region import project_to_limits
from pliant.problem import Problem
from pliant.result_reports import notebook_html, write_report
from pliant.store import check_path, read_json, write_atomic, write_json

INTERRUPTED = "interrupted; this is the best iterate so far, continue it with resume"
NO_COUPLING = (
    "No control affects the terms (W_ea = 0): a support fixes the effector, or no actuator moves "
    "it; attach an actuator that does, or name another effector."
)
# A larger relative difference between the saved and the recomputed cost means another problem.
MAX_COST_MISMATCH = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The result of a planner: controls, simulated states, cost and history.

    `plan(...)` and the planners in pliant.planners return it. `save` and `load` store it in a
    folder, `report` writes a page with plots and an animation.

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> goal = pl.Goal(effector="tip", target=(0.1, 0.0), time=0.5)
    >>> plan = pl.plan(pl.ImplicitEuler(robot, dt=0.1), [goal, pl.Effort(weight=1e-6)], steps=5)
    >>> isinstance(plan, pl.Plan), plan.status.ok, plan.controls.shape
    (True, True, (5, 2))
    """

    method: str
    controls: Array  # (steps, n_controls)
    states: Array  # (steps + 1, n_state)
    cost: float
    status: Status
    history: tuple[Iteration, ...]
    # (effector, time [s], distance [m]) of every goal
    goal_errors: tuple[tuple[str, float, float], ...] = ()
    limit_violation: float = 0.0  # relative to the width of the limit
    constraint_violation: float = 0.0
    gains: Array | None = None  # (steps, n_controls, n_augmented) feedback gains of ddp
    interrupted: bool = False
    notes: dict[str, Any] = field(default_factory=dict)  # further results of a method
    model: ModelSummary | None = None  # names and units of the controls, time step and robot
    previous_control: Array | None = None  # (n_controls,) before the first step
    params: Array | None = None  # (n_params,) of the model; None: those of the robot
    positions: Mapping[str, Array] = field(default_factory=dict)  # effector -> (steps + 1, dim) [m]
    dynamics: Dynamics | None = None  # the model; None: the plan was loaded without one
    problem: Problem | None = None  # None: the plan was loaded

    def __repr__(self) -> str:
        robot = "" if self.model is None else f" for {self.model.robot}"
        return f"<Plan{robot}: {counted(len(self.controls), 'step')}, {self.summary()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html, the trajectory, the plan and result.json into a folder.

        Return the path of the page, which has plots and an animation. `small` draws a smaller
        and shorter animation.
        """
        return write_report(self, folder, title=title, small=small)

    @classmethod
    def load(cls, path: str | Path, model: Dynamics | None = None) -> Self:
        """Return the plan that `save` wrote into a folder.

        A plan whose search did not end needs `model` to simulate its states. Raises InputError if
        the file is missing or damaged, or was planned for another model than the given one.
        """
        if model is not None:
            require_kind(
                "The model of a plan",
                model,
                Dynamics,
                "make one with ImplicitEuler(robot, dt=...) or another rule",
            )
        fields = read_plan(path, model)
        if model is not None:
            fields["positions"] = effector_positions(model, fields["states"])
            fields["dynamics"] = model
        return cls(**fields)

    def replay(self, model: Dynamics, problem: Problem) -> float:
        """Simulate the controls again and return the objective, equal to `cost` bit for bit."""
        return evaluate(replace(problem, model=model), self.controls, keep=False).cost

    def save(self, folder: str | Path) -> None:
        """Write the plan into a folder for `Plan.load` and `pliant drive --replay`.

        The files are plan.json, states-DIGEST.npy and, with feedback gains, gains-DIGEST.npy.
        """
        write_plan(self, folder)

    def to_csv(self, path: str | Path) -> None:
        """Write a table with one row for each step.

        A row has the end time [s] of the step (its number if quasistatic), its controls and the
        effector positions [m] at that time.
        """
        write_atomic(check_path("The path of the table", path), plan_table(self))

    def summary(self) -> str:
        """Return the method, status, cost and largest goal error in one line."""
        worst = (
            f", largest goal error {max(error for _, _, error in self.goal_errors):.3g} m"
            if self.goal_errors
            else ""
        )
        return f"{self.method}: {self.status.text} (cost {self.cost:.6g}{worst})"

    def show(self) -> None:
        """Print the summary, the error of each goal, and the history."""
        print(self.summary())
        if self.goal_errors:
            print(
                _aligned(
                    ("effector", "time [s]", "error [m]"),
                    [(name, f"{t:.4g}", f"{error:.3g}") for name, t, error in self.goal_errors],
                )
            )
        rows = [
            (str(k), f"{row.cost:.6g}", f"{row.step:.3g}", f"{row.seconds:.3g}")
            for k, row in enumerate(self.history)
        ]
        print(_aligned(("iteration", "cost", "step", "seconds"), rows))


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with right-aligned columns, after an empty line."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    ]
    return "\n".join(["", *lines])


def plan_model_fields(problem: Problem, states: Array) -> dict[str, Any]:
    """Return the fields of a Plan that describe its model and problem."""
    return {
        "model": summarise(problem.model),
        "previous_control": problem.previous_control,
        "params": None if problem.params is None else np.asarray(problem.params, float),
        "positions": effector_positions(problem.model, states),
        "dynamics": problem.model,
        "problem": problem,
    }


def load_controls(folder: str | Path, shape: tuple[int, int]) -> tuple[Array, list[Iteration]]:
    """Return the controls (steps, n_controls) and the history of a saved plan.

    Raises InputError if the file is no plan or has other steps or controls than `shape`.
    """
    return _read(plan_path(folder), shape)[:2]


def _read(path: Path, shape: tuple[int, int]) -> tuple[Array, list[Iteration], float | None]:
    """Return controls, history and cost of a saved plan; cost is None if not simulated."""
    raw = read_json(path)
    try:
        history = list(read_history(raw["history"]))
        controls, cost = raw["controls"], raw.get("cost")
        cost = None if cost is None else float(cost)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} is not a saved plan; delete it and plan again.") from None
    return finite_array(f"The controls in {path}", controls, shape), history, cost


def has_approximate_derivatives(model: Dynamics) -> bool:
    """Return whether the derivatives of a model are approximations."""
    return isinstance(model, ReducedDynamics) and not model.is_exact


def check_exact_derivatives(problem: Problem, method: str) -> None:
    """Raise InputError if the derivatives of the problem's model are approximations."""
    if has_approximate_derivatives(problem.model):
        raise InputError(
            f"{method} needs exact derivatives, but those of this condensed model are "
            "approximations; plan with ddp, or give the full model, or derivative='exact'."
        )


@dataclass(kw_only=True)
class SearchLog:
    """The history of a running planner.

    It reports progress and writes the best iterate after every iteration.
    """

    problem: Problem
    method: str
    options: Options
    history: list[Iteration] = field(default_factory=list)
    best: Evaluation | None = None
    start_time: float = field(default_factory=time.perf_counter)
    keep: bool = True  # store each Step of the first evaluation

    def __post_init__(self) -> None:
        checked_options(self.options)
        self.problem.check_plannable()

    def evaluate_guess(self, guess: Array | None) -> Evaluation:
        """Evaluate the guess, the saved controls or the default guess, projected to the limits.

        Raises StepError if the guess cannot be simulated.
        """
        problem, shape, cost = (
            self.problem,
            (self.problem.steps, self.problem.model.n_controls),
            None,
        )
        folder = self.options.folder
        if self.options.resume and folder is not None and (Path(folder) / FILE).is_file():
            controls, self.history, cost = _read(Path(folder) / FILE, shape)
            self.start_time -= self.history[-1].seconds if self.history else 0.0
        else:
            controls = (
                problem.guess()
                if guess is None
                else finite_array("The guess of the controls", guess, shape)
            )
        now = evaluate(problem, project_to_limits(problem, controls), keep=self.keep)
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
            self.record_iteration(now, step=0.0, regulariser=0.0)
        return now

    def _check_same(self, cost: float, here: float) -> None:
        """Raise InputError if the saved controls have another cost in this problem."""
        first = self.history[0].cost if self.history else cost
        if not abs(here - cost) <= MAX_COST_MISMATCH * max(abs(cost), 1e-9 * abs(first)):
            now = f"cost {here:.9g} here" if np.isfinite(here) else "cannot be simulated here"
            raise InputError(
                f"The plan in {self.options.folder} belongs to another problem: its controls "
                f"cost {cost:.9g} there and {now}; plan without resume, or in another folder."
            )

    @cached_property
    def _header(self) -> dict[str, Any]:
        problem = self.problem
        model = summarise(problem.model)
        return header(model, problem.initial_state, problem.previous_control, problem.params)

    @property
    def iterations_done(self) -> int:
        """Number of finished iterations."""
        return len(self.history) - 1

    @property
    def has_improved(self) -> bool:
        """Whether any iteration has lowered the cost."""
        return self.history[-1].cost < self.history[0].cost

    def record_iteration(
        self,
        now: Evaluation,
        *,
        step: float,
        regulariser: float,
        failed: int = 0,
        infeasibility: float = 0.0,
    ) -> None:
        """Add an iteration that ended at `now` to the history."""
        seconds = time.perf_counter() - self.start_time
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
        self.save_best(self.best)
        self.options.report(
            f"planning ({self.method})",
            min(self.iterations_done, self.options.iterations),
            self.options.iterations,
        )

    def save_best(self, now: Evaluation) -> None:
        """Store `now` as the best iterate and write it to the folder."""
        self.best = now
        self.write_checkpoint(now.controls, now.cost)

    def write_checkpoint(self, controls: Array, cost: float | None) -> None:
        """Write controls to the folder with their cost; None if they were not simulated."""
        if self.options.folder is not None:
            content = progress_content(self.method, controls, cost, self.history, "not finished")
            write_json(Path(self.options.folder) / FILE, {**self._header, **content})

    def is_negligible(self, gain: float, share: float) -> bool:
        """Return whether a predicted decrease is less than a share of the cost.

        If the cost is almost zero, it is compared with 1e-9 of the first cost.
        """
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
        """Return the plan at the best iterate, and save it if there is a folder."""
        problem, now = self.problem, self.best
        assert now is not None
        goal_errors = problem.goal_errors(now.states, now.controls)
        failed = sum(row.failed for row in self.history)
        text += f"; {failed} trial steps failed to simulate and were shortened" if failed else ""
        text = with_note(text, overlap_note(problem.model, now.states))
        plan = Plan(
            method=self.method,
            controls=now.controls,
            states=now.states,
            cost=now.cost,
            history=tuple(self.history),
            status=Status(ok=ok, text=text, iterations=self.iterations_done),
            goal_errors=tuple(goal_errors),
            limit_violation=problem.limit_violation(now.controls),
            constraint_violation=problem.constraint_violation(now.states, now.controls),
            gains=gains,
            interrupted=interrupted,
            notes=notes or {},
            **plan_model_fields(problem, now.states),
        )
        if self.options.folder is not None:
            plan.save(self.options.folder)
        return plan
