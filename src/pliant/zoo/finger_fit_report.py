"""The report of finger-identify: values in the paper's units, counts of simulations, Fig. 5."""

from collections.abc import Mapping, Sequence

import numpy as np

from pliant.design import Fit, MarkerRecording
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.zoo.experiment import Metric
from pliant.zoo.finger_recordings import MARKERS, TRUTH, UNITS
from pliant.zoo.fit_tasks import largest_errors, simulations_to_minimum, simulations_within

LABELS = {
    "body.E": "Young's modulus",
    "body.density": "particle mass",
    "body.nu": "Poisson's ratio",
}
PAPER = {"body.E": 20.0, "body.density": 2.33, "body.nu": 0.25}


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
        title="Lowest marker, trajectory 0",
        x="time [s]",
        y="x [m]",
        series={
            "measured": (part.axis, part.measured[:, marker, 0]),
            "predicted": (part.axis, part.predicted[:, marker, 0]),
        },
        markers=("measured",),
    )
