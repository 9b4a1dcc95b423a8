"""A laser at the tip of a soft arm: where its beam meets a plate, and experiments that plan it on a
grid of shapes [Jia2019]."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pliant.core import Array, StepError, require_positive
from pliant.dynamics.latent import Latent
from pliant.planners import Options, RefinedPlan, plan_refined
from pliant.planners.hierarchy import level_count
from pliant.problem import Constraint, Problem, Residual, Term
from pliant.report import Line, Plot, Scene, palette
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.zoo.experiment import ExperimentRun, Metric, Outcome

BEAM = ("laser", "laser base")  # the effectors that the beam runs through


def spot_on(plate: float) -> Callable[[Array], Array]:
    """Where the beam meets a plate at a height [m], from the places of lens and base one after the
    other; analytic."""

    def spot(y: Array) -> Array:
        lens, base = y[: len(y) // 2], y[len(y) // 2 :]
        return (lens + (plate - lens[-1]) / (lens[-1] - base[-1]) * (lens - base))[:-1]

    return spot


def aim(plate: float, goal: Array, *, time: float, weight: float) -> Residual:
    """The beam is to meet the plate at a goal (dim - 1,) [m] at a time [s]."""
    spot = spot_on(plate)
    return Residual(effector=BEAM, residual=lambda y: spot(y) - goal, time=time, weight=weight)


@dataclass(frozen=True, kw_only=True, eq=False)
class LaserTask:
    """An arm with a laser, what its beam is to do on a plate, and how coarse and fine the grid of
    its shapes is."""

    robot: Robot
    plate: float  # [m] height
    steps: int
    dt: float  # [s]
    start: Array  # (d,) [N] tensions that the arm starts from
    cell: float  # [N]
    eta: float  # [N]
    terms: Sequence[Term]
    constraints: Sequence[Constraint] = ()
    wanted: Array  # (k, dim) [m] what is drawn on the plate
    obstacles: Sequence[Array] = field(
        default=()
    )  # closed curves (k, dim) [m] on the plate that are to be kept out of

    def problem(self, model: Latent) -> Problem:
        return Problem(
            model=model,
            steps=self.steps,
            terms=self.terms,
            constraints=self.constraints,
            previous_control=self.start,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """A laser task planned and replayed: spots (steps + 1, dim - 1) [m] of the plan and of the
    replay with all nodes free."""

    task: LaserTask
    refined: RefinedPlan
    spots: Array
    replayed: Array
    positions: Array  # (steps + 1, n_dofs) [m] of the replay


def check(task: LaserTask) -> None:
    """Raise `InputError` if the task is invalid."""
    require_positive("The cell", task.cell, "N")
    level_count(task.cell, task.eta)


def latent_model(run: ExperimentRun, task: LaserTask) -> Latent:
    """The latent model of a task, its exact shapes kept beside the results."""
    store = run.folder / "corners.sqlite"
    if not run.resume:
        for part in ("", "-wal", "-shm"):
            store.with_name(store.name + part).unlink(missing_ok=True)
    return Latent(
        task.robot,
        dt=task.dt,
        cell=task.cell,
        start=task.start,
        store=store,
        cluster=run.cluster,
        progress=run.progress,
    )


def plan_laser(run: ExperimentRun, task: LaserTask) -> Planned:
    """Algorithm 1 on the task, and its replay with the full model."""
    model = latent_model(run, task)
    options = Options(progress=run.progress, folder=run.folder / "plan")
    guess = np.tile(task.start, (task.steps, 1))
    refined = plan_refined(
        task.problem(model), eta=task.eta, guess=guess, options=options, seed=run.seed
    )
    plan, fine = refined.plan, refined.levels[-1].model
    replay = refined.certificate.replay
    if replay is None:
        raise StepError(
            "The plan cannot be replayed with all nodes free; go more slowly, or start from a "
            "smaller tension."
        )
    run.keep(replay.states, plan.controls, dt=task.dt)
    positions, spot = (
        replay.states[:, : fine.manifold.equilibrium_map.effectors.shape[1]],
        spot_on(task.plate),
    )
    places = [
        np.concatenate([task.robot.effector_position(name, q) for name in BEAM]) for q in positions
    ]
    rows = np.vstack([fine.effector_rows(name).toarray() for name in BEAM])
    return Planned(
        task=task,
        refined=refined,
        positions=positions,
        spots=np.array([spot(rows @ x[: rows.shape[1]]) for x in plan.states]),
        replayed=np.array([spot(y) for y in places]),
    )


def probe(task: LaserTask) -> tuple[Latent, Array, Array]:
    """The latent arm after two steps under uneven tensions."""
    model = Latent(task.robot, dt=task.dt, cell=task.cell, start=task.start)
    x, u = model.initial_state(), task.start + 0.3 * np.arange(len(task.start))
    for k in range(2):
        x = model.step(x, u, None, k).x
    return model, x, u


def outcome(
    planned: Planned,
    *,
    title: str,
    metrics: Mapping[str, Metric],
    reached: bool,
    message: str,
    paper: Mapping[str, float | str] | None = None,
) -> Outcome:
    """What an experiment with a laser tells: its own metrics, then those of the surrogate beside
    the paper's."""
    refined, paper = planned.refined, paper or {}
    c = refined.certificate
    told = {
        **metrics,
        "exact evaluations": Metric(value=refined.evaluations, paper=paper.get("evaluations")),
        "shape queries": Metric(value=refined.shape_queries, paper=paper.get("without")),
        "reduction factor": Metric(
            value=refined.shape_queries / refined.evaluations,
            unit="times",
            paper=paper.get("fewer"),
        ),
        **known("step error", c.step_error, "of the positions", paper.get("error")),
        **known("step error relative to its increment", c.increment_error, "of the increment"),
        **known("error at random points of the plan", c.holdout_error, "of the positions"),
        **known("observed order", c.observed_order),
        **known("Richardson's estimate of the error", c.richardson_error, "of the positions"),
        "objective": Metric(value=c.cost),
        **known("replay cost of the full model", c.replay_cost),
        "executions": Metric(value=len(refined.levels), paper=paper.get("executions")),
        "iterations": Metric(value=refined.iterations),
        "planning time": Metric(value=refined.seconds, unit="s"),
        "unknowns of the full model": Metric(
            value=planned.positions.shape[1], paper=paper.get("unknowns")
        ),
    }
    return Outcome(
        metrics=told,
        plots=plots(planned),
        scene=_scene(planned, title),
        reached=reached,
        message=message,
        notes=tuple(c.lines()),
    )


