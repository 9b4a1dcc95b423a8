"""What the stepping rules of a robot's equations answer alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import scipy.sparse as sp

from pliant.contact import Contact
from pliant.core import Array, Params, Space
from pliant.dynamics.equations import Equations
from pliant.robot import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Stepping(ABC):
    """A robot's equations and a time step; a rule adds its state and its step."""

    equations: Equations
    dt: float  # [s]

    @property
    @abstractmethod
    def space(self) -> Space:
        """The parts of the state."""

    @abstractmethod
    def state(self, position: Array) -> Array:
        """The state at rest with given positions [m] (n_dofs,)."""

    @property
    def n_controls(self) -> int:
        return self.equations.robot.n_controls

    @property
    def params(self) -> Params:
        return self.equations.params

    @property
    def robot(self) -> Robot:
        return self.equations.robot

    def without_contacts(self, contacts: Sequence[Contact]) -> Self:
        """The same model, on the same body, of a robot without some of its contacts."""
        return replace(
            self, equations=replace(self.equations, robot=self.robot.without_contacts(contacts))
        )

    def control_limits(self) -> tuple[Array, Array]:
        return self.robot.control_limits()

    def neutral_controls(self) -> Array:
        return self.robot.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        return self.equations.effector_rows(name)

    def initial_state(self) -> Array:
        """At rest in the rest shape."""
        return self.state(self.equations.body.rest)
