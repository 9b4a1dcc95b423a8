"""Shape parameters: numbers that move the material points of a robot's rest shape.

Each parameter has a map `move(points, value, start)`, which is the identity at the start value. The
maps accept complex numbers, so their derivatives by the parameters are exact (complex step).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, finite_array, quoted, require_number, require_positive

PREFIX = "shape."  # of the names of shape parameters among those of a model
AXES = {"x": 0, "y": 1, "z": 2}
DIRECTIONS = (*AXES, *(f"-{axis}" for axis in AXES))


@runtime_checkable
class ShapeMap(Protocol):
    """A shape parameter with its bounds and its map of the points."""

    @property
    def value(self) -> float: ...  # of the shape that is meshed
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def unit(self) -> str: ...
    # points (k, dim) [m] of the shape at `start` -> those at `value`; both may be complex
    def move(self, points: Array, value: Any, start: float) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The length of a robot along an axis, or of a part of it.

    Points between `origin` and `origin + value` are stretched about `origin`; points beyond move
    with the end, and points before stay in place. "-z" is the axis z downwards, from `origin` to
    `origin - value`.

    >>> import numpy as np
    >>> from pliant.design import Stretch
    >>> length = Stretch(axis="x", value=0.2, lower=0.1, upper=0.4)
    >>> length.move(np.array([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0]]), 0.3, 0.2).round(3)
    array([[0.15, 0.  , 0.  ],
           [0.3 , 0.  , 0.  ]])
    """

    axis: str  # "x", "y", "z", "-x", "-y" or "-z"
    value: float  # [m]
    origin: float = 0.0  # [m] coordinate of the end that stays in place
    lower: float = 0.0  # [m] exclusive bounds
    upper: float = inf
    unit: str = "m"

    def __post_init__(self) -> None:
        _check_axis("A Stretch", self.axis, DIRECTIONS)
        require_positive("The value of a Stretch", self.value, "m")
        _check_bounds("a Stretch", self)

    def move(self, points: Array, value: Any, start: float) -> Array:
        k, sign = _column(self.axis[-1], points), -1.0 if self.axis[0] == "-" else 1.0
        along = sign * (points[:, k] - self.origin)
        beyond = np.maximum(along.real - start, 0.0) > 0.0
        moved = np.where(beyond, along + (value - start), along * (value / start))
        along = np.where(along.real > 0.0, moved, along)
        return _with_column(points, k, self.origin + sign * along)


@dataclass(frozen=True, kw_only=True)
class RadialStretch:
    """A radius about an axis, or the thickness of a wall around it.

    Points at a distance from the axis between `inner` and `inner + value` are stretched away from
    the inner radius; points beyond move with the outer radius, and points inside stay in place.

    >>> import numpy as np
    >>> from pliant.design import RadialStretch
    >>> wall = RadialStretch(axis="z", value=0.01, inner=0.02)
    >>> wall.move(np.array([[0.03, 0.0, 0.1], [0.0, 0.02, 0.1]]), 0.02, 0.01).round(3)
    array([[0.04, 0.  , 0.1 ],
           [0.  , 0.02, 0.1 ]])
    """

    axis: str  # "x", "y" or "z"; in the plane "z"
    value: float  # [m] distance from `inner` to the outer surface
    centre: ArrayLike = (0.0, 0.0, 0.0)  # [m] a point of the axis; in the plane (2,)
    inner: float = 0.0  # [m]
    lower: float = 0.0  # [m] exclusive bounds
    upper: float = inf
    unit: str = "m"

    def __post_init__(self) -> None:
        _check_axis("A RadialStretch", self.axis)
        require_positive("The value of a RadialStretch", self.value, "m")
        finite_array("The centre of a RadialStretch", self.centre, (None,), "m")
        if require_number("The inner radius of a RadialStretch", self.inner, "m") < 0.0:
            raise InputError(
                f"The inner radius of a RadialStretch is {self.inner:g} m; give 0 or more."
            )
        _check_bounds("a RadialStretch", self)

    def move(self, points: Array, value: Any, start: float) -> Array:
        across, centre = _across(self.axis, points), _centre(self.centre, points)
        away = (points - centre) * across
        r = np.sqrt(np.sum(away * away, axis=1))
        depth = r - self.inner
        grown = np.where(depth.real > start, value - start, depth * (value / start - 1.0))
        outside = depth.real > 0.0
        share = np.where(outside, grown / np.where(outside, r, 1.0), 0.0)
        return points + share[:, None] * away


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """The angle [rad] of a robot, or of its part beyond a plane, about an axis.

    With `beyond`, the coordinate along `along` at which the rotating part starts, the points up to
    `beyond + blend` rotate by a smoothly growing part of the angle.

    >>> import numpy as np
    >>> from pliant.design import Rotation
    >>> tilt = Rotation(axis="y", value=0.0)
    >>> tilt.move(np.array([[1.0, 0.0, 0.0]]), np.pi / 2, 0.0).round(3)
    array([[ 0.,  0., -1.]])
    """

    axis: str  # "x", "y" or "z"; in the plane "z"
    value: float = 0.0  # [rad]
    centre: ArrayLike = (0.0, 0.0, 0.0)  # [m] a point of the axis; in the plane (2,)
    along: str | None = None  # with `beyond`: "x", "y" or "z"
    beyond: float = 0.0  # [m]
    blend: float = 0.0  # [m] length over which the rotation grows
    lower: float = -np.pi  # [rad] exclusive bounds
    upper: float = np.pi
    unit: str = "rad"

    def __post_init__(self) -> None:
        _check_axis("A Rotation", self.axis)
        require_number("The value of a Rotation", self.value, "rad")
        finite_array("The centre of a Rotation", self.centre, (None,), "m")
        if self.along is not None:
            _check_axis("The part of a Rotation", self.along)
            require_positive("The blend of a Rotation of a part", self.blend, "m")
        _check_bounds("a Rotation", self)

    def move(self, points: Array, value: Any, start: float) -> Array:
        across, centre = _across(self.axis, points), _centre(self.centre, points)
        i, j = (2, 0) if self.axis == "y" else np.flatnonzero(across).tolist()
        angle = (value - start) * self._share(points)
        x, y = points[:, i] - centre[i], points[:, j] - centre[j]
        rotated = _with_column(points, i, centre[i] + np.cos(angle) * x - np.sin(angle) * y)
        return _with_column(rotated, j, centre[j] + np.sin(angle) * x + np.cos(angle) * y)

    def _share(self, points: Array) -> Array:
        """Return the part (k,) of the angle that each point rotates by, 3 t^2 - 2 t^3."""
        if self.along is None:
            return np.ones(len(points))
        t = (points[:, _column(self.along, points)] - self.beyond) / self.blend
        t = np.where(t.real < 0.0, 0.0, np.where(t.real > 1.0, 1.0, t))
        return t * t * (3.0 - 2.0 * t)


