"""A fluid that fills its container partly: the level of a given volume and the forces on the wall.

Let z be the height against gravity and d = level - z the depth. Since d is zero on the free
surface, everything follows from signed sums over the wetted parts of the triangles. The volume is
-(integral of d n_z). The force on node i is the integral of rho g d N_i n. For fixed V the energy
is E = rho g (level V + integral of d^2 n_z / 2), which is rho g V times the height of the centroid.
Its gradient is minus these forces.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from pliant.core import Array, InputError, require_positive
from pliant.hydrostatics.closed_surface_checks import validate_fluid, validate_surface_arrays
from pliant.hydrostatics.pressure_load import volume_properties

MAX_STEPS = 200  # bisections; more than the bits of a float


@dataclass(frozen=True, kw_only=True)
class FreeSurface:
    """A fluid with a free surface at uniform air pressure, in connected parts."""

    level: float  # [m] the height up . x of the surface; up is opposite to gravity
    area: float  # [m^2] of the surface
    energy: float  # [J] density g volume times the height of the centroid
    forces: Array  # (n, 3) [N] on the nodes; they sum to the weight


def solve_free_surface(
    points: Array, triangles: Array, *, volume: float, density: float, gravity: Array
) -> FreeSurface:
    """Return the equilibrium of a `volume` [m^3] of fluid in a closed surface.

    `points` (n, 3) [m] and outward `triangles` (k, 3) form the surface, `density` is in [kg/m^3]
    and `gravity` (3,) [m/s^2] may have any direction. All parts have the same level. Raises
    `InputError` if the volume does not fit.
    """
    points, triangles = validate_surface_arrays(points, triangles)
    (density, gravity), whole = (
        validate_fluid(density, gravity),
        volume_properties(points, triangles).volume,
    )
    if require_positive("The volume of the fluid", volume, "m^3") > whole * (1.0 + 1e-12):
        raise InputError(
            f"The fluid has {volume:.6g} m^3, but the wall encloses {whole:.6g} m^3, which is "
            f"{volume - whole:.3g} m^3 less. Use less fluid, or a larger surface."
        )
    weight = density * float(np.linalg.norm(gravity))  # [N/m^3]
    z = points @ (-gravity / np.linalg.norm(gravity))
    vertical = _area_vectors(points, triangles) @ (-gravity / np.linalg.norm(gravity))
    level = (
        _solve_level(z, triangles, vertical, volume)
        if volume < whole
        else float(z[triangles].max())
    )
    _, area, square = _integrate_below(z, triangles, vertical, level)
    return FreeSurface(
        level=level,
        area=area,
        energy=weight * (level * volume + square),
        forces=_wetted_forces(points, triangles, weight * (level - z)),
    )


def _area_vectors(points: Array, triangles: Array) -> Array:
    """Return the area vectors (k, 3) [m^2] of triangles."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return 0.5 * np.cross(b - a, c - a)


def _solve_level(z: Array, triangles: Array, vertical: Array, volume: float) -> float:
    """Return the level [m] below which the volume is `volume`, by Newton's method with bisection.

    The derivative of the volume by the level is the area of the free surface.
    """
    low, high = float(z[triangles].min()), float(z[triangles].max())
    level = 0.5 * (low + high)
    for _ in range(MAX_STEPS):
        found, area, _ = _integrate_below(z, triangles, vertical, level)
        low, high = (level, high) if found < volume else (low, level)
        after = level + (volume - found) / area if area > 0.0 else low
        after = after if low < after < high else 0.5 * (low + high)
        if abs(after - level) <= 1e-16 * max(abs(low), abs(high)) or after in (low, high):
            break
        level = after
    return after


