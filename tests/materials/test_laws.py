"""Elastic laws: closed forms, symmetries and derivatives."""

import numpy as np
import pytest

from pliant.materials import LAWS, Material

E, NU = 3.0e4, 0.3
MU, LAM = E / (2 * (1 + NU)), E * NU / ((1 + NU) * (1 - 2 * NU))
LAWS_AND_POWERS = [(law, power) for law in LAWS for power in (0, 2, 4)]
every_law = pytest.mark.parametrize(("law", "power"), LAWS_AND_POWERS)


def material(law, power=0):
    return Material(E=E, nu=NU, law=law, power=power)


def deformation(rng, size=0.25):
    return np.eye(3) + size * rng.standard_normal((3, 3))


def random_rotation(rng):
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return Q * np.linalg.det(Q)


# Closed forms, derived from the energies of the papers


def principal_stress(law, stretch):
    """Return the diagonal (3,) of the stress P of F = diag(stretch)."""
    J = np.prod(stretch)
    return {
        "neo-hookean": MU * (stretch - 1 / stretch) + LAM * np.log(J) / stretch,
        "fixed-corotated": 2 * MU * (stretch - 1) + LAM * (J - 1) * J / stretch,
        "linear-corotated": 2 * MU * (stretch - 1) + LAM * (stretch.sum() - 3),
    }[law]


def shear_stress(law, g):
    """Return the stress P of simple shear x + g y.

    The determinant is one, and the rotation angle is atan(g / 2) clockwise.
    """
    c, s = np.array([2.0, g]) / np.hypot(2.0, g)
    R, F = (
        np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]),
        np.array([[1, g, 0], [0, 1, 0], [0, 0, 1.0]]),
    )
    return {
        "neo-hookean": MU * g * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]),
        "fixed-corotated": 2 * MU * (F - R),
        "linear-corotated": 2 * MU * (F - R) + LAM * (np.hypot(2.0, g) - 2.0) * R,
    }[law]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "stretch", [(1.5, 1.0, 1.0), (0.6, 1.0, 1.0), (1.3, 0.8, 0.9), (0.7, 0.7, 0.7)]
)
def test_stress_of_a_stretch_equals_closed_form(law, stretch):
    P = material(law).stress(np.diag(stretch))
    np.testing.assert_allclose(P, np.diag(principal_stress(law, np.array(stretch))), atol=1e-10 * E)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("g", [-0.7, 0.05, 1.0])
def test_stress_of_simple_shear_equals_closed_form(law, g):
    F = np.eye(3)
    F[0, 1] = g
    np.testing.assert_allclose(material(law).stress(F), shear_stress(law, g), atol=1e-10 * E)


@pytest.mark.parametrize("power", [2, 4])
@pytest.mark.parametrize("law", LAWS)
def test_near_incompressible_stress_follows_spielberg2021_eq_14(rng, law, power):
    F = deformation(rng)
    J = np.linalg.det(F)
    added = E / (3 * (2 - 2 * NU)) * power * (J - 1) ** (power - 1) * J * np.linalg.inv(F).T
    np.testing.assert_allclose(
        material(law, power).stress(F) - material(law).stress(F), added, atol=1e-10 * E
    )


@pytest.mark.parametrize("law", LAWS)
def test_odd_power_resists_compression_and_expansion(law):
    for size, sign in ((0.9, -1.0), (1.1, 1.0)):
        added = material(law, 3).stress(size * np.eye(3)) - material(law).stress(size * np.eye(3))
        assert sign * np.trace(added) > 0.0


