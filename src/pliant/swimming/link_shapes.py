"""Shapes of rigid links: ellipsoids and closed triangle surfaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from pliant.core import (
    MAX_COORDINATE,
    Array,
    InputError,
    finite_array,
    is_integer,
    quoted,
    require_positive,
)
from pliant.geometry.surface import Surface
from pliant.geometry.surface_shapes import geodesic
from pliant.hydrostatics import check_closed_surface, volume_properties

ELLIPSOID_POINTS = 353  # on its surface by default; four ellipsoids have 1,412 points [Jia2019]
GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
# of volume over size^3; a thinner body has panels on both sides that cannot see the gap between
MIN_FILL = 1e-6


@runtime_checkable
class LinkShape(Protocol):
    """The shape of a link in its own frame: all that its mass and the flow around it need."""

    @property
    def volume(self) -> float: ...  # [m^3]
    @property
    def centroid(self) -> Array: ...  # (3,) [m]
    # (3, 3) [m^5] the moments of inertia about the centroid for a density of 1 kg/m^3
    @property
    def inertia(self) -> Array: ...
    @property
    def semi_axes(self) -> Array | None: ...  # (3,) [m] of an ellipsoid, None for triangles
    def surface(self, divisions: int = 8) -> Surface: ...  # triangles, for pictures
    # points (P, 3) [m] on the surface, and outward normals (P, 3) times areas [m^2]
    def quadrature(self, count: int) -> tuple[Array, Array]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class EllipsoidShape:
    """A solid ellipsoid around the origin of its frame, with the semi-axes along x, y and z."""

    semi_axes: Array  # (3,) [m]

    def __post_init__(self) -> None:
        axes = finite_array(
            "The array of semi-axes of an EllipsoidShape", self.semi_axes, (3,), "m"
        )
        for value in axes:
            require_positive("A semi-axis of an EllipsoidShape", value, "m")
        if axes.max() > MAX_COORDINATE or axes.min() < 1.0 / MAX_COORDINATE:
            raise InputError(
                f"The semi-axes of an EllipsoidShape are {axes.tolist()} m; they must lie between "
                f"{1.0 / MAX_COORDINATE:g} and {MAX_COORDINATE:g} m. Check the units."
            )
        axes.flags.writeable = False
        object.__setattr__(self, "semi_axes", axes)

    def __repr__(self) -> str:
        return f"EllipsoidShape(semi_axes={tuple(self.semi_axes.tolist())})"

    @property
    def volume(self) -> float:
        return float(4.0 / 3.0 * np.pi * np.prod(self.semi_axes))

    @property
    def centroid(self) -> Array:
        return np.zeros(3)

    @property
    def inertia(self) -> Array:
        square = self.semi_axes**2
        return np.diag(self.volume / 5.0 * (square.sum() - square))

    def surface(self, divisions: int = 8) -> Surface:
        """Return a surface of 20 divisions^2 triangles with its vertices on the ellipsoid."""
        points, triangles = geodesic(divisions)
        return Surface(points=points * self.semi_axes, triangles=triangles)

    def quadrature(self, count: int) -> tuple[Array, Array]:
        """Return `count` points and area vectors, each (count, 3): a Fibonacci spiral on the unit
        sphere, mapped to the ellipsoid. Every point has the same share of the sphere. Half a
        rotation about x maps the points to themselves, bit for bit."""
        k = np.arange(count) - 0.5 * (count - 1)
        z, angle = -2.0 * k / count, k * GOLDEN_ANGLE
        ring = np.sqrt(1.0 - z * z)
        unit = np.stack([ring * np.cos(angle), ring * np.sin(angle), z], 1)
        a, b, c = self.semi_axes
        return unit * self.semi_axes, 4.0 * np.pi / count * unit * (b * c, c * a, a * b)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosedSurface:
    """A solid inside a closed surface of flat triangles that face outward.

    Raises `MeshError` if the surface is open, inside out, flat, self-intersecting, in several
    pieces that lie in each other, or has a triangle without area.
    """

    points: Array  # (n, 3) [m]
    triangles: Array  # (k, 3) indices, counterclockwise from outside

    def __post_init__(self) -> None:
        surface = check_closed_surface(self.points, self.triangles)
        _check_triangles(surface)
        object.__setattr__(self, "points", surface.points)
        object.__setattr__(self, "triangles", surface.triangles)

    def __repr__(self) -> str:
        return f"<ClosedSurface: {len(self.points)} points, {len(self.triangles)} triangles>"

    @property
    def semi_axes(self) -> None:
        return None

    @property
    def volume(self) -> float:
        return volume_properties(self.points, self.triangles).volume

    @property
    def centroid(self) -> Array:
        return volume_properties(self.points, self.triangles).centroid

    @cached_property
    def inertia(self) -> Array:
        """Sum over the tetrahedra from the centroid to each triangle."""
        corners = self.corners - self.centroid
        total = corners.sum(axis=1)
        twentieth = np.linalg.det(corners) / 120.0  # of the volume of each
        second = np.einsum("k,kai,kaj->ij", twentieth, corners, corners)
        second += np.einsum("k,ki,kj->ij", twentieth, total, total)
        return np.trace(second) * np.eye(3) - second

    @property
    def corners(self) -> Array:
        """Return the corners (k, 3, 3) [m] of the triangles."""
        return self.points[self.triangles]

    @cached_property
    def _solid(self) -> Surface:
        return Surface(points=self.points, triangles=self.triangles)

    def surface(self, divisions: int = 8) -> Surface:
        """Return the surface itself; `divisions` has no effect."""
        return self._solid

    def quadrature(self, count: int) -> tuple[Array, Array]:
        """Return the centroids and the area vectors of the triangles; `count` has no effect."""
        return self.corners.mean(axis=1), _area_vectors(self.corners)


def _area_vectors(corners: Array) -> Array:
    return 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _check_triangles(surface: Surface) -> None:
    """Raise `InputError` for a body without thickness or a triangle without area."""
    size = float(np.ptp(surface.points, axis=0).max())
    if surface.volume() <= MIN_FILL * size**3:
        raise InputError(
            f"A ClosedSurface of {size:.3g} m encloses {surface.volume():.3g} m^3 only: it is "
            "flat. Give it a thickness."
        )
    corners = surface.points[surface.triangles]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    bad = np.flatnonzero(np.linalg.norm(_area_vectors(corners), axis=1) <= MIN_FILL * longest**2)
    if bad.size:
        raise InputError(
            f"{bad.size} of {len(corners)} triangles of a ClosedSurface have no area (first: "
            f"triangle {bad[0]}). Remove them, or repair the surface (repair_surface)."
        )


def require_point_count(count: int) -> int:
    """Return the points of an ellipsoid. Raises `InputError` unless it is from 12 to 20,000."""
    if not is_integer(count) or not 12 <= count <= 20_000:
        raise InputError(
            f"The number of points of an ellipsoid is {quoted(count)}; give a whole number from "
            "12 to 20,000, such as 353."
        )
    return int(count)


def check_shapes(shapes: Sequence[LinkShape]) -> tuple[LinkShape, ...]:
    """Return the shapes as a tuple. Raises `InputError` unless there is one and all are shapes."""
    for k, shape in enumerate(shapes):
        if not isinstance(shape, LinkShape):
            raise InputError(
                f"The shape of link {k} is {quoted(shape)} ({type(shape).__name__}); give an "
                "EllipsoidShape or a ClosedSurface."
            )
    if not len(shapes):
        raise InputError("There are no links; give the shape of at least one.")
    return tuple(shapes)
