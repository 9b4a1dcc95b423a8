"""Extrapolated actuators: equal to the actuator for nonnegative controls, and linear below zero."""

from types import SimpleNamespace

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import ExtrapolatedActuator, Fluidic, Gripper, MovingFrame, Muscle, Thrust
from pliant.bodies import Solid
from pliant.dynamics.equations import Equations
from pliant.geometry import Rectangle

ROUTE = {
    2: np.array([[0.03, 0.02], [0.1, 0.08], [0.17, 0.02]]),
    3: np.array([[0.03, 0.02, 0.02], [0.1, 0.08, 0.05], [0.17, 0.02, 0.08]]),
}
ACTUATORS = {
    "cable": lambda dim: pl.Cable(points=ROUTE[dim]),
    "cable with a guide": lambda dim: pl.Cable(points=ROUTE[dim], guide=(0.1, 0.3, 0.4)[:dim]),
    "muscle": lambda dim: Muscle(region="body", axis=(1.0, 0.5, 0.2)[:dim]),
    "fluid": lambda dim: Fluidic(region="body"),
    "thrust": lambda dim: Thrust(point=(0.17, 0.04, 0.07)[:dim]),
}
every = pytest.mark.parametrize("name", ACTUATORS)
dims = pytest.mark.parametrize("dim", [2, 3])


def robot(dim, actuator, **parts):
    shape = Rectangle(size=(0.2, 0.1)) if dim == 2 else pl.Box(size=(0.2, 0.1, 0.1))
    return pl.Robot(
        shape=shape,
        divisions=(2, 1, 1)[:dim],
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=(pl.Support(region="x-"),),
        actuators={"it": actuator},
        **parts,
    )


def both(dim, name, rng):
    """Return the actuator's potential, the extrapolated one, and points y of a deformed body."""
    actuator = ACTUATORS[name](dim)
    body = robot(dim, actuator).body()
    own, made = actuator.attach(body), ExtrapolatedActuator(actuator=actuator).attach(body)
    q = body.rest + 0.01 * rng.standard_normal(body.rest.size)
    return own, made, own.weights @ q.reshape(-1, dim) + own.offset


@dims
@every
def test_extrapolated_actuator_equals_actuator_for_nonnegative_controls(rng, name, dim):
    own, made, y = both(dim, name, rng)
    assert (made.n_controls, made.points_per_block, made.stiff) == (
        own.n_controls,
        own.points_per_block,
        own.stiff,
    )
    np.testing.assert_array_equal(made.weights.toarray(), own.weights.toarray())
    np.testing.assert_array_equal(made.offset, own.offset)
    for u in (
        np.zeros(own.n_controls),
        3.0 + np.arange(own.n_controls),
        1e-3 * np.ones(own.n_controls),
    ):
        assert made.energy(y, u) == pytest.approx(own.energy(y, u), rel=1e-13, abs=1e-18)
        for method in ("gradient", "hessian", "control_gradient"):
            expected = getattr(own, method)(y, u)
            got = getattr(made, method)(y, u)
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-16)
        assert len(made.rank_one_terms(y, u)[1]) == len(own.rank_one_terms(y, u)[1]) == 0
        np.testing.assert_array_equal(
            made.control_hessian_vector(y, u, y, u), own.control_hessian_vector(y, u, y, u)
        )


@dims
@every
def test_force_stiffness_and_energy_are_linear_in_controls_of_any_sign(rng, name, dim):
    _, made, y = both(dim, name, rng)
    u, v = rng.standard_normal((2, made.n_controls))
    for method in (made.energy, made.gradient, made.hessian):
        np.testing.assert_allclose(
            method(y, u - 2.0 * v), method(y, u) - 2.0 * method(y, v), rtol=1e-12, atol=1e-14
        )
        np.testing.assert_allclose(method(y, -u), -method(y, u), rtol=1e-13, atol=1e-16)
    np.testing.assert_array_equal(made.control_gradient(y, u), made.control_gradient(y, -u))


@dims
@every
def test_derivatives_match_energy_for_negative_controls(rng, taylor, name, dim):
    _, made, y = both(dim, name, rng)
    u, d = -0.5 - rng.uniform(size=made.n_controls), rng.standard_normal(y.shape)
    slope = np.sum(made.gradient(y, u) * d)
    if name == "thrust":  # linear in its point
        assert made.energy(y + d, u) == pytest.approx(made.energy(y, u) + slope)
        assert not made.hessian(y, u).any()
    else:
        size = 0.01 * np.abs(y).max() / np.abs(d).max()
        assert taylor(
            lambda e: made.energy(y + 100.0 * e * size * d, u), 100.0 * size * slope
        ) == pytest.approx(2.0, abs=0.1)
    e = 1e-6 * np.abs(y).max()
    change = (made.gradient(y + e * d, u) - made.gradient(y - e * d, u)) / (2.0 * e)
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", made.hessian(y, u), d),
        change,
        atol=1e-7 * max(1.0, np.abs(change).max()),
    )
    shift = rng.standard_normal(made.n_controls)
    np.testing.assert_allclose(
        np.tensordot(shift, made.control_gradient(y, u), axes=1),
        made.gradient(y, u + shift) - made.gradient(y, u),
        atol=1e-13,
    )


