"""Differential dynamic programming with implicit steps and limits [Zimmermann2021, section IV].

The state is augmented by past controls and observations (augmented_state.py). Without second
derivatives of the dynamics the method is iLQR. Limits on controls, rates and accelerations hold at
every step. A control at its limit follows the limit, which depends on past controls. For a
condensed model [Menager2024] the backward pass uses only the effectors, and each forward pass
simulates the full model. The regulariser is then the weight of a proximal term. For a large body,
iLQR works with reduced horizons (horizon_reduction.py), so its gains cost about as much as an
iteration of gauss_newton. Constraints are handled by the augmented Lagrangian method
(augmented_lagrangian.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, InputError, Linearizable, TwiceDifferentiable, counted, require_kind
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import NOT_FINITE, Evaluation, evaluate
from pliant.planners.horizon_reduction import expand_gains
from pliant.planners.linear_quadratic import LinearQuadraticModel, control_step_bounds
from pliant.planners.newton_planner import check_second_order
from pliant.planners.operation_counts import reduction_pays_off
from pliant.planners.options import with_progress
from pliant.planners.plan_result import (
    INTERRUPTED,
    Options,
    Plan,
    SearchLog,
    has_approximate_derivatives,
)
from pliant.planners.reduced_search import HorizonReducer
from pliant.planners.reduced_stages import ReducedStages
from pliant.planners.riccati import QuadraticModel, linearise_stages, stage_cost
from pliant.planners.riccati_kernels import backward_pass, backward_step
from pliant.planners.trust_region import project_to_limits
from pliant.planners.trust_region_search import missed_goal_text
from pliant.problem import Problem

RETRY_ADVICE = "try gauss_newton on the full model, or the other condensed derivative"
SEARCHES = ("line", "trust")
# With approximate derivatives the search ends when this many iterations lower the cost by less than
# this share.
STALL_ITERATIONS, STALL_SHARE = 8, 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """The policy u = u_now + a forward + gains (z - z_now) of a backward pass."""

    gains: Array  # (steps, n_controls, n_augmented)
    forward: Array  # (steps, n_controls)
    gain: float  # predicted decrease of the cost for a = 1


@with_progress
def ddp(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    second_order: bool = False,
    regulariser: float | None = None,
    search: str = "line",
) -> Plan:
    """Plan by differential dynamic programming (DDP).

    Parameters
    ----------
    problem, guess, options : as in `plan`
    second_order : use the second derivatives of the dynamics; False is iLQR
    regulariser : fixed lambda in Q_uu + lambda I [Zimmermann2021]; None adapts it
    search : "line" shortens the step of a policy; "trust" takes full steps and increases lambda if
        the prediction was too good

    Raises InputError if the model lacks the derivatives.
    """
    kind: Any = TwiceDifferentiable if second_order else Linearizable
    require_kind(
        "The model of ddp",
        problem.model,
        kind,
        "second_order=True needs a model with `hessian_vector` (ImplicitEuler, BDF2, "
        "Quasistatic), otherwise ddp needs `linearize`",
    )
    check_second_order(problem, second_order)
    if regulariser is not None and not 0.0 <= regulariser < np.inf:
        raise InputError(
            f"The regulariser is {regulariser}; give a number that is not negative, or None to "
            "adapt it."
        )
    if search not in SEARCHES:
        raise InputError(f"There is no search '{search}'; choose one of {', '.join(SEARCHES)}.")
    if problem.constraints:
        return plan_with_constraints(
            problem,
            ddp,
            guess=guess,
            options=options,
            second_order=second_order,
            regulariser=regulariser,
            search=search,
        )
    log = SearchLog(
        problem=problem, method="ddp" if second_order else "ilqr", options=options or Options()
    )
    now = log.evaluate_guess(guess)
    policy: list[Policy] = []
    try:
        return _iterate(
            problem, log, now, second_order, Regularisation(regulariser), search, policy
        )
    except InputError as error:  # such as a limit point, where derivatives do not exist
        if not log.iterations_done:
            raise
        return log.finish(
            False,
            f"stopped at the best iterate so far: {error}",
            gains=policy[-1].gains if policy else None,
        )
    except KeyboardInterrupt:
        return log.finish(
            False, INTERRUPTED, interrupted=True, gains=policy[-1].gains if policy else None
        )


def _iterate(
    problem: Problem,
    log: SearchLog,
    now: Evaluation,
    second_order: bool,
    damping: "Regularisation",
    search: str,
    kept: list[Policy],
) -> Plan:
    layout, options = AugmentedState(problem=problem), log.options
    approximate = has_approximate_derivatives(problem.model)
    reducer = (
        HorizonReducer(problem=problem)
        if not second_order and reduction_pays_off(problem)
        else None
    )
    damping.growth = 100.0 if approximate else 10.0  # each trial simulates the full model
    while log.iterations_done < options.iterations:
        if approximate and _has_stalled(log, damping):
            short = missed_goal_text(problem, now, RETRY_ADVICE)
            return log.finish(
                not short,
                f"stopped improving after {counted(log.iterations_done, 'iteration')}, at the "
                f"accuracy of the condensed derivative{short}",
                gains=kept[-1].gains if kept else None,
            )
        about = _linearised(problem, layout, now, reducer)
        policy = _backward_until_positive(about, damping, second_order)
        if policy is None:
            return log.finish(
                False,
                f"Q_uu is not positive definite with the regulariser {damping.value:.3g}; give "
                "None to adapt it, or a larger one",
            )
        kept[:] = [policy]
        calm = damping.value <= damping.scale or _is_stationary(about, options.tolerance)
        if calm and log.is_negligible(policy.gain, options.tolerance):
            return log.finish(
                True,
                "converged in "
                f"{counted(log.iterations_done, 'iteration')}{missed_goal_text(problem, now)}",
                gains=policy.gains,
            )
        found, ratio, failed = _forward_search(
            problem, layout, now, policy, 1 if search == "trust" else 5 if approximate else 12
        )
        if found is None:
            if calm and log.is_negligible(policy.gain, 1e-5):
                return log.finish(
                    True,
                    "converged to the accuracy of the simulation" + missed_goal_text(problem, now),
                    gains=policy.gains,
                )
            stuck = not damping.increase()
            if stuck and (not approximate or damping.fixed is not None or not log.has_improved):
                return log.finish(
                    False,
                    "no step lowers the cost any more with any regulariser; try another guess",
                    gains=policy.gains,
                )
            log.record_iteration(now, step=0.0, regulariser=damping.value, failed=failed)
            continue
        change = float(np.abs(found.controls - now.controls).max())
        now = found
        log.record_iteration(now, step=change, regulariser=damping.value, failed=failed)
        if search == "line" or ratio > 0.5:
            damping.decrease()
        elif ratio < 0.1:
            damping.increase()
    return log.finish(
        False,
        f"not converged in {counted(options.iterations, 'iteration')}; allow more with "
        "Options(iterations=...)",
        gains=kept[-1].gains if kept else None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedExpansion:
    """The linear-quadratic model over a reduced horizon, with the bases of its coordinates."""

    now: Evaluation
    stages: ReducedStages
    bases: list[Array]  # (layout.size, r_k)

    def backward(self, damping: float) -> tuple[bool, Array, Array, float, float]:
        """Return the same as riccati_kernels.backward_pass."""
        layout = self.stages.horizon.layout
        ok, reduced, forward, gain, size = self.stages.policy(self.now.controls, damping)
        gains = np.zeros((*forward.shape, layout.size))
        for k, (own, basis) in enumerate(zip(reduced, self.bases, strict=False)):
            gains[k] = expand_gains(layout, own, basis)
        return ok, gains, forward, gain, size


def _linearised(
    problem: Problem, layout: AugmentedState, now: Evaluation, reducer: HorizonReducer | None
) -> LinearQuadraticModel | ReducedExpansion:
    """Return the linear-quadratic model about an evaluation."""
    if reducer is not None:
        model, bases = reducer.model_with_bases(now)
        return ReducedExpansion(now=now, stages=model.stages, bases=bases)
    stages = linearise_stages(problem.model, layout, now)  # type: ignore[arg-type]
    return LinearQuadraticModel(problem=problem, layout=layout, now=now, stages=stages)


def _has_stalled(log: SearchLog, damping: "Regularisation") -> bool:
    """Return whether the last iterations hardly lowered the cost with enough damping."""
    many = STALL_ITERATIONS
    share = max(STALL_SHARE, log.options.tolerance)
    costs = [row.cost for row in log.history]
    slow = len(costs) > many and costs[-1 - many] - costs[-1] < share * abs(costs[-1 - many])
    return slow and log.has_improved and (costs[-1] < costs[-2] or damping.level >= 1e9)


@dataclass
class Regularisation:
    """The regulariser lambda of Q_uu + lambda I, relative to the size of Q_uu.

    It is fixed, or grows after failed steps and decreases after successful ones.
    """

    fixed: float | None
    growth: float = 10.0
    level: float = 0.0  # in units of scale
    scale: float = 1.0  # mean diagonal of Q_uu times 1e-6

    @property
    def value(self) -> float:
        return self.level * self.scale if self.fixed is None else self.fixed

    def increase(self) -> bool:
        """Increase lambda. Return False if it is fixed or too large."""
        if self.fixed is not None:
            return False
        self.level = max(self.growth * self.level, 1.0)
        return self.level <= 1e14

    def decrease(self) -> None:
        self.level = self.level / 10.0 if self.level > 1.0 else 0.0


def _backward_until_positive(
    about: LinearQuadraticModel | ReducedExpansion, damping: Regularisation, second_order: bool
) -> Policy | None:
    while True:
        policy = _backward(about, damping, second_order)
        if policy is not None or not damping.increase():
            return policy


def _is_stationary(about: LinearQuadraticModel | ReducedExpansion, share: float) -> bool:
    """Return whether the undamped Gauss-Newton model predicts a negligible decrease.

    A damped model predicts a small decrease anywhere. The exact Hessian may need damping even at
    an optimum with controls on their limits.
    """
    policy = _backward(about, Regularisation(None), second_order=False)
    return policy is not None and policy.gain <= share * abs(about.now.cost)


def _backward(
    about: LinearQuadraticModel | ReducedExpansion, damping: Regularisation, second_order: bool
) -> Policy | None:
    """Return the policy of one backward pass; None if a Q_uu is not positive definite."""
    value = float(damping.value)
    if isinstance(about, ReducedExpansion):
        ok, gains, forward, gain, size = about.backward(value)
    elif second_order or not about.is_small:
        ok, gains, forward, gain, size = _stagewise_pass(about, value, second_order)
    else:
        ok, gains, forward, gain, size = backward_pass(*(*about.kernel_arguments, value))
    if damping.level == 0.0:
        damping.scale = 1e-6 * max(size, 1e-300)
    return Policy(gains=gains, forward=forward, gain=gain) if ok else None


def _stagewise_pass(
    about: LinearQuadraticModel, damping: float, second_order: bool
) -> tuple[bool, Array, Array, float, float]:
    """Return the same as riccati_kernels.backward_pass, computed stage by stage."""
    problem, layout, now = about.problem, about.layout, about.now
    N, m = problem.steps, problem.model.n_controls
    last = stage_cost(problem, layout, now, N, exact=second_order)
    P, p, gain = last.zz, last.z, 0.0
    gains, forward, diagonal = np.zeros((N, m, layout.size)), np.zeros((N, m)), []
    for k in range(N - 1, -1, -1):
        stage = stage_cost(problem, layout, now, k, exact=second_order)
        stage = _add_dynamics_hessian(problem, layout, now, k, p, stage) if second_order else stage
        ok, K, d, P, p, promised, size = backward_step(
            stage.z,
            stage.u,
            stage.zz,
            stage.uz,
            stage.uu,
            *about.stages[k],
            P,
            p,
            *about.control_step_bounds(k),
            damping,
        )
        diagonal.append(size)
        if not ok:
            return False, gains, forward, gain, float(np.mean(diagonal))
        gains[k], forward[k] = K, d
        gain += promised
    return True, gains, forward, gain, float(np.mean(diagonal))


def _add_dynamics_hessian(
    problem: Problem, layout: AugmentedState, now: Evaluation, k: int, p: Array, Q: QuadraticModel
) -> QuadraticModel:
    """Return Q with the tensor terms V'_x . f_xx etc. [Zimmermann2021, eq. 19].

    The tensors are contracted without being formed.
    """
    model: Any = problem.model
    n, m = layout.n_state, model.n_controls
    product = model.hessian_vector(now.steps[k], p[:n])
    by_x, by_u = product(np.eye(n, n + m), np.eye(m, n + m, n))
    zz, uz = Q.zz.copy(), Q.uz.copy()
    zz[:n, :n] += 0.5 * (by_x[:, :n] + by_x[:, :n].T)
    uz[:, :n] += by_u[:, :n]
    return QuadraticModel(z=Q.z, u=Q.u, zz=zz, uz=uz, uu=Q.uu + 0.5 * (by_u[:, n:] + by_u[:, n:].T))


def _forward_search(
    problem: Problem, layout: AugmentedState, now: Evaluation, policy: Policy, trials: int
) -> tuple[Evaluation | None, float, int]:
    """Return the first rollout with a = 1, 1/2, ... that lowers the cost [Zimmermann2021, eq. 32].

    Also return the actual over the predicted decrease and the number of failed simulations.
    """
    failed = 0
    for a in 0.5 ** np.arange(trials):
        trial = _rollout(problem, layout, now, policy, float(a))
        failed += bool(trial.failed)
        if now.cost - trial.cost > 1e-4 * a * policy.gain:
            return trial, float((now.cost - trial.cost) / max(policy.gain, 1e-300)), failed
    return None, 0.0, failed


def _rollout(
    problem: Problem, layout: AugmentedState, now: Evaluation, policy: Policy, a: float
) -> Evaluation:
    """Simulate a policy, with each control clipped to its current limits."""
    states, controls = now.states.copy(), now.controls.copy()
    steps = []
    p = None if problem.params is None else np.asarray(problem.params, float)
    for k in range(problem.steps):
        z = layout.evaluate(k, states, controls) - layout.evaluate(k, now.states, now.controls)
        u = now.controls[k] + a * policy.forward[k] + policy.gains[k] @ z
        low, high, *_ = control_step_bounds(problem, layout, controls, k)
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
    # Clipping fails if the limits of some step contradict each other, such as a nonzero rate.
    if problem.limit_violation(controls) > 1e-9:
        return evaluate(problem, project_to_limits(problem, controls))
    cost = problem.value(states, controls)
    return Evaluation(
        controls=controls,
        states=states,
        steps=tuple(steps),
        cost=cost if np.isfinite(cost) else np.inf,
        failed="" if np.isfinite(cost) else NOT_FINITE,
    )
