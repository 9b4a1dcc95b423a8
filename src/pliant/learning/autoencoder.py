"""AutoencoderObserver: the latent variables of a convolutional variational autoencoder over the
particle grid [Spielberg2021, section 4]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self, final

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)
from pliant.learning.convolution import KERNEL, STRIDE, ConvolutionalEncoder
from pliant.learning.particle_grid import AttachedGrid, ParticleGrid
from pliant.store.array_checkpoints import CheckpointKind, read_checkpoint, write_checkpoint

SAVED = CheckpointKind(
    noun="autoencoder", writer="AutoencoderObserver.save(...)", again="train the autoencoder again"
)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AutoencoderObserver:
    """The latent variables of a body's mass and momentum on a grid around its centre of mass.

    `train_autoencoder(model, rollouts)` makes it, from the states of simulations. It needs PyTorch
    for the training only. The observation does not depend on where the body is; stack it with
    CentroidObserver() to see that as well.

    Parameters
    ----------
    grid : the particle grid
    channels : number of fields after each layer of the encoder
    latent : size of the observation
    weights : the arrays of encoder and decoder by name
    history : the reconstruction error before training and after each epoch
    """

    grid: ParticleGrid
    channels: tuple[int, ...]
    latent: int
    weights: Mapping[str, Array] = field(repr=False)
    history: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require_kind("The grid of an autoencoder", self.grid, ParticleGrid, "give a ParticleGrid")
        shapes = weight_shapes(self.grid, self.channels, self.latent)
        if set(shapes) != set(self.weights):
            name = sorted(set(shapes) ^ set(self.weights))[0]
            raise InputError(
                f"The weights of an autoencoder have {'no' if name in shapes else 'an unknown'} "
                f"{quoted(name)}; give those of a training."
            )
        found = {
            name: np.array(finite_array(f"'{name}' of an autoencoder", self.weights[name], shape))
            for name, shape in shapes.items()
        }
        require_positive("The scale of the fields", float(found["fields.scale"]), "")
        object.__setattr__(self, "weights", found)

    @cached_property
    def encoder(self) -> ConvolutionalEncoder:
        """The network from the grid to the latent variables."""
        w, layers = self.weights, range(len(self.channels))
        return ConvolutionalEncoder(
            kernels=[w[f"encoder{k}.kernel"] for k in layers],
            biases=[w[f"encoder{k}.bias"] for k in layers],
            head=w["mean.weights"],
            head_bias=w["mean.bias"],
        )

    def attach(self, model: Dynamics) -> "AttachedAutoencoder":
        """Return the observer for a model. Raises InputError if the model has no nodes or
        particles, no velocity, or another dimension."""
        return AttachedAutoencoder(
            grid=self.grid.attach(model),
            encoder=self.encoder,
            middle=self.weights["fields.mean"],
            scale=float(self.weights["fields.scale"]),
        )

    def save(self, folder: str | Path) -> None:
        """Write autoencoder.json and the weights (safetensors) into a folder."""
        content = {
            "shape": list(self.grid.shape),
            "cell": self.grid.cell,
            "speed": self.grid.speed,
            "channels": list(self.channels),
            "latent": self.latent,
            "history": list(self.history),
        }
        write_checkpoint(SAVED, folder, content, self.weights)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the autoencoder that `save` wrote. Raises InputError if a file is missing or
        damaged."""
        file, content, arrays = read_checkpoint(SAVED, folder)
        try:
            grid = ParticleGrid(
                shape=tuple(content["shape"]), cell=content["cell"], speed=content["speed"]
            )
            history = finite_array("the history", content["history"], (None,))
            return cls(
                grid=grid,
                channels=tuple(content["channels"]),
                latent=content["latent"],
                weights=arrays,
                history=tuple(history.tolist()),
            )
        except KeyError as error:
            raise SAVED.damaged(file, f"it has no {quoted(error.args[0])}") from None
        except InputError as error:
            raise SAVED.damaged(file, str(error).rstrip(".")) from None
        except (TypeError, ValueError, OverflowError):
            raise SAVED.damaged(file, "an entry has the wrong type or size") from None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedAutoencoder:
    """The latent variables of a model's states. The network sees (fields - middle) / scale."""

    grid: AttachedGrid
    encoder: ConvolutionalEncoder
    middle: Array  # (n_channels, *shape)
    scale: float

    @property
    def size(self) -> int:
        return self.encoder.size

    def observe(self, x: Array) -> Array:
        """Return the latent variables (size,) of a state (n_state,)."""
        return self.encoder.encode(self.inputs(np.asarray(x, float)))

    def inputs(self, x: Array) -> Array:
        """Return what the network sees (n_channels, *shape) of a state (n_state,)."""
        return (self.grid.fields(x) - self.middle) / self.scale

    def vjp(self, x: Array, y_bar: Array) -> Array:
        """Return the gradient (n_state,) of y_bar . y."""
        x = np.asarray(x, float)
        return self.grid.vjp(x, self.encoder.vjp(self.inputs(x), y_bar) / self.scale)


def weight_shapes(
    grid: ParticleGrid, channels: Sequence[int], latent: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of encoder and decoder. Raises InputError for sizes that are
    not positive whole numbers, or a grid that the layers cannot halve."""
    for name, value in [
        ("latent variables", latent),
        *[("fields of a layer", c) for c in channels],
    ]:
        if not is_integer(value) or value < 1:
            raise InputError(
                f"The number of {name} of an autoencoder is {quoted(value)}; give a whole number, "
                "1 or more."
            )
    factor = STRIDE ** len(channels)
    if not channels or any(n % factor for n in grid.shape):
        raise InputError(
            f"The grid of an autoencoder has {quoted(grid.shape)} nodes, which "
            f"{len(channels)} layers cannot halve; give a multiple of {factor} along each axis."
        )
    dim, last = len(grid.shape), len(channels) - 1
    n = int(channels[-1] * np.prod([n // factor for n in grid.shape]))
    shapes: dict[str, tuple[int, ...]] = {
        "fields.mean": (grid.n_channels, *grid.shape),
        "fields.scale": (),
    }
    for k, (inputs, outputs) in enumerate(
        zip((grid.n_channels, *channels), channels, strict=False)
    ):
        shapes[f"encoder{k}.kernel"] = (outputs, inputs, *(KERNEL,) * dim)
        shapes[f"encoder{k}.bias"] = (outputs,)
        shapes[f"decoder{last - k}.kernel"] = (outputs, inputs, *(KERNEL,) * dim)
        shapes[f"decoder{last - k}.bias"] = (inputs,)
    for name in ("mean", "log-variance"):
        shapes |= {f"{name}.weights": (latent, n), f"{name}.bias": (latent,)}
    return shapes | {"expansion.weights": (n, latent), "expansion.bias": (n,)}
