"""Checks of the particles after a step: speed, inversion and numerical fracture."""

from typing import TYPE_CHECKING

import numpy as np

from pliant.core import Array, Status
from pliant.mpm.grid_boundaries import NODE_REACH
from pliant.mpm.particles import extreme_particles
from pliant.mpm.substeps import inversion_text

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint

MAX_NEIGHBOUR_GAP = 2.5  # [cells] between rest neighbours; beyond three they share no node


def failed_status(text: str) -> Status:
    """Return the status of a failed step."""
    return Status(ok=False, text=text)


def particle_status(model: "MaterialPoint", x: Array) -> Status:
    """Return the status of a new state (n_state,) of the transfer "updated": failed if particles
    are too fast, inverted or torn apart."""
    parts, n, d = model.space.split(x), model.body.n_particles, model.dim
    position = parts.position.reshape(n, d)
    cells_per_substep = (
        float(np.abs(parts.velocity).max()) * model.substep_parameters.tau / model.cell
    )
    if cells_per_substep > 1.0:
        return failed_status(
            f"A particle crosses {cells_per_substep:.2g} cells in a substep; take "
            f"substeps={int(2 * cells_per_substep * model.substeps)} or more, or smaller "
            "controls."
        )
    J, p, gap, which = extreme_particles(
        position, parts.deformation.reshape(n, d * d), model.body.rest_neighbours
    )
    if J <= 0.0:
        return failed_status(inversion_text(p, position[p]))
    if gap > model.max_gap * model.cell:
        a, b = model.body.rest_neighbours[which]
        return failed_status(
            f"The body tears numerically: particles {a} and {b} were neighbours and are "
            f"{gap / model.cell:.2g} cells apart, so the grid hardly couples them; take a "
            "larger cell, or stretch it less."
        )
    lost, particle = model.boundaries.lost_support(position)
    if lost:
        return failed_status(
            f"The body tears numerically from its support on '{lost}': particle {particle}, "
            f"which was beside it, is more than {NODE_REACH:g} cells away, where held nodes do "
            "not reach it; take a larger cell, or stretch it less."
        )
    return Status(text="done", iterations=model.substeps)
