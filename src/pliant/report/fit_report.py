"""The report of a fit: tables of values and residuals, and plots of measured and predicted data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.core import Array, counted
from pliant.design import Fit, Prediction
from pliant.design.estimates import Estimate
from pliant.report.figures import Heatmap, Plot
from pliant.report.model_plots import Motion, model_motion, motion_scene
from pliant.report.outcome import Metric, Outcome
from pliant.report.page import PageTable

MAX_PREDICTIONS = 4  # measurements of each kind with plots; the first ones
MAX_MARKERS = 6  # in a plot of residuals; the ones with the largest residuals
MAX_ROWS = 60  # of the table of residuals
MAX_MATRIX = 60  # rows of correlations in the picture
MAX_PATHS = 20  # measured paths in the animation


def fit_outcome(fit: Fit, title: str) -> tuple[Outcome, Motion | None]:
    """Return the metrics, tables, plots and scene of a fit, and the motion of its first
    measurement."""
    motion = None if fit.motion is None else _motion(fit)
    groups = (("fitted", fit.predictions), ("held out", fit.held_out))
    shown = [(part, label) for label, group in groups for part in group[:MAX_PREDICTIONS]]
    outcome = Outcome(
        metrics=_metrics(fit),
        tables=(_value_table(fit), _error_table(fit), _residual_table(fit)),
        heatmaps=_heatmaps(fit),
        plots=[
            *value_plots(fit),
            *(plot for part, label in shown for plot in _prediction_plots(part, label)),
        ],
        scene=None
        if motion is None
        else motion_scene(motion, title=title, paths=_measured_paths(fit.predictions[0])),
        reached=fit.status.ok,
        message="done" if fit.status.ok else fit.status.text,
        notes=(fit.summary(), *fit.undetermined, *fit.notes),
        data={"fit": fit_data(fit)},
    )
    return outcome, motion


def _motion(fit: Fit) -> Motion:
    assert fit.motion is not None
    assert fit.motion.model is not None
    return model_motion(fit.motion.model, fit.motion.states, fit.motion.controls)


def fit_data(fit: Fit) -> dict[str, Any]:
    """Return the values and their spread as JSON types, None for a number that is not finite."""
    return {
        "values": {one.name: _plain(one.value) for one in fit.estimates.items},
        "units": dict(fit.units),
        "start": {one.name: _plain(one.start) for one in fit.estimates.items},
        "intervals": {one.name: _plain(one.interval) for one in fit.estimates.items},
        "deviations": {one.name: _plain(one.deviation) for one in fit.estimates.items},
        "undetermined": list(fit.undetermined),
        "rms errors": {part.name: part.rms for part in fit.predictions},
        "held-out rms errors": {part.name: part.rms for part in fit.held_out},
    }


def _plain(values: Array) -> Any:
    """Return an array as lists, and one of a single row as that row."""
    rows = [_plain(row) if np.ndim(row) else _finite(row) for row in values]
    return rows[0] if len(rows) == 1 else rows


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _metrics(fit: Fit) -> dict[str, Metric]:
    values = {
        one.name: Metric(value=float(one.value[0]), unit=one.unit or "-")
        for one in fit.estimates.items
        if one.value.size == 1
    }
    errors = {
        f"rms error, {label}{what}": Metric(value=_rms(parts), unit=unit)
        for label, group in (("fitted", fit.predictions), ("held out", fit.held_out))
        for unit, what in (("m", ""), ("m^3", " volumes"))
        if (parts := [part for part in group if part.unit == unit])
    }
    noise = fit.estimates.noise
    scale = {} if noise is None else {"residuals over the given noise": Metric(value=noise)}
    return {
        **values,
        **errors,
        **scale,
        "iterations": Metric(value=fit.status.iterations),
        "simulations": Metric(value=fit.simulations),
    }


def _rms(parts: Sequence[Prediction]) -> float:
    squares = np.concatenate([np.ravel(part.residuals**2) for part in parts])
    return float(np.sqrt(np.nanmean(squares)))


# Tables


def _value_table(fit: Fit) -> PageTable:
    return PageTable(
        title="Parameters",
        columns=("parameter", "start", "fitted", "95 % interval", "unit", "determined"),
        rows=tuple(_value_row(one) for one in fit.estimates.items),
    )


def _value_row(one: Estimate) -> tuple[Any, ...]:
    known = bool(np.isfinite(one.deviation).all())
    if one.value.size > 1:
        counts = counted(int(np.isfinite(one.deviation).sum()), "value")
        return one.name, _range(one.start), _range(one.value), None, one.unit or "-", counts
    interval = f"{one.interval[0, 0]:.4g} to {one.interval[0, 1]:.4g}" if known else None
    return one.name, float(one.start[0]), float(one.value[0]), interval, one.unit or "-", known


def _range(values: Array) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"


def _error_table(fit: Fit) -> PageTable:
    groups = (("fitted", fit.predictions), ("held out", fit.held_out))
    rows = [(part.name, label, part.rms, part.unit) for label, parts in groups for part in parts]
    columns = ("measurement", "use", "rms error of a coordinate", "unit")
    return PageTable(title="Measurements", columns=columns, rows=tuple(rows))


def _residual_table(fit: Fit) -> PageTable:
    found = [one for part in fit.predictions for one in part.statistics]
    title = "Residuals of the markers"
    if len(found) > MAX_ROWS:
        title += f" (the first {MAX_ROWS} of {len(found)})"
    return PageTable(
        title=title,
        columns=(
            "measurement",
            "marker",
            "coordinates",
            "rms of a coordinate",
            "length of the mean",
            "largest distance",
            "unit",
            "correlation of neighbours",
        ),
        rows=tuple(
            (
                one.measurement,
                one.marker,
                one.count,
                one.rms,
                one.bias,
                one.largest,
                one.unit,
                round(one.correlation, 2),
            )
            for one in found[:MAX_ROWS]
        ),
    )


# Pictures


def _heatmaps(fit: Fit) -> tuple[Heatmap, ...]:
    if fit.correlation is None or not 1 < len(fit.names) <= MAX_MATRIX:
        return ()
    return (Heatmap(title="Correlations", names=fit.names, values=fit.correlation),)


def value_plots(fit: Fit) -> list[Plot]:
    """Return a plot of the values in the iterations, over the fitted ones."""
    ratios = {
        one.name: one.iterates[:, 0] / one.value[0]
        for one in fit.estimates.items
        if one.value.size == 1 and len(one.iterates) > 1 and one.value[0] != 0.0
    }
    return [
        Plot(
            title="Values in the iterations",
            x="iteration",
            y="value / fitted value",
            series={name: (np.arange(len(ratio)), ratio) for name, ratio in ratios.items()},
        )
    ][: bool(ratios)]


def _prediction_plots(part: Prediction, label: str) -> list[Plot]:
    """Return the measured and predicted values of the worst marker, and residuals of markers."""
    sizes = np.sqrt(np.nansum(part.residuals**2, axis=2))  # (n, m)
    sizes[np.isnan(part.residuals).any(axis=2)] = np.nan
    order = np.argsort(-np.nanmean(sizes**2, axis=0))[:MAX_MARKERS]
    signed = part.measured.shape[2] == 1
    series = {
        part.markers[j]: (part.axis, part.residuals[:, j, 0] if signed else sizes[:, j])
        for j in sorted(order.tolist())
    }
    what = "predicted minus measured" if signed else "distance"
    return [
        _comparison_plot(part, int(order[0]), label),
        Plot(
            title=f"Residuals of {part.name} ({label})",
            x=part.axis_label,
            y=f"{what} [{part.unit}]",
            series=series,
            kind="both" if len(part.axis) < 30 else "line",
        ),
    ]


def _comparison_plot(part: Prediction, j: int, label: str) -> Plot:
    """Return the values of marker j, as changes since the first prediction."""
    axes, first = part.measured.shape[2], np.zeros(part.measured.shape[2])
    moving = part.axis_label.startswith("time")
    if moving:
        seen = np.flatnonzero(~np.isnan(part.measured[:, j]).any(axis=1))
        first = part.predicted[seen[0], j]
    names = [""] if axes == 1 else [f"{axis} " for axis in "xyz"[:axes]]
    series, markers = {}, []
    for k, axis in enumerate(names):
        markers.append(f"{axis}measured")
        series[f"{axis}predicted"] = (part.axis, part.predicted[:, j, k] - first[k])
        series[markers[-1]] = (part.axis, part.measured[:, j, k] - first[k])
    quantity = "volume" if part.unit == "m^3" else "displacement"
    return Plot(
        title=f"{part.markers[j]} of {part.name} ({label})",
        x=part.axis_label,
        y=f"{quantity} [{part.unit}]",
        series=series,
        markers=tuple(markers),
    )


def _measured_paths(part: Prediction) -> list[Array]:
    """Return the measured paths (k, dim) [m] of markers."""
    if not part.axis_label.startswith("time") or part.measured.shape[2] < 2:
        return []
    tracks = [part.measured[:, j] for j in range(min(len(part.markers), MAX_PATHS))]
    seen = [track[~np.isnan(track).any(axis=1)] for track in tracks]
    return [track for track in seen if len(track) > 1]
