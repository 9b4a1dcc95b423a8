"""Fibres: stiff along their direction only, invariant under rotation, with exact derivatives."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pliant as pl
from pliant.actuators import Fibres
from pliant.actuators.fibres import circumferential, radial
from pliant.dynamics.equations import Equations
from pliant.geometry import Annulus

STIFFNESS = 5e5  # [Pa]


def along(axis):
    return lambda points: np.tile(axis, (len(points), 1))


def block(order=1, axis=(1.0, 0.0, 0.0), region="body"):
    fibres = Fibres(region=region, stiffness=STIFFNESS, direction=along(axis))
    return pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=order,
        material=pl.Material(E=1e5, nu=0.3),
        supports=(pl.Support(region="x-"),),
        actuators={"thread": fibres},
    )


def energy_at(eq, q):
    term, _ = eq.potentials[0]
    return term.energy(eq.points(term, q), np.zeros(0))


@pytest.mark.parametrize("order", [1, 2])
def test_energy_of_uniform_stretch_matches_formula_and_is_rotation_invariant(order):
    """The energy is stiffness/2 ((s^2 - 1)/2)^2 times the volume of 2 litres.

    It does not depend on the transverse stretch or on the rotation."""
    eq = Equations(robot=block(order=order))
    rotation = Rotation.from_rotvec([0.4, -1.0, 0.7]).as_matrix()
    x = (eq.body.rest.reshape(-1, 3) * (1.2, 0.8, 0.9)) @ rotation.T
    assert energy_at(eq, x.ravel()) == pytest.approx(
        0.5 * STIFFNESS * ((1.2**2 - 1) / 2) ** 2 * 2e-3, rel=1e-12
    )


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_and_hessian_pass_taylors_test(rng, taylor, order):
    eq = Equations(robot=block(order=order, axis=(1.0, 0.5, -0.3)))
    q, d, u = (
        eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs),
        0.1 * rng.standard_normal(eq.n_dofs),
        np.zeros(0),
    )
    gradient = lambda e: eq.external_energy_and_gradient(eq.coefficients(None), q + e * d, u)[1]
    assert taylor(lambda e: energy_at(eq, q + e * d), gradient(0.0) @ d) == pytest.approx(
        2.0, abs=0.1
    )
    assert taylor(gradient, eq.potential_stiffness_times(q, u, d)) == pytest.approx(2.0, abs=0.1)


def test_bar_with_axial_fibres_matches_stiffer_bar():
    """A small traction of 1 Pa gives the strain 1 / (E + stiffness) far from the ends for nu =
    0."""
    strains = []
    for fibres in (
        {},
        {"thread": Fibres(region="body", stiffness=STIFFNESS, direction=along((1.0, 0.0, 0.0)))},
    ):
        robot = pl.Robot(
            shape=pl.Box(size=(0.2, 0.1, 0.1)),
            divisions=(2, 1, 1),
            material=pl.Material(E=1e5, nu=0.0),
            actuators=fibres,
            supports=(pl.Support(region="x-"),),
            loads=(pl.SurfaceLoad(surface="x+", traction=(1.0, 0.0, 0.0)),),
            effectors={"end": pl.Effector(surface="x+")},
        )
        step = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0))
        strains.append(robot.effector_position("end", step.x)[0] / 0.2 - 1.0)
    np.testing.assert_allclose(strains, [1e-5, 1.0 / 6e5], rtol=1e-4)


def test_circumferential_and_radial_directions_follow_the_axis():
    points = np.array([[2.0, 0.0, 5.0], [0.0, 3.0, -1.0]])
    np.testing.assert_array_equal(circumferential(points), [[0, 2, 0], [-3, 0, 0]])
    np.testing.assert_array_equal(radial(points), [[2, 0, 0], [0, 3, 0]])
    np.testing.assert_array_equal(radial(points[:, :2]), points[:, :2])


def test_ring_with_circumferential_fibres_keeps_its_perimeter():
    """Circumferential fibres ten times as stiff as a thin ring with nu = 0 reduce its expansion by
    the factor E / (E + 10 E)."""
    widened = []
    for fibres in ({}, {"thread": Fibres(region="body", stiffness=1e6)}):
        mesh = pl.geometry.name_cavities(
            Annulus(outer=0.1, inner=0.095).mesh(divisions=(48, 1), order=2)
        )
        robot = pl.Robot(
            shape=mesh,
            material=pl.Material(E=1e5, nu=0.0),
            actuators={"air": pl.actuators.Pressure(cavity="cavity-1"), **fibres},
        )
        model = pl.ImplicitEuler(robot, dt=1e3)
        q = model.space.position(model.step(model.initial_state(), np.array([1.0])).x).reshape(
            -1, 2
        )
        widened.append(np.mean(np.linalg.norm(q, axis=1) - np.linalg.norm(mesh.points, axis=1)))
    assert widened[1] == pytest.approx(
        widened[0] / 11.0, rel=0.03
    )  # the wall thickness is a twentieth of the radius


def test_bad_fibres_are_rejected(raises_clear_error):
    raises_clear_error(
        lambda: Fibres(region="body", stiffness=-1.0), "stiffness of the fibres is -1"
    )
    raises_clear_error(
        lambda: Equations(robot=block(region="bone")).potentials,
        "Actuator 'thread'.*no region 'bone'",
    )
    raises_clear_error(
        lambda: Equations(robot=block(axis=(0.0, 0.0, 0.0))).potentials, r"no direction near \["
    )
    raises_clear_error(
        lambda: Equations(robot=block(axis=(1.0, 0.0))).potentials, "direction of the fibres"
    )
    pebble = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0, 0]], mass_each=1.0),
        actuators={"thread": Fibres(region="body", stiffness=1.0)},
    )
    raises_clear_error(
        lambda: Equations(robot=pebble).potentials, "PointMass cannot contain fibres"
    )
