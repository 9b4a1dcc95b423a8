"""Stiffness of a Timoshenko beam between its two ends, linear in E."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.bodies.body import MaterialFields
from pliant.core import Array
from pliant.geometry import Rods

BENDING_PLANES = (
    (1, 3, 1),
    (2, 4, 0),
    # strain indices of both ends in the planes (a, b) and (a, c), and the bending axis (b: 0, c: 1)
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RodStiffness:
    """The matrix C of each rod for the strains of `RodStrains`: energy = 1/2 eps^T C eps.

    It has EA / L for the elongation and GJ / L for the twist. The end angles in each plane have EI
    / (L (1 + phi)) [[4 + phi, 2 - phi], [2 - phi, 4 + phi]], where phi = 12 EI / (G A_s L^2) is the
    shear parameter.
    """

    rods: Rods

    def _section_values(self, key: str) -> Array:
        return np.array([getattr(section, key) for section in self.rods.sections], float)

    @cached_property
    def areas(self) -> Array:
        """Return the section areas (m,) [m^2]."""
        return self._section_values("area")

    @cached_property
    def moments(self) -> Array:
        """Return the second moments of area (m, 2) [m^4] about b and c."""
        return self._section_values("moments")

    @cached_property
    def torsions(self) -> Array:
        """Return the torsion constants (m,) [m^4]."""
        return self._section_values("torsion")

    @cached_property
    def perimeters(self) -> Array:
        """Return the section perimeters (m,) [m]."""
        return self._section_values("perimeter")

    @cached_property
    def _slenderness(self) -> Array:
        """Return phi / (1 + nu), (m, 2), for bending about b and c.

        Bending about b has a shear force along c.
        """
        return (
            24.0
            * self.moments
            / (self._section_values("shear_areas")[:, ::-1] * self.rods.lengths[:, None] ** 2)
        )

    def matrices(self, fields: MaterialFields) -> Array:
        """Return the stiffness matrices C (m, 6, 6)."""
        return fields.E[:, None, None] * self._unit(fields.nu)

    def derivatives(self, fields: MaterialFields) -> tuple[Array, Array]:
        """Return dC/dE and dC/dnu, (m, 6, 6) each."""
        return self._unit(fields.nu), fields.E[:, None, None] * self._unit_derivative(fields.nu)

    def _unit(self, nu: Array) -> Array:
        """Return C at E = 1."""
        L, out = self.rods.lengths, np.zeros((len(nu), 6, 6))
        out[:, 0, 0], out[:, 5, 5] = self.areas / L, 0.5 * self.torsions / ((1.0 + nu) * L)
        for i, j, about in BENDING_PLANES:
            phi = self._slenderness[:, about] * (1.0 + nu)
            bending = self.moments[:, about] / (L * (1.0 + phi))
            out[:, i, i] = out[:, j, j] = bending * (4.0 + phi)
            out[:, i, j] = out[:, j, i] = bending * (2.0 - phi)
        return out

    def _unit_derivative(self, nu: Array) -> Array:
        """Return the derivative of `_unit` by nu.

        (4 + phi) / (1 + phi) and (2 - phi) / (1 + phi) both have the derivative -3 / (1 + phi)^2.
        """
        L, out = self.rods.lengths, np.zeros((len(nu), 6, 6))
        out[:, 5, 5] = -0.5 * self.torsions / ((1.0 + nu) ** 2 * L)
        for i, j, about in BENDING_PLANES:
            slender = self._slenderness[:, about]
            slope = (
                -3.0 * slender * self.moments[:, about] / (L * (1.0 + slender * (1.0 + nu)) ** 2)
            )
            for row in (i, j):
                for column in (i, j):
                    out[:, row, column] = slope
        return out

    def end_stiffness(self, fields: MaterialFields) -> tuple[Array, Array]:
        """Return the stiffness of each rod for end positions (m,) [N/m] and for end rotations (m,)
        [N m/rad]."""
        L, G = self.rods.lengths, 0.5 * fields.E / (1.0 + fields.nu)
        return fields.E * self.areas / L, (
            fields.E * self.moments.max(axis=1) + G * self.torsions
        ) / L

    def max_fibre_strains(self, forces: Array, fields: MaterialFields) -> Array:
        """Return the largest axial fibre strain (m, 2) [-] at both ends of each rod.

        `forces` (m, 6) are the stress resultants C eps.
        """
        bending_strain = np.zeros((len(forces), 2))
        for i, j, about in BENDING_PLANES:
            distance = self._section_values("extreme_fibres")[:, 1 - about]
            bending_strain += (
                np.abs(forces[:, [i, j]])
                * (distance / (fields.E * self.moments[:, about]))[:, None]
            )
        return bending_strain + np.abs(forces[:, :1]) / (fields.E * self.areas)[:, None]
