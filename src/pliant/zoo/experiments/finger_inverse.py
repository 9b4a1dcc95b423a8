"""finger-hydraulic and finger-pneumatic: the same finger and targets, filled with water or air
[Rodriguez2017, Fig. 5]."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.interpolate import CubicSpline

from pliant.core import Array
from pliant.dynamics import Quasistatic, equilibrium
from pliant.report import Plot
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
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
from pliant.zoo.robots import hydraulic_finger

FLUIDS = {"finger-hydraulic": "water", "finger-pneumatic": "air"}
# name -> fluid with which the target is reachable, index of the filling stage
REACHABLE_TARGETS: Mapping[str, tuple[str, int]] = {
    "low": ("water", 1),
    "far horizontal": ("water", -2),
    "high": ("air", -2),
}
# [m] vertical distance from the highest and the lowest tip position
UNREACHABLE_OFFSETS = {"above the range": 0.015, "below the range": -0.015}
VIEW = (-75.0, 10.0)  # [degrees]
SPLINE_ERROR = 5e-5  # [m] of a spline through the tip positions

# fluid -> (stages, 3) [m] tip positions, from the smallest filling to the largest
Curves = Mapping[str, Array]


def finger(s: Mapping[str, Setting], fluid: str) -> Robot:
    """Return the finger of the settings, filled with a fluid."""
    return hydraulic_finger(fluid=fluid, along=int(s["along"]), order=int(s["order"]))


def tip_curve(robot: Robot, stages: int) -> Array:
    """Return the equilibrium positions of the tip (stages, 3) [m] for evenly spaced controls."""
    model, x, out = Quasistatic(robot), None, []
    for u in np.linspace(*robot.control_limits(), stages):
        x = equilibrium(model, u, x0=x).x
        out.append(robot.effector_position("tip", x))
    return np.array(out)


def tip_curves(
    s: Mapping[str, Setting],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Curves:
    """Return the reachable positions of the tip for each fluid."""
    out = {}
    for k, fluid in enumerate(FLUIDS.values()):
        progress("quasistatic filling", k, len(FLUIDS))
        out[fluid] = tip_curve(finger(s, fluid), int(s["filling_stages"]))
    progress("quasistatic filling", len(FLUIDS), len(FLUIDS))
    return out


def task(s: Mapping[str, Setting], fluid: str, tips: Curves) -> TargetTask:
    """Return the task. Both fluids have the same targets; some are reachable with one fluid
    only."""
    targets = {name: tips[other][k] for name, (other, k) in REACHABLE_TARGETS.items()}
    for name, offset in UNREACHABLE_OFFSETS.items():
        points = np.concatenate(list(tips.values()))
        extreme = points[np.argmax(np.sign(offset) * points[:, 2])]
        targets[name] = extreme + np.array([0.0, 0.0, offset])
    reachable = {
        name: name in REACHABLE_TARGETS and REACHABLE_TARGETS[name][0] == fluid for name in targets
    }
    return TargetTask(
        robot=finger(s, fluid),
        targets=targets,
        reachable=reachable,
        transition_steps=int(s["transition_steps"]),
    )


def distance_to_curve(points: Array, target: Array) -> float:
    """Return the distance [m] from a target to a smooth curve through points (n, 3)."""
    fine = CubicSpline(np.linspace(0.0, 1.0, len(points)), points)(np.linspace(0.0, 1.0, 4001))
    return float(np.linalg.norm(fine - target, axis=1).min())


def perform_with(fluid: str) -> Callable[[ExperimentRun], Outcome]:
    """Return the function that performs the experiment with a fluid."""

    def perform(run: ExperimentRun) -> Outcome:
        tips = tip_curves(run.settings, run.progress)
        target_task = task(run.settings, fluid, tips)
        result = visit_targets(target_task, run.progress)
        return target_outcome(
            run,
            target_task,
            result,
            metrics=finger_metrics(tips[fluid], target_task, result),
            plots=[reachable_plot(tips, {fluid: result})],
            view=VIEW,
            faults=not_closest(tips[fluid], result),
        )

    return perform


def finger_metrics(
    tips: Array, target_task: TargetTask, result: TargetTaskResult
) -> dict[str, Metric]:
    """Return the metrics of the targets and of the tip positions (stages, 3) [m]."""
    distances = {
        f"{name}: smallest possible position error": distance_to_curve(tips, visit.target)
        for name, visit in result.visits.items()
    }
    heights = {"lowest tip height": tips[:, 2].min(), "highest tip height": tips[:, 2].max()}
    return {
        **target_metrics(target_task, result),
        **{
            name: Metric(value=1e3 * float(value), unit="mm")
            for name, value in {**distances, **heights}.items()
        },
    }


def not_closest(tips: Array, result: TargetTaskResult) -> list[str]:
    """Return a message for each target to which quasistatic filling gets closer."""
    return [
        f"the error at '{name}' is {1e3 * visit.pose.error:.3g} mm, but "
        f"{1e3 * distance_to_curve(tips, visit.target):.3g} mm is possible"
        for name, visit in result.visits.items()
        if visit.pose.error > distance_to_curve(tips, visit.target) + SPLINE_ERROR
    ]


def reachable_plot(tips: Curves, result: Mapping[str, TargetTaskResult]) -> Plot:
    """Plot the reachable positions of the tip, the targets and the final positions."""
    visits = {fluid: one.visits.values() for fluid, one in result.items()}
    targets = np.array([visit.target for visit in next(iter(visits.values()))])
    ends = {
        f"final, {fluid}": np.array([visit.pose.positions[0] for visit in own])
        for fluid, own in visits.items()
    }
    return Plot(
        title="Reachable positions of the tip",
        x="x [mm]",
        y="z [mm]",
        kind="both",
        series={
            **{
                f"with {fluid}": (1e3 * line[:, 0], 1e3 * line[:, 2])
                for fluid, line in tips.items()
            },
            **{name: _separated(points) for name, points in {"targets": targets, **ends}.items()},
        },
    )


def _separated(points: Array) -> tuple[Array, Array]:
    """Return x and z [mm] of points (n, 3) [m], separated by NaN so that no line is drawn."""
    x, _, z = 1e3 * points.T
    return np.repeat(x, 2), np.stack([z, np.full_like(z, np.nan)], axis=1).ravel()


EXPERIMENTS = tuple(
    Experiment(
        name=name,
        paper="002",
        shows=f"inverse control of a soft finger filled with {fluid}, with the same targets as "
        f"with {other}, some unreachable",
        size="1,188 nodes, 1 cavity, 5 targets",
        takes="30 s",
        perform=perform_with(fluid),
        probe=make_probe(partial(finger, fluid=fluid)),
        settings={
            "along": 5,
            "order": 2,
            "filling_stages": 11,
            "transition_steps": 20,
            "small_animation": False,
        },
        quick={
            "along": 4,
            "order": 1,
            "filling_stages": 6,
            "transition_steps": 3,
            "small_animation": True,
        },
    )
    for (name, fluid), other in zip(FLUIDS.items(), ("air", "water"), strict=True)
)
