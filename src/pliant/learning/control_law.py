"""ControlLaw: an observer and a controller, from a state and a memory to controls."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, ControllerWithMemory, ObserverWithMemory
from pliant.learning.controllers import control_rows
from pliant.learning.memory import (
    AnyController,
    AnyObserver,
    initial_memory,
    observe,
    observe_vjp,
)
from pliant.learning.observers import observe_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """The controls of one step, and the data that their derivatives need."""

    x: Array  # (n_state,) of the model
    memory: Array  # (n_memory,) before the step
    y: Array  # (n_inputs,) observation
    w: Array  # weights
    time: float  # [s]
    control: Array  # (n_controls,), not clipped
    after: Array  # (n_memory,) the next memory


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlLaw:
    """An attached observer and a controller. The memory is the observer's, then the controller's.

    Without an observer the observation is empty.
    """

    observer: AnyObserver | None
    controller: AnyController

    @property
    def size(self) -> int:
        """The size of an observation."""
        return 0 if self.observer is None else self.observer.size

    @cached_property
    def first_memory(self) -> Array:
        """The memory (n_memory,) before the first step."""
        return np.concatenate([initial_memory(self.observer), initial_memory(self.controller)])

    @cached_property
    def _n_observer(self) -> int:
        return len(initial_memory(self.observer))

    def decide(self, x: Array, memory: Array, w: Array, time: float) -> Decision:
        """Return the controls for a state (n_state,) and a memory at a time [s]."""
        seen, stored = memory[: self._n_observer], memory[self._n_observer :]
        y, seen = (np.zeros(0), seen) if self.observer is None else observe(self.observer, x, seen)
        controller = self.controller
        if isinstance(controller, ControllerWithMemory):
            control, stored = controller.control_and_store(y, stored, w, time)
        else:
            control = controller.control(y, w, time)
        after = np.concatenate([seen, stored])
        return Decision(x=x, memory=memory, y=y, w=w, time=time, control=control, after=after)

    def decide_many(self, x: Array, memory: Array, w: Array, time: float) -> tuple[Array, Array]:
        """Return controls (b, n_controls) and next memories (b, n_memory) for states (b, n_state).
        Row i has the bits of `decide(x[i], ...)`."""
        controller = self.controller
        if isinstance(self.observer, ObserverWithMemory) or isinstance(
            controller, ControllerWithMemory
        ):
            rows = [self.decide(a, m, w, time) for a, m in zip(x, memory, strict=True)]
            return np.array([row.control for row in rows]), np.array([row.after for row in rows])
        y = np.zeros((len(x), 0)) if self.observer is None else observe_rows(self.observer, x)
        return control_rows(controller, y, w, time), memory

    def vjp(self, decision: Decision, u_bar: Array, after_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of u_bar . u + after_bar . memory' by the state, the memory before
        and the weights."""
        d, controller = decision, self.controller
        seen_bar, stored_bar = after_bar[: self._n_observer], after_bar[self._n_observer :]
        if isinstance(controller, ControllerWithMemory):
            stored = d.memory[self._n_observer :]
            y_bar, stored_bar, w_bar = controller.memory_vjp(
                d.y, stored, d.w, d.time, u_bar, stored_bar
            )
        else:
            y_bar, w_bar = controller.vjp(d.y, d.w, d.time, u_bar)
        x_bar = np.zeros(len(d.x))
        if self.observer is not None:
            seen = d.memory[: self._n_observer]
            x_bar, seen_bar = observe_vjp(self.observer, d.x, seen, y_bar, seen_bar)
        return x_bar, np.concatenate([seen_bar, stored_bar]), w_bar

    def jacobians(self, decision: Decision, free: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives of the controls and the next memory by the state, the memory and
        the weights, with n_controls + n_memory rows each. `free` (n_controls,) is 0 for controls
        that are constant."""
        m, n = len(free), len(decision.memory)
        seeds = np.diag(np.concatenate([free, np.ones(n)]))
        rows = [self.vjp(decision, row[:m], row[m:]) for row in seeds]
        by_x, by_memory, by_w = (np.array(part) for part in zip(*rows, strict=True))
        return by_x, by_memory, by_w
