"""Identification of materials from recordings and static tests; robots as functions of shape
parameters; co-design of materials, shape and control."""

from pliant.design.design_result import RobotDesign
from pliant.design.fit import Fit
from pliant.design.gradient_checks import GradientCheck
from pliant.design.grouping import field_groups
from pliant.design.identification import identify
from pliant.design.joint_optimisation import codesign
from pliant.design.parametrised_robot import ParametrisedRobot
from pliant.design.recording import MarkerRecording, mean_recording
from pliant.design.recording_files import load_recordings
from pliant.design.residuals import MarkerResiduals, Prediction
from pliant.design.shape_maps import RadialStretch, Rotation, ShapeParameter, Stretch
from pliant.design.shape_model import ShapeModel
from pliant.design.static_test import StaticTest, load_static_tests

__all__ = [
    "Fit",
    "GradientCheck",
    "MarkerRecording",
    "MarkerResiduals",
    "ParametrisedRobot",
    "Prediction",
    "RadialStretch",
    "RobotDesign",
    "Rotation",
    "ShapeModel",
    "ShapeParameter",
    "StaticTest",
    "Stretch",
    "codesign",
    "field_groups",
    "identify",
    "load_recordings",
    "load_static_tests",
    "mean_recording",
]
