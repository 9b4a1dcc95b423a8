"""Training with several seeds in parallel: one learning curve each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pliant.core import InputError, counted, require_seed
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.controller_certificate import ControllerCertificate, certify_controller
from pliant.learning.tasks import ControlTask
from pliant.learning.trainers import TrainingMethod
from pliant.learning.training import check_arguments, checked_method, train
from pliant.learning.training_result import TRAINING, TrainingResult
from pliant.parallel import make_workers
from pliant.progress import Progress, reporting
from pliant.result_reports import notebook_html, write_report

MakeLoop = Callable[[int], ClosedLoop]  # the loop of a seed


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedResults:
    """The trainings of several seeds, in their order."""

    results: tuple[TrainingResult, ...]
    certificates: tuple[ControllerCertificate, ...] = ()  # of each seed, if they were asked for

    def __repr__(self) -> str:
        return f"<SeedResults of {counted(len(self.results), 'seed')}: {self.best.summary()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    @property
    def best(self) -> TrainingResult:
        """The training with the largest mean return. One whose episodes fail is the best only if
        all others fail as well."""
        return max(self.results, key=lambda result: (result.status.ok, result.mean_return))

    @property
    def mean_return(self) -> float:
        """The mean over the seeds."""
        return float(np.mean([result.mean_return for result in self.results]))

    def show(self) -> None:
        """Print the summary and the certificate of each seed."""
        for k, result in enumerate(self.results):
            print(f"seed {result.seed}: {result.summary()}")
            for line in self.certificates[k].lines() if self.certificates else ():
                print(f"  {line}")

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with the learning curve of each seed, and an episode of the best one,
        into a folder. Return the path of the page."""
        return write_report(self, folder, title=title, small=small)


def train_seeds(
    make_loop: MakeLoop,
    task: ControlTask,
    method: str | TrainingMethod = "gradient",
    *,
    seeds: Sequence[int] = (0, 1, 2),
    iterations: int = 100,
    folder: str | Path | None = None,
    certified: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | bool | None = None,
) -> SeedResults:
    """Train one controller for each seed, in parallel.

    Parameters
    ----------
    make_loop : function seed -> closed loop. Give the controller this seed, for example by
        MLP.for_model(model, observer, seed=seed), and a surrogate in a shared file the namespace
        f"seed-{seed}", so that the seeds do not change each other's results.
    seeds : whole numbers
    folder : folder for checkpoints; each seed gets a folder in it. An interrupted training
        continues from them.
    certified : whether to compare each controller with the exact model
    workers : number of processes on this machine; None for one per core
    cluster : address of a dask scheduler whose workers are used instead

    The other parameters are those of `train`. Functions that cannot be sent to another process,
    such as a lambda, are run in this one. The result of a seed does not depend on the other seeds
    or on the number of workers.
    """
    chosen = checked_method(method)
    numbers = [require_seed(seed) for seed in seeds]
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"The seeds are {numbers}; give at least one, and each only once.")
    if not callable(make_loop):
        raise InputError("The first argument must be a function seed -> ClosedLoop.")
    job = partial(
        _train_seed,
        make_loop,
        task,
        chosen,
        iterations=iterations,
        folder=folder,
        certified=certified,
    )
    pool = make_workers(job, workers=workers, cluster=cluster)
    found: dict[int, tuple[TrainingResult, ControllerCertificate | None]] = {}
    try:
        with reporting(progress) as report:
            for index, one in pool.map([(seed,) for seed in numbers]):
                found[index] = one
                report("training with several seeds", len(found), len(numbers))
    finally:
        pool.close()
    pairs = [found[k] for k in range(len(numbers))]
    return SeedResults(
        results=tuple(_attach(result, make_loop, task) for result, _ in pairs),
        certificates=tuple(certificate for _, certificate in pairs if certificate is not None),
    )


def _train_seed(
    make_loop: MakeLoop,
    task: ControlTask,
    method: TrainingMethod,
    seed: int,
    *,
    iterations: int,
    folder: str | Path | None,
    certified: bool,
) -> tuple[TrainingResult, ControllerCertificate | None]:
    """Train one seed. The result has no loop and no task: another process may not receive them."""
    loop = make_loop(seed)
    check_arguments(loop, task, iterations)
    path = None if folder is None else Path(folder) / f"seed-{seed}"
    result = train(
        loop,
        task,
        method,
        iterations=iterations,
        seed=seed,
        folder=path,
        resume=path is not None and TRAINING.exists(path),
        progress=False,
    )
    if result.interrupted:
        raise KeyboardInterrupt
    certificate = certify_controller(result) if certified else None
    return replace(result, loop=None, task=None, controller=None), certificate


def _attach(result: TrainingResult, make_loop: MakeLoop, task: ControlTask) -> TrainingResult:
    """Return a result with its loop, its controller and its task."""
    loop = make_loop(result.seed).with_weights(result.weights)
    return replace(result, loop=loop, task=task, controller=loop.controller)
