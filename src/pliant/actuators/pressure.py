"""A fluid in a closed cavity of a solid, driven by its pressure, by its volume, or by how much gas
there is of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Matter, Solid
from pliant.core import Array, InputError, check_limits, require_kind, require_positive
from pliant.geometry import Mesh
from pliant.geometry.boundary import facet_shape
from pliant.geometry.cavities import connected, enclosed, open_rims, volume_form, volume_hessians
from pliant.geometry.cavity_names import cavity_advice
from pliant.geometry.crossings import crossing_pair
from pliant.geometry.mesh import unknown_name

ATMOSPHERE = 101325.0  # [Pa]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pressure:
    """A fluid without weight in a cavity; `cavity` names a surface of the mesh that is the whole
    wall of a closed void.

    drive "pressure": the control is the pressure p [Pa] above that outside, so f = p dV/dq; with a
    lower limit below zero it may suck. drive "volume": the control is the volume of the fluid as a
    share of the cavity's rest volume V0, and the fluid is a spring that pushes and pulls, p = bulk
    (u - V / V0). drive "gas": the control is the amount of gas as a share of what fills the cavity
    at rest under the air around it, p = 101325 Pa (u V0 / V - 1) at a constant temperature; held at
    1 it is a sealed chamber. In the plane the volume is the area times the thickness of the body.
    """

    cavity: str
    drive: str = "pressure"
    limits: tuple[float, float] = (
        0.0,
        inf,
    )  # what the pump can do: pressure [Pa] or share of what fills the cavity at rest [-]
    # [Pa] of the fluid of a volume-driven cavity: some ten times a silicone's E, so that V follows
    # to a few percent
    bulk: float = 1e6

    def __post_init__(self) -> None:
        check_fluid(
            "a pressure", self.cavity, self.drive, ("gas", "pressure", "volume"), self.limits
        )
        require_positive("The fluid's bulk modulus", self.bulk, "Pa")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which the fluid does nothing at rest: no pressure, or as much fluid as the
        cavity holds."""
        return 0.0 if self.drive == "pressure" else 1.0

    def on(self, body: Matter) -> "AttachedPressure":
        """The fluid in a body; a cavity that leaks, that crosses itself or that is none is an
        error."""
        return uncrossed(body, self.cavity, attached(body, self.cavity, self.drive, self.bulk))


def check_fluid(
    what: str, cavity: str, drive: str, drives: Sequence[str], limits: tuple[float, float]
) -> None:
    """A sentence unless these can describe a fluid in a cavity."""
    require_kind(
        f"The cavity of {what}", cavity, str, "name a surface of the mesh, such as 'cavity-1'"
    )
    if drive not in drives:
        *others, last = (f"'{name}'" for name in drives)
        raise InputError(f"A cavity is driven by {', '.join(others)} or {last}, not by '{drive}'.")
    check_limits(what, limits)


def attached(body: Matter, cavity: str, drive: str, bulk: float) -> "AttachedPressure":
    """A fluid without weight in a cavity of a body."""
    if not isinstance(body, Solid):
        raise InputError(
            f"{type(body).__name__} has no cavities that could hold a fluid; give the robot a "
            "shape or a mesh with a closed void, and step it as a solid."
        )
    if cavity not in body.mesh.surfaces:
        raise unknown_name(cavity, list(body.mesh.surfaces), cavity_advice(body.mesh))
    points, facets = body.mesh.points, body.mesh.facets(cavity)
    check_cavity(cavity, body.mesh)
    nodes = facets.ravel()
    weights = sp.csr_matrix(
        (np.ones(nodes.size), (np.arange(nodes.size), nodes)), shape=(nodes.size, len(points))
    )
    depth = body.thickness if body.dim == 2 else 1.0
    form = -depth * volume_form(body.dim, body.mesh.order)  # the facets point into the cavity
    centre = points[np.unique(nodes)].mean(
        axis=0
    )  # y is measured from there, where rounding is least
    return AttachedPressure(
        weights=weights,
        offset=np.tile(-centre, (nodes.size, 1)),
        group=facets.shape[1],
        form=form,
        rest_volume=-depth * enclosed(points, facets),
        drive=drive,
        bulk=bulk,
        depth=depth,
    )


def check_cavity(name: str, mesh: Mesh) -> None:
    """Raise `InputError` unless the surface is the whole wall of one or more voids."""
    points, facets, dim = mesh.points, mesh.facets(name), mesh.dim
    gaps = open_rims(facets, dim)
    if len(gaps):
        place, rim = (
            points[gaps[0]].mean(axis=0).round(6).tolist(),
            "points" if dim == 2 else "edges",
        )
        raise InputError(
            f"The cavity '{name}' leaks: {len(gaps)} {rim} of its wall are open (first: near "
            f"{place} m). {cavity_advice(mesh)}"
        )
    for part in connected(points, facets):
        volume, size = (
            enclosed(points, part),
            float(np.ptp(points[part].reshape(-1, dim), axis=0).max()),
        )
        if abs(volume) < 1e-9 * size**dim:
            raise InputError(
                f"The cavity '{name}' encloses no volume, so that a pressure in it does no work. "
                f"{cavity_advice(mesh)}"
            )
        if volume > 0.0:
            unit = "m^2" if dim == 2 else "m^3"
            raise InputError(
                f"The surface '{name}' goes around {volume:.3g} {unit} of the body, not around a "
                f"void. {cavity_advice(mesh)}"
            )


