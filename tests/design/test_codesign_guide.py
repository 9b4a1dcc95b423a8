"""The code of the guide page on co-design."""

import re
from pathlib import Path

import numpy as np

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "codesign.md"


def test_code_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(block, names)
    design, printable = names["design"], names["printable"]
    assert design.value < design.result.history[0].value
    E = design.fields["cells.E"].reshape(10, 2, 2)  # along, across, cells of a square
    np.testing.assert_array_equal(E[:, 0].mean(axis=1), E[:, 1].mean(axis=1))
    assert E[:5].mean() > 2.0 * E[5:].mean()  # stiff up to the middle, soft behind it
    assert len(printable.robot.material) == 3
    written = {path.name for path in (tmp_path / "results" / "print").iterdir()}
    assert {"fields.vtu", "robot.toml", "material-1.stl"} <= written
    assert (tmp_path / "results" / "beam" / "report.html").exists()
    assert np.isfinite(names["check"].states).all()
