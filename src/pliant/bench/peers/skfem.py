"""The clamped arm in scikit-fem: backward Euler with a consistent mass and full Newton steps, as in
its examples."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.fem_case import Case, PeerRun, check_mesh
from pliant.core import Array, InputError, MissingExtra, StepError, counted

TOLERANCE = 1e-8  # of the first residual of the step or the weight, whichever is larger
MAX_NEWTON = 50
EYE = np.eye(3)[:, :, None, None]  # arrays at the quadrature points end in (cells, 1)
EYE4 = np.einsum("ik,jl->ijkl", np.eye(3), np.eye(3))[..., None, None]
EPS = np.array(
    [[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)]
)
EPS_EPS = np.einsum("ikm,jln->ijklmn", EPS, EPS)

# P (3, 3, m, 1) [Pa], and on request dP/dF (3, 3, 3, 3, m, 1) [Pa]
Stress = tuple[Array, Callable[[], Array]]


@dataclass(frozen=True, kw_only=True)
class SkfemArm:
    """The constant data of a Newton step in scikit-fem."""

    basis: Any  # one quadrature point, which is exact for the constant F of a linear tetrahedron
    mass: Any  # (3n, 3n) sparse [kg]
    weight: Array  # (3n,) [N]
    fixed: Array  # (n_fixed,) clamped unknowns
    stress: Callable[[Array], Stress]  # of F (3, 3, m, 1)
    dt: float  # [s]


@dataclass(frozen=True, kw_only=True)
class NewtonTimes:
    """The times [s] of the parts of each Newton iteration."""

    assembly: list[float] = field(default_factory=list)  # one residual and one tangent
    factor: list[float] = field(default_factory=list)


def step_with_skfem(case: Case, *, steps: int, law: str = "corotated") -> PeerRun:
    """Simulate the arm from rest under gravity with scikit-fem, without damping."""
    if law not in LAWS:
        raise InputError(
            f"The benchmark of scikit-fem has no law {law!r}. Choose one of {sorted(LAWS)}."
        )
    check_mesh(case)
    fem, helpers = _import_skfem()
    mesh = fem.MeshTet(np.ascontiguousarray(case.points.T), np.ascontiguousarray(case.cells.T))
    element = fem.ElementVector(fem.ElementTetP1())
    basis, mass_basis = (fem.Basis(mesh, element, intorder=order) for order in (1, 2))
    E, nu = case.young, case.poisson
    mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
    g = np.asarray(case.gravity)[:, None, None]
    arm = SkfemArm(
        basis=basis,
        mass=fem.BilinearForm(lambda u, v, w: case.density * helpers.dot(u, v)).assemble(
            mass_basis
        ),
        weight=fem.LinearForm(lambda v, w: case.density * helpers.dot(g, v)).assemble(basis),
        fixed=basis.nodal_dofs[:, case.clamped].ravel(),
        stress=lambda F: LAWS[law](F, mu, lam),
        dt=case.dt,
    )
    u, v = np.zeros((2, basis.N))
    seconds, times = [], NewtonTimes()
    for _ in range(steps):
        start = perf_counter()
        u_next = newton_step(arm, u, v, times)
        u, v = u_next, (u_next - u) / case.dt
        seconds.append(perf_counter() - start)
    return PeerRun(
        name=f"scikit-fem, {law}",
        seconds_per_step=np.array(seconds),
        positions=case.points + u[basis.nodal_dofs].T,
        assembly=_mean(times.assembly),
        factor=_mean(times.factor),
    )


def newton_step(arm: SkfemArm, u: Array, v: Array, times: NewtonTimes) -> Array:
    """Return the displacement u' (3n,) [m] after one backward Euler step:
    M (u' - u - h v) / h^2 + f(u') = weight."""
    u = predicted = u + arm.dt * v
    threshold = TOLERANCE * float(np.linalg.norm(arm.weight))
    for iteration in range(MAX_NEWTON):
        start = perf_counter()
        P, tangent = arm.stress(EYE + arm.basis.interpolate(u).grad)
        r = arm.mass @ (u - predicted) / arm.dt**2 + _forces(arm.basis, P) - arm.weight
        norm = float(np.linalg.norm(np.delete(r, arm.fixed)))
        if iteration == 0:
            threshold = max(threshold, TOLERANCE * norm)
        if norm <= threshold:
            return u
        K = arm.mass / arm.dt**2 + _stiffness(arm.basis, tangent())
        times.assembly.append(perf_counter() - start)
        u = u - _solve(K, r, arm.fixed, times)
    raise StepError(
        f"Newton's method in scikit-fem has a residual of {norm:.1e} N after {MAX_NEWTON} "
        "iterations. Halve dt."
    )


def corotated(F: Array, mu: float, lam: float) -> Stress:
    """Return stress and tangent of the fixed corotated law:
    psi = mu |F - R|^2 + lam/2 (J - 1)^2."""
    from skfem.helpers import det, inv, trace, transpose

    U, _, V = np.linalg.svd(np.moveaxis(F, (0, 1), (-2, -1)))
    V[..., 2, :] *= np.linalg.det(U @ V)[..., None]  # R is a rotation, also in an inverted cell
    R = np.ascontiguousarray(np.moveaxis(U @ V, (-2, -1), (0, 1)))  # cells last, as in the forms
    J = det(F)
    cofactor = J * transpose(inv(F))

    def tangent() -> Array:
        S = np.einsum("ki...,kj...->ij...", R, F)
        T = np.einsum("ip...,pjm->ijm...", R, EPS)
        TG = np.einsum("ijm...,mn...->ijn...", T, inv(trace(S) * EYE - S))
        dR = np.einsum("ijn...,kln...->ijkl...", TG, T)
        outer = np.einsum("ij...,kl...->ijkl...", cofactor, cofactor)
        d_cofactor = np.einsum("ijklmn,mn...->ijkl...", EPS_EPS, F)
        return 2 * mu * (EYE4 - dR) + lam * outer + lam * (J - 1) * d_cofactor

    return 2 * mu * (F - R) + lam * (J - 1) * cofactor, tangent


def neo_hookean(F: Array, mu: float, lam: float) -> Stress:
    """Return stress and tangent of the compressible neo-Hookean law:
    psi = mu/2 (|F|^2 - 3) - mu log J + lam/2 log(J)^2."""
    from skfem.helpers import det, inv, transpose

    J = det(F)
    if J.min() <= 0:
        raise StepError(
            f"{counted(int((J <= 0).sum()), 'cell')} inverted in Newton's method of scikit-fem. "
            "Halve dt."
        )
    H, log_J = transpose(inv(F)), np.log(J)

    def tangent() -> Array:
        transposed = np.einsum("il...,kj...->ijkl...", H, H)
        outer = np.einsum("ij...,kl...->ijkl...", H, H)
        return mu * EYE4 + (mu - lam * log_J) * transposed + lam * outer

    return mu * (F - H) + lam * log_J * H, tangent


LAWS: dict[str, Callable[[Array, float, float], Stress]] = {
    "corotated": corotated,
    "neo-hookean": neo_hookean,
}


def _import_skfem() -> tuple[Any, Any]:
    try:
        import skfem
        from skfem import helpers
    except ImportError as error:
        raise MissingExtra(
            "scikit-fem is not installed. Run: pip install 'pliant[bench]'."
        ) from error
    return skfem, helpers


def _forces(basis: Any, P: Array) -> Array:
    from skfem import LinearForm
    from skfem.helpers import ddot, grad

    return LinearForm(lambda v, w: ddot(w.P, grad(v))).assemble(basis, P=P)


def _stiffness(basis: Any, dP: Array) -> Any:
    from skfem import BilinearForm
    from skfem.helpers import ddot, grad

    @BilinearForm
    def form(u: Any, v: Any, w: Any) -> Array:
        return ddot(np.einsum("ijkl...,kl...->ij...", w.dP, grad(u)), grad(v))

    return form.assemble(basis, dP=dP)


def _solve(K: Any, r: Array, fixed: Array, times: NewtonTimes) -> Array:
    from scipy.sparse.linalg import splu
    from skfem import condense

    K_free, r_free, du, free = condense(K, r, D=fixed)
    K_free = K_free.tocsc()
    start = perf_counter()
    # SuperLU options for a symmetric matrix: 1.3 to 2.5 times faster than the defaults that
    # skfem.solve uses
    factor = splu(
        K_free, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    times.factor.append(perf_counter() - start)
    du[free] = factor.solve(r_free)
    return du


def _mean(seconds: list[float]) -> float | None:
    return float(np.mean(seconds)) if seconds else None
