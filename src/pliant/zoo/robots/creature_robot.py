"""A four-legged creature from an STL file of a closed surface, with one pressure chamber in each
leg [Spielberg2021, section 5.2, Fig. 9]. The surface is made here."""

from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.contact import Contact, plane
from pliant.core import Array, require_positive
from pliant.design.design_files import stl_bytes
from pliant.geometry import Box, Mesh, Surface, fill, load_surface
from pliant.geometry.cells import boundary_facets, remove_unused_points
from pliant.geometry.stuffing import stuff_isosurface
from pliant.materials import Material
from pliant.robot import Effector, Robot
from pliant.store import write_atomic
from pliant.zoo.robots.block_walkers import DENSITY, FRICTION, NU, E, leg_chambers

# Ellipsoids (centre, half axes) in units of the creature's length: trunk, head, a bulb on the back,
# and the legs, whose curved soles let the body roll. The surface is a smooth union of them.
TRUNK = ((0.45, 0.0, 0.36), (0.36, 0.24, 0.2))
HEAD = ((0.8, 0.0, 0.47), (0.2, 0.2, 0.18))
BULB = ((0.35, 0.0, 0.6), (0.2, 0.18, 0.16))
LEG_CENTRES = tuple(product((0.22, 0.68), (-0.17, 0.17), (0.2,)))
LEG_AXES = (0.11, 0.1, 0.2)
BLEND = 12.0  # sharpness of the union: larger leaves deeper creases
BISECTIONS = 30  # of a lattice edge, to find the surface
QUARTER = 0.25  # of the height, in which the chambers are
NAMES = ("back right", "back left", "front right", "front left")


def creature_level(points: Array) -> Array:
    """Return a smooth function (n,) of points (n, 3) in units of the length, positive inside."""
    parts = [TRUNK, HEAD, BULB, *((centre, LEG_AXES) for centre in LEG_CENTRES)]
    depths = [
        1.0 - np.linalg.norm((points - np.array(centre)) / np.array(axes), axis=1)
        for centre, axes in parts
    ]
    return np.asarray(np.logaddexp.reduce(BLEND * np.array(depths), axis=0) / BLEND)


def creature_surface(length: float = 0.4, *, cell: float = 0.04) -> Surface:
    """Return the closed surface of the creature, `length` [m] long, of triangles of about `cell`
    lengths. It stands on the height zero."""
    require_positive("The length of the creature", length, "m")
    inside = lambda points: creature_level(points) > 0.0

    def crossing(start: Array, end: Array) -> Array:
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            within = inside(start + middle[:, None] * (end - start))
            low, high = np.where(within, middle, low), np.where(within, high, middle)
        return 0.5 * (low + high)

    box = np.array([-0.1, -0.5, -0.1]), np.array([1.2, 0.5, 1.0])
    mesh = stuff_isosurface(inside, crossing, box, cell)
    points, triangles = remove_unused_points(mesh.points, boundary_facets(mesh.cells))
    points = points * (length / np.ptp(points[:, 0]))
    return Surface(points=points - points[:, 2].min() * np.eye(3)[2], triangles=triangles)


def write_creature(path: str | Path, length: float = 0.4) -> None:
    """Write the surface of the creature as a binary STL file [m]."""
    surface = creature_surface(length)
    write_atomic(Path(path), stl_bytes(surface.points[surface.triangles]))


@cache
def creature_mesh(length: float, cell: float) -> Mesh:
    """Return the mesh of the STL file of the creature."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "creature.stl"
        write_creature(path, length)
        return fill(load_surface(path), cell)


def creature(*, length: float = 0.4, cell: float = 0.025) -> Robot:
    """Return the creature on a floor at height zero. Each control is the stress [Pa] of a
    quadrant of its lowest quarter, which is most of a leg. `length` and `cell` [m] are those of the
    body and of its mesh."""
    mesh = creature_mesh(length, cell)
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    half = 0.5 * (upper - lower)
    size = (half[0], half[1], QUARTER * 2.0 * half[2])
    places = product((lower[0], lower[0] + half[0]), (lower[1], lower[1] + half[1]))
    chambers = {
        name: Box(size=size, origin=(x, y, lower[2]))
        for name, (x, y) in zip(NAMES, places, strict=True)
    }
    return Robot(
        name="creature",
        shape=mesh,
        order=1,
        material=Material(E=E, nu=NU, density=DENSITY),
        gravity=(0.0, 0.0, -9.81),
        actuators=leg_chambers(chambers, dim=3),
        contacts=[Contact(obstacle=plane((0.0, 0.0, 1.0)), friction=FRICTION)],
        effectors={"body": Effector(region="body")},
    )
