"""Boundary conditions on the nodes of a material point grid, from a robot's supports and
contacts."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array, InputError
from pliant.mpm.grid import SEPARATE, SLIP, STICKY, BoundaryConditions, GridBox
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import HALF_LAYER, HOLD_MARGIN, ReferenceGrid
from pliant.mpm.surface_points import surface_points
from pliant.robot import Robot

CONDITION_KINDS = {"separate": SEPARATE, "slip": SLIP, "sticky": STICKY}
MAX_CACHED_BOXES = 16  # grids whose conditions are cached, for the adjoint
HOLD_DEPTH = 2.0  # [cells] behind a held surface within which nodes are held
NODE_REACH = 1.5  # [cells] along an axis, beyond which a node does not move a particle


@dataclass(frozen=True, kw_only=True, eq=False)
class Boundaries:
    """The boundary conditions of a robot on a grid: on every node inside an obstacle, and on or
    behind a held surface. Raises InputError for supports and contacts that a grid cannot have."""

    robot: Robot
    body: Particles | ReferenceGrid
    cell: float  # [m]

    def __post_init__(self) -> None:
        for contact in self.robot.contacts:
            contact.check(self.body)
            if contact.surface is not None:
                raise InputError(
                    f"A contact is limited to the surface '{contact.surface}', but on a grid the "
                    "whole body meets an obstacle; leave the surface out for MaterialPoint."
                )
            deep = -float(contact.evaluate(self.body.samples.points)[0].min())
            if deep > self.cell:
                warnings.warn(
                    f"The body penetrates an obstacle by {deep:.3g} m, and on a grid it stays "
                    "there; start it outside."
                )
        self._held  # noqa: B018

    @property
    def _particles(self) -> Particles:
        return self.body.particles if isinstance(self.body, ReferenceGrid) else self.body

    def on(self, box: GridBox, friction: Array) -> BoundaryConditions:
        """Return the conditions on the nodes of a box; `friction` (n_contacts,) replaces that of
        the contacts."""
        conditions = self._cached.get(box)
        if conditions is None:
            conditions = self._cached[box] = self._conditions_without_friction(box)
            for old in list(self._cached)[:-MAX_CACHED_BOXES]:
                self._cached.pop(old, None)
        return conditions._replace(
            friction=np.append(friction, 0.0)[conditions.owner]
        )  # a support's owner is -1, the last

    @cached_property
    def _cached(self) -> dict[GridBox, BoundaryConditions]:
        """The conditions of the last boxes."""
        return {}

    def _conditions_without_friction(self, box: GridBox) -> BoundaryConditions:
        """Return the conditions, with friction zero."""
        dim, first = self.body.dim, np.array([box.ox, box.oy, box.oz])
        index = np.stack(
            np.meshgrid(np.arange(box.nx), np.arange(box.ny), np.arange(box.nz), indexing="ij"),
            axis=-1,
        ).reshape(-1, 3)
        at = self.cell * (index + first)[:, :dim]
        found = [self.support(at)] if self._held else []
        for k, contact in enumerate(self.robot.contacts):
            d, n, _ = contact.evaluate(at)
            inside = np.flatnonzero(d <= 0.0)
            size = np.maximum(
                np.linalg.norm(n[inside], axis=1, keepdims=True), 1e-300
            )  # the middle of a ball has no normal
            found.append(
                (
                    inside,
                    n[inside] / size,
                    np.full(len(inside), CONDITION_KINDS[contact.kind]),
                    np.full(len(inside), k),
                )
            )
        return _boundary_conditions(found, dim)

    @cached_property
    def _held(self) -> list[tuple[cKDTree, Array, list[int]]]:
        """For each support: points on its surface, their outward normals, and the held axes."""
        out = []
        for support in self.robot.supports:
            if support.region is None:
                raise InputError(
                    f"The support on {support.label} has no name, but MaterialPoint holds named "
                    "surfaces only; name that part of the boundary with surfaces={...}."
                )
            if support.stiffness is not None:
                raise InputError(
                    f"The support on '{support.region}' is elastic, which MaterialPoint does not "
                    "support; remove its stiffness, or use ImplicitEuler."
                )
            if support.motion is not None:
                raise InputError(
                    f"The support on '{support.region}' moves, which MaterialPoint does not "
                    "support; remove its motion, or use ImplicitEuler."
                )
            if (
                support.region in self.body.cell_regions
                and support.region not in self.body.mesh.surfaces
            ):
                raise InputError(
                    f"The support on '{support.region}' holds a region of cells, but "
                    "MaterialPoint holds surfaces only; name one of "
                    f"{', '.join(self.body.mesh.surfaces)}."
                )
            axes = [axis for axis in range(self.body.dim) if "xyz"[axis] in support.axes]
            points, normals, _ = surface_points(self._particles, support.region, self.cell)
            if not axes:
                raise InputError(
                    f"The support on '{support.region}' along '{support.axes}' holds nothing of "
                    f"a body in {self.body.dim} dimensions; name other axes."
                )
            out.append((cKDTree(points), normals, axes))
        return out

    @cached_property
    def _supported(self) -> list[tuple[str, Array, list[int]]]:
        """For each support: its surface, the particles next to it, and the held axes."""
        names = [str(support.region) for support in self.robot.supports]
        areas = [self._particles.node_areas(name, lumped=True) for name in names]
        return [
            (name, np.flatnonzero(area), axes)
            for name, area, (_, _, axes) in zip(names, areas, self._held, strict=True)
        ]

    def lost_support(self, position: Array) -> tuple[str, int]:
        """Return the surface whose support a particle has lost at positions (n, dim) [m], and this
        particle; an empty name if there is none. A held node no longer reaches it."""
        moved = np.abs(position - self._particles.samples.points)
        for name, particles, axes in self._supported:
            far = moved[particles][:, axes].max(axis=1, initial=0.0)
            if (far > NODE_REACH * self.cell).any():
                return name, int(particles[np.argmax(far)])
        return "", 0

    def support(
        self, at: Array, *, nearest_layer: bool = False
    ) -> tuple[Array, Array, Array, Array]:
        """Return the nodes, normals, kinds and owners of supports. A held axis is a slip condition
        with the normal along it. The nodes are those on and behind the surface, or only the layer
        that is nearest to it."""
        lowest, deepest = (-HALF_LAYER, HALF_LAYER) if nearest_layer else (-1e-6, HOLD_DEPTH)
        nodes, normals = [], []
        for tree, outward, axes in self._held:
            distance, nearest = tree.query(at, distance_upper_bound=2.0 * HOLD_DEPTH * self.cell)
            near = np.flatnonzero(np.isfinite(distance))
            offset, n = at[near] - tree.data[nearest[near]], outward[nearest[near]]
            depth = np.sum(offset * n, axis=1)
            beside = np.abs(offset - depth[:, None] * n).max(axis=1)
            chosen = near[
                (depth >= lowest * self.cell)
                & (depth <= deepest * self.cell)
                & (beside <= HOLD_MARGIN * self.cell)
            ]
            for axis in axes:
                nodes.append(chosen)
                normals.append(np.tile(np.eye(at.shape[1])[axis], (len(chosen), 1)))
        held = np.concatenate(nodes)
        return held, np.concatenate(normals), np.full(len(held), SLIP), np.full(len(held), -1)


def _boundary_conditions(
    found: list[tuple[Array, Array, Array, Array]], dim: int
) -> BoundaryConditions:
    """Return all conditions, grouped by node in the given order."""
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
    return BoundaryConditions(
        nodes, np.append(first, len(node)), kind[order], full, np.zeros(len(node)), owner[order]
    )
