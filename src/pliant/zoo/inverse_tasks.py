"""Tasks of inverse control [Rodriguez2017]: an effector visits targets in sequence. The outcome at
each target is checked against the full model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pliant.bodies import Solid
from pliant.core import Array
from pliant.dynamics import ImplicitEuler, Quasistatic, equilibrium
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.geometry.cells import split_quadratic_triangles
from pliant.planners import ControlState, InverseController
from pliant.planners.inverse_control import MOVING, UNREACHABLE, inverse_control
from pliant.report import Plot, Scene
from pliant.report.control_plots import control_plots
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.zoo.experiment import Metric, Setting

RATE = 60.0  # [1/s] steps of `pliant drive`
MAX_SETTLING_STEPS = 400  # steps that a robot may take to settle at a target
# of the robot's length: a control step that moves no node farther is at rest
REST_TOLERANCE = 1e-4
# cosine between the error and the remaining motions, below which no motion reduces the error
STATIONARY_COSINE = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetTask:
    """A robot and the targets that its effector visits in sequence."""

    robot: Robot
    targets: Mapping[str, Array]  # name -> (dim,) [m]
    reachable: Mapping[str, bool] = field(
        default_factory=dict
    )  # name -> whether it must be reached or must not; others may
    start: Array | None = None  # (n_controls,) None: the neutral ones
    effector: str = "tip"
    transition_steps: int = (
        20  # steps in which a target goes over to the next one, in a straight line
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Visit:
    """The robot at rest at a target, or at the closest reachable point."""

    target: Array  # (dim,) [m]
    pose: ControlState
    reached: bool
    # [m] largest node distance from the equilibrium of the full model under the same controls
    drift: float
    # largest cosine between the error and an admissible motion; undefined if the target is reached
    left: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetTaskResult:
    """The control steps of a target task, and its visits."""

    visits: Mapping[str, Visit]
    states: Array  # (steps + 1, n_dofs)
    controls: Array  # (steps, n_controls)
    places: Array  # (steps + 1, dim) [m] of the effector
    wanted: Array  # (steps, dim) [m]
    seconds: Array  # (steps,) [s] that each took
    limit_violation: float  # the most that a control was outside its limits


def visit_targets(
    task: TargetTask, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> TargetTaskResult:
    """Move the effector to each target in sequence. Return states, controls and visits."""
    model = Quasistatic(task.robot)
    controller = inverse_control(model, effectors=(task.effector,))
    poses, wanted, visits = [controller.begin(u=task.start)], [], {}
    before = poses[0].positions[0]
    for k, (name, target) in enumerate(task.targets.items()):
        progress("visiting targets", k, len(task.targets))
        for at in (
            *np.linspace(before, target, task.transition_steps + 1)[1:],
            *([target] * MAX_SETTLING_STEPS),
        ):
            poses.append(controller.follow(poses[-1], at[None]))
            wanted.append(at)
            if (
                at is target
                and poses[-1].outcome != MOVING
                and poses[-1].displacement <= REST_TOLERANCE * controller.length
            ):
                break
        visits[name], before = visited(task, model, controller, poses[-1], target), target
    progress("visiting targets", len(task.targets), len(task.targets))
    controls, (lower, upper) = np.array([pose.u for pose in poses[1:]]), model.control_limits()
    return TargetTaskResult(
        visits=visits,
        states=np.array([pose.x for pose in poses]),
        controls=controls,
        wanted=np.array(wanted),
        places=np.array([pose.positions[0] for pose in poses]),
        seconds=np.array([pose.solve_seconds for pose in poses[1:]]),
        limit_violation=float(np.maximum(lower - controls, controls - upper).max(initial=0.0)),
    )


def visited(
    task: TargetTask,
    model: ImplicitModel,
    controller: InverseController,
    pose: ControlState,
    target: Array,
) -> Visit:
    """Return the visit, checked against the full model."""
    true = equilibrium(model, pose.u, x0=pose.x)
    ways = (
        model.effector_rows(task.effector)
        @ model.linearize(model.step(true.x, pose.u)).dense_controls()
    )
    left = remaining_motion_cosine(ways, target - pose.positions[0], pose.u, model.control_limits())
    return Visit(
        target=target,
        pose=pose,
        reached=pose.error <= controller.tolerance * controller.length,
        drift=float(np.abs(true.x - pose.x).max()),
        left=left,
    )


def remaining_motion_cosine(
    ways: Array, miss: Array, u: Array, limits: tuple[Array, Array]
) -> float:
    """Return the largest cosine between the error (dim,) and the motions (dim, n_controls) that the
    limits admit; zero at the closest point."""
    cosines = (miss @ ways) / np.maximum(
        np.linalg.norm(ways, axis=0) * np.linalg.norm(miss), 1e-300
    )
    (lower, upper), near = limits, 1e-6 * (limits[1] - limits[0])
    return float(
        np.max(
            np.where(cosines > 0.0, u < upper - near, u > lower + near) * np.abs(cosines),
            initial=0.0,
        )
    )


def metrics(task: TargetTask, result: TargetTaskResult) -> dict[str, Metric]:
    out: dict[str, Metric] = {}
    for name, visit in result.visits.items():
        out[f"{name}: distance from the target"] = Metric(value=1e3 * visit.pose.error, unit="mm")
        out[f"{name}: is at its target"] = Metric(value=visit.reached)
        if not visit.reached:
            out[f"{name}: cosine of error and remaining motion"] = Metric(value=visit.left)
    took = (
        1e3 * result.seconds[min(10, len(result.seconds) - 1) :]
    )  # the first steps load libraries
    return {
        **out,
        "largest distance from equilibrium": Metric(
            value=1e3 * max(visit.drift for visit in result.visits.values()), unit="mm"
        ),
        "control limit violation": Metric(value=result.limit_violation),
        "control steps": Metric(value=len(result.seconds)),
        "control step time, median": Metric(value=float(np.percentile(took, 50)), unit="ms"),
        "control step time, 99th percentile": Metric(
            value=float(np.percentile(took, 99)), unit="ms"
        ),
        "nodes": Metric(value=task.robot.body().rest.size // result.places.shape[1]),
    }


def failures(task: TargetTask, result: TargetTaskResult) -> list[str]:
    """Return a message for each check that failed."""
    length, out = (
        float(np.ptp(task.robot.body().rest.reshape(-1, result.places.shape[1]), axis=0).max()),
        [],
    )
    for name, visit in result.visits.items():
        if name in task.reachable and visit.reached != task.reachable[name]:
            out.append(
                f"'{name}' is {'out of' if task.reachable[name] else 'within'} reach, "
                f"{1e3 * visit.pose.error:.3g} mm away"
            )
        elif not visit.reached and not (
            visit.left <= STATIONARY_COSINE and visit.pose.outcome == UNREACHABLE
        ):
            out.append(
                f"the controller did not converge to the point closest to '{name}' "
                f"({visit.pose.message}); the cosine of error and remaining motion is "
                f"{visit.left:.2g}"
            )
        if visit.drift > 1e-5 * length:
            out.append(f"the robot is {1e3 * visit.drift:.3g} mm from equilibrium at '{name}'")
    return (
        [*out, f"a control is {result.limit_violation:g} outside its limits"]
        if result.limit_violation > 0.0
        else out
    )


def controller_messages(result: TargetTaskResult) -> list[str]:
    """What the controller said at each target."""
    return [f"{name}: {visit.pose.message}." for name, visit in result.visits.items()]


def follow_plots(task: TargetTask, result: TargetTaskResult) -> list[Plot]:
    """Distance from the target, and the controls, over steps."""
    steps = np.arange(1, len(result.seconds) + 1)
    miss = 1e3 * np.linalg.norm(result.places[1:] - result.wanted, axis=1)
    return [
        Plot(
            title="Distance from the target",
            x="control step",
            y="distance [mm]",
            log_y=True,
            series={"distance": (steps, np.maximum(miss, 1e-4))},
        ),
        *control_plots(task.robot, np.arange(len(steps) + 1), result.controls, x="control step"),
    ]


def target_scene(
    task: TargetTask, result: TargetTaskResult, title: str, view: tuple[float, float]
) -> Scene:
    """All steps, with all targets."""
    drawn = robot_scene(
        task.robot,
        result.states,
        dt=1.0 / RATE,
        title=title,
        targets=np.array(list(task.targets.values())),
        marked=(task.effector,),
    )
    return replace(curved(drawn, task.robot), view=view)


def curved(drawn: Scene, robot: Robot) -> Scene:
    """A scene whose skin goes through the middles of curved facets, too."""
    body = robot.body()
    if not isinstance(body, Solid) or body.mesh.order == 1:
        return drawn
    return replace(drawn, facets=split_quadratic_triangles(body.mesh.boundary()))


def probe_of(
    make: Callable[[Mapping[str, Setting]], Robot],
) -> Callable[[Mapping[str, Setting]], tuple]:
    """A robot a step into a motion, with its cavities partly filled."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        model = ImplicitEuler(make(settings), dt=0.01)
        lower, upper = model.control_limits()
        u = lower + 0.2 * (upper - lower) * (1.5 + np.cos(np.arange(lower.size)))
        return model, model.step(model.initial_state(), u).x, u

    return probe
