"""Elastic materials: a law with Young's modulus, Poisson's ratio and density."""

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from scipy.optimize import minimize_scalar

from pliant.core import (
    Array,
    InputError,
    finite_array,
    is_integer,
    quoted,
    require_number,
    require_positive,
)
from pliant.kernels import rotation
from pliant.materials import laws
from pliant.materials.ranges import DENSITY, YOUNGS_MODULUS

LAWS = {
    "neo-hookean": laws.NEO_HOOKEAN,
    "fixed-corotated": laws.FIXED_COROTATED,
    "linear-corotated": laws.LINEAR_COROTATED,
}


@dataclass(frozen=True, kw_only=True)
class Material:
    """An isotropic elastic material, for finite elements and material points.

    `law` is "neo-hookean" ([Zimmermann2021, eq. 1], [Spielberg2021, eq. 13]; its energy is a
    barrier against inversion), "fixed-corotated" ([Spielberg2021, eq. 12]; recovers from inversion)
    or "linear-corotated" (small strains, any rotation). Raises `InputError` for invalid parameters.

    >>> import pliant as pl
    >>> silicone = pl.Material(E=1e6, nu=0.45, density=1070.0)
    >>> silicone.law
    'neo-hookean'
    """

    E: float  # [Pa] Young's modulus
    nu: float  # [-] Poisson's ratio
    density: float = 1000.0  # [kg/m^3]
    law: str = "neo-hookean"
    # p of the energy E / (3 (2 - 2 nu)) |J - 1|^p [Spielberg2021, eq. 14], 0 for none. The
    # material is not nearly incompressible with it; see `nearly_incompressible`
    power: int = 0

    def __post_init__(self) -> None:
        YOUNGS_MODULUS.require(self.E)
        DENSITY.require(self.density)
        if not -1.0 < require_number("Poisson's ratio", self.nu, "-") < 0.5:
            raise InputError(
                f"Poisson's ratio is {self.nu:g}; it must lie between -1 and 0.5, both excluded. "
                "For a nearly incompressible material use nu = 0.49, or nearly_incompressible()."
            )
        if not isinstance(self.law, str) or self.law not in LAWS:
            raise InputError(
                f"There is no material law '{self.law}'; choose one of {', '.join(LAWS)}."
            )
        if not is_integer(self.power) or (self.power != 0 and self.power < 2):
            raise InputError(
                f"The near-incompressible power is {quoted(self.power)}; take a whole number of "
                "2 or more, or 0 for none."
            )

    def with_printed_volume_term(self, power: int = 2) -> "Material":
        """Return the material with the volume term of [Spielberg2021, eq. 14] as it is printed.

        At the power 2 and nu = 0.45 it raises the bulk modulus by 18 %, as nu = 0.457 does. Larger
        powers are weaker for small changes of volume.
        """
        return replace(self, power=power)

    def nearly_incompressible(self, ratio: float = 100.0) -> "Material":
        """Return the material with the same shear modulus and a bulk modulus of `ratio` times it.

        A pressure p then changes the volume by about p / (ratio mu), and the shape under shear does
        not change. Raises `InputError` for a ratio of 2/3 or less, which has nu <= 0.

        >>> import pliant as pl
        >>> pl.Material(E=1e5, nu=0.3).nearly_incompressible().nu.__round__(4)
        0.495
        """
        if not require_number("The ratio of bulk to shear modulus", ratio, "-") > 2.0 / 3.0:
            raise InputError(
                f"The ratio of bulk to shear modulus is {ratio:g}; it must exceed 2/3. Take about "
                "100."
            )
        nu = (3.0 * ratio - 2.0) / (2.0 * (3.0 * ratio + 1.0))
        return replace(self, E=self.E * (1.0 + nu) / (1.0 + self.nu), nu=nu)

    def largest_expansion_stress(self, dim: int) -> float:
        """Return the least upper bound [Pa] of the stress u for which a free region with the second
        Piola-Kirchhoff stress -u I has an equilibrium, in `dim` dimensions (plane strain for 2).

        The stretch s satisfies P(s) / s = u. For "neo-hookean" the left side has a maximum,
        mu + dim lam / 2 exp(-1 - 2 mu / (dim lam)), and no equilibrium beyond it.
        """
        mu, lam, bulk = moduli(self.E, self.nu, self.power).tolist()
        if bulk > 0.0:
            return np.inf
        if self.law == "linear-corotated":
            return float(2.0 * mu + dim * lam)
        if self.law == "neo-hookean":
            peak = 0.5 * dim * lam * np.exp(-1.0 - 2.0 * mu / (dim * lam)) if lam > 0.0 else 0.0
            return float(mu + peak)
        if lam > 0.0:
            return np.inf
        load = lambda s: 2.0 * mu * (1.0 - 1.0 / s) + lam * (s**dim - 1.0) * s ** (dim - 2)
        found = minimize_scalar(
            lambda log: -load(np.exp(log)), bounds=(0.0, 20.0), method="bounded"
        )
        return float(load(np.exp(found.x)))

    def energy(self, F: Array) -> float:
        """Return the energy density [J/m^3] at F (3, 3).

        It is infinite for "neo-hookean" with det F <= 0. Raises `InputError` if it is not a number.
        """
        f, R = _tuples(F)
        value = laws.energy(
            LAWS[self.law], f, R, tuple(moduli(self.E, self.nu, self.power)), self.power
        )
        if np.isnan(value):
            self._raise_not_finite("energy", F)
        return value

    def stress(self, F: Array) -> Array:
        """Return the first Piola-Kirchhoff stress (3, 3) [Pa] at F (3, 3).

        Raises `InputError` if it is not finite, as for "neo-hookean" with det F <= 0.
        """
        return self._stress(F, moduli(self.E, self.nu, self.power))

    def stress_derivatives(self, F: Array) -> tuple[Array, Array]:
        """Return dP/dE [-] and dP/dnu [Pa], (3, 3) each, at F (3, 3)."""
        return (
            self._stress(F, moduli(self.E, self.nu, self.power) / self.E),
            self._stress(F, moduli_nu_derivative(self.E, self.nu, self.power)),
        )

    def differential(self, F: Array, dF: Array) -> Array:
        """Return the change dP (3, 3) [Pa] of the stress for a change dF (3, 3)."""
        f, R = _tuples(F)
        m = tuple(moduli(self.E, self.nu, self.power))
        change = tuple(finite_array("Its change", dF, (3, 3)).ravel())
        return self._require_finite(
            laws.differential(LAWS[self.law], f, R, change, m, self.power), F
        )

    def _stress(self, F: Array, m: Array) -> Array:
        f, R = _tuples(F)
        return self._require_finite(laws.stress(LAWS[self.law], f, R, tuple(m), self.power), F)

    def _require_finite(self, values: tuple[float, ...], F: Array) -> Array:
        if not np.all(np.isfinite(values)):
            self._raise_not_finite("stress or its derivative", F)
        return np.reshape(values, (3, 3))

    def _raise_not_finite(self, what: str, F: Array) -> NoReturn:
        J = float(np.linalg.det(F / max(1.0, np.abs(F).max())))
        remedy = "give one of moderate size and of rank two or three"
        if self.law == "neo-hookean" and not J > 0.0:
            remedy = "make the determinant positive, or use the law 'fixed-corotated'"
        raise InputError(
            f"The law '{self.law}' has no finite {what} at the deformation gradient "
            f"{np.asarray(F).tolist()}; {remedy}."
        )


