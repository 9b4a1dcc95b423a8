"""finger-identify: the material of a soft finger from noisy motion capture
[Spielberg2021, section 5.1, Fig. 5].

The paper has no units. Here 5 kPa are its unit of Young's modulus, and 429 kg/m^3 its unit of
particle mass, so that all ratios are the paper's, and the true finger has E = 100 kPa and the
density 1000 kg/m^3. The stiffness of the cables and gravity are known; without a known force only
the ratio of E and density would be determined.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pliant.core import Array
from pliant.design import Fit, MarkerRecording, mean_recording
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import Adam, CosineRate
from pliant.problem import Variable
from pliant.report import Plot
from pliant.report.fit_report import value_plots
from pliant.report.particle_scene import particle_scene
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.fit_tasks import (
    FAR,
    best_errors,
    fit_in,
    largest_errors,
    simulation_counts,
    simulations_to_minimum,
    simulations_within,
)
from pliant.zoo.robots.cable_finger_robot import cable_finger

UNIT_E, UNIT_MASS = 5e3, 1000.0 / 2.33  # [Pa], [kg/m^3] of the paper's numbers
TRUE = {"E": 20.0 * UNIT_E, "density": 2.33 * UNIT_MASS, "nu": 0.25}
START = {"E": 15.0 * UNIT_E, "density": 3.0 * UNIT_MASS, "nu": 0.3}
TRUTH = {f"body.{name}": value for name, value in TRUE.items()}
UNITS = {"body.E": UNIT_E, "body.density": UNIT_MASS, "body.nu": 1.0}
LABELS = {
    "body.E": "Young's modulus",
    "body.density": "particle mass",
    "body.nu": "Poisson's ratio",
}
PAPER = {"body.E": 20.0, "body.density": 2.33, "body.nu": 0.25}
VARIABLES = [
    Variable("body.E", lower=0.4 * START["E"], upper=2.5 * START["E"]),
    Variable("body.density", lower=0.4 * START["density"], upper=2.5 * START["density"]),
    Variable("body.nu", lower=0.05, upper=0.45),
]
MARKERS = 100
SEQUENCES = 20_210_051  # seed of the amplitudes and frequencies; they are no noise


def finger_model(values: Mapping[str, float], settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the finger with given E [Pa], nu and density [kg/m^3], as particles."""
    robot: Robot = cable_finger(**values)
    return MaterialPoint(
        robot,
        dt=float(settings["dt"]),
        cell=float(settings["cell"]),
        substeps=int(settings["substeps"]),
        design=list(TRUTH),
        memory=1e9,
    )


def sequences(settings: Mapping[str, Setting]) -> list[Array]:
    """Return the controls (steps, 2) of each trajectory: the left cable is shortened by a random
    amount at a random frequency, and the right one released."""
    rng, dt = np.random.default_rng(SEQUENCES), float(settings["dt"])
    times, out = dt * np.arange(1, int(settings["keyframes"]) + 1), []
    for _ in range(int(settings["trajectories"])):
        share, frequency = rng.uniform(0.1, 0.35), rng.uniform(0.8, 2.0)  # [-], [Hz]
        pull = share * np.sin(np.pi * frequency * times) ** 2
        out.append(np.stack([1.0 - pull, 1.0 + pull], axis=1))
    return out


def marker_points(model: MaterialPoint) -> Array:
    """Return the rest positions (100, 2) [m] of particles that are spread over the finger."""
    points = model.body.samples.points
    return np.asarray(points[np.linspace(0, len(points) - 1, MARKERS).astype(int)])