@dims
def test_extrapolated_cable_pushes_for_negative_tension(rng, dim):
    """The force at -u is minus the force at u, although the original cable is slack at -u."""
    cable = pl.Cable(points=ROUTE[dim])
    made, own = (
        Equations(robot=robot(dim, actuator))
        for actuator in (ExtrapolatedActuator(actuator=cable), cable)
    )
    q, u = made.body.rest + 0.01 * rng.standard_normal(made.n_dofs), np.array([2.5])
    force = lambda eq, u: -eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1]
    assert np.abs(force(made, u)).max() > 0.1
    np.testing.assert_allclose(force(made, u), force(own, u), atol=1e-14)
    np.testing.assert_allclose(force(made, -u), -force(made, u), atol=1e-14)
    np.testing.assert_array_equal(force(own, -u), 0.0)
    np.testing.assert_array_equal(made.control_jacobian(q, -u), made.control_jacobian(q, u))


@dims
@pytest.mark.parametrize("guide", [None, (0.1, 0.3, 0.4)])
def test_energy_per_control_of_cable_is_its_length(rng, dim, guide):
    guide = None if guide is None else guide[:dim]
    eq = Equations(
        robot=robot(dim, ExtrapolatedActuator(actuator=pl.Cable(points=ROUTE[dim], guide=guide)))
    )
    q, (term, _) = eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs), eq.potentials[0]
    at = eq.body.locate(ROUTE[dim]) @ q.reshape(-1, dim)
    at = at if guide is None else np.vstack([at, guide])
    assert term.energy_per_control(eq.points(term, q)) == pytest.approx(
        [np.linalg.norm(np.diff(at, axis=0), axis=1).sum()], rel=1e-14
    )


@dims
def test_energy_per_control_of_pressure_is_minus_volume(dim):
    """Under a uniform expansion by s, the stress -u I does the work u/2 (s^2 - 1) dim per unit of
    volume. To first order this is u times the volume change."""
    body = robot(dim, Fluidic(region="body")).body()
    term = ExtrapolatedActuator(actuator=Fluidic(region="body")).attach(body)
    volume, s = 0.02 * (1.0 if dim == 2 else 0.1), 1.05
    y = term.weights @ (s * body.rest.reshape(-1, dim)) + term.offset
    np.testing.assert_allclose(
        term.energy_per_control(y), [-volume * dim * (s**2 - 1.0) / 2.0], rtol=1e-12
    )
    assert -term.energy_per_control(y)[0] == pytest.approx(volume * (s**dim - 1.0), rel=0.06)


def test_energy_per_control_of_thrust_is_minus_position():
    at = np.array([0.17, 0.04, 0.07])
    body = robot(3, Thrust(point=at)).body()
    term = ExtrapolatedActuator(actuator=Thrust(point=at)).attach(body)
    y = term.weights @ body.rest.reshape(-1, 3) + term.offset
    np.testing.assert_allclose(term.energy_per_control(y), -at, atol=1e-15)


def test_extrapolated_actuator_has_no_limits_and_same_neutral():
    cable = pl.Cable(points=ROUTE[3], limits=(0.0, 8.0))
    made = robot(3, ExtrapolatedActuator(actuator=cable))
    np.testing.assert_array_equal(made.control_limits(), [[-np.inf], [np.inf]])
    np.testing.assert_array_equal(made.neutral_controls(), robot(3, cable).neutral_controls())
    assert made.n_controls == 1


@pytest.mark.parametrize(
    ("actuator", "says"),
    [
        (
            pl.Cable(points=ROUTE[3], drive="length"),
            "'it'.*a Cable with this drive is not linear in its control.*tension",
        ),
        (pl.Cable(points=ROUTE[3], drive="length", stiffness=1e-9), "a Cable .*not linear"),
        (
            Gripper(frame=MovingFrame(origin=(0.2, 0.05, 0.05)), surface="x+"),
            "'it'.*a Gripper with this drive is not linear",
        ),
    ],
)
def test_nonlinear_actuator_is_rejected(raises_clear_error, actuator, says):
    raises_clear_error(
        lambda: pl.Quasistatic(robot(3, ExtrapolatedActuator(actuator=actuator))), says
    )


def odd(gradient, stiff=False):
    """Return an actuator at a point whose force is minus `gradient` of its three controls."""

    def attach(body):
        return SimpleNamespace(
            weights=body.locate(np.array([[0.17, 0.04, 0.07]])),
            offset=np.zeros((1, 3)),
            n_controls=3,
            stiff=stiff,
            gradient=lambda y, u: gradient(u)[None],
        )

    return SimpleNamespace(n_controls=3, neutral=0.0, attach=attach)


@pytest.mark.parametrize(
    "actuator",
    [odd(lambda u: u**2), odd(lambda u: u + 1.0), odd(lambda u: u, stiff=True)],
    ids=["a square", "a preload", "a spring"],
)
def test_square_preload_and_spring_are_rejected(raises_clear_error, actuator):
    body = robot(3, Thrust(point=(0.17, 0.04, 0.07))).body()
    ExtrapolatedActuator(actuator=odd(lambda u: 2.0 * u)).attach(body)
    raises_clear_error(
        lambda: ExtrapolatedActuator(actuator=actuator).attach(body), "not linear in its control"
    )


def test_errors_of_wrapped_actuator_are_raised(raises_clear_error):
    outside = ExtrapolatedActuator(actuator=pl.Cable(points=ROUTE[3] + [[1.0, 0.0, 0.0]]))
    raises_clear_error(lambda: Equations(robot=robot(3, outside)).potentials, "'it'.*outside")


def test_muscle_on_point_masses_is_rejected(raises_clear_error):
    masses = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"it": ExtrapolatedActuator(actuator=Fluidic(region="body"))},
    )
    assert not isinstance(masses.body(), Solid)
    raises_clear_error(lambda: Equations(robot=masses).potentials, "'it'.*(no stress|'body')")
