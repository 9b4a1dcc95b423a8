"""A solid: patch tests, rigid motions, masses, surfaces and interpolation, for every element."""

import numpy as np
import pytest
from scipy.optimize import brentq

import pliant as pl
from pliant.bodies import Solid
from pliant.bodies.elements import quadrature
from pliant.core import InputError
from pliant.geometry import Mesh
from pliant.materials import LAWS

SIZE = np.array([0.3, 0.2, 0.1])
DENSITY = 800.0
KINDS = [(dim, order) for dim in (2, 3) for order in (1, 2)]
elements = pytest.mark.parametrize(
    ("dim", "order"), KINDS, ids=[f"{dim}D-{order}" for dim, order in KINDS]
)


def distorted(dim, order, counts=(3, 2, 2)):
    """Return a lattice whose inner nodes are displaced by a tenth of a cell."""
    shape = pl.Box(size=tuple(SIZE)) if dim == 3 else pl.geometry.Rectangle(size=tuple(SIZE[:2]))
    mesh = shape.mesh(divisions=counts[:dim])
    points, inner = mesh.points.copy(), np.ones(mesh.n_points, bool)
    inner[np.unique(mesh.boundary())] = False
    points[inner] += 0.01 * np.random.default_rng(3).uniform(-1, 1, (inner.sum(), dim))
    mesh = Mesh(points=points, cells=mesh.cells, regions=mesh.regions, surfaces=mesh.surfaces)
    return mesh.quadratic() if order == 2 else mesh


def solid(dim, order, law="neo-hookean", power=0, **options):
    material = pl.Material(E=5e4, nu=0.35, density=DENSITY, law=law, power=power)
    return Solid(mesh=distorted(dim, order), materials={"body": material}, **options)


def box_integral(dim, f):
    """Return the integral over the box of a polynomial up to degree 5 in each coordinate."""
    x, w = np.polynomial.legendre.leggauss(3)
    grid = np.stack(np.meshgrid(*[(x + 1) / 2 * s for s in SIZE[:dim]], indexing="ij"), -1).reshape(
        -1, dim
    )
    weights = np.prod(
        np.stack(np.meshgrid(*[w / 2 * s for s in SIZE[:dim]], indexing="ij"), -1).reshape(-1, dim),
        axis=1,
    )
    return weights @ f(grid)


def polynomial(rng, dim, order):
    """Return a random polynomial vector field of that degree: points (k, dim) -> (k, dim)."""
    b, A, Q = (
        rng.standard_normal(dim),
        rng.standard_normal((dim, dim)),
        rng.standard_normal((dim, dim, dim)) * (order == 2),
    )
    return lambda x: b + 5 * x @ A.T + 20 * np.einsum("ijk,nj,nk->ni", Q, x, x)


# Patch tests


@elements
@pytest.mark.parametrize("law", LAWS)
def test_patch_affine_boundary_gives_affine_interior(rng, dense, dim, order, law):
    """Newton's method moves the inner nodes only, from a perturbed start. A constant stress is in
    equilibrium for every law."""
    body = solid(dim, order, law)
    affine = np.eye(dim) + 0.1 * rng.standard_normal((dim, dim))
    target = (body.mesh.points @ affine.T + 0.02).ravel()
    held = np.zeros(body.mesh.n_points, bool)
    held[np.unique(body.mesh.boundary())] = True
    free = np.flatnonzero(np.repeat(~held, dim))
    q = target.copy()
    q[free] += 0.002 * rng.standard_normal(free.size)
    for _ in range(8):
        K = dense(body, body.stiffness(q, body.fields))[np.ix_(free, free)]
        q[free] -= np.linalg.solve(K, body.gradient(q, body.fields)[free])
    assert np.abs(q - target).max() <= 1e-10 * np.abs(target - body.rest).max()


