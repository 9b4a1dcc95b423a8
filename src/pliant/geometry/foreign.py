"""Read files of other programs. Runs as a script in a child process of load.py, so it imports
nothing of Pliant.

    python foreign.py KIND PATH OUT.npz MEMORY_BYTES

A fault ends as one sentence on standard output with exit status 3; whatever else happens, the
parent speaks for.
"""

import os
import re
import sys
from errno import ENOMEM
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

REFUSED = 3  # exit status
MOST_PIXELS = 50_000_000
MOST_LABELS = 1000
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

NO_MESH = {
    "<!ENTITY": "is XML with entities of its own, which may unfold without end. Save it as a "
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


class Refused(Exception):
    """A file that cannot be used; the text is the sentence for the user."""


def mesh_format(head: bytes, size: int) -> str:
    """meshio's name for the format, from the first bytes and never from the extension."""
    text = head.decode("latin-1")
    for mark, reason in NO_MESH.items():
        if mark in text:
            raise Refused(reason)
    for pattern, name in MESHES.items():
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return name
    other = re.search(r'<VTKFile[^>]*\stype="(\w+)"', text)
    if other:
        raise Refused(f"is a VTK file of type {other[1]}. Save it as an UnstructuredGrid (VTU)")
    if surface_format(head, size) != "unknown":
        raise Refused("holds a surface, not cells. Read it with load_surface and mesh it with fill")
    raise Refused(
        "is no mesh that Pliant knows. Save it as VTU, VTK, gmsh, Abaqus (.inp) or Medit (.mesh)"
    )


def surface_format(head: bytes, size: int) -> str:
    """stl, stl_ascii, ply, obj or unknown."""
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
    """points, cells and facets of one order, and the named sets of cells and of facets."""
    with path.open("rb") as file:
        found = mesh_format(file.read(4096), path.stat().st_size)
        check_references(file, found)
    import meshio  # only now: it takes longer than to refuse most bad files

    open_nothing_but(path)
    mesh = meshio.read(path, file_format=found)
    types = [block.type for block in mesh.cells]
    kind = next((kind for kind in CELLS if kind in types), None)
    if kind is None:
        raise Refused(
            "holds no tetrahedra or triangles, only "
            f"{', '.join(sorted(set(types))) or 'no cells'}. Split its cells into tetrahedra"
        )
    other = [k for k in CELLS if k != kind and CELLS[k] == CELLS[kind] and k in types]
    if other:
        raise Refused(f"mixes {kind} with {other[0]} cells. Use one order of cells throughout")
    out = {"points": flattened(np.asarray(mesh.points, dtype=float), CELLS[kind])}
    for role, name in (("cells", kind), ("facets", FACETS[kind])):
        blocks = [i for i, t in enumerate(types) if t == name]
        out[role] = (
            np.vstack([mesh.cells[i].data for i in blocks])
            if blocks
            else np.zeros((0, 1), dtype=int)
        )
        sets = sets_of(mesh, blocks, CELLS[kind] - (role == "facets"))
        out[f"{role}_names"] = np.array(list(sets), dtype=str)
        out |= {f"{role}_set_{i}": chosen for i, chosen in enumerate(sets.values())}
    return out


def check_references(file: BinaryIO, found: str) -> None:
    """Refuse a mesh that refers to other files or defines XML entities, wherever in the file."""
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        if found == "abaqus" and INCLUDE.search(content):
            raise Refused(
                "includes another file (*INCLUDE), which is not followed. Write all nodes and "
                "elements to one file"
            )
        if found == "vtu" and content.find(b"<!ENTITY") >= 0:
            raise Refused(NO_MESH["<!ENTITY"])


def open_nothing_but(path: Path) -> None:
    """From now on allow this process to open only `path` and Python's own modules, whatever a file
    asks a parser for."""
    own = os.path.realpath(path)
    modules = tuple(os.path.join(os.path.realpath(p), "") for p in sys.path if p)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], str | bytes):
            return
        asked = os.path.realpath(os.fsdecode(args[0]))
        if asked != own and not asked.startswith(modules):
            raise Refused(f"refers to another file, {asked[:200]}. Write everything to one file")

    sys.addaudithook(hook)


def flattened(points: np.ndarray, dim: int) -> np.ndarray:
    """Points of a flat mesh without their constant z."""
    if dim == 3 and points.shape[1] != 3:
        raise Refused(f"has tetrahedra but points with {points.shape[1]} coordinates. Write three")
    if dim == 3 or points.shape[1] == 2:
        return points
    if np.ptp(points[:, 2]) > 1e-9 * np.ptp(points, axis=0).max():
        raise Refused(
            "holds triangles in space, a surface without cells inside. Read it with load_surface "
            "and use fill"
        )
    return points[:, :2]


def sets_of(mesh: Any, blocks: list[int], dim: int) -> dict[str, np.ndarray]:
    """Named sets over the given blocks, as indices into them all: element sets first, else a
    whole-number label."""
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
    if len(tags) > MOST_LABELS:  # a measurement, not a label
        return {}
    if label.startswith(("gmsh", "medit")):
        tags = tags[tags != 0]  # 0 means untagged there
    return {names.get(int(tag), str(tag)): np.flatnonzero(values == tag) for tag in tags}


