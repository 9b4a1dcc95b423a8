"""The guide to extending Pliant: every example runs and its physics is correct."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import fsolve

import pliant as pl
from pliant.bodies import Body, SemiImplicitBody, missing_members

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "extending.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return the names that the code blocks of the page define."""
    found: dict = {"__name__": "extending"}
    folder = tmp_path_factory.mktemp("extending")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
            exec(block, found)
    finally:
        os.chdir(before)
    return {**found, "folder": folder}


@pytest.mark.parametrize("which", ["material_checks", "actuator_checks", "body_checks"])
def test_every_derivative_of_an_example_passes_gradcheck(names, which):
    assert names[which]
    assert all(check.ok for check in names[which]), names[which]


def test_added_law_gives_the_uniaxial_stretch(names):
    """Homogeneous tension: P11 = traction and P22 = 0, with the stresses of both laws added."""
    law, material, traction = names["YeohTerm"](C2=1e4), pl.Material(E=1e5, nu=0.45), 3e4

    def stress(stretches):
        F = np.diag([stretches[0], stretches[1], stretches[1]])
        return np.diag(material.stress(F) + law.stress(F[None])[0])

    along, across = fsolve(lambda s: stress(s)[:2] - (traction, 0.0), (1.2, 0.9), xtol=1e-13)
    robot = pl.Robot(
        shape=pl.Box(size=(0.1, 0.02, 0.02)),
        divisions=(2, 1, 1),
        material=material,
        supports=[pl.Support(region=f"{axis}-", axes=axis) for axis in "xyz"],
        loads=[pl.SurfaceLoad(surface="x+", traction=(traction, 0.0, 0.0))],
        actuators={"yeoh": pl.actuators.AddedElasticity(law=law)},
    )
    x = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0)).x.reshape(-1, 3)
    np.testing.assert_allclose(x.max(axis=0) / (0.1, 0.02, 0.02), (along, across, across), 1e-8)


def test_added_law_stiffens_the_bar(names):
    soft = pl.Quasistatic(names["bar"](C2=0.0))
    free = soft.effector("tip", pl.equilibrium(soft, np.zeros(0)).x)[0, 0] / 0.1
    assert 1.2 < names["stretch"] < free


def test_added_law_without_a_solid_is_rejected(names):
    law = pl.actuators.AddedElasticity(law=names["YeohTerm"](C2=1e4))
    robot = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]]), actuators={"yeoh": law})
    with pytest.raises(pl.InputError, match="deformation gradient"):
        pl.ImplicitEuler(robot, dt=0.01)


def test_magnet_bends_the_finger_like_a_cantilever(names):
    """A small current: deflection F L^3 / (3 E I) with F = u k / r^2."""
    model = pl.Quasistatic(names["finger"])
    u = 0.01
    x = pl.equilibrium(model, np.array([u])).x
    inertia = 0.01**4 / 12.0
    expected = u * 2e-6 / 0.04**2 * 0.1**3 / (3.0 * 1e5 * inertia)
    assert model.effector("tip", x)[0, 2] - 0.01 == pytest.approx(expected, rel=0.05)


def test_magnet_names_its_control(names):
    (control,) = names["finger"].controls
    assert (control.name, control.unit) == ("coil", "A")


def test_spring_network_implements_exactly_the_body_protocol(names):
    assert missing_members(names["chain"], Body) == []
    assert len(missing_members(object(), Body)) == 17
    assert "stiffness_times" in missing_members(names["chain"], SemiImplicitBody)
    semi_implicit = pl.SemiImplicit(names["hanging"], dt=0.01)
    with pytest.raises(pl.InputError, match="stiffness_times"):
        semi_implicit.step(semi_implicit.initial_state(), np.zeros(0))


def test_spring_network_hangs_in_its_equilibrium(names):
    """Two springs in series carry 2 m g and m g."""
    assert names["sag"] == pytest.approx(3.0 * 0.05 * 9.81 / 200.0, rel=1e-3)


def test_planner_lowers_the_cost_but_not_below_the_optimum(names):
    assert names["exact"].cost <= names["plan"].cost < 0.05 * names["first"]
    assert names["plan"].method == "cross_entropy"
    costs = [row.cost for row in names["plan"].history]
    assert costs[0] == pytest.approx(names["first"])
    assert costs[-1] < 0.1 * costs[0]
    replayed = names["plan"].replay(names["problem"].model, names["problem"])
    assert replayed == names["plan"].cost


def test_planner_function_gets_its_keywords_only(names):
    with pytest.raises(pl.InputError, match=r"cross_entropy.*sample"):
        pl.plan(names["problem"], method=names["cross_entropy"], sample=3)


def test_planner_function_gets_constraints_as_augmented_lagrangian(names):
    problem = names["problem"]

    def short(problem, *, guess, options):
        options = replace(options, iterations=15)
        return names["cross_entropy"](problem, guess=guess, options=options, spread=0.3)

    zone = pl.keep_out("puck", pl.sphere(centre=(0.1, 0.05), radius=0.02))
    kept = pl.plan(
        problem.model,
        problem.terms,
        steps=problem.steps,
        constraints=[zone],
        method=short,
        rounds=6,
    )
    assert kept.constraint_violation < 0.1 * 0.02


def test_experiment_writes_a_report_and_matches_free_fall(names):
    folder = names["folder"] / "stone-drop"
    result = json.loads((folder / "result.json").read_text())
    assert (result["name"], result["status"]) == ("stone-drop", "done")
    assert result["metrics"]["maximum height error"]["value"] < 1e-12
    assert "Height" in (folder / "report.html").read_text()
