"""Figures, animations and the page of a result, from plain arrays."""

from pliant.report.animation import animate
from pliant.report.drawing import draw, set_stage, still
from pliant.report.scene import Line, Scene

__all__ = ["Line", "Scene", "animate", "draw", "set_stage", "still"]
