"""Closed surfaces for tests of fluids: a ball, and a hare with a neck and long ears."""

import numpy as np

from pliant.core import Array, InputError, is_integer, quoted, require_positive
from pliant.geometry.cells import add_midside_nodes, merge_points, split_quadratic_triangles
from pliant.geometry.surface import Surface

GOLDEN_RATIO = (1.0 + np.sqrt(5.0)) / 2.0
MAX_DIVISIONS = 300  # along an edge of the icosahedron: 1.8 million triangles


def icosphere(radius: float, *, subdivisions: int = 4) -> Surface:
    """Return a ball of `radius` [m] around the origin.

    The edges of an icosahedron are halved `subdivisions` times, and new vertices are moved to the
    sphere.
    """
    require_positive("The radius of a ball", radius, "m")
    if not is_integer(subdivisions) or not 0 <= subdivisions <= 8:
        raise InputError(
            f"The subdivisions of a ball are {quoted(subdivisions)}; give a whole number from 0 "
            "(20 triangles) to 8 (1,310,720)."
        )
    points, triangles = icosahedron()
    for _ in range(subdivisions):
        points, cells = add_midside_nodes(points, triangles)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        triangles = split_quadratic_triangles(cells)
    return Surface(points=radius * points, triangles=triangles)


def icosahedron() -> tuple[Array, Array]:
    """Return points (12, 3) at distance 1 and outward triangles (20, 3)."""
    flat = np.array([[0.0, s, t * GOLDEN_RATIO] for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
    points = np.concatenate([np.roll(flat, k, axis=1) for k in range(3)])
    near = np.isclose(np.linalg.norm(points[:, None] - points, axis=2), 2.0)
    faces = np.array(
        [
            (a, b, c)
            for a in range(12)
            for b in range(a)
            for c in range(b)
            if near[a, b] and near[b, c] and near[a, c]
        ]
    )
    inward = np.linalg.det(points[faces]) < 0.0
    faces[inward] = faces[inward][:, ::-1]
    return points / np.linalg.norm(points[0]), faces


def hare_surface(height: float, *, divisions: int = 67) -> Surface:
    """Return a sitting hare of a `height` [m], with 20 divisions^2 triangles.

    It is not convex: a line may intersect it several times, and the ears hang over the back. A
    radius over the directions of a sphere defines body, head, ears and paws. Two shears bend the
    ears back. A shear is one-to-one, so the surface does not intersect itself.
    """
    require_positive("The height of a hare", height, "m")
    if not is_integer(divisions) or not 4 <= divisions <= MAX_DIVISIONS:
        raise InputError(
            f"A hare has {quoted(divisions)} divisions along an edge; give a whole number from 4 "
            f"to {MAX_DIVISIONS}."
        )
    d, triangles = geodesic(divisions)
    x, y, z = (_radius(d)[:, None] * d).T
    x = x - 1.0 * np.maximum(z - 0.75, 0.0) ** 2
    z = z - 0.9 * np.maximum(-x - 0.1, 0.0) ** 2
    return Surface(
        points=np.stack([x, 1.1 * y, z], axis=1) * (height / np.ptp(z)), triangles=triangles
    )


def _radius(d: Array) -> Array:
    """Return the radius (n,) of the hare in directions d (n, 3)."""
    bumps = [
        (0.30, 7.0, (0.8, 0.0, 0.75)),
        (-0.25, 9.0, (1.0, 0.0, 0.05)),
        (0.22, 12.0, (0.9, 0.4, -0.6)),
        (0.22, 12.0, (0.9, -0.4, -0.6)),
        (0.16, 20.0, (-1.0, 0.0, -0.5)),
        (1.05, 38.0, (0.3, 0.3, 1.0)),
        (1.05, 38.0, (0.3, -0.3, 1.0)),
    ]
    return 0.75 + sum(
        rise * np.exp(sharp * (d @ (np.array(at) / np.linalg.norm(at)) - 1.0))
        for rise, sharp, at in bumps
    )


def geodesic(divisions: int) -> tuple[Array, Array]:
    """Return points (n, 3) on the unit sphere and outward triangles (20 divisions^2, 3).

    Each face of an icosahedron is cut into divisions^2 triangles."""
    corners, faces = icosahedron()
    places = [(i, j) for i in range(divisions + 1) for j in range(divisions + 1 - i)]
    number = {place: k for k, place in enumerate(places)}
    up = [
        (number[i, j], number[i + 1, j], number[i, j + 1]) for i, j in places if i + j < divisions
    ]
    down = [
        (number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i, j in places
        if i + j < divisions - 1
    ]
    s, t = np.array(places, dtype=float).T / divisions
    a, b, c = (corners[faces[:, k]][:, None] for k in range(3))
    points = (1.0 - s - t)[:, None] * a + s[:, None] * b + t[:, None] * c  # (20, places, 3)
    triangles = np.array(up + down) + len(places) * np.arange(len(faces))[:, None, None]
    points, triangles = merge_points(points.reshape(-1, 3), triangles.reshape(-1, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True), triangles
