"""The compiled loops of a solid: derivatives, projected stiffness, viscosity, and results that do
not depend on the number of threads."""

import numba
import numpy as np
import pytest

import pliant as pl
from pliant.bodies import Solid
from pliant.kernels import threads
from pliant.materials import LAWS

KINDS = [(dim, order) for dim in (2, 3) for order in (1, 2)]
elements = pytest.mark.parametrize(
    ("dim", "order"), KINDS, ids=[f"{dim}D-{order}" for dim, order in KINDS]
)
every_law = pytest.mark.parametrize("law", LAWS)


def solid(dim, order, law, power=2, counts=(2, 1, 1)):
    shape = pl.Box(size=(0.2, 0.1, 0.1)) if dim == 3 else pl.geometry.Rectangle(size=(0.2, 0.1))
    mesh = shape.mesh(divisions=counts[:dim], order=order)
    return Solid(mesh=mesh, materials={"body": pl.Material(E=5e4, nu=0.35, law=law, power=power)})


def bent(body, rng, size=0.004):
    return body.rest + size * rng.standard_normal(body.rest.size)


def damped(body, rng):
    """Return a viscosity with random previous positions."""
    return body.viscosity_of_step(
        body.fields, 0.3, (2.0, -2.5, 0.5), [bent(body, rng), bent(body, rng)]
    )


@elements
@every_law
@pytest.mark.parametrize("viscous", [False, True], ids=["elastic", "viscous"])
def test_gradient_and_stiffness_are_derivatives_of_energy(
    rng, taylor, dense, dim, order, law, viscous
):
    body = solid(dim, order, law)
    q, d = bent(body, rng), 0.1 * rng.standard_normal(body.rest.size)
    extra = (damped(body, rng),) if viscous else ()
    energy, gradient = (lambda at, k=k: body.energy(at, body.fields, *extra)[k] for k in (0, 1))
    assert taylor(lambda e: energy(q + e * d), gradient(q) @ d) == pytest.approx(2.0, abs=0.1)
    K = dense(body, body.stiffness(q, body.fields, *extra))
    assert taylor(lambda e: gradient(q + e * d), K @ d) == pytest.approx(2.0, abs=0.1)
    blocks = body.stiffness(q, body.fields, *extra)
    diagonal = blocks[body.pairs[:, 0] == body.pairs[:, 1]]
    np.testing.assert_allclose(diagonal, np.swapaxes(diagonal, 1, 2), atol=1e-12 * np.abs(K).max())


@elements
@every_law
def test_stiffness_times_equals_matrix_product(rng, dense, dim, order, law):
    body = solid(dim, order, law)
    q, y = bent(body, rng), rng.standard_normal(body.rest.size)
    K = dense(body, body.stiffness(q, body.fields))
    np.testing.assert_allclose(
        body.stiffness_times(q, body.fields, y),
        K @ y,
        atol=1e-12 * np.abs(K).max() * np.abs(y).sum(),
    )


@elements
@every_law
def test_stiffness_derivative_passes_taylor_test_and_is_symmetric(rng, taylor, dim, order, law):
    body = solid(dim, order, law)
    q, (y, z, w) = bent(body, rng), rng.standard_normal((3, body.rest.size))
    contracted = lambda a, b: body.stiffness_derivative(q, body.fields, a, b)
    values = [
        contracted(y, z) @ w,
        contracted(z, y) @ w,
        contracted(y, w) @ z,
        contracted(w, z) @ y,
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)
    slope = 0.1 * contracted(y, z)
    assert taylor(
        lambda e: body.stiffness_times(q + 0.1 * e * y, body.fields, z), slope
    ) == pytest.approx(2.0, abs=0.1)


@elements
@every_law
def test_projected_stiffness_has_no_negative_eigenvalue(rng, dense, dim, order, law):
    """The exact stiffness of a body with permuted nodes has negative eigenvalues.

    A neo-Hookean body does not allow inversion and is strongly compressed instead."""
    body = solid(dim, order, law)
    if law == "neo-hookean":
        q = (body.rest.reshape(-1, dim) * ([0.3] + [1.6] * (dim - 1))).ravel()
    else:
        q = rng.permutation(body.rest.reshape(-1, dim)).ravel()
    assert body.inadmissible_cell(q) is None
    exact, positive = (
        np.linalg.eigvalsh(dense(body, body.stiffness(q, body.fields, project=project)))
        for project in (False, True)
    )
    assert exact.min() < -1e-3 * exact.max()
    assert positive.min() >= -1e-13 * positive.max()


@elements
@every_law
def test_projection_does_not_change_positive_stiffness(rng, dim, order, law):
    body = solid(dim, order, law, power=0)
    rest = body.stiffness(body.rest, body.fields)
    np.testing.assert_allclose(
        body.stiffness(body.rest, body.fields, project=True), rest, atol=1e-12 * np.abs(rest).max()
    )


# Viscosity


