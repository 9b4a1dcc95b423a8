"""Closed surfaces of triangles that fluids are tried in: a ball, and a hare with a neck and long
ears."""

import numpy as np

from pliant.core import Array, InputError, is_whole, quoted, require_positive
from pliant.geometry.cells import elevated, merged, quartered
from pliant.geometry.surface import Surface

GOLDEN = (1.0 + np.sqrt(5.0)) / 2.0
MOST_PARTS = 300  # along an edge of the icosahedron: 1.8 million triangles


def ball(radius: float, *, halvings: int = 4) -> Surface:
    """A ball around the origin, radius [m]: an icosahedron whose edges are halved, and the middles
    moved out, so many times."""
    require_positive("The radius of a ball", radius, "m")
    if not is_whole(halvings) or not 0 <= halvings <= 8:
        raise InputError(
            f"The halvings of a ball are {quoted(halvings)}; give a whole number from 0 (20 "
            "triangles) to 8 (1,310,720)."
        )
    points, triangles = icosahedron()
    for _ in range(halvings):
        points, cells = elevated(points, triangles)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        triangles = quartered(cells)
    return Surface(points=radius * points, triangles=triangles)


def icosahedron() -> tuple[Array, Array]:
    """(points (12, 3) at distance 1, outward triangles (20, 3))"""
    flat = np.array([[0.0, s, t * GOLDEN] for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
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


def hare(height: float, *, parts: int = 67) -> Surface:
    """A sitting hare, height [m], of 20 parts^2 triangles: not convex, so that a line may pass
    through it several times, its ears falling over its back.

    A radius over the directions of a ball makes its body, head, ears and paws; two shears then lay
    the ears back and let them hang. A shear is one-to-one, so that nothing crosses.
    """
    require_positive("The height of a hare", height, "m")
    if not is_whole(parts) or not 4 <= parts <= MOST_PARTS:
        raise InputError(
            f"A hare has {quoted(parts)} parts along an edge; give a whole number from 4 to "
            f"{MOST_PARTS}."
        )
    d, triangles = geodesic(parts)
    x, y, z = (_radius(d)[:, None] * d).T
    x = x - 1.0 * np.maximum(z - 0.75, 0.0) ** 2
    z = z - 0.9 * np.maximum(-x - 0.1, 0.0) ** 2
    return Surface(
        points=np.stack([x, 1.1 * y, z], axis=1) * (height / np.ptp(z)), triangles=triangles
    )


def _radius(d: Array) -> Array:
    """(n,) how far the hare reaches in directions d (n, 3)."""
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


def geodesic(parts: int) -> tuple[Array, Array]:
    """(points (n, 3) at distance 1, outward triangles (20 parts^2, 3)): each face of an icosahedron
    cut into parts^2."""
    corners, faces = icosahedron()
    places = [(i, j) for i in range(parts + 1) for j in range(parts + 1 - i)]
    number = {place: k for k, place in enumerate(places)}
    up = [(number[i, j], number[i + 1, j], number[i, j + 1]) for i, j in places if i + j < parts]
    down = [
        (number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i, j in places
        if i + j < parts - 1
    ]
    s, t = np.array(places, dtype=float).T / parts
    a, b, c = (corners[faces[:, k]][:, None] for k in range(3))
    points = (1.0 - s - t)[:, None] * a + s[:, None] * b + t[:, None] * c  # (20, places, 3)
    triangles = np.array(up + down) + len(places) * np.arange(len(faces))[:, None, None]
    points, triangles = merged(points.reshape(-1, 3), triangles.reshape(-1, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True), triangles
