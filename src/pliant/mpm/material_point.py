"""The material point method as a Dynamics [Spielberg2021]: explicit substeps of particles and a
grid under one control, and their adjoint.

With the updated Lagrangian transfer, the state has positions, velocities, the affine velocity field
C and the deformation gradient F of every particle. With the total Lagrangian one, it has positions
and velocities of the nodes of a grid in the rest shape. A step keeps only its initial state, unless
the model stores its substeps. The adjoint simulates them again, with as many of them on tape as the
memory allows.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import scipy.sparse as sp

from pliant.argument_checks import check_dt, check_index, check_state, check_step
from pliant.bodies import parameters_of
from pliant.bodies.design import Design, refuse_parameters, valid_names
from pliant.checkpointing import Schedule, best_schedule, uniform_schedule
from pliant.core import (
    Array,
    InputError,
    Params,
    Space,
    Status,
    Step,
    check_controls,
    effector_jacobian,
    effector_position,
    finite_array,
    nearest,
    require_kind,
    require_number,
    require_positive,
)
from pliant.kernels.threads import run_kernel
from pliant.mpm.control_step import advance_nodes, advance_particles
from pliant.mpm.grid import GridBox, SubstepParameters
from pliant.mpm.grid_boundaries import Boundaries
from pliant.mpm.model_coefficients import (
    coefficients_at,
    default_coefficients,
    other_parameters,
    stress_actuators,
)
from pliant.mpm.node_contacts import NodeContacts
from pliant.mpm.particle_forces import (
    ParticleForce,
    highest_frequency,
    particle_potentials,
)
from pliant.mpm.particle_model import (
    DEFAULT_FRACTION,
    STABLE_FRACTION,
    checked_substeps,
    sample_body,
    stable_substep,
    warn_of_narrow_cavities,
)
from pliant.mpm.particle_states import (
    ParticleFields,
    particle_fields,
    state_of_nodes,
    state_of_particles,
)
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.mpm.result_checks import MAX_NEIGHBOUR_GAP, failed_status, particle_status
from pliant.mpm.stress_actuation import StressActuation
from pliant.mpm.substeps import ParticleCoefficients, Substeps
from pliant.mpm.tape_memory import BlockOwner, TapeMemory
from pliant.mpm.total_substeps import TotalSubsteps
from pliant.robot import Robot
from pliant.robot.parameters import robot_with

WITHOUT_EFFECT = {
    r"contact\d+\.stiffness": "has no effect on MaterialPoint, whose grid meets an obstacle "
    "without springs; remove it, or take ImplicitEuler."
}
TRANSFERS = ("updated", "total")


@dataclass(frozen=True, kw_only=True, eq=False)
class MaterialPointTape:
    """The initial state of a step, from which the adjoint simulates its substeps again."""

    owner: "MaterialPoint"
    x: Array
    u: Array
    coefficients: ParticleCoefficients
    # of the updated Lagrangian transfer; of the other, the nodes that may touch each obstacle
    region: "GridBox | list[Array]"
    stored: Any  # the tapes of all substeps if the model stores them, else None
    memory: BlockOwner | None  # the owner of the memory of these tapes


@final
@dataclass(frozen=True, eq=False, repr=False)
class MaterialPoint:
    """Dynamics of a robot as particles on a grid, with explicit substeps (MLS-MPM)
    [Spielberg2021]. A control step dt [s] has as many substeps as the wave speed requires, or
    `substeps`.

    `cell` [m] is the grid's cell and `per_cell` the number of particles along its edge. `seeding`
    is "lattice" or "jitter" with `rng_seed`. The grid of the `transfer` "updated" is that of the
    current positions, and separate bodies may collide. With "total" it is that of the rest shape:
    one connected body, which cannot tear numerically. `design` names the parameters to
    differentiate by, such as "soft.E", "cells.density", "cells.volume" or "contact0.friction".
    With `store_substeps` a step keeps all its substeps, so that `pullback` simulates nothing again;
    use it for gradients of runs whose planner or trainer limits the memory. Otherwise `memory`
    [bytes] limits what `pullback` keeps of a step; with None it has as many segments as each has
    substeps. A step fails if particles that are neighbours at rest are more than `max_gap` cells
    apart: the grid hardly couples them beyond 2.5, the default; take less for moderate strains.
    With precision "float32" the substeps take half the memory. The particles `body` are
    sampled if they are left out. Raises `InputError` for a cell larger than the body and for
    unstable substeps.

    >>> import numpy as np, pliant as pl
    >>> block = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.1, 0.1)),
    ...     material=pl.Material(E=1e4, nu=0.3, density=1000.0),
    ...     gravity=(0.0, 0.0, -9.81),
    ... )
    >>> run = pl.simulate(pl.MaterialPoint(block, dt=0.005, cell=0.02), np.zeros((2, 0)))
    >>> len(run.states)
    3
    """

    robot: Robot
    _: KW_ONLY
    dt: float
    cell: float
    substeps: int = None  # type: ignore[assignment]
    per_cell: int = 2
    seeding: str = "lattice"
    rng_seed: int = 0
    design: Sequence[str] = ()
    memory: float | None = None
    store_substeps: bool = False
    max_gap: float = MAX_NEIGHBOUR_GAP
    precision: str = "float64"
    transfer: str = "updated"
    body: Particles | ReferenceGrid = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        object.__setattr__(self, "dt", check_dt(self.dt))
        object.__setattr__(self, "cell", require_positive("The grid's cell", self.cell, "m"))
        _check_precision_and_memory(self.precision, self.memory)
        if not 0.0 < require_number("The largest gap", self.max_gap, "cells") <= MAX_NEIGHBOUR_GAP:
            raise InputError(
                f"The largest gap between neighbours is {self.max_gap:g} cells; give one above 0 "
                f"and up to {MAX_NEIGHBOUR_GAP:g}."
            )
        require_kind("The stored substeps", self.store_substeps, bool, "give True or False")
        if self.transfer not in TRANSFERS:
            raise InputError(
                f"There is no transfer '{self.transfer}'; {nearest(self.transfer, TRANSFERS)}"
            )
        object.__setattr__(self, "body", self._made_body())
        warn_of_narrow_cavities(self.robot, self.body.mesh, self.cell)
        substeps = checked_substeps(self.robot, self.body, self.dt, self.cell, self.substeps)
        object.__setattr__(self, "substeps", substeps)
        for part in (
            "variables",
            "particle_potentials",
            "stresses",
            "load",
            "boundaries",
            "node_contacts",
            "params",
            "substep_parameters",
        ):
            getattr(self, part)  # raise InputError now, not at the first step
        for name in self.robot.effectors:
            self.effector_rows(name)

    def _made_body(self) -> Particles | ReferenceGrid:
        """Return the given or sampled body, of the kind that the transfer needs."""
        body = self.body
        if body is not None:
            require_kind(
                "The body",
                body,
                (Particles, ReferenceGrid),
                "leave it out, or take that of another MaterialPoint",
            )
        else:
            body = sample_body(self.robot, self.cell, self.per_cell, self.seeding, self.rng_seed)
        particles = body.particles if isinstance(body, ReferenceGrid) else body
        if not self.is_total:
            return particles
        return ReferenceGrid(
            particles=particles, cell=self.cell, supports=tuple(self.robot.supports)
        )

    def __repr__(self) -> str:
        return (
            f"<MaterialPoint of {self.robot.name}: {self.body.n_particles} particles, cell "
            f"{self.cell:g} m, dt {self.dt:g} s in {self.substeps} substeps>"
        )

    # Core interface

    @property
    def dim(self) -> int:
        return self.body.dim

    @property
    def is_total(self) -> bool:
        """Whether the transfer is total Lagrangian."""
        return self.transfer == "total"

    @cached_property
    def space(self) -> Space:
        n, d = self.body.n_particles, self.dim
        if self.is_total:
            size = self.body.rest.size
            return Space(parts=("position", "velocity"), n_dofs=size, rate=(0.0, 1.0))
        return Space(
            parts=("position", "velocity", "affine", "deformation"),
            n_dofs=n * d,
            rate=(0.0, 1.0),
            sizes=(n * d, n * d, n * d * d, n * d * d),
        )

    @property
    def n_controls(self) -> int:
        return self.robot.n_controls

    def control_limits(self) -> tuple[Array, Array]:
        return self.robot.control_limits()

    def neutral_controls(self) -> Array:
        return self.robot.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the effector's position."""
        if name not in self.robot.effectors:
            raise InputError(
                f"{self.robot.name} has no effector '{name}'; {nearest(name, self.robot.effectors)}"
            )
        return self._effectors[name]

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return effector_position(self, name, x, self.dim)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    @cached_property
    def _effectors(self) -> dict[str, sp.csr_matrix]:
        eye = sp.identity(self.dim)
        return {
            name: sp.kron(effector.attach(self.body), eye, format="csr")
            for name, effector in self.robot.effectors.items()
        }

    def initial_state(self) -> Array:
        """Return the rest shape at rest."""
        return self.state(self.body.rest)

    def state(
        self,
        position: Array,
        velocity: Array | None = None,
        affine: Array | None = None,
        deformation: Array | None = None,
    ) -> Array:
        """Return the state with given positions [m] and velocities [m/s] (n_dofs,), affine fields
        [1/s] and deformation gradients (n, dim, dim). The last two belong to the transfer "updated"
        only; those of "total" follow from the nodes."""
        if self.is_total:
            return state_of_nodes(self, position, velocity, affine, deformation)
        return state_of_particles(self, position, velocity, affine, deformation)

    def particles(self, x: Array) -> ParticleFields:
        """Return the fields of the particles in a state (n_state,)."""
        return particle_fields(self, x)

    def neighbour_gap(self, x: Array) -> float:
        """Return the largest distance [m] in a state (n_state,) of two particles that are
        neighbours at rest. A body tears numerically where it approaches three cells."""
        q = self.particles(check_state(x, self.space.size)).position
        a, b = self.body.rest_neighbours.T
        return float(np.linalg.norm(q[a] - q[b], axis=1).max(initial=0.0))

    # Parameters

    @cached_property
    def variables(self) -> Design:
        refuse_parameters(self.design, WITHOUT_EFFECT)
        return Design(body=self.body, names=self.design, others=other_parameters(self))

    @property
    def params(self) -> Params:
        return self.variables.params

    @cached_property
    def force_parameters(self) -> dict[str, tuple[int, str]]:
        """The design parameters of actuators that act on a few particles: the index of the actuator
        in `particle_potentials` and the parameter's own name, by full name."""
        return {
            name: (k, param.name)
            for k, force in enumerate(self.particle_potentials)
            for param in parameters_of(force.potential)
            if (name := f"{force.group}.{param.name}") in self.design
        }

    def by_strength(self, by_control: Array) -> dict[str, Array]:
        """Return the gradients by the strengths of actuators that act by stress, from those
        (n_controls,) by the strength of each control."""
        return {
            f"actuators.{name}.strength": by_control[part]
            for name, (_, part) in zip(stress_actuators(self.robot), self.stresses, strict=True)
        }

    def robot_with_params(self, p: Array) -> Robot:
        """Return the robot with the values p (n_params,) of the design parameters. Raises
        InputError for parameters of single cells, such as "cells.E"."""
        return robot_with(self.robot, self.params.split(p), self.body)

    def coefficients(self, p: Array | None) -> ParticleCoefficients:
        """Return the coefficients for a parameter vector (default: the robot's values)."""
        if p is None or not self.design:
            self.params.split(p)
            return self._default_coefficients
        key, kept = np.asarray(p, float).tobytes(), self._kept_coefficients
        found = kept.get(key)
        if found is None:
            found = coefficients_at(self, p)
            kept.clear()
            kept[key] = found
        return found

    @cached_property
    def tape_memory(self) -> TapeMemory:
        return TapeMemory()

    @cached_property
    def _default_coefficients(self) -> ParticleCoefficients:
        return default_coefficients(self)

    @cached_property
    def _kept_coefficients(self) -> dict[bytes, ParticleCoefficients]:
        """The last coefficients by their parameters: all steps of a simulation have the same."""
        return {}

    def stable_substeps(self, p: Array | None = None) -> int:
        """Return the number of substeps of a step that is stable for parameters p (n_params,)."""
        made = self.coefficients(p)
        frequency = self.frequency(list(made.forces), made.particle_data.mass)
        stable = stable_substep(made.fields, self.cell, made.substep.viscosity, frequency)
        return max(1, int(np.ceil(self.dt / (DEFAULT_FRACTION * stable))))

    def frequency(self, forces: list[ParticleForce], mass: Array) -> float:
        """Return the highest angular frequency [rad/s] of forces on particles of masses (n,)."""
        values = [param.value for force in forces for param in parameters_of(force.potential)]
        key, cached = np.concatenate([mass, *values]).tobytes(), self._frequencies
        if key not in cached:
            cached.clear()
            cached[key] = highest_frequency(forces, self.robot, self.body, self.cell, mass)
        return cached[key]

    @cached_property
    def _frequencies(self) -> dict[bytes, float]:
        """The last highest frequency, by the masses and the parameters of the forces."""
        return {}

    # Attachments

    @cached_property
    def stress_actuation(self) -> StressActuation:
        return StressActuation(robot=self.robot, body=self.body)

    @property
    def stresses(self) -> list[tuple[tuple[Array, Array], slice]]:
        """The particles and second Piola stress per unit of control of each actuator that acts by
        stress, with its control."""
        return self.stress_actuation.stresses

    @cached_property
    def particle_potentials(self) -> list[ParticleForce]:
        return particle_potentials(self.robot, self.body, valid_names(self.design))

    @cached_property
    def load(self) -> Array:
        """The loads (n_dofs,) [N]. Raises InputError for time-dependent loads."""
        if any(load.is_time_dependent for load in self.robot.loads):
            raise InputError(
                f"A load of {self.robot.name} changes in time, which MaterialPoint does not "
                "support; give it a fixed value, or take ImplicitEuler."
            )
        return sum(
            (load.attach(self.body) for load in self.robot.loads), np.zeros(self.space.n_dofs)
        )

    @cached_property
    def boundaries(self) -> Boundaries:
        return Boundaries(robot=self.robot, body=self.body, cell=self.cell)

    @cached_property
    def node_contacts(self) -> NodeContacts | None:
        """The supports and contacts of the nodes of a total Lagrangian transfer."""
        if not isinstance(self.body, ReferenceGrid):
            return None
        contacts = NodeContacts(boundaries=self.boundaries, body=self.body)
        contacts.held  # noqa: B018
        return contacts

    @property
    def substep_parameters(self) -> SubstepParameters:
        return self._default_coefficients.substep

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one control step of `substeps` substeps."""
        u, x = check_controls(u, self.n_controls), check_state(x, self.space.size)
        check_index(k)
        coefficients = self.coefficients(p)
        if p is not None and self.substep_parameters.tau > STABLE_FRACTION * (
            wave := stable_substep(
                coefficients.fields,
                self.cell,
                coefficients.substep.viscosity,
                coefficients.frequency,
            )
        ):
            springs = " or an actuator oscillates" if coefficients.frequency > 0.0 else ""
            return Step(
                x,
                failed_status(
                    f"With these parameters a wave crosses a cell{springs} in {wave:.3g} s, "
                    "a substep has "
                    f"{self.substep_parameters.tau:.3g} s; take "
                    f"substeps={int(np.ceil(self.dt / (DEFAULT_FRACTION * wave)))}."
                ),
            )
        advance = advance_nodes if self.is_total else advance_particles
        new, failed, substeps = advance(self, x, u, coefficients)
        if failed or substeps is None:
            return Step(x, failed_status(failed))
        tape = MaterialPointTape(
            owner=self,
            x=x,
            u=u.copy(),
            coefficients=coefficients,
            region=substeps.box if isinstance(substeps, Substeps) else substeps.candidates,
            stored=substeps.tapes if self.store_substeps else None,
            memory=getattr(substeps, "memory", None) if self.store_substeps else None,
        )
        if self.is_total:
            return Step(new, Status(text="done", iterations=self.substeps), tape)
        return Step(new, particle_status(self, new), tape)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p. Raises InputError for a failed step."""
        check_step(step, self)
        bar = finite_array("x_bar", x_bar, (self.space.size,))
        substeps = self.taped_substeps(step)
        return run_kernel(substeps.backward, self.body.n_particles, step.tape.x, bar)

    def taped_substeps(self, step: Step) -> Substeps | TotalSubsteps:
        """Return the substeps of a step, for its adjoint."""
        t: MaterialPointTape = step.tape
        made: Any
        if isinstance(t.region, GridBox):
            made = Substeps(model=self, coefficients=t.coefficients, u=t.u, box=t.region)
        else:
            made = TotalSubsteps(
                model=self, coefficients=t.coefficients, u=t.u, candidates=t.region
            )
        if t.stored is not None:
            made.tapes, made.memory = t.stored, t.memory
        return made

    def peak_bytes(self, step: Step) -> int:
        """Return a bound [bytes] on the memory of states, grids and gradient in `pullback`."""
        check_step(step, self)
        substeps: Any = self.taped_substeps(step)
        return substeps.schedule(substeps.gradient(np.zeros(self.space.size)))[1]

    def schedule(self, tape: int, state: int, fixed: int) -> Schedule:
        """Return the checkpoint schedule of the substeps, for the sizes [bytes] of a taped substep,
        a state and the fixed memory. All substeps are on tape if they are stored. Raises InputError
        if `memory` is too small."""
        if self.store_substeps:
            return Schedule(tapes=self.substeps)
        if self.memory is None:
            return uniform_schedule(self.substeps)
        if self.memory < fixed + tape:
            raise InputError(
                f"The memory for the adjoint of a step is {self.memory:g} bytes, but one substep "
                f"takes {fixed + tape}; give memory={fixed + tape} or more."
            )
        return best_schedule(self.substeps, float(self.memory) - fixed, state, tape)


def _check_precision_and_memory(precision: str, memory: float | None) -> None:
    if precision not in ("float32", "float64"):
        raise InputError(
            f"There is no precision '{precision}'; {nearest(precision, ('float32', 'float64'))}"
        )
    if memory is not None and not require_number("The memory", memory, "bytes") > 0.0:
        raise InputError(
            f"The memory for the adjoint of a step is {memory} bytes; give a positive number, or "
            "None."
        )
