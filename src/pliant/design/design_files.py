"""Files of a design: gradient checks, fields for VTK, a surface for each material, a robot file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError
from pliant.design.gradient_checks import GradientCheck
from pliant.geometry import Mesh, extrude, remove_unused_points
from pliant.geometry.cells import boundary_facets
from pliant.geometry.extrusion import cells_over
from pliant.store import read_json, write_json
from pliant.store.files import write_atomic
from pliant.store.vtk import PointFrame, points_xml

CHECKS_FILE = "gradient-checks.json"


def write_checks(folder: Path, checks: Sequence[GradientCheck]) -> None:
    """Write checks as JSON, which has no NaN."""
    rows = [{key: _number(value) for key, value in asdict(one).items()} for one in checks]
    write_json(folder / CHECKS_FILE, {"checks": rows})


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def read_checks(folder: Path) -> list[GradientCheck]:
    """Return the checks that `write_checks` wrote, none without a file. Raises InputError for a
    damaged file."""
    file = folder / CHECKS_FILE
    if not file.exists():
        return []
    try:
        return [_check(row) for row in read_json(file)["checks"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{file} is damaged; remove it, and the gradient is checked again from here on."
        ) from None


def _check(row: Mapping[str, Any]) -> GradientCheck:
    numbers: dict[str, Any] = {
        key: np.nan if value is None else float(value) for key, value in row.items()
    }
    return GradientCheck(**{**numbers, "iteration": int(row["iteration"])})


def write_fields(path: Path, points: Array, fields: Mapping[str, Array]) -> Path:
    """Write fields (n,) at points (n, dim) [m] as a VTK file."""
    write_atomic(path, points_xml(PointFrame(time=0.0, points=points, fields=fields)))
    return path


def write_material_surfaces(
    folder: Path, mesh: Mesh, labels: Array, names: Sequence[str], thickness: float
) -> list[Path]:
    """Write the closed surface of the cells of each label (n_cells,) as an STL file in metres. A
    plane mesh becomes as thick as the robot."""
    points, cells = remove_unused_points(mesh.points, mesh.corners)  # without midside nodes
    solid = Mesh(points=points, cells=cells)
    members = [np.flatnonzero(labels == k) for k in range(len(names))]
    if mesh.dim == 2:
        solid = extrude(solid, thickness=thickness)
        members = [cells_over(chosen, 1, mesh.n_cells) for chosen in members]
    written = []
    for name, chosen in zip(names, members, strict=True):
        path = folder / f"{name.replace(' ', '-')}.stl"
        write_atomic(path, stl_bytes(solid.points[boundary_facets(solid.cells[chosen])]))
        written.append(path)
    return written


def stl_bytes(triangles: Array) -> bytes:
    """Return triangles (n, 3, 3) [m] as binary STL."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    rows = np.zeros(
        len(triangles), dtype=[("normal", "<f4", 3), ("points", "<f4", (3, 3)), ("unused", "<u2")]
    )
    rows["normal"] = normals / np.where(lengths > 0.0, lengths, 1.0)
    rows["points"] = triangles
    return bytes(80) + np.uint32(len(triangles)).astype("<u4").tobytes() + rows.tobytes()
