"""Actuators whose force is linear in the control, extrapolated to controls of any sign."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.actuators.polyline import Polyline
from pliant.bodies import AttachableBody, Potential
from pliant.core import Array, InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtrapolatedActuator:
    """An actuator without limits: its force remains linear in the control. A cable goes slack at
    zero tension; the extrapolated cable pushes below zero.

    `attach` raises `InputError` unless the force of the actuator is linear in its control.
    """

    actuator: Any  # an Actuator
    limits: tuple[float, float] = (-inf, inf)

    @property
    def n_controls(self) -> int:
        return self.actuator.n_controls

    @property
    def neutral(self) -> float | Array:
        return self.actuator.neutral

    @property
    def units(self) -> tuple[str, ...]:
        return self.actuator.units

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return self.actuator.polylines(body)

    def attach(self, body: AttachableBody) -> "ExtrapolatedPotential":
        term: Potential = self.actuator.attach(body)
        y = term.weights @ body.rest.reshape(-1, body.dim) + term.offset
        once, twice = (term.gradient(y, scale * np.ones(term.n_controls)) for scale in (1.0, 2.0))
        if (
            term.stiff
            or np.any(term.gradient(y, np.zeros(term.n_controls)))
            or not np.allclose(twice, 2.0 * once)
        ):
            raise InputError(
                f"the force of a {type(self.actuator).__name__} with this drive is not linear in "
                "its control, so it cannot be extrapolated; drive it by tension, pressure or "
                "force."
            )
        return ExtrapolatedPotential(term=term)


def without_extrapolation(actuator: Any) -> Any:
    """Return the actuator, unwrapped if it is an `ExtrapolatedActuator`."""
    return actuator.actuator if isinstance(actuator, ExtrapolatedActuator) else actuator


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtrapolatedPotential:
    """A Potential with the energy sum_k u_k l_k(y) for controls of any sign, where l_k is the
    energy per unit of control k, such as the length of a cable."""

    term: Potential
    stiff: bool = False

    @property
    def n_controls(self) -> int:
        return self.term.n_controls

    @property
    def weights(self) -> sp.csr_matrix:
        return self.term.weights

    @property
    def offset(self) -> Array:
        return self.term.offset

    @property
    def points_per_block(self) -> int:
        return self.term.points_per_block

    def energy_per_control(self, y: Array) -> Array:
        """Return l (n_controls,): the length of a cable [m], or minus the volume of a pressure
        [m^3]."""
        return np.array([self.term.energy(y, unit) for unit in np.eye(self.n_controls)])

    def energy(self, y: Array, u: Array) -> float:
        return float(u @ self.energy_per_control(y))

    def gradient(self, y: Array, u: Array) -> Array:
        return np.tensordot(u, self.control_gradient(y, u), axes=1)

    def hessian(self, y: Array, u: Array) -> Array:
        return sum(
            scale * self.term.hessian(y, unit)
            for scale, unit in zip(u, np.eye(self.n_controls), strict=True)
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return self.term.control_gradient(y, np.ones(self.n_controls))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(self.n_controls)
