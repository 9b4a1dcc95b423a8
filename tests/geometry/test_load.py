"""Valid files of every format load without changes. Bad files raise clear errors."""

import os
import struct
import subprocess
import sys
import zlib
from base64 import b64encode
from pathlib import Path

import meshio
import numpy as np
import pytest
import trimesh
from PIL import Image, ImageDraw

from pliant.core import InputError, MeshError
from pliant.geometry import (
    Box,
    Disc,
    FileLimits,
    fill,
    find_cavities,
    load_mesh,
    load_silhouette,
    load_surface,
    mesh_quality,
)
from pliant.geometry.load import READER_SCRIPT

BOX = Box(size=(1, 1, 2)).mesh(divisions=(2, 2, 2))
HALVES = (np.arange(BOX.n_cells) >= BOX.n_cells // 2).astype(np.int32) + 1


def write_mesh(path: Path, mesh=BOX, file_format="vtu", **extra) -> Path:
    kind = {4: "tetra", 10: "tetra10", 3: "triangle", 6: "triangle6"}[mesh.cells.shape[1]]
    meshio.Mesh(mesh.points, [(kind, mesh.cells)], **extra).write(path, file_format=file_format)
    return path


# A gmsh 4.1 file of two tetrahedra, as gmsh writes it, with two physical volumes and one physical
# surface.
GMSH = """$MeshFormat
4.1 0 8
$EndMeshFormat
$PhysicalNames
3
2 7 "clamp"
3 1 "soft"
3 2 "stiff"
$EndPhysicalNames
$Entities
0 0 1 2
5 0 0 0 1 1 0 1 7 0
1 0 0 0 1 1 1 1 1 0
2 0 0 0 1 1 1 1 2 0
$EndEntities
$Nodes
1 6 1 6
3 1 0 6
1
2
3
4
5
6
0 0 0
1 0 0
0 1 0
0 0 1
1 1 1
9 9 9
$EndNodes
$Elements
3 3 1 3
2 5 2 1
1 1 2 3
3 1 4 1
2 1 2 3 4
3 2 4 1
3 2 3 4 5
$EndElements
"""


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("file_format", ["vtk", "vtu", "gmsh", "abaqus"])
def test_solid_mesh_is_read_by_content_not_by_extension(tmp_path, file_format, order):
    mesh = BOX.quadratic() if order == 2 else BOX
    found = load_mesh(write_mesh(tmp_path / "mesh.vtk", mesh, file_format), scale=2.0)
    np.testing.assert_allclose(found.points, 2 * mesh.points)
    np.testing.assert_array_equal(found.cells, mesh.cells)


def test_plane_mesh_is_loaded_in_2d(tmp_path):
    disc = Disc(radius=1).mesh(divisions=(3,), order=2)
    found = load_mesh(write_mesh(tmp_path / "disc.vtu", disc))
    assert found.dim == 2
    assert found.volumes().sum() == pytest.approx(disc.volumes().sum())


def test_cell_labels_become_regions(tmp_path):
    path = write_mesh(tmp_path / "a.mesh", file_format="medit", cell_data={"medit:ref": [HALVES]})
    with pytest.warns(
        UserWarning, match=r'became the regions 1, 2\. .*names = {"1" = "..."} in a robot'
    ):
        found = load_mesh(path)
    np.testing.assert_array_equal(found.regions["2"], np.flatnonzero(HALVES == 2))
    sets = {"tip": [np.array([3, 4])]}
    found = load_mesh(write_mesh(tmp_path / "a.inp", file_format="abaqus", cell_sets=sets))
    assert found.regions["tip"].tolist() == [3, 4]


def test_cell_labels_can_be_renamed(tmp_path, recwarn):
    path = write_mesh(tmp_path / "a.vtu", cell_data={"material": [HALVES]})
    found = load_mesh(path, names={"1": "soft", "2": "bone"})
    np.testing.assert_array_equal(found.regions["bone"], np.flatnonzero(HALVES == 2))
    assert set(found.regions) == {"soft", "bone"}
    assert not recwarn.list
    assert len(load_mesh(path, names={"1": "all", "2": "all"}).regions["all"]) == BOX.n_cells
    with pytest.raises(InputError, match=r"no region or surface '3'.*choose one of 1, 2"):
        load_mesh(path, names={"3": "skin"})


def test_gmsh_physical_names_become_regions_and_surfaces(tmp_path):
    (tmp_path / "two.msh").write_text(GMSH)
    found = load_mesh(tmp_path / "two.msh")
    assert found.n_points == 5  # the unused point is removed
    assert {name: cells.tolist() for name, cells in found.regions.items()} == {
        "soft": [0],
        "stiff": [1],
    }
    assert found.nodes("clamp").tolist() == [0, 1, 2]


def test_coincident_nodes_raise_unless_merged(tmp_path):
    points, cells = (
        np.vstack([BOX.points, BOX.points + [0, 0, 2]]),
        np.vstack([BOX.cells, BOX.cells + BOX.n_points]),
    )
    two_boxes = meshio.Mesh(points, [("tetra", cells)])
    two_boxes.write(tmp_path / "two.vtu")
    with pytest.raises(MeshError, match=r"two.vtu: 18 of 54 nodes coincide"):
        load_mesh(tmp_path / "two.vtu")
    assert load_mesh(tmp_path / "two.vtu", merge=True).n_points == 45


@pytest.mark.parametrize("kind", ["stl", "stl_ascii", "obj", "ply"])
def test_surface_is_loaded_closed_and_outward(tmp_path, kind):
    ball = trimesh.creation.icosphere(subdivisions=1)
    ball.invert()
    ball.export(tmp_path / "ball.dat", file_type=kind)
    with pytest.warns(UserWarning, match="All triangles point inward, so they were reversed"):
        found = load_surface(tmp_path / "ball.dat", scale=0.001)
    assert len(found.points) == len(ball.vertices)
    assert found.volume() == pytest.approx(abs(ball.volume) * 1e-9, rel=1e-5)
    assert mesh_quality(fill(found, 4e-4)).closed


def write_picture(path: Path, *, alpha: bool = False) -> Path:
    """Write a picture of an ellipse of 300 x 200 pixels with a hole of 100 x 100 pixels."""
    foreground, background = (
        ((0, 0, 0, 255), (0, 0, 0, 0)) if alpha else ((0, 0, 0), (255, 255, 255))
    )
    image = Image.new("RGBA" if alpha else "RGB", (400, 300), background)
    draw = ImageDraw.Draw(image)
    draw.ellipse((50, 50, 349, 249), fill=foreground)
    draw.ellipse((150, 100, 249, 199), fill=background)
    image.save(path, format="PNG")
    return path


@pytest.mark.parametrize("alpha", [False, True])
def test_silhouette_has_correct_size_hole_and_angles(tmp_path, alpha):
    mesh = load_silhouette(write_picture(tmp_path / "ring.png", alpha=alpha), height=0.2, cell=0.01)
    assert mesh.volumes().sum() == pytest.approx(np.pi * (0.15 * 0.1 - 0.05**2), rel=0.01)
    assert np.ptp(mesh.points, axis=0) == pytest.approx([0.3, 0.2], abs=0.002)
    measured = mesh_quality(mesh)
    assert measured.closed
    assert measured.smallest_angle > 10


def test_silhouette_with_thickness_is_solid(tmp_path):
    mesh = load_silhouette(
        write_picture(tmp_path / "ring.png"), height=0.2, cell=0.02, thickness=0.04
    )
    assert mesh.dim == 3
    assert set(mesh.surfaces) == {"outside", "bottom", "top"}
    assert mesh.volumes().sum() == pytest.approx(0.04 * np.pi * (0.15 * 0.1 - 0.05**2), rel=0.02)


def test_silhouette_hole_belongs_to_outside_only_if_extruded(tmp_path):
    path = write_picture(tmp_path / "ring.png")
    plane = load_silhouette(path, height=0.2, cell=0.02)
    hole = find_cavities(plane)[0]
    assert len(plane.surfaces["outside"]) + len(hole) == len(plane.boundary())
    solid = load_silhouette(path, height=0.2, cell=0.02, thickness=0.02)
    assert sum(map(len, solid.surfaces.values())) == len(solid.boundary())


def test_lost_thin_part_of_a_silhouette_warns(tmp_path):
    image = Image.new("L", (300, 100), 255)
    draw = ImageDraw.Draw(image)
    draw.rectangle((10, 10, 90, 90), fill=0)
    draw.rectangle((210, 10, 290, 90), fill=0)
    draw.rectangle((90, 45, 210, 49), fill=0)
    image.save(tmp_path / "dumbbell.png")
    with pytest.warns(UserWarning, match="too coarse:.* falls into 2 pieces instead of 1"):
        load_silhouette(tmp_path / "dumbbell.png", height=0.08, cell=0.012)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


def binary_stl(triangles, count=None) -> bytes:
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *np.ravel(t), 0) for t in triangles)
    return bytes(80) + struct.pack("<I", len(triangles) if count is None else count) + body