@dataclass(frozen=True, kw_only=True)
class ShapeParameter:
    """A shape parameter with a map of your own.

    `function(points, value, start)` returns the points (k, dim) [m] at `value` from those at
    `start`. It must accept complex numbers, as NumPy's analytic functions do: no `abs`, `norm` or
    `float`. At value == start it returns the points.

    >>> from pliant.design import ShapeParameter
    >>> taper = ShapeParameter(
    ...     value=1.0, lower=0.5, upper=2.0, unit="-",
    ...     function=lambda x, value, start: x * [1.0, value / start, value / start],
    ... )
    """

    value: float
    function: Callable[[Array, Any, float], Array]
    lower: float = -inf  # exclusive bounds
    upper: float = inf
    unit: str = "-"

    def __post_init__(self) -> None:
        require_number("The value of a ShapeParameter", self.value, self.unit)
        if not callable(self.function):
            raise InputError(
                f"The function of a ShapeParameter is {quoted(self.function)}; give a function of "
                "points, value and start."
            )
        _check_bounds("a ShapeParameter", self)

    def move(self, points: Array, value: Any, start: float) -> Array:
        return np.asarray(self.function(points, value, start))


def _check_axis(name: str, axis: object, known: Sequence[str] = tuple(AXES)) -> None:
    if axis not in tuple(known):
        raise InputError(f"{name} has the axis {quoted(axis)}; choose one of {', '.join(known)}.")


def _check_bounds(name: str, parameter: ShapeMap) -> None:
    lower = require_number(f"The lower bound of {name}", parameter.lower, parameter.unit)
    upper = require_number(f"The upper bound of {name}", parameter.upper, parameter.unit)
    if not lower < parameter.value < upper:
        raise InputError(
            f"The value {parameter.value:g} {parameter.unit} of {name} must lie between its bounds "
            f"{lower:g} and {upper:g}, both excluded."
        )


def _column(axis: str, points: Array) -> int:
    if AXES[axis] >= points.shape[1]:
        raise InputError(f"The axis {axis} does not exist in {points.shape[1]} dimensions.")
    return AXES[axis]


def _across(axis: str, points: Array) -> Array:
    """Return a mask (dim,) of the coordinates across an axis."""
    dim = points.shape[1]
    if dim == 2 and axis != "z":
        raise InputError(f"In the plane the axis of a shape parameter is 'z', not '{axis}'.")
    return np.arange(dim) != AXES[axis]


def _centre(centre: ArrayLike, points: Array) -> Array:
    given, dim = np.asarray(centre, float), points.shape[1]
    if given.size != dim and not (dim == 2 and given.size == 3 and given[2] == 0.0):
        raise InputError(
            f"The centre of a shape parameter has {given.size} numbers, but the body is {dim}D; "
            "give that many."
        )
    return given[:dim]


def _with_column(points: Array, k: int, values: Array) -> Array:
    """Return points (n, dim) with other values of one coordinate."""
    columns = [values if j == k else points[:, j] for j in range(points.shape[1])]
    return np.stack(columns, axis=1)
