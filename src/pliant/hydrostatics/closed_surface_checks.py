"""Checks of the closed surface around a fluid: closed, outward, with a volume, without
intersections."""

from typing import Any, NoReturn

import numpy as np
from numba import njit, prange

from pliant.core import Array, InputError, MeshError, finite_array, require_positive
from pliant.geometry.nesting import find_nesting
from pliant.geometry.self_intersection import find_intersecting_pair
from pliant.geometry.surface import Surface, check_points, enclosed_volume
from pliant.kernels.threads import read_only, run_kernel

# Limit of coordinates [m], density [kg/m^3] and gravity [m/s^2]; larger values have wrong units.
MAX_MAGNITUDE = 1e9
# Nodes or triangles that cost as much as one quadrature point, the work unit of `run_kernel`.
ITEMS_PER_WORK_UNIT = 16


def check_closed_surface(points: Array, triangles: Array) -> Surface:
    """Return the closed surface of points (n, 3) [m] and outward triangles (k, 3).

    Raises `MeshError` if it is open, inside out, flat or self-intersecting, or if an outward part
    lies inside another. The check takes a second for 90,000 triangles: call it once, not after
    every motion.
    """
    points, triangles = validate_surface_arrays(points, triangles)
    size, volume = (
        float(np.ptp(points[triangles], axis=(0, 1)).max()),
        enclosed_volume(points, triangles),
    )
    if abs(volume) <= 1e-12 * size**3:
        raise MeshError(
            f"The wall encloses {volume:.3g} m^3 within {size:.3g} m: it is flat and cannot "
            "hold a fluid. Give it a volume."
        )
    surface = Surface(points=points, triangles=triangles)
    pair = find_intersecting_pair(surface.points, surface.triangles)
    if pair is not None:
        place = surface.points[surface.triangles[pair[0]]].mean(axis=0).round(9).tolist()
        raise MeshError(
            f"The wall crosses or touches itself: triangles {pair[0]} and {pair[1]} meet (near "
            f"{place} m). Separate its parts; otherwise fluid is counted twice."
        )
    _check_nesting(surface.points, surface.triangles)
    return surface


def _check_nesting(points: Array, triangles: Array) -> None:
    """Raise `MeshError` if a part of the surface has the wrong orientation for its nesting.

    Fluid is counted once if no outward part lies inside another and each inward part lies in fluid.
    """
    found = find_nesting(points, triangles)
    if found.n_parts > 1 and found.misoriented.size:
        place = found.sample_points[found.misoriented[0]].round(9).tolist()
        raise MeshError(
            f"{found.misoriented.size} of {found.n_parts} parts of the wall (first: near "
            f"{place} m) point outward inside another part, or inward outside all others, so "
            "fluid is counted twice or negatively. Reverse their triangles with "
            "[:, ::-1], or remove them."
        )


