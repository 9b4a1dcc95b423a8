"""Forces of actuators on particles: any potential, and cables by compiled loops."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.actuators.cable import AttachedCable, add_cable_forces, add_cable_forces_vjp
from pliant.actuators.hydraulic import AttachedLiquid, check_cavities_distinct, liquid_of
from pliant.actuators.muscle import StressActuator
from pliant.actuators.pressure import AttachedPressure
from pliant.bodies import Potential, hessian_times, parameters_of, with_own_values
from pliant.core import Array
from pliant.mpm.grid import node_weights
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.robot import Robot
from pliant.robot.actuation import for_each_actuator


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticlePotential:
    """A potential on particles, with the weights of its points in these particles. The weight of a
    liquid also has the mass that moves with the particles."""

    group: str  # of its parameters, such as "actuators.line"
    potential: Potential
    part: slice  # its controls
    particles: Array  # (k,)
    weights: sp.csr_matrix  # (n_points, k)
    liquid_mass: Array | None = None  # (n,) [kg]

    @cached_property
    def _transposed_weights(self) -> sp.csr_matrix:
        return self.weights.T.tocsr()

    def weight_change(self, name: str) -> None:
        """Return None: the weights of these potentials depend on no parameter."""

    def add_force(self, position: Array, u: Array, force: Array) -> None:
        """Add the force [N] at positions (n, dim) to `force` (n, dim)."""
        y = self.weights @ position[self.particles] + self.potential.offset
        force[self.particles] -= self._transposed_weights @ self.potential.gradient(y, u[self.part])
        if self.liquid_mass is not None:
            # gravity acts on every mass, but the weight of the liquid is the pressure on its wall
            liquid: Any = self.potential
            force -= (self.liquid_mass[:, None] * liquid.gravity).astype(force.dtype)

    def add_vjp(self, position: Array, u: Array, bar: Array, position_bar: Array) -> Array:
        """Add the gradient of bar (n, dim) . force by the positions to `position_bar`. Return the
        gradient by the controls of this potential."""
        y, dy, u = (
            self.weights @ position[self.particles] + self.potential.offset,
            self.weights @ bar[self.particles],
            u[self.part],
        )
        dg = hessian_times(self.potential, y, u, dy)
        position_bar[self.particles] -= self._transposed_weights @ dg
        return -self.potential.control_gradient(y, u).reshape(len(u), dy.size) @ dy.ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class CompiledCable:
    """A cable on particles, with compiled loops."""

    group: str  # of its parameters, such as "actuators.line"
    potential: AttachedCable
    part: slice
    particles: Array  # (k,)
    weights: Array  # (n_segments, k)

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        cable = self.potential
        return (
            self.particles,
            self.weights,
            cable.offset,
            cable.stiff,
            cable.rest_length,
            cable.stiffness,
        )

    def weight_change(self, name: str) -> tuple[Array, Array] | None:
        """Return the derivatives of the weights (n_segments, k) and of the offset (n_segments, dim)
        by a parameter; None if they do not depend on it."""
        if name not in self._weight_changes:
            found = self.potential.weight_change(name)
            self._weight_changes[name] = found and (found[0][:, self.particles].toarray(), found[1])
        return self._weight_changes[name]

    @cached_property
    def _weight_changes(self) -> dict[str, tuple[Array, Array] | None]:
        return {}

    def add_force(self, position: Array, u: Array, force: Array) -> None:
        add_cable_forces(*self._arguments, self._drive(u), position, force)  # type: ignore[call-arg]

    def add_vjp(self, position: Array, u: Array, bar: Array, position_bar: Array) -> Array:
        by_drive = add_cable_forces_vjp(  # type: ignore[call-arg]
            *self._arguments, self._drive(u), position, bar, position_bar
        )
        return np.array([self.potential.strength * by_drive])

    def _drive(self, u: Array) -> float:
        """Return the tension [N] or the ratio of lengths [-] of the cable."""
        return self.potential.strength * float(u[self.part.start])


ParticleForce = ParticlePotential | CompiledCable


def with_values(force: ParticleForce, values: Mapping[str, float]) -> ParticleForce:
    """Return a force with other values of those of its parameters that are in `values`, by names
    such as "actuators.line.stiffness"."""
    changes = {
        param.name: values[name]
        for param in parameters_of(force.potential)
        if (name := f"{force.group}.{param.name}") in values
    }
    if not changes:
        return force
    old: Any = force.potential
    new = old.with_parameters(changes)
    if new.weights is not old.weights:
        return _on_particles(force.group, new, force.part)
    return replace(force, potential=new)


def parameter_gradient(
    force: ParticleForce, name: str, position: Array, u: Array, bar: Array
) -> float:
    """Return the gradient of bar (n, dim) . force by a parameter, at positions (n, dim)."""
    potential: Any = force.potential
    y = force.weights @ position[force.particles] + potential.offset
    slope = potential.parameter_gradient(name, y, u[force.part])
    dy = force.weights @ bar[force.particles]
    moved = force.weight_change(name)
    if moved is None:
        return -float(np.sum(slope * dy)) - _by_gravity_of_liquid(force, name, bar)
    weights, offset = moved
    slope = slope + hessian_times(
        potential, y, u[force.part], weights @ position[force.particles] + offset
    )
    forces = potential.gradient(y, u[force.part])
    return -float(np.sum(slope * dy) + np.sum(forces * (weights @ bar[force.particles])))


def _by_gravity_of_liquid(force: ParticleForce, name: str, bar: Array) -> float:
    """Return the gradient of bar (n, dim) . the gravity on the mass of a liquid, by a component of
    gravity; zero for other forces."""
    if not isinstance(force, ParticlePotential) or force.liquid_mass is None:
        return 0.0
    return float(force.liquid_mass @ bar[:, "xyz".index(name)])


def particle_potentials(
    robot: Robot, body: Particles | ReferenceGrid, design: Collection[str] = ()
) -> list[ParticleForce]:
    """Return the potentials of the actuators that act on a few particles, not by stress, with the
    names of the active parameters, and then the weights of liquids. Raises InputError if two
    actuators fill the same cavity."""
    check_cavities_distinct(robot.actuators, body)
    made = for_each_actuator(
        robot,
        lambda actuator: None if isinstance(actuator, StressActuator) else actuator.attach(body),
    )
    return [
        _on_particles(
            f"actuators.{name}", with_own_values(potential, f"actuators.{name}", design), part
        )
        for name, (potential, part) in zip(robot.actuators, made, strict=True)
        if potential is not None
    ] + _liquids(robot, body)


def _liquids(robot: Robot, body: Particles | ReferenceGrid) -> list[ParticleForce]:
    """Return the weights of the liquids in cavities, under the robot's gravity."""
    made = for_each_actuator(robot, lambda actuator: liquid_of(actuator, body, robot.gravity))
    return [_liquid_on_particles(one) for one, _ in made if one is not None]


