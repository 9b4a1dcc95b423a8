"""Error estimates for a plan on a surrogate, from its grids and a few exact evaluations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pliant.core import Array, PliantError, StepError
from pliant.dynamics import ImplicitEuler
from pliant.dynamics.latent import Latent
from pliant.planners.plan_result import Evaluation, Plan, evaluate
from pliant.problem import Problem
from pliant.surrogate import Grid

# The interpolation has order 4. Outside this range of observed orders, extrapolation is unreliable.
PLAUSIBLE_ORDERS = (3.0, 5.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Error estimates of a plan on a surrogate.

    The relative error of a shape f is |f~ - f| / |f| over all node positions. An estimate is None
    if it could not be computed.
    """

    # largest error of the previous level at the new grid corners of each level
    largest_surpluses: tuple[float | None, ...]
    observed_order: float | None  # over the last three levels, along the plan
    richardson_error: float | None  # extrapolated error; None if the order is not 3 to 5
    holdout_error: float | None  # largest error at random points of the plan
    step_error: float | None  # |g~ - g| / |g| after one step [Jia2019], largest at random steps
    increment_error: float | None  # the same error relative to the motion in the step
    exact_evaluations: int  # used for the last three, in addition to those of the plan
    cost: float  # of the plan
    replay: Evaluation | None  # of the controls on the full model
    effector_error: float | None  # [m] largest distance of an effector between plan and replay
    surpluses: tuple[tuple[tuple[Array, float], ...], ...] = ()  # (corner, surplus) of each level
    notes: tuple[str, ...] = ()  # failures and warnings of the exact evaluations

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
        gap = (
            "failed"
            if self.replay_cost is None
            else (
                f"cost {self.replay_cost:.6g} (plan {self.cost:.6g}), effectors within "
                f"{self.effector_error:.2e} m"
            )
        )
        return [
            "largest surplus of each level: "
            f"{', '.join(_format(value) for value in self.largest_surpluses) or '-'}",
            f"observed order: {order}; Richardson error estimate: "
            f"{rejected if self.richardson_error is None else _format(self.richardson_error)}",
            f"error at random points of the plan: {_format(self.holdout_error)}",
            f"error of one step: {_format(self.step_error)} relative to the positions, "
            f"{_format(self.increment_error)} relative to the increment",
            f"exact evaluations for these errors: {self.exact_evaluations}",
            f"replay with the full model: {gap}",
            *(f"note: {note}" for note in self.notes),
        ]


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def certify(
    problem: Problem, models: Sequence[Latent], plan: Plan, *, points: int = 6, seed: int = 0
) -> Certificate:
    """Return the certificate of a plan on the last of several increasingly fine models.

    `problem` is the planned problem on any of the models. `points` random steps of the plan are
    checked with exact evaluations.
    """
    model = models[-1]
    rng, latent = (
        np.random.default_rng(seed),
        np.array([model.space.split(x).latent for x in plan.states]),
    )
    chosen = rng.choice(len(plan.controls), size=min(points, len(plan.controls)), replace=False)
    exact, failed = model.exact(), []
    holdout: list[float] = []
    steps: list[tuple[float, float | None]] = []
    for k in chosen:
        try:
            holdout.append(
                relative_error(model.positions(plan.states[k]), exact.positions(plan.states[k]))
            )
            steps.append(_one_step(model, exact, plan, int(k)))
        except StepError as error:
            failed.append(f"step {k} could not be checked: {error}")
    surpluses = tuple(_surpluses(*pair) for pair in pairwise(models))
    order, extrapolated = _richardson(models, latent)
    replay = _replay(problem, model, plan)
    largest = tuple(max((size for _, size in level), default=None) for level in surpluses)
    return Certificate(
        largest_surpluses=largest,
        surpluses=surpluses,
        observed_order=order,
        richardson_error=extrapolated,
        holdout_error=max(holdout, default=None),
        step_error=max((a for a, _ in steps), default=None),
        increment_error=max((b for _, b in steps if b is not None), default=None),
        exact_evaluations=exact.manifold.evaluations,  # type: ignore[attr-defined]
        cost=plan.cost,
        replay=replay,
        effector_error=None if replay is None else _largest_distance(model, plan, replay),
        notes=(*model.surrogate.corners.notes, *model.surrogate.warnings, *failed),
    )


