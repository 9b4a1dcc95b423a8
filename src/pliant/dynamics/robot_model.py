"""The interface that all models built from a robot's equations of motion share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from pliant.argument_checks import check_dt
from pliant.bodies import Body, Potential
from pliant.contact import Contact
from pliant.core import Array, Params, Space, counted, effector_jacobian, effector_position
from pliant.dynamics.equations import Equations
from pliant.robot import Robot, robot_with

MAX_CACHED_MODELS = 4  # for the parameters of the last steps


@dataclass(frozen=True, eq=False, repr=False)
class RobotModel(ABC):
    """A robot's equations with a time-stepping rule. Subclasses are frozen dataclasses."""

    robot: Robot
    _: KW_ONLY
    dt: float  # [s]
    design: Sequence[str] = ()  # names of the active parameters
    solver: str | None = None  # "multifrontal", "cholmod" or None for the faster one
    equations: Equations = None  # type: ignore[assignment]  # built if left out

    def __post_init__(self) -> None:
        object.__setattr__(self, "dt", check_dt(self.dt))
        self.make_equations()

    @property
    @abstractmethod
    def space(self) -> Space:
        """The parts of the state."""

    @abstractmethod
    def state(self, position: Array) -> Array:
        """Return the state at rest with the positions [m] (n_dofs,)."""

    @abstractmethod
    def initial_state(self) -> Array:
        """Return the rest shape at rest."""

    def __repr__(self) -> str:
        return describe_model(self)

    @property
    def n_controls(self) -> int:
        return self.robot.n_controls

    @property
    def params(self) -> Params:
        return self.equations.params

    @property
    def body(self) -> Body:
        return self.equations.body

    @property
    def dim(self) -> int:
        return self.equations.dim

    @property
    def potentials(self) -> Sequence[tuple[Potential, slice]]:
        """The attached actuators, contacts and liquids, each with its controls."""
        return self.equations.potentials

    def attached(self, name: str) -> tuple[Potential, sp.csr_matrix]:
        """Return the potential of an actuator by its name, and the matrix (n_points dim, n_dofs) of
        its points. Raises InputError for an unknown name."""
        return self.equations.attached(name)

    def points(self, term: Potential, q: Array) -> Array:
        """Return the points (n_points, dim) [m] of an attached part at the positions q."""
        return self.equations.points(term, q)

    def without_contacts(self, contacts: Sequence[Contact]) -> Self:
        """Return the same model, on the same body, of the robot without some of its contacts."""
        robot = self.robot.without_contacts(contacts)
        changes: dict[str, Any] = {
            "robot": robot,
            "equations": replace(self.equations, robot=robot),
        }
        return replace(self, **changes)

    def robot_with_params(self, p: Array) -> Robot:
        """Return the robot with the values p (n_params,) of the design parameters. Raises
        InputError for parameters of single cells, such as "cells.E"."""
        return robot_with(self.robot, self.params.split(p), self.body)

    def at(self, p: Array | None) -> Self:
        """Return the model of the robot with the values p (n_params,) of the design parameters that
        are not of the material. Its steps with p are those of this model. The body, the supports
        and the analysis of the matrix are shared."""
        variables = self.equations.variables
        if p is None or not variables.other_names:
            return self
        values = variables.other_values(p)
        key = np.concatenate(list(values.values())).tobytes()
        found = self._models.get(key)
        if found is None:
            found = self._models[key] = self._with_values(
                {name: float(value[0]) for name, value in values.items()}
            )
            for old in list(self._models)[:-MAX_CACHED_MODELS]:
                self._models.pop(old, None)
        return found

    @cached_property
    def _models(self) -> dict[bytes, Self]:
        """The models of the last parameters."""
        variables = self.equations.variables
        if not variables.other_names:
            return {}
        values = variables.other_values(None)
        return {np.concatenate(list(values.values())).tobytes(): self}

    def _with_values(self, values: Mapping[str, float]) -> Self:
        robot = robot_with(self.robot, values, self.body)
        model = copy(self)
        for name in ("_models", "_body"):
            vars(model).pop(name, None)
        vars(model).update(robot=robot, equations=self.equations.with_values(robot, values))
        return model

    def control_limits(self) -> tuple[Array, Array]:
        return self.robot.control_limits()

    def neutral_controls(self) -> Array:
        return self.robot.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the effector's position."""
        return self.equations.effector_rows(name)

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return effector_position(self, name, x, self.equations.dim)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def make_equations(self) -> None:
        """Build the equations, unless they were given."""
        if self.equations is None:
            made = Equations(robot=self.robot, design=self.design, solver=self.solver)
            object.__setattr__(self, "equations", made)


def describe_model(model: Any) -> str:
    """Return a short description, such as `ImplicitEuler(arm, dt=0.01, 960 states, 4 controls)`."""
    time_step = f"dt={model.dt:g}, " if any(model.space.rate) else ""
    design = (
        f", design={[block.name for block in model.params.blocks]}" if model.params.size else ""
    )
    return (
        f"{type(model).__name__}({model.robot.name}, "
        f"{time_step}{counted(model.space.size, 'state')}, "
        f"{counted(model.n_controls, 'control')}{design})"
    )
