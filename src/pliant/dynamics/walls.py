"""Boundary conditions on the nodes of a material point grid, from a robot's supports and
contacts."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from pliant.bodies.grid import SEPARATE, SLIP, STICKY, Box, Walls
from pliant.bodies.particles import Particles
from pliant.core import Array, InputError
from pliant.robot import Robot

KINDS = {"separate": SEPARATE, "slip": SLIP, "sticky": STICKY}
REMEMBERED = 16  # boxes whose walls are kept, for the way back
BEHIND = 2.0  # cells: how far behind a held surface nodes are held
BESIDE = (
    1.501  # cells: how far beside it, along each axis, for a particle at its edge reaches as far
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Boundaries:
    """Where a robot's nodes meet supports and obstacles: every node within an obstacle, or on or
    behind a held surface."""

    robot: Robot
    body: Particles
    cell: float  # [m]

    def __post_init__(self) -> None:
        for contact in self.robot.contacts:
            contact.check(self.body)
            if contact.surface is not None:
                raise InputError(
                    f"A contact is of the surface '{contact.surface}' alone, but on a grid all "
                    "of the body meets an obstacle; leave the surface out for MaterialPoint."
                )
            deep = -float(contact.at(self.body.seeds.points)[0].min())
            if deep > self.cell:
                warnings.warn(
                    f"The body reaches {deep:.3g} m into an obstacle, and on a grid it stays "
                    "there; start it outside."
                )
        self._held  # noqa: B018

    def on(self, box: Box, friction: Array) -> Walls:
        """The conditions on the nodes of a box; `friction` (n_contacts,) may differ from what the
        contacts say."""
        walls = self._found.get(box)
        if walls is None:
            walls = self._found[box] = self._find(box)
            for old in list(self._found)[:-REMEMBERED]:
                self._found.pop(old, None)
        return walls._replace(
            friction=np.append(friction, 0.0)[walls.owner]
        )  # a support's owner is -1, the last

    @cached_property
    def _found(self) -> dict[Box, Walls]:
        """What `_find` found for the last boxes."""
        return {}

    def _find(self, box: Box) -> Walls:
        """The conditions without their friction."""
        dim, first = self.body.dim, np.array([box.ox, box.oy, box.oz])
        index = np.stack(
            np.meshgrid(np.arange(box.nx), np.arange(box.ny), np.arange(box.nz), indexing="ij"),
            axis=-1,
        ).reshape(-1, 3)
        at = self.cell * (index + first)[:, :dim]
        found = [self._support(at)] if self._held else []
        for k, contact in enumerate(self.robot.contacts):
            d, n, _ = contact.at(at)
            inside = np.flatnonzero(d <= 0.0)
            size = np.maximum(
                np.linalg.norm(n[inside], axis=1, keepdims=True), 1e-300
            )  # the middle of a ball has no normal
            found.append(
                (
                    inside,
                    n[inside] / size,
                    np.full(len(inside), KINDS[contact.kind]),
                    np.full(len(inside), k),
                )
            )
        return _walls(found, dim)

    @cached_property
    def _held(self) -> list[tuple[cKDTree, Array, list[int]]]:
        """Of each support: points all over its surface, the outward normals there, and the axes
        that it holds."""
        out = []
        for support in self.robot.supports:
            if support.region is None:
                raise InputError(
                    f"The support on {support.label} has no name, but MaterialPoint holds named "
                    "surfaces alone; name that part of the boundary with surfaces={...}."
                )
            if support.motion is not None:
                raise InputError(
                    f"The support on '{support.region}' moves, which MaterialPoint does not "
                    "know; hold the body still, or step it with ImplicitEuler."
                )
            if (
                support.region in self.body.cell_regions
                and support.region not in self.body.mesh.surfaces
            ):
                raise InputError(
                    f"The support on '{support.region}' holds a region of cells, but "
                    "MaterialPoint holds surfaces alone; name one of "
                    f"{', '.join(self.body.mesh.surfaces)}."
                )
            axes = [axis for axis in range(self.body.dim) if "xyz"[axis] in support.axes]
            points, normals = self._surface(support.region)
            if not axes:
                raise InputError(
                    f"The support on '{support.region}' along '{support.axes}' holds nothing of "
                    f"a body in {self.body.dim} dimensions; name other axes."
                )
            out.append((cKDTree(points), normals, axes))
        return out

    def _surface(self, name: str) -> tuple[Array, Array]:
        """Points at most a third of a cell apart on a named surface, and their outward normals."""
        mesh, dim = self.body.mesh, self.body.dim
        corners = mesh.points[mesh.facets(name)[:, :dim]]
        longest = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())
        n = int(np.ceil(3.0 * longest / self.cell))
        if dim == 2:
            normal = (corners[:, 1] - corners[:, 0]) @ np.array([[0.0, -1.0], [1.0, 0.0]])
            grid = np.stack([np.linspace(0, 1, n + 1), 1.0 - np.linspace(0, 1, n + 1)], axis=1)
        else:
            normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            i, j = np.array([(i, j) for i in range(n + 1) for j in range(n + 1 - i)]).T
            grid = np.stack([i, j, n - i - j], axis=1) / n
        inward = self.body.rest.reshape(-1, dim)[
            self.body.tree.query(corners.mean(axis=1))[1]
        ] - corners.mean(axis=1)
        normal *= -np.sign(np.sum(normal * inward, axis=1))[:, None]
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        return np.einsum("ga,fai->fgi", grid, corners).reshape(-1, dim), np.repeat(
            normal, len(grid), axis=0
        )

    def _support(self, at: Array) -> tuple[Array, Array, Array, Array]:
        """(nodes, normals, kinds, owners): a held axis is a wall that the node cannot leave along
        it."""
        nodes, normals = [], []
        for tree, outward, axes in self._held:
            far, which = tree.query(at, distance_upper_bound=2.0 * BEHIND * self.cell)
            near = np.flatnonzero(np.isfinite(far))
            away, n = at[near] - tree.data[which[near]], outward[which[near]]
            depth = np.sum(away * n, axis=1)
            beside = np.abs(away - depth[:, None] * n).max(axis=1)
            chosen = near[
                (depth >= -1e-6 * self.cell)
                & (depth <= BEHIND * self.cell)
                & (beside <= BESIDE * self.cell)
            ]
            for axis in axes:
                nodes.append(chosen)
                normals.append(np.tile(np.eye(at.shape[1])[axis], (len(chosen), 1)))
        held = np.concatenate(nodes)
        return held, np.concatenate(normals), np.full(len(held), SLIP), np.full(len(held), -1)


def _walls(found: list[tuple[Array, Array, Array, Array]], dim: int) -> Walls:
    """All conditions, those of a node one after the other in the order given."""
    empty = (
        np.zeros(0, np.int64),
        np.zeros((0, dim)),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )
    node, normal, kind, owner = (np.concatenate(part) for part in zip(empty, *found, strict=True))
    order = np.argsort(node, kind="stable")
    nodes, first = np.unique(node[order], return_index=True)
    full = np.zeros((len(node), 3))
    full[:, :dim] = normal[order]
    return Walls(
        nodes, np.append(first, len(node)), kind[order], full, np.zeros(len(node)), owner[order]
    )
