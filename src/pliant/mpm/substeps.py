"""The substeps of one control step of the material point method and their adjoint, on one grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pliant.bodies import MaterialFields
from pliant.checkpointing import Schedule, reverse_sweep
from pliant.core import Array
from pliant.mpm.grid import BoundaryConditions, GridBox, ParticleData, SubstepParameters
from pliant.mpm.particle_forces import ParticleForce, parameter_gradient
from pliant.mpm.substep_loops import Bars, SubstepTapes, TapeLayout, compiled_loops
from pliant.mpm.tape_memory import BlockOwner

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
    stress = model.stress_actuation.by_control @ (coefficients.strengths * u)
    return stress.astype(model.precision, copy=False).reshape(-1, model.dim**2)


def gradient_by_stress(model: "MaterialPoint", by_stress: Array) -> Array:
    """Return the gradient (n_controls,) by the strength times the control of each actuator that
    acts by stress, from that by the rows of `stress_of_actuators`."""
    return model.stress_actuation.by_control.T @ by_stress.ravel().astype(float, copy=False)


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
        self.loops = compiled_loops(model.dim)
        self.conditions: BoundaryConditions = model.boundaries.on(box, self.coefficients.friction)
        self.tapes: SubstepTapes | None = None
        self.memory = BlockOwner()  # owns the memory of the tapes
        self.active_stress = stress_of_actuators(model, self.coefficients, self.u)
        self.forced = bool(self.coefficients.forces) or bool(model.load.any())

    def _force(self, position: Array) -> Array:
        """Return the forces (n, dim) [N] of cables and loads on the particles; empty without
        any."""
        model = self.model
        if not self.forced:
            return np.zeros((0, model.dim), model.precision)
        out = model.load.reshape(-1, model.dim).astype(model.precision)
        for actuator in self.coefficients.forces:
            actuator.add_force(position, self.u, out)
        return out

    def arrays(self, x: Array) -> list[Array]:
        """Return copies of position, velocity, affine field and F, one row per particle."""
        return [part.copy() for part in self._rows(x)]

    def _rows(self, x: Array) -> list[Array]:
        """Return position, velocity, affine field and F, one row per particle, in the precision of
        the loops."""
        space, n = self.model.space, self.model.body.n_particles
        parts = np.split(np.asarray(x), space.starts[1:-1])
        return [part.astype(self.model.precision, copy=False).reshape(n, -1) for part in parts]

    def _layout(self, count: int) -> TapeLayout:
        model = self.model
        return TapeLayout(
            count=count,
            dim=model.dim,
            particles=model.body.n_particles,
            box=self.box,
            conditions=self.conditions,
            precision=model.precision,
        )

    def _empty_tapes(self, count: int) -> SubstepTapes:
        """Return memory for `count` substeps, while the owner exists."""
        layout = self._layout(count)
        return layout.tapes(self.model.tape_memory.block(layout.n_bytes, self.memory))

    def _constants(self) -> tuple:
        """Return the first arguments of the compiled loops."""
        coefficients = self.coefficients
        return coefficients.substep, coefficients.particle_data, self.box, self.conditions

    def _spans(self, count: int) -> list[tuple[int, int]]:
        """Return first and last of the substeps that a compiled loop takes at once: all of them, or
        single ones under forces that depend on the particles' positions."""
        return [(s, s + 1) for s in range(count)] if self.forced else [(0, count)]

    def _advance(self, tapes: SubstepTapes, state: Sequence[Array], count: int) -> int:
        """Simulate `count` substeps from a state on tapes. Return the number of the one in which a
        particle leaves the grid, or `count`."""
        for target, part in zip(tapes.state(0), state, strict=True):
            target[...] = part
        for first, last in self._spans(count):
            force = self._force(tapes.position[first % len(tapes.position)])
            reached = self.loops.advance(
                *self._constants(), tapes, self.active_stress, force, first, last
            )
            if reached < last:
                return reached
        return count

    def forward(self, x: Array) -> tuple[Array, str]:
        """Return the state after all substeps, and the reason of a failure (else empty). They are
        taped if the model stores them."""
        most, stores = self.model.substeps, self.model.store_substeps
        tapes = self._empty_tapes(most if stores else 0)
        reached = self._advance(tapes, self._rows(x), most)
        state = tapes.state(reached if stores else 0)
        if reached < most:
            finite = np.all(np.isfinite(state[0]))
            return x, LEFT_GRID if finite else blow_up_text(reached, most)
        self.tapes = tapes if stores else None
        result = np.concatenate([part.ravel() for part in state], dtype=float)
        return (result, "") if np.all(np.isfinite(result)) else (x, blow_up_text(most - 1, most))

    def backward(self, x: Array, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by the initial state, the controls and the
        parameters."""
        model, out = self.model, self.gradient(x_bar)

        def advance(k: int, goal: int, state: list[Array]) -> list[Array]:
            self._advance(single, state, goal - k)
            return [part.copy() for part in single.state(0)]

        def adjoint(k: int, end: int, state: list[Array], states_kept: int) -> None:
            self.adjoint(self.tape_substeps(state, end - k), out)

        if model.store_substeps and self.tapes is not None:
            self.adjoint(self.tapes, out)
        else:
            schedule = self.schedule(out)[0]
            single, self.tapes = self._empty_tapes(0), self._empty_tapes(schedule.tapes)
            reverse_sweep(model.substeps, schedule, self._rows(x), advance, adjoint)
        return out.state(), self._by_controls(out), self._by_params(out)

    def schedule(self, out: "Gradient") -> tuple[Schedule, int]:
        """Return the checkpoint schedule, and a bound [bytes] on the memory of states, grids and
        gradient."""
        bytes_each = np.dtype(self.model.precision).itemsize
        size, tape = bytes_each * self.model.space.size, self._layout(0).n_bytes
        grid = 4 * bytes_each * self.box.nx * self.box.ny * self.box.nz
        # besides the tapes and the kept states: the state after the tapes, and the one that is
        # simulated without a tape, with its grid, and a copy of it
        always = out.nbytes + grid + tape + 2 * size
        schedule = self.model.schedule(tape, size, always)
        kept = schedule.kept_states(self.model.substeps)
        return schedule, always + kept * size + schedule.tapes * tape

    def gradient(self, x_bar: Array) -> "Gradient":
        """Return the gradient before the reverse sweep: only x_bar, the rest is zero."""
        model, n = self.model, self.model.body.n_particles
        by_moduli = n * any(name.endswith((".E", ".nu")) for name in model.design)
        by_mass = n * bool(model.design)
        position, velocity, affine, deformation = self.arrays(x_bar)
        bars = Bars(
            position=position,
            velocity=velocity,
            affine=affine,
            deformation=deformation,
            friction=np.zeros(len(self.conditions.kind)),
            planes=np.zeros((self.box.nx, 4)),
            active_stress=np.zeros_like(self.active_stress),
            force=np.zeros((n * self.forced, model.dim), model.precision),
            mass=np.zeros(by_mass),
            volume=np.zeros(by_mass),
            E=np.zeros(by_moduli),
            nu=np.zeros(by_moduli),
            viscosity=np.zeros(n * ("damping.stiffness" in model.design)),
        )
        return Gradient(
            bars=bars,
            forces=dict.fromkeys(model.force_parameters, 0.0),
            controls=np.zeros(model.n_controls),
        )

    def tape_substeps(self, state: Sequence[Array], count: int) -> SubstepTapes:
        """Tape `count` substeps from a state. It overwrites the last tapes, which have room."""
        if self.tapes is None:
            self.tapes = self._empty_tapes(count)
        self._advance(self.tapes, state, count)
        return self.tapes.first(count)

    def adjoint(self, tapes: SubstepTapes, out: "Gradient") -> None:
        """Apply the adjoint of taped substeps, the last first."""
        grid_bar = np.empty_like(tapes.grid[0])
        for first, last in reversed(self._spans(len(tapes.grid))):
            position = tapes.position[first]
            self.loops.adjoint(
                *self._constants(),
                tapes,
                self.active_stress,
                self._force(position),
                first,
                last,
                grid_bar,
                out.bars,
            )
            if self.forced:
                self._force_vjp(position, out)

    def _force_vjp(self, position: Array, out: "Gradient") -> None:
        """Add the gradients by positions, controls and parameters of the forces in a substep."""
        bars, actuators = out.bars, self.coefficients.forces
        for actuator in actuators:
            by_control = actuator.add_vjp(position, self.u, bars.force, bars.position)
            out.controls[actuator.part] += by_control
        for name, (k, key) in self.model.force_parameters.items():
            out.forces[name] += parameter_gradient(actuators[k], key, position, self.u, bars.force)

    def _by_controls(self, out: "Gradient") -> Array:
        return out.controls + self.coefficients.strengths * self._by_stress(out)

    def _by_stress(self, out: "Gradient") -> Array:
        return gradient_by_stress(self.model, out.bars.active_stress)

    def _by_params(self, out: "Gradient") -> Array:
        n_contacts = len(self.model.robot.contacts)
        bars, owner = out.bars, self.conditions.owner
        by_contact = np.bincount(owner + 1, bars.friction, minlength=n_contacts + 1)
        *by_velocity, by_decay = bars.planes.sum(axis=0)
        return gradient_by_parameters(
            self.model,
            self.coefficients,
            particles=(bars.mass, bars.volume, bars.E, bars.nu),
            by_friction=by_contact[1:],
            by_gravity_velocity=np.array(by_velocity),
            by_decay=float(by_decay),
            by_viscosity=float(bars.viscosity.sum()),
            by_forces=out.forces,
            by_strength=self.u * self._by_stress(out),
        )


@dataclass(kw_only=True)
class Gradient:
    """The gradient that a reverse sweep accumulates."""

    bars: Bars
    forces: dict[str, float]  # by the parameters of actuators that act on a few particles
    controls: Array  # (n_controls,)

    @property
    def nbytes(self) -> int:
        return self.controls.nbytes + sum(part.nbytes for part in self.bars)

    def state(self) -> Array:
        return np.concatenate([part.ravel() for part in self.bars[:4]], dtype=float)
