"""ClockedController: a controller that also sees sines of the time."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np

from pliant.core import Array, Controller, InputError, Params, require_kind, require_positive
from pliant.learning.controllers import check_count


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ClockedController:
    """A controller whose observation is followed by a clock: the sine and the cosine of a frequency
    and of its multiples.

    Feedback alone moves a robot only if it makes its rest unstable. With a clock even a random
    network gives a periodic motion, so training has a motion to start from.

    Parameters
    ----------
    controller : any controller without memory, such as an MLP. Its last 2 `harmonics` inputs are
        the clock.
    frequency : [Hz]
    harmonics : number of multiples of the frequency, 1 for the frequency alone

    >>> import numpy as np
    >>> from pliant.learning import MLP, ClockedController
    >>> network = MLP(n_inputs=4, lower=[0.0], upper=[1.0], output_gain=1.0)
    >>> gait = ClockedController(controller=network, frequency=2.0)
    >>> gait.n_inputs
    2
    >>> y, w = np.zeros(2), gait.params.flat
    >>> bool(np.isclose(gait.control(y, w, 0.1), gait.control(y, w, 0.6))[0])
    True
    """

    controller: Any
    frequency: float
    harmonics: int = 1

    def __post_init__(self) -> None:
        advice = "give one without memory, such as MLP(...)"
        require_kind("The controller with a clock", self.controller, Controller, advice)
        require_positive("The frequency of a clock", self.frequency, "Hz")
        check_count("harmonics of the clock", self.harmonics, 1)
        if self.n_inputs < 0:
            raise InputError(
                f"The controller has {self.controller.n_inputs} inputs, but the clock alone gives "
                f"{2 * self.harmonics}; give a controller with more inputs."
            )

    @property
    def n_inputs(self) -> int:
        """The size of the observation, without the clock."""
        return int(self.controller.n_inputs) - 2 * int(self.harmonics)

    @property
    def n_controls(self) -> int:
        return int(self.controller.n_controls)

    @property
    def params(self) -> Params:
        """The weights of the controller."""
        made: Params = self.controller.params
        return made

    def with_weights(self, w: Array) -> Self:
        """Return the controller with other weights (params.size,)."""
        return replace(self, controller=self.controller.with_weights(w))

    def clock(self, time: float) -> Array:
        """Return the sines and cosines (2 harmonics,) at a time [s]."""
        angle = 2.0 * np.pi * self.frequency * time * np.arange(1, self.harmonics + 1)
        return np.concatenate([np.sin(angle), np.cos(angle)])

    def control(self, y: Array, w: Array, time: float) -> Array:
        """Return the controls (n_controls,) for an observation (n_inputs,) at a time [s]."""
        seen = np.concatenate([y, self.clock(time)])
        return np.asarray(self.controller.control(seen, w, time))

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of u_bar . u by the observation and by the weights."""
        seen = np.concatenate([y, self.clock(time)])
        y_bar, w_bar = self.controller.vjp(seen, w, time, u_bar)
        return y_bar[: self.n_inputs], w_bar
