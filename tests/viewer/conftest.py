"""Sessions of a small arm; each test begins with the robot at rest."""

import pytest
from served_robots import served, small_arm


@pytest.fixture(scope="session")
def _arm():
    return small_arm()


@pytest.fixture
def arm(_arm):
    _arm.handle_message({"type": "pause", "on": False})
    _arm.handle_message({"type": "mode", "mode": "follow"})
    _arm.handle_message({"type": "reset"})
    if _arm.active != ("laser",):
        _arm.handle_message({"type": "active", "effectors": ["laser"]})
    _arm.last_recording = None
    return _arm


@pytest.fixture
def stand(arm):
    with served(arm) as made:
        yield made