@elements
@pytest.mark.parametrize("law", LAWS)
def test_patch_uniaxial_stretch_of_robot_matches_closed_form(dim, order, law):
    """Three sides on rollers and a traction on the fourth give a homogeneous stretch with the
    transverse contraction of the closed form."""
    pull, mesh = 0.25, distorted(dim, order)
    mu, lam = 5e4 / 2.7, 5e4 * 0.35 / (1.35 * 0.3)
    move = np.zeros(dim)
    move[0] = pull * SIZE[0]
    supports = [pl.Support(region=f"{axis}-", axes=axis) for axis in "xyz"[:dim]]
    robot = pl.Robot(
        shape=mesh,
        order=order,
        material=pl.Material(E=5e4, nu=0.35, law=law),
        supports=[*supports, pl.Support(region="x+", axes="x", motion=lambda t: move)],
    )
    model = pl.Quasistatic(robot)
    step = model.step(model.initial_state(), np.zeros(0))
    assert step.status

    def stress(side, along):
        """Return P along x and P across at stretches (1 + pull, side, side or 1)."""
        l = np.array([1 + pull, side, side if dim == 3 else 1.0])
        J = l.prod()
        P = {
            "neo-hookean": mu * (l - 1 / l) + lam * np.log(J) / l,
            "fixed-corotated": 2 * mu * (l - 1) + lam * (J - 1) * J / l,
            "linear-corotated": 2 * mu * (l - 1) + lam * (l.sum() - 3),
        }[law]
        return P[0 if along else 1]

    thin = brentq(lambda side: stress(side, False), 0.5, 1.0, xtol=1e-14)
    stretch = np.array([1 + pull, thin, thin])[:dim]
    np.testing.assert_allclose(
        step.x.reshape(-1, dim), mesh.points * stretch, atol=1e-10 * pull * SIZE[0]
    )
    force = (
        model.equations.body.gradient(step.x, model.equations.body.fields)
        .reshape(-1, dim)[mesh.nodes("x+"), 0]
        .sum()
    )
    assert force == pytest.approx(stress(thin, True) * np.prod(SIZE[1:dim]), rel=1e-9)


@elements
def test_patch_simple_shear_traction_matches_stress(dim, order):
    """Under uniform shear the inner nodes are in equilibrium and the top carries P n times area."""
    g, body = 0.4, solid(dim, order)
    F = np.eye(dim)
    F[0, 1] = g
    f = body.gradient((body.mesh.points @ F.T).ravel(), body.fields).reshape(-1, dim)
    mu = 5e4 / 2.7
    top = body.mesh.nodes("y+")
    inner = np.setdiff1d(np.arange(body.mesh.n_points), np.unique(body.mesh.boundary()))
    np.testing.assert_allclose(f[inner], 0.0, atol=1e-12 * mu)
    area = SIZE[0] * (SIZE[2] if dim == 3 else 1.0)
    # Side faces also carry P_yx = mu g and share edge nodes with the top. Weight by height: the
    # virtual work of u_x = y.
    assert f[:, 0] @ body.mesh.points[:, 1] == pytest.approx(mu * g * area * SIZE[1], rel=1e-12)
    assert f[:, 1] @ body.mesh.points[:, 0] == pytest.approx(mu * g * area * SIZE[1], rel=1e-12)
    assert len(top) > 0


# Rigid motions


@elements
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("power", [0, 2])
def test_rigid_motion_has_no_force(rng, dim, order, law, power):
    body = solid(dim, order, law, power)
    Q = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    Q[:, 0] *= np.linalg.det(Q)
    q = (body.mesh.points @ Q.T + rng.standard_normal(dim)).ravel()
    force = body.gradient(q, body.fields)
    # Round-off in the strain, eps |q| / cell, times modulus times the area of a cell.
    assert np.abs(force).max() < 50 * np.finfo(float).eps * np.abs(q).max() / 0.05 * 5e4 * 0.1
    assert body.energy(q, body.fields)[0] == pytest.approx(0.0, abs=1e-14 * 5e4)


@elements
@pytest.mark.parametrize("law", LAWS)
def test_internal_forces_have_no_resultant_and_no_moment(rng, dim, order, law):
    body = solid(dim, order, law)
    q = body.rest + 0.005 * rng.standard_normal(body.rest.size)
    f, x = body.gradient(q, body.fields).reshape(-1, dim), q.reshape(-1, dim)
    scale = np.abs(f).max()
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-13 * scale * len(f))
    moment = x.T @ f - f.T @ x
    np.testing.assert_allclose(moment, 0.0, atol=1e-13 * scale * len(f))


# Mass


@elements
def test_mass_matrix_integrates_polynomial_fields_exactly(rng, dense, dim, order):
    body = solid(dim, order, thickness=0.7)
    depth = 0.7 if dim == 2 else 1.0
    M = dense(body, body.mass(body.fields.density)[:, None, None] * np.eye(dim))
    v, w = polynomial(rng, dim, order), polynomial(rng, dim, order)
    at = body.mesh.points
    exact = DENSITY * depth * box_integral(dim, lambda x: np.sum(v(x) * w(x), axis=1))
    assert v(at).ravel() @ M @ w(at).ravel() == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(M, M.T, atol=0)
    assert np.linalg.eigvalsh(M).min() > 0.0
    one = np.tile(np.eye(dim)[0], len(at))
    assert one @ M @ one == pytest.approx(DENSITY * depth * SIZE[:dim].prod(), rel=1e-12)
    centre = (M @ one).reshape(-1, dim)[:, 0] @ at / (one @ M @ one)
    np.testing.assert_allclose(centre, SIZE[:dim] / 2, rtol=1e-12)


