"""The compiled backward pass for few states equals the pass stage by stage, with state-dependent
bounds and damping."""

import numpy as np
import pytest

from pliant.planners.linear_quadratic import stack_stages
from pliant.planners.riccati_kernels import backward_pass, backward_step, solve_box_qp

N, n, m = 12, 5, 3


def random_blocks(seed, width):
    """Return convex stages whose control bounds have a distance of about `width` and depend on the
    state."""
    r = np.random.default_rng(seed)
    F, G = r.standard_normal((N, n + m, n + m)), r.standard_normal((n, n))
    H = np.swapaxes(F, 1, 2) @ F
    zz = np.concatenate([H[:, :n, :n], (G.T @ G)[None]])
    A, B = np.eye(n) + 0.2 * r.standard_normal((N, n, n)), r.standard_normal((N, n, m))
    return (
        r.standard_normal((N + 1, n)),
        r.standard_normal((N, m)),
        zz,
        H[:, n:, :n].copy(),
        H[:, n:, n:].copy(),
        A,
        B,
        -width * r.random((N, m)),
        width * r.random((N, m)),
        r.standard_normal((N, m, n)),
        r.standard_normal((N, m, n)),
    )


def by_stages(blocks, damping):
    z, u, zz, uz, uu, A, B, *room = blocks
    P, p, gains, forward, gain, sizes = zz[N], z[N], [], [], 0.0, []
    for k in range(N - 1, -1, -1):
        ok, K, d, P, p, promised, size = backward_step(
            z[k], u[k], zz[k], uz[k], uu[k], A[k], B[k], P, p, *(side[k] for side in room), damping
        )
        sizes.append(size)
        if not ok:
            return False, gain, np.mean(sizes)
        gains.insert(0, K)
        forward.insert(0, d)
        gain += promised
    return np.array(gains), np.array(forward), gain, np.mean(sizes)


@pytest.mark.parametrize("damping", [0.0, 3.0])
@pytest.mark.parametrize("width", [0.1, 1.0, np.inf])
def test_backward_pass_equals_its_stages(width, damping):
    blocks = random_blocks(7, width)
    ok, *found = backward_pass(*stack_stages(blocks), damping)
    assert ok
    for mine, stage in zip(found, by_stages(blocks, damping), strict=True):
        np.testing.assert_allclose(mine, stage, rtol=1e-9, atol=1e-9 * np.abs(stage).max())
    held = (found[1] == blocks[7]) | (found[1] == blocks[8])
    assert (0.05 < held.mean() < 1.0) if np.isfinite(width) else not held.any()


def test_backward_pass_stops_at_indefinite_hessian():
    blocks = random_blocks(7, 1.0)
    blocks[4][4] -= 1e4 * np.eye(m)
    ok, gains, forward, gain, size = backward_pass(*stack_stages(blocks), 0.0)
    assert not ok
    assert not np.any(gains[:5])
    assert not np.any(forward[:5])
    assert np.all(np.any(gains[5:], axis=2))
    assert [gain, size] == pytest.approx(by_stages(blocks, 0.0)[1:])
    assert backward_pass(*stack_stages(blocks), 2e4)[0]


@pytest.mark.parametrize("seed", range(20))
def test_box_qp_solution_satisfies_kkt(seed):
    """Check the KKT conditions from a distant start and for a box that contains zero only at a
    corner."""
    r = np.random.default_rng(seed)
    F, g = r.standard_normal((6, 6)), 3.0 * r.standard_normal(6)
    low = -r.random(6) * (r.random(6) < 0.6)
    high = low + r.random(6)
    ok, d = solve_box_qp(F @ F.T, g, low, high)
    slope = F @ F.T @ d + g
    assert ok
    assert np.all((low <= d) & (d <= high))
    inside = (low < d) & (d < high)
    np.testing.assert_allclose(slope[inside], 0.0, atol=1e-9 * np.abs(g).max())
    assert np.all(slope[d == low] >= -1e-9)
    assert np.all(slope[d == high] <= 1e-9)
