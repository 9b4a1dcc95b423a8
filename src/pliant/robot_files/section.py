"""Sections of a robot file as pydantic types. Keys and defaults of a section are the parameters of
the class or function that it becomes."""

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

from pliant.core import Array, InputError, counted, nearest

Make = Callable[..., Any]
Keys = dict[str, tuple[Any, Any]]  # name -> (type, default)


class FileSection(BaseModel):
    """A table of the file. It accepts known keys only, no text for numbers, and no NaN or infinity
    unless the type of a key allows them."""

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


def preview(value: Any) -> str:
    """Return the first 60 characters of a value as JSON."""
    return json.dumps(value, default=str)[:60]


# Types of values


def equal_rows(rows: tuple[tuple[float, ...], ...]) -> Array:
    """Return rows as an array (n, m). Raises `InputError` if they differ in length."""
    width = len(rows[0]) if rows else 0
    for i, row in enumerate(rows):
        if len(row) != width:
            raise InputError(
                f"row {i} has {counted(len(row), 'number')}, but row 0 has {width}; give rows of "
                "equal length."
            )
    return np.array(rows, float).reshape(len(rows), width)


def relative_path(text: str, info: ValidationInfo) -> Path:
    """Return the path of a file in the robot file's folder (the validation context) or below it.
    Raises `InputError` for other paths."""
    if "://" in text or "\0" in text or text.startswith("/") or PureWindowsPath(text).drive:
        raise InputError(
            f"'{text[:80]}' is not a relative path; put that file next to this one and give its "
            "name."
        )
    if ".." in PureWindowsPath(text).parts:
        raise InputError(
            f"'{text[:80]}' is outside the folder of this file; put that file next to this one."
        )
    folder: Path = info.context or Path()
    return folder / text


Row = tuple[float, ...]
Point = Annotated[
    Row, Field(min_length=2, max_length=3), AfterValidator(lambda row: np.array(row, float))
]
Rows = Annotated[tuple[Row, ...], AfterValidator(equal_rows)]


def number_table(given: Any) -> Any:
    """Return a row of numbers, or rows of equal length."""
    rows = isinstance(given, tuple) and len(given) > 0 and isinstance(given[0], tuple)
    return TypeAdapter(
        Rows if rows else Row, config=ConfigDict(strict=True, allow_inf_nan=False)
    ).validate_python(given)


Table = Annotated[Any, PlainValidator(number_table)]
Limit = Annotated[float, AllowInfNan(True)]
FILE_TYPES: dict[Any, Any] = {  # type of a parameter in Python -> type in the file
    ArrayLike: Point,
    ArrayLike | None: Point | None,
    Path: Annotated[str, AfterValidator(relative_path)],
    tuple[float, float]: tuple[Limit, Limit],
}


# Sections of classes and functions


def keys_of(make: Make, **types: Any) -> Keys:
    """Return a key for each parameter of `make`; `types` replaces the types of some keys."""
    return {
        name: (
            types.get(name, FILE_TYPES.get(p.annotation, p.annotation)),
            ... if p.default is Parameter.empty else p.default,
        )
        for name, p in signature(make, eval_str=True).parameters.items()
    }


def section(keys: Keys, make: Make) -> Any:
    """Return the type of a table with these keys, which becomes make(**table)."""
    model = create_model(getattr(make, "__name__", "Section"), __base__=FileSection, **keys)  # type: ignore[call-overload]
    return Annotated[
        model, AfterValidator(lambda found: make(**{key: getattr(found, key) for key in keys}))
    ]


def section_of(make: Make, **types: Any) -> Any:
    """Return the type of a table that becomes make(**table)."""
    return section(keys_of(make, **types), make)


def merged_section(
    inner: Make, outer: Make, slot: str, *, leave: Iterable[str] = (), **types: Any
) -> Any:
    """Return the type of a table that becomes outer(slot=inner(...), ...). It has the keys of both
    except `leave`; `types` replaces types of the keys of `inner`."""
    own = keys_of(inner, **types)
    rest = {key: kind for key, kind in keys_of(outer).items() if key not in (slot, *own, *leave)}

    def make(**found: Any) -> Any:
        inside = inner(**{key: found[key] for key in own})
        return outer(**{slot: inside}, **{key: found[key] for key in rest})

    return section(own | rest, make)


def tables_by_name(kind: Any) -> Any:
    """Return the type of a table of sections by name."""
    return GenericAlias(dict, (str, kind))


def list_of(kind: Any) -> Any:
    """Return the type of a list of sections."""
    return GenericAlias(tuple, (kind, ...))


def chosen_section(pick: Callable[[dict[str, Any]], Any]) -> Any:
    """Return the type of a table whose section is chosen by `pick(table)`, which may remove keys
    from the table."""

    def read(table: Any, info: ValidationInfo) -> Any:
        if not isinstance(table, dict):
            raise InputError(f"this is {preview(table)}; it must be a table of keys.")
        table = dict(table)
        kind = pick(table)
        return TypeAdapter(kind).validate_python(table, context=info.context)

    return Annotated[Any, PlainValidator(read)]


def tagged_section(tag: str, kinds: Mapping[str, Any]) -> Any:
    """Return the type of a table whose key `tag` names one of `kinds`."""

    def pick(table: dict[str, Any]) -> Any:
        if tag not in table:
            raise InputError(f"the key '{tag}' is missing; choose one of {', '.join(kinds)}.")
        name = table.pop(tag)
        if name not in list(kinds):
            raise InputError(f"there is no {tag} {preview(name)}; {nearest(name, kinds)}")
        return kinds[name]

    return chosen_section(pick)
