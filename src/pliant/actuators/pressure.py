"""A fluid in a closed cavity of a solid, driven by its pressure, its volume or its amount of
gas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.actuators.polyline import Polyline
from pliant.bodies import (
    AttachableBody,
    MeshedBody,
    Solid,
    positive_parameter,
    unit_gradient,
)
from pliant.core import (
    Array,
    InputError,
    Param,
    check_limits,
    counted,
    require_kind,
    require_positive,
)
from pliant.geometry import Mesh
from pliant.geometry.boundary import facet_shape
from pliant.geometry.cavities import (
    connected_parts,
    open_rims,
    signed_enclosed_volume,
    volume_form,
    volume_hessians,
)
from pliant.geometry.cavity_names import suggest_cavities
from pliant.geometry.mesh import unknown_name_error
from pliant.geometry.self_intersection import find_intersecting_pair

ATMOSPHERE = 101325.0  # [Pa]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pressure:
    """A fluid without weight in a cavity. `cavity` names a surface of the mesh that is the whole
    wall of a closed void.

    drive "pressure": the control is the gauge pressure p [Pa], and the force is f = p dV/dq; a
    lower limit below zero allows suction. drive "volume": the control u is the ratio of the fluid's
    volume to the cavity's rest volume V0 [-], and p = bulk (u - V / V0). drive "gas": the control
    is the ratio of the amount of gas to that at rest under atmospheric pressure [-], and
    p = 101325 Pa (u V0 / V - 1) at constant temperature; u = 1 is a sealed chamber. In the plane
    the volume is the area times the thickness of the body.
    """

    cavity: str
    drive: str = "pressure"
    limits: tuple[float, float] = (0.0, inf)  # of the control
    # [Pa] bulk modulus, if driven by volume. About ten times E of silicone, so that V follows the
    # control to a few percent.
    bulk: float = 1e6
    strength: float = 1.0  # [-] pressure over the control, if driven by pressure

    def __post_init__(self) -> None:
        check_fluid(
            "a pressure", self.cavity, self.drive, ("gas", "pressure", "volume"), self.limits
        )
        require_positive("The fluid's bulk modulus", self.bulk, "Pa")
        check_strength(self.strength, self.drive)

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control without force at rest: zero pressure, or the amount of fluid at rest."""
        return 0.0 if self.drive == "pressure" else 1.0

    @property
    def units(self) -> tuple[str, ...]:
        return ("Pa" if self.drive == "pressure" else "-",)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedPressure":
        """Return the Potential of the fluid. Raises `InputError` if the cavity is open, intersects
        itself, or does not exist."""
        fluid = attach_fluid(body, self.cavity, self.drive, self.bulk, self.strength)
        check_self_intersection(body, self.cavity)
        return fluid


def check_fluid(
    what: str, cavity: str, drive: str, drives: Sequence[str], limits: tuple[float, float]
) -> None:
    """Raise `InputError` unless these parameters describe a fluid in a cavity."""
    require_kind(
        f"The cavity of {what}", cavity, str, "name a surface of the mesh, such as 'cavity-1'"
    )
    if drive not in drives:
        *others, last = (f"'{name}'" for name in drives)
        raise InputError(f"A cavity is driven by {', '.join(others)} or {last}, not by '{drive}'.")
    check_limits(what, limits)


def check_strength(strength: float, drive: str) -> None:
    """Raise `InputError` unless a fluid with this drive can have this strength."""
    require_positive("The strength of a fluid", strength, "")
    if strength != 1.0 and drive != "pressure":
        raise InputError(
            f"A cavity that is driven by {drive} has a strength, but its control is no pressure; "
            "remove it, or drive the cavity by 'pressure'."
        )


def attach_fluid(
    body: AttachableBody, cavity: str, drive: str, bulk: float, strength: float = 1.0
) -> "AttachedPressure":
    """Return the Potential of a fluid without weight in a cavity. Raises `InputError` if there is
    no such closed cavity."""
    if not isinstance(body, MeshedBody):
        raise InputError(
            f"{type(body).__name__} has no cavities for a fluid; give the robot a shape or a mesh "
            "with a closed void."
        )
    if cavity not in body.mesh.surfaces:
        raise unknown_name_error(cavity, list(body.mesh.surfaces), suggest_cavities(body.mesh))
    points, facets = body.mesh.points, body.mesh.facets(cavity)
    check_cavity(cavity, body.mesh)
    nodes = facets.ravel()
    depth = body.thickness if body.dim == 2 else 1.0
    form = -depth * volume_form(body.dim, body.mesh.order)  # the facets point into the cavity
    centre = points[np.unique(nodes)].mean(axis=0)  # origin of y, to reduce rounding errors
    return AttachedPressure(
        weights=_wall_weights(body, nodes),
        offset=np.tile(-centre, (nodes.size, 1)),
        points_per_block=facets.shape[1],
        form=form,
        rest_volume=-depth * signed_enclosed_volume(points, facets),
        drive=drive,
        bulk=bulk,
        depth=depth,
        strength=strength,
    )


