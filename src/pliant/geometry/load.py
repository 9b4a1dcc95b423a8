"""Files of other programs become meshes and surfaces; a child process with bounds on its means
parses them."""

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
    coincident,
    compacted,
    matched,
    oriented,
)
from pliant.geometry.checks import checked_arrays
from pliant.geometry.mesh import Mesh
from pliant.geometry.repair import (
    MERGE,
    merged_points,
    outward,
    reduced,
    repair_surface,
    without_degenerate,
)
from pliant.geometry.surface import Surface, check_points
from pliant.geometry.surface_doubts import surface_doubts

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
    path: str | Path,
    *,
    scale: float = 1.0,
    merge: bool = False,
    names: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Mesh:
    """A mesh of tetrahedra or flat triangles from VTU, VTK, gmsh, Abaqus or Medit, told apart by
    content.

    Lengths are multiplied by `scale` (0.001 for a file in millimetres). Element sets, physical
    groups and whole-number cell labels become regions; those of the facets become surfaces where
    they lie on the boundary. Cells of lower dimension and loose points are left out, inverted cells
    turned; `merge` makes coincident nodes one.

    A label without a name becomes a region such as "1"; `names` gives regions and surfaces other
    names, {"1": "soft"}, and joins those of one name. Warns of several regions without names.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_foreign("mesh", path_of(path), limits or Limits())
    try:
        points, cells = checked_arrays(found["points"] * scale, found["cells"])
        mesh = renamed(assembled(points, cells, found, merge), names or {})
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


def renamed(mesh: Mesh, names: Mapping[str, str]) -> Mesh:
    """Return the mesh with other names of regions and surfaces; those of one name are joined."""
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


def load_surface(
    path: str | Path,
    *,
    scale: float = 1.0,
    merge: float = MERGE,
    repair: bool = False,
    limits: Limits | None = None,
) -> Surface:
    """Load a closed surface from STL (text or binary), OBJ or PLY, told apart by content.

    Lengths are multiplied by `scale`. Vertices closer than `merge` times the size are merged, and a
    surface that points inward as a whole is reversed. `repair` also removes degenerate, duplicate
    and loose triangles, makes orientations consistent and closes holes up to a tenth of the size;
    `surface.repairs` then says what was done. Raises MeshError for a surface that is not closed.
    Warns of a repair, of parts that overlap and of spikes.
    """
    require_positive("The scale", scale, "m per unit of the file")
    found = read_foreign("surface", path_of(path), limits or Limits())
    points, triangles = found["points"] * scale, found["triangles"]
    try:
        check_points(points, triangles)
        if repair:
            surface, report = repair_surface(points, triangles, merge=merge)
            doubts = [str(report)] if report.changed else []
        else:
            surface, doubts = merged_surface(points, triangles, merge), []
        doubts += surface_doubts(surface)
    except (MeshError, InputError) as error:
        raise type(error)(f"{path}: {error}") from error
    for doubt in doubts:
        warnings.warn(f"{path}: {doubt}", stacklevel=2)
    return surface


def merged_surface(points: Array, triangles: Array, merge: float) -> Surface:
    """Return the surface with vertices within `merge` of the size as one and inner walls between
    touching parts removed."""
    points, triangles = merged_points(points, triangles, merge)
    points, triangles = compacted(points, reduced(without_degenerate(triangles)))
    return Surface(points=points, triangles=outward(points, triangles))


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


def path_of(path: str | Path) -> Path:
    """Return the path of a file. Raises `InputError` for anything else, or an empty text."""
    require_kind("The path of the file", path, (str, os.PathLike), "give text or a pathlib.Path")
    if not os.fspath(path):
        raise InputError("The path of the file is empty; give the name of the file.")
    return Path(path)


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
