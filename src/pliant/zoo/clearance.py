"""Clearance of a laser beam and of a soft arm from spherical obstacles, also between time steps."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from pliant.core import Array
from pliant.geometry.nearest import nearest_on_simplices


def sphere_clearance(corners: Array, spheres: Array) -> float:
    """Return the least distance [m] between simplices (m, n, 3) [m], segments or triangles, and
    spheres (k, 4), each with centre and radius [m]. It is negative where they overlap."""
    gaps = [np.inf]
    for sphere in spheres:
        shares = nearest_on_simplices(corners, sphere[:3])
        feet = np.einsum("ma,mai->mi", shares, corners)
        gaps.append(float(np.linalg.norm(feet - sphere[:3], axis=1).min()) - float(sphere[3]))
    return min(gaps)


def clearance_over_time(
    clearance: Callable[[Array], float], paths: Array, *, pieces: int = 8
) -> float:
    """Return a lower bound [m] of the clearance of moving points over a motion, also between its
    steps.

    `paths` (steps + 1, n, 3) [m] are the points at the steps; `clearance` maps points (n, 3) to a
    distance that changes at most as much as the point that moves most. Each step is divided into
    `pieces`. Between two samples the clearance is at least their mean less half the motion. The
    points leave the chord of a step by at most h^2/8 of their acceleration, which second
    differences give.
    """
    bends = np.linalg.norm(np.diff(paths, 2, axis=0), axis=2).max(axis=1, initial=0.0)
    bends = np.concatenate([bends[:1], bends, bends[-1:]])  # of the steps before and after each
    lowest = np.inf
    for k, (start, end) in enumerate(pairwise(paths)):
        shares = np.linspace(0.0, 1.0, pieces + 1)
        samples = np.array([clearance(start + t * (end - start)) for t in shares])
        moved = np.linalg.norm(end - start, axis=1).max() / pieces
        bound = 0.5 * (samples[:-1] + samples[1:] - moved).min()
        sagitta = max(bends[k : k + 2], default=0.0) / 8.0
        lowest = min(lowest, float(bound - sagitta))
    return lowest


def beam_clearance(beams: Array, spheres: Array) -> float:
    """Return a lower bound [m] of the distance between a beam and spheres (k, 4) over a motion.
    `beams` (steps + 1, 2, 3) [m] are the lens and the spot at each step."""
    return clearance_over_time(lambda ends: sphere_clearance(ends[None], spheres), beams)


def surface_clearance(nodes: Array, triangles: Array, spheres: Array) -> float:
    """Return a lower bound [m] of the distance between a surface (triangles (m, 3) of nodes
    (steps + 1, n, 3) [m]) and spheres (k, 4) over a motion."""
    used, rows = np.unique(triangles, return_inverse=True)
    corners = rows.reshape(-1, 3)
    return clearance_over_time(
        lambda points: sphere_clearance(points[corners], spheres), nodes[:, used], pieces=4
    )


def rings(spheres: Array, count: int = 41) -> list[Array]:
    """Return three great circles (count, 3) [m] of each sphere (k, 4), for pictures."""
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    axes = ([0, 1, 2], [0, 2, 1], [2, 0, 1])
    return [sphere[:3] + sphere[3] * circle[:, order] for sphere in spheres for order in axes]
