"""Compiled transfers of the material point method (paper 004, A1-A8): particles give mass and momentum to a grid and take velocities
back; and the adjoint of each, derived by hand. Matrices of the plane are held as in space with the identity out of plane.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.bodies.grid import FAST, axpy, first_node, inner, matrix, put_matrix, put_vector, shares, slopes, times, transposed, vector
from pliant.kernels import add, dot, mm, mmt, mtm, plane_rotation, rotation, scale, sym, trace
from pliant.materials import laws

# Stress


@njit(error_model="numpy", cache=True, fastmath=FAST)
def turned(law, F, dim):
    """The rotation of F, where the law looks at it."""
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def hooke(mu, lam, E):
    """2 mu E + lam tr(E) I"""
    t, m = lam * trace(E), 2.0 * mu
    return (m * E[0] + t, m * E[1], m * E[2], m * E[3], m * E[4] + t, m * E[5], m * E[6], m * E[7], m * E[8] + t)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def viscous_stress(moduli, viscosity, C, F):
    """The stress in the material frame [Pa] of the strain rate F^T sym(C) F."""
    return scale(viscosity, hooke(moduli[0], moduli[1], mtm(F, mm(sym(C), F))))


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
    rate_bar = scale(viscosity, hooke(moduli[0], moduli[1], S_bar))
    return add(by_F, scale(2.0, mm(D, mm(F, rate_bar)))), framed(F, rate_bar)


# The four transfers


class Loops(NamedTuple):
    """The compiled transfers of one dimension; each `back` is the adjoint of the one it is named after."""

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
                    C, f, v = matrix(affine, p, dim, 0.0), matrix(F, p, dim, 1.0), vector(vel, p, dim)
                    K = laws.kirchhoff(law, f, turned(law, f, dim), mod, cloud.power[p])
                    if acted:
                        K = add(K, framed(f, matrix(act, p, dim, 0.0)))
                    if rules.viscosity > 0.0:
                        K = add(K, framed(f, viscous_stress(mod, rules.viscosity, C, f)))
                    G = add(scale(-4.0 * rules.tau * cloud.volume[p] * inv_h * inv_h, K), scale(m, C))
                    q = (m * v[0], m * v[1], m * v[2])
                    if forced:
                        q = axpy(rules.tau, vector(force, p, dim), q)
                    r, fx, fy, fz = first_node(pos, p, box, inv_h, dim)
                    wx, wy, wz = shares(fx), shares(fy), shares(fz)
                    for a in range(3):
                        dx = (a - fx) * h
                        for b in range(3):
                            w, dy = wx[a] * wy[b], (b - fy) * h
                            q0 = w * (q[0] + G[0] * dx + G[1] * dy)
                            q1 = w * (q[1] + G[3] * dx + G[4] * dy)
                            if dim == 2:
                                i = np.uintp(r + a * box.ny + b)
                                grid[i, 0] += q0
                                grid[i, 1] += q1
                                grid[i, 3] += w * m
                            else:
                                q2 = w * (q[2] + G[6] * dx + G[7] * dy)
                                g0, g1, g2, wm = w * G[2], w * G[5], w * G[8], w * m
                                for c in range(3):
                                    dz, i = (c - fz) * h, np.uintp(r + (a * box.ny + b) * box.nz + c)
                                    grid[i, 0] += wz[c] * (q0 + g0 * dz)
                                    grid[i, 1] += wz[c] * (q1 + g1 * dz)
                                    grid[i, 2] += wz[c] * (q2 + g2 * dz)
                                    grid[i, 3] += wz[c] * wm

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles(rules, box, bins, grid, pos, vel, affine, F):
        """A5 to A8, in place."""
        h, inv_h, tau = rules.h, 1.0 / rules.h, rules.tau
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                r, fx, fy, fz = first_node(pos, p, box, inv_h, dim)
                wx, wy, wz = shares(fx), shares(fy), shares(fz)
                v0 = v1 = v2 = b00 = b01 = b02 = b10 = b11 = b12 = b20 = b21 = b22 = 0.0
                for a in range(3):
                    dx = (a - fx) * h
                    for b in range(3):
                        w, dy = wx[a] * wy[b], (b - fy) * h
                        if dim == 2:
                            i = np.uintp(r + a * box.ny + b)
                            s0, s1, s2 = w * grid[i, 0], w * grid[i, 1], 0.0
                        else:
                            s0 = s1 = s2 = 0.0
                            for c in range(3):
                                i, wc = np.uintp(r + (a * box.ny + b) * box.nz + c), w * wz[c]
                                x0, x1, x2, dz = wc * grid[i, 0], wc * grid[i, 1], wc * grid[i, 2], (c - fz) * h
                                s0 += x0
                                s1 += x1
                                s2 += x2
                                b02 += x0 * dz
                                b12 += x1 * dz
                                b22 += x2 * dz
                        v0 += s0
                        v1 += s1
                        v2 += s2
                        b00 += s0 * dx
                        b01 += s0 * dy
                        b10 += s1 * dx
                        b11 += s1 * dy
                        b20 += s2 * dx
                        b21 += s2 * dy
                C, v, f = scale(4.0 * inv_h * inv_h, (b00, b01, b02, b10, b11, b12, b20, b21, b22)), (v0, v1, v2), matrix(F, p, dim, 1.0)
                put_vector(pos, p, dim, axpy(tau, v, vector(pos, p, dim)))
                put_vector(vel, p, dim, v)
                put_matrix(affine, p, dim, C)
                put_matrix(F, p, dim, add(f, scale(tau, mm(C, f))))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_particles_back(rules, box, bins, grid, grid_bar, pos, F, vel_after, affine_after, pos_bar, vel_bar, affine_bar, F_bar):
        """From the gradient by the state after a substep: that by the grid's velocities, added to a clear grid_bar, and in place what
        goes straight to the positions and F before. The share of vel_bar and affine_bar is used up."""
        h, inv_h, tau = rules.h, 1.0 / rules.h, rules.tau
        for colour in range(2):
            for g in prange(bins.cuts.shape[1] - 1):
                for t in range(bins.cuts[colour, g], bins.cuts[colour, g + 1]):
                    p = np.uintp(bins.order[t])
                    f, F_new, C = matrix(F, p, dim, 1.0), matrix(F_bar, p, dim, 0.0), matrix(affine_after, p, dim, 0.0)
                    x_bar = vector(pos_bar, p, dim)
                    v = axpy(tau, x_bar, vector(vel_bar, p, dim))
                    B = scale(4.0 * inv_h * inv_h, add(matrix(affine_bar, p, dim, 0.0), scale(tau, mmt(F_new, f))))
                    put_matrix(F_bar, p, dim, add(F_new, scale(tau, mtm(C, F_new))))
                    r, fx, fy, fz = first_node(pos, p, box, inv_h, dim)
                    wx, wy, wz, sx, sy, sz = shares(fx), shares(fy), shares(fz), slopes(fx), slopes(fy), slopes(fz)
                    g0 = g1 = g2 = 0.0
                    for a in range(3):
                        dx = (a - fx) * h
                        for b in range(3):
                            dy, w, wa, wb = (b - fy) * h, wx[a] * wy[b], sx[a] * wy[b], wx[a] * sy[b]
                            u0, u1 = v[0] + B[0] * dx + B[1] * dy, v[1] + B[3] * dx + B[4] * dy
                            if dim == 2:
                                i = np.uintp(r + a * box.ny + b)
                                seen = grid[i, 0] * u0 + grid[i, 1] * u1
                                grid_bar[i, 0] += w * u0
                                grid_bar[i, 1] += w * u1
                                g0 += wa * seen
                                g1 += wb * seen
                            else:
                                u2 = v[2] + B[6] * dx + B[7] * dy
                                flat = turn = 0.0
                                for c in range(3):
                                    dz, i, wc = (c - fz) * h, np.uintp(r + (a * box.ny + b) * box.nz + c), w * wz[c]
                                    y0, y1, y2 = u0 + B[2] * dz, u1 + B[5] * dz, u2 + B[8] * dz
                                    seen = grid[i, 0] * y0 + grid[i, 1] * y1 + grid[i, 2] * y2
                                    grid_bar[i, 0] += wc * y0
                                    grid_bar[i, 1] += wc * y1
                                    grid_bar[i, 2] += wc * y2
                                    flat += wz[c] * seen
                                    turn += sz[c] * seen
                                g0 += wa * flat
                                g1 += wb * flat
                                g2 += w * turn
                    back = times(transposed(B), vector(vel_after, p, dim))
                    put_vector(pos_bar, p, dim, axpy(-1.0, back, axpy(inv_h, (g0, g1, g2), x_bar)))

    @njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
    def to_grid_back(rules, cloud, box, bins, grid_bar, pos, vel, affine, F, act, force, pos_bar, vel_bar, affine_bar, F_bar,
                     act_bar, force_bar, mass_bar, volume_bar, E_bar, nu_bar):  # fmt: skip
        """From the gradient by momenta and masses of the nodes: that by the state before the substep, and by the particles' numbers,
        added to what is there (vel_bar, affine_bar and force_bar are set). E_bar and nu_bar may be empty."""
        h, inv_h, tau, acted, forced, wanted = rules.h, 1.0 / rules.h, rules.tau, len(act) > 0, len(force) > 0, len(E_bar) > 0
        n, threads = len(pos), bins.cuts.shape[1] - 1
        for g in prange(threads):
            for t in range(g * n // threads, (g + 1) * n // threads):
                p = np.uintp(bins.order[t])
                m, law, mod, power = cloud.mass[p], cloud.law[p], vector(cloud.moduli, p, 3), cloud.power[p]
                C, f, v = matrix(affine, p, dim, 0.0), matrix(F, p, dim, 1.0), vector(vel, p, dim)
                R, S = turned(law, f, dim), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
                K = laws.kirchhoff(law, f, R, mod, power)
                if acted:
                    S = matrix(act, p, dim, 0.0)
                    K = add(K, framed(f, S))
                if rules.viscosity > 0.0:
                    K = add(K, framed(f, viscous_stress(mod, rules.viscosity, C, f)))
                factor = -4.0 * tau * inv_h * inv_h
                G = add(scale(factor * cloud.volume[p], K), scale(m, C))
                q = (m * v[0], m * v[1], m * v[2])
                if forced:
                    q = axpy(tau, vector(force, p, dim), q)
                r, fx, fy, fz = first_node(pos, p, box, inv_h, dim)
                wx, wy, wz, sx, sy, sz = shares(fx), shares(fy), shares(fz), slopes(fx), slopes(fy), slopes(fz)
                p0 = p1 = p2 = mm_bar = g0 = g1 = g2 = 0.0
                b00 = b01 = b02 = b10 = b11 = b12 = b20 = b21 = b22 = 0.0
                for a in range(3):
                    dx = (a - fx) * h
                    for b in range(3):
                        dy, w, wa, wb = (b - fy) * h, wx[a] * wy[b], sx[a] * wy[b], wx[a] * sy[b]
                        q0, q1 = q[0] + G[0] * dx + G[1] * dy, q[1] + G[3] * dx + G[4] * dy
                        if dim == 2:
                            i = np.uintp(r + a * box.ny + b)
                            s0, s1, s2, sm = w * grid_bar[i, 0], w * grid_bar[i, 1], 0.0, w * grid_bar[i, 3]
                            seen = grid_bar[i, 0] * q0 + grid_bar[i, 1] * q1 + m * grid_bar[i, 3]
                            g0 += wa * seen
                            g1 += wb * seen
                        else:
                            q2 = q[2] + G[6] * dx + G[7] * dy
                            s0 = s1 = s2 = sm = flat = turn = 0.0
                            for c in range(3):
                                i, wc, dz = np.uintp(r + (a * box.ny + b) * box.nz + c), w * wz[c], (c - fz) * h
                                n0, n1, n2, nm = grid_bar[i, 0], grid_bar[i, 1], grid_bar[i, 2], grid_bar[i, 3]
                                seen = n0 * (q0 + G[2] * dz) + n1 * (q1 + G[5] * dz) + n2 * (q2 + G[8] * dz) + m * nm
                                flat += wz[c] * seen
                                turn += sz[c] * seen
                                n0, n1, n2 = wc * n0, wc * n1, wc * n2
                                s0 += n0
                                s1 += n1
                                s2 += n2
                                sm += wc * nm
                                b02 += n0 * dz
                                b12 += n1 * dz
                                b22 += n2 * dz
                            g0 += wa * flat
                            g1 += wb * flat
                            g2 += w * turn
                        p0 += s0
                        p1 += s1
                        p2 += s2
                        mm_bar += sm
                        b00 += s0 * dx
                        b01 += s0 * dy
                        b10 += s1 * dx
                        b11 += s1 * dy
                        b20 += s2 * dx
                        b21 += s2 * dy
                P, G_bar = (p0, p1, p2), (b00, b01, b02, b10, b11, b12, b20, b21, b22)
                K_bar, C_bar = scale(factor * cloud.volume[p], G_bar), scale(m, G_bar)
                by_F = laws.kirchhoff_back(law, f, R, K_bar, mod, power)
                if acted:
                    more, S_bar = framed_back(f, S, K_bar)
                    by_F = add(by_F, more)
                    put_matrix(act_bar, p, dim, add(matrix(act_bar, p, dim, 0.0), S_bar))
                if rules.viscosity > 0.0:
                    more, by_C = viscous_back(mod, rules.viscosity, C, f, K_bar)
                    by_F, C_bar = add(by_F, more), add(C_bar, by_C)
                if wanted:
                    by_E, by_nu = vector(cloud.by_E, p, 3), vector(cloud.by_nu, p, 3)
                    E_bar[p] += dot(K_bar, laws.kirchhoff(law, f, R, by_E, power))
                    nu_bar[p] += dot(K_bar, laws.kirchhoff(law, f, R, by_nu, power))
                    if rules.viscosity > 0.0:
                        E_bar[p] += dot(K_bar, framed(f, viscous_stress(by_E, rules.viscosity, C, f)))
                        nu_bar[p] += dot(K_bar, framed(f, viscous_stress(by_nu, rules.viscosity, C, f)))
                mass_bar[p] += inner(P, v) + mm_bar + dot(C, G_bar)
                volume_bar[p] += factor * dot(K, G_bar)
                if forced:
                    put_vector(force_bar, p, dim, (tau * p0, tau * p1, tau * p2))
                x_bar = axpy(inv_h, (g0, g1, g2), vector(pos_bar, p, dim))
                put_vector(pos_bar, p, dim, axpy(-1.0, times(transposed(G), P), x_bar))
                put_vector(vel_bar, p, dim, (m * p0, m * p1, m * p2))
                put_matrix(affine_bar, p, dim, C_bar)
                put_matrix(F_bar, p, dim, add(matrix(F_bar, p, dim, 0.0), by_F))

    return Loops(to_grid, to_particles, to_particles_back, to_grid_back)
