"""Inside tests and segment intersections of a closed surface, accelerated by clusters of
triangles."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array

CLUSTER_SIZE = 32  # triangles
# [cluster radii] beyond which a cluster is a dipole (Barill et al. 2018); the error is below 0.02
DIPOLE_DISTANCE = 2.0
MAX_PAIRS = 200_000  # of point and triangle at once; limits the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class TriangleCluster:
    """Neighbouring triangles with a dipole approximation for distant points."""

    corners: Array  # (k, 3, 3) [m]
    centre: Array  # (3,) [m], weighted by area
    radius: float  # [m], to the farthest corner
    normal: Array  # (3,) [m^2], the sum of the area vectors


def cluster_triangles(corners: Array) -> list[TriangleCluster]:
    """Return clusters of triangles (m, 3, 3), halved along their widest side until they are
    small."""
    groups, small = [corners], []
    while groups:
        group = groups.pop()
        if len(group) <= CLUSTER_SIZE:
            small.append(make_cluster(group))
            continue
        middle = group.mean(axis=1)
        order = np.argsort(middle[:, np.ptp(middle, axis=0).argmax()], kind="stable")
        groups += [group[part] for part in np.array_split(order, 2)]
    return small


def make_cluster(corners: Array) -> TriangleCluster:
    area = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    weight = np.linalg.norm(area, axis=1) + 1e-300
    centre = np.average(corners.mean(axis=1), axis=0, weights=weight)
    radius = float(np.linalg.norm(corners - centre, axis=2).max())
    return TriangleCluster(corners=corners, centre=centre, radius=radius, normal=area.sum(axis=0))


def winding_numbers(parts: list[TriangleCluster], points: Array) -> Array:
    """Return the winding number (k,) around each point: 1 inside, 0 outside, in between close to a
    gap."""
    total = np.zeros(len(points))
    for part in parts:
        offset = part.centre - points
        distance = np.linalg.norm(offset, axis=1)
        far = distance > DIPOLE_DISTANCE * part.radius
        total[far] += offset[far] @ part.normal / distance[far] ** 3
        near = np.flatnonzero(~far)
        step = max(1, MAX_PAIRS // len(part.corners))
        for start in range(0, near.size, step):
            rows = near[start : start + step]
            total[rows] += solid_angles(part.corners, points[rows])
    return total / (4 * np.pi)


def solid_angles(corners: Array, points: Array) -> Array:
    """Return the total solid angle (k,) of all triangles from each point (van Oosterom, Strackee
    1983)."""
    a, b, c = (corners[None, :, i] - points[:, None] for i in range(3))
    la, lb, lc = (np.linalg.norm(v, axis=2) for v in (a, b, c))
    volume = np.einsum("pti,pti->pt", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("pti,pti->pt", v, w) for v, w in ((a, b), (b, c), (c, a)))
    return 2 * np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb).sum(axis=1)


def first_crossings(parts: list[TriangleCluster], start: Array, end: Array) -> Array:
    """Return the fraction (k,) of each segment at its first intersection with the surface.

    It is 0.5 if rounding hides the intersection.
    """
    first = np.full(len(start), np.inf)
    lower, upper = np.minimum(start, end), np.maximum(start, end)
    for part in parts:
        box = part.corners.reshape(-1, 3)
        near = np.flatnonzero(((upper >= box.min(axis=0)) & (lower <= box.max(axis=0))).all(axis=1))
        step = max(1, MAX_PAIRS // len(part.corners))
        for at in range(0, near.size, step):
            rows = near[at : at + step]
            first[rows] = np.minimum(
                first[rows], segment_hits(part.corners, start[rows], end[rows]).min(axis=1)
            )
    return np.where(np.isfinite(first), first, 0.5)


def segment_hits(corners: Array, start: Array, end: Array) -> Array:
    """Return the fraction (k, m) along each segment at each triangle, inf for a miss (Moeller,
    Trumbore)."""
    edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    ray = (end - start)[:, None]
    p = np.cross(ray, edge2)
    det = np.einsum("kmi,mi->km", p, edge1)
    scale = np.where(det == 0.0, np.inf, det)
    offset = start[:, None] - corners[:, 0]
    q = np.cross(offset, edge1)
    u = np.einsum("kmi,kmi->km", offset, p) / scale
    v = np.einsum("kmi,kmi->km", np.broadcast_to(ray, q.shape), q) / scale
    t = np.einsum("kmi,mi->km", q, edge2) / scale
    slack = 1e-9  # a segment through an edge must hit at least one of its triangles
    hit = (
        (det != 0)
        & (u >= -slack)
        & (v >= -slack)
        & (u + v <= 1 + slack)
        & (t >= -slack)
        & (t <= 1 + slack)
    )
    return np.where(hit, np.clip(t, 0, 1), np.inf)