def _liquid_on_particles(liquid: AttachedLiquid) -> ParticlePotential:
    force = _on_particles("gravity", liquid, slice(0, 0))
    assert isinstance(force, ParticlePotential)
    return replace(force, liquid_mass=liquid.mass)


def liquid_mass(forces: Collection[ParticleForce], size: int) -> Array:
    """Return the mass (size,) [kg] of all liquids that moves with each particle or node."""
    found = (getattr(force, "liquid_mass", None) for force in forces)
    return np.asarray(sum((mass for mass in found if mass is not None), np.zeros(size)))


def highest_frequency(
    potentials: list[ParticleForce],
    robot: Robot,
    body: Particles | ReferenceGrid,
    cell: float,
    mass: Array,
) -> float:
    """Return the highest angular frequency [rad/s] of the potentials on the grid, for masses (n,)
    [kg] of the particles, by power iteration on their stiffness at rest with taut cables and full
    chambers."""
    if not potentials:
        return 0.0
    u, at = _stiffest_controls(potentials, robot), body.rest.reshape(-1, body.dim)
    W, node_mass = _node_inertia(body, cell, mass)
    x, size = np.random.default_rng(0).standard_normal(at.shape), 0.0
    for _ in range(30):
        x /= np.linalg.norm(x)
        stiffness_force = np.zeros_like(x)
        for potential in potentials:
            potential.add_vjp(at, u, x, stiffness_force)
        x = W @ ((W.T @ stiffness_force) / node_mass[:, None])
        size = float(np.linalg.norm(x))
        if size == 0.0:
            break
    return float(np.sqrt(size))


def _stiffest_controls(potentials: list[ParticleForce], robot: Robot) -> Array:
    """Return the controls at which the potentials are stiffest within the limits of the robot: the
    lower ones of cables, the upper ones of fluids. Without a limit they are close to neutral."""
    (low, high), neutral = robot.control_limits(), robot.neutral_controls()
    change = 0.01 * np.maximum(np.abs(neutral), 1.0)
    u = np.where(np.isfinite(low), low, neutral - change)
    for force in potentials:
        if isinstance(force.potential, AttachedPressure):
            part = force.part
            u[part] = np.where(np.isfinite(high[part]), high[part], neutral[part] + change[part])
    return u


def _node_inertia(
    body: Particles | ReferenceGrid, cell: float, mass: Array
) -> tuple[sp.csr_matrix, Array]:
    """Return the weights (n, k) of the body's points at the nodes that move, and the nodes' masses
    (k,) [kg]."""
    if isinstance(body, ReferenceGrid):
        return sp.identity(body.n_nodes, format="csr"), body.node_masses(mass)
    W = node_weights(body.rest.reshape(-1, body.dim), cell)
    node_mass = W.T @ mass
    has_mass = node_mass > 0.0  # a node half a cell beyond the last particle has weight zero
    return W[:, has_mass], node_mass[has_mass]


def _on_particles(group: str, potential: Potential, part: slice) -> ParticleForce:
    """Return a potential restricted to the particles that it acts on."""
    particles = np.unique(potential.weights.indices).astype(np.int64)
    weights = potential.weights[:, particles]
    if isinstance(potential, AttachedCable):
        return CompiledCable(
            group=group,
            potential=potential,
            part=part,
            particles=particles,
            weights=weights.toarray(),
        )
    return ParticlePotential(
        group=group, potential=potential, part=part, particles=particles, weights=weights
    )
