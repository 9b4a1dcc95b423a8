"""The browser page that drives a robot by dragging its targets, and recordings of such drives."""

from pliant.viewer.access import write_redirect_file
from pliant.viewer.driving import check_duration, drive, headless, load_script, make_session
from pliant.viewer.recording import Recording, load_recording
from pliant.viewer.session import Session

__all__ = [
    "Recording",
    "Session",
    "check_duration",
    "drive",
    "headless",
    "load_recording",
    "load_script",
    "make_session",
    "write_redirect_file",
]
