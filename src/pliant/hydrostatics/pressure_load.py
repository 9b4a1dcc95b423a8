"""The exact load of a fluid at rest on a closed surface: a polynomial of the nodes, as its
derivatives.

A fluid that fills its cavity has the pressure p(x) = p0 + rho g . (x - x0). The forces are minus
the gradient of E = -(integral of p over the fluid). Its two parts, the volume and the first moment
of g . x, are signed sums over the facets.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from pliant.core import Array, MeshError, finite_array, require_number
from pliant.geometry.cavities import volume_form, volume_hessians
from pliant.hydrostatics.closed_surface_checks import (
    MAX_MAGNITUDE,
    as_surface_arrays,
    raise_surface_error,
    validate_fluid,
    validate_surface_arrays,
)
from pliant.hydrostatics.volume_moments import first_moment
from pliant.kernels import FUSED
from pliant.kernels.simd import (
    absolute,
    broadcast_last,
    component,
    load,
    rotate_xyz,
    store,
    vector4,
)


@dataclass(frozen=True, kw_only=True)
class VolumeProperties:
    """Volume, area and centroid of a closed surface."""

    volume: float  # [m^3]
    area: float  # [m^2] of the surface
    centroid: Array  # (3,) [m] of the volume


@dataclass(frozen=True, kw_only=True)
class HydrostaticLoad:
    """The load of a fluid that fills a closed surface: forces = -d(energy)/d(points)."""

    volume: float  # [m^3]
    energy: float  # [J], minus the integral of the pressure over the fluid
    forces: Array  # (n, 3) [N] on the nodes of the surface


def volume_properties(points: Array, triangles: Array) -> VolumeProperties:
    """Return volume, area and centroid of points (n, 3) [m] and outward triangles (k, 3).

    Raises `MeshError` if the surface is open or has no positive volume.
    """
    points, triangles = validate_surface_arrays(points, triangles)
    centre = points.mean(axis=0)  # as origin, to reduce rounding errors
    a, b, c = (points[triangles[:, i]] - centre for i in range(3))
    normal = np.cross(b - a, c - a)
    cones = np.einsum("ki,ki->k", a, normal) / 6
    volume = _validate_volume(
        float(cones.sum()), float(np.abs(normal.sum(axis=0)).max()), float(np.abs(normal).sum())
    )
    return VolumeProperties(
        volume=volume,
        area=float(np.linalg.norm(normal, axis=1).sum() / 2),
        centroid=centre + cones @ (a + b + c) / (4 * volume),
    )


def hydrostatic_load(
    points: Array,
    triangles: Array,
    *,
    density: float,
    gravity: Array,
    pressure: float = 0.0,
    datum: Array | None = None,
) -> HydrostaticLoad:
    """Return the exact load of a fluid on its closed surface: points (n, 3) [m], outward triangles
    (k, 3).

    The pressure is `pressure` [Pa] at `datum` (3,) [m], by default the highest corner. Its gradient
    is density [kg/m^3] times gravity (3,) [m/s^2]. The forces are linear in pressure, density and
    gravity, so a derivative by one of them is the load of that one alone. `hydrostatic_stiffness`
    is the derivative by the points, for a fixed datum.
    """
    points, triangles = as_surface_arrays(points, triangles)
    slope, p0 = (
        _pressure_gradient(density, gravity),
        _number("The pressure of the fluid", pressure, "Pa"),
    )
    found = _load(points, triangles, slope, p0, None if datum is None else _validate_datum(datum))
    forces, sums = found if found is not None else raise_surface_error(points, triangles)
    return HydrostaticLoad(
        volume=_validate_volume(sums.volume, sums.imbalance, sums.size),
        energy=-sums.content,
        forces=forces[:, :3],
    )


class SurfaceSums(NamedTuple):
    """The sums of a compiled loop over a surface."""

    volume: float  # [m^3]
    content: float  # [J] the integral of the pressure over the volume
    imbalance: float  # [m^2] the largest entry of the sum of the area vectors, doubled
    size: float  # [m^2] the sum of their sizes, doubled


def _load(
    points: Array, triangles: Array, slope: Array, p0: float, datum: Array | None
) -> tuple[Array, SurfaceSums] | None:
    """Return forces (n, 4), of which three columns are used, and sums. None if the arrays are
    invalid."""
    apex = int(triangles[0, 0])
    if not 0 <= apex < len(points):
        return None
    table, top, is_valid = _pressure_table(points, apex, slope)
    if not is_valid:
        return None
    if datum is not None:
        return _pressure_forces(table, triangles, p0 + float(slope @ (points[apex] - datum)))
    found = _pressure_forces(table, triangles, p0 - 24.0 * table[top, 3])
    # Usually the highest node belongs to a triangle, so it carries a force.
    if found is None or any(found[0][top, :3].tolist()):
        return found
    return _pressure_forces(table, triangles, p0 - 24.0 * _min_over_corners(table, triangles))


def hydrostatic_stiffness(
    points: Array,
    triangles: Array,
    *,
    density: float,
    gravity: Array,
    pressure: float = 0.0,
    datum: Array | None = None,
) -> sp.csr_array:
    """Return the symmetric Hessian (3 n, 3 n) [N/m] of the energy of `hydrostatic_load`:
    -d(forces)/d(points)."""
    hydrostatic_load(
        points, triangles, density=density, gravity=gravity, pressure=pressure, datum=datum
    )  # raises errors for invalid input
    points, triangles = validate_surface_arrays(points, triangles)
    slope, corners = _pressure_gradient(density, gravity), points[triangles]
    datum = (
        corners.reshape(-1, 3)[np.argmin(corners @ slope)]
        if datum is None
        else _validate_datum(datum)
    )
    y = (corners - datum).reshape(len(triangles), 9)
    blocks = _number("The pressure of the fluid", pressure, "Pa") * volume_hessians(
        volume_form(3, 1), y
    )
    blocks = -(blocks + first_moment(y, 3, 1, slope)[2])
    rows = (3 * triangles[:, :, None] + np.arange(3)).reshape(len(triangles), 9)
    at = (np.repeat(rows, 9, axis=1).ravel(), np.tile(rows, (1, 9)).ravel())
    return sp.coo_array((blocks.ravel(), at), shape=2 * (points.size,)).tocsr()


def _pressure_gradient(density: float, gravity: Array) -> Array:
    """Return the gradient (3,) [Pa/m] of the pressure."""
    density, gravity = validate_fluid(density, gravity, needs_gravity=False)
    return density * gravity


def _number(name: str, value: float, unit: str) -> float:
    number = require_number(name, value, unit)
    return number if isfinite(number) else float(finite_array(name, number, ()))


def _validate_datum(place: Array) -> Array:
    return finite_array("The datum of the pressure", place, (3,), "m")


def _validate_volume(volume: float, imbalance: float, size: float) -> float:
    """Return the volume. Raises `MeshError` if the surface is open or its volume is not positive.

    The area vectors of a closed surface sum to zero, up to rounding."""
    if imbalance > 1e-9 * size:
        raise MeshError(
            "The wall leaks: the area vectors of its triangles do not sum to zero. Close its "
            "holes and orient all triangles outward; hydrostatics.check_closed_surface reports "
            "where."
        )
    rounding = 1e-12 * size**1.5  # of a volume that is zero
    if not volume > rounding:
        flat = volume >= -rounding
        raise MeshError(
            f"The wall encloses {volume:.3g} m^3: "
            + (
                "it is flat and cannot hold a fluid. Give it a volume."
                if flat
                else "its triangles point inward. Pass triangles[:, ::-1]."
            )
        )
    return volume


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _pressure_table(points: Any, apex: Any, slope: Any) -> Any:
    """Return (table (n, 4), the node with the lowest slope . x, whether all points are valid).

    A row of the table is a point relative to node `apex`, and slope . x / 24.
    """
    table, top, is_valid = np.empty((points.shape[0], 4)), apex, True
    x0, y0, z0 = points[apex, 0], points[apex, 1], points[apex, 2]
    a, b, c, lowest = slope[0] / 24.0, slope[1] / 24.0, slope[2] / 24.0, 0.0
    for i in range(points.shape[0]):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        is_valid &= abs(x) <= MAX_MAGNITUDE and abs(y) <= MAX_MAGNITUDE and abs(z) <= MAX_MAGNITUDE
        x, y, z = x - x0, y - y0, z - z0
        p = a * x + b * y + c * z
        table[i, 0], table[i, 1], table[i, 2], table[i, 3] = x, y, z, p
        if p < lowest:
            lowest, top = p, i
    return table, top, is_valid


@njit(error_model="numpy", cache=True)
def _min_over_corners(table: Any, triangles: Any) -> Any:
    """Return the lowest slope . x / 24 over the nodes of the triangles."""
    lowest = 0.0
    for t in range(triangles.shape[0]):
        lowest = min(
            lowest, table[triangles[t, 0], 3], table[triangles[t, 1], 3], table[triangles[t, 2], 3]
        )
    return lowest


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _pressure_forces(table: Any, triangles: Any, p0: Any) -> Any:
    """Return forces (n, 4), of which three columns are used, and sums, for the pressure p0 at the
    apex.

    Returns None if a triangle refers to a missing node. The integral of pressure times shape
    function over a triangle is n A (sum p + p_i) / 12. Volumes are those of cones from the apex.
    The loop uses one thread: a triangle takes a few nanoseconds, and a second thread would need its
    own sums.
    """
    forces, n_nodes, apex_pressure = (
        np.zeros(table.shape),
        np.uint64(table.shape[0]),
        vector4(0.0, 0.0, 0.0, p0 / 6.0),
    )
    volume = content = imbalance = size = vector4(0.0, 0.0, 0.0, 0.0)
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        # A negative index becomes a large unsigned number.
        if np.uint64(i) >= n_nodes or np.uint64(j) >= n_nodes or np.uint64(k) >= n_nodes:
            return None
        A, B, C = load(table, i), load(table, j), load(table, k)
        # The last component of p is the pressure of all corners and of the apex.
        e, f, p = B - A, C - A, (A + B) + (C + apex_pressure)
        n = rotate_xyz(e * rotate_xyz(f) - rotate_xyz(e) * f)  # twice the area
        store(forces, i, load(forces, i) + broadcast_last(p + A) * n)
        store(forces, j, load(forces, j) + broadcast_last(p + B) * n)
        store(forces, k, load(forces, k) + broadcast_last(p + C) * n)
        cone = n * A  # the sum of three is six times its volume
        volume += cone
        content += cone * broadcast_last(p)
        imbalance += n
        size += absolute(n)
    worst = max(
        abs(component(imbalance, 0)), abs(component(imbalance, 1)), abs(component(imbalance, 2))
    )
    return forces, SurfaceSums(_sum_xyz(volume) / 6.0, _sum_xyz(content), worst, _sum_xyz(size))


@njit(error_model="numpy", cache=True)
def _sum_xyz(a: Any) -> Any:
    """Return the sum of the first three components."""
    return component(a, 0) + component(a, 1) + component(a, 2)
