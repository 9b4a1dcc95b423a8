"""arm-lengthen: an arm becomes longer to reach a target that it cannot stretch to
[Spielberg2021, section 5.3.1]."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pliant.core import Array, InputError, quoted
from pliant.design import ParametrisedRobot, ShapeModel, Stretch
from pliant.dynamics import ImplicitEuler, simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import Adam, OptimisationResult, ProblemObjective
from pliant.problem import Goal, Problem, Scene, Variable
from pliant.report import Plot
from pliant.report.particle_scene import particle_scene
from pliant.report.robot_scene import robot_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.optimised_tasks import convergence, goal_distances, optimise_in, simulations_to
from pliant.zoo.robots.chamber_arm_robot import LENGTH, chamber_arm

ARM_LENGTH, SHORTEST, LONGEST = 0.3, 0.2, 0.6  # [m]
E, PRESSURE, DAMPING = 1e5, 2e4, 10.0  # [Pa], [Pa], [1/s]
BELOW = (0.0, -0.42)  # [m] the target of the length alone
ASIDE = (0.05, -0.4)  # [m] the target of length and pressures
ERROR = 1e-3  # [m] as in the paper
KNOTS = 4  # of the pressures, in time


def arm(cells: int) -> ParametrisedRobot:
    """Return the planar arm that hangs from the ceiling, as a function of its length."""
    make = chamber_arm(
        length=ARM_LENGTH, E=E, pressure=PRESSURE, damping=DAMPING, plane=True, cells=cells
    )
    length = Stretch(axis="-y", value=ARM_LENGTH, lower=SHORTEST, upper=LONGEST)
    return ParametrisedRobot(make=make, parameters={"length": length})


def arm_model(settings: Mapping[str, Setting]) -> ShapeModel:
    """Return the model of the arm, of particles or of finite elements."""
    dt, coarsening = float(settings["dt"]), float(settings["coarsening"])
    if settings["model"] == "mpm":
        cell = 2.0 * ARM_LENGTH / LENGTH * coarsening
        return arm(cells=1).model(MaterialPoint, dt=dt, cell=cell)
    return arm(cells=2).model(ImplicitEuler, dt=dt)


def check_settings(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for another model."""
    if settings["model"] not in ("mpm", "fem"):
        raise InputError(
            f"There is no model {quoted(settings['model'])} of the arm; choose mpm or fem."
        )


def objective(
    model: ShapeModel, steps: int, target: tuple[float, float], variables: list[str | Variable]
) -> ProblemObjective:
    """Return half the squared distance of the tip at the last step. Without controls among the
    variables, all pressures are zero."""
    driven = any(getattr(one, "name", one) == "controls" for one in variables)
    controls = None if driven else np.zeros((steps, model.n_controls))
    goal = Goal(effector="tip", target=target, time=steps * model.dt)
    scene = Scene(steps, controls=controls)
    problem = Problem(model=model, terms=[goal], scenes=[scene], variables=variables)
    return ProblemObjective(problem, checkpoints="all")


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, steps = arm_model(s), int(s["steps"])
    seeds, pressure_seeds = int(s["seeds"]), int(s["pressure_seeds"])
    pressures = Variable("controls", knots=KNOTS)
    both: list[str | Variable] = ["shape.length", pressures]
    fixed = optimise_in(
        run,
        "fixed-length",
        objective(model, steps, BELOW, [pressures]),
        "lbfgsb",
        iterations=int(s["iterations"]),
    )
    one = compared(run, "length", objective(model, steps, BELOW, ["shape.length"]), seeds)
    many = compared(
        run, "length-and-pressures", objective(model, steps, ASIDE, both), pressure_seeds
    )
    adam = one["Adam"][0]
    reached = goal_distances(adam) < ERROR
    length = float(adam.values["shape.length"][0])
    p = np.array([length])
    path = run.simulate(
        model.at(p), np.zeros((steps, model.n_controls)), count=steps, dt=model.dt
    ).path
    return Outcome(
        metrics={
            "distance to the target": Metric(
                value=float(goal_distances(adam).min()), unit="m", paper="< 0.001"
            ),
            **(
                {"Adam steps to 1 mm": Metric(value=int(np.argmax(reached)), paper="< 100")}
                if reached.any()
                else {}
            ),
            "length": Metric(value=length, unit="m"),
            "smallest distance at the first length": Metric(
                value=float(goal_distances(fixed).min()), unit="m"
            ),
            **counts("length", one),
            **counts("length and pressures", many),
        },
        plots=[
            Plot(
                title="Distance to the target",
                x="iteration",
                y="distance [m]",
                log_y=True,
                series={
                    "length, Adam": iterations(adam),
                    "pressures at the first length, L-BFGS-B": iterations(fixed),
                },
                references={"1 mm": ERROR},
            ),
            *(
                Plot(
                    title=f"Simulations, {title}",
                    x="simulations",
                    y="smallest distance so far [m]",
                    log_x=True,
                    log_y=True,
                    series={name: convergence(results) for name, results in found.items()},
                    references={"1 mm": ERROR},
                )
                for title, found in (("length alone", one), ("length and pressures", many))
            ),
        ],
        scene=scene(model, p, path),
        reached=bool(reached.any()),
        message="done"
        if reached.any()
        else f"the tip stays {goal_distances(adam).min():.3g} m from the target after "
        f"{len(adam.history) - 1} steps. Allow more iterations, or another rate.",
    )


