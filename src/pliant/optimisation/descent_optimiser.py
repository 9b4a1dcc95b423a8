"""A running Adam or SGD: steps, epochs of batches, and what is remembered of gradients."""

from collections import deque
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from pliant.core import Array, InputError, counted
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import FAILED_START, Iterate, Stopping
from pliant.optimisation.objective import ObjectiveEvaluation
from pliant.optimisation.rates import RECENT, clipped_gradient
from pliant.optimisation.states import OptimiserState
from pliant.planners.gradient_planner import RATE_GROWTH

if TYPE_CHECKING:
    from pliant.optimisation.descent import SGD, Adam


class GradientMemory(Protocol):
    """What a method remembers of earlier gradients: a frozen dataclass of arrays and numbers."""

    def updated(self, gradient: Array) -> Self: ...
    def cleared(self) -> Self: ...  # after a failure: without the gradients that led to it
    @property
    def change(self) -> Array: ...  # the direction of ascent, times 1 / rate


@dataclass(frozen=True, kw_only=True, eq=False)
class Momentum:
    """The velocity of SGD, in units of the first gradient."""

    velocity: Array
    decay: float
    first: float = 0.0  # norm of the first gradient

    def updated(self, gradient: Array) -> "Momentum":
        """Return the velocity after one more gradient."""
        first = self.first or float(np.linalg.norm(gradient))
        velocity = self.decay * self.velocity + gradient / (first or 1.0)
        return replace(self, velocity=velocity, first=first)

    def cleared(self) -> "Momentum":
        """Return no velocity. The unit stays, so the step after a failure is not a longer one."""
        return replace(self, velocity=np.zeros_like(self.velocity))

    @property
    def change(self) -> Array:
        return self.velocity


@dataclass(frozen=True, kw_only=True, eq=False)
class DescentPoint:
    """Variables with the value, the gradient and the memory there."""

    z: Array
    value: float
    gradient: Array  # of all samples; zero if batches are used
    memory: Any


