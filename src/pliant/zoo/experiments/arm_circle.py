"""arm-circle: a laser at the tip of a soft arm traces a circle on a plate
[Jia2019, Fig. 4(a), Fig. 5(a), Table I, first row]."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import Effort, paths
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import LaserTask, check, outcome, plan_laser, spot_target
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.robots import line_arm

# Table I, first row
PAPER = {
    "evaluations": 216,
    "queries": 4800,
    "reduction": 22,
    "error": 7e-6,
    "levels": 3,
    "unknowns": 1575,
}


def task(s: Mapping[str, Setting]) -> LaserTask:
    """Return the task: approach the circle in the first fifth of the time, then trace it once."""
    steps, dt = int(s["steps"]), float(s["dt"])
    radius, height = float(s["radius"]), float(s["plate_height"])
    lead = steps // 5
    circle = paths.circle(center=(0.0, 0.0), radius=radius, period=(steps - lead) * dt)
    goals = [
        spot_target(height, circle((k - lead) * dt), time=k * dt, weight=float(s["weight"]) * dt)
        for k in range(lead, steps + 1)
    ]
    start = np.full(4, float(s["start_tension"]))
    around = np.array([circle(t) for t in np.linspace(0.0, (steps - lead) * dt, 73)])
    return LaserTask(
        robot=line_arm(layers=int(s["layers"]), across=int(s["across"])),
        plate_height=height,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        target_curve=np.column_stack([around, np.full(len(around), height)]),
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-3, order=1)],
    )


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    radius, lead = float(run.settings["radius"]), planned.task.steps // 5
    errors = {
        name: float(np.abs(np.linalg.norm(spots[lead:], axis=1) - radius).max() / radius)
        for name, spots in (("planned", planned.spots), ("replayed", planned.replayed_spots))
    }
    max_error = float(run.settings["max_error"])
    reached = errors["replayed"] <= max_error
    metrics = {
        "largest radial error of the replay": Metric(
            value=errors["replayed"], unit="of the radius"
        ),
        "largest radial error of the plan": Metric(value=errors["planned"], unit="of the radius"),
    }
    message = (
        "done"
        if reached
        else (
            f"the radial error of the replay is {errors['replayed']:.1%} of the radius, "
            f"above {max_error:.1%}. Use a longer time step (--set dt={2.0 * planned.task.dt:g}), "
            "or a larger weight."
        )
    )
    return outcome(
        planned,
        title="arm-circle: the laser traces a circle",
        metrics=metrics,
        reached=reached,
        message=message,
        paper=PAPER,
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    return probe_latent(task(settings))


EXPERIMENT = Experiment(
    name="arm-circle",
    paper="000",
    shows="a laser on a soft arm traces a circle, planned on an adaptive surrogate of its "
    "equilibria",
    size="525 vertices, 4 cables, 200 steps",
    takes="50 s",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=lambda settings: check(task(settings)),
    settings={
        "radius": 0.05,
        "plate_height": 0.5,
        "start_tension": 2.0,
        "cell": 6.0,
        "eta": 2.4,
        "steps": 200,
        "dt": 0.05,
        "weight": 1e4,
        "max_error": 0.01,
        "layers": 20,
        "across": 4,
        "small_animation": False,
    },
    quick={
        "layers": 8,
        "across": 2,
        "steps": 40,
        "dt": 0.2,
        "eta": 3.0,
        "max_error": 0.05,
        "small_animation": True,
    },
)
