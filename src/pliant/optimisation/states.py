"""The state of a running method, which is enough to continue it bit for bit."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from pliant.core import Array, InputError, finite_array, is_integer, quoted
from pliant.planners.gradient_planner import LBFGS_PAIRS
from pliant.store.digest import digest_or_none


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimiserState:
    """All that a running method needs to continue bit for bit."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    values: Mapping[str, int | float] = field(default_factory=dict)
    growing: tuple[str, ...] = ()  # arrays whose number of rows grows with the iterations


def check_state(found: OptimiserState, expected: OptimiserState, where: str, remedy: str) -> None:
    """Raise InputError unless a state has the arrays and values of another one, and finite
    numbers. `where` names it in errors; `remedy` says what to do, such as "train again"."""
    again = f"Restore the file from a copy, or {remedy}."
    for kind, have, want in (
        ("array", found.arrays, expected.arrays),
        ("value", found.values, expected.values),
    ):
        if set(have) != set(want):
            name = sorted(set(have) ^ set(want))[0]
            problem = "no" if name in want else "an unknown"
            raise InputError(
                f"{where} has {problem} {kind} {quoted(name)}, so it does not fit. "
                f"{remedy.capitalize()}, or give the same problem and method."
            )
    for name, array in expected.arrays.items():
        given = found.arrays[name]
        shape: tuple[int | None, ...] = array.shape
        if name in expected.growing:
            shape = (_row_count(found, expected), *array.shape[1:])
        if given.dtype != array.dtype:
            raise InputError(
                f"'{name}' in {where} has the type {given.dtype}, but {array.dtype} is needed. "
                f"{again}"
            )
        if given.dtype.kind == "f":
            finite_array(f"'{name}' in {where}", given, shape)
        elif given.shape != shape:
            raise InputError(
                f"'{name}' in {where} has shape {given.shape}, but {shape} is needed. {again}"
            )
    for name, value in expected.values.items():
        number = found.values[name]
        count = is_integer(value)
        if count:
            good = is_integer(number) and number >= 0
        else:
            good = is_integer(number) or (isinstance(number, float) and bool(np.isfinite(number)))
        if not good:
            raise InputError(
                f"'{name}' in {where} is {quoted(number)}, but a {'count' if count else 'number'} "
                f"is needed. {again}"
            )


def _row_count(found: OptimiserState, expected: OptimiserState) -> int:
    """Return the number of rows that all growing arrays have."""
    shapes = [np.shape(found.arrays[name]) for name in expected.growing]
    return min((shape[0] if shape else 0) for shape in shapes)


def plain_settings(method: Any) -> dict[str, Any]:
    """Return the fields of a method as JSON types: digests of those that are none."""
    names = [one.name for one in fields(method)] if is_dataclass(method) else []
    return {name: _plain(getattr(method, name)) for name in names}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return list(value) if isinstance(value, Sequence) else digest_or_none(value)


def pairs_array(pairs: Iterable[tuple[Array, Array]], n: int) -> Array:
    """Return the pairs of L-BFGS as one array (LBFGS_PAIRS, 2, n), zero where there is none."""
    made = np.zeros((LBFGS_PAIRS, 2, n))
    for k, pair in enumerate(pairs):
        made[k] = pair
    return made


def restored_pairs(array: Array, count: int) -> deque[tuple[Array, Array]]:
    """Return the first `count` pairs of `pairs_array`."""
    return deque([(s.copy(), y.copy()) for s, y in array[:count]], maxlen=LBFGS_PAIRS)
