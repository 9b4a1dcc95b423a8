"""Compiled transfers of the material point method [Spielberg2021, A1-A8]: particles give mass and
momentum to a grid and interpolate velocities; and their hand-written adjoints. In 2D, matrices are
3 x 3 with the identity out of plane.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.kernels import (
    FAST,
    add,
    axpy,
    dot,
    inner,
    mm,
    mmt,
    mtm,
    plane_rotation,
    rotation,
    scale,
    sym,
    times,
    transposed,
)
from pliant.kernels.simd import component, load, store, vector4
from pliant.materials import laws
from pliant.mpm.grid import (
    first_node,
    matrix,
    put_matrix,
    put_vector,
    spline_slopes,
    spline_weights,
    vector,
)

# Stress


@njit(error_model="numpy", cache=True, fastmath=FAST)
def rotation_for_law(law: Any, F: Any, dim: Any) -> Any:
    """Return the rotation of F if the law needs it, otherwise F."""
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_stress(moduli: Any, viscosity: Any, C: Any, F: Any) -> Any:
    """Return the stress [Pa] in the material frame of the strain rate F^T sym(C) F."""
    return scale(viscosity, laws.hooke(moduli[0], moduli[1], mtm(F, mm(sym(C), F))))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def push_forward(F: Any, S: Any) -> Any:
    """Return F S F^T, the Kirchhoff stress of a stress S in the material frame."""
    return mmt(mm(F, S), F)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def push_forward_vjp(F: Any, S: Any, K_bar: Any) -> Any:
    """Return the gradient of K_bar : F S F^T by F and by S, for symmetric S."""
    return scale(2.0, mm(sym(K_bar), mm(F, S))), mtm(F, mm(K_bar, F))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_stress_vjp(moduli: Any, viscosity: Any, C: Any, F: Any, K_bar: Any) -> Any:
    """Return the gradient of K_bar : F S F^T, with S the viscous stress, by F and by C."""
    S, D = viscous_stress(moduli, viscosity, C, F), sym(C)
    by_F, S_bar = push_forward_vjp(F, S, sym(K_bar))
    rate_bar = scale(viscosity, laws.hooke(moduli[0], moduli[1], S_bar))
    return add(by_F, scale(2.0, mm(D, mm(F, rate_bar)))), push_forward(F, rate_bar)


@njit(error_model="numpy", cache=True, fastmath=FAST, forceinline=True)
def passive_stress(
    law: Any, F: Any, R: Any, moduli: Any, power: Any, viscosity: Any, C: Any
) -> Any:
    """Return the Kirchhoff stress of the material, elastic and viscous. It is linear in the
    moduli."""
    K = laws.kirchhoff(law, F, R, moduli, power)
    return (
        add(K, push_forward(F, viscous_stress(moduli, viscosity, C, F))) if viscosity > 0.0 else K
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def moduli_vjp(
    law: Any, F: Any, R: Any, slope: Any, power: Any, viscosity: Any, C: Any, K_bar: Any
) -> Any:
    """Return the gradient of K_bar : passive_stress by a parameter with d moduli = `slope`."""
    return dot(K_bar, passive_stress(law, F, R, slope, power, viscosity, C))


# Rows of the grid: three entries of a vector and one of a mass


@njit(error_model="numpy", cache=True, fastmath=FAST)
def matrix_column(A: Any, k: Any) -> Any:
    """Return column k of a matrix, with mass zero."""
    return vector4(A[k], A[k + 3], A[k + 6], 0.0)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def matrix_from_columns(X: Any, Y: Any, Z: Any) -> Any:
    """Return the matrix of three columns."""
    return (
        component(X, 0),
        component(Y, 0),
        component(Z, 0),
        component(X, 1),
        component(Y, 1),
        component(Z, 1),
        component(X, 2),
        component(Y, 2),
        component(Z, 2),
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def vector_part(V: Any) -> Any:
    return component(V, 0), component(V, 1), component(V, 2)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def sum_components(V: Any) -> Any:
    return (component(V, 0) + component(V, 1)) + (component(V, 2) + component(V, 3))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def weighted_offsets(f: Any, w: Any, h: Any) -> Any:
    """Return the weights times the offset [m] of their nodes."""
    return (-f * h * w[0], (1.0 - f) * h * w[1], (2.0 - f) * h * w[2])


# Functions of arrays are inlined by force, for the reason given in grid.py


@njit(error_model="numpy", cache=True, forceinline=True, fastmath=FAST)
def spread(
    grid: Any, box: Any, r: Any, h: Any, at: Any, dim: Any, Q: Any, X: Any, Y: Any, Z: Any
) -> Any:
    """Add the weighted affine field Q + X dx + Y dy + Z dz to the nodes around a particle."""
    wx, wy, wz = spline_weights(at[0]), spline_weights(at[1]), spline_weights(at[2])
    mx, my, mz = (
        weighted_offsets(at[0], wx, h),
        weighted_offsets(at[1], wy, h),
        weighted_offsets(at[2], wz, h),
    )
    for a in range(3):
        QA, YA, ZA = wx[a] * Q + mx[a] * X, wx[a] * Y, wx[a] * Z
        for b in range(3):
            i, A, B = r + (a * box.ny + b) * box.nz, wy[b] * QA + my[b] * YA, wy[b] * ZA
            if dim == 2:
                store(grid, i, load(grid, i) + A)
            else:
                for c in range(3):
                    store(grid, i + c, load(grid, i + c) + (wz[c] * A + mz[c] * B))


@njit(error_model="numpy", cache=True, forceinline=True, fastmath=FAST)
def gather_with_slope(
    grid: Any, box: Any, r: Any, h: Any, at: Any, dim: Any, Q: Any, X: Any, Y: Any, Z: Any
) -> Any:
    """Return (V, VX, VY, VZ, slope): the weighted sum of the nodes' rows, the sums that are also
    weighted by the offset along each axis, and a slope. The slope is the derivative, by the
    particle's position in cells at fixed offsets, of the weighted sum of
    row . (Q + X dx + Y dy + Z dz)."""
    wx, wy, wz = spline_weights(at[0]), spline_weights(at[1]), spline_weights(at[2])
    mx, my, mz = (
        weighted_offsets(at[0], wx, h),
        weighted_offsets(at[1], wy, h),
        weighted_offsets(at[2], wz, h),
    )
    sx, sy, sz = spline_slopes(at[0]), spline_slopes(at[1]), spline_slopes(at[2])
    tz = weighted_offsets(at[2], sz, h)
    V = VX = VY = VZ = DX = DY = DZ = vector4(0.0, 0.0, 0.0, 0.0)
    for a in range(3):
        QX = Q + (a - at[0]) * h * X
        R = RY = RZ = weighted = weighted_y = weighted_z = vector4(0.0, 0.0, 0.0, 0.0)
        for b in range(3):
            i, A = r + (a * box.ny + b) * box.nz, QX + (b - at[1]) * h * Y
            S = load(grid, i)
            if dim == 2:
                W = A * S
            else:
                T, H, U = mz[0] * S, sz[0] * S, tz[0] * S
                S = wz[0] * S
                for c in range(1, 3):
                    N = load(grid, i + c)
                    S += wz[c] * N
                    T += mz[c] * N
                    H += sz[c] * N
                    U += tz[c] * N
                W = A * S + Z * T
                RZ += wy[b] * T
                weighted_z += wy[b] * (A * H + Z * U)
            R += wy[b] * S
            RY += my[b] * S
            weighted += wy[b] * W
            weighted_y += sy[b] * W
        V += wx[a] * R
        VX += mx[a] * R
        VY += wx[a] * RY
        VZ += wx[a] * RZ
        DX += sx[a] * weighted
        DY += wx[a] * weighted_y
        DZ += wx[a] * weighted_z
    return V, VX, VY, VZ, (sum_components(DX), sum_components(DY), sum_components(DZ))


@njit(error_model="numpy", cache=True, forceinline=True, fastmath=FAST)
def gather(grid: Any, box: Any, r: Any, h: Any, at: Any, dim: Any) -> Any:
    """Return (V, VX, VY, VZ) of `gather_with_slope`; the compiler removes the unused slope."""
    none = vector4(0.0, 0.0, 0.0, 0.0)
    return gather_with_slope(grid, box, r, h, at, dim, none, none, none, none)[:4]


# The four transfers


class Transfers(NamedTuple):
    """The compiled transfers of one dimension, and their adjoints `..._vjp`."""

    to_grid: Any
    to_particles: Any
    to_particles_vjp: Any
    to_grid_vjp: Any


@cache
def compiled_transfers(dim: int) -> Transfers:
    """Return the transfers compiled for a dimension, a compile-time constant."""

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_grid(
        parameters: Any,
        particles: Any,
        box: Any,
        bins: Any,
        grid: Any,
        pos: Any,
        vel: Any,
        affine: Any,
        F: Any,
        active_stress: Any,
        force: Any,
    ) -> Any:
        """Add mass and momentum of the particles to a cleared grid [Spielberg2021, A1-A3]."""
        h, inv_h, has_force = parameters.h, 1.0 / parameters.h, len(force) > 0
        for colour in range(2):
            for g in prange(bins.cuts.shape[1] - 1):
                for t in range(bins.cuts[colour, g], bins.cuts[colour, g + 1]):
                    p = np.uintp(bins.order[t])
                    m, law, mod = (
                        particles.mass[p],
                        particles.law[p],
                        vector(particles.moduli, p, 3),
                    )
                    C, f, v = (
                        matrix(affine, p, dim, 0.0),
                        matrix(F, p, dim, 1.0),
                        vector(vel, p, dim),
                    )
                    K = passive_stress(
                        law,
                        f,
                        rotation_for_law(law, f, dim),
                        mod,
                        particles.power[p],
                        parameters.viscosity,
                        C,
                    )
                    if particles.stress_row[p] >= 0:
                        row = np.uintp(particles.stress_row[p])
                        K = add(K, push_forward(f, matrix(active_stress, row, dim, 0.0)))
                    G = add(
                        scale(-4.0 * parameters.tau * particles.volume[p] * inv_h * inv_h, K),
                        scale(m, C),
                    )
                    q = (m * v[0], m * v[1], m * v[2])
                    if has_force:
                        q = axpy(parameters.tau, vector(force, p, dim), q)
                    r, at = first_node(pos, p, box, inv_h, dim)
                    spread(
                        grid,
                        box,
                        r,
                        h,
                        at,
                        dim,
                        vector4(q[0], q[1], q[2], m),
                        matrix_column(G, 0),
                        matrix_column(G, 1),
                        matrix_column(G, 2),
                    )

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles(
        parameters: Any,
        box: Any,
        bins: Any,
        grid: Any,
        pos: Any,
        F: Any,
        new_pos: Any,
        new_vel: Any,
        new_affine: Any,
        new_F: Any,
    ) -> Any:
        """Write the particles' state after a substep [Spielberg2021, A5-A8] from the grid and their
        positions and F before it. The new arrays may be the old ones."""
        h, inv_h, tau = parameters.h, 1.0 / parameters.h, parameters.tau
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                r, at = first_node(pos, p, box, inv_h, dim)
                V, X, Y, Z = gather(grid, box, r, h, at, dim)
                C, v, f = (
                    scale(4.0 * inv_h * inv_h, matrix_from_columns(X, Y, Z)),
                    vector_part(V),
                    matrix(F, p, dim, 1.0),
                )
                put_vector(new_pos, p, dim, axpy(tau, v, vector(pos, p, dim)))
                put_vector(new_vel, p, dim, v)
                put_matrix(new_affine, p, dim, C)
                put_matrix(new_F, p, dim, add(f, scale(tau, mm(C, f))))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles_vjp(
        parameters: Any,
        box: Any,
        bins: Any,
        grid: Any,
        grid_bar: Any,
        pos: Any,
        F: Any,
        pos_bar: Any,
        vel_bar: Any,
        affine_bar: Any,
        F_bar: Any,
    ) -> Any:
        """Add the gradient by the grid's velocities to a cleared grid_bar, from the gradient by the
        state after a substep. The gradients by positions and F are updated in place; vel_bar and
        affine_bar are consumed."""
        h, inv_h, tau = parameters.h, 1.0 / parameters.h, parameters.tau
        for colour in range(2):
            for g in prange(bins.cuts.shape[1] - 1):
                for t in range(bins.cuts[colour, g], bins.cuts[colour, g + 1]):
                    p = np.uintp(bins.order[t])
                    f, F_new, x_bar = (
                        matrix(F, p, dim, 1.0),
                        matrix(F_bar, p, dim, 0.0),
                        vector(pos_bar, p, dim),
                    )
                    v = axpy(tau, x_bar, vector(vel_bar, p, dim))
                    B = scale(
                        4.0 * inv_h * inv_h,
                        add(matrix(affine_bar, p, dim, 0.0), scale(tau, mmt(F_new, f))),
                    )
                    Q, X, Y, Z = (
                        vector4(v[0], v[1], v[2], 0.0),
                        matrix_column(B, 0),
                        matrix_column(B, 1),
                        matrix_column(B, 2),
                    )
                    r, at = first_node(pos, p, box, inv_h, dim)
                    spread(grid_bar, box, r, h, at, dim, Q, X, Y, Z)
                    V, VX, VY, VZ, slope = gather_with_slope(grid, box, r, h, at, dim, Q, X, Y, Z)
                    C = scale(4.0 * inv_h * inv_h, matrix_from_columns(VX, VY, VZ))
                    put_matrix(F_bar, p, dim, add(F_new, scale(tau, mtm(C, F_new))))
                    back = times(transposed(B), vector_part(V))
                    put_vector(pos_bar, p, dim, axpy(-1.0, back, axpy(inv_h, slope, x_bar)))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_grid_vjp(
        parameters: Any,
        particles: Any,
        box: Any,
        bins: Any,
        grid_bar: Any,
        pos: Any,
        vel: Any,
        affine: Any,
        F: Any,
        active_stress: Any,
        force: Any,
        pos_bar: Any,
        vel_bar: Any,
        affine_bar: Any,
        F_bar: Any,
        active_stress_bar: Any,
        force_bar: Any,
        mass_bar: Any,
        volume_bar: Any,
        E_bar: Any,
        nu_bar: Any,
        viscosity_bar: Any,
    ) -> Any:
        """Add the gradient by the state before the substep and by the particles' data, from the
        gradient by momenta and masses of the nodes. vel_bar, affine_bar and force_bar are set, not
        added to. mass_bar and volume_bar may be empty, E_bar and nu_bar, and viscosity_bar."""
        by_masses = len(mass_bar) > 0
        h, inv_h, tau, has_force, differentiates_moduli, by_viscosity = (
            parameters.h,
            1.0 / parameters.h,
            parameters.tau,
            len(force) > 0,
            len(E_bar) > 0,
            len(viscosity_bar) > 0,
        )
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                m, law, mod, power = (
                    particles.mass[p],
                    particles.law[p],
                    vector(particles.moduli, p, 3),
                    particles.power[p],
                )
                C, f, v = matrix(affine, p, dim, 0.0), matrix(F, p, dim, 1.0), vector(vel, p, dim)
                R = rotation_for_law(law, f, dim)
                K = passive_stress(law, f, R, mod, power, parameters.viscosity, C)
                if particles.stress_row[p] >= 0:
                    row = np.uintp(particles.stress_row[p])
                    K = add(K, push_forward(f, matrix(active_stress, row, dim, 0.0)))
                factor = -4.0 * tau * inv_h * inv_h
                G = add(scale(factor * particles.volume[p], K), scale(m, C))
                q = (m * v[0], m * v[1], m * v[2])
                if has_force:
                    q = axpy(tau, vector(force, p, dim), q)
                r, at = first_node(pos, p, box, inv_h, dim)
                Q, X, Y, Z = (
                    vector4(q[0], q[1], q[2], m),
                    matrix_column(G, 0),
                    matrix_column(G, 1),
                    matrix_column(G, 2),
                )
                V, VX, VY, VZ, slope = gather_with_slope(grid_bar, box, r, h, at, dim, Q, X, Y, Z)
                P, G_bar = vector_part(V), matrix_from_columns(VX, VY, VZ)
                K_bar, C_bar = scale(factor * particles.volume[p], G_bar), scale(m, G_bar)
                by_F = laws.kirchhoff_vjp(law, f, R, K_bar, mod, power)
                if particles.stress_row[p] >= 0:
                    row = np.uintp(particles.stress_row[p])
                    S = matrix(active_stress, row, dim, 0.0)
                    more, S_bar = push_forward_vjp(f, S, K_bar)
                    by_F = add(by_F, more)
                    S_bar = add(matrix(active_stress_bar, row, dim, 0.0), S_bar)
                    put_matrix(active_stress_bar, row, dim, S_bar)
                if parameters.viscosity > 0.0:
                    more, by_C = viscous_stress_vjp(mod, parameters.viscosity, C, f, K_bar)
                    by_F, C_bar = add(by_F, more), add(C_bar, by_C)
                if by_viscosity:
                    unit_stress = viscous_stress(mod, 1.0, C, f)
                    viscosity_bar[p] += dot(K_bar, push_forward(f, unit_stress))
                if differentiates_moduli:
                    E_bar[p] += moduli_vjp(
                        law,
                        f,
                        R,
                        vector(particles.by_E, p, 3),
                        power,
                        parameters.viscosity,
                        C,
                        K_bar,
                    )
                    nu_bar[p] += moduli_vjp(
                        law,
                        f,
                        R,
                        vector(particles.by_nu, p, 3),
                        power,
                        parameters.viscosity,
                        C,
                        K_bar,
                    )
                if by_masses:
                    mass_bar[p] += inner(P, v) + component(V, 3) + dot(C, G_bar)
                    volume_bar[p] += factor * dot(K, G_bar)
                if has_force:
                    put_vector(force_bar, p, dim, (tau * P[0], tau * P[1], tau * P[2]))
                x_bar = axpy(inv_h, slope, vector(pos_bar, p, dim))
                put_vector(pos_bar, p, dim, axpy(-1.0, times(transposed(G), P), x_bar))
                put_vector(vel_bar, p, dim, (m * P[0], m * P[1], m * P[2]))
                put_matrix(affine_bar, p, dim, C_bar)
                put_matrix(F_bar, p, dim, add(matrix(F_bar, p, dim, 0.0), by_F))

    return Transfers(to_grid, to_particles, to_particles_vjp, to_grid_vjp)
