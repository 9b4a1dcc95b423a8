"""The outcome of inverse control [Rodriguez2017]: metrics, checks, plots and the scene of a robot
whose effector has visited its targets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pliant.bodies import Solid
from pliant.geometry.cells import split_quadratic_triangles
from pliant.planners.inverse_control import UNREACHABLE
from pliant.report import DrawnScene, Plot
from pliant.report.control_plots import control_plots
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.zoo.experiment import ExperimentRun, Metric, Outcome
from pliant.zoo.inverse_tasks import CONTROL_RATE, TargetTask, TargetTaskResult

# cosine between the error and the remaining motions, below which no motion reduces the error
STATIONARY_COSINE = 0.02


def target_outcome(
    run: ExperimentRun,
    task: TargetTask,
    result: TargetTaskResult,
    *,
    metrics: Mapping[str, Metric],
    plots: Sequence[Plot],
    view: tuple[float, float],
    faults: Sequence[str] = (),
) -> Outcome:
    """Save the trajectory of a run and return its outcome. `plots` are drawn before those of
    every task, and `faults` are added to its failures."""
    run.save_trajectory(result.states, result.controls, dt=1.0 / CONTROL_RATE)
    found = [*failures(task, result), *faults]
    return Outcome(
        metrics=metrics,
        plots=[*plots, *tracking_plots(task, result)],
        scene=target_scene(task, result, run.identity, view),
        reached=not found,
        message="; ".join(found) or "done",
        notes=controller_messages(result),
    )


def target_metrics(task: TargetTask, result: TargetTaskResult) -> dict[str, Metric]:
    """Return the metrics of each target and of the controller."""
    out: dict[str, Metric] = {}
    for name, visit in result.visits.items():
        out[f"{name}: position error"] = Metric(value=1e3 * visit.pose.error, unit="mm")
        out[f"{name}: error within tolerance"] = Metric(value=visit.reached)
        if not visit.reached:
            out[f"{name}: cosine of error and remaining motion"] = Metric(
                value=visit.remaining_cosine
            )
    # The first control steps load libraries.
    milliseconds = 1e3 * result.seconds[min(10, len(result.seconds) - 1) :]
    return {
        **out,
        "largest distance from equilibrium": Metric(
            value=1e3 * max(visit.equilibrium_error for visit in result.visits.values()), unit="mm"
        ),
        "control limit violation": Metric(value=result.limit_violation),
        "control steps": Metric(value=len(result.seconds)),
        "control step time, median": Metric(
            value=float(np.percentile(milliseconds, 50)), unit="ms"
        ),
        "control step time, 99th percentile": Metric(
            value=float(np.percentile(milliseconds, 99)), unit="ms"
        ),
        "nodes": Metric(value=task.robot.body().rest.size // result.positions.shape[1]),
    }


def failures(task: TargetTask, result: TargetTaskResult) -> list[str]:
    """Return a message for each check that failed."""
    length, out = (
        float(np.ptp(task.robot.body().rest.reshape(-1, result.positions.shape[1]), axis=0).max()),
        [],
    )
    for name, visit in result.visits.items():
        if name in task.reachable and visit.reached != task.reachable[name]:
            out.append(
                f"'{name}' is {'out of' if task.reachable[name] else 'within'} reach, "
                f"{1e3 * visit.pose.error:.3g} mm away"
            )
        elif not visit.reached and not (
            visit.remaining_cosine <= STATIONARY_COSINE and visit.pose.outcome == UNREACHABLE
        ):
            out.append(
                f"the controller did not converge to the point closest to '{name}' "
                f"({visit.pose.message}); the cosine of error and remaining motion is "
                f"{visit.remaining_cosine:.2g}"
            )
        if visit.equilibrium_error > 1e-5 * length:
            out.append(
                f"the robot is {1e3 * visit.equilibrium_error:.3g} mm from equilibrium at '{name}'"
            )
    return (
        [*out, f"a control is {result.limit_violation:g} outside its limits"]
        if result.limit_violation > 0.0
        else out
    )


def controller_messages(result: TargetTaskResult) -> list[str]:
    """Return the message of the controller at each target."""
    return [f"{name}: {visit.pose.message}." for name, visit in result.visits.items()]


def tracking_plots(task: TargetTask, result: TargetTaskResult) -> list[Plot]:
    """Return plots of the distance to the target and of the controls over the control steps."""
    steps = np.arange(1, len(result.seconds) + 1)
    error = 1e3 * np.linalg.norm(result.positions[1:] - result.step_targets, axis=1)
    return [
        Plot(
            title="Distance to the target",
            x="control step",
            y="distance [mm]",
            log_y=True,
            series={"distance": (steps, np.maximum(error, 1e-4))},
        ),
        *control_plots(task.robot, np.arange(len(steps) + 1), result.controls, x="control step"),
    ]


def target_scene(
    task: TargetTask, result: TargetTaskResult, title: str, view: tuple[float, float]
) -> DrawnScene:
    """Return the scene of all control steps and all targets."""
    scene = robot_scene(
        task.robot,
        result.states,
        dt=1.0 / CONTROL_RATE,
        title=title,
        targets=np.array(list(task.targets.values())),
        marked=(task.effector,),
    )
    return replace(with_curved_facets(scene, task.robot), view=view)


def with_curved_facets(scene: DrawnScene, robot: Robot) -> DrawnScene:
    """Return the scene with each quadratic facet split at its mid-side nodes."""
    body = robot.body()
    if not isinstance(body, Solid) or body.mesh.order == 1:
        return scene
    return replace(scene, facets=split_quadratic_triangles(body.mesh.boundary()))
