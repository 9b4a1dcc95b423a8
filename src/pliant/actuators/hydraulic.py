"""A liquid in a closed cavity of a solid: a pump that drives it, and its weight on every wall
(paper 002).

The liquid presses with p(x) = p_ref + rho g . (x - x_ref), where p_ref is what the pump says of the
point x_ref, fixed in space. Its potential is that of the pump, of the volume V alone, and that of
the weight, -rho g . (S - x_ref V) with S the integral of x over the liquid. Both are polynomials of
the wall's nodes, so that forces and Hessians are exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.continued import uncontinued
from pliant.actuators.pressure import AttachedPressure, Pressure, attached, check_fluid, uncrossed
from pliant.bodies import Matter, Solid
from pliant.core import Array, InputError, finite_array, require_positive
from pliant.geometry.moments import first_moment
from pliant.materials import DENSITY


@dataclass(frozen=True, kw_only=True, eq=False)
class Hydraulic:
    """A liquid that fills a cavity; `cavity` names a surface of the mesh that is the whole wall of
    a closed void.

    The control is that of a Pressure: the pressure [Pa] (drive "pressure") or the liquid's volume
    as a share of the cavity's rest volume (drive "volume"), by the pressure at x_ref, which is the
    highest point of the cavity at rest. On a body the pump is the Term of a Pressure; the weight is
    a Term of its own, `liquid`, without controls, which a robot's equations ask for with the
    robot's own gravity: so gravity is said once, and the liquid cannot fall another way than the
    body. In motion the mass rho V0 goes along with the wall.

    x_ref stays in space, whatever the robot does: right for a pump that stands still with a hose to
    the cavity. In a cavity that is lifted by h there is rho g h less pressure. Of a closed chamber,
    or of a pump that the robot carries, that is not so; with drive "volume" it changes the volume
    by up to rho g h / bulk (1 % a metre of water with bulk = 1e6 Pa), less with a larger bulk
    modulus.
    """

    cavity: str
    drive: str = "pressure"
    limits: tuple[float, float] = (
        0.0,
        inf,
    )  # what the pump can do: pressure [Pa] or share of the rest volume [-]
    density: float = 1000.0  # [kg/m^3]
    bulk: float = 1e6  # [Pa] of the liquid of a volume-driven cavity, with that of its hoses

    def __post_init__(self) -> None:
        check_fluid(
            "a hydraulic actuator", self.cavity, self.drive, ("pressure", "volume"), self.limits
        )
        DENSITY.require(self.density, "The liquid's density")
        require_positive("The liquid's bulk modulus", self.bulk, "Pa")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which the pump does nothing at rest; the weight acts all the same."""
        return 0.0 if self.drive == "pressure" else 1.0

    def on(self, body: Matter) -> AttachedPressure:
        """The pump in a body; a cavity that leaks, that crosses itself or that is none is an
        error."""
        return uncrossed(body, self.cavity, attached(body, self.cavity, self.drive, self.bulk))

    def liquid(self, body: Matter, gravity: ArrayLike | None) -> "AttachedLiquid":
        """The weight and the mass of the liquid under gravity (dim,) [m/s^2]."""
        if gravity is None:
            raise InputError(
                "The liquid of a hydraulic actuator has no gravity to weigh by; give the robot "
                "gravity=(0, 0, -9.81) [m/s^2], or zeros where it floats in space."
            )
        g = finite_array("Gravity", gravity, (body.dim,), "m/s^2")
        wall = attached(body, self.cavity, "pressure", self.bulk)
        y = wall.weights @ body.rest.reshape(-1, body.dim) + wall.offset
        return AttachedLiquid(
            wall=wall,
            pull=self.density * wall.depth * g,
            head=-self.density * float((y @ g).min()),
            mass=self.density * wall.rest_volume * _shares(body, self.cavity, wall, y),
        )


def liquid_of(actuator: Any, body: Matter, gravity: ArrayLike | None) -> "AttachedLiquid | None":
    """What fills an actuator, None where that weighs nothing."""
    inner = uncontinued(actuator)
    return inner.liquid(body, gravity) if isinstance(inner, Hydraulic) else None


