"""Bad input of every kind ends in one sentence with the number, the place and the remedy: no traceback, no NaN."""

import re
import struct
import warnings
import zlib
from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import trimesh

import pliant as pl
from pliant.core import PliantError
from pliant.geometry import (
    Polygon,
    Surface,
    extruded,
    fill,
    load_mesh,
    load_silhouette,
    load_surface,
    with_surface,
)
from pliant.robot import Patch
from pliant.robot_files import Keyframes, load_robot, load_task
from pliant.store import read_json
from pliant.zoo.registry import find

TET = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
SKIN = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
BOX = pl.Box(size=(0.1, 0.02, 0.02))
SOFT = pl.Material(E=1e5, nu=0.4)
CLAMPED = (pl.Support(region="x-"),)
END = (0.1, 0.01, 0.01)
LINE = ((0.0, 0.01, 0.01), END)


def robot(**changed) -> pl.Robot:
    sound = {"shape": BOX, "material": SOFT, "supports": CLAMPED, "divisions": (4, 1, 1), "order": 1}
    return pl.Robot(**(sound | changed))


def flat(**changed) -> pl.Robot:
    return robot(shape=pl.geometry.Rectangle(size=(0.1, 0.02)), divisions=(4, 1), **changed)


def cabled(**changed) -> pl.Robot:
    return robot(actuators={"tendon": pl.Cable(**({"points": LINE} | changed))})


def model(of: pl.Robot | None = None, **options):
    return pl.ImplicitEuler(of or robot(), **({"dt": 0.01} | options))


def adjoint(x_bar):
    m = model()
    return m.pullback(m.step(m.initial_state(), []), x_bar)


def stepped(of, *, x=None, u=None, p=None):
    """One step through `simulate`, which raises a failed status."""
    dynamics = model(of) if isinstance(of, pl.Robot) else of
    u = np.zeros(dynamics.n_controls) if u is None else u
    return pl.simulate(dynamics, lambda k, x: u, steps=1, x0=x, p=p)


def mesh(points=TET, cells=((0, 1, 2, 3),), **named) -> pl.Mesh:
    return pl.Mesh(points=points, cells=np.asarray(cells), **named)


def skin(points=TET, triangles=SKIN) -> Surface:
    return Surface(points=points, triangles=np.asarray(triangles))


def touching(obstacle, **options):
    return stepped(robot(contacts=[pl.Contact(obstacle=obstacle, **options)]))


def pushed(**load):
    return stepped(robot(loads=[pl.PointLoad(**({"point": END, "force": (0, 0, 1)} | load))]))


