"""Robot files: a robot and its [task] as TOML in SI units. docs/guide/robot-files.md lists all
keys."""

import os
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from pliant.actuators import liquid_of
from pliant.bodies import Body, PointMass
from pliant.core import InputError, counted
from pliant.geometry import Surface
from pliant.geometry.lattice import check_divisions
from pliant.robot import Robot, Support
from pliant.robot_files.layout import ROBOT, Geometry
from pliant.robot_files.linked_layout import LINKED_ROBOT, describes_links
from pliant.robot_files.linked_task import LinkedTask, linked_simulation_task
from pliant.robot_files.section import preview, section
from pliant.robot_files.task import Keyframes, Task, TaskError, simulation_task
from pliant.robot_files.task_layout import LINKED_TASK, TASK
from pliant.store import check_path
from pliant.swimming import LinkedRobot
from pliant.swimming.link_gaps import check_gaps

__all__ = ["Keyframes", "Task", "load_robot", "load_task"]

MAX_BYTES = 1_000_000  # meshes are in separate files, so a larger robot file is a mistake
EXPECTED = {  # pydantic's error type -> the expected value
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


def load_robot(path: str | Path) -> Robot | Any:
    """Return the robot of a TOML file: a Robot, or a LinkedRobot if the file has links. A soft
    robot is meshed, and every attachment is checked.

    Raises `InputError` that names the file, the key, and what to change.

    >>> import pathlib, tempfile
    >>> import pliant as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "beam.toml"
    ...     robot = pl.Robot(
    ...         name="beam",
    ...         shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...         divisions=(2, 1, 1),
    ...         material=pl.Material(E=1e5, nu=0.4),
    ...     )
    ...     robot.save(path)
    ...     pl.load_robot(path).name
    'beam'
    """
    return _load(check_path("The path of the robot file", path)).robot


def load_task(path: str | Path) -> Task | LinkedTask:
    """Return the task of a TOML file: its robot and its section [task]. Without [task] the robot
    is simulated with neutral controls for one second, in steps of 0.01 s. The task of a linked
    robot is a LinkedTask.

    Raises `InputError` that names the file, the key, and what to change."""
    path = check_path("The path of the robot file", path)
    read = _load(path)
    try:
        task = default_task(read.robot) if read.task is None else read.task(read.robot)
    except TaskError as error:
        raise InputError(_message(path, f"task.{error.place}", str(error))) from None
    except InputError as error:
        raise InputError(_message(path, "task", str(error))) from None
    return task if isinstance(task, LinkedTask) else replace(task, fill_source=read.fill_source)


def default_task(robot: Robot | LinkedRobot) -> Task | LinkedTask:
    """Return the task of a file without [task]: a simulation of one second without actuation."""
    if isinstance(robot, LinkedRobot):
        return linked_simulation_task(robot, dt=0.01)
    return simulation_task(robot, dt=0.01)


class _FileContent(NamedTuple):
    """The sections of a robot file."""

    robot: Robot | LinkedRobot
    task: Callable[[Any], Task | LinkedTask] | None  # a function of the robot
    fill_source: tuple[Surface, float] | None


def _make_content(
    *, geometry: Geometry, task: Callable[[Robot], Task] | None, **rest: Any
) -> _FileContent:
    keys = dict(vars(geometry))
    fill_source = keys.pop("fill_source")
    return _FileContent(Robot(**keys, **rest), task, fill_source)


_FILE = TypeAdapter(section(ROBOT | {"task": (TASK | None, None)}, _make_content))


def _make_linked_content(
    *, task: Callable[[LinkedRobot], LinkedTask] | None, **rest: Any
) -> _FileContent:
    return _FileContent(LinkedRobot(**rest), task, None)


_LINKED_FILE = TypeAdapter(
    section(LINKED_ROBOT | {"task": (LINKED_TASK | None, None)}, _make_linked_content)
)


def _load(path: Path) -> _FileContent:
    table = _read_toml(path)
    try:
        file = _LINKED_FILE if describes_links(table) else _FILE
        read: _FileContent = file.validate_python(table, context=path.parent)
    except ValidationError as error:
        raise InputError(_validation_message(path, error)) from None
    except InputError as error:
        raise InputError(_message(path, "", str(error))) from None
    robot = read.robot
    for place, check in _linked_checks(robot) if isinstance(robot, LinkedRobot) else _checks(robot):
        try:
            check()
        except InputError as error:
            raise type(error)(_message(path, place, str(error))) from None
    return read


# Reading


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, with lists as tuples."""
    try:
        return _with_tuples(tomllib.loads(_read_text(path)))
    except InputError:
        raise
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}; correct that line.") from None
    except ValueError:  # from _with_tuples, or from int() above 4300 digits
        raise InputError(
            f"{path} contains an integer of more than 64 bits; write a smaller number, or a "
            "floating-point number such as 1e20."
        ) from None
    except RecursionError:
        raise InputError(
            f"{path} is nested too deeply to be a robot; flatten its lists and tables."
        ) from None


def _read_text(path: Path) -> str:
    try:
        if os.path.exists(path) and not path.is_file():
            raise InputError(
                f"{str(path)!r} is a folder, a pipe or a device; give the path of a robot file."
            )
        if not path.is_file():  # false for a path with a zero byte too
            raise InputError(
                f"There is no robot file {str(path)!r}; check the path, which is relative to "
                f"{Path.cwd()}."
            )
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(
                f"{path} has more than {MAX_BYTES} bytes; put meshes in separate files."
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"{str(path)[:200]} cannot be read ({error.strerror}); check its name and permissions."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text (byte {error.start}); save it with that encoding."
        ) from None


def _with_tuples(value: Any) -> Any:
    """Return a value with lists as tuples, which strict pydantic requires. Raises `ValueError` for
    an integer of more than 64 bits."""
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
    return tuple(_with_tuples(item) for item in value) if isinstance(value, list) else value


# Error messages


def _validation_message(path: Path, error: ValidationError) -> str:
    errors = list(_list_errors(error))
    place, text = errors[0]
    count = (
        f" ({counted(len(errors) - 1, 'more error')} after this one.)" if len(errors) > 1 else ""
    )
    return _message(path, place, text + count)


def _message(path: Path, place: str, text: str) -> str:
    """Return a message in one line, even if a quoted key of the file contains a line break."""
    return " ".join(f"{path}{', ' if place else ''}{place}: {text}".split())


def _list_errors(
    error: ValidationError, above: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield (place, message) of each error. Nested sections have nested errors."""
    for fault in error.errors(include_url=False):
        at = (*above, *fault["loc"])
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):
            yield from _list_errors(cause, at)
        elif isinstance(cause, InputError):
            yield _dotted(at), str(cause)
        elif fault["type"] == "missing":
            yield _dotted(at), "this is missing; add it."
        else:
            expected = EXPECTED.get(fault["type"])
            yield (
                _dotted(at),
                f"this is {preview(fault['input'])}; "
                f"{f'it must be {expected}' if expected else fault['msg']}.",
            )