@dataclass(kw_only=True, eq=False)
class DescentOptimiser:
    """A running Adam or SGD."""

    method: "Adam | SGD"
    evaluator: Evaluator
    stopping: Stopping
    seed: int
    memory: Any  # GradientMemory
    factor: float = 1.0  # on the rate
    iteration: int = 0
    waited: int = 0  # iterations without improvement
    first_value: float = 0.0
    norms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def __post_init__(self) -> None:
        n, samples = self.evaluator.n, self.evaluator.objective.n_samples
        if (self.method.batch_size or 1) > samples:
            raise InputError(
                f"The batch size is {self.method.batch_size}, but the objective has "
                f"{counted(samples, 'sample')}; give a smaller one, or None for all samples."
            )
        self.now = DescentPoint(
            z=self.evaluator.start, value=np.inf, gradient=np.zeros(n), memory=self.memory
        )
        self.best = self.now

    @property
    def batched(self) -> bool:
        size = self.method.batch_size
        return size is not None and size < self.evaluator.objective.n_samples

    def first(self) -> Iterate:
        """Return the start."""
        found = self._judge(self.now.z)
        if found.failed:
            return Iterate(z=self.now.z, value=np.inf, failed=found.failed, finished=FAILED_START)
        self.now = self.best = self._point(self.now.z, found, self.memory)
        self.first_value = found.value
        return self._iterate(self.now, 0.0)

    def iterate(self) -> Iterate:
        """Take one step, or one epoch if there are batches."""
        z, memory = self._epoch() if self.batched else self._step(self.now.z, self.now.gradient)
        found = self._judge(z)
        self.iteration += 1
        if found.failed:
            self.factor *= 0.5
            self.now = replace(self.now, memory=self.now.memory.cleared())  # it led to the failure
            return self._failed(z, found)
        step = float(np.abs(z - self.now.z).max())
        self.now = self._point(z, found, memory)
        shown = self.now
        if not self.batched:
            self._follow_progress()
        elif self.now.value < self.best.value:
            self.best = self.now
        return self._iterate(shown, step)

    def _judge(self, z: Array) -> ObjectiveEvaluation:
        """Return the evaluation that an iterate is judged by: of all samples."""
        return self.evaluator.value(z) if self.batched else self.evaluator.gradient(z)

    def _point(self, z: Array, found: ObjectiveEvaluation, memory: Any) -> DescentPoint:
        gradient = np.zeros_like(z) if self.batched else np.array(found.gradient, float)
        return DescentPoint(z=z, value=found.value, gradient=gradient, memory=memory)

    @property
    def rate(self) -> float:
        schedule = self.method.schedule
        share = 1.0 if schedule is None else float(schedule(self.iteration))
        return self.method.rate * self.factor * share

    def _step(self, z: Array, gradient: Array, memory: Any = None) -> tuple[Array, Any]:
        """Return the variables after a step, and the memory of the gradient."""
        clipped = clipped_gradient(gradient, self.norms, self.method.clip)
        self.norms.append(float(np.linalg.norm(gradient)))
        memory = (self.now.memory if memory is None else memory).updated(clipped)
        return self.evaluator.clip(z - self.rate * memory.change), memory

    def _epoch(self) -> tuple[Array, Any]:
        """Return the variables after a step for each batch. A step to variables whose simulation
        fails is taken back."""
        count = self.evaluator.objective.n_samples
        size = int(self.method.batch_size or count)
        order = np.random.default_rng([self.seed, self.iteration]).permutation(count)
        z, memory = self.now.z, self.now.memory
        before = z
        for batch in np.array_split(order, -(-count // size)):
            found = self.evaluator.gradient(z, batch.tolist())
            if found.failed:
                self.factor *= 0.5
                z, memory = before, memory.cleared()
                continue
            before = z
            z, memory = self._step(z, count / len(batch) * np.asarray(found.gradient), memory)
        return z, memory

    def _follow_progress(self) -> None:
        """Update the best iterate and the rate. Without improvement, start again from the
        best one with half the rate."""
        improved = self.best.value - self.now.value > self.stopping.tolerance * abs(self.best.value)
        self.waited = 0 if improved else self.waited + 1
        if self.now.value < self.best.value:
            self.best = self.now
        if improved:
            self.factor = min(RATE_GROWTH * self.factor, 1.0)
        elif self.waited >= self.method.patience:
            # without the memory, the next step is one of descent, as long as the first one
            self.now = replace(self.best, memory=self.memory)
            self.factor, self.waited = 0.5 * self.factor, 0

    def _iterate(self, point: DescentPoint, step: float) -> Iterate:
        norm = np.nan
        finished = self._exhausted("smaller rates bring no improvement")
        if not self.batched:
            g = self.evaluator.projected_gradient(point.z, point.gradient)
            norm = float(np.abs(g).max())
            if self.stopping.negligible(float(g @ g), point.value, self.first_value):
                finished = "the gradient is negligible"
        return Iterate(
            z=point.z,
            value=point.value,
            gradient_norm=norm,
            step=step,
            finished=finished,
            converged=bool(finished),
        )

    def _failed(self, z: Array, found: ObjectiveEvaluation) -> Iterate:
        finished = self._exhausted(f"every smaller step fails: {found.failed}")
        return Iterate(z=z, value=np.inf, failed=found.failed, finished=finished)

    def _exhausted(self, text: str) -> str:
        return text if self.factor < np.sqrt(self.stopping.tolerance) else ""

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        norms = np.zeros(RECENT)
        norms[: len(self.norms)] = self.norms
        arrays: dict[str, Array] = {"norms": norms}
        values: dict[str, int | float] = {}
        for label, point in (("now", self.now), ("best", self.best)):
            arrays |= {f"{label}.z": point.z, f"{label}.gradient": point.gradient}
            values[f"{label}.value"] = point.value
            for name, part in memory_parts(point.memory).items():
                place: Any = arrays if isinstance(part, np.ndarray) else values
                place[f"{label}.{name}"] = part
        values |= {
            "factor": self.factor,
            "iteration": self.iteration,
            "waited": self.waited,
            "first_value": self.first_value,
            "n_norms": len(self.norms),
        }
        return OptimiserState(arrays=arrays, values=values)

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes."""
        values = state.values
        self.now, self.best = (self._restored(label, state) for label in ("now", "best"))
        self.norms.clear()
        self.norms.extend(state.arrays["norms"][: int(values["n_norms"])].tolist())
        self.factor, self.first_value = float(values["factor"]), float(values["first_value"])
        self.iteration, self.waited = int(values["iteration"]), int(values["waited"])

    def _restored(self, label: str, state: OptimiserState) -> DescentPoint:
        parts = {**state.values, **state.arrays}
        memory = {name: parts[f"{label}.{name}"] for name in memory_parts(self.memory)}
        if "square" in memory and not np.all(memory["square"] >= 0.0):
            raise InputError(
                "The saved squares of the gradient are negative. Restore the checkpoint from a "
                "copy, or optimise again."
            )
        return DescentPoint(
            z=np.array(parts[f"{label}.z"]),
            value=float(parts[f"{label}.value"]),
            gradient=np.array(parts[f"{label}.gradient"]),
            memory=replace(self.memory, **memory),
        )


def memory_parts(memory: Any) -> dict[str, Any]:
    """Return the arrays and numbers of a memory of gradients."""
    return {one.name: getattr(memory, one.name) for one in fields(memory)}
