"""ConvolutionalEncoder: a convolutional network in NumPy, with its vector-Jacobian product."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np

from pliant.core import Array

KERNEL = 3  # nodes along each axis of a kernel
STRIDE = 2  # a layer halves the grid


def halved(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a grid after a layer."""
    return tuple((n + 1) // STRIDE for n in shape)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ConvolutionalEncoder:
    """Layers of 3^dim kernels with stride 2 and the activation z sigmoid(z), and a linear layer to
    the latent variables."""

    kernels: Sequence[Array]  # of each layer, (outputs, inputs, 3, 3[, 3])
    biases: Sequence[Array]  # (outputs,)
    head: Array  # (latent, n)
    head_bias: Array  # (latent,)

    @property
    def size(self) -> int:
        return len(self.head)

    def encode(self, fields: Array) -> Array:
        """Return the latent variables (latent,) of fields (channels, *shape)."""
        return self.head @ self._layers(fields)[-1].ravel() + self.head_bias

    def _layers(self, fields: Array) -> list[Array]:
        """Return the fields, and the values before and after the activation of each layer."""
        out = [fields]
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            z = _convolve(out[-1], kernel) + bias.reshape(-1, *(1,) * (fields.ndim - 1))
            out += [z, z * _sigmoid(z)]
        return out

    def vjp(self, fields: Array, y_bar: Array) -> Array:
        """Return the gradient (channels, *shape) of y_bar . encode(fields)."""
        values = self._layers(fields)
        bar = (self.head.T @ y_bar).reshape(values[-1].shape)
        for k in range(len(self.kernels) - 1, -1, -1):
            z, before = values[2 * k + 1], values[2 * k]
            s = _sigmoid(z)
            bar = _convolve_vjp(before.shape, self.kernels[k], bar * s * (1.0 + z * (1.0 - s)))
        return bar


def _sigmoid(z: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * z))


def _windows(shape: Sequence[int], offset: Sequence[int]) -> tuple[slice, ...]:
    """Return the nodes of a padded grid that an entry of a kernel meets."""
    return tuple(
        slice(o, o + STRIDE * n, STRIDE) for o, n in zip(offset, halved(shape), strict=True)
    )


def _entry(kernel: Array, offset: Sequence[int]) -> Array:
    """Return one entry (outputs, inputs) of a kernel."""
    flat = np.ravel_multi_index(tuple(offset), kernel.shape[2:])
    return kernel.reshape(*kernel.shape[:2], -1)[:, :, flat]


def _convolve(fields: Array, kernel: Array) -> Array:
    """Return the correlation of fields (inputs, *shape) with a kernel, with zeros around them."""
    shape = fields.shape[1:]
    padded = np.pad(fields, [(0, 0), *[(1, 1)] * len(shape)])
    out = np.zeros((len(kernel), *halved(shape)))
    for offset in product(range(KERNEL), repeat=len(shape)):
        part = padded[:, *_windows(shape, offset)]
        out += np.tensordot(_entry(kernel, offset), part, axes=1)
    return out


def _convolve_vjp(shape: Sequence[int], kernel: Array, bar: Array) -> Array:
    """Return the gradient of bar . convolve(fields) by fields of a shape (inputs, *shape)."""
    padded = np.zeros((shape[0], *(n + 2 for n in shape[1:])))
    for offset in product(range(KERNEL), repeat=len(shape) - 1):
        padded[:, *_windows(shape[1:], offset)] += np.tensordot(
            _entry(kernel, offset).T, bar, axes=1
        )
    return padded[:, *(slice(1, -1),) * (len(shape) - 1)]
