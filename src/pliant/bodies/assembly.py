"""Compiled loops over the cells of a solid: energies, forces and directional derivatives.

Each cell writes its own entries. Nodes then sum them in a fixed order, so results do not depend on
the number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import (
    add,
    det,
    dot,
    mm,
    mtm,
    plane_rotation,
    rotation,
    rotation_differential,
    scale,
    sym,
)
from pliant.materials import laws

COMPLEX_STEP = 1e-30  # its square is far below round-off


class Cells(NamedTuple):
    """The arrays of a body's cells that the compiled loops read."""

    nodes: Array  # (n_cells, n_nodes)
    grads: Array  # (n_cells, n_points, n_nodes, dim) [1/m] shape gradients at the quadrature points
    weights: Array  # (n_cells, n_points) [m^3] quadrature volumes
    law: Array  # (n_cells,)
    power: Array  # (n_cells,)


class Viscosity(NamedTuple):
    """The Kelvin-Voigt viscosity of a step.

    The strain rate is `rate` times the Green strain of the new state plus `past`. The viscous
    stress is the strain rate times the viscous moduli.
    """

    rate: float  # [1/s] weight of the new step's strain in the strain rate; 0: no viscosity
    time: float  # [s] viscosity: the viscous moduli are this times (mu, lam)
    moduli: Array  # (n_cells, 2) [Pa s] viscosity times (mu, lam)
    past: Array  # (n_cells, n_points, 9) [1/s] the older steps' share of the strain rate


@njit(error_model="numpy", cache=True)
def field_gradient(q: Any, nodes: Any, grads: Any, dim: Any) -> Any:
    """Return sum_a q_a (x) grad N_a as a 3 x 3 tuple. Out-of-plane entries are zero in 2D."""
    a00 = a01 = a02 = a10 = a11 = a12 = a20 = a21 = a22 = 0.0
    for a in range(len(nodes)):
        k = nodes[a] * dim
        gx, gy = grads[a, 0], grads[a, 1]
        x, y = q[k], q[k + 1]
        a00 += x * gx
        a01 += x * gy
        a10 += y * gx
        a11 += y * gy
        if dim == 3:
            gz, z = grads[a, 2], q[k + 2]
            a02 += x * gz
            a12 += y * gz
            a20 += z * gx
            a21 += z * gy
            a22 += z * gz
    return (a00, a01, a02, a10, a11, a12, a20, a21, a22)


@njit(error_model="numpy", cache=True)
def deformation_gradient(q: Any, nodes: Any, grads: Any, dim: Any) -> Any:
    """Return the deformation gradient F. A 2D body is in plane strain."""
    A = field_gradient(q, nodes, grads, dim)
    return A if dim == 3 else (A[0], A[1], 0.0, A[3], A[4], 0.0, 0.0, 0.0, 1.0)


@njit(error_model="numpy", cache=True)
def rotation_if_needed(law: Any, F: Any, dim: Any) -> Any:
    """Return the rotation of F for corotated laws; other laws ignore the result."""
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True)
def cell_moduli(moduli: Any, c: Any) -> Any:
    """Return the moduli (mu, lam, bulk) [Pa] of cell c as a tuple."""
    return (moduli[c, 0], moduli[c, 1], moduli[c, 2])


@njit(error_model="numpy", cache=True)
def strain_rate(F: Any, rate: Any, past: Any) -> Any:
    """Return the Green strain rate [1/s] as a 3 x 3 tuple."""
    E = mtm(F, F)
    half = 0.5 * rate
    return (
        half * (E[0] - 1.0) + past[0],
        half * E[1] + past[1],
        half * E[2] + past[2],
        half * E[3] + past[3],
        half * (E[4] - 1.0) + past[4],
        half * E[5] + past[5],
        half * E[6] + past[6],
        half * E[7] + past[7],
        half * (E[8] - 1.0) + past[8],
    )


@njit(error_model="numpy", cache=True, parallel=True)
def cell_forces(cells: Any, moduli: Any, viscous: Any, q: Any, dim: Any) -> Any:
    """Return the energy (n_cells,) [J] of each cell and its gradient (n_cells, n_nodes, dim) [N].

    The energy is infinite for an inverted cell whose law has a barrier.
    """
    n, points = cells.weights.shape
    energy, forces = np.zeros(n), np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        law, power, m = cells.law[c], cells.power[c], cell_moduli(moduli, c)
        for g in range(points):
            F = deformation_gradient(q, cells.nodes[c], cells.grads[c, g], dim)
            R = rotation_if_needed(law, F, dim)
            psi = laws.energy(law, F, R, m, power)
            P = laws.stress(law, F, R, m, power)
            if viscous.rate > 0.0:
                E = strain_rate(F, viscous.rate, viscous.past[c, g])
                S = laws.hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], E)
                psi += 0.5 * dot(E, S) / viscous.rate
                P = add(P, mm(F, S))
            energy[c] += cells.weights[c, g] * psi
            add_nodal_forces(forces[c], cells.weights[c, g], P, cells.grads[c, g], dim)
    return energy, forces


