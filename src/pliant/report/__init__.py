"""Figures, animations and the page of a result, from plain arrays."""

from pliant.report.animation import animate
from pliant.report.drawing import draw, set_stage, still
from pliant.report.figures import Plot, plot_png, plot_svg
from pliant.report.page import render_report, write_report
from pliant.report.scene import Line, Scene

__all__ = [
    "Line",
    "Plot",
    "Scene",
    "animate",
    "draw",
    "plot_png",
    "plot_svg",
    "render_report",
    "set_stage",
    "still",
    "write_report",
]