@elements
def test_mass_vjp_is_derivative_of_kinetic_energy(rng, dense, dim, order):
    body = solid(dim, order)
    y, z = rng.standard_normal((2, body.rest.size))
    density, change = (
        rng.uniform(500, 1500, body.mesh.n_cells),
        rng.standard_normal(body.mesh.n_cells),
    )
    product = lambda rho: y @ dense(body, body.mass(rho)[:, None, None] * np.eye(dim)) @ z
    assert body.mass_vjp(y, z) @ change == pytest.approx(
        product(density + change) - product(density), rel=1e-8
    )


# Surfaces and points


@elements
@pytest.mark.parametrize("even", [False, True])
def test_node_areas_sum_to_surface_area(dim, order, even):
    body = solid(dim, order, thickness=0.7)
    depth = np.array([0.7]) if dim == 2 else np.ones(1)
    sides = np.concatenate([SIZE[:dim], depth])
    for axis, letter in enumerate("xyz"[:dim]):
        area = sides.prod() / sides[axis]
        assert body.node_areas(f"{letter}+", lumped=even).sum() == pytest.approx(area, rel=1e-12)
    assert body.node_areas(None, lumped=even).sum() == pytest.approx(
        2 * (sides.prod() / sides[:dim]).sum(), rel=1e-12
    )
    assert body.node_areas(None, lumped=True).min() >= 0.0


@elements
def test_traction_resultant_acts_at_surface_centre(dim, order):
    body = solid(dim, order, thickness=0.7)
    traction = np.array([3.0, -2.0, 5.0])[:dim]
    f = pl.SurfaceLoad(surface="x+", traction=traction).attach(body).reshape(-1, dim)
    area = np.prod(SIZE[1:dim]) * (0.7 if dim == 2 else 1.0)
    np.testing.assert_allclose(f.sum(axis=0), area * traction, rtol=1e-12)
    middle = np.array([SIZE[0], *(SIZE[1:dim] / 2)])
    np.testing.assert_allclose(
        body.mesh.points.T @ f, np.outer(middle, area * traction), atol=1e-14
    )


@elements
def test_point_load_has_correct_resultant_and_moment(dim, order):
    body = solid(dim, order)
    at, force = 0.37 * SIZE[:dim], np.array([3.0, -2.0, 5.0])[:dim]
    f = pl.PointLoad(point=at, force=force).attach(body).reshape(-1, dim)
    np.testing.assert_allclose(f.sum(axis=0), force, rtol=1e-12)
    np.testing.assert_allclose(body.mesh.points.T @ f, np.outer(at, force), atol=1e-14)


@elements
def test_locate_interpolates_polynomials_of_element_order(rng, dim, order):
    body = solid(dim, order)
    f, at = polynomial(rng, dim, order), rng.uniform(0, 1, (40, dim)) * SIZE[:dim]
    # Shape function values below 1e-9 are dropped, which changes the field by at most that
    # fraction.
    np.testing.assert_allclose(body.locate(at) @ f(body.mesh.points), f(at), atol=1e-8)
    np.testing.assert_allclose(np.asarray(body.locate(at).sum(axis=1)).ravel(), 1.0, rtol=1e-8)


@elements
def test_strain_of_affine_field_is_green_strain(rng, dim, order):
    body = solid(dim, order)
    F = np.eye(dim) + 0.1 * rng.standard_normal((dim, dim))
    np.testing.assert_allclose(
        body.strain((body.mesh.points @ F.T).ravel()),
        np.linalg.norm(F.T @ F - np.eye(dim)) / 2,
        rtol=1e-11,
    )


# Weighted strain


def squishy(dim, order, nu):
    """Return a body whose material has a negative lambda if nu is negative."""
    return Solid(
        mesh=distorted(dim, order),
        materials={"body": pl.Material(E=5e4, nu=nu, density=DENSITY)},
        thickness=0.7,
    )


def strains_by_differences(body, q):
    """Return the Green strain (n_cells, n_points, dim, dim) at the quadrature points.

    Central differences of interpolated positions are exact, because positions are polynomials of
    degree 2 at most inside a cell."""
    dim, e = body.dim, 1e-3
    bary, weights = quadrature(dim, body.mesh.order)
    at = (bary @ body.mesh.points[body.mesh.corners]).reshape(-1, dim)
    x = q.reshape(-1, dim)
    F = np.stack(
        [
            (body.locate(at + e * axis) - body.locate(at - e * axis)) @ x / (2.0 * e)
            for axis in np.eye(dim)
        ],
        axis=-1,
    )
    E = (np.swapaxes(F, 1, 2) @ F - np.eye(dim)) / 2.0
    return E.reshape(body.mesh.n_cells, len(weights), dim, dim), weights


