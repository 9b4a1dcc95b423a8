"""A fluid in a closed cavity of a solid, driven by its pressure or by its volume."""

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Matter, Solid
from pliant.core import Array, InputError, check_limits, require_kind, require_positive
from pliant.geometry.cavities import connected, enclosed, open_rims, volume_form, volume_hessians


@dataclass(frozen=True, kw_only=True, eq=False)
class Pressure:
    """A fluid in a cavity; `cavity` names a surface of the mesh that is the whole wall of a closed void.

    drive "pressure": the control is the pressure p [Pa] above that outside, so f = p dV/dq; with a lower limit below zero it may suck.
    drive "volume": the control is the volume of the fluid as a share of the cavity's rest volume V0, and the fluid is a spring that
    pushes and pulls, p = bulk (u - V / V0). In the plane the volume is the area times the thickness of the body.
    """

    cavity: str
    drive: str = "pressure"
    limits: tuple[float, float] = (0.0, inf)  # what the pump can do: pressure [Pa] or share of the rest volume [-]
    bulk: float = 1e6  # [Pa] of the fluid of a volume-driven cavity: some ten times a silicone's E, so that V follows to a few percent

    def __post_init__(self) -> None:
        require_kind("The cavity of a pressure", self.cavity, str, "name a surface of the mesh, such as 'cavity-1'")
        if self.drive not in ("pressure", "volume"):
            raise InputError(f"A cavity is driven by 'pressure' or 'volume', not by '{self.drive}'.")
        check_limits("a pressure", self.limits)
        require_positive("The fluid's bulk modulus", self.bulk, "Pa")

    @property
    def n_controls(self) -> int:
        return 1

    @property
    def neutral(self) -> float:
        """The control at which the fluid does nothing at rest: no pressure, or as much fluid as the cavity holds."""
        return 0.0 if self.drive == "pressure" else 1.0

    def on(self, body: Matter) -> "AttachedPressure":
        """The fluid in a body; a cavity that leaks, or that is none, is an error."""
        if not isinstance(body, Solid):
            raise InputError(f"{type(body).__name__} has no cavities that could hold a fluid; give the robot a shape or a mesh with a "
                             "closed void, and step it as a solid.")  # fmt: skip
        points, facets = body.mesh.points, body.mesh.facets(self.cavity)
        check_cavity(self.cavity, points, facets)
        nodes = facets.ravel()
        weights = sp.csr_matrix((np.ones(nodes.size), (np.arange(nodes.size), nodes)), shape=(nodes.size, len(points)))
        depth = body.thickness if body.dim == 2 else 1.0
        form = -depth * volume_form(body.dim, body.mesh.order)  # the facets point into the cavity
        centre = points[np.unique(nodes)].mean(axis=0)  # y is measured from there, where rounding is least
        return AttachedPressure(weights=weights, offset=np.tile(-centre, (nodes.size, 1)), group=facets.shape[1], form=form,
                                rest_volume=-depth * enclosed(points, facets), drive=self.drive, bulk=self.bulk)  # fmt: skip


def check_cavity(name: str, points: Array, facets: Array) -> None:
    """A sentence unless the facets are the whole wall of one or more voids."""
    dim, gaps = points.shape[1], open_rims(facets, points.shape[1])
    remedy = "Name a surface that closes all around a void; geometry.with_cavities finds those of a mesh."
    if len(gaps):
        place, rim = points[gaps[0]].mean(axis=0).round(6).tolist(), "points" if dim == 2 else "edges"
        raise InputError(f"The cavity '{name}' leaks: {len(gaps)} {rim} of its wall are open (first: near {place} m). {remedy}")
    for part in connected(facets, dim):
        volume, size = enclosed(points, part), float(np.ptp(points[part].reshape(-1, dim), axis=0).max())
        if abs(volume) < 1e-9 * size**dim:
            raise InputError(f"The cavity '{name}' encloses no volume, so that a pressure in it does no work; leave a void in the body.")
        if volume > 0.0:
            unit = "m^2" if dim == 2 else "m^3"
            raise InputError(f"The surface '{name}' goes around {volume:.3g} {unit} of the body, not around a void. {remedy}")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedPressure:
    """A Term whose points y are the nodes of the cavity's wall, facet by facet; the volume V is a cubic form of each facet (in the
    plane a quadratic one), so that its derivatives are exact."""

    weights: sp.csr_matrix  # (n_facets group, n_nodes)
    offset: Array  # (n_facets group, dim) [m]
    group: int  # nodes of a facet
    form: Array  # (group dim,)^dim the Hessian of a facet's share of V is form y, in the plane form
    rest_volume: float  # [m^3]
    drive: str
    bulk: float  # [Pa]
    n_controls: int = 1

    @property
    def stiff(self) -> bool:
        return self.drive == "volume"

    def volume(self, y: Array) -> Array:
        """[m^3]"""
        return np.sum(self._slope(y) * y) / y.shape[1]

    def displacement(self, y: Array) -> Array:
        """[m^3] how much the cavity has swollen since rest."""
        return self.volume(y) - self.rest_volume

    def pressure(self, y: Array, u: Array) -> Array:
        """[Pa] above that outside."""
        return u[0] if self.drive == "pressure" else self.bulk * (u[0] - self.volume(y) / self.rest_volume)

    def _hessians(self, y: Array) -> Array:
        return volume_hessians(self.form, y.reshape(-1, self.group * y.shape[1]))

    def _slope(self, y: Array) -> Array:
        """(n_points, dim) [m^2] dV/dy, by Euler's theorem on homogeneous functions."""
        H = self._hessians(y)
        return (H @ y.reshape(len(H), -1, 1)).reshape(y.shape) / (y.shape[1] - 1)

    def energy(self, y: Array, u: Array) -> float:
        p = self.pressure(y, u)
        return float(-p * self.volume(y) if self.drive == "pressure" else 0.5 * self.rest_volume / self.bulk * p**2)

    def gradient(self, y: Array, u: Array) -> Array:
        return -self.pressure(y, u) * self._slope(y)

    def curvature(self, y: Array, u: Array) -> Array:
        return -self.pressure(y, u) * self._hessians(y)

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        n = int(self.stiff)
        return self._slope(y)[None][:n], np.full(n, self.bulk / self.rest_volume)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return -(self.bulk if self.stiff else 1.0) * self._slope(y)[None]

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(1)  # the force is linear in the pressure and in the volume of the fluid
