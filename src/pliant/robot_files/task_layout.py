"""The layout of the section [task]: its types, and the keys of each."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

from pliant.contact import capsule, plane, sphere
from pliant.core import InputError, nearest
from pliant.problem import Effort, Goal, Limit, StrokeLimit, keep_out
from pliant.robot_files.identification_task import FieldTerm, StaticTestFiles, identification_task
from pliant.robot_files.layout import CONTROLS, constant_or_keyframes, pick_load
from pliant.robot_files.linked_task import LINKED_TASKS
from pliant.robot_files.section import (
    FILE_TYPES,
    Point,
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
from pliant.robot_files.section import Limit as Bound
from pliant.robot_files.task import TASKS as BASIC_TASKS
from pliant.robot_files.task import TargetPath, Task

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
FILES = list_of(FILE_TYPES[Path])
TEST = section_of(
    StaticTestFiles,
    files=FILES,
    load=chosen_section(pick_load) | None,
    point=Point | None,
    direction=Point | None,
)
TASKS: dict[str, Callable[..., Task]] = {**BASIC_TASKS, "identify": identification_task}
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
    "identify": {
        "variables": tuple[str, ...],
        "bounds": dict[str, tuple[Bound, Bound]] | None,
        "recordings": FILES,
        "held_out": FILES,
        "tests": list_of(TEST),
        "points": str | dict[str, Point] | None,
        "smoothness": list_of(section_of(FieldTerm)),
    },
}


def _task_section(kind: str, make: Callable[..., Any]) -> Any:
    """Return the type of a [task] table, which becomes a function of the robot."""
    types = {key: value for key, value in KEYS[kind].items() if key in signature(make).parameters}
    keys = {key: value for key, value in keys_of(make, **types).items() if key != "robot"}
    return section(keys, lambda **found: partial(make, **found))


def _task_of(tasks: Mapping[str, Callable[..., Any]]) -> Any:
    """Return the type of a [task] table whose key `type` names one of `tasks`."""
    sections = {kind: _task_section(kind, make) for kind, make in tasks.items()}

    def pick(table: dict[str, Any]) -> Any:
        kind = table.pop("type", "simulate")
        if not isinstance(kind, str) or kind not in TASKS:
            raise InputError(f"there is no type {preview(kind)}; {nearest(str(kind), sections)}")
        if kind not in sections:
            needs = "parameters of a soft robot" if kind == "identify" else "inverse control"
            raise InputError(
                f"a task of type {preview(kind)} needs {needs}, and works for soft robots only; "
                'give a linked robot type = "plan" with goals, or type = "simulate".'
            )
        return sections[kind]

    return chosen_section(pick)


TASK = _task_of(TASKS)
LINKED_TASK = _task_of(LINKED_TASKS)
