"""What pulls at a few particles: any term of a body, and cables by compiled loops."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.actuators.cable import AttachedCable, pull_nodes, pull_nodes_back
from pliant.actuators.muscle import Stressing
from pliant.bodies import Term
from pliant.bodies.grid import node_shares
from pliant.bodies.particles import Particles
from pliant.core import Array
from pliant.dynamics.attachments import of_actuators
from pliant.robot import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Pull:
    """A term, and what each of its points takes of the particles that it touches."""

    term: Term
    part: slice  # its controls
    particles: Array  # (k,)
    weights: sp.csr_matrix  # (n_points, k)

    @cached_property
    def _spread(self) -> sp.csr_matrix:
        return self.weights.T.tocsr()

    def add_force(self, position: Array, u: Array, force: Array) -> None:
        """Add its pull [N] to the force (n, dim) at positions (n, dim)."""
        y = self.weights @ position[self.particles] + self.term.offset
        force[self.particles] -= self._spread @ self.term.gradient(y, u[self.part])

    def add_back(self, position: Array, u: Array, bar: Array, position_bar: Array) -> Array:
        """Add the gradient of bar (n, dim) . force by the positions; gives that by its controls."""
        y, dy, u = (
            self.weights @ position[self.particles] + self.term.offset,
            self.weights @ bar[self.particles],
            u[self.part],
        )
        H = self.term.curvature(y, u)
        push = np.matmul(H, dy.reshape(*H.shape[:2], 1)).reshape(dy.shape)
        for column, weight in zip(*self.term.ranks(y, u), strict=True):
            push += weight * float(column.ravel() @ dy.ravel()) * column
        position_bar[self.particles] -= self._spread @ push
        return -self.term.control_gradient(y, u).reshape(len(u), -1) @ dy.ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class CablePull:
    """A cable, compiled."""

    cable: AttachedCable
    part: slice
    particles: Array  # (k,)
    weights: Array  # (n_segments, k)

    @cached_property
    def _numbers(self) -> tuple[Any, ...]:
        cable = self.cable
        return (
            self.particles,
            self.weights,
            cable.offset,
            cable.stiff,
            cable.rest_length,
            cable.stiffness,
        )

    def add_force(self, position: Array, u: Array, force: Array) -> None:
        pull_nodes(*self._numbers, float(u[self.part.start]), position, force)  # type: ignore[call-arg]

    def add_back(self, position: Array, u: Array, bar: Array, position_bar: Array) -> Array:
        return np.array(
            [
                pull_nodes_back(  # type: ignore[call-arg]
                    *self._numbers, float(u[self.part.start]), position, bar, position_bar
                )
            ]
        )


def pulls_of(robot: Robot, body: Particles) -> list[Pull | CablePull]:
    """The actuators that pull at a few particles, rather than stress a region."""
    made = of_actuators(
        robot, lambda actuator: None if isinstance(actuator, Stressing) else actuator.on(body)
    )
    return [_pull_of(term, part) for term, part in made if term is not None]


def frequency(pulls: list[Pull | CablePull], robot: Robot, body: Particles, cell: float) -> float:
    """[rad/s] how fast the pulls make particles swing, as the grid carries them: power iteration on
    their stiffness at rest, all taut."""
    if not pulls:
        return 0.0
    low, neutral, at = (
        robot.control_limits()[0],
        robot.neutral_controls(),
        body.rest.reshape(-1, body.dim),
    )
    u = np.where(np.isfinite(low), low, neutral - 0.01 * np.maximum(np.abs(neutral), 1.0))
    W = node_shares(at, cell)
    node_mass = W.T @ (body.fields.density * body.volumes())
    carrying = node_mass > 0.0  # a node half a cell beyond the last particle has a share of zero
    W, node_mass = W[:, carrying], node_mass[carrying]
    x, size = np.random.default_rng(0).standard_normal(at.shape), 0.0
    for _ in range(30):
        x /= np.linalg.norm(x)
        stiff = np.zeros_like(x)
        for pull in pulls:
            pull.add_back(at, u, x, stiff)
        x = W @ ((W.T @ stiff) / node_mass[:, None])
        size = float(np.linalg.norm(x))
        if size == 0.0:
            break
    return float(np.sqrt(size))


def _pull_of(term: Term, part: slice) -> Pull | CablePull:
    """A term on the particles that it touches."""
    particles = np.unique(term.weights.indices).astype(np.int64)
    weights = term.weights[:, particles]
    if isinstance(term, AttachedCable):
        return CablePull(cable=term, part=part, particles=particles, weights=weights.toarray())
    return Pull(term=term, part=part, particles=particles, weights=weights)
