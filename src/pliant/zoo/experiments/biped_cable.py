"""biped-cable: a soft biped learns to walk by gradients through contact
[Spielberg2021, section 5.2, Fig. 6]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.planners import Options, Plan, gradient
from pliant.problem import Effort, Problem, Reward
from pliant.report import Plot
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.robots.biped_robot import LENGTH, MIN_CABLE_LENGTH, biped

BODY_LENGTH = 0.4  # [m]
HOLD_STEPS = 5  # steps for which a random control of the first guess is constant
SUBSTEP = 0.02 / 30  # [s] at full size; a wave crosses two thirds of a cell


def walker(settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the model of the biped, with two particles along each edge of a cell."""
    coarsening, dt = float(settings["coarsening"]), float(settings["dt"])
    return MaterialPoint(
        biped(length=BODY_LENGTH),
        dt=dt,
        cell=2.0 * BODY_LENGTH / LENGTH * coarsening,
        substeps=int(np.ceil(dt / (coarsening * SUBSTEP))),
        memory=1e9,
    )


def problem(model: MaterialPoint, steps: int) -> Problem:
    """Return the problem: maximise the forward distance, with the paper's small control effort."""
    return Problem(
        model=model,
        steps=steps,
        terms=[
            Reward(
                effector="body", quantity="position", direction=(1.0, 0.0), time=steps * model.dt
            ),
            Effort(weight=1e-6, reference=np.ones(4)),
        ],
    )


def guess(steps: int, seed: int) -> Array:
    """Return random cable lengths (steps, 4), slightly shorter than at rest."""
    rng = np.random.default_rng(seed)
    shortening = 0.1 * np.abs(rng.standard_normal((-(-steps // HOLD_STEPS), 4)))
    return np.clip(1.0 - np.repeat(shortening, HOLD_STEPS, axis=0)[:steps], MIN_CABLE_LENGTH, 1.0)


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, steps, plans = walker(s), int(s["steps"]), []
    task = problem(model, steps)
    start = float((model.effector_rows("body") @ model.space.position(task.initial_state))[0])
    for k in range(int(s["seeds"])):
        options = Options(
            iterations=int(s["iterations"]),
            folder=run.folder / f"plan-{k}",
            resume=run.resume,
            progress=run.progress,
        )
        plans.append(
            gradient(
                task,
                guess=guess(steps, run.seed + k),
                optimiser="adam",
                rate=float(s["learning_rate"]),
                options=options,
                checkpoints="all",
            )
        )
        if plans[-1].interrupted:
            raise KeyboardInterrupt
    best = min(plans, key=lambda plan: plan.cost)
    path = run.simulate(model, best.controls, count=steps, dt=model.dt)
    if s["vtk"]:
        write_vtk(run.folder / "vtk", model, path.path)
    x = (
        np.array(
            [(model.effector_rows("body") @ model.space.position(row))[0] for row in path.path]
        )
        - start
    )
    distances = [_distances(plan, start)[-1] for plan in plans]
    min_distance = float(s["min_distance"])
    reached = x[-1] >= min_distance * BODY_LENGTH
    times = model.dt * np.arange(steps + 1)
    learning_curves = {
        f"seed {run.seed + k}": (
            np.array([row.seconds for row in plan.history]),
            _distances(plan, start) / BODY_LENGTH,
        )
        for k, plan in enumerate(plans)
    }
    return Outcome(
        metrics={
            "walking distance": Metric(
                value=float(x[-1] / BODY_LENGTH), unit="body lengths", paper="2 in 5 min"
            ),
            "mean walking distance over seeds": Metric(
                value=float(np.mean(distances) / BODY_LENGTH), unit="body lengths"
            ),
            "particles": Metric(value=model.body.n_particles, paper=5024),
            "controls": Metric(value=model.n_controls, paper=4),
            "simulated time": Metric(value=steps * model.dt, unit="s", paper=4.0),
            "substeps": Metric(value=steps * model.substeps),
            "iterations": Metric(value=max(len(plan.history) - 1 for plan in plans)),
            "time per iteration": Metric(
                value=best.history[-1].seconds / max(len(best.history) - 1, 1), unit="s"
            ),
            "replay cost equals plan cost": Metric(
                value=task.value(path.path, path.controls) == best.cost
            ),
        },
        plots=[
            Plot(
                title="Fig. 6: best distance",
                x="iteration",
                y="distance [body lengths]",
                kind="both",
                series={
                    name: (np.arange(len(walk)), walk)
                    for name, (_, walk) in learning_curves.items()
                },
            ),
            Plot(
                title="Fig. 6: best distance",
                x="time [s]",
                y="distance [body lengths]",
                kind="both",
                series=learning_curves,
            ),
            Plot(
                title="Motion of the body",
                x="time [s]",
                y="distance [m]",
                series={"body": (times, x)},
            ),
            Plot(
                title="Cable lengths",
                x="time [s]",
                y="length / rest length",
                series={
                    name: (times[1:], u)
                    for name, u in zip(model.robot.actuators, best.controls.T, strict=True)
                },
            ),
        ],
        scene=particle_scene(
            model,
            path.path,
            controls=path.controls,
            title="biped-cable",
            ground=0.0,
            colour="strain",
        ),
        reached=bool(reached),
        message="done"
        if reached
        else f"the walking distance is {x[-1] / BODY_LENGTH:.2f} body lengths, below "
        f"{min_distance:g}. "
        "Allow more iterations, or use another seed.",
    )


def _distances(plan: Plan, start: float) -> Array:
    """Return the longest distance so far (iterations + 1,) [m]. The effort in the cost is
    negligible."""
    return -np.minimum.accumulate([row.cost for row in plan.history]) - start


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse biped that stands with contracted cables."""
    model = walker({**settings, "coarsening": 4.0, "dt": 0.02})
    u = np.array([0.95, 0.9, 0.97, 0.92])
    return model, simulate(model, np.tile(u, (10, 1))).states[-1], u


EXPERIMENT = Experiment(
    name="biped-cable",
    paper="004",
    shows="a soft biped with four cables learns to walk by the gradient through its contacts",
    size="5,024 particles, 4 cables, 6,000 substeps",
    takes="30 min",
    perform=perform,
    probe=probe,
    settings={
        "steps": 200,
        "dt": 0.02,
        "coarsening": 1.0,
        "iterations": 60,
        "learning_rate": 0.07,
        "seeds": 3,
        "min_distance": 2.0,
        "vtk": False,
        "small_animation": False,
    },
    quick={
        "steps": 60,
        "coarsening": 2.0,
        "iterations": 8,
        "seeds": 2,
        "min_distance": 0.1,
        "small_animation": True,
    },
)
