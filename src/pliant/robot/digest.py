"""Digests of the fields of a robot, which show what differs between two robots."""

from collections.abc import Mapping
from dataclasses import fields

from pliant.robot.description import RobotDescription
from pliant.store.digest import digest

# Actuators are ordered as the controls. If a cell has several materials, the last one applies.
_UNORDERED = ("effectors", "surfaces")


def robot_digests(robot: RobotDescription) -> dict[str, str]:
    """Return {field: digest of its value} for all fields except the name. Raises `InputError` if
    the robot contains an object that has no digest."""
    return {
        field.name: digest(_ordered(field.name, getattr(robot, field.name)))
        for field in fields(robot)  # type: ignore[arg-type]  # descriptions are dataclasses
        if field.init and field.name != "name"
    }


def _ordered(name: str, value: object) -> object:
    if name in _UNORDERED and isinstance(value, Mapping):
        return {key: value[key] for key in sorted(value, key=str)}
    return value
