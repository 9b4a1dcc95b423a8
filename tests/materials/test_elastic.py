"""Material: conversion of moduli and validation."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.materials import Material, from_moduli, moduli, moduli_nu_derivative


def test_from_moduli_gives_energy_of_zimmermann2021_eq_1(rng):
    mu, kappa = 2.0e4, 7.0e4
    F = np.eye(3) + 0.2 * rng.standard_normal((3, 3))
    J = np.linalg.det(F)
    expected = mu / 2 * (np.sum(F * F) - 3) - mu * np.log(J) + kappa / 2 * np.log(J) ** 2
    assert from_moduli(mu=mu, kappa=kappa).energy(F) == pytest.approx(expected, rel=1e-12)


def test_moduli_are_lame_parameters_with_correct_derivatives(taylor):
    E, nu = 5.0e4, 0.35
    mu, lam, bulk = moduli(E, nu, 2)
    assert mu * (3 * lam + 2 * mu) / (lam + mu) == pytest.approx(E, rel=1e-14)
    assert lam / (2 * (lam + mu)) == pytest.approx(nu, rel=1e-14)
    assert bulk == pytest.approx(E / (3 * (2 - 2 * nu)), rel=1e-14)
    assert taylor(lambda e: moduli(E, nu + e, 2), moduli_nu_derivative(E, nu, 2)) == pytest.approx(
        2.0, abs=0.1
    )
    assert moduli(E, nu, 0)[2] == moduli_nu_derivative(E, nu, 0)[2] == 0.0


def test_printed_volume_term_changes_only_the_power():
    m = Material(E=1e5, nu=0.4, density=1100.0, law="fixed-corotated")
    assert m.with_printed_volume_term(4) == Material(
        E=1e5, nu=0.4, density=1100.0, law="fixed-corotated", power=4
    )


def bulk_modulus(material, change=1e-4):
    """Return the mean bulk modulus [Pa] for a relative change of volume."""
    F = (1.0 + change) ** (1.0 / 3.0) * np.eye(3)
    return np.trace(material.stress(F)) / 3.0 / change


@pytest.mark.parametrize("law", ["neo-hookean", "fixed-corotated", "linear-corotated"])
@pytest.mark.parametrize("ratio", [10.0, 100.0])
def test_nearly_incompressible_material_has_the_shear_modulus_and_the_given_ratio(law, ratio):
    m = Material(E=1e5, nu=0.3, law=law)
    stiff, mu = m.nearly_incompressible(ratio), 1e5 / 2.6
    assert bulk_modulus(stiff) == pytest.approx(ratio * mu, rel=1e-3)
    shear = np.eye(3) + 1e-4 * np.eye(3)[[1]].T @ np.eye(3)[[0]]
    assert stiff.stress(shear)[1, 0] / 1e-4 == pytest.approx(mu, rel=1e-3)


def test_printed_volume_term_is_far_from_incompressible():
    """The bulk modulus at nu = 0.45 is that of nu = 0.457; the power 4 adds nothing to it."""
    m = Material(E=1e5, nu=0.45)
    bulk = bulk_modulus(m.with_printed_volume_term(2))
    assert 0.5 - 1e5 / (6.0 * bulk) == pytest.approx(0.4577, abs=1e-3)
    assert bulk_modulus(m.with_printed_volume_term(4)) == pytest.approx(bulk_modulus(m), rel=1e-6)


def test_ratio_of_a_compressible_material_is_refused():
    with pytest.raises(InputError, match=r"0.5; it must exceed 2/3"):
        Material(E=1e5, nu=0.3).nearly_incompressible(0.5)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("nu", [-0.2, 0.0, 0.3, 0.45])
@pytest.mark.parametrize("law", ["neo-hookean", "fixed-corotated", "linear-corotated"])
def test_largest_expansion_stress_is_the_supremum_of_stress_over_stretch(law, nu, dim):
    m, loads = Material(E=1e5, nu=nu, law=law), []
    for s in np.geomspace(1.0001, 1e4, 4001):
        F = np.diag([s, s, s if dim == 3 else 1.0])
        loads.append(m.stress(F)[0, 0] / s)
    limit = m.largest_expansion_stress(dim)
    if np.isinf(limit):
        assert max(loads) > 1e6
    else:
        assert max(loads) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"E": 0.0}, "Young's modulus E is 0 Pa"),
        ({"E": np.nan}, "nan"),
        ({"nu": 0.5}, "0.5.*between -1 and 0.5.*0.49"),
        ({"nu": -1.0}, "-1"),
        ({"density": -1.0}, "density is -1"),
        ({"law": "rubber"}, "'rubber'.*neo-hookean, fixed-corotated, linear-corotated"),
        ({"power": 1}, "power is '1'"),
        ({"power": 2.5}, "power is '2.5'"),
    ],
)
def test_bad_material_raises_with_number_and_remedy(change, message):
    with pytest.raises(InputError, match=message):
        Material(**{"E": 1e5, "nu": 0.3, **change})
