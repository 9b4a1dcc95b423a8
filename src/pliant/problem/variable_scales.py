"""Scales and bounds of the variables of a problem."""

from typing import Any

import numpy as np

from pliant.core import Array, InputError, quoted
from pliant.problem.variables import CONTROLS, INITIAL, Variable, VariableBlock

ROUNDING = 1e-9  # of the values: a bound beyond the range by rounding errors is its end


def scaled_block(
    variable: Variable,
    *,
    n: int,
    first: Array,
    range_: tuple[Array, Array],
    ends: tuple[float, float] | None = None,
    typical: Array | None = None,
    log: bool = False,
    **parts: Any,
) -> VariableBlock:
    """Return a block with its scale and bounds. `range_` are the smallest and largest admissible
    values (n,), and `ends` are those of the parameter, which may be excluded themselves."""
    name, size = parts["name"], first.size
    shape = parts["shape"] if parts["kind"] == CONTROLS else (size,)
    lower = entries(name, variable.lower, shape, range_[0], "lower bound", True).ravel()
    upper = entries(name, variable.upper, shape, range_[1], "upper bound", True).ravel()
    _check_within(name, (lower, upper), range_, ends, float(np.abs(first).max(initial=0.0)))
    lower, upper = np.maximum(range_[0], lower), np.minimum(range_[1], upper)
    if np.any(lower > upper):
        k = int(np.argmax(lower > upper))
        raise InputError(
            f"The bounds of the variable '{name}' are {lower[k]:g} to {upper[k]:g}, which leaves "
            f"no value; the model allows {range_[0][k]:g} to {range_[1][k]:g}."
        )
    bad = np.flatnonzero(~((first >= lower) & (first <= upper)))
    if bad.size:
        k = int(bad[0])
        raise InputError(
            f"The variable '{name}' starts at {first[k]:g}, outside its bounds {lower[k]:g} to "
            f"{upper[k]:g}; give a start within them."
        )
    return VariableBlock(
        at=slice(n, n + size),
        first=first,
        lower=lower,
        upper=upper,
        log=log,
        scale=_scale(variable, name, shape, first, (lower, upper), typical),
        **parts,
    )


def _check_within(
    name: str,
    bounds: tuple[Array, Array],
    range_: tuple[Array, Array],
    ends: tuple[float, float] | None,
    size: float,
) -> None:
    """Raise InputError for a finite bound outside the range of the model. `size` is that of the
    first values."""
    low, high = range_
    if ends is not None:
        low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
    for what, bound in zip(("lower", "upper"), bounds, strict=True):
        slack = ROUNDING * np.maximum(np.abs(bound), size)
        bad = np.isfinite(bound) & ((bound < low - slack) | (bound > high + slack))
        if bad.any():
            k = int(np.argmax(bad))
            raise InputError(
                f"The {what} bound of the variable '{name}' is {bound[k]:g}, but the model allows "
                f"{low[k]:g} to {high[k]:g}; give a bound within this range, or none."
            )


def _scale(
    variable: Variable,
    name: str,
    shape: tuple[int, ...],
    first: Array,
    bounds: tuple[Array, Array],
    typical: Array | None,
) -> Array:
    """Return the scales (n,). The default is half the width of the bounds of controls, and of two
    bounds that the variable names; else the largest value, or 1."""
    if isinstance(variable.scale, str):
        if variable.scale != "log" or name.split("[")[0] == CONTROLS or name.startswith(INITIAL):
            raise InputError(
                f"The scale of the variable '{name}' is {quoted(variable.scale)}; give a number, "
                "or 'log' for a positive parameter."
            )
        return np.ones(first.size)
    if typical is None:
        typical = np.full(first.size, float(np.abs(first).max(initial=0.0)) or 1.0)
    half = 0.5 * (bounds[1] - bounds[0])
    named = variable.lower is not None and variable.upper is not None
    wanted = np.isfinite(half) & (half > 0.0) & (named or name.split("[")[0] == CONTROLS)
    chosen = np.where(wanted, half, typical)
    scale = entries(name, variable.scale, shape, chosen, "scale").ravel()
    if not np.all(scale > 0.0):
        raise InputError(f"The scale of the variable '{name}' must be positive everywhere.")
    return scale


def entries(
    name: str,
    value: Any,
    shape: tuple[int, ...],
    default: Array,
    what: str,
    infinite: bool = False,
) -> Array:
    """Return `value` as an array of a shape, from a number, the last axes or all entries."""
    if value is None:
        return np.array(default, float)
    try:
        if isinstance(value, str | bool):
            raise TypeError
        array = np.array(np.broadcast_to(np.asarray(value, float), shape))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The {what} of the variable '{name}' is {quoted(value)}; give a number, or numbers "
            f"of shape {shape}."
        ) from None
    if np.isnan(array).any() or not (infinite or np.isfinite(array).all()):
        raise InputError(f"The {what} of the variable '{name}' must be finite.")
    return array
