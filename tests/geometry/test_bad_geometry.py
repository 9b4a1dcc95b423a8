"""Bad shapes, meshes, surfaces and files raise errors that name the value, its location and the
remedy."""

import struct
import zlib
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import trimesh

import pliant as pl
from pliant.geometry import (
    Polygon,
    Surface,
    add_surface,
    extrude,
    fill,
    load_mesh,
    load_silhouette,
    load_surface,
    mesh_quality,
)

TET = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
TRIANGLES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
BOX = pl.Box(size=(0.1, 0.02, 0.02))


def mesh(points=TET, cells=((0, 1, 2, 3),), **named) -> pl.Mesh:
    return pl.Mesh(points=points, cells=np.asarray(cells), **named)


def surface(points=TET, triangles=TRIANGLES) -> Surface:
    return Surface(points=points, triangles=np.asarray(triangles))


SHAPES = {
    "negative box side": (lambda: pl.Box(size=(1, -2, 1)), r"\[1\] is -2 m"),
    "box with two sides": (lambda: pl.Box(size=(1, 1)), r"shape \(2,\)"),
    "box size as text": (lambda: pl.Box(size="large"), r"'large'"),
    "box origin nan": (lambda: pl.Box(size=(1, 1, 1), origin=(0, nan, 0)), r"\[1\] is nan"),
    "box volume overflows": (
        lambda: pl.Box(size=(1e200, 1e200, 1e200)).mesh(),
        r"finite|1e\+200|size",
    ),
    "cylinder radius zero": (
        lambda: pl.geometry.Cylinder(radius=0, length=1),
        r"radius of a Cylinder is 0 m",
    ),
    "cylinder radius None": (lambda: pl.geometry.Cylinder(radius=None, length=1), r"None"),
    "tube inner radius above outer radius": (
        lambda: pl.geometry.Tube(outer=1, inner=2, length=1),
        r"2 m, is not under the outer, 1 m",
    ),
    "ellipsoid radius zero": (lambda: pl.geometry.Ellipsoid(radii=(1, 0, 1)), r"\[1\] is 0 m"),
    "strip width nan": (
        lambda: pl.geometry.Strip(length=1, width=nan, thickness=0.1),
        r"width of a Strip is nan",
    ),
    "disc radius negative": (lambda: pl.geometry.Disc(radius=-2), r"-2 m"),
    "annulus of zero width": (lambda: pl.geometry.Annulus(outer=1, inner=1), r"1 m"),
    "rectangle side infinite": (lambda: pl.geometry.Rectangle(size=(1, inf)), r"\[1\] is inf"),
    "polygon with two corners": (lambda: Polygon(points=((0, 0), (1, 1))), r"shape \(2, 2\)"),
    "self-intersecting polygon": (
        lambda: Polygon(points=((0, 0), (1, 1), (1, 0), (0, 1))),
        r"Sides 0 and 2",
    ),
    "polygon with corners in 2D and 3D": (
        lambda: Polygon(points=((0, 0), (1, 1, 2), (1, 0))),
        r"[Cc]orner",
    ),
    "union without parts": (lambda: pl.geometry.Union(parts={}), r"0 parts"),
    "union of 2D and 3D parts": (
        lambda: pl.geometry.Union(parts={"a": BOX, "b": pl.geometry.Disc(radius=1)}),
        r"'a': 3, 'b': 2",
    ),
    "union with a hidden part": (
        lambda: pl.geometry.Union(parts={"a": BOX, "b": BOX}).mesh(cell=0.01),
        r"Part 'b'",
    ),
    "union part is a number": (lambda: pl.geometry.Union(parts={"a": 3}), r"'a'"),
    "cell size zero": (lambda: BOX.mesh(cell=0), r"cell size is 0 m"),
    "cell size nan": (lambda: BOX.mesh(cell=nan), r"nan m"),
    "cell size as text": (lambda: BOX.mesh(cell="fine"), r"fine"),
    "too many cells": (lambda: BOX.mesh(cell=1e-6), r"cells, over the limit of 2000000"),
    "number of cells overflows": (lambda: BOX.mesh(cell=1e-300), r"over the limit"),
    "divisions zero": (lambda: BOX.mesh(divisions=(0, 1, 1)), r"\(0, 1, 1\)"),
    "two divisions in 3D": (lambda: BOX.mesh(divisions=(1, 1)), r"takes 3 whole numbers"),
    "divisions not integer": (lambda: BOX.mesh(divisions=(1.5, 1, 1)), r"1\.5"),
    "extrusion without layers": (
        lambda: extrude(
            pl.geometry.Rectangle(size=(1, 1)).mesh(divisions=(1, 1)), thickness=1, layers=0
        ),
        r"0 layers",
    ),
}
MESHES = {
    "inverted cell": (
        lambda: mesh(cells=[[0, 2, 1, 3]]),
        r"1 of 1 tetrahedron is inverted \(first: cell 0",
    ),
    "flat cell": (
        lambda: mesh(points=[*TET[:3], (1, 1, 0)]),
        r"1 of 1 tetrahedron is flat \(first: cell 0",
    ),
    "duplicate nodes": (
        lambda: mesh(np.vstack([TET, TET[1:] * 1.0, [[1, 1, 1]]]), [[0, 1, 2, 3], [4, 6, 5, 7]]),
        r"nodes coincide",
    ),
    "duplicate cells": (lambda: mesh(cells=[[0, 1, 2, 3], [1, 2, 0, 3]]), r"cells 0 and 1"),
    "index out of range": (lambda: mesh(cells=[[0, 1, 2, 4]]), r"outside 0\.\.3 \(first: cell 0"),
    "negative index": (lambda: mesh(cells=[[0, 1, 2, -1]]), r"-1\]"),
    "repeated index in a cell": (lambda: mesh(cells=[[0, 1, 2, 2]]), r"names a point twice"),
    "index not integer": (lambda: mesh(cells=[[0, 1, 2, 3.5]]), r"float64"),
    "point nan": (
        lambda: mesh(points=np.where(TET == 1, nan, TET)),
        r"3 of 4 points are not finite \(first: point 1",
    ),
    "point without a cell": (lambda: mesh(points=np.vstack([TET, [[2, 2, 2]]])), r"first: point 4"),
    "points as text": (lambda: mesh(points=np.full((4, 3), "a")), r"points"),
    "points of unequal length": (lambda: mesh(points=[[0, 0, 0], [1, 0]]), r"points"),
    "cell volume overflows": (lambda: mesh(points=TET * 1e200), r"finite|1e\+200|large|size"),
    "no cells": (lambda: mesh(cells=np.zeros((0, 4), int)), r"empty"),
    "region index out of range": (lambda: mesh(regions={"hand": [3]}), r"'hand' names cell 3"),
    "surface not on the boundary": (
        lambda: mesh(surfaces={"skin": [[0, 1, 9]]}),
        r"Of surface 'skin', 1 of \d+ facets? is not on the boundary",
    ),
    "region and surface of one name": (
        lambda: mesh(surfaces={"a": [[0, 1, 2]]}, regions={"a": [0]}),
        r"'a' names both",
    ),
    "empty surface": (lambda: add_surface(mesh(), "far", lambda c: c[:, 0] > 9), r"'far'"),
    "unknown surface": (
        lambda: mesh(surfaces={"skin": [[0, 1, 2]]}).facets("skni"),
        r"'skni'.*Did you mean 'skin'",
    ),
    "point outside the mesh": (
        lambda: mesh().locate([[2, 0, 0]]),
        r"point 0 at \[2\.0, 0\.0, 0\.0\] m",
    ),
    "located point nan": (lambda: mesh().locate([[nan, 0, 0]]), r"Point 0"),
    "open surface": (lambda: surface(triangles=TRIANGLES[1:]), r"3 edges are open.*near"),
    "non-manifold surface": (
        lambda: surface(triangles=np.vstack([TRIANGLES, TRIANGLES[:1]])),
        r"3 edges belong to more than two",
    ),
    "inconsistent surface orientation": (
        lambda: surface(triangles=[TRIANGLES[0][::-1], *TRIANGLES[1:]]),
        r"opposite orientation",
    ),
    "inward surface orientation": (
        lambda: surface(triangles=TRIANGLES[:, ::-1]),
        r"-1\.667e-01 m\^3",
    ),
    "surface index out of range": (
        lambda: surface(triangles=[*TRIANGLES[:3], [1, 2, 7]]),
        r"point 7",
    ),
    "surface index not integer": (
        lambda: surface(triangles=[*TRIANGLES[:3], [1, 2, 2.5]]),
        r"float64|whole|integer",
    ),
    "fill None": (lambda: fill(None, 0.1), r"surface to fill is 'None'.*give a Surface"),
    "quality of None": (lambda: mesh_quality(None), r"mesh to measure is 'None'.*give a Mesh"),
    "located point too far away": (lambda: mesh().locate([[1e16, 0, 0]]), r"Check the units"),
    "located point as text": (lambda: mesh().locate("here"), r"'here'"),
    "unknown fill method": (lambda: fill(surface(), 0.2, method="magic"), r"'magic'.*stuffing"),
    "fill with too large cells": (lambda: fill(surface(), 100.0), r"cell"),
}
KINDS = {"shape": SHAPES, "mesh": MESHES}
CASES = {f"{kind}: {name}": case for kind in KINDS for name, case in KINDS[kind].items()}


