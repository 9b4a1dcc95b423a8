"""The fluid benchmark: embree's independent ray casting gives the same columns; the report."""

import sys

import numpy as np
import pytest

from pliant.bench import bench
from pliant.bench.fluid import report, speedup_note
from pliant.bench.peers.embree import weigh_with_embree
from pliant.core import MissingExtra
from pliant.geometry import hare_surface, icosphere
from pliant.hydrostatics import column_weights


@pytest.mark.parametrize(
    ("wall", "grid"),
    [(icosphere(0.01, subdivisions=3), 37), (hare_surface(0.02, divisions=20), 60)],
)
def test_embree_columns_have_the_same_weight(wall, grid):
    theirs = weigh_with_embree(wall, grid, density=1000.0, g=9.81)
    ours = column_weights(
        wall.points, wall.triangles, grid=grid, density=1000.0, gravity=(0.0, 0.0, -9.81)
    )
    assert theirs.unmatched == 0
    assert theirs.volume == pytest.approx(ours.volume, rel=1e-9)
    np.testing.assert_allclose(theirs.weights, ours.weights, atol=1e-9 * ours.weights.max())


def test_missing_embree_error_names_install_command(monkeypatch):
    for name in ("embreex", "trimesh.ray.ray_pyembree"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[bench\]'"):
        weigh_with_embree(icosphere(0.01, subdivisions=1), 5, density=1000.0, g=9.81)


def numbers(**changes):
    row = {
        "grid": 200,
        "error": 1e-5,
        "columns": {"1": 2.0, "2": 1.0},
        "embree": {
            "build": 10.0,
            "cast": 40.0,
            "distribute": 10.0,
            "total": 60.0,
            "difference": 1e-14,
            "unmatched": 0,
        },
    }
    return [
        {
            "wall": "sphere",
            "triangles": 5120,
            "volume": 4e-6,
            "exact": {"1": 0.05, "2": 0.04},
            "grids": [{**row, **changes}],
        }
    ]


def test_report_contains_ratios():
    found = report(numbers())
    (_, columns, ours), (_, peer_columns, peers) = found.tables
    assert ours[0][-1] == "40.0x"
    assert peers[0][5:7] == ["30.0x", "25.0x"]
    assert {len(columns)} == {len(row) for row in ours}
    assert {len(peer_columns)} == {len(row) for row in peers}
    assert "40x faster than the columns" in speedup_note(numbers()[0])
    assert "30x faster than embree" in speedup_note(numbers()[0])


def test_report_names_missing_peer():
    found = numbers(missing="Get embree.")
    del found[0]["grids"][0]["embree"]
    assert report(found).notes[0] == "Get embree."
    assert report(found).tables[1][2] == []


def test_benchmark_runs():
    walls = bench("fluid", quick=True).numbers
    assert [wall["wall"] for wall in walls] == ["sphere", "hare"]
    assert [row["grid"] for row in walls[0]["grids"]] == [30, 50, 100, 200]
    for wall in walls:
        assert abs(wall["grids"][-1]["error"]) < 1e-3
        assert all(row["embree"]["difference"] < 1e-9 for row in wall["grids"] if "embree" in row)
