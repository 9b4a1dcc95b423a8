"""Tasks of [Jia2019] for the swimming robot: swim forward, planned or with a prescribed gait."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.optimize import brentq

from pliant.core import Array, InputError, StepError, require_positive
from pliant.dynamics import simulate
from pliant.planners import Options, RefinedPlan, plan_refined
from pliant.planners.hierarchy import level_count
from pliant.problem import Effort, Goal, Interval, Problem, StateConstraint
from pliant.swimming import (
    LinkedRobot,
    PrescribedMotion,
    SineAngles,
    SwimmerModel,
    prescribed_motion,
)
from pliant.zoo.experiment import ExperimentRun, Setting
from pliant.zoo.robots import swimmer

BODY = "centre of mass"
SMALLEST_SCALE = 1e-3  # of an amplitude, whose effort is negligible


@dataclass(frozen=True, kw_only=True, eq=False)
class SwimmingTask:
    """A swimmer, its time steps, the cells of its grid, and a gait.

    The gait is a wave that runs from head to tail. The initial guess of the plan is such a wave of
    torques.
    """

    robot: LinkedRobot
    dt: float  # [s]
    steps: int
    cell: float  # [rad] side of the coarsest cells
    eta: float  # [rad] largest side of the finest cells
    points: int  # of each ellipsoid
    rule: str  # "euler" as in the paper, or "rk4"
    distance: float  # [m] to swim along x
    amplitude: float  # [rad] of the gait
    frequency: float  # [Hz]
    lag: float  # [rad] of phase between two hinges

    def gait(
        self, *, scale: float = 1.0, speed: float = 1.0, reciprocal: bool = False
    ) -> SineAngles:
        """Return the gait with its amplitude times `scale` and its frequency times `speed`, rising
        within a period. A reciprocal gait moves all hinges in phase."""
        n, rate = self.robot.n_angles, speed * self.frequency
        return SineAngles(
            amplitude=np.full(n, scale * self.amplitude),
            frequency=rate,
            phase=np.zeros(n) if reciprocal else -self.lag * np.arange(n),
            ramp=1.0 / abs(rate),
        )

    def problem(self, model: SwimmerModel) -> Problem:
        """Return the planning problem: swim forward with the least torque, within the joint
        limits."""
        start = model.effector(BODY, model.initial_state())[0]
        ahead = start + self.distance * np.array([1.0, 0.0, 0.0])
        lower, upper = self.robot.angle_limits
        return Problem(
            model=model,
            steps=self.steps,
            terms=[
                Goal(effector=BODY, target=ahead, time=self.steps * self.dt, weight=GOAL_WEIGHT),
                Effort(weight=1.0),
            ],
            constraints=[StateConstraint(part="angles", inside=Interval(lower=lower, upper=upper))],
        )


# relative to the effort [N^2 m^2 s]: an error of 1 mm costs as much as 0.01 N^2 m^2 s of torque
GOAL_WEIGHT = 2e4


def task(s: Mapping[str, Setting]) -> SwimmingTask:
    """Return the task of settings. A gait has no distance, no finer cells and no rule."""
    return SwimmingTask(
        robot=swimmer(),
        dt=float(s["dt"]),
        steps=int(s["steps"]),
        cell=float(s["cell"]),
        eta=float(s.get("eta", s["cell"])),
        points=int(s["points"]),
        rule=str(s.get("rule", "rk4")),
        distance=float(s.get("distance", 0.0)),
        amplitude=float(s["amplitude"]),
        frequency=float(s["frequency"]),
        lag=float(s["lag"]),
    )


def check(task: SwimmingTask) -> None:
    """Raise `InputError` if a task is invalid."""
    level_count(require_positive("The cell", task.cell, "rad"), task.eta)
    limit = float(np.abs(task.robot.angle_limits).min())
    if abs(task.amplitude) > limit:
        raise InputError(
            f"The amplitude of the gait is {task.amplitude:g} rad, beyond the joint limit of "
            f"{limit:g} rad; set a smaller one."
        )


def swimmer_model(run: ExperimentRun, task: SwimmingTask) -> SwimmerModel:
    """Return the model of a task. It stores exact added masses in the folder of the run."""
    model = SwimmerModel(
        task.robot,
        dt=task.dt,
        cell=task.cell,
        method=task.rule,
        points=task.points,
        store=run.corner_file(),
        cluster=run.cluster,
        progress=run.progress,
    )
    return cast(SwimmerModel, run.closing(model))


def torque_wave(task: SwimmingTask) -> Array:
    """Return the initial guess (steps, n_controls) [N m]: a wave of torques from head to tail, of
    half the limits, that rises within two periods."""
    lower, upper = task.robot.control_limits()
    time = task.dt * np.arange(task.steps)[:, None]
    phase = 2.0 * np.pi * task.frequency * time - task.lag * np.arange(len(upper))
    rise = np.minimum(1.0, 0.5 * task.frequency * time)
    return 0.25 * (upper - lower) * rise * np.sin(phase)


@dataclass(frozen=True, kw_only=True, eq=False)
class SwimmingPlan:
    """A planned motion, its exact replay, and a gait of the same effort. The planned torques by
    fourth-order steps and the gait use the first grid, so they can be compared."""

    task: SwimmingTask
    refined: RefinedPlan
    states: Array  # (steps + 1, n_state) of the exact replay
    fourth_order: Array  # (steps + 1, n_state) of the planned torques
    gait: PrescribedMotion
    gait_amplitude: float  # [rad]

    @property
    def model(self) -> Any:
        return self.refined.levels[-1].model


def forward_distance(model: SwimmerModel, states: Array) -> float:
    """Return the distance [m] along x that states move the centre of mass."""
    first, last = (model.effector(BODY, x)[0, 0] for x in (states[0], states[-1]))
    return float(last - first)


def effort(torques: Array, dt: float) -> float:
    """Return the integral of 1/2 |u|^2 [N^2 m^2 s] of torques (steps, n)."""
    return 0.5 * dt * float(np.sum(torques**2))


def gait_of_equal_effort(
    model: SwimmerModel, task: SwimmingTask, wanted: float
) -> tuple[PrescribedMotion, float]:
    """Return the gait of the task with the largest amplitude at which its torques have at most an
    effort, within the joint limits, and the amplitude [rad]."""
    largest = float(np.abs(task.robot.angle_limits).min()) / task.amplitude
    found: dict[float, PrescribedMotion] = {}

    def excess(scale: float) -> float:
        found[scale] = prescribed_motion(model, task.gait(scale=scale), steps=task.steps)
        return effort(found[scale].torques, task.dt) - wanted

    scale, smallest = largest, SMALLEST_SCALE * largest
    if excess(largest) > 0.0:
        scale = smallest
        if excess(smallest) < 0.0:
            scale = float(brentq(excess, smallest, largest, xtol=1e-4, rtol=1e-4))
    if scale not in found:
        excess(scale)
    return found[scale], scale * task.amplitude


def plan_swimming(run: ExperimentRun, task: SwimmingTask) -> SwimmingPlan:
    """Plan a task by Algorithm 1 of [Jia2019] and replay it with the exact added mass.

    Raises `StepError` if the replay fails.
    """
    model = swimmer_model(run, task)
    guess = torque_wave(task)
    options = Options(
        progress=run.progress,
        folder=run.folder / "plan",
        iterations=int(run.settings["iterations"]),
        tolerance=float(run.settings["tolerance"]),
    )
    refined = plan_refined(
        task.problem(model), eta=task.eta, guess=guess, options=options, seed=run.seed
    )
    replay = refined.certificate.replay
    if replay is None:
        raise StepError(
            "The replay of the plan with the exact added mass failed: "
            f"{refined.certificate.replay_failed}. Use smaller cells (--set cell=..., eta=...)."
        )
    run.save_trajectory(replay.states, refined.plan.controls, dt=task.dt)
    gait, amplitude = gait_of_equal_effort(model, task, effort(refined.plan.controls, task.dt))
    return SwimmingPlan(
        task=task,
        refined=refined,
        states=replay.states,
        fourth_order=simulate(
            model.with_method("rk4"), refined.plan.controls, progress=False
        ).states,
        gait=gait,
        gait_amplitude=amplitude,
    )
