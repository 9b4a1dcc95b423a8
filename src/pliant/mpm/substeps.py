"""The substeps of one control step of the material point method and their adjoint, on one grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pliant.bodies import MaterialFields
from pliant.checkpointing import Schedule, reverse_sweep
from pliant.core import Array
from pliant.mpm.grid import (
    Bins,
    BoundaryConditions,
    GridBox,
    ParticleData,
    SubstepParameters,
    clear,
    empty_bins,
    sort_particles,
    update_grid,
    update_grid_vjp,
)
from pliant.mpm.particle_forces import ParticleForce, parameter_gradient
from pliant.mpm.transfer import compiled_transfers

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint

LEFT_GRID = "a particle left the grid"


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticleCoefficients:
    """The coefficients that depend on the parameters."""

    fields: MaterialFields
    particle_data: ParticleData
    sorted_data: ParticleData  # in the order of the compiled loops
    node_mass: Array  # (n_nodes,) [kg] of a reference grid; empty for the updated transfer
    friction: Array  # (n_contacts,)
    strengths: Array  # (n_controls,) [-] of the actuators that act by stress, one for others
    substep: SubstepParameters
    forces: Sequence[ParticleForce]  # of the other actuators
    frequency: float = 0.0  # [rad/s] the highest of the forces; zero for those of the robot


def stress_of_actuators(
    model: "MaterialPoint", coefficients: ParticleCoefficients, u: Array
) -> Array:
    """Return the actuators' stress [Pa] in the material frame, a row of dim^2 numbers for each
    particle with an actuator."""
    rows = model.stress_rows
    out = np.zeros((rows.max(initial=-1) + 1, model.dim**2), model.precision)
    for (particles, S), part in model.stresses:
        out[rows[particles]] += (coefficients.strengths * u)[part][0] * S.ravel()
    return out


def gradient_by_stress(model: "MaterialPoint", by_stress: Array) -> Array:
    """Return the gradient (n_controls,) by the strength times the control of each actuator that
    acts by stress, from that by the rows of `stress_of_actuators`."""
    out, rows = np.zeros(model.n_controls), model.stress_rows
    for (particles, S), part in model.stresses:
        out[part] += float(np.sum(by_stress[rows[particles]] @ S.ravel()))
    return out


def gradient_by_parameters(
    model: "MaterialPoint",
    coefficients: ParticleCoefficients,
    *,
    particles: tuple[Array, ...],
    by_friction: Array,
    by_gravity_velocity: Array,
    by_decay: float,
    by_viscosity: float,
    by_forces: dict[str, float],
    by_strength: Array,
) -> Array:
    """Return the gradient (n_params,) by the design parameters, from those by the mass, volume, E
    and nu of each particle (the last two may be empty), by the friction of each contact, by the
    velocity that gravity gives in a substep, by the logarithm of the decay, by the stiffness
    damping, by parameters of actuators, and by the strength of each control."""
    if not model.design:
        return np.zeros(0)
    n, (mass, volume, E, nu) = model.body.n_particles, particles
    fields, data = coefficients.fields, coefficients.particle_data
    tau, decay = coefficients.substep.tau, coefficients.substep.decay
    others = {
        "cells.volume": volume + fields.density * mass,
        "damping.mass": np.array([-tau * decay * by_decay]),
        "damping.stiffness": np.array([by_viscosity]),
        **{f"contact{k}.friction": by_friction[k : k + 1] for k in range(len(by_friction))},
        **{
            f"gravity.{axis}": np.array([tau * decay * bar])
            for axis, bar in zip("xyz", by_gravity_velocity, strict=True)
        },
        **model.by_strength(by_strength),
    }
    for name, value in by_forces.items():  # gravity also acts on liquids
        others[name] = others.get(name, np.zeros(1)) + value
    return model.variables.fields_vjp(
        E if len(E) else np.zeros(n), nu if len(nu) else np.zeros(n), mass * data.volume, others
    )


def empty_like(state: Sequence[Array]) -> list[Array]:
    """Return arrays without values for another state."""
    return [np.empty_like(part) for part in state]


def blow_up_text(substep: int, most: int) -> str:
    return (
        f"The motion blew up by substep {substep + 1} of {most}: a particle's state is not "
        "finite, because it was compressed to nothing or the substep is too long; take "
        f"substeps={2 * most}, or smaller controls."
    )


def inversion_text(particle: int, position: Array) -> str:
    return (
        f"Particle {particle}, at {position.round(4)} m, is inverted; take more substeps, smaller "
        "controls or a stiffer material."
    )


@dataclass(kw_only=True)
class Substeps:
    """The substeps of one control step and their adjoint, on one grid."""

    model: "MaterialPoint"
    coefficients: ParticleCoefficients
    u: Array
    box: GridBox

    def __post_init__(self) -> None:
        model, box = self.model, self.box
        self.parameters, self.transfers, self.particles = (
            self.coefficients.substep,
            compiled_transfers(model.dim),
            self.coefficients.particle_data,
        )
        self.conditions: BoundaryConditions = model.boundaries.on(box, self.coefficients.friction)
        self.tapes: list[TapedSubstep] = []
        self.active_stress, self.load = (
            stress_of_actuators(model, self.coefficients, self.u),
            model.load.reshape(-1, model.dim).astype(model.precision),
        )
        self.forced = bool(self.coefficients.forces) or bool(self.load.any())

    def _force(self, position: Array) -> Array:
        """Return the forces (n, dim) [N] of cables and loads on the particles; empty without
        any."""
        model = self.model
        if not self.forced:
            return np.zeros((0, model.dim), model.precision)
        out = self.load.copy()
        for actuator in self.coefficients.forces:
            actuator.add_force(position, self.u, out)
        return out

    def arrays(self, x: Array) -> list[Array]:
        """Return copies of position, velocity, affine field and F, one row per particle."""
        space, n = self.model.space, self.model.body.n_particles
        return [
            part.astype(self.model.precision).reshape(n, -1)
            for part in np.split(np.asarray(x), space.starts[1:-1])
        ]

    def _substep(self, taped: "TapedSubstep", new: list[Array]) -> str:
        """Write the state after a substep to `new`, which may be the state before it. Return the
        reason of a failure, or "". The grid keeps the velocities that the particles interpolate,
        and the bins the order of the particles."""
        parameters, box = self.parameters, self.box
        state, grid, bins = taped.state, taped.grid, taped.bins
        if not sort_particles(state[0], box, parameters.dim, 1.0 / parameters.h, bins):
            return LEFT_GRID if np.all(np.isfinite(state[0])) else "blew up"
        clear(grid, box, bins)
        self.transfers.to_grid(
            parameters,
            self.particles,
            box,
            bins,
            grid,
            *state,
            self.active_stress,
            self._force(state[0]),
        )
        update_grid(parameters, box, bins, self.conditions, grid, taped.before)
        self.transfers.to_particles(parameters, box, bins, grid, state[0], state[3], *new)
        return ""

    def _empty_tape(self, state: list[Array]) -> "TapedSubstep":
        """Return the memory for a substep from a state."""
        box, precision = self.box, self.model.precision
        return TapedSubstep(
            state=state,
            grid=np.zeros((box.nx * box.ny * box.nz, 4), precision),
            before=np.zeros((len(self.conditions.node), 3), precision),
            bins=empty_bins(self.model.body.n_particles, box),
        )

    def forward(self, x: Array) -> tuple[Array, str]:
        """Return the state after all substeps, and the reason of a failure (else empty). They are
        taped if the model stores them."""
        state, most, stores = self.arrays(x), self.model.substeps, self.model.store_substeps
        taped, self.tapes = self._empty_tape(state), []
        for s in range(most):
            new = empty_like(state) if stores else state
            failed = self._substep(taped, new)
            if failed:
                return x, failed if failed == LEFT_GRID else blow_up_text(s, most)
            if stores:
                self.tapes.append(taped)
                taped = self._empty_tape(new)
        result = np.concatenate([part.ravel() for part in taped.state], dtype=float)
        return (result, "") if np.all(np.isfinite(result)) else (x, blow_up_text(most - 1, most))

    def backward(self, x: Array, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by the initial state, the controls and the
        parameters."""
        model, out = self.model, self.gradient(x_bar)

        def advance(k: int, goal: int, state: list[Array]) -> list[Array]:
            taped = self._empty_tape([part.copy() for part in state])
            for _ in range(k, goal):
                self._substep(taped, taped.state)
            return taped.state

        def adjoint(k: int, end: int, state: list[Array], states_kept: int) -> None:
            stored = model.store_substeps
            self.adjoint(self.tapes if stored else self.tape_substeps(state, end - k), out)

        reverse_sweep(model.substeps, self.schedule(out)[0], self.arrays(x), advance, adjoint)
        return out.state(), self._by_controls(out), self._by_params(out)

    def schedule(self, out: "Gradient") -> tuple[Schedule, int]:
        """Return the checkpoint schedule, and a bound [bytes] on the memory of states, grids and
        gradient."""
        model, bytes_each = self.model, np.dtype(self.model.precision).itemsize
        size, grid = (
            bytes_each * model.space.size,
            bytes_each * 4 * self.box.nx * self.box.ny * self.box.nz,
        )
        order = sum(part.nbytes for part in empty_bins(model.body.n_particles, self.box))
        tape = size + grid + bytes_each * 3 * len(self.conditions.node) + order
        always = (
            out.nbytes + tape + grid + 2 * size
        )  # three states: the first, the advanced one and its start; two grids
        schedule = model.schedule(tape, size, always)
        return schedule, always + schedule.slots * size + schedule.tapes * tape

    def gradient(self, x_bar: Array) -> "Gradient":
        """Return the gradient before the reverse sweep: only x_bar, the rest is zero."""
        n, differentiates_moduli = (
            self.model.body.n_particles,
            any(name.endswith((".E", ".nu")) for name in self.model.design),
        )
        by_masses = bool(self.model.design)
        zeros = [
            np.zeros(n * part)
            for part in (by_masses, by_masses, differentiates_moduli, differentiates_moduli)
        ]
        return Gradient(
            bars=self.arrays(x_bar),
            particles=zeros,
            friction=np.zeros(len(self.conditions.kind)),
            planes=np.zeros((self.box.nx, 4)),
            viscosity=np.zeros(n * ("damping.stiffness" in self.model.design)),
            forces=dict.fromkeys(self.model.force_parameters, 0.0),
            active_stress=np.zeros_like(self.active_stress),
            controls=np.zeros(self.model.n_controls),
        )

    def tape_substeps(self, state: list[Array], count: int) -> list["TapedSubstep"]:
        """Tape `count` substeps from a state: the state before each and its grid. It overwrites the
        last tapes."""
        self.tapes += [self._empty_tape(empty_like(state)) for _ in range(count - len(self.tapes))]
        tapes = self.tapes[:count]
        for target, part in zip(tapes[0].state, state, strict=True):
            target[...] = part
        for taped, later in pairwise([*tapes, self._empty_tape(empty_like(state))]):
            self._substep(taped, later.state)
        return tapes

    def adjoint(self, tapes: list["TapedSubstep"], out: "Gradient") -> None:
        """Apply the adjoint of taped substeps, the last first."""
        grid_bar = np.zeros_like(tapes[0].grid)
        for substep in reversed(tapes):
            self._substep_vjp(substep, grid_bar, out)

    def _by_controls(self, out: "Gradient") -> Array:
        return out.controls + self.coefficients.strengths * self._by_stress(out)

    def _by_stress(self, out: "Gradient") -> Array:
        return gradient_by_stress(self.model, out.active_stress)

    def _by_params(self, out: "Gradient") -> Array:
        n_contacts = len(self.model.robot.contacts)
        by_contact = np.bincount(self.conditions.owner + 1, out.friction, minlength=n_contacts + 1)
        *by_velocity, by_decay = out.planes.sum(axis=0)
        return gradient_by_parameters(
            self.model,
            self.coefficients,
            particles=tuple(out.particles),
            by_friction=by_contact[1:],
            by_gravity_velocity=np.array(by_velocity),
            by_decay=float(by_decay),
            by_viscosity=float(out.viscosity.sum()),
            by_forces=out.forces,
            by_strength=self.u * self._by_stress(out),
        )

    def _substep_vjp(self, taped: "TapedSubstep", grid_bar: Array, out: "Gradient") -> None:
        parameters, box, bins = self.parameters, self.box, taped.bins
        pos, vel, affine, F = taped.state
        clear(grid_bar, box, bins)
        self.transfers.to_particles_vjp(
            parameters, box, bins, taped.grid, grid_bar, pos, F, *out.bars
        )
        update_grid_vjp(
            parameters,
            box,
            bins,
            self.conditions,
            taped.grid,
            taped.before,
            grid_bar,
            out.friction,
            out.planes,
        )
        force = self._force(pos)
        bar = np.zeros_like(force)
        self.transfers.to_grid_vjp(
            parameters,
            self.particles,
            box,
            bins,
            grid_bar,
            pos,
            vel,
            affine,
            F,
            self.active_stress,
            force,
            *out.bars,
            out.active_stress,
            bar,
            *out.particles,
            out.viscosity,
        )
        actuators = self.coefficients.forces
        for actuator in actuators:
            out.controls[actuator.part] += actuator.add_vjp(pos, self.u, bar, out.bars[0])
        for name, (k, key) in self.model.force_parameters.items():
            out.forces[name] += parameter_gradient(actuators[k], key, pos, self.u, bar)


