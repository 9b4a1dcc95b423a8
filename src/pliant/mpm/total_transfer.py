"""Compiled loops of the total Lagrangian transfer: internal forces of particles on the nodes of a
grid in the rest shape, and their hand-written adjoint.

The splines belong to the rest shape, so weights and order of the particles never change. With the
second moment h^2/4 of a quadratic spline, the gradient of a field a at a particle is
4/h^2 sum_i w_i a_i (X_i - X_p)^T. Particles of one colour share no node, as in grid.py. In 2D,
matrices are 3 x 3 with the identity out of plane.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import FAST, add, det, dot, mm, mtm, scale, sym
from pliant.kernels.simd import vector4
from pliant.materials import laws
from pliant.mpm.grid import matrix, put_matrix, vector
from pliant.mpm.transfer import (
    gather,
    matrix_column,
    matrix_from_columns,
    rotation_for_law,
    spread,
)


class ReferenceArrays(NamedTuple):
    """The constant data of the particles, in the order of the loops, and of the nodes."""

    first: Array  # (n,) row of the first of the nodes around each particle
    at: Array  # (n, 3) position of each particle from there [cells]
    node_row: Array  # (n_nodes,) row of each free node
    follower_row: Array  # (m,) row of each node that follows free nodes
    # the weights of free nodes in each follower, as rows of a sparse matrix (m, n_nodes)
    start: Array  # (m + 1,)
    node: Array
    weight: Array
    # and of its transpose; `follower` holds rows of the grid
    back_start: Array  # (n_nodes + 1,)
    follower: Array
    back_weight: Array


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def expand(reference: Any, field: Any, grid: Any) -> Any:
    """Write a field (n_nodes, dim) of the free nodes, and its extrapolation to the nodes that
    follow them, to the grid."""
    dim = field.shape[1]
    for a in prange(len(reference.node_row)):
        for i in range(dim):
            grid[reference.node_row[a], i] = field[a, i]
    for s in prange(len(reference.follower_row)):
        r = reference.follower_row[s]
        for i in range(dim):
            value = 0.0
            for e in range(reference.start[s], reference.start[s + 1]):
                value += reference.weight[e] * field[reference.node[e], i]
            grid[r, i] = value


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def clear_rows(reference: Any, grid: Any) -> Any:
    """Set all nodes that a particle reaches to zero."""
    for a in prange(len(reference.node_row)):
        grid[reference.node_row[a]] = 0.0
    for s in prange(len(reference.follower_row)):
        grid[reference.follower_row[s]] = 0.0


@njit(error_model="numpy", cache=True, fastmath=FAST)
def reduced(reference: Any, grid: Any, a: Any, i: Any) -> Any:
    """Return component i of a force on the grid at a free node, with the shares of the nodes that
    follow it."""
    value = np.float64(grid[reference.node_row[a], i])
    for e in range(reference.back_start[a], reference.back_start[a + 1]):
        value += reference.back_weight[e] * grid[reference.follower[e], i]
    return value


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def add_reduced(reference: Any, grid: Any, field: Any) -> Any:
    """Add the transpose of `expand` to a field (n_nodes, dim)."""
    for a in prange(len(field)):
        for i in range(field.shape[1]):
            field[a, i] += reduced(reference, grid, a, i)


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def accelerate(
    parameters: Any, reference: Any, mass: Any, force: Any, external: Any, velocity: Any
) -> Any:
    """Update the velocities (n_nodes, dim) by the forces on the grid, external forces (n_nodes,
    dim) [N], gravity and damping."""
    gravity = (parameters.gx, parameters.gy, parameters.gz)
    for a in prange(len(velocity)):
        for i in range(velocity.shape[1]):
            f = reduced(reference, force, a, i)
            if len(external) > 0:
                f += external[a, i]
            velocity[a, i] = parameters.decay * (
                velocity[a, i] + parameters.tau * (f / mass[a] + gravity[i])
            )


@njit(error_model="numpy", cache=True, forceinline=True)
def gradient_at(grid: Any, box: Any, r: Any, h: Any, at: Any, dim: Any) -> Any:
    """Return the gradient of a field on the grid at a particle."""
    _, X, Y, Z = gather(grid, box, r, h, at, dim)
    return scale(4.0 / (h * h), matrix_from_columns(X, Y, Z))


@njit(error_model="numpy", cache=True, forceinline=True)
def add_gradient_transpose(grid: Any, box: Any, r: Any, h: Any, at: Any, dim: Any, A: Any) -> Any:
    """Add the transpose of `gradient_at`, applied to a matrix A, to the grid."""
    G = scale(4.0 / (h * h), A)
    none = vector4(0.0, 0.0, 0.0, 0.0)
    spread(
        grid,
        box,
        r,
        h,
        at,
        dim,
        none,
        matrix_column(G, 0),
        matrix_column(G, 1),
        matrix_column(G, 2),
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def with_identity(A: Any) -> Any:
    """Return A + I."""
    return (A[0] + 1.0, A[1], A[2], A[3], A[4] + 1.0, A[5], A[6], A[7], A[8] + 1.0)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_rate_stress(moduli: Any, viscosity: Any, F: Any, rate: Any) -> Any:
    """Return the second Piola-Kirchhoff stress [Pa] of the rate of the Green strain."""
    return scale(viscosity, laws.hooke(moduli[0], moduli[1], sym(mtm(F, rate))))


class TotalTransfers(NamedTuple):
    """The compiled loops of one dimension."""

    forces: Any
    forces_vjp: Any
    volume_ratios: Any


@cache
def compiled_total_transfers(dim: int) -> TotalTransfers:
    """Return the loops compiled for a dimension, a compile-time constant."""

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def forces(
        parameters: Any,
        particles: Any,
        reference: Any,
        box: Any,
        cuts: Any,
        displacement: Any,
        velocity: Any,
        active_stress: Any,
        force: Any,
    ) -> Any:
        """Add the internal forces to a cleared grid."""
        h, viscous = parameters.h, parameters.viscosity > 0.0
        for colour in range(2):
            for g in prange(cuts.shape[1] - 1):
                for t in range(cuts[colour, g], cuts[colour, g + 1]):
                    p = np.uintp(t)
                    r, at = reference.first[p], vector(reference.at, p, 3)
                    law, mod = particles.law[p], vector(particles.moduli, p, 3)
                    F = with_identity(gradient_at(displacement, box, r, h, at, dim))
                    R = rotation_for_law(law, F, dim)
                    P = laws.stress(law, F, R, mod, particles.power[p])
                    if particles.stress_row[p] >= 0:
                        row = np.uintp(particles.stress_row[p])
                        P = add(P, mm(F, matrix(active_stress, row, dim, 0.0)))
                    if viscous:
                        rate = gradient_at(velocity, box, r, h, at, dim)
                        S = viscous_rate_stress(mod, parameters.viscosity, F, rate)
                        P = add(P, mm(F, S))
                    add_gradient_transpose(
                        force, box, r, h, at, dim, scale(-particles.volume[p], P)
                    )

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def forces_vjp(
        parameters: Any,
        particles: Any,
        reference: Any,
        box: Any,
        cuts: Any,
        displacement: Any,
        velocity: Any,
        active_stress: Any,
        force_bar: Any,
        displacement_bar: Any,
        velocity_bar: Any,
        active_stress_bar: Any,
        volume_bar: Any,
        E_bar: Any,
        nu_bar: Any,
        viscosity_bar: Any,
    ) -> Any:
        """Add the gradient of force_bar . forces by displacements and velocities to cleared grids,
        and by the particles' data to the other arrays. E_bar and nu_bar may be empty, and so may
        viscosity_bar. velocity_bar is used if the material is viscous."""
        h, viscosity = parameters.h, parameters.viscosity
        moves = viscosity > 0.0 or len(viscosity_bar) > 0
        for colour in range(2):
            for g in prange(cuts.shape[1] - 1):
                for t in range(cuts[colour, g], cuts[colour, g + 1]):
                    p = np.uintp(t)
                    r, at = reference.first[p], vector(reference.at, p, 3)
                    law, mod = particles.law[p], vector(particles.moduli, p, 3)
                    power = particles.power[p]
                    F = with_identity(gradient_at(displacement, box, r, h, at, dim))
                    B = gradient_at(force_bar, box, r, h, at, dim)
                    R = rotation_for_law(law, F, dim)
                    P = laws.stress(law, F, R, mod, power)
                    P_bar = scale(-particles.volume[p], B)
                    by_F = laws.differential(law, F, R, P_bar, mod, power)
                    rate = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
                    if moves:
                        rate = gradient_at(velocity, box, r, h, at, dim)
                    if particles.stress_row[p] >= 0:
                        row = np.uintp(particles.stress_row[p])
                        S = matrix(active_stress, row, dim, 0.0)
                        P, by_F = add(P, mm(F, S)), add(by_F, mm(P_bar, S))
                        S_bar = add(matrix(active_stress_bar, row, dim, 0.0), mtm(F, P_bar))
                        put_matrix(active_stress_bar, row, dim, S_bar)
                    if viscosity > 0.0:
                        S = viscous_rate_stress(mod, viscosity, F, rate)
                        S_bar = sym(mtm(F, P_bar))
                        D_bar = scale(viscosity, laws.hooke(mod[0], mod[1], S_bar))
                        P = add(P, mm(F, S))
                        by_F = add(by_F, add(mm(P_bar, S), mm(rate, D_bar)))
                        add_gradient_transpose(velocity_bar, box, r, h, at, dim, mm(F, D_bar))
                    if len(viscosity_bar) > 0:
                        unit = viscous_rate_stress(mod, 1.0, F, rate)
                        viscosity_bar[p] += dot(P_bar, mm(F, unit))
                    if len(E_bar) > 0:
                        E_bar[p] += _by_moduli(
                            law, F, R, vector(particles.by_E, p, 3), power, viscosity, rate, P_bar
                        )
                        nu_bar[p] += _by_moduli(
                            law, F, R, vector(particles.by_nu, p, 3), power, viscosity, rate, P_bar
                        )
                    volume_bar[p] -= dot(B, P)
                    add_gradient_transpose(displacement_bar, box, r, h, at, dim, by_F)

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def volume_ratios(h: Any, reference: Any, box: Any, displacement: Any, J: Any) -> Any:
        """Write the determinants of the deformation gradients to J (n,)."""
        for p in prange(len(J)):
            r, at = reference.first[p], vector(reference.at, p, 3)
            J[p] = det(with_identity(gradient_at(displacement, box, r, h, at, dim)))

    return TotalTransfers(forces, forces_vjp, volume_ratios)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _by_moduli(
    law: Any, F: Any, R: Any, slope: Any, power: Any, viscosity: Any, rate: Any, P_bar: Any
) -> Any:
    """Return the gradient of P_bar : P by a parameter with d moduli = `slope`. The stress is linear
    in the moduli."""
    P = laws.stress(law, F, R, slope, power)
    if viscosity > 0.0:
        P = add(P, mm(F, viscous_rate_stress(slope, viscosity, F, rate)))
    return dot(P_bar, P)
