"""Error estimates for a motion on a surrogate, from its grids, from residuals of the exact map and
from a few exact evaluations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    MapDynamics,
    PliantError,
    Refinable,
    StepError,
    counted,
    effector_position,
)
from pliant.planners.plan_result import Evaluation, Plan, evaluate
from pliant.planners.step_errors import StepErrors, exact_step_error, residual_step_errors
from pliant.planners.surrogate_errors import (
    PLAUSIBLE_ORDERS,
    holdout_error,
    largest_known,
    richardson,
    surpluses,
)
from pliant.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """A motion on the replay model, from the same initial state."""

    evaluation: Evaluation | None  # None if the replay failed
    failed: str = ""  # why it failed
    evaluations: int = 0  # number of exact evaluations that it used


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Error estimates of a motion on a surrogate, such as a plan.

    The relative error of a value of the exact map f is |f~ - f| / |f|; for a soft robot, f is the
    positions of all nodes. An estimate is None if it could not be computed.
    """

    # largest error of the previous level at the new grid corners of each level
    largest_surpluses: tuple[float | None, ...]
    observed_order: float | None  # over the last three levels, along the motion
    richardson_error: float | None  # extrapolated error of f; None if the order is not 3 to 5
    holdout_error: float | None  # largest error of f at random points of the motion
    exact_step_errors: StepErrors  # at random steps, from exact steps
    estimated_step_errors: StepErrors | None  # of every step, from residuals of the exact map
    exact_evaluations: int  # used for the errors, in addition to those of the motion
    cost: float  # of the motion
    replay: Evaluation | None  # of the controls on the replay model; None if it failed
    effector_error: float | None  # [m] largest distance of an effector between motion and replay
    surpluses: tuple[tuple[tuple[Array, float], ...], ...] = ()  # (corner, surplus) of each level
    notes: tuple[str, ...] = ()  # failures and warnings of the exact evaluations
    replay_failed: str = ""  # why the replay failed
    # exact evaluations of the replay; 0 if its model needs none, such as that of a soft robot
    replay_evaluations: int = 0

    @property
    def step_error(self) -> float | None:
        """Largest |g~ - g| / |g| over positions and velocities [Jia2019] at random steps."""
        return largest_known(self.exact_step_errors.state)

    @property
    def position_error(self) -> float | None:
        """Largest error of the positions alone after random steps."""
        return largest_known(self.exact_step_errors.position)

    @property
    def increment_error(self) -> float | None:
        """Largest error of the positions after random steps, relative to the motion in the step."""
        return largest_known(self.exact_step_errors.increment)

    @property
    def estimated_step_error(self) -> float | None:
        """Largest estimate of `step_error` over all steps."""
        errors = self.estimated_step_errors
        return None if errors is None else largest_known(errors.state)

    @property
    def replay_cost(self) -> float | None:
        """Cost of the replay."""
        return None if self.replay is None else self.replay.cost

    def lines(self) -> list[str]:
        """Return the estimates as lines of text."""
        order = (
            "not observed (three levels are needed)"
            if self.observed_order is None
            else f"{self.observed_order:.2f}"
        )
        rejected = "not available" + (
            ""
            if self.observed_order is None
            else f", the order is not {PLAUSIBLE_ORDERS[0]:g} to {PLAUSIBLE_ORDERS[1]:g}"
        )
        estimated = self.estimated_step_errors
        return [
            "largest surplus of each level: "
            f"{', '.join(_format(value) for value in self.largest_surpluses) or '-'}",
            f"observed order: {order}; Richardson error estimate: "
            f"{rejected if self.richardson_error is None else _format(self.richardson_error)}",
            f"error at random points of the motion: {_format(self.holdout_error)}",
            f"error of one step, {_step_line(self.exact_step_errors, 'random steps')}",
            *(
                []
                if estimated is None
                else [f"estimated error of one step, {_step_line(estimated, 'steps')}"]
            ),
            f"exact evaluations for these errors: {self.exact_evaluations}",
            f"replay with the full model: {self._replay_line()}",
            *(f"note: {note}" for note in self.notes),
        ]

    def _replay_line(self) -> str:
        if self.replay is None:
            return f"failed: {self.replay_failed}" if self.replay_failed else "not available"
        distance = (
            "" if self.effector_error is None else f", effectors within {self.effector_error:.2e} m"
        )
        count = self.replay_evaluations
        used = f", {counted(count, 'exact evaluation')}" if count else ""
        return f"cost {self.replay.cost:.6g} (plan {self.cost:.6g}){distance}{used}"


