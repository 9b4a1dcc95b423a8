"""Exact evaluations of an expensive map f: R^d -> R^N."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, PliantError, counted


class SampleError(PliantError, RuntimeError):
    """A missing value of the exact map. The text says where and why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """The value and slope of f at a point. If f failed they are empty and `failed` is the reason.
    `note` is an optional remark of f."""

    point: Array  # (d,)
    value: Array  # (N,)
    slope: Array  # (N, d)
    note: str = ""
    failed: str = ""


ExactMap = Callable[[Array, Sample | None], tuple[Array, Array] | tuple[Array, Array, str]]
"""An expensive map: f(x, near) returns (value (N,), slope (N, d)), optionally with a note.
`near` is the nearest known sample, for a warm start."""


def evaluate(f: ExactMap, x: Array, near: Sample | None) -> Sample:
    """Evaluate f at a point. An exception of f or a value that is not finite makes a failed sample.
    Raises InputError if f returns a wrong type or shape."""
    try:
        found = f(x, near)
    except NotImplementedError:
        raise
    except (ArithmeticError, ValueError, RuntimeError) as error:
        return _failure(x, str(error) or type(error).__name__)
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise InputError(
            f"The map returns a {type(found).__name__}. Return the pair (value (N,), slope "
            f"(N, {x.size}))."
        )
    value, slope = (np.ascontiguousarray(part, float) for part in found[:2])
    if value.ndim != 1 or slope.shape != (value.size, x.size):
        raise InputError(
            f"The map returns a value of shape {value.shape} and a slope of shape {slope.shape} at "
            f"a point of {counted(x.size, 'number')}. Return (N,) and (N, {x.size})."
        )
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(slope))):
        return _failure(x, "its value or slope is not finite")
    return Sample(
        point=x.copy(), value=value, slope=slope, note=str(found[2]) if len(found) == 3 else ""
    )


def _failure(x: Array, why: str) -> Sample:
    return Sample(point=x.copy(), value=np.zeros(0), slope=np.zeros((0, x.size)), failed=why)
