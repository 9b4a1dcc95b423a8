"""The Potential of a motor that is driven by its torque."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array

MAX_NEWTON_STEPS = 30
ANGLE_TOLERANCE = 1e-14  # [rad] of the last Newton step


@dataclass(frozen=True, kw_only=True, eq=False)
class TorqueMotor:
    """A massless rotor on a hinge. Springs connect it to the held positions and rotations of a
    body, and its control u [N m] is the torque on it.

    The angle of the rotor minimises the energy of the springs minus u times the angle, so the
    springs transmit exactly the torque u to the body. A held position is centre + cos(angle)
    spoke + sin(angle) tangent on the rotor.
    """

    centre: Array  # (n_positions, dim) [m] closest points on the axis
    spoke: Array  # (n_positions, dim) [m] from the axis at angle zero
    tangent: Array  # (n_positions, dim) [m] axis x spoke
    rotation_direction: Array  # (n_rotations, dim) [-] derivative of the rotations by the angle
    weights: sp.csr_matrix  # (n_positions + n_rotations, n_nodes), positions first
    offset: Array  # (n_positions + n_rotations, dim)
    stiffness: Array  # (n_positions + n_rotations,) [N/m, N m/rad]
    n_controls: int = 1
    points_per_block: int = 1
    stiff: bool = True

    @cached_property
    def largest_torque(self) -> float:
        """The torque [N m] that the springs can transmit at rest; infinite if they hold
        rotations."""
        n = len(self.spoke)
        if len(self.rotation_direction):
            return np.inf
        return float(self.stiffness[:n] @ np.sum(self.spoke**2, axis=1))

    def angle(self, y: Array, u: Array) -> complex:
        """Return the angle [rad] of the rotor; NaN if the springs cannot transmit the torque."""
        with np.errstate(all="ignore"):
            angle = self._newton(self._first_angle(y.real), y.real, float(u[0].real))
            return self._newton(angle, y, u[0]) if np.iscomplexobj(y) else angle

    def _first_angle(self, y: Array) -> float:
        n = len(self.spoke)
        if len(self.rotation_direction):
            return float(np.mean(np.sum(y[n:] * self.rotation_direction, axis=1)))
        arm = self.stiffness[:, None] * (y - self.centre)
        return float(np.arctan2(np.sum(arm * self.tangent), np.sum(arm * self.spoke)))

    def _newton(self, angle: complex, y: Array, u: complex) -> complex:
        for _ in range(MAX_NEWTON_STEPS):
            step = (self._torque(angle, y) + u) / self._torsional_stiffness(angle, y)
            angle = angle + step
            if abs(step) < ANGLE_TOLERANCE * max(abs(angle), 1.0):
                return angle
        return np.nan

    def target(self, angle: complex) -> Array:
        """Return the positions and rotations without force, (n_positions + n_rotations, dim)."""
        positions = self.centre + np.cos(angle) * self.spoke + np.sin(angle) * self.tangent
        return np.concatenate([positions, angle * self.rotation_direction])

    def _motion(self, angle: complex) -> Array:
        """Return the derivative of `target`."""
        positions = np.cos(angle) * self.tangent - np.sin(angle) * self.spoke
        return np.concatenate([positions, self.rotation_direction])

    def _forces(self, y: Array, angle: complex) -> Array:
        return self.stiffness[:, None] * (y - self.target(angle))

    def _torque(self, angle: complex, y: Array) -> complex:
        """Return the torque [N m] of the springs on the rotor."""
        return np.sum(self._forces(y, angle) * self._motion(angle))

    def _torsional_stiffness(self, angle: complex, y: Array) -> complex:
        """Return minus the derivative of `_torque` by the angle [N m/rad]."""
        n, forces, motion = len(self.spoke), self._forces(y, angle), self._motion(angle)
        acceleration = self.centre - self.target(angle)[:n]
        rigid = np.sum(self.stiffness[:, None] * motion**2)
        return rigid - np.sum(forces[:n] * acceleration)

    def energy(self, y: Array, u: Array) -> float:
        angle = self.angle(y, u)
        springs = 0.5 * self.stiffness @ np.sum((y - self.target(angle)) ** 2, axis=1)
        return springs - u[0] * angle

    def gradient(self, y: Array, u: Array) -> Array:
        return self._forces(y, self.angle(y, u))

    def hessian(self, y: Array, u: Array) -> Array:
        return self.stiffness[:, None, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        angle = self.angle(y, u)
        moving = self.stiffness[:, None] * self._motion(angle)
        return moving[None], np.array([-1.0 / self._torsional_stiffness(angle, y)])

    def control_gradient(self, y: Array, u: Array) -> Array:
        angle = self.angle(y, u)
        moving = self.stiffness[:, None] * self._motion(angle)
        return -moving[None] / self._torsional_stiffness(angle, y)

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        n, angle = len(self.spoke), self.angle(y, u)
        D, forces = self._torsional_stiffness(angle, y), self._forces(y, angle)
        motion = self._motion(angle)
        acceleration = self.centre - self.target(angle)[:n]
        # of D by the angle; the third derivative of `target` is minus the first one
        by_angle = np.sum(forces[:n] * motion[:n])
        change = -np.sum(bar[:n] * self.stiffness[:n, None] * acceleration) / D**2
        change += by_angle * np.sum(bar * self.stiffness[:, None] * motion) / D**3
        return np.array([change * du[0]])
