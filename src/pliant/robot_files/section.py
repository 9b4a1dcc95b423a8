"""A section of a robot file: its keys and defaults are the parameters of what it becomes, so they
cannot disagree."""

import json
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from pathlib import Path, PureWindowsPath
from types import GenericAlias
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
    create_model,
    model_validator,
)

from pliant.core import Array, InputError, nearest

Make = Callable[..., Any]
Keys = dict[str, tuple[Any, Any]]  # name -> (type, default)


class Section(BaseModel):
    """A table of the file: known keys only, no text for a number, and no NaN or infinity unless its
    key allows them."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_nearest_key(cls, table: Any) -> Any:
        for key in table if isinstance(table, Mapping) else ():
            if key not in cls.model_fields:
                raise InputError(
                    f"there is no key '{key[:60]}' here; {nearest(key, cls.model_fields)}"
                )
        return table


def shown(value: Any) -> str:
    """The start of a value, much as the file has it."""
    return json.dumps(value, default=str)[:60]


# What a key may hold


def even_rows(rows: tuple[tuple[float, ...], ...]) -> Array:
    """(n, m) rows of one length."""
    width = len(rows[0]) if rows else 0
    for i, row in enumerate(rows):
        if len(row) != width:
            raise InputError(
                f"row {i} has {len(row)} numbers, but row 0 has {width}; give each row the same."
            )
    return np.array(rows, float).reshape(len(rows), width)


def beside(text: str, info: ValidationInfo) -> Path:
    """The path of a file in the robot file's folder (the validation context) or below it."""
    if "://" in text or "\0" in text or text.startswith("/") or PureWindowsPath(text).drive:
        raise InputError(
            f"'{text[:80]}' is not relative to this file; put that file beside it and name it only."
        )
    if ".." in PureWindowsPath(text).parts:
        raise InputError(f"'{text[:80]}' leaves the folder of this file; put that file beside it.")
    folder: Path = info.context or Path()
    return folder / text


Row = tuple[float, ...]
Point = Annotated[
    Row, Field(min_length=2, max_length=3), AfterValidator(lambda row: np.array(row, float))
]
Rows = Annotated[tuple[Row, ...], AfterValidator(even_rows)]


def table(given: Any) -> Any:
    """A row of numbers, or rows of one length."""
    rows = isinstance(given, tuple) and len(given) > 0 and isinstance(given[0], tuple)
    return TypeAdapter(
        Rows if rows else Row, config=ConfigDict(strict=True, allow_inf_nan=False)
    ).validate_python(given)


Table = Annotated[Any, PlainValidator(table)]
Limit = Annotated[float, AllowInfNan(True)]
IN_FILE: dict[Any, Any] = {  # a parameter's type in Python -> what the file holds for it
    ArrayLike: Point,
    ArrayLike | None: Point | None,
    Path: Annotated[str, AfterValidator(beside)],
    tuple[float, float]: tuple[Limit, Limit],
}


# From a class or function to its section


def keys_of(make: Make, **types: Any) -> Keys:
    """A key for every parameter; `types` replaces what the file holds for some."""
    return {
        name: (
            types.get(name, IN_FILE.get(p.annotation, p.annotation)),
            ... if p.default is Parameter.empty else p.default,
        )
        for name, p in signature(make, eval_str=True).parameters.items()
    }


def section(keys: Keys, make: Make) -> Any:
    """The type of a table with these keys that becomes make(**table)."""
    model = create_model(getattr(make, "__name__", "Section"), __base__=Section, **keys)  # type: ignore[call-overload]
    return Annotated[
        model, AfterValidator(lambda found: make(**{key: getattr(found, key) for key in keys}))
    ]


def made(make: Make, **types: Any) -> Any:
    """The type of a table that becomes make(**table)."""
    return section(keys_of(make, **types), make)


def wrapped(inner: Make, outer: Make, slot: str, *, leave: Iterable[str] = (), **types: Any) -> Any:
    """The type of a table that becomes outer(slot=inner(...), ...), the keys of both side by side
    but for `leave`; `types` as in keys_of of the inner."""
    own = keys_of(inner, **types)
    rest = {key: kind for key, kind in keys_of(outer).items() if key not in (slot, *own, *leave)}

    def make(**found: Any) -> Any:
        inside = inner(**{key: found[key] for key in own})
        return outer(**{slot: inside}, **{key: found[key] for key in rest})

    return section(own | rest, make)


def named(kind: Any) -> Any:
    """The type of a table of such tables, by name."""
    return GenericAlias(dict, (str, kind))


def listed(kind: Any) -> Any:
    """The type of a list of such tables."""
    return GenericAlias(tuple, (kind, ...))


def read_by(pick: Callable[[dict[str, Any]], Any]) -> Any:
    """The type of a table that is read by the type picked for it; `pick` may take keys out of the
    table."""

    def read(table: Any, info: ValidationInfo) -> Any:
        if not isinstance(table, dict):
            raise InputError(f"this is {shown(table)}; it must be a table of keys.")
        table = dict(table)
        kind = pick(table)
        return TypeAdapter(kind).validate_python(table, context=info.context)

    return Annotated[Any, PlainValidator(read)]


def one_of(tag: str, kinds: Mapping[str, Any]) -> Any:
    """The type of a table whose key `tag` names one of `kinds`."""

    def pick(table: dict[str, Any]) -> Any:
        if tag not in table:
            raise InputError(f"the key '{tag}' is missing; choose one of {', '.join(kinds)}.")
        name = table.pop(tag)
        if name not in list(kinds):
            raise InputError(f"there is no {tag} {shown(name)}; {nearest(name, kinds)}")
        return kinds[name]

    return read_by(pick)
