"""The distance between links, and the check that they neither overlap nor touch."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from pliant.core import InputError
from pliant.swimming.ellipsoid_distance import PlacedEllipsoid, ellipsoid_distance
from pliant.swimming.link_shapes import LinkShape
from pliant.swimming.placement import Placement
from pliant.swimming.surface_distance import (
    PlacedSurface,
    ellipsoid_meets_surface,
    ellipsoid_surface_distance,
    surface_distance,
    surfaces_meet,
)

TOUCH_TOLERANCE = 1e-9  # of the size of two links; closer links touch


class LinkContactError(InputError):
    """Two links that overlap or touch. `links` are their indices."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(
            f"Links {first} and {second} overlap or touch, so the flow between them is not "
            "defined. Leave a gap at their hinge, or reduce the joint limits."
        )
        self.links = (first, second)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the indices, which a worker process sends back instead of the text."""
        return type(self), self.links


def check_contacts(shapes: Sequence[LinkShape], placement: Placement) -> None:
    """Raise `LinkContactError` for the first two links that overlap or touch."""
    if len(shapes) != placement.n_links:
        raise InputError(
            f"The placement has {placement.n_links} links, but there are {len(shapes)} shapes. "
            "Give one place for each shape."
        )
    for i, k in combinations(range(len(shapes)), 2):
        if _sphere_gap(shapes, placement, i, k) <= 0.0 and _meet(shapes, placement, i, k):
            raise LinkContactError(i, k)


def link_distance(shapes: Sequence[LinkShape], placement: Placement, i: int, k: int) -> float:
    """Return the distance [m] of the links i and k, 0 if they overlap or touch.

    It is exact to rounding for two ellipsoids and for two surfaces. Of an ellipsoid and a surface
    it is a lower bound, 1e-6 of it too small unless they nearly touch.
    """
    one, other = _placed(shapes, placement, i), _placed(shapes, placement, k)
    if isinstance(one, PlacedEllipsoid):
        if isinstance(other, PlacedEllipsoid):
            distance = ellipsoid_distance(one, other)
        else:
            distance = ellipsoid_surface_distance(one, other)
    elif isinstance(other, PlacedEllipsoid):
        distance = ellipsoid_surface_distance(other, one)
    else:
        distance = surface_distance(one, other)
    return distance if distance > _smallest_gap(shapes, i, k) else 0.0


def closest_links(shapes: Sequence[LinkShape], placement: Placement) -> tuple[float, int, int]:
    """Return the smallest distance [m] of two links, and their indices. It is infinite for one
    link."""
    found = (np.inf, 0, 0)
    for i, k in combinations(range(len(shapes)), 2):
        if _sphere_gap(shapes, placement, i, k) < found[0]:
            found = min(found, (link_distance(shapes, placement, i, k), i, k))
    return found


def _radius(shape: LinkShape) -> float:
    axes = shape.semi_axes
    if axes is not None:
        return float(axes.max())
    return float(np.sqrt((shape.surface().points ** 2).sum(axis=1).max()))


def _sphere_gap(shapes: Sequence[LinkShape], placement: Placement, i: int, k: int) -> float:
    """Return a lower bound of the distance [m]: that of the spheres around both origins."""
    apart = np.linalg.norm(placement.centres[i] - placement.centres[k])
    return float(apart) - _radius(shapes[i]) - _radius(shapes[k])


def _smallest_gap(shapes: Sequence[LinkShape], i: int, k: int) -> float:
    return TOUCH_TOLERANCE * (_radius(shapes[i]) + _radius(shapes[k]))


def _meet(shapes: Sequence[LinkShape], placement: Placement, i: int, k: int) -> bool:
    """Return whether two links overlap or touch. This is faster than the distance of surfaces."""
    one, other = _placed(shapes, placement, i), _placed(shapes, placement, k)
    if isinstance(one, PlacedEllipsoid):
        if isinstance(other, PlacedEllipsoid):
            return ellipsoid_distance(one, other) <= _smallest_gap(shapes, i, k)
        return ellipsoid_meets_surface(one, other)
    if isinstance(other, PlacedEllipsoid):
        return ellipsoid_meets_surface(other, one)
    return surfaces_meet(one, other)


def _placed(
    shapes: Sequence[LinkShape], placement: Placement, i: int
) -> PlacedEllipsoid | PlacedSurface:
    """Return the shape of a link in the frame of the root."""
    R, c = placement.rotations[i], placement.centres[i]
    axes = shapes[i].semi_axes
    if axes is not None:
        return PlacedEllipsoid(semi_axes=axes, rotation=R, centre=c)
    surface = shapes[i].surface()
    return PlacedSurface(points=surface.points @ R.T + c, triangles=surface.triangles)