@njit(error_model="numpy", cache=True)
def _integrate_below(z: Any, triangles: Any, vertical: Any, level: Any) -> Any:
    """Return (volume below the level, area of the free surface, integral of d^2 n_z / 2 over the
    wetted wall)."""
    volume = area = square = 0.0
    for t in range(triangles.shape[0]):
        a, b, c = level - z[triangles[t, 0]], level - z[triangles[t, 1]], level - z[triangles[t, 2]]
        share, depth, depth2 = _wetted_means(a, b, c)
        area -= vertical[t] * share
        volume -= vertical[t] * depth
        square += 0.5 * vertical[t] * depth2
    return volume, area, square


@njit(error_model="numpy", cache=True)
def _wetted_means(a: Any, b: Any, c: Any) -> Any:
    """Return the integrals of 1, d and d^2 over the part of a triangle where d > 0, divided by its
    area.

    a, b and c are the depths d at the corners.
    """
    if a <= 0.0 and b <= 0.0 and c <= 0.0:
        return 0.0, 0.0, 0.0
    whole = (1.0, (a + b + c) / 3.0, (a * a + b * b + c * c + a * b + b * c + c * a) / 6.0)
    if a >= 0.0 and b >= 0.0 and c >= 0.0:
        return whole
    o, n, p = _odd_sign_first(a, b, c)
    tip = o * o / ((o - n) * (o - p))  # area fraction on the side of the single corner
    part = (tip, tip * o / 3.0, tip * o * o / 6.0)
    return part if o > 0.0 else (whole[0] - part[0], whole[1] - part[1], whole[2] - part[2])


@njit(error_model="numpy", cache=True)
def _odd_sign_first(a: Any, b: Any, c: Any) -> Any:
    """Return the values cyclically permuted so that the first has the odd sign."""
    if (b > 0.0) == (c > 0.0):
        return a, b, c
    return (b, c, a) if (a > 0.0) == (c > 0.0) else (c, a, b)


@njit(error_model="numpy", cache=True)
def _wetted_forces(points: Any, triangles: Any, p: Any) -> Any:
    """Return the nodal forces (n, 3) of the nodal pressure p (n,) where it is positive."""
    forces = np.zeros(points.shape)
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        if p[i] <= 0.0 and p[j] <= 0.0 and p[k] <= 0.0:
            continue
        u, v, w = _wetted_shape_integrals(p[i], p[j], p[k])
        e, f = points[j] - points[i], points[k] - points[i]
        normal = 0.5 * np.array(
            [e[1] * f[2] - e[2] * f[1], e[2] * f[0] - e[0] * f[2], e[0] * f[1] - e[1] * f[0]]
        )
        forces[i] += u * normal
        forces[j] += v * normal
        forces[k] += w * normal
    return forces


@njit(error_model="numpy", cache=True)
def _wetted_shape_integrals(a: Any, b: Any, c: Any) -> Any:
    """Return the integrals of d N for the three shape functions, where d > 0, divided by the
    area."""
    s = a + b + c
    whole = ((s + a) / 12.0, (s + b) / 12.0, (s + c) / 12.0)
    if a >= 0.0 and b >= 0.0 and c >= 0.0:
        return whole
    if (b > 0.0) == (c > 0.0):
        part = _tip_integrals(a, b, c)
    elif (a > 0.0) == (c > 0.0):
        at_b, at_c, at_a = _tip_integrals(b, c, a)
        part = (at_a, at_b, at_c)
    else:
        at_c, at_a, at_b = _tip_integrals(c, a, b)
        part = (at_a, at_b, at_c)
    return (
        part
        if part[0] + part[1] + part[2] > 0.0
        else (whole[0] - part[0], whole[1] - part[1], whole[2] - part[2])
    )


@njit(error_model="numpy", cache=True)
def _tip_integrals(o: Any, n: Any, p: Any) -> Any:
    """Return these integrals over the tip at a corner of depth o, with the sign of o.

    n and p are the depths of the other corners, which have the opposite sign.
    """
    s, t = o / (o - n), o / (o - p)
    scale = s * t * o / 12.0
    return scale * (4.0 - s - t), scale * s, scale * t
