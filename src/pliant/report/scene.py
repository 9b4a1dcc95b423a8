"""A drawn scene: everything that an animation shows, as plain arrays."""

from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, InputError, require_positive
from pliant.report import palette


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve that moves with the robot, such as a cable, or that stands still, such as a path to
    follow."""

    points: Array  # (frames, k, dim) [m], or (k, dim) if it does not move
    colour: str = palette.CABLE
    dashed: bool = False
    # (frames,) from 0 (slack, thin) to 1 (largest tension, thick); None: constant width
    relative_tension: Array | None = None


@dataclass(frozen=True, kw_only=True)
class DrawnScene:
    """A body of facets in a sequence of frames, with lines, markers and obstacles.

    `surroundings` are filled closed curves with the inside on their left; in 3D any curves. They do
    not move, are drawn behind the body, and may extend beyond the picture.
    """

    frames: Array  # (frames, n, dim) [m], dim 2 or 3
    facets: Array  # (m, 3) triangles, (m, 2) bars or (m, 1) particles, as rows of vertex indices
    dt: float | None = None  # [s] between frames; None: the frames are iterations
    title: str = ""
    values: Array | None = None  # (frames, n), coloured on the body
    value_label: str = ""  # with its unit, such as "Green strain |E| [%]"
    value_limits: tuple[float, float] | None = (
        None  # None: the range of the values without the most extreme 1 %
    )
    lines: tuple[Line, ...] = ()
    surroundings: tuple[Array, ...] = ()  # curves (k, dim) [m]
    markers: Array | None = None  # (frames, k, dim) [m], the effectors
    targets: Array | None = None  # (k, dim) [m] of the effectors
    trail: bool = True  # draw the past positions of the markers
    ground: float | None = None  # [m], height of the ground along `up`
    up: int = -1  # index of the vertical coordinate
    follow: bool = False  # the camera follows the body, past fixed distance marks
    key: str = ""  # one line at the lower right, such as the meaning of the cable width
    view: tuple[float, float] = (-60.0, 18.0)  # [deg] azimuth and elevation of the camera, in 3D
    colour: str = palette.BODY
    thickness: float | None = None  # [m], of bars and particles; None: a default width

    def __post_init__(self) -> None:
        frames = _fitted("frames", self.frames, (None, None, None))
        count, vertices, dim = frames.shape
        if dim not in (2, 3) or not count or not vertices:
            raise InputError(
                f"The frames have shape {frames.shape}. Give at least one frame of points "
                "(n, 2) or (n, 3), stacked as (frames, n, dim)."
            )
        arrays = {
            "frames": frames,
            "facets": _fitted_facets(self.facets, vertices),
            "values": None
            if self.values is None
            else _fitted("values", self.values, (count, vertices)),
            "markers": None
            if self.markers is None
            else _fitted("markers", self.markers, (count, None, dim)),
            "targets": None
            if self.targets is None
            else _fitted("targets", self.targets, (None, dim)),
            "lines": tuple(_fitted_line(line, count, dim) for line in self.lines),
            "surroundings": tuple(
                _fitted("a curve of the surroundings", curve, (None, dim))
                for curve in self.surroundings
            ),
        }
        for name, array in arrays.items():
            object.__setattr__(
                self, name, array
            )  # a frozen dataclass that converts lists to arrays
        if self.dt is not None:
            require_positive("The time between frames", self.dt, "s")

    @property
    def dim(self) -> int:
        return self.frames.shape[2]

    @property
    def axis(self) -> int:
        """Return the non-negative index of the vertical coordinate."""
        return self.up % self.dim


def _fitted(name: str, value: Array, shape: tuple[int | None, ...]) -> Array:
    """Return `value` as a finite float array of this shape (None: any length). Raises `InputError`
    otherwise."""
    array = np.asarray(value, dtype=float)
    if array.ndim != len(shape) or any(
        n not in (None, m) for n, m in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(
            f"`{name}` of the scene has shape {array.shape}, but ({wanted}) is needed. Reshape it."
        )
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        where = tuple(bad[0].tolist())
        raise InputError(
            f"`{name}` of the scene is {array[where]} at {where}. Omit the frames that did not "
            "converge."
        )
    return array


def _fitted_line(line: Line, count: int, dim: int) -> Line:
    points = np.asarray(line.points, dtype=float)
    if points.ndim == 2:
        points = np.broadcast_to(points, (count, *points.shape))
    tension = (
        None
        if line.relative_tension is None
        else _fitted("relative_tension of a line", line.relative_tension, (count,))
    )
    if tension is not None and not (tension.min() >= 0.0 and tension.max() <= 1.0):
        raise InputError(
            f"The relative tension of a line is {tension.min():g} to {tension.max():g}. Give "
            "fractions of the largest tension, from 0 to 1."
        )
    return replace(
        line,
        points=_fitted("points of a line", points, (count, None, dim)),
        relative_tension=tension,
    )


def _fitted_facets(value: Array, vertices: int) -> Array:
    facets = np.asarray(value)
    if facets.ndim != 2 or facets.shape[1] not in (1, 2, 3) or facets.dtype.kind not in "iu":
        raise InputError(
            f"The facets have shape {facets.shape} and type {facets.dtype}. Give vertex numbers of "
            "triangles (m, 3), bars (m, 2) or particles (m, 1)."
        )
    bad = np.argwhere((facets < 0) | (facets >= vertices))
    if bad.size:
        i, j = bad[0]
        raise InputError(
            f"Facet {i} refers to vertex {facets[i, j]}. Give numbers from 0 to {vertices - 1}, as "
            "the frames have."
        )
    return facets
