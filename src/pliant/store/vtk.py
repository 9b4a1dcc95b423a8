"""Points over time as VTK files, for ParaView, PyVista and meshio: a .vtu file for each frame and a
.pvd file with the times."""

import base64
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from pliant.core import Array, InputError, finite_array
from pliant.store.files import check_path, translate_write_errors, write_atomic

VTK_TYPES = {"f": "Float64", "i": "Int64", "u": "UInt8"}


@dataclass(frozen=True, kw_only=True)
class PointFrame:
    """Points at one time, with fields."""

    time: float  # [s]
    points: Array  # (n, dim) [m], dim 2 or 3
    fields: Mapping[str, Array]  # name -> (n,), (n, dim) or integers (n,)


def write_point_frames(
    folder: str | Path, frames: Iterable[PointFrame], name: str = "particles"
) -> Path:
    """Write name-000000.vtu, ... and name.pvd, and return the path of the latter. Files of an
    earlier run are removed. Raises `InputError` if there are no frames."""
    home = check_path("The folder", folder)
    with translate_write_errors(home, 0):
        for path in [home / f"{name}.pvd", *home.glob(f"{name}-{6 * '[0-9]'}.vtu")]:
            path.unlink(missing_ok=True)
    written = []
    for k, frame in enumerate(frames):
        file = f"{name}-{k:06d}.vtu"
        write_atomic(home / file, points_xml(frame))
        written.append(
            f'<DataSet timestep="{float(frame.time)!r}" part="0" file={quoteattr(file)}/>'
        )
    if not written:
        raise InputError("There are no frames to write as VTK. Give at least one.")
    collection = [
        '<VTKFile type="Collection" version="0.1">',
        "<Collection>",
        *written,
        "</Collection>",
        "</VTKFile>",
    ]
    write_atomic(home / f"{name}.pvd", "\n".join(['<?xml version="1.0"?>', *collection, ""]))
    return home / f"{name}.pvd"


def points_xml(frame: PointFrame) -> str:
    """Return the frame as a VTK unstructured grid of vertices. VTK is three-dimensional, so vectors
    in the plane get a third component of zero."""
    points = finite_array("The array of points of a VTK file", frame.points, (None, None), "m")
    n, dim = points.shape
    if dim not in (2, 3) or not n:
        raise InputError(
            f"The points of a VTK file have shape {points.shape}. Give points (n, 2) or (n, 3)."
        )
    index = np.arange(n)
    fields = [_array(name, _checked(name, value, n, dim)) for name, value in frame.fields.items()]
    order = "LittleEndian" if sys.byteorder == "little" else "BigEndian"
    lines = [
        '<?xml version="1.0"?>',
        f'<VTKFile type="UnstructuredGrid" version="1.0" byte_order="{order}" '
        'header_type="UInt64" compressor="vtkZLibDataCompressor">',
        f'<UnstructuredGrid><Piece NumberOfPoints="{n}" NumberOfCells="{n}">',
        f"<Points>{_array('Points', _in_space(points))}</Points>",
        "<Cells>",
        _array("connectivity", index),
        _array("offsets", index + 1),
        _array("types", np.ones(n, np.uint8)),
        "</Cells>",
        "<PointData>",
        *fields,
        "</PointData>",
        "</Piece></UnstructuredGrid></VTKFile>",
        "",
    ]
    return "\n".join(lines)


def _checked(name: str, value: Array, n: int, dim: int) -> Array:
    array = np.asarray(value)
    whole = array.dtype.kind in "biu"
    array = array.astype(np.int64) if array.dtype == bool else array
    array = finite_array(
        f"The field '{name}' of a VTK file", array, (n,) if array.ndim == 1 else (n, dim)
    )
    return array.astype(np.int64) if whole else _in_space(array)


def _in_space(array: Array) -> Array:
    return np.pad(array, ((0, 0), (0, 1))) if array.ndim == 2 and array.shape[1] == 2 else array


def _array(name: str, array: Array) -> str:
    """Return an array as XML, compressed as one block. The header has the number of blocks, their
    size, and their compressed size."""
    raw = np.ascontiguousarray(array).tobytes()
    packed = zlib.compress(raw, level=3)
    header = np.array([1, len(raw), len(raw), len(packed)], np.uint64).tobytes()
    text = (base64.b64encode(header) + base64.b64encode(packed)).decode()
    shape = f' NumberOfComponents="{array.shape[1]}"' if array.ndim == 2 else ""
    return (
        f'<DataArray type="{VTK_TYPES[array.dtype.kind]}" Name={quoteattr(name)}{shape} '
        f'format="binary">{text}</DataArray>'
    )
