"""Plots in one style, as PNG and SVG. Equal plots give equal bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import cycle
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pliant.core import Array, InputError
from pliant.report import palette

STYLE: Any = {  # Any: the type stub of matplotlib requires literal keys
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.edgecolor": palette.SECONDARY,
    "axes.labelcolor": palette.TEXT,
    "axes.titlecolor": palette.TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.8,
    "xtick.color": palette.SECONDARY,
    "ytick.color": palette.SECONDARY,
    "xtick.labelcolor": palette.TEXT,
    "ytick.labelcolor": palette.TEXT,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "pliant",  # makes the ids inside an SVG reproducible
}
NUMBERED_ROWS = 12  # of a heatmap; the numbers of larger ones do not fit
LABELLED_ROWS = 30
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))  # the next one when all colours are used


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot of named series, with units in the labels."""

    title: str
    x: str  # label with unit, such as "time [s]"
    y: str
    series: Mapping[str, tuple[Array, Array]]  # name -> x (k,), y (k,); a NaN in y leaves a gap
    # name -> y of a horizontal line, such as the value that the paper reports
    references: Mapping[str, float] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    # "steps": piecewise constant, like controls
    kind: Literal["line", "points", "both", "steps"] = "line"
    equal: bool = False  # equal scales along x and y
    markers: tuple[str, ...] = ()  # names of series that are drawn as points without a line
    thin: tuple[str, ...] = ()  # names of series that are drawn as thin grey lines
    # name of a series -> lower and upper y (k,) of a shaded band around it, such as an interval
    bands: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Heatmap:
    """A picture of a symmetric matrix of numbers from -1 to 1, such as correlations."""

    title: str
    names: tuple[str, ...]
    values: Array  # (n, n)


def heatmap_svg(heatmap: Heatmap, *, size: tuple[float, float] = (5.6, 4.6)) -> bytes:
    """Return the picture of a matrix as an SVG file. Small matrices have numbers in their cells."""
    n = len(heatmap.names)
    if np.shape(heatmap.values) != (n, n):
        raise InputError(
            f"The heatmap {heatmap.title!r} has {n} names and values of shape "
            f"{np.shape(heatmap.values)}. Give ({n}, {n})."
        )
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _paint_heatmap(figure, axes, heatmap)
        metadata: Any = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    return buffer.getvalue()


