"""Tasks of [Jia2019] with a laser at the tip of a soft arm. Its beam meets a horizontal plate, and
plans use an interpolated grid of equilibrium shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from pliant.core import Array, StepError, require_positive
from pliant.dynamics.latent import Latent
from pliant.planners import Options, RefinedPlan, plan_refined
from pliant.planners.hierarchy import level_count
from pliant.problem import Constraint, Problem, Residual, Term
from pliant.robot import Robot
from pliant.zoo.experiment import ExperimentRun

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
    # (k, 4) centre and radius [m] of spherical obstacles
    spheres: Array = field(default_factory=lambda: np.zeros((0, 4)))

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

    def beams(self, *, replayed: bool) -> Array:
        """Return the lens and the spot (steps + 1, 2, dim) [m] of the replay or of the plan."""
        robot, model = self.task.robot, self.model
        spots = self.replayed_spots if replayed else self.spots
        lens = (
            np.array([robot.effector_position(BEAM_EFFECTORS[0], q) for q in self.positions])
            if replayed
            else self.refined.plan.states[:, : model.space.n_dofs]
            @ model.effector_rows(BEAM_EFFECTORS[0]).toarray().T
        )
        heights = np.full(len(spots), self.task.plate_height)
        return np.stack([lens, np.column_stack([spots, heights])], axis=1)


def check(task: LaserTask) -> None:
    """Raise `InputError` if the task is invalid."""
    require_positive("The cell", task.cell, "N")
    level_count(task.cell, task.eta)


def latent_model(run: ExperimentRun, task: LaserTask) -> Latent:
    """Return the latent model of a task. It stores exact shapes in the folder of the run."""
    model = Latent(
        task.robot,
        dt=task.dt,
        cell=task.cell,
        start=task.start,
        store=run.corner_file(),
        cluster=run.cluster,
        progress=run.progress,
    )
    return cast(Latent, run.closing(model))


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
            "The replay of the plan with the full model failed: "
            f"{refined.certificate.replay_failed}. Use a longer time step or a smaller start "
            "tension."
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