@elements
@pytest.mark.parametrize("nu", [0.35, -0.4])
def test_squared_weighted_strain_is_hookes_energy(rng, dim, order, nu):
    body = squishy(dim, order, nu)
    mu, lam = 5e4 / (2.0 * (1.0 + nu)), 5e4 * nu / ((1.0 + nu) * (1.0 - 2.0 * nu))
    assert (lam < 0.0) == (nu < 0.0)
    q = body.rest + 0.01 * rng.standard_normal(body.rest.size)
    E, weights = strains_by_differences(body, q)
    volumes = body.mesh.volumes() * (0.7 if dim == 2 else 1.0)
    hooke = 2.0 * mu * np.sum(E * E, axis=(2, 3)) + lam * np.trace(E, axis1=2, axis2=3) ** 2
    s = body.weighted_strain(q, body.fields)
    assert np.all(np.isfinite(s))
    assert s @ s == pytest.approx(volumes @ hooke @ weights, rel=1e-9)
    assert s @ s > 0.0


@elements
def test_weighted_strain_is_invariant_under_rigid_motion(rng, dim, order):
    body = squishy(dim, order, 0.35)
    Q = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    moved = body.weighted_strain(
        (body.mesh.points @ Q.T + rng.standard_normal(dim)).ravel(), body.fields
    )
    bent = body.weighted_strain(body.rest + 0.01 * rng.standard_normal(body.rest.size), body.fields)
    assert np.abs(moved).max() < 1e-12 * np.abs(bent).max()


@elements
@pytest.mark.parametrize("nu", [0.35, -0.4])
def test_weighted_strain_jvp_is_its_derivative_and_is_symmetric(rng, dim, order, nu):
    """The weighted strain is quadratic in the positions, so central differences are exact for every
    step."""
    body = squishy(dim, order, nu)
    q, d = (
        body.rest + 0.01 * rng.standard_normal(body.rest.size),
        0.05 * rng.standard_normal(body.rest.size),
    )
    s = lambda e: body.weighted_strain(q + e * d, body.fields)
    product = body.weighted_strain_jvp(q, d, body.fields)
    size = np.abs(product).max()
    np.testing.assert_allclose(product, (s(1.0) - s(-1.0)) / 2.0, atol=1e-11 * size)
    np.testing.assert_allclose(
        product, body.weighted_strain_jvp(d, q, body.fields), atol=1e-13 * size
    )
    np.testing.assert_allclose(
        s(1.0) + s(-1.0) - 2.0 * s(0.0),
        body.weighted_strain_jvp(d, d, body.fields),
        atol=1e-11 * size,
    )


@elements
@pytest.mark.parametrize("nu", [0.35, -0.4])
def test_viscous_force_is_weighted_strain_derivative_times_strain_rate(rng, dim, order, nu):
    """Compare time rate (ds/dq')^T (s(q') - s(q)), which latent dynamics project, with the compiled
    Kelvin-Voigt force of a step."""
    body, time, rate = squishy(dim, order, nu), 0.02, 50.0
    old, new = body.rest + 0.001 * rng.standard_normal((2, body.rest.size))
    viscous = body.viscosity_of_step(body.fields, time, (rate, -rate), [old])
    energy, force = (
        a - b
        for a, b in zip(
            body.energy(new, body.fields, viscous), body.energy(new, body.fields), strict=True
        )
    )
    moved = body.weighted_strain(new, body.fields) - body.weighted_strain(old, body.fields)
    ways = rng.standard_normal((10, body.rest.size))
    work = (
        time
        * rate
        * np.array([body.weighted_strain_jvp(new, way, body.fields) @ moved for way in ways])
    )
    np.testing.assert_allclose(ways @ force, work, rtol=1e-9, atol=1e-9 * np.abs(work).max())
    assert energy == pytest.approx(0.5 * time * rate * moved @ moved, rel=1e-9)
    assert np.abs(work).max() > 0.0


# Plane strain


