"""The stress of actuators in the particles of a robot."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import StressActuator
from pliant.core import Array
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.robot import Robot
from pliant.robot.actuation import for_each_actuator


@dataclass(frozen=True, kw_only=True, eq=False)
class StressActuation:
    """The actuators of a robot that act by a stress in its particles."""

    robot: Robot
    body: Particles | ReferenceGrid

    @cached_property
    def stresses(self) -> list[tuple[tuple[Array, Array], slice]]:
        """The particles and second Piola stress per unit of control of each actuator, with its
        control."""
        made = for_each_actuator(
            self.robot,
            lambda actuator: (
                actuator.stress(self.body) if isinstance(actuator, StressActuator) else None
            ),
        )
        return [(stress, part) for stress, part in made if stress is not None]

    @cached_property
    def rows(self) -> Array:
        """The row (n,) of each particle in the stress of the actuators; -1 without one."""
        rows = np.full(self.body.n_particles, -1)
        for (particles, _), _ in self.stresses:
            rows[particles] = 0
        rows[rows == 0] = np.arange(np.sum(rows == 0))
        return rows

    @cached_property
    def by_control(self) -> sp.csr_matrix:
        """The derivative (n_rows * dim^2, n_controls) of the actuators' stress, row after row, by
        the controls."""
        size, rows, columns, values = self.body.dim**2, [], [], []
        for (particles, S), part in self.stresses:
            own = size * self.rows[particles][:, None] + np.arange(size)
            rows.append(own.ravel())
            columns.append(np.full(own.size, part.start))
            values.append(np.tile(S.ravel(), len(particles)))
        shape = (size * (self.rows.max(initial=-1) + 1), self.robot.n_controls)
        if not rows:
            return sp.csr_matrix(shape)
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        made = sp.csr_matrix(entries, shape)
        made.eliminate_zeros()
        return made
