"""CMA-ES: an evolution strategy that needs no gradients [Hansen 2016, "The CMA Evolution
Strategy: A Tutorial"]."""

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import final

import numpy as np

from pliant.core import Array, InputError, is_integer, quoted, require_positive
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import FAILED_START, Iterate, Stopping
from pliant.optimisation.states import OptimiserState

RESAMPLES = 20  # of variables outside their bounds, before they are moved onto the bounds
SMALLEST = 0.1  # standard deviation at the end, relative to the square root of the tolerance


@final
@dataclass(frozen=True, kw_only=True)
class CMAES:
    """CMA-ES, for few variables without gradients.

    Parameters
    ----------
    deviation : first standard deviation of the variables
    population : variables in an iteration; None: 4 + 3 log(n)

    Variables outside the bounds are drawn again. Failed simulations rank last. The population is
    evaluated together if the objective has `values`, in parallel for example. Raises InputError for
    a deviation that is not positive or a population below 4.

    >>> from pliant.optimisation import CMAES
    >>> CMAES(population=12).deviation
    0.3
    """

    deviation: float = 0.3
    population: int | None = None

    def __post_init__(self) -> None:
        require_positive("The deviation of CMA-ES", self.deviation, "")
        size = self.population
        if size is not None and (not is_integer(size) or size < 4):
            raise InputError(
                f"The population of CMA-ES is {quoted(size)}; give a whole number, 4 or more."
            )

    @property
    def name(self) -> str:
        return "cmaes"

    @property
    def handles_constraints(self) -> bool:
        return False

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> "CmaesOptimiser":
        """Return the running method."""
        rates = AdaptationRates(n=evaluator.n, population=self.population)
        return CmaesOptimiser(
            method=self, evaluator=evaluator, stopping=stopping, seed=seed, rates=rates
        )


