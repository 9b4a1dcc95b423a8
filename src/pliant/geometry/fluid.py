"""The exact weight of a fluid at rest in a closed wall: polynomials of the wall's nodes, so that
every derivative is exact as well.

A fluid that fills its cavity presses with p(x) = p0 + rho g . (x - x0) on every wall. These forces
are minus the gradient of the potential E = -(the integral of p over the fluid), and both parts of
that integral, the volume and the first moment of g . x, are signed sums over the facets of the
wall.
"""

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from pliant.core import Array, MeshError, finite_array, require_number
from pliant.geometry.cavities import volume_form, volume_hessians
from pliant.geometry.moments import first_moment
from pliant.geometry.wall import FAR, as_wall, checked_fluid, checked_wall, refuse_wall
from pliant.kernels import FAST
from pliant.kernels.lanes import lane, lanes, last, load, sizes, store, turned


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
    """Volume, area and centroid of a closed surface, points (n, 3) [m] and outward triangles (k,
    3), by signed sums."""
    points, triangles = checked_wall(points, triangles)
    centre = points.mean(axis=0)  # measured from there, where rounding is least
    a, b, c = (points[triangles[:, i]] - centre for i in range(3))
    normal = np.cross(b - a, c - a)
    cones = np.einsum("ki,ki->k", a, normal) / 6
    volume = _held(
        float(cones.sum()), float(np.abs(normal.sum(axis=0)).max()), float(np.abs(normal).sum())
    )
    return Measures(
        volume=volume,
        area=float(np.linalg.norm(normal, axis=1).sum() / 2),
        centroid=centre + cones @ (a + b + c) / (4 * volume),
    )


def hydrostatics(
    points: Array,
    triangles: Array,
    *,
    density: float,
    gravity: Array,
    pressure: float = 0.0,
    datum: Array | None = None,
) -> Hydrostatics:
    """The exact load of a fluid on its whole wall, points (n, 3) [m] and outward triangles (k, 3).

    The pressure is `pressure` [Pa] at the place `datum` (3,) [m], by default the highest corner,
    and grows by density [kg/m^3] times gravity (3,) [m/s^2] from there. The forces are linear in
    the pressure, the density and the gravity, so that their derivatives in these are the forces of
    one of them alone; `hydrostatic_stiffness` is the derivative in the points, for a datum that
    stays.
    """
    points, triangles = as_wall(points, triangles)
    slope, p0 = _slope(density, gravity), _number("The pressure of the fluid", pressure, "Pa")
    found = _load(points, triangles, slope, p0, None if datum is None else _datum(datum))
    forces, sums = found if found is not None else refuse_wall(points, triangles)
    return Hydrostatics(
        volume=_held(sums.volume, sums.leak, sums.size), energy=-sums.content, forces=forces[:, :3]
    )


class Sums(NamedTuple):
    """What a compiled loop sums up over a wall."""

    volume: float  # [m^3]
    content: float  # [J] the integral of the pressure over the volume
    leak: float  # [m^2] the largest entry of the sum of the area vectors, doubled
    size: float  # [m^2] the sum of their sizes, doubled


def _load(
    points: Array, triangles: Array, slope: Array, p0: float, datum: Array | None
) -> tuple[Array, Sums] | None:
    """(forces (n, 4), of which three count, sums) as `_pressed` gives them; None where points or
    triangles are not sound."""
    tip = int(triangles[0, 0])
    if not 0 <= tip < len(points):
        return None
    table, top, sound = _wet(points, tip, slope)
    if not sound:
        return None
    if datum is not None:
        return _pressed(table, triangles, p0 + float(slope @ (points[tip] - datum)))
    found = _pressed(table, triangles, p0 - 24.0 * table[top, 3])
    if found is None or any(
        found[0][top, :3].tolist()
    ):  # nearly always: the highest node is one of the wall's
        return found
    return _pressed(table, triangles, p0 - 24.0 * _least_of_corners(table, triangles))


def hydrostatic_stiffness(
    points: Array,
    triangles: Array,
    *,
    density: float,
    gravity: Array,
    pressure: float = 0.0,
    datum: Array | None = None,
) -> sp.csr_array:
    """(3 n, 3 n) [N/m] symmetric, the Hessian of the energy of `hydrostatics`:
    -d(forces)/d(points)."""
    hydrostatics(
        points, triangles, density=density, gravity=gravity, pressure=pressure, datum=datum
    )  # refuses what has no Hessian
    points, triangles = checked_wall(points, triangles)
    slope, corners = _slope(density, gravity), points[triangles]
    datum = corners.reshape(-1, 3)[np.argmin(corners @ slope)] if datum is None else _datum(datum)
    y = (corners - datum).reshape(len(triangles), 9)
    blocks = _number("The pressure of the fluid", pressure, "Pa") * volume_hessians(
        volume_form(3, 1), y
    )
    blocks = -(blocks + first_moment(y, 3, 1, slope)[2])
    rows = (3 * triangles[:, :, None] + np.arange(3)).reshape(len(triangles), 9)
    at = (np.repeat(rows, 9, axis=1).ravel(), np.tile(rows, (1, 9)).ravel())
    return sp.coo_array((blocks.ravel(), at), shape=2 * (points.size,)).tocsr()


