"""arm-circle: a laser at the tip of a soft arm traces a circle on a plate
[Jia2019, Fig. 4(a), Fig. 5(a), Table I, first row]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.problem import Effort, paths
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import LaserTask, check, plan_laser, spot_target
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.laser_report import outcome
from pliant.zoo.robots import line_arm

# Table I, first row
PAPER = {
    "evaluations": 216,
    "steps": 4800,  # one evaluation per simulated step
    "reduction": 22,
    "error": 7e-6,
    "levels": 3,
    "unknowns": 1575,
}


def circle_targets(steps: int, radius: float) -> Array:
    """Return the targets (steps - steps // 5 + 1, 2) [m] of the spot: one turn after the approach,
    which takes the first fifth of the steps."""
    count = steps - steps // 5
    circle = paths.circle(centre=(0.0, 0.0), radius=radius, period=float(count))
    return np.array([circle(float(k)) for k in range(count + 1)])


def task(s: Mapping[str, Setting]) -> LaserTask:
    """Return the task: approach the circle in the first fifth of the time, then trace it once."""
    steps, dt = int(s["steps"]), float(s["dt"])
    radius, height = float(s["radius"]), float(s["plate_height"])
    lead, weight = steps // 5, float(s["weight"]) * dt
    goals = [
        spot_target(height, target, time=(lead + k) * dt, weight=weight)
        for k, target in enumerate(circle_targets(steps, radius))
    ]
    start = np.full(4, float(s["start_tension"]))
    circle = paths.circle(centre=(0.0, 0.0), radius=radius, period=1.0)
    around = np.array([circle(t) for t in np.linspace(0.0, 1.0, 73)])
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


def circle_errors(spots: Array, task: LaserTask, radius: float) -> dict[str, Metric]:
    """Return the largest errors of beam spots (steps + 1, 2) [m] from their targets after the
    approach: of the radius, of the angle, and of the position at its time."""
    lead = task.steps // 5
    on_circle, targets = spots[lead:], circle_targets(task.steps, radius)
    # the angle from the target to the spot, positive counterclockwise
    across = targets[:, 0] * on_circle[:, 1] - targets[:, 1] * on_circle[:, 0]
    angles = np.arctan2(across, np.sum(targets * on_circle, axis=1))
    radial = np.abs(np.linalg.norm(on_circle, axis=1) - radius)
    distance = np.linalg.norm(on_circle - targets, axis=1)
    return {
        "radial error": Metric(value=float(radial.max()) / radius, unit="of the radius"),
        "angle error": Metric(value=float(np.rad2deg(np.abs(angles).max())), unit="degrees"),
        "timed path error": Metric(value=float(distance.max()) / radius, unit="of the radius"),
    }


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    radius, max_error = float(run.settings["radius"]), float(run.settings["max_error"])
    errors = {
        name: circle_errors(spots, planned.task, radius)
        for name, spots in (("replay", planned.replayed_spots), ("plan", planned.spots))
    }
    metrics = {
        f"largest {what} of the {name}": metric
        for name, metrics in errors.items()
        for what, metric in metrics.items()
    }
    found = float(errors["replay"]["timed path error"].value)
    reached = found <= max_error
    message = (
        "done"
        if reached
        else (
            f"the spot of the replay is up to {found:.1%} of the radius away from where it should "
            f"be at that time, above {max_error:.1%}. Use a longer time step "
            f"(--set dt={2.0 * planned.task.dt:g}), or a larger weight."
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
