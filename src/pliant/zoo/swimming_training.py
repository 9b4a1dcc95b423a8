"""Training of a controller of the swimmer by Algorithm 1 of [Jia2019], with any method."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from pliant.core import Array
from pliant.learning import MLP, ClosedLoop, ControlTask, RefinedTraining, SineGait, train_refined
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.learning.trainers import TrainingMethod
from pliant.planners.hierarchy import level_count
from pliant.swimming import SwimmerModel
from pliant.zoo.environments import swimmer_forward
from pliant.zoo.experiment import ExperimentRun, Setting

BODY = "centre of mass"
UNSEEN = 1_000_000  # added to the seed of initial states that no training sees
# waves of torques that a trained controller must beat; the robot swings slowest with about 1.3 Hz
WAVE_SHARES = (0.3, 0.6)  # of the largest torques; larger ones lead to failed episodes
WAVE_FREQUENCIES = (0.7, 1.0, 1.4)  # [Hz]
WAVE_LAG = 1.2  # [rad] of phase between two hinges, as in swimmer-gait
SETTINGS: Mapping[str, Setting] = {
    "cell": 0.3,
    "eta": 0.1,
    "steps": 200,
    "dt": 0.02,
    "points": 353,
    "effort": 0.01,
    "bend": 0.05,
    "neurons": 32,
    "iterations": 16,  # of the first level, whose cells need few exact evaluations
    "fine_iterations": 3,  # of each finer level
    # [body lengths] at which the first level ends; more vigorous gaits need many fine cells
    "target_return": 1.0,
    "seeds": 1,
    "test_episodes": 8,
    "min_return": 0.05,
    "beat_wave": True,  # the return must be above that of the best wave of torques
    "small_animation": False,
}
# one level of a coarse grid; any return will do
QUICK: Mapping[str, Setting] = {
    "cell": 0.6,
    "eta": 0.6,
    "steps": 20,
    "points": 100,
    "neurons": 8,
    "iterations": 3,
    "test_episodes": 2,
    "min_return": -1.0,
    "beat_wave": False,
    "small_animation": True,
}


@dataclass(frozen=True, kw_only=True)
class SwimTest:
    """A controller on initial states that the training did not see."""

    mean_return: float
    distance: float  # [m] of the centre of mass along x, mean


@dataclass(frozen=True, kw_only=True, eq=False)
class SwimTraining:
    """The training of one seed, and tests of the untrained and of the trained controller and of
    waves on the same initial states."""

    seed: int
    refined: RefinedTraining
    before: SwimTest
    after: SwimTest
    wave: SwimTest  # the best of some waves of torques from head to tail, without feedback

    @property
    def untrained_return(self) -> float:
        """Mean return of the first weights on the initial states of the training."""
        return self.refined.levels[0].result.history[0].mean_return

    @property
    def evaluations(self) -> int:
        """Number of exact evaluations of the training."""
        return self.refined.result.history[-1].evaluations

    def curve(self) -> tuple[Array, Array, Array]:
        """Return environment steps, mean returns and exact evaluations (iterations + 1,) of all
        levels. The first row of a finer level repeats the weights before."""
        rows = [
            row
            for k, level in enumerate(self.refined.levels)
            for row in level.result.history[min(k, 1) :]
        ]
        columns = [(row.steps, row.mean_return, row.evaluations) for row in rows]
        steps, returns, evaluations = np.array(columns, float).T
        return steps, returns, evaluations


def model_and_task(
    s: Mapping[str, Setting], run: ExperimentRun | None = None, store: Path | None = None
) -> tuple[SwimmerModel, ControlTask]:
    """Return the swimmer and the task of settings."""
    workers = {} if run is None else {"cluster": run.cluster, "progress": run.progress}
    model, task = swimmer_forward(
        cell=float(s["cell"]),
        dt=float(s["dt"]),
        steps=int(s["steps"]),
        effort=float(s["effort"]),
        bend=float(s["bend"]),
        points=int(s["points"]),
        store=store,
        **workers,
    )
    assert isinstance(model, SwimmerModel)
    return model, task


def iteration_counts(s: Mapping[str, Setting]) -> list[int]:
    """Return the number of iterations of each refinement level."""
    finer = level_count(float(s["cell"]), float(s["eta"])) - 1
    return [int(s["iterations"]), *finer * [int(s["fine_iterations"])]]


def check(s: Mapping[str, Setting]) -> None:
    """Raise `InputError` if the cells are invalid."""
    level_count(float(s["cell"]), float(s["eta"]))


def train_swimmers(run: ExperimentRun, method: TrainingMethod) -> list[SwimTraining]:
    """Train one controller for each seed, on exact evaluations of its own."""
    count = int(run.settings["seeds"])
    found: list[SwimTraining] = []
    for seed in range(run.seed, run.seed + count):
        run.progress("seeds", len(found), count)
        found.append(train_swimmer(run, method, seed))
    run.progress("seeds", count, count)
    return found


def train_swimmer(run: ExperimentRun, method: TrainingMethod, seed: int) -> SwimTraining:
    """Train a controller with checkpoints in the folder of the run, and test it."""
    s, folder = run.settings, run.folder / f"seed-{seed}"
    folder.mkdir(exist_ok=True)
    model, task = model_and_task(s, run, run.corner_file(folder))
    observer = task.observer_of(model)
    hidden = 2 * (int(s["neurons"]),)
    network = MLP.for_model(model, observer, hidden=hidden, seed=seed)
    refined = train_refined(
        ClosedLoop(model, observer, network),
        task,
        method,
        eta=float(s["eta"]),
        iterations=iteration_counts(s),
        target_return=float(s["target_return"]),
        seed=seed,
        folder=folder,
        resume=run.resume,
        progress=run.progress,
    )
    loop = refined.result.on_model().loop
    unseen = LoopEpisodes.draw(loop, task, count=int(s["test_episodes"]), seed=seed + UNSEEN)
    before, after = (tested(unseen, w) for w in (network.params.flat, refined.result.weights))
    model.close()
    return SwimTraining(
        seed=seed, refined=refined, before=before, after=after, wave=best_wave(s, unseen.starts)
    )


def best_wave(s: Mapping[str, Setting], starts: Array) -> SwimTest:
    """Return the test with the largest return of a few waves of torques from initial states
    (b, n_state). They have a grid of the first cells of their own, so that the counts and the grid
    of the training stay as they are."""
    model, task = model_and_task(s)
    largest = model.control_limits()[1]
    problem = task.problem(model)
    found = []
    for share, frequency in product(WAVE_SHARES, WAVE_FREQUENCIES):
        phase = -WAVE_LAG * np.arange(len(largest))
        gait = SineGait(
            n_controls=len(largest), amplitude=share * largest, frequency=frequency, phase=phase
        )
        loop = ClosedLoop(model, None, gait)
        episodes = LoopEpisodes(loop=loop, task=task, problem=problem, starts=starts)
        found.append(tested(episodes, gait.params.flat))
    model.close()
    return max(found, key=lambda test: test.mean_return)


def tested(episodes: LoopEpisodes, weights: Array) -> SwimTest:
    """Return the mean return and distance of weights on some episodes."""
    runs = [episodes.run(weights, start) for start in episodes.starts]
    rows = episodes.loop.model.effector_rows(BODY)
    forward = [(rows @ (run.states[-1] - run.states[0])[: rows.shape[1]])[0] for run in runs]
    return SwimTest(
        mean_return=-float(np.mean([run.cost for run in runs])), distance=float(np.mean(forward))
    )


def probe(settings: Mapping[str, Setting]) -> tuple[SwimmerModel, Array, Array]:
    """Return the model, a state after two steps with bent hinges, and the controls."""
    model = model_and_task(settings)[0]
    x, u = model.state(angles=(0.2, -0.1, 0.15)), 0.3 * model.control_limits()[1]
    for k in range(2):
        x = model.step(x, u, None, k).x
    return model, x, u
