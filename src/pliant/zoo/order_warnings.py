"""What is doubtful about a solid body: cells that are too stiff, and bodies that nothing keeps
apart."""

import numpy as np

from pliant.bodies import Solid
from pliant.dynamics.overlaps import NOT_MODELLED
from pliant.geometry.thickness import measure_thickness

# The tip deflection of a cantilever of order 1 over that of order 2, by the cells through its
# thickness (square section, length 5 times the thickness, nu 0.3; 2 to 20 times gives the same to
# 0.05). Four cells reach 0.86 and six 0.93.
DEFLECTION = {1: 0.3, 2: 0.6, 3: 0.75}
SLENDER = 3.0  # a part is thin where the body is at least this many times as long
PART = 0.25  # of the boundary that has to be thin
# The stiffness of a pad of order 1 over that of order 2, by nu: glued to plates on both sides,
# twice as wide as high, 4 x 4 x 2 cells. At nu 0.4 it is 1.2.
STIFFENING = {0.45: 1.6, 0.49: 4.0, 0.499: 30.0}


def order_warnings(body: Solid) -> list[str]:
    """Return warnings of cells of order 1 that lock: few through the thickness of a slender body,
    or of a nearly incompressible material."""
    return [] if body.mesh.order == 2 else [*_bending_warnings(body), *_locking_warnings(body)]


def _bending_warnings(body: Solid) -> list[str]:
    found, length = measure_thickness(body.mesh), float(body.bodies.lengths.max())
    thin = (found.cells <= max(DEFLECTION)) & (SLENDER * found.length <= length * (1.0 + 1e-9))
    if found.area[thin].sum() < PART * found.area.sum():
        return []
    n = int(np.median(found.cells[thin]))
    return [
        f"The body has order 1 and {n} cell{'s'[: n > 1]} through a thickness of "
        f"{1e3 * np.median(found.length[thin]):.3g} mm, which is too stiff in bending: a beam of "
        f"such cells deflects by {DEFLECTION[n]:.0%} of the true value. Take order = 2."
    ]


def _locking_warnings(body: Solid) -> list[str]:
    nu = float(body.fields.nu.max())
    below = [limit for limit in STIFFENING if nu >= limit]
    if not below:
        return []
    return [
        f"Poisson's ratio is {nu:g} with cells of order 1, which are too stiff where the body "
        f"cannot change its volume: a thin glued pad up to {STIFFENING[below[-1]]:g} times. Take "
        "order = 2."
    ]


def overlap_warnings(body: Solid) -> list[str]:
    """Return a warning if the mesh has several bodies, and whether they overlap at rest."""
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
