"""Training of an AutoencoderObserver with PyTorch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from pliant.argument_checks import check_model
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    MissingExtra,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_positive,
    require_seed,
)
from pliant.dynamics.simulation import Rollout
from pliant.learning.autoencoder import AutoencoderObserver, weight_shapes
from pliant.learning.convolution import STRIDE
from pliant.learning.particle_grid import MARGIN, ParticleGrid
from pliant.progress import Progress, reporting


@final
@dataclass(frozen=True, kw_only=True)
class AutoencoderSettings:
    """Settings of an autoencoder and its training.

    Parameters
    ----------
    nodes : of the grid along its longest side
    channels : number of fields after each layer of the encoder; each halves the grid
    epochs : passes over all states
    batch : states in a step of Adam
    rate : of Adam
    divergence : weight of the Kullback-Leibler divergence of the latent variables from normal ones,
        beside the mean square of the reconstruction error, relative to the variance of the fields
    """

    nodes: int = 16
    channels: Sequence[int] = (8, 16)
    epochs: int = 100
    batch: int = 32
    rate: float = 1e-2
    divergence: float = 1e-3

    def __post_init__(self) -> None:
        advice = "give a list of numbers, such as (8, 16)"
        require_kind("The channels of an autoencoder", self.channels, (list, tuple), advice)
        least = {"epochs": 1, "batch": 1, "nodes": int(2 * MARGIN) + 2}
        for name, lowest in least.items():
            value = getattr(self, name)
            if not is_integer(value) or value < lowest:
                raise InputError(
                    f"The number of {name} of an autoencoder is {quoted(value)}; give a whole "
                    f"number, {lowest} or more."
                )
        require_positive("The rate of an autoencoder", self.rate, "")
        require_positive("The weight of the divergence", self.divergence, "")
        if not self.channels or self.nodes % STRIDE ** len(self.channels):
            raise InputError(
                f"The grid of an autoencoder has {self.nodes} nodes along its longest side, which "
                f"{len(self.channels)} layers cannot halve; give a multiple of "
                f"{STRIDE ** max(len(self.channels), 1)} and at least one layer."
            )


DEFAULTS = AutoencoderSettings()


def train_autoencoder(
    model: Dynamics,
    rollouts: "Rollout | Array | Sequence[Rollout | Array]",
    *,
    latent: int = 8,
    settings: AutoencoderSettings = DEFAULTS,
    seed: int = 0,
    start: AutoencoderObserver | None = None,
    progress: Progress | bool | None = None,
) -> AutoencoderObserver:
    """Train a convolutional variational autoencoder on states of a model; return its observer.

    Parameters
    ----------
    model : a model whose state holds nodes or particles with velocities
    rollouts : results of `simulate`, or arrays of states (k, n_state); one or several
    latent : size of the observation
    settings : of the network and its training
    seed : of the first weights, the order of the states and the noise
    start : an autoencoder to train further; its grid, channels and latent size are kept
    progress : None shows progress after two seconds, False is silent

    Equal seeds give equal weights. Ctrl-C ends the training after the last epoch. Raises
    InputError for invalid arguments, and MissingExtra without PyTorch.

    >>> import numpy as np, pliant as pl
    >>> points = np.random.default_rng(0).standard_normal((40, 2))
    >>> swarm = pl.ImplicitEuler(pl.Robot(shape=pl.PointMass(points=points)), dt=0.1)
    >>> states = np.random.default_rng(1).standard_normal((20, swarm.space.size))
    >>> quick = pl.learning.AutoencoderSettings(nodes=8, epochs=2)
    >>> seen = pl.learning.train_autoencoder(swarm, states, latent=3, settings=quick)
    >>> seen.attach(swarm).observe(states[0]).shape
    (3,)
    """
    torch = _torch()
    check_model(model)
    advice = "make one with AutoencoderSettings(...)"
    require_kind("The settings of an autoencoder", settings, AutoencoderSettings, advice)
    states = _states(model, rollouts)
    first = _first(model, states, latent, settings, require_seed(seed)) if start is None else start
    require_kind("The first autoencoder", first, AutoencoderObserver, "give one of a training")
    fields = _fields(first, model, states)
    with reporting(progress) as report, _one_thread(torch):
        return _Training(torch, first, fields, settings, seed).run(report)


def reconstruction_error(autoencoder: AutoencoderObserver, model: Dynamics, rollouts: Any) -> float:
    """Return the mean square of the reconstruction error of states, relative to the variance of
    their fields. 1 means that the mean over all states is as good. Raises MissingExtra without
    PyTorch."""
    torch, fields = _torch(), _fields(autoencoder, model, _states(model, rollouts))
    with _one_thread(torch):
        return _Training(torch, autoencoder, fields, DEFAULTS, 0).error()


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            "The training of an autoencoder needs PyTorch: pip install 'pliant[learn]'."
        ) from error
    return torch


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Use one thread of PyTorch, whose sums depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _states(model: Dynamics, rollouts: Any) -> Array:
    """Return all states (k, n_state) of rollouts. Raises InputError for fewer than two."""
    several = rollouts if isinstance(rollouts, list | tuple) else [rollouts]
    n, found = model.space.size, []
    for one in several:
        states = one.states if isinstance(one, Rollout) else one
        width = np.shape(states)[-1] if np.ndim(states) == 2 else n
        if width != n:
            raise InputError(
                f"The states of a rollout have {width} numbers, but those of the model {n}. Give "
                "rollouts of this model; loop.model_rollout(rollout) returns that of a closed loop."
            )
        found.append(finite_array("The states of a rollout", states, (None, n)))
    if sum(map(len, found)) < 2:
        raise InputError("There are fewer than 2 states to train an autoencoder; simulate more.")
    return np.concatenate(found)


def _fields(autoencoder: AutoencoderObserver, model: Dynamics, states: Array) -> Array:
    """Return the fields (k, channels, *shape) of states, as the network sees them."""
    attached = autoencoder.attach(model)
    return np.array([attached.inputs(x) for x in states])


def _first(
    model: Dynamics, states: Array, latent: int, settings: AutoencoderSettings, seed: int
) -> AutoencoderObserver:
    """Return an autoencoder with random weights."""
    multiple = STRIDE ** len(settings.channels)
    grid = ParticleGrid.around(model, states, settings.nodes, multiple)
    rng, weights = np.random.default_rng(seed), {}
    for name, shape in weight_shapes(grid, settings.channels, latent).items():
        inputs = shape[0] if name.startswith("decoder") else np.prod(shape[1:])
        random = rng.standard_normal(shape) / np.sqrt(max(float(inputs), 1.0))
        weights[name] = np.zeros(shape) if name.endswith("bias") else random
    attached = grid.attach(model)
    fields = np.array([attached.fields(x) for x in states])
    weights["fields.mean"] = fields.mean(axis=0)
    weights["fields.scale"] = np.array(np.std(fields - fields.mean(axis=0)) or 1.0)
    return AutoencoderObserver(
        grid=grid, channels=tuple(settings.channels), latent=latent, weights=weights
    )


class _Training:
    """Adam on the weights of an autoencoder, in float32."""

    def __init__(
        self,
        torch: Any,
        first: AutoencoderObserver,
        fields: Array,
        settings: AutoencoderSettings,
        seed: int,
    ) -> None:
        self.torch, self.first, self.settings = torch, first, settings
        self.rng = np.random.default_rng([seed, 1])  # not those of the first weights
        self.fields = torch.tensor(fields, dtype=torch.float32)
        self.variance = float(np.mean((fields - fields.mean(axis=0)) ** 2)) or 1.0
        self.weights = {
            name: torch.tensor(value, dtype=torch.float32, requires_grad=True)
            for name, value in first.weights.items()
            if not name.startswith("fields.")
        }
        dim = len(first.grid.shape)
        self.convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[dim - 1]
        self.expand = (
            torch.conv_transpose1d,
            torch.conv_transpose2d,
            torch.conv_transpose3d,
        )[dim - 1]

    def encode(self, fields: Any) -> tuple[Any, Any]:
        """Return mean and logarithm of the variance (b, latent) of the latent variables."""
        w, a = self.weights, fields
        for k in range(len(self.first.channels)):
            z = self.convolve(
                a, w[f"encoder{k}.kernel"], w[f"encoder{k}.bias"], stride=STRIDE, padding=1
            )
            a = z * self.torch.sigmoid(z)
        flat = a.flatten(1)
        mean = flat @ w["mean.weights"].T + w["mean.bias"]
        return mean, flat @ w["log-variance.weights"].T + w["log-variance.bias"]

    def decode(self, latent: Any) -> Any:
        """Return fields (b, channels, *shape) of latent variables (b, latent)."""
        w, n_layers = self.weights, len(self.first.channels)
        z = latent @ w["expansion.weights"].T + w["expansion.bias"]
        small = [n // STRIDE**n_layers for n in self.first.grid.shape]
        z = z.reshape(-1, self.first.channels[-1], *small)
        for k in range(n_layers):
            z = self.expand(
                z * self.torch.sigmoid(z),
                w[f"decoder{k}.kernel"],
                w[f"decoder{k}.bias"],
                stride=STRIDE,
                padding=1,
                output_padding=1,
            )
        return z

    def error(self) -> float:
        """Return the reconstruction error relative to the variance, without noise."""
        total = 0.0
        with self.torch.no_grad():
            for part in self.fields.split(256):  # bounds the memory
                square = (self.decode(self.encode(part)[0]) - part) ** 2
                total += float(square.mean(dim=tuple(range(1, square.ndim))).sum())
        return total / len(self.fields) / self.variance

    def loss(self, part: Any) -> Any:
        mean, log_variance = self.encode(part)
        noise = self.rng.standard_normal(tuple(mean.shape)).astype(np.float32)
        sample = mean + self.torch.exp(0.5 * log_variance) * self.torch.from_numpy(noise)
        square = ((self.decode(sample) - part) ** 2).mean() / self.variance
        divergence = 0.5 * (mean**2 + self.torch.exp(log_variance) - log_variance - 1.0).mean()
        return square + self.settings.divergence * divergence

    def run(self, report: Progress) -> AutoencoderObserver:
        """Train, and return the autoencoder after the last whole epoch."""
        epochs = self.settings.epochs
        adam = self.torch.optim.Adam(list(self.weights.values()), lr=self.settings.rate)
        history = [self.error()]
        best = self.result(history)
        try:
            for k in range(epochs):
                report(f"training an autoencoder, error {history[-1]:.3g}", k, epochs)
                self.epoch(adam)
                history.append(self.error())
                best = self.result(history)
        except KeyboardInterrupt:
            return best
        return best

    def epoch(self, adam: Any) -> None:
        order = self.torch.from_numpy(self.rng.permutation(len(self.fields)))
        for part in order.split(self.settings.batch):
            adam.zero_grad()
            self.loss(self.fields[part]).backward()
            adam.step()

    def result(self, history: Sequence[float]) -> AutoencoderObserver:
        """Return the autoencoder with the weights now. Raises InputError if they are not finite."""
        if not np.isfinite(history[-1]):
            raise InputError(
                "The training of the autoencoder diverged; give a smaller rate, such as "
                f"{self.settings.rate / 10.0:g}."
            )
        arrays = {
            name: value.detach().numpy().astype(float) for name, value in self.weights.items()
        }
        arrays = {**self.first.weights, **arrays}
        return replace(self.first, weights=arrays, history=(*self.first.history, *history))
