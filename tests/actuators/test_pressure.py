"""Pressure: zero resultant and moment, work p dV, exact Hessians, Lame's thick walls, and volume
drive."""

from itertools import combinations

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import ExtrapolatedActuator, Pressure
from pliant.dynamics.equations import Equations
from pliant.geometry import (
    Annulus,
    Box,
    Ellipsoid,
    Mesh,
    Rectangle,
    find_cavities,
    name_cavities,
    remove_unused_points,
)

E, NU = 1e5, 0.3
every = pytest.mark.parametrize(("dim", "order"), [(2, 1), (2, 2), (3, 1), (3, 2)])


def hollow(dim, order=1):
    """Return a mesh of 3 x 3 (x 3) cubes of 0.1 m without the middle one.

    Its surfaces are "x-" and "cavity-1"."""
    shape = Rectangle(size=(0.3, 0.3)) if dim == 2 else Box(size=(0.3, 0.3, 0.3))
    mesh = shape.mesh(divisions=dim * (3,))
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1)
    points, cells = remove_unused_points(mesh.points, mesh.cells[~(cube == 1).all(axis=1)])
    mesh = name_cavities(Mesh(points=points, cells=cells, surfaces={"x-": _side(points, cells)}))
    return mesh.quadratic() if order == 2 else mesh


def _side(points, cells):
    facets = Mesh(points=points, cells=cells).boundary()
    return facets[(points[facets][:, :, 0] == 0.0).all(axis=1)]


def bag(dim=3, order=1, thickness=1.0, **pressure):
    return pl.Robot(
        shape=hollow(dim, order),
        order=order,
        material=pl.Material(E=E, nu=NU),
        supports=(pl.Support(region="x-"),),
        actuators={"air": Pressure(cavity="cavity-1", **pressure)},
        thickness=thickness,
    )


def equations(rng, **options):
    eq = Equations(robot=bag(**options))
    return eq, eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)


def gradient(eq, q, u):
    """Return the gradient [N] of the fluid's energy; nothing else acts."""
    return eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1]


def volume(eq, q):
    term, _ = eq.potentials[0]
    return float(term.volume(eq.points(term, q)))


@every
def test_closed_cavity_has_no_resultant_force(rng, dim, order):
    eq, q = equations(rng, dim=dim, order=order)
    f, x = (part.reshape(-1, dim) for part in (gradient(eq, q, np.array([2e4])), q))
    assert np.abs(f).max() > 10.0
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-11)
    moments = [x[:, i] * f[:, j] - x[:, j] * f[:, i] for i, j in combinations(range(dim), 2)]
    np.testing.assert_allclose(np.sum(moments, axis=1), 0.0, atol=1e-11)


@every
def test_work_is_pressure_times_volume_change(rng, dim, order):
    """Along a straight path the force is a polynomial of degree 2 at most, so Simpson's rule is
    exact."""
    eq, q = equations(rng, dim=dim, order=order, thickness=0.05)
    step = 0.02 * rng.standard_normal(q.size)
    work = sum(
        w * -gradient(eq, q + s * step, np.array([2e4])) @ step
        for s, w in ((0.0, 1 / 6), (0.5, 4 / 6), (1.0, 1 / 6))
    )
    assert work == pytest.approx(2e4 * (volume(eq, q + step) - volume(eq, q)), rel=1e-10)


@every
def test_pressure_pushes_walls_apart_and_volume_equals_cavity_volume(dim, order):
    eq = Equations(robot=bag(dim=dim, order=order, thickness=0.05))
    q, depth = eq.body.rest, 0.05 if dim == 2 else 1.0
    assert volume(eq, q) == pytest.approx(depth * 0.1**dim, rel=1e-12)
    assert volume(eq, 1.5 * q) == pytest.approx(1.5**dim * depth * 0.1**dim, rel=1e-12)
    f = -gradient(eq, q, np.array([2e4])).reshape(-1, dim)
    right = np.isclose(q.reshape(-1, dim)[:, 0], 0.2) & (np.abs(f).max(axis=1) > 0.0)
    assert f[right, 0].sum() == pytest.approx(2e4 * depth * 0.1 ** (dim - 1), rel=1e-12)


