"""The body of a model, and the masses of its cells and nodes, for observers."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.bodies import AttachableBody
from pliant.core import Array, Dynamics, InputError


def body_of(model: Dynamics, purpose: str) -> AttachableBody:
    """Return the body whose nodes or particles the state of a model holds. Raises InputError if
    there is none; `purpose` is named in the error."""
    body: Any = getattr(model, "body", None)
    if not isinstance(body, AttachableBody) or body.rest.size != model.space.n_dofs:
        raise InputError(
            f"{purpose} needs a model whose state holds the nodes or particles of a body, such as "
            f"ImplicitEuler or MaterialPoint, not {type(model).__name__}. Observe effectors or "
            "parts of the state instead."
        )
    return body


def cell_masses(body: AttachableBody) -> Array:
    """Return the mass (n_cells,) [kg] of each cell or particle at the robot's densities."""
    volumes, density = body.volumes(), body.fields.density
    return density * volumes if np.any(volumes) else density  # point masses have no volume


def centre_weights(body: AttachableBody, cells: Array) -> Array:
    """Return weights (n_nodes,) of the node positions that give the centre of mass of some
    cells."""
    density, mass = body.fields.density[cells], np.zeros(len(body.is_position))
    for value in np.unique(density):
        mass += value * body.node_volumes(cells[density == value])
    return mass / mass.sum()


def state_rows(model: Dynamics, rows: Any, quantity: str) -> sp.csr_matrix:
    """Return the matrix (m, n_state) that maps a state to `rows` (m, n_dofs) times its positions,
    or times its velocities."""
    space = model.space
    factors = space.rate if quantity == "velocity" else (1.0,)
    blocks = [factor * rows for factor in factors]
    rest = space.size - sum(block.shape[1] for block in blocks)
    return sp.hstack([*blocks, sp.csr_matrix((rows.shape[0], rest))], format="csr")
