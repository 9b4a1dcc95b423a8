"""The substeps of one control step of the total Lagrangian transfer, and their adjoint.

A substep is symplectic Euler on the nodes of the reference grid: forces and velocities, supports
and contacts at the current positions, then positions.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import get_num_threads

from pliant.checkpointing import Schedule, reverse_sweep
from pliant.core import Array
from pliant.mpm.grid import ParticleData
from pliant.mpm.node_contacts import NodeContacts, NodeGaps
from pliant.mpm.particle_forces import parameter_gradient
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.mpm.substeps import (
    ParticleCoefficients,
    blow_up_text,
    gradient_by_parameters,
    gradient_by_stress,
    inversion_text,
    stress_of_actuators,
)
from pliant.mpm.total_transfer import (
    accelerate,
    add_reduced,
    clear_rows,
    compiled_total_transfers,
    expand,
)

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint

TRAVELLED = "a node moved further than expected"


@dataclass(frozen=True, kw_only=True, eq=False)
class TapedNodes:
    """The data of a substep for its adjoint: displacements and velocities (n_nodes, dim) before
    it, and the velocities before supports and contacts."""

    displacement: Array
    velocity: Array
    free_velocity: Array


def taped_nodes(state: list[Array]) -> TapedNodes:
    """Return the tape of a substep from a state, before its velocities are known."""
    displacement, velocity = state
    return TapedNodes(
        displacement=displacement.copy(),
        velocity=velocity.copy(),
        free_velocity=np.empty_like(velocity),
    )


@dataclass(kw_only=True)
class NodeGradient:
    """The gradient that a reverse sweep accumulates. The arrays of particles are in the order of
    the compiled loops."""

    displacement: Array  # (n_nodes, dim) of the current state
    velocity: Array  # (n_nodes, dim)
    node_mass: Array  # (n_nodes,)
    volume: Array  # (n,)
    E: Array  # (n,), may be empty
    nu: Array  # (n,), may be empty
    viscosity: Array  # (n,) by the stiffness damping; may be empty
    active_stress: Array  # by the rows of the actuators' stress
    friction: Array  # (n_contacts,)
    gravity_velocity: Array  # (3,) by the velocity that gravity gives in a substep
    decay: float  # by the logarithm of the decay
    forces: dict[str, float]  # by the parameters of actuators that act on nodes
    controls: Array  # (n_controls,)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))


@dataclass(kw_only=True)
class TotalSubsteps:
    """The substeps of one control step on a reference grid, and their adjoint. `candidates` are
    the nodes of each contact that may touch its obstacle."""

    model: "MaterialPoint"
    coefficients: ParticleCoefficients
    u: Array
    candidates: list[Array]

    def __post_init__(self) -> None:
        model = self.model
        assert isinstance(model.body, ReferenceGrid)
        assert model.node_contacts is not None
        self.body: ReferenceGrid = model.body
        self.contacts: NodeContacts = model.node_contacts
        self.parameters, self.transfers = (
            self.coefficients.substep,
            compiled_total_transfers(model.dim),
        )
        self.reference, self.cuts = self.body.arrays, self.body.cuts(get_num_threads())
        self.particles: ParticleData = self.coefficients.sorted_data
        self.mass = self.coefficients.node_mass
        self.active_stress = stress_of_actuators(model, self.coefficients, self.u)
        self.rest = self.body.nodes.astype(model.precision)
        self.load = model.load.reshape(-1, model.dim).astype(model.precision)
        self.forced = bool(self.coefficients.forces) or bool(self.load.any())
        box = self.body.box
        shape = (box.nx * box.ny * box.nz, 4)
        self.grids = [np.zeros(shape, model.precision) for _ in range(2)]
        self.force = np.zeros(shape, model.precision)
        self.tapes: list[TapedNodes] = []

    def _external(self, displacement: Array) -> Array:
        """Return the forces (n_nodes, dim) [N] of cables and loads; empty without any."""
        if not self.forced:
            return np.zeros((0, self.model.dim), self.model.precision)
        out, position = self.load.copy(), self.rest + displacement
        for actuator in self.coefficients.forces:
            actuator.add_force(position, self.u, out)
        return out

    def arrays(self, x: Array) -> list[Array]:
        """Return displacements [m] and velocities [m/s], one row per node."""
        space, shape = self.model.space, (-1, self.model.dim)
        moved = space.position(x) - self.body.rest
        return [
            part.astype(self.model.precision).reshape(shape) for part in (moved, space.velocity(x))
        ]

    @property
    def _is_viscous(self) -> bool:
        return self.parameters.viscosity > 0.0

    def _forces(self, displacement: Array, velocity: Array) -> None:
        """Write the internal forces to the grid of forces."""
        expand(self.reference, displacement, self.grids[0])
        if self._is_viscous:
            expand(self.reference, velocity, self.grids[1])
        clear_rows(self.reference, self.force)
        self.transfers.forces(
            self.parameters,
            self.particles,
            self.reference,
            self.body.box,
            self.cuts,
            *self.grids,
            self.active_stress,
            self.force,
        )

    def _substep(self, state: list[Array], free_velocity: Array | None = None) -> None:
        """Advance a state in place. `free_velocity` receives the velocities before supports and
        contacts."""
        displacement, velocity = state
        self._forces(displacement, velocity)
        accelerate(
            self.parameters,
            self.reference,
            self.mass,
            self.force,
            self._external(displacement),
            velocity,
        )
        if free_velocity is not None:
            free_velocity[...] = velocity
        self._bound(displacement, velocity)
        displacement += self.parameters.tau * velocity

    def _positions(self, displacement: Array) -> Array:
        return self.body.nodes + displacement

    def _bound(self, displacement: Array, velocity: Array) -> None:
        """Apply supports and contacts to the velocities, in place."""
        velocity.reshape(-1)[self.contacts.held] = 0.0
        if not any(map(len, self.candidates)):
            return
        positions = self._positions(displacement)
        for k, candidates in enumerate(self.candidates):
            if len(candidates):
                gaps = self.contacts.gaps(k, candidates, positions)
                friction, tau = self.coefficients.friction[k], self.parameters.tau
                self.contacts.apply(k, gaps, friction, tau, velocity)

    def forward(self, x: Array, reach: float) -> tuple[Array, str, float]:
        """Return the state after all substeps, the reason of a failure (else empty), and a bound
        on the distance [m] that a node has moved. It fails beyond `reach` [m]."""
        state, travel, most = self.arrays(x), 0.0, self.model.substeps
        stores, self.tapes = self.model.store_substeps, []
        for s in range(most):
            if stores:
                self.tapes.append(taped_nodes(state))
            self._substep(state, self.tapes[-1].free_velocity if stores else None)
            speed = float(np.abs(state[1]).max(initial=0.0)) * np.sqrt(self.model.dim)
            travel += self.parameters.tau * speed
            if not np.isfinite(travel):
                return x, blow_up_text(s, most), travel
            if travel > reach:
                return x, TRAVELLED, travel * most / (s + 1)
        position = self._positions(state[0]).ravel()
        new = np.concatenate([position, state[1].ravel()], dtype=float)
        return new, self._inversion(state[0]), travel

    def _inversion(self, displacement: Array) -> str:
        """Return the reason of the failure if a particle is inverted, else an empty text."""
        J, box = np.empty(self.body.n_particles), self.body.box
        expand(self.reference, displacement, self.grids[0])
        self.transfers.volume_ratios(self.body.cell, self.reference, box, self.grids[0], J)
        least = int(np.argmin(J))
        if J[least] > 0.0:
            return ""
        p = int(self.body.order[least])
        return inversion_text(p, (self.body.weights[[p]] @ self._positions(displacement))[0])

    def backward(self, x: Array, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by the initial state, the controls and the
        parameters."""
        model, start, out = self.model, self.arrays(x), self.gradient(x_bar)

        def advance(k: int, goal: int, state: list[Array]) -> list[Array]:
            state = [part.copy() for part in state]
            for _ in range(k, goal):
                self._substep(state)
            return state

        def adjoint(k: int, end: int, state: list[Array], states_kept: int) -> None:
            stored = model.store_substeps
            self.adjoint(self.tapes if stored else self.tape_substeps(state, end - k), out)

        reverse_sweep(model.substeps, self.schedule(out)[0], start, advance, adjoint)
        by_x = np.concatenate([out.displacement.ravel(), out.velocity.ravel()], dtype=float)
        return by_x, self._by_controls(out), self._by_params(out)

    def schedule(self, out: NodeGradient) -> tuple[Schedule, int]:
        """Return the checkpoint schedule, and a bound [bytes] on the memory of states, grids and
        gradient."""
        model, bytes_each = self.model, np.dtype(self.model.precision).itemsize
        size = bytes_each * model.space.size
        tape, grids = size + size // 2, 5 * self.force.nbytes
        always = out.nbytes + grids + tape + 2 * size
        schedule = model.schedule(tape, size, always)
        kept = schedule.kept_states(model.substeps)
        return schedule, always + kept * size + schedule.tapes * tape

    def gradient(self, x_bar: Array) -> NodeGradient:
        """Return the gradient before the reverse sweep: only x_bar, the rest is zero."""
        model, n = self.model, self.body.n_particles
        by_moduli = any(name.endswith((".E", ".nu")) for name in model.design)
        position, velocity = (
            part.astype(model.precision).reshape(-1, model.dim)
            for part in (model.space.position(x_bar), model.space.velocity(x_bar))
        )
        return NodeGradient(
            displacement=position,
            velocity=velocity,
            node_mass=np.zeros(self.body.n_nodes),
            volume=np.zeros(n),
            E=np.zeros(n * by_moduli),
            nu=np.zeros(n * by_moduli),
            viscosity=np.zeros(n * ("damping.stiffness" in model.design)),
            active_stress=np.zeros_like(self.active_stress),
            friction=np.zeros(len(self.contacts.contacts)),
            gravity_velocity=np.zeros(3),
            decay=0.0,
            forces=dict.fromkeys(model.force_parameters, 0.0),
            controls=np.zeros(model.n_controls),
        )

    def tape_substeps(self, state: list[Array], count: int) -> list[TapedNodes]:
        """Tape `count` substeps from a state. It overwrites the last tapes."""
        state = [part.copy() for part in state]
        self.tapes += [taped_nodes(state) for _ in range(count - len(self.tapes))]
        for tape in self.tapes[:count]:
            tape.displacement[...], tape.velocity[...] = state
            self._substep(state, tape.free_velocity)
        return self.tapes[:count]

    def adjoint(self, tapes: list[TapedNodes], out: NodeGradient) -> None:
        """Apply the adjoint of taped substeps, the last first."""
        bars = [np.zeros_like(self.force) for _ in range(3)]
        for taped in reversed(tapes):
            self._substep_vjp(taped, bars, out)

    def _substep_vjp(self, taped: TapedNodes, bars: list[Array], out: NodeGradient) -> None:
        out.velocity += self.parameters.tau * out.displacement
        self._bound_vjp(taped, out)
        force_bar = self._accelerate_vjp(taped, out)
        self._forces_vjp(taped, force_bar, bars, out)
        if self.forced:
            self._external_vjp(taped, force_bar, out)

    def _bound_vjp(self, taped: TapedNodes, out: NodeGradient) -> None:
        """Apply the adjoint of contacts and supports. The velocities before each are computed
        again."""
        velocity, tau = taped.free_velocity.copy(), self.parameters.tau
        velocity.reshape(-1)[self.contacts.held] = 0.0
        befores: list[tuple[int, NodeGaps, Array]] = []
        if any(map(len, self.candidates)):
            positions = self._positions(taped.displacement)
            for k, candidates in enumerate(self.candidates):
                gaps = self.contacts.gaps(k, candidates, positions)
                befores.append((k, gaps, velocity.copy()))
                self.contacts.apply(k, gaps, self.coefficients.friction[k], tau, velocity)
        for k, gaps, before in reversed(befores):
            out.friction[k] += self.contacts.apply_vjp(
                k,
                gaps,
                self.coefficients.friction[k],
                tau,
                before,
                out.velocity,
                out.displacement,
            )
        out.velocity.reshape(-1)[self.contacts.held] = 0.0

    def _accelerate_vjp(self, taped: TapedNodes, out: NodeGradient) -> Array:
        """Replace the gradient by the velocities after the forces by that of those before. Return
        the gradient (n_nodes, dim) by the forces."""
        parameters, dim = self.parameters, self.model.dim
        tau, decay, bar = parameters.tau, parameters.decay, out.velocity
        gravity = np.array([parameters.gx, parameters.gy, parameters.gz])[:dim]
        out.gravity_velocity[:dim] += bar.sum(axis=0, dtype=float)
        out.decay += float(np.sum(bar * taped.free_velocity))
        force_bar = (decay * tau / self.mass[:, None] * bar).astype(bar.dtype)
        acceleration = (taped.free_velocity / decay - taped.velocity) / tau - gravity
        out.node_mass -= np.sum(force_bar * acceleration, axis=1)
        bar *= decay
        return force_bar

    def _forces_vjp(
        self, taped: TapedNodes, force_bar: Array, bars: list[Array], out: NodeGradient
    ) -> None:
        expand(self.reference, taped.displacement, self.grids[0])
        moves = self._is_viscous or len(out.viscosity) > 0
        if moves:
            expand(self.reference, taped.velocity, self.grids[1])
            clear_rows(self.reference, bars[2])
        expand(self.reference, force_bar, bars[0])
        clear_rows(self.reference, bars[1])
        self.transfers.forces_vjp(
            self.parameters,
            self.particles,
            self.reference,
            self.body.box,
            self.cuts,
            *self.grids,
            self.active_stress,
            *bars,
            out.active_stress,
            out.volume,
            out.E,
            out.nu,
            out.viscosity,
        )
        add_reduced(self.reference, bars[1], out.displacement)
        if self._is_viscous:
            add_reduced(self.reference, bars[2], out.velocity)

    def _external_vjp(self, taped: TapedNodes, force_bar: Array, out: NodeGradient) -> None:
        position, actuators = self.rest + taped.displacement, self.coefficients.forces
        for actuator in actuators:
            by_control = actuator.add_vjp(position, self.u, force_bar, out.displacement)
            out.controls[actuator.part] += by_control
        for name, (k, key) in self.model.force_parameters.items():
            out.forces[name] += parameter_gradient(actuators[k], key, position, self.u, force_bar)

    def _by_controls(self, out: NodeGradient) -> Array:
        return out.controls + self.coefficients.strengths * self._by_stress(out)

    def _by_stress(self, out: NodeGradient) -> Array:
        return gradient_by_stress(self.model, out.active_stress)

    def _in_order(self, sorted_values: Array) -> Array:
        """Return values of the particles in their own order."""
        out = np.zeros_like(sorted_values)
        if len(out):
            out[self.body.order] = sorted_values
        return out

    def _by_params(self, out: NodeGradient) -> Array:
        return gradient_by_parameters(
            self.model,
            self.coefficients,
            particles=(
                self.body.weights @ out.node_mass,
                *(self._in_order(part) for part in (out.volume, out.E, out.nu)),
            ),
            by_friction=out.friction,
            by_gravity_velocity=out.gravity_velocity,
            by_decay=out.decay,
            by_viscosity=float(out.viscosity.sum()),
            by_forces=out.forces,
            by_strength=self.u * self._by_stress(out),
        )
