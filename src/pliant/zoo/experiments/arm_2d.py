"""arm-2d: a planar soft arm with two cables sweeps a laser beam [Jia2019, Fig. 1]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.problem import Effort
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import LaserTask, aim, check, outcome, plan_laser
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.robots import plane_arm


def beam_targets(steps: int, reach: float) -> Array:
    """Return the target positions of the beam on the plate, (steps + 1,) [m]: one sine period."""
    return reach * np.sin(2.0 * np.pi * np.arange(steps + 1) / steps)


def task(s: Mapping[str, Setting]) -> LaserTask:
    steps, dt, plate, reach = int(s["steps"]), float(s["dt"]), float(s["plate"]), float(s["reach"])
    start = np.full(2, float(s["tension"]))
    goals = [
        aim(plate, at[None], time=k * dt, weight=1e4 * dt)
        for k, at in enumerate(beam_targets(steps, reach))
        if k
    ]
    ends = np.array([[-reach, plate], [reach, plate]])
    return LaserTask(
        robot=plane_arm(layers=int(s["layers"]), across=int(s["across"])),
        plate=plate,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        wanted=ends,
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-3, order=1)],
    )


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    t, reach = planned.task, float(run.settings["reach"])
    off = float(np.abs(planned.replayed[:, 0] - beam_targets(t.steps, reach)).max())
    reached = off <= float(run.settings["wanted"]) * reach
    sentence = (
        "done"
        if reached
        else f"the replayed beam is {off:.2e} m from its path; use a longer time step (--set "
        f"dt={2.0 * planned.task.dt:g})."
    )
    return outcome(
        planned,
        title="arm-2d: two cables sweep the beam",
        metrics={"path error on replay": Metric(value=off, unit="m")},
        reached=reached,
        message=sentence,
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
    clustered=True,
    prepare=lambda settings: check(task(settings)),
    settings={
        "plate": 0.5,
        "reach": 0.08,
        "tension": 3.0,
        "cell": 6.0,
        "eta": 2.4,
        "steps": 100,
        "dt": 0.05,
        "wanted": 0.03,
        "layers": 40,
        "across": 8,
        "small_animation": False,
    },
    quick={
        "layers": 12,
        "across": 3,
        "steps": 30,
        "dt": 0.15,
        "wanted": 0.1,
        "small_animation": True,
    },
)
