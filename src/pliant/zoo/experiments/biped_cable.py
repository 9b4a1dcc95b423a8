"""biped-cable: a soft biped learns to walk by gradients through contact
[Spielberg2021, section 5.2, Fig. 6]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array, InputError
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.problem import Effort, Problem, Reward
from pliant.report import Plot
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.open_loop_walks import Walk, optimise_walks, walk_metrics, walk_note, walk_plots
from pliant.zoo.robots.biped_robot import LENGTH, MIN_CABLE_LENGTH, biped

BODY_LENGTH = 0.4  # [m]
HOLD_STEPS = 5  # steps for which a random control of the first guess is constant
# Particles along an edge of a cell. With two, random pulls tear the body (decision 0025); with four
# neighbours stay within about half a cell, and there are 6.5 cells across a leg.
PER_CELL = 4
HORIZON_DIVISORS = 4, 2, 1  # the first horizons are a quarter and a half of the simulated time
# [s] of the repeated piece of a gait: from the period of a fast leg to a whole first horizon
PERIODS = 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0
KEPT = 1.0, 0.9, 0.75  # shares of the controls that a longer horizon may begin with


def walker(settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the model of the biped. At full size it has as many particles as the paper's."""
    return MaterialPoint(
        biped(length=BODY_LENGTH),
        dt=float(settings["dt"]),
        cell=PER_CELL * BODY_LENGTH / LENGTH * float(settings["coarsening"]),
        per_cell=PER_CELL,
        memory=1e9,
    )


def horizons(settings: Mapping[str, Setting]) -> list[int]:
    """Return the steps of each horizon. Raises InputError for too few steps."""
    steps, shortest = int(settings["steps"]), round(min(PERIODS) / float(settings["dt"]))
    if steps // HORIZON_DIVISORS[0] < max(shortest, 1):
        raise InputError(
            f"The setting steps is {steps}, so the first horizon has "
            f"{steps // HORIZON_DIVISORS[0]} steps, which is shorter than the "
            f"shortest period of a gait, {min(PERIODS):g} s. Give "
            f"{HORIZON_DIVISORS[0] * max(shortest, 1)} or more."
        )
    return [steps // part for part in HORIZON_DIVISORS]


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


def guess(steps: int, rng: np.random.Generator) -> Array:
    """Return random cable lengths (steps, 4), slightly shorter than at rest."""
    shortening = 0.1 * np.abs(rng.standard_normal((-(-steps // HOLD_STEPS), 4)))
    return np.clip(1.0 - np.repeat(shortening, HOLD_STEPS, axis=0)[:steps], MIN_CABLE_LENGTH, 1.0)


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, steps, least = walker(s), int(s["steps"]), float(s["min_distance"])
    walks = optimise_walks(
        run,
        lambda count: problem(model, count),
        horizons(s),
        guess,
        length=BODY_LENGTH,
        periods=[max(round(period / model.dt), 1) for period in PERIODS],
        kept=KEPT if s["early_continuations"] else (1.0,),
    )
    best = max(walks, key=lambda walk: walk.distance)
    path = run.save_trajectory(best.states, best.controls, dt=model.dt)
    if s["vtk"]:
        write_vtk(run.folder / "vtk", model, path.path)
    reached = min(walk.distance for walk in walks) >= least
    return Outcome(
        metrics={
            **walk_metrics(walks, least),
            "particles": Metric(value=model.body.n_particles, paper=5024),
            "controls": Metric(value=model.n_controls, paper=4),
            "simulated time": Metric(value=steps * model.dt, unit="s", paper=4.0),
            "substeps": Metric(value=steps * model.substeps),
        },
        plots=[*walk_plots(walks, "Fig. 6"), *motion_plots(model, best)],
        scene=particle_scene(
            model,
            path.path,
            controls=path.controls,
            title="biped-cable",
            ground=0.0,
            colour="strain",
        ),
        reached=reached,
        message="done"
        if reached
        else f"the shortest walking distance is {min(walk.distance for walk in walks):.2f} body "
        f"lengths, below {least:g}. Allow more iterations (--set last_iterations=...).",
        notes=[walk_note(walk) for walk in walks],
    )


def motion_plots(model: MaterialPoint, walk: Walk) -> list[Plot]:
    """Return the motion of the body and the lengths of the cables over time."""
    times = model.dt * np.arange(len(walk.states))
    x = walk.states[:, : model.space.n_dofs] @ model.effector_rows("body")[0].toarray().ravel()
    return [
        Plot(
            title="Motion of the body",
            x="time [s]",
            y="distance [m]",
            series={"body": (times, x - walk.start)},
        ),
        Plot(
            title="Cable lengths",
            x="time [s]",
            y="length / rest length",
            series={
                name: (times[1:], u)
                for name, u in zip(model.robot.actuators, walk.controls.T, strict=True)
            },
        ),
    ]


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse biped that stands with contracted cables."""
    model = walker({**settings, "coarsening": 2.0, "dt": 0.02})
    u = np.array([0.95, 0.8, 0.95, 0.8])
    return model, simulate(model, np.tile(u, (4, 1))).states[-1], u


EXPERIMENT = Experiment(
    name="biped-cable",
    paper="004",
    shows="a soft biped with four cables learns to walk by the gradient through its contacts",
    size="5,024 particles, 4 cables, 4,200 substeps",
    takes="5 min",
    perform=perform,
    probe=probe,
    check_settings=horizons,
    settings={
        "steps": 200,
        "dt": 0.02,
        "coarsening": 1.0,
        "iterations": 15,  # of each horizon but the last one
        "last_iterations": 30,
        # largest change of a cable's length in an iteration, over half its range
        "rate": 0.1,  # of the first horizon
        "later_rate": 0.05,  # of the later horizons, which start with a gait
        "early_continuations": True,  # whether a longer horizon may leave out the end of a shorter
        # random first controls of a seed, of which the better half continues after each horizon
        "starts": 4,
        "seeds": 3,
        "enough_distance": 2.5,  # [body lengths] at which a seed ends
        "min_distance": 2.0,  # [body lengths] of every seed
        "vtk": False,
        "small_animation": False,
    },
    quick={
        "steps": 60,
        "coarsening": 2.0,
        "iterations": 8,
        "last_iterations": 8,
        "starts": 2,
        "seeds": 2,
        "min_distance": 0.1,
        "small_animation": True,
    },
)
