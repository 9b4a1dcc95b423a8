"""Contacts and supports of the nodes of a reference grid, at their current positions.

A node outside the body at rest meets an obstacle when the body's surface does: its distance from
the obstacle is less than minus its own height above the surface. Nodes inside the body meet it when
they reach it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, prange

from pliant.contact import Contact
from pliant.core import Array
from pliant.kernels import FAST, axpy, inner
from pliant.mpm.grid import (
    SEPARATE,
    SLIP,
    STICKY,
    apply_condition,
    apply_condition_vjp,
    put_vector,
    vector,
)
from pliant.mpm.grid_boundaries import CONDITION_KINDS, Boundaries
from pliant.mpm.reference_grid import ReferenceGrid


@dataclass(frozen=True, kw_only=True, eq=False)
class TouchedNodes:
    """The nodes in an obstacle at one instant."""

    nodes: Array  # (k,)
    normals: Array  # (k, 3) outward
    slopes: Array  # (k,) length of the distance's gradient
    hessians: Array  # (k, dim, dim) [1/m] of the distance


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

    def touched(self, k: int, candidates: Array, positions: Array) -> TouchedNodes:
        """Return which of the candidates touch the obstacle of contact k."""
        d, n, H = self.contacts[k].evaluate(positions[candidates])
        inside = np.flatnonzero(d + self.body.heights[candidates] <= 0.0)
        gradient = np.asarray(n)[inside]
        size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)  # the middle of a ball has none
        normals = np.zeros((len(inside), 3))
        normals[:, : self.body.dim] = gradient / size[:, None]
        return TouchedNodes(
            nodes=candidates[inside], normals=normals, slopes=size, hessians=np.asarray(H)[inside]
        )

    def apply(self, k: int, touched: TouchedNodes, friction: float, velocity: Array) -> None:
        """Apply contact k to the velocities (n_nodes, dim), in place."""
        if len(touched.nodes):
            _apply(
                CONDITION_KINDS[self.contacts[k].kind],
                friction,
                touched.nodes,
                touched.normals,
                velocity,
            )

    def apply_vjp(
        self,
        k: int,
        touched: TouchedNodes,
        friction: float,
        before: Array,
        velocity_bar: Array,
        position_bar: Array,
    ) -> float:
        """Replace the gradient by velocities after contact k by that of the velocities `before`,
        and add to the gradient by positions, in place. Return the gradient by the friction."""
        if not len(touched.nodes):
            return 0.0
        by_friction, by_normal = np.zeros(len(touched.nodes)), np.zeros((len(touched.nodes), 3))
        _apply_vjp(
            CONDITION_KINDS[self.contacts[k].kind],
            friction,
            touched.nodes,
            touched.normals,
            before,
            velocity_bar,
            by_normal,
            by_friction,
        )
        dim = self.body.dim
        n, bar = touched.normals[:, :dim], by_normal[:, :dim]
        flat = (bar - np.sum(bar * n, axis=1, keepdims=True) * n) / touched.slopes[:, None]
        position_bar[touched.nodes] += np.einsum("kij,kj->ki", touched.hessians, flat)
        return float(by_friction.sum())


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def _apply(kind: Any, friction: Any, nodes: Any, normals: Any, velocity: Any) -> Any:
    dim = velocity.shape[1]
    for a in prange(len(nodes)):
        v = vector(velocity, nodes[a], dim)
        v = apply_condition(kind, friction, vector(normals, a, 3), v)
        put_vector(velocity, nodes[a], dim, v)


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def _apply_vjp(
    kind: Any,
    friction: Any,
    nodes: Any,
    normals: Any,
    before: Any,
    velocity_bar: Any,
    by_normal: Any,
    by_friction: Any,
) -> Any:
    dim = before.shape[1]
    for a in prange(len(nodes)):
        v, bar = vector(before, nodes[a], dim), vector(velocity_bar, nodes[a], dim)
        n = vector(normals, a, 3)
        back, by_friction[a] = apply_condition_vjp(kind, friction, n, v, bar)
        put_vector(velocity_bar, nodes[a], dim, back)
        put_vector(by_normal, a, 3, normal_gradient(kind, friction, n, v, bar))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def normal_gradient(kind: Any, friction: Any, n: Any, v: Any, bar: Any) -> Any:
    """Return the gradient of bar . apply_condition(v) by the normal n."""
    none = (0.0, 0.0, 0.0)
    s = inner(v, n)
    if kind == STICKY or (kind == SEPARATE and s >= 0.0):
        return none
    t_bar, s_bar = bar, 0.0
    if kind != SLIP and friction > 0.0:
        t = axpy(-s, n, v)
        size = np.sqrt(inner(t, t))
        left = size + friction * s
        if left <= 0.0 or size == 0.0:
            return none
        direction = (t[0] / size, t[1] / size, t[2] / size)
        along = inner(bar, direction)
        t_bar = axpy(along, direction, axpy(left / size, axpy(-along, direction, bar), none))
        s_bar = friction * along
    # t = v - s n and s = v . n
    return axpy(s_bar - inner(t_bar, n), v, axpy(-s, t_bar, none))