@elements
def test_rigid_rotation_has_no_viscous_force(dim, order):
    """Neither two rigidly rotated positions nor a rotational velocity give a viscous force."""
    body = solid(dim, order, "fixed-corotated", power=0)
    rotation = np.eye(dim)
    rotation[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    here, there = body.rest, (body.rest.reshape(-1, dim) @ rotation.T).ravel()
    force = body.energy(
        there, body.fields, body.viscosity_of_step(body.fields, 1.0, (100.0, -100.0), [here])
    )[1]
    spin = np.zeros((dim, dim))
    spin[0, 1], spin[1, 0] = -3.0, 3.0
    velocity = (there.reshape(-1, dim) @ spin.T).ravel()
    drag = body.viscous_jvp(
        there, there, velocity, body.viscosity_of_step(body.fields, 1.0, (1.0,), []).moduli
    )
    # Round-off of a strain, at a rate of 100 / s and a viscosity of 5e4 Pa s, on cells of 0.1 m.
    assert (
        max(np.abs(force).max(), np.abs(drag).max()) < 1e2 * np.finfo(float).eps * 100.0 * 5e4 * 0.1
    )


@elements
def test_viscosity_at_rest_is_stiffness_times_damping_time(rng, dim, order):
    """Rayleigh's beta K: the viscous force of a small velocity in the rest shape."""
    body = solid(dim, order, "neo-hookean", power=0)
    v, beta = rng.standard_normal(body.rest.size), 0.03
    moduli = body.viscosity_of_step(body.fields, beta, (1.0,), []).moduli
    expected = beta * body.stiffness_times(body.rest, body.fields, v)
    np.testing.assert_allclose(
        body.viscous_jvp(body.rest, body.rest, v, moduli),
        expected,
        atol=1e-11 * np.abs(expected).max(),
    )
    at = body.viscosity_at_velocity(body.fields, beta, 1.0, body.rest, v)
    np.testing.assert_allclose(
        body.energy(body.rest, body.fields, at)[1], expected, atol=1e-11 * np.abs(expected).max()
    )


@elements
def test_viscous_jvp_is_derivative_by_previous_positions_and_its_transpose_swaps_levels(
    rng, taylor, dim, order
):
    body = solid(dim, order, "neo-hookean", power=0)
    q, old, d, w = (
        bent(body, rng),
        bent(body, rng),
        rng.standard_normal(body.rest.size),
        rng.standard_normal(body.rest.size),
    )
    at = lambda level: body.energy(
        q, body.fields, body.viscosity_of_step(body.fields, 0.3, (2.0, -2.0), [level])
    )[1]
    moduli = body.viscosity_of_step(body.fields, 0.3, (2.0,), []).moduli
    product = body.viscous_jvp(q, old, d, moduli)
    assert taylor(lambda e: at(old + 0.1 * e * d), -2.0 * 0.1 * product) == pytest.approx(
        2.0, abs=0.1
    )
    assert w @ product == pytest.approx(d @ body.viscous_jvp(old, q, w, moduli), rel=1e-10)


# Material parameters


@elements
@every_law
def test_material_derivatives_of_force_and_stiffness_product_pass_taylor_test(
    rng, taylor, dim, order, law
):
    from dataclasses import replace

    body = solid(dim, order, law)
    q, y, z = (
        bent(body, rng),
        rng.standard_normal(body.rest.size),
        rng.standard_normal(body.rest.size),
    )
    n = body.mesh.n_cells
    change = replace(
        body.fields,
        E=5e4 * rng.standard_normal(n),
        nu=0.1 * rng.standard_normal(n),
        density=np.zeros(n),
    )
    moved = lambda e: replace(
        body.fields, E=body.fields.E + e * change.E, nu=body.fields.nu + e * change.nu
    )
    force, product = (
        body.material_jvp(q, body.fields, change),
        body.stiffness_material_jvp(q, body.fields, change, z),
    )
    assert taylor(lambda e: body.gradient(q, moved(e)), force) == pytest.approx(2.0, abs=0.1)
    assert taylor(lambda e: body.stiffness_times(q, moved(e), z), product) == pytest.approx(
        2.0, abs=0.1
    )
    by_E, by_nu = body.material_vjp(q, body.fields, y)
    assert by_E @ change.E + by_nu @ change.nu == pytest.approx(y @ force, rel=1e-10)
    by_E, by_nu = body.stiffness_material_vjp(q, body.fields, y, z)
    assert by_E @ change.E + by_nu @ change.nu == pytest.approx(y @ product, rel=1e-10)


# Threads


@pytest.fixture
def on_threads(monkeypatch):
    """Return on_threads(n, f), which calls f() with every compiled loop on n threads."""
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    before = numba.get_num_threads()

    def run(n, f):
        numba.set_num_threads(n)
        return f()

    yield run
    numba.set_num_threads(before)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core only")
@pytest.mark.parametrize(
    ("dim", "order", "law"),
    [(3, 1, "neo-hookean"), (3, 2, "fixed-corotated"), (2, 2, "linear-corotated")],
)
def test_one_and_two_threads_give_the_same_bits(rng, on_threads, dim, order, law):
    body = solid(dim, order, law, counts=(6, 3, 3))
    q, y, z = (
        bent(body, rng, 0.001),
        rng.standard_normal(body.rest.size),
        rng.standard_normal(body.rest.size),
    )
    viscous = damped(body, np.random.default_rng(1))
    for f in (
        lambda: body.energy(q, body.fields, viscous)[0],
        lambda: body.energy(q, body.fields, viscous)[1],
        lambda: body.stiffness(q, body.fields, viscous),
        lambda: body.stiffness(q, body.fields, viscous, project=True),
        lambda: body.stiffness_derivative(q, body.fields, y, z),
    ):
        np.testing.assert_array_equal(on_threads(1, f), on_threads(2, f))


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core only")
@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.SemiImplicit])
def test_one_and_two_threads_step_to_the_same_bits(on_threads, rule):
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.05, 0.05)),
        divisions=(8, 2, 2),
        order=2,
        material=pl.Material(E=1e5, nu=0.4),
        supports=(pl.Support(region="x-"),),
        gravity=(0, 0, -9.81),
        damping=pl.Damping(stiffness=0.01),
    )
    model = rule(robot, dt=0.01)

    def run():
        steps = pl.simulate(model, np.zeros((3, 0)), keep=True).steps
        return np.concatenate([steps[-1].x, *model.pullback(steps[-1], np.ones(model.space.size))])

    np.testing.assert_array_equal(on_threads(1, run), on_threads(2, run))
