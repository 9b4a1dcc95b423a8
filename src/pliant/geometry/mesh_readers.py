"""Read files of other programs. load.py runs this script in a subprocess, so it does not import
Pliant.

    python mesh_readers.py KIND PATH OUT.npz MEMORY_BYTES

An invalid file is reported as one sentence on standard output with exit status 3. The parent
process reports any other failure.
"""

import os
import re
import sys
from errno import ENOMEM
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

EXIT_UNREADABLE = 3  # exit status
MAX_PIXELS = 50_000_000
MAX_LABELS = 1000
CELLS = {"tetra10": 3, "tetra": 3, "triangle6": 2, "triangle": 2}  # what Pliant can use, best first
FACETS = {"tetra10": "triangle6", "tetra": "triangle", "triangle6": "line3", "triangle": "line"}
LABELS = (
    "gmsh:physical",
    "medit:ref",
    "region",
    "regions",
    "material",
    "material_id",
    "subdomain",
    "CellEntityIds",
)

UNSUPPORTED_CONTENT = {
    "<!ENTITY": "is XML with entity definitions, which may expand without limit. Save it as a "
    "plain VTU file",
    "<Xdmf": "is XDMF, which keeps its numbers in other files. Convert it to VTU (meshio convert "
    "IN OUT.vtu)",
    "\x89HDF": "is HDF5, which needs its XDMF file. Convert it to VTU (meshio convert IN OUT.vtu)",
    "\x89PNG": "is a PNG picture. Read it with load_silhouette",
}
# A line of an Abaqus file that refers to another file; "**" starts a comment.
INCLUDE = re.compile(rb"^(?!\*\*)[\s*]*include\b", re.IGNORECASE | re.MULTILINE)
# A face of an OBJ file with a vertex 0; what follows a slash is a texture or normal.
ZERO_INDEX = re.compile(rb"^[ \t]*f(?:[ \t]+\S+)*?[ \t]+0+(?:/\S*)?(?:[ \t].*)?$", re.MULTILINE)
MESHES = {  # pattern in the first bytes -> meshio's name for the format
    r"\A# vtk DataFile": "vtk",
    r'<VTKFile[^>]*\stype="UnstructuredGrid"': "vtu",
    r"\A\s*\$": "gmsh",
    r"^\s*MeshVersionFormatted": "medit",
    r"^\s*\*(heading|node|part|\*)": "abaqus",
}


class UnreadableFile(Exception):
    """A file that cannot be used. The message is shown to the user."""


def mesh_format(head: bytes, size: int) -> str:
    """Return meshio's name for the format, from the first bytes and not from the extension."""
    text = head.decode("latin-1")
    for mark, reason in UNSUPPORTED_CONTENT.items():
        if mark in text:
            raise UnreadableFile(reason)
    for pattern, name in MESHES.items():
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return name
    other = re.search(r'<VTKFile[^>]*\stype="(\w+)"', text)
    if other:
        raise UnreadableFile(
            f"is a VTK file of type {other[1]}. Save it as an UnstructuredGrid (VTU)"
        )
    if surface_format(head, size) != "unknown":
        raise UnreadableFile(
            "holds a surface, not cells. Read it with load_surface and mesh it with fill"
        )
    raise UnreadableFile(
        "is not a known mesh format. Save it as VTU, VTK, gmsh, Abaqus (.inp) or Medit (.mesh)"
    )


def surface_format(head: bytes, size: int) -> str:
    """Return stl, stl_ascii, ply, obj or unknown."""
    text = head.decode("latin-1")
    if text.startswith("ply"):
        return "ply"
    if size >= 84 and size == 84 + 50 * int.from_bytes(head[80:84], "little"):
        return "stl"
    if text.lstrip().startswith("solid") and "\0" not in text:
        return "stl_ascii"
    if re.search(r"^(v|f) +[-\d]", text, re.MULTILINE) and "\0" not in text:
        return "obj"
    return "unknown"


def read_mesh(path: Path) -> dict[str, np.ndarray]:
    """Return points, cells and facets of one order, and the named sets of cells and facets."""
    with path.open("rb") as file:
        found = mesh_format(file.read(4096), path.stat().st_size)
        check_references(file, found)
    import meshio  # late: the import is slower than most checks

    restrict_file_access(path)
    mesh = meshio.read(path, file_format=found)
    types = [block.type for block in mesh.cells]
    kind = next((kind for kind in CELLS if kind in types), None)
    if kind is None:
        raise UnreadableFile(
            "holds no tetrahedra or triangles, only "
            f"{', '.join(sorted(set(types))) or 'no cells'}. Split its cells into tetrahedra"
        )
    other = [k for k in CELLS if k != kind and CELLS[k] == CELLS[kind] and k in types]
    if other:
        raise UnreadableFile(
            f"mixes {kind} with {other[0]} cells. Use one order of cells throughout"
        )
    out = {"points": drop_constant_z(np.asarray(mesh.points, dtype=float), CELLS[kind])}
    for role, name in (("cells", kind), ("facets", FACETS[kind])):
        blocks = [i for i, t in enumerate(types) if t == name]
        out[role] = (
            np.vstack([mesh.cells[i].data for i in blocks])
            if blocks
            else np.zeros((0, 1), dtype=int)
        )
        sets = read_named_sets(mesh, blocks, CELLS[kind] - (role == "facets"))
        out[f"{role}_names"] = np.array(list(sets), dtype=str)
        out |= {f"{role}_set_{i}": chosen for i, chosen in enumerate(sets.values())}
    return out


