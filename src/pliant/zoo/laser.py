"""Tasks of [Jia2019] with a laser at the tip of a soft arm. Its beam meets a horizontal plate, and
plans use an interpolated grid of equilibrium shapes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

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

BEAM_EFFECTORS = ("laser", "laser base")  # two points on the beam: lens and base


def beam_spot(plate_height: float) -> Callable[[Array], Array]:
    """Return the function that intersects the beam with a plate at a height [m].

    It takes the positions of lens and base, stacked to (2 dim,) [m], and returns the spot
    (dim - 1,) [m] on the plate.
    """

    def spot(y: Array) -> Array:
        lens, base = y[: len(y) // 2], y[len(y) // 2 :]
        return (lens + (plate_height - lens[-1]) / (lens[-1] - base[-1]) * (lens - base))[:-1]

    return spot


def spot_target(plate_height: float, target: Array, *, time: float, weight: float) -> Residual:
    """Return the residual between the beam spot and a target (dim - 1,) [m] at a time [s]."""
    spot = beam_spot(plate_height)
    return Residual(
        effector=BEAM_EFFECTORS, residual=lambda y: spot(y) - target, time=time, weight=weight
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LaserTask:
    """An arm with a laser, targets of the beam spot on a plate, and the cell sizes of the grid of
    shapes."""

    robot: Robot
    plate_height: float  # [m]
    steps: int
    dt: float  # [s]
    start: Array  # (n_controls,) [N] initial tensions
    cell: float  # [N] size of the coarsest cells
    eta: float  # [N] largest accepted size of the finest cells
    terms: Sequence[Term]
    constraints: Sequence[Constraint] = ()
    target_curve: Array  # (k, dim) [m] on the plate
    obstacles: Sequence[Array] = ()  # outlines (k, dim) [m] of obstacles on the plate

    def problem(self, model: Latent) -> Problem:
        """Return the planning problem on a latent model."""
        return Problem(
            model=model,
            steps=self.steps,
            terms=self.terms,
            constraints=self.constraints,
            previous_control=self.start,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LaserPlan:
    """The plan of a laser task, and its replay with the full model."""

    task: LaserTask
    refined: RefinedPlan
    spots: Array  # (steps + 1, dim - 1) [m] of the plan
    replayed_spots: Array  # (steps + 1, dim - 1) [m] of the replay
    positions: Array  # (steps + 1, n_dofs) [m] of the replay

    @property
    def model(self) -> Latent:
        """The model on the finest grid."""
        return cast(Latent, self.refined.levels[-1].model)


def check(task: LaserTask) -> None:
    """Raise `InputError` if the task is invalid."""
    require_positive("The cell", task.cell, "N")
    level_count(task.cell, task.eta)


def latent_model(run: ExperimentRun, task: LaserTask) -> Latent:
    """Return the latent model of a task. It stores exact shapes in the folder of the run."""
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


def plan_laser(run: ExperimentRun, task: LaserTask) -> LaserPlan:
    """Plan a task by Algorithm 1 of [Jia2019] and replay it with the full model.

    Raises `StepError` if the replay fails.
    """
    model = latent_model(run, task)
    options = Options(progress=run.progress, folder=run.folder / "plan")
    guess = np.tile(task.start, (task.steps, 1))
    refined = plan_refined(
        task.problem(model), eta=task.eta, guess=guess, options=options, seed=run.seed
    )
    plan, fine = refined.plan, cast(Latent, refined.levels[-1].model)
    replay = refined.certificate.replay
    if replay is None:
        raise StepError(
            "The replay of the plan with the full model failed. Use a longer time step or a "
            "smaller start tension."
        )
    run.save_trajectory(replay.states, plan.controls, dt=task.dt)
    positions, spot = (
        replay.states[:, : fine.manifold.equilibrium_map.effectors.shape[1]],
        beam_spot(task.plate_height),
    )
    beam_points = [
        np.concatenate([task.robot.effector_position(name, q) for name in BEAM_EFFECTORS])
        for q in positions
    ]
    rows = np.vstack([fine.effector_rows(name).toarray() for name in BEAM_EFFECTORS])
    return LaserPlan(
        task=task,
        refined=refined,
        positions=positions,
        spots=np.array([spot(rows @ x[: rows.shape[1]]) for x in plan.states]),
        replayed_spots=np.array([spot(y) for y in beam_points]),
    )


def probe(task: LaserTask) -> tuple[Latent, Array, Array]:
    """Return the latent model, a state after two steps under unequal tensions, and the controls."""
    model = Latent(task.robot, dt=task.dt, cell=task.cell, start=task.start)
    x, u = model.initial_state(), task.start + 0.3 * np.arange(len(task.start))
    for k in range(2):
        x = model.step(x, u, None, k).x
    return model, x, u


def outcome(
    planned: LaserPlan,
    *,
    title: str,
    metrics: Mapping[str, Metric],
    reached: bool,
    message: str,
    paper: Mapping[str, float | str] | None = None,
) -> Outcome:
    """Return the outcome of a laser experiment: the given metrics, then those of the surrogate
    beside the metrics of the paper."""
    refined, paper = planned.refined, paper or {}
    c = refined.certificate
    all_metrics = {
        **metrics,
        "exact evaluations": Metric(value=refined.evaluations, paper=paper.get("evaluations")),
        "shape queries": Metric(value=refined.queries, paper=paper.get("queries")),
        "reduction factor of evaluations": Metric(
            value=refined.queries / refined.evaluations, paper=paper.get("reduction")
        ),
        **optional_metric("step error", c.step_error, "of the positions", paper.get("error")),
        **optional_metric(
            "step error relative to its increment", c.increment_error, "of the increment"
        ),
        **optional_metric("holdout error", c.holdout_error, "of the positions"),
        **optional_metric("observed convergence order", c.observed_order),
        **optional_metric("Richardson error estimate", c.richardson_error, "of the positions"),
        "objective": Metric(value=c.cost),
        **optional_metric("replay cost of the full model", c.replay_cost),
        "refinement levels": Metric(value=len(refined.levels), paper=paper.get("levels")),
        "iterations": Metric(value=refined.iterations),
        "planning time": Metric(value=refined.seconds, unit="s"),
        "unknowns of the full model": Metric(
            value=planned.positions.shape[1], paper=paper.get("unknowns")
        ),
    }
    return Outcome(
        metrics=all_metrics,
        plots=plots(planned),
        scene=_scene(planned, title),
        reached=reached,
        message=message,
        notes=tuple(c.lines()),
    )


def optional_metric(
    name: str, value: float | None, unit: str = "-", paper: float | str | None = None
) -> dict[str, Metric]:
    """Return a metric by its name, or nothing if its value is None."""
    return {} if value is None else {name: Metric(value=value, unit=unit, paper=paper)}


def plots(planned: LaserPlan) -> list[Plot]:
    """Return plots of evaluations, convergence, tensions and beam spot."""
    task, levels = planned.task, planned.refined.levels
    rows = [row for level in levels for row in level.result.notes["queries"]]
    total_queries, before = [], 0
    for level in levels:
        total_queries += [before + queries for _, queries in level.result.notes["queries"]]
        before = total_queries[-1]
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
            y="cumulative evaluations",
            log_y=True,
            kind="both",
            series={
                "with the grid": (count, np.array([evaluations for evaluations, _ in rows])),
                "without the grid": (count, np.array(total_queries)),
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
            title="Cable tensions",
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
        curves = {"planned": planned.spots, "replayed": planned.replayed_spots}
        curves |= {"target": task.target_curve[:, :2]} if len(task.target_curve) > 1 else {}
        curves |= {f"obstacle {k + 1}": edge[:, :2] for k, edge in enumerate(task.obstacles)}
        out.append(
            Plot(
                title="Beam spot on the plate",
                x="x [m]",
                y="y [m]",
                equal=True,
                series={name: (xy[:, 0], xy[:, 1]) for name, xy in curves.items()},
            )
        )
    else:
        out.append(
            Plot(
                title="Beam spot on the plate",
                x="time [s]",
                y="x [m]",
                series={
                    "planned": (times, planned.spots[:, 0]),
                    "replayed": (times, planned.replayed_spots[:, 0]),
                },
            )
        )
    return out


def _scene(planned: LaserPlan, title: str) -> Scene:
    """Return the scene of the arm, its beam, and the trace of the spot."""
    task, dim = planned.task, planned.spots.shape[1] + 1
    scene = robot_scene(
        task.robot, planned.positions, dt=task.dt, title=title, ground=0.0, marked=()
    )
    heights = np.full(len(planned.replayed_spots), task.plate_height)
    on_plate = np.column_stack([planned.replayed_spots, heights])
    lens = np.array([task.robot.effector_position("laser", q) for q in planned.positions])
    beam = Line(points=np.stack([lens, on_plate], axis=1), colour=palette.MARKER)
    curves = [Line(points=curve, colour=palette.SECONDARY) for curve in task.obstacles]
    curves += (
        [Line(points=task.target_curve, colour=palette.TARGET, dashed=True)]
        if len(task.target_curve) > 1
        else []
    )
    return replace(
        scene,
        lines=(*scene.lines, beam, *curves),
        markers=on_plate[:, None],
        targets=task.target_curve[:: max(1, len(task.target_curve) - 1)][:, :dim],
    )
