"""Fill a closed surface with cells."""

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core import InputError, MeshError, MissingExtra, require_kind
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cells import boundary_facets, compacted, matched, oriented
from pliant.geometry.fill_advice import Mesher, cell_for_close_mesh, cell_for_sound_mesh
from pliant.geometry.fill_report import (
    FillReport,
    FillTolerances,
    checked_tolerances,
    fill_report,
)
from pliant.geometry.lattice import check_count, checked_cell
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import pieces
from pliant.geometry.stuffing import TooCoarse, stuffed
from pliant.geometry.surface import Surface
from pliant.geometry.union import Union

SECONDS = 600.0  # gmsh may not take longer
# The points and triangles go in, a conforming mesh of the volume comes out; sharp edges (over 40
# degrees) are kept.
GMSH = """
import sys, numpy as np, gmsh
data = np.load(sys.argv[1], allow_pickle=False)
gmsh.initialize(["pliant", "-v", "1"], interruptible=False)
tag = gmsh.model.addDiscreteEntity(2)
n, m = len(data["points"]), len(data["triangles"])
gmsh.model.mesh.addNodes(2, tag, np.arange(1, n + 1), data["points"].ravel())
gmsh.model.mesh.addElementsByType(tag, 2, np.arange(1, m + 1), data["triangles"].ravel() + 1)
gmsh.model.mesh.classifySurfaces(np.pi * 40 / 180, True, True, np.pi)
gmsh.model.mesh.createGeometry()
loop = gmsh.model.geo.addSurfaceLoop([s[1] for s in gmsh.model.getEntities(2)])
gmsh.model.geo.addVolume([loop])
gmsh.model.geo.synchronize()
gmsh.option.setNumber("Mesh.MeshSizeMin", float(data["cell"]))
gmsh.option.setNumber("Mesh.MeshSizeMax", float(data["cell"]))
gmsh.model.mesh.generate(3)
tags, points, _ = gmsh.model.mesh.getNodes()
_, nodes = gmsh.model.mesh.getElementsByType(4)
number = np.zeros(int(tags.max()) + 1, dtype=np.int64)
number[tags.astype(int)] = np.arange(len(tags))
np.savez(sys.argv[2], points=points.reshape(-1, 3), cells=number[nodes.astype(int)].reshape(-1, 4))
"""


def fill(
    surface: Surface,
    cell: float,
    *,
    method: str = "stuffing",
    tolerances: FillTolerances | None = None,
) -> Mesh:
    """Fill a closed surface with tetrahedra of about `cell` [m]; surface "outside", region "body".

    "stuffing" follows the surface with good angles but rounds off edges sharper than a cell;
    "lattice" keeps the cubes whose centre is inside, with stairs; "gmsh" keeps sharp edges and
    needs the extra package.

    The mesh is compared with the surface (see `fill_report`). Raises `MeshError` if it loses walls,
    pieces or cavities, and warns if it is inaccurate; both name a smaller cell.
    """
    require_kind("What is to be filled", surface, Surface, "give a Surface, see load_surface")
    methods = {"stuffing": by_stuffing, "lattice": by_lattice, "gmsh": by_gmsh}
    if method not in methods:
        raise InputError(
            f"There is no method '{method}' to fill a surface. Choose one of {', '.join(methods)}."
        )
    cell, limits = checked_cell(cell, 0.0), checked_tolerances(tolerances)

    def mesher(surface: Surface, cell: float) -> Mesh:
        return without_loose_pieces(methods[method](surface, cell), surface, limits.loose_volume)

    try:
        mesh = mesher(surface, cell)
    except TooCoarse as error:
        raise MeshError(f"{error} {cell_for_sound_mesh(surface, cell, mesher, limits)}") from None
    for text in compared(fill_report(mesh, surface, cell, limits), surface, mesher, limits):
        warnings.warn(text, stacklevel=2)
    return mesh


def compared(
    report: FillReport, surface: Surface, mesher: Mesher, limits: FillTolerances
) -> list[str]:
    """Return warnings about a filled mesh. Raises `MeshError` if it has faults."""
    faults, doubts, found = report.faults(limits), report.doubts(limits), []
    if faults:
        raise MeshError(
            f"The mesh with a cell of {report.cell:g} m does not represent the surface: "
            f"{', '.join(faults)}. {cell_for_sound_mesh(surface, report.cell, mesher, limits)}"
        )
    if doubts:
        found.append(
            f"The mesh with a cell of {report.cell:g} m differs from the surface: "
            f"{', '.join(doubts)}. {cell_for_close_mesh(surface, report, mesher, limits)}"
        )
    if report.small_parts:
        found.append(
            f"{report.small_parts} voids or pieces of the surface are smaller than a cell of "
            f"{report.cell:g} m; the mesh may lack them."
        )
    return found


def without_loose_pieces(mesh: Mesh, surface: Surface, share: float) -> Mesh:
    """Return `mesh` without the pieces that the surface does not have, if they hold less than
    `share` of the volume; otherwise `mesh` itself."""
    loose = pieces(mesh) >= surface.n_pieces
    volumes = mesh.volumes()
    if not loose.any() or volumes[loose].sum() > share * volumes.sum():
        return mesh
    used, cells = np.unique(mesh.cells[~loose], return_inverse=True)
    number = np.full(mesh.n_points, -1)
    number[used] = np.arange(len(used))
    boundary = boundary_facets(mesh.cells[~loose])
    surfaces = {
        name: number[facets[matched(facets, boundary, mesh.dim) >= 0]]
        for name, facets in mesh.surfaces.items()
    }
    return Mesh(
        points=mesh.points[used],
        cells=cells.reshape(-1, 4),
        regions={"body": np.arange((~loose).sum())},
        surfaces=surfaces,
    )


def by_stuffing(surface: Surface, cell: float) -> Mesh:
    return stuffed(surface.contains, surface.crossings, surface.bounds(), cell)


def by_lattice(surface: Surface, cell: float) -> Mesh:
    return Union(parts={"body": surface}, cell=cell).unnamed_mesh()


def by_gmsh(surface: Surface, cell: float) -> Mesh:
    """gmsh in a child process, which it may take down without harm."""
    if importlib.util.find_spec("gmsh") is None:
        raise MissingExtra("Filling by gmsh needs the gmsh package: pip install 'pliant[mesh]'.")
    check_count(12 * surface.volume() / cell**3, np.ptp(surface.points, axis=0))
    with TemporaryDirectory(prefix="pliant-") as folder:
        given, out = Path(folder) / "surface.npz", Path(folder) / "mesh.npz"
        np.savez(given, points=surface.points, triangles=surface.triangles, cell=cell)
        try:
            child = subprocess.run(
                [sys.executable, "-c", GMSH, str(given), str(out)],
                capture_output=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"gmsh took over {SECONDS:g} s. Choose a larger cell or method='stuffing'."
            ) from error
        if child.returncode != 0 or not out.is_file():
            reason = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
                "no reason given"
            ]
            raise MeshError(
                f"gmsh could not fill the surface ({reason[0][:200]}). Use method='stuffing'."
            )
        with np.load(out, allow_pickle=False) as found:
            points, cells = compacted(found["points"], found["cells"])
    cells = oriented(points, cells)
    return Mesh(
        points=points,
        cells=cells,
        regions={"body": np.arange(len(cells))},
        surfaces={"outside": outer_facets(points, boundary_facets(cells))},
    )
