"""The material point method as a Dynamics (paper 004): explicit substeps of particles and a grid
under one control, and their adjoint.

The state holds positions, velocities, the affine velocity field C and the deformation gradient F of
every particle. A step keeps only the state that it began with; going back, the substeps are
simulated again, with as many of them held at a time as the memory allows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import Stressing
from pliant.bodies import Fields
from pliant.bodies.grid import Box, Cloud, Rules
from pliant.bodies.particles import Particles, soundness
from pliant.core import (
    Array,
    InputError,
    Param,
    Params,
    Space,
    Status,
    Step,
    check_controls,
    finite_array,
    is_whole,
    nearest,
    quoted,
    require_kind,
    require_number,
    require_positive,
)
from pliant.dynamics.attachments import of_actuators
from pliant.dynamics.checks import check_dt, check_index, check_state, check_step
from pliant.dynamics.design import Design, different_names
from pliant.dynamics.pulls import CablePull, Pull, frequency, pulls_of
from pliant.dynamics.schedule import Schedule, best_schedule, even_schedule
from pliant.dynamics.substeps import LEFT, Numbers, Substeps
from pliant.dynamics.walls import Boundaries
from pliant.geometry.sampling import seed
from pliant.kernels.threads import run
from pliant.robot import Robot

STABLE = (
    0.9  # of a cell that a pressure wave may cross in a substep; beyond it a block at rest blows up
)
CAREFUL = 0.5  # the share that is taken when the substeps are left to us
COSTLY = 10  # times the undamped substeps, beyond which stiffness damping is warned about
TORN = 2.5  # cells between two particles that were neighbours: beyond three they share no node
MARGIN = 2  # cells about the particles that the grid has at least
FAR = 64  # cells that a body may go in a step from rest


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """Where a step began; its substeps are made again."""

    owner: "MaterialPoints"
    x: Array
    u: Array
    numbers: Numbers
    box: Box


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MaterialPoints:
    """Dynamics of a robot's particles by explicit substeps; made by MaterialPoint."""

    robot: Robot
    body: Particles
    dt: float  # [s]
    cell: float  # [m]
    substeps: int
    design: Sequence[
        str
    ] = ()  # "soft.E", "cells.density", ...; "cells.volume"; "contact0.friction", ...
    memory: float | None = (
        # [bytes] for what is held of a step when going back over it; None: as many segments as each
        # has substeps
        None
    )
    precision: str = "float64"

    def __post_init__(self) -> None:
        for part in ("variables", "pulls", "stresses", "load", "boundaries", "params", "rules"):
            getattr(self, part)  # what is wrong with them is a sentence now, not at the first step
        for name in self.robot.effectors:
            self.effector_rows(name)

    def __repr__(self) -> str:
        return (
            f"<MaterialPoints of {self.robot.name}: {self.body.n_particles} particles, cell "
            f"{self.cell:g} m, dt {self.dt:g} s in {self.substeps} substeps>"
        )

    # The waist

    @property
    def dim(self) -> int:
        return self.body.dim

    @cached_property
    def space(self) -> Space:
        n, d = self.body.n_particles, self.dim
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
        """(dim, n_dofs) an effector's place from the positions."""
        if name not in self.robot.effectors:
            raise InputError(
                f"{self.robot.name} has no effector '{name}'; {nearest(name, self.robot.effectors)}"
            )
        return self._effectors[name]

    @cached_property
    def _effectors(self) -> dict[str, sp.csr_matrix]:
        eye = sp.identity(self.dim)
        return {
            name: sp.kron(effector.on(self.body), eye, format="csr")
            for name, effector in self.robot.effectors.items()
        }

    def initial_state(self) -> Array:
        """At rest in the rest shape."""
        return self.state(self.body.rest)

    def state(
        self,
        position: Array,
        velocity: Array | None = None,
        affine: Array | None = None,
        deformation: Array | None = None,
    ) -> Array:
        """The state with given positions [m] and velocities [m/s] (n_dofs,), affine fields [1/s]
        and deformation gradients (n, dim, dim)."""
        n, d = self.body.n_particles, self.dim
        q = finite_array("The position", position, (n * d,), "m")
        v = (
            np.zeros_like(q)
            if velocity is None
            else finite_array("The velocity", velocity, (n * d,), "m/s")
        )
        C = (
            np.zeros((n, d, d))
            if affine is None
            else finite_array("The affine field", affine, (n, d, d), "1/s")
        )
        F = (
            np.tile(np.eye(d), (n, 1, 1))
            if deformation is None
            else finite_array("The deformation gradient", deformation, (n, d, d))
        )
        return np.concatenate([q, v, C.ravel(), F.ravel()])

    # Parameters

    @cached_property
    def variables(self) -> Design:
        sound = different_names(self.design)  # else Design raises
        return Design(
            body=self.body,
            names=[name for name in self.design if name not in self._own] if sound else self.design,
            also=tuple(self._own),
        )

    @cached_property
    def _own(self) -> dict[str, Param]:
        """The parameters that only particles have."""
        volume = Param(
            name="cells.volume", value=self.body.volumes(), unit="m^3", lower=0.0, upper=np.inf
        )
        rubs = [
            Param(
                name=f"contact{k}.friction",
                value=np.array([contact.friction]),
                unit="-",
                lower=0.0,
                upper=np.inf,
                lower_included=True,
            )
            for k, contact in enumerate(self.robot.contacts)
        ]
        return {param.name: param for param in (volume, *rubs)}

    @cached_property
    def params(self) -> Params:
        theirs = {block.name: block for block in self.variables.params.blocks}
        return Params(blocks=tuple({**theirs, **self._own}[name] for name in self.design))

    def numbers(self, p: Array | None) -> Numbers:
        """Fields, masses and frictions for a parameter vector (None: as described)."""
        if p is None or not self.design:
            self.params.split(p)
            return self._default_numbers
        values = self.params.split(p)
        fields = self.variables.fields(
            np.concatenate(
                [np.zeros(0), *(values[block.name] for block in self.variables.params.blocks)]
            )
        )
        friction = [
            values.get(f"contact{k}.friction", [contact.friction])[0]
            for k, contact in enumerate(self.robot.contacts)
        ]
        return Numbers(
            fields=fields,
            cloud=self._cast(self.body.cloud(fields, values.get("cells.volume"))),
            friction=np.array(friction),
        )

    @cached_property
    def _default_numbers(self) -> Numbers:
        friction = np.array([contact.friction for contact in self.robot.contacts])
        return Numbers(
            fields=self.body.fields,
            cloud=self._cast(self.body.cloud(self.body.fields)),
            friction=friction,
        )

    def _cast(self, cloud: Cloud) -> Cloud:
        return Cloud(
            *(part.astype(self.precision) if part.dtype == float else part for part in cloud)
        )

    # Attachments

    @cached_property
    def stresses(self) -> list[tuple[tuple[Array, Array], slice]]:
        """(particles, second Piola stress per unit of control) of each actuator that acts by
        stress, with its control."""
        made = of_actuators(
            self.robot,
            lambda actuator: (
                actuator.stress(self.body) if isinstance(actuator, Stressing) else None
            ),
        )
        return [(stress, part) for stress, part in made if stress is not None]

    @cached_property
    def pulls(self) -> list[Pull | CablePull]:
        return pulls_of(self.robot, self.body)

    @cached_property
    def load(self) -> Array:
        """(n_dofs,) [N] what the loads pull with."""
        if any(load.timed for load in self.robot.loads):
            raise InputError(
                f"A load of {self.robot.name} changes in time, which particles do not know; give "
                "it a fixed value, or take ImplicitEuler."
            )
        return sum((load.on(self.body) for load in self.robot.loads), np.zeros(self.space.n_dofs))

    @cached_property
    def boundaries(self) -> Boundaries:
        return Boundaries(robot=self.robot, body=self.body, cell=self.cell)

    @cached_property
    def rules(self) -> Rules:
        gravity = np.zeros(3)
        if self.robot.gravity is not None:
            gravity[: self.dim] = finite_array("Gravity", self.robot.gravity, (self.dim,), "m/s^2")
        tau = self.dt / self.substeps
        return Rules(
            self.dim,
            self.cell,
            tau,
            float(self.robot.damping.stiffness),
            1.0 / (1.0 + tau * self.robot.damping.mass),
            *gravity.tolist(),
        )

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The state one control step on, `substeps` substeps."""
        u, x = check_controls(u, self.n_controls), check_state(x, self.space.size)
        check_index(k)
        numbers = self.numbers(p)
        if p is not None and self.rules.tau > STABLE * (
            wave := stable_substep(numbers.fields, self.cell, self.rules.viscosity)
        ):
            return Step(
                x,
                _failed(
                    f"With these parameters a wave crosses a cell in {wave:.3g} s, a substep has "
                    f"{self.rules.tau:.3g} s; take "
                    f"substeps={int(np.ceil(self.dt / (CAREFUL * wave)))}."
                ),
            )
        self._box(
            x, 0
        )  # a state that is not one body is a wrong input; what follows from it is a failed step
        way = np.abs(self.space.velocity(x)).reshape(-1, self.dim).max(axis=0) * self.dt / self.cell
        margin = MARGIN + np.ceil(np.minimum(1.5 * way, self.substeps)).astype(
            int
        )  # no sound motion goes over a cell in a substep
        most = np.minimum(MARGIN + self.substeps, np.maximum(FAR, 4 * margin))
        while True:
            try:
                sweep = Substeps(model=self, numbers=numbers, u=u, box=self._box(x, margin))
            except InputError as error:
                return Step(x, _failed(str(error)))
            new, failed = run(sweep.forward, self.body.n_particles, x)
            if failed != LEFT or np.all(margin >= most):
                break
            margin = np.minimum(4 * margin, most)
        if failed == LEFT:
            failed = (
                f"A particle goes more than {margin.min()} cells in a step of {self.dt:g} s; "
                f"take a smaller dt, smaller controls or more than {self.substeps} substeps."
            )
        if failed:
            return Step(x, _failed(failed))
        return Step(
            new,
            self._verdict(new),
            Tape(owner=self, x=x, u=u.copy(), numbers=numbers, box=sweep.box),
        )

    def _box(self, x: Array, margin: Array | int) -> Box:
        """The grid about the particles, so many cells wider along each axis; corners on every
        fourth node, so that it changes seldom."""
        index = np.floor(self.space.position(x).reshape(-1, self.dim) / self.cell - 0.5)
        first = 4 * np.floor((index.min(axis=0) - margin) / 4.0)
        last = 4 * np.ceil((index.max(axis=0) + 3 + margin) / 4.0)
        if not np.all(np.abs(index) < 2**40):
            raise InputError(
                f"A particle is {np.abs(index).max() * self.cell:.3g} m from the origin, too far "
                f"for cells of {self.cell:g} m; move the body nearer."
            )
        if np.prod(last - first) > 2e8:
            raise InputError(
                "The particles and where they may go in a step spread over "
                f"{np.prod(last - first):.3g} grid cells of {self.cell:g} m; the cell is far too "
                "small, they are too fast, or are not one body."
            )
        o, n = first.astype(int).tolist(), (last - first).astype(int).tolist()
        return Box(*o, *n) if self.dim == 3 else Box(o[0], o[1], 0, n[0], n[1], 1)

    def _verdict(self, x: Array) -> Status:
        """Is the new state sound?"""
        parts, n, d = self.space.split(x), self.body.n_particles, self.dim
        place = parts.position.reshape(n, d)
        fast = float(np.abs(parts.velocity).max()) * self.rules.tau / self.cell
        if fast > 1.0:
            return _failed(
                f"A particle crosses {fast:.2g} cells in a substep; take "
                f"substeps={int(2 * fast * self.substeps)} or more, or smaller controls."
            )
        J, p, gap, which = soundness(place, parts.deformation.reshape(n, d * d), self.body.bonds)
        if J <= 0.0:
            return _failed(
                f"Particle {p}, at {place[p].round(4)} m, was turned inside out; take more "
                "substeps, smaller controls or a stiffer material."
            )
        if gap > TORN * self.cell:
            a, b = self.body.bonds[which]
            return _failed(
                f"The body tears numerically: particles {a} and {b} were neighbours and are "
                f"{gap / self.cell:.2g} cells apart, so that the grid hardly joins them; take a "
                "larger cell, or stretch it less."
            )
        return Status(text="done", iterations=self.substeps)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """The transposed derivative of a step applied to x_bar: its shares for x, u and p."""
        check_step(step, self)
        t: Tape = step.tape
        bar = finite_array("x_bar", x_bar, (self.space.size,))
        sweep = Substeps(model=self, numbers=t.numbers, u=t.u, box=t.box)
        return run(sweep.back, self.body.n_particles, t.x, bar)

    def peak_bytes(self, step: Step) -> int:
        """[bytes] a bound on what states, grids and gradient hold at a time when `pullback` goes
        back over a step."""
        check_step(step, self)
        t: Tape = step.tape
        substeps = Substeps(model=self, numbers=t.numbers, u=t.u, box=t.box)
        return substeps.schedule(substeps.gradient(np.zeros(self.space.size)))[1]

    def schedule(self, tape: int, state: int, always: int) -> Schedule:
        """How the substeps of a step are gone back over, for the sizes [bytes] of a taped substep,
        a state and what is always held."""
        if self.memory is None:
            return even_schedule(self.substeps)
        if self.memory < always + tape:
            raise InputError(
                f"Going back over a step may take {self.memory:g} bytes, but with one substep "
                f"held it takes {always + tape}; give memory={always + tape} or more."
            )
        return best_schedule(self.substeps, float(self.memory) - always, state, tape)

    def collect(
        self, numbers: Numbers, mass: Array, volume: Array, E: Array, nu: Array, friction: Array
    ) -> Array:
        """(n_params,) the gradient by the parameters from that by the particles' numbers."""
        fields, cloud = numbers.fields, numbers.cloud
        blocks = self.variables.params.blocks
        ends = np.cumsum([block.value.size for block in blocks])
        pieces = np.split(self.variables.collect(E, nu, mass * cloud.volume), ends)
        found = {block.name: piece for block, piece in zip(blocks, pieces, strict=False)}
        found["cells.volume"] = volume + fields.density * mass
        found |= {f"contact{k}.friction": friction[k : k + 1] for k in range(len(friction))}
        return np.concatenate([np.zeros(0), *(found[name] for name in self.design)])