def vtk(points="0 0 0 1 0 0 0 1 0 0 0 1", n=4, cells="4 0 1 2 3", kind=10) -> bytes:
    size = len(cells.split())
    return (
        f"# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS {n} "
        f"double\n{points}\nCELLS 1 {size}\n{cells}\nCELL_TYPES 1\n{kind}\n"
    ).encode()


def decompression_bomb_vtu() -> bytes:
    """Return a VTU file whose compressed block of 1 MB expands to 1.2 GB of zeros."""
    compressor = zlib.compressobj()
    head = compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
    block = head + 120 * (compressor.compress(bytes(10**7)) + compressor.flush(zlib.Z_FULL_FLUSH))
    header = struct.pack("<4I", 1, 12 * 10**8, 12 * 10**8, len(block))
    return (
        b'<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian" '  # noqa: E501
        b'header_type="UInt32" compressor="vtkZLibDataCompressor"><UnstructuredGrid>'
        b'<Piece NumberOfPoints="50000000" NumberOfCells="1">'
        b'<Points><DataArray type="Float64" NumberOfComponents="3" format="binary">'
        + b64encode(header)
        + b64encode(block)
        + b"</DataArray></Points></Piece></UnstructuredGrid></VTKFile>"
    )


CUBE = trimesh.creation.box().triangles
TETRA = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
XML = b'<?xml version="1.0"?>\n'
BAD_MESHES = {
    "empty": (b"", "is empty"),
    "garbage": (bytes(range(256)) * 10, "is not a known mesh format"),
    "text": (b"hello robot\n", "is not a known mesh format"),
    "truncated vtk": (vtk()[:-40], "cannot be read|holds no|empty"),
    "nan": (vtk(points="0 0 0 1 0 0 0 1 0 0 0 nan"), "1 of 4 points is not finite"),
    "number of points too large": (vtk(n=10**12), "cannot be read|needs more than"),
    "index out of range": (vtk(cells="4 0 1 2 9"), "names point 9, but the file has 4 points"),
    "flat": (vtk(points="0 0 0 1 0 0 0 1 0 1 1 0"), "1 of 1 tetrahedron is flat"),
    "no tetrahedra": (vtk(cells="2 0 1", kind=3), "holds no tetrahedra or triangles, only line"),
    "triangles in space": (
        vtk(points="0 0 0 1 0 0 0 1 1 0 0 1", cells="3 0 1 2", kind=5),
        "holds triangles in space",
    ),
    "polydata": (XML + b'<VTKFile type="PolyData"></VTKFile>', "is a VTK file of type PolyData"),
    "broken xml": (XML + b'<VTKFile type="UnstructuredGrid"><Piece>', "cannot be read"),
    "entities": (XML + b'<!DOCTYPE x [<!ENTITY a "aaaa">]><VTKFile/>', "may expand without limit"),
    "xdmf": (XML + b"<Xdmf/>", "is XDMF"),
    "stl": (binary_stl(CUBE).replace(bytes(80), b"solid".ljust(80), 1), "holds a surface"),
    "text stl": (b"solid a\nendsolid a\n", "holds a surface, not cells"),
    "png": (huge_png(), "is a PNG picture"),
    "truncated gmsh": (GMSH[:300].encode(), "cannot be read"),
    "abaqus that includes itself": (
        b"*HEADING\n*INCLUDE, INPUT=file.dat\n",
        "includes another file",
    ),
    "abaqus that includes a system file": (
        b"*HEADING\nx\n" + 5000 * b"** comment\n" + b" * Include , input = /etc/passwd\n",
        "includes another file",
    ),
    "entities behind a long comment": (
        XML
        + b"<!--"
        + bytes(5000 * [32])
        + b'--><!DOCTYPE x [<!ENTITY a "a">]><VTKFile type="UnstructuredGrid"/>',
        "may expand without limit|is not a known mesh",
    ),
    "decompression bomb": (decompression_bomb_vtu, "needs more than 1 GB to unpack"),
}
BAD_SURFACES = {
    "empty": (b"", "is empty"),
    "garbage": (bytes(range(256)) * 10, "is truncated or no STL"),
    "text": (b"hello robot\n", "is not a known surface format"),
    "zero triangles": (binary_stl([]), "has 0 triangles"),
    "zero text triangles": (b"solid a\nendsolid a\n", "has 0 triangles|cannot be read"),
    "truncated": (
        binary_stl(CUBE)[:-30],
        "is truncated or no STL: as binary STL it announces 12 triangles, 684 bytes",
    ),
    "truncated text": (
        b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\n",
        "is truncated: its text STL",
    ),
    "number of triangles too large": (
        binary_stl(CUBE, count=2**32 - 1),
        "announces 4294967295 triangles",
    ),
    "open": (binary_stl(CUBE[1:]), "3 edges are open"),
    "one triangle": (binary_stl([TETRA]), "3 edges are open"),
    "with a fin": (
        binary_stl([*CUBE, [*CUBE[0][:2], [9, 9, 9]]]),
        "2 edges are open|1 edges belong to more than two",
    ),
    "duplicated triangles": (
        binary_stl([*CUBE, *CUBE]),
        "12 duplicated triangles",
    ),
    "nested outward parts": (
        binary_stl([*CUBE, *(0.5 * CUBE)]),
        "1 of 2 parts .* outward inside another part",
    ),
    "vertex 0": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 3 0/1 2\n", "face of vertex 0 .'f 3 0/1"),
    "number of faces too large": (
        trimesh.creation.box()
        .export(file_type="ply", encoding="ascii")
        .replace(b"element face 12", b"element face 1000000000"),
        "announces 1000000008 lines, but 20 follow",
    ),
    "nan": (
        binary_stl(np.where(CUBE.max() == CUBE, np.nan, CUBE)),
        "not finite|open|cannot be read",
    ),
    "points only": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\n", "has 0 triangles|cannot be read"),
    "face with missing vertices": (
        b"v 0 0 0\nf 1 2 3\n",
        "has 1 vertices, but face 1 refers to vertex 2",
    ),
    "face index out of range": (
        b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 99\nf 1 4 3\n",
        "has 4 vertices, but face 3 refers to vertex 99",
    ),
    "distant vertex": (
        binary_stl([*CUBE, [[3e38, 0, 0], *TETRA[1:]]]),
        r"reaches 3e\+38 m.*1e\+09 m",
    ),
    "png": (huge_png(), "is truncated or no STL|is not a known surface"),
}
BAD_PICTURES = {
    "empty": (b"", "is empty"),
    "garbage": (b"not a picture", "is not a PNG picture"),
    "too large": (huge_png(), "has 60000 x 60000 pixels, over the limit"),
    "truncated": (
        huge_png().replace(struct.pack(">II", 60000, 60000), struct.pack(">II", 60, 60)),
        "cannot be read",
    ),
}
BAD = (
    [(load_mesh, *case) for case in BAD_MESHES.items()]
    + [(load_surface, *case) for case in BAD_SURFACES.items()]
    + [
        (lambda path, **more: load_silhouette(path, height=1, cell=0.1, **more), *case)
        for case in BAD_PICTURES.items()
    ]
)


