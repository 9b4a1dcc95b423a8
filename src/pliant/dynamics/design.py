"""The design variables of a body: which of its fields are active, under which names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pliant.bodies import Fields, Matter
from pliant.core import (
    Array,
    InputError,
    Param,
    Params,
    quoted,
)

FIELDS = ("E", "nu", "density")


def different_names(names: Any) -> bool:
    """Return whether `names` is a list of different strings."""
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Names such as "soft.E" (one number for a material) or "cells.density" (one for each cell),
    seen as one flat array."""

    body: Matter
    names: Sequence[str] = ()
    also: Sequence[str] = ()  # parameters of the model that are not the body's

    def __post_init__(self) -> None:
        if not different_names(self.names):
            raise InputError(
                f"The design parameters are {quoted(self.names)}; give a list of different names "
                "such as ['body.E']."
            )
        self._check_overlap()
        self.params  # noqa: B018

    def _check_overlap(self) -> None:
        """One field of one cell may be named once only, or its value and its derivative would
        part."""
        names = [name.partition(".") for name in self.names]
        for key in {key for _, _, key in names}:
            groups = [group for group, _, name in names if name == key]
            if "cells" in groups and len(groups) > 1:
                raise InputError(
                    f"The design names cells.{key} beside "
                    f"{', '.join(set(groups) - {'cells'})}.{key}, which are the same numbers; "
                    "name one of the two."
                )

    @cached_property
    def params(self) -> Params:
        return Params(blocks=tuple(self._param(name) for name in self.names))

    def _param(self, name: str) -> Param:
        group, _, key = name.partition(".")
        known = [f"{g}.{k}" for g in (*self.body.groups, "cells") for k in self.body.bounds]
        if name not in known:
            raise InputError(
                f"There is no parameter '{name}'; this robot has {', '.join([*known, *self.also])}."
            )
        lower, upper, unit = self.body.bounds[key]
        values = getattr(self.body.fields, key)
        value = values.copy() if group == "cells" else values[self.body.groups[group][:1]]
        return Param(name=name, value=value, unit=unit, lower=lower, upper=upper)

    def fields(self, p: Array | None) -> Fields:
        """The fields of each cell for a parameter vector (None: as described)."""
        if p is None or not self.names:
            self.params.split(p)
            return self.body.fields
        fields = {key: getattr(self.body.fields, key).copy() for key in FIELDS}
        for name, value in self.params.split(p).items():
            group, _, key = name.partition(".")
            fields[key][slice(None) if group == "cells" else self.body.groups[group]] = value
        return replace(self.body.fields, **fields)

    def spread(self, change: Array) -> Fields:
        """The change of each cell's fields for a change of the flat parameters."""
        fields = {key: np.zeros(len(self.body.fields.E)) for key in FIELDS}
        start = 0
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            cells = slice(None) if group == "cells" else self.body.groups[group]
            fields[key][cells] += change[start : start + block.value.size]
            start += block.value.size
        return replace(self.body.fields, **fields)

    def collect(self, E: Array, nu: Array, density: Array) -> Array:
        """The transpose of `spread`: from shares of each cell's fields to the flat parameters."""
        by_field, out = {"E": E, "nu": nu, "density": density}, []
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            values = by_field[key]
            out.append(values if group == "cells" else [values[self.body.groups[group]].sum()])
        return np.concatenate(out) if out else np.zeros(0)
