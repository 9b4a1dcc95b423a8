"""Walkers of blocks of particles [Spielberg2021, section 5.3.2 and appendix C]: a planar biped, and
a quadruped, hexapod and octoped in space."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from pliant.actuators import Muscle
from pliant.contact import Contact, plane
from pliant.core import Array, InputError, is_integer
from pliant.geometry import Box, Domain, Rectangle, Union
from pliant.geometry.cells import signed_volumes
from pliant.geometry.particle_sampling import ParticleSamples
from pliant.materials import Material
from pliant.mpm.particles import Particles
from pliant.robot import Effector, Robot

# The paper gives numbers without units and no gravity. With lengths in metres, masses relative to
# water and Earth's gravity, one unit of pressure and modulus is chosen so that the robots stand:
# the weight of the biped compresses its legs by 3 %.
UNIT = 5e3  # [Pa] one unit of the paper's moduli and pressures
DENSITY = 1e3  # [kg/m^3] one unit of the paper's masses
# [s] one unit of the paper's times, which follows from the other units: sqrt(1 m^2 DENSITY / UNIT).
# With it, Earth's gravity is 1.96 of the paper's units, and 4 units are 12.5 times the time in
# which a body falls by the height of a leg.
TIME = (DENSITY / UNIT) ** 0.5
E, NU = 10.0 * UNIT, 0.3  # first values
PRESSURE = 2.0 * UNIT  # [Pa] largest
FRICTION = 0.9
LEG = 0.1  # [m] width and height of a leg, and height of the body
GAP = LEG  # [m] between neighbouring legs in space, so far apart that they share no node of a grid
Shape = Rectangle | Box


def leg_chambers(regions: Mapping[str, str | Domain], dim: int) -> dict[str, Muscle]:
    """Return an actuator for each region by name, which shortens it or, with a negative control,
    lengthens it along the vertical axis [Pa].

    The paper's listing of the planar biped has actuators that act along this axis and a network
    that ends in tanh, so both directions have the same limit.
    """
    up = np.eye(dim)[-1]
    return {
        name: Muscle(region=region, axis=up, limits=(-PRESSURE, PRESSURE))
        for name, region in regions.items()
    }


@dataclass(frozen=True, kw_only=True)
class BlockWalker:
    """A robot of blocks. Each has the same number of particles along each of its edges, so the
    particles of a small block are closer together."""

    name: str
    blocks: Mapping[str, Shape]
    chambers: tuple[str, ...]  # the blocks under pressure
    unit: float  # [m] a length of which all edges are multiples

    @property
    def dim(self) -> int:
        return next(iter(self.blocks.values())).dim

    @cached_property
    def shape(self) -> Union:
        return Union(parts=self.blocks)

    @property
    def length(self) -> float:
        """The length [m] of the robot along x."""
        lower, upper = self.shape.bounds()
        return float((upper - lower)[0])

    def robot(self) -> Robot:
        """Return the robot on a floor at height zero. Each control is the stress [Pa] of a
        chamber."""
        lower, upper = self.shape.bounds()
        up = np.eye(self.dim)[-1]
        return Robot(
            name=self.name,
            shape=self.shape,
            divisions=tuple(np.round((upper - lower) / self.unit).astype(int).tolist()),
            order=1,
            material=Material(E=E, nu=NU, density=DENSITY),
            gravity=tuple((-9.81 * up).tolist()),
            actuators=leg_chambers({name: name for name in self.chambers}, self.dim),
            contacts=[Contact(obstacle=plane(tuple(up.tolist())), friction=FRICTION)],
            effectors={"body": Effector(region="body")},
        )

    def particles(self, robot: Robot, count: int) -> Particles:
        """Return the particles, `count` along each edge of a block. Raises InputError for fewer
        than 2."""
        if not is_integer(count) or count < 2:
            raise InputError(f"A block has {count} particles along its edges; give 2 or more.")
        mesh = robot.mesh()
        points = np.concatenate([_lattice(block, count) for block in self.blocks.values()])
        sizes = [np.prod(block.size) for block in self.blocks.values()]
        volumes = np.repeat(sizes, count**self.dim) / count**self.dim
        cells, barycentric = mesh.locate(points)
        index = np.arange(len(points)).reshape(len(self.blocks), -1)
        samples = ParticleSamples(
            points=points,
            volumes=volumes,
            cells=cells,
            nodes=mesh.cells[cells],
            barycentric=barycentric,
            rest_volumes=signed_volumes(mesh.points, mesh.cells)[cells],
            regions=dict(zip(self.blocks, index, strict=True)),
        )
        return Particles(mesh=mesh, samples=samples, materials=robot.materials_by_region())


def _lattice(block: Shape, count: int) -> Array:
    """Return the centres (count^dim, dim) [m] of a lattice in a block."""
    lower, upper = block.bounds()
    ticks = (np.arange(count) + 0.5) / count
    grid = np.stack(np.meshgrid(*[ticks] * block.dim, indexing="ij"), axis=-1)
    return np.asarray(lower + (upper - lower) * grid.reshape(-1, block.dim))


def block_biped() -> BlockWalker:
    """Return the planar biped of eight blocks, with two chambers side by side in each leg."""

    def block(x: float, y: float, width: float, height: float) -> Rectangle:
        return Rectangle(origin=(LEG * x, LEG * y), size=(LEG * width, LEG * height))

    blocks = {
        "back leg, back": block(0.0, 0.0, 0.5, 1.0),
        "back leg, front": block(0.5, 0.0, 0.5, 1.0),
        "back": block(0.0, 1.0, 1.0, 1.0),
        "middle, lower": block(1.0, 1.0, 1.0, 0.5),
        "middle, upper": block(1.0, 1.5, 1.0, 0.5),
        "front": block(2.0, 1.0, 1.0, 1.0),
        "front leg, back": block(2.0, 0.0, 0.5, 1.0),
        "front leg, front": block(2.5, 0.0, 0.5, 1.0),
    }
    chambers = tuple(name for name in blocks if " leg, " in name)
    return BlockWalker(name="biped", blocks=blocks, chambers=chambers, unit=LEG / 4)


# rows (along x) and sides (along y) of the 3 x 3 blocks of the body that have a leg below
LEGS = {
    "quadruped": tuple(product((0, 2), (0, 2))),
    "hexapod": tuple(product((0, 1, 2), (0, 2))),
    "octoped": tuple(place for place in product((0, 1, 2), (0, 1, 2)) if place != (1, 1)),
}


def legged_walker(name: str) -> BlockWalker:
    """Return the "quadruped", "hexapod" or "octoped": nine blocks above legs, each of which has
    four chambers in a square."""
    width = 3.0 * LEG + 2.0 * GAP
    cuts = (0.0, LEG + 0.5 * GAP, width - LEG - 0.5 * GAP, width)
    starts = (0.0, LEG + GAP, 2.0 * (LEG + GAP))  # of the legs
    blocks = {
        f"body {i}{j}": Box(
            origin=(cuts[i], cuts[j], LEG),
            size=(cuts[i + 1] - cuts[i], cuts[j + 1] - cuts[j], LEG),
        )
        for i, j in product(range(3), repeat=2)
    }
    half = 0.5 * LEG
    chambers = {
        f"leg {i}{j}, {'back' if a == 0 else 'front'} {'right' if b == 0 else 'left'}": Box(
            origin=(starts[i] + a * half, starts[j] + b * half, 0.0), size=(half, half, LEG)
        )
        for i, j in LEGS[name]
        for a, b in product((0, 1), repeat=2)
    }
    return BlockWalker(
        name=name, blocks={**blocks, **chambers}, chambers=tuple(chambers), unit=half
    )
