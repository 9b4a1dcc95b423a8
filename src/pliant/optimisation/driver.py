"""Optimisation: one function for all methods."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Status,
    counted,
    finite_array,
    is_integer,
    nearest,
    quoted,
    require_kind,
    require_number,
    require_seed,
)
from pliant.optimisation.cmaes import CMAES
from pliant.optimisation.descent import SGD, Adam
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.gauss_newton import GaussNewton
from pliant.optimisation.interior_point import InteriorPoint
from pliant.optimisation.lbfgsb import LBFGSB
from pliant.optimisation.methods import (
    FEASIBLE,
    Closing,
    Iterate,
    OptimisationMethod,
    Optimiser,
    Stopping,
)
from pliant.optimisation.objective import (
    Described,
    Objective,
    check_bounds,
    checked_objective,
)
from pliant.optimisation.problem_objective import ProblemObjective
from pliant.optimisation.result import (
    INTERRUPTED,
    MAX_KEPT,
    OPTIMISATION,
    OptimisationResult,
    OptimisationRow,
)
from pliant.optimisation.sqp import SQP
from pliant.optimisation.states import OptimiserState, check_state, plain_settings
from pliant.problem import Problem
from pliant.progress import Progress, reporting

METHODS: dict[str, type[Any]] = {
    "adam": Adam,
    "sgd": SGD,
    "lbfgsb": LBFGSB,
    "gauss_newton": GaussNewton,
    "interior_point": InteriorPoint,
    "sqp": SQP,
    "cmaes": CMAES,
}
SAVE_INTERVAL = 5.0  # [s] between two checkpoints, at least: short iterations do not wait for disks


def optimise(
    objective: Objective | Problem,
    method: str | OptimisationMethod = "lbfgsb",
    *,
    iterations: int = 100,
    tolerance: float = 1e-8,
    start: Array | None = None,
    target: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
    workers: int | None = 1,
) -> OptimisationResult:
    """Minimise an objective.

    Parameters
    ----------
    objective : a Problem with variables, or an Objective such as FunctionObjective
    method : "adam", "sgd", "lbfgsb", "gauss_newton", "interior_point", "sqp" or "cmaes", or with
        settings, such as Adam(rate=0.02)
    iterations : number of iterations, of all runs together if an optimisation is resumed
    tolerance : stop when the predicted decrease, relative to the value, is smaller; between 0 and 1
    start : first scaled variables (n,); None: those of the objective
    target : stop when the value is at most this and no constraint is violated; None: no target
    seed : of the order of samples and of random variables
    folder : folder for checkpoints; the best variables so far are there at any time. One that has
        an optimisation already is refused without `resume`.
    resume : continue from the checkpoint in `folder`, bit for bit; there must be one
    progress : None shows progress after two seconds, False is silent; or a function
        progress(what, done, total)
    workers : number of processes for the scenes of a Problem; None for one per core. They start if
        there is enough work, and do not change the result.

    Ctrl-C ends the optimisation and returns the best variables. An objective that fails at the
    start gives a result whose status says why. Raises InputError for invalid arguments, and for a
    missing checkpoint or one of another optimisation.

    >>> from pliant.optimisation import FunctionObjective, optimise
    >>> valley = FunctionObjective(
    ...     function=lambda z: (z[0] - 1.0) ** 2 + 10.0 * (z[1] - z[0]) ** 2,
    ...     gradient_function=lambda z: [
    ...         2.0 * (z[0] - 1.0) - 20.0 * (z[1] - z[0]), 20.0 * (z[1] - z[0])
    ...     ],
    ...     start=[0.0, 0.0],
    ... )
    >>> result = optimise(valley, "lbfgsb", progress=False)
    >>> result.status.ok, result.z.round(3).tolist()
    (True, [1.0, 1.0])
    """
    made = _objective(objective, workers)
    chosen = checked_method(method)
    stopping = checked_stopping(iterations, tolerance)
    evaluator = Evaluator(objective=made, start=checked_start(made, start))
    if evaluator.m and not chosen.handles_constraints:
        raise InputError(
            f"The objective has {counted(evaluator.m, 'constraint')}, which {chosen.name} does not "
            "handle. Take method='sqp' or 'interior_point'."
        )
    OPTIMISATION.check_folder(folder, resume)
    run = OptimisationRun(
        optimiser=chosen.optimiser(evaluator, stopping, require_seed(seed)),
        evaluator=evaluator,
        method=chosen,
        tolerance=stopping.tolerance,
        seed=int(seed),
        folder=folder,
        target=checked_target(target),
    )
    if resume:
        assert folder is not None
        run.restore(OptimisationResult.load(folder))
    try:
        return run.until(iterations, progress)
    finally:
        if made is not objective and isinstance(made, ProblemObjective):
            made.close()


def _objective(objective: Any, workers: int | None) -> Objective:
    if isinstance(objective, Problem):
        return ProblemObjective(objective, workers=workers)
    if workers != 1:
        raise InputError(
            "Only a Problem takes workers here; make the objective with "
            "ProblemObjective(problem, workers=...)."
        )
    return checked_objective(objective)


def checked_method(method: Any) -> OptimisationMethod:
    """Return a method by its name, or as it is. Raises InputError for another object."""
    if isinstance(method, str):
        if method not in METHODS:
            raise InputError(
                f"There is no optimisation method {quoted(method)}; {nearest(method, METHODS)}"
            )
        made: OptimisationMethod = METHODS[method]()
        return made
    require_kind(
        "The method of optimisation",
        method,
        OptimisationMethod,
        "give a name such as 'adam', or a method such as Adam(rate=0.02)",
    )
    return method


def checked_stopping(iterations: Any, tolerance: Any) -> Stopping:
    """Return when a search ends. Raises InputError for an impossible number of iterations or
    tolerance."""
    checked_iterations(iterations)
    if not 0.0 < require_number("The tolerance", tolerance, "") < 1.0:
        raise InputError(f"The tolerance is {float(tolerance):g}; give one between 0 and 1.")
    return Stopping(tolerance=float(tolerance))


def checked_iterations(iterations: Any) -> int:
    """Return a number of iterations. Raises InputError for an impossible one."""
    if not is_integer(iterations) or iterations < 1:
        raise InputError(
            f"The number of iterations is {quoted(iterations)}; give a whole number, 1 or more."
        )
    return int(iterations)


def checked_target(target: Any) -> float | None:
    """Return the value at which an optimisation ends; None for none. Raises InputError for NaN."""
    if target is None:
        return None
    value = require_number("The target", target, "")
    if np.isnan(value):
        raise InputError("The target is nan; give a number, or None for no target.")
    return value


def checked_start(objective: Objective, start: Any, name: str = "The start") -> Array:
    """Return the first scaled variables (n,) of an objective. Raises InputError for another shape
    and for variables outside their bounds."""
    if start is None:
        return np.array(objective.start, float)
    z = np.array(finite_array(name, start, np.shape(objective.start)))
    check_bounds(z, objective.bounds)
    return z


@dataclass(kw_only=True, eq=False)
class OptimisationRun:
    """An optimisation with its history and its best variables."""

    optimiser: Optimiser
    evaluator: Evaluator
    method: OptimisationMethod
    tolerance: float
    seed: int
    folder: str | Path | None
    target: float | None = None  # value at which the optimisation ends
    history: list[OptimisationRow] = field(default_factory=list)
    best: Iterate | None = None
    last: Iterate | None = None
    state: OptimiserState = field(default_factory=OptimiserState)  # after the last iteration
    began: float = field(default_factory=time.perf_counter)
    saved_at: float = field(default_factory=time.perf_counter)

    @property
    def iterations_done(self) -> int:
        return len(self.history) - 1

    def until(self, iterations: int, progress: Progress | bool | None) -> OptimisationResult:
        """Iterate until the method has finished, or to a number of iterations."""
        try:
            with reporting(progress) as report:
                if self.last is None:
                    self.add(self.optimiser.first())
                while self.iterations_done < iterations and not self._has_ended:
                    report(self._progress_text(), self.iterations_done, iterations)
                    self.add(self.optimiser.iterate())
                    self.save_sometimes()
        except KeyboardInterrupt:
            if self.last is None:
                raise
            return self.result(INTERRUPTED, interrupted=True, save=True)
        finally:
            if isinstance(self.optimiser, Closing):
                self.optimiser.close()
        return self.result(self._ending(), save=True)

    @property
    def _last(self) -> Iterate:
        assert self.last is not None
        return self.last

    @property
    def _best(self) -> Iterate:
        assert self.best is not None
        return self.best

    @property
    def _has_ended(self) -> bool:
        return bool(self._last.finished) or self._at_target

    @property
    def _at_target(self) -> bool:
        """Whether the best variables reach the target."""
        best = self._best
        good = not best.failed and best.violation <= FEASIBLE
        return self.target is not None and good and best.value <= self.target

    def _progress_text(self) -> str:
        row = self.history[-1]
        norm = "" if np.isnan(row.gradient_norm) else f", gradient {row.gradient_norm:.2g}"
        return f"optimising by {self.method.name}, value {row.value:.6g}{norm}"

    def _ending(self) -> str:
        last, count = self._last, counted(self.iterations_done, "iteration")
        if self._at_target:
            return f"reached the target {self.target:g} in {count}"
        if last.converged:
            return f"converged in {count}: {last.finished}"
        if last.finished:
            why = f" ({last.failed})" if last.finished.endswith("start") else ""
            return f"stopped after {count}: {last.finished}{why}"
        return f"not converged in {count}; allow more iterations"

    def add(self, iterate: Iterate) -> None:
        """Add an iterate to the history."""
        # with constraints, an earlier value may be lower by a negligible violation
        ended = self.evaluator.m > 0 and iterate.converged
        if self.best is None or ended or iterate.better_than(self.best):
            self.best = iterate
        self.last = iterate
        self.history.append(
            OptimisationRow(
                value=iterate.value,
                gradient_norm=iterate.gradient_norm,
                step=iterate.step,
                constraint_violation=iterate.violation,
                simulations=self.evaluator.simulations,
                seconds=time.perf_counter() - self.began,
                failed=iterate.failed,
                z=tuple(iterate.z.tolist()) if iterate.z.size <= MAX_KEPT else (),
            )
        )
        self.state = self.optimiser.state()

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a resumed optimisation, as JSON types."""
        objective = self.evaluator.objective
        described = dict(objective.identity) if isinstance(objective, Described) else {}
        bounds = [np.nan_to_num(bound).tolist() for bound in self.evaluator.bounds]
        return {
            "method": self.method.name,
            "settings": plain_settings(self.method),
            "seed": self.seed,
            "tolerance": self.tolerance,
            "start": self.evaluator.start.tolist(),
            "bounds": bounds,
            "objective": described,
        }

    def restore(self, saved: OptimisationResult) -> None:
        """Continue a saved optimisation. Raises InputError if it is another one."""
        where = f"The optimisation in {self.folder}"
        for name, value in self.identity.items():
            check_same(name, saved.identity.get(name), value, where)
        if not saved.last.finished:
            check_state(saved.state, self.optimiser.state(), where, "optimise again")
            self.optimiser.restore(saved.state)
        self.history, self.state = list(saved.history), saved.state
        self.best, self.last = saved.best, saved.last
        self.began -= self.history[-1].seconds
        self.evaluator.simulations = self.history[-1].simulations

    def save_sometimes(self) -> None:
        """Write a checkpoint if the last one is older than SAVE_INTERVAL."""
        if self.folder is not None and time.perf_counter() - self.saved_at > SAVE_INTERVAL:
            self.result("not finished; continue with resume", interrupted=True, save=True)
            self.saved_at = time.perf_counter()

    def result(
        self, text: str, *, interrupted: bool = False, save: bool = False
    ) -> OptimisationResult:
        """Return the result so far, and write it into the folder."""
        best, objective = self._best, self.evaluator.objective
        named = (
            dict(objective.named_values(best.z))
            if isinstance(objective, Described)
            else {"z": best.z.copy()}
        )
        made = OptimisationResult(
            method=self.method.name,
            values=named,
            z=best.z.copy(),
            history=tuple(self.history),
            status=Status(
                ok=(self._last.converged or self._at_target) and not interrupted,
                text=text,
                iterations=self.iterations_done,
            ),
            best=best,
            last=self._last,
            identity=self.identity,
            state=self.state,
            interrupted=interrupted,
            notes=dict(self._last.notes),
            objective=objective,
        )
        if save and self.folder is not None:
            made.save(self.folder)
        return made


def check_same(name: str, saved: Any, here: Any, where: str) -> None:
    """Raise InputError unless a part of a saved optimisation is the same here."""
    if isinstance(here, Mapping) and isinstance(saved, Mapping):
        for key in [*here, *(key for key in saved if key not in here)]:
            check_same(str(key), saved.get(key), here.get(key), where)
    elif saved != here:
        place, saved, here = _first_difference(saved, here)
        raise InputError(
            f"{where} differs in {name}{place}: it has {quoted(saved)}, here it is {quoted(here)}. "
            "Optimise with the same arguments, or without resume."
        )


def _first_difference(saved: Any, here: Any) -> tuple[str, Any, Any]:
    """Return the place and the values of the first difference of two lists of equal length; no
    place and both values for others."""
    if isinstance(saved, list) and isinstance(here, list) and len(saved) == len(here) > 1:
        for k, (one, other) in enumerate(zip(saved, here, strict=True)):
            if one != other:
                return f" at entry {k}", one, other
    return "", saved, here