@pytest.mark.parametrize(
    ("load", "case", "file"), BAD, ids=[f"{i}-{name}" for i, (_, name, _) in enumerate(BAD)]
)
def test_bad_file_raises_mesh_error(tmp_path, load, case, file):
    content, message = file
    path = tmp_path / "file.dat"
    path.write_bytes(content() if callable(content) else content)
    with pytest.raises(MeshError, match=message) as caught:
        load(path, limits=FileLimits(memory=1_000_000_000, seconds=60))
    assert "file.dat" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_directory_and_exceeded_limits_raise(tmp_path):
    with pytest.raises(MeshError, match="There is no file"):
        load_mesh(tmp_path / "none.vtu")
    with pytest.raises(MeshError, match="is a directory, a pipe or a device"):
        load_surface(tmp_path)
    path = write_mesh(tmp_path / "box.vtu")
    with pytest.raises(MeshError, match="over the limit of 10"):
        load_mesh(path, limits=FileLimits(file=10))
    with pytest.raises(MeshError, match=r"took over 0.01 s to read"):
        load_mesh(path, limits=FileLimits(seconds=0.01))
    with pytest.raises(MeshError, match=r"crashed its reader|needs more than"):
        load_mesh(path, limits=FileLimits(memory=20_000_000))


@pytest.mark.parametrize("path", [None, 3, ""])
@pytest.mark.parametrize("load", [load_mesh, load_surface, load_silhouette])
def test_bad_path_raises_input_error(load, path):
    sizes = {"height": 1.0, "cell": 0.1} if load is load_silhouette else {}
    with pytest.raises(InputError, match="The path of the file is "):
        load(path, **sizes)