def check_references(file: BinaryIO, found: str) -> None:
    """Raise `UnreadableFile` if a mesh refers to other files or defines XML entities."""
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        if found == "abaqus" and INCLUDE.search(content):
            raise UnreadableFile(
                "includes another file (*INCLUDE), which is not followed. Write all nodes and "
                "elements to one file"
            )
        if found == "vtu" and content.find(b"<!ENTITY") >= 0:
            raise UnreadableFile(UNSUPPORTED_CONTENT["<!ENTITY"])


def restrict_file_access(path: Path) -> None:
    """Allow this process to open only `path` and Python's own modules from now on."""
    own = os.path.realpath(path)
    modules = tuple(os.path.join(os.path.realpath(p), "") for p in sys.path if p)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], str | bytes):
            return
        asked = os.path.realpath(os.fsdecode(args[0]))
        if asked != own and not asked.startswith(modules):
            raise UnreadableFile(
                f"refers to another file, {asked[:200]}. Write everything to one file"
            )

    sys.addaudithook(hook)


def drop_constant_z(points: np.ndarray, dim: int) -> np.ndarray:
    """Return the points of a flat mesh without their constant z."""
    if dim == 3 and points.shape[1] != 3:
        raise UnreadableFile(
            f"has tetrahedra but points with {points.shape[1]} coordinates. Write three"
        )
    if dim == 3 or points.shape[1] == 2:
        return points
    if np.ptp(points[:, 2]) > 1e-9 * np.ptp(points, axis=0).max():
        raise UnreadableFile(
            "holds triangles in space, a surface without cells inside. Read it with load_surface "
            "and use fill"
        )
    return points[:, :2]


def read_named_sets(mesh: Any, blocks: list[int], dim: int) -> dict[str, np.ndarray]:
    """Return named sets over some blocks, as indices into all of them.

    Element sets have priority over integer labels.
    """
    start = np.cumsum([0] + [len(mesh.cells[i].data) for i in blocks])
    out = {}
    for name, members in mesh.cell_sets.items():
        parts = [
            np.asarray(members[i], dtype=int) + s
            for i, s in zip(blocks, start, strict=False)
            if len(members[i])
        ]
        if parts and ":" not in name:  # names with a colon are gmsh's own book-keeping
            out[name] = np.concatenate(parts)
    label = next((name for name in LABELS if name in mesh.cell_data), None)
    if out or label is None or not blocks:
        return out
    values = np.concatenate([np.asarray(mesh.cell_data[label][i]).ravel() for i in blocks])
    names = {int(tag): name for name, (tag, of) in mesh.field_data.items() if int(of) == dim}
    whole = np.isfinite(values) & (values == np.round(values))
    tags = np.unique(values[whole]).astype(int)
    if len(tags) > MAX_LABELS:  # a measurement, not a label
        return {}
    if label.startswith(("gmsh", "medit")):
        tags = tags[tags != 0]  # 0 means untagged there
    return {names.get(int(tag), str(tag)): np.flatnonzero(values == tag) for tag in tags}


def read_surface(path: Path) -> dict[str, np.ndarray]:
    """Return the points and triangles of a file, unchanged."""
    with path.open("rb") as file:
        found = checked_surface_format(file, path.stat().st_size)
        check_counts(file, found)
        import trimesh  # late: the import is slower than most checks

        restrict_file_access(path)
        try:
            shape: Any = trimesh.load(file, file_type=found, force="mesh", process=False)
        except IndexError:
            if found == "obj":
                check_face_indices(file)
            raise
    triangles = np.asarray(shape.faces)
    if not len(triangles):
        raise UnreadableFile("has 0 triangles. Write it again")
    return {"points": np.asarray(shape.vertices, dtype=float), "triangles": triangles}


def check_counts(file: BinaryIO, found: str) -> None:
    """Raise `UnreadableFile` for OBJ faces with vertex 0 and text PLY files with a wrong number of
    lines.

    The parser accepts both.
    """
    if found not in ("obj", "ply"):
        return
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        zero = ZERO_INDEX.search(content) if found == "obj" else None
        if zero:
            line = zero[0].decode(errors="replace").strip()[:60]
            raise UnreadableFile(
                f"has a face of vertex 0 ('{line}'), but OBJ counts from 1. Add one"
            )
        if found == "ply":
            check_ply(content)


