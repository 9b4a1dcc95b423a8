"""Bad shapes, meshes, surfaces and files of them end in one sentence with the number, the place and
the remedy."""

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
SKIN = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
BOX = pl.Box(size=(0.1, 0.02, 0.02))


def mesh(points=TET, cells=((0, 1, 2, 3),), **named) -> pl.Mesh:
    return pl.Mesh(points=points, cells=np.asarray(cells), **named)


def skin(points=TET, triangles=SKIN) -> Surface:
    return Surface(points=points, triangles=np.asarray(triangles))


SHAPES = {
    "box side negative": (lambda: pl.Box(size=(1, -2, 1)), r"\[1\] is -2 m"),
    "box of two sides": (lambda: pl.Box(size=(1, 1)), r"shape \(2,\)"),
    "box as text": (lambda: pl.Box(size="large"), r"'large'"),
    "box at nan": (lambda: pl.Box(size=(1, 1, 1), origin=(0, nan, 0)), r"\[1\] is nan"),
    "box beyond numbers": (
        lambda: pl.Box(size=(1e200, 1e200, 1e200)).mesh(),
        r"finite|1e\+200|size",
    ),
    "cylinder without radius": (
        lambda: pl.geometry.Cylinder(radius=0, length=1),
        r"radius of a Cylinder is 0 m",
    ),
    "cylinder radius none": (lambda: pl.geometry.Cylinder(radius=None, length=1), r"None"),
    "tube inside out": (
        lambda: pl.geometry.Tube(outer=1, inner=2, length=1),
        r"2 m, is not under the outer, 1 m",
    ),
    "ellipsoid flat": (lambda: pl.geometry.Ellipsoid(radii=(1, 0, 1)), r"\[1\] is 0 m"),
    "strip nan": (
        lambda: pl.geometry.Strip(length=1, width=nan, thickness=0.1),
        r"width of a Strip is nan",
    ),
    "disc negative": (lambda: pl.geometry.Disc(radius=-2), r"-2 m"),
    "ring without width": (lambda: pl.geometry.Annulus(outer=1, inner=1), r"1 m"),
    "rectangle endless": (lambda: pl.geometry.Rectangle(size=(1, inf)), r"\[1\] is inf"),
    "polygon of two corners": (lambda: Polygon(points=((0, 0), (1, 1))), r"shape \(2, 2\)"),
    "polygon that crosses itself": (
        lambda: Polygon(points=((0, 0), (1, 1), (1, 0), (0, 1))),
        r"Sides 0 and 2",
    ),
    "polygon of uneven corners": (
        lambda: Polygon(points=((0, 0), (1, 1, 2), (1, 0))),
        r"[Cc]orner",
    ),
    "union of nothing": (lambda: pl.geometry.Union(parts={}), r"0 parts"),
    "union flat and solid": (
        lambda: pl.geometry.Union(parts={"a": BOX, "b": pl.geometry.Disc(radius=1)}),
        r"'a': 3, 'b': 2",
    ),
    "union with a hidden part": (
        lambda: pl.geometry.Union(parts={"a": BOX, "b": BOX}).mesh(cell=0.01),
        r"Part 'b'",
    ),
    "union of a number": (lambda: pl.geometry.Union(parts={"a": 3}), r"'a'"),
    "cell zero": (lambda: BOX.mesh(cell=0), r"cell size is 0 m"),
    "cell nan": (lambda: BOX.mesh(cell=nan), r"nan m"),
    "cell as text": (lambda: BOX.mesh(cell="fine"), r"fine"),
    "huge mesh": (lambda: BOX.mesh(cell=1e-6), r"cells, over the limit of 2000000"),
    "endless mesh": (lambda: BOX.mesh(cell=1e-300), r"over the limit"),
    "divisions zero": (lambda: BOX.mesh(divisions=(0, 1, 1)), r"\(0, 1, 1\)"),
    "divisions of two": (lambda: BOX.mesh(divisions=(1, 1)), r"takes 3 whole numbers"),
    "divisions broken": (lambda: BOX.mesh(divisions=(1.5, 1, 1)), r"1\.5"),
    "extruded without layers": (
        lambda: extrude(
            pl.geometry.Rectangle(size=(1, 1)).mesh(divisions=(1, 1)), thickness=1, layers=0
        ),
        r"0 layers",
    ),
}
MESHES = {
    "inverted": (
        lambda: mesh(cells=[[0, 2, 1, 3]]),
        r"1 of 1 tetrahedra are inverted \(first: cell 0",
    ),
    "flat cell": (
        lambda: mesh(points=[*TET[:3], (1, 1, 0)]),
        r"1 of 1 tetrahedra are flat \(first: cell 0",
    ),
    "duplicate nodes": (
        lambda: mesh(np.vstack([TET, TET[1:] * 1.0, [[1, 1, 1]]]), [[0, 1, 2, 3], [4, 6, 5, 7]]),
        r"nodes coincide",
    ),
    "duplicate cells": (lambda: mesh(cells=[[0, 1, 2, 3], [1, 2, 0, 3]]), r"cells 0 and 1"),
    "index out of range": (lambda: mesh(cells=[[0, 1, 2, 4]]), r"outside 0\.\.3 \(first: cell 0"),
    "index negative": (lambda: mesh(cells=[[0, 1, 2, -1]]), r"-1\]"),
    "index twice": (lambda: mesh(cells=[[0, 1, 2, 2]]), r"name a point twice"),
    "index broken": (lambda: mesh(cells=[[0, 1, 2, 3.5]]), r"float64"),
    "point nan": (
        lambda: mesh(points=np.where(TET == 1, nan, TET)),
        r"3 of 4 points are not finite \(first: point 1",
    ),
    "point without a cell": (lambda: mesh(points=np.vstack([TET, [[2, 2, 2]]])), r"first: point 4"),
    "points as text": (lambda: mesh(points=np.full((4, 3), "a")), r"points"),
    "points of uneven length": (lambda: mesh(points=[[0, 0, 0], [1, 0]]), r"points"),
    "points beyond numbers": (lambda: mesh(points=TET * 1e200), r"finite|1e\+200|large|size"),
    "no cells": (lambda: mesh(cells=np.zeros((0, 4), int)), r"empty"),
    "region beyond the cells": (lambda: mesh(regions={"hand": [3]}), r"'hand' names cell 3"),
    "surface inside": (
        lambda: mesh(surfaces={"skin": [[0, 1, 9]]}),
        r"'skin' are not on the boundary",
    ),
    "one name twice": (
        lambda: mesh(surfaces={"a": [[0, 1, 2]]}, regions={"a": [0]}),
        r"'a' names both",
    ),
    "surface of nothing": (lambda: add_surface(mesh(), "far", lambda c: c[:, 0] > 9), r"'far'"),
    "unknown surface": (
        lambda: mesh(surfaces={"skin": [[0, 1, 2]]}).facets("skni"),
        r"'skni'.*Did you mean 'skin'",
    ),
    "place outside": (lambda: mesh().locate([[2, 0, 0]]), r"point 0 at \[2\.0, 0\.0, 0\.0\] m"),
    "place nan": (lambda: mesh().locate([[nan, 0, 0]]), r"Point 0"),
    "open skin": (lambda: skin(triangles=SKIN[1:]), r"3 edges are open.*near"),
    "skin not manifold": (
        lambda: skin(triangles=np.vstack([SKIN, SKIN[:1]])),
        r"3 edges belong to more than two",
    ),
    "skin twisted": (lambda: skin(triangles=[SKIN[0][::-1], *SKIN[1:]]), r"opposite orientation"),
    "skin inside out": (lambda: skin(triangles=SKIN[:, ::-1]), r"-1\.667e-01 m\^3"),
    "skin index": (lambda: skin(triangles=[*SKIN[:3], [1, 2, 7]]), r"point 7"),
    "skin index broken": (
        lambda: skin(triangles=[*SKIN[:3], [1, 2, 2.5]]),
        r"float64|whole|integer",
    ),
    "fill nothing": (lambda: fill(None, 0.1), r"surface to fill is 'None'.*give a Surface"),
    "quality of nothing": (lambda: mesh_quality(None), r"mesh to measure is 'None'.*give a Mesh"),
    "place beyond numbers": (lambda: mesh().locate([[1e16, 0, 0]]), r"Check the units"),
    "place as text": (lambda: mesh().locate("here"), r"'here'"),
    "fill with what": (lambda: fill(skin(), 0.2, method="magic"), r"'magic'.*stuffing"),
    "fill with huge cells": (lambda: fill(skin(), 100.0), r"cell"),
}
KINDS = {"shape": SHAPES, "mesh": MESHES}
CASES = {f"{kind}: {name}": case for kind in KINDS for name, case in KINDS[kind].items()}


