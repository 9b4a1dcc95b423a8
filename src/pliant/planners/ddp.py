"""Differential dynamic programming with implicit steps and terms that look back (paper 003 section IV), within limits.

The state is augmented by what the terms remember (augmented.py). Without second derivatives of the dynamics it is iLQR. Limits on the
controls, their rates and accelerations are kept at every step: a control at its limit follows the limit, which moves with the memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import lsq_linear

from pliant.core import Array, Curved, InputError, Linearizable, require_kind
from pliant.planners.augmented import Augmented
from pliant.planners.lagrangian import constrained
from pliant.planners.newton import check_bends
from pliant.planners.plan import INTERRUPTED, NOT_FINITE, Evaluation, Journal, Options, Plan, evaluate
from pliant.planners.quadratic import within_limits
from pliant.planners.riccati import Quadratic, dense_stages, stage_cost, through
from pliant.planners.shooting import missed
from pliant.problem import Band, Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """u = u_now + a forward + gains (z - z_now), from one backward pass."""

    gains: Array  # (steps, n_controls, n_augmented)
    forward: Array  # (steps, n_controls)
    gain: float  # what the model promises of a whole step


def ddp(problem: Problem, *, guess: Array | None = None, options: Options | None = None, second_order: bool = False,
        regulariser: float | None = None) -> Plan:  # fmt: skip
    """Plan by DDP. `second_order` adds the second derivatives of the dynamics (iLQR without); `regulariser` fixes lambda in
    Q_uu + lambda I as the paper does, None adapts it."""
    kind: Any = Curved if second_order else Linearizable
    require_kind("The model of ddp", problem.model, kind, "second_order=True needs a model with `bend` (ImplicitEuler, BDF2, Quasistatic), "
                 "ddp one with `linearize`")  # fmt: skip
    check_bends(problem, second_order)
    if regulariser is not None and not 0.0 <= regulariser < np.inf:
        raise InputError(f"The regulariser is {regulariser}; give a number that is not negative, or None to adapt it.")
    if problem.constraints:
        return constrained(problem, ddp, guess=guess, options=options, second_order=second_order, regulariser=regulariser)
    journal = Journal(problem=problem, method="ddp" if second_order else "ilqr", options=options or Options())
    now = journal.first(guess)
    policy: list[Policy] = []
    try:
        return _iterate(problem, journal, now, second_order, regulariser, policy)
    except InputError as error:  # such as a run that ends at a fold, where it has no derivative
        return journal.finish(False, f"stopped at the best iterate so far: {error}", gains=policy[-1].gains if policy else None)
    except KeyboardInterrupt:
        return journal.finish(False, INTERRUPTED, interrupted=True,
                              gains=policy[-1].gains if policy else None)  # fmt: skip


def _iterate(problem: Problem, journal: Journal, now: Evaluation, second_order: bool, fixed: float | None, kept: list[Policy]) -> Plan:
    layout, options = Augmented(problem=problem), journal.options
    damping = Damping(fixed)
    while journal.done < options.iterations:
        stages = dense_stages(problem.model, layout, now)  # type: ignore[arg-type]
        policy = _backward_until_positive(problem, layout, now, stages, damping, second_order)
        if policy is None:
            return journal.finish(False, f"Q_uu is not positive with the regulariser {damping.value:.3g}; let it adapt (None) or raise it")
        kept[:] = [policy]
        calm = damping.value <= damping.scale or _at_rest(problem, layout, now, stages, options.tolerance)
        if calm and journal.negligible(policy.gain, options.tolerance):
            return journal.finish(True, f"converged in {journal.done} iterations{missed(problem, now)}", gains=policy.gains)
        found, failed = _forward_search(problem, layout, now, policy)
        if found is None:
            if calm and journal.negligible(policy.gain, 1e-5):
                return journal.finish(True, "converged to the accuracy of the simulation" + missed(problem, now), gains=policy.gains)
            if not damping.raise_():
                return journal.finish(False, "no step lowers the cost any more, however strong the regulariser; try another guess",
                                      gains=policy.gains)  # fmt: skip
            journal.note(now, step=0.0, regulariser=damping.value, failed=failed)
            continue
        change = float(np.abs(found.controls - now.controls).max())
        now = found
        journal.note(now, step=change, regulariser=damping.value, failed=failed)
        damping.lower()
    return journal.finish(False, f"not converged in {options.iterations} iterations; allow more with Options(iterations=...)",
                          gains=kept[-1].gains if kept else None)  # fmt: skip


@dataclass
class Damping:
    """lambda of Q_uu + lambda I: fixed, or grown tenfold where a step fails and let go where one works; measured in Q_uu itself."""

    fixed: float | None
    level: float = 0.0  # in units of scale
    scale: float = 1.0  # mean diagonal of Q_uu times 1e-6

    @property
    def value(self) -> float:
        return self.level * self.scale if self.fixed is None else self.fixed

    def raise_(self) -> bool:
        """False where it makes no more sense."""
        self.level = max(10.0 * self.level, 1.0)
        return self.fixed is None and self.level <= 1e14

    def lower(self) -> None:
        self.level = self.level / 10.0 if self.level > 1.0 else 0.0


def _backward_until_positive(problem: Problem, layout: Augmented, now: Evaluation, stages: list[tuple[Array, Array]], damping: Damping,
                             second_order: bool) -> Policy | None:  # fmt: skip
    while True:
        policy = _backward(problem, layout, now, stages, damping, second_order)
        if policy is not None or not damping.raise_():
            return policy


def _at_rest(problem: Problem, layout: Augmented, now: Evaluation, stages: list[tuple[Array, Array]], share: float) -> bool:
    """Whether the undamped convex model promises no more than a share of the cost: a damped one promises little anywhere, and exact
    curvature may need damping at the optimum too, where controls rest on their limits."""
    policy = _backward(problem, layout, now, stages, Damping(None), second_order=False)
    return policy is not None and policy.gain <= share * abs(now.cost)


def _backward(problem: Problem, layout: Augmented, now: Evaluation, stages: list[tuple[Array, Array]], damping: Damping,
              second_order: bool) -> Policy | None:  # fmt: skip
    N, m = problem.steps, problem.model.n_controls
    last = stage_cost(problem, layout, now, N, exact=second_order)
    P, p, gain = last.zz, last.z, 0.0
    gains, forward, diagonal = np.zeros((N, m, layout.size)), np.zeros((N, m)), []
    for k in range(N - 1, -1, -1):
        Q = through(stage_cost(problem, layout, now, k, exact=second_order), *stages[k], P, p)
        Q = _with_bend(problem, layout, now, k, p, Q) if second_order else Q
        diagonal.append(float(np.abs(np.diag(Q.uu)).mean()))
        found = _stage_policy(problem, layout, now, k, Q, damping.value)
        if found is None:
            damping.scale = 1e-6 * max(float(np.mean(diagonal)), 1e-300) if damping.level == 0.0 else damping.scale
            return None
        K, d = found
        gains[k], forward[k] = K, d
        gain -= float(Q.u @ d + 0.5 * d @ Q.uu @ d)
        P = Q.zz + K.T @ Q.uu @ K + K.T @ Q.uz + Q.uz.T @ K
        p = Q.z + K.T @ (Q.uu @ d + Q.u) + Q.uz.T @ d
        P = 0.5 * (P + P.T)
    if damping.level == 0.0:
        damping.scale = 1e-6 * max(float(np.mean(diagonal)), 1e-300)
    return Policy(gains=gains, forward=forward, gain=gain)


def _with_bend(problem: Problem, layout: Augmented, now: Evaluation, k: int, p: Array, Q: Quadratic) -> Quadratic:
    """Q with V'_x . f_xx and its like (the tensor terms of paper 003 eq. 19), contracted, never formed."""
    model: Any = problem.model
    n, m = layout.n_state, model.n_controls
    bend = model.bend(now.steps[k], p[:n])
    by_x, by_u = bend(np.eye(n, n + m), np.eye(m, n + m, n))
    zz, uz = Q.zz.copy(), Q.uz.copy()
    zz[:n, :n] += 0.5 * (by_x[:, :n] + by_x[:, :n].T)
    uz[:, :n] += by_u[:, :n]
    return Quadratic(z=Q.z, u=Q.u, zz=zz, uz=uz, uu=Q.uu + 0.5 * (by_u[:, n:] + by_u[:, n:].T))


