"""Compiled loops over the substeps of the updated transfer and over their adjoint, and the memory
that they write to."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pliant.core import Array
from pliant.mpm.grid import (
    Bins,
    BoundaryConditions,
    GridBox,
    clear,
    empty_bins,
    sort_particles,
    update_grid,
    update_grid_vjp,
)
from pliant.mpm.transfer import compiled_transfers

IN_PLANE, IN_SPACE = compiled_transfers(2), compiled_transfers(3)


class SubstepTapes(NamedTuple):
    """What the adjoint of substeps needs. Substep s reads state s modulo the number of states,
    writes the next one, and uses grid s modulo the number of grids: with one state and one grid, it
    replaces its start."""

    position: Array  # (n_states, n, dim) [m]
    velocity: Array  # (n_states, n, dim) [m/s]
    affine: Array  # (n_states, n, dim^2) [1/s]
    deformation: Array  # (n_states, n, dim^2)
    grid: Array  # (n_grids, n_nodes, 4) velocities and masses after the boundary conditions
    before: Array  # (n_grids, n_conditioned_nodes, 3) velocities before them
    order: Array  # (n_grids, ...) the four arrays of `Bins`
    start: Array
    cuts: Array
    reach: Array

    def state(self, index: int) -> list[Array]:
        """Return position, velocity, affine field and F of a state, a row for each particle."""
        return [part[index] for part in self[:4]]

    def first(self, count: int) -> "SubstepTapes":
        """Return the memory of the first `count` substeps and of the state after them."""
        states, others = self[:4], self[4:]
        return SubstepTapes(*(p[: count + 1] for p in states), *(p[:count] for p in others))


class SubstepLoops(NamedTuple):
    """The compiled loops of one dimension."""

    advance: Any
    adjoint: Any


@dataclass(frozen=True, kw_only=True)
class TapeLayout:
    """The sizes of the tapes of `count` substeps and of the state after them; for zero substeps,
    of one state and one grid."""

    count: int
    dim: int
    particles: int
    box: GridBox
    conditions: BoundaryConditions
    precision: str

    def _shapes(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Return type and shape of each array of SubstepTapes."""
        states, grids = (self.count + 1, self.particles), max(self.count, 1)
        nodes = self.box.nx * self.box.ny * self.box.nz
        widths = (self.dim, self.dim, self.dim**2, self.dim**2)
        floats = [(*states, width) for width in widths]
        floats += [(grids, nodes, 4), (grids, len(self.conditions.node), 3)]
        bins = [(grids, *part.shape) for part in empty_bins(self.particles, self.box)]
        return [(self.precision, one) for one in floats] + [(np.int64, one) for one in bins]

    @property
    def n_bytes(self) -> int:
        return sum(_n_bytes(kind, shape) for kind, shape in self._shapes())

    def tapes(self, block: Array) -> SubstepTapes:
        """Return the tapes in a block of `n_bytes` bytes or more."""
        parts, at = [], 0
        for kind, shape in self._shapes():
            size = np.dtype(kind).itemsize * int(np.prod(shape))
            parts.append(block[at : at + size].view(kind).reshape(shape))
            at += _n_bytes(kind, shape)
        return SubstepTapes(*parts)


def _n_bytes(kind: Any, shape: tuple[int, ...]) -> int:
    """Return the size of an array in a block, in whole numbers of eight bytes."""
    return 8 * -(-np.dtype(kind).itemsize * int(np.prod(shape)) // 8)


class Bars(NamedTuple):
    """The gradients that the adjoint of substeps changes."""

    position: Array  # by the current state, as in SubstepTapes
    velocity: Array
    affine: Array
    deformation: Array
    friction: Array  # (n_conditions,)
    planes: Array  # (nx, 4) of each plane of nodes: by gravity's velocity, by the log of the decay
    active_stress: Array  # by the rows of the actuators' stress
    force: Array  # (n, dim) by the forces of the last substep; may be empty
    mass: Array  # (n,); this and the following may be empty
    volume: Array
    E: Array
    nu: Array
    viscosity: Array  # (n,) by the stiffness damping, from each particle


@cache
def compiled_loops(dim: int) -> SubstepLoops:
    """Return the loops compiled for a dimension, a compile-time constant."""

    @njit(error_model="numpy", cache=True)
    def advance(
        parameters: Any,
        particles: Any,
        box: Any,
        conditions: Any,
        tapes: Any,
        active_stress: Any,
        force: Any,
        first: Any,
        last: Any,
    ) -> Any:
        """Simulate the substeps from first to last. Return the number of the one in which a
        particle leaves the grid, or `last`."""
        if dim == 2:
            transfers = IN_PLANE
        else:
            transfers = IN_SPACE
        n_states, n_grids, inv_h = len(tapes.position), len(tapes.grid), 1.0 / parameters.h
        for s in range(first, last):
            i, j, g = s % n_states, (s + 1) % n_states, s % n_grids
            bins, grid = bins_of(tapes, g), tapes.grid[g]
            x, v, C, F = state_of(tapes, i)
            if not sort_particles(x, box, dim, inv_h, bins):
                return s
            clear(grid, box, bins)
            transfers.to_grid(
                parameters, particles, box, bins, grid, x, v, C, F, active_stress, force
            )
            update_grid(parameters, box, bins, conditions, grid, tapes.before[g])
            new_x, new_v, new_C, new_F = state_of(tapes, j)
            transfers.to_particles(parameters, box, bins, grid, x, F, new_x, new_v, new_C, new_F)
        return last

    @njit(error_model="numpy", cache=True)
    def adjoint(
        parameters: Any,
        particles: Any,
        box: Any,
        conditions: Any,
        tapes: Any,
        active_stress: Any,
        force: Any,
        first: Any,
        last: Any,
        grid_bar: Any,
        bars: Any,
    ) -> Any:
        """Apply the adjoint of the substeps before `last`, down to `first`. All are on tape."""
        if dim == 2:
            transfers = IN_PLANE
        else:
            transfers = IN_SPACE
        for back in range(last - first):
            s = last - 1 - back
            bins, grid = bins_of(tapes, s), tapes.grid[s]
            x, v, C, F = state_of(tapes, s)
            clear(grid_bar, box, bins)
            transfers.to_particles_vjp(
                parameters,
                box,
                bins,
                grid,
                grid_bar,
                x,
                F,
                bars.position,
                bars.velocity,
                bars.affine,
                bars.deformation,
            )
            update_grid_vjp(
                parameters,
                box,
                bins,
                conditions,
                grid,
                tapes.before[s],
                grid_bar,
                bars.friction,
                bars.planes,
            )
            transfers.to_grid_vjp(
                parameters,
                particles,
                box,
                bins,
                grid_bar,
                x,
                v,
                C,
                F,
                active_stress,
                force,
                bars.position,
                bars.velocity,
                bars.affine,
                bars.deformation,
                bars.active_stress,
                bars.force,
                bars.mass,
                bars.volume,
                bars.E,
                bars.nu,
                bars.viscosity,
            )

    return SubstepLoops(advance, adjoint)


@njit(error_model="numpy", cache=True)
def bins_of(tapes: Any, g: Any) -> Any:
    return Bins(tapes.order[g], tapes.start[g], tapes.cuts[g], tapes.reach[g])


@njit(error_model="numpy", cache=True)
def state_of(tapes: Any, s: Any) -> Any:
    return tapes.position[s], tapes.velocity[s], tapes.affine[s], tapes.deformation[s]
