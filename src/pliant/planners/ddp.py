"""Differential dynamic programming with implicit steps and terms that look back (paper 003 section
IV), within limits.

The state is augmented by what the terms remember (augmented.py). Without second derivatives of the
dynamics it is iLQR. Limits on the controls, their rates and accelerations are kept at every step: a
control at its limit follows the limit, which moves with the memory. Of a condensed model (paper
001) the backward pass holds the effectors alone, while every forward pass is a run of the whole
model; lambda is then the weight of a proximal term. Constraints are kept by an augmented Lagrangian
around it (lagrangian.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Curved, InputError, Linearizable, require_kind
from pliant.planners.augmented import Augmented
from pliant.planners.expansion import Expansion, room
from pliant.planners.lagrangian import constrained
from pliant.planners.newton import check_bends
from pliant.planners.options import reported
from pliant.planners.plan import (
    INTERRUPTED,
    NOT_FINITE,
    Evaluation,
    Journal,
    Options,
    Plan,
    evaluate,
    is_rough,
)
from pliant.planners.quadratic import within_limits
from pliant.planners.riccati import Quadratic, dense_stages, stage_cost
from pliant.planners.shooting import missed
from pliant.planners.stages import back, sweep
from pliant.problem import Problem

TRY = "try gauss_newton on the whole model, or the other condensed derivative"
SEARCHES = ("line", "trust")
SETTLED = (
    8,
    1e-3,
    # an approximate derivative has led as far as it does when so many iterations lowered the cost
    # by less than this share
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """u = u_now + a forward + gains (z - z_now), from one backward pass."""

    gains: Array  # (steps, n_controls, n_augmented)
    forward: Array  # (steps, n_controls)
    gain: float  # what the model promises of a whole step


@reported
def ddp(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    second_order: bool = False,
    regulariser: float | None = None,
    search: str = "line",
) -> Plan:
    """Plan by DDP. `second_order` adds the second derivatives of the dynamics (iLQR without);
    `regulariser` fixes lambda in Q_uu + lambda I as the paper does, None adapts it. `search` is
    "line", shorter steps along one policy, or "trust", one whole step of each policy and a larger
    lambda where it promised too much."""
    kind: Any = Curved if second_order else Linearizable
    require_kind(
        "The model of ddp",
        problem.model,
        kind,
        "second_order=True needs a model with `bend` (ImplicitEuler, BDF2, Quasistatic), "
        "ddp one with `linearize`",
    )
    check_bends(problem, second_order)
    if regulariser is not None and not 0.0 <= regulariser < np.inf:
        raise InputError(
            f"The regulariser is {regulariser}; give a number that is not negative, or None to "
            "adapt it."
        )
    if search not in SEARCHES:
        raise InputError(f"There is no search '{search}'; choose one of {', '.join(SEARCHES)}.")
    if problem.constraints:
        return constrained(
            problem,
            ddp,
            guess=guess,
            options=options,
            second_order=second_order,
            regulariser=regulariser,
            search=search,
        )
    journal = Journal(
        problem=problem, method="ddp" if second_order else "ilqr", options=options or Options()
    )
    now = journal.first(guess)
    policy: list[Policy] = []
    try:
        return _iterate(problem, journal, now, second_order, Damping(regulariser), search, policy)
    except InputError as error:  # such as a run that ends at a fold, where it has no derivative
        if not journal.done:
            raise
        return journal.finish(
            False,
            f"stopped at the best iterate so far: {error}",
            gains=policy[-1].gains if policy else None,
        )
    except KeyboardInterrupt:
        return journal.finish(
            False, INTERRUPTED, interrupted=True, gains=policy[-1].gains if policy else None
        )


def _iterate(
    problem: Problem,
    journal: Journal,
    now: Evaluation,
    second_order: bool,
    damping: "Damping",
    search: str,
    kept: list[Policy],
) -> Plan:
    layout, options = Augmented(problem=problem), journal.options
    rough = is_rough(problem.model)
    damping.growth = 100.0 if rough else 10.0  # every trial is a run of the whole model
    while journal.done < options.iterations:
        if rough and _settled(journal, damping):
            short = missed(problem, now, TRY)
            return journal.finish(
                not short,
                f"settled in {journal.done} iterations, as far as a condensed derivative "
                f"leads{short}",
                gains=kept[-1].gains if kept else None,
            )
        stages = dense_stages(problem.model, layout, now)  # type: ignore[arg-type]
        about = Expansion(problem=problem, layout=layout, now=now, stages=stages)
        policy = _backward_until_positive(about, damping, second_order)
        if policy is None:
            return journal.finish(
                False,
                f"Q_uu is not positive with the regulariser {damping.value:.3g}; let it adapt "
                "(None) or raise it",
            )
        kept[:] = [policy]
        calm = damping.value <= damping.scale or _at_rest(about, options.tolerance)
        if calm and journal.negligible(policy.gain, options.tolerance):
            return journal.finish(
                True,
                f"converged in {journal.done} iterations{missed(problem, now)}",
                gains=policy.gains,
            )
        found, ratio, failed = _forward_search(
            problem, layout, now, policy, 1 if search == "trust" else 5 if rough else 12
        )
        if found is None:
            if calm and journal.negligible(policy.gain, 1e-5):
                return journal.finish(
                    True,
                    "converged to the accuracy of the simulation" + missed(problem, now),
                    gains=policy.gains,
                )
            stuck = not damping.raise_()
            if stuck and (not rough or damping.fixed is not None or not journal.lowered):
                return journal.finish(
                    False,
                    "no step lowers the cost any more, however strong the regulariser; try "
                    "another guess",
                    gains=policy.gains,
                )
            journal.note(now, step=0.0, regulariser=damping.value, failed=failed)
            continue
        change = float(np.abs(found.controls - now.controls).max())
        now = found
        journal.note(now, step=change, regulariser=damping.value, failed=failed)
        if search == "line" or ratio > 0.5:
            damping.lower()
        elif ratio < 0.1:
            damping.raise_()
    return journal.finish(
        False,
        f"not converged in {options.iterations} iterations; allow more with "
        "Options(iterations=...)",
        gains=kept[-1].gains if kept else None,
    )


def _settled(journal: Journal, damping: "Damping") -> bool:
    """Whether the last iterations lowered the cost by next to nothing, and not for want of
    damping."""
    many, least = SETTLED
    share = max(least, journal.options.tolerance)
    costs = [row.cost for row in journal.history]
    slow = len(costs) > many and costs[-1 - many] - costs[-1] < share * abs(costs[-1 - many])
    return slow and journal.lowered and (costs[-1] < costs[-2] or damping.level >= 1e9)


@dataclass
class Damping:
    """lambda of Q_uu + lambda I: fixed, or grown tenfold where a step fails and let go where one
    works; measured in Q_uu itself."""

    fixed: float | None
    growth: float = 10.0
    level: float = 0.0  # in units of scale
    scale: float = 1.0  # mean diagonal of Q_uu times 1e-6

    @property
    def value(self) -> float:
        return self.level * self.scale if self.fixed is None else self.fixed

    def raise_(self) -> bool:
        """False where it makes no more sense."""
        if self.fixed is not None:
            return False
        self.level = max(self.growth * self.level, 1.0)
        return self.level <= 1e14

    def lower(self) -> None:
        self.level = self.level / 10.0 if self.level > 1.0 else 0.0


def _backward_until_positive(
    about: Expansion, damping: Damping, second_order: bool
) -> Policy | None:
    while True:
        policy = _backward(about, damping, second_order)
        if policy is not None or not damping.raise_():
            return policy


def _at_rest(about: Expansion, share: float) -> bool:
    """Whether the undamped convex model promises no more than a share of the cost: a damped one
    promises little anywhere, and exact curvature may need damping at the optimum too, where
    controls rest on their limits."""
    policy = _backward(about, Damping(None), second_order=False)
    return policy is not None and policy.gain <= share * abs(about.now.cost)


def _backward(about: Expansion, damping: Damping, second_order: bool) -> Policy | None:
    """One pass from the last step to the first; None where some Q_uu is not positive."""
    stepwise = second_order or not about.small
    value = float(damping.value)
    ok, gains, forward, gain, size = (
        _passed(about, value, second_order) if stepwise else sweep(*(*about.stacked, value))
    )
    if damping.level == 0.0:
        damping.scale = 1e-6 * max(size, 1e-300)
    return Policy(gains=gains, forward=forward, gain=gain) if ok else None


def _passed(
    about: Expansion, damping: float, second_order: bool
) -> tuple[bool, Array, Array, float, float]:
    """What stages.sweep gives, a stage at a time."""
    problem, layout, now = about.problem, about.layout, about.now
    N, m = problem.steps, problem.model.n_controls
    last = stage_cost(problem, layout, now, N, exact=second_order)
    P, p, gain = last.zz, last.z, 0.0
    gains, forward, diagonal = np.zeros((N, m, layout.size)), np.zeros((N, m)), []
    for k in range(N - 1, -1, -1):
        stage = stage_cost(problem, layout, now, k, exact=second_order)
        stage = _with_bend(problem, layout, now, k, p, stage) if second_order else stage
        ok, K, d, P, p, promised, size = back(
            stage.z,
            stage.u,
            stage.zz,
            stage.uz,
            stage.uu,
            *about.stages[k],
            P,
            p,
            *about.room(k),
            damping,
        )
        diagonal.append(size)
        if not ok:
            return False, gains, forward, gain, float(np.mean(diagonal))
        gains[k], forward[k] = K, d
        gain += promised
    return True, gains, forward, gain, float(np.mean(diagonal))


def _with_bend(
    problem: Problem, layout: Augmented, now: Evaluation, k: int, p: Array, Q: Quadratic
) -> Quadratic:
    """Q with V'_x . f_xx and its like (the tensor terms of paper 003 eq. 19), contracted, never
    formed."""
    model: Any = problem.model
    n, m = layout.n_state, model.n_controls
    bend = model.bend(now.steps[k], p[:n])
    by_x, by_u = bend(np.eye(n, n + m), np.eye(m, n + m, n))
    zz, uz = Q.zz.copy(), Q.uz.copy()
    zz[:n, :n] += 0.5 * (by_x[:, :n] + by_x[:, :n].T)
    uz[:, :n] += by_u[:, :n]
    return Quadratic(z=Q.z, u=Q.u, zz=zz, uz=uz, uu=Q.uu + 0.5 * (by_u[:, n:] + by_u[:, n:].T))


def _forward_search(
    problem: Problem, layout: Augmented, now: Evaluation, policy: Policy, trials: int
) -> tuple[Evaluation | None, float, int]:
    """The first run of paper 003 eq. 32 with a = 1, 1/2, ... that lowers the cost, by what share of
    the promise, and how many could not be simulated."""
    failed = 0
    for a in 0.5 ** np.arange(trials):
        trial = _follow(problem, layout, now, policy, float(a))
        failed += bool(trial.failed)
        if now.cost - trial.cost > 1e-4 * a * policy.gain:
            return trial, float((now.cost - trial.cost) / max(policy.gain, 1e-300)), failed
    return None, 0.0, failed


def _follow(
    problem: Problem, layout: Augmented, now: Evaluation, policy: Policy, a: float
) -> Evaluation:
    """The run of the policy; every control is kept within its limits as they stand then."""
    states, controls = now.states.copy(), now.controls.copy()
    steps = []
    p = None if problem.params is None else np.asarray(problem.params, float)
    for k in range(problem.steps):
        z = layout.at(k, states, controls) - layout.at(k, now.states, now.controls)
        u = now.controls[k] + a * policy.forward[k] + policy.gains[k] @ z
        low, high, *_ = room(problem, layout, controls, k)
        controls[k] = np.clip(
            u, controls[k] + low, np.maximum(controls[k] + high, controls[k] + low)
        )
        if not np.all(np.isfinite(controls[k])):
            return Evaluation(
                controls=controls,
                states=states,
                steps=(),
                cost=np.inf,
                failed=f"step {k}: the control is not finite",
            )
        step = problem.model.step(states[k], controls[k], p, k)
        if not step.status or not np.all(np.isfinite(step.x)):
            why = step.status.text if not step.status else "the state is not finite"
            return Evaluation(
                controls=controls, states=states, steps=(), cost=np.inf, failed=f"step {k}: {why}"
            )
        states[k + 1] = step.x
        steps.append(step)
    if (
        problem.excess(controls) > 1e-9
    ):  # limits that leave no room at some step, such as a rate that must not be zero
        return evaluate(problem, within_limits(problem, controls))
    cost = problem.value(states, controls)
    return Evaluation(
        controls=controls,
        states=states,
        steps=tuple(steps),
        cost=cost if np.isfinite(cost) else np.inf,
        failed="" if np.isfinite(cost) else NOT_FINITE,
    )
