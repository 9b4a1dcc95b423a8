"""What the wall of a fluid must be: closed, outward, around a volume and free of crossings. Each
fault is a sentence."""

from typing import NoReturn

import numpy as np
from numba import njit, prange

from pliant.core import Array, InputError, MeshError, finite_array, require_positive
from pliant.geometry.crossings import crossing_pair
from pliant.geometry.nesting import nesting
from pliant.geometry.surface import Surface, check_points, enclosed_volume
from pliant.kernels.threads import for_reading, run

FAR = 1e9  # [m], and of densities and gravity in their units: what is larger is a mistake
# nodes or triangles that cost as much to place as one quadrature point, by which `run` counts
LIGHT = 16


def check_wall(points: Array, triangles: Array) -> Surface:
    """The closed surface of points (n, 3) [m] and triangles (k, 3), outward from the fluid, or a
    sentence: that it is open, inside out, flat, that it crosses itself, or that a part lies in
    another and both are outward. Takes a second for 90,000 triangles, so it is meant to be asked
    once, not after every move."""
    points, triangles = checked_wall(points, triangles)
    size, volume = (
        float(np.ptp(points[triangles], axis=(0, 1)).max()),
        enclosed_volume(points, triangles),
    )
    if abs(volume) <= 1e-12 * size**3:
        raise MeshError(
            f"The wall encloses {volume:.3g} m^3 within {size:.3g} m: it is flat and holds no "
            "fluid. Leave a volume."
        )
    surface = Surface(points=points, triangles=triangles)
    pair = crossing_pair(surface.points, surface.triangles)
    if pair is not None:
        place = surface.points[surface.triangles[pair[0]]].mean(axis=0).round(9).tolist()
        raise MeshError(
            f"The wall crosses or touches itself: triangles {pair[0]} and {pair[1]} meet (near "
            f"{place} m). Move its parts from each other, so that no fluid is counted twice."
        )
    _check_nesting(surface.points, surface.triangles)
    return surface


def _check_nesting(points: Array, triangles: Array) -> None:
    """Parts that do not cross hold fluid once where each outward one has none around it, and each
    inward one is a hollow in fluid."""
    found = nesting(points, triangles)
    if found.n_parts > 1 and found.wrong.size:
        place = found.places[found.wrong[0]].round(9).tolist()
        raise MeshError(
            f"{found.wrong.size} of {found.n_parts} parts of the wall (first: near {place} m) "
            "point outward inside another part, or inward outside of all, so that fluid is "
            "counted twice or below zero. Turn their triangles with [:, ::-1], or leave them out."
        )


def checked_wall(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Both as arrays that compiled loops can read without leaving them; the rest is
    `check_wall`'s."""
    points, triangles = as_wall(points, triangles)
    return (points, triangles) if _sound(points, triangles) else refuse_wall(points, triangles)


def as_wall(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Both as arrays of their shapes and types, whatever numbers are in them."""
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
            f"The triangles of the wall have shape {triangles.shape} and type {triangles.dtype}; "
            "give node numbers of shape (k, 3)."
        )
    return for_reading(points), for_reading(triangles.astype(np.int64, copy=False))


def refuse_wall(points: Array, triangles: Array) -> NoReturn:
    """Say what is wrong with the numbers of a wall, which is more work than to find out that
    something is."""
    finite_array("The array of points of the wall", points, (None, 3), "m")
    if triangles.min() < 0:
        raise MeshError(
            f"A triangle names point {triangles.min()}, but the points are 0..{len(points) - 1}. "
            "Count from 0."
        )
    check_points(points, triangles)
    raise MeshError(
        f"The wall reaches {np.abs(points).max():g} m; no robot is larger than {FAR:g} m, so "
        "check the units."
    )


@njit(error_model="numpy", cache=True)
def _sound(points, triangles):
    """Whether all points are finite, no further than FAR, and all triangles name points."""
    least, most, sound = np.int64(0), np.int64(-1), True
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        least, most = min(least, a, b, c), max(most, a, b, c)
    for i in range(points.shape[0]):
        sound &= abs(points[i, 0]) <= FAR and abs(points[i, 1]) <= FAR and abs(points[i, 2]) <= FAR
    return sound and least == 0 and most < points.shape[0]


def closed(n: int, triangles: Array) -> bool:
    """Whether every edge is run through as often one way as the other, of triangles (k, 3) on n
    nodes.

    Each node gets a place in a plane by chance. There the signed areas of the triangles sum to zero
    if they close and, in whole numbers modulo 2^64, hardly otherwise, which is much quicker to find
    than the pairs of edges.
    """
    return int(run(_scattered_area, len(triangles) // LIGHT, n, triangles)) == 0


@njit(error_model="numpy", cache=True, parallel=True)
def _scattered_area(n, triangles):
    x, y, total = np.empty(n, np.int64), np.empty(n, np.int64), np.int64(0)
    for i in prange(n):
        x[i], y[i] = _scattered(np.int64(2 * i + 1)), _scattered(np.int64(2 * i + 2))
    for t in prange(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        total += x[a] * (y[b] - y[c]) + x[b] * (y[c] - y[a]) + x[c] * (y[a] - y[b])
    return total


@njit(error_model="numpy", cache=True)
def _scattered(i):
    """A whole number that looks like chance; products wrap around."""
    i = i * 0x1E3779B97F4A7C15
    i = (i ^ (i >> 29)) * 0x3F58476D1CE4E5B9
    return (i ^ (i >> 32)) * 0x14D049BB133111EB


def checked_fluid(density: float, gravity: Array, *, falls: bool = True) -> tuple[float, Array]:
    """(density [kg/m^3], gravity (3,) [m/s^2]) whose products are numbers. A fluid that `falls` has
    some gravity: without it there is no up, no level and no weight."""
    density = require_positive("The density of the fluid", density, "kg/m^3")
    gravity = finite_array("The gravity of the fluid", gravity, (3,), "m/s^2")
    for name, size, unit in (
        ("density", density, "kg/m^3"),
        ("gravity", max(map(abs, gravity.tolist())), "m/s^2"),
    ):
        if size > FAR:
            raise InputError(
                f"The {name} of the fluid is {size:g} {unit}; nothing has more than {FAR:g}, so "
                "check the units."
            )
    if falls and not np.linalg.norm(gravity) > 0.0:
        raise InputError(
            "The gravity of the fluid is zero, so that it has no weight and no level; give a "
            "direction, such as (0, 0, -9.81)."
        )
    return density, gravity