def recordings(settings: Mapping[str, Setting], seed: int) -> list[MarkerRecording]:
    """Return the mean of the noisy copies of each trajectory."""
    model = finger_model(TRUE, settings)
    points, noise, copies = marker_points(model), float(settings["noise"]), int(settings["copies"])
    weights, out = model.body.locate(points), []
    for k, u in enumerate(sequences(settings)):
        states = simulate(model, u, progress=False).states[1:]
        q = np.array([weights @ x.reshape(-1, 2) for x in states[:, : model.space.n_dofs]])
        rng = np.random.default_rng([seed, k])
        repeated = [
            MarkerRecording(
                times=model.dt * np.arange(1, len(u) + 1),
                positions=q + noise * rng.standard_normal(q.shape),
                points=points,
                controls=u,
                noise=noise,
                name=f"trajectory {k}",
            )
            for _ in range(copies)
        ]
        out.append(mean_recording(repeated))
    return out


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model, measured, epochs = finger_model(START, s), recordings(s, run.seed), int(s["epochs"])
    sgd = Adam(rate=float(s["rate"]), batch_size=1, schedule=CosineRate(iterations=epochs))
    fits = {
        "Gauss-Newton": fit_in(run, "gauss-newton", model, measured, VARIABLES, FAR),
        "SGD": fit_in(
            run,
            "sgd",
            model,
            measured,
            VARIABLES,
            sgd,
            iterations=epochs,
            intervals=False,
            seed=run.seed,
        ),
        "CMA-ES": fit_in(
            run,
            "cmaes",
            model,
            measured,
            VARIABLES,
            "cmaes",
            iterations=int(s["generations"]),
            intervals=False,
            seed=run.seed,
        ),
    }
    best = fits["Gauss-Newton"]
    errors = {name: float(best_errors(fit, TRUTH)[-1]) for name, fit in fits.items()}
    u = sequences(s)[0]
    path = run.simulate(model_of(best, s), u, count=len(u), dt=model.dt)
    reached = errors["Gauss-Newton"] < 0.02 and errors["SGD"] < float(s["sgd_error"])
    return Outcome(
        metrics=metrics(fits, errors, measured, model),
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


def model_of(fit: Fit, settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the finger with the values of a fit."""
    values = {name.removeprefix("body."): float(value) for name, value in fit.values.items()}
    return finger_model(values, settings)


def metrics(
    fits: Mapping[str, Fit],
    errors: Mapping[str, float],
    measured: Sequence[MarkerRecording],
    model: MaterialPoint,
) -> dict[str, Metric]:
    """Return values in the paper's units, errors and counts."""
    best = fits["Gauss-Newton"]
    values = {
        f"{LABELS[name]}, {method}": Metric(
            value=float(fits[method].values[name] / UNITS[name]),
            unit="units of the paper",
            paper=PAPER[name],
        )
        for method in ("SGD", "Gauss-Newton")
        for name in TRUTH
    }
    widths = {
        f"half width of the 95 % interval, {LABELS[name]}": Metric(
            value=50.0 * (upper - lower) / TRUTH[name], unit="%"
        )
        for name, (lower, upper) in best.intervals.items()
    }
    covered = [
        best.intervals[name][0] <= value <= best.intervals[name][1] for name, value in TRUTH.items()
    ]
    epochs = np.flatnonzero(largest_errors(fits["SGD"], TRUTH) >= 0.02)
    correlation = 0.0 if best.correlation is None else float(best.correlation[0, 1])
    least, counts = best.history[-1].value, {}
    for name, fit in fits.items():
        for what, count in (
            ("2 %", simulations_within(fit, TRUTH, 0.02)),
            ("the minimum", simulations_to_minimum(fit, least)),
        ):
            if np.isfinite(count):
                counts[f"simulations to {what}, {name}"] = Metric(value=count)
    return {
        **values,
        **{
            f"largest error, {name}": Metric(value=100.0 * error, unit="%", paper="converged")
            for name, error in errors.items()
        },
        **widths,
        "true values in their intervals": Metric(value=sum(covered), unit="of 3"),
        "correlation of E and mass": Metric(value=correlation),
        "Gauss-Newton iterations": Metric(value=best.status.iterations),
        "last epoch of SGD outside 2 %": Metric(value=int(epochs[-1]), paper="about 100"),
        **counts,
        "particles": Metric(value=model.body.n_particles),
        "markers": Metric(value=MARKERS, paper=100),
        "trajectories": Metric(value=len(measured), paper=10),
        "keyframes": Metric(value=len(np.asarray(measured[0].times)), paper=200),
    }


def figure_5(fit: Fit, measured: Sequence[MarkerRecording]) -> Plot:
    """Return the convergence of SGD. E and the loss are scaled to be in one plot, as in the
    paper."""
    epochs = np.arange(len(fit.history))
    noise = float(np.asarray(measured[0].noise)[0])
    count = sum(np.asarray(one.positions).size for one in measured)
    loss = np.array([2.0 * row.value * noise**2 / count for row in fit.history])  # [m^2]
    values = {name: fit.iterates[name][:, 0] / UNITS[name] for name in TRUTH}
    values["body.E"] = values["body.E"] / 10.0
    labels = {**LABELS, "body.E": "Young's modulus / 10"}
    return Plot(
        title="Fig. 5: convergence of SGD",
        x="epoch",
        y="units of the paper",
        series={
            **{labels[name]: (epochs, value) for name, value in values.items()},
            "loss / first loss": (epochs, loss / loss[0]),
        },
        references={"true E / 10": 2.0, "true mass": 2.33, "true nu": 0.25},
    )


def tip_plot(recording: MarkerRecording, fit: Fit) -> Plot:
    """Return the path of the lowest marker of the first trajectory, measured and predicted."""
    marker = int(np.argmin(np.asarray(recording.points)[:, 1]))
    part = fit.predictions[0]
    return Plot(
        title="Lowest marker of the first trajectory",
        x="time [s]",
        y="x [m]",
        series={
            "measured, mean of the copies": (part.axis, part.measured[:, marker, 0]),
            "predicted": (part.axis, part.predicted[:, marker, 0]),
        },
        markers=("measured, mean of the copies",),
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the finger while it is pulled to the left."""
    model = finger_model(START, settings)
    u = np.array([0.9, 1.05])
    return model, simulate(model, np.tile(u, (10, 1)), progress=False).states[-1], u


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
        "epochs": 50,
        "rate": 0.02,
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
        "sgd_error": 0.5,
        "small_animation": True,
    },
)
