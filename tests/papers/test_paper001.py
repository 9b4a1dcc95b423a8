"""`pliant papers 001`: figures and metrics for a small task instead of those of the paper."""

import numpy as np

import pliant as pl
from pliant.papers import paper001
from pliant.zoo.condensed_tasks import ReachTask
from pliant.zoo.experiment import Experiment


def small(settings):
    """Return the task of a short bar with a cable on two sides: the tip moves sideways and
    stops."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.04, 0.04, 0.12)),
        divisions=(1, 1, 4),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=[pl.Support(region="z-")],
        damping=pl.Damping(mass=5.0, stiffness=0.03),
        actuators={
            name: pl.Cable(points=[[x, 0.02, z] for z in (0.0, 0.06, 0.12)], limits=(0.0, 8.0))
            for name, x in (("left", 0.0), ("right", 0.04))
        },
        effectors={"tip": pl.Effector(point=(0.02, 0.02, 0.12))},
    )
    start = np.array([0.02, 0.02, 0.12])
    goal = robot.effector_position(
        "tip", pl.equilibrium(pl.Quasistatic(robot), np.array([0.0, 3.0])).x
    )
    return ReachTask(
        robot=robot,
        dt=0.01,
        steps=16,
        times=[0.16],
        paths={"tip": pl.paths.minimum_jerk([0.0, 0.16], [start, goal], pause=0.06)},
    )


def test_every_figure_has_plots_and_every_method_has_metrics(tmp_path, monkeypatch):
    settings = {"derivatives": "linear", "search": "line", "iterations": 60}
    experiment = Experiment(
        name="small",
        shows="",
        size="",
        takes="",
        perform=lambda run: None,
        probe=lambda s: (),
        settings=settings,
    )
    monkeypatch.setattr(
        paper001,
        "FIGURES",
        {
            "diamond-two-goals": ("Fig. 4", small),
            "liandford-spiral": ("Fig. 6", small),
            "stiff-flop-tip": ("Fig. 5", small),
        },
    )
    monkeypatch.setattr(paper001, "find", lambda name: experiment)
    result = paper001.reproduce(tmp_path, quick=True, progress=lambda what, done, total: None)
    assert result["status"] == "done"
    metrics = result["metrics"]
    assert metrics["diamond-two-goals, linear: largest goal error"]["value"] <= 0.01
    assert metrics["stiff-flop-tip, linear: prediction error of the condensed step"]["value"] < 1e-8
    assert metrics["liandford-spiral, goals reached"]["value"] is True
    page = (tmp_path / "report.html").read_text()
    for title in (
        "Fig. 4: tip: x",
        "Fig. 4: tip: velocity along z",
        "Fig. 6: spiral",
        "Fig. 5: Controls",
    ):
        assert title in page