def read_surface(path: Path) -> dict[str, np.ndarray]:
    """Return the points and triangles as the file has them."""
    with path.open("rb") as file:
        found = checked_surface_format(file, path.stat().st_size)
        check_counts(file, found)
        import trimesh  # only now: it takes longer than to refuse most bad files

        open_nothing_but(path)
        try:
            shape: Any = trimesh.load(file, file_type=found, force="mesh", process=False)
        except IndexError:
            if found == "obj":
                check_face_indices(file)
            raise
    triangles = np.asarray(shape.faces)
    if not len(triangles):
        raise Refused("has 0 triangles. Write it anew")
    return {"points": np.asarray(shape.vertices, dtype=float), "triangles": triangles}


def check_counts(file: BinaryIO, found: str) -> None:
    """Refuse faces that name vertex 0 in OBJ, which counts from 1, and a text PLY with another
    number of lines than it announces; the parser accepts both."""
    if found not in ("obj", "ply"):
        return
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        zero = ZERO_INDEX.search(content) if found == "obj" else None
        if zero:
            line = zero[0].decode(errors="replace").strip()[:60]
            raise Refused(f"has a face of vertex 0 ('{line}'), but OBJ counts from 1. Add one")
        if found == "ply":
            check_ply(content)


def check_face_indices(file: BinaryIO) -> None:
    """Refuse an OBJ file with a face that refers to a vertex beyond the last one."""
    file.seek(0)
    lines = [words for words in (line.split() for line in file) if words]
    last = sum(words[0] == b"v" for words in lines)
    faces = [words[1:] for words in lines if words[0] == b"f"]
    for k, face in enumerate(faces, start=1):
        for corner in face:
            vertex = int(corner.split(b"/")[0])
            if abs(vertex) > last:
                raise Refused(
                    f"has {last} vertices, but face {k} refers to vertex {vertex}. Add the missing "
                    "vertices, or remove the face"
                )


def check_ply(content: mmap) -> None:
    end = content.find(b"end_header")
    head = content[: max(end, 0)].decode("latin-1")
    announced = [int(n) for n in re.findall(r"^element\s+\S+\s+(\d+)", head, re.MULTILINE)]
    if end < 0 or not announced:
        raise Refused("is cut short: its PLY header does not end. Write it anew")
    if re.search(r"^format\s+ascii", head, re.MULTILINE):
        content.seek(end)
        content.readline()
        lines = sum(1 for line in iter(content.readline, b"") if line.strip())
        if lines != sum(announced):
            raise Refused(
                f"is cut short or damaged: its PLY header announces {sum(announced)} lines, but "
                f"{lines} follow. Write it anew"
            )


def checked_surface_format(file: BinaryIO, size: int) -> str:
    """The format of a surface that is whole as far as its length and its last line can tell."""
    head = file.read(4096)
    found = surface_format(head, size)
    count = int.from_bytes(head[80:84], "little")
    if found == "unknown" and size >= 84 and b"\0" in head and not head.startswith(b"\x89"):
        raise Refused(
            f"is cut short or no STL: as binary STL it announces {count} triangles, "
            f"{84 + 50 * count} bytes, but has {size} bytes. Write it anew"
        )
    if found == "unknown":
        raise Refused("is no surface that Pliant knows. Save it as STL, OBJ or PLY")
    if found == "stl_ascii" and b"endsolid" not in tail_of(file, size):
        raise Refused("is cut short: its text STL has no 'endsolid'. Write it anew")
    if found == "stl" and count == 0:
        raise Refused("has 0 triangles. Write it anew")
    file.seek(0)
    return found


def tail_of(file: BinaryIO, size: int) -> bytes:
    file.seek(max(0, size - 512))
    return file.read()


def read_picture(path: Path) -> dict[str, np.ndarray]:
    """cover (rows, columns) uint8: 255 inside, 0 outside; alpha decides if any pixel is clear,
    darkness otherwise."""
    rgba = read_colours(path)["rgba"]
    alpha = rgba[:, :, 3]
    dark = 255 - np.asarray(rgba[:, :, :3] @ np.array([0.299, 0.587, 0.114]), dtype=np.uint8)
    return {"cover": alpha if alpha.min() < 255 else dark}


def read_colours(path: Path) -> dict[str, np.ndarray]:
    """rgba (rows, columns, 4) uint8"""
    from PIL import Image

    with path.open("rb") as file:
        if file.read(8) != b"\x89PNG\r\n\x1a\n":
            raise Refused("is no PNG picture. Save the silhouette as PNG")
    Image.MAX_IMAGE_PIXELS = (
        None  # opening reads the header only; the check below comes before any decoding
    )
    with Image.open(path, formats=("PNG",)) as image:
        if image.width * image.height > MOST_PIXELS:
            raise Refused(
                f"has {image.width} x {image.height} pixels, over the limit of {MOST_PIXELS}. "
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
        with open(out, "wb") as file:  # before the reader, which may then open nothing else
            np.savez(file, allow_pickle=False, **READERS[kind](Path(path)))
    except Refused as error:
        print(error)
        return REFUSED
    except (
        Exception,
        SystemExit,
    ) as error:  # foreign parsers raise, and meshio exits, in every way there is
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
            print(
                f"needs more than {int(memory) / 1e9:.2g} GB to unpack. If it is sound, raise "
                "Limits(memory=...)"
            )
            return REFUSED
        reason = " ".join(str(error).split())[:200]
        print(f"cannot be read ({type(error).__name__}: {reason}). Is it cut short? Write it anew")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
