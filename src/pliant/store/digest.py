"""Digests of values, equal if and only if the values are equal."""

import dataclasses
import hashlib
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import InputError

MAX_EXACT_INTEGER = 2**53  # every integer below it is a float without rounding


def digest(*values: Any) -> str:
    """Return 64 hexadecimal digits that are equal for equal values: numbers, text, arrays, frozen
    dataclasses, mappings, sequences, and functions with their closures.

    Only values count, not their containers: 0 equals 0.0, and a list equals a tuple or an array of
    the same numbers. Raises `InputError` for an object of another kind."""
    sha = hashlib.sha256()
    for value in values:
        _update(sha, value)
    return sha.hexdigest()


def digest_or_none(value: Any) -> str | None:
    """Return the digest of a value; None if it has none, such as an object of a user."""
    try:
        return digest(value)
    except (InputError, RecursionError):  # a function whose closure contains itself
        return None


def _update(sha: Any, value: Any) -> None:
    numbers = _numbers(value)
    if numbers is not None:
        sha.update(f"<{numbers.dtype.str}{numbers.shape}>".encode() + numbers.tobytes())
        return
    if isinstance(value, np.ndarray | np.generic):  # of text or objects
        value = value.tolist()
    sha.update(f"<{_kind(value)}>".encode())
    if value is None or isinstance(value, int | str | bytes):
        sha.update(repr(value).encode())
    elif sp.issparse(value):
        _update(
            sha,
            [
                value.shape,
                *(getattr(value.tocsr(), part) for part in ("indptr", "indices", "data")),
            ],
        )
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _update(
            sha, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        )
    elif isinstance(value, Mapping):
        sha.update(str(len(value)).encode())
        for key, item in value.items():  # the order matters: it is that of the controls
            _update(sha, [key, item])
    elif isinstance(value, list | tuple):
        sha.update(str(len(value)).encode())
        for part in value:
            _update(sha, part)
    elif isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        _update(sha, [value.__code__, value.__defaults__, value.__kwdefaults__, cells])
    elif isinstance(value, CodeType):
        _update(sha, [value.co_code, value.co_names, value.co_consts])
    elif isinstance(value, type) or callable(value):
        sha.update(
            f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(type(value)))}".encode()  # noqa: E501
        )
    else:
        raise InputError(
            f"A {type(value).__name__} has no digest, so results that depend on it cannot be "
            "stored. Omit the store, or describe the object by numbers and functions."
        )


def _kind(value: Any) -> str:
    """Return the name of a type; all mappings have one name, and so do all sequences."""
    if isinstance(value, Mapping):
        return "mapping"
    return "sequence" if isinstance(value, list | tuple) else type(value).__qualname__


def _numbers(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a number, or a regular sequence or array of numbers, as an array of Booleans, floats
    or complex numbers; integers too large for a float stay integers. None for anything else."""
    if isinstance(value, list | tuple):
        parts = [_numbers(part) for part in value]
        if len({None if part is None else (part.dtype.str, part.shape) for part in parts}) != 1:
            return None
        return None if parts[0] is None else np.stack(parts)  # type: ignore[arg-type]
    if not isinstance(value, bool | int | float | complex | np.generic | np.ndarray):
        return None
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "c":
        return array.astype("<c16") + 0.0  # -0.0 becomes 0.0
    if array.dtype.kind not in "iuf":
        return None
    if array.dtype.kind == "f" or not (np.abs(array.astype("<f8")) >= MAX_EXACT_INTEGER).any():
        return array.astype("<f8") + 0.0
    return array.astype(array.dtype.newbyteorder("<"))
