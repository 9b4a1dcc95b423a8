"""Figures, animations and the page of a result, from plain arrays."""

from pliant.report.animation import animate
from pliant.report.drawing import draw, make_stage, write_picture
from pliant.report.figures import Heatmap, Plot, plot_png, plot_svg
from pliant.report.outcome import (
    Metric,
    Outcome,
    result_content,
    versions,
    write_animation,
    write_page,
    write_trajectory,
)
from pliant.report.page import PageTable, render_report, write_report
from pliant.report.scene import DrawnScene, Line

__all__ = [
    "DrawnScene",
    "Heatmap",
    "Line",
    "Metric",
    "Outcome",
    "PageTable",
    "Plot",
    "animate",
    "draw",
    "make_stage",
    "plot_png",
    "plot_svg",
    "render_report",
    "result_content",
    "versions",
    "write_animation",
    "write_page",
    "write_picture",
    "write_report",
    "write_trajectory",
]
