"""The grid: node weights, bins, transfers between particles and nodes, and boundary conditions."""

import numpy as np
import pytest

from pliant.mpm.grid import (
    SEPARATE,
    SLAB_WIDTH,
    SLIP,
    STICKY,
    BoundaryConditions,
    GridBox,
    ParticleData,
    SubstepParameters,
    apply_condition,
    apply_condition_vjp,
    cell_position,
    clear,
    empty_bins,
    sort_particles,
    spline_slopes,
    spline_weights,
    update_grid,
)
from pliant.mpm.transfer import compiled_transfers

H, TAU = 0.1, 1e-3
every_dim = pytest.mark.parametrize("dim", [2, 3])


# Weights


@pytest.mark.parametrize("x", [-1.234, -0.05, -1e-15, 0.0, 0.02, 0.15, 3.999])
def test_weights_are_those_of_quadratic_spline(x):
    """The weights are positive and sum to one. Their mean is the particle position and their
    variance is h^2 / 4."""
    first, f = cell_position(x, 1.0 / H)
    w, at = np.array(spline_weights(f)), H * (first + np.arange(3))
    assert 0.5 <= f <= 1.5
    assert np.all(w >= 0.0)
    assert w.sum() == pytest.approx(1.0, rel=1e-14)
    assert w @ at == pytest.approx(x, abs=1e-14)
    assert w @ (at - x) ** 2 == pytest.approx(H * H / 4.0, rel=1e-12)
    np.testing.assert_allclose(
        spline_slopes(f),
        (np.array(spline_weights(f + 1e-5)) - np.array(spline_weights(f - 1e-5))) / 2e-5,
        atol=1e-9,
    )


# Bins and transfers


def particles(rng, dim, n=200):
    """Return (positions, box, bins) of a cloud about the origin in a larger box."""
    pos = rng.uniform(-0.7, 0.9, (n, dim))
    box = GridBox(-10, -10, -10, 23, 22, 21) if dim == 3 else GridBox(-10, -10, 0, 23, 22, 1)
    return pos, box, empty_bins(n, box)


def particle_data(n, mass):
    zero = np.zeros((n, 3))
    return ParticleData(
        mass,
        np.full(n, 1e-3),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        zero,
        zero,
        zero,
        np.full(n, -1),
    )


@every_dim
def test_bins_contain_every_particle_once_ordered_by_slab(rng, dim):
    pos, box, bins = particles(rng, dim)
    assert sort_particles(pos, box, dim, 1.0 / H, bins)
    np.testing.assert_array_equal(np.sort(bins.order), np.arange(len(pos)))
    slab = (np.floor(pos[:, 0] / H - 0.5).astype(int) - box.ox) // SLAB_WIDTH
    slabs = len(bins.start) - 1
    for rank, s in enumerate([*range(0, slabs, 2), *range(1, slabs, 2)]):
        held = bins.order[bins.start[rank] : bins.start[rank + 1]]
        np.testing.assert_array_equal(
            held, np.flatnonzero(slab == s)
        )  # in ascending order, independent of the threads
    assert bins.start[-1] == len(pos)