def from_moduli(*, mu: float, kappa: float, density: float = 1000.0) -> Material:
    """Return the neo-Hookean material of [Zimmermann2021, eq. 1] from its two moduli [Pa].

    kappa in the paper is Lame's lambda.
    """
    require_positive("The shear modulus mu", mu, "Pa")
    require_positive("The modulus kappa", kappa, "Pa")
    return Material(
        E=mu * (3.0 * kappa + 2.0 * mu) / (kappa + mu),
        nu=kappa / (2.0 * (kappa + mu)),
        density=density,
    )


def moduli(E: Array | float, nu: Array | float, power: Array | int) -> Array:
    """Return the moduli (mu, lam, bulk) [Pa], (..., 3). Every law is linear in them."""
    E, nu = np.asarray(E, float), np.asarray(nu, float)
    bulk = np.where(np.asarray(power) > 0, E / (3.0 * (2.0 - 2.0 * nu)), 0.0)
    return np.stack(
        [E / (2.0 * (1.0 + nu)), E * nu / ((1.0 + nu) * (1.0 - 2.0 * nu)), bulk], axis=-1
    )


def moduli_nu_derivative(E: Array | float, nu: Array | float, power: Array | int) -> Array:
    """Return the derivative (..., 3) [Pa] of the moduli by nu."""
    E, nu = np.asarray(E, float), np.asarray(nu, float)
    bulk = np.where(np.asarray(power) > 0, E / (6.0 * (1.0 - nu) ** 2), 0.0)
    lam = E * (1.0 + 2.0 * nu**2) / ((1.0 + nu) * (1.0 - 2.0 * nu)) ** 2
    return np.stack([-E / (2.0 * (1.0 + nu) ** 2), lam, bulk], axis=-1)


def _tuples(F: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return F and its rotation as flat tuples."""
    f = tuple(finite_array("The deformation gradient", F, (3, 3)).ravel())
    return f, rotation(f)