def relative_error(found: Array, exact: Array) -> float:
    """Return |found - exact| / |exact|."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _one_step(model: Latent, exact: Latent, plan: Plan, k: int) -> tuple[float, float | None]:
    """Return the error after step k relative to the positions and to the increment.

    The second is None if the robot does not move. Raises StepError if the step fails.
    """
    x, u = plan.states[k], plan.controls[k]
    steps = [one.step(x, u, k=k) for one in (model, exact)]
    for step in steps:
        if not step.status:
            raise StepError(step.status.text)
    end, true = (one.positions(step.x) for one, step in zip((model, exact), steps, strict=True))
    moved = float(np.linalg.norm(true - exact.positions(x)))
    still = moved <= 1e-9 * np.linalg.norm(true)
    return relative_error(end, true), None if still else float(np.linalg.norm(end - true) / moved)


def _surpluses(coarse: Latent, fine: Latent) -> tuple[tuple[Array, float], ...]:
    """Return the surplus at the new corners of the fine grid inside the coarse grid's cells."""
    grid, shapes = coarse.surrogate, fine.manifold.equilibrium_map
    covered = [s for s in fine.surrogate.new_samples() if grid.covers(s.point)]
    return tuple(
        (s.point, relative_error(grid(s.point)[0][shapes.parts[0]], s.value)) for s in covered
    )


def _richardson(models: Sequence[Latent], latent: Array) -> tuple[float | None, float | None]:
    """Return the observed order and the extrapolated error of the finest level along the plan.

    They need the last three levels, all of them grids; otherwise both are None.
    """
    last = models[-3:]
    known = [a for a in latent if all(model.surrogate.covers(a) for model in last)]
    if len(last) < 3 or not known or not all(isinstance(model.surrogate, Grid) for model in last):
        return None, None
    found = [np.array([model.manifold.positions(a) for a in known]) for model in last]
    coarse, fine = (float(np.linalg.norm(b - a)) for a, b in pairwise(found))
    if not (coarse > 0.0 and fine > 0.0):
        return None, None
    order = float(np.log2(coarse / fine))
    return order, fine / (2.0**order - 1.0) / float(np.linalg.norm(found[-1])) if PLAUSIBLE_ORDERS[
        0
    ] <= order <= PLAUSIBLE_ORDERS[1] else None


def _replay(problem: Problem, model: Latent, plan: Plan) -> Evaluation | None:
    """Evaluate the plan's controls on the full model from the same shape and velocity.

    Return None if the simulation fails.
    """
    full, first = ImplicitEuler(model.robot, dt=model.dt), plan.states[0]
    q, before = model.positions(first), model.manifold.positions(model.space.split(first).before)
    try:
        run = evaluate(
            replace(problem, model=full, x0=full.state(q, (q - before) / model.dt)),
            plan.controls,
            keep=False,
        )
    except PliantError:  # a term that needs the latent model, such as a StateGoal
        return None
    return None if run.failed else run


def _largest_distance(model: Latent, plan: Plan, replay: Evaluation) -> float:
    """Return the largest distance [m] of an effector between a plan and its replay."""
    effectors, dim = (
        model.manifold.equilibrium_map.effectors,
        model.manifold.equilibrium_map.model.equations.dim,
    )
    positions = np.array([effectors @ x[: effectors.shape[1]] for x in replay.states])
    difference = positions - plan.states[:, : positions.shape[1]]
    difference = difference.reshape(len(positions), -1, dim)
    return float(np.linalg.norm(difference, axis=2).max(initial=0.0))
