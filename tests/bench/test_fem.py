"""The FEM benchmark: scikit-fem, an independent implementation, computes the same states."""

import numpy as np
import pytest

import pliant as pl
from pliant import linalg
from pliant.bench import bench
from pliant.bench.peers.fem_case import Case
from pliant.bench.peers.skfem import step_with_skfem


@pytest.mark.parametrize(
    ("ours", "theirs"), [("fixed-corotated", "corotated"), ("neo-hookean", "neo-hookean")]
)
def test_scikit_fem_steps_to_the_same_positions(ours, theirs):
    mesh = pl.Box(size=(0.04, 0.04, 0.2)).mesh(divisions=(2, 2, 6))
    gravity = np.array([-9.81, 0.0, 0.0])
    case = Case(
        points=mesh.points,
        cells=mesh.cells,
        clamped=mesh.points[:, 2] == 0.0,
        young=1e5,
        poisson=0.4,
        density=1000.0,
        gravity=gravity,
        dt=0.01,
    )
    arm = pl.Robot(
        shape=mesh,
        order=1,
        material=pl.Material(E=1e5, nu=0.4, law=ours),
        supports=[pl.Support(region="z-")],
        gravity=gravity,
    )
    model = pl.ImplicitEuler(arm, dt=0.01)
    places = model.space.position(pl.simulate(model, np.zeros((8, 0))).states[-1]).reshape(-1, 3)
    moved = np.abs(places - mesh.points).max()
    assert moved > 0.01
    # scikit-fem stops at 1e-8 of the weight, ours at 1e-10 of the largest force.
    np.testing.assert_allclose(
        step_with_skfem(case, steps=8, law=theirs).positions, places, atol=1e-7 * moved
    )


def test_benchmark_reports_ratios_and_missing_peers():
    report = bench("fem", quick=True)
    (ours,) = report.numbers
    assert ours["vertices"] == 525
    assert ours["ours"]["factorisations"] <= ours["ours"]["evaluations"]
    assert ours["scikit-fem corotated"]["difference"] < 1e-7
    assert ours["bare loop"]["difference"] < 1e-12
    assert {row[1] for row in report.tables[2][2]} == set(linalg.available_solvers())
    assert [row[1] for row in report.tables[2][2] if row[-1] == "chosen"] == [
        ours["ours"]["solver"]
    ]
    rows = report.tables[1][2]
    assert any("scikit-fem" in row[1] and row[5].endswith("x") for row in rows)
    assert "missing" not in ours["drake corotated"] or any(
        "pliant[bench]" in note for note in report.notes
    )