def compared(
    run: ExperimentRun, name: str, task: ProblemObjective, seeds: int
) -> dict[str, list[OptimisationResult]]:
    """Return the optimisations of a task by several methods, those by CMA-ES for several seeds."""
    n, m = int(run.settings["iterations"]), int(run.settings["generations"])
    rate = float(run.settings["rate"])
    return {
        "Adam": [optimise_in(run, f"{name}-adam", task, Adam(rate=rate), iterations=n)],
        "Gauss-Newton": [
            optimise_in(run, f"{name}-gauss-newton", task, "gauss_newton", iterations=n)
        ],
        "L-BFGS-B": [optimise_in(run, f"{name}-lbfgsb", task, "lbfgsb", iterations=n)],
        "CMA-ES": [
            optimise_in(run, f"{name}-cmaes-{k}", task, "cmaes", iterations=m, seed=run.seed + k)
            for k in range(seeds)
        ],
    }


def counts(title: str, found: Mapping[str, list[OptimisationResult]]) -> dict[str, Metric]:
    """Return the simulations of each method to 1 mm, the median over its seeds; the distance of a
    method that does not come so close."""
    out = {}
    for name, results in found.items():
        count = float(np.median([simulations_to(one, ERROR) for one in results]))
        closest = float(np.median([goal_distances(one).min() for one in results]))
        if np.isfinite(count):
            out[f"simulations to 1 mm, {title}, {name}"] = Metric(value=count)
        else:
            out[f"smallest distance, {title}, {name}"] = Metric(value=closest, unit="m")
    return out


def iterations(result: OptimisationResult) -> tuple[Array, Array]:
    """Return the curve of the distance [m] over the iterations."""
    return np.arange(len(result.history)), goal_distances(result)


def scene(model: ShapeModel, p: Array, path: Array) -> Any:
    """Return the scene of the longer arm."""
    drawn: Any = model.at(p)
    title, targets = "arm-lengthen", np.array([BELOW])
    if isinstance(drawn, MaterialPoint):
        return particle_scene(drawn, path, title=title, targets=targets, colour="strain")
    positions = path[:, : model.space.n_dofs]
    return robot_scene(drawn.robot, positions, dt=model.dt, title=title, targets=targets)


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse arm of particles that swings."""
    model = arm_model({**settings, "coarsening": 2.0, "dt": 0.01})
    u = np.linspace(0.0, 0.5 * PRESSURE, model.n_controls)
    return model, simulate(model, np.tile(u, (5, 1))).states[-1], u


EXPERIMENT = Experiment(
    name="arm-lengthen",
    paper="004",
    shows="a hanging arm finds the length at which it reaches a target that it cannot stretch to",
    size="240 particles, 1 variable",
    takes="12 min",
    perform=perform,
    probe=probe,
    check_settings=check_settings,
    settings={
        "model": "mpm",
        "coarsening": 2.0,
        "dt": 0.02,
        "steps": 30,
        "iterations": 100,
        "rate": 0.05,
        "generations": 50,
        "seeds": 20,  # of CMA-ES for the length alone
        "pressure_seeds": 3,  # of CMA-ES for length and pressures
        "small_animation": False,
    },
    quick={
        "steps": 15,
        "iterations": 30,
        "generations": 5,
        "seeds": 1,
        "pressure_seeds": 1,
        "small_animation": True,
    },
)