def _failed(text: str) -> Status:
    return Status(ok=False, text=text)


def MaterialPoint(
    robot: Robot,
    *,
    dt: float,
    cell: float,
    substeps: int | None = None,
    per_cell: int = 2,
    seeding: str = "lattice",
    rng_seed: int = 0,
    design: Sequence[str] = (),
    memory: float | None = None,
    precision: str = "float64",
) -> MaterialPoints:
    """A robot as particles, `per_cell` along each edge of a grid cell [m], stepped explicitly
    (paper 004). A control step dt [s] has as many substeps as the wave speed asks for, or as given.
    `memory` [bytes] bounds what going back over a step holds; with "float32" states take half of
    it."""
    require_kind("The robot", robot, Robot, "make one with pliant.Robot(...)")
    h, width = check_dt(dt), require_positive("The grid's cell", cell, "m")
    if not is_whole(per_cell) or per_cell < 1:
        raise InputError(
            f"There are {quoted(per_cell)} particles along a cell; take 2, or 3 for a body that "
            "stretches much."
        )
    if per_cell == 1:
        warnings.warn(
            "One particle along a cell tears when the body is stretched; take per_cell=2, or 3 "
            "where it stretches much."
        )
    if precision not in ("float32", "float64"):
        raise InputError(
            f"There is no precision '{precision}'; {nearest(precision, ('float32', 'float64'))}"
        )
    if memory is not None and not require_number("The memory", memory, "bytes") > 0.0:
        raise InputError(
            f"The memory for going back over a step is {memory} bytes; give a positive number, "
            "or None."
        )
    mesh = robot.mesh()
    if width > (size := float(np.ptp(mesh.points, axis=0).max())):
        raise InputError(
            f"The grid's cell is {width:g} m, but the whole body is {size:g} m long; take a "
            "quarter of its thinnest part."
        )
    if not is_whole(rng_seed) or rng_seed < 0:
        raise InputError(
            f"The seed of the jitter is {quoted(rng_seed)}; it must be a whole number of 0 or more."
        )
    body = Particles(
        mesh=mesh,
        seeds=seed(mesh, spacing=width / per_cell, how=seeding, rng_seed=rng_seed),
        materials=robot.materials_by_region(),
        thickness=robot.thickness,
        snap=robot.snap,
    )
    thick = 2.0 * float(body.volumes().sum() / body.patch(None, even=True).sum())  # of a slab
    if width > 1.5 * thick:  # a rod is twice as thick as a slab of its volume and surface
        warnings.warn(
            f"The grid's cell is {width:g} m and the body about {thick:.2g} m thick, so that it "
            "cannot bend well; take a quarter of its thickness."
        )
    return MaterialPoints(
        robot=robot,
        body=body,
        dt=h,
        cell=width,
        substeps=_checked_substeps(robot, body, h, width, substeps),
        design=design,
        memory=memory,
        precision=precision,
    )