MATERIALS = {
    "E zero": (lambda: pl.Material(E=0, nu=0.3), r"E is 0 Pa"),
    "E negative": (lambda: pl.Material(E=-1e5, nu=0.3), r"-100000 Pa"),
    "E nan": (lambda: pl.Material(E=nan, nu=0.3), r"nan Pa"),
    "E infinite": (lambda: pl.Material(E=inf, nu=0.3), r"inf Pa"),
    "E as text": (lambda: pl.Material(E="soft", nu=0.3), r"soft"),
    "nu one half": (lambda: pl.Material(E=1e5, nu=0.5), r"0\.5; it must lie between -1 and 0\.5"),
    "nu minus one": (lambda: pl.Material(E=1e5, nu=-1), r"ratio is -1"),
    "nu nan": (lambda: pl.Material(E=1e5, nu=nan), r"ratio is nan"),
    "density zero": (lambda: pl.Material(E=1e5, nu=0.3, density=0), r"density is 0 kg/m\^3"),
    "density nan": (lambda: pl.Material(E=1e5, nu=0.3, density=nan), r"density is nan"),
    "law unknown": (lambda: pl.Material(E=1e5, nu=0.3, law="hooke"), r"'hooke'.*neo-hookean"),
    "power one": (lambda: pl.Material(E=1e5, nu=0.3, power=1), r"power is 1"),
    "power nan": (lambda: pl.Material(E=1e5, nu=0.3, power=nan), r"power is nan"),
    "gradient of 2 x 2": (lambda: SOFT.stress(np.eye(2)), r"\(2, 2\)"),
    "gradient nan": (lambda: SOFT.stress(np.full((3, 3), nan)), r"nan|finite"),
    "no material": (lambda: robot(material={}).body(), r"no material"),
    "material of no region": (lambda: robot(material={"hand": SOFT}).body(), r"'hand'.*body"),
    "material as number": (lambda: robot(material=3).body(), r"3"),
}
SHAPES = {
    "box side negative": (lambda: pl.Box(size=(1, -2, 1)), r"\[1\] is -2 m"),
    "box of two sides": (lambda: pl.Box(size=(1, 1)), r"shape \(2,\)"),
    "box as text": (lambda: pl.Box(size="large"), r"'large'"),
    "box at nan": (lambda: pl.Box(size=(1, 1, 1), origin=(0, nan, 0)), r"\[1\] is nan"),
    "box beyond numbers": (lambda: pl.Box(size=(1e200, 1e200, 1e200)).mesh(), r"finite|1e\+200|size"),
    "cylinder without radius": (lambda: pl.geometry.Cylinder(radius=0, length=1), r"radius of a Cylinder is 0 m"),
    "cylinder radius none": (lambda: pl.geometry.Cylinder(radius=None, length=1), r"None"),
    "tube inside out": (lambda: pl.geometry.Tube(outer=1, inner=2, length=1), r"2 m, is not under the outer, 1 m"),
    "ellipsoid flat": (lambda: pl.geometry.Ellipsoid(radii=(1, 0, 1)), r"\[1\] is 0 m"),
    "strip nan": (lambda: pl.geometry.Strip(length=1, width=nan, thickness=0.1), r"width of a Strip is nan"),
    "disc negative": (lambda: pl.geometry.Disc(radius=-2), r"-2 m"),
    "ring without width": (lambda: pl.geometry.Ring(outer=1, inner=1), r"1 m"),
    "rectangle endless": (lambda: pl.geometry.Rectangle(size=(1, inf)), r"\[1\] is inf"),
    "polygon of two corners": (lambda: Polygon(points=((0, 0), (1, 1))), r"shape \(2, 2\)"),
    "polygon that crosses itself": (lambda: Polygon(points=((0, 0), (1, 1), (1, 0), (0, 1))), r"Sides 0 and 2"),
    "polygon of uneven corners": (lambda: Polygon(points=((0, 0), (1, 1, 2), (1, 0))), r"[Cc]orner"),
    "union of nothing": (lambda: pl.geometry.Union(parts={}), r"0 parts"),
    "union flat and solid": (lambda: pl.geometry.Union(parts={"a": BOX, "b": pl.geometry.Disc(radius=1)}), r"'a': 3, 'b': 2"),
    "union with a hidden part": (lambda: pl.geometry.Union(parts={"a": BOX, "b": BOX}).mesh(cell=0.01), r"Part 'b'"),
    "union of a number": (lambda: pl.geometry.Union(parts={"a": 3}), r"'a'"),
    "cell zero": (lambda: BOX.mesh(cell=0), r"cell size is 0 m"),
    "cell nan": (lambda: BOX.mesh(cell=nan), r"nan m"),
    "cell as text": (lambda: BOX.mesh(cell="fine"), r"fine"),
    "huge mesh": (lambda: BOX.mesh(cell=1e-6), r"cells, over the limit of 2000000"),
    "endless mesh": (lambda: BOX.mesh(cell=1e-300), r"over the limit"),
    "divisions zero": (lambda: BOX.mesh(divisions=(0, 1, 1)), r"\(0, 1, 1\)"),
    "divisions of two": (lambda: BOX.mesh(divisions=(1, 1)), r"takes 3 whole numbers"),
    "divisions broken": (lambda: BOX.mesh(divisions=(1.5, 1, 1)), r"1\.5"),
    "order three": (lambda: robot(order=3).body(), r"order.* is 3"),
    "plane without thickness": (lambda: flat(thickness=0).body(), r"thickness is 0 m"),
    "extruded without layers": (
        lambda: extruded(pl.geometry.Rectangle(size=(1, 1)).mesh(divisions=(1, 1)), thickness=1, layers=0),
        r"0 layers",
    ),
}
MESHES = {
    "inverted": (lambda: mesh(cells=[[0, 2, 1, 3]]), r"1 of 1 tetrahedra are inverted \(first: cell 0"),
    "flat cell": (lambda: mesh(points=[*TET[:3], (1, 1, 0)]), r"1 of 1 tetrahedra are flat \(first: cell 0"),
    "duplicate nodes": (
        lambda: mesh(np.vstack([TET, TET[1:] * 1.0, [[1, 1, 1]]]), [[0, 1, 2, 3], [4, 6, 5, 7]]),
        r"nodes coincide",
    ),
    "duplicate cells": (lambda: mesh(cells=[[0, 1, 2, 3], [1, 2, 0, 3]]), r"cells 0 and 1"),
    "index out of range": (lambda: mesh(cells=[[0, 1, 2, 4]]), r"outside 0\.\.3 \(first: cell 0"),
    "index negative": (lambda: mesh(cells=[[0, 1, 2, -1]]), r"-1\]"),
    "index twice": (lambda: mesh(cells=[[0, 1, 2, 2]]), r"name a point twice"),
    "index broken": (lambda: mesh(cells=[[0, 1, 2, 3.5]]), r"float64"),
    "point nan": (lambda: mesh(points=np.where(TET == 1, nan, TET)), r"3 of 4 points are not finite \(first: point 1"),
    "point without a cell": (lambda: mesh(points=np.vstack([TET, [[2, 2, 2]]])), r"first: point 4"),
    "points as text": (lambda: mesh(points=np.full((4, 3), "a")), r"points"),
    "points of uneven length": (lambda: mesh(points=[[0, 0, 0], [1, 0]]), r"points"),
    "points beyond numbers": (lambda: mesh(points=TET * 1e200), r"finite|1e\+200|large|size"),
    "no cells": (lambda: mesh(cells=np.zeros((0, 4), int)), r"empty"),
    "region beyond the cells": (lambda: mesh(regions={"hand": [3]}), r"'hand' names cell 3"),
    "surface inside": (lambda: mesh(surfaces={"skin": [[0, 1, 9]]}), r"'skin' are not on the boundary"),
    "one name twice": (lambda: mesh(surfaces={"a": [[0, 1, 2]]}, regions={"a": [0]}), r"'a' names both"),
    "surface of nothing": (lambda: with_surface(mesh(), "far", lambda c: c[:, 0] > 9), r"'far'"),
    "unknown surface": (lambda: mesh(surfaces={"skin": [[0, 1, 2]]}).facets("skni"), r"'skni'.*Did you mean 'skin'"),
    "place outside": (lambda: mesh().locate([[2, 0, 0]]), r"point 0 at \[2\.0, 0\.0, 0\.0\] m"),
    "place nan": (lambda: mesh().locate([[nan, 0, 0]]), r"Point 0"),
    "open skin": (lambda: skin(triangles=SKIN[1:]), r"3 edges are open.*near"),
    "skin not manifold": (lambda: skin(triangles=np.vstack([SKIN, SKIN[:1]])), r"3 edges belong to more than two"),
    "skin twisted": (lambda: skin(triangles=[SKIN[0][::-1], *SKIN[1:]]), r"opposite orientation"),
    "skin inside out": (lambda: skin(triangles=SKIN[:, ::-1]), r"-1\.667e-01 m\^3"),
    "skin index": (lambda: skin(triangles=[*SKIN[:3], [1, 2, 7]]), r"point 7"),
    "skin index broken": (lambda: skin(triangles=[*SKIN[:3], [1, 2, 2.5]]), r"float64|whole|integer"),
    "fill with what": (lambda: fill(skin(), 0.2, method="magic"), r"'magic'.*stuffing"),
    "fill with huge cells": (lambda: fill(skin(), 100.0), r"cell"),
}
ATTACHED = {
    "cable with one point": (lambda: pl.Cable(points=[(0, 0, 0)]), r"has 1"),
    "cable of points in a row": (lambda: pl.Cable(points=(0, 0, 0)), r"cable"),
    "cable of uneven points": (lambda: pl.Cable(points=[(0, 0, 0), (0, 0)]), r"cable"),
    "cable through nan": (lambda: pl.Cable(points=[(0, 0, 0), (nan, 0, 0)]), r"nan|not finite"),
    "cable outside": (
        lambda: stepped(cabled(points=[END, (0.2, 0.01, 0.01)])),
        r"'tendon'.*point 1 at \[0\.2, 0\.01, 0\.01\] m",
    ),
    "cable of coinciding points": (lambda: stepped(cabled(points=[END, END])), r"'tendon'.*0 and 1 coincide"),
    "cable in the plane": (lambda: stepped(cabled(points=[(0, 0), (0.1, 0)])), r"'tendon'.*3D"),
    "cable guide in the plane": (lambda: stepped(cabled(guide=(1, 0))), r"guide.*\(2,\)"),
    "cable guide nan": (lambda: stepped(cabled(guide=(nan, 0, 0))), r"guide.*nan"),
    "cable limits swapped": (lambda: pl.Cable(points=LINE, limits=(8, 0)), r"8 .*not below.* 0"),
    "cable of one limit": (lambda: pl.Cable(points=LINE, limits=(8,)), r"8"),
    "cable drive": (lambda: pl.Cable(points=LINE, drive="motor"), r"'motor'"),
    "cable stiffness": (lambda: pl.Cable(points=LINE, stiffness=-1), r"-1 N/m"),
    "thrust limits swapped": (lambda: pl.Thrust(point=END, limits=(1, -1)), r"1 .*not below.* -1"),
    "thrust outside": (lambda: stepped(robot(actuators={"fan": pl.Thrust(point=(9, 0, 0))})), r"'fan'.*\[9\.0"),
    "thrust at a number": (lambda: stepped(robot(actuators={"fan": pl.Thrust(point=1.0)})), r"point"),
    "unknown region": (
        lambda: stepped(robot(supports=[pl.Support(region="x--")])),
        r"'x--'; it has .* Did you mean 'x-'",
    ),
    "support axes": (lambda: pl.Support(region="x-", axes="w"), r"'x-' are 'w'"),
    "support across the plane": (lambda: stepped(flat(supports=[pl.Support(region="x-", axes="z")])), r"'z'"),
    "support motion nan": (
        lambda: stepped(robot(supports=[pl.Support(region="x-", motion=lambda t: (nan, 0, 0))])),
        r"t = 0\.01 s",
    ),
    "support motion in the plane": (
        lambda: stepped(robot(supports=[pl.Support(region="x-", motion=lambda t: (0, 0))])),
        r"motion.*3",
    ),
    "effector twice": (lambda: pl.Effector(point=END, surface="x+"), r"exactly one"),
    "effector nowhere": (lambda: pl.Effector(), r"exactly one"),
    "effector outside": (lambda: pl.Effector(point=(1, 0, 0)).on(robot().body()), r"\[1\.0, 0\.0, 0\.0\] m"),
    "effector on no surface": (lambda: pl.Effector(surface="x").on(robot().body()), r"'x'; it has x-"),
    "load of two numbers": (lambda: pushed(force=(0, 1)), r"force.*3"),
    "load nan": (lambda: pushed(force=(0, nan, 0)), r"force.*nan"),
    "load as text": (lambda: pushed(force="hard"), r"hard"),
    "load outside": (lambda: pushed(point=(1, 0, 0)), r"\[1\.0, 0\.0, 0\.0\] m"),
    "traction of a number": (
        lambda: stepped(robot(loads=[pl.SurfaceLoad(surface="x+", traction=5)])),
        r"'x\+'.*(5|shape)",
    ),
    "traction on no surface": (
        lambda: stepped(robot(loads=[pl.SurfaceLoad(surface="tip", traction=(0, 1, 0))])),
        r"'tip'; it has",
    ),
    "gravity of two numbers": (lambda: stepped(robot(gravity=(0, -9.81))), r"[Gg]ravity.*3"),
    "gravity nan": (lambda: stepped(robot(gravity=(0, 0, nan))), r"[Gg]ravity.*nan"),
    "damping negative": (lambda: pl.Damping(mass=-1), r"mass damping is -1"),
    "damping nan": (lambda: pl.Damping(stiffness=nan), r"stiffness damping is nan"),
    "friction negative": (lambda: pl.Contact(obstacle=pl.plane((0, 0, 1)), friction=-0.1), r"-0\.1"),
    "contact without stiffness": (lambda: pl.Contact(obstacle=pl.plane((0, 0, 1)), stiffness=0), r"0 Pa/m"),
    "contact of no surface": (lambda: touching(pl.plane((0, 0, 1)), surface="sole"), r"'sole'; it has"),
    "normal zero": (lambda: pl.plane((0, 0, 0)), r"normal.*0"),
    "normal infinite": (lambda: pl.plane((0, 0, inf)), r"normal.*inf"),
    "normal in the plane": (lambda: touching(pl.plane((0, 1))), r"3"),
    "plane at nan": (lambda: touching(pl.plane((0, 0, 1), nan)), r"height.*nan"),
    "sphere without radius": (lambda: pl.sphere((0, 0, 0), 0), r"radius is 0 m"),
    "sphere at nan": (lambda: touching(pl.sphere((0, 0, nan), 1)), r"nan"),
    "capsule without length": (lambda: touching(pl.capsule((0, 0, 0), (0, 0, 0), 0.01)), r"start and end"),
    "capsule half plane": (lambda: pl.capsule((0, 0), (0, 1, 1), 0.01), r"capsule"),
    "actuators in a list": (lambda: stepped(robot(actuators=[pl.Thrust(point=END)])), r"actuators"),
    "supports not in a list": (lambda: stepped(robot(supports=pl.Support(region="x-"))), r"supports"),
    "point mass nan": (lambda: pl.PointMass(points=[(0, 0, nan)]), r"PointMass"),
    "point mass without mass": (lambda: pl.PointMass(points=[(0, 0, 0)], mass_each=0), r"0 kg"),
    "no point masses": (lambda: pl.PointMass(points=np.zeros((0, 3))), r"\(0, 3\)"),
}
STEPPING = {
    "dt zero": (lambda: model(dt=0), r"dt is 0 s"),
    "dt negative": (lambda: pl.BDF2(robot(), dt=-0.01), r"-0\.01 s"),
    "dt nan": (lambda: pl.SemiImplicit(robot(), dt=nan), r"nan s"),
    "dt as text": (lambda: model(dt="fast"), r"fast"),
    "dt beyond numbers": (lambda: stepped(model(robot(gravity=(0, 0, -9.81)), dt=1e-200)), r"1e-200"),
    "nothing holds it": (
        lambda: pl.Quasistatic(robot(supports=())),
        r"translation along x, .*rotation about z.*Support",
    ),
    "it may slide": (
        lambda: pl.Quasistatic(robot(supports=[pl.Support(region="x-", axes="x")])),
        r"translation along y, translation along z, rotation about x\.",
    ),
    "it may slide in the plane": (
        lambda: pl.Quasistatic(flat(supports=[pl.Support(region="x-", axes="x")])),
        r"its translation along y\.",
    ),
    "control nan": (lambda: stepped(cabled(), u=[nan]), r"nan"),
    "control of two": (lambda: stepped(cabled(), u=[1, 2]), r"shape \(2,\)"),
    "control as text": (lambda: stepped(cabled(), u=["pull"]), r"pull"),
    "control of uneven rows": (lambda: model(cabled()).step(model().initial_state(), [[1], [1, 2]]), r"control"),
    "state of another size": (lambda: stepped(model(), x=np.zeros(3)), r"shape \(3,\).*120"),
    "state nan": (lambda: stepped(model(), x=np.full(120, nan)), r"0"),
    "state collapsed": (lambda: stepped(model(), x=np.zeros(120)), r"Step 0 failed.*inverted"),
    "state collapsed, one solve": (lambda: stepped(pl.SemiImplicit(robot(), dt=0.01), x=np.zeros(120)), r"not positive definite"),
    "parameter below its bound": (lambda: stepped(model(design=["body.E"]), p=[-1.0]), r"body\.E\[0\] = -1 Pa"),
    "parameter above its bound": (lambda: stepped(model(design=["body.nu"]), p=[0.5]), r"body\.nu\[0\] = 0\.5"),
    "parameter nan": (lambda: stepped(model(design=["body.E"]), p=[nan]), r"nan"),
    "parameters of another model": (lambda: stepped(model(), p=[1.0]), r"shape \(1,\)"),
    "unknown parameter": (lambda: model(design=["body.mu"]).params, r"'body\.mu'.*body\.nu"),
    "parameter twice": (lambda: model(design=["body.E", "body.E"]).params, r"body\.E"),
    "unknown solver": (lambda: stepped(model(robot(gravity=(0, 0, 1)), solver="magic")), r"'magic'"),
    "newton without iterations": (lambda: pl.Newton(iterations=0), r"\(0\)"),
    "newton tolerance nan": (lambda: pl.Newton(tolerance=nan), r"nan"),
    "too few controls": (lambda: pl.simulate(model(cabled()), np.zeros((2, 1)), steps=3), r"2 steps, but 3"),
    "controls of two": (lambda: pl.simulate(model(cabled()), np.zeros((2, 2))), r"\(2, 2\)"),
    "policy without an end": (lambda: pl.simulate(model(), lambda k, x: []), r"None"),
    "no steps": (lambda: pl.simulate(model(), lambda k, x: [], steps=0), r"is 0"),
    "half a step": (lambda: pl.simulate(model(), lambda k, x: [], steps=2.5), r"2\.5"),
    "endless pull": (lambda: pl.equilibrium(pl.Quasistatic(cabled()), [1e9]), r"No equilibrium"),
    "endless push": (lambda: stepped(robot(actuators={"fan": pl.Thrust(point=END)}), u=[1e300, 0, 0]), r"Step 0"),
    "derivative of a failed step": (
        lambda: model().linearize(model().step(np.zeros(120), [])),
        r"derivative",
    ),
    "a step of another model": (lambda: model().pullback(model().step(model().initial_state(), []), np.zeros(120)), r"this model's"),
    "equilibrium with inertia": (lambda: pl.equilibrium(model(), []), r"Quasistatic"),
    "damping as a number": (lambda: robot(damping=0.01), r"damping of robot is '0\.01'.*Damping"),
    "patch upside down": (lambda: Patch(lower=(1, 0, 0), upper=(0, 0, 0)), r"lower corner"),
    "rollout without tapes": (lambda: pl.pullback(model(), pl.simulate(model(), np.zeros((2, 0))), np.zeros(120)), r"keep=True"),
    "adjoint of another size": (
        lambda: adjoint(np.zeros(3)),
        r"\(3,\)",
    ),
    "adjoint nan": (
        lambda: adjoint(np.full(120, nan)),
        r"nan",
    ),
    "check at another control": (lambda: pl.gradcheck(model(), model().initial_state(), np.zeros(3)), r"\(3,\)"),
    "robot as text": (lambda: model("finger").initial_state(), r"finger"),
    "keyframes not in order": (lambda: Keyframes(times=[1, 0], values=[[0], [0]]), r"Keyframe 1 at 0 s"),
    "keyframes nan": (lambda: Keyframes(times=[0], values=[[nan]]), r"finite"),
    "unknown experiment": (lambda: find("arm-reech"), r"'arm-reech'.*did you mean 'arm-reach'"),
}

