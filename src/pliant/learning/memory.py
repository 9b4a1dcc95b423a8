"""Observers with memory: evaluation, stacking and scaling, together with observers without."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pliant.core import Array, Controller, ControllerWithMemory, Observer, ObserverWithMemory

AnyObserver = Observer | ObserverWithMemory
AnyController = Controller | ControllerWithMemory


def initial_memory(part: Any) -> Array:
    """Return the first memory (n_memory,) of an observer or controller, empty if it has none."""
    if isinstance(part, ObserverWithMemory | ControllerWithMemory):
        return part.initial_memory
    return np.zeros(0)


def observe(observer: AnyObserver, x: Array, memory: Array) -> tuple[Array, Array]:
    """Return the observation (size,) of a state, and the next memory."""
    if isinstance(observer, ObserverWithMemory):
        return observer.observe_and_store(x, memory)
    return observer.observe(x), memory


def observe_vjp(
    observer: AnyObserver, x: Array, memory: Array, y_bar: Array, memory_bar: Array
) -> tuple[Array, Array]:
    """Return the gradients of y_bar . y + memory_bar . memory' by the state and the memory."""
    if isinstance(observer, ObserverWithMemory):
        return observer.memory_vjp(x, memory, y_bar, memory_bar)
    return observer.vjp(x, y_bar), memory_bar


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StackWithMemory:
    """Attached observers, one after the other. Their memories follow one another too."""

    observers: Sequence[AnyObserver]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.observers)

    @property
    def initial_memory(self) -> Array:
        """The first memory (n_memory,) of all observers."""
        return np.concatenate([initial_memory(one) for one in self.observers])

    def _ends(self) -> tuple[Array, Array]:
        sizes = [(one.size, len(initial_memory(one))) for one in self.observers]
        ends = np.cumsum(sizes, axis=0)[:-1]
        return ends[:, 0], ends[:, 1]

    def observe_and_store(self, x: Array, memory: Array) -> tuple[Array, Array]:
        """Return the observation (size,) of a state (n_state,) and the next memory."""
        pieces = np.split(memory, self._ends()[1])
        pairs = [observe(one, x, m) for one, m in zip(self.observers, pieces, strict=True)]
        return np.concatenate([y for y, _ in pairs]), np.concatenate([m for _, m in pairs])

    def memory_vjp(
        self, x: Array, memory: Array, y_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array]:
        """Return the gradients by the state (n_state,) and the memory (n_memory,)."""
        y_ends, ends = self._ends()
        parts = (np.split(memory, ends), np.split(y_bar, y_ends), np.split(memory_bar, ends))
        x_bar, bars = np.zeros(np.shape(x)), []
        for one, m, y_part, m_part in zip(self.observers, *parts, strict=True):
            by_x, by_m = observe_vjp(one, x, m, y_part, m_part)
            x_bar = x_bar + by_x
            bars.append(by_m)
        return x_bar, np.concatenate(bars)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledWithMemory:
    """The observation (y - offset) / scale of an attached observer with memory."""

    observer: ObserverWithMemory
    scale: Array  # (size,)
    offset: Array  # (size,)

    @property
    def size(self) -> int:
        return self.observer.size

    @property
    def initial_memory(self) -> Array:
        return self.observer.initial_memory

    def observe_and_store(self, x: Array, memory: Array) -> tuple[Array, Array]:
        """Return the observation (size,) of a state (n_state,) and the next memory."""
        y, after = self.observer.observe_and_store(x, memory)
        return (y - self.offset) / self.scale, after

    def memory_vjp(
        self, x: Array, memory: Array, y_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array]:
        """Return the gradients by the state (n_state,) and the memory (n_memory,)."""
        return self.observer.memory_vjp(x, memory, y_bar / self.scale, memory_bar)
