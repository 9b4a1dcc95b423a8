"""finger-identify: the material of a soft finger from noisy motion capture
[Spielberg2021, section 5.1, Fig. 5].

The stiffness of the cables and gravity are known; without a known force only the ratio of E and
density would be determined.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pliant.design import Fit
from pliant.design.staged_fit import FIRST_FIT
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import Adam, CosineRate, OptimisationMethod, OptimisationResult
from pliant.problem import Variable
from pliant.report import Plot
from pliant.report.fit_report import value_plots
from pliant.report.particle_scene import particle_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.finger_fit_report import figure_5, metrics, tip_plot
from pliant.zoo.finger_recordings import START, TRUTH, finger_model, recordings, sequences
from pliant.zoo.fit_tasks import best_errors, fit_in, simulation_counts

VARIABLES = [
    Variable("body.E", lower=0.4 * START["E"], upper=2.5 * START["E"]),
    Variable("body.density", lower=0.4 * START["density"], upper=2.5 * START["density"]),
    # Larger values of nu need more substeps. E and nu have almost the same effect; with this scale
    # a step of Adam, which has one size for all variables, changes both in that ratio.
    Variable("body.nu", lower=0.05, upper=0.45, scale=1.0),
]

ALL_AT_ONCE = "Gauss-Newton, all at once"


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, measured, epochs = finger_model(START, s), recordings(s, run.seed), int(s["epochs"])
    sgd = Adam(rate=float(s["rate"]), batch_size=1, schedule=CosineRate(iterations=epochs))
    first = int(s["fit_first"]) if int(s["fit_first"]) < len(measured) else None
    generations = int(s["generations"])

    def fit(name: str, method: str | OptimisationMethod, **options: Any) -> Fit:
        return fit_in(run, name, model, measured, VARIABLES, method, **options)

    fits = {
        "Gauss-Newton": fit("gauss-newton", "gauss_newton", fit_first=first),
        ALL_AT_ONCE: fit("gauss-newton-all-at-once", "gauss_newton", intervals=False),
        "SGD": fit("sgd", sgd, iterations=epochs, intervals=False, seed=run.seed),
        "CMA-ES": fit("cmaes", "cmaes", iterations=generations, intervals=False, seed=run.seed),
    }
    best = fits["Gauss-Newton"]
    errors = {name: float(best_errors(fit, TRUTH)[-1]) for name, fit in fits.items()}
    u = sequences(s)[0]
    path = run.simulate(model_of(best, s), u, count=len(u), dt=model.dt)
    reached = errors["Gauss-Newton"] < 0.02 and errors["SGD"] < float(s["sgd_error"])
    return Outcome(
        metrics={
            **metrics(fits, errors, measured, model),
            **({} if first is None else first_fit_metrics(run)),
            "Gauss-Newton iterations, all at once": Metric(
                value=fits[ALL_AT_ONCE].status.iterations
            ),
        },
        plots=[
            figure_5(fits["SGD"], measured),
            *value_plots(best),
            Plot(
                title="Error over simulations",
                x="simulations",
                y="largest relative error of E, mass and nu",
                log_x=True,
                log_y=True,
                kind="both",
                series={
                    name: (simulation_counts(fit), best_errors(fit, TRUTH))
                    for name, fit in fits.items()
                },
                references={"2 %": 0.02},
            ),
            tip_plot(measured[0], best),
        ],
        scene=particle_scene(
            model, path.path, controls=path.controls, title="finger-identify", colour="strain"
        ),
        reached=reached,
        message="done"
        if reached
        else f"the largest errors are {errors['Gauss-Newton']:.2%} by Gauss-Newton and "
        f"{errors['SGD']:.2%} by SGD. Allow more epochs, or another rate.",
        notes=(best.summary(), *best.undetermined, *best.notes),
    )


def first_fit_metrics(run: ExperimentRun) -> dict[str, Metric]:
    """Return the cost of the fit to some trajectories, from which that to all starts."""
    found = OptimisationResult.load(run.folder / "gauss-newton" / FIRST_FIT)
    return {
        "Gauss-Newton iterations of the first fit": Metric(value=found.status.iterations),
        "simulations of the first fit": Metric(value=found.history[-1].simulations),
    }


def model_of(fit: Fit, settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the finger with the values of a fit."""
    values = {name.removeprefix("body."): float(value) for name, value in fit.values.items()}
    return finger_model(values, settings)


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the finger while it is pulled to the left, with a slack right cable."""
    model = finger_model(START, settings)
    u = np.array([0.85, 1.2])
    return model, simulate(model, np.tile(u, (20, 1)), progress=False).states[-1], u


EXPERIMENT = Experiment(
    name="finger-identify",
    paper="004",
    shows="E, mass and Poisson's ratio of a soft finger from noisy motion capture, by SGD, "
    "Gauss-Newton and CMA-ES",
    size="180 particles, 10 trajectories, 100 markers",
    takes="15 min",
    perform=perform,
    probe=probe,
    settings={
        "trajectories": 10,
        "keyframes": 200,
        "copies": 10,
        "noise": 1e-3,
        "dt": 0.005,
        "cell": 0.02,
        "substeps": 6,
        "fit_first": 1,
        "epochs": 50,
        "rate": 0.05,
        "generations": 25,
        "sgd_error": 0.02,
        "small_animation": False,
    },
    quick={
        "trajectories": 2,
        "keyframes": 30,
        "noise": 1e-4,
        "cell": 0.03,
        "substeps": 4,
        "epochs": 2,
        "generations": 2,
        "sgd_error": 1.0,  # so few steps are not judged
        "small_animation": True,
    },
)
