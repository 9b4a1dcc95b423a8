"""The design variables of a model: the names and values of its active parameters, of the material
and of the parts that are attached to the body."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
# choices of the discretisation, on which a step does not depend smoothly
NUMERICAL = ("cell", "divisions", "dt", "order", "per_cell", "substeps")


def are_distinct_names(names: Any) -> bool:
    """Return whether `names` is a list of different strings."""
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
    )


def valid_names(names: Any) -> Collection[str]:
    """Return the names of design parameters, or none if `Design` refuses them."""
    return names if are_distinct_names(names) else ()


def refuse_parameters(names: Any, refused: Mapping[str, str]) -> None:
    """Raise `InputError` if one of the names of design parameters matches a pattern of `refused`,
    whose value is the reason."""
    for name in valid_names(names):
        for pattern, reason in refused.items():
            if re.fullmatch(pattern, name):
                raise InputError(f"The design parameter '{name}' {reason}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """The active design parameters of a model as one flat array.

    The name of a material parameter is "soft.E" (one value for a material) or "cells.density" (one
    value for each cell). `others` are all parameters that are not of the material, by name, such as
    "damping.mass".
    """

    body: AttachableBody
    names: Sequence[str] = ()
    others: Mapping[str, Param] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not are_distinct_names(self.names):
            raise InputError(
                f"The design parameters are {quoted(self.names)}. Pass a list of different names "
                "such as ['body.E']."
            )
        refuse_parameters(
            self.names,
            {
                "|".join(NUMERICAL): "is a choice of the discretisation, which has no derivative; "
                "remove it, and compare models with several values."
            },
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
        if name in self.others:
            return self.others[name]
        group, _, key = name.partition(".")
        known = [f"{g}.{k}" for g in (*self.body.material_cells, "cells") for k in self._bounds]
        if name not in known:
            raise InputError(
                f"There is no parameter '{name}'. This robot has "
                f"{', '.join([*known, *self.others])}."
            )
        lower, upper, unit = self._bounds[key]
        values = getattr(self.body.fields, key)
        value = values.copy() if group == "cells" else values[self.body.material_cells[group][:1]]
        return Param(name=name, value=value, unit=unit, lower=lower, upper=upper)

    @cached_property
    def material_names(self) -> tuple[str, ...]:
        """The active parameters of the material."""
        return tuple(name for name in self.names if name not in self.others)

    @cached_property
    def other_names(self) -> tuple[str, ...]:
        """The active parameters that are not of the material."""
        return tuple(name for name in self.names if name in self.others)

    @cached_property
    def is_other(self) -> Array:
        """Which entries (size,), bool, of a parameter vector are not of the material."""
        blocks = self.params.blocks
        return np.repeat(
            np.array([block.name in self.others for block in blocks], bool),
            [block.value.size for block in blocks],
        )

    def other_values(self, p: Array | None) -> dict[str, Array]:
        """Return the values of the active parameters that are not of the material, by name."""
        values = self.params.split(p)
        return {name: values[name] for name in self.other_names}

    def fields(self, p: Array | None) -> MaterialFields:
        """Return the material fields for a parameter vector p. None means the values of the
        body."""
        values = self.params.split(p)
        if p is None or not self.material_names:
            return self.body.fields
        fields = {key: getattr(self.body.fields, key).copy() for key in FIELDS}
        for name in self.material_names:
            value = values[name]
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
            if block.name not in self.others:
                group, _, key = block.name.partition(".")
                cells = slice(None) if group == "cells" else self.body.material_cells[group]
                fields[key][cells] += change[start : start + block.value.size]
            start += block.value.size
        return replace(self.body.fields, **fields)

    def fields_vjp(
        self, E: Array, nu: Array, density: Array, others: Mapping[str, Array] | None = None
    ) -> Array:
        """Return the transpose of `fields_jvp`: from derivatives by the fields to derivatives by
        the parameters. `others` are the derivatives by the active parameters that are not of the
        material (default: zero)."""
        by_field: dict[str, Array] = {"E": E, "nu": nu, "density": density}
        out: list[Any] = []
        for block in self.params.blocks:
            if block.name in self.others:
                out.append(np.zeros(block.value.size) if others is None else others[block.name])
                continue
            group, _, key = block.name.partition(".")
            values = by_field[key]
            out.append(
                values if group == "cells" else [values[self.body.material_cells[group]].sum()]
            )
        return np.concatenate(out) if out else np.zeros(0)
