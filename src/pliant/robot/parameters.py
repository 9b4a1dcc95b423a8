"""The parameters of a robot by name, such as "damping.mass": their values, and robots with other
values."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.actuators import Cable, Gripper, Servo
from pliant.actuators.route import split_coordinate
from pliant.actuators.servo import CELL_STIFFNESS_RATIO
from pliant.bodies import AttachableBody, Beams, PointMass, stiffness_per_area
from pliant.core import Array, InputError, Param, finite_array, nearest, require_kind
from pliant.materials import GRAVITY, MASS_DAMPING, STIFFNESS_DAMPING, Material
from pliant.robot.robot import Robot

AXES = "xyz"
# the fields of each kind of part that are parameters
FIELDS = {
    "damping": ("mass", "stiffness"),
    "actuators": ("stiffness", "rest_length", "strength", "bulk"),
    "contact": ("friction", "stiffness"),
    "support": ("stiffness",),
    "material": ("E", "nu", "density"),
}


def general_parameters(robot: Robot, dim: int) -> dict[str, Param]:
    """Return the parameters that every robot has, by name: damping and the components of
    gravity."""
    g = np.zeros(dim) if robot.gravity is None else np.asarray(robot.gravity, float)
    params = [
        MASS_DAMPING.parameter("damping.mass", robot.damping.mass),
        STIFFNESS_DAMPING.parameter("damping.stiffness", robot.damping.stiffness),
        *(
            GRAVITY.parameter(f"gravity.{axis}", value, signed=True)
            for axis, value in zip(AXES, g, strict=False)
        ),
    ]
    return {param.name: param for param in params}


def robot_with(
    robot: Robot, values: Mapping[str, ArrayLike], body: AttachableBody | None = None
) -> Robot:
    """Return the robot with other values of some parameters, each one number.

    The names are those of the design parameters of a model: "soft.E", "damping.mass", "gravity.z",
    "contact0.friction", "actuators.left.stiffness", "support0.stiffness", ... Springs whose default
    stiffness follows Young's modulus keep the stiffness that they have on `body` (default: the
    finite elements of the robot). Raises `InputError` for an unknown name, and for values of single
    cells such as "cells.E", because a robot has one material in each region.

    >>> import pliant as pl
    >>> from pliant.robot import robot_with
    >>> soft = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)), material=pl.Material(E=1e5, nu=0.4)
    ... )
    >>> stiff = robot_with(soft, {"body.E": 2e5, "damping.stiffness": 0.01})
    >>> stiff.material.E, stiff.damping
    (200000.0, Damping(mass=0.0, stiffness=0.01))
    """
    require_kind("The robot", robot, Robot, "make one with pliant.Robot(...)")
    require_kind("The values of parameters", values, Mapping, "give a dict from name to value")
    groups: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        group, key = _split(str(name))
        groups.setdefault(group, {})[key] = _number(str(name), value)
    changed = robot
    if "gravity" in groups:
        dim = (robot.body() if body is None else body).dim
        changed = replace(robot, gravity=_gravity(robot, groups.pop("gravity"), dim))
    for group, change in groups.items():
        changed = _with_group(changed, group, change)
    if changed.material == robot.material and changed.shape is robot.shape:
        _share_body(robot, changed)
        return changed
    return with_fixed_springs(changed, robot.body() if body is None else body)


def _split(name: str) -> tuple[str, str]:
    """Return the group and the own name of a parameter, which is the last part of its name or, for
    a point of a cable, the last two."""
    group, _, key = name.rpartition(".")
    return split_coordinate(name) or (group, key)


def _number(name: str, value: ArrayLike) -> float:
    if name.startswith("cells."):
        raise InputError(
            f"The parameter '{name}' has a value for each cell, but a robot has one material in "
            "each region; give the values to the model's steps as p."
        )
    return float(finite_array(f"The value of '{name}'", np.ravel(value), (1,))[0])


def _share_body(robot: Robot, other: Robot) -> None:
    """Give `other` the discretised body of `robot`, if it exists."""
    for name in ("_body", "_effector_weights"):
        if name in vars(robot):
            vars(other)[name] = vars(robot)[name]


def _with_group(robot: Robot, group: str, change: Mapping[str, float]) -> Robot:
    """Return the robot with other values of the parameters of one group."""
    if group == "damping":
        return replace(robot, damping=_replaced(group, robot.damping, "damping", change))
    kind, _, name = group.partition(".")
    if kind == "actuators" and is_dataclass(robot.actuators.get(name)):
        actuator = _replaced(group, robot.actuators[name], kind, change)
        return replace(robot, actuators={**robot.actuators, name: actuator})
    numbered = re.fullmatch(r"(contact|support)(\d+)", group)
    if numbered:
        return _with_numbered(robot, group, numbered[1], int(numbered[2]), change)
    return _with_material(robot, group, change)


def _with_numbered(
    robot: Robot, group: str, kind: str, index: int, change: Mapping[str, float]
) -> Robot:
    parts = list(getattr(robot, f"{kind}s"))
    if index >= len(parts):
        raise _unknown(robot, group, change)
    parts[index] = _replaced(group, parts[index], kind, change)
    changes: dict[str, Any] = {f"{kind}s": parts}
    return replace(robot, **changes)


def _replaced(group: str, part: Any, kind: str, change: Mapping[str, float]) -> Any:
    """Return a part of a robot with other values of its fields."""
    own = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    known = [key for key in FIELDS[kind] if key in own]
    if kind == "actuators":  # one of the user may have any number as a parameter
        known += [key for key, value in own.items() if isinstance(value, float)]
    route = part.route_names if isinstance(part, Cable) else []
    moved = {key: value for key, value in change.items() if key in route}
    for key in set(change) - set(moved):
        if key not in known:
            raise InputError(
                f"There is no parameter '{group}.{key}' of a {type(part).__name__}; "
                f"{nearest(key, [*known, *route])}"
            )
    other = {key: value for key, value in change.items() if key not in moved}
    changed = replace(part, **other)
    return changed.with_route(moved) if moved else changed


def _gravity(robot: Robot, change: Mapping[str, float], dim: int) -> Array:
    g = np.zeros(dim) if robot.gravity is None else np.array(robot.gravity, float)
    for axis, value in change.items():
        if axis not in tuple(AXES[:dim]):
            raise InputError(
                f"There is no parameter 'gravity.{axis}'; the body is {dim}D and has "
                f"{', '.join(f'gravity.{name}' for name in AXES[:dim])}."
            )
        g[AXES.index(axis)] = value
    return g


def _with_material(robot: Robot, group: str, change: Mapping[str, float]) -> Robot:
    if isinstance(robot.shape, PointMass) and group == "body" and list(change) == ["density"]:
        return replace(robot, shape=replace(robot.shape, mass_each=change["density"]))
    named = (
        {"body": robot.material} if isinstance(robot.material, Material) else dict(robot.material)
    )
    if group not in named:
        raise _unknown(robot, group, change)
    material = _replaced(group, named[group], "material", change)
    if isinstance(robot.material, Material):
        return replace(robot, material=material)
    return replace(robot, material={**named, group: material})


def _unknown(robot: Robot, group: str, change: Mapping[str, float]) -> InputError:
    materials = ["body"] if isinstance(robot.material, Material) else list(robot.material)
    groups = [
        *materials,
        "damping",
        "gravity",
        *(f"actuators.{name}" for name in robot.actuators),
        *(f"contact{k}" for k in range(len(robot.contacts))),
        *(f"support{k}" for k in range(len(robot.supports))),
    ]
    return InputError(
        f"{robot.name} has no parameter '{group}.{next(iter(change))}'; its groups of parameters "
        f"are {', '.join(groups)}."
    )


def with_fixed_springs(robot: Robot, body: AttachableBody) -> Robot:
    """Return a robot of another material whose springs have the stiffness that they have on `body`.

    By default the springs of contacts, grippers and servos follow Young's modulus. Raises
    `InputError` for a servo on rods, whose springs follow each rod."""
    # point masses have no modulus, and their springs have no default
    return replace(
        robot,
        contacts=[_fixed(one, body) if one.kind == "separate" else one for one in robot.contacts],
        actuators={
            name: _fixed_servo(name, one, robot, body)
            if isinstance(one, Servo)
            else (_fixed(one, body) if isinstance(one, Gripper) else one)
            for name, one in robot.actuators.items()
        },
    )


def _fixed(part: Any, body: AttachableBody) -> Any:
    if part.stiffness is not None:
        return part
    return replace(part, stiffness=10.0 * stiffness_per_area(body))


def _fixed_servo(name: str, servo: Servo, robot: Robot, body: AttachableBody) -> Servo:
    if isinstance(body, Beams):
        raise InputError(
            f"The springs of the servo '{name}' follow the stiffness of each rod, so a robot of "
            "another material is not the model with that parameter; hold that part by a Support."
        )
    moduli = [
        material.E
        for group, material in robot.materials_by_region().items()
        if len(body.material_cells[group])
    ]
    ratio = CELL_STIFFNESS_RATIO if servo.stiffness is None else servo.stiffness
    return replace(servo, stiffness=ratio * float(body.fields.E.max()) / max(moduli))
