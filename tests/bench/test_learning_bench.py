"""The walker of `bench learning`: its gradient is correct, and Taichi computes the same one."""

import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from pliant.bench.learning import (
    LIBRARIES,
    PRECISIONS,
    TOLERANCES,
    differences,
    make_scene,
    measure,
    report,
    run_pliant,
)
from pliant.bench.peers import walker_taichi
from pliant.bench.walker_scene import CHAMBERS, WalkerScene
from pliant.core import InputError, MissingExtra
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.zoo.robots.block_walkers import PRESSURE

needs_taichi = pytest.mark.skipif(
    find_spec("taichi") is None,
    reason="taichi is not installed (pip install 'pliant[bench]')",
)


def test_walker_has_the_particles_and_the_network_of_the_paper():
    scene = make_scene(quick=False)
    assert (len(scene.positions), scene.steps) == (12_800, 200)
    assert scene.network.sizes == (32, 64, 64, 4)
    assert scene.volumes.sum() == pytest.approx(0.05)
    corners = np.array([scene.positions.min(axis=0), scene.positions.max(axis=0)])
    np.testing.assert_allclose(corners, [[0.0, 0.0], [0.3, 0.2]], atol=0.002)


def test_model_of_the_walker_has_its_particles_and_chambers():
    scene = make_scene(quick=True)
    model = scene.model()
    np.testing.assert_array_equal(model.body.rest.reshape(-1, 2), scene.positions)
    each = scene.count**2
    for ((particles, stress), _), g in zip(model.stresses, CHAMBERS, strict=True):
        np.testing.assert_array_equal(particles, np.arange(g * each, (g + 1) * each))
        np.testing.assert_array_equal(stress, -np.eye(2))
    at_start = scene.observer(model).observe(model.initial_state())
    np.testing.assert_allclose(at_start, 0.0, atol=1e-14)


def test_gradient_over_200_steps_matches_differences(rng):
    """With contact, friction and a network in the loop, at 128 particles."""
    scene = WalkerScene(count=4, steps=200, tau=2e-3)
    run = run_pliant(scene, precision="float64", repeats=0)
    loop = scene.loop()
    episodes = LoopEpisodes.draw(loop, scene.task(), count=1, seed=0)
    w = loop.controller.params.flat
    pressures = episodes.run(w, episodes.starts[0]).controls
    assert np.ptp(pressures, axis=0).min() > 0.02 * PRESSURE  # the loop is closed
    for _ in range(2):
        direction = rng.standard_normal(w.size)
        above, below = (episodes.performance(w + e * direction).cost for e in (1e-5, -1e-5))
        assert np.dot(run.gradient, direction) == pytest.approx((above - below) / 2e-5, rel=1e-6)


def test_float32_agrees_with_float64():
    scene = replace(make_scene(quick=True), steps=5)
    double, single = (
        run_pliant(scene, precision=name, repeats=0).numbers() for name in ("float64", "float32")
    )
    found = differences(single, double)
    assert 1e-12 < found["gradient difference"] < TOLERANCES["float32"]


def test_wrong_scenes_and_missing_taichi_are_refused(monkeypatch):
    with pytest.raises(InputError, match="5 particles along a group"):
        WalkerScene(count=5)
    scene = make_scene(quick=True)
    run = lambda segment: walker_taichi.run_walker_with_taichi(
        scene, precision="float64", repeats=0, segment=segment
    )
    with pytest.raises(InputError, match="segments of 3 steps"):
        run(3)
    monkeypatch.setitem(sys.modules, "taichi", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[bench\]'"):
        run(1)


def test_report_shows_ratios_and_what_is_missing():
    run = {"loss": 1.0, "seconds": [2.0, 1.0, 3.0], "gigabytes": 0.5}
    cases = [
        {"library": "pliant", "precision": "float64", "name": "Pliant", **run},
        {"library": "taichi", "precision": "float64", "name": "Taichi", **run}
        | {"seconds": [7.0], "loss difference": 1e-12, "gradient difference": 3e-10},
        {"library": "taichi", "precision": "float32", "missing": "Taichi is not installed."},
    ]
    sizes = {"particles": 12800, "steps": 200, "substeps": 10, "weights": 6000, "compared steps": 5}
    found = report({**sizes, "cases": cases})
    ((_, columns, rows),) = found.tables
    assert [row[3] for row in rows] == ["1.00x", "3.50x"]
    assert rows[1][-2:] == ["1e-12", "3e-10"]
    assert len(columns) == len(rows[0])
    assert "Taichi is not installed." in found.notes


@needs_taichi
def test_quick_benchmark_agrees_with_taichi():
    numbers = measure(quick=True)
    assert [case["library"] for case in numbers["cases"]] == len(PRECISIONS) * list(LIBRARIES)
    for case in numbers["cases"]:
        assert min(case["seconds"]) > 0.0
    for precision in PRECISIONS:
        _, *peers = (c for c in numbers["cases"] if c["precision"] == precision)
        for peer in peers:
            assert peer["loss difference"] < TOLERANCES[precision]
            assert peer["gradient difference"] < TOLERANCES[precision]
