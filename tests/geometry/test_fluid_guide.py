"""The guide's page on fluids does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fluids.md"


def test_the_snippet_runs(capsys):
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL).group(1), names)
    capsys.readouterr()
    weight = 9810.0 * names["full"].volume
    assert names["full"].volume == pytest.approx(names["measures"](names["wall"].points, names["wall"].triangles).volume, rel=1e-12)
    np.testing.assert_allclose(names["full"].forces.sum(axis=0), (0.0, 0.0, -weight), atol=1e-12 * weight)
    np.testing.assert_allclose(names["half"].forces.sum(axis=0), (0.0, 0.0, -weight / 2), atol=1e-12 * weight)
    assert names["columns"].weights.sum() == pytest.approx(weight, rel=1e-4)
    assert abs(names["K"] - names["K"].T).max() < 1e-12 * abs(names["K"]).max()
