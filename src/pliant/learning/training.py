"""Training of controllers: one function for all methods."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.core import (
    InputError,
    Refinable,
    Status,
    StepError,
    counted,
    is_integer,
    nearest,
    quoted,
    require_kind,
    require_seed,
)
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.identity import accuracy, check_identity, identity
from pliant.learning.loop_episodes import LoopEpisodes, Performance
from pliant.learning.policy_gradient import PolicyGradient
from pliant.learning.ppo import PPO
from pliant.learning.tasks import ControlTask
from pliant.learning.trainers import (
    Candidate,
    Trainer,
    TrainingMethod,
)
from pliant.learning.training_result import INTERRUPTED, TRAINING, TrainingResult, TrainingRow
from pliant.optimisation.states import OptimiserState, check_state, plain_settings
from pliant.progress import Progress, reporting
from pliant.store.digest import digest_or_none

METHODS: dict[str, type[Any]] = {"gradient": PolicyGradient, "ppo": PPO}
FREE_SETTINGS = ("memory", "threads")  # change no bit of a result, so another machine may resume
SAVE_INTERVAL = 5.0  # [s] between two checkpoints, at least: short iterations do not wait for disks


def train(
    loop: ClosedLoop,
    task: ControlTask,
    method: str | TrainingMethod = "gradient",
    *,
    iterations: int = 100,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
) -> TrainingResult:
    """Train the controller of a closed loop for a task.

    Parameters
    ----------
    loop : the model, the observer and the controller, whose weights are the first ones
    task : the task; its observer is replaced by that of the loop
    method : "gradient" (analytic policy gradient) or "ppo" (proximal policy optimisation), or with
        settings, such as PolicyGradient(rate=0.02) or PPO(steps=4096)
    iterations : number of iterations, of all runs together if training is resumed
    seed : of the initial states of the episodes and of all random numbers of PPO
    folder : folder for checkpoints; the best weights so far are there at any time. One that has a
        training already is refused without `resume`.
    resume : continue from the checkpoint in `folder`, bit for bit; there must be one. A surrogate
        needs a store for this, because it remembers the order in which its cells were first used.
    progress : None shows progress after two seconds, False is silent; or a function
        progress(what, done, total)

    Ctrl-C ends the training and returns the best weights. Raises InputError for invalid arguments
    or a missing checkpoint or one of another training, StepError if the first episode fails.

    >>> import pliant as pl
    >>> from pliant.learning import ClosedLoop, ControlTask, EffectorObserver, MLP, train
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-1.0, 1.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> loop = ClosedLoop(
    ...     model, EffectorObserver(), MLP.for_model(model, EffectorObserver(), hidden=(8,))
    ... )
    >>> task = ControlTask(steps=20, terms=[pl.Goal(effector="tip", target=(0.1, 0.0))])
    >>> result = train(loop, task, iterations=20)
    >>> result.mean_return > result.history[0].mean_return
    True
    """
    chosen = checked_method(method)
    check_arguments(loop, task, iterations)
    TRAINING.check_folder(folder, resume)
    return run_training(
        LoopEpisodes.draw(loop, task, count=chosen.episodes, seed=require_seed(seed)),
        chosen,
        iterations=iterations,
        seed=seed,
        folder=folder,
        saved=saved_training(folder, loop, task) if resume else None,
        progress=progress,
    )


def saved_training(
    folder: str | Path | None, loop: ClosedLoop, task: ControlTask
) -> TrainingResult | None:
    """Return the checkpoint in a folder, None if there is none."""
    if folder is None or not TRAINING.exists(folder):
        return None
    return TrainingResult.load(folder, loop, task)


def checked_method(method: Any) -> TrainingMethod:
    """Return a training method by its name, or as it is. Raises InputError for another object."""
    if isinstance(method, str):
        if method not in METHODS:
            raise InputError(
                f"There is no training method {quoted(method)}; {nearest(method, METHODS)}"
            )
        return METHODS[method]()
    require_kind(
        "The method of training", method, TrainingMethod, "give 'gradient', 'ppo', or PPO(...)"
    )
    return method


def check_arguments(loop: Any, task: Any, iterations: Any) -> None:
    """Raise InputError unless the arguments of a training are valid."""
    require_kind(
        "The loop", loop, ClosedLoop, "make one with ClosedLoop(model, observer, MLP(...))"
    )
    require_kind("The task", task, ControlTask, "make one with ControlTask(steps=..., terms=[...])")
    if not is_integer(iterations) or iterations < 1:
        raise InputError(
            f"The number of iterations is {quoted(iterations)}; give a whole number, 1 or more."
        )
    if not loop.controller.params.size:
        raise InputError("The controller has no weights to train; give one that has, such as MLP.")


def run_training(
    episodes: LoopEpisodes,
    method: TrainingMethod,
    *,
    iterations: int,
    seed: int,
    folder: str | Path | None = None,
    saved: TrainingResult | None = None,
    start: TrainingResult | None = None,
    target_return: float | None = None,
    progress: Progress | bool | None = None,
) -> TrainingResult:
    """Train on episodes. `saved` is a training to continue; `start` is one of another model whose
    weights and optimiser are the first ones. The training ends early at the target return."""
    weights = episodes.loop.controller.params.flat if start is None else start.weights
    trainer = method.trainer(episodes, weights, seed)
    run = _Run(trainer=trainer, episodes=episodes, method=method, seed=seed, folder=folder)
    if start is not None:
        _restore(trainer, start.state, "The training before")
    if saved is not None:
        run.restore(saved)
    with reporting(progress) as report:
        try:
            if saved is None:
                run.start()
            while run.iterations_done < iterations and not run.has_ended(target_return):
                report(
                    f"training by {method.name}, mean return {run.best_return:.4g}",
                    run.iterations_done,
                    iterations,
                )
                run.add(trainer.iterate())
                run.save_sometimes()
        except KeyboardInterrupt:
            if not run.history:
                raise
            return run.result(INTERRUPTED, interrupted=True, save=True)
    text = run.finished or f"trained for {counted(run.iterations_done, 'iteration')}"
    return run.result(text, save=True)


def _restore(trainer: Trainer, state: OptimiserState, where: str) -> None:
    check_state(state, trainer.state(), where, "train again")
    trainer.restore(state)


@dataclass(kw_only=True, eq=False)
class _Run:
    """A training with its history and its best weights."""

    trainer: Trainer
    episodes: LoopEpisodes
    method: TrainingMethod
    seed: int
    folder: str | Path | None
    history: list[TrainingRow] = field(default_factory=list)
    best: Candidate | None = None
    state: OptimiserState = field(default_factory=OptimiserState)  # after the last iteration
    finished: str = ""
    began: float = field(default_factory=time.perf_counter)
    saved_at: float = field(default_factory=time.perf_counter)

    @property
    def iterations_done(self) -> int:
        return len(self.history) - 1

    @property
    def best_return(self) -> float:
        assert self.best is not None
        return -self.best.performance.cost

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the method, the task and the model as JSON types."""
        task = self.episodes.task
        goal = [getattr(task, name) for name in ("steps", "terms", "limits", "x0", "spread")]
        known = accuracy(self.episodes.loop.model)
        return {
            **plain_settings(self.method),
            "task": digest_or_none([*goal, task.failure_cost]),
            **known,
        }

    def start(self) -> None:
        """Add the first weights. Raises StepError if they have no episode, or if the budget of
        exact evaluations does not suffice for one."""
        try:
            first = self.trainer.first()
        except StepError:
            if self._spent_budget():
                raise StepError(f"The training cannot start. {self._spent_budget()}") from None
            raise
        if first.performance.failed and self._spent_budget():
            raise StepError(f"The training cannot start. {self._spent_budget()}")
        self.add(first)

    def has_ended(self, target_return: float | None) -> bool:
        """Return whether no iteration is needed any more."""
        if target_return is not None and not self.finished and self.best_return >= target_return:
            self.finished = f"reached a mean return of {target_return:g}"
        return bool(self.finished)

    def _spent_budget(self) -> str:
        """Return the message of a spent budget of exact evaluations; empty if it is not spent."""
        model = self.episodes.loop.model
        return model.surrogate.corners.spent if isinstance(model, Refinable) else ""

    def add(self, candidate: Candidate) -> None:
        """Add an iteration to the history."""
        performance = candidate.performance
        if self.best is None or performance.better_than(self.best.performance):
            self.best = candidate
        self.history.append(
            TrainingRow(
                steps=candidate.steps,
                seconds=time.perf_counter() - self.began,
                mean_return=-performance.cost,
                failed=len(performance.failed),
                evaluations=self._evaluations(),
            )
        )
        self.state = self.trainer.state()
        self.finished = candidate.finished or self._spent_budget()

    def _evaluations(self) -> int:
        model = self.episodes.loop.model
        return model.surrogate.evaluations if isinstance(model, Refinable) else 0

    def restore(self, saved: TrainingResult) -> None:
        """Continue a saved training. Raises InputError if it is another one."""
        where = f"The training in {self.folder}"
        check_identity(saved.identity, self.episodes.loop, where)
        here = {"method": self.method.name, "seed": self.seed, **self.settings}
        there = {"method": saved.method, "seed": saved.seed, **saved.settings}
        for name, value in here.items():
            if name.endswith(" of the model") and name not in there:
                continue  # of a training that did not save it yet
            if name not in FREE_SETTINGS and there.get(name) != value:
                raise InputError(
                    f"{where} has another {name} ({quoted(there.get(name))}, here "
                    f"{quoted(value)}). Train with the same settings, or without resume."
                )
        _restore(self.trainer, saved.state, where)
        self.history, self.state = list(saved.history), saved.state
        self.began -= self.history[-1].seconds
        row = min(self.history, key=lambda row: (row.failed, -row.mean_return))
        self.best = Candidate(
            weights=saved.weights,
            performance=Performance(
                cost=-saved.mean_return, failed=row.failed * ("an episode failed",)
            ),
            steps=row.steps,
        )

    def save_sometimes(self) -> None:
        """Write a checkpoint if the last one is older than SAVE_INTERVAL."""
        if self.folder is not None and time.perf_counter() - self.saved_at > SAVE_INTERVAL:
            self.result("not finished; continue with resume", interrupted=True, save=True)
            self.saved_at = time.perf_counter()

    def result(self, text: str, *, interrupted: bool = False, save: bool = False) -> TrainingResult:
        """Return the result so far, and write it into the folder."""
        assert self.best is not None
        loop = self.episodes.loop
        best = loop.with_weights(self.best.weights)
        made = TrainingResult(
            method=self.method.name,
            settings=self.settings,
            seed=self.seed,
            weights=self.best.weights.copy(),
            mean_return=self.best_return,
            history=tuple(self.history),
            status=Status(
                ok=not interrupted and not self.best.performance.failed,
                text=text,
                iterations=self.iterations_done,
            ),
            identity=identity(loop),
            state=self.state,
            interrupted=interrupted,
            controller=best.controller,
            loop=best,
            task=self.episodes.task,
            episodes=self.method.episodes,
        )
        if save and self.folder is not None:
            made.save(self.folder)
        return made
