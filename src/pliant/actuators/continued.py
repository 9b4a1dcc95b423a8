"""An actuator whose force is linear in its control, continued to every control: a line that also
pushes, beyond what its motor can do."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Matter, Term
from pliant.core import Array, InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Continued:
    """An actuator without limits. A cable goes slack at zero tension, where its force has a kink;
    this one goes on to push."""

    actuator: Any  # an Actuator
    limits: tuple[float, float] = (-inf, inf)

    @property
    def n_controls(self) -> int:
        return self.actuator.n_controls

    @property
    def neutral(self) -> float | Array:
        return self.actuator.neutral

    def on(self, body: Matter) -> "ContinuedTerm":
        term: Term = self.actuator.on(body)
        y = term.weights @ body.rest.reshape(-1, body.dim) + term.offset
        once, twice = (term.gradient(y, share * np.ones(term.n_controls)) for share in (1.0, 2.0))
        if (
            term.stiff
            or np.any(term.gradient(y, np.zeros(term.n_controls)))
            or not np.allclose(twice, 2.0 * once)
        ):
            raise InputError(
                f"the force of a {type(self.actuator).__name__} driven like this is not linear "
                "in its control, so that no shapes can be named by it; drive it by tension, "
                "pressure or force."
            )
        return ContinuedTerm(term=term)


def uncontinued(actuator: Any) -> Any:
    """The actuator itself, whether it was continued or not."""
    return actuator.actuator if isinstance(actuator, Continued) else actuator


@dataclass(frozen=True, kw_only=True, eq=False)
class ContinuedTerm:
    """A Term whose energy is sum_k u_k l_k(y) for controls of any sign; l is what the control does
    its work on, such as a length."""

    term: Term
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
    def group(self) -> int:
        return self.term.group

    def lengths(self, y: Array) -> Array:
        """(n_controls,) l: for a cable its length [m], for a pressure minus the volume it swells
        [m^3]."""
        return np.array([self.term.energy(y, unit) for unit in np.eye(self.n_controls)])

    def energy(self, y: Array, u: Array) -> float:
        return float(u @ self.lengths(y))

    def gradient(self, y: Array, u: Array) -> Array:
        return np.tensordot(u, self.control_gradient(y, u), axes=1)

    def curvature(self, y: Array, u: Array) -> Array:
        return sum(
            share * self.term.curvature(y, unit)
            for share, unit in zip(u, np.eye(self.n_controls), strict=True)
        )

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return self.term.control_gradient(y, np.ones(self.n_controls))

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(self.n_controls)