def _slope(density: float, gravity: Array) -> Array:
    """(3,) [Pa/m] the gradient of the pressure."""
    density, gravity = checked_fluid(density, gravity, falls=False)
    return density * gravity


def _number(name: str, value: float, unit: str) -> float:
    number = require_number(name, value, unit)
    return number if isfinite(number) else float(finite_array(name, number, ()))


def _datum(place: Array) -> Array:
    return finite_array("The datum of the pressure", place, (3,), "m")


def _held(volume: float, leak: float, size: float) -> float:
    """The volume, or a sentence: the area vectors of a closed surface sum to zero, but for a leak
    that is none beside their sizes."""
    if leak > 1e-9 * size:
        raise MeshError(
            "The wall leaks: the area vectors of its triangles do not sum to zero. Close its "
            "holes, and let all triangles point outward; geometry.check_wall says where."
        )
    none = 1e-12 * size**1.5  # what rounding may leave
    if not volume > none:
        flat = volume >= -none
        raise MeshError(
            f"The wall encloses {volume:.3g} m^3: "
            + (
                "it is flat and holds no fluid. Leave a volume."
                if flat
                else "its triangles point inward. Pass triangles[:, ::-1]."
            )
        )
    return volume


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _wet(points, tip, slope):
    """(table (n, 4), the node where slope . x is least, whether all points are finite and no
    further than FAR). The table holds the points from node `tip`, and a 24th of slope . x, in one
    row each: four lanes."""
    table, top, sound = np.empty((points.shape[0], 4)), tip, True
    x0, y0, z0 = points[tip, 0], points[tip, 1], points[tip, 2]
    a, b, c, least = slope[0] / 24.0, slope[1] / 24.0, slope[2] / 24.0, 0.0
    for i in range(points.shape[0]):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        sound &= abs(x) <= FAR and abs(y) <= FAR and abs(z) <= FAR
        x, y, z = x - x0, y - y0, z - z0
        p = a * x + b * y + c * z
        table[i, 0], table[i, 1], table[i, 2], table[i, 3] = x, y, z, p
        if p < least:
            least, top = p, i
    return table, top, sound


@njit(error_model="numpy", cache=True)
def _least_of_corners(table, triangles):
    """As `_wet` has it, but of the nodes that triangles name."""
    least = 0.0
    for t in range(triangles.shape[0]):
        least = min(
            least, table[triangles[t, 0], 3], table[triangles[t, 1], 3], table[triangles[t, 2], 3]
        )
    return least


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _pressed(table, triangles, p0):
    """(forces (n, 4), of which three count, sums) of a pressure that is p0 at the table's tip, none
    where a triangle names no node.

    The pressure times each shape function, integrated over each triangle, is n A (sum p + p_i) /
    12. Volumes are those of cones from the tip. On one thread: a triangle takes some nanoseconds,
    and a second thread would need nodes of its own to sum to."""
    forces, beyond, four = (
        np.zeros(table.shape),
        np.uint64(table.shape[0]),
        lanes(0.0, 0.0, 0.0, p0 / 6.0),
    )
    volume = content = leak = size = lanes(0.0, 0.0, 0.0, 0.0)
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        if (
            np.uint64(i) >= beyond or np.uint64(j) >= beyond or np.uint64(k) >= beyond
        ):  # a number below zero is a large one
            return None
        A, B, C = load(table, i), load(table, j), load(table, k)
        e, f, p = (
            B - A,
            C - A,
            (A + B) + (C + four),
        )  # the fourth of p: the pressure of all corners and of the tip
        n = turned(e * turned(f) - turned(e) * f)  # twice the area
        store(forces, i, load(forces, i) + last(p + A) * n)
        store(forces, j, load(forces, j) + last(p + B) * n)
        store(forces, k, load(forces, k) + last(p + C) * n)
        cone = n * A  # the sum of three is six times its volume
        volume += cone
        content += cone * last(p)
        leak += n
        size += sizes(n)
    worst = max(abs(lane(leak, 0)), abs(lane(leak, 1)), abs(lane(leak, 2)))
    return forces, Sums(_three(volume) / 6.0, _three(content), worst, _three(size))


@njit(error_model="numpy", cache=True)
def _three(a):
    return lane(a, 0) + lane(a, 1) + lane(a, 2)
