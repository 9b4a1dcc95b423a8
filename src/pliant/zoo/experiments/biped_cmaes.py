"""biped-cmaes: simulations that Adam and CMA-ES need until the biped of biped-cable walks the same
distance, with many and with few variables."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, Dynamics, InputError
from pliant.learning import ClosedLoop, SineGait
from pliant.mpm import MaterialPoint
from pliant.optimisation import CMAES, Adam, OptimisationResult, ProblemObjective
from pliant.problem import Problem, Reward, Variable
from pliant.report import Plot
from pliant.report.page import PageTable
from pliant.report.particle_scene import particle_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.experiments.biped_cable import BODY_LENGTH, guess, probe, walker
from pliant.zoo.optimised_tasks import optimise_in
from pliant.zoo.robots.biped_robot import MIN_CABLE_LENGTH

SWING = 0.5 * (1.0 - MIN_CABLE_LENGTH)  # largest amplitude of a cable's length
FREQUENCIES = 1.0, 5.0  # [Hz] bounds of the sines
METHODS = ("Adam", "CMA-ES")


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """The optimisations of one choice of variables, by method, one for each seed."""

    name: str
    size: int  # number of variables
    results: Mapping[str, list[OptimisationResult]]
    start: float  # [m] first position of the body

    def distances(self, result: OptimisationResult) -> Array:
        """Return the longest distance (k,) [body lengths] so far at each row of the history."""
        values = np.array([row.value for row in result.history])
        return np.maximum.accumulate((-values - self.start) / BODY_LENGTH)

    def counts(self, method: str, distance: float) -> Array:
        """Return the numbers of simulations and the times [s] (2, n_seeds) to a distance, infinite
        where it is not reached."""
        out = np.full((2, len(self.results[method])), np.inf)
        for k, result in enumerate(self.results[method]):
            far = np.flatnonzero(self.distances(result) >= distance)
            if far.size:
                row = result.history[far[0]]
                out[:, k] = row.simulations, row.seconds
        return out

    def longest(self, method: str) -> Array:
        """Return the longest distances (n_seeds,) [body lengths]."""
        return np.array([self.distances(one)[-1] for one in self.results[method]])

    def budget(self, method: str) -> float:
        """Return the median number of simulations of a whole optimisation."""
        return float(np.median([one.history[-1].simulations for one in self.results[method]]))


def reward(model: Dynamics, steps: int, variables: list[Variable]) -> ProblemObjective:
    """Return minus the mean forward position of the body at the end."""
    forward = Reward(
        effector="body",
        quantity="position",
        direction=(1.0, 0.0),
        time=steps * float(model.dt),
    )
    problem = Problem(model=model, steps=steps, terms=[forward], variables=variables)
    return ProblemObjective(problem, checkpoints="all")


def controls_objective(model: MaterialPoint, steps: int, seed: int) -> ProblemObjective:
    """Return the objective with the cable lengths of every step as variables. They start with the
    guess of biped-cable."""
    start = guess(steps, np.random.default_rng(seed))
    return reward(model, steps, [Variable("controls", start=start)])


def sine_objective(model: MaterialPoint, steps: int, seed: int) -> ProblemObjective:
    """Return the objective with the amplitude, frequency, phase and mean of a sine for each cable
    as variables. The phases start at random."""
    n, rng = model.n_controls, np.random.default_rng(seed)
    phases = rng.uniform(-np.pi, np.pi, n)
    gait = SineGait(
        n_controls=n, amplitude=0.5 * SWING, frequency=2.0, phase=phases, offset=1.0 - SWING
    )
    bounds = {
        "amplitude": (0.0, SWING),
        "frequency": FREQUENCIES,
        "phase": (-2.0 * np.pi, 2.0 * np.pi),
        "offset": (MIN_CABLE_LENGTH, 1.0),
    }
    variables = [
        Variable(f"controller.{name}", lower=low, upper=high)
        for name, (low, high) in bounds.items()
    ]
    return reward(ClosedLoop(model, None, gait), steps, variables)


def search(
    run: ExperimentRun, name: str, objectives: list[ProblemObjective], start: float
) -> Search:
    """Return the optimisations of objectives, one for each seed, by both methods."""
    s, results = run.settings, {method: [] for method in METHODS}  # type: ignore[var-annotated]
    size = len(objectives[0].start)
    population = 4 + int(3.0 * np.log(size))  # the default of CMA-ES
    for k, objective in enumerate(objectives):
        folder = f"{name.replace(' ', '-')}-{run.seed + k}"
        adam = Adam(rate=float(s["rate"]))
        generations = max(1, int(s["simulations"]) // population)
        for method, chosen, count in (
            ("Adam", adam, int(s["iterations"])),
            ("CMA-ES", CMAES(population=population), generations),
        ):
            found = optimise_in(
                run,
                f"{folder}-{method.lower()}",
                objective,
                chosen,
                iterations=count,
                seed=run.seed + k,
            )
            results[method].append(found)
    return Search(name=name, size=size, results=results, start=start)


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, steps, distance = walker(s), int(s["steps"]), float(s["distance"])
    seeds = range(run.seed, run.seed + int(s["seeds"]))
    start = float(model.effector("body", model.initial_state())[0, 0])
    searches = [
        search(run, name, [make(seed) for seed in seeds], start)
        for name, make in {
            "every step": lambda seed: controls_objective(model, steps, seed),
            "sines": lambda seed: sine_objective(model, steps, seed),
        }.items()
    ]
    best = max(searches[0].results["Adam"], key=lambda one: -one.value)
    path = run.simulate(model, best.values["controls"], count=steps, dt=model.dt)
    ratio, bounded = fewest_ratio(searches, distance)
    least = float(s["least_ratio"])
    text = f"{'at least ' if bounded else ''}{ratio:.1f} times fewer"
    return Outcome(
        metrics={
            "simulations of CMA-ES over those of Adam, with the variables that suit each best": (
                Metric(value=ratio)
            ),
            **{name: m for one in searches for name, m in metrics(one, distance).items()},
            "particles": Metric(value=model.body.n_particles),
            "simulated time": Metric(value=steps * model.dt, unit="s"),
        },
        tables=[table(searches, distance)],
        plots=[plot(one, distance) for one in searches],
        scene=particle_scene(
            model, path.path, controls=path.controls, title="biped-cmaes", ground=0.0
        ),
        reached=ratio >= least,
        message="done"
        if ratio >= least
        else f"Adam needs {text} simulations than CMA-ES to {distance:g} body lengths, and not "
        f"{least:g} times.",
        notes=[f"Adam needs {text} simulations than CMA-ES to {distance:g} body lengths."],
    )


def fewest_ratio(searches: list[Search], distance: float) -> tuple[float, bool]:
    """Return the ratio of the median simulations to a distance, CMA-ES over Adam, each with the
    variables with which it needs fewest; and whether it is a lower bound, because CMA-ES does not
    get there."""
    adam, cmaes = (
        min(float(np.median(one.counts(method, distance)[0])) for one in searches)
        for method in METHODS
    )
    bounded = not np.isfinite(cmaes)
    if not np.isfinite(adam):
        return 0.0, False
    return (max(one.budget("CMA-ES") for one in searches) if bounded else cmaes) / adam, bounded


def metrics(one: Search, distance: float) -> dict[str, Metric]:
    """Return the median simulations and times to a distance, and the longest distances."""
    out = {}
    for method in METHODS:
        simulations, seconds = np.median(one.counts(method, distance), axis=1)
        label = f"{one.name}, {method}"
        if np.isfinite(simulations):
            out[f"simulations to {distance:g} body lengths, {label}"] = Metric(value=simulations)
            out[f"time to it, {label}"] = Metric(value=seconds, unit="s")
        out[f"median distance, {label}"] = Metric(
            value=float(np.median(one.longest(method))), unit="body lengths"
        )
    return out


def table(searches: list[Search], distance: float) -> PageTable:
    rows = []
    for one in searches:
        for method in METHODS:
            counts, _ = one.counts(method, distance)
            shown = ", ".join(f"{c:.0f}" if np.isfinite(c) else "-" for c in counts)
            far = ", ".join(f"{value:.2f}" for value in one.longest(method))
            rows.append((one.name, one.size, method, shown, f"{one.budget(method):.0f}", far))
    return PageTable(
        title=f"Simulations to {distance:g} body lengths, one number for each seed",
        columns=("variables", "size", "method", "simulations", "of", "longest distances"),
        rows=tuple(rows),
    )


def plot(one: Search, distance: float) -> Plot:
    return Plot(
        title=f"Distance, {one.name} ({one.size} variables)",
        x="simulations (a gradient counts as two)",
        y="longest distance [body lengths]",
        log_x=True,
        series={
            f"{method}, seed {k}": (
                np.array([row.simulations for row in result.history]),
                one.distances(result),
            )
            for method in METHODS
            for k, result in enumerate(one.results[method])
        },
        references={f"{distance:g}": distance},
    )


def check_settings(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for a distance that is not positive."""
    if not float(settings["distance"]) > 0.0:
        raise InputError(
            f"The setting distance is {settings['distance']}; give a positive number of body "
            "lengths."
        )


EXPERIMENT = Experiment(
    name="biped-cmaes",
    shows="simulations that the gradient and CMA-ES need until a biped walks the same distance",
    size="1,256 particles, 200 and 16 variables",
    takes="6 min",
    perform=perform,
    probe=probe,
    check_settings=check_settings,
    settings={
        "steps": 50,
        "dt": 0.02,
        "coarsening": 2.0,
        "iterations": 20,
        "simulations": 500,  # of CMA-ES
        "rate": 0.1,
        "seeds": 3,
        "distance": 0.5,  # [body lengths]
        "least_ratio": 10.0,  # of the simulations of CMA-ES over those of the gradient
        "small_animation": False,
    },
    quick={
        "steps": 20,
        "iterations": 4,
        "simulations": 30,
        "seeds": 1,
        "distance": 0.02,
        "least_ratio": 1.0,  # so few steps are not judged by the aim
        "small_animation": True,
    },
)
