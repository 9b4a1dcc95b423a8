"""Names for the cavities of a mesh."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.core import Array, InputError, counted
from pliant.geometry.cavities import find_cavities, signed_enclosed_volume
from pliant.geometry.cells import cell_facets, match_facets
from pliant.geometry.mesh import Mesh

MAX_PLACES = 5  # of voids without a name, in the text of a warning


def split_by_size(mesh: Mesh) -> tuple[list[Array], list[Array]]:
    """Return the cavities that are larger than the mean cell at their wall, and the others.

    A smaller void is a gap that the mesher left; a fluid in it would drive nothing."""
    walls = find_cavities(mesh)
    if not walls:
        return [], []
    facets = cell_facets(mesh.corners)
    owner = match_facets(np.vstack(walls)[:, : mesh.dim], facets, mesh.dim) // (mesh.dim + 1)
    wall_cell_volumes = np.split(
        mesh.volumes()[owner], np.cumsum([len(wall) for wall in walls])[:-1]
    )
    is_large = [
        -signed_enclosed_volume(mesh.points, wall) > cells.mean()
        for wall, cells in zip(walls, wall_cell_volumes, strict=True)
    ]
    large = [wall for wall, kept in zip(walls, is_large, strict=True) if kept]
    return large, [wall for wall, kept in zip(walls, is_large, strict=True) if not kept]


def name_cavities(mesh: Mesh, names: Sequence[str] | None = None) -> Mesh:
    """Return `mesh` with a surface for the wall of each cavity that is larger than a cell.

    `names` follow the order of `find_cavities`; by default "cavity-1", "cavity-2"... Smaller voids
    get no name, and a warning says where they are. Raises `InputError` if there is no cavity."""
    return _named(mesh, names, *split_by_size(mesh))


def _named(
    mesh: Mesh, names: Sequence[str] | None, walls: Sequence[Array], small: Sequence[Array]
) -> Mesh:
    names = [f"cavity-{k + 1}" for k in range(len(walls))] if names is None else list(names)
    check_cavity_names(mesh, names, walls, small)
    if small:
        warnings.warn(f"{describe_small_voids(mesh, small)} and get no name.", stacklevel=3)
    return replace(mesh, surfaces={**mesh.surfaces, **dict(zip(names, walls, strict=True))})


def describe_small_voids(mesh: Mesh, walls: Sequence[Array]) -> str:
    """Describe voids that are smaller than a cell."""
    volumes = [-signed_enclosed_volume(mesh.points, wall) for wall in walls]
    largest = [walls[k] for k in np.argsort(volumes)[::-1][:MAX_PLACES]]
    more = ", ..." if len(walls) > MAX_PLACES else ""
    return (
        f"{counted(len(walls), 'closed void')} of the mesh {'is' if len(walls) == 1 else 'are'} "
        f"smaller than a cell (the largest has {max(volumes):.3g} m^{mesh.dim}; near "
        f"{format_centres(mesh, largest)}{more} m)"
    )


def format_centres(mesh: Mesh, walls: Sequence[Array]) -> str:
    """Return the centres of some cavities as text."""
    return ", ".join(str(mesh.points[wall].mean(axis=(0, 1)).round(6).tolist()) for wall in walls)


def check_cavity_names(
    mesh: Mesh, names: Sequence[str], walls: Sequence[Array], small: Sequence[Array]
) -> None:
    """Raise `InputError` unless `names` can name the cavities of `mesh`."""
    if not walls:
        reason = (
            describe_small_voids(mesh, small)
            if small
            else "no part of its boundary encloses a void"
        )
        raise InputError(
            f"The mesh has no cavity: {reason}. Leave a closed void in the body, several cells "
            "wide."
        )
    if len(names) != len(walls):
        raise InputError(
            f"The mesh has {counted(len(walls), 'cavity', 'cavities')}, not {len(names)}; give one "
            f"for each of those about {format_centres(mesh, walls)} m."
        )
    taken = [name for k, name in enumerate(names) if name in mesh.surfaces or name in names[:k]]
    if taken:
        raise InputError(
            f"'{taken[0]}' already names a surface of the mesh; give the cavity another name."
        )


def name_cavities_if_present(mesh: Mesh) -> Mesh:
    """Return `mesh` with surfaces "cavity-1"..., or unchanged if it has no cavity or has that name
    already."""
    if "cavity-1" in mesh.surfaces:
        return mesh
    walls, small = split_by_size(mesh)
    return _named(mesh, None, walls, small) if walls else mesh


def suggest_cavities(mesh: Mesh) -> str:
    """Say which surface of `mesh` can hold a fluid, or how to get one."""
    walls, _ = split_by_size(mesh)
    named = [
        name
        for name, facets in mesh.surfaces.items()
        if any(np.array_equal(facets, wall) for wall in walls)
    ]
    if named:
        return f"The cavities of the mesh are {', '.join(named)}."
    if walls:
        cavities = counted(len(walls), "cavity", "cavities")
        return f"Name the {cavities} of the mesh with geometry.name_cavities(mesh)."
    return (
        "The mesh has no closed void that is larger than a cell; leave one in the body, several "
        "cells wide, or take a smaller cell."
    )
