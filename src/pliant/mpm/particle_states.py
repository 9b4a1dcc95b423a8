"""States of a material point model from positions and velocities, and their particles."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pliant.core import Array, InputError, finite_array
from pliant.mpm.reference_grid import ReferenceGrid

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint


class ParticleFields(NamedTuple):
    """The fields of the particles in a state."""

    position: Array  # (n, dim) [m]
    velocity: Array  # (n, dim) [m/s]
    rate: Array  # (n, dim, dim) [1/s] of the deformation gradient
    deformation: Array  # (n, dim, dim) deformation gradient


def state_of_particles(
    model: "MaterialPoint",
    position: Array,
    velocity: Array | None,
    affine: Array | None,
    deformation: Array | None,
) -> Array:
    """Return a state of the transfer "updated"; see `MaterialPoint.state`."""
    n, d = model.body.n_particles, model.dim
    q = finite_array("The position", position, (n * d,), "m")
    v = (
        np.zeros_like(q)
        if velocity is None
        else finite_array("The velocity", velocity, (n * d,), "m/s")
    )
    C = (
        np.zeros((n, d, d))
        if affine is None
        else finite_array("The affine field", affine, (n, d, d), "1/s")
    )
    F = (
        np.tile(np.eye(d), (n, 1, 1))
        if deformation is None
        else finite_array("The deformation gradient", deformation, (n, d, d))
    )
    return np.concatenate([q, v, C.ravel(), F.ravel()])


def state_of_nodes(
    model: "MaterialPoint", position: Array, velocity: Array | None, *others: Array | None
) -> Array:
    """Return a state of the transfer "total"; see `MaterialPoint.state`."""
    if any(other is not None for other in others):
        raise InputError(
            'The state of the transfer "total" has positions and velocities of nodes only; '
            "leave out the affine field and the deformation."
        )
    n = model.space.n_dofs
    q = finite_array("The position", position, (n,), "m")
    v = np.zeros(n) if velocity is None else velocity
    return np.concatenate([q, finite_array("The velocity", v, (n,), "m/s")])


def particle_fields(model: "MaterialPoint", x: Array) -> ParticleFields:
    """Return the fields of the particles in a state (n_state,)."""
    parts, d = model.space.split(x), model.dim
    if isinstance(model.body, ReferenceGrid):
        q, v = parts.position, parts.velocity
        W, gradient = model.body.weights, model.body.deformation
        return ParticleFields(W @ q.reshape(-1, d), W @ v.reshape(-1, d), gradient(v), gradient(q))
    F, C = parts.deformation.reshape(-1, d, d), parts.affine.reshape(-1, d, d)
    return ParticleFields(parts.position.reshape(-1, d), parts.velocity.reshape(-1, d), C @ F, F)
