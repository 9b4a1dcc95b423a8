"""Tasks of inverse control [Rodriguez2017]: an effector visits targets in sequence. The outcome at
each target is checked against the full model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pliant.core import Array
from pliant.dynamics import ImplicitEuler, Quasistatic, equilibrium
from pliant.planners import ControlState, InverseController
from pliant.planners.inverse_control import MOVING, inverse_control
from pliant.robot import Robot
from pliant.zoo.experiment import Setting

CONTROL_RATE = 60.0  # [1/s] control steps per second of the animation, as in `pliant drive`
MAX_SETTLING_STEPS = 400  # steps that a robot may take to settle at a target
# a robot is at rest if a control step moves no node farther than this fraction of its length
REST_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetTask:
    """A robot and the targets that its effector visits in sequence."""

    robot: Robot
    targets: Mapping[str, Array]  # name -> (dim,) [m]
    # name -> True: must be reached, False: must not be reached; other targets may be reached
    reachable: Mapping[str, bool] = field(default_factory=dict)
    start: Array | None = None  # (n_controls,) None: the neutral controls
    effector: str = "tip"
    transition_steps: int = 20  # in which the target moves on a line to the next one


@dataclass(frozen=True, kw_only=True, eq=False)
class Visit:
    """The robot at rest at a target, or at the closest reachable point."""

    target: Array  # (dim,) [m]
    pose: ControlState
    reached: bool
    # [m] largest node distance from the equilibrium of the full model under the same controls
    equilibrium_error: float
    # largest cosine between the error and an admissible motion; undefined if the target is reached
    remaining_cosine: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetTaskResult:
    """The control steps of a target task, and its visits."""

    visits: Mapping[str, Visit]
    states: Array  # (steps + 1, n_dofs)
    controls: Array  # (steps, n_controls)
    positions: Array  # (steps + 1, dim) [m] of the effector
    step_targets: Array  # (steps, dim) [m] target of each control step
    seconds: Array  # (steps,) [s] computing time of each control step
    limit_violation: float  # largest distance of a control from its limits


def visit_targets(
    task: TargetTask, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> TargetTaskResult:
    """Move the effector to each target in sequence. Return states, controls and visits."""
    model = Quasistatic(task.robot)
    controller = inverse_control(model, effectors=(task.effector,))
    poses, step_targets, visits = [controller.begin(u=task.start)], [], {}
    before = poses[0].positions[0]
    for k, (name, target) in enumerate(task.targets.items()):
        progress("visiting targets", k, len(task.targets))
        for at in (
            *np.linspace(before, target, task.transition_steps + 1)[1:],
            *([target] * MAX_SETTLING_STEPS),
        ):
            poses.append(controller.follow(poses[-1], at[None]))
            step_targets.append(at)
            if (
                at is target
                and poses[-1].outcome != MOVING
                and poses[-1].displacement <= REST_TOLERANCE * controller.length
            ):
                break
        visits[name], before = check_visit(task, model, controller, poses[-1], target), target
    progress("visiting targets", len(task.targets), len(task.targets))
    controls, (lower, upper) = np.array([pose.u for pose in poses[1:]]), model.control_limits()
    return TargetTaskResult(
        visits=visits,
        states=np.array([pose.x for pose in poses]),
        controls=controls,
        step_targets=np.array(step_targets),
        positions=np.array([pose.positions[0] for pose in poses]),
        seconds=np.array([pose.solve_seconds for pose in poses[1:]]),
        limit_violation=float(np.maximum(lower - controls, controls - upper).max(initial=0.0)),
    )


def check_visit(
    task: TargetTask,
    model: Quasistatic,
    controller: InverseController,
    pose: ControlState,
    target: Array,
) -> Visit:
    """Return a visit with its errors compared with the full model."""
    true = equilibrium(model, pose.u, x0=pose.x)
    motions = (
        model.effector_rows(task.effector)
        @ model.linearize(model.step(true.x, pose.u)).dense_controls()
    )
    cosine = remaining_motion_cosine(
        motions, target - pose.positions[0], pose.u, model.control_limits()
    )
    return Visit(
        target=target,
        pose=pose,
        reached=pose.error <= controller.tolerance * controller.length,
        equilibrium_error=float(np.abs(true.x - pose.x).max()),
        remaining_cosine=cosine,
    )


def remaining_motion_cosine(
    motions: Array, error: Array, u: Array, limits: tuple[Array, Array]
) -> float:
    """Return the largest cosine between the error (dim,) and the motions (dim, n_controls) that the
    limits admit; zero at the closest point."""
    cosines = (error @ motions) / np.maximum(
        np.linalg.norm(motions, axis=0) * np.linalg.norm(error), 1e-300
    )
    (lower, upper), margin = limits, 1e-6 * (limits[1] - limits[0])
    return float(
        np.max(
            np.where(cosines > 0.0, u < upper - margin, u > lower + margin) * np.abs(cosines),
            initial=0.0,
        )
    )


def make_probe(
    make_robot: Callable[[Mapping[str, Setting]], Robot],
) -> Callable[[Mapping[str, Setting]], tuple]:
    """Return a probe: a robot after one step, with controls within their limits."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        model = ImplicitEuler(make_robot(settings), dt=0.01)
        lower, upper = model.control_limits()
        u = lower + 0.2 * (upper - lower) * (1.5 + np.cos(np.arange(lower.size)))
        return model, model.step(model.initial_state(), u).x, u

    return probe
