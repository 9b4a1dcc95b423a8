"""What a training method is: it makes a trainer, which improves weights one iteration at a time."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pliant.core import Array
from pliant.learning.loop_episodes import LoopEpisodes, Performance
from pliant.optimisation.states import OptimiserState


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """Weights of a controller, and how well they do on the episodes."""

    weights: Array  # (controller.params.size,)
    performance: Performance
    steps: int  # environment steps that were taken to find these weights
    finished: str = ""  # why the trainer cannot improve them any more


class Trainer(Protocol):
    """A running training."""

    def first(self) -> Candidate: ...  # the weights before training
    def iterate(self) -> Candidate: ...
    def state(self) -> OptimiserState: ...
    def restore(self, state: OptimiserState) -> None: ...  # of any trainer with the same arguments


@runtime_checkable
class TrainingMethod(Protocol):
    """The settings of a training method: a frozen dataclass of numbers and names."""

    @property
    def name(self) -> str: ...
    @property
    def episodes(self) -> int: ...  # number of initial states, if the task has random ones
    def trainer(self, episodes: LoopEpisodes, weights: Array, seed: int) -> Trainer: ...
