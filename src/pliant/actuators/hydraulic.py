"""A liquid in a closed cavity of a solid: the pressure of a pump, and the weight of the liquid on
the wall [Rodriguez2017].

The pressure is p(x) = p_ref + rho g . (x - x_ref), where the pump sets p_ref at the point x_ref,
fixed in space. The potential has two terms: that of the pump, a function of the volume V, and that
of the weight, -rho g . (S - x_ref V), where S is the integral of x over the liquid. Both are
polynomials of the wall's nodes, so forces and Hessians are exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.extrapolated import without_extrapolation
from pliant.actuators.polyline import Polyline
from pliant.actuators.pressure import (
    AttachedPressure,
    Pressure,
    attach_fluid,
    check_fluid,
    check_self_intersection,
    check_strength,
)
from pliant.bodies import AttachableBody, MeshedBody
from pliant.core import Array, InputError, Param, finite_array, require_positive
from pliant.hydrostatics.volume_moments import first_moment
from pliant.materials import DENSITY, GRAVITY


@dataclass(frozen=True, kw_only=True, eq=False)
class Hydraulic:
    """A liquid that fills a cavity. `cavity` names a surface of the mesh that is the whole wall of
    a closed void.

    drive "pressure": the control is the pressure [Pa] at x_ref, the highest point of the cavity at
    rest. drive "volume": the control is the ratio of the liquid's volume to the cavity's rest
    volume [-]. `attach` returns the Potential of the pump; `liquid` returns that of the weight,
    which has no controls and uses the robot's gravity. In dynamics of finite elements the mass
    follows the current volume, and the acceleration of the liquid acts on its pressure
    (`dynamics/liquid_inertia.py`). On particles the mass rho V0 moves with the wall.

    x_ref is fixed in space, as for a fixed pump with a hose to the cavity: a cavity that rises by h
    has rho g h less pressure. A closed chamber and a pump on the robot behave differently. With
    drive "volume" the error of the volume is at most rho g h / bulk: 1 % per metre of water with
    bulk = 1e6 Pa, and less with a larger bulk modulus.
    """

    cavity: str
    drive: str = "pressure"
    limits: tuple[float, float] = (0.0, inf)  # of the control
    density: float = 1000.0  # [kg/m^3]
    bulk: float = 1e6  # [Pa] bulk modulus of liquid and hoses, if driven by volume
    strength: float = 1.0  # [-] pressure over the control, if driven by pressure

    def __post_init__(self) -> None:
        check_fluid(
            "a hydraulic actuator", self.cavity, self.drive, ("pressure", "volume"), self.limits
        )
        DENSITY.require(self.density, "The liquid's density")
        require_positive("The liquid's bulk modulus", self.bulk, "Pa")
        check_strength(self.strength, self.drive)

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control without force of the pump at rest; the weight acts in any case."""
        return 0.0 if self.drive == "pressure" else 1.0

    @property
    def units(self) -> tuple[str, ...]:
        return ("Pa" if self.drive == "pressure" else "-",)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> AttachedPressure:
        """Return the Potential of the pump. Raises `InputError` if the cavity is open, intersects
        itself, or does not exist."""
        fluid = attach_fluid(body, self.cavity, self.drive, self.bulk, self.strength)
        check_self_intersection(body, self.cavity)
        return fluid

    def liquid(self, body: AttachableBody, gravity: ArrayLike | None) -> "AttachedLiquid":
        """Return the weight and mass of the liquid under gravity (dim,) [m/s^2]. Raises
        `InputError` if gravity is None."""
        if gravity is None:
            raise InputError(
                "The liquid of a hydraulic actuator needs gravity for its weight; give the robot "
                "gravity=(0, 0, -9.81) [m/s^2], or zeros for no gravity."
            )
        g = finite_array("Gravity", gravity, (body.dim,), "m/s^2")
        wall = attach_fluid(body, self.cavity, "pressure", self.bulk)
        y = wall.weights @ body.rest.reshape(-1, body.dim) + wall.offset
        return AttachedLiquid(
            wall=wall,
            density=self.density,
            gravity=g,
            rest=y,
            mass=self.density * wall.rest_volume * _node_mass_fractions(body, self.cavity, wall, y),
        )


def cavity_of(actuator: Any) -> str | None:
    """Return the surface around the fluid of an actuator, None for an actuator without fluid."""
    inner = without_extrapolation(actuator)
    return inner.cavity if isinstance(inner, Hydraulic | Pressure) else None


def liquid_of(
    actuator: Any, body: AttachableBody, gravity: ArrayLike | None
) -> "AttachedLiquid | None":
    """Return the liquid in an actuator, None for an actuator without liquid."""
    inner = without_extrapolation(actuator)
    return inner.liquid(body, gravity) if isinstance(inner, Hydraulic) else None


