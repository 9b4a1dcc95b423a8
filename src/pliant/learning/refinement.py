"""Training on surrogates that are refined between trainings [Jia2019, Algorithm 1]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pliant.core import InputError, Refinable, counted, is_integer, require_number, require_seed
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.controller_certificate import ControllerCertificate, certify_controller
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.learning.tasks import ControlTask
from pliant.learning.trainers import TrainingMethod
from pliant.learning.training import check_arguments, checked_method, run_training, saved_training
from pliant.learning.training_result import TrainingResult
from pliant.planners.hierarchy import Level, level_count, refine, show_levels
from pliant.progress import Progress, reporting


@dataclass(frozen=True, kw_only=True, eq=False)
class RefinedTraining:
    """The trainings of all refinement levels and the certificate of the last one."""

    levels: list[Level[TrainingResult]]
    certificate: ControllerCertificate

    @property
    def result(self) -> TrainingResult:
        """The training of the finest level."""
        return self.levels[-1].result

    @property
    def evaluations(self) -> int:
        """Number of exact evaluations of all levels."""
        return self.levels[-1].evaluations

    @property
    def steps(self) -> int:
        """Number of environment steps of all levels."""
        return self.result.steps

    @property
    def seconds(self) -> float:
        """Time of all trainings, without the certificate."""
        return sum(level.seconds for level in self.levels)

    def show(self) -> None:
        """Print the training of each level and the certificate."""
        show_levels(self.levels, self.certificate.lines())


def train_refined(
    loop: ClosedLoop,
    task: ControlTask,
    method: str | TrainingMethod = "gradient",
    *,
    eta: float,
    iterations: int | Sequence[int] = 100,
    target_return: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
) -> RefinedTraining:
    """Train a controller on increasingly fine surrogates [Jia2019, Algorithm 1].

    Each level halves the grid cell and continues the training before: its weights, its optimiser
    and, for PPO, its value function. The last level gets a certificate.

    Parameters
    ----------
    loop : a closed loop of a model with a surrogate, such as Latent(...)
    eta : final cell size, in units of the surrogate's inputs
    iterations : of each level; one number for all, or a sequence with one for each level. A coarse
        level needs few exact evaluations, so many iterations there save those of fine levels.
    target_return : mean return at which the first level ends before its last iteration. A vigorous
        motion needs many fine cells, so a return that suffices saves exact evaluations.
    folder : folder for checkpoints; each level gets a folder in it. Without `resume`, older
        checkpoints there are replaced.
    resume : continue from the checkpoints in `folder`, bit for bit if the model has a store. A
        level without one is trained from its start.

    The other parameters are those of `train`. If the budget of exact evaluations is spent, the
    finest level that has begun is the last one, and the certificate tells so. Raises InputError
    for a model without surrogate or a bad eta.
    """
    chosen = checked_method(method)
    counts = [iterations] if is_integer(iterations) else list(iterations)  # type: ignore[arg-type]
    for number in counts or [0]:
        check_arguments(loop, task, number)
    if not isinstance(loop.model, Refinable):
        raise InputError(
            f"Refinement needs a model with a surrogate, not {type(loop.model).__name__}; take "
            "one such as Latent(robot, dt=..., cell=...)."
        )
    levels_needed = level_count(float(loop.surrogate.size.max()), eta)  # raises for a bad eta
    counts = levels_needed * counts if is_integer(iterations) else counts
    if len(counts) != levels_needed:
        raise InputError(
            f"The argument iterations has {counted(len(counts), 'number')}, but "
            f"{counted(levels_needed, 'level')} from the first cell to eta = {eta:g}. Give one for "
            "each level, or one number for all."
        )
    require_seed(seed)
    if target_return is not None:
        require_number("The target return", target_return, "")
    count = 0

    def solve(model: Any, before: TrainingResult | None) -> TrainingResult:
        nonlocal count
        path = None if folder is None else Path(folder) / f"level-{count}"
        count += 1
        found = run_training(
            LoopEpisodes.draw(model, task, count=chosen.episodes, seed=seed),
            chosen,
            iterations=counts[count - 1],
            seed=seed,
            folder=path,
            saved=saved_training(path, model, task) if resume else None,
            start=before,
            target_return=target_return if before is None else None,
            progress=report,
        )
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    with reporting(progress) as report:
        levels = refine(solve, loop, eta=eta)
    models: list[Any] = [level.model.model for level in levels]  # type: ignore[attr-defined]
    certificate = certify_controller(levels[-1].result, models=models)
    if levels[-1].stop_reason:
        certificate = replace(certificate, notes=(levels[-1].stop_reason,))
    return RefinedTraining(levels=levels, certificate=certificate)