def uncrossed(body: Matter, cavity: str, fluid: "AttachedPressure") -> "AttachedPressure":
    """The fluid, or a sentence where the straight wall of its cavity in space crosses or touches
    itself; curved ones are not looked at."""
    assert isinstance(body, Solid)  # what else holds no fluid
    points, facets = body.mesh.points, body.mesh.facets(cavity)
    if body.dim == 2 or _curved(points[facets]):
        return fluid
    nodes, triangles = np.unique(facets[:, :3], return_inverse=True)
    pair = crossing_pair(points[nodes], triangles.reshape(-1, 3))
    if pair is not None:
        place = points[facets[pair[0], :3]].mean(axis=0).round(6).tolist()
        raise InputError(
            f"The cavity '{cavity}' crosses or touches itself: facets {pair[0]} and {pair[1]} of "
            f"its wall meet (near {place} m). Move them from each other, so that no fluid is "
            "counted twice."
        )
    return fluid


def _curved(nodes: Array) -> bool:
    """Whether the middle of an edge of any facet (k, group, 3) is not between its ends."""
    if nodes.shape[1] == 3:
        return False
    middles = [
        np.tensordot(facet_shape(at, 2)[0] - np.pad(at, (0, 3)), nodes, axes=(0, 1))
        for at in 0.5 * (1.0 - np.eye(3))
    ]
    return float(np.abs(middles).max()) > 1e-9 * float(np.ptp(nodes))


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedPressure:
    """A Term whose points y are the nodes of the cavity's wall, facet by facet; the volume V is a
    cubic form of each facet (in the plane a quadratic one), so that its derivatives are exact."""

    weights: sp.csr_matrix  # (n_facets group, n_nodes)
    offset: Array  # (n_facets group, dim) [m]
    group: int  # nodes of a facet
    form: Array  # (group dim,)^dim the Hessian of a facet's share of V is form y, in the plane form
    rest_volume: float  # [m^3]
    drive: str
    bulk: float  # [Pa]
    depth: float = 1.0  # [m] of a plane body across its plane
    n_controls: int = 1

    @property
    def stiff(self) -> bool:
        return self.drive != "pressure"

    def volume(self, y: Array) -> Array:
        """[m^3]"""
        return self._measured(y)[0]

    def displacement(self, y: Array) -> Array:
        """[m^3] how much the cavity has swollen since rest."""
        return self.volume(y) - self.rest_volume

    def pressure(self, y: Array, u: Array) -> Array:
        """[Pa] above that outside."""
        return self._law(self.volume(y), u)[0]

    def _law(self, V: Array, u: Array) -> tuple[Array, Array, Array]:
        """(p [Pa], -dp/dV [Pa/m^3], dp/du [Pa or 1]) of the fluid where it fills V [m^3]."""
        if self.drive == "pressure":
            return u[0], np.array(0.0), np.array(1.0)
        if self.drive == "volume":
            return (
                self.bulk * (u[0] - V / self.rest_volume),
                np.array(self.bulk / self.rest_volume),
                np.array(self.bulk),
            )
        density = (
            self.rest_volume / V
        )  # of as much gas as fills the cavity at rest, over that of the air around it
        return (
            ATMOSPHERE * (u[0] * density - 1.0),
            ATMOSPHERE * u[0] * density / V,
            ATMOSPHERE * density,
        )

    def _hessians(self, y: Array) -> Array:
        return volume_hessians(self.form, y.reshape(-1, self.group * y.shape[1]))

    def _measured(self, y: Array) -> tuple[Array, Array, Array]:
        """(V [m^3], dV/dy (n_points, dim) [m^2], its Hessians), the first two by Euler's theorem on
        homogeneous functions."""
        H = self._hessians(y)
        slope = (H @ y.reshape(len(H), -1, 1)).reshape(y.shape) / (y.shape[1] - 1)
        return np.sum(slope * y) / y.shape[1], slope, H

    def energy(self, y: Array, u: Array) -> float:
        V, V0 = self.volume(y), self.rest_volume
        if self.drive == "gas":
            return ATMOSPHERE * float(V - V0 - u[0] * V0 * np.log(V / V0)) if V > 0.0 else inf
        p = self._law(V, u)[0]
        return float(-p * V if self.drive == "pressure" else 0.5 * V0 / self.bulk * p**2)

    def gradient(self, y: Array, u: Array) -> Array:
        V, slope, _ = self._measured(y)
        return -self._law(V, u)[0] * slope

    def curvature(self, y: Array, u: Array) -> Array:
        V, _, H = self._measured(y)
        return -self._law(V, u)[0] * H

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        V, slope, _ = self._measured(y)
        stiffness = self._law(V, u)[1]
        n = int(stiffness != 0.0)  # no gas at all is no spring
        return slope[None][:n], np.full(n, stiffness)

    def control_gradient(self, y: Array, u: Array) -> Array:
        V, slope, _ = self._measured(y)
        return -self._law(V, u)[2] * slope[None]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(
            1
            # the force is linear in the pressure, in the volume of the fluid and in the amount of
            # gas
        )
