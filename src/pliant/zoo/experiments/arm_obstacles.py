"""arm-obstacles: a laser spot moves across a plate around two clamps [Jia2019, Fig. 4(b)]."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import Constraint, Effort, Interval
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import (
    BEAM_EFFECTORS,
    LaserTask,
    beam_spot,
    check,
    outcome,
    plan_laser,
    spot_target,
)
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.robots import line_arm

GOAL = np.array([0.09, 0.0])  # [m] on the plate; the spot starts near the origin
CLAMPS = ((0.03, 0.012, 0.016), (0.065, -0.012, 0.016))  # x, y and radius [m] on the plate


def task(s: Mapping[str, Setting]) -> LaserTask:
    """Return the task: move the beam spot to the goal without crossing a clamp."""
    steps, dt, height = int(s["steps"]), float(s["dt"]), float(s["plate_height"])
    spot, start = beam_spot(height), np.full(4, float(s["start_tension"]))
    centres, radii = (
        np.array([clamp[:2] for clamp in CLAMPS]),
        np.array([clamp[2] for clamp in CLAMPS]),
    )

    def scaled_distance(y: np.ndarray) -> np.ndarray:
        """Return (n_clamps,) squared distances over squared radii; at least 1 outside a clamp."""
        return ((spot(y) - centres) ** 2).sum(axis=1) / radii**2

    goals = [
        spot_target(height, GOAL, time=k * dt, weight=1e3 * dt)
        for k in range(steps - steps // 10, steps + 1)
    ]
    angle = np.linspace(0.0, 2.0 * np.pi, 41)
    outlines = [
        np.column_stack([x + r * np.cos(angle), y + r * np.sin(angle), np.full(41, height)])
        for x, y, r in CLAMPS
    ]
    return LaserTask(
        robot=line_arm(layers=int(s["layers"]), across=int(s["across"])),
        plate_height=height,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        target_curve=np.array([[*GOAL, height]]),
        obstacles=outlines,
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-2, order=1)],
        constraints=[
            Constraint(
                effector=BEAM_EFFECTORS, function=scaled_distance, inside=Interval(lower=1.0)
            )
        ],
    )


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    clearance = {
        name: min(
            float((np.linalg.norm(spots - clamp[:2], axis=1) - clamp[2]).min())
            for clamp in np.array(CLAMPS)
        )
        for name, spots in (("planned", planned.spots), ("replayed", planned.replayed_spots))
    }
    goal_error = float(np.linalg.norm(planned.replayed_spots[-1] - GOAL))
    max_overlap = float(run.settings["max_overlap"])
    reached = clearance["replayed"] >= -max_overlap and goal_error <= 0.005
    metrics = {
        "clamp clearance of the replay": Metric(value=clearance["replayed"], unit="m"),
        "clamp clearance of the plan": Metric(value=clearance["planned"], unit="m"),
        "goal error of the replay": Metric(value=goal_error, unit="m"),
    }
    message = (
        "done"
        if reached
        else (
            f"the clamp clearance of the replay is {clearance['replayed']:.2e} m (negative: "
            f"overlap), its goal error {goal_error:.2e} m. Use a longer time step (--set "
            f"dt={2.0 * planned.task.dt:g})."
        )
    )
    return outcome(
        planned,
        title="arm-obstacles: the beam spot avoids two clamps",
        metrics=metrics,
        reached=reached,
        message=message,
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
    uses_cluster=True,
    check_settings=lambda settings: check(task(settings)),
    settings={
        "plate_height": 0.5,
        "start_tension": 2.0,
        "cell": 6.0,
        "eta": 2.4,
        "steps": 100,
        "dt": 0.05,
        "max_overlap": 1e-3,
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
        "max_overlap": 3e-3,
        "small_animation": True,
    },
)