@every_dim
@pytest.mark.parametrize("threads", [1, 2, 3, 40])
def test_threads_share_each_colour_at_slabs(rng, dim, threads):
    pos, box, bins = particles(rng, dim)
    bins = bins._replace(cuts=np.zeros((2, threads + 1), np.int64))
    assert sort_particles(pos, box, dim, 1.0 / H, bins)
    odd = bins.start[(len(bins.start)) // 2]
    np.testing.assert_array_equal(bins.cuts[:, [0, -1]], [[0, odd], [odd, len(pos)]])
    assert np.all(np.diff(bins.cuts, axis=1) >= 0)
    assert np.isin(bins.cuts, bins.start).all()
    largest = np.diff(bins.start).max()
    assert np.diff(bins.cuts, axis=1).max() <= len(pos) / 2 / threads + 2 * largest


@every_dim
@pytest.mark.parametrize("bad", [-0.96, 1.3, np.nan, np.inf, 1e20])
def test_particle_outside_the_box_is_found(rng, dim, bad):
    pos, box, bins = particles(rng, dim)
    for axis in range(dim):
        changed = pos.copy()
        changed[17, axis] = bad
        assert not sort_particles(changed, box, dim, 1.0 / H, bins)


def transferred(rng, dim, velocity, affine, pos_box_bins, **rules):
    pos, box, bins = pos_box_bins
    n = len(pos)
    grid = np.full((box.nx * box.ny * box.nz, 4), 7.0)  # nodes out of reach are not modified
    rule = SubstepParameters(
        dim,
        H,
        TAU,
        0.0,
        rules.get("decay", 1.0),
        *np.append(rules.get("gravity", np.zeros(dim)), np.zeros(3 - dim)),
    )
    mass, F = rng.uniform(0.1, 2.0, n), np.tile(np.eye(dim).ravel(), (n, 1))
    assert sort_particles(pos, box, dim, 1.0 / H, bins)
    clear(grid, box, bins)
    none = np.zeros((0, dim * dim)), np.zeros((0, dim))
    compiled_transfers(dim).to_grid(
        rule, particle_data(n, mass), box, bins, grid, pos, velocity, affine, F, *none
    )
    return grid, mass, rule, F


@every_dim
def test_transfer_to_grid_conserves_mass_and_momentum(rng, dim):
    made = particles(rng, dim)
    velocity, affine = rng.standard_normal((200, dim)), rng.standard_normal((200, dim * dim))
    grid, mass, _, _ = transferred(rng, dim, velocity, affine, made)
    _, box, bins = made
    i, j, k = np.unravel_index(np.arange(len(grid)), (box.nx, box.ny, box.nz))
    reach = bins.reach[i]
    reached = (reach[:, 0] <= j) & (j <= reach[:, 1]) & (reach[:, 2] <= k) & (k <= reach[:, 3])
    np.testing.assert_array_equal(grid[~reached], 7.0)
    assert grid[reached, 3].sum() == pytest.approx(mass.sum(), rel=1e-13)
    np.testing.assert_allclose(grid[reached, :dim].sum(axis=0), mass @ velocity, atol=1e-12)
    if dim == 2:
        np.testing.assert_array_equal(grid[reached, 2], 0.0)


@every_dim
def test_affine_motion_is_preserved_by_both_transfers(rng, dim):
    """The field A x + b with C = A is preserved on the nodes and, after gravity, on the
    particles."""
    A, b, g = rng.standard_normal((dim, dim)), rng.standard_normal(dim), rng.standard_normal(dim)
    made = pos, box, bins = particles(rng, dim)
    velocity, affine = pos @ A.T + b, np.tile(A.ravel(), (200, 1))
    grid, _, rule, F = transferred(rng, dim, velocity, affine, made, gravity=g, decay=0.9)
    none = np.zeros(0, np.int64)
    update_grid(
        rule,
        box,
        bins,
        BoundaryConditions(none, np.zeros(1, np.int64), none, np.zeros((0, 3)), np.zeros(0), none),
        grid,
        np.zeros((0, 3)),
    )
    before = pos.copy()
    compiled_transfers(dim).to_particles(rule, box, bins, grid, pos, F, pos, velocity, affine, F)
    expected = 0.9 * (before @ A.T + b + TAU * g)
    np.testing.assert_allclose(velocity, expected, atol=1e-12)
    np.testing.assert_allclose(pos, before + TAU * expected, atol=1e-14)
    np.testing.assert_allclose(affine, np.tile(0.9 * A.ravel(), (200, 1)), atol=1e-10)
    np.testing.assert_allclose(
        F, np.tile((np.eye(dim) + TAU * 0.9 * A).ravel(), (200, 1)), atol=1e-13
    )


# Boundary conditions

CONDITION_KINDS = [(STICKY, 0.0), (SLIP, 0.0), (SEPARATE, 0.0), (SEPARATE, 0.3), (SEPARATE, 2.0)]


def cases(rng, n=200):
    for _ in range(n):
        normal = rng.standard_normal(3)
        yield normal / np.linalg.norm(normal), rng.standard_normal(3)


def test_boundary_conditions_match_their_definitions(rng):
    for n, v in cases(rng):
        s = v @ n
        t = v - s * n
        assert apply_condition(STICKY, 0.0, tuple(n), tuple(v)) == (0.0, 0.0, 0.0)
        np.testing.assert_allclose(apply_condition(SLIP, 0.0, tuple(n), tuple(v)), t, atol=1e-14)
        for mu in (0.0, 0.3, 2.0):
            kept = max(
                0.0, 1.0 + mu * s / np.linalg.norm(t)
            )  # Coulomb: at most mu times the normal impulse -s
            np.testing.assert_allclose(
                apply_condition(SEPARATE, mu, tuple(n), tuple(v)),
                v if s >= 0.0 else kept * t,
                atol=1e-14,
            )


@pytest.mark.parametrize(("kind", "mu"), CONDITION_KINDS)
def test_boundary_conditions_prevent_penetration_and_add_no_energy(rng, kind, mu):
    for n, v in cases(rng):
        left = np.array(apply_condition(kind, mu, tuple(n), tuple(v)))
        assert left @ n >= -1e-14
        assert np.linalg.norm(left) <= np.linalg.norm(v) + 1e-14
        np.testing.assert_allclose(
            apply_condition(kind, mu, tuple(n), tuple(left)), left, atol=1e-14
        )  # applying the condition again has no effect


@pytest.mark.parametrize(("kind", "mu"), CONDITION_KINDS)
def test_boundary_condition_vjp_matches_finite_differences(rng, kind, mu):
    e = 1e-6
    for n, v in cases(rng, 50):
        bar = rng.standard_normal(3)
        by_v, by_mu = apply_condition_vjp(kind, mu, tuple(n), tuple(v), tuple(bar))
        value = lambda v, mu, n=n, bar=bar: (
            bar @ np.array(apply_condition(kind, mu, tuple(n), tuple(v)))
        )
        for axis in range(3):
            d = e * np.eye(3)[axis]
            assert by_v[axis] == pytest.approx(
                (value(v + d, mu) - value(v - d, mu)) / (2 * e), abs=1e-7
            )
        if mu > 0.0:
            assert by_mu == pytest.approx((value(v, mu + e) - value(v, mu - e)) / (2 * e), abs=1e-7)


def test_boundary_condition_vjp_is_finite_without_tangential_velocity():
    """Without tangential velocity: free if there is no friction, and held by friction otherwise."""
    down, bar = (0.0, 0.0, -1.0), (1.0, 2.0, 3.0)
    assert apply_condition_vjp(SEPARATE, 0.0, (0.0, 0.0, 1.0), down, bar) == ((1.0, 2.0, 0.0), 0.0)
    assert apply_condition_vjp(SEPARATE, 0.3, (0.0, 0.0, 1.0), down, bar) == ((0.0, 0.0, 0.0), 0.0)
