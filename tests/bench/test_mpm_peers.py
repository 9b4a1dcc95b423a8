"""The peers of `bench mpm` compute the same substep.

C++ is compared with plain NumPy and finite differences, Taichi and Warp with C++.
"""

from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from shutil import which

import numba
import numpy as np
import pytest

from pliant.bench.mpm import run_ours
from pliant.bench.mpm_scene import make_scene
from pliant.bench.peers import mpm_cpp
from pliant.bench.peers.mpm_cpp import run_with_cpp
from pliant.bench.peers.mpm_taichi import run_with_taichi
from pliant.bench.peers.mpm_warp import run_with_warp
from pliant.core import InputError, MissingExtra, StepError

compiled = pytest.mark.skipif(which("g++") is None, reason="no C++ compiler g++")
both = pytest.mark.parametrize("name", ["2d", "3d"])


def needs(package):
    return pytest.mark.skipif(
        find_spec(package) is None,
        reason=f"{package} is not installed (pip install 'pliant[bench]')",
    )


def plain_substep(scene, x, v, C, F):
    """Compute steps A1 to A8 of the paper with the first Piola-Kirchhoff stress P on a dense
    grid."""
    h, tau, dim = scene.cell, scene.tau, scene.dim
    base = np.floor(x / h - 0.5).astype(int)
    f = x / h - base
    w = np.stack([0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2])
    H = np.linalg.inv(F).swapaxes(1, 2)
    J = np.linalg.det(F)
    P = scene.mu[:, None, None] * (F - H) + (scene.lam * np.log(J))[:, None, None] * H
    G = (
        -tau * 4 / h**2 * scene.volume[:, None, None] * (P @ F.swapaxes(1, 2))
        + scene.mass[:, None, None] * C
    )
    mass, momentum = np.zeros(scene.shape), np.zeros((*scene.shape, dim))
    nodes = []
    for o in product(range(3), repeat=dim):
        weight = np.prod([w[o[a], :, a] for a in range(dim)], axis=0)
        d = (base + o) * h - x
        at = tuple((base + o - scene.origin).T)
        np.add.at(mass, at, weight * scene.mass)
        np.add.at(
            momentum,
            at,
            weight[:, None] * (scene.mass[:, None] * v + np.einsum("pij,pj->pi", G, d)),
        )
        nodes.append((weight, d, at))
    u = (
        np.divide(momentum, mass[..., None], out=np.zeros_like(momentum), where=mass[..., None] > 0)
        + tau * scene.gravity
    )
    low = (np.arange(scene.shape[-1]) + scene.origin[-1]) * h <= scene.floor
    u[..., low, -1] = np.maximum(u[..., low, -1], 0.0)
    v = sum(weight[:, None] * u[at] for weight, _, at in nodes)
    C = 4 / h**2 * sum(np.einsum("p,pi,pj->pij", weight, u[at], d) for weight, d, at in nodes)
    return x + tau * v, v, C, F + tau * C @ F


@pytest.mark.parametrize(("name", "count", "a_cell"), [("2d", 12_800, 4), ("3d", 84_375, 8)])
def test_scene_is_a_block_of_whole_cells_inside_its_grid(name, count, a_cell):
    scene = make_scene(name)
    assert len(scene.x) == count
    assert 0.9 < np.ptp(scene.x[:, 0]) < 1.0
    assert scene.volume * a_cell == pytest.approx(scene.cell**scene.dim)
    base = np.floor(scene.x / scene.cell - 0.5) - scene.origin
    assert base.min() >= 1
    assert (base + 3 < scene.shape).all()
    np.testing.assert_allclose(
        scene.v - scene.v.mean(axis=0),
        np.einsum("pij,pj->pi", scene.C, scene.x - scene.x.mean(axis=0)),
        atol=1e-12,
    )


@compiled
@both
def test_cpp_substeps_match_plain_numpy(name):
    scene = make_scene(name, small=True)
    state = scene.x, scene.v, scene.C, scene.F
    for _ in range(scene.substeps):
        state = plain_substep(scene, *state)
    run = run_with_cpp(scene, repeats=1)
    np.testing.assert_allclose(run.positions, state[0], rtol=0, atol=1e-14)
    assert run.loss == pytest.approx(np.sum(scene.weights * state[0]), abs=1e-12)
    assert np.abs(np.linalg.det(state[3]) - 1).max() > 0.01  # the stress has an effect
    free = run_with_cpp(replace(scene, floor=-10.0), repeats=1)
    assert (
        np.abs(free.gradient - run.gradient).max() > 0.02 * np.abs(run.gradient).max()
    )  # the floor has an effect