@dataclass(frozen=True, kw_only=True, eq=False)
class TapedSubstep:
    """The data of a substep for its adjoint: the state before it, the order of its particles, the
    grid after it, and the velocities of boundary nodes before the boundary conditions."""

    state: list[Array]
    grid: Array
    before: Array
    bins: Bins


@dataclass(kw_only=True)
class Gradient:
    """The gradient that a reverse sweep accumulates."""

    bars: list[Array]  # by position, velocity, affine field and F of the current state
    particles: list[Array]  # by mass, volume, E and nu of each particle; each may be empty
    friction: Array  # (n_conditions,)
    planes: Array  # (nx, 4) of each plane of nodes: by gravity's velocity, by the log of the decay
    viscosity: Array  # (n,) by the stiffness damping, from each particle; may be empty
    forces: dict[str, float]  # by the parameters of actuators that act on a few particles
    active_stress: Array  # by the rows of the actuators' stress
    controls: Array  # (n_controls,)

    @property
    def nbytes(self) -> int:
        return sum(
            part.nbytes
            for part in (
                *self.bars,
                *self.particles,
                self.friction,
                self.planes,
                self.viscosity,
                self.active_stress,
                self.controls,
            )
        )

    def state(self) -> Array:
        return np.concatenate([part.ravel() for part in self.bars], dtype=float)
