"""Groups of cells or particles that share values of a design: regions, blocks, mirror images."""

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from pliant.bodies import Solid
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    nearest,
    quoted,
    require_number,
    require_positive,
)
from pliant.design.design_body import body_of
from pliant.mpm.particles import Particles

KINDS = ("cells", "regions", "mesh")
AXES = "xyz"
ROUNDING = 1e-6  # of a cell, by which a centre on the plane of symmetry may be below it


def field_groups(
    model: Dynamics,
    by: str | float = "cells",
    *,
    mirror: str | None = None,
    centre: float | None = None,
) -> Array:
    """Return the group (n,) of each cell or particle, for the `groups` of a pl.problem.Variable.

    Parameters
    ----------
    model : a model of a robot with cells or particles, or a closed loop of one
    by : "cells" for a group for each cell or particle; "regions" for each region with a material;
        "mesh" for each cell of the robot's mesh, so that particles and finite elements have the
        same groups; or the edge [m] of cubes
    mirror : "x", "y" or "z" for a design that is symmetric along this axis
    centre : coordinate [m] of the plane of symmetry; None for the middle of the body

    Raises InputError if the body is not symmetric.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.geometry.Rectangle(size=(0.4, 0.1)),
    ...     divisions=(4, 1),
    ...     material=pl.Material(E=1e5, nu=0.3),
    ... )
    >>> model = pl.ImplicitEuler(beam, dt=0.01, design=["cells.E"])
    >>> pl.design.field_groups(model, by=0.1, mirror="x").tolist()
    [1, 0, 0, 1, 1, 0, 0, 1]
    """
    body = body_of(model)
    labels = _labels(body, by)
    if mirror is None and centre is not None:
        raise InputError('There is a centre but no axis of symmetry; give mirror="x", or similar.')
    if mirror is not None:
        labels = _mirrored(body, labels, mirror, centre)
    return np.unique(labels, return_inverse=True)[1].ravel()


def _labels(body: Any, by: Any) -> Array:
    points = body.cell_centres()
    if isinstance(by, str):
        return _named_labels(body, by)
    edge = require_positive("The edge of a group", by, "m")
    low = points.min(axis=0) - 0.5 * body.cell_size()  # not on the boundary of a cube
    cubes = np.floor((points - low) / edge)
    return np.unique(cubes, axis=0, return_inverse=True)[1].ravel()


def _named_labels(body: Any, by: str) -> Array:
    if by == "cells" or (by == "mesh" and not isinstance(body, Particles)):
        return np.arange(len(body.cell_centres()))
    if by == "mesh":
        return np.asarray(body.samples.cells)
    if by != "regions":
        raise InputError(f"There are no groups by {quoted(by)}; {nearest(by, KINDS)}")
    labels = np.zeros(len(body.cell_centres()), int)
    for k, cells in enumerate(body.material_cells.values()):
        labels[cells] = k
    return labels


def _mirrored(body: Solid | Particles, labels: Array, mirror: Any, centre: Any) -> Array:
    """Return labels in which cells below the plane of symmetry take the label of the cell at their
    mirror image."""
    points = body.cell_centres()
    if mirror not in tuple(AXES[: points.shape[1]]):
        raise InputError(
            f"The axis of symmetry is {quoted(mirror)}; take one of "
            f"{', '.join(AXES[: points.shape[1]])}."
        )
    k = AXES.index(mirror)
    low, high = body.mesh.points[:, k].min(), body.mesh.points[:, k].max()
    plane = 0.5 * (low + high) if centre is None else require_number("The centre", centre, "m")
    above = points[:, k] >= plane - ROUNDING * body.cell_size()
    if above.all() or not above.any():
        raise InputError(
            f"The plane {mirror} = {plane:g} m has no cells on one of its sides; the body is from "
            f"{low:g} to {high:g} m."
        )
    images = points.copy()
    images[:, k] = 2.0 * plane - images[:, k]
    distance, _ = cKDTree(points).query(images)
    if distance.max() > body.cell_size():
        far = points[int(np.argmax(distance))]
        raise InputError(
            f"The body is not symmetric about {mirror} = {plane:g} m: nothing is at the mirror "
            f"image of {far.round(4).tolist()} m. Give another axis or centre."
        )
    out = labels.copy()
    out[~above] = labels[above][cKDTree(points[above]).query(images[~above])[1]]
    return out
