"""Energy density, first Piola-Kirchhoff stress and tangent of every law, as functions of F.

Each law is linear in its moduli (mu, lam, bulk), so a derivative by E or nu is the same function of
the differentiated moduli. All functions accept real or complex F; the third derivative of the
energy is the complex step of `differential`. `R` is the rotation of F and used by corotated laws
only.
"""

from typing import Any

import numpy as np
from numba import njit

from pliant.kernels import (
    FAST,
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


@njit(error_model="numpy", cache=True, fastmath=FAST)
def has_barrier(law: Any) -> Any:
    """Return whether the energy is unbounded as J goes to zero."""
    return law == NEO_HOOKEAN


@njit(error_model="numpy", cache=True, fastmath=FAST)
def needs_rotation(law: Any) -> Any:
    """Return whether the law uses the rotation R."""
    return law != NEO_HOOKEAN


@njit(error_model="numpy", cache=True)
def energy(law: Any, F: Any, R: Any, moduli: Any, power: Any) -> Any:
    """Return the energy density [J/m^3]. It is infinite for a law with a barrier if J <= 0."""
    mu, lam, bulk = moduli
    J = det(F)
    volumetric = bulk * _integer_power(abs(J - 1.0), power) if bulk != 0.0 else 0.0
    if law == NEO_HOOKEAN:  # [Zimmermann2021, eq. 1], [Spielberg2021, eq. 13]
        if J <= 0.0:
            return np.inf
        return (
            0.5 * mu * (dot(F, F) - 3.0) - mu * np.log(J) + 0.5 * lam * np.log(J) ** 2 + volumetric
        )
    D = sub(F, R)
    if law == FIXED_COROTATED:  # [Spielberg2021, eq. 12]
        return mu * dot(D, D) + 0.5 * lam * (J - 1.0) ** 2 + volumetric
    return mu * dot(D, D) + 0.5 * lam * (dot(R, F) - 3.0) ** 2 + volumetric


@njit(error_model="numpy", cache=True, fastmath=FAST)
def stress(law: Any, F: Any, R: Any, moduli: Any, power: Any) -> Any:
    """Return P = d energy / dF [Pa]."""
    mu, lam, bulk = moduli
    J, C = det(F), cofactor(F)
    slope = _volumetric_slope(J, bulk, power)
    if law == NEO_HOOKEAN:
        return add(scale(mu, F), scale((lam * np.log(J) - mu) / J + slope, C))
    P = scale(2.0 * mu, sub(F, R))
    if law == FIXED_COROTATED:
        return add(P, scale(lam * (J - 1.0) + slope, C))
    return add(add(P, scale(lam * (dot(R, F) - 3.0), R)), scale(slope, C))


@njit(error_model="numpy", cache=True, forceinline=True, fastmath=FAST)
def kirchhoff(law: Any, F: Any, R: Any, moduli: Any, power: Any) -> Any:
    """Return the symmetric Kirchhoff stress P F^T [Pa].

    The neo-Hookean law does not compute P, which halves the work.
    """
    mu, lam, bulk = moduli
    if law == NEO_HOOKEAN:
        J, b = det(F), scale(mu, mmt(F, F))
        t = lam * np.log(J) - mu + J * _volumetric_slope(J, bulk, power)
        return (b[0] + t, b[1], b[2], b[3], b[4] + t, b[5], b[6], b[7], b[8] + t)
    return mmt(stress(law, F, R, moduli, power), F)


@njit(error_model="numpy", cache=True, forceinline=True, fastmath=FAST)
def kirchhoff_vjp(law: Any, F: Any, R: Any, K_bar: Any, moduli: Any, power: Any) -> Any:
    """Return the gradient of K_bar : kirchhoff by F."""
    mu, lam, bulk = moduli
    if law == NEO_HOOKEAN:
        J, twice = det(F), scale(2.0 * mu, mm(sym(K_bar), F))
        curvature = (
            lam / J + _volumetric_slope(J, bulk, power) + J * _volumetric_curvature(J, bulk, power)
        )
        return add(twice, scale(curvature * trace(K_bar), cofactor(F)))
    return add(
        mtm(K_bar, stress(law, F, R, moduli, power)),
        differential(law, F, R, mm(K_bar, F), moduli, power),
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def tangent(law: Any, F: Any, R: Any, moduli: Any, power: Any) -> Any:
    """Return the five coefficients (s, t, l, slope, curvature) [Pa] of a law's tangent.

    dP = s dF + t dR + l (R : dF) R + slope dC + curvature (C : dF) C, where C is the cofactor of F.
    """
    mu, lam, bulk = moduli
    J = det(F)
    slope, curvature = _volumetric_slope(J, bulk, power), _volumetric_curvature(J, bulk, power)
    zero = 0.0 * J
    if law == NEO_HOOKEAN:
        log = np.log(J)
        return (
            mu + zero,
            zero,
            zero,
            slope + (lam * log - mu) / J,
            curvature + (mu + lam - lam * log) / (J * J),
        )
    if law == FIXED_COROTATED:
        return 2.0 * mu + zero, -2.0 * mu + zero, zero, slope + lam * (J - 1.0), curvature + lam
    return 2.0 * mu + zero, lam * (dot(R, F) - 3.0) - 2.0 * mu, lam + zero, slope, curvature


@njit(error_model="numpy", cache=True, fastmath=FAST)
def differential(law: Any, F: Any, R: Any, dF: Any, moduli: Any, power: Any) -> Any:
    """Return dP [Pa] for a change dF."""
    s, t, l, slope, curvature = tangent(law, F, R, moduli, power)
    C = cofactor(F)
    dP = add(scale(s, dF), add(scale(slope, cross(F, dF)), scale(curvature * dot(C, dF), C)))
    if law == NEO_HOOKEAN:
        return dP
    return add(dP, add(scale(t, rotation_differential(F, R, dF)), scale(l * dot(R, dF), R)))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def hooke(mu: Any, lam: Any, E: Any) -> Any:
    """Return 2 mu E + lam tr(E) I: the stress of a small strain E, or the viscous stress of its
    rate."""
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


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _integer_power(x: Any, n: Any) -> Any:
    """Return x^n."""
    y = x * 0.0 + 1.0
    for _ in range(n):
        y = y * x
    return y


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _volumetric_slope(J: Any, bulk: Any, power: Any) -> Any:
    """Return the first derivative of bulk |J - 1|^power by J [Spielberg2021, eq. 14]."""
    if bulk == 0.0:
        return J * 0.0
    side = 1.0 if J.real >= 1.0 else -1.0
    return bulk * power * side * _integer_power(side * (J - 1.0), power - 1)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _volumetric_curvature(J: Any, bulk: Any, power: Any) -> Any:
    """Return the second derivative of bulk |J - 1|^power by J."""
    if bulk == 0.0:
        return J * 0.0
    side = 1.0 if J.real >= 1.0 else -1.0
    return bulk * power * (power - 1) * _integer_power(side * (J - 1.0), power - 2)
