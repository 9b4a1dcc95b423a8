"""A Scene: everything that an animation shows, as plain arrays."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, InputError, require_positive
from pliant.report import palette


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve that moves with the robot, such as a cable, or that stands still, such as a path to follow."""

    points: Array  # (frames, k, dim) [m], or (k, dim) when it stands still
    colour: str = palette.CABLE
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A body made of facets that moves through frames, and what is drawn around it."""

    frames: Array  # (frames, n, dim) [m], dim 2 or 3
    facets: Array  # (m, 3) triangles, (m, 2) bars or (m, 1) particles, as rows of vertex numbers
    dt: float | None = None  # [s] between frames; None: the frames are the steps of a search, not times
    title: str = ""
    values: Array | None = None  # (frames, n), coloured on the body
    value_label: str = ""  # with its unit, such as "strain [%]"
    value_limits: tuple[float, float] | None = None  # None: what the frames hold, without the most extreme 1 %
    lines: tuple[Line, ...] = ()
    markers: Array | None = None  # (frames, k, dim) [m], the effectors
    targets: Array | None = None  # (k, dim) [m], where the effectors should go
    trail: bool = True  # draw where the markers have been
    ground: float | None = None  # [m], height of the ground along `up`
    up: int = -1  # which coordinate points up
    view: tuple[float, float] = (-60.0, 18.0)  # [deg] azimuth and elevation of the eye, in 3D
    colour: str = palette.BODY
    thickness: float | None = None  # [m], of bars and particles; None: a width that reads well

    def __post_init__(self) -> None:
        _hold(self, "frames", float, (None, None, None))
        count, vertices, dim = self.frames.shape
        if dim not in (2, 3) or not count or not vertices:
            raise InputError(f"The frames have shape {self.frames.shape}; a scene needs at least one frame of points "
                             "(n, 2) or (n, 3), so stack them as (frames, n, dim).")  # fmt: skip
        _hold(self, "facets", int, (None, None))
        _check_facets(self.facets, vertices)
        _hold(self, "values", float, (count, vertices))
        _hold(self, "markers", float, (count, None, dim))
        _hold(self, "targets", float, (None, dim))
        object.__setattr__(self, "lines", tuple(_checked(line, count, dim) for line in self.lines))
        if self.dt is not None:
            require_positive("The time between frames", self.dt, "s")

    @property
    def dim(self) -> int:
        return self.frames.shape[2]

    @property
    def axis(self) -> int:
        """The coordinate that points up, counted from 0."""
        return self.up % self.dim


def _checked(line: Line, count: int, dim: int) -> Line:
    points = np.asarray(line.points, dtype=float)
    if points.ndim == 2:
        points = np.broadcast_to(points, (count, *points.shape))
    line = replace(line, points=points)
    _hold(line, "points", float, (count, None, dim))
    return line


def _hold(owner: Any, name: str, kind: type, shape: tuple[int | None, ...]) -> None:
    """Store the field as a finite array of this shape (None: any length), or say what is wrong with it."""
    if getattr(owner, name) is None:
        return
    array = np.asarray(getattr(owner, name))
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"`{name}` of the scene has shape {array.shape}, but ({wanted}) is needed; reshape it.")
    array = array.astype(kind, copy=False)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"`{name}` of the scene is {array[where]} at {where}; drop the frames that did not converge.")
    object.__setattr__(owner, name, array)


def _check_facets(facets: Array, vertices: int) -> None:
    if facets.shape[1] not in (1, 2, 3):
        raise InputError(f"The facets have {facets.shape[1]} vertices each; give triangles (m, 3), bars (m, 2) or "
                         "particles (m, 1), so split larger polygons first.")  # fmt: skip
    bad = np.argwhere((facets < 0) | (facets >= vertices))
    if bad.size:
        i, j = bad[0]
        raise InputError(f"Facet {i} names vertex {facets[i, j]}, but the frames hold vertices 0 to {vertices - 1}.")
