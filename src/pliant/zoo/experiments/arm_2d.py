"""arm-2d: a planar soft arm with two cables sweeps a laser beam [Jia2019, Fig. 1]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.problem import Effort
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import LaserTask, check, plan_laser, spot_target
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.laser_report import outcome
from pliant.zoo.robots import plane_arm


def spot_targets(steps: int, amplitude: float) -> Array:
    """Return the target positions (steps + 1,) [m] of the beam spot: one sine period."""
    return amplitude * np.sin(2.0 * np.pi * np.arange(steps + 1) / steps)


def task(s: Mapping[str, Setting]) -> LaserTask:
    """Return the task: sweep the beam spot along x for one period."""
    steps, dt = int(s["steps"]), float(s["dt"])
    height, amplitude = float(s["plate_height"]), float(s["amplitude"])
    start = np.full(2, float(s["start_tension"]))
    goals = [
        spot_target(height, target[None], time=k * dt, weight=1e4 * dt)
        for k, target in enumerate(spot_targets(steps, amplitude))
        if k
    ]
    ends = np.array([[-amplitude, height], [amplitude, height]])
    return LaserTask(
        robot=plane_arm(layers=int(s["layers"]), across=int(s["across"])),
        plate_height=height,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        target_curve=ends,
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-3, order=1)],
    )


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    amplitude = float(run.settings["amplitude"])
    targets = spot_targets(planned.task.steps, amplitude)
    error = float(np.abs(planned.replayed_spots[:, 0] - targets).max())
    reached = error <= float(run.settings["max_error"]) * amplitude
    message = (
        "done"
        if reached
        else f"the path error of the replay is {error:.2e} m. Use a longer time step (--set "
        f"dt={2.0 * planned.task.dt:g})."
    )
    return outcome(
        planned,
        title="arm-2d: two cables sweep the beam",
        metrics={"largest path error of the replay": Metric(value=error, unit="m")},
        reached=reached,
        message=message,
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    return probe_latent(task(settings))


EXPERIMENT = Experiment(
    name="arm-2d",
    paper="000",
    shows="a planar arm with two cables sweeps its laser beam, planned on a surrogate of its "
    "equilibria",
    size="369 vertices, 2 cables, 100 steps",
    takes="20 s",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=lambda settings: check(task(settings)),
    settings={
        "plate_height": 0.5,
        "amplitude": 0.08,
        "start_tension": 3.0,
        "cell": 6.0,
        "eta": 2.4,
        "steps": 100,
        "dt": 0.05,
        "max_error": 0.03,
        "layers": 40,
        "across": 8,
        "small_animation": False,
    },
    quick={
        "layers": 12,
        "across": 3,
        "steps": 30,
        "dt": 0.15,
        "max_error": 0.1,
        "small_animation": True,
    },
)
