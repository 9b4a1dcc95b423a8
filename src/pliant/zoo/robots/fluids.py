"""What fills the cavities of the robots of paper 002: the same pump with water or with air."""

from pliant.actuators import Hydraulic, Pressure
from pliant.core import InputError, nearest, quoted

FLUIDS = {"water": Hydraulic, "air": Pressure}


def fluid_in(
    fluid: str,
    cavity: str,
    *,
    limits: tuple[float, float],
    drive: str = "volume",
    bulk: float = 1e6,
) -> Hydraulic | Pressure:
    """A cavity that a pump fills with "water" or "air"; the rest is as both have it."""
    if fluid not in FLUIDS:
        raise InputError(f"The fluid is {quoted(fluid)}; {nearest(fluid, FLUIDS)}")
    return FLUIDS[fluid](cavity=cavity, drive=drive, limits=limits, bulk=bulk)