@pytest.mark.parametrize(
    ("law", "power"), [(law, power) for law, power in LAWS_AND_POWERS if power != 2]
)
def test_small_strains_follow_hookes_law(rng, rate, law, power):
    """A tension of E e causes the strains e and -nu e. The remainder is of second order."""
    m, H = material(law, power), rng.standard_normal((3, 3))
    strain = (H + H.T) / 2
    hooke = E / (1 + NU) * (strain + NU / (1 - 2 * NU) * np.trace(strain) * np.eye(3))
    sizes = 1e-3 * 0.5 ** np.arange(4)
    errors = [np.linalg.norm(m.stress(np.eye(3) + e * H) - e * hooke) for e in sizes]
    assert rate(sizes, errors) == pytest.approx(2.0, abs=0.1)
    uniaxial = np.diag([1e-7, -NU * 1e-7, -NU * 1e-7])
    # The second-order remainder is 1e-7 of the stress. The factor ten covers the curvature of
    # the laws.
    np.testing.assert_allclose(
        m.stress(np.eye(3) + uniaxial), np.diag([E * 1e-7, 0, 0]), atol=10 * 1e-14 * E
    )


# Symmetries


@every_law
def test_rotation_has_no_stress_and_no_energy(rng, law, power):
    Q = random_rotation(rng)
    assert material(law, power).energy(Q) == pytest.approx(0.0, abs=1e-12 * E)
    np.testing.assert_allclose(material(law, power).stress(Q), np.zeros((3, 3)), atol=1e-12 * E)


@every_law
def test_energy_is_objective_and_isotropic(rng, law, power):
    F, Q, m = deformation(rng), random_rotation(rng), material(law, power)
    assert m.energy(Q @ F) == pytest.approx(m.energy(F), rel=1e-12)
    assert m.energy(F @ Q) == pytest.approx(m.energy(F), rel=1e-12)
    np.testing.assert_allclose(m.stress(Q @ F), Q @ m.stress(F), atol=1e-11 * E)


@every_law
def test_kirchhoff_stress_is_symmetric(rng, law, power):
    F = deformation(rng)
    tau = material(law, power).stress(F) @ F.T
    np.testing.assert_allclose(tau, tau.T, atol=1e-11 * E)


def test_only_neo_hookean_energy_is_infinite_if_inverted():
    inverted = np.diag([1.0, 1.0, -0.5])
    assert material("neo-hookean").energy(inverted) == np.inf
    assert material("neo-hookean").energy(np.diag([1.0, 1.0, 1e-200])) > 1e5 * MU
    for law in ("fixed-corotated", "linear-corotated"):
        assert 0.0 < material(law).energy(inverted) < 10 * E


# Derivatives


@every_law
def test_stress_is_the_gradient_of_energy(rng, taylor, law, power):
    F, D, m = deformation(rng), rng.standard_normal((3, 3)), material(law, power)
    assert taylor(lambda e: m.energy(F + e * D), np.sum(m.stress(F) * D)) == pytest.approx(
        2.0, abs=0.1
    )


@every_law
def test_differential_is_the_derivative_of_stress(rng, taylor, law, power):
    F, D, m = deformation(rng), rng.standard_normal((3, 3)), material(law, power)
    assert taylor(lambda e: m.stress(F + e * D), m.differential(F, D)) == pytest.approx(
        2.0, abs=0.1
    )


@pytest.mark.parametrize("power", [0, 2])
@pytest.mark.parametrize("law", ["fixed-corotated", "linear-corotated"])
def test_differential_is_correct_for_inverted_deformation(rng, taylor, law, power):
    F, D, m = np.diag([1.1, 0.9, -0.4]), rng.standard_normal((3, 3)), material(law, power)
    assert taylor(lambda e: m.stress(F + e * D), m.differential(F, D)) == pytest.approx(
        2.0, abs=0.1
    )


@every_law
def test_stress_derivatives_by_material_parameters_are_correct(rng, taylor, law, power):
    F = deformation(rng)
    by_E, by_nu = material(law, power).stress_derivatives(F)
    perturbed_stress = lambda dE, dnu: Material(E=E + dE, nu=NU + dnu, law=law, power=power).stress(
        F
    )
    np.testing.assert_allclose(
        perturbed_stress(E, 0.0) - perturbed_stress(0.0, 0.0), E * by_E, atol=1e-10 * E
    )  # linear in E
    assert taylor(lambda e: perturbed_stress(0.0, e), by_nu) == pytest.approx(2.0, abs=0.1)
