"""PhaseOscillators: coupled oscillators with feedback as a controller."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Params, finite_array, require_positive
from pliant.learning.controllers import check_count, check_observation, check_weights, weight_block

PARTS = ("amplitude", "frequency", "phase", "offset")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseOscillators:
    """A central pattern generator: one oscillator for each control, coupled and with feedback.

    u_j = offset_j + amplitude_j sin(phase_j + a_j), and in each step a_j grows by
    dt (2 pi frequency_j + coupling mean_k sin(a_k - a_j) + gains_j . y). The memory is a, zero at
    first. Without coupling and gains it is a `SineGait`.

    Parameters
    ----------
    n_controls : number of oscillators
    dt : time step [s] of the model
    amplitude, frequency [Hz], phase [rad], offset : numbers, or (n_controls,) each
    coupling : [1/s], pulls the phases towards each other
    gains : (n_controls, n_inputs) [rad/s per unit of the observation]; None for no feedback
    n_inputs : size of the observation, if `gains` is None

    >>> import numpy as np
    >>> from pliant.learning import PhaseOscillators
    >>> wave = PhaseOscillators(n_controls=2, dt=0.25, frequency=1.0, phase=(0.0, 0.5 * np.pi))
    >>> _, memory = wave.control_and_store(
    ...     np.zeros(0), wave.initial_memory, wave.params.flat, time=0.0
    ... )
    >>> (memory / np.pi).round(3)
    array([0.5, 0.5])
    """

    n_controls: int
    dt: float
    amplitude: ArrayLike = 1.0
    frequency: ArrayLike = 1.0  # [Hz]
    phase: ArrayLike = 0.0  # [rad]
    offset: ArrayLike = 0.0
    coupling: float = 0.0  # [1/s]
    gains: ArrayLike | None = None
    n_inputs: int = 0

    def __post_init__(self) -> None:
        check_count("controls", self.n_controls, 1)
        check_count("inputs", self.n_inputs, 0)
        require_positive("The time step of the oscillators", self.dt, "s")
        for name in PARTS:
            value = getattr(self, name)
            every = [value] * self.n_controls if np.ndim(value) == 0 else value
            array = finite_array(f"The {name} of the oscillators", every, (self.n_controls,))
            object.__setattr__(self, name, np.array(array))
        coupling = finite_array("The coupling of the oscillators", self.coupling, ())
        object.__setattr__(self, "coupling", float(coupling))
        gains = np.zeros((self.n_controls, self.n_inputs)) if self.gains is None else self.gains
        found = finite_array("The gains of the oscillators", gains, (self.n_controls, None))
        object.__setattr__(self, "gains", np.array(found))
        object.__setattr__(self, "n_inputs", found.shape[1])

    @property
    def initial_memory(self) -> Array:
        return np.zeros(self.n_controls)

    @property
    def params(self) -> Params:
        """The weights: amplitude, frequency, phase, offset, coupling and gains."""
        units = ("-", "Hz", "rad", "-", "1/s", "-")
        names = (*PARTS, "coupling", "gains")
        return Params(
            blocks=tuple(
                weight_block(name, getattr(self, name), unit)
                for name, unit in zip(names, units, strict=True)
            )
        )

    def with_weights(self, w: Array) -> Self:
        """Return the oscillators with other weights (params.size,)."""
        blocks: dict[str, Any] = self.params.split(w)
        blocks["coupling"] = float(blocks["coupling"][0])
        blocks["gains"] = blocks["gains"].reshape(self.n_controls, self.n_inputs)
        return replace(self, **blocks)

    def _split(self, w: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        n = self.n_controls
        amplitude, frequency, phase, offset = np.reshape(w[: 4 * n], (4, n))
        gains = np.reshape(w[4 * n + 1 :], (n, self.n_inputs))
        return amplitude, frequency, phase, offset, w[4 * n], gains

    def control_and_store(
        self, y: Array, memory: Array, w: Array, time: float
    ) -> tuple[Array, Array]:
        """Return the controls (n_controls,) and the next memory (n_controls,) [rad]."""
        check_weights(w, self.n_controls * (4 + self.n_inputs) + 1)
        check_observation(y, self.n_inputs)
        amplitude, frequency, phase, offset, coupling, gains = self._split(w)
        pull = np.sin(memory[None] - memory[:, None]).mean(axis=1)
        rate = 2.0 * np.pi * frequency + coupling * pull + gains @ y
        return offset + amplitude * np.sin(phase + memory), memory + self.dt * rate

    def memory_vjp(
        self, y: Array, memory: Array, w: Array, time: float, u_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients by the observation, the memory and the weights."""
        amplitude, _, phase, _, coupling, gains = self._split(w)
        apart, rate_bar = memory[None] - memory[:, None], self.dt * memory_bar
        angle_bar = u_bar * amplitude * np.cos(phase + memory)
        slope = coupling / self.n_controls * rate_bar[:, None] * np.cos(apart)
        by_memory = angle_bar + memory_bar + slope.sum(axis=0) - slope.sum(axis=1)
        by_w = [
            u_bar * np.sin(phase + memory),
            2.0 * np.pi * rate_bar,
            angle_bar,
            u_bar,
            [rate_bar @ np.sin(apart).mean(axis=1)],
            np.outer(rate_bar, y).ravel(),
        ]
        return gains.T @ rate_bar, by_memory, np.concatenate(by_w)