def _dotted(place: tuple[str | int, ...]) -> str:
    """Return a place as text, such as supports[0].region."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(
        "."
    )


# Checks across sections


def _checks(robot: Robot) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (place, check). Each check attaches one object to the body, so that an error names its
    place in the file."""
    yield "material", partial(_check_material, robot)
    yield "geometry.divisions", partial(check_divisions, robot.divisions or ())
    yield "body", robot.body
    body = robot.body()
    yield "gravity", partial(_check_dimension, robot.gravity, body)
    for i, support in enumerate(robot.supports):
        yield f"supports[{i}]", partial(_check_support, support, body)
    for kind in ("actuators", "effectors"):
        for name, member in getattr(robot, kind).items():
            yield f"{kind}.{name}", partial(member.attach, body)
    for name, actuator in robot.actuators.items():
        yield f"actuators.{name}", partial(liquid_of, actuator, body, robot.gravity)
    for i, load in enumerate(robot.loads):
        yield f"loads[{i}]", partial(load.attach, body)
    for i, contact in enumerate(robot.contacts):
        yield f"contacts[{i}]", partial(contact.check, body)


def _linked_checks(robot: LinkedRobot) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the check that no links touch within the joint limits. In a fluid they must not."""
    if robot.fluid_density:
        yield "hinges", partial(check_gaps, robot)


def _check_material(robot: Robot) -> None:
    if not robot.material and not isinstance(robot.shape, PointMass):
        raise InputError("this is missing; add it.")


def _check_support(support: Support, body: Body) -> None:
    support.nodes_of(body)
    if not set(support.axes) & set("xyz"[: body.dim]):
        raise InputError(
            f"The body is {body.dim}D and has no axes '{support.axes}'; write some of "
            f"{'xyz'[: body.dim]}."
        )
    if support.motion is not None:
        _check_dimension(support.motion(0.0), body)


def _check_dimension(vector: Any, body: Body) -> None:
    if vector is not None and len(vector) != body.dim:
        raise InputError(
            f"The list has {counted(len(vector), 'number')}, but the body is {body.dim}D; give "
            f"{body.dim}."
        )
