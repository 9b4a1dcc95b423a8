"""Fixtures of the viewer tests. Each test starts with a small arm at rest."""

import pytest
from served_robots import served, small_arm


@pytest.fixture(scope="session")
def shared_arm():
    return small_arm()


@pytest.fixture
def arm(shared_arm):
    shared_arm.handle_message({"type": "pause", "on": False})
    shared_arm.handle_message({"type": "mode", "mode": "follow"})
    shared_arm.handle_message({"type": "reset"})
    if shared_arm.active != ("laser",):
        shared_arm.handle_message({"type": "active", "effectors": ["laser"]})
    shared_arm.last_recording = None
    return shared_arm


@pytest.fixture
def running(arm):
    """Serve the arm and yield its `RunningServer`."""
    with served(arm) as server:
        yield server
