"""arm-obstacles: a laser beam moves across a plate around two clamps [Jia2019, Fig. 4(b)]."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import Constraint, Effort, Interval
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import BEAM, LaserTask, aim, check, outcome, plan_laser, spot_on
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.robots import line_arm

GOAL = np.array([0.09, 0.0])  # [m] on the plate; the beam starts at the middle
CLAMPS = ((0.03, 0.012, 0.016), (0.065, -0.012, 0.016))  # x, y and radius [m] on the plate


def task(s: Mapping[str, Setting]) -> LaserTask:
    steps, dt, plate = int(s["steps"]), float(s["dt"]), float(s["plate"])
    spot, start = spot_on(plate), np.full(4, float(s["tension"]))
    centres, radii = (
        np.array([clamp[:2] for clamp in CLAMPS]),
        np.array([clamp[2] for clamp in CLAMPS]),
    )

    def scaled_distance(y: np.ndarray) -> np.ndarray:
        """Return (n_clamps,) squared distances over squared radii; at least 1 outside a clamp."""
        return ((spot(y) - centres) ** 2).sum(axis=1) / radii**2

    goals = [
        aim(plate, GOAL, time=k * dt, weight=1e3 * dt)
        for k in range(steps - steps // 10, steps + 1)
    ]
    angle = np.linspace(0.0, 2.0 * np.pi, 41)
    rings = [
        np.column_stack([x + r * np.cos(angle), y + r * np.sin(angle), np.full(41, plate)])
        for x, y, r in CLAMPS
    ]
    return LaserTask(
        robot=line_arm(layers=int(s["layers"]), across=int(s["across"])),
        plate=plate,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        wanted=np.array([[*GOAL, plate]]),
        obstacles=rings,
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-2, order=1)],
        constraints=[
            Constraint(effector=BEAM, function=scaled_distance, inside=Interval(lower=1.0))
        ],
    )


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    gaps = {
        name: min(
            float((np.linalg.norm(spots - clamp[:2], axis=1) - clamp[2]).min())
            for clamp in np.array(CLAMPS)
        )
        for name, spots in (("planned", planned.spots), ("replayed", planned.replayed))
    }
    miss = float(np.linalg.norm(planned.replayed[-1] - GOAL))
    slack = float(run.settings["slack"])
    reached = gaps["replayed"] >= -slack and miss <= 0.005
    metrics = {
        "clamp clearance on replay": Metric(value=gaps["replayed"], unit="m"),
        "clamp clearance of the plan": Metric(value=gaps["planned"], unit="m"),
        "goal error on replay": Metric(value=miss, unit="m"),
    }
    sentence = (
        "done"
        if reached
        else (
            f"the clearance of the replayed beam is {gaps['replayed']:.2e} m (negative: overlap), "
            f"its goal error {miss:.2e} m; use a longer time step (--set "
            f"dt={2.0 * planned.task.dt:g})."
        )
    )
    return outcome(
        planned,
        title="arm-obstacles: the beam avoids two clamps",
        metrics=metrics,
        reached=reached,
        message=sentence,
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    return probe_latent(task(settings))


EXPERIMENT = Experiment(
    name="arm-obstacles",
    paper="000",
    shows="a laser beam avoids two clamps on its way to a goal, planned on a surrogate of the "
    "equilibria",
    size="525 vertices, 4 cables, 100 steps",
    takes="1 min",
    perform=perform,
    probe=probe,
    clustered=True,
    prepare=lambda settings: check(task(settings)),
    settings={
        "plate": 0.5,
        "tension": 2.0,
        "cell": 6.0,
        "eta": 2.4,
        "steps": 100,
        "dt": 0.05,
        "slack": 1e-3,
        "layers": 20,
        "across": 4,
        "small_animation": False,
    },
    quick={
        "layers": 8,
        "across": 2,
        "steps": 24,
        "dt": 0.2,
        "eta": 3.0,
        "slack": 3e-3,
        "small_animation": True,
    },
)
