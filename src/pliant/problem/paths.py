"""Paths: functions of time [s] that return a position (dim,) [m].

Every path stays at its end points before its first and after its last time.

>>> import pliant as pl
>>> path = pl.paths.polyline([(0.0, 0.0), (0.2, 0.0), (0.2, 0.1)], period=3.0)
>>> path(1.0)
array([0.1, 0. ])
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, counted, finite_array, require_positive

Path = Callable[[float], Array]  # time [s] -> position (dim,) [m]


def _frame(normal: ArrayLike | None, dim: int) -> tuple[Array, Array]:
    """Return two orthonormal vectors of the plane of a circle, the first closest to x."""
    if dim == 2:
        return np.array([1.0, 0.0]), np.array([0.0, 1.0])
    n = finite_array("The normal of a path", (0.0, 0.0, 1.0) if normal is None else normal, (3,))
    if not np.linalg.norm(n) > 0.0:
        raise InputError("The normal of a path is zero; give a direction such as (0, 0, 1).")
    n = n / np.linalg.norm(n)
    first = np.eye(3)[0] - n[0] * n
    first = first if np.linalg.norm(first) > 1e-6 else np.eye(3)[1] - n[1] * n
    first = first / np.linalg.norm(first)
    return first, np.cross(n, first)


def circle(
    *,
    centre: ArrayLike,
    radius: float,
    period: float,
    normal: ArrayLike | None = None,
    turns: float = 1.0,
) -> Path:
    """Return a path around a circle, which starts on the side of +x.

    Parameters
    ----------
    centre : (2,) or (3,) [m]
    radius : [m]
    period : duration of the whole path [s]
    normal : normal of the circle's plane (3,); None for z
    turns : number of revolutions in one period

    Raises InputError for a radius or period that is not positive.
    """
    return spiral(centre=centre, radii=(radius, radius), period=period, normal=normal, turns=turns)


def spiral(
    *,
    centre: ArrayLike,
    radii: tuple[float, float],
    period: float,
    normal: ArrayLike | None = None,
    turns: float = 1.0,
    rise: float = 0.0,
) -> Path:
    """Return a spiral path from one radius to another.

    Parameters
    ----------
    centre : (2,) or (3,) [m]
    radii : first and last radius [m]
    period : duration of the whole path [s]
    normal : normal of the spiral's plane (3,); None for z
    turns : number of revolutions in one period
    rise : distance travelled along the normal in one period [m], in 3D only

    Raises InputError for negative radii or a period that is not positive.
    """
    c = finite_array("The centre of a path", centre, (None,), "m")
    if c.size not in (2, 3):
        raise InputError(f"The centre of a path has {counted(c.size, 'number')}; give 2 or 3.")
    ends = finite_array("The radii of a path", radii, (2,), "m")
    if not np.all(ends >= 0.0) or not ends.any():
        raise InputError(
            f"The radii of a path are {ends[0]:g} and {ends[1]:g} m; give positive ones."
        )
    period = require_positive("The period of a path", period, "s")
    turns, rise = (
        _number("The turns of a path", turns, ""),
        _number("The rise of a path", rise, "m"),
    )
    e, f = _frame(normal, c.size)
    up = np.cross(e, f) if c.size == 3 else np.zeros(2)

    def position(t: float) -> Array:
        s = float(np.clip(_time(t) / period, 0.0, 1.0))
        angle, r = 2.0 * np.pi * turns * s, ends[0] + s * (ends[1] - ends[0])
        return c + r * (np.cos(angle) * e + np.sin(angle) * f) + rise * s * up

    return position


def polyline(points: ArrayLike, *, period: float) -> Path:
    """Return a path through points (n, dim) along straight lines at constant speed.

    `period` is the duration of the whole path [s]. Raises InputError for fewer than two points
    or for equal neighbours.
    """
    rows = finite_array("The array of points of a polyline", points, (None, None), "m")
    if len(rows) < 2:
        raise InputError(f"A polyline needs two points or more and has {len(rows)}.")
    lengths = np.linalg.norm(np.diff(rows, axis=0), axis=1)
    if not np.all(lengths > 0.0):
        raise InputError(
            f"Points {np.argmin(lengths)} and {np.argmin(lengths) + 1} of a polyline coincide; "
            "remove one of them."
        )
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    return _interpolated(
        along / along[-1] * require_positive("The period of a path", period, "s"), rows
    )


def waypoints(times: Sequence[float], points: ArrayLike) -> Path:
    """Return a path that reaches points (n, dim) at given times [s], with straight segments.

    Raises InputError if the times do not increase.
    """
    return _interpolated(*_checked_waypoints(times, points))


def minimum_jerk(times: Sequence[float], points: ArrayLike, *, pause: float = 0.0) -> Path:
    """Return a path that stops at points (n, dim) at given times [s].

    Each segment is straight and has the least integrated squared jerk. The path reaches each
    point `pause` seconds [s] early and waits there. Raises InputError if the times do not
    increase or the pause is longer than a segment.
    """
    at, rows = _checked_waypoints(times, points)
    wait = _number("The pause of a path", pause, "s")
    if not 0.0 <= wait < np.diff(at).min(initial=np.inf):
        raise InputError(
            f"The pause of a path is {wait:g} s; it must not be negative, and must be shorter than "
            "each segment."
        )

    def position(t: float) -> Array:
        t = _time(t)
        k = int(np.clip(np.searchsorted(at, t, side="right") - 1, 0, max(len(at) - 2, 0)))
        s = (
            0.0
            if len(at) == 1
            else float(np.clip((t - at[k]) / (at[k + 1] - at[k] - wait), 0.0, 1.0))
        )
        return rows[k] + s**3 * (10.0 - 15.0 * s + 6.0 * s * s) * (
            rows[min(k + 1, len(rows) - 1)] - rows[k]
        )

    return position


def _checked_waypoints(times: Sequence[float], points: ArrayLike) -> tuple[Array, Array]:
    """Return times (n,) and points (n, dim). Raises InputError if the times do not increase."""
    at = finite_array("The array of times of the waypoints", times, (None,), "s")
    rows = finite_array("The array of waypoints", points, (len(at), None), "m")
    if not len(at) or not np.all(np.diff(at) > 0.0):
        raise InputError(
            "The times of the waypoints must increase; sort them and remove duplicates."
        )
    return at, rows


def _interpolated(times: Array, rows: Array) -> Path:
    return lambda t: np.array([np.interp(_time(t), times, column) for column in rows.T])


def _time(t: float) -> float:
    return _number("The time of a path", t, "s")


def _number(name: str, value: float, unit: str) -> float:
    return float(finite_array(name, value, (), unit))
