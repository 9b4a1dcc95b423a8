"""arm-obstacles: a laser spot moves across a plate; the beam avoids two clamps and the arm a ball
[Jia2019, Fig. 4(b)]."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from pliant.bodies import Solid
from pliant.core import Array
from pliant.problem import Constraint, Effort, Interval
from pliant.robot import Effector, Robot
from pliant.zoo.clearance import beam_clearance, surface_clearance
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.laser import (
    BEAM_EFFECTORS,
    LaserPlan,
    LaserTask,
    check,
    plan_laser,
    spot_target,
)
from pliant.zoo.laser import probe as probe_latent
from pliant.zoo.laser_report import outcome
from pliant.zoo.robots import line_arm
from pliant.zoo.robots.line_arms import WIDTH

GOAL = np.array([0.09, 0.0])  # [m] on the plate; the spot starts near the origin
CLAMPS = ((0.03, 0.012, 0.016), (0.065, -0.012, 0.016))  # x, y and radius [m] of balls on the plate
BALL = (0.055, 0.0, 0.135, 0.018)  # x, y, z and radius [m] of a ball beside the arm
SIDE_HEIGHTS = np.linspace(0.12, 0.16, 5)  # [m] of points on the side of the arm towards the ball
MAX_GOAL_ERROR = 0.005  # [m]


def arm(s: Mapping[str, Setting]) -> Robot:
    """Return the soft arm with effectors on its side, which the plan keeps outside the ball."""
    robot = line_arm(layers=int(s["layers"]), across=int(s["across"]))
    side = {
        f"side {k}": Effector(point=np.array([WIDTH / 2, 0.0, z]))
        for k, z in enumerate(SIDE_HEIGHTS)
    }
    return replace(robot, effectors={**robot.effectors, **side})


def all_spheres(plate_height: float) -> Array:
    """Return the obstacles (3, 4): centre and radius [m] of the clamps and of the ball."""
    return np.array([*((x, y, plate_height, r) for x, y, r in CLAMPS), BALL])


def scaled_beam_distances(y: Array, clamps: Array) -> Array:
    """Return the squared distances between the beam's line and spheres (k, 4), over their squared
    radii (k,). `y` (6,) [m] are lens and base."""
    lens, base = y[:3], y[3:]
    along, gaps = lens - base, clamps[:, :3] - base
    across = gaps - np.outer(gaps @ along, along) / (along @ along)
    return (across**2).sum(axis=1) / clamps[:, 3] ** 2


def task(s: Mapping[str, Setting]) -> LaserTask:
    """Return the task: move the beam spot to the goal without touching an obstacle."""
    steps, dt, height = int(s["steps"]), float(s["dt"]), float(s["plate_height"])
    start, spheres = np.full(4, float(s["start_tension"])), all_spheres(height)
    wide = spheres + np.array([0.0, 0.0, 0.0, float(s["margin"])])
    clamps, ball = wide[:-1], wide[-1]
    goals = [
        spot_target(height, GOAL, time=k * dt, weight=1e3 * dt)
        for k in range(steps - steps // 10, steps + 1)
    ]
    outside = Interval(lower=1.0)
    robot = arm(s)
    sides = tuple(name for name in robot.effectors if name.startswith("side"))
    return LaserTask(
        robot=robot,
        plate_height=height,
        steps=steps,
        dt=dt,
        start=start,
        cell=float(s["cell"]),
        eta=float(s["eta"]),
        target_curve=np.array([[*GOAL, height]]),
        spheres=spheres,
        terms=[*goals, Effort(weight=1e-3, reference=start), Effort(weight=1e-2, order=1)],
        constraints=[
            Constraint(
                effector=BEAM_EFFECTORS,
                function=lambda y: scaled_beam_distances(y, clamps),
                inside=outside,
            ),
            Constraint(
                effector=sides,
                function=lambda y: ((y.reshape(-1, 3) - ball[:3]) ** 2).sum(axis=1) / ball[3] ** 2,
                inside=outside,
            ),
        ],
    )


def clearances(planned: LaserPlan) -> dict[str, float]:
    """Return lower bounds [m] of the clearance of beam and arm over the whole motion. Those of the
    plan are less the largest distance between plan and replay."""
    spheres, body = planned.task.spheres, cast(Solid, planned.task.robot.body())
    triangles = body.mesh.boundary()[:, :3]
    shapes = planned.positions.reshape(len(planned.positions), -1, 3)
    plan_shapes = np.array([planned.model.positions(x) for x in planned.refined.plan.states])
    plan_shapes = plan_shapes.reshape(shapes.shape)
    beams, plan_beams = planned.beams(replayed=True), planned.beams(replayed=False)
    apart = lambda a, b: float(np.linalg.norm(a - b, axis=2).max())
    return {
        "beam clearance of the replay": beam_clearance(beams, spheres),
        "arm clearance of the replay": surface_clearance(shapes, triangles, spheres),
        "certified beam clearance of the plan": beam_clearance(plan_beams, spheres)
        - apart(beams, plan_beams),
        "certified arm clearance of the plan": surface_clearance(plan_shapes, triangles, spheres)
        - apart(shapes, plan_shapes),
    }


def perform(run: ExperimentRun) -> Outcome:
    planned = plan_laser(run, task(run.settings))
    found = clearances(planned)
    worst, least = min(found.items(), key=lambda item: item[1])
    goal_error = float(np.linalg.norm(planned.replayed_spots[-1] - GOAL))
    metrics = {name: Metric(value=value, unit="m") for name, value in found.items()}
    metrics["goal error of the replay"] = Metric(value=goal_error, unit="m")
    if least < 0.0:
        margin = float(run.settings["margin"]) - 2.0 * least
        message = (
            f"the {worst} is {least:.2e} m (negative: overlap). Use a larger margin (--set "
            f"margin={margin:.1g}) or a longer time step."
        )
    elif goal_error > MAX_GOAL_ERROR:
        message = (
            f"the goal error of the replay is {goal_error:.2e} m. Use a longer time step (--set "
            f"dt={2.0 * planned.task.dt:g})."
        )
    else:
        message = "done"
    return outcome(
        planned,
        title="arm-obstacles: the beam avoids two clamps, the arm a ball",
        metrics=metrics,
        reached=message == "done",
        message=message,
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    return probe_latent(task(settings))


EXPERIMENT = Experiment(
    name="arm-obstacles",
    paper="000",
    shows="a laser beam avoids two clamps and its arm a ball, planned on a surrogate of the "
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
        "margin": 1e-3,
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
        "margin": 3e-3,
        "small_animation": True,
    },
)
