"""What a plan on a surrogate is worth: its errors, estimated from what is known and measured by a
few exact evaluations beside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pliant.core import Array, PliantError, StepError
from pliant.dynamics import ImplicitEuler
from pliant.dynamics.latent import Embedded
from pliant.planners.plan import Evaluation, Plan, evaluate
from pliant.problem import Problem
from pliant.surrogate import Grid

ORDERS = (
    3.0,
    5.0,
)  # what the scheme's fourth order may look like; outside, an extrapolation means nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Errors of the shapes f are of all positions, |f~ - f| / |f|; None where something could not
    be said."""

    surplus: tuple[
        float | None, ...
    ]  # the largest at the new corners of each level: how far the level before misses them
    order: float | None  # observed over the last three levels, along the plan
    richardson: float | None  # the error that this order promises; None where it is not 3 to 5
    holdout: float | None  # the largest at random points of the plan
    one_step: float | None  # |g~ - g| / |g| of the step's end, the paper's norm, at random steps
    increment: float | None  # the same beside how far the step moves
    exact_evaluations: int  # that these three took, beside the plan's own
    objective: float  # of the plan
    replay: Evaluation | None  # with the full model (every node free, not only among the shapes)
    trajectory: float | None  # [m] largest distance of an effector between plan and replay
    surpluses: tuple[
        tuple[tuple[Array, float], ...], ...
    ] = ()  # (corner, surplus) at each new corner of each level
    notes: tuple[
        str, ...
        # of the exact shapes: branches that were lost, corners that failed, exact steps that failed
    ] = ()

    @property
    def replayed(self) -> float | None:
        """The objective of the replay."""
        return None if self.replay is None else self.replay.cost

    def lines(self) -> list[str]:
        """What to print below a plan."""
        order = (
            "not observed (three levels are needed)" if self.order is None else f"{self.order:.2f}"
        )
        refused = "refused" + (
            "" if self.order is None else f", the order is not {ORDERS[0]:g} to {ORDERS[1]:g}"
        )
        gap = (
            "failed"
            if self.replayed is None
            else (
                f"objective {self.replayed:.6g} where the plan has {self.objective:.6g}, effectors "
                f"within {self.trajectory:.2e} m"
            )
        )
        return [
            f"surplus of each level: {', '.join(_said(value) for value in self.surplus) or '-'}",
            f"observed order: {order}; Richardson's estimate: "
            f"{refused if self.richardson is None else _said(self.richardson)}",
            f"error at random points of the plan: {_said(self.holdout)}",
            f"error of a step: {_said(self.one_step)} of the positions, {_said(self.increment)} "
            "of its increment",
            f"exact evaluations for the last two: {self.exact_evaluations}",
            f"replay with the full model: {gap}",
            *(f"note: {note}" for note in self.notes),
        ]


def _said(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def certify(
    problem: Problem, models: Sequence[Embedded], plan: Plan, *, points: int = 6, seed: int = 0
) -> Certificate:
    """Certify a plan on the last of some ever finer models; `problem` is the planned one on any of
    them."""
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
                relative(model.positions(plan.states[k]), exact.positions(plan.states[k]))
            )
            steps.append(_one_step(model, exact, plan, int(k)))
        except StepError as error:
            failed.append(f"step {k} could not be checked: {error}")
    surpluses = tuple(_surpluses(*pair) for pair in pairwise(models))
    order, promise = _richardson(models, latent)
    replay = _replay(problem, model, plan)
    largest = tuple(max((size for _, size in level), default=None) for level in surpluses)
    return Certificate(
        surplus=largest,
        surpluses=surpluses,
        order=order,
        richardson=promise,
        holdout=max(holdout, default=None),
        one_step=max((a for a, _ in steps), default=None),
        increment=max((b for _, b in steps if b is not None), default=None),
        exact_evaluations=exact.family.evaluations,  # type: ignore[attr-defined]
        objective=plan.cost,
        replay=replay,
        trajectory=None if replay is None else _apart(model, plan, replay),
        notes=(*model.surrogate.corners.notes, *model.surrogate.doubts, *failed),
    )


def relative(found: Array, exact: Array) -> float:
    """|found - exact| / |exact|"""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _one_step(model: Embedded, exact: Embedded, plan: Plan, k: int) -> tuple[float, float | None]:
    """(error of the end of step k beside its positions, and beside its increment, where it
    moves)"""
    x, u = plan.states[k], plan.controls[k]
    steps = [one.step(x, u, k=k) for one in (model, exact)]
    for step in steps:
        if not step.status:
            raise StepError(step.status.text)
    end, true = (one.positions(step.x) for one, step in zip((model, exact), steps, strict=True))
    moved = float(np.linalg.norm(true - exact.positions(x)))
    still = moved <= 1e-9 * np.linalg.norm(true)
    return relative(end, true), None if still else float(np.linalg.norm(end - true) / moved)


def _surpluses(coarse: Embedded, fine: Embedded) -> tuple[tuple[Array, float], ...]:
    """The surplus at every corner of the finer grid that the coarser one can be asked about without
    another evaluation."""
    grid, shapes = coarse.surrogate, fine.family.shapes
    asked = [s for s in fine.surrogate.new_samples() if grid.holds(s.point)]
    return tuple((s.point, relative(grid(s.point)[0][shapes.parts[0]], s.value)) for s in asked)


def _richardson(models: Sequence[Embedded], latent: Array) -> tuple[float | None, float | None]:
    """(order, error of the finest) along the plan, where all of the last three levels are known; of
    grids only, since halving the cell of anything else has no such law."""
    last = models[-3:]
    known = [a for a in latent if all(model.surrogate.holds(a) for model in last)]
    if len(last) < 3 or not known or not all(isinstance(model.surrogate, Grid) for model in last):
        return None, None
    found = [np.array([model.family.positions(a) for a in known]) for model in last]
    coarse, fine = (float(np.linalg.norm(b - a)) for a, b in pairwise(found))
    if not (coarse > 0.0 and fine > 0.0):
        return None, None
    order = float(np.log2(coarse / fine))
    return order, fine / (2.0**order - 1.0) / float(np.linalg.norm(found[-1])) if ORDERS[
        0
    ] <= order <= ORDERS[1] else None


def _replay(problem: Problem, model: Embedded, plan: Plan) -> Evaluation | None:
    """The run of the plan's controls on all nodes of the robot, from the same shape and
    velocity."""
    full, first = ImplicitEuler(model.robot, dt=model.dt), plan.states[0]
    q, before = model.positions(first), model.family.positions(model.space.split(first).before)
    try:
        run = evaluate(
            replace(problem, model=full, x0=full.state(q, (q - before) / model.dt)),
            plan.controls,
            keep=False,
        )
    except PliantError:  # a term that only the latent model knows, such as a goal of its state
        return None
    return None if run.failed else run


def _apart(model: Embedded, plan: Plan, replay: Evaluation) -> float:
    """[m] the largest distance of an effector between a plan and its replay."""
    effectors, dim = model.family.shapes.effectors, model.family.shapes.model.equations.dim
    places = np.array([effectors @ x[: effectors.shape[1]] for x in replay.states])
    apart = (places - plan.states[:, : places.shape[1]]).reshape(len(places), -1, dim)
    return float(np.linalg.norm(apart, axis=2).max(initial=0.0))
