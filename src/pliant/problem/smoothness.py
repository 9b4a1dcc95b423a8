"""Smoothness of fields: a cost of the differences between neighbouring cells or particles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.bodies.body import NeighbouringCells
from pliant.core import Array, Dynamics, InputError, nearest
from pliant.problem.terms import check_weight
from pliant.problem.variables import LOG_SCALED


@runtime_checkable
class ParameterTerm(Protocol):
    """A term of the parameters alone. It counts once, whatever the number of scenes."""

    def attach(self, model: Dynamics, steps: int) -> tuple[Any, ...]: ...  # ()
    def attach_parameters(self, model: Dynamics) -> "ParameterCost": ...


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldSmoothness:
    """The cost 1/2 weight sum of (f_i - f_j)^2 over all neighbouring cells or particles i and j.

    f is the logarithm of E and density, so that ratios count, and the value itself of others.

    Parameters
    ----------
    variable : a parameter with one value for each cell or particle, such as "cells.E"
    weight : finite, not negative

    Problem raises InputError if the model has no such parameter.

    >>> import pliant as pl
    >>> smooth = pl.problem.FieldSmoothness(variable="cells.E", weight=1e-3)
    """

    variable: str
    weight: float = 1.0

    @property
    def name(self) -> str:
        """Name of the term in messages."""
        return self.variable

    def attach(self, model: Dynamics, steps: int) -> tuple[Any, ...]:
        """Return nothing, because the term does not depend on the states."""
        return ()

    def attach_parameters(self, model: Dynamics) -> "ParameterCost":
        """Return the cost for a model."""
        name = f"The smoothness of '{self.variable}'"
        blocks = model.params.blocks
        names = [block.name for block in blocks]
        if self.variable not in names:
            raise InputError(
                f"{name} is about no parameter of the model; {nearest(self.variable, names)} Make "
                f"the model with design=['{self.variable}']."
            )
        index = names.index(self.variable)
        first = sum(block.value.size for block in blocks[:index])
        pairs = neighbours(name, model)
        size = blocks[index].value.size
        if not len(pairs) or pairs.max() >= size:
            raise InputError(
                f"{name} needs a value for each cell, but the parameter has {size}; name a field "
                "such as 'cells.E'."
            )
        return ParameterCost(
            first=first,
            size=size,
            pairs=pairs,
            weight=check_weight(name, self.weight),
            log=self.variable.endswith(LOG_SCALED),
        )


def neighbours(name: str, model: Dynamics) -> Array:
    """Return the pairs (k, 2) of neighbouring cells. Raises InputError without cells."""
    body = getattr(model, "body", None)
    if not isinstance(body, NeighbouringCells):
        raise InputError(f"{name} needs a model of a robot with cells or particles.")
    return body.rest_neighbours


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterCost:
    """The cost 1/2 weight sum of (f(p_i) - f(p_j))^2 over pairs of entries of a block."""

    first: int  # where the block starts in the parameters
    size: int
    pairs: Array  # (k, 2)
    weight: float
    log: bool

    @property
    def block(self) -> slice:
        """Where the block is in the parameters."""
        return slice(self.first, self.first + self.size)

    def residuals(self, p: Array) -> Array:
        """Return the weighted differences (k,)."""
        f = np.log(p[self.block]) if self.log else p[self.block]
        return np.sqrt(self.weight) * (f[self.pairs[:, 0]] - f[self.pairs[:, 1]])

    def value(self, p: Array) -> float:
        r = self.residuals(p)
        return 0.5 * float(r @ r)

    def gradient(self, p: Array) -> Array:
        """Return the derivative (n_params,) of the value."""
        out, r = np.zeros(len(p)), np.sqrt(self.weight) * self.residuals(p)
        add_at = _sum_at(self.size)
        out[self.block] = add_at(self.pairs[:, 0], r) - add_at(self.pairs[:, 1], r)
        return out / p_or_one(p, self.log)

    def jacobian(self, p: Array) -> Array:
        """Return the derivative (k, n_params) of the residuals."""
        out, rows = np.zeros((len(self.pairs), len(p))), np.arange(len(self.pairs))
        out[rows, self.first + self.pairs[:, 0]] = np.sqrt(self.weight)
        out[rows, self.first + self.pairs[:, 1]] = -np.sqrt(self.weight)
        return out / p_or_one(p, self.log)


def _sum_at(size: int) -> Callable[[Array, Array], Array]:
    return lambda index, values: np.bincount(index, weights=values, minlength=size)


def p_or_one(p: Array, log: bool) -> Array:
    """Return what the derivative of f is divided by."""
    return np.where(p != 0.0, p, 1.0) if log else np.ones(len(p))
