"""Digests of a robot: one for each of its fields, so that a difference can be named."""

from collections.abc import Mapping
from dataclasses import fields

from pliant.robot.robot import Robot
from pliant.store.digest import digest

# The order of actuators is that of the controls. If a cell has several materials, the last counts.
_UNORDERED = ("effectors", "surfaces")


def robot_digests(robot: Robot) -> dict[str, str]:
    """Return field -> digest of its value, for all fields but the name. Raises `InputError` if the
    robot holds an object that has no digest."""
    return {
        field.name: digest(_ordered(field.name, getattr(robot, field.name)))
        for field in fields(robot)
        if field.init and field.name != "name"
    }


def _ordered(name: str, value: object) -> object:
    if name in _UNORDERED and isinstance(value, Mapping):
        return {key: value[key] for key in sorted(value, key=str)}
    return value
