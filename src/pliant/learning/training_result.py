"""TrainingResult: the best weights of a training, its learning curve, and its files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Status,
    counted,
    finite_array,
    quoted,
    require_kind,
)
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.identity import check_identity, saved_controller
from pliant.learning.loop_episodes import LoopEpisode, LoopEpisodes
from pliant.learning.memory import AnyController
from pliant.learning.tasks import ControlTask
from pliant.optimisation.states import OptimiserState
from pliant.result_reports import notebook_html, write_report
from pliant.store.array_checkpoints import CheckpointKind, read_checkpoint, write_checkpoint

TRAINING = CheckpointKind(noun="training", writer="train(...)", again="train again")
INTERRUPTED = "interrupted; these are the best weights so far, continue with resume"
WEIGHTS, STATE = "controller.", "trainer."  # prefixes of array names


@dataclass(frozen=True, kw_only=True)
class TrainingRow:
    """One iteration of a training."""

    steps: int  # environment steps that were taken to find the weights
    seconds: float  # since the start
    mean_return: float  # of the episodes, without noise of exploration
    failed: int = 0  # number of episodes that failed
    evaluations: int = 0  # exact evaluations of the surrogate so far; 0 without a surrogate


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingResult:
    """The result of `train`: the best weights, their controller and the learning curve.

    `save` and `load` store it in a folder, `report` writes a page with learning curves and an
    animation of an episode, `replay` simulates the episodes again, on any model.
    """

    method: str
    settings: Mapping[str, Any]  # of the method
    seed: int
    weights: Array  # (controller.params.size,) the best ones
    mean_return: float  # of the best weights
    history: tuple[TrainingRow, ...]  # row 0 is the untrained controller
    status: Status
    identity: Mapping[str, Any]  # robot, observer and controller, as JSON types
    state: OptimiserState  # of the last iteration, to continue
    interrupted: bool = False
    controller: AnyController | None = None  # with the best weights; None if its class is unknown
    loop: ClosedLoop | None = None  # with the best weights; None: loaded without one
    task: ControlTask | None = None
    episodes: int = 1  # number of initial states

    def __repr__(self) -> str:
        return f"<TrainingResult for {self.identity['robot']}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    @property
    def steps(self) -> int:
        """Number of environment steps of the training."""
        return self.history[-1].steps

    def summary(self) -> str:
        """Return the method, status and returns in one line."""
        return (
            f"{self.method}: {self.status.text} (mean return {self.mean_return:.6g}, untrained "
            f"{self.history[0].mean_return:.6g}, {counted(self.steps, 'environment step')})"
        )

    def show(self) -> None:
        """Print the summary and the learning curve."""
        print(self.summary())
        for k, row in enumerate(self.history):
            print(
                f"iteration {k}: {counted(row.steps, 'step')}, {row.seconds:.1f} s, mean return "
                f"{row.mean_return:.6g}"
            )

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with learning curves and an animation of an episode, the weights and
        result.json into a folder. Return the path of the page. Raises InputError for a result that
        was loaded without its loop and task."""
        return write_report(self, folder, title=title, small=small)

    # Episodes

    def on_model(self, model: Dynamics | None = None) -> LoopEpisodes:
        """Return the episodes of the training with the best weights, on another model. Raises
        InputError for a result that was loaded without its loop and task."""
        if self.loop is None or self.task is None:
            raise InputError(
                "This training was loaded without its loop and task, so it cannot be simulated. "
                "Load it with TrainingResult.load(folder, loop, task)."
            )
        loop = self.loop if model is None else replace(self.loop, model=model)
        return LoopEpisodes.draw(loop, self.task, count=self.episodes, seed=self.seed)

    def replay(self, model: Dynamics | None = None) -> list[LoopEpisode]:
        """Simulate the episodes again with the best weights, on another model if one is given.

        The mean of minus their costs is `mean_return`, bit for bit on the same model.
        """
        episodes = self.on_model(model)
        return [episodes.run(self.weights, start) for start in episodes.starts]

    # Files

    def save(self, folder: str | Path) -> None:
        """Write training.json and the weights (safetensors) into a folder, for `load` and for
        `train(..., resume=True)`."""
        content = {
            "method": self.method,
            "settings": dict(self.settings),
            "seed": self.seed,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "ok": self.status.ok,
            "status": self.status.text,
            "interrupted": self.interrupted,
            "history": [asdict(row) for row in self.history],
            "state": dict(self.state.values),
            **self.identity,
        }
        blocks, start, arrays = self.identity["controller"]["blocks"], 0, {}
        for name, size in blocks:
            arrays[f"{WEIGHTS}{name}"] = np.array(self.weights[start : start + size], float)
            start += size
        arrays |= {f"{STATE}{name}": array for name, array in self.state.arrays.items()}
        write_checkpoint(TRAINING, folder, content, arrays)

    @classmethod
    def load(
        cls, folder: str | Path, loop: ClosedLoop | None = None, task: ControlTask | None = None
    ) -> Self:
        """Return the training that `save` or `train(..., folder=...)` wrote.

        With a loop and a task it can be replayed and reported. Raises InputError if a file is
        missing or damaged, or belongs to another loop than the given one.
        """
        file, content, arrays = read_checkpoint(TRAINING, folder)
        if loop is not None:
            require_kind("The loop", loop, ClosedLoop, "make one with ClosedLoop(...)")
        try:
            fields = _fields(content, arrays, str(file))
            if loop is not None:
                check_identity(fields["identity"], loop, str(file))
        except InputError:
            raise
        except KeyError as error:
            raise TRAINING.damaged(file, f"it has no {quoted(error.args[0])}") from None
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise TRAINING.damaged(file, "an entry has the wrong type or size") from None
        if loop is not None:
            loop = loop.with_weights(fields["weights"])
            fields["controller"] = loop.controller
        return cls(**fields, loop=loop, task=task)


