"""`pliant papers 002`: weights of the heat maps, accuracy of the merged constraint, and a small
run."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Hydraulic
from pliant.geometry import hare_surface, icosphere
from pliant.papers import panels, paper002
from pliant.zoo.registry import find

SMALL = {
    "fluid-sphere": {"max_grid": 50, "repeats": 1, "frames": 2},
    "fluid-bunny-like": {"max_grid": 50, "repeats": 1, "frames": 2},
    "cylinder-air-water": {"stages": 2, "grid": 60, "order": 1},
    "finger-hydraulic": {"filling_stages": 5, "transition_steps": 1},
    "finger-mixed": {"filling_stages": 5, "transition_steps": 1},
    "pendulum-hydraulic": {"transition_steps": 1},
}


def small(name):
    experiment = find(name)
    return replace(experiment, quick={**experiment.quick, **SMALL[name]})


@pytest.mark.parametrize("surface", [icosphere(0.01), hare_surface(0.02, divisions=20)])
def test_every_heat_map_of_figure_3_has_the_weight_of_the_water(surface):
    weight = 1000.0 * 9.81 * surface.volume()
    columns = paper002.column_weight_maps(surface).sum(axis=1)
    np.testing.assert_allclose(columns, weight, rtol=2e-3)
    assert np.all(np.abs(columns[2:] / weight - 1.0) < 1e-4)
    assert (
        paper002.exact_force_map(surface).sum() > 1.2 * weight
    )  # forces on opposite walls cancel, so their magnitudes sum to more
    shown = paper002.heat_map(surface, paper002.column_weight_maps(surface))
    assert shown.values.shape == (4, len(surface.points))


def test_merged_constraint_is_close_to_true_response_and_pressure_alone_is_not():
    robot = paper002.cylinder.cylinder(
        {**find("cylinder-air-water").resolve_settings(quick=True), "order": 1}, "water"
    )
    model = pl.Quasistatic(
        replace(robot, actuators={"pump": Hydraulic(cavity="cavity", limits=(-1e5, 1e5))}),
        solver_options=pl.SolverOptions(tolerance=1e-12),
    )
    u, h = np.array([1000.0]), 1.0
    middle = pl.equilibrium(model, u).x
    ahead, behind = (pl.equilibrium(model, u + side * h, x0=middle).x for side in (1.0, -1.0))
    true = ((ahead - behind) / (2 * h))[model.equations.free]
    exact, merged, alone = (
        np.linalg.norm(way - true) / np.linalg.norm(true) for way in paper002.responses(model, u)
    )
    assert exact < 1e-5
    assert merged < 0.1
    assert alone > 3 * merged


def test_panels_have_equal_size_and_contain_every_image(tmp_path):
    picture = np.full((100, 160, 3), 255, np.uint8)
    first, second = picture.copy(), picture.copy()
    first[40:50, 60:70], second[30:35, 80:90] = 0, 100
    cut = panels.trimmed([first, second])
    assert cut[0].shape == cut[1].shape == (20 + 2 * panels.PAD - 1, 30 + 2 * panels.PAD - 1, 3)
    assert [int((p < 255).any(axis=2).sum()) for p in cut] == [100, 50]
    path = panels.write_panels(
        tmp_path / "figure.png", [[first, second], [first]], [["a", "b"], ["c"]]
    )
    assert path.read_bytes().startswith(b"\x89PNG")


def test_small_run_writes_the_table_and_all_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(paper002, "find", small)
    monkeypatch.setattr(
        paper002,
        "pictures",
        lambda scene, *, targets=None, size=None: panels.pictures(
            scene, targets=targets, size=(160, 120)
        ),
    )
    result = paper002.reproduce(tmp_path, quick=True, progress=lambda what, done, total: None)
    metrics = result["metrics"]
    assert result["status"] == "done"
    assert metrics["Table I, sphere: volume, 50 x 50 columns"]["value"] == pytest.approx(
        4.1828, abs=1e-4
    )
    assert metrics["Table I, sphere: volume, 50 x 50 columns"]["paper"] == 4.1828
    assert metrics["Table I, bunny: computing time, 30 x 30 columns"]["paper"] == 3.97
    assert (
        metrics["Fig. 4, tip angle, water, at rest"]["value"]
        > metrics["Fig. 4, tip angle, air, at rest"]["value"]
    )
    assert metrics["Fig. 5, air, high: error within tolerance"]["value"] is True
    assert metrics["Fig. 5, water, high: error within tolerance"]["value"] is False
    assert metrics["Fig. 6, extended: error within tolerance"]["value"] is True
    assert metrics["Future work, water and cables, high: error within tolerance"]["value"] is True
    page = (tmp_path / "report.html").read_text()
    for name in ("fig-3", "fig-4", "fig-5", "fig-6"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert f'alt="{name}"' in page
