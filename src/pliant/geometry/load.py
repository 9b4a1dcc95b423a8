"""Files of other programs become meshes and surfaces; a child process with bounds on its means
parses them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core import Array, MeshError, require_positive
from pliant.geometry.cells import (
    DIMENSION,
    boundary_facets,
    coincident,
    compacted,
    matched,
    oriented,
)
from pliant.geometry.checks import checked_arrays
from pliant.geometry.mesh import Mesh
from pliant.geometry.surface import Surface, enclosed_volume

SCRIPT = Path(__file__).with_name("foreign.py")
REFUSED = 3  # exit status of foreign.py when its output is a sentence


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What reading a file of another program may cost."""

    file: int = 512_000_000  # [bytes]
    memory: int = 6_000_000_000  # [bytes], address space of the child process
    seconds: float | None = None  # None: 60 s, and one more for every 2 MB of the file

    def seconds_for(self, size: int) -> float:
        """Return the time [s] for a file of `size` bytes."""
        return 60.0 + size / 2e6 if self.seconds is None else self.seconds


def load_mesh(
    path: str | Path, *, scale: float = 1.0, merge: bool = False, limits: Limits | None = None
) -> Mesh:
    """A mesh of tetrahedra or flat triangles from VTU, VTK, gmsh, Abaqus or Medit, told apart by
    content.

    Lengths are multiplied by `scale` (0.001 for a file in millimetres). Element sets, physical
    groups and whole-number cell labels become regions; those of the facets become surfaces where
    they lie on the boundary. Cells of lower dimension and loose points are left out, inverted cells
    turned; `merge` makes coincident nodes one.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_foreign("mesh", Path(path), limits or Limits())
    try:
        points, cells = checked_arrays(found["points"] * scale, found["cells"])
        return assembled(points, cells, found, merge)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error


def assembled(points: Array, cells: Array, found: dict[str, Array], merge: bool) -> Mesh:
    if cells.min() < 0 or cells.max() >= len(points):
        raise MeshError(
            f"A cell names point {cells.max()}, but the file has {len(points)} points. Write the "
            "file anew."
        )
    owner = coincident(points) if merge else np.arange(len(points))
    used = np.unique(owner[cells])
    number = np.full(len(points), -1)
    number[used] = np.arange(used.size)
    points, cells = compacted(points, owner[cells])
    cells = oriented(points, cells)
    facets = number[owner[found["facets"]]] if len(found["facets"]) else found["facets"]
    regions = {name: index for name, index in named(found, "cells").items() if len(index)}
    surfaces = on_boundary(facets, named(found, "facets"), cells)
    surfaces = {
        f"{name} surface" if name in regions else name: rows for name, rows in surfaces.items()
    }
    return Mesh(
        points=points,
        cells=cells,
        regions=regions or {"body": np.arange(len(cells))},
        surfaces=surfaces,
    )


def named(found: dict[str, Array], role: str) -> dict[str, Array]:
    """The sets of cells or facets, by name."""
    return {str(name): found[f"{role}_set_{i}"] for i, name in enumerate(found[f"{role}_names"])}


def on_boundary(facets: Array, sets: dict[str, Array], cells: Array) -> dict[str, Array]:
    """Of each set of facets, those on the boundary; sets of inner walls are left out."""
    dim = DIMENSION[cells.shape[1]]
    boundary = boundary_facets(cells)
    out = {}
    for name, index in sets.items():
        row = matched(facets[index], boundary, dim)
        if (row >= 0).any():
            out[name] = boundary[row[row >= 0]]
    return out


def load_surface(path: str | Path, *, scale: float = 1.0, limits: Limits | None = None) -> Surface:
    """A closed surface from STL (text or binary), OBJ or PLY, told apart by content; `scale` as in
    load_mesh.

    Equal vertices are made one; a surface that points inward as a whole is turned.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_foreign("surface", Path(path), limits or Limits())
    points, triangles = found["points"] * scale, found["triangles"]
    if (
        np.isfinite(points).all()
        and triangles.max() < len(points)
        and enclosed_volume(points, triangles) < 0
    ):
        triangles = triangles[:, ::-1]
    try:
        return Surface(points=points, triangles=triangles)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error


def read_foreign(kind: str, path: Path, limits: Limits) -> dict[str, Array]:
    """The arrays of a foreign file, read by foreign.py in a child process that cannot take this one
    down."""
    check_file(path, limits)
    with TemporaryDirectory(prefix="pliant-") as folder:
        out = Path(folder) / "arrays.npz"
        command = [
            sys.executable,
            "-P",
            str(SCRIPT),
            kind,
            str(path.absolute()),
            str(out),
            str(int(limits.memory)),
        ]
        # One thread: the reader needs no more, and each would take address space from its bound.
        seconds = limits.seconds_for(path.stat().st_size)
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            child = subprocess.run(
                command, capture_output=True, timeout=seconds, env={**os.environ, **threads}
            )
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"{path} took over {seconds:g} s to read. "
                "If it is sound, raise Limits(seconds=...)."
            ) from error
        if child.returncode == REFUSED:
            raise MeshError(
                f"{path} {child.stdout.decode(errors='replace').strip().splitlines()[-1]}."
            )
        if child.returncode != 0 or not out.is_file():
            raise MeshError(
                f"{path} broke its reader (exit status {child.returncode}). Write it anew in "
                "another format."
            )
        with np.load(out, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def check_file(path: Path, limits: Limits) -> None:
    if "\0" in str(path) or len(str(path)) > 4000:
        raise MeshError(
            f"The file name ...{str(path)[-40:]!r} ({len(str(path))} letters) is none that a "
            "file can have. Check the path."
        )
    if not os.path.exists(
        path
    ):  # unlike Path.exists, this answers for names that are too long as well
        raise MeshError(f"There is no file {path}. Check the path; it is taken from {Path.cwd()}.")
    if not path.is_file():
        raise MeshError(
            f"{path} is a directory, a pipe or a device, not a regular file. Name the mesh file "
            "itself."
        )
    size = path.stat().st_size
    if size == 0:
        raise MeshError(f"{path} is empty (0 bytes). Write it anew.")
    if size > limits.file:
        raise MeshError(
            f"{path} has {size} bytes, over the limit of {limits.file}. "
            "Coarsen it, or raise Limits(file=...)."
        )
