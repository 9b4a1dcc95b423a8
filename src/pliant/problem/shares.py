"""Shares: how the rows of a variable make up its value. A knot has a share in the controls of the
steps near it, a group in each of its entries."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError, is_integer, quoted


def knot_shares(steps: int, knots: int | None) -> Array | None:
    """Return the share (steps, knots) of each knot in the controls of a step, for knots at equal
    distances in time; None for a knot in each step."""
    if knots is None:
        return None
    if not is_integer(knots) or not 2 <= knots <= steps:
        raise InputError(
            f"The controls have {quoted(knots)} knots in {steps} steps; give 2 or more, at most "
            "one for each step."
        )
    at = np.linspace(0.0, knots - 1.0, steps)
    return np.maximum(1.0 - np.abs(at[:, None] - np.arange(knots)), 0.0)


def group_shares(name: str, groups: Any, size: int) -> sp.csr_matrix:
    """Return the share (size, n_groups), 0 or 1, of each group in each entry of a parameter.

    Raises InputError for groups that are not one integer for each entry.
    """
    try:
        given = np.asarray(groups)
    except ValueError:  # rows of different lengths
        given = np.asarray(groups, object)
    if given.shape != (size,) or given.dtype.kind not in "iu":
        raise InputError(
            f"The groups of '{name}' have shape {given.shape} and type {given.dtype}, but the "
            f"parameter has {size} entries; give an integer for each of them."
        )
    found, columns = np.unique(given, return_inverse=True)
    return sp.csr_matrix(
        (np.ones(size), (np.arange(size), columns.ravel())), shape=(size, len(found))
    )


def group_means(shares: sp.csr_matrix, values: Array, *, log: bool) -> Array:
    """Return the mean of the entries of each group (n_groups,), the geometric mean with `log`."""
    entries = np.log(values) if log and np.all(values > 0.0) else values
    means = (shares.T @ entries) / np.asarray(shares.sum(axis=0)).ravel()
    return np.exp(means) if entries is not values else means
