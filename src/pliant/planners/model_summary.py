"""ModelSummary: names, units and digests of a model, saved with each plan."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, Space, counted
from pliant.robot import RobotDescription
from pliant.robot.description import robot_of
from pliant.robot.digest import robot_digests


@dataclass(frozen=True, kw_only=True)
class ModelSummary:
    """The time step, control names, state layout and robot of a model."""

    robot: str  # its name
    digest: str | None  # of the robot's fields; None if a field has no digest
    dt: float  # time step [s]; 1 for a quasistatic model
    names: tuple[str, ...]  # of the controls
    units: tuple[str, ...]  # of the controls
    effectors: tuple[str, ...]
    space: Space

    @property
    def quasistatic(self) -> bool:
        """Whether the model has no inertia; its steps then have no duration."""
        return not any(self.space.rate)

    @property
    def columns(self) -> list[str]:
        """Column headings: control names with units."""
        return [f"{name} [{unit}]" for name, unit in zip(self.names, self.units, strict=True)]


def summarise(model: Dynamics) -> ModelSummary:
    """Return the summary of a model. Without a robot the controls get numbers as names."""
    robot = _robot_of(model)
    controls = () if robot is None else robot.controls
    return ModelSummary(
        robot=type(model).__name__ if robot is None else robot.name,
        digest=None if robot is None else robot_digest(robot),
        dt=float(model.dt),
        names=tuple(c.name for c in controls)
        or tuple(f"control {k + 1}" for k in range(model.n_controls)),
        units=tuple(c.unit for c in controls) or model.n_controls * ("-",),
        effectors=() if robot is None else tuple(robot.effector_names),
        space=model.space,
    )


def _robot_of(model: Dynamics) -> RobotDescription | None:
    """Return the robot of a model; None if there is none or its controls differ."""
    robot = robot_of(model)
    return robot if robot is not None and robot.n_controls == model.n_controls else None


def robot_digest(robot: RobotDescription) -> str | None:
    """Return the digests of a robot's fields, such as "shape:0123456789abcdef ...".

    Return None if a field has no digest, such as an arm of another library.
    """
    try:
        return " ".join(f"{name}:{digest[:16]}" for name, digest in robot_digests(robot).items())
    except InputError:
        return None


def different_parts(saved: str | None, here: str | None) -> str:
    """Return the names of the fields in which two robots differ; "" for the same robot."""
    if saved is None or here is None:
        return ""
    known = saved.split()
    return ", ".join(part.split(":")[0] for part in here.split() if part not in known)


def effector_positions(model: Dynamics, states: Array) -> dict[str, Array]:
    """Return the positions (len(states), dim) [m] of each effector for states (k, n_state)."""
    robot, position = _robot_of(model), states[:, : model.space.n_dofs].T
    return {
        name: np.asarray((model.effector_rows(name) @ position).T)
        for name in (() if robot is None else robot.effector_names)
    }


def check_same_model(saved: ModelSummary, model: Dynamics, path: Any) -> None:
    """Raise InputError if a saved plan belongs to another model."""
    here = summarise(model)
    if here.names != saved.names or here.units != saved.units:
        raise InputError(
            f"{path} was planned for {saved.robot} with the controls {', '.join(saved.columns)}, "
            f"but this model of {here.robot} has {', '.join(here.columns)}. Give the model of "
            "the plan."
        )
    if here.dt != saved.dt:
        raise InputError(
            f"{path} has steps of {saved.dt:g} s, but this model has steps of {here.dt:g} s. "
            f"Make it with dt={saved.dt!r}."
        )
    if parts := different_parts(saved.digest, here.digest):
        raise InputError(
            f"{path} was planned for another {saved.robot}, which differs from this one in: "
            f"{parts}. Give the same robot, or omit model=."
        )
    if here.space != saved.space:
        raise InputError(
            f"{path} has states of {counted(saved.space.size, 'number')} "
            f"({', '.join(saved.space.parts)}), but this model has {here.space.size} "
            f"({', '.join(here.space.parts)}). Give the same stepping rule and mesh."
        )
