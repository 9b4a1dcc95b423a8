"""The guide to swimming robots: its code runs."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "swimming.md"


def test_guide_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(snippet, names)
    assert names["solution"].added_mass.shape == (7, 7)
    assert names["solution"].asymmetry < 1e-3
