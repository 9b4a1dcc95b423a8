"""Cross-sections of rods."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pliant.core import InputError, require_number, require_positive


@runtime_checkable
class CrossSection(Protocol):
    """The properties of a cross-section; its axes b and c are perpendicular to the rod."""

    @property
    def area(self) -> float: ...  # [m^2]
    @property
    def moments(
        self,
    ) -> tuple[
        float, float
    ]: ...  # [m^4] second moments about b (integral of c^2) and about c (integral of b^2)
    @property
    def torsion(self) -> float: ...  # [m^4] Saint-Venant's constant J
    @property
    def shear_areas(
        self,
    ) -> tuple[float, float]: ...  # [m^2] that carry a shear force along b and along c
    @property
    def extreme_fibres(
        self,
    ) -> tuple[float, float]: ...  # [m] the furthest fibre along b and along c
    @property
    def perimeter(self) -> float: ...  # [m] outside


@dataclass(frozen=True, kw_only=True)
class CircularSection:
    """A solid or hollow circle."""

    radius: float  # [m] outside
    inner: float = 0.0  # [m] radius of the hole

    def __post_init__(self) -> None:
        require_positive("The radius of a round section", self.radius, "m")
        if (
            not 0.0
            <= require_number("The inner radius of a round section", self.inner, "m")
            < self.radius
        ):
            raise InputError(
                f"The inner radius of a section is {self.inner:g} m; it must lie between 0 and "
                f"its radius, {self.radius:g} m."
            )

    @property
    def area(self) -> float:
        return float(np.pi * (self.radius**2 - self.inner**2))

    @property
    def moments(self) -> tuple[float, float]:
        moment = float(np.pi / 4.0 * (self.radius**4 - self.inner**4))
        return moment, moment

    @property
    def torsion(self) -> float:
        return 2.0 * self.moments[0]

    @property
    def shear_areas(self) -> tuple[float, float]:
        """Return Cowper's shear areas for nu = 1/2, as for most soft materials: 0.9 of a solid
        circle."""
        m = (self.inner / self.radius) ** 2
        area = self.area * 9.0 * (1.0 + m) ** 2 / (10.0 * (1.0 + m) ** 2 + 26.0 * m)
        return area, area

    @property
    def extreme_fibres(self) -> tuple[float, float]:
        return self.radius, self.radius

    @property
    def perimeter(self) -> float:
        return float(2.0 * np.pi * self.radius)


@dataclass(frozen=True, kw_only=True)
class RectangularSection:
    """A solid rectangle."""

    width: float  # [m] along b
    height: float  # [m] along c

    def __post_init__(self) -> None:
        require_positive("The width of a bar", self.width, "m")
        require_positive("The height of a bar", self.height, "m")

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def moments(self) -> tuple[float, float]:
        return self.width * self.height**3 / 12.0, self.height * self.width**3 / 12.0

    @property
    def torsion(self) -> float:
        """Return Saint-Venant's constant by its series, whose terms decrease with the fifth
        power."""
        long, short = max(self.width, self.height), min(self.width, self.height)
        n = np.arange(1, 40, 2)
        tail = np.sum(np.tanh(n * np.pi * long / (2.0 * short)) / n**5.0)
        return float(long * short**3 / 3.0 * (1.0 - 192.0 / np.pi**5 * short / long * tail))

    @property
    def shear_areas(self) -> tuple[float, float]:
        return 5.0 / 6.0 * self.area, 5.0 / 6.0 * self.area

    @property
    def extreme_fibres(self) -> tuple[float, float]:
        return 0.5 * self.width, 0.5 * self.height

    @property
    def perimeter(self) -> float:
        return 2.0 * (self.width + self.height)
