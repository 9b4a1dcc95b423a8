"""swimmer-plan: four ellipsoids with three motors swim forward like a fish, planned on an adaptive
grid of the added mass [Jia2019, Fig. 4(c), Fig. 5(b), Table I, second row]."""

from collections.abc import Mapping

import numpy as np

from pliant.report import Plot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.refinement_report import (
    convergence_plot,
    evaluation_plot,
    grid_plot,
    refinement_metrics,
)
from pliant.zoo.swimming_report import (
    angle_plot,
    hinge_labels,
    locus_plot,
    potential_scene,
    torque_plot,
)
from pliant.zoo.swimming_tasks import (
    BODY,
    SwimmingPlan,
    check,
    effort,
    forward_distance,
    plan_swimming,
    task,
)

# Table I, second row; 150,000 evaluations follow from 732 and the factor 205
PAPER: Mapping[str, float | str] = {
    "evaluations": 732,
    "steps": "150,000, from the factor 205",
    "reduction": 205,
    "error": 2e-5,
    "levels": 3,
}


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_swimming(run, task(run.settings))
    swum = forward_distance(planned.model, planned.states)
    share = swum / planned.task.distance
    reached = share >= float(run.settings["min_share"])
    message = (
        "done"
        if reached
        else f"the robot swims {swum:.3g} m of {planned.task.distance:g} m. Take more iterations "
        "(--set iterations=...), or a smaller distance."
    )
    model = planned.model
    end = model.effector(BODY, planned.states[0]) + np.array([[planned.task.distance, 0.0, 0.0]])
    return Outcome(
        metrics={
            **motion_metrics(planned),
            **refinement_metrics(planned.refined, PAPER, "added-mass queries"),
        },
        plots=plots(planned),
        scene=potential_scene(
            model, planned.states, "swimmer-plan: the robot swims forward", targets=end
        ),
        reached=reached,
        message=message,
        notes=tuple(planned.refined.certificate.lines()),
    )


def motion_metrics(planned: SwimmingPlan) -> dict[str, Metric]:
    """Return the distances of the plan, and of the gait with at most the same effort beside the
    planned torques by the same fourth-order steps."""
    model, task = planned.model, planned.task
    angles = np.array([model.query_point(x) for x in planned.states])
    lower, upper = task.robot.angle_limits
    excess = float(np.maximum(lower - angles, angles - upper).max())
    swum, accurate, gait = (
        forward_distance(model, states)
        for states in (planned.states, planned.fourth_order, planned.gait.states)
    )
    return {
        "forward distance of the replay": Metric(value=swum, unit="m"),
        "forward distance of the same torques by fourth-order steps": Metric(
            value=accurate, unit="m"
        ),
        "forward distance of a gait of at most this effort": Metric(value=gait, unit="m"),
        "ratio of the last two distances": Metric(value=accurate / gait),
        "amplitude of that gait": Metric(value=planned.gait_amplitude, unit="rad"),
        "effort": Metric(value=effort(planned.refined.plan.controls, task.dt), unit="N²m²s"),
        "largest excess of a joint limit": Metric(value=max(excess, 0.0), unit="rad"),
    }


def plots(planned: SwimmingPlan) -> list[Plot]:
    """Return plots of evaluations, convergence, the grid, torques, angles and the path."""
    model = planned.model
    grid = grid_plot(planned.refined, "Fig. 3: the grid, 2 of 3 axes", hinge_labels(model))
    return [
        evaluation_plot(planned.refined, "Fig. 5 (b): exact evaluations"),
        convergence_plot(planned.refined, "rad"),
        *([] if grid is None else [grid]),
        torque_plot(model, planned.refined.plan.controls, "Torques of the plan"),
        angle_plot(model, planned.states, "Joint angles of the plan"),
        locus_plot(
            model,
            {"plan": planned.states, "gait of at most this effort": planned.gait.states},
            "Locus of the centre of mass",
        ),
    ]


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the model, a state in motion and controls."""
    from pliant.swimming import SwimmerModel

    swim = task(settings)
    model = SwimmerModel(
        swim.robot, dt=swim.dt, cell=swim.cell, method=swim.rule, points=swim.points
    )
    n = model.robot.n_angles
    x = model.state(
        angles=0.2 * np.cos(np.arange(n)), velocities=0.2 * np.sin(1.0 + np.arange(6 + n))
    )
    return model, x, 0.1 * np.ones(model.n_controls)


EXPERIMENT = Experiment(
    name="swimmer-plan",
    paper="000",
    shows="four ellipsoids with three motors swim forward in potential flow, planned on an "
    "adaptive surrogate of the added mass",
    size="1,412 surface points, 3 torques, 200 steps",
    takes="4 min",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=lambda settings: check(task(settings)),
    settings={
        "distance": 0.016,
        "steps": 200,
        "dt": 0.01,
        "cell": 0.3,
        "eta": 0.1,
        "points": 353,
        "rule": "euler",
        "amplitude": 0.6,
        "frequency": 1.0,
        "lag": 1.2,
        "iterations": 100,
        # of the cost; a smaller one lets the fine levels follow changes that do not matter
        "tolerance": 1e-3,
        "min_share": 0.9,
        "small_animation": False,
    },
    quick={
        "distance": 0.016,
        "steps": 50,
        "cell": 0.3,
        "eta": 0.3,
        "points": 60,
        "iterations": 40,
        "min_share": 0.2,
        "small_animation": True,
    },
)