def _paint_heatmap(figure: Figure, axes: Axes, heatmap: Heatmap) -> None:
    colours = LinearSegmentedColormap.from_list(
        "correlation", [palette.SERIES[0], palette.BACKGROUND, palette.SERIES[1]]
    )
    image = axes.imshow(heatmap.values, cmap=colours, vmin=-1.0, vmax=1.0)
    axes.set_title(_literal(heatmap.title))
    axes.grid(visible=False)
    n = len(heatmap.names)
    shown = range(0, n, max(1, -(-n // LABELLED_ROWS)))
    labels = [_literal(heatmap.names[k]) for k in shown]
    axes.set_xticks(shown, labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(shown, labels)
    for i, j in np.ndindex(n, n) if n <= NUMBERED_ROWS else ():
        value = float(heatmap.values[i, j])
        dark = palette.BACKGROUND if abs(value) > 0.6 else palette.TEXT
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=dark, fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8)


def plot_png(plot: Plot, *, size: tuple[float, float] = (6.4, 3.6), dpi: int = 160) -> bytes:
    """Return the plot as a PNG file. `size` is in inches."""
    return _saved(plot, size, format="png", dpi=dpi, metadata={"Software": None})


def plot_svg(plot: Plot, *, size: tuple[float, float] = (6.4, 3.6)) -> bytes:
    """Return the plot as an SVG file with a transparent background. Its text is drawn as outlines,
    so no font is needed. `size` is in inches."""
    return _saved(
        plot, size, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
    )


def _saved(plot: Plot, size: tuple[float, float], **options: Any) -> bytes:
    series = {name: _checked(plot, name, *xy) for name, xy in plot.series.items()}
    if not series:
        raise InputError(f"The plot {plot.title!r} has no series. Give at least one.")
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", facecolor=palette.BACKGROUND)
        FigureCanvasAgg(figure)
        _paint(figure.add_subplot(), plot, series)
        _legend(figure, len(series) + len(plot.references))
        figure.savefig(buffer, **options)
    return buffer.getvalue()


def _paint(axes: Axes, plot: Plot, series: Mapping[str, tuple[Array, Array]]) -> None:
    axes.set_title(_literal(plot.title))
    axes.set_xlabel(_literal(plot.x))
    axes.set_ylabel(_literal(plot.y))
    axes.set_xscale("log" if plot.log_x else "linear")
    axes.set_yscale("log" if plot.log_y else "linear")
    axes.margins(x=0.02)
    axes.set_aspect("equal" if plot.equal else "auto", adjustable="datalim")
    if not plot.log_x and all(
        np.array_equal(x[np.isfinite(x)], np.round(x[np.isfinite(x)])) for x, _ in series.values()
    ):
        # integer ticks, for example for iterations
        axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))
    marker = "o" if plot.kind in ("points", "both") else None
    shape = "steps-post" if plot.kind == "steps" else "default"
    for i, (name, (x, y)) in enumerate(series.items()):
        if name in plot.thin:
            axes.plot(x, y, label=_literal(name), color=palette.SECONDARY, lw=0.5, zorder=1.6)
            continue
        points = plot.kind == "points" or name in plot.markers
        dash = "none" if points else DASHES[i // len(palette.SERIES) % len(DASHES)]
        colour, dot = palette.SERIES[i % len(palette.SERIES)], "o" if points else marker
        axes.plot(x, y, label=_literal(name), color=colour, ls=dash, marker=dot, drawstyle=shape)
        if name in plot.bands:
            axes.fill_between(x, *plot.bands[name], color=colour, alpha=0.15, lw=0.0, zorder=1.2)
    for dash, (name, value) in zip(
        cycle([(0, (6, 3)), (0, (2, 2))]), plot.references.items(), strict=False
    ):
        axes.axhline(
            value, label=_literal(name), color=palette.SECONDARY, ls=dash, lw=1.3, zorder=1.5
        )


def _legend(figure: Figure, entries: int) -> None:
    """Draw the legend beside the data. A single series needs none: the y label names it."""
    if entries > 1:
        figure.legend(loc="outside right upper", labelcolor=palette.TEXT, handlelength=1.8)


def _checked(plot: Plot, name: str, x: Array, y: Array) -> tuple[Array, Array]:
    """Return the series as float arrays. Values that a logarithmic axis cannot show become NaN.
    Raises `InputError` if the lengths differ or a logarithmic axis has no positive value."""
    x, y = (np.array(values, dtype=float).reshape(-1) for values in (x, y))
    if x.shape != y.shape:
        raise InputError(
            f"Series {name!r} of the plot {plot.title!r} has {x.size} x and {y.size} y "
            "values. Give equal numbers."
        )
    y[~np.isfinite(y) | ~np.isfinite(x)] = np.nan
    for on, values, axis in ((plot.log_x, x, "x"), (plot.log_y, y, "y")):
        if on and not (values > 0.0).any():
            raise InputError(
                f"Series {name!r} of the plot {plot.title!r} has no positive {axis}, so a "
                f"logarithmic axis cannot show it. Set log_{axis}=False."
            )
    hidden = (plot.log_x & (x <= 0.0)) | (plot.log_y & (y <= 0.0))
    return np.where(np.isfinite(x), x, np.nan), np.where(hidden, np.nan, y)


def _literal(text: str) -> str:
    """Escape dollar signs, because matplotlib reads text between two of them as a formula."""
    return text.replace("$", r"\$")
