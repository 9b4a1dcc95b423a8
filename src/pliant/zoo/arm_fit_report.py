"""The report of arm-identify: parameters, held-out errors and plans of each model."""

from collections.abc import Mapping

import numpy as np

from pliant.design import Fit, MarkerRecording, Prediction
from pliant.dynamics import ImplicitEuler
from pliant.planners import Plan
from pliant.report import Plot
from pliant.report.page import PageTable
from pliant.zoo.arm_laboratory import NAMES, NOISE, START, TRUTH, positions
from pliant.zoo.experiment import Metric

START_MODEL, TRUE_VALUES, FITTED, FINE_MESH = (
    "start values",
    "true values, 4-node mesh",
    "fitted, 4-node mesh",
    "fitted, 10-node mesh",
)


def mesh_share(errors: Mapping[str, float]) -> float:
    """Return the share of the mesh in the mean squared error of the fitted model that is no
    noise."""
    coarse, fine = (max(errors[name] ** 2 - NOISE**2, 0.0) for name in (FITTED, FINE_MESH))
    return 1.0 - fine / coarse if coarse > 0.0 else 0.0


def metrics(
    fits: Mapping[str, Fit], errors: Mapping[str, float], distances: Mapping[str, float]
) -> dict[str, Metric]:
    """Return values, held-out errors and the distances of the plans."""
    values = {
        f"{name}, {label}": Metric(value=float(fit.values[name]), unit=fit.units[name])
        for label, fit in fits.items()
        for name in NAMES
    }
    return {
        **{
            f"distance after the plan, {name}": Metric(value=1e3 * distance, unit="mm")
            for name, distance in distances.items()
        },
        **{
            f"held-out rms error, {name}": Metric(value=1e3 * error, unit="mm")
            for name, error in errors.items()
        },
        "noise of a coordinate": Metric(value=1e3 * NOISE, unit="mm"),
        "share of the mesh in the squared held-out error": Metric(
            value=100.0 * mesh_share(errors), unit="%"
        ),
        "ratio of the distances, start values over fitted": Metric(
            value=distances[START_MODEL] / distances[FITTED]
        ),
        **values,
        "iterations": Metric(value=fits[FITTED].status.iterations),
        "simulations": Metric(value=fits[FITTED].simulations),
    }


def summary_table(
    fits: Mapping[str, Fit],
    errors: Mapping[str, float],
    distances: Mapping[str, float],
    plans: Mapping[str, Plan],
) -> PageTable:
    """Return the parameters, errors and distances of each model."""
    values = {
        START_MODEL: START,
        TRUE_VALUES: TRUTH,
        **{name: fit.values for name, fit in fits.items()},
    }
    rows = tuple(
        (
            name,
            *(float(values[name][one]) for one in NAMES),
            1e3 * errors[name],
            1e3 * plans[name].goal_errors[0][2],
            1e3 * distances[name],
        )
        for name in distances
    )
    columns = (
        "model",
        "soft.E [Pa]",
        "soft.nu",
        "damping.stiffness [s]",
        "held-out rms error [mm]",
        "distance expected by the plan [mm]",
        "distance on the measured arm [mm]",
    )
    return PageTable(title="Models and their plans", columns=columns, rows=rows)


def held_out_plot(
    fits: Mapping[str, Fit], models: Mapping[str, ImplicitEuler], recording: MarkerRecording
) -> Plot:
    """Return the distance of the predicted laser to the measured one over time."""
    part: Prediction = fits[FITTED].held_out[0]
    curves = {
        name: positions(models[name], recording) - part.measured
        for name in (START_MODEL, TRUE_VALUES)
    } | {name: fit.held_out[0].residuals for name, fit in fits.items()}
    return Plot(
        title="Held-out recording",
        x="time [s]",
        y="error of the laser [m]",
        log_y=True,
        series={
            name: (part.axis, np.linalg.norm(residuals[:, -1], axis=1))
            for name, residuals in curves.items()
        },
        references={"noise": float(np.sqrt(3.0)) * NOISE},
    )