@pytest.mark.parametrize("case", CASES)
def test_bad_geometry_raises_clear_error(case, raises_clear_error):
    raises_clear_error(*CASES[case])


# Files: (reader, content, pattern of the error message)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int) -> bytes:
    """Return a PNG picture whose header states a size, with only 100 bytes of pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


def stl(triangles) -> bytes:
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *np.ravel(t), 0) for t in triangles)
    return bytes(80) + struct.pack("<I", len(triangles)) + body


def vtk(points: str = "0 0 0 1 0 0 0 1 0 0 0 1", cells: str = "4 0 1 2 3") -> bytes:
    head = "# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\n"
    return f"{head}POINTS 4 double\n{points}\nCELLS 1 5\n{cells}\nCELL_TYPES 1\n10\n".encode()


def read_silhouette(path: Path) -> pl.Mesh:
    return load_silhouette(path, height=1.0, cell=0.1)


CUBE = trimesh.creation.box().triangles
FILES = {
    "mesh empty": (load_mesh, b"", r"is empty \(0 bytes\)"),
    "mesh of random bytes": (load_mesh, bytes(range(256)), r"not a known mesh format"),
    "truncated mesh": (load_mesh, vtk()[:-40], r"cannot be read|empty|holds no"),
    "mesh nan": (
        load_mesh,
        vtk(points="0 0 0 1 0 0 0 1 0 0 0 nan"),
        r"1 of 4 points is not finite",
    ),
    "mesh index out of range": (
        load_mesh,
        vtk(cells="4 0 1 2 9"),
        r"point 9, but the file has 4 points",
    ),
    "mesh with flat cell": (
        load_mesh,
        vtk(points="0 0 0 1 0 0 0 1 0 1 1 0"),
        r"1 of 1 tetrahedron is flat",
    ),
    "mesh with entities": (
        load_mesh,
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><VTKFile/>',
        r"may expand without limit",
    ),
    "surface empty": (load_surface, b"", r"is empty"),
    "truncated surface": (load_surface, stl(CUBE)[:-30], r"announces 12 triangles, 684 bytes"),
    "surface with open edges": (load_surface, stl(CUBE[1:]), r"3 edges are open"),
    "surface of unknown format": (load_surface, b"hello", r"not a known surface format"),
    "picture empty": (read_silhouette, b"", r"is empty"),
    "picture too large": (
        read_silhouette,
        png(60000, 60000),
        r"60000 x 60000 pixels, over the limit",
    ),
    "truncated picture": (read_silhouette, png(60, 60), r"cannot be read"),
    "picture of unknown format": (read_silhouette, b"not a picture", r"not a PNG"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_file_raises_clear_error(case, write_file, raises_clear_error):
    read, content, message = FILES[case]
    raises_clear_error(lambda: read(write_file(content)), message)


BAD_PATHS = {
    "missing file": (lambda folder: load_mesh(folder / "none.vtu"), r"no file .*none\.vtu"),
    "file name too long": (lambda folder: load_mesh(folder / (5000 * "a")), r"aaa"),
    "scale zero": (lambda folder: load_mesh(folder / "none.vtu", scale=0), r"scale is 0"),
}


@pytest.mark.parametrize("case", BAD_PATHS)
def test_bad_path_or_scale_raises_clear_error(case, tmp_path, raises_clear_error):
    read, message = BAD_PATHS[case]
    raises_clear_error(lambda: read(tmp_path), message)