def test_too_small_scale_raises(tmp_path):
    (tmp_path / "cube.stl").write_bytes(binary_stl(CUBE))
    with pytest.raises(MeshError, match=r"The surface is 1e-30 m large, below the limit"):
        load_surface(tmp_path / "cube.stl", scale=1e-30 / np.ptp(CUBE))
    with pytest.raises(MeshError, match=r"The mesh is \S+e-30 m large, below the limit"):
        load_mesh(write_mesh(tmp_path / "box.vtu"), scale=2e-30)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_raises_immediately_also_through_link_or_include(tmp_path):
    pipe, link, mesh = (tmp_path / name for name in ("pipe", "link", "mesh.inp"))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(MeshError, match="not a regular file"):
            load_mesh(path)
        with pytest.raises(MeshError, match="not a regular file"):
            load_surface(path)
    mesh.write_text(f"*HEADING\n*INCLUDE, INPUT={pipe}\n")
    with pytest.raises(MeshError, match="includes another file"):
        load_mesh(mesh)


def test_include_in_a_comment_is_ignored(tmp_path):
    path = write_mesh(tmp_path / "box.inp", file_format="abaqus")
    path.write_text("** include the nodes\n**INCLUDE, INPUT=/etc/passwd\n" + path.read_text())
    assert load_mesh(path).n_cells == BOX.n_cells


