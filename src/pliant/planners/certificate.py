"""What a plan on a surrogate is worth: its errors, estimated from what is known and measured by a few exact evaluations beside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pliant.core import Array, PliantError
from pliant.dynamics import ImplicitEuler
from pliant.dynamics.latent import Embedded
from pliant.planners.plan import Plan, evaluate
from pliant.problem import Problem

ORDERS = (3.0, 5.0)  # what the scheme's fourth order may look like; outside, an extrapolation means nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Errors of the shapes f are of all positions, |f~ - f| / |f|; None where something could not be said."""

    surplus: tuple[float | None, ...]  # the largest at the new corners of each level: how far the level before misses them
    order: float | None  # observed over the last three levels, along the plan
    richardson: float | None  # the error that this order promises; None where it is not 3 to 5
    holdout: float  # the largest at random points of the plan
    one_step: float  # |g~ - g| / |g| of the step's end, the paper's norm, at random steps
    increment: float  # the same beside how far the step moves
    exact_evaluations: int  # that these two took, beside the plan's own
    objective: float  # of the plan
    replayed: float | None  # the objective with the full model (every node free, not only among the shapes)
    trajectory: float | None  # [m] largest distance of an effector between plan and replay
    notes: tuple[str, ...] = ()  # of the exact shapes: branches that were lost, corners that failed

    def lines(self) -> list[str]:
        """What to print below a plan."""
        seen = [f"{value:.1e}" if value is not None else "-" for value in self.surplus]
        order = "not observed (three levels are needed)" if self.order is None else f"{self.order:.2f}"
        if self.richardson is not None:
            promise = f"{self.richardson:.1e}"
        else:
            promise = "refused" + ("" if self.order is None else f", the order is not {ORDERS[0]:g} to {ORDERS[1]:g}")
        gap = "failed" if self.replayed is None else f"objective {self.replayed:.6g} where the plan has {self.objective:.6g}, effectors "\
            f"within {self.trajectory:.2e} m"  # fmt: skip
        return [f"surplus of each level: {', '.join(seen) or '-'}", f"observed order: {order}; Richardson's estimate: {promise}",
                f"error at random points of the plan: {self.holdout:.1e}",
                f"error of a step: {self.one_step:.1e} of the positions, {self.increment:.1e} of its increment",
                f"exact evaluations for the last two: {self.exact_evaluations}", f"replay with the full model: {gap}",
                *(f"note: {note}" for note in self.notes)]  # fmt: skip


def certify(problem: Problem, models: Sequence[Embedded], plan: Plan, *, points: int = 6, seed: int = 0) -> Certificate:
    """Certify a plan on the last of some ever finer models; `problem` is the planned one on any of them."""
    model = models[-1]
    rng, latent = np.random.default_rng(seed), np.array([model.space.split(x).latent for x in plan.states])
    chosen = rng.choice(len(plan.controls), size=min(points, len(plan.controls)), replace=False)
    exact = model.exact()
    holdout = max(relative(model.positions(plan.states[k]), exact.family.positions(latent[k])) for k in chosen)
    steps = [_one_step(model, exact, plan, int(k)) for k in chosen]
    order, promise = _richardson(models, latent)
    replayed, trajectory = _replay(problem, model, plan)
    return Certificate(surplus=tuple(_surplus(*pair) for pair in pairwise(models)), order=order, richardson=promise,
                       holdout=holdout, one_step=max(a for a, _ in steps), increment=max(b for _, b in steps),
                       exact_evaluations=exact.family.evaluations, objective=plan.cost, replayed=replayed,  # type: ignore[attr-defined]
                       trajectory=trajectory, notes=tuple(model.surrogate.corners.notes))  # fmt: skip


def relative(found: Array, exact: Array) -> float:
    """|found - exact| / |exact|"""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _one_step(model: Embedded, exact: Embedded, plan: Plan, k: int) -> tuple[float, float]:
    """(error of the end of step k beside its positions, and beside its increment)"""
    x, u = plan.states[k], plan.controls[k]
    end, true = model.positions(model.step(x, u, k=k).x), exact.positions(exact.step(x, u, k=k).x)
    moved = float(np.linalg.norm(true - exact.positions(x)))
    return relative(end, true), float(np.linalg.norm(end - true) / max(moved, 1e-300))


def _surplus(coarse: Embedded, fine: Embedded) -> float | None:
    """The largest surplus at corners of the finer grid that the coarser one can be asked about without another evaluation."""
    grid, shapes = coarse.surrogate, fine.family.shapes
    errors = [relative(grid(s.point)[0][shapes.parts[0]], s.value) for s in fine.surrogate.new_samples() if grid.holds(s.point)]
    return max(errors, default=None)


def _richardson(models: Sequence[Embedded], latent: Array) -> tuple[float | None, float | None]:
    """(order, error of the finest) along the plan, where all of the last three levels are known."""
    last = models[-3:]
    known = [a for a in latent if all(model.surrogate.holds(a) for model in last)]
    if len(last) < 3 or not known:
        return None, None
    found = [np.array([model.family.positions(a) for a in known]) for model in last]
    coarse, fine = (float(np.linalg.norm(b - a)) for a, b in pairwise(found))
    order = float(np.log2(coarse / max(fine, 1e-300)))
    return order, fine / 15.0 / float(np.linalg.norm(found[-1])) if ORDERS[0] <= order <= ORDERS[1] else None


def _replay(problem: Problem, model: Embedded, plan: Plan) -> tuple[float | None, float | None]:
    """(objective, largest distance of an effector) of the plan's controls on all nodes of the robot."""
    full = ImplicitEuler(model.robot, dt=model.dt)
    try:
        start = full.state(model.positions(plan.states[0]))
        run = evaluate(replace(problem, model=full, x0=start), plan.controls, keep=False)
    except PliantError:
        return None, None
    if run.failed:
        return None, None
    places = np.array([model.family.shapes.effectors @ full.space.position(x) for x in run.states])
    return run.cost, float(np.abs(places - plan.states[:, : places.shape[1]]).max(initial=0.0))
