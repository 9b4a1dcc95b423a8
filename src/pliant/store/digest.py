"""A digest of anything that describes: equal for equal descriptions, another for another."""

import dataclasses
import hashlib
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import InputError

LARGEST = 2**53  # below it, every integer is a float without rounding


def digest(*things: Any) -> str:
    """Return 64 hexadecimal digits that are equal for equal values: numbers, text, arrays, frozen
    dataclasses, mappings, sequences, and functions with their closures.

    Only values count, not their containers: 0 equals 0.0, and a list equals a tuple or an array of
    the same numbers. Raises `InputError` for an object of another kind."""
    made = hashlib.sha256()
    for thing in things:
        _feed(made, thing)
    return made.hexdigest()


def _feed(made: Any, thing: Any) -> None:
    numbers = _numbers(thing)
    if numbers is not None:
        made.update(f"<{numbers.dtype.str}{numbers.shape}>".encode() + numbers.tobytes())
        return
    if isinstance(thing, np.ndarray | np.generic):  # of text or objects
        thing = thing.tolist()
    made.update(f"<{_kind(thing)}>".encode())
    if thing is None or isinstance(thing, int | str | bytes):
        made.update(repr(thing).encode())
    elif sp.issparse(thing):
        _feed(
            made,
            [
                thing.shape,
                *(getattr(thing.tocsr(), part) for part in ("indptr", "indices", "data")),
            ],
        )
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        _feed(made, {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)})
    elif isinstance(thing, Mapping):
        made.update(str(len(thing)).encode())
        for key, value in thing.items():  # in their order, which is that of the controls
            _feed(made, [key, value])
    elif isinstance(thing, list | tuple):
        made.update(str(len(thing)).encode())
        for part in thing:
            _feed(made, part)
    elif isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        _feed(made, [thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells])
    elif isinstance(thing, CodeType):
        _feed(made, [thing.co_code, thing.co_names, thing.co_consts])
    elif isinstance(thing, type) or callable(thing):
        made.update(
            f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(type(thing)))}".encode()  # noqa: E501
        )
    else:
        raise InputError(
            f"A {type(thing).__name__} cannot be told from another of its kind, so that nothing "
            "can be kept under its name; leave out the store, or describe it by numbers and "
            "functions."
        )


def _kind(thing: Any) -> str:
    """Return the name of a type; all mappings have one name, and so do all sequences."""
    if isinstance(thing, Mapping):
        return "mapping"
    return "sequence" if isinstance(thing, list | tuple) else type(thing).__qualname__


def _numbers(thing: Any) -> np.ndarray[Any, Any] | None:
    """Return a number, or a regular sequence or array of numbers, as an array of Booleans, floats
    or complex numbers; integers too large for a float stay integers. None for anything else."""
    if isinstance(thing, list | tuple):
        parts = [_numbers(part) for part in thing]
        if len({None if part is None else (part.dtype.str, part.shape) for part in parts}) != 1:
            return None
        return None if parts[0] is None else np.stack(parts)  # type: ignore[arg-type]
    if not isinstance(thing, bool | int | float | complex | np.generic | np.ndarray):
        return None
    array = np.asarray(thing)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "c":
        return array.astype("<c16") + 0.0  # -0.0 becomes 0.0
    if array.dtype.kind not in "iuf":
        return None
    if array.dtype.kind == "f" or not (np.abs(array.astype("<f8")) >= LARGEST).any():
        return array.astype("<f8") + 0.0
    return array.astype(array.dtype.newbyteorder("<"))
