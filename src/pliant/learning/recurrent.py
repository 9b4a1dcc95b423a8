"""RecurrentNetwork: a neural network with memory as a controller, in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, Params, finite_array, require_seed
from pliant.learning.control_ranges import checked_range, control_range
from pliant.learning.controllers import check_count, check_observation, check_weights, weight_block
from pliant.learning.memory import AnyObserver
from pliant.learning.observers import ObserverDescription, attach_any
from pliant.problem import Limit


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecurrentNetwork:
    """A recurrent network: h' = tanh((y, h) W + b), and controls from tanh(h' C + d), scaled to
    their range. The memory h starts at zero.

    Parameters
    ----------
    n_inputs : size of the observation y
    lower, upper : range of the controls (n_controls,), finite
    n_memory : size of h
    seed : of the initial weights
    weights : initial weights (params.size,); None for random ones

    `RecurrentNetwork.for_model(model, observer)` takes sizes and range from a model.

    >>> import numpy as np
    >>> from pliant.learning import RecurrentNetwork
    >>> network = RecurrentNetwork(n_inputs=3, lower=[-1.0], upper=[1.0], n_memory=4)
    >>> u, memory = network.control_and_store(
    ...     np.ones(3), network.initial_memory, network.params.flat, time=0.0
    ... )
    >>> memory.shape
    (4,)
    """

    n_inputs: int
    lower: ArrayLike
    upper: ArrayLike
    n_memory: int = 16
    seed: int = 0
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_count("inputs", self.n_inputs, 0)
        check_count("stored numbers", self.n_memory, 1)
        require_seed(self.seed)
        lower, upper = checked_range("a recurrent network", self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        w = self._random_weights() if self.weights is None else self.weights
        name = "The array of weights of a recurrent network"
        object.__setattr__(self, "weights", np.array(finite_array(name, w, (self._n_weights,))))

    @classmethod
    def for_model(
        cls,
        model: Dynamics,
        observer: AnyObserver | ObserverDescription,
        *,
        n_memory: int = 16,
        seed: int = 0,
        limits: Sequence[Limit] = (),
        scale: ArrayLike | None = None,
    ) -> Self:
        """Return a network for a model and an observer. Its controls fill the actuator limits and
        `limits`; `scale` is needed for controls without limits."""
        lower, upper = control_range(model, limits=limits, scale=scale)
        n = attach_any(observer, model).size
        return cls(n_inputs=n, lower=lower, upper=upper, n_memory=n_memory, seed=seed)

    @property
    def n_controls(self) -> int:
        return np.size(self.lower)

    @property
    def initial_memory(self) -> Array:
        return np.zeros(self.n_memory)

    @property
    def _n_weights(self) -> int:
        h = self.n_memory
        return (self.n_inputs + h + 1) * h + (h + 1) * self.n_controls

    def _random_weights(self) -> Array:
        """Return normal weights of variance 1 / inputs, small ones for the controls, and zero
        biases, as for an MLP."""
        rng, w = np.random.default_rng(self.seed), np.zeros(self._n_weights)
        W, _, C, _ = self._split(w)
        W[:] = rng.standard_normal(W.shape) / np.sqrt(len(W))
        C[:] = 0.01 * rng.standard_normal(C.shape) / np.sqrt(len(C))
        return w

    def _split(self, w: Array) -> tuple[Array, Array, Array, Array]:
        """Return W, b, C and d as views of w."""
        h, n, m = self.n_memory, self.n_inputs + self.n_memory, self.n_controls
        W, b, C, d = np.split(w, np.cumsum([n * h, h, h * m]))
        return W.reshape(n, h), b, C.reshape(h, m), d

    @property
    def params(self) -> Params:
        assert self.weights is not None
        names = ("memory.weights", "memory.bias", "controls.weights", "controls.bias")
        parts = zip(names, self._split(self.weights), strict=True)
        return Params(blocks=tuple(weight_block(name, part) for name, part in parts))

    def with_weights(self, w: Array) -> Self:
        """Return the network with other weights (params.size,)."""
        return replace(self, weights=w)

    @property
    def _range(self) -> tuple[Array, Array]:
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        return 0.5 * (lower + upper), 0.5 * (upper - lower)

    def control_and_store(
        self, y: Array, memory: Array, w: Array, time: float
    ) -> tuple[Array, Array]:
        """Return the controls (n_controls,) and the next memory (n_memory,)."""
        check_weights(w, self._n_weights)
        check_observation(y, self.n_inputs)
        W, b, C, d = self._split(w)
        after = np.tanh(np.concatenate([y, memory]) @ W + b)
        middle, half = self._range
        return np.clip(middle + half * np.tanh(after @ C + d), self.lower, self.upper), after

    def memory_vjp(
        self, y: Array, memory: Array, w: Array, time: float, u_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients by the observation, the memory and the weights."""
        W, b, C, d = self._split(w)
        inputs = np.concatenate([y, memory])
        after = np.tanh(inputs @ W + b)
        z_bar = u_bar * self._range[1] * (1.0 - np.tanh(after @ C + d) ** 2)
        h_bar = (memory_bar + C @ z_bar) * (1.0 - after * after)
        by_w = [np.outer(inputs, h_bar).ravel(), h_bar, np.outer(after, z_bar).ravel(), z_bar]
        y_bar, back = np.split(W @ h_bar, [self.n_inputs])
        return y_bar, back, np.concatenate(by_w)