def check_face_indices(file: BinaryIO) -> None:
    """Raise `UnreadableFile` if a face of an OBJ file refers to a missing vertex."""
    file.seek(0)
    lines = [words for words in (line.split() for line in file) if words]
    last = sum(words[0] == b"v" for words in lines)
    faces = [words[1:] for words in lines if words[0] == b"f"]
    for k, face in enumerate(faces, start=1):
        for corner in face:
            vertex = int(corner.split(b"/")[0])
            if abs(vertex) > last:
                raise UnreadableFile(
                    f"has {last} vertices, but face {k} refers to vertex {vertex}. Add the missing "
                    "vertices, or remove the face"
                )


def check_ply(content: mmap) -> None:
    end = content.find(b"end_header")
    head = content[: max(end, 0)].decode("latin-1")
    announced = [int(n) for n in re.findall(r"^element\s+\S+\s+(\d+)", head, re.MULTILINE)]
    if end < 0 or not announced:
        raise UnreadableFile("is truncated: its PLY header does not end. Write it again")
    if re.search(r"^format\s+ascii", head, re.MULTILINE):
        content.seek(end)
        content.readline()
        lines = sum(1 for line in iter(content.readline, b"") if line.strip())
        if lines != sum(announced):
            raise UnreadableFile(
                f"is truncated or damaged: its PLY header announces {sum(announced)} lines, but "
                f"{lines} follow. Write it again"
            )


def checked_surface_format(file: BinaryIO, size: int) -> str:
    """Return the format of a surface. Raises `UnreadableFile` if its length or last line shows that
    it is truncated."""
    head = file.read(4096)
    found = surface_format(head, size)
    count = int.from_bytes(head[80:84], "little")
    if found == "unknown" and size >= 84 and b"\0" in head and not head.startswith(b"\x89"):
        raise UnreadableFile(
            f"is truncated or no STL: as binary STL it announces {count} triangles, "
            f"{84 + 50 * count} bytes, but has {size} bytes. Write it again"
        )
    if found == "unknown":
        raise UnreadableFile("is not a known surface format. Save it as STL, OBJ or PLY")
    if found == "stl_ascii" and b"endsolid" not in read_tail(file, size):
        raise UnreadableFile("is truncated: its text STL has no 'endsolid'. Write it again")
    if found == "stl" and count == 0:
        raise UnreadableFile("has 0 triangles. Write it again")
    file.seek(0)
    return found


def read_tail(file: BinaryIO, size: int) -> bytes:
    file.seek(max(0, size - 512))
    return file.read()


def read_picture(path: Path) -> dict[str, np.ndarray]:
    """Return cover (rows, columns) uint8: 255 inside, 0 outside.

    Alpha decides if any pixel is transparent, else darkness.
    """
    rgba = read_colours(path)["rgba"]
    alpha = rgba[:, :, 3]
    dark = 255 - np.asarray(rgba[:, :, :3] @ np.array([0.299, 0.587, 0.114]), dtype=np.uint8)
    return {"cover": alpha if alpha.min() < 255 else dark}


def read_colours(path: Path) -> dict[str, np.ndarray]:
    """Return rgba (rows, columns, 4) uint8."""
    from PIL import Image

    with path.open("rb") as file:
        if file.read(8) != b"\x89PNG\r\n\x1a\n":
            raise UnreadableFile("is not a PNG picture. Save the silhouette as PNG")
    Image.MAX_IMAGE_PIXELS = (
        None  # opening reads the header only; the check below comes before any decoding
    )
    with Image.open(path, formats=("PNG",)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise UnreadableFile(
                f"has {image.width} x {image.height} pixels, over the limit of {MAX_PIXELS}. "
                "Make it smaller"
            )
        return {"rgba": np.asarray(image.convert("RGBA"))}


READERS = {
    "mesh": read_mesh,
    "surface": read_surface,
    "picture": read_picture,
    "colours": read_colours,
}


def main(kind: str, path: str, out: str, memory: str) -> int:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    try:
        with open(out, "wb") as file:  # opened before file access is restricted
            np.savez(file, allow_pickle=False, **READERS[kind](Path(path)))
    except UnreadableFile as error:
        print(error)
        return EXIT_UNREADABLE
    except (
        Exception,
        SystemExit,
    ) as error:  # parsers raise any exception, and meshio exits
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
            print(
                f"needs more than {int(memory) / 1e9:.2g} GB to unpack. If it is valid, raise "
                "FileLimits(memory=...)"
            )
            return EXIT_UNREADABLE
        reason = " ".join(str(error).split())[:200]
        print(f"cannot be read ({type(error).__name__}: {reason}). Is it truncated? Write it again")
        return EXIT_UNREADABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