@pytest.mark.parametrize("drive", ["pressure", "volume"])
@every
def test_gradient_hessian_and_control_column_pass_taylors_test(rng, taylor, dim, order, drive):
    eq, q = equations(rng, dim=dim, order=order, drive=drive)
    u, d = np.array([1.3e4 if drive == "pressure" else 1.2]), 0.1 * rng.standard_normal(q.size)
    term, _ = eq.potentials[0]
    energy = lambda e: term.energy(eq.points(term, q + e * d), u)
    assert taylor(energy, gradient(eq, q, u) @ d) == pytest.approx(2.0, abs=0.1)
    H = eq.potential_stiffness_times(q, u, d)
    if dim == 2 and drive == "pressure":  # the area is a quadratic form, so its gradient is linear
        np.testing.assert_allclose(gradient(eq, q + d, u), gradient(eq, q, u) + H, atol=1e-9)
    else:
        assert taylor(lambda e: gradient(eq, q + e * d, u), H) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(
        gradient(eq, q, u + 0.5) - gradient(eq, q, u),
        0.5 * eq.control_jacobian(q, u)[:, 0],
        atol=1e-8,
    )
    blocks = term.hessian(eq.points(term, q), u)
    np.testing.assert_allclose(blocks, np.swapaxes(blocks, 1, 2), atol=1e-12 * np.abs(blocks).max())


def pressed(mesh, order, p):
    """Return the radial displacement [m] of the cavity nodes of an unsupported body.

    One long implicit step reaches the equilibrium to 1e-6."""
    robot = pl.Robot(
        shape=mesh,
        order=order,
        material=pl.Material(E=E, nu=NU),
        actuators={"air": Pressure(cavity="cavity-1")},
    )
    model = pl.ImplicitEuler(robot, dt=1e3)
    step = model.step(model.initial_state(), np.array([p]))
    assert step.status, step.status.text
    wall = mesh.nodes("cavity-1")
    rest, moved = mesh.points[wall], model.space.position(step.x).reshape(-1, mesh.dim)[wall]
    return np.linalg.norm(moved, axis=1) - np.linalg.norm(rest, axis=1)


def test_thick_ring_matches_lame():
    """Plane strain: u(a) = p a (1 + nu) / E ((1 - 2 nu) a^2 + b^2) / (b^2 - a^2)."""
    a, b, p = 0.05, 0.1, 1e-4 * E
    mesh = name_cavities(Annulus(outer=b, inner=a).mesh(divisions=(24, 3), order=2))
    exact = p * a * (1 + NU) / E * ((1 - 2 * NU) * a**2 + b**2) / (b**2 - a**2)
    np.testing.assert_allclose(pressed(mesh, 2, p), exact, rtol=0.005)


def shell(a, b, rings):
    """Return a ball of radius b without the lattice shells inside a, with curved quadratic
    cells."""
    mesh = Ellipsoid(radii=(b, b, b)).mesh(divisions=(rings,), order=2)
    radius = np.linalg.norm(mesh.points[mesh.corners], axis=2)
    points, cells = remove_unused_points(
        mesh.points, mesh.cells[radius.min(axis=1) > a * (1 - 1e-9)]
    )
    return name_cavities(Mesh(points=points, cells=cells))


def test_thick_ball_matches_lame():
    """u(a) = p a / E ((1 - 2 nu) a^3 + (1 + nu) b^3 / 2) / (b^3 - a^3)."""
    a, b, p = 0.05, 0.1, 1e-4 * E
    moved = pressed(shell(a, b, 6), 2, p)
    exact = p * a / E * ((1 - 2 * NU) * a**3 + (1 + NU) * b**3 / 2) / (b**3 - a**3)
    assert moved.mean() == pytest.approx(exact, rel=0.01)
    np.testing.assert_allclose(moved, exact, rtol=0.02)


def test_volume_drive_holds_volume_up_to_compliance():
    """V / V0 = u - p / bulk; ten times the bulk modulus leaves a tenth of the error."""
    misses = []
    for bulk in (1e6, 1e7):
        model = pl.Quasistatic(bag(drive="volume", bulk=bulk))
        eq = model.equations
        q, term = pl.equilibrium(model, np.array([1.2])).x, eq.potentials[0][0]
        p, share = term.pressure(eq.points(term, q), np.array([1.2])), volume(eq, q) / 0.1**3
        assert share == pytest.approx(1.2 - p / bulk, rel=1e-12)
        misses.append(1.2 - share)
    assert 0.0 < misses[0] < 0.1
    assert misses[0] / misses[1] == pytest.approx(10.0, rel=0.25)  # p differs slightly


def test_pressure_and_volume_drives_agree_at_same_shape():
    by_volume, by_pressure = (pl.Quasistatic(bag(drive=drive)) for drive in ("volume", "pressure"))
    q, eq = pl.equilibrium(by_volume, np.array([1.2])).x, by_volume.equations
    p = eq.potentials[0][0].pressure(eq.points(eq.potentials[0][0], q), np.array([1.2]))
    np.testing.assert_allclose(pl.equilibrium(by_pressure, np.array([p])).x, q, atol=1e-8)