def _stage_policy(problem: Problem, layout: Augmented, now: Evaluation, k: int, Q: Quadratic, damping: float) -> tuple[Array, Array] | None:
    """(K, k) that minimise Q within the limits, None where Q_uu is not positive."""
    H = Q.uu + damping * np.eye(len(Q.u))
    try:
        L = scipy.linalg.cholesky(H, lower=True)
    except (scipy.linalg.LinAlgError, ValueError):
        return None
    low, high, low_rows, high_rows = _room(problem, layout, now.controls, k)
    d = -scipy.linalg.cho_solve((L, True), Q.u)
    if np.all(d >= low) and np.all(d <= high):
        return -scipy.linalg.cho_solve((L, True), Q.uz), d
    narrow = high - low < 1e-12
    wide = np.where(narrow, low + 1e-12, high)
    d = lsq_linear(L.T, -scipy.linalg.solve_triangular(L, Q.u, lower=True), (low - 1e-14, wide + 1e-14), method="bvls").x
    at_low, at_high = (d <= low + _near(low)), (d >= high - _near(high))
    at_low &= ~(at_high & (H @ d + Q.u < 0.0))  # where there is no room at all, the bound that it presses against
    d = np.clip(d, low, np.maximum(low, high))
    K = np.where(at_low[:, None], low_rows, np.where(at_high[:, None], high_rows, 0.0))
    free, held = ~(at_low | at_high), at_low | at_high
    if free.any():
        K[free] = -scipy.linalg.solve(H[np.ix_(free, free)], Q.uz[free] + H[np.ix_(free, held)] @ K[held], assume_a="pos")
    return K, d


