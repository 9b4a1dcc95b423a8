"""Rollouts of a model from several states under given controls, and their adjoint in bounded
memory."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from pliant.checkpointing import uniform_schedule
from pliant.core import (
    Array,
    Batched,
    InputError,
    Reversible,
    Status,
    Step,
    StepError,
    nearest,
    require_number,
)
from pliant.planners.checkpoints import Checkpoints, retained_bytes


@final
@dataclass(kw_only=True, eq=False)
class RolloutAdjoint:
    """Simulations of a model from several states, and the gradient of a function of all their
    states.

    All states are stored. `checkpoints` tells which steps keep their tapes: "all", "sqrt" (about
    sqrt(steps) at a time) or the largest memory [bytes] of tapes. The other steps are simulated
    again. No choice changes a bit of the gradient.
    """

    model: Reversible
    first: int  # index of the first step
    controls: Array  # (b, steps, n_controls)
    params: Array | None  # (params.size,)
    checkpoints: Checkpoints
    tapes: int = field(init=False)  # largest number of steps kept with their tapes
    kept: list[list[Step]] = field(init=False)  # of each simulation, until the adjoint takes them

    def __post_init__(self) -> None:
        self.tapes, self.kept = self.controls.shape[1], []

    def simulate(self, x0: Array, *, differentiate: bool) -> Array:
        """Return the states (b, steps + 1, n_state) from x0 (b, n_state). Raises StepError if a
        step fails, and InputError if the memory is too small for one step."""
        rows, steps, _ = self.controls.shape
        states = np.empty((rows, steps + 1, x0.shape[1]))
        states[:, 0] = x0
        keep = differentiate and self._plan_tapes(x0[0])
        if isinstance(self.model, Batched) and rows > 1 and not keep:
            self._simulate_batch(self.model, states)
            return states
        for row in range(rows):
            kept = []
            for k in range(steps):
                step = self._step(states[row, k], row, k)
                states[row, k + 1] = step.x
                if keep:
                    kept.append(step)
            self.kept.append(kept)
        return states

    def _simulate_batch(self, model: Batched, states: Array) -> None:
        for k in range(self.controls.shape[1]):
            batch = model.step_many(states[:, k], self.controls[:, k], self.params, self.first + k)
            for row, (status, x) in enumerate(zip(batch.statuses, batch.x, strict=True)):
                self._check(status, x, row, k)
            states[:, k + 1] = batch.x

    def _plan_tapes(self, x: Array) -> bool:
        """Set the number of tapes. Return whether the steps of all simulations can keep theirs."""
        rows, steps, _ = self.controls.shape
        if self.checkpoints == "all":
            return True
        if isinstance(self.checkpoints, str):
            self.tapes = uniform_schedule(steps).tapes
            return rows * steps == self.tapes
        step = self._step(x, 0, 0)
        size = max(retained_bytes((step.x, step.tape), without=self.model), 1)
        if self.checkpoints < size:
            raise InputError(
                f"The memory limit of the checkpoints is {self.checkpoints:g} bytes, but one step "
                f"of this model needs {size}; give {size} or more."
            )
        self.tapes = int(min(self.checkpoints, steps * size) // size)
        return bool(rows * steps * size <= self.checkpoints)

    def _step(self, x: Array, row: int, k: int) -> Step:
        step = self.model.step(x, self.controls[row, k], self.params, self.first + k)
        self._check(step.status, step.x, row, k)
        return step

    def _check(self, status: Status, x: Array, row: int, k: int) -> None:
        """Raise StepError for a step that failed."""
        if not status or not np.all(np.isfinite(x)):
            text = "the state is not finite" if status else status.text
            where = f"state {row} of the batch, " if len(self.controls) > 1 else ""
            raise StepError(f"{where}step {self.first + k}: {text}")

    def pullback(self, states: Array, bars: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of the sum of bars . states by x0 (b, n_state), by the controls
        (b, steps, n_controls) and by the parameters (params.size,)."""
        x_bar, u_bar = np.empty_like(states[:, 0]), np.zeros_like(self.controls)
        p_bar = np.zeros(self.model.params.size)
        kept, self.kept = self.kept, []
        for row in reversed(range(len(states))):
            steps = kept.pop() if kept else []
            x_bar[row] = self._pullback_row(row, states[row], bars[row], steps, u_bar[row], p_bar)
        return x_bar, u_bar, p_bar

    def _pullback_row(
        self, row: int, x: Array, bars: Array, kept: list[Step], u_bar: Array, p_bar: Array
    ) -> Array:
        """Return the gradient by the first state of a row. Add to those by its controls and by the
        parameters."""
        end, bar = len(u_bar), bars[-1]
        while end:
            first = 0 if kept else max(end - self.tapes, 0)
            taped = kept or [self._step(x[k], row, k) for k in range(first, end)]
            for k in range(end - 1, first - 1, -1):
                step: Any = taped.pop()
                if bar.any():
                    bar, u_bar[k], by_p = self.model.pullback(step, bar)
                    p_bar += by_p
                bar = bar + bars[k]
            end = first
        return bar


def check_checkpoints(checkpoints: Any) -> None:
    """Raise InputError unless it is "all", "sqrt" or a positive number of bytes."""
    if isinstance(checkpoints, str):
        if checkpoints not in ("all", "sqrt"):
            raise InputError(
                f"The checkpoints are '{checkpoints}'; {nearest(checkpoints, ('all', 'sqrt'))} A "
                "memory limit is a number of bytes."
            )
    elif not require_number("The memory limit of the checkpoints", checkpoints, "bytes") > 0.0:
        raise InputError(
            f"The memory limit of the checkpoints is {checkpoints:g} bytes; give a positive number."
        )
