"""Reports of simulations and plans of user robots: solids, beams and particles."""

import json
from pathlib import Path

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.geometry import CircularSection, Rods
from pliant.store import read_trajectory

FILES = ("report.html", "result.json", "animation.mp4", "animation.gif", "picture.png")
RUBBER = pl.Material(E=1e5, nu=0.3, density=1000.0)
BAR = pl.Robot(
    name="bar",
    shape=pl.Box(size=(0.1, 0.02, 0.02)),
    material=RUBBER,
    supports=[pl.Support(region="x-")],
    actuators={"top": pl.Cable(points=[(0.0, 0.01, 0.018), (0.1, 0.01, 0.018)], limits=(0.0, 5.0))},
    effectors={"tip": pl.Effector(point=(0.1, 0.01, 0.01))},
    damping=pl.Damping(stiffness=0.005),
    divisions=(4, 1, 1),
    order=1,
)
ROD = pl.Robot(
    name="rod",
    shape=Rods(
        points=[[0, 0, 0], [0.2, 0, 0]],
        rods=[[0, 1]],
        section=CircularSection(radius=0.01),
        regions={"start": [0]},
    ).refine(4),
    material=RUBBER,
    supports=[pl.Support(region="start")],
    effectors={"tip": pl.Effector(point=(0.2, 0, 0))},
    gravity=(0.0, 0.0, -9.81),
)
MODELS = {
    "solid": lambda: pl.ImplicitEuler(BAR, dt=0.02),
    "beams": lambda: pl.ImplicitEuler(ROD, dt=0.02),
    "particles": lambda: pl.MaterialPoint(BAR, dt=0.002, cell=0.01),
}


def simulate(name: str):
    model = MODELS[name]()
    return pl.simulate(model, np.tile(0.5, (3, model.n_controls)), progress=False)


@pytest.mark.parametrize("name", MODELS)
def test_simulation_report_has_page_animation_trajectory_and_result(
    name: str, tmp_path: Path
) -> None:
    run = simulate(name)
    page = run.report(tmp_path / name, small=True)
    assert page == tmp_path / name / "report.html"
    assert all((page.parent / file).stat().st_size > 0 for file in FILES)
    result = json.loads((page.parent / "result.json").read_text())
    assert result["status"] == "done"
    assert {"final tip x", "final tip y", "final tip z"} <= set(result["metrics"])
    saved = read_trajectory(page.parent)
    np.testing.assert_array_equal(saved.path, run.states)
    np.testing.assert_array_equal(saved.controls, run.controls)


def test_plan_report_shows_goal_errors_and_can_be_loaded(tmp_path: Path) -> None:
    model = pl.ImplicitEuler(BAR, dt=0.02)
    goal = pl.Goal(effector="tip", target=(0.099, 0.01, 0.012), time=0.06)
    plan = pl.plan(model, [goal, pl.Effort(weight=1e-6)], steps=3, progress=False)
    page = plan.report(tmp_path, small=True)
    assert all((tmp_path / file).is_file() for file in (*FILES, "plan.json", "plan.csv"))
    text = page.read_text()
    assert "Goal errors" in text
    assert "Convergence" in text
    assert "Controls" in text
    metrics = json.loads((tmp_path / "result.json").read_text())["metrics"]
    assert metrics["largest goal error"] == {
        "value": max(error for _, _, error in plan.goal_errors),
        "unit": "m",
        "paper": None,
    }
    loaded = pl.Plan.load(tmp_path, model)
    np.testing.assert_array_equal(loaded.states, plan.states)
    assert loaded.report(tmp_path / "again", small=True).is_file()
    assert (
        "loaded without its model" in pl.Plan.load(tmp_path).report(tmp_path / "bare").read_text()
    )
    assert len(repr(plan)) < 300
    assert "<img" in plan._repr_html_()


def test_second_report_replaces_first_and_keeps_other_files(tmp_path: Path) -> None:
    run = simulate("beams")
    run.report(tmp_path, small=True, title="first")
    (tmp_path / "notes.txt").write_text("mine")
    run.report(tmp_path, small=True, title="second")
    assert json.loads((tmp_path / "result.json").read_text())["name"] == "second"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_plan_saved_into_a_report_folder_is_kept_by_later_reports(tmp_path: Path) -> None:
    model = pl.ImplicitEuler(BAR, dt=0.02)
    goal = pl.Goal(effector="tip", target=(0.099, 0.01, 0.012))
    plan = pl.plan(model, [goal, pl.Effort(weight=1e-6)], steps=2, progress=False)
    plan.report(tmp_path, small=True)
    plan.save(tmp_path)
    simulate("beams").report(tmp_path, small=True)
    np.testing.assert_array_equal(pl.Plan.load(tmp_path, model).states, plan.states)
    with pytest.raises(InputError, match=r"plan.json was not written by a run.*Rename it"):
        plan.report(tmp_path, small=True)
    assert json.loads((tmp_path / "result.json").read_text())["name"] == "rod simulation"


def test_report_into_a_file_raises(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="results need a folder"):
        simulate("beams").report(tmp_path / "taken")


@pytest.mark.parametrize(
    ("folder", "title", "message"),
    [
        (None, None, "result folder is 'None'"),
        (3, None, "result folder is '3'"),
        ("out", 3, "title of a report is '3'"),
    ],
)
def test_wrong_folder_or_title_of_a_report_raises(folder, title, message) -> None:
    with pytest.raises(InputError, match=message):
        simulate("beams").report(folder, title=title)


def test_robot_and_simulation_have_a_picture_and_metrics_in_a_notebook() -> None:
    for result in (BAR, simulate("beams")):
        html = result._repr_html_()
        assert "data:image/png;base64," in html
        assert "<table>" in html
        assert len(repr(result)) < 300
