"""Sample: one exact evaluation of a costly map f: R^d -> R^N."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, PliantError


class SampleError(PliantError, RuntimeError):
    """The costly map has no value where one was needed; the text says where and why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """f and its derivative at a point; empty where f failed, and then `failed` says why. `note` is
    what f says beside."""

    point: Array  # (d,)
    value: Array  # (N,)
    slope: Array  # (N, d)
    note: str = ""
    failed: str = ""


Exact = Callable[[Array, Sample | None], tuple[Array, Array] | tuple[Array, Array, str]]
"""A costly map: f(x, near) gives (value (N,), slope (N, d)) and perhaps a note;
`near` is the nearest sample known, for a warm start."""


def evaluate(f: Exact, x: Array, near: Sample | None) -> Sample:
    """f at a point as a Sample. What f raises, and a value that is not finite, is a failure of this
    point alone."""
    try:
        found = f(x, near)
    except NotImplementedError:
        raise
    except (ArithmeticError, ValueError, RuntimeError) as error:
        return _failure(x, str(error) or type(error).__name__)
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise InputError(
            f"The map gives a {type(found).__name__}; it must give the pair (value (N,), slope "
            f"(N, {x.size}))."
        )
    value, slope = (np.ascontiguousarray(part, float) for part in found[:2])
    if value.ndim != 1 or slope.shape != (value.size, x.size):
        raise InputError(
            f"The map gives a value of shape {value.shape} and a slope of shape {slope.shape} at "
            f"a point of {x.size} numbers; give (N,) and (N, {x.size})."
        )
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(slope))):
        return _failure(x, "its value or slope is not finite")
    return Sample(
        point=x.copy(), value=value, slope=slope, note=str(found[2]) if len(found) == 3 else ""
    )


def _failure(x: Array, why: str) -> Sample:
    return Sample(point=x.copy(), value=np.zeros(0), slope=np.zeros((0, x.size)), failed=why)
