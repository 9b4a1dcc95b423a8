"""The swimmer benchmark: Capytaine and Pliant agree, Lamb's integrals, the report."""

import sys

import numpy as np
import pytest

from pliant.bench import bench
from pliant.bench.peers.capytaine import added_mass_with_capytaine
from pliant.bench.peers.mujoco_swimmer import mujoco_steps
from pliant.bench.swimmer import lamb_added_masses, report
from pliant.core import MissingExtra
from pliant.geometry.surface_shapes import geodesic
from pliant.swimming import ClosedSurface, Placement, PotentialFlow


def test_capytaine_and_pliant_agree_on_the_same_triangles():
    pytest.importorskip("capytaine")
    points, triangles = geodesic(4)
    shape = ClosedSurface(points=points * (2.0, 1.0, 0.8), triangles=triangles)
    flow = PotentialFlow(shapes=(shape,), fluid_density=1000.0)
    ours = flow.solve(Placement.single()).added_mass
    middles = shape.corners.mean(axis=1)
    translations = np.eye(3)[:, None] * np.ones((len(middles), 1))
    rotations = np.cross(np.eye(3)[:, None], middles)
    theirs = added_mass_with_capytaine(
        shape.corners, np.concatenate([translations, rotations]), 1000.0
    )()
    np.testing.assert_allclose(np.diag(theirs), np.diag(ours), rtol=2e-3)


def test_missing_capytaine_error_names_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "capytaine", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[bench\]'"):
        added_mass_with_capytaine(np.zeros((1, 3, 3)), np.zeros((6, 1, 3)), 1000.0)


def test_lamb_integrals_have_the_limits_of_sphere_and_needle():
    np.testing.assert_allclose(lamb_added_masses((2.0, 2.0, 2.0))[:3], 0.5, rtol=1e-8)
    needle = lamb_added_masses((1000.0, 1.0, 1.0))
    np.testing.assert_allclose(needle[:3], [0.0, 1.0, 1.0], atol=1e-4)


def numbers(**changes):
    times = {"1": 70.0, "2": 40.0}
    flow = {
        "points": 1412,
        "triangles": 1280,
        "added mass": times,
        "with derivative": {"1": 84.0, "2": 48.0},
        "added mass of triangles": times,
        "difference of triangles": 0.01,
        "capytaine": 700.0,
        "difference of capytaine": 0.07,
    }
    error = {"translation": 1e-3, "rotation": 0.0}
    accuracy = [{"axes": "1 : 1 : 1", "points": error, "triangles": error}]
    return {"flow": flow | changes, "accuracy": accuracy}


def test_report_compares_times_and_errors():
    found = report(numbers())
    assert found.tables[0][2][-1] == [
        "Capytaine",
        "1,280 triangles",
        "added mass",
        "700",
        "",
        "7.0e-02",
    ]
    assert found.tables[1][2] == [["1 : 1 : 1", "0.100", "", "0.100", "", "", ""]]
    text = " ".join(found.notes)
    assert "40 ms on two threads" in text
    assert "20% more" in text
    assert "1/10.0 of Capytaine's time" in text


def test_report_without_capytaine_tells_why():
    found = numbers(missing="Capytaine is not installed.")
    del found["flow"]["capytaine"], found["flow"]["difference of capytaine"]
    assert "Capytaine is not installed." in report(found).notes
    assert len(report({"accuracy": found["accuracy"]}).tables) == 1


STEPS = {
    "batch": 64,
    "model": {
        "rk4": {"single": 35.0, "Jacobian": 440.0, "batch, 1": 20.0, "batch, 2": 11.0},
        "euler": {"single": 21.0, "Jacobian": 190.0, "batch, 1": 7.0, "batch, 2": 4.0},
    },
    "environments": {
        "Pliant": {"single": 6273.0, "batch": 11757.0},
        "MuJoCo": {"single": 8841.0, "batch": 3380.0},
    },
    "mujoco": {"dt": 0.04, "substeps": 4},
}


def test_report_compares_environment_steps_with_mujoco():
    found = report({"steps": STEPS})
    assert found.tables[0][2][0] == ["rk4", "35", "475", "20", "11"]
    assert found.tables[1][2] == [["Pliant", "6,273", "11,757"], ["MuJoCo", "8,841", "3,380"]]
    text = " ".join(found.notes)
    assert "takes 35 us with the fourth-order rule (required: 30 us)" in text
    assert "three links, drag, 4 steps for 0.04 s" in text


def test_report_without_mujoco_tells_why():
    found = report({"steps": {**STEPS, "missing": "MuJoCo is not installed."}})
    assert "MuJoCo is not installed." in found.notes


def test_missing_mujoco_error_names_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[bench\]'"):
        mujoco_steps(1, 1)


def test_bench_runs_in_its_own_process():
    pytest.importorskip("capytaine")
    pytest.importorskip("gymnasium")
    found = bench("swimmer", quick=True)
    rates = found.numbers["steps"]["environments"]["Pliant"]
    assert rates["single"] > 0.0
    assert rates["batch"] > 0.0
    assert found.numbers["flow"]["points"] == 1412
    for row in found.numbers["accuracy"]:
        assert row["points"]["translation"] < 1e-3