def test_volume_follows_points_that_change_in_place():
    """The last volume is stored. It must not be returned for other points in the same array."""
    eq = Equations(robot=bag())
    term, _ = eq.attached("air")
    y = eq.points(term, eq.body.rest)
    before, gradient = term.volume(y), term.volume_gradient(y)
    y *= 2.0
    assert term.volume(y) == pytest.approx(8.0 * before, rel=1e-12)
    np.testing.assert_allclose(term.volume_gradient(y), 4.0 * gradient, rtol=1e-12)
    assert np.isrealobj(term.volume(y + 0j).real)
    assert term.volume(y + 1e-20j * gradient).imag / 1e-20 == pytest.approx(
        np.sum(term.volume_gradient(y) * gradient), rel=1e-12
    )


def test_volume_below_rest_contracts_cavity():
    model = pl.Quasistatic(bag(drive="volume"))
    assert volume(model.equations, pl.equilibrium(model, np.array([0.9])).x) < 0.95 * 0.1**3
    np.testing.assert_allclose(
        pl.equilibrium(model, np.array([1.0])).x, model.initial_state(), atol=1e-12
    )


def test_sparse_tangent_plus_rank_one_terms_is_dense_hessian():
    model = pl.Quasistatic(bag(drive="volume"))
    u = np.array([1.2])
    step = pl.equilibrium(model, u)
    eq, q, free, e = model.equations, step.x, model.equations.free, 1e-6
    whole = lambda at: eq.body.gradient(at, eq.body.fields) + gradient(eq, at, u)
    H = np.array(
        [
            (whole(q + e * unit) - whole(q - e * unit))[free] / (2 * e)
            for unit in np.eye(q.size)[free]
        ]
    )
    b = np.arange(1.0, free.size + 1)
    np.testing.assert_allclose(
        H @ model.tangent(step)(b), b, atol=1e-7 * np.abs(b).max() * np.linalg.cond(H) ** 0.5
    )


def test_extrapolated_pressure_allows_suction(rng):
    plain = Pressure(cavity="cavity-1")
    eq, q = equations(rng)
    term, y = (
        ExtrapolatedActuator(actuator=plain).attach(eq.body),
        eq.points(eq.potentials[0][0], q),
    )
    np.testing.assert_allclose(
        term.gradient(y, np.array([-3e3])),
        plain.attach(eq.body).gradient(y, np.array([-3e3])),
        rtol=1e-12,
    )
    assert term.energy_per_control(y)[0] == pytest.approx(-volume(eq, q))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drive": "flow"}, "'pressure' or 'volume', not by 'flow'"),
        ({"limits": (2.0, 1.0)}, "lower limit 2 .*not below its upper limit 1"),
        ({"bulk": 0.0}, "bulk modulus is 0"),
        ({"cavity": 3}, "cavity of a pressure"),
    ],
)
def test_bad_pressure_is_rejected(raises_clear_error, change, says):
    raises_clear_error(lambda: Pressure(**{"cavity": "cavity-1", **change}), says)


@pytest.mark.parametrize(
    ("cavity", "says"),
    [
        ("cavity-2", "Actuator 'air'.*no surface or region 'cavity-2'.*[Dd]id you mean 'cavity-1'"),
        (
            "leak",
            r"'leak' is open: 3 edges .*near \[0\.[12]\d*, 0\.[12]\d*, 0\.[12]\d*\] m.*"
            r"cavities of the mesh are cavity-1\.",
        ),
        ("outside", "'outside' encloses 0.027 m\\^3 of the body, not a void"),
        ("all", "'all' encloses"),
    ],
)
def test_surface_that_is_not_a_cavity_is_rejected(raises_clear_error, cavity, says):
    mesh = hollow(3)
    wall, every = find_cavities(mesh)[0], mesh.boundary()
    outside = every[~(np.isin(every, np.unique(wall))).all(axis=1)]
    surfaces = {**mesh.surfaces, "leak": wall[1:], "outside": outside, "all": every}
    shape = Mesh(points=mesh.points, cells=mesh.cells, surfaces=surfaces)
    robot = pl.Robot(
        shape=shape,
        order=1,
        material=pl.Material(E=E, nu=NU),
        actuators={"air": Pressure(cavity=cavity)},
    )
    raises_clear_error(lambda: Equations(robot=robot).potentials, says)


def test_pressure_on_body_without_cavities_is_rejected(raises_clear_error):
    air = {"air": Pressure(cavity="cavity-1")}
    pebbles = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0, 0.0]], mass_each=1.0), actuators=air)
    raises_clear_error(
        lambda: Equations(robot=pebbles).potentials, "Actuator 'air'.*PointMass has no cavities"
    )