def _near(bound: Array) -> Array:
    """How close to a bound counts as on it; nothing is close to an infinite one."""
    return 1e-10 * np.maximum(1.0, np.where(np.isfinite(bound), np.abs(bound), 0.0))


def _room(problem: Problem, layout: Augmented, controls: Array, k: int) -> tuple[Array, Array, Array, Array]:
    """How far u_k may go down and up by all limits, and how these bounds move with z_k."""
    m = controls.shape[1]
    low, high = np.full(m, -np.inf), np.full(m, np.inf)
    low_rows, high_rows = np.zeros((m, layout.size)), np.zeros((m, layout.size))
    for band in (*problem.bands, *_braking(problem, k)):
        c = band.stencil[0]
        past = sum(
            (band.stencil[j] * (controls[k - j] if k >= j else problem.first_control) for j in range(1, len(band.stencil))), np.zeros(m)
        )
        rows = -layout.stencil_rows(band.stencil) / c
        lower, upper = (band.lower - past) / c - controls[k], (band.upper - past) / c - controls[k]
        low_rows, low = np.where((lower > low)[:, None], rows, low_rows), np.maximum(low, lower)
        high_rows, high = np.where((upper < high)[:, None], rows, high_rows), np.minimum(high, upper)
    return low, high, low_rows, high_rows


def _braking(problem: Problem, k: int) -> list[Band]:
    """What a bound U and the strongest deceleration a leave of u_k, so that it can still stop in time: braking for n steps leads to
    (1 + n) u_k - n u_{k-1} - a dt^2 n (n + 1) / 2, which must not pass U."""
    by_order = [[band for band in problem.bands if band.order == order] for order in (0, 2)]
    if not by_order[1]:
        return []
    (low, high), (down, up) = ((np.max([b.lower for b in bands], axis=0), np.min([b.upper for b in bands], axis=0)) for bands in by_order)
    if not np.any(np.isfinite(low) | np.isfinite(high)):
        return []
    h2 = problem.model.dt**2
    way = {n: 0.5 * h2 * n * (n + 1) for n in range(1, problem.steps - k)}
    return [Band(stencil=np.array([1.0 + n, -n]), lower=low - w * up, upper=high - w * down, order=1) for n, w in way.items()]


def _forward_search(problem: Problem, layout: Augmented, now: Evaluation, policy: Policy) -> tuple[Evaluation | None, int]:
    """The first run of paper 003 eq. 32 with a = 1, 1/2, ... that lowers the cost, and how many could not be simulated."""
    failed = 0
    for a in 0.5 ** np.arange(12):
        trial = _follow(problem, layout, now, policy, float(a))
        failed += bool(trial.failed)
        if now.cost - trial.cost > 1e-4 * a * policy.gain:
            return trial, failed
    return None, failed


def _follow(problem: Problem, layout: Augmented, now: Evaluation, policy: Policy, a: float) -> Evaluation:
    """The run of the policy; every control is kept within its limits as they stand then."""
    states, controls = now.states.copy(), now.controls.copy()
    steps = []
    p = None if problem.params is None else np.asarray(problem.params, float)
    for k in range(problem.steps):
        z = layout.at(k, states, controls) - layout.at(k, now.states, now.controls)
        u = now.controls[k] + a * policy.forward[k] + policy.gains[k] @ z
        low, high, *_ = _room(problem, layout, controls, k)
        controls[k] = np.clip(u, controls[k] + low, np.maximum(controls[k] + high, controls[k] + low))
        if not np.all(np.isfinite(controls[k])):
            return Evaluation(controls=controls, states=states, steps=(), cost=np.inf, failed=f"step {k}: the control is not finite")
        step = problem.model.step(states[k], controls[k], p, k)
        if not step.status or not np.all(np.isfinite(step.x)):
            why = step.status.text if not step.status else "the state is not finite"
            return Evaluation(controls=controls, states=states, steps=(), cost=np.inf, failed=f"step {k}: {why}")
        states[k + 1] = step.x
        steps.append(step)
    if problem.excess(controls) > 1e-9:  # limits that leave no room at some step, such as a rate that must not be zero
        return evaluate(problem, within_limits(problem, controls))
    cost = problem.value(states, controls)
    return Evaluation(controls=controls, states=states, steps=tuple(steps), cost=cost if np.isfinite(cost) else np.inf,
                      failed="" if np.isfinite(cost) else NOT_FINITE)  # fmt: skip
