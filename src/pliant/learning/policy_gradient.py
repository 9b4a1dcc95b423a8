"""Analytic policy gradients: the cost of whole episodes, differentiated through the model.

The gradient by the weights of the controller comes from the `pullback` of the closed loop, not from
random trials. So one episode gives an exact direction of descent for all weights at once.
"""

from collections import deque
from dataclasses import dataclass
from typing import final

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Reversible,
    StepError,
    nearest,
    quoted,
    require_kind,
    require_positive,
)
from pliant.learning.loop_episodes import LoopEpisodes, Performance
from pliant.learning.trainers import Candidate
from pliant.optimisation.rates import RECENT, RateSchedule, check_schedule, clipped_gradient
from pliant.optimisation.states import OptimiserState, pairs_array, restored_pairs
from pliant.planners.adam import AdamMoments
from pliant.planners.gradient_planner import LBFGS_PAIRS, RATE_GROWTH, bfgs_hessian
from pliant.planners.trust_region import ControlMetric

OPTIMISERS = ("adam", "lbfgs")
QUARTERINGS = 16  # of a step of L-BFGS; its change is then below round-off of the weights


@final
@dataclass(frozen=True, kw_only=True)
class PolicyGradient:
    """Training by analytic gradients of whole episodes, for every Reversible model.

    Parameters
    ----------
    optimiser : "adam" or "lbfgs"
    rate : largest change of a weight in an iteration of Adam
    schedule : function iteration -> factor on the rate, such as CosineRate(iterations=100)
    clip : largest norm of a gradient, relative to the median norm of the last 20 ones
    episodes : number of episodes with random initial states, if the task has a spread
    memory : limit for the stored steps of an episode [bytes]; the other steps are simulated twice

    A step of Adam that leads to a failed episode is taken back, and the rate is halved; it grows
    again with successful steps. Raises InputError for values outside these ranges.

    >>> from pliant.learning import PolicyGradient
    >>> method = PolicyGradient(rate=0.02)
    """

    optimiser: str = "adam"
    rate: float = 0.01
    schedule: RateSchedule | None = None
    clip: float = 5.0
    episodes: int = 8
    memory: float = 1e9

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise InputError(
                f"There is no optimiser {quoted(self.optimiser)}; "
                f"{nearest(str(self.optimiser), OPTIMISERS)}"
            )
        require_positive("The rate of a policy gradient", self.rate, "")
        require_positive("The clip of a policy gradient", self.clip, "")
        require_positive("The memory of a policy gradient", self.memory, "bytes")
        check_schedule(self.schedule)

    @property
    def name(self) -> str:
        return "gradient"

    def trainer(self, episodes: LoopEpisodes, weights: Array, seed: int) -> "GradientTrainer":
        """Return the trainer. Raises InputError if the model has no pullback."""
        require_kind(
            "The model of a policy gradient",
            episodes.loop.model,
            Reversible,
            "take a model with `pullback`, such as ImplicitEuler, or method='ppo'",
        )
        return GradientTrainer(method=self, episodes=episodes, weights=np.array(weights))


