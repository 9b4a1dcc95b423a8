"""Robot files: a robot, and with [task] what it does, as TOML in SI units;
docs/guide/robot-files.md has every key."""

import os
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from pliant.actuators import liquid_of
from pliant.bodies import Body
from pliant.core import InputError
from pliant.geometry import Surface
from pliant.geometry.lattice import check_divisions
from pliant.robot import Robot, Support
from pliant.robot_files.layout import CONTROLS, ROBOT, Geometry
from pliant.robot_files.section import keys_of, section, shown
from pliant.robot_files.task import Keyframes, Task, task_of

__all__ = ["Keyframes", "Task", "load_robot", "load_task"]

MOST_BYTES = 1_000_000
MUST_BE = {  # pydantic's name of a fault -> what the file must hold there
    "bool_type": "true or false",
    "dict_type": "a table of keys",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "model_type": "a table of keys",
    "string_type": "text in quotes",
    "too_long": "a shorter list",
    "too_short": "a longer list",
    "tuple_type": "a list in brackets (sections: in double brackets)",
}


def load_robot(path: str | Path) -> Robot:
    """The robot of a TOML file, meshed and with every attachment found on it, or one sentence on
    what is wrong."""
    return _load(Path(path)).robot


def load_task(path: str | Path) -> Task:
    """The robot of a TOML file and what its section [task] has it do; without one, it is let go for
    a second in steps of 0.01 s."""
    path = Path(path)
    read = _load(path)
    try:
        task = task_of(read.robot, **({"dt": 0.01} if read.task is None else read.task))
    except InputError as error:
        raise InputError(_told(path, "task", str(error))) from None
    return replace(task, filled=read.filled)


class _Read(NamedTuple):
    """The sections of a robot file."""

    robot: Robot
    task: dict[str, Any] | None
    filled: tuple[Surface, float] | None


def _described(*, geometry: Geometry, task: dict[str, Any] | None, **rest: Any) -> _Read:
    matter = dict(vars(geometry))
    filled = matter.pop("filled")
    return _Read(Robot(**matter, **rest), task, filled)


_TASK = {key: kind for key, kind in keys_of(task_of, controls=CONTROLS).items() if key != "robot"}
_FILE = TypeAdapter(section(ROBOT | {"task": (section(_TASK, dict) | None, None)}, _described))


def _load(path: Path) -> _Read:
    try:
        read: _Read = _FILE.validate_python(_parsed(path), context=path.parent)
    except ValidationError as error:
        raise InputError(_sentence(path, error)) from None
    for place, check in _checks(read.robot):
        try:
            check()
        except InputError as error:
            raise type(error)(_told(path, place, str(error))) from None
    return read


# Reading


def _parsed(path: Path) -> dict[str, Any]:
    """The tables of a TOML file of a decent size, with lists as tuples."""
    try:
        return _frozen(tomllib.loads(_text(path)))
    except InputError:
        raise
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}; mend that place.") from None
    except ValueError:  # from _frozen, or from int() above 4300 digits
        raise InputError(
            f"{path} holds an integer of more than 64 bits; write a smaller number, or a decimal "
            "one such as 1e20."
        ) from None
    except RecursionError:
        raise InputError(
            f"{path} is nested too deeply to be a robot; flatten its lists and tables."
        ) from None


def _text(path: Path) -> str:
    try:
        if os.path.exists(path) and not path.is_file():
            raise InputError(
                f"{str(path)!r} is a folder, a pipe or a device; give the path of a robot file."
            )
        if not path.is_file():  # false for a path with a zero byte too
            raise InputError(
                f"There is no robot file {str(path)!r}; check the path, which is taken from "
                f"{Path.cwd()}."
            )
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(
                f"{path} has more than {MOST_BYTES} bytes; keep meshes in files of their own."
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"{str(path)[:200]} cannot be read ({error.strerror}); check its name and permissions."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not text in UTF-8 (byte {error.start}); save it as such."
        ) from None


def _frozen(value: Any) -> Any:
    """Lists as tuples, which strict pydantic asks for. Raises `ValueError` for an integer outside
    the 64 bits of TOML."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


# What is wrong, in words


def _sentence(path: Path, error: ValidationError) -> str:
    faults = list(_faults(error))
    place, text = faults[0]
    count = f" ({len(faults) - 1} more to mend after this.)" if len(faults) > 1 else ""
    return _told(path, place, text + count)


def _told(path: Path, place: str, text: str) -> str:
    """One line, even where a quoted key of the file holds a line break."""
    return " ".join(f"{path}{', ' if place else ''}{place}: {text}".split())


def _faults(error: ValidationError, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str, str]]:
    """(place, what is wrong there) for each fault; a section picked by a key brings an error of its
    own."""
    for fault in error.errors(include_url=False):
        at = (*above, *fault["loc"])
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):
            yield from _faults(cause, at)
        elif isinstance(cause, InputError):
            yield _dotted(at), str(cause)
        elif fault["type"] == "missing":
            yield _dotted(at), "this is missing; add it."
        else:
            need = MUST_BE.get(fault["type"])
            yield (
                _dotted(at),
                f"this is {shown(fault['input'])}; "
                f"{f'it must be {need}' if need else fault['msg']}.",
            )


def _dotted(place: tuple[str | int, ...]) -> str:
    """supports[0].region"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(
        "."
    )


# What is wrong between sections


def _checks(robot: Robot) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each attachment is put on the body once, so that a fault is told with its place in the
    file."""
    yield "geometry.divisions", partial(check_divisions, robot.divisions or ())
    yield "body", robot.body
    body = robot.body()
    yield "gravity", partial(_check_dimension, robot.gravity, body)
    for i, support in enumerate(robot.supports):
        yield f"supports[{i}]", partial(_check_support, support, body)
    for kind in ("actuators", "effectors"):
        for name, member in getattr(robot, kind).items():
            yield f"{kind}.{name}", partial(member.on, body)
    for name, actuator in robot.actuators.items():
        yield f"actuators.{name}", partial(liquid_of, actuator, body, robot.gravity)
    for i, load in enumerate(robot.loads):
        yield f"loads[{i}]", partial(load.on, body)
    for i, contact in enumerate(robot.contacts):
        yield f"contacts[{i}]", partial(contact.check, body)


def _check_support(support: Support, body: Body) -> None:
    support.nodes_of(body)
    if not set(support.axes) & set("xyz"[: body.dim]):
        raise InputError(
            f"The axes '{support.axes}' are none of a body in {body.dim}D; write some of "
            f"{'xyz'[: body.dim]}."
        )
    if support.motion is not None:
        _check_dimension(support.motion(0.0), body)


def _check_dimension(vector: Any, body: Body) -> None:
    if vector is not None and len(vector) != body.dim:
        raise InputError(
            f"There are {len(vector)} numbers, but the body is {body.dim}D; give {body.dim}."
        )
