"""Allowed and plausible ranges of the physical parameters.

A value outside `allowed` raises an error: no material has it, and its forces would dominate all
others in double precision. A value outside `plausible` is accepted, but `Range.warnings` reports
it: it is beyond every known material, so the unit is probably wrong.
"""

from dataclasses import dataclass

import numpy as np

from pliant.core import InputError, Param, require_number


@dataclass(frozen=True, kw_only=True)
class Range:
    """The allowed and the plausible values of a parameter, limits included."""

    name: str
    unit: str
    allowed: tuple[float, float]
    plausible: tuple[float, float]
    extremes: tuple[str, str]  # materials with the lowest and highest plausible value

    def require(self, value: float, name: str | None = None) -> float:
        """Return `value` as a float. Raises `InputError` if it is not allowed."""
        name, (lowest, highest) = name or self.name, self.allowed
        number = require_number(name, value, self.unit)
        if np.isnan(number) or number < 0.0 or (number == 0.0 < lowest):
            kind = "zero or positive" if lowest == 0.0 else "a positive finite number"
            raise InputError(f"{name} is {self._shown(number)}; it must be {kind}.")
        if not lowest <= number <= highest:
            raise InputError(
                f"{name} is {self._shown(number)}; it must lie between {lowest:g} and "
                f"{highest:g}. {self._advice()}: {self._known()}."
            )
        return number

    def warnings(self, value: float, name: str | None = None) -> list[str]:
        """Return a warning if an allowed value lies outside the plausible range, else an empty
        list."""
        (low, high), (least, most) = self.plausible, self.extremes
        if low <= value <= high:
            return []
        beyond = f"less than {least}" if value < low else f"more than {most}"
        return [
            f"{name or self.name} is {self._shown(value)}, {beyond} "
            f"({low if value < low else high:g}); {self._advice().lower()}."
        ]

    def parameter(self, name: str, value: float, *, signed: bool = False) -> Param:
        """Return a design parameter of one allowed value, `signed` if the range is that of its
        absolute value."""
        lowest, highest = self.allowed
        return Param(
            name=name,
            value=np.array([value], float),
            unit=self.unit,
            lower=-highest if signed else lowest,
            upper=highest,
            lower_included=lowest == 0.0,
        )

    def _advice(self) -> str:
        return "Check the value" if self.unit == "-" else "Check its unit"

    def _known(self) -> str:
        (low, high), (least, most) = self.plausible, self.extremes
        return f"{least} has {low:g}, {most} {high:g}"

    def _shown(self, number: float) -> str:
        return f"{number:g} {self.unit}".rstrip(" -")


YOUNGS_MODULUS = Range(
    name="Young's modulus E",
    unit="Pa",
    allowed=(1e-6, 1e15),
    plausible=(100.0, 1.3e12),
    extremes=("the softest gel", "diamond"),
)
DENSITY = Range(
    name="The density",
    unit="kg/m^3",
    allowed=(1e-6, 1e9),
    plausible=(0.1, 25_000.0),
    extremes=("the lightest aerogel", "any metal"),
)
GRAVITY = Range(
    name="The gravity",
    unit="m/s^2",
    allowed=(0.0, 1e6),
    plausible=(0.0, 1e3),
    extremes=("weightlessness", "a centrifuge of 100 g"),
)
FRICTION = Range(
    name="The friction coefficient",
    unit="-",
    allowed=(0.0, 1e6),
    plausible=(0.0, 10.0),
    extremes=("a frictionless surface", "soft rubber on clean glass"),
)
# Beyond the plausible damping a motion decays within 10 us (mass damping) or takes minutes to decay
# (stiffness damping), unlike any motion of a robot.
MASS_DAMPING = Range(
    name="The mass damping",
    unit="1/s",
    allowed=(0.0, 1e9),
    plausible=(0.0, 1e5),
    extremes=("no damping", "a fibre of 0.1 mm in a viscous liquid"),
)
STIFFNESS_DAMPING = Range(
    name="The stiffness damping",
    unit="s",
    allowed=(0.0, 1e6),
    plausible=(0.0, 100.0),
    extremes=("no damping", "a viscous putty"),
)