@dataclass(kw_only=True, eq=False)
class GradientTrainer:
    """A running policy gradient: the current weights with their gradient, and the optimiser."""

    method: PolicyGradient
    episodes: LoopEpisodes
    weights: Array  # (n,)

    def __post_init__(self) -> None:
        n = len(self.weights)
        self.gradient, self.cost = np.zeros(n), 0.0  # at the weights
        self.moments = AdamMoments.zero((n,))
        self.norms: deque[float] = deque(maxlen=RECENT)  # of the last gradients
        # changes of weights and gradient
        self.pairs: deque[tuple[Array, Array]] = deque(maxlen=LBFGS_PAIRS)
        self.factor = 1.0  # on the rate
        self.iteration = self.evaluations = 0
        self._tapes: int | None = None

    def first(self) -> Candidate:
        """Return the first weights. Raises StepError if their episodes fail."""
        performance, self.gradient = self._evaluate(self.weights)
        if performance.failed:
            raise StepError(
                "The first controller cannot be trained: an episode failed "
                f"({performance.failed[0]}). Start from other weights, or take a smaller time step."
            )
        self.cost = performance.cost
        return self._candidate(self.weights, performance)

    def iterate(self) -> Candidate:
        """Return the next weights."""
        step = self._adam if self.method.optimiser == "adam" else self._lbfgs
        weights, performance, finished = step()
        self.iteration += 1
        return self._candidate(weights, performance, finished)

    def _candidate(self, weights: Array, performance: Performance, finished: str = "") -> Candidate:
        spent = (self.evaluations - 1) * self.episodes.steps  # the last one judges the weights
        return Candidate(weights=weights, performance=performance, steps=spent, finished=finished)

    def _evaluate(self, weights: Array) -> tuple[Performance, Array]:
        if self._tapes is None:
            self._tapes = self.episodes.tape_limit(self.method.memory)
        self.evaluations += 1
        return self.episodes.gradient(weights, self._tapes)

    def _accept(self, weights: Array, performance: Performance, gradient: Array) -> None:
        self.weights, self.gradient, self.cost = weights, gradient, performance.cost

    def _adam(self) -> tuple[Array, Performance, str]:
        norm = float(np.linalg.norm(self.gradient))
        moments = self.moments.updated(
            clipped_gradient(self.gradient, self.norms, self.method.clip)
        )
        schedule = self.method.schedule
        rate = self.method.rate * self.factor
        rate *= 1.0 if schedule is None else float(schedule(self.iteration))
        weights = self.weights - rate * moments.change
        performance, gradient = self._evaluate(weights)
        if performance.failed:
            self.factor *= 0.5
        else:
            self.factor = min(RATE_GROWTH * self.factor, 1.0)
            self.norms.append(norm)
            self.moments = moments
            self._accept(weights, performance, gradient)
        return weights, performance, ""

    def _lbfgs(self) -> tuple[Array, Performance, str]:
        """Take the first step of L-BFGS with sufficient decrease: the whole one, a quarter, ...

        Without such a step the stored pairs are dropped and the weights stay.
        """
        n, norm = len(self.weights), float(np.linalg.norm(self.gradient))
        metric = ControlMetric(banded=np.ones((1, n)), lower=np.ones((1, n)))
        # the first step changes each weight by the rate on average
        first = norm / (self.method.rate * np.sqrt(n)) or 1.0
        d = -bfgs_hessian(metric, first, list(self.pairs)).solve(self.gradient)
        slope = float(self.gradient @ d)
        for share in 0.25 ** np.arange(QUARTERINGS):
            weights = self.weights + share * d
            performance, gradient = self._evaluate(weights)
            if not performance.failed and performance.cost < self.cost + 1e-4 * share * slope:
                s, y = weights - self.weights, gradient - self.gradient
                if s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
                    self.pairs.append((s, y))
                self._accept(weights, performance, gradient)
                return weights, performance, ""
        finished = "" if self.pairs else "no step along the gradient lowers the cost any more"
        self.pairs.clear()
        return self.weights, Performance(cost=self.cost), finished

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        n = len(self.weights)
        norms = np.zeros(RECENT)
        norms[: len(self.norms)] = self.norms
        arrays = {
            "weights": self.weights,
            "gradient": self.gradient,
            "mean": self.moments.mean,
            "square": self.moments.square,
            "norms": norms,
        }
        if self.method.optimiser == "lbfgs":
            arrays["pairs"] = pairs_array(self.pairs, n)
        return OptimiserState(
            arrays=arrays,
            values={
                "cost": self.cost,
                "factor": self.factor,
                "count": self.moments.count,
                "n_norms": len(self.norms),
                "n_pairs": len(self.pairs),
                "iteration": self.iteration,
                "evaluations": self.evaluations,
            },
        )

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes."""
        arrays, values = state.arrays, state.values
        if not np.all(arrays["square"] >= 0.0):
            raise InputError(
                "The saved squares of the gradient are negative. Restore the checkpoint from a "
                "copy, or train again."
            )
        self.weights, self.gradient = arrays["weights"].copy(), arrays["gradient"].copy()
        self.moments = AdamMoments(
            mean=arrays["mean"], square=arrays["square"], count=int(values["count"])
        )
        self.norms.clear()
        self.norms.extend(arrays["norms"][: int(values["n_norms"])].tolist())
        if "pairs" in arrays:
            self.pairs = restored_pairs(arrays["pairs"], int(values["n_pairs"]))
        self.cost, self.factor = float(values["cost"]), float(values["factor"])
        self.iteration, self.evaluations = int(values["iteration"]), int(values["evaluations"])
