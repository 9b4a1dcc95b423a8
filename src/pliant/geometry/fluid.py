"""The exact weight of a fluid at rest in a closed wall: polynomials of the wall's nodes, so that every derivative is exact as well.

A fluid that fills its cavity presses with p(x) = p0 + rho g . (x - x0) on every wall. These forces are minus the gradient of the
potential E = -(the integral of p over the fluid), and both parts of that integral, the volume and the first moment of g . x, are signed
sums over the facets of the wall.
"""

from dataclasses import dataclass
from math import isfinite

import numpy as np
import scipy.sparse as sp
from numba import njit

from pliant.core import Array, MeshError, finite_array, require_number, require_positive
from pliant.geometry.cavities import volume_form, volume_hessians
from pliant.geometry.moments import first_moment
from pliant.geometry.wall import checked_wall
from pliant.kernels import FAST

TWENTY_FOURTH = 1.0 / 24.0  # a product is quicker than a division


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What a closed surface encloses."""

    volume: float  # [m^3]
    area: float  # [m^2] of the surface
    centroid: Array  # (3,) [m] of the volume


@dataclass(frozen=True, kw_only=True)
class Hydrostatics:
    """What a fluid that fills its wall does to it: forces = -d(energy)/d(points)."""

    volume: float  # [m^3]
    energy: float  # [J], minus the integral of the pressure over the fluid
    forces: Array  # (n, 3) [N] on the nodes of the wall


def measures(points: Array, triangles: Array) -> Measures:
    """Volume, area and centroid of a closed surface, points (n, 3) [m] and outward triangles (k, 3), by signed sums."""
    points, triangles = checked_wall(points, triangles)
    centre = points.mean(axis=0)  # measured from there, where rounding is least
    a, b, c = (points[triangles[:, i]] - centre for i in range(3))
    normal = np.cross(b - a, c - a)
    cones = np.einsum("ki,ki->k", a, normal) / 6
    volume = _held(float(cones.sum()), normal.sum(axis=0), float(np.abs(normal).sum()))
    return Measures(
        volume=volume, area=float(np.linalg.norm(normal, axis=1).sum() / 2), centroid=centre + cones @ (a + b + c) / (4 * volume)
    )


def hydrostatics(points: Array, triangles: Array, *, density: float, gravity: Array, pressure: float = 0.0,
                 datum: Array | None = None) -> Hydrostatics:  # fmt: skip
    """The exact load of a fluid on its whole wall, points (n, 3) [m] and outward triangles (k, 3).

    The pressure is `pressure` [Pa] at the place `datum` (3,) [m], by default the highest corner, and grows by density [kg/m^3] times
    gravity (3,) [m/s^2] from there. The forces are linear in the pressure, the density and the gravity, so that their derivatives in
    these are the forces of one of them alone; `hydrostatic_stiffness` is the derivative in the points, for a datum that stays.
    """
    points, triangles = checked_wall(points, triangles)
    slope, p0 = _slope(density, gravity), _number("The pressure of the fluid", pressure, "Pa")
    p = _pressures(points, triangles, slope, p0, np.inf if datum is None else float(_datum(datum) @ slope))
    forces, sums = _pressed(points, triangles, p)
    return Hydrostatics(volume=_held(float(sums[0]), sums[2:5], float(sums[5])), energy=-float(sums[1]), forces=forces)


def hydrostatic_stiffness(points: Array, triangles: Array, *, density: float, gravity: Array, pressure: float = 0.0,
                          datum: Array | None = None) -> sp.csr_array:  # fmt: skip
    """(3 n, 3 n) [N/m] symmetric, the Hessian of the energy of `hydrostatics`: -d(forces)/d(points)."""
    hydrostatics(points, triangles, density=density, gravity=gravity, pressure=pressure, datum=datum)  # refuses what has no Hessian
    points, triangles = checked_wall(points, triangles)
    slope, corners = _slope(density, gravity), points[triangles]
    datum = corners.reshape(-1, 3)[np.argmin(corners @ slope)] if datum is None else _datum(datum)
    y = (corners - datum).reshape(len(triangles), 9)
    blocks = _number("The pressure of the fluid", pressure, "Pa") * volume_hessians(volume_form(3, 1), y)
    blocks = -(blocks + first_moment(y, 3, 1, slope)[2])
    rows = (3 * triangles[:, :, None] + np.arange(3)).reshape(len(triangles), 9)
    at = (np.repeat(rows, 9, axis=1).ravel(), np.tile(rows, (1, 9)).ravel())
    return sp.coo_array((blocks.ravel(), at), shape=2 * (points.size,)).tocsr()


def _slope(density: float, gravity: Array) -> Array:
    """(3,) [Pa/m] the gradient of the pressure."""
    return require_positive("The density of the fluid", density, "kg/m^3") * finite_array(
        "The gravity of the fluid", gravity, (3,), "m/s^2"
    )


def _number(name: str, value: float, unit: str) -> float:
    number = require_number(name, value, unit)
    return number if isfinite(number) else float(finite_array(name, number, ()))


def _datum(place: Array) -> Array:
    return finite_array("The datum of the pressure", place, (3,), "m")


def _held(volume: float, leak: Array, size: float) -> float:
    """The volume, or a sentence: the area vectors of a closed surface sum to zero."""
    if max(leak.max(), -leak.min()) > 1e-9 * size:
        raise MeshError("The wall leaks: the area vectors of its triangles do not sum to zero. Close its holes, and let all triangles "
                        "point outward; geometry.check_wall says where.")  # fmt: skip
    if not volume > 0.0:
        flat = volume > -1e-12 * size**1.5  # what rounding leaves of none
        raise MeshError(f"The wall encloses {volume:.3g} m^3: "
                        + ("it is flat and holds no fluid. Leave a volume." if flat else
                           "its triangles point inward. Pass triangles[:, ::-1]."))  # fmt: skip
    return volume


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _pressures(points, triangles, slope, p0, least):
    """(n,) the pressure at the nodes: p0 where slope . x is `least`, or least of all corners where that is infinite."""
    p = np.empty(points.shape[0])
    for i in range(points.shape[0]):
        p[i] = slope[0] * points[i, 0] + slope[1] * points[i, 1] + slope[2] * points[i, 2]
    if least == np.inf:
        for t in range(triangles.shape[0]):  # a node without a triangle is no part of the wall
            least = min(least, p[triangles[t, 0]], p[triangles[t, 1]], p[triangles[t, 2]])
    p += p0 - least
    return p


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _pressed(points, triangles, p):
    """(forces (n, 3), sums (6,)) of nodes at pressures p (n,): the pressure times each shape function, integrated over each triangle, is
    n A (sum p + p_i) / 12. The sums are the volume and the integral of the pressure, of cones whose tip is a node, the three of the area
    vectors, doubled, and that of their sizes. On one thread: a triangle takes some ten nanoseconds, and a second thread would need
    nodes of its own to sum to."""
    forces, tip = np.zeros(points.shape), triangles[0, 0]
    x0, y0, z0, p_tip = points[tip, 0], points[tip, 1], points[tip, 2], p[tip]
    volume = content = sum_x = sum_y = sum_z = size = 0.0
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        e0, e1, e2 = points[j, 0] - x, points[j, 1] - y, points[j, 2] - z
        f0, f1, f2 = points[k, 0] - x, points[k, 1] - y, points[k, 2] - z
        n0, n1, n2 = e1 * f2 - e2 * f1, e2 * f0 - e0 * f2, e0 * f1 - e1 * f0  # twice the area
        cone = n0 * (x - x0) + n1 * (y - y0) + n2 * (z - z0)  # six times its volume
        s = p[i] + p[j] + p[k]
        for node, weight in ((i, TWENTY_FOURTH * (s + p[i])), (j, TWENTY_FOURTH * (s + p[j])), (k, TWENTY_FOURTH * (s + p[k]))):
            forces[node, 0] += weight * n0
            forces[node, 1] += weight * n1
            forces[node, 2] += weight * n2
        volume += cone
        content += cone * (s + p_tip)
        sum_x, sum_y, sum_z = sum_x + n0, sum_y + n1, sum_z + n2
        size += abs(n0) + abs(n1) + abs(n2)
    return forces, np.array([volume / 6.0, content / 24.0, sum_x, sum_y, sum_z, size])
