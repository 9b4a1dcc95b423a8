"""Fill a closed surface with cells."""

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core import InputError, MeshError, MissingExtra, counted, require_kind
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cells import boundary_facets, match_facets, orient_cells, remove_unused_points
from pliant.geometry.fill_advice import Mesher, suggest_accurate_cell, suggest_valid_cell
from pliant.geometry.fill_report import (
    FillReport,
    FillTolerances,
    compare_fill,
    resolve_tolerances,
)
from pliant.geometry.lattice import check_count, validate_cell_size
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import label_pieces
from pliant.geometry.stuffing import TooCoarseError, stuff_isosurface
from pliant.geometry.surface import Surface
from pliant.geometry.union import Union

GMSH_TIMEOUT = 600.0  # [s] time limit of gmsh
# Meshes the volume inside points and triangles; edges sharper than 40 degrees are kept.
GMSH_SCRIPT = """
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

    "stuffing" follows the surface with good angles but rounds off edges sharper than a cell.
    "lattice" keeps the cubes whose centre is inside, so the surface is stepped. "gmsh" keeps sharp
    edges and needs the extra package.

    The mesh is compared with the surface (see `compare_fill`). Raises `MeshError` if it loses
    walls, pieces or cavities, and warns if it is inaccurate; both suggest a smaller cell.
    """
    require_kind("The surface to fill", surface, Surface, "give a Surface, see load_surface")
    methods = {"stuffing": fill_by_stuffing, "lattice": fill_by_lattice, "gmsh": fill_by_gmsh}
    if method not in methods:
        raise InputError(
            f"There is no method '{method}' to fill a surface. Choose one of {', '.join(methods)}."
        )
    cell, limits = validate_cell_size(cell, 0.0), resolve_tolerances(tolerances)

    def mesher(surface: Surface, cell: float) -> Mesh:
        return remove_loose_pieces(methods[method](surface, cell), surface, limits.loose_volume)

    try:
        mesh = mesher(surface, cell)
    except TooCoarseError as error:
        raise MeshError(f"{error} {suggest_valid_cell(surface, cell, mesher, limits)}") from None
    for text in check_fill(compare_fill(mesh, surface, cell, limits), surface, mesher, limits):
        warnings.warn(text, stacklevel=2)
    return mesh


def check_fill(
    report: FillReport, surface: Surface, mesher: Mesher, limits: FillTolerances
) -> list[str]:
    """Return warnings about a filled mesh. Raises `MeshError` if it has errors."""
    errors, doubtful, found = report.errors(limits), report.warnings(limits), []
    if errors:
        raise MeshError(
            f"The mesh with a cell of {report.cell:g} m does not represent the surface: "
            f"{', '.join(errors)}. {suggest_valid_cell(surface, report.cell, mesher, limits)}"
        )
    if doubtful:
        found.append(
            f"The mesh with a cell of {report.cell:g} m differs from the surface: "
            f"{', '.join(doubtful)}. {suggest_accurate_cell(surface, report, mesher, limits)}"
        )
    if report.small_parts:
        found.append(
            f"The surface has {counted(report.small_parts, 'void or piece', 'voids or pieces')} "
            f"smaller than a cell of {report.cell:g} m, which the mesh may lack."
        )
    return found


def remove_loose_pieces(mesh: Mesh, surface: Surface, share: float) -> Mesh:
    """Return `mesh` without pieces that the surface does not have.

    Returns `mesh` itself if these pieces have more than `share` of the volume.
    """
    loose = label_pieces(mesh) >= surface.n_pieces
    volumes = mesh.volumes()
    if not loose.any() or volumes[loose].sum() > share * volumes.sum():
        return mesh
    used, cells = np.unique(mesh.cells[~loose], return_inverse=True)
    number = np.full(mesh.n_points, -1)
    number[used] = np.arange(len(used))
    boundary = boundary_facets(mesh.cells[~loose])
    surfaces = {
        name: number[facets[match_facets(facets, boundary, mesh.dim) >= 0]]
        for name, facets in mesh.surfaces.items()
    }
    return Mesh(
        points=mesh.points[used],
        cells=cells.reshape(-1, 4),
        regions={"body": np.arange((~loose).sum())},
        surfaces=surfaces,
    )


def fill_by_stuffing(surface: Surface, cell: float) -> Mesh:
    return stuff_isosurface(surface.contains, surface.first_crossings, surface.bounds(), cell)


def fill_by_lattice(surface: Surface, cell: float) -> Mesh:
    return Union(parts={"body": surface}, cell=cell).unnamed_mesh()


def fill_by_gmsh(surface: Surface, cell: float) -> Mesh:
    """Fill a surface with gmsh in a subprocess, so that a crash does no harm."""
    if importlib.util.find_spec("gmsh") is None:
        raise MissingExtra("Filling by gmsh needs the gmsh package: pip install 'pliant[mesh]'.")
    check_count(12 * surface.volume() / cell**3, np.ptp(surface.points, axis=0))
    with TemporaryDirectory(prefix="pliant-") as folder:
        given, out = Path(folder) / "surface.npz", Path(folder) / "mesh.npz"
        np.savez(given, points=surface.points, triangles=surface.triangles, cell=cell)
        try:
            child = subprocess.run(
                [sys.executable, "-c", GMSH_SCRIPT, str(given), str(out)],
                capture_output=True,
                timeout=GMSH_TIMEOUT,
            )
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"gmsh took over {GMSH_TIMEOUT:g} s. Choose a larger cell or method='stuffing'."
            ) from error
        if child.returncode != 0 or not out.is_file():
            reason = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
                "no reason given"
            ]
            raise MeshError(
                f"gmsh could not fill the surface ({reason[0][:200]}). Use method='stuffing'."
            )
        with np.load(out, allow_pickle=False) as found:
            points, cells = remove_unused_points(found["points"], found["cells"])
    cells = orient_cells(points, cells)
    return Mesh(
        points=points,
        cells=cells,
        regions={"body": np.arange(len(cells))},
        surfaces={"outside": outer_facets(points, boundary_facets(cells))},
    )
