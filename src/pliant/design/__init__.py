"""Identification of materials from recordings and static tests."""

from pliant.design.recording import MarkerRecording
from pliant.design.recording_files import load_recordings
from pliant.design.static_test import StaticTest, load_static_tests

__all__ = ["MarkerRecording", "StaticTest", "load_recordings", "load_static_tests"]
