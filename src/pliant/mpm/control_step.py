"""The substeps of one control step, on a grid that is enlarged until no particle leaves it."""

from typing import TYPE_CHECKING

import numpy as np

from pliant.core import Array, InputError
from pliant.kernels.threads import run_kernel
from pliant.mpm.grid_box import extent, grid_box
from pliant.mpm.substeps import LEFT_GRID, ParticleCoefficients, Substeps
from pliant.mpm.total_substeps import TRAVELLED, TotalSubsteps

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint

MIN_MARGIN = 2  # [cells] of the grid around the particles
MAX_MARGIN_FROM_REST = 64  # [cells] that a body may move in a step from rest


def advance_particles(
    model: "MaterialPoint", x: Array, u: Array, coefficients: ParticleCoefficients
) -> tuple[Array, str, Substeps | None]:
    """Return the new state, the reason of a failure (or an empty text) and the substeps, whose
    grid is enlarged until no particle leaves it."""
    around = extent(model.space.position(x), model.dim)
    grid_box(around, 0, model.cell)  # raises for an invalid state; later failures are in the status
    speed = np.abs(extent(model.space.velocity(x), model.dim)).max(axis=0)
    distance = speed * model.dt / model.cell
    # no valid motion crosses a cell in a substep
    margin = MIN_MARGIN + np.ceil(np.minimum(1.5 * distance, model.substeps)).astype(int)
    most = np.minimum(MIN_MARGIN + model.substeps, np.maximum(MAX_MARGIN_FROM_REST, 4 * margin))
    while True:
        try:
            box = grid_box(around, margin, model.cell)
        except InputError as error:
            return x, str(error), None
        substeps = Substeps(model=model, coefficients=coefficients, u=u, box=box)
        new, failed = run_kernel(substeps.forward, model.body.n_particles, x)
        if failed != LEFT_GRID or np.all(margin >= most):
            break
        margin = np.minimum(4 * margin, most)
    if failed == LEFT_GRID:
        failed = (
            f"A particle moves more than {margin.min()} cells in a step of {model.dt:g} s; "
            f"take a smaller dt, smaller controls or more than {model.substeps} substeps."
        )
    return new, failed, substeps


def advance_nodes(
    model: "MaterialPoint", x: Array, u: Array, coefficients: ParticleCoefficients
) -> tuple[Array, str, TotalSubsteps]:
    """Return the new state, the reason of a failure (or an empty text) and the substeps, with
    more nodes that may touch an obstacle until no node moves further."""
    assert model.node_contacts is not None
    positions = model.space.position(x).reshape(-1, model.dim)
    speed = float(np.abs(model.space.velocity(x)).max()) * np.sqrt(model.dim)
    reach = MIN_MARGIN * model.cell + 1.5 * model.dt * speed
    while True:
        limit = reach if model.robot.contacts else np.inf
        candidates = model.node_contacts.near(positions, limit)
        substeps = TotalSubsteps(model=model, coefficients=coefficients, u=u, candidates=candidates)
        new, failed, travel = run_kernel(substeps.forward, model.body.n_particles, x, limit)
        if failed != TRAVELLED:
            return new, failed, substeps
        reach = 2.0 * travel
