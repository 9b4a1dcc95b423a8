"""The substeps of one control step of the material point method, forth and back, on one grid."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pliant.bodies import Fields
from pliant.bodies.grid import Box, Cloud, Walls, bins_for, clear, move_grid, move_grid_back, sort
from pliant.bodies.transfer import compiled
from pliant.core import Array
from pliant.dynamics.schedule import Schedule, reverse

if TYPE_CHECKING:
    from pliant.dynamics.material_point import MaterialPoints

LEFT = "a particle left the grid"


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """What the parameters decide."""

    fields: Fields
    cloud: Cloud
    friction: Array  # (n_contacts,)


@dataclass(kw_only=True)
class Substeps:
    """The substeps of one control step, forth and back, on one grid."""

    model: "MaterialPoints"
    numbers: Numbers
    u: Array
    box: Box

    def __post_init__(self) -> None:
        model, box = self.model, self.box
        self.rules, self.loops, self.cloud = model.rules, compiled(model.dim), self.numbers.cloud
        self.walls: Walls = model.boundaries.on(box, self.numbers.friction)
        self.bins = bins_for(model.body.n_particles, box)
        self.taped: list[Taped] = []
        self.act, self.load = (
            self._stress(),
            model.load.reshape(-1, model.dim).astype(model.precision),
        )
        self.forced = bool(model.pulls) or bool(self.load.any())

    def _stress(self) -> Array:
        """(n, dim^2) [Pa] the actuators' stress in the material frame, or nothing."""
        model = self.model
        out = np.zeros(
            (model.body.n_particles if model.stresses else 0, model.dim**2), model.precision
        )
        for (particles, S), part in model.stresses:
            out[particles] += self.u[part][0] * S.ravel()
        return out

    def _force(self, position: Array) -> Array:
        """(n, dim) [N] cables and loads on the particles, or nothing."""
        model = self.model
        if not self.forced:
            return np.zeros((0, model.dim), model.precision)
        out = self.load.copy()
        for pull in model.pulls:
            pull.add_force(position, self.u, out)
        return out

    def arrays(self, x: Array) -> list[Array]:
        """Position, velocity, affine field and F as tables, copied."""
        space, n = self.model.space, self.model.body.n_particles
        return [
            part.astype(self.model.precision).reshape(n, -1)
            for part in np.split(np.asarray(x), space.starts[1:-1])
        ]

    def _substep(self, state: list[Array], grid: Array, before: Array) -> str:
        """Advance a state in place; what went wrong, or nothing. The grid is left as the particles
        saw it."""
        rules, box, bins = self.rules, self.box, self.bins
        if not sort(state[0], box, rules.dim, 1.0 / rules.h, bins):
            return LEFT if np.all(np.isfinite(state[0])) else "blew up"
        clear(grid, box, bins)
        self.loops.to_grid(
            rules, self.cloud, box, bins, grid, *state, self.act, self._force(state[0])
        )
        move_grid(rules, box, bins, self.walls, grid, before)
        self.loops.to_particles(rules, box, bins, grid, *state)
        return ""

    def empty_grid(self) -> tuple[Array, Array]:
        box = self.box
        return np.zeros((box.nx * box.ny * box.nz, 4), self.model.precision), np.zeros(
            (len(self.walls.node), 3), self.model.precision
        )

    def forward(self, x: Array) -> tuple[Array, str]:
        """The state after all substeps, or why there is none."""
        state, (grid, before) = self.arrays(x), self.empty_grid()
        for s in range(self.model.substeps):
            failed = self._substep(state, grid, before)
            if failed:
                return x, failed if failed == LEFT else self._blown(s)
        new = np.concatenate([part.ravel() for part in state], dtype=float)
        return (new, "") if np.all(np.isfinite(new)) else (x, self._blown(self.model.substeps - 1))

    def _blown(self, substep: int) -> str:
        most = self.model.substeps
        return (
            f"The motion blew up by substep {substep + 1} of {most}: a particle's state is not "
            "finite, because it was compressed to nothing or the substep is too long; take "
            f"substeps={2 * most}, or smaller controls."
        )

    def back(self, x: Array, x_bar: Array) -> tuple[Array, Array, Array]:
        """The shares of x_bar for the state that the step began with, the controls and the
        parameters."""
        model, start, out = self.model, self.arrays(x), self.gradient(x_bar)
        scratch, before = self.empty_grid()
        grid_bar = np.zeros_like(scratch)

        def go(k: int, goal: int, state: list[Array]) -> list[Array]:
            state = [part.copy() for part in state]
            for _ in range(k, goal):
                self._substep(state, scratch, before)
            return state

        def pull(k: int, end: int, state: list[Array], states_kept: int) -> None:
            self.go_back(self.keep(state, end - k), grid_bar, out)

        reverse(model.substeps, self.schedule(out)[0], start, go, pull)
        return out.state(), self._by_controls(out), self._by_params(out)

    def schedule(self, out: "Gradient") -> tuple[Schedule, int]:
        """How to go back over the substeps, and a bound [bytes] on what states, grids and gradient
        then hold at a time."""
        model, bytes_each = self.model, np.dtype(self.model.precision).itemsize
        size, grid = (
            bytes_each * model.space.size,
            bytes_each * 4 * self.box.nx * self.box.ny * self.box.nz,
        )
        tape = size + grid + bytes_each * 3 * len(self.walls.node)
        always = (
            out.nbytes + tape + grid + 2 * size
        )  # the first state, the one that goes on and the one it went on from; two grids
        schedule = model.schedule(tape, size, always)
        return schedule, always + schedule.slots * size + schedule.tapes * tape

    def gradient(self, x_bar: Array) -> "Gradient":
        """Nothing yet but what the state after the step gives."""
        n, named = (
            self.model.body.n_particles,
            any(name.endswith((".E", ".nu")) for name in self.model.design),
        )
        zeros = [np.zeros(n), np.zeros(n), np.zeros(n * named), np.zeros(n * named)]
        return Gradient(
            bars=self.arrays(x_bar),
            numbers=zeros,
            friction=np.zeros(len(self.walls.kind)),
            act=np.zeros_like(self.act),
            controls=np.zeros(self.model.n_controls),
        )

    def keep(self, state: list[Array], count: int) -> list["Taped"]:
        """The state before each of some substeps and the grid of each, in place of what was kept
        before."""
        state = [part.copy() for part in state]
        self.taped += [
            Taped(state=[np.empty_like(part) for part in state], grid=grid, before=before)
            for grid, before in (self.empty_grid() for _ in range(count - len(self.taped)))
        ]
        for tape in self.taped[:count]:
            for mine, part in zip(tape.state, state, strict=True):
                mine[...] = part
            self._substep(state, tape.grid, tape.before)
        return self.taped[:count]

    def go_back(self, taped: list["Taped"], grid_bar: Array, out: "Gradient") -> None:
        """Go back over kept substeps."""
        for substep in reversed(taped):
            self._substep_back(substep, grid_bar, out)

    def _by_controls(self, out: "Gradient") -> Array:
        for (particles, S), part in self.model.stresses:
            out.controls[part] += float(np.sum(out.act[particles] @ S.ravel()))
        return out.controls

    def _by_params(self, out: "Gradient") -> Array:
        model, n = self.model, self.model.body.n_particles
        by_contact = np.bincount(
            self.walls.owner + 1, out.friction, minlength=len(model.robot.contacts) + 1
        )[1:]
        mass, volume, E, nu = out.numbers
        return model.collect(
            self.numbers,
            mass,
            volume,
            E if len(E) else np.zeros(n),
            nu if len(nu) else np.zeros(n),
            by_contact,
        )

    def _substep_back(self, taped: "Taped", grid_bar: Array, out: "Gradient") -> None:
        rules, box, bins = self.rules, self.box, self.bins
        pos, vel, affine, F = taped.state
        sort(pos, box, rules.dim, 1.0 / rules.h, bins)
        clear(grid_bar, box, bins)
        self.loops.to_particles_back(rules, box, bins, taped.grid, grid_bar, pos, F, *out.bars)
        move_grid_back(
            rules, box, bins, self.walls, taped.grid, taped.before, grid_bar, out.friction
        )
        force = self._force(pos)
        bar = np.zeros_like(force)
        self.loops.to_grid_back(
            rules,
            self.cloud,
            box,
            bins,
            grid_bar,
            pos,
            vel,
            affine,
            F,
            self.act,
            force,
            *out.bars,
            out.act,
            bar,
            *out.numbers,
        )
        for pull in self.model.pulls:
            out.controls[pull.part] += pull.add_back(pos, self.u, bar, out.bars[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Taped:
    """A substep to go back over: the state before it, the grid as the particles saw it, and what
    the walls' nodes had."""

    state: list[Array]
    grid: Array
    before: Array


@dataclass(kw_only=True)
class Gradient:
    """What is gathered on the way back."""

    bars: list[
        Array
    ]  # by position, velocity, affine field and F, of the state where the way back stands
    numbers: list[Array]  # by mass, volume, E and nu of each particle; the last two may be empty
    friction: Array  # (n_conditions,)
    act: Array  # (n, dim^2) by the actuators' stress
    controls: Array  # (n_controls,)

    @property
    def nbytes(self) -> int:
        return sum(
            part.nbytes
            for part in (*self.bars, *self.numbers, self.friction, self.act, self.controls)
        )

    def state(self) -> Array:
        return np.concatenate([part.ravel() for part in self.bars], dtype=float)
