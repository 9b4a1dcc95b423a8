"""Sessions of a small arm; each test begins with the robot at rest."""

import pytest
from stand import served, small_arm


@pytest.fixture(scope="session")
def _arm():
    return small_arm()


@pytest.fixture
def arm(_arm):
    _arm.hear({"say": "pause", "on": False})
    _arm.hear({"say": "mode", "mode": "follow"})
    _arm.hear({"say": "reset"})
    if _arm.active != ("laser",):
        _arm.hear({"say": "active", "effectors": ["laser"]})
    _arm.replayed = None
    return _arm


@pytest.fixture
def stand(arm):
    with served(arm) as made:
        yield made
