"""The design variables of a body: the names and values of its active material parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pliant.bodies import AttachableBody, MaterialFields
from pliant.bodies.body import DesignBody, require_protocol
from pliant.core import (
    Array,
    InputError,
    Param,
    Params,
    quoted,
)

FIELDS = ("E", "nu", "density")


def are_distinct_names(names: Any) -> bool:
    """Return whether `names` is a list of different strings."""
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """The active design parameters of a body as one flat array.

    A name is "soft.E" (one value for a material) or "cells.density" (one value for each cell).
    """

    body: AttachableBody
    names: Sequence[str] = ()
    model_parameters: Sequence[str] = ()  # names of the model's own parameters, for messages

    def __post_init__(self) -> None:
        if not are_distinct_names(self.names):
            raise InputError(
                f"The design parameters are {quoted(self.names)}. Pass a list of different names "
                "such as ['body.E']."
            )
        self._check_overlap()
        self.params  # noqa: B018

    def _check_overlap(self) -> None:
        """Raise `InputError` if two names refer to the same values."""
        names = [name.partition(".") for name in self.names]
        for key in {key for _, _, key in names}:
            groups = [group for group, _, name in names if name == key]
            if "cells" in groups and len(groups) > 1:
                raise InputError(
                    f"The design names cells.{key} and "
                    f"{', '.join(set(groups) - {'cells'})}.{key}, which are the same values. "
                    "Name only one of them."
                )

    @cached_property
    def params(self) -> Params:
        """Return the parameter blocks, in the order of `names`."""
        return Params(blocks=tuple(self._param(name) for name in self.names))

    @property
    def _bounds(self) -> Mapping[str, tuple[float, float, str]]:
        body: DesignBody = require_protocol(self.body, DesignBody, "A design parameter")
        return body.bounds

    def _param(self, name: str) -> Param:
        group, _, key = name.partition(".")
        known = [f"{g}.{k}" for g in (*self.body.material_cells, "cells") for k in self._bounds]
        if name not in known:
            raise InputError(
                f"There is no parameter '{name}'. This robot has "
                f"{', '.join([*known, *self.model_parameters])}."
            )
        lower, upper, unit = self._bounds[key]
        values = getattr(self.body.fields, key)
        value = values.copy() if group == "cells" else values[self.body.material_cells[group][:1]]
        return Param(name=name, value=value, unit=unit, lower=lower, upper=upper)

    def fields(self, p: Array | None) -> MaterialFields:
        """Return the material fields for a parameter vector p. None means the values of the
        body."""
        if p is None or not self.names:
            self.params.split(p)
            return self.body.fields
        fields = {key: getattr(self.body.fields, key).copy() for key in FIELDS}
        for name, value in self.params.split(p).items():
            group, _, key = name.partition(".")
            fields[key][slice(None) if group == "cells" else self.body.material_cells[group]] = (
                value
            )
        return replace(self.body.fields, **fields)

    def fields_jvp(self, change: Array) -> MaterialFields:
        """Return the change of the fields of each cell for a change of the parameter vector."""
        fields = {key: np.zeros(len(self.body.fields.E)) for key in FIELDS}
        start = 0
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            cells = slice(None) if group == "cells" else self.body.material_cells[group]
            fields[key][cells] += change[start : start + block.value.size]
            start += block.value.size
        return replace(self.body.fields, **fields)

    def fields_vjp(self, E: Array, nu: Array, density: Array) -> Array:
        """Return the transpose of `fields_jvp`: from derivatives by the fields to derivatives by
        the parameters."""
        by_field, out = {"E": E, "nu": nu, "density": density}, []
        for block in self.params.blocks:
            group, _, key = block.name.partition(".")
            values = by_field[key]
            out.append(
                values if group == "cells" else [values[self.body.material_cells[group]].sum()]
            )
        return np.concatenate(out) if out else np.zeros(0)