def _fields(content: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> dict[str, Any]:
    """Return the fields of a saved training."""
    saved = {
        key: content[key] for key in ("robot", "digest", "dt", "controls", "observer", "controller")
    }
    saved["robot"], saved["dt"] = str(saved["robot"]), float(saved["dt"])
    _ = saved["observer"]["size"], list(saved["controls"])
    for name, digest in (("robot", saved["digest"]), ("observer", saved["observer"]["digest"])):
        if not isinstance(digest, str | None):
            raise TRAINING.damaged(
                where, f"the digest of its {name} is {quoted(digest)}, which is no text"
            )
    weights = _weights(saved["controller"], arrays, where)
    history = tuple(_row(row, where) for row in content["history"])
    if not history:
        raise TRAINING.damaged(where, "its history is empty")
    if not isinstance(content["settings"], dict) or not isinstance(content["state"], dict):
        raise TRAINING.damaged(where, "its settings or state are no objects")
    state = OptimiserState(
        arrays={
            name.removeprefix(STATE): array
            for name, array in arrays.items()
            if name.startswith(STATE)
        },
        values=content["state"],
    )
    return {
        "method": str(content["method"]),
        "settings": content["settings"],
        "seed": int(content["seed"]),
        "episodes": int(content["episodes"]),
        "weights": weights,
        "mean_return": float(finite_array(f"'mean_return' in {where}", content["mean_return"], ())),
        "history": history,
        "status": Status(
            ok=content["ok"] is True, text=str(content["status"]), iterations=len(history) - 1
        ),
        "interrupted": content["interrupted"] is True,
        "identity": saved,
        "state": state,
        "controller": saved_controller(saved["controller"], weights),
    }


def _weights(layout: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> Array:
    """Return the best weights from their blocks."""
    blocks = [(str(name), int(size)) for name, size in layout["blocks"]]
    names = {f"{WEIGHTS}{name}" for name, _ in blocks}
    found = {name for name in arrays if not name.startswith(STATE)}
    if found != names:
        name = sorted(found ^ names)[0]
        raise InputError(
            f"{where} has {'no' if name in names else 'unknown'} weights '{name[:80]}'. Restore "
            "it from a copy, or train again."
        )
    pieces = [
        finite_array(f"'{name}' in {where}", arrays[f"{WEIGHTS}{name}"], (size,))
        for name, size in blocks
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _row(row: Mapping[str, Any], where: str) -> TrainingRow:
    made = TrainingRow(**row)
    finite_array(f"A row of the history in {where}", list(asdict(made).values()), (5,))
    return TrainingRow(
        steps=int(made.steps),
        seconds=float(made.seconds),
        mean_return=float(made.mean_return),
        failed=int(made.failed),
        evaluations=int(made.evaluations),
    )
