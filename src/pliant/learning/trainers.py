"""What a training method is: it makes a trainer, which improves weights one iteration at a time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from pliant.core import Array, InputError, finite_array, is_integer, quoted
from pliant.learning.loop_episodes import LoopEpisodes, Performance


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """Weights of a controller, and how well they do on the episodes."""

    weights: Array  # (controller.params.size,)
    performance: Performance
    steps: int  # environment steps that were taken to find these weights
    finished: str = ""  # why the trainer cannot improve them any more


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainerState:
    """All that a trainer needs to continue bit for bit."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    values: Mapping[str, int | float] = field(default_factory=dict)


class Trainer(Protocol):
    """A running training."""

    def first(self) -> Candidate: ...  # the weights before training
    def iterate(self) -> Candidate: ...
    def state(self) -> TrainerState: ...
    def restore(self, state: TrainerState) -> None: ...  # of any trainer with the same arguments


@runtime_checkable
class TrainingMethod(Protocol):
    """The settings of a training method: a frozen dataclass of numbers and names."""

    @property
    def name(self) -> str: ...
    @property
    def episodes(self) -> int: ...  # number of initial states, if the task has random ones
    def trainer(self, episodes: LoopEpisodes, weights: Array, seed: int) -> Trainer: ...


def check_state(found: TrainerState, expected: TrainerState, where: str) -> None:
    """Raise InputError unless a state has the arrays and values of another one, and finite
    numbers. `where` names it in errors."""
    for kind, have, want in (
        ("array", found.arrays, expected.arrays),
        ("value", found.values, expected.values),
    ):
        if set(have) != set(want):
            name = sorted(set(have) ^ set(want))[0]
            problem = "no" if name in want else "an unknown"
            raise InputError(
                f"{where} has {problem} {kind} {quoted(name)}, so it does not fit this training. "
                "Train again, or give the same loop, task and method."
            )
    for name, array in expected.arrays.items():
        given = found.arrays[name]
        if given.dtype != array.dtype:
            raise InputError(
                f"'{name}' in {where} has the type {given.dtype}, but {array.dtype} is needed. "
                "Restore the file from a copy, or train again."
            )
        if given.dtype.kind == "f":
            finite_array(f"'{name}' in {where}", given, array.shape)
        elif given.shape != array.shape:
            raise InputError(
                f"'{name}' in {where} has shape {given.shape}, but {array.shape} is needed. "
                "Restore the file from a copy, or train again."
            )
    for name, value in expected.values.items():
        number = found.values[name]
        count = is_integer(value)
        if count:
            good = is_integer(number) and number >= 0
        else:
            good = is_integer(number) or (isinstance(number, float) and bool(np.isfinite(number)))
        if not good:
            raise InputError(
                f"'{name}' in {where} is {quoted(number)}, but a {'count' if count else 'number'} "
                "is needed. Restore the file from a copy, or train again."
            )
