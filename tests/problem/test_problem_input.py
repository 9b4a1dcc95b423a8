"""Arguments of planning problems and plans that are easily confused."""

import pytest

import pliant as pl

BAR = pl.Robot(
    shape=pl.Box(size=(0.1, 0.02, 0.02)),
    material=pl.Material(E=1e5, nu=0.3),
    supports=[pl.Support(region="x-")],
    actuators={"top": pl.Cable(points=[(0.0, 0.01, 0.018), (0.1, 0.01, 0.018)], limits=(0.0, 5.0))},
    effectors={"tip": pl.Effector(point=(0.1, 0.01, 0.01))},
    divisions=(2, 1, 1),
    order=1,
)


def test_limit_among_terms_is_rejected_and_correct_argument_is_named():
    goal = pl.Goal(effector="tip", target=(0.1, 0.01, 0.02), time=0.02)
    with pytest.raises(pl.InputError, match=r"limits=\[\.\.\.\]"):
        pl.plan(pl.ImplicitEuler(BAR, dt=0.01), [goal, pl.Limit(upper=1.0)], steps=2)


def test_loading_a_plan_with_a_robot_instead_of_a_model_is_rejected(tmp_path):
    with pytest.raises(pl.InputError, match="ImplicitEuler"):
        pl.Plan.load(tmp_path, model=BAR)