@compiled
@both
def test_cpp_adjoint_matches_finite_differences(name, rng):
    scene = make_scene(name, small=True)
    run = run_with_cpp(scene, repeats=1)
    # the loss is nearly linear in v, so round-off limits the accuracy, not the step size
    e = 1e-3

    def slope(direction):
        above, below = (
            run_with_cpp(replace(scene, v=scene.v + s * e * direction), repeats=1).loss
            for s in (1, -1)
        )
        return (above - below) / (2 * e)

    largest = np.abs(run.gradient).max()
    for p, a in zip(
        rng.integers(len(scene.x), size=60), rng.integers(scene.dim, size=60), strict=True
    ):
        one = np.zeros_like(scene.v)
        one[p, a] = 1.0
        assert slope(one) == pytest.approx(run.gradient[p, a], abs=1e-7 * largest)
    for _ in range(5):
        all_at_once = 0.1 * rng.standard_normal(scene.v.shape)
        assert slope(all_at_once) == pytest.approx(
            np.sum(run.gradient * all_at_once), abs=1e-6 * largest
        )


@compiled
@both
def test_cpp_with_two_threads_matches_one_thread(name):
    scene = make_scene(name, small=True)
    agree(run_with_cpp(scene, threads=2, repeats=1), run_with_cpp(scene, repeats=1))


@compiled
@needs("taichi")
@pytest.mark.parametrize(
    ("name", "threads"), [("2d", 1), ("2d", 2), ("3d", 1)]
)  # the adjoint in 3D takes Taichi a minute to compile
def test_taichi_agrees_with_cpp(name, threads):
    scene = make_scene(name, small=True)
    agree(run_with_taichi(scene, threads=threads, repeats=2), run_with_cpp(scene, repeats=1))


@compiled
@needs("warp")
@both
def test_warp_agrees_with_cpp(name):
    scene = make_scene(name, small=True)
    agree(run_with_warp(scene, repeats=2), run_with_cpp(scene, repeats=1))


def agree(run, other):
    np.testing.assert_allclose(run.positions, other.positions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        run.gradient, other.gradient, rtol=0, atol=1e-7 * np.abs(other.gradient).max()
    )
    assert run.loss == pytest.approx(other.loss, abs=1e-9)
    assert min(run.in_place.min(), run.forward.min(), run.backward.min()) > 0


@compiled
@both
@pytest.mark.parametrize("threads", [1, 2])
def test_material_point_matches_cpp(name, threads):
    if threads > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one core")
    scene, before = make_scene(name, small=True), numba.get_num_threads()
    try:
        agree(run_ours(scene, threads=threads, repeats=1), run_with_cpp(scene, repeats=1))
    finally:
        numba.set_num_threads(before)


@both
def test_single_precision_and_total_transfer_fall_as_the_updated_one(name):
    # few substeps, because the floor acts on nodes of one grid before it acts on those of the other
    scene = make_scene(name, small=True, substeps=4)
    mine = run_ours(scene, repeats=1)
    path = np.abs(mine.positions - scene.x).max()
    for variant, limit in (("Pliant, float32", 1e-4), ("Pliant, total", 0.05)):
        other = run_ours(scene, name=variant, repeats=1)
        difference = np.abs(other.positions - mine.positions).max()
        assert 0.0 < difference < limit * path, variant
        assert min(other.forward.min(), other.backward.min()) > 0.0


@compiled
def test_particle_outside_the_grid_raises_step_error():
    scene = make_scene("2d", small=True)
    with pytest.raises(StepError, match="left the grid in substep 1 of 20"):
        run_with_cpp(replace(scene, v=scene.v + 1e4), repeats=1)
    with pytest.raises(StepError, match="left the grid in substep 1 of 20"):
        run_with_cpp(replace(scene, F=np.nan * scene.F), repeats=1)


def test_invalid_scenes_and_missing_peers_raise(monkeypatch):
    scene = make_scene("2d", small=True)
    with pytest.raises(InputError, match="no scene '4d'"):
        make_scene("4d")
    with pytest.raises(InputError, match="number of substeps is 0"):
        make_scene("2d", substeps=0)
    with pytest.raises(InputError, match="threads is 0"):
        run_with_cpp(scene, threads=0)
    with pytest.raises(InputError, match="one thread"):
        run_with_warp(scene, threads=2)
    monkeypatch.setattr("pliant.bench.peers.mpm_run.find_spec", lambda package: None)
    with pytest.raises(
        MissingExtra, match=r"Taichi is not installed. Run: pip install 'pliant\[bench\]'"
    ):
        run_with_taichi(scene)
    monkeypatch.setattr(mpm_cpp, "which", lambda program: None)
    mpm_cpp._compile.cache_clear()
    with pytest.raises(MissingExtra, match="apt-get install"):
        run_with_cpp(scene)
