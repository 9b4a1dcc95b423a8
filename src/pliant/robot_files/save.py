"""Writer of robot files. `load_robot` reads the same robot from the file."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np

from pliant.actuators import Arm, Fibres, MovingFrame
from pliant.actuators.fibres import CircumferentialDirection, circumferential, radial
from pliant.bodies import Body, PointMass
from pliant.contact import Contact, Obstacle
from pliant.core import InputError
from pliant.geometry import Mesh, Rods, Union
from pliant.robot import Robot, Support
from pliant.robot_files.layout import ACTUATOR_CLASSES, SECTIONS, SHAPES
from pliant.robot_files.linked_save import linked_tables
from pliant.robot_files.mesh_file import mesh_text
from pliant.robot_files.task import Keyframes
from pliant.robot_files.toml_text import toml_text
from pliant.store import check_path, write_atomic
from pliant.store.digest import digest
from pliant.swimming import LinkedRobot


def save_robot(robot: Robot | LinkedRobot, path: str | Path) -> None:
    """Write a robot to a TOML file.

    A mesh is written to NAME.mesh.json, an arm to NAME.ACTUATOR.toml and the surface of a link to
    NAME.LINK.surface.json, in the same folder, where NAME is the stem of `path`. Raises
    `InputError` if a part of the robot cannot be written, such as a motion that is a Python
    function.
    """
    path = check_path("The path of the robot file", path)
    if path.suffix != ".toml":
        raise InputError(f"The robot file is '{path}'; give a name that ends in .toml.")
    files: dict[str, str] = {}
    text = toml_text(
        linked_tables(robot, path.stem, files, _fields)
        if isinstance(robot, LinkedRobot)
        else _Writer(stem=path.stem, files=files).robot(robot)
    )
    for name, content in files.items():
        write_atomic(path.parent / name, content)
    write_atomic(path, text)


@dataclass(frozen=True, kw_only=True)
class _Writer:
    """A writer of the tables of a robot file; `files` collects the content of other files by
    name."""

    stem: str
    files: dict[str, str] = field(default_factory=dict)

    def robot(self, robot: Robot) -> dict[str, Any]:
        table = _fields(robot, Robot, only=("name", "gravity", "snap"))
        table["geometry"] = self._geometry(robot)
        if robot.material:
            table["material"] = _each(robot.material, _fields)
        table["supports"] = [
            self._at(f"supports[{i}]", _support, support)
            for i, support in enumerate(robot.supports)
        ]
        table["actuators"] = {
            name: self._at(f"actuators.{name}", self._actuator, name, actuator)
            for name, actuator in robot.actuators.items()
        }
        table["effectors"] = _each(robot.effectors, _fields)
        table["surfaces"] = _each(robot.surfaces, _fields)
        table["loads"] = [
            self._at(f"loads[{i}]", _fields, load) for i, load in enumerate(robot.loads)
        ]
        table["contacts"] = [
            self._at(f"contacts[{i}]", _contact, contact)
            for i, contact in enumerate(robot.contacts)
        ]
        table["damping"] = _fields(robot.damping)
        return {key: value for key, value in table.items() if value not in ({}, [])}

    @staticmethod
    def _at(place: str, write: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        """Return write(*args); an InputError names the place in the file."""
        try:
            return write(*args)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    def _geometry(self, robot: Robot) -> dict[str, Any]:
        shape = robot.shape
        if isinstance(shape, PointMass):
            return {"point_masses": _plain(shape.points), "mass_each": float(shape.mass_each)}
        if isinstance(shape, Rods):
            return _rods(shape)
        keys = _fields(robot, Robot, only=("cell", "divisions", "order", "thickness"))
        if _is_solid(shape):
            keys.pop("thickness", None)
        if (
            isinstance(shape, Union)
            and shape.cell is not None
            and not keys.keys()
            & {
                "cell",
                "divisions",
            }
        ):
            keys["cell"] = float(shape.cell)
        if isinstance(shape, Body):
            raise InputError(
                f"{robot.name} is a {type(shape).__name__}, which a robot file cannot contain; "
                "give a shape, or write a Python file that builds the robot."
            )
        if isinstance(shape, Mesh) or not _is_writable(shape):
            mesh = (
                shape
                if isinstance(shape, Mesh)
                else shape.mesh(cell=robot.cell, divisions=robot.divisions, order=robot.order)
            )
            name = f"{self.stem}.mesh.json"
            self.files[name] = mesh_text(mesh)
            return {"mesh": name} | {k: v for k, v in keys.items() if k in ("order", "thickness")}
        return _domain(shape) | keys

    def _actuator(self, name: str, actuator: Any) -> dict[str, Any]:
        kinds = {cls: kind for kind, cls in ACTUATOR_CLASSES.items()}
        if type(actuator) not in kinds:
            raise InputError(
                f"A robot file cannot contain a {type(actuator).__name__}; use one of "
                f"{', '.join(cls.__name__ for cls in kinds)}."
            )
        table: dict[str, Any] = {"type": kinds[type(actuator)]}
        for key, value in _changed(actuator, type(actuator)).items():
            if key == "frame":
                table[key] = self._frame(name, value)
            elif key == "region" and not isinstance(value, str):
                table[key] = _domain(value)
            elif key == "direction" and isinstance(actuator, Fibres):
                table[key] = _direction(value)
            else:
                table[key] = _plain(value)
        return table

    def _frame(self, actuator: str, frame: Any) -> dict[str, Any]:
        if isinstance(frame, MovingFrame):
            return {"type": "moving"} | _fields(frame)
        if not isinstance(frame, Arm):
            raise InputError(
                f"A robot file cannot contain a frame of type {type(frame).__name__}; use a "
                "MovingFrame or an Arm."
            )
        name = f"{self.stem}.{''.join(c if c.isalnum() else '-' for c in actuator)}.toml"
        label, _, side = frame.name.rpartition(" ")
        self.files[name] = toml_text(
            {
                "name": label or frame.name,
                "grip": _plain(frame.grip),
                "sides": {side: {key: _plain(getattr(frame, key)) for key in ARM_SIDE}},
                "joints": [
                    {key: _plain(value) for key, value in vars(joint).items()}
                    for joint in frame.joints
                ],
            }
        )
        return {"type": "arm", "file": name, "side": side}


ARM_SIDE = ("xyz", "rpy", "start")


def _each(things: Any, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    if not isinstance(things, Mapping):
        return write(things)
    return {name: write(thing) for name, thing in things.items()}


def _changed(thing: Any, make: Any) -> dict[str, Any]:
    """Return the parameters of an object that differ from their defaults."""
    factories = {
        entry.name: entry.default_factory
        for entry in (fields(make) if is_dataclass(make) else ())
        if entry.default_factory is not MISSING
    }
    values = {
        name: (
            getattr(thing, name),
            factories[name]() if name in factories else parameter.default,
        )
        for name, parameter in signature(make).parameters.items()
    }
    return {
        name: value
        for name, (value, default) in values.items()
        if value is not None and (default is Parameter.empty or not _equal(value, default))
    }


def _equal(value: Any, default: Any) -> bool:
    return value is default or digest(value) == digest(default)


def _fields(thing: Any, make: Any = None, *, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    return {
        name: _plain(value)
        for name, value in _changed(thing, make or type(thing)).items()
        if only is None or name in only
    }


def _plain(value: Any) -> Any:
    """Return a value as TOML types: numbers, text, lists and tables. Raises `InputError` for
    functions and other objects."""
    if isinstance(value, Keyframes):
        return {"times": _plain(value.times), "values": _plain(value.values)}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | float):
        return value
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        raise InputError(
            f"A robot file cannot contain the Python function '{name}'; give keyframes, "
            "pliant.robot_files.Keyframes(times=..., values=...)."
        )
    raise InputError(
        f"A robot file cannot contain a {type(value).__name__}; describe it by numbers."
    )


def _is_solid(shape: Any) -> bool:
    return shape.dim == 3


def _is_writable(shape: Any) -> bool:
    """Return whether a shape can be written as a table, without a mesh file."""
    if isinstance(shape, Union):
        return all(_is_writable(part) for part in shape.parts.values())
    return type(shape) in SHAPES.values()


def _domain(shape: Any) -> dict[str, Any]:
    if isinstance(shape, Union):
        return {"parts": {name: _domain(part) for name, part in shape.parts.items()}}
    for name, cls in SHAPES.items():
        if type(shape) is cls:
            return {"shape": name} | _fields(shape)
    raise InputError(
        f"A robot file cannot contain a region of type {type(shape).__name__}; use one of "
        f"{', '.join(cls.__name__ for cls in SHAPES.values())}, or name a region of the mesh."
    )


def _rods(rods: Rods) -> dict[str, Any]:
    table = _changed(rods, Rods)
    section = table.pop("section")
    return {name: _plain(value) for name, value in table.items()} | {
        "section": _each(section, _section)
    }


def _section(section: Any) -> dict[str, Any]:
    for name, cls in SECTIONS.items():
        if type(section) is cls:
            return {"type": name} | _fields(section)
    raise InputError(
        f"A robot file cannot contain a cross-section of type {type(section).__name__}; use one of "
        f"{', '.join(cls.__name__ for cls in SECTIONS.values())}."
    )


def _direction(direction: Any) -> Any:
    if direction is circumferential or direction is radial:
        return direction.__name__
    if isinstance(direction, CircumferentialDirection):
        return _fields(direction)
    raise InputError(
        "A robot file cannot contain the Python function that gives the direction of fibres; use "
        "circumferential, radial or CircumferentialDirection(axis=..., origin=...)."
    )


def _support(support: Support) -> dict[str, Any]:
    return _fields(support)


def _contact(contact: Contact) -> dict[str, Any]:
    obstacle = contact.obstacle
    if not isinstance(obstacle, Obstacle) or not obstacle.definition:
        raise InputError(
            "A robot file cannot contain an obstacle that is a Python function; use plane, sphere, "
            "capsule or terrain."
        )
    table = _plain(obstacle.definition)
    return table | {key: v for key, v in _changed(contact, Contact).items() if key != "obstacle"}
