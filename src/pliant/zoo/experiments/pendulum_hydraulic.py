"""pendulum-hydraulic: four water chambers extend, contract and bend a hanging pendulum
[Rodriguez2017, Fig. 6]."""

from collections.abc import Mapping

import numpy as np

from pliant.bodies import Solid
from pliant.core import Array
from pliant.dynamics import Quasistatic, equilibrium
from pliant.hydrostatics import column_weights, hydrostatic_load
from pliant.report import Plot
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.experiments.cylinder_air_water import wall_points
from pliant.zoo.inverse_report import (
    target_metrics,
    target_outcome,
)
from pliant.zoo.inverse_tasks import (
    TargetTask,
    TargetTaskResult,
    make_probe,
    visit_targets,
)
from pliant.zoo.robots import hydraulic_pendulum
from pliant.zoo.timing import timed

# Fractions of the control ranges, from the chamber towards x, whose equilibria define the targets
TARGET_CONTROLS: Mapping[str, tuple[float, ...]] = {
    "extended": (0.9, 0.9, 0.9, 0.9),
    "contracted": (0.1, 0.1, 0.1, 0.1),
    "to +x": (0.05, 0.45, 0.85, 0.45),
    "to +y": (0.45, 0.05, 0.45, 0.85),
    "to -x -y": (0.8, 0.8, 0.1, 0.1),
}
UNREACHABLE_OFFSET = (0.03, 0.0, 0.0)  # [m] from the initial position
VIEW = (-70.0, 10.0)  # [degrees]
CAVITIES, WATER = 4, 1000.0  # number of chambers, density [kg/m^3]
GRID, PAPER_WEIGHT_TIME = 200, "< 2.1, GPU"  # columns along each side, time [ms] of the paper
INITIAL_FRACTION = 0.45  # of the control range, so that the pendulum can also contract


def pendulum(s: Mapping[str, Setting]) -> Robot:
    """Return the pendulum of the settings."""
    return hydraulic_pendulum(
        divisions=(2, int(s["around"]), int(s["layers"])), order=int(s["order"])
    )


def task(s: Mapping[str, Setting]) -> TargetTask:
    """Return the task. All targets but the last one are equilibria of the pendulum."""
    robot = pendulum(s)
    lower, upper = robot.control_limits()
    controls = {
        name: lower + np.array(fractions) * (upper - lower)
        for name, fractions in {**TARGET_CONTROLS, "": 4 * (INITIAL_FRACTION,)}.items()
    }
    model = Quasistatic(robot)
    middle = equilibrium(model, controls[""])
    tips = {
        name: robot.effector_position("tip", equilibrium(model, u, x0=middle.x).x)
        for name, u in controls.items()
    }
    targets = {
        **{name: tips[name] for name in TARGET_CONTROLS},
        "beyond lateral range": tips[""] + np.array(UNREACHABLE_OFFSET),
    }
    return TargetTask(
        robot=robot,
        targets=targets,
        reachable={name: name in TARGET_CONTROLS for name in targets},
        start=controls[""],
        transition_steps=int(s["transition_steps"]),
    )


def perform(run: ExperimentRun) -> Outcome:
    run.progress("computing the targets", 0, 1)
    target_task = task(run.settings)
    run.progress("computing the targets", 1, 1)
    result = visit_targets(target_task, run.progress)
    return target_outcome(
        run,
        target_task,
        result,
        metrics=pendulum_metrics(target_task, result),
        plots=position_plots(result),
        view=VIEW,
    )


def pendulum_metrics(target_task: TargetTask, result: TargetTaskResult) -> dict[str, Metric]:
    """Return the metrics of the targets and of the range of motion."""
    ends = {name: 1e3 * visit.pose.positions[0] for name, visit in result.visits.items()}
    lateral = {
        f"{name}: lateral displacement": float(np.linalg.norm(end[:2]))
        for name, end in ends.items()
        if name.startswith("to ")
    }
    distances = {
        "height difference, contracted to extended": float(
            ends["contracted"][2] - ends["extended"][2]
        ),
        **lateral,
    }
    return {
        **target_metrics(target_task, result),
        **{name: Metric(value=value, unit="mm") for name, value in distances.items()},
        **weight_time_metrics(target_task.robot, result.states[-1]),
    }


def weight_time_metrics(robot: Robot, q: Array) -> dict[str, Metric]:
    """Return the computing times [ms] of the weight of all four cavities at positions q (n_dofs,),
    by columns as in the paper and by the exact pressure."""
    walls = [wall_surface(robot, k, q) for k in range(CAVITIES)]
    gravity = np.asarray(robot.gravity, float)

    def columns() -> None:
        for points, triangles in walls:
            column_weights(
                points, triangles, grid=GRID, density=WATER, gravity=gravity, check=False
            )

    def exact() -> None:
        for points, triangles in walls:
            hydrostatic_load(points, triangles, density=WATER, gravity=gravity)

    return {
        f"weight of the four cavities, {GRID}^2 columns": Metric(
            value=timed(columns), unit="ms", paper=PAPER_WEIGHT_TIME
        ),
        "weight of the four cavities, exact": Metric(value=timed(exact), unit="ms"),
        "triangles of the four cavities": Metric(value=sum(len(wall[1]) for wall in walls)),
    }


def wall_surface(robot: Robot, k: int, q: Array) -> tuple[Array, Array]:
    """Return the wall of the k-th chamber as points (n, 3) [m] and triangles."""
    body = robot.body()
    assert isinstance(body, Solid)
    points, triangles = wall_points(body, f"chamber 1-{k + 1}")
    return body.locate(points) @ q.reshape(-1, 3), triangles


def position_plots(result: TargetTaskResult) -> list[Plot]:
    """Return plots of the tip coordinates and their targets over the control steps."""
    steps = np.arange(1, len(result.step_targets) + 1)
    return [
        Plot(
            title=f"tip: {axis}",
            x="control step",
            y=f"{axis} [mm]",
            series={
                "target": (steps, 1e3 * result.step_targets[:, k]),
                "tip": (steps, 1e3 * result.positions[1:, k]),
            },
        )
        for k, axis in enumerate("xyz")
    ]


EXPERIMENT = Experiment(
    name="pendulum-hydraulic",
    paper="002",
    shows="inverse control of a hanging pendulum with four water chambers, with one unreachable "
    "target",
    size="1,935 nodes, 4 cavities, 6 targets",
    takes="2 min",
    perform=perform,
    probe=make_probe(pendulum),
    settings={
        "around": 3,
        "layers": 1,
        "order": 2,
        "transition_steps": 20,
        "small_animation": False,
    },
    quick={"order": 1, "transition_steps": 3, "small_animation": True},
)
