"""Derivatives of a semi-implicit step for many columns equal those of each column."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pliant as pl
from pliant.bodies import PointMass
from pliant.bodies.body import StepForceBody
from pliant.dynamics.cell_sums import CellSums
from pliant.dynamics.semi_implicit_jacobian import MAX_MATRIX_FREE_COLUMNS

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))
from cases import ROBOTS, start

COLUMNS = 30
NAMES = [name for name, case in ROBOTS.items() if "SemiImplicit" in case.rules]
every = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def linearized():
    """Return a cached function name -> (model, derivative of its fourth step)."""
    made = {}

    def get(name):
        if name not in made:
            model, x, u = start(name, "SemiImplicit")
            made[name] = model, model.linearize(model.step(x, u, None, 3))
        return made[name]

    return get


def close(got, want):
    """Assert equality to 1e-10 of the largest entry of each column."""
    assert got.shape == want.shape
    scale = np.abs(want).max(axis=0, initial=0.0)
    assert np.all(np.abs(got - want) <= 1e-10 * scale + 1e-300), np.max(
        np.abs(got - want) / (scale + 1e-300)
    )


@every
def test_jvp_of_many_columns_equals_jvp_of_each(linearized, rng, name):
    model, lin = linearized(name)
    sizes = model.space.size, model.n_controls, model.params.size
    scales = 1e-2, 1.0, np.abs(model.params.flat)[:, None]
    d = [scale * rng.standard_normal((n, COLUMNS)) for n, scale in zip(sizes, scales, strict=True)]
    alone = np.stack([lin.jvp(*(part[:, j] for part in d)) for j in range(COLUMNS)], axis=1)
    close(lin.jvp(*d), alone)


@every
def test_vjp_of_many_columns_equals_vjp_of_each(linearized, rng, name):
    model, lin = linearized(name)
    bars = rng.standard_normal((model.space.size, COLUMNS))
    alone = [lin.vjp(bars[:, j]) for j in range(COLUMNS)]
    for got, *rows in zip(lin.vjp(bars), *alone, strict=True):
        close(got, np.stack(rows, axis=1))


@every
def test_vjp_of_many_columns_is_the_transpose_of_jvp(linearized, rng, name):
    model, lin = linearized(name)
    sizes = model.space.size, model.n_controls, model.params.size
    d, bars = (
        [rng.standard_normal((n, COLUMNS)) for n in sizes],
        rng.standard_normal((model.space.size, COLUMNS)),
    )
    if d[2].size:
        d[2] *= np.abs(model.params.flat)[:, None]
    pushed = bars.T @ lin.jvp(*d)
    pulled = sum(share.T @ part for share, part in zip(lin.vjp(bars), d, strict=True))
    np.testing.assert_allclose(pulled, pushed, atol=1e-9 * np.abs(pushed).max())


@every
def test_one_loop_gives_the_matrix_of_the_cells(linearized, rng, name):
    """Compare the matrix of one compiled loop with the sum of cell matrices, with viscosity and
    held unknowns in every case."""
    model, *_ = start(name, "SemiImplicit")
    body, n = model.equations.body, model.equations.n_dofs
    if not isinstance(body, StepForceBody):
        pytest.skip(f"{type(body).__name__} has no such loop")
    q = body.rest + 0.01 * body.cell_size() * rng.standard_normal(n)
    w, held = rng.standard_normal(n), rng.random(n) < 0.3
    sums = CellSums(cell_nodes=body.cell_nodes, n_nodes=n // body.dim, dim=body.dim)
    m = body.viscosity_of_step(body.fields, 0.1, [1.0], []).moduli
    K, T = (sums.matrix(part) for part in body.cell_stiffness_and_derivative(q, body.fields, w))
    D, V = (
        sums.matrix(part)
        for part in (body.cell_viscous_matrices(q, q, m), body.cell_viscous_derivatives(q, w, m))
    )
    free = sp.diags((~held).astype(float))
    want = model.dt * (K @ free + model.dt * T + V) - D @ sp.diags(held.astype(float))
    got = body.step_force_derivative(q, w, body.fields, m, held, model.dt)
    close(sums.matrix_of_entries(got).toarray(), want.toarray())


@every
def test_cell_matrices_sum_to_the_body_matrix(linearized, rng, name):
    """Compare the cell matrices with matrix-vector products at a shape and velocity without
    symmetry."""
    eq = linearized(name)[0].equations
    body, dim = eq.body, eq.dim
    q = body.rest + 0.01 * body.cell_size() * rng.standard_normal(eq.n_dofs)
    w, y = rng.standard_normal((2, eq.n_dofs))
    sums = CellSums(cell_nodes=body.cell_nodes, n_nodes=eq.n_dofs // dim, dim=dim)
    m = body.viscosity_of_step(body.fields, 0.1, [1.0], []).moduli
    K, T = body.cell_stiffness_and_derivative(q, body.fields, w)
    V = sums.matrix(body.cell_viscous_derivatives(q, w, m))
    pairs = [
        (sums.matrix(K) @ y, body.stiffness_times(q, body.fields, y)),
        (sums.matrix(T) @ y, body.stiffness_derivative(q, body.fields, y, w)),
        (sums.matrix(body.cell_viscous_matrices(q, w, m)) @ y, body.viscous_jvp(q, w, y, m)),
        (V @ y, body.viscous_derivative_jvp(q, w, y, m)),
        (V.T @ y, body.viscous_derivative_vjp(q, w, y, m)),
    ]
    for got, want in pairs:
        assert isinstance(body, PointMass) or np.abs(want).max() > 0.0
        np.testing.assert_allclose(got, want, atol=1e-12 * np.abs(want).max())


def test_derivative_by_prescribed_position_is_correct(rng):
    """Compare the derivative by the positions of held nodes with differences of the step.

    The body is between a moving and a fixed wall."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        damping=pl.Damping(mass=0.8, stiffness=0.02),
        supports=(
            pl.Support(region="x-", motion=lambda t: np.array([0.3 * t, 0.0, 0.5 * t])),
            pl.Support(region="x+", axes="yz"),
        ),
    )
    model = pl.SemiImplicit(robot, dt=0.01)
    n = model.equations.n_dofs
    x = model.state(
        model.equations.body.rest + 2e-3 * rng.standard_normal(n), rng.standard_normal(n)
    )
    held = np.flatnonzero(model.equations.held)
    assert held.size > MAX_MATRIX_FREE_COLUMNS
    seeds = np.zeros((x.size, held.size))
    seeds[held, np.arange(held.size)] = 1.0
    pushed, e = model.linearize(model.step(x, np.zeros(0), None, 2)).jvp(seeds), 1e-6
    for seed, column in zip(seeds.T, pushed.T, strict=True):
        ahead, behind = (
            model.step(x + side * e * seed, np.zeros(0), None, 2).x for side in (1.0, -1.0)
        )
        np.testing.assert_allclose(
            column, (ahead - behind) / (2.0 * e), atol=1e-6 * np.abs(column).max()
        )
        assert np.abs(column[held]).max() == pytest.approx(
            0.0, abs=1e-12
        )  # its position is that of the support


def test_control_columns_equal_single_columns(linearized):
    model, lin = linearized("gripper box-1")
    assert model.n_controls > MAX_MATRIX_FREE_COLUMNS
    alone = np.stack(
        [
            lin.jvp(np.zeros(model.space.size), du, np.zeros(model.params.size))
            for du in np.eye(model.n_controls)
        ],
        axis=1,
    )
    close(lin.dense_controls(), alone)
