"""Cables: the force is minus tension times the length gradient; a length-driven cable follows
[Spielberg2021, eq. 17]."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics.equations import Equations

ROUTE = np.array([[0.05, 0.02, 0.02], [0.2, 0.08, 0.05], [0.35, 0.02, 0.08]])
GUIDE = (0.1, 0.3, 0.4)


def arm(**cable):
    return pl.Robot(
        shape=pl.Box(size=(0.4, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=(pl.Support(region="x-"),),
        actuators={"line": pl.Cable(points=ROUTE, **cable)},
    )


def equations(rng, **cable):
    eq = Equations(robot=arm(**cable))
    return eq, eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)


def gradient(eq, q, u):
    """Return the gradient [N] of the cable's energy; nothing else acts."""
    return eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1]


def length(eq, q, guide=None):
    """Return the length of the route from the positions of its points."""
    at = eq.body.locate(ROUTE) @ q.reshape(-1, 3)
    at = at if guide is None else np.vstack([at, guide])
    return np.linalg.norm(np.diff(at, axis=0), axis=1).sum()


@pytest.mark.parametrize("guide", [None, GUIDE])
def test_cable_force_is_minus_tension_times_length_gradient(rng, taylor, guide):
    eq, q = equations(rng, guide=guide)
    d = 0.1 * rng.standard_normal(q.size)
    force = -gradient(eq, q, np.array([3.0]))
    assert taylor(lambda e: -3.0 * length(eq, q + e * d, guide), force @ d) == pytest.approx(
        2.0, abs=0.1
    )


def test_internal_cable_has_no_resultant_force(rng):
    eq, q = equations(rng)
    f, x = (part.reshape(-1, 3) for part in (gradient(eq, q, np.array([3.0])), q))
    assert np.abs(f).max() > 0.1
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.cross(x, f).sum(axis=0), 0.0, atol=1e-14)


def test_guide_force_is_tension_towards_guide(rng):
    eq, q = equations(rng, guide=GUIDE)
    total = -gradient(eq, q, np.array([3.0])).reshape(-1, 3).sum(axis=0)
    end = (eq.body.locate(ROUTE) @ q.reshape(-1, 3))[-1]
    pull = np.array(GUIDE) - end
    np.testing.assert_allclose(total, 3.0 * pull / np.linalg.norm(pull), rtol=1e-12)


def test_cable_cannot_push(rng):
    eq, q = equations(rng)
    np.testing.assert_array_equal(gradient(eq, q, np.array([-5.0])), 0.0)
    np.testing.assert_array_equal(eq.control_jacobian(q, np.array([-5.0])), 0.0)
    assert eq.potentials[0][0].energy(eq.points(eq.potentials[0][0], q), np.array([-5.0])) == 0.0


def test_control_gradient_is_derivative_of_force(rng):
    eq, q = equations(rng)
    step = gradient(eq, q, np.array([5.0])) - gradient(eq, q, np.array([3.0]))
    np.testing.assert_allclose(
        eq.control_jacobian(q, np.array([4.0]))[:, 0], step / 2.0, atol=1e-14
    )


@pytest.mark.parametrize(("u", "taut"), [(0.7, True), (0.0, True), (-0.5, True), (1.6, False)])
def test_length_driven_cable_energy_matches_spielberg2021_eq_17(rng, u, taut):
    k = 40.0
    eq, q = equations(rng, drive="length", stiffness=k)
    rest = np.linalg.norm(np.diff(ROUTE, axis=0), axis=1).sum()
    expected = k / 2 * max(0.0, length(eq, q) - max(0.0, rest * u)) ** 2
    term, _ = eq.potentials[0]
    assert term.energy(eq.points(term, q), np.array([u])) == pytest.approx(expected, rel=1e-12)
    assert (expected > 0.0) == taut
    assert np.any(gradient(eq, q, np.array([u]))) == taut
    assert len(eq.rank_one_columns(q, np.array([u]))[1]) == int(taut)


@pytest.mark.parametrize("drive", ["tension", "length"])
def test_gradient_hessian_and_control_column_pass_taylors_test(rng, taylor, drive):
    eq, q = equations(rng, drive=drive, stiffness=40.0)
    u, d = np.array([0.7]), 0.1 * rng.standard_normal(q.size)
    term, _ = eq.potentials[0]
    energy = lambda e: term.energy(eq.points(term, q + e * d), u)
    assert taylor(energy, gradient(eq, q, u) @ d) == pytest.approx(2.0, abs=0.1)
    assert taylor(
        lambda e: gradient(eq, q + e * d, u), eq.potential_stiffness_times(q, u, d)
    ) == pytest.approx(2.0, abs=0.1)
    both = lambda e: gradient(eq, q, u + e)
    np.testing.assert_allclose(
        both(1e-3) - both(-1e-3), 2e-3 * eq.control_jacobian(q, u)[:, 0], atol=1e-13
    )


@pytest.mark.parametrize("drive", ["tension", "length"])
def test_sparse_tangent_plus_rank_one_terms_is_dense_hessian(drive):
    """Compare the solve of a step with a Hessian from central differences of the gradient."""
    robot = arm(drive=drive, stiffness=1e3)
    model = pl.Quasistatic(robot)
    u = np.array([0.8])
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
    x = model.tangent(step)(b)
    # Central differences: e^2 of the third derivative over a cell of 0.1 m, and round-off eps / e:
    # both about 1e-9.
    np.testing.assert_allclose(H @ x, b, atol=1e-7 * np.abs(b).max() * np.linalg.cond(H) ** 0.5)


def test_tension_shortens_arm_and_longer_cable_releases_it():
    model = pl.Quasistatic(arm(drive="length", stiffness=1e3))
    long, short = (
        length(model.equations, pl.equilibrium(model, np.array([u])).x) for u in (1.0, 0.8)
    )
    assert short < 0.97 * long
    np.testing.assert_allclose(
        pl.equilibrium(model, np.array([1.2])).x, model.initial_state(), atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"points": ROUTE[:1]}, "at least two points and has 1"),
        ({"points": ROUTE * np.nan}, "points of a cable.* nan"),
        ({"drive": "motor"}, "'tension' or 'length', not by 'motor'"),
        ({"limits": (2.0, 1.0)}, "lower limit 2 .*not below its upper limit 1"),
        ({"stiffness": 0.0}, "stiffness is 0"),
    ],
)
def test_bad_cable_is_rejected(change, says):
    with pytest.raises(InputError, match=says):
        pl.Cable(**{"points": ROUTE, **change})


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (ROUTE + [[1.0, 0, 0]], "Actuator 'line'.*outside"),
        (ROUTE[[0, 0, 1]], "points 0 and 1 coincide"),
    ],
)
def test_cable_outside_its_body_is_rejected(points, says):
    robot = pl.Robot(
        shape=pl.Box(size=(0.4, 0.1, 0.1)),
        material=pl.Material(E=1e5, nu=0.3),
        actuators={"line": pl.Cable(points=points)},
    )
    with pytest.raises(InputError, match=says):
        _ = Equations(robot=robot).potentials


def test_rest_length_is_that_of_given_points():
    """Points inside the body are not moved, so interpolation must not round them."""
    points = np.random.default_rng(0).uniform(0.001, 0.009, (30, 3))
    body = pl.Robot(
        shape=pl.Box(size=(0.01, 0.01, 0.01)),
        divisions=(2, 2, 2),
        material=pl.Material(E=1e5, nu=0.3),
    ).body()
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert pl.Cable(points=points).attach(body).rest_length == length