def check_cavities_distinct(actuators: Mapping[str, Any], body: AttachableBody) -> None:
    """Raise `InputError` if two actuators fill the same cavity: its volume, weight and mass would
    be counted twice."""
    if not isinstance(body, MeshedBody):
        return
    cavities = {
        name: cavity
        for name, actuator in actuators.items()
        if (cavity := cavity_of(actuator)) is not None
    }
    walls = {
        name: {*map(tuple, np.sort(body.mesh.facets(cavity), axis=1).tolist())}
        for name, cavity in cavities.items()
    }
    for first, second in combinations(cavities, 2):
        if walls[first] & walls[second]:
            raise InputError(
                f"The actuators '{first}' and '{second}' both fill the cavity "
                f"'{cavities[second]}'; remove one of them, or name another cavity."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedLiquid:
    """The Potential of a liquid's weight as a function of the wall's nodes y: minus the integral of
    head + rho g . y over the liquid."""

    wall: AttachedPressure  # driven by pressure
    density: float  # [kg/m^3]
    gravity: Array  # (dim,) [m/s^2]
    rest: Array  # (n_points, dim) [m] the points y at rest
    mass: Array  # (n_nodes,) [kg] mass of liquid at rest that moves with each node
    n_controls: int = 0
    stiff: bool = False  # the weight is slow compared to the vibrations of the body

    @property
    def specific_weight(self) -> Array:
        """(dim,) [N/m^3] rho g, in the plane times the thickness."""
        return self.density * self.wall.depth * self.gravity

    @property
    def head(self) -> float:
        """[Pa] The pressure at y = 0 minus the pressure at x_ref."""
        return -self.density * float((self.rest @ self.gravity).min())

    @property
    def parameters(self) -> tuple[Param, ...]:
        """The components of gravity."""
        return tuple(
            GRAVITY.parameter(axis, value, signed=True)
            for axis, value in zip("xyz", self.gravity, strict=False)
        )

    def with_parameters(self, values: Mapping[str, float]) -> "AttachedLiquid":
        g = [values.get(axis, value) for axis, value in zip("xyz", self.gravity, strict=False)]
        return replace(self, gravity=np.array(g, float))

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        """Return the derivative by a component of gravity. The force is linear in gravity as long
        as the highest point of the cavity is the same."""
        unit = np.eye(len(self.gravity))["xyz".index(name)]
        highest = self.rest[np.argmin(self.rest @ self.gravity)]
        head = np.array([-self.density * float(highest @ unit)])
        weight = self.density * self.wall.depth * unit
        return self.wall.gradient(y, head) + facet_moment(self.wall, y, weight)[1].reshape(y.shape)

    @property
    def weights(self) -> sp.csr_matrix:
        return self.wall.weights

    @property
    def offset(self) -> Array:
        return self.wall.offset

    @property
    def points_per_block(self) -> int:
        return self.wall.points_per_block

    @property
    def _heads(self) -> Array:
        return np.array([self.head])

    # The facets of the wall point into the cavity, so their first moment has the opposite sign

    def energy(self, y: Array, u: Array) -> float:
        return self.wall.energy(y, self._heads) + float(
            facet_moment(self.wall, y, self.specific_weight)[0]
        )

    def gradient(self, y: Array, u: Array) -> Array:
        return self.wall.gradient(y, self._heads) + facet_moment(
            self.wall, y, self.specific_weight
        )[1].reshape(y.shape)

    def hessian(self, y: Array, u: Array) -> Array:
        return (
            self.wall.hessian(y, self._heads)
            + facet_moment(self.wall, y, self.specific_weight, with_hessian=True)[2]
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


def facet_moment(
    wall: AttachedPressure, y: Array, g: Array, *, with_hessian: bool = False
) -> tuple[Array, Array, Array]:
    """Return the first moment of g over the volume enclosed by the wall's facets (minus that of the
    cavity), its gradient and, if `with_hessian`, its Hessians."""
    dim = y.shape[1]
    return first_moment(
        y.reshape(-1, wall.points_per_block * dim),
        dim,
        1 if wall.points_per_block == dim else 2,
        g,
        with_hessian=with_hessian,
    )


def _node_mass_fractions(
    body: AttachableBody, cavity: str, wall: AttachedPressure, y: Array
) -> Array:
    """Return the fraction of the liquid's mass at each node, (n_nodes,).

    It is proportional to the wall area of the node, with a linear correction so that the centre of
    mass is that of the liquid: a falling robot must not start to rotate.
    """
    area, rest = (
        body.node_areas(cavity, lumped=True),
        body.rest.reshape(-1, body.dim) + wall.offset[0],
    )
    fraction = area / area.sum()
    centre = (
        np.array([-wall.depth * facet_moment(wall, y, unit)[0] for unit in np.eye(body.dim)])
        / wall.rest_volume
    )
    z = rest - fraction @ rest
    offset = np.linalg.solve(z.T @ (fraction[:, None] * z), centre - fraction @ rest)
    corrected = fraction * (1.0 + z @ offset)
    # In a very asymmetric cavity, negative masses would be worse than a wrong centre of mass.
    return corrected if corrected.min() >= 0.0 else fraction


def merged_constraint(
    J_p: Array, weight: Array, volume: Array, solve: Callable[[Array], Array]
) -> Array:
    """Return the merged constraint of pressure and weight of m cavities, (n, m):
    J_a^T = J_p^T + J_w^T J_p K^-1 J_p^T [Rodriguez2017, section IV].

    J_p (m, n) [m^2] is dV/dq, `weight` (m, n) [N] the liquid's weight on the n unknowns, `volume`
    has shape (m,) [m^3], and solve (n, m) -> (n, m) applies K^-1. The paper assumes that the weight
    grows with the volume, J_w = w / V. In Pliant K contains the derivative of the weight, so
    K^-1 J_p^T is the exact response to a pressure; this function is for comparison only.
    """
    return J_p.T + (weight / np.asarray(volume)[:, None]).T @ (J_p @ solve(J_p.T))
