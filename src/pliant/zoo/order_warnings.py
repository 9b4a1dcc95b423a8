"""Warnings about a solid body: cells of order 1 that lock, and bodies without contact between
them."""

import numpy as np

from pliant.bodies import Solid
from pliant.dynamics.overlaps import NOT_MODELLED
from pliant.geometry.thickness import measure_thickness

# Number of cells through the thickness -> tip deflection of a cantilever of order 1 over that of
# order 2. Square section, length 5 times the thickness, nu 0.3; lengths of 2 to 20 times differ by
# at most 0.05. Four cells give 0.86 and six cells 0.93.
DEFLECTION_RATIO = {1: 0.3, 2: 0.6, 3: 0.75}
MIN_SLENDERNESS = 3.0  # body length over thickness above which a part is thin
MIN_THIN_SHARE = 0.25  # share of the boundary area that must be thin for a warning
# nu -> stiffness of a pad of order 1 over that of order 2. The pad is bonded to plates on both
# sides, twice as wide as high, with 4 x 4 x 2 cells. At nu 0.4 the ratio is 1.2.
STIFFNESS_RATIO = {0.45: 1.6, 0.49: 4.0, 0.499: 30.0}


def order_warnings(body: Solid) -> list[str]:
    """Return warnings about cells of order 1 that lock.

    They lock in bending with few cells through a thin part, and in nearly incompressible materials.
    """
    return [] if body.mesh.order == 2 else [*_bending_warnings(body), *_locking_warnings(body)]


def _bending_warnings(body: Solid) -> list[str]:
    found, length = measure_thickness(body.mesh), float(body.bodies.lengths.max())
    is_slender = MIN_SLENDERNESS * found.length <= length * (1.0 + 1e-9)
    thin = (found.cells <= max(DEFLECTION_RATIO)) & is_slender
    if found.area[thin].sum() < MIN_THIN_SHARE * found.area.sum():
        return []
    n = int(np.median(found.cells[thin]))
    return [
        f"The body has order 1 and {n} cell{'s'[: n > 1]} through a thickness of "
        f"{1e3 * np.median(found.length[thin]):.3g} mm, which is too stiff in bending: a beam of "
        f"such cells deflects by {DEFLECTION_RATIO[n]:.0%} of the true value. Use order = 2."
    ]


def _locking_warnings(body: Solid) -> list[str]:
    nu = float(body.fields.nu.max())
    below = [limit for limit in STIFFNESS_RATIO if nu >= limit]
    if not below:
        return []
    return [
        f"Poisson's ratio is {nu:g} with cells of order 1, which lock where the volume cannot "
        f"change: a thin bonded pad is too stiff by up to {STIFFNESS_RATIO[below[-1]]:g} times. "
        "Use order = 2."
    ]


def overlap_warnings(body: Solid) -> list[str]:
    """Return a warning if the mesh has several bodies. It says whether they overlap at rest."""
    bodies = body.bodies
    if bodies.count == 1:
        return []
    named = ", ".join(bodies.names[:5]) + (", ..." if bodies.count > 5 else "")
    overlap = bodies.deepest([body.rest])
    at_rest = "they are apart at rest" if overlap is None else f"at rest {overlap.text}"
    return [
        f"The robot has {bodies.count} bodies ({named}), and {NOT_MODELLED}, so they pass through "
        f"each other; {at_rest}."
    ]