def _wall_weights(body: MeshedBody, nodes: Array) -> sp.csr_matrix:
    """Return the weights (k, n_nodes) of the body's unknowns in nodes (k,) of its mesh. Those of a
    solid are its unknowns; those of particles are material points."""
    if isinstance(body, Solid):
        at = (np.arange(nodes.size), nodes)
        return sp.csr_matrix((np.ones(nodes.size), at), shape=(nodes.size, len(body.mesh.points)))
    distinct, which = np.unique(nodes, return_inverse=True)
    return body.locate(body.mesh.points[distinct])[which]


def check_cavity(name: str, mesh: Mesh) -> None:
    """Raise `InputError` unless the surface is the whole wall of one or more voids."""
    points, facets, dim = mesh.points, mesh.facets(name), mesh.dim
    gaps = open_rims(facets, dim)
    if len(gaps):
        place = points[gaps[0]].mean(axis=0).round(6).tolist()
        rim = counted(len(gaps), "point" if dim == 2 else "edge")
        verb = "is" if len(gaps) == 1 else "are"
        raise InputError(
            f"The cavity '{name}' is open: {rim} of its wall {verb} free (first: near {place} m). "
            f"{suggest_cavities(mesh)}"
        )
    for part in connected_parts(points, facets):
        volume, size = (
            signed_enclosed_volume(points, part),
            float(np.ptp(points[part].reshape(-1, dim), axis=0).max()),
        )
        if abs(volume) < 1e-9 * size**dim:
            raise InputError(
                f"The cavity '{name}' encloses no volume, so a pressure in it does no work. "
                f"{suggest_cavities(mesh)}"
            )
        if volume > 0.0:
            unit = "m^2" if dim == 2 else "m^3"
            raise InputError(
                f"The surface '{name}' encloses {volume:.3g} {unit} of the body, not a void. "
                f"{suggest_cavities(mesh)}"
            )


def check_self_intersection(body: AttachableBody, cavity: str) -> None:
    """Raise `InputError` if the wall of a cavity in space intersects or touches itself. Curved
    walls are not checked."""
    assert isinstance(body, MeshedBody)  # only these have cavities
    points, facets = body.mesh.points, body.mesh.facets(cavity)
    if body.dim == 2 or _is_curved(points[facets]):
        return
    nodes, triangles = np.unique(facets[:, :3], return_inverse=True)
    pair = find_intersecting_pair(points[nodes], triangles.reshape(-1, 3))
    if pair is not None:
        place = points[facets[pair[0], :3]].mean(axis=0).round(6).tolist()
        raise InputError(
            f"The cavity '{cavity}' intersects or touches itself: facets {pair[0]} and {pair[1]} "
            f"of its wall meet (near {place} m). Move them apart."
        )


