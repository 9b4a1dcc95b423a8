"""Extrusion of a flat mesh to a solid one."""

import numpy as np

from pliant.core import Array, InputError, MeshError, require_positive
from pliant.geometry.cells import boundary_facets, orient_cells
from pliant.geometry.lattice import check_count
from pliant.geometry.mesh import Mesh


def extrude(mesh: Mesh, *, thickness: float, layers: int = 1) -> Mesh:
    """Return a flat `mesh` extruded along z from 0 to `thickness` [m].

    The surfaces are "bottom", "top" and those of the outline. Each triangle becomes prisms of three
    tetrahedra. Prisms are cut by point index, so neighbours match. Every second layer is mirrored,
    so an even number of layers is symmetric about the middle. Raises `MeshError` unless the mesh is
    flat and of order 1.
    """
    require_positive("The thickness of the extrusion", thickness, "m")
    if mesh.dim != 2 or mesh.order != 1:
        raise MeshError(
            f"The mesh to extrude has dim {mesh.dim} and order {mesh.order}; pass a flat mesh of "
            "order 1."
        )
    if layers < 1:
        raise InputError(f"The extrusion has {layers} layers; pass at least 1.")
    check_count(3 * layers * mesh.n_cells, (*np.ptp(mesh.points, axis=0), thickness))
    n = mesh.n_points
    z = np.repeat(np.linspace(0, thickness, layers + 1), n)
    points = np.column_stack([np.tile(mesh.points, (layers + 1, 1)), z])
    cells = np.vstack([split_prisms(mesh.cells, layer, n) for layer in range(layers)])
    cells = orient_cells(points, cells)
    regions = {
        name: cells_over(chosen, layers, mesh.n_cells) for name, chosen in mesh.regions.items()
    }
    return Mesh(
        points=points, cells=cells, regions=regions, surfaces=extruded_surfaces(mesh, cells, layers)
    )


def split_prisms(triangles: Array, layer: int, n: int) -> Array:
    """Return the tetrahedra (3 m, 4) of one layer, in three blocks of m."""
    a, b, c = np.sort(triangles, axis=1).T
    low, high = (layer * n, (layer + 1) * n)[:: -1 if layer % 2 else 1]
    blocks = (
        (a + low, b + low, c + low, c + high),
        (a + low, b + low, b + high, c + high),
        (a + low, a + high, b + high, c + high),
    )
    return np.vstack([np.column_stack(block) for block in blocks])


def cells_over(chosen: Array, layers: int, n_cells: int) -> Array:
    """Return the tetrahedra over the chosen triangles, in the order of `split_prisms`."""
    return (chosen[None, :] + n_cells * np.arange(3 * layers)[:, None]).ravel()


def extruded_surfaces(mesh: Mesh, cells: Array, layers: int) -> dict[str, Array]:
    """Return the facets over each named side of the outline, and the two caps."""
    facets, n = boundary_facets(cells), mesh.n_points
    level, below = facets // n, facets % n
    named = {
        "bottom": facets[(level == 0).all(axis=1)],
        "top": facets[(level == layers).all(axis=1)],
    }
    walls = level.min(axis=1) != level.max(axis=1)
    low, high = (
        below.min(axis=1),
        below.max(axis=1),
    )  # a wall's facet has two points over one another
    for name, edges in mesh.surfaces.items():
        ends = np.sort(edges, axis=1)
        named[name] = facets[walls & np.isin(low * n + high, ends[:, 0] * n + ends[:, 1])]
    return named
