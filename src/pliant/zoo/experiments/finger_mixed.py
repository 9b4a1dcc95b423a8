"""finger-mixed: inverse control of a finger with water and two cables together, which
[Rodriguez2017] names as future work."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pliant.actuators import Cable
from pliant.core import Array
from pliant.report import Plot
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.experiments import finger_inverse
from pliant.zoo.experiments.finger_inverse import Curves, distance_to_curve, tip_curves
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
from pliant.zoo.robots.finger import BACK, BOTTOM, FLOOR, HOLLOW, LENGTH

CABLES = {"lower cable": BOTTOM, "upper cable": BOTTOM + FLOOR + HOLLOW + BACK}  # height z [m]
MUST_REACH = ("low", "far horizontal")  # targets that water alone reaches


def finger(s: Mapping[str, Setting]) -> Robot:
    """Return the finger with water, and a cable along its lower and its upper side."""
    water = finger_inverse.finger(s, "water")
    cables = {
        name: Cable(
            points=[(x, 0.0, z) for x in np.linspace(0.0, LENGTH, 8)],
            limits=(0.0, float(s["max_tension"])),
        )
        for name, z in CABLES.items()
    }
    return replace(water, name="mixed_finger", actuators={**water.actuators, **cables})


def task(s: Mapping[str, Setting], tips: Curves) -> TargetTask:
    """Return the task: the targets of the finger with one fluid, of which it must reach those that
    water alone reaches."""
    single = finger_inverse.task(s, "water", tips)
    reachable = dict.fromkeys(MUST_REACH, True)
    return replace(single, robot=finger(s), reachable=reachable)


def perform(run: ExperimentRun) -> Outcome:
    tips = tip_curves(run.settings, run.progress)
    target_task = task(run.settings, tips)
    result = visit_targets(target_task, run.progress)
    return target_outcome(
        run,
        target_task,
        result,
        metrics=mixed_metrics(tips, target_task, result),
        plots=[reachable_plot(tips, result)],
        view=finger_inverse.VIEW,
    )


def mixed_metrics(
    tips: Curves, target_task: TargetTask, result: TargetTaskResult
) -> dict[str, Metric]:
    """Return the metrics of the targets, with the smallest errors of one fluid alone."""
    alone = {
        f"{name}: smallest possible position error with {fluid} alone": Metric(
            value=1e3 * distance_to_curve(line, visit.target), unit="mm"
        )
        for name, visit in result.visits.items()
        for fluid, line in tips.items()
    }
    controls = {
        f"{name}: {actuator}": Metric(value=float(value), unit=unit)
        for name, visit in result.visits.items()
        for actuator, value, unit in zip(ACTUATORS, visit.pose.u, UNITS, strict=True)
    }
    return {**target_metrics(target_task, result), **alone, **controls}


ACTUATORS, UNITS = ("pump", *CABLES), ("Pa", "N", "N")


def reachable_plot(tips: Curves, result: TargetTaskResult) -> Plot:
    """Return the plot of the tip positions of each fluid alone, the targets and the final positions
    with cables."""
    plot = finger_inverse.reachable_plot(tips, {"water and cables": result})
    path: Array = 1e3 * result.positions
    return replace(
        plot,
        series={"path with water and cables": (path[:, 0], path[:, 2]), **plot.series},
        thin=("path with water and cables",),
    )


EXPERIMENT = Experiment(
    name="finger-mixed",
    paper="002",
    shows="inverse control of a soft finger with water and two cables together, which comes "
    "closer to high and low targets than water or air alone",
    size="1,188 nodes, 1 cavity, 2 cables, 5 targets",
    takes="1 min",
    perform=perform,
    probe=make_probe(finger),
    settings={
        "along": 5,
        "order": 2,
        "max_tension": 1.5,  # [N] more tension of the lower cable makes the finger unstable
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