def _is_curved(nodes: Array) -> bool:
    """Return whether an edge of any facet (n_facets, n_nodes, 3) has its middle node off the
    straight line."""
    if nodes.shape[1] == 3:
        return False
    middles = [
        np.tensordot(facet_shape(at, 2)[0] - np.pad(at, (0, 3)), nodes, axes=(0, 1))
        for at in 0.5 * (1.0 - np.eye(3))
    ]
    return float(np.abs(middles).max()) > 1e-9 * float(np.ptp(nodes))


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedPressure:
    """The Potential of a fluid. Its points y are the nodes of the cavity's wall, facet by facet.

    The volume V is a cubic form of the nodes of each facet (in the plane: a quadratic form), so its
    derivatives are exact.
    """

    weights: sp.csr_matrix  # (n_facets points_per_block, n_nodes)
    offset: Array  # (n_facets points_per_block, dim) [m]
    points_per_block: int  # nodes of a facet
    # (points_per_block dim,)^dim: the Hessian of a facet's volume is form y, in the plane form
    form: Array
    rest_volume: float  # [m^3]
    drive: str
    bulk: float  # [Pa]
    depth: float = 1.0  # [m] thickness of a plane body
    strength: float = 1.0  # [-] pressure over the control, if driven by pressure
    n_controls: int = 1

    @property
    def parameters(self) -> tuple[Param, ...]:
        if self.drive == "gas":  # its spring constant is the atmospheric pressure
            return ()
        if self.drive == "volume":
            return (positive_parameter("bulk", self.bulk, "Pa"),)
        return (positive_parameter("strength", self.strength, "-"),)

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedPressure":
        return replace(self, **values)

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        return unit_gradient(self, name, y, u)

    @property
    def stiff(self) -> bool:
        return self.drive != "pressure"

    def volume(self, y: Array) -> Array:
        """Return the volume of the cavity [m^3]."""
        return self._volume_derivatives(y)[0]

    def volume_gradient(self, y: Array) -> Array:
        """Return the derivative (n_points, dim) [m^2] of the volume by the points."""
        return self._volume_derivatives(y)[1]

    def displacement(self, y: Array) -> Array:
        """Return the increase of the volume since rest [m^3]."""
        return self.volume(y) - self.rest_volume

    def pressure(self, y: Array, u: Array) -> Array:
        """Return the gauge pressure [Pa]."""
        return self._pressure_law(self.volume(y), u)[0]

    def _pressure_law(self, V: Array, u: Array) -> tuple[Array, Array, Array]:
        """Return p [Pa], -dp/dV [Pa/m^3] and dp/du [Pa or 1] at the volume V [m^3]."""
        if self.drive == "pressure":
            return self.strength * u[0], np.array(0.0), np.array(self.strength)
        if self.drive == "volume":
            return (
                self.bulk * (u[0] - V / self.rest_volume),
                np.array(self.bulk / self.rest_volume),
                np.array(self.bulk),
            )
        density = self.rest_volume / V  # of the gas at u = 1, over that at rest
        return (
            ATMOSPHERE * (u[0] * density - 1.0),
            ATMOSPHERE * u[0] * density / V,
            ATMOSPHERE * density,
        )

    def volume_hessian(self, y: Array) -> Array:
        """Return the Hessian of the volume: blocks (n_facets, b dim, b dim) [m], where b =
        points_per_block."""
        return self._volume_derivatives(y)[2]

    def _volume_derivatives(self, y: Array) -> tuple[Array, Array, Array]:
        """Return V [m^3], dV/dy (n_points, dim) [m^2] and the Hessians of V. The first two follow
        from the third by Euler's theorem on homogeneous functions. The last result is stored: a
        step asks for the energy, the gradient and the Hessian at the same points."""
        last = self._last_volume.get("at")
        if last is not None and last[0].dtype == y.dtype and np.array_equal(last[0], y):
            return last[1]
        H = volume_hessians(self.form, y.reshape(-1, self.points_per_block * y.shape[1]))
        gradient = (H @ y.reshape(len(H), -1, 1)).reshape(y.shape) / (y.shape[1] - 1)
        found = np.sum(gradient * y) / y.shape[1], gradient, H
        self._last_volume["at"] = (y.copy(), found)
        return found

    @cached_property
    def _last_volume(self) -> dict[str, tuple[Array, tuple[Array, Array, Array]]]:
        return {}

    def energy(self, y: Array, u: Array) -> float:
        V, V0 = self.volume(y), self.rest_volume
        if self.drive == "gas":
            return ATMOSPHERE * float(V - V0 - u[0] * V0 * np.log(V / V0)) if V > 0.0 else inf
        p = self._pressure_law(V, u)[0]
        return float(-p * V if self.drive == "pressure" else 0.5 * V0 / self.bulk * p**2)

    def gradient(self, y: Array, u: Array) -> Array:
        V, gradient, _ = self._volume_derivatives(y)
        return -self._pressure_law(V, u)[0] * gradient

    def hessian(self, y: Array, u: Array) -> Array:
        V, _, H = self._volume_derivatives(y)
        return -self._pressure_law(V, u)[0] * H

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        V, gradient, _ = self._volume_derivatives(y)
        stiffness = self._pressure_law(V, u)[1]
        n = int(stiffness != 0.0)  # without gas there is no spring
        return gradient[None][:n], np.full(n, stiffness)

    def control_gradient(self, y: Array, u: Array) -> Array:
        V, gradient, _ = self._volume_derivatives(y)
        return -self._pressure_law(V, u)[2] * gradient[None]

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(1)  # the force is linear in the control, for every drive
