"""Contacts and supports of the nodes of a reference grid, at their current positions.

The gap of a node is its distance from an obstacle plus its own height above the body's surface at
rest, so a node outside the body meets an obstacle when the surface does. A node whose velocity
would close its gap within the substep gets the velocity with which it arrives at the obstacle at
the end of the substep. So velocities are continuous in the state, and a node at rest on an obstacle
stays on it for any small change: derivatives do not depend on the instant of contact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, prange

from pliant.contact import Contact
from pliant.core import Array
from pliant.kernels import FUSED, axpy, inner
from pliant.mpm.grid import SEPARATE, SLIP, put_vector, vector
from pliant.mpm.grid_boundaries import CONDITION_KINDS, Boundaries
from pliant.mpm.reference_grid import ReferenceGrid

# [cells] of penetration that a node leaves within a substep; a node deeper inside, from the
# initial state, keeps its depth
MAX_CORRECTION = 1e-2
TOUCHING = 1e-6  # [cells] gap of a node on an obstacle, with round-off


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeGaps:
    """The gaps between nodes and an obstacle at one instant."""

    nodes: Array  # (k,)
    gaps: Array  # (k,) [m]
    normals: Array  # (k, 3) outward
    slopes: Array  # (k, dim) derivatives of the gaps by the positions
    curvatures: Array  # (k, dim, dim) [1/m] derivatives of the normals by the positions


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeContacts:
    """The supports and contacts of a robot on the nodes of a reference grid."""

    boundaries: Boundaries
    body: ReferenceGrid

    @property
    def contacts(self) -> Sequence[Contact]:
        return self.boundaries.robot.contacts

    @cached_property
    def held(self) -> Array:
        """The indices of the held coordinates in the node positions."""
        if not self.boundaries.robot.supports:
            return np.zeros(0, np.int64)
        nodes, normals = self.boundaries.support(self.body.nodes, nearest_layer=True)[:2]
        return np.unique(nodes * self.body.dim + np.argmax(normals, axis=1))

    def near(self, positions: Array, reach: float) -> list[Array]:
        """Return for each contact the nodes that may touch its obstacle if no node moves more than
        `reach` [m] from its position (n_nodes, dim)."""
        heights = self.body.heights
        return [
            np.flatnonzero(contact.evaluate(positions)[0] + heights <= reach)
            for contact in self.contacts
        ]

    def gaps(self, k: int, candidates: Array, positions: Array) -> NodeGaps:
        """Return the gaps between the candidates and the obstacle of contact k."""
        d, gradient, H = self.contacts[k].evaluate(positions[candidates])
        # the middle of a ball has no normal; a distance may be a lower bound with a short gradient
        size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)
        n = gradient / size[:, None]
        normals = np.zeros((len(d), 3))
        normals[:, : self.body.dim] = n
        bend = np.einsum("kij,kj->ki", H, n)
        tangential = H - n[:, :, None] * bend[:, None, :]
        return NodeGaps(
            nodes=candidates,
            gaps=d / size + self.body.heights[candidates],
            normals=normals,
            slopes=n - (d / size**2)[:, None] * bend,
            curvatures=tangential / size[:, None, None],
        )

    def apply(self, k: int, gaps: NodeGaps, friction: float, tau: float, velocity: Array) -> None:
        """Apply contact k to the velocities (n_nodes, dim) of a substep tau [s], in place."""
        _apply(*self._arguments(k, gaps, friction, tau), velocity)  # type: ignore[call-arg]

    def _arguments(self, k: int, gaps: NodeGaps, friction: float, tau: float) -> tuple[Any, ...]:
        kind, cell = CONDITION_KINDS[self.contacts[k].kind], self.body.cell
        return kind, friction, tau, cell, gaps.nodes, gaps.gaps, gaps.normals

    def apply_vjp(
        self,
        k: int,
        gaps: NodeGaps,
        friction: float,
        tau: float,
        before: Array,
        velocity_bar: Array,
        position_bar: Array,
    ) -> float:
        """Replace the gradient by velocities after contact k by that of the velocities `before`,
        and add to the gradient by positions, in place. Return the gradient by the friction."""
        count, dim = len(gaps.nodes), self.body.dim
        by_gap, by_friction, by_normal = np.zeros(count), np.zeros(count), np.zeros((count, 3))
        arguments = self._arguments(k, gaps, friction, tau)
        _apply_vjp(  # type: ignore[call-arg]
            *arguments, before, velocity_bar, by_gap, by_normal, by_friction
        )
        position_bar[gaps.nodes] += by_gap[:, None] * gaps.slopes
        position_bar[gaps.nodes] += np.einsum("kij,ki->kj", gaps.curvatures, by_normal[:, :dim])
        return float(by_friction.sum())


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def arrival_speed(kind: Any, gap: Any, s: Any, tau: Any, cell: Any) -> Any:
    """Return whether a node with the outward speed s [m/s] is in contact, its outward speed then,
    and the derivative of that speed by the gap."""
    target, slope = 0.0, 0.0
    if gap >= -MAX_CORRECTION * cell:
        target, slope = -gap / tau, -1.0 / tau
    stays = kind != SEPARATE and gap <= TOUCHING * cell
    return s < target or stays, target, slope


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FUSED)
def _apply(
    kind: Any,
    friction: Any,
    tau: Any,
    cell: Any,
    nodes: Any,
    gaps: Any,
    normals: Any,
    velocity: Any,
) -> Any:
    """Coulomb: a node loses at most friction times its normal impulse, over its mass."""
    dim = velocity.shape[1]
    for a in prange(len(nodes)):
        v, n = vector(velocity, nodes[a], dim), vector(normals, a, 3)
        s = inner(v, n)
        touches, target, _ = arrival_speed(kind, gaps[a], s, tau, cell)
        if touches:
            t = axpy(-s, n, v)
            size = np.sqrt(inner(t, t))
            share = 0.0
            if kind == SLIP or (kind == SEPARATE and friction == 0.0):
                share = 1.0
            elif kind == SEPARATE and size > friction * (target - s):
                share = 1.0 - friction * (target - s) / size
            t = (share * t[0], share * t[1], share * t[2])
            put_vector(velocity, nodes[a], dim, axpy(target, n, t))


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FUSED)
def _apply_vjp(
    kind: Any,
    friction: Any,
    tau: Any,
    cell: Any,
    nodes: Any,
    gaps: Any,
    normals: Any,
    before: Any,
    velocity_bar: Any,
    by_gap: Any,
    by_normal: Any,
    by_friction: Any,
) -> Any:
    dim, none = before.shape[1], (0.0, 0.0, 0.0)
    for a in prange(len(nodes)):
        v, n = vector(before, nodes[a], dim), vector(normals, a, 3)
        bar, s = vector(velocity_bar, nodes[a], dim), inner(v, n)
        touches, target, slope = arrival_speed(kind, gaps[a], s, tau, cell)
        if touches:
            t_bar, s_bar, target_bar = none, 0.0, inner(bar, n)
            t = axpy(-s, n, v)
            size = np.sqrt(inner(t, t))
            if kind == SLIP or (kind == SEPARATE and friction == 0.0):
                t_bar = bar
            elif kind == SEPARATE and size > friction * (target - s):
                direction = (t[0] / size, t[1] / size, t[2] / size)
                along, share = inner(bar, direction), 1.0 - friction * (target - s) / size
                t_bar = axpy(along, direction, axpy(share, axpy(-along, direction, bar), none))
                target_bar -= friction * along
                s_bar = friction * along
                by_friction[a] = -(target - s) * along
            # v' = target n + share t, t = v - s n, s = v . n
            across = inner(t_bar, n)
            put_vector(velocity_bar, nodes[a], dim, axpy(s_bar - across, n, t_bar))
            by_n = axpy(s_bar - across, v, axpy(-s, t_bar, none))
            put_vector(by_normal, a, 3, axpy(target, bar, by_n))
            by_gap[a] = slope * target_bar