def test_reader_cannot_open_other_files(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mesh_readers, pathlib\n"
        "mesh_readers.restrict_file_access(pathlib.Path(sys.argv[2])); open(sys.argv[2]).close()\n"
        "try: open(sys.argv[3])\n"
        "except mesh_readers.UnreadableFile as error: print(error)"
    )
    own, other = tmp_path / "own", tmp_path / "other"
    own.write_text("1")
    other.write_text("2")
    command = [sys.executable, "-c", script, str(READER_SCRIPT.parent), str(own), str(other)]
    assert (
        "refers to another file" in subprocess.run(command, capture_output=True, text=True).stdout
    )


def test_time_limit_grows_with_file_size():
    assert FileLimits().seconds_for(1000) == pytest.approx(60, abs=1)
    assert FileLimits().seconds_for(200_000_000) == pytest.approx(160)
    assert FileLimits(seconds=5).seconds_for(200_000_000) == 5


@pytest.mark.parametrize("shade", [0, 255])
def test_picture_without_outline_raises(tmp_path, shade):
    Image.new("L", (20, 20), shade).save(tmp_path / "flat.png")
    with pytest.raises(MeshError, match="has no outline: all 400 pixels are"):
        load_silhouette(tmp_path / "flat.png", height=1, cell=0.1)


def test_outline_thinner_than_a_cell_raises(tmp_path):
    image = Image.new("L", (200, 200), 255)
    ImageDraw.Draw(image).line((10, 10, 10, 190), fill=0, width=2)
    image.save(tmp_path / "line.png")
    with pytest.raises(MeshError, match="smaller cell"):
        load_silhouette(tmp_path / "line.png", height=1, cell=0.4)


def test_binary_ply_with_format_in_a_comment_is_loaded(tmp_path):
    import trimesh

    content = trimesh.creation.box().export(file_type="ply", encoding="binary")
    path = tmp_path / "box.ply"
    path.write_bytes(
        content.replace(b"\nelement", b"\ncomment converted from format ascii\nelement", 1)
    )
    assert len(load_surface(path).triangles) == 12
