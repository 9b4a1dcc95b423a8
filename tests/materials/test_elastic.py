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


def test_near_incompressible_changes_only_the_power():
    m = Material(E=1e5, nu=0.4, density=1100.0, law="fixed-corotated")
    assert m.near_incompressible(4) == Material(
        E=1e5, nu=0.4, density=1100.0, law="fixed-corotated", power=4
    )


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