def test_energy_and_force_of_plane_body_are_proportional_to_thickness(rng):
    thin, thick = solid(2, 2), solid(2, 2, thickness=2.5)
    q = thin.rest + 0.003 * rng.standard_normal(thin.rest.size)
    assert thick.energy(q, thick.fields)[0] == pytest.approx(
        2.5 * thin.energy(q, thin.fields)[0], rel=1e-13
    )
    np.testing.assert_allclose(
        thick.gradient(q, thick.fields), 2.5 * thin.gradient(q, thin.fields), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        thick.mass(thick.fields.density), 2.5 * thin.mass(thin.fields.density), atol=1e-14
    )


@pytest.mark.parametrize("law", LAWS)
def test_plane_strain_equals_slab_held_across_its_thickness(rng, law):
    """Kuhn's subdivision of a cube, seen from above, is that of its square, so both meshes
    represent the same linear field."""
    material = {"body": pl.Material(E=5e4, nu=0.35, law=law)}
    plane = Solid(
        mesh=pl.geometry.Rectangle(size=(0.3, 0.2)).mesh(divisions=(3, 2)),
        materials=material,
        thickness=0.1,
    )
    slab = Solid(mesh=pl.Box(size=(0.3, 0.2, 0.1)).mesh(divisions=(3, 2, 1)), materials=material)
    below = np.array(
        [np.argmin(np.linalg.norm(plane.mesh.points - x[:2], axis=1)) for x in slab.mesh.points]
    )
    q = plane.rest + 0.01 * rng.standard_normal(plane.rest.size)
    Q = np.column_stack([q.reshape(-1, 2)[below], slab.mesh.points[:, 2]]).ravel()
    assert slab.energy(Q, slab.fields)[0] == pytest.approx(
        plane.energy(q, plane.fields)[0], rel=1e-12
    )
    folded = np.zeros((plane.mesh.n_points, 2))
    np.add.at(folded, below, slab.gradient(Q, slab.fields).reshape(-1, 3)[:, :2])
    np.testing.assert_allclose(
        folded.ravel(), plane.gradient(q, plane.fields), atol=1e-11 * np.abs(folded).max()
    )


# Materials and inversion


def test_regions_have_their_own_materials():
    mesh = pl.Box(size=(0.2, 0.1, 0.1)).mesh(divisions=(2, 1, 1))
    mesh = Mesh(
        points=mesh.points,
        cells=mesh.cells,
        regions={"left": np.arange(6), "right": np.arange(6, 12)},
        surfaces=mesh.surfaces,
    )
    soft, hard = (
        pl.Material(E=1e4, nu=0.3, density=900.0),
        pl.Material(E=1e6, nu=0.4, density=1100.0, law="fixed-corotated"),
    )
    body = Solid(mesh=mesh, materials={"left": soft, "right": hard})
    np.testing.assert_array_equal(body.fields.E, [1e4] * 6 + [1e6] * 6)
    assert body.mass(body.fields.density).sum() > 0.0
    np.testing.assert_array_equal(body.material_cells["right"], np.arange(6, 12))
    with pytest.raises(InputError, match=r"6 of 12 cells have no material.*cell 6"):
        Solid(mesh=mesh, materials={"left": soft})
    with pytest.raises(InputError, match=r"material for 'middle'.*left, right"):
        Solid(mesh=mesh, materials={"middle": soft})


@elements
def test_inverted_cell_of_barrier_law_is_found(dim, order):
    body = solid(dim, order)
    assert body.inadmissible_cell(body.rest) is None
    q = body.rest.reshape(-1, dim).copy()
    victim = body.mesh.cells[4, 0]
    q[victim] += 1.5 * (
        body.mesh.points[body.mesh.cells[4, 1 : dim + 1]].mean(axis=0) - q[victim]
    )  # through its far side
    J, cell = body.inadmissible_cell(q.ravel())
    assert J <= 0.0
    assert victim in body.mesh.cells[cell]
    assert body.energy(q.ravel(), body.fields)[0] == np.inf
    tough = solid(dim, order, "fixed-corotated")
    assert tough.inadmissible_cell(q.ravel()) is None
    assert np.isfinite(tough.energy(q.ravel(), tough.fields)[0])


def test_misplaced_midside_node_is_found_at_the_corners():
    """A quadratic cell may be inverted at a corner although all quadrature points are valid. This
    is detected."""
    body = solid(2, 2)
    q = body.rest.reshape(-1, 2).copy()
    a, middle = body.mesh.cells[0, 0], body.mesh.cells[0, 3]
    q[middle] = q[a] + 0.15 * (
        q[middle] - q[a]
    )  # below a quarter of the edge the mapping is inverted at the corner
    J, _ = body.inadmissible_cell(q.ravel())
    assert J <= 0.0
    assert body.energy(q.ravel(), body.fields)[0] == np.inf
