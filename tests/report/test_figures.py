"""Plots are deterministic and show their series. An invalid plot raises."""

import xml.etree.ElementTree as ElementTree
from io import BytesIO

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from pliant.core import InputError
from pliant.report import Plot, plot_png, plot_svg
from pliant.report.palette import SERIES

T = np.linspace(0.0, 1.0, 20)


def plot(**changes):
    options = {
        "title": "Error",
        "x": "time [s]",
        "y": "error [m]",
        "series": {"ours": (T, np.exp(-T)), "theirs": (T, T)},
    }
    return Plot(**{**options, **changes})


def has_colour(png, colour):
    pixels = np.asarray(Image.open(BytesIO(png)).convert("RGB")).astype(float)
    return bool((np.abs(pixels - 255 * np.array(to_rgb(colour))).max(axis=-1) < 8).any())


@pytest.mark.parametrize("save", [plot_png, plot_svg])
def test_plot_is_deterministic_and_keeps_matplotlib_settings(save):
    before = dict(matplotlib.rcParams)
    assert save(plot()) == save(plot())
    assert dict(matplotlib.rcParams) == before


def test_each_series_has_its_own_colour():
    png = plot_png(plot())
    assert has_colour(png, SERIES[0])
    assert has_colour(png, SERIES[1])
    assert not has_colour(png, SERIES[2])
    assert Image.open(BytesIO(png)).size == (1024, 576)


@pytest.mark.parametrize("kind", ["line", "points", "both", "steps"])
@pytest.mark.parametrize("log", [False, True])
def test_each_plot_kind_is_drawn_on_linear_and_log_axes(kind, log):
    assert has_colour(
        plot_png(plot(kind=kind, log_x=log, log_y=log, references={"paper": 0.5})), SERIES[0]
    )


def test_svg_is_well_formed_without_a_date():
    svg = plot_svg(plot(references={"paper": 0.5}))
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert b"dc:date" not in svg


def test_nan_values_and_dollar_signs_can_be_plotted():
    y = np.exp(-T)
    y[3:6] = np.nan
    y[8] = np.inf
    png = plot_png(plot(title="cost in $ and $^", series={"a $_": (T, y)}))
    assert has_colour(png, SERIES[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"series": {}}, "no series"),
        ({"series": {"a": (T, T[:-1])}}, "'a' .* has 20 x and 19 y"),
        ({"series": {"a": (T, -T)}, "log_y": True}, "no positive y.*log_y=False"),
        ({"series": {"a": (-T, T)}, "log_x": True}, "no positive x.*log_x=False"),
    ],
)
def test_invalid_plot_raises(changes, message):
    with pytest.raises(InputError, match=message):
        plot_png(plot(**changes))


def test_integer_x_values_have_integer_ticks():
    counted = {"ours": (np.arange(3.0), np.ones(3))}
    assert plot_svg(plot(series=counted)).count(b'id="xtick_') == 3
    assert plot_svg(plot(series={**counted, "theirs": (T, T)})).count(b'id="xtick_') > 3


def test_band_is_shaded_in_the_colour_of_its_series():
    """Above the line there is only white without the band, and a light tint with it."""

    def tints(png):
        pixels = np.asarray(Image.open(BytesIO(png)).convert("RGB")).astype(float)
        tint = 255 * (0.15 * np.array(to_rgb(SERIES[0])) + 0.85)
        return int((np.abs(pixels - tint).max(axis=-1) < 3).sum())

    flat = {"mean": (T, 0 * T)}
    assert tints(plot_png(plot(series=flat, bands={"mean": (0 * T - 1, 0 * T + 1)}))) > 1000
    assert tints(plot_png(plot(series=flat))) < 1000
