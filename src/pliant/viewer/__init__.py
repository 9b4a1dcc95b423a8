"""The page where a robot is driven by dragging its target, and what it records."""

from pliant.viewer.door import signpost
from pliant.viewer.drive import check_duration, drive, headless, load_script, session_of
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
    "session_of",
    "signpost",
]
