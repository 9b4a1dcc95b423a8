"""Fluids in the cavities of the robots of [Rodriguez2017]: water or air."""

from pliant.actuators import Hydraulic, Pressure
from pliant.core import InputError, nearest, quoted

FLUIDS = {"water": Hydraulic, "air": Pressure}


def fluid_actuator(
    fluid: str,
    cavity: str,
    *,
    limits: tuple[float, float],
    drive: str = "volume",
    bulk: float = 1e6,
) -> Hydraulic | Pressure:
    """Return the actuator of a cavity filled with "water" or "air"."""
    if fluid not in FLUIDS:
        raise InputError(f"The fluid is {quoted(fluid)}; {nearest(fluid, FLUIDS)}")
    return FLUIDS[fluid](cavity=cavity, drive=drive, limits=limits, bulk=bulk)
