"""A fluid that does not fill its wall: the level at which a given volume stands, and what it does
to the wall below.

With z the height against gravity and d = level - z the depth, all follow from signed sums over the
wetted parts of the triangles, for on the free surface d is zero: the volume is -(the integral of d
n_z), the force on node i that of rho g d N_i n, and with V fixed the energy E = rho g (level V +
the integral of d^2 n_z / 2), which is rho g V times the height of the centroid, has minus these
forces as gradient.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from pliant.core import Array, InputError, require_positive
from pliant.geometry.fluid import measures
from pliant.geometry.wall import checked_fluid, checked_wall

MOST_STEPS = 200  # of bisection: more than a float has bits


@dataclass(frozen=True, kw_only=True)
class FreeSurface:
    """A fluid with a level, open to air at one pressure all over, in parts that are linked."""

    level: float  # [m] the height up . x of the surface, up being against gravity
    area: float  # [m^2] of the surface
    energy: float  # [J] density g volume times the height of the centroid
    forces: Array  # (n, 3) [N] on the nodes of the wall; they sum to the weight


def partly_filled(
    points: Array, triangles: Array, *, volume: float, density: float, gravity: Array
) -> FreeSurface:
    """A `volume` [m^3] of fluid, density [kg/m^3], at rest in a closed wall, points (n, 3) [m] and
    outward triangles (k, 3), under gravity (3,) [m/s^2] in any direction. Parts of the wall at one
    height are taken to be linked."""
    points, triangles = checked_wall(points, triangles)
    (density, gravity), whole = checked_fluid(density, gravity), measures(points, triangles).volume
    if require_positive("The volume of the fluid", volume, "m^3") > whole * (1.0 + 1e-12):
        raise InputError(
            f"There are {volume:.6g} m^3 of fluid, but the wall holds {whole:.6g} m^3, which is "
            f"{volume - whole:.3g} m^3 less. Give less fluid, or a larger wall."
        )
    weight = density * float(np.linalg.norm(gravity))  # [N/m^3]
    z = points @ (-gravity / np.linalg.norm(gravity))
    vertical = _area_vectors(points, triangles) @ (-gravity / np.linalg.norm(gravity))
    level = _level(z, triangles, vertical, volume) if volume < whole else float(z[triangles].max())
    _, area, square = _below(z, triangles, vertical, level)
    return FreeSurface(
        level=level,
        area=area,
        energy=weight * (level * volume + square),
        forces=_wetted(points, triangles, weight * (level - z)),
    )


def _area_vectors(points: Array, triangles: Array) -> Array:
    """(k, 3) [m^2]"""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return 0.5 * np.cross(b - a, c - a)


def _level(z: Array, triangles: Array, vertical: Array, volume: float) -> float:
    """[m] where the volume below is `volume`: Newton, for its slope is the area of the surface,
    kept between two bounds."""
    low, high = float(z[triangles].min()), float(z[triangles].max())
    level = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        found, area, _ = _below(z, triangles, vertical, level)
        low, high = (level, high) if found < volume else (low, level)
        after = level + (volume - found) / area if area > 0.0 else low
        after = after if low < after < high else 0.5 * (low + high)
        if abs(after - level) <= 1e-16 * max(abs(low), abs(high)) or after in (low, high):
            break
        level = after
    return after


@njit(error_model="numpy", cache=True)
def _below(z, triangles, vertical, level):
    """(volume below the level, area of the surface, integral of d^2 n_z / 2 over the wetted
    wall)"""
    volume = area = square = 0.0
    for t in range(triangles.shape[0]):
        a, b, c = level - z[triangles[t, 0]], level - z[triangles[t, 1]], level - z[triangles[t, 2]]
        share, depth, depth2 = _wet_means(a, b, c)
        area -= vertical[t] * share
        volume -= vertical[t] * depth
        square += 0.5 * vertical[t] * depth2
    return volume, area, square


@njit(error_model="numpy", cache=True)
def _wet_means(a, b, c):
    """The integrals of 1, d and d^2 over the part of a triangle where d > 0, over its area; d is a,
    b, c at the corners."""
    if a <= 0.0 and b <= 0.0 and c <= 0.0:
        return 0.0, 0.0, 0.0
    whole = (1.0, (a + b + c) / 3.0, (a * a + b * b + c * c + a * b + b * c + c * a) / 6.0)
    if a >= 0.0 and b >= 0.0 and c >= 0.0:
        return whole
    o, n, p = _alone(a, b, c)
    tip = o * o / ((o - n) * (o - p))  # of the area, on the side of the corner that is alone
    part = (tip, tip * o / 3.0, tip * o * o / 6.0)
    return part if o > 0.0 else (whole[0] - part[0], whole[1] - part[1], whole[2] - part[2])


@njit(error_model="numpy", cache=True)
def _alone(a, b, c):
    """Turned so that the first is the one that differs in sign."""
    if (b > 0.0) == (c > 0.0):
        return a, b, c
    return (b, c, a) if (a > 0.0) == (c > 0.0) else (c, a, b)


@njit(error_model="numpy", cache=True)
def _wetted(points, triangles, p):
    """(n, 3) the pressure p (n,) at the nodes, where it is positive, times each shape function,
    integrated over the wall."""
    forces = np.zeros(points.shape)
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        if p[i] <= 0.0 and p[j] <= 0.0 and p[k] <= 0.0:
            continue
        u, v, w = _wet_moments(p[i], p[j], p[k])
        e, f = points[j] - points[i], points[k] - points[i]
        normal = 0.5 * np.array(
            [e[1] * f[2] - e[2] * f[1], e[2] * f[0] - e[0] * f[2], e[0] * f[1] - e[1] * f[0]]
        )
        forces[i] += u * normal
        forces[j] += v * normal
        forces[k] += w * normal
    return forces


@njit(error_model="numpy", cache=True)
def _wet_moments(a, b, c):
    """The integrals of d N over the part of a triangle where d > 0, over its area, for its three
    shape functions."""
    s = a + b + c
    whole = ((s + a) / 12.0, (s + b) / 12.0, (s + c) / 12.0)
    if a >= 0.0 and b >= 0.0 and c >= 0.0:
        return whole
    if (b > 0.0) == (c > 0.0):
        part = _tip(a, b, c)
    elif (a > 0.0) == (c > 0.0):
        at_b, at_c, at_a = _tip(b, c, a)
        part = (at_a, at_b, at_c)
    else:
        at_c, at_a, at_b = _tip(c, a, b)
        part = (at_a, at_b, at_c)
    return (
        part
        if part[0] + part[1] + part[2] > 0.0
        else (whole[0] - part[0], whole[1] - part[1], whole[2] - part[2])
    )


@njit(error_model="numpy", cache=True)
def _tip(o, n, p):
    """The same over the tip at a corner of depth o, where the others are n and p of the other sign;
    signed as o."""
    s, t = o / (o - n), o / (o - p)
    scale = s * t * o / 12.0
    return scale * (4.0 - s - t), scale * s, scale * t
