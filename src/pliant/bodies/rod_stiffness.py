"""What the strains of a rod cost: the stiffness of Timoshenko's beam between two ends, linear in
E."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.bodies.body import Fields
from pliant.core import Array
from pliant.geometry import Rods

PLANES = (
    (1, 3, 1),
    (2, 4, 0),
    # the strains of each end in the planes (a, b) and (a, c), and the axis (b: 0, c: 1) they bend
    # about
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RodStiffness:
    """C of each rod for the strains of `RodStrains`: energy = 1/2 eps^T C eps.

    EA / L for the lengthening, GJ / L for the twist, and EI / (L (1 + phi)) [[4 + phi, 2 - phi], [2
    - phi, 4 + phi]] for the angles of both ends in each plane, with phi = 12 EI / (G A_s L^2) what
    shear adds.
    """

    rods: Rods

    def _of(self, key: str) -> Array:
        return np.array([getattr(section, key) for section in self.rods.sections], float)

    @cached_property
    def areas(self) -> Array:
        """(m,) [m^2]"""
        return self._of("area")

    @cached_property
    def moments(self) -> Array:
        """(m, 2) [m^4] about b and c"""
        return self._of("moments")

    @cached_property
    def torsions(self) -> Array:
        """(m,) [m^4]"""
        return self._of("torsion")

    @cached_property
    def perimeters(self) -> Array:
        """(m,) [m]"""
        return self._of("perimeter")

    @cached_property
    def _slenderness(self) -> Array:
        """(m, 2) phi / (1 + nu) of bending about b and c; bending about b goes with a shear force
        along c."""
        return (
            24.0
            * self.moments
            / (self._of("shear_areas")[:, ::-1] * self.rods.lengths[:, None] ** 2)
        )

    def matrices(self, fields: Fields) -> Array:
        """(m, 6, 6) C"""
        return fields.E[:, None, None] * self._unit(fields.nu)

    def slopes(self, fields: Fields) -> tuple[Array, Array]:
        """((m, 6, 6) dC/dE, (m, 6, 6) dC/dnu)"""
        return self._unit(fields.nu), fields.E[:, None, None] * self._unit_slope(fields.nu)

    def _unit(self, nu: Array) -> Array:
        """C at E = 1."""
        L, out = self.rods.lengths, np.zeros((len(nu), 6, 6))
        out[:, 0, 0], out[:, 5, 5] = self.areas / L, 0.5 * self.torsions / ((1.0 + nu) * L)
        for i, j, about in PLANES:
            phi = self._slenderness[:, about] * (1.0 + nu)
            bend = self.moments[:, about] / (L * (1.0 + phi))
            out[:, i, i] = out[:, j, j] = bend * (4.0 + phi)
            out[:, i, j] = out[:, j, i] = bend * (2.0 - phi)
        return out

    def _unit_slope(self, nu: Array) -> Array:
        """Its derivative by nu; (4 + phi) / (1 + phi) and (2 - phi) / (1 + phi) both have the slope
        -3 / (1 + phi)^2."""
        L, out = self.rods.lengths, np.zeros((len(nu), 6, 6))
        out[:, 5, 5] = -0.5 * self.torsions / ((1.0 + nu) ** 2 * L)
        for i, j, about in PLANES:
            slender = self._slenderness[:, about]
            slope = (
                -3.0 * slender * self.moments[:, about] / (L * (1.0 + slender * (1.0 + nu)) ** 2)
            )
            for row in (i, j):
                for column in (i, j):
                    out[:, row, column] = slope
        return out

    def own(self, fields: Fields) -> tuple[Array, Array]:
        """((m,) [N/m], (m,) [N m/rad]) how stiff each rod is for the places and for the turns of
        its ends."""
        L, G = self.rods.lengths, 0.5 * fields.E / (1.0 + fields.nu)
        return fields.E * self.areas / L, (
            fields.E * self.moments.max(axis=1) + G * self.torsions
        ) / L

    def fibres(self, forces: Array, fields: Fields) -> Array:
        """(m, 2) [-] the largest strain of a fibre along each rod at both ends, under the forces C
        eps (m, 6) of its strains."""
        bent = np.zeros((len(forces), 2))
        for i, j, about in PLANES:
            reach = self._of("reach")[:, 1 - about]
            bent += (
                np.abs(forces[:, [i, j]]) * (reach / (fields.E * self.moments[:, about]))[:, None]
            )
        return bent + np.abs(forces[:, :1]) / (fields.E * self.areas)[:, None]
