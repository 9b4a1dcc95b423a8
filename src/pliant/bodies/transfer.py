"""Compiled transfers of the material point method (paper 004, A1-A8): particles give mass and
momentum to a grid and take velocities back; and the adjoint of each, derived by hand. Matrices of
the plane are held as in space with the identity out of plane.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.bodies.grid import first_node, matrix, put_matrix, put_vector, shares, slopes, vector
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
from pliant.kernels.lanes import lane, lanes, load, store
from pliant.materials import laws

# Stress


@njit(error_model="numpy", cache=True, fastmath=FAST)
def turned(law, F, dim):
    """The rotation of F, where the law looks at it."""
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_stress(moduli, viscosity, C, F):
    """The stress in the material frame [Pa] of the strain rate F^T sym(C) F."""
    return scale(viscosity, laws.hooke(moduli[0], moduli[1], mtm(F, mm(sym(C), F))))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def framed(F, S):
    """F S F^T: a stress of the material frame in space."""
    return mmt(mm(F, S), F)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def framed_back(F, S, K_bar):
    """(gradient of K_bar : F S F^T by F, by S), for symmetric S."""
    return scale(2.0, mm(sym(K_bar), mm(F, S))), mtm(F, mm(K_bar, F))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_back(moduli, viscosity, C, F, K_bar):
    """The gradient of K_bar : (F S F^T), S the viscous stress, by F and by C."""
    S, D = viscous_stress(moduli, viscosity, C, F), sym(C)
    by_F, S_bar = framed_back(F, S, sym(K_bar))
    rate_bar = scale(viscosity, laws.hooke(moduli[0], moduli[1], S_bar))
    return add(by_F, scale(2.0, mm(D, mm(F, rate_bar)))), framed(F, rate_bar)


@njit(error_model="numpy", cache=True, fastmath=FAST, forceinline=True)
def passive_stress(law, F, R, moduli, power, viscosity, C):
    """The Kirchhoff stress of the material: its law's and the viscous one. It is linear in the
    moduli."""
    K = laws.kirchhoff(law, F, R, moduli, power)
    return add(K, framed(F, viscous_stress(moduli, viscosity, C, F))) if viscosity > 0.0 else K


@njit(error_model="numpy", cache=True, fastmath=FAST)
def moduli_back(law, F, R, slope, power, viscosity, C, K_bar):
    """The gradient of K_bar : passive_stress by a number that the moduli depend on with a slope."""
    return dot(K_bar, passive_stress(law, F, R, slope, power, viscosity, C))


# Rows of the grid: three numbers of a vector and one of a mass


@njit(error_model="numpy", cache=True)
def column(A, k):
    """Column k of a matrix, and no mass."""
    return lanes(A[k], A[k + 3], A[k + 6], 0.0)


@njit(error_model="numpy", cache=True)
def columns(X, Y, Z):
    """The matrix of three columns."""
    return (
        lane(X, 0),
        lane(Y, 0),
        lane(Z, 0),
        lane(X, 1),
        lane(Y, 1),
        lane(Z, 1),
        lane(X, 2),
        lane(Y, 2),
        lane(Z, 2),
    )


@njit(error_model="numpy", cache=True)
def first_three(V):
    return lane(V, 0), lane(V, 1), lane(V, 2)


@njit(error_model="numpy", cache=True)
def total(V):
    return (lane(V, 0) + lane(V, 1)) + (lane(V, 2) + lane(V, 3))


@njit(error_model="numpy", cache=True)
def levers(f, w, h):
    """Weights times the way [m] to their nodes."""
    return (-f * h * w[0], (1.0 - f) * h * w[1], (2.0 - f) * h * w[2])


# What takes an array must vanish in its caller, as in grid.py: so it is inlined by force


@njit(error_model="numpy", cache=True, forceinline=True)
def spread(grid, box, r, h, at, dim, Q, X, Y, Z):
    """Add to the nodes about a particle their shares of the affine field Q + X dx + Y dy + Z dz."""
    wx, wy, wz = shares(at[0]), shares(at[1]), shares(at[2])
    mx, my, mz = levers(at[0], wx, h), levers(at[1], wy, h), levers(at[2], wz, h)
    for a in range(3):
        QA, YA, ZA = wx[a] * Q + mx[a] * X, wx[a] * Y, wx[a] * Z
        for b in range(3):
            i, A, B = r + (a * box.ny + b) * box.nz, wy[b] * QA + my[b] * YA, wy[b] * ZA
            if dim == 2:
                store(grid, i, load(grid, i) + A)
            else:
                for c in range(3):
                    store(grid, i + c, load(grid, i + c) + (wz[c] * A + mz[c] * B))


@njit(error_model="numpy", cache=True, forceinline=True)
def gather_slope(grid, box, r, h, at, dim, Q, X, Y, Z):
    """(V, VX, VY, VZ, slope): the nodes' rows times their shares, and times the way to them along
    each axis; and the slope by the particle's place, in units of a cell, of the sum over nodes of
    their shares of row . (Q + X dx + Y dy + Z dz), the ways held."""
    wx, wy, wz = shares(at[0]), shares(at[1]), shares(at[2])
    mx, my, mz = levers(at[0], wx, h), levers(at[1], wy, h), levers(at[2], wz, h)
    sx, sy, sz = slopes(at[0]), slopes(at[1]), slopes(at[2])
    tz = levers(at[2], sz, h)
    V = VX = VY = VZ = DX = DY = DZ = lanes(0.0, 0.0, 0.0, 0.0)
    for a in range(3):
        QX = Q + (a - at[0]) * h * X
        R = RY = RZ = seen = seen_y = seen_z = lanes(0.0, 0.0, 0.0, 0.0)
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
                seen_z += wy[b] * (A * H + Z * U)
            R += wy[b] * S
            RY += my[b] * S
            seen += wy[b] * W
            seen_y += sy[b] * W
        V += wx[a] * R
        VX += mx[a] * R
        VY += wx[a] * RY
        VZ += wx[a] * RZ
        DX += sx[a] * seen
        DY += wx[a] * seen_y
        DZ += wx[a] * seen_z
    return V, VX, VY, VZ, (total(DX), total(DY), total(DZ))


@njit(error_model="numpy", cache=True, forceinline=True)
def gather(grid, box, r, h, at, dim):
    """(V, VX, VY, VZ): the nodes' rows times their shares, and times the way to them along each
    axis; the slope falls away unused."""
    none = lanes(0.0, 0.0, 0.0, 0.0)
    return gather_slope(grid, box, r, h, at, dim, none, none, none, none)[:4]


# The four transfers


class Loops(NamedTuple):
    """The compiled transfers of one dimension; each `back` is the adjoint of the one it is named
    after."""

    to_grid: Any
    to_particles: Any
    to_particles_back: Any
    to_grid_back: Any


@cache
def compiled(dim: int) -> Loops:
    """The transfers with the dimension as a constant, so that none carries the other's work."""

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_grid(rules, cloud, box, bins, grid, pos, vel, affine, F, act, force):
        """A1 to A3: mass and momentum of the particles on a clear grid."""
        h, inv_h, acted, forced = rules.h, 1.0 / rules.h, len(act) > 0, len(force) > 0
        for colour in range(2):
            for g in prange(bins.cuts.shape[1] - 1):
                for t in range(bins.cuts[colour, g], bins.cuts[colour, g + 1]):
                    p = np.uintp(bins.order[t])
                    m, law, mod = cloud.mass[p], cloud.law[p], vector(cloud.moduli, p, 3)
                    C, f, v = (
                        matrix(affine, p, dim, 0.0),
                        matrix(F, p, dim, 1.0),
                        vector(vel, p, dim),
                    )
                    K = passive_stress(
                        law, f, turned(law, f, dim), mod, cloud.power[p], rules.viscosity, C
                    )
                    if acted:
                        K = add(K, framed(f, matrix(act, p, dim, 0.0)))
                    G = add(
                        scale(-4.0 * rules.tau * cloud.volume[p] * inv_h * inv_h, K), scale(m, C)
                    )
                    q = (m * v[0], m * v[1], m * v[2])
                    if forced:
                        q = axpy(rules.tau, vector(force, p, dim), q)
                    r, at = first_node(pos, p, box, inv_h, dim)
                    spread(
                        grid,
                        box,
                        r,
                        h,
                        at,
                        dim,
                        lanes(q[0], q[1], q[2], m),
                        column(G, 0),
                        column(G, 1),
                        column(G, 2),
                    )

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles(rules, box, bins, grid, pos, vel, affine, F):
        """A5 to A8, in place."""
        h, inv_h, tau = rules.h, 1.0 / rules.h, rules.tau
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                r, at = first_node(pos, p, box, inv_h, dim)
                V, X, Y, Z = gather(grid, box, r, h, at, dim)
                C, v, f = (
                    scale(4.0 * inv_h * inv_h, columns(X, Y, Z)),
                    first_three(V),
                    matrix(F, p, dim, 1.0),
                )
                put_vector(pos, p, dim, axpy(tau, v, vector(pos, p, dim)))
                put_vector(vel, p, dim, v)
                put_matrix(affine, p, dim, C)
                put_matrix(F, p, dim, add(f, scale(tau, mm(C, f))))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles_back(
        rules, box, bins, grid, grid_bar, pos, F, pos_bar, vel_bar, affine_bar, F_bar
    ):
        """From the gradient by the state after a substep: that by the grid's velocities, added to a
        clear grid_bar, and in place what goes straight to the positions and F before. The share of
        vel_bar and affine_bar is used up."""
        h, inv_h, tau = rules.h, 1.0 / rules.h, rules.tau
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
                        lanes(v[0], v[1], v[2], 0.0),
                        column(B, 0),
                        column(B, 1),
                        column(B, 2),
                    )
                    r, at = first_node(pos, p, box, inv_h, dim)
                    spread(grid_bar, box, r, h, at, dim, Q, X, Y, Z)
                    V, VX, VY, VZ, slope = gather_slope(grid, box, r, h, at, dim, Q, X, Y, Z)
                    C = scale(4.0 * inv_h * inv_h, columns(VX, VY, VZ))
                    put_matrix(F_bar, p, dim, add(F_new, scale(tau, mtm(C, F_new))))
                    back = times(transposed(B), first_three(V))
                    put_vector(pos_bar, p, dim, axpy(-1.0, back, axpy(inv_h, slope, x_bar)))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_grid_back(
        rules,
        cloud,
        box,
        bins,
        grid_bar,
        pos,
        vel,
        affine,
        F,
        act,
        force,
        pos_bar,
        vel_bar,
        affine_bar,
        F_bar,
        act_bar,
        force_bar,
        mass_bar,
        volume_bar,
        E_bar,
        nu_bar,
    ):
        """From the gradient by momenta and masses of the nodes: that by the state before the
        substep, and by the particles' numbers, added to what is there (vel_bar, affine_bar and
        force_bar are set). E_bar and nu_bar may be empty."""
        h, inv_h, tau, acted, forced, wanted = (
            rules.h,
            1.0 / rules.h,
            rules.tau,
            len(act) > 0,
            len(force) > 0,
            len(E_bar) > 0,
        )
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                m, law, mod, power = (
                    cloud.mass[p],
                    cloud.law[p],
                    vector(cloud.moduli, p, 3),
                    cloud.power[p],
                )
                C, f, v = matrix(affine, p, dim, 0.0), matrix(F, p, dim, 1.0), vector(vel, p, dim)
                R = turned(law, f, dim)
                K = passive_stress(law, f, R, mod, power, rules.viscosity, C)
                if acted:
                    K = add(K, framed(f, matrix(act, p, dim, 0.0)))
                factor = -4.0 * tau * inv_h * inv_h
                G = add(scale(factor * cloud.volume[p], K), scale(m, C))
                q = (m * v[0], m * v[1], m * v[2])
                if forced:
                    q = axpy(tau, vector(force, p, dim), q)
                r, at = first_node(pos, p, box, inv_h, dim)
                Q, X, Y, Z = lanes(q[0], q[1], q[2], m), column(G, 0), column(G, 1), column(G, 2)
                V, VX, VY, VZ, slope = gather_slope(grid_bar, box, r, h, at, dim, Q, X, Y, Z)
                P, G_bar = first_three(V), columns(VX, VY, VZ)
                K_bar, C_bar = scale(factor * cloud.volume[p], G_bar), scale(m, G_bar)
                by_F = laws.kirchhoff_back(law, f, R, K_bar, mod, power)
                if acted:
                    more, S_bar = framed_back(f, matrix(act, p, dim, 0.0), K_bar)
                    by_F = add(by_F, more)
                    put_matrix(act_bar, p, dim, add(matrix(act_bar, p, dim, 0.0), S_bar))
                if rules.viscosity > 0.0:
                    more, by_C = viscous_back(mod, rules.viscosity, C, f, K_bar)
                    by_F, C_bar = add(by_F, more), add(C_bar, by_C)
                if wanted:
                    E_bar[p] += moduli_back(
                        law, f, R, vector(cloud.by_E, p, 3), power, rules.viscosity, C, K_bar
                    )
                    nu_bar[p] += moduli_back(
                        law, f, R, vector(cloud.by_nu, p, 3), power, rules.viscosity, C, K_bar
                    )
                mass_bar[p] += inner(P, v) + lane(V, 3) + dot(C, G_bar)
                volume_bar[p] += factor * dot(K, G_bar)
                if forced:
                    put_vector(force_bar, p, dim, (tau * P[0], tau * P[1], tau * P[2]))
                x_bar = axpy(inv_h, slope, vector(pos_bar, p, dim))
                put_vector(pos_bar, p, dim, axpy(-1.0, times(transposed(G), P), x_bar))
                put_vector(vel_bar, p, dim, (m * P[0], m * P[1], m * P[2]))
                put_matrix(affine_bar, p, dim, C_bar)
                put_matrix(F_bar, p, dim, add(matrix(F_bar, p, dim, 0.0), by_F))

    return Loops(to_grid, to_particles, to_particles_back, to_grid_back)
