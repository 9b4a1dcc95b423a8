"""The code of the guide page on optimisation."""

import re
from pathlib import Path

import numpy as np

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "optimisation.md"


def test_code_of_the_guide_runs():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(block, names)
    result = names["result"]
    assert result.status.ok
    # a sum of squares has a stationary point: forces within their limits, E within its bounds
    assert np.all(np.abs(result.values["controls"]) <= 0.5)
    assert 1e5 <= result.values["body.E"][0] <= 1e6
    objective = names["objective"]
    parts = [objective.gradient(objective.start, samples=[k]) for k in range(4)]
    assert sum(p.value for p in parts) == objective.value(objective.start).value
