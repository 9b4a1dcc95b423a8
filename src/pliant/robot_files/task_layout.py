"""The layout of the section [task]: its types, and the keys of each."""

from functools import partial
from typing import Annotated, Any

from pydantic import PlainValidator

from pliant.contact import capsule, plane, sphere
from pliant.core import InputError, nearest
from pliant.problem import Effort, Goal, Limit, StrokeLimit, keep_out
from pliant.robot_files.layout import CONTROLS, constant_or_keyframes
from pliant.robot_files.section import Limit as Bound
from pliant.robot_files.section import (
    Row,
    Rows,
    chosen_section,
    keys_of,
    list_of,
    merged_section,
    number_table,
    preview,
    section,
    section_of,
    tagged_section,
)
from pliant.robot_files.task import TASKS, TargetPath

TARGET = constant_or_keyframes(Annotated[Any, PlainValidator(number_table)])
Times = float | Row | None
Bounds = Bound | tuple[Bound, ...]
GOAL = section_of(Goal, target=TARGET, time=Times)
EFFORT = section_of(Effort, weight=float | Row, reference=float | Row)
LIMIT = section_of(Limit, lower=Bounds, upper=Bounds)
STROKE = section_of(StrokeLimit, lower=Bound, upper=Bound, time=Times)
KEEP_OUT = tagged_section(
    "shape",
    {zone.__name__: merged_section(zone, keep_out, "zone") for zone in (plane, sphere, capsule)},
)
PATH = section_of(TargetPath, times=Row, values=Rows)
KEYS: dict[str, dict[str, Any]] = {  # keys whose type in the file is not the signature's
    "simulate": {"controls": CONTROLS},
    "plan": {
        "goals": list_of(GOAL),
        "effort": list_of(EFFORT),
        "limits": list_of(LIMIT),
        "keep_out": list_of(KEEP_OUT),
        "strokes": list_of(STROKE),
    },
    "follow": {
        "paths": list_of(PATH),
        "limits": list_of(LIMIT),
        "strokes": list_of(STROKE),
        "fixed": dict[str, float] | None,
    },
}


def _task_section(kind: str) -> Any:
    """Return the type of a [task] table, which becomes a function of the robot."""
    make = TASKS[kind]
    keys = {key: value for key, value in keys_of(make, **KEYS[kind]).items() if key != "robot"}
    return section(keys, lambda **found: partial(make, **found))


SECTIONS = {kind: _task_section(kind) for kind in TASKS}


def _pick_task(table: dict[str, Any]) -> Any:
    kind = table.pop("type", "simulate")
    if not isinstance(kind, str) or kind not in SECTIONS:
        raise InputError(f"there is no type {preview(kind)}; {nearest(str(kind), SECTIONS)}")
    return SECTIONS[kind]


TASK = chosen_section(_pick_task)