def _step_line(errors: StepErrors, what: str) -> str:
    state, position, increment = map(
        largest_known, (errors.state, errors.position, errors.increment)
    )
    return (
        f"largest of {np.isfinite(errors.state).sum()} {what}: {_format(state)} relative to "
        f"positions and velocities, {_format(position)} relative to the positions, "
        f"{_format(increment)} relative to the increment"
    )


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def certify(
    problem: Problem, models: Sequence[Refinable], plan: Plan, *, points: int = 6, seed: int = 0
) -> Certificate:
    """Return the certificate of a plan on the last of several increasingly fine models.

    `problem` is the planned problem on any of the models. `points` random steps of the plan are
    checked with exact evaluations.
    """
    return certify_motion(
        models,
        plan.states,
        plan.controls,
        cost=plan.cost,
        replay=_replay(problem, models[-1], plan),
        params=None if problem.params is None else np.asarray(problem.params, float),
        points=points,
        seed=seed,
    )


def certify_motion(
    models: Sequence[Refinable],
    states: Array,
    controls: Array,
    *,
    cost: float,
    replay: Replay | None = None,
    params: Array | None = None,
    points: int = 6,
    seed: int = 0,
) -> Certificate:
    """Return the certificate of a motion on the last of several increasingly fine models. The
    motion may be that of a closed loop.

    `states` (steps + 1, n_state) and `controls` (steps, n_controls) are the motion, `cost` its cost
    and `replay` the motion on the replay model, if there is one. `params` (n_params,) are those of
    the model. `points` random steps are checked with exact evaluations.
    """
    model, exact = models[-1], models[-1].exact()
    rng, count = np.random.default_rng(seed), len(controls)
    chosen = [int(k) for k in rng.choice(count, size=min(points, count), replace=False)]
    steps = [model.step(states[k], controls[k], params, k) for k in range(count)]
    estimated, failed = residual_step_errors(model, states, steps)
    holdout: list[float] = []
    exact_errors = []
    for k in chosen:
        try:
            holdout.append(holdout_error(model, states[k]))
            true = exact.step(states[k], controls[k], params, k)
            exact_errors.append(exact_step_error(model, exact, states[k], steps[k], true))
        except StepError as error:
            failed.append(f"step {k} could not be checked: {error}")
    level_surpluses = tuple(surpluses(*pair) for pair in pairwise(models))
    order, extrapolated = richardson(models, states)
    replay = Replay(evaluation=None) if replay is None else replay
    run = replay.evaluation
    return Certificate(
        largest_surpluses=tuple(
            max((size for _, size in level), default=None) for level in level_surpluses
        ),
        surpluses=level_surpluses,
        observed_order=order,
        richardson_error=extrapolated,
        holdout_error=max(holdout, default=None),
        exact_step_errors=StepErrors.joined(exact_errors),
        estimated_step_errors=estimated,
        exact_evaluations=exact.queries + len(holdout),
        cost=cost,
        replay=run,
        replay_failed=replay.failed,
        replay_evaluations=replay.evaluations,
        effector_error=None if run is None else _largest_distance(model, states, run),
        notes=(*model.surrogate.corners.notes, *model.surrogate.warnings, *failed),
    )


def _replay(problem: Problem, model: Refinable, plan: Plan) -> Replay:
    """Evaluate the plan's controls on the replay model from the same state."""
    try:
        full, first = model.replay_model(plan.states[0])
        run = evaluate(replace(problem, model=full, x0=first), plan.controls, keep=False)
    except PliantError as error:  # a term that needs the reduced model, such as a StateGoal
        return Replay(evaluation=None, failed=str(error))
    return replay_of(run, full)


def replay_of(run: Evaluation, model: Dynamics) -> Replay:
    """Return the replay of a motion that was simulated on a model that nothing else used."""
    used = model.queries if isinstance(model, MapDynamics) else 0
    return Replay(evaluation=None if run.failed else run, failed=run.failed, evaluations=used)


def _largest_distance(model: Refinable, states: Array, replay: Evaluation) -> float | None:
    """Return the largest distance [m] of an effector between a motion and its replay, or None
    without effectors."""
    full, _ = model.replay_model(states[0])
    distances = [
        np.linalg.norm(effector_position(model, name, x, 1) - effector_position(full, name, y, 1))
        for name in model.effector_names
        for x, y in zip(states, replay.states, strict=False)
    ]
    return float(max(distances)) if distances else None