@pytest.mark.parametrize("case", CASES)
def test_bad_geometry_ends_in_one_sentence(case, one_sentence):
    one_sentence(*CASES[case])


# Files: (what reads it, content, what is said)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int) -> bytes:
    """A picture that announces its size but holds 100 bytes of it."""
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


def figure(path: Path) -> pl.Mesh:
    return load_silhouette(path, height=1.0, cell=0.1)


CUBE = trimesh.creation.box().triangles
FILES = {
    "mesh empty": (load_mesh, b"", r"is empty \(0 bytes\)"),
    "mesh of noise": (load_mesh, bytes(range(256)), r"not a known mesh format"),
    "mesh cut short": (load_mesh, vtk()[:-40], r"cannot be read|empty|holds no"),
    "mesh nan": (
        load_mesh,
        vtk(points="0 0 0 1 0 0 0 1 0 0 0 nan"),
        r"1 of 4 points are not finite",
    ),
    "mesh index": (load_mesh, vtk(cells="4 0 1 2 9"), r"point 9, but the file has 4 points"),
    "mesh flat": (load_mesh, vtk(points="0 0 0 1 0 0 0 1 0 1 1 0"), r"are flat"),
    "mesh with entities": (
        load_mesh,
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><VTKFile/>',
        r"may expand without limit",
    ),
    "skin empty": (load_surface, b"", r"is empty"),
    "skin cut short": (load_surface, stl(CUBE)[:-30], r"announces 12 triangles, 684 bytes"),
    "skin open": (load_surface, stl(CUBE[1:]), r"3 edges are open"),
    "skin of noise": (load_surface, b"hello", r"not a known surface format"),
    "picture empty": (figure, b"", r"is empty"),
    "picture bomb": (figure, png(60000, 60000), r"60000 x 60000 pixels, over the limit"),
    "picture cut short": (figure, png(60, 60), r"cannot be read"),
    "picture of noise": (figure, b"not a picture", r"not a PNG"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_ends_in_one_sentence(case, given, one_sentence):
    read, content, says = FILES[case]
    one_sentence(lambda: read(given(content)), says)


PLACES = {
    "not there": (lambda folder: load_mesh(folder / "none.vtu"), r"no file .*none\.vtu"),
    "a long name": (lambda folder: load_mesh(folder / (5000 * "a")), r"aaa"),
    "scale zero": (lambda folder: load_mesh(folder / "none.vtu", scale=0), r"scale is 0"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_file_that_cannot_be_ends_in_one_sentence(case, tmp_path, one_sentence):
    read, says = PLACES[case]
    one_sentence(lambda: read(tmp_path), says)