@njit(error_model="numpy", cache=True)
def add_nodal_forces(out: Any, weight: Any, P: Any, grads: Any, dim: Any) -> Any:
    """Add weight P grad N_a to out_a."""
    for a in range(out.shape[0]):
        gx, gy = weight * grads[a, 0], weight * grads[a, 1]
        if dim == 3:
            gz = weight * grads[a, 2]
            out[a, 0] += P[0] * gx + P[1] * gy + P[2] * gz
            out[a, 1] += P[3] * gx + P[4] * gy + P[5] * gz
            out[a, 2] += P[6] * gx + P[7] * gy + P[8] * gz
        else:
            out[a, 0] += P[0] * gx + P[1] * gy
            out[a, 1] += P[3] * gx + P[4] * gy


@njit(error_model="numpy", cache=True, parallel=True)
def cell_stiffness_products(cells: Any, moduli: Any, q: Any, y: Any, dim: Any) -> Any:
    """Return the elastic stiffness of each cell times y, (n_cells, n_nodes, dim) [N]."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation_gradient(q, nodes, grads, dim)
            R = rotation_if_needed(cells.law[c], F, dim)
            dP = laws.differential(
                cells.law[c],
                F,
                R,
                field_gradient(y, nodes, grads, dim),
                cell_moduli(moduli, c),
                cells.power[c],
            )
            add_nodal_forces(out[c], cells.weights[c, g], dP, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def field_gradients(cells: Any, y: Any, dim: Any) -> Any:
    """Return the gradient (n_cells, n_points, dim, dim) of a nodal vector field by the rest
    coordinates."""
    n, points = cells.weights.shape
    out = np.empty((n, points, dim, dim))
    for c in prange(n):
        for g in range(points):
            A = field_gradient(y, cells.nodes[c], cells.grads[c, g], dim)
            for i in range(dim):
                for j in range(dim):
                    out[c, g, i, j] = A[3 * i + j]
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def viscous_products(cells: Any, moduli: Any, q: Any, level: Any, y: Any, dim: Any) -> Any:
    """Return the nodal forces (n_cells, n_nodes, dim) of the stress F(q) hooke(sym(F(level)^T grad
    y)).

    `moduli` are the viscous moduli (n_cells, 2).
    """
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            E = sym(
                mtm(field_gradient(level, nodes, grads, dim), field_gradient(y, nodes, grads, dim))
            )
            P = mm(field_gradient(q, nodes, grads, dim), laws.hooke(moduli[c, 0], moduli[c, 1], E))
            add_nodal_forces(out[c], cells.weights[c, g], P, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def cell_stiffness_derivative(cells: Any, moduli: Any, q: Any, y: Any, z: Any, dim: Any) -> Any:
    """Return the gradient (n_cells, n_nodes, dim) of y^T K(q) z by q.

    It is the complex-step derivative of the stress differential.
    """
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation_gradient(q, nodes, grads, dim)
            Y, Z = field_gradient(y, nodes, grads, dim), field_gradient(z, nodes, grads, dim)
            R = rotation_if_needed(cells.law[c], F, dim)
            dR = rotation_differential(F, R, Y) if laws.needs_rotation(cells.law[c]) else Y
            step = complex(0.0, COMPLEX_STEP)
            dP = laws.differential(
                cells.law[c],
                add(F, scale(step, Y)),
                add(R, scale(step, dR)),
                scale(complex(1.0, 0.0), Z),
                cell_moduli(moduli, c),
                cells.power[c],
            )
            add_nodal_forces(
                out[c],
                cells.weights[c, g] / COMPLEX_STEP,
                (
                    dP[0].imag,
                    dP[1].imag,
                    dP[2].imag,
                    dP[3].imag,
                    dP[4].imag,
                    dP[5].imag,
                    dP[6].imag,
                    dP[7].imag,
                    dP[8].imag,
                ),
                grads,
                dim,
            )
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_blocks(blocks: Any, start: Any, source: Any, flip: Any) -> Any:
    """Return the sum (n_pairs, dim, dim) of the cell blocks of each node pair.

    `source` fixes the order of summation; `flip` marks blocks that are transposed.
    """
    flat = blocks.reshape(-1, blocks.shape[2], blocks.shape[3])
    dim = blocks.shape[2]
    n = len(start) - 1
    out = np.zeros((n, dim, dim))
    for p in prange(n):
        for s in range(start[p], start[p + 1]):
            for i in range(dim):
                for j in range(dim):
                    out[p, i, j] += flat[source[s], j, i] if flip[s] else flat[source[s], i, j]
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_forces(forces: Any, start: Any, source: Any) -> Any:
    """Return the sum (n_nodes dim,) of the nodal forces of all cells, in the fixed order of
    `source`."""
    dim = forces.shape[2]
    flat = forces.reshape(-1, dim)
    n = len(start) - 1
    out = np.zeros(n * dim)
    for a in prange(n):
        for s in range(start[a], start[a + 1]):
            for i in range(dim):
                out[a * dim + i] += flat[source[s], i]
    return out


@njit(error_model="numpy", cache=True)
def min_jacobian_determinant(nodes: Any, grads: Any, q: Any, dim: Any) -> Any:
    """Return the smallest det F over all points and its cell."""
    worst, where = np.inf, -1
    for c in range(len(nodes)):
        for g in range(grads.shape[1]):
            J = det(deformation_gradient(q, nodes[c], grads[c, g], dim))
            if not worst <= J:
                worst, where = J, c
    return worst, where