def known(
    name: str, value: float | None, unit: str = "-", paper: float | str | None = None
) -> dict[str, Metric]:
    """A metric, where there is a number for it."""
    return {} if value is None else {name: Metric(value=value, unit=unit, paper=paper)}


def plots(planned: Planned) -> list[Plot]:
    task, levels = planned.task, planned.refined.levels
    rows = [row for level in levels for row in level.result.notes["queries"]]
    asked, before = [], 0
    for level in levels:
        asked += [before + queries for _, queries in level.result.notes["queries"]]
        before = asked[-1]
    count = np.arange(len(rows))
    times = task.dt * np.arange(task.steps + 1)
    costs = {
        f"cell {level.cell:g} N": (
            np.arange(len(level.result.history)),
            np.array([row.cost for row in level.result.history]),
        )
        for level in levels
    }
    out = [
        Plot(
            title="Fig. 5 (a): exact evaluations",
            x="iteration",
            y="evaluations so far",
            log_y=True,
            kind="both",
            series={
                "with the grid": (count, np.array([made for made, _ in rows])),
                "without": (count, np.array(asked)),
            },
        ),
        Plot(
            title="Convergence",
            x="iteration",
            y="objective",
            kind="both",
            series=costs,
            log_y=all(y.min() > 0.0 for _, y in costs.values()),
        ),
        Plot(
            title="Lines",
            x="time [s]",
            y="tension [N]",
            kind="steps",
            series={
                name: (times[1:], u)
                for name, u in zip(
                    task.robot.actuators, planned.refined.plan.controls.T, strict=True
                )
            },
        ),
    ]
    if planned.spots.shape[1] == 2:
        drawn = {"planned": planned.spots, "replayed": planned.replayed}
        drawn |= {"wanted": task.wanted[:, :2]} if len(task.wanted) > 1 else {}
        kept_out = {f"obstacle {k + 1}": curve[:, :2] for k, curve in enumerate(task.obstacles)}
        out.append(
            Plot(
                title="The beam on the plate",
                x="x [m]",
                y="y [m]",
                equal=True,
                series={name: (xy[:, 0], xy[:, 1]) for name, xy in {**drawn, **kept_out}.items()},
            )
        )
    else:
        out.append(
            Plot(
                title="The beam on the plate",
                x="time [s]",
                y="x [m]",
                series={
                    "planned": (times, planned.spots[:, 0]),
                    "replayed": (times, planned.replayed[:, 0]),
                },
            )
        )
    return out


def _scene(planned: Planned, title: str) -> Scene:
    """The arm, its beam, and what it has drawn so far."""
    task, dim = planned.task, planned.spots.shape[1] + 1
    scene = robot_scene(
        task.robot, planned.positions, dt=task.dt, title=title, ground=0.0, marked=()
    )
    on_plate = np.column_stack([planned.replayed, np.full(len(planned.replayed), task.plate)])
    lens = np.array([task.robot.effector_position("laser", q) for q in planned.positions])
    beam = Line(points=np.stack([lens, on_plate], axis=1), colour=palette.MARKER)
    curves = [Line(points=curve, colour=palette.FAINT) for curve in task.obstacles]
    curves += (
        [Line(points=task.wanted, colour=palette.TARGET, dashed=True)]
        if len(task.wanted) > 1
        else []
    )
    return replace(
        scene,
        lines=(*scene.lines, beam, *curves),
        markers=on_plate[:, None],
        targets=task.wanted[:: max(1, len(task.wanted) - 1)][:, :dim],
    )
