"""MLP: a neural network as a controller, in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Params,
    finite_array,
    nearest,
    quoted,
    require_kind,
    require_positive,
    require_seed,
)
from pliant.learning.control_ranges import checked_range, control_range
from pliant.learning.controllers import check_count, check_observation, check_weights, weight_block
from pliant.learning.memory import AnyObserver
from pliant.learning.observers import ObserverDescription, attach_any
from pliant.problem import Limit

ACTIVATIONS = ("tanh", "relu")
MAX_WEIGHTS = 10**7  # 80 MB, of which an optimiser keeps several copies


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MLP:
    """A multilayer perceptron. Its last layer ends in tanh, scaled to a range of controls.

    Parameters
    ----------
    n_inputs : size of the observation
    lower, upper : range of the controls (n_controls,), finite
    hidden : sizes of the hidden layers
    activation : "tanh" or "relu", of the hidden layers
    seed : of the initial weights
    output_gain : factor on the initial weights of the last layer. A small one starts with controls
        near the middle of their range.
    weights : initial weights (params.size,); None for random ones

    Layer i has the blocks "layer-i.weights", a matrix (inputs, outputs), and "layer-i.bias".
    `MLP.for_model(model, observer)` takes sizes and range from a model.
    """

    n_inputs: int
    lower: ArrayLike
    upper: ArrayLike
    hidden: Sequence[int] = (64, 64)
    activation: str = "tanh"
    seed: int = 0
    output_gain: float = 0.01
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_count("inputs", self.n_inputs, 1)
        advice = "give a list of sizes, such as (64, 64)"
        require_kind("The hidden layers of an MLP", self.hidden, (list, tuple), advice)
        for size in self.hidden:
            check_count("neurons of a layer", size, 1)
        if self.activation not in ACTIVATIONS:
            raise InputError(
                f"There is no activation '{self.activation}'; "
                f"{nearest(self.activation, ACTIVATIONS)}"
            )
        require_seed(self.seed)
        require_positive("The output gain of an MLP", self.output_gain, "")
        lower, upper = checked_range("an MLP", self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "weights", self._checked_weights())

    def _checked_weights(self) -> Array:
        count = self._n_weights
        if count > MAX_WEIGHTS:
            raise InputError(
                f"The layers {quoted(self.sizes)} of an MLP have {count:.3g} weights; give smaller "
                f"hidden layers, with at most {MAX_WEIGHTS:g} weights."
            )
        if self.weights is None:
            return self._random_weights()
        return np.array(finite_array("The array of weights of an MLP", self.weights, (count,)))

    @property
    def _n_weights(self) -> int:
        return sum((int(n) + 1) * int(m) for n, m in pairwise(self.sizes))

    @classmethod
    def for_model(
        cls,
        model: Dynamics,
        observer: AnyObserver | ObserverDescription,
        *,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        seed: int = 0,
        limits: Sequence[Limit] = (),
        scale: ArrayLike | None = None,
    ) -> Self:
        """Return a network for a model and an observer.

        Its controls fill the actuator limits and `limits`. `scale` is needed for controls without
        limits: their largest distance from the neutral control.
        """
        lower, upper = control_range(model, limits=limits, scale=scale)
        return cls(
            n_inputs=attach_any(observer, model).size,
            lower=lower,
            upper=upper,
            hidden=hidden,
            activation=activation,
            seed=seed,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all layers, from the inputs to the controls."""
        return (self.n_inputs, *self.hidden, self.n_controls)

    @property
    def n_controls(self) -> int:
        return np.size(self.lower)

    def _random_weights(self) -> Array:
        """Return normal weights of variance 1 / inputs (2 / inputs before relu) and zero biases."""
        rng, sizes = np.random.default_rng(self.seed), self.sizes
        out: list[Array] = []
        for n, m in pairwise(sizes):
            last = len(out) == 2 * len(self.hidden)
            variance = (2.0 if self.activation == "relu" and not last else 1.0) / n
            gain = np.sqrt(variance) * (self.output_gain if last else 1.0)
            out += [gain * rng.standard_normal(n * m), np.zeros(m)]
        return np.concatenate(out)

    @property
    def params(self) -> Params:
        assert self.weights is not None
        blocks = []
        for k, (W, b) in enumerate(self.layers(self.weights)):
            blocks += [weight_block(f"layer-{k + 1}.weights", W)]
            blocks += [weight_block(f"layer-{k + 1}.bias", b)]
        return Params(blocks=tuple(blocks))

    def with_weights(self, w: Array) -> Self:
        """Return the network with other weights (params.size,)."""
        return replace(self, weights=w)

    def layers(self, w: Array) -> list[tuple[Array, Array]]:
        """Return the matrix (inputs, outputs) and bias (outputs,) of each layer, as views of w."""
        out, start, sizes = [], 0, self.sizes
        for n, m in pairwise(sizes):
            end = start + n * m
            out.append((w[start:end].reshape(n, m), w[end : end + m]))
            start = end + m
        return out

    def control(self, y: Array, w: Array, time: float = 0.0) -> Array:
        """Return the controls (n_controls,) for an observation (n_inputs,)."""
        return self.control_many(np.asarray(y, float)[None], w, time)[0]

    def control_many(self, y: Array, w: Array, time: float = 0.0) -> Array:
        """Return the controls (b, n_controls) for observations (b, n_inputs)."""
        check_weights(w, self._n_weights)
        check_observation(y, self.n_inputs)
        a = y
        layers = self.layers(w)
        for k, (W, b) in enumerate(layers):
            # one product for each row, so that the bits do not depend on the number of rows
            z = np.matmul(a[:, None], W)[:, 0] + b
            a = np.tanh(z) if k + 1 == len(layers) else self._activate(z)
        middle, half = self._range
        return np.clip(middle + half * a, self.lower, self.upper)

    @property
    def _range(self) -> tuple[Array, Array]:
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        return 0.5 * (lower + upper), 0.5 * (upper - lower)

    def _activate(self, z: Array) -> Array:
        return np.tanh(z) if self.activation == "tanh" else np.maximum(z, 0.0)

    def _slope(self, a: Array) -> Array:
        """Return the derivative of the activation at its value a."""
        return 1.0 - a * a if self.activation == "tanh" else (a > 0.0).astype(float)

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of u_bar . u by the observation and by the weights."""
        y_bar, w_bar = self.vjp_many(np.asarray(y, float)[None], w, time, u_bar[None])
        return y_bar[0], w_bar

    def vjp_many(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of the sum of u_bar . u over the rows (b, n_controls): by the
        observations (b, n_inputs), and by the weights (params.size,)."""
        check_weights(w, self._n_weights)
        layers, values = self.layers(w), [np.asarray(y, float)]
        for W, b in layers[:-1]:
            values.append(self._activate(values[-1] @ W + b))
        W, b = layers[-1]
        out = np.tanh(values[-1] @ W + b)
        w_bar = np.zeros(np.size(w))
        bars = self.layers(w_bar)
        z_bar = u_bar * self._range[1] * (1.0 - out * out)
        for k in range(len(layers) - 1, -1, -1):
            bars[k][0][:] = values[k].T @ z_bar
            bars[k][1][:] = z_bar.sum(axis=0)
            a_bar = z_bar @ layers[k][0].T
            z_bar = a_bar * self._slope(values[k]) if k else a_bar
        return z_bar, w_bar