def check_one_fluid_each(actuators: Mapping[str, Any], body: Matter) -> None:
    """A sentence where two actuators fill one cavity, under one name of it or two: volume, weight
    and mass would count twice."""
    if not isinstance(body, Solid):
        return
    inside = {name: uncontinued(actuator) for name, actuator in actuators.items()}
    fluids = {
        name: inner for name, inner in inside.items() if isinstance(inner, (Hydraulic, Pressure))
    }
    walls = {
        name: {*map(tuple, np.sort(body.mesh.facets(fluid.cavity), axis=1).tolist())}
        for name, fluid in fluids.items()
    }
    for first, second in combinations(fluids, 2):
        if walls[first] & walls[second]:
            raise InputError(
                f"The actuators '{first}' and '{second}' both fill the cavity "
                f"'{fluids[second].cavity}', which holds one fluid; remove one of them, or name "
                "another cavity."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedLiquid:
    """The weight of a liquid as a Term of the wall's nodes y: the potential -(the integral of head
    + rho g . y over the liquid)."""

    wall: AttachedPressure  # driven by pressure
    pull: Array  # (dim,) [N/m^3] rho g, in the plane times the thickness
    head: float  # [Pa] the pressure at y = 0 above that at x_ref
    mass: Array  # (n_nodes,) [kg] what of the liquid goes along with each node
    n_controls: int = 0
    stiff: bool = False  # a swing of the liquid is slow beside a body's own vibrations

    @property
    def weights(self) -> sp.csr_matrix:
        return self.wall.weights

    @property
    def offset(self) -> Array:
        return self.wall.offset

    @property
    def group(self) -> int:
        return self.wall.group

    @property
    def _heads(self) -> Array:
        return np.array([self.head])

    # Minus the first moment of rho g over the liquid [J] is that of the wall's facets, which point
    # into the cavity

    def energy(self, y: Array, u: Array) -> float:
        return self.wall.energy(y, self._heads) + float(facet_moment(self.wall, y, self.pull)[0])

    def gradient(self, y: Array, u: Array) -> Array:
        return self.wall.gradient(y, self._heads) + facet_moment(self.wall, y, self.pull)[
            1
        ].reshape(y.shape)

    def curvature(self, y: Array, u: Array) -> Array:
        return (
            self.wall.curvature(y, self._heads)
            + facet_moment(self.wall, y, self.pull, bends=True)[2]
        )

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


def facet_moment(
    wall: AttachedPressure, y: Array, g: Array, *, bends: bool = False
) -> tuple[Array, Array, Array]:
    """The first moment of g over what the wall's facets enclose, which is minus that over the
    cavity, its slope and, where it `bends`, its Hessians."""
    dim = y.shape[1]
    return first_moment(
        y.reshape(-1, wall.group * dim), dim, 1 if wall.group == dim else 2, g, bends=bends
    )


def _shares(body: Matter, cavity: str, wall: AttachedPressure, y: Array) -> Array:
    """(n_nodes,) what each node takes of the liquid's mass: by its area of the wall, tilted such
    that the centre of the masses is that of the liquid, so that a falling robot does not begin to
    turn."""
    area, rest = body.patch(cavity, even=True), body.rest.reshape(-1, body.dim) + wall.offset[0]
    share = area / area.sum()
    centre = (
        np.array([-wall.depth * facet_moment(wall, y, unit)[0] for unit in np.eye(body.dim)])
        / wall.rest_volume
    )
    z = rest - share @ rest
    tilted = share * (1.0 + z @ np.linalg.solve(z.T @ (share[:, None] * z), centre - share @ rest))
    return (
        tilted if tilted.min() >= 0.0 else share
    )  # a very lopsided cavity: a negative mass would be worse than an arm


def merged_constraint(
    J_p: Array, weight: Array, volume: Array, solve: Callable[[Array], Array]
) -> Array:
    """(n, m) the paper's one constraint of pressure and weight, J_a^T = J_p^T + J_w^T J_p K^-1
    J_p^T (section IV), for m cavities.

    J_p (m, n) [m^2] is dV/dq, weight (m, n) [N] the liquid's weight on the n unknowns by columns or
    by the exact pressure, volume (m,) [m^3], and solve (n, m) -> (n, m) is K^-1. The paper takes
    the weight to grow with the volume, J_w = w / V, wherever the wall goes. Here K holds the
    derivative of the weight itself, so that K^-1 J_p^T alone is the exact response to a pressure;
    this is for comparison.
    """
    return J_p.T + (weight / np.asarray(volume)[:, None]).T @ (J_p @ solve(J_p.T))
