"""Load meshes and surfaces from files of other programs, in a subprocess with memory and time
limits."""

import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core import Array, InputError, MeshError, nearest, require_kind, require_positive
from pliant.geometry.cells import (
    DIMENSION,
    boundary_facets,
    first_coincident,
    match_facets,
    orient_cells,
    remove_unused_points,
)
from pliant.geometry.checks import validate_arrays
from pliant.geometry.mesh import Mesh
from pliant.geometry.repair import (
    MERGE_FRACTION,
    cancel_opposite,
    merge_vertices,
    orient_outward,
    remove_degenerate,
    repair_surface,
)
from pliant.geometry.surface import Surface, check_points, enclosed_volume
from pliant.geometry.surface_warnings import find_surface_warnings
from pliant.store import check_path

READER_SCRIPT = Path(__file__).with_name("mesh_readers.py")
EXIT_UNREADABLE = 3  # exit status of mesh_readers.py if its output is a message


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """Limits of file size, memory and time for reading a file of another program."""

    file: int = 512_000_000  # [bytes]
    memory: int = 6_000_000_000  # [bytes], address space of the child process
    seconds: float | None = None  # None: 60 s, and one more for every 2 MB of the file

    def seconds_for(self, size: int) -> float:
        """Return the time [s] for a file of `size` bytes."""
        return 60.0 + size / 2e6 if self.seconds is None else self.seconds


def load_mesh(
    path: str | Path,
    *,
    scale: float = 1.0,
    merge: bool = False,
    names: Mapping[str, str] | None = None,
    limits: FileLimits | None = None,
) -> Mesh:
    """Load a mesh of tetrahedra or flat triangles from VTU, VTK, gmsh, Abaqus or Medit.

    The format is detected by content. Lengths are multiplied by `scale` (0.001 for a file in
    millimetres). Element sets, physical groups and integer cell labels become regions; those of
    boundary facets become surfaces. Cells of lower dimension and unused points are removed,
    inverted cells are reoriented, and `merge` merges coincident nodes.

    A label without a name becomes a region such as "1". `names` renames regions and surfaces, {"1":
    "soft"}, and joins those with the same name. Warns if several regions have no names. Raises
    `MeshError` for a file that cannot be used.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_in_subprocess(
        "mesh", check_path("The path of the file", path), limits or FileLimits()
    )
    try:
        points, cells = validate_arrays(found["points"] * scale, found["cells"])
        mesh = rename_groups(assemble_mesh(points, cells, found, merge), names or {})
    except (MeshError, InputError) as error:
        raise type(error)(f"{path}: {error}") from error
    numbers = [name for name in mesh.regions if name.removeprefix("-").isdigit()]
    if len(numbers) > 1:
        warnings.warn(
            f"{path}: The {len(numbers)} labels of the cells have no names and became the regions "
            f"{', '.join(numbers[:5])}{', ...' if len(numbers) > 5 else ''}. Name them with "
            f'names={{"{numbers[0]}": "..."}} in Python, or names = {{"{numbers[0]}" = "..."}} in '
            "a robot file.",
            stacklevel=2,
        )
    return mesh


def rename_groups(mesh: Mesh, names: Mapping[str, str]) -> Mesh:
    """Return the mesh with renamed regions and surfaces; those with the same name are joined."""
    require_kind("The names", names, Mapping, 'give a dict such as {"1": "soft"}')
    tables: dict[str, dict[str, Array]] = {"regions": {}, "surfaces": {}}
    known = [*mesh.regions, *mesh.surfaces]
    for old, new in names.items():
        if old not in known:
            raise InputError(
                f"There is no region or surface '{old}' to be named; {nearest(old, known)}"
            )
        require_kind(f"The name for '{old}'", new, str, "give text")
    for kind, table in tables.items():
        for old, rows in getattr(mesh, kind).items():
            new = names.get(old, old)
            table[new] = np.concatenate([table[new], rows]) if new in table else rows
    return replace(mesh, regions=tables["regions"], surfaces=tables["surfaces"])


def assemble_mesh(points: Array, cells: Array, found: dict[str, Array], merge: bool) -> Mesh:
    if cells.min() < 0 or cells.max() >= len(points):
        raise MeshError(
            f"A cell names point {cells.max()}, but the file has {len(points)} points. Write the "
            "file again."
        )
    owner = first_coincident(points) if merge else np.arange(len(points))
    used = np.unique(owner[cells])
    number = np.full(len(points), -1)
    number[used] = np.arange(used.size)
    points, cells = remove_unused_points(points, owner[cells])
    cells = orient_cells(points, cells)
    facets = number[owner[found["facets"]]] if len(found["facets"]) else found["facets"]
    regions = {name: index for name, index in named_sets(found, "cells").items() if len(index)}
    surfaces = boundary_sets(facets, named_sets(found, "facets"), cells)
    surfaces = {
        f"{name} surface" if name in regions else name: rows for name, rows in surfaces.items()
    }
    return Mesh(
        points=points,
        cells=cells,
        regions=regions or {"body": np.arange(len(cells))},
        surfaces=surfaces,
    )


def named_sets(found: dict[str, Array], role: str) -> dict[str, Array]:
    """Return the sets of cells or facets, by name."""
    return {str(name): found[f"{role}_set_{i}"] for i, name in enumerate(found[f"{role}_names"])}


def boundary_sets(facets: Array, sets: dict[str, Array], cells: Array) -> dict[str, Array]:
    """Return the boundary facets of each set; sets of inner walls are omitted."""
    dim = DIMENSION[cells.shape[1]]
    boundary = boundary_facets(cells)
    out = {}
    for name, index in sets.items():
        row = match_facets(facets[index], boundary, dim)
        if (row >= 0).any():
            out[name] = boundary[row[row >= 0]]
    return out


def load_surface(
    path: str | Path,
    *,
    scale: float = 1.0,
    merge: float = MERGE_FRACTION,
    repair: bool = False,
    limits: FileLimits | None = None,
) -> Surface:
    """Load a closed surface from STL (text or binary), OBJ or PLY. The format is detected by
    content.

    Lengths are multiplied by `scale`. Vertices closer than `merge` times the size are merged, and a
    surface that points inward as a whole is reversed. `repair` also removes degenerate, duplicate
    and loose triangles, makes orientations consistent and closes holes up to a tenth of the size;
    `surface.repairs` reports the changes. Raises `MeshError` for a surface that is not closed.
    Warns of a reversed surface, repairs, overlapping parts and spikes.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_in_subprocess(
        "surface", check_path("The path of the file", path), limits or FileLimits()
    )
    points, triangles = found["points"] * scale, found["triangles"]
    try:
        check_points(points, triangles)
        if repair:
            surface, report = repair_surface(points, triangles, merge=merge)
            messages = [str(report)] if report.changed else []
        else:
            surface = merge_surface(points, triangles, merge)
            messages = _reversal_warnings(points, triangles)
        messages += find_surface_warnings(surface)
    except (MeshError, InputError) as error:
        raise type(error)(f"{path}: {error}") from error
    for message in messages:
        warnings.warn(f"{path}: {message}", stacklevel=2)
    return surface


