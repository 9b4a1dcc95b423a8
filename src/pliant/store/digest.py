"""A digest of anything that describes: equal for equal descriptions, another for another."""

import dataclasses
import hashlib
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import InputError


def digest(*things: Any) -> str:
    """64 hexadecimal digits of numbers, text, arrays, frozen dataclasses, mappings, sequences and
    functions with what they enclose."""
    made = hashlib.sha256()
    for thing in things:
        _feed(made, thing)
    return made.hexdigest()


def _feed(made: Any, thing: Any) -> None:
    made.update(f"<{type(thing).__qualname__}>".encode())
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
        made.update(repr(thing).encode())
    elif isinstance(thing, np.ndarray):
        made.update(
            f"{thing.dtype.str}{thing.shape}".encode() + np.ascontiguousarray(thing).tobytes()
        )
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