def stable_substep(fields: Fields, cell: float, viscosity: float) -> float:
    """[s] in which the fastest pressure wave crosses a cell (paper 004 section 3.7; its modulus is
    lam + 2 mu, and 2 bulk more where the power is 2), less what viscosity [s] takes from it."""
    speed = _wave_speed(fields)
    damped = viscosity * speed / cell
    return cell / speed * (np.sqrt(1.0 + damped**2) - damped)


def _wave_speed(fields: Fields) -> float:
    """[m/s] of the fastest pressure wave."""
    m = fields.moduli
    modulus = m[:, 1] + 2.0 * m[:, 0] + 2.0 * m[:, 2] * (fields.power == 2)
    return float(np.sqrt(modulus / fields.density).max())


def _checked_substeps(
    robot: Robot, body: Particles, dt: float, cell: float, substeps: int | None
) -> int:
    swing = frequency(pulls_of(robot, body), robot, body, cell)

    def stable(viscosity: float) -> float:
        wave = stable_substep(body.fields, cell, viscosity)
        # an explicit substep holds a swing of 2 / frequency
        return 1.0 / np.sqrt(1.0 / wave**2 + swing**2 / 4.0)

    def count(viscosity: float) -> int:
        return max(1, int(np.ceil(dt / (CAREFUL * stable(viscosity)))))

    damping = robot.damping.stiffness
    least, undamped = count(damping), count(0.0)
    if substeps is None:
        if least > COSTLY * undamped:
            cheap = 0.75 * cell / _wave_speed(body.fields)  # doubles them: sqrt(1 + d^2) - d = 1/2
            warnings.warn(
                f"The stiffness damping of {damping:g} s takes {least} substeps a step, in place "
                f"of {undamped} without it, because particles are stepped explicitly. Use "
                f"Damping(mass=...), or a stiffness of at most {cheap:.1g} s, which takes about "
                f"{2 * undamped}."
            )
        return least
    if not is_whole(substeps) or substeps < 1:
        raise InputError(
            f"The number of substeps is {quoted(substeps)}; it must be a whole number of 1 or more."
        )
    if dt / substeps > STABLE * stable(damping):
        wave = stable_substep(body.fields, cell, damping)
        springs = f" and the actuators swing in {2.0 * np.pi / swing:.3g} s" if swing > 0.0 else ""
        raise InputError(
            f"A substep of {dt / substeps:.3g} s is not stable: a wave crosses a cell of "
            f"{cell:g} m in {wave:.3g} s{springs}. Take substeps={least}, that is "
            f"{dt / least:.3g} s each."
        )
    return substeps