def _reversal_warnings(points: Array, triangles: Array) -> list[str]:
    """Return a warning if triangles point inward as a whole."""
    if enclosed_volume(points, triangles) >= 0.0:
        return []
    return [
        "All triangles point inward, so they were reversed. Write the file with outward triangles "
        "if it is used in other programs."
    ]


def merge_surface(points: Array, triangles: Array, merge: float) -> Surface:
    """Return the surface with merged vertices and without inner walls between touching parts.

    Vertices within `merge` of the size are merged.
    """
    points, triangles = merge_vertices(points, triangles, merge)
    points, triangles = remove_unused_points(points, cancel_opposite(remove_degenerate(triangles)))
    return Surface(points=points, triangles=orient_outward(points, triangles))


def read_in_subprocess(kind: str, path: Path, limits: FileLimits) -> dict[str, Array]:
    """Return the arrays of a file, read by mesh_readers.py in a subprocess."""
    check_file(path, limits)
    with TemporaryDirectory(prefix="pliant-") as folder:
        out = Path(folder) / "arrays.npz"
        command = [
            sys.executable,
            "-P",
            str(READER_SCRIPT),
            kind,
            str(path.absolute()),
            str(out),
            str(int(limits.memory)),
        ]
        # One thread is enough, and each thread would need address space within the limit.
        seconds = limits.seconds_for(path.stat().st_size)
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            child = subprocess.run(
                command, capture_output=True, timeout=seconds, env={**os.environ, **threads}
            )
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"{path} took over {seconds:g} s to read. "
                "If the file is valid, raise FileLimits(seconds=...)."
            ) from error
        if child.returncode == EXIT_UNREADABLE:
            raise MeshError(
                f"{path} {child.stdout.decode(errors='replace').strip().splitlines()[-1]}."
            )
        if child.returncode != 0 or not out.is_file():
            raise MeshError(
                f"{path} crashed its reader (exit status {child.returncode}). Write it again in "
                "another format."
            )
        with np.load(out, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def check_file(path: Path, limits: FileLimits) -> None:
    if "\0" in str(path) or len(str(path)) > 4000:
        raise MeshError(
            f"The file name ...{str(path)[-40:]!r} ({len(str(path))} characters) is not a "
            "valid file name. Check the path."
        )
    if not os.path.exists(path):  # unlike Path.exists, this does not raise for long names
        raise MeshError(f"There is no file {path}. Check the path; it is relative to {Path.cwd()}.")
    if not path.is_file():
        raise MeshError(
            f"{path} is a directory, a pipe or a device, not a regular file. Name the mesh file "
            "itself."
        )
    size = path.stat().st_size
    if size == 0:
        raise MeshError(f"{path} is empty (0 bytes). Write it again.")
    if size > limits.file:
        raise MeshError(
            f"{path} has {size} bytes, over the limit of {limits.file}. "
            "Coarsen it, or raise FileLimits(file=...)."
        )
