"""Adam and stochastic gradient descent with bounds, on all samples or on subsets of them."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pliant.core import InputError, is_integer, quoted, require_number, require_positive
from pliant.optimisation.descent_optimiser import DescentOptimiser, Momentum
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import Stopping
from pliant.optimisation.rates import RateSchedule, check_schedule
from pliant.planners.adam import AdamMoments
from pliant.planners.gradient_planner import PATIENCE


@final
@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam [Kingma and Ba 2015] with bounds: robust, for many variables and noisy gradients.

    Parameters
    ----------
    rate : largest change of a variable in a step
    schedule : function iteration -> factor on the rate, such as CosineRate(iterations=100)
    clip : largest norm of a gradient, relative to the median norm of the last 20 ones
    patience : number of iterations without improvement after which Adam starts again from the best
        variables, with half the rate. Small ones for objectives with useless gradients in places,
        such as those of long contacts. Not used with batches.
    batch_size : number of samples in a step; None: all. An iteration is then an epoch: every sample
        once, in an order that the seed shuffles, and the value of all samples at its end.

    A step into a failed simulation is taken back and the rate is halved. Raises InputError for
    values outside these ranges.

    >>> from pliant.optimisation import Adam
    >>> Adam(rate=0.02).rate
    0.02
    """

    rate: float = 0.05
    schedule: RateSchedule | None = None
    clip: float = 5.0
    patience: int = PATIENCE
    batch_size: int | None = None

    def __post_init__(self) -> None:
        _check_settings("Adam", self)

    @property
    def name(self) -> str:
        return "adam"

    @property
    def handles_constraints(self) -> bool:
        return False

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> DescentOptimiser:
        """Return the running method."""
        memory = AdamMoments.zero((evaluator.n,))
        return DescentOptimiser(
            method=self, evaluator=evaluator, stopping=stopping, seed=seed, memory=memory
        )


@final
@dataclass(frozen=True, kw_only=True)
class SGD:
    """Gradient descent with momentum and bounds, on subsets of the samples.

    Parameters
    ----------
    rate : norm of the change of the variables by the first gradient, also after a new start from
        the best variables so far; later ones in proportion
    momentum : share of the last step that is repeated, from 0 to below 1
    schedule, clip, patience, batch_size : as in Adam

    >>> from pliant.optimisation import SGD
    >>> SGD(batch_size=1).momentum
    0.9
    """

    rate: float = 0.02
    momentum: float = 0.9
    schedule: RateSchedule | None = None
    clip: float = 5.0
    patience: int = PATIENCE
    batch_size: int | None = None

    def __post_init__(self) -> None:
        _check_settings("SGD", self)
        if not 0.0 <= require_number("The momentum of SGD", self.momentum, "") < 1.0:
            raise InputError(
                f"The momentum of SGD is {self.momentum:g}; give one from 0 to below 1."
            )

    @property
    def name(self) -> str:
        return "sgd"

    @property
    def handles_constraints(self) -> bool:
        return False

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> DescentOptimiser:
        """Return the running method."""
        memory = Momentum(velocity=np.zeros(evaluator.n), decay=self.momentum)
        return DescentOptimiser(
            method=self, evaluator=evaluator, stopping=stopping, seed=seed, memory=memory
        )


def _check_settings(name: str, method: Adam | SGD) -> None:
    require_positive(f"The rate of {name}", method.rate, "")
    require_positive(f"The clip of {name}", method.clip, "")
    check_schedule(method.schedule)
    if not is_integer(method.patience) or method.patience < 1:
        raise InputError(
            f"The patience of {name} is {quoted(method.patience)}; give a whole number, 1 or more."
        )
    size = method.batch_size
    if size is not None and (not is_integer(size) or size < 1):
        raise InputError(
            f"The batch size of {name} is {quoted(size)}; give a whole number, 1 or more, or None "
            "for all samples."
        )
