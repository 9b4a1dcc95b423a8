"""Fill a closed surface with cells."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core import InputError, MeshError, MissingExtra, require_kind
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cells import boundary_facets, compacted, oriented
from pliant.geometry.lattice import check_count, checked_cell
from pliant.geometry.mesh import Mesh
from pliant.geometry.stuffing import stuffed
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


def fill(surface: Surface, cell: float, *, method: str = "stuffing") -> Mesh:
    """Tetrahedra of about `cell` [m] inside a closed surface; surface "outside", region "body".

    "stuffing" follows the surface with good angles but rounds off edges sharper than a cell;
    "lattice" keeps the cubes whose middle is inside, with stairs; "gmsh" keeps sharp edges and
    needs the extra package.
    """
    require_kind("What is to be filled", surface, Surface, "give a Surface, see load_surface")
    methods = {"stuffing": by_stuffing, "lattice": by_lattice, "gmsh": by_gmsh}
    if method not in methods:
        raise InputError(
            f"There is no method '{method}' to fill a surface. Choose one of {', '.join(methods)}."
        )
    return methods[method](surface, checked_cell(cell, 0.0))


def by_stuffing(surface: Surface, cell: float) -> Mesh:
    return stuffed(surface.contains, surface.crossings, surface.bounds(), cell)


def by_lattice(surface: Surface, cell: float) -> Mesh:
    mesh = Union(parts={"body": surface}, cell=cell).mesh()
    kept = {name: wall for name, wall in mesh.surfaces.items() if not name.startswith("cavity-")}
    return replace(mesh, surfaces=kept)


def by_gmsh(surface: Surface, cell: float) -> Mesh:
    """gmsh in a child process, which it may take down without harm."""
    if importlib.util.find_spec("gmsh") is None:
        raise MissingExtra("Filling by gmsh needs the gmsh package: pip install 'pliant[mesh]'.")
    check_count(12 * surface.volume() / cell**3)
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