@dataclass(frozen=True, kw_only=True)
class AdaptationRates:
    """The constants of [Hansen 2016, table 1], with positive weights."""

    n: int
    population: int | None

    @property
    def size(self) -> int:
        return self.population or 4 + int(3.0 * log(self.n))

    def weights(self, count: int) -> Array:
        """Return the weights of the best ones of `count` successful samples."""
        raw = np.log(0.5 * (self.size + 1)) - np.log(np.arange(1, self.size // 2 + 1))
        raw = raw[:count]
        return raw / raw.sum()

    @cached_property
    def effective(self) -> float:
        return float(1.0 / np.sum(self.weights(self.size) ** 2))

    @property
    def path(self) -> float:
        """Learning rate of the path of the step size."""
        return (self.effective + 2.0) / (self.n + self.effective + 5.0)

    @property
    def damping(self) -> float:
        return 1.0 + 2.0 * max(0.0, sqrt((self.effective - 1.0) / (self.n + 1.0)) - 1.0) + self.path

    @property
    def covariance_path(self) -> float:
        n, mu = self.n, self.effective
        return (4.0 + mu / n) / (n + 4.0 + 2.0 * mu / n)

    @property
    def rank_one(self) -> float:
        return 2.0 / ((self.n + 1.3) ** 2 + self.effective)

    @property
    def rank_mu(self) -> float:
        mu = self.effective
        share = 2.0 * (mu - 2.0 + 1.0 / mu) / ((self.n + 2.0) ** 2 + mu)
        return min(1.0 - self.rank_one, max(share, 0.0))

    @property
    def norm(self) -> float:
        """The expected norm of a normal vector (n,)."""
        return sqrt(self.n) * (1.0 - 1.0 / (4.0 * self.n) + 1.0 / (21.0 * self.n**2))


@dataclass(kw_only=True, eq=False)
class CmaesOptimiser:
    """A running CMA-ES: the mean, the covariance and the paths."""

    method: CMAES
    evaluator: Evaluator
    stopping: Stopping
    seed: int
    rates: AdaptationRates
    iteration: int = 0
    deviation: float = 0.0

    def __post_init__(self) -> None:
        n = self.evaluator.n
        self.mean, self.covariance = self.evaluator.start, np.eye(n)
        self.path, self.covariance_path = np.zeros(n), np.zeros(n)
        self.deviation = self.method.deviation

    def first(self) -> Iterate:
        """Return the start."""
        found = self.evaluator.value(self.mean)
        if found.failed:
            return Iterate(z=self.mean, value=np.inf, failed=found.failed, finished=FAILED_START)
        return Iterate(z=self.mean, value=found.value)

    def iterate(self) -> Iterate:
        """Evaluate one population and return its best variables."""
        values, axes = np.linalg.eigh(self.covariance)
        lengths = np.sqrt(np.maximum(values, 1e-20 * values.max()))
        z = self._sample(axes * lengths)
        found = self.evaluator.values(z)
        self.iteration += 1
        order = [
            k
            for k in np.argsort([one.value for one in found], kind="stable")
            if not found[k].failed
        ]
        if not order:
            self.deviation *= 0.5
            finished = self._ending(float(lengths.max()))
            return Iterate(z=z[0], value=np.inf, failed=found[0].failed, finished=finished)
        self._adapt((z[order[: self.rates.size // 2]] - self.mean) / self.deviation, axes, lengths)
        finished = self._ending(float(lengths.max()))
        step = float(np.abs(self.deviation * lengths).max())
        best = order[0]
        return Iterate(
            z=z[best],
            value=found[best].value,
            step=step,
            finished=finished,
            converged=bool(finished),
        )

    def _ending(self, longest: float) -> str:
        small = self.deviation * longest < SMALLEST * sqrt(self.stopping.tolerance)
        return "the standard deviation of the variables is negligible" if small else ""

    def _sample(self, root: Array) -> Array:
        """Return normal variables (size, n) within the bounds, by their covariance's root."""
        random = np.random.default_rng([self.seed, self.iteration])
        lower, upper = self.evaluator.bounds
        shape = self.rates.size, len(self.mean)
        z = self.mean + self.deviation * random.normal(size=shape) @ root.T
        for _ in range(RESAMPLES):
            outside = np.any((z < lower) | (z > upper), axis=1)
            if not outside.any():
                break
            drawn = random.normal(size=(int(outside.sum()), shape[1]))
            z[outside] = self.mean + self.deviation * drawn @ root.T
        return self.evaluator.clip(z)

    def _adapt(self, y: Array, axes: Array, lengths: Array) -> None:
        """Update mean, paths, covariance and deviation from the best samples y (k, n), relative to
        the mean and the deviation [Hansen 2016, eq. 41 to 47]."""
        rates, n = self.rates, self.evaluator.n
        weights = rates.weights(len(y))
        average = weights @ y
        self.mean = self.evaluator.clip(self.mean + self.deviation * average)
        white = axes @ ((axes.T @ average) / lengths)
        c = rates.path
        self.path = (1.0 - c) * self.path + sqrt(c * (2.0 - c) * rates.effective) * white
        norm = float(np.linalg.norm(self.path))
        bias = sqrt(1.0 - (1.0 - c) ** (2 * self.iteration))
        moving = norm / bias < (1.4 + 2.0 / (n + 1.0)) * rates.norm
        c = rates.covariance_path
        self.covariance_path = (1.0 - c) * self.covariance_path
        if moving:
            self.covariance_path = self.covariance_path + (
                sqrt(c * (2.0 - c) * rates.effective) * average
            )
        lost = 0.0 if moving else c * (2.0 - c)
        one, mu = rates.rank_one, rates.rank_mu
        self.covariance = (
            (1.0 + one * lost - one - mu) * self.covariance
            + one * np.outer(self.covariance_path, self.covariance_path)
            + mu * (y.T * weights) @ y
        )
        self.deviation *= float(
            np.exp(min(1.0, rates.path / rates.damping * (norm / rates.norm - 1.0)))
        )

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        names = ("mean", "covariance", "path", "covariance_path")
        return OptimiserState(
            arrays={name: getattr(self, name) for name in names},
            values={"deviation": self.deviation, "iteration": self.iteration},
        )

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes."""
        for name, array in state.arrays.items():
            setattr(self, name, np.array(array))
        self.deviation = float(state.values["deviation"])
        self.iteration = int(state.values["iteration"])