def validate_surface_arrays(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Return both as arrays that compiled loops can read safely.

    Raises an error for invalid numbers. Use `check_closed_surface` to check the geometry.
    """
    points, triangles = as_surface_arrays(points, triangles)
    return (
        (points, triangles)
        if _is_valid(points, triangles)
        else raise_surface_error(points, triangles)
    )


def as_surface_arrays(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Return both as arrays of the right shape and type. The values are not checked."""
    if not (
        isinstance(points, np.ndarray)
        and points.dtype == np.float64
        and points.ndim == 2
        and points.shape[1] == 3
    ):
        points = finite_array("The array of points of the wall", points, (None, 3), "m")
    triangles = np.asarray(triangles)
    if (
        triangles.ndim != 2
        or triangles.shape[1] != 3
        or not len(triangles)
        or triangles.dtype.kind not in "iu"
    ):
        raise MeshError(
            f"The triangles of the wall have shape {triangles.shape} and type {triangles.dtype}. "
            "Pass node indices of shape (k, 3)."
        )
    return read_only(points), read_only(triangles.astype(np.int64, copy=False))


def raise_surface_error(points: Array, triangles: Array) -> NoReturn:
    """Raise the error that explains which numbers of a surface are invalid."""
    finite_array("The array of points of the wall", points, (None, 3), "m")
    if triangles.min() < 0:
        raise MeshError(
            f"A triangle refers to point {triangles.min()}, but the points are "
            f"0..{len(points) - 1}. Count from 0."
        )
    check_points(points, triangles)
    raise MeshError(
        f"The wall reaches {np.abs(points).max():g} m, over the limit of {MAX_MAGNITUDE:g} m. "
        "Check the units."
    )


@njit(error_model="numpy", cache=True)
def _is_valid(points: Any, triangles: Any) -> Any:
    """Return whether all points are within MAX_MAGNITUDE and all triangles refer to existing
    points."""
    lowest, highest, is_finite = np.int64(0), np.int64(-1), True
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        lowest, highest = min(lowest, a, b, c), max(highest, a, b, c)
    for i in range(points.shape[0]):
        is_finite &= (
            abs(points[i, 0]) <= MAX_MAGNITUDE
            and abs(points[i, 1]) <= MAX_MAGNITUDE
            and abs(points[i, 2]) <= MAX_MAGNITUDE
        )
    return is_finite and lowest == 0 and highest < points.shape[0]


def has_balanced_edges(n: int, triangles: Array) -> bool:
    """Return whether triangles (k, 3) on n nodes traverse every edge equally often in both
    directions.

    Each node gets a random position in a plane. The signed areas of closed triangles sum to zero
    there. Other triangles almost never do, in integers modulo 2^64. This is much faster than
    matching edges.
    """
    return (
        int(run_kernel(_random_signed_area, len(triangles) // ITEMS_PER_WORK_UNIT, n, triangles))
        == 0
    )


@njit(error_model="numpy", cache=True, parallel=True)
def _random_signed_area(n: Any, triangles: Any) -> Any:
    """Return the sum of the signed areas at hashed node positions, modulo 2^64."""
    x, y, total = np.empty(n, np.int64), np.empty(n, np.int64), np.int64(0)
    for i in prange(n):
        x[i], y[i] = _hash(np.int64(2 * i + 1)), _hash(np.int64(2 * i + 2))
    for t in prange(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        total += x[a] * (y[b] - y[c]) + x[b] * (y[c] - y[a]) + x[c] * (y[a] - y[b])
    return total


@njit(error_model="numpy", cache=True)
def _hash(i: Any) -> Any:
    """Return a pseudorandom integer. Products overflow on purpose."""
    i = i * 0x1E3779B97F4A7C15
    i = (i ^ (i >> 29)) * 0x3F58476D1CE4E5B9
    return (i ^ (i >> 32)) * 0x14D049BB133111EB


def validate_fluid(
    density: float, gravity: Array, *, needs_gravity: bool = True
) -> tuple[float, Array]:
    """Return (density [kg/m^3], gravity (3,) [m/s^2]). Raises `InputError` for invalid values.

    With `needs_gravity`, gravity must not be zero: without it the fluid has no level and no weight.
    """
    density = require_positive("The density of the fluid", density, "kg/m^3")
    gravity = finite_array("The gravity of the fluid", gravity, (3,), "m/s^2")
    for name, size, unit in (
        ("density", density, "kg/m^3"),
        ("gravity", max(map(abs, gravity.tolist())), "m/s^2"),
    ):
        if size > MAX_MAGNITUDE:
            raise InputError(
                f"The {name} of the fluid is {size:g} {unit}, over the limit of "
                f"{MAX_MAGNITUDE:g}. Check the units."
            )
    if needs_gravity and not np.linalg.norm(gravity) > 0.0:
        raise InputError(
            "The gravity of the fluid is zero, so it has no weight and no level. Pass a vector "
            "such as (0, 0, -9.81)."
        )
    return density, gravity
