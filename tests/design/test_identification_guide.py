"""The code of the guide page on identification."""

import re
from pathlib import Path

import numpy as np
import pytest

import pliant as pl

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "identification.md"
PAGE = GUIDE.read_text()
TRUE_E, NOISE = 5e5, 2e-4
MARKERS = {"tip": (0.1, 0.01, 0.01), "m1": (0.05, 0.01, 0.02)}


def write_recordings(folder, finger):
    """Write three recordings of the tip, in both layouts."""
    model = pl.ImplicitEuler(finger, dt=0.01)
    rng, times = np.random.default_rng(0), 0.01 * np.arange(21)
    folder.mkdir()
    for k in range(3):
        tension = (1.0 + k) * np.sin(10.0 * times) ** 2
        states = pl.simulate(model, tension[1:, None]).states
        tip = np.array([model.effector("tip", x)[0] for x in states])
        tip = 1e3 * (tip + NOISE * rng.standard_normal(tip.shape))
        head = "time [s],tip.x [mm],tip.y [mm],tip.z [mm],u.tendon [N]"
        rows = [f"{t},{x},{y},{z},{u}" for t, (x, y, z), u in zip(times, tip, tension, strict=True)]
        (folder / f"swing{k}.csv").write_text("\n".join([head, *rows]))


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    robot = blocks[0].split("names = ")[0].replace("E=3e5", f"E={TRUE_E}")
    found: dict = {}
    exec(robot.replace("stiffness=0.01", "stiffness=0.02"), found)
    write_recordings(tmp_path / "mocap", found["finger"])
    names: dict = {}
    for block in blocks:
        exec(block.replace('fit.report("results/finger")', "fit.report('page', small=True)"), names)
    return names


def test_code_of_the_guide_runs(names):
    fit = names["fit"]
    assert fit.values["body.E"] == pytest.approx(TRUE_E, rel=0.02)
    assert fit.values["damping.stiffness"] == pytest.approx(0.02, rel=0.1)
    assert fit.held_out[0].rms == pytest.approx(NOISE, rel=0.2)
    assert names["plan"].goal_errors
    assert names["static"].values["body.E"] > 0.0
    assert names["both"].status.ok
    assert names["field"].values["cells.E"].shape == names["field_model"].params.flat.shape
    assert Path("page/report.html").exists()


def test_the_layouts_of_the_guide_are_read(tmp_path):
    layouts = re.findall(r"```\n(time \[.*?)```", PAGE, re.DOTALL)
    for k, text in enumerate(layouts):
        (tmp_path / f"{k}.csv").write_text(text)
        (recording,) = pl.load_recordings(tmp_path / f"{k}.csv")
        np.testing.assert_allclose(recording.points[0], (0.1, 0.01, 0.01))
        np.testing.assert_allclose(recording.times, [0.0, 0.01])
        np.testing.assert_allclose(recording.positions[1, 0], (0.0999, 0.0101, 0.0098))
        assert recording.controls["tendon"].tolist() == [0.0, 0.1]
    assert len(layouts) == 2
