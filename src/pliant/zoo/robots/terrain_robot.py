"""The planar biped on a terrain that consists of particles too [Spielberg2021, section 5.2,
Fig. 8]."""

from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array
from pliant.geometry import Mesh
from pliant.geometry.cells import signed_volumes
from pliant.geometry.particle_sampling import ParticleSamples
from pliant.materials import Material
from pliant.mpm.particles import Particles
from pliant.robot import Effector, Robot, Support
from pliant.zoo.robots.block_walkers import DENSITY, NU, BlockWalker, E, block_biped

COLUMNS, ROWS = 780, 30  # of particles of the terrain at full size: 23,400
LENGTH, DEPTH, BEHIND = 1.95, 0.075, 0.15  # [m] of the terrain, and its part behind the robot
BUMP, WAVE = 0.02, 0.3  # [m] height and length of the bumps
FLAT = 0.35  # [m] of the terrain below the robot at the start
WALKER, TERRAIN, BOTTOM = "walker", "terrain", "bottom"  # regions, and a surface


def ground_height(x: Array) -> Array:
    """Return the height [m] of the terrain's surface at x (k,) [m]: flat below the robot at first,
    then bumps."""
    bumps = 0.5 * BUMP * (1.0 - np.cos(2.0 * np.pi * (x - FLAT) / WAVE))
    return np.where(x > FLAT, bumps, 0.0)


@dataclass(frozen=True, kw_only=True)
class TerrainWalker:
    """A biped whose soles are `gap` [m] above a terrain of particles, which is held at its
    bottom."""

    gap: float
    blocks: BlockWalker

    def raised(self, points: Array) -> Array:
        """Return points (n, 2) of the biped, raised above the terrain."""
        return np.asarray(points + np.array([0.0, self.gap]))

    def mesh(self) -> Mesh:
        """Return the mesh of the biped and of the terrain, which do not touch."""
        own, ground = self.blocks.robot().mesh(), _terrain_mesh()
        n, m = len(own.points), own.n_cells
        cells = np.concatenate([own.cells, ground.cells + n])
        regions = {**own.regions, WALKER: np.arange(m), TERRAIN: np.arange(m, len(cells))}
        points = np.concatenate([self.raised(own.points), ground.points])
        surfaces = {BOTTOM: ground.surfaces[BOTTOM] + n}
        return Mesh(points=points, cells=cells, regions=regions, surfaces=surfaces)

    def robot(self) -> Robot:
        """Return the biped and the terrain as one robot."""
        made = self.blocks.robot()
        soft = Material(E=E, nu=NU, density=DENSITY)
        return replace(
            made,
            name="biped on terrain",
            shape=self.mesh(),
            divisions=None,
            material={WALKER: soft, TERRAIN: soft},
            contacts=[],
            supports=[Support(region=BOTTOM)],
            effectors={"body": Effector(region=WALKER)},
        )

    def particles(self, robot: Robot, count: int, columns: int, rows: int) -> Particles:
        """Return the particles, `count` along each edge of a block and `columns` x `rows` of the
        terrain."""
        own = self.blocks.particles(self.blocks.robot(), count).samples
        ground, volumes = _terrain_particles(columns, rows)
        points = np.concatenate([self.raised(own.points), ground])
        mesh, n = robot.mesh(), len(own.points)
        cells, barycentric = mesh.locate(points, snap=DEPTH)
        index = np.arange(len(points))
        return Particles(
            mesh=mesh,
            samples=ParticleSamples(
                points=points,
                volumes=np.concatenate([own.volumes, volumes]),
                cells=cells,
                nodes=mesh.cells[cells],
                barycentric=barycentric,
                rest_volumes=signed_volumes(mesh.points, mesh.cells)[cells],
                regions={**own.regions, WALKER: index[:n], TERRAIN: index[n:]},
            ),
            materials=robot.materials_by_region(),
        )


def _terrain_points(x: Array, y: Array) -> Array:
    """Return points (n, 2) [m] of the terrain for x [m] and shares y of its height there."""
    depth = DEPTH + ground_height(x)
    return np.stack([x, y * depth - DEPTH], axis=-1).reshape(-1, 2)


def _terrain_particles(columns: int, rows: int) -> tuple[Array, Array]:
    """Return the particles (n, 2) [m] of the terrain and their volumes (n,) [m^2]."""
    x = LENGTH * (np.arange(columns) + 0.5) / columns - BEHIND
    y = (np.arange(rows) + 0.5) / rows
    grid = np.meshgrid(x, y, indexing="ij")
    volumes = LENGTH / columns * (DEPTH + ground_height(grid[0])) / rows
    return _terrain_points(*grid), volumes.ravel()


def _terrain_mesh() -> Mesh:
    """Return a mesh of the terrain, fine enough for its bumps."""
    n, m = 130, 3
    grid = np.meshgrid(np.linspace(-BEHIND, LENGTH - BEHIND, n + 1), np.linspace(0, 1, m + 1))
    points = _terrain_points(grid[0].T, grid[1].T)
    i, j = (part.ravel() for part in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    a, b = i * (m + 1) + j, (i + 1) * (m + 1) + j
    cells = np.concatenate([np.stack([a, b, b + 1], axis=1), np.stack([a, b + 1, a + 1], axis=1)])
    low = np.arange(n) * (m + 1)
    bottom = {BOTTOM: np.stack([low, low + m + 1], axis=1)}
    regions = {TERRAIN: np.arange(len(cells))}
    return Mesh(points=points, cells=cells, regions=regions, surfaces=bottom)


def terrain_biped(gap: float) -> TerrainWalker:
    """Return the biped `gap` [m] above the terrain."""
    return TerrainWalker(gap=gap, blocks=block_biped())
