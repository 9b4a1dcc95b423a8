"""The domain of a surrogate: checks of lengths, boxes and queries."""

from typing import Any

import numpy as np

from pliant.core import Array, InputError, counted, finite_array, quoted
from pliant.surrogate.sample import SampleError

Domain = tuple[Array, Array]  # (lower, upper), (d,) each


def each_axis(name: str, value: Any, dim: int) -> Array:
    """Return finite numbers (dim,) from one for all axes or one for each."""
    return finite_array(name, [value] * dim if np.ndim(value) == 0 else value, (dim,))


def check_lengths(name: str, value: Any, dim: int) -> Array:
    """Return positive lengths (dim,) from one number or one per axis. Raises InputError
    otherwise."""
    lengths = each_axis(name, value, dim)
    if not np.all(lengths > 0.0):
        raise InputError(
            f"{name} is {lengths.min():g} along axis {int(np.argmin(lengths))}. Give a "
            "positive number."
        )
    return lengths


def check_domain(domain: Any, dim: int) -> Domain:
    """Return a box (lower, upper) as two arrays (dim,); None is unbounded. Raises InputError for
    an invalid box."""
    if domain is None:
        return np.full(dim, -np.inf), np.full(dim, np.inf)
    try:
        lower, upper = (
            np.array(np.broadcast_to(np.asarray(side, float), (dim,))) for side in domain
        )
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The domain is {quoted(domain)}. Give (lower, upper), each a number or {dim} of them."
        ) from None
    if not np.all(lower < upper):
        raise InputError(
            f"The domain goes from {lower} to {upper}. Give a lower bound below the upper "
            "one along every axis."
        )
    return lower, upper


def within(x: Array, domain: Domain) -> Array:
    """Return whether a point is inside the domain, for each axis (d,)."""
    return (x >= domain[0]) & (x <= domain[1]) & np.isfinite(x)


def check_query(x: Any, domain: Domain) -> Array:
    """Return a query (d,). Raises SampleError outside the domain, InputError for a wrong shape."""
    x = np.asarray(x, float)
    if x.shape != domain[0].shape:
        raise InputError(
            f"The query has shape {x.shape}. Give {counted(len(domain[0]), 'number')}."
        )
    inside = within(x, domain)
    if not inside.all():
        i = int(np.argmin(inside))
        raise SampleError(
            f"The query {np.array2string(x, precision=5)} lies outside the surrogate's domain: "
            f"axis {i} goes from {domain[0][i]:g} to {domain[1][i]:g}. Widen the domain, or keep "
            "the plan inside."
        )
    return x
