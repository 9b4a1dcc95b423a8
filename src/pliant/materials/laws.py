"""Energy density, first Piola-Kirchhoff stress and its differential of every law, as functions of
the deformation gradient.

Each law is linear in its moduli (mu, lam, bulk), so that a derivative with respect to E or nu is
the same function at the differentiated moduli. All functions take real or complex F: the third
derivative of the energy is the complex step of `differential`. `R` is the rotation of F and is
looked at by the corotated laws only.
"""

import numpy as np
from numba import njit

from pliant.kernels import (
    add,
    cofactor,
    cross,
    det,
    dot,
    mm,
    mmt,
    mtm,
    rotation_differential,
    scale,
    sub,
    sym,
    trace,
)

NEO_HOOKEAN, FIXED_COROTATED, LINEAR_COROTATED = 0, 1, 2


@njit(error_model="numpy", cache=True)
def has_barrier(law):
    """Does the energy grow without bound as J goes to zero?"""
    return law == NEO_HOOKEAN


@njit(error_model="numpy", cache=True)
def needs_rotation(law):
    return law != NEO_HOOKEAN


@njit(error_model="numpy", cache=True)
def energy(law, F, R, moduli, power):
    """[J/m^3]; infinite where a law with a barrier meets J <= 0."""
    mu, lam, bulk = moduli
    J = det(F)
    swell = bulk * _integer_power(abs(J - 1.0), power) if bulk != 0.0 else 0.0
    if law == NEO_HOOKEAN:  # paper 003 eq. 1, paper 004 eq. 13
        if J <= 0.0:
            return np.inf
        return 0.5 * mu * (dot(F, F) - 3.0) - mu * np.log(J) + 0.5 * lam * np.log(J) ** 2 + swell
    D = sub(F, R)
    if law == FIXED_COROTATED:  # paper 004 eq. 12
        return mu * dot(D, D) + 0.5 * lam * (J - 1.0) ** 2 + swell
    return mu * dot(D, D) + 0.5 * lam * (dot(R, F) - 3.0) ** 2 + swell


@njit(error_model="numpy", cache=True)
def stress(law, F, R, moduli, power):
    """P = d energy / dF [Pa]"""
    mu, lam, bulk = moduli
    J, C = det(F), cofactor(F)
    slope = _swell_slope(J, bulk, power)
    if law == NEO_HOOKEAN:
        return add(scale(mu, F), scale((lam * np.log(J) - mu) / J + slope, C))
    P = scale(2.0 * mu, sub(F, R))
    if law == FIXED_COROTATED:
        return add(P, scale(lam * (J - 1.0) + slope, C))
    return add(add(P, scale(lam * (dot(R, F) - 3.0), R)), scale(slope, C))


@njit(error_model="numpy", cache=True, forceinline=True)
def kirchhoff(law, F, R, moduli, power):
    """P F^T [Pa], symmetric; of the neo-Hookean law without P, which takes half the work."""
    mu, lam, bulk = moduli
    if law == NEO_HOOKEAN:
        J, b = det(F), scale(mu, mmt(F, F))
        t = lam * np.log(J) - mu + J * _swell_slope(J, bulk, power)
        return (b[0] + t, b[1], b[2], b[3], b[4] + t, b[5], b[6], b[7], b[8] + t)
    return mmt(stress(law, F, R, moduli, power), F)


@njit(error_model="numpy", cache=True, forceinline=True)
def kirchhoff_back(law, F, R, K_bar, moduli, power):
    """The gradient of K_bar : kirchhoff with respect to F."""
    mu, lam, bulk = moduli
    if law == NEO_HOOKEAN:
        J, twice = det(F), scale(2.0 * mu, mm(sym(K_bar), F))
        bend = lam / J + _swell_slope(J, bulk, power) + J * _swell_bend(J, bulk, power)
        return add(twice, scale(bend * trace(K_bar), cofactor(F)))
    return add(
        mtm(K_bar, stress(law, F, R, moduli, power)),
        differential(law, F, R, mm(K_bar, F), moduli, power),
    )


@njit(error_model="numpy", cache=True)
def tangent(law, F, R, moduli, power):
    """The five numbers (s, t, l, slope, bend) [Pa] that every law's tangent comes down to:
    dP = s dF + t dR + l (R : dF) R + slope dC + bend (C : dF) C, with C the cofactor of F."""
    mu, lam, bulk = moduli
    J = det(F)
    slope, bend = _swell_slope(J, bulk, power), _swell_bend(J, bulk, power)
    zero = 0.0 * J
    if law == NEO_HOOKEAN:
        log = np.log(J)
        return (
            mu + zero,
            zero,
            zero,
            slope + (lam * log - mu) / J,
            bend + (mu + lam - lam * log) / (J * J),
        )
    if law == FIXED_COROTATED:
        return 2.0 * mu + zero, -2.0 * mu + zero, zero, slope + lam * (J - 1.0), bend + lam
    return 2.0 * mu + zero, lam * (dot(R, F) - 3.0) - 2.0 * mu, lam + zero, slope, bend


@njit(error_model="numpy", cache=True)
def differential(law, F, R, dF, moduli, power):
    """dP for a change dF [Pa]"""
    s, t, l, slope, bend = tangent(law, F, R, moduli, power)
    C = cofactor(F)
    dP = add(scale(s, dF), add(scale(slope, cross(F, dF)), scale(bend * dot(C, dF), C)))
    if law == NEO_HOOKEAN:
        return dP
    return add(dP, add(scale(t, rotation_differential(F, R, dF)), scale(l * dot(R, dF), R)))


@njit(error_model="numpy", cache=True)
def hooke(mu, lam, E):
    """2 mu E + lam tr(E) I, the stress of a small strain E, or the viscous one of its rate."""
    t, m = lam * trace(E), 2.0 * mu
    return (
        m * E[0] + t,
        m * E[1],
        m * E[2],
        m * E[3],
        m * E[4] + t,
        m * E[5],
        m * E[6],
        m * E[7],
        m * E[8] + t,
    )


@njit(error_model="numpy", cache=True)
def _integer_power(x, n):
    y = x * 0.0 + 1.0
    for _ in range(n):
        y = y * x
    return y


@njit(error_model="numpy", cache=True)
def _swell_slope(J, bulk, power):
    """First derivative of bulk |J - 1|^power (paper 004 eq. 14)."""
    if bulk == 0.0:
        return J * 0.0
    side = 1.0 if J.real >= 1.0 else -1.0
    return bulk * power * side * _integer_power(side * (J - 1.0), power - 1)


@njit(error_model="numpy", cache=True)
def _swell_bend(J, bulk, power):
    """Second derivative of bulk |J - 1|^power."""
    if bulk == 0.0:
        return J * 0.0
    side = 1.0 if J.real >= 1.0 else -1.0
    return bulk * power * (power - 1) * _integer_power(side * (J - 1.0), power - 2)