# Files: (what reads it, content, what is said)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int) -> bytes:
    """A picture that announces its size but holds 100 bytes of it."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


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
    "mesh of noise": (load_mesh, bytes(range(256)), r"no mesh that Pliant knows"),
    "mesh cut short": (load_mesh, vtk()[:-40], r"cannot be read|empty|holds no"),
    "mesh nan": (load_mesh, vtk(points="0 0 0 1 0 0 0 1 0 0 0 nan"), r"1 of 4 points are not finite"),
    "mesh index": (load_mesh, vtk(cells="4 0 1 2 9"), r"point 9, but the file has 4 points"),
    "mesh flat": (load_mesh, vtk(points="0 0 0 1 0 0 0 1 0 1 1 0"), r"are flat"),
    "mesh that unfolds": (load_mesh, b'<!DOCTYPE x [<!ENTITY a "aaaa">]><VTKFile/>', r"unfold"),
    "skin empty": (load_surface, b"", r"is empty"),
    "skin cut short": (load_surface, stl(CUBE)[:-30], r"announces 12 triangles, 684 bytes"),
    "skin open": (load_surface, stl(CUBE[1:]), r"3 edges are open"),
    "skin of noise": (load_surface, b"hello", r"no surface that Pliant knows"),
    "picture empty": (figure, b"", r"is empty"),
    "picture bomb": (figure, png(60000, 60000), r"60000 x 60000 pixels, over the limit"),
    "picture cut short": (figure, png(60, 60), r"cannot be read"),
    "picture of noise": (figure, b"not a picture", r"no PNG"),
    "json cut short": (read_json, b'{"a": ', r"not whole JSON"),
}

# Robot files: a sound one with one place changed

SOUND = """
gravity = [0, 0, -9.81]
[geometry]
shape = "box"
size = [0.1, 0.02, 0.02]
divisions = [4, 1, 1]
order = 1
[material]
E = 1e5
nu = 0.4
[[supports]]
region = "x-"
[actuators.tendon]
type = "cable"
points = [[0, 0.01, 0.01], [0.1, 0.01, 0.01]]
limits = [0, 8]
[task]
dt = 0.01
controls = [1]
"""
SHAPE = 'shape = "box"\nsize = [0.1, 0.02, 0.02]\ndivisions = [4, 1, 1]'


def changed(old: str, new: str) -> str:
    assert SOUND.count(old) == 1
    return SOUND.replace(old, new)


ROBOT_FILES = {
    "empty": ("", r"geometry: this is missing"),
    "cut short": (SOUND[:60], r"not TOML.*line 5"),
    "not utf-8": (b"name = '\xe9'", r"UTF-8 \(byte 8\)"),
    "too long": ("#" * 1_000_001, r"more than 1000000 bytes"),
    "too deep": ("a = " + "[" * 50_000, r"nested too deeply"),
    "section twice": (SOUND + "[task]\n", r"not TOML.*twice"),
    "no material": (changed("[material]\nE = 1e5\nnu = 0.4\n", ""), r"material: this is missing"),
    "unknown section": (SOUND + "[contact]\n", r"'contact'.*did you mean 'contacts'"),
    "unknown key": (changed("divisions", "division"), r"geometry.*'division'.*did you mean 'divisions'"),
    "key of two lines": (SOUND + '["a\\nb"]\n', r"no key"),
    "unknown shape": (changed('"box"', '"bax"'), r"geometry.*bax.*did you mean 'box'"),
    "no shape": (changed(SHAPE, ""), r"shape, mesh, surface, silhouette, parts, and has none"),
    "two shapes": (changed('shape = "box"', 'shape = "box"\nmesh = "a.vtu"'), r"has shape and mesh"),
    "text for a number": (changed("1e5", '"soft"'), r'material\.E: this is "soft"; it must be a number'),
    "true for a number": (changed("1e5", "true"), r"material\.E: this is true"),
    "nan for a number": (changed("1e5", "nan"), r"material\.E"),
    "date for a number": (changed("1e5", "2020-01-01"), r"material\.E"),
    "short list": (changed("[0.1, 0.02, 0.02]", "[0.1, 0.02]"), r"geometry\.size\[2\]: this is missing"),
    "long list": (changed("[0.1, 0.02, 0.02]", "[1, 1, 1, 1]"), r"geometry\.size.*shorter"),
    "nu one half": (changed("nu = 0.4", "nu = 0.5"), r"material: Poisson's ratio is 0\.5"),
    "unknown law": (changed("nu = 0.4", 'nu = 0.4\nlaw = "hooke"'), r"material.*'hooke'"),
    "huge mesh": (changed("[4, 1, 1]", "[9999, 9999, 9999]"), r"over the limit"),
    "unknown region": (changed('"x-"', '"x"'), r"supports\[0\].*'x'.*Did you mean 'x-'"),
    "single brackets": (changed("[[supports]]", "[supports]"), r"supports.*double brackets"),
    "motion in the plane": (
        changed('"x-"', '"x-"\nmotion = { times = [0], values = [[0, 0]] }'),
        r"supports\[0\].*2 numbers.*3D",
    ),
    "unknown actuator": (changed('"cable"', '"cabel"'), r"actuators\.tendon.*did you mean 'cable'"),
    "actuator of no type": (changed('type = "cable"', ""), r"actuators\.tendon: the key 'type' is missing"),
    "cable of one point": (changed(", [0.1, 0.01, 0.01]", ""), r"actuators\.tendon.*has 1"),
    "cable of uneven points": (changed("[0.1, 0.01, 0.01]", "[0.1, 0.01]"), r"tendon\.points: row 1 has 2 numbers"),
    "cable outside": (changed("[0.1, 0.01, 0.01]", "[0.2, 0.01, 0.01]"), r"actuators\.tendon.*\[0\.2, 0\.01"),
    "limits swapped": (changed("[0, 8]", "[8, 0]"), r"actuators\.tendon.*8"),
    "gravity in the plane": (changed("[0, 0, -9.81]", "[0, -9.81]"), r"gravity.*2 numbers.*3D"),
    "obstacle in the plane": (SOUND + '[[contacts]]\ntype = "plane"\nnormal = [0, 1]\n', r"contacts\[0\].*3"),
    "obstacle of no kind": (SOUND + '[[contacts]]\ntype = "plan"\n', r"contacts\[0\].*did you mean 'plane'"),
    "load of a wrong key": (SOUND + '[[loads]]\nsurface = "x+"\nforce = [1, 0, 0]\n', r"loads\[0\].*'force'"),
    "effector twice": (SOUND + '[effectors.tip]\nsurface = "x+"\npoint = [0, 0, 0]\n', r"effectors\.tip"),
    "damping negative": (SOUND + "[damping]\nmass = -1\n", r"damping.*-1"),
    "mesh from the web": (changed(SHAPE, 'mesh = "https://a.b/c.vtu"'), r"geometry\.mesh.*beside it"),
    "mesh of the system": (changed(SHAPE, 'mesh = "/etc/passwd"'), r"geometry\.mesh.*beside it"),
    "mesh above": (changed(SHAPE, 'mesh = "../../a.vtu"'), r"geometry\.mesh.*leaves the folder"),
    "mesh not there": (changed(SHAPE, 'mesh = "a.vtu"'), r"geometry.*no file.*a\.vtu"),
    "mesh of a long name": (changed(SHAPE, f'mesh = "{5000 * "a"}"'), r"geometry"),
    "surface without cell": (changed(SHAPE, 'surface = "a.stl"'), r"geometry\.cell: this is missing"),
    "part of no size": (changed(SHAPE, 'parts = { arm = { shape = "box" } }'), r"geometry\.parts\.arm\.size"),
    "dt zero": (changed("dt = 0.01", "dt = 0"), r"task.*dt is 0 s"),
    "no dt": (changed("dt = 0.01", ""), r"task.*needs a time step"),
    "unknown rule": (changed("dt = 0.01", 'dt = 0.01\nrule = "bdf3"'), r"task.*did you mean 'bdf2'"),
    "no steps": (changed("dt = 0.01", "dt = 0.01\nsteps = 0"), r"task.*steps is 0"),
    "two controls": (changed("controls = [1]", "controls = [1, 2]"), r"task.*2 numbers.*1 \(tendon\)"),
    "control beyond the limits": (changed("controls = [1]", "controls = [9]"), r"task.*9 .*0 to 8"),
    "keyframes uneven": (changed("[1]\n", "{ times = [0, 1], values = [[1]] }\n"), r"task\.controls.*2 times"),
}


def from_file(read: Callable[[Path], object], content: bytes | str) -> Callable[[Path], object]:
    def case(folder: Path) -> object:
        path = folder / "given.dat"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read(path)

    return case


def without_file(make: Callable[[], object]) -> Callable[[Path], object]:
    return lambda folder: make()


KINDS = {"material": MATERIALS, "shape": SHAPES, "mesh": MESHES, "attached": ATTACHED, "step": STEPPING}
CASES = {f"{kind}: {name}": (without_file(make), says) for kind in KINDS for name, (make, says) in KINDS[kind].items()}
CASES |= {f"file: {name}": (from_file(read, content), says) for name, (read, content, says) in FILES.items()}
CASES |= {f"robot file: {name}": (from_file(load_task, text), says) for name, (text, says) in ROBOT_FILES.items()}
CASES |= {
    "robot file: not there": (lambda folder: load_robot(folder / "none.toml"), r"no robot file.*none\.toml"),
    "robot file: a folder": (load_robot, r"no robot file"),
    "robot file: a long name": (lambda folder: load_robot(folder / (5000 * "a")), r"cannot be read|no robot file"),
    "file: not there": (lambda folder: load_mesh(folder / "none.vtu"), r"no file .*none\.vtu"),
    "file: a long name": (lambda folder: load_mesh(folder / (5000 * "a")), r"aaa"),
    "file: scale zero": (lambda folder: load_mesh(folder / "none.vtu", scale=0), r"scale is 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_in_one_sentence(tmp_path, case):
    make, says = CASES[case]
    with pytest.raises(PliantError) as caught:
        make(tmp_path)
    text = str(caught.value)
    assert re.search(says, text), text
    assert re.fullmatch(r"[^\n\r\0]{10,2000}[.?)]", text), text
    assert "Traceback" not in text


def test_there_are_enough_cases():
    assert len(CASES) >= 70


def test_the_sound_robot_file_is_sound(tmp_path):
    task = from_file(load_task, SOUND)(tmp_path)
    assert stepped(task.model(), u=task.control(0)).states.shape == (2, 120)


def test_a_robot_in_millimetres_warns(tmp_path):
    with pytest.warns(UserWarning, match=r"104 m large.*millimetres.*0\.001"):
        robot(shape=pl.Box(size=(100, 20, 20))).body()
    text = SOUND.replace("[0.1, 0.02, 0.02]", "[100, 20, 20]")
    with pytest.warns(UserWarning, match=r"millimetres"):
        from_file(load_robot, text)(tmp_path)


EXTREME = {
    "soft": lambda: model(robot(material=pl.Material(E=1e-300, nu=0.3), gravity=(0, 0, -9.81))),
    "stiff": lambda: model(robot(material=pl.Material(E=1e300, nu=0.3), gravity=(0, 0, -9.81))),
    "heavy": lambda: model(robot(material=pl.Material(E=1e5, nu=0.3, density=1e300), gravity=(0, 0, -9.81))),
    "incompressible": lambda: model(robot(material=pl.Material(E=1e5, nu=0.5 - 1e-16), gravity=(0, 0, -9.81))),
    "pulled": lambda: model(robot(gravity=(0, 0, -1e300))),
    "pulled, one solve": lambda: pl.SemiImplicit(robot(gravity=(0, 0, -1e300)), dt=0.01),
    "held everywhere": lambda: model(robot(supports=[pl.Support(region="body")], gravity=(0, 0, -9.81))),
    "deep in the ground": lambda: model(robot(contacts=[pl.Contact(obstacle=pl.plane((0, 0, 1), 1e6))])),
    "touching the middle of a ball": lambda: model(robot(contacts=[pl.Contact(obstacle=pl.sphere((0, 0, 0), 1.0))])),
}


@pytest.mark.parametrize("extreme", EXTREME)
@pytest.mark.parametrize("scale", [1.0, 1e10, 1e200])
def test_extreme_but_legal_input_is_finite_or_says_why(extreme, scale):
    dynamics = EXTREME[extreme]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = dynamics.step(scale * dynamics.initial_state(), np.zeros(0))
    assert np.isfinite(step.x).all()
    assert step.status or step.status.text.endswith(".")
