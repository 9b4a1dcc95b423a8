"""Writer of the robot files of linked robots."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pliant.core import InputError
from pliant.robot_files.surface_file import surface_text
from pliant.swimming import ClosedSurface, EllipsoidShape, Hinge, Link, LinkedRobot

# writes an object as a table with the parameters that differ from their defaults
WriteFields = Callable[..., dict[str, Any]]


def linked_tables(
    robot: LinkedRobot, stem: str, files: dict[str, str], write: WriteFields
) -> dict[str, Any]:
    """Return the tables of a robot file. `files` gets the content of surface files by name; their
    names start with `stem`."""
    table = write(robot, only=("name", "fluid_density", "gravity"))
    table["links"] = {
        name: _link(name, link, stem, files, write) for name, link in robot.links.items()
    }
    table["hinges"] = {name: _hinge(hinge, write) for name, hinge in robot.hinges.items()}
    table["effectors"] = {name: write(point) for name, point in robot.effectors.items()}
    return {key: value for key, value in table.items() if value != {}}


def _link(
    name: str, link: Link, stem: str, files: dict[str, str], write: WriteFields
) -> dict[str, Any]:
    mass = ("density",) if link.density is not None else ("mass", "inertia")
    moved = not np.array_equal(link.centre_of_mass, link.shape.centroid)  # type: ignore[arg-type]
    keys = write(link, only=(*mass, *(("centre_of_mass",) if moved else ())))
    if isinstance(link.shape, EllipsoidShape):
        return {"shape": "ellipsoid"} | write(link.shape) | keys
    if not isinstance(link.shape, ClosedSurface):
        raise InputError(
            f"links.{name}: A robot file cannot contain a shape of type "
            f"{type(link.shape).__name__}; use EllipsoidShape or ClosedSurface."
        )
    file = f"{stem}.{''.join(c if c.isalnum() else '-' for c in name)}.surface.json"
    if file in files:
        raise InputError(
            f"links.{name}: Two links would be written to {file}; give one of them another name."
        )
    files[file] = surface_text(link.shape)
    return {"shape": "surface", "file": file} | keys


def _hinge(hinge: Hinge, write: WriteFields) -> dict[str, Any]:
    return write(hinge) | ({"motor": False} if hinge.torque is None else {})
