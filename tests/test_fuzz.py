"""Random damage to robot files, API calls, mesh files and commands: every case is accepted with
finite numbers or rejected with one clear error. A failure names its case; `case(n)` repeats it."""

import io
import math
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pliant as pl
from pliant import cli
from pliant.core import PliantError, quoted
from pliant.geometry import load, mesh_readers
from pliant.robot_files import load_task

SEED = 2026
SECONDS = 400  # time limit of a case; it includes compilation if the cache is empty


class Hang(BaseException):
    """A case took too long."""


class Digits(str):
    """A number in a file that is too long for Python to read or print."""


NUMBERS = [0, 0.0, -1, 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf, 10**400, 2**63, 1.5, 3]
TEXTS = ["", "a" * 300, "\x1b[31mred", "two\nlines", "x-", "\u202e", "0", "\\", "[bold]", "a.b"]
OTHERS = [True, False, [], {}, [[]], [1.0], [1.0, 2.0, 3.0], [[0.0, 0.0, 0.0]], {"a": 1}]
HOSTILE = [*NUMBERS, *TEXTS, *OTHERS]


@contextmanager
def judged(what: str) -> Iterator[None]:
    """Fail unless the block ends in time, without an error or with one clear PliantError."""

    def hang(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    except PliantError as error:
        text = str(error)
        if not re.fullmatch(r"[^\n\r\0\x1b]{10,2000}[.?)]", text):
            pytest.fail(f"{what}: the error is not one clear sentence: {text[:500]!r}")
    except (Exception, Hang) as error:
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        place = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
        pytest.fail(f"{what}: {type(error).__name__} at {place}: {str(error)[:300]}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def stepped(model: Any) -> None:
    """Assert that one step is finite, or that its status gives the reason of the failure."""
    step = model.step(model.initial_state(), np.asarray(model.neutral_controls(), float))
    assert np.isfinite(step.x).all()
    assert step.status or step.status.text.endswith(".")


# Robot files

MATERIAL = {"E": 1e5, "nu": 0.4, "density": 1000.0}
ROBOTS: list[dict[str, Any]] = [
    {
        "name": "finger",
        "geometry": {"shape": "box", "size": [0.1, 0.02, 0.02], "divisions": [2, 1, 1], "order": 1},
        "material": MATERIAL,
        "gravity": [0.0, 0.0, -9.81],
        "supports": [{"region": "x-", "axes": "xyz"}],
        "actuators": {
            "tendon": {
                "type": "cable",
                "points": [[0.0, 0.01, 0.015], [0.1, 0.01, 0.015]],
                "limits": [0.0, 5.0],
            }
        },
        "effectors": {"tip": {"surface": "x+"}, "end": {"point": [0.1, 0.01, 0.01]}},
        "loads": [{"point": [0.1, 0.01, 0.01], "force": [0.0, 0.0, 0.1]}],
        "contacts": [{"type": "plane", "normal": [0.0, 0.0, 1.0], "height": -0.1}],
        "task": {"dt": 0.01, "steps": 1, "controls": {"times": [0.0], "values": [[1.0]]}},
    },
    {
        "name": "sheet",
        "geometry": {"shape": "rectangle", "size": [0.1, 0.02], "divisions": [2, 1], "order": 1},
        "material": MATERIAL,
        "supports": [{"region": "x-"}],
        "effectors": {"tip": {"surface": "x+"}},
    },
]


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Digits):
        return (
            '"' + "".join(c if " " <= c not in '"\\' else f"\\u{ord(c):04x}" for c in value) + '"'
        )
    return str(value)


def copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return [copied(value) for value in tree] if isinstance(tree, list) else tree


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every value in a tree."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    inner = [place for _, v in pairs if isinstance(v, dict | list) for place in places(v)]
    return (
        [(tree, key) for key, _ in pairs] + inner
        if not isinstance(tree, list)
        else inner + [(tree, k) for k in range(len(tree))]
    )


FACTORS = [1e-12, 1e-6, 1e-3, 0.1, 0.5, -1.0, 2.0, 10.0, 1e3, 1e6, 1e12]


def scaled(value: Any, random: Random) -> Any:
    """Multiply a number, or one number of a nested list, by a factor; return other values
    unchanged."""
    if isinstance(value, list | tuple) and value:
        k = random.randrange(len(value))
        return type(value)([*value[:k], scaled(value[k], random), *value[k + 1 :]])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return type(value)(value * random.choice(FACTORS))


def damaged(tree: Any, random: Random) -> None:
    """Scale, delete, rename, duplicate or replace one value of a tree."""
    home, key = random.choice(places(tree))
    acts = ["delete", "rename", "double", "replace", "replace", "replace", "wrap"]
    act = random.choice([*acts, *len(acts) * ["scale"]])
    name = random.choice([*TEXTS, "E", "region", "type"])
    if act == "delete":
        del home[key]
    elif act == "scale":
        home[key] = scaled(home[key], random)
    elif act == "wrap":
        home[key] = random.choice([[home[key]], {"a": home[key]}])
    elif act == "replace":
        home[key] = copied(random.choice([*HOSTILE, Digits("1" * 5001), Digits("0x" + "f" * 5001)]))
    elif isinstance(home, list):
        home.insert(0, copied(home[key]))
    else:
        home[name] = home.pop(key) if act == "rename" else copied(home[key])


def scrambled(text: str, random: Random) -> str:
    """Damage the text of a file instead of its values."""
    at = random.randrange(len(text))
    lines = text.splitlines(keepends=True)
    return random.choice(
        [
            text[:at],
            text[:at] + random.choice('\x1b\0"[]{}=#\n.\u202e') + text[at + 1 :],
            text + random.choice(lines),
            ".".join(["a"] * random.choice([3, 3000])) + " = 1\n" + text,
        ]
    )


def robot_file(random: Random) -> str:
    tree = copied(random.choice(ROBOTS))
    for _ in range(random.choice([1, 1, 2])):
        damaged(tree, random)
    text = "".join(f"{toml(str(key))} = {toml(value)}\n" for key, value in tree.items())
    return scrambled(text, random) if random.random() < 0.2 else text


@pytest.mark.parametrize("tree", ROBOTS, ids=lambda tree: tree["name"])
def test_undamaged_robot_files_are_accepted(tree: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in tree.items()))
    stepped(load_task(path).model())


@pytest.mark.parametrize("part", range(6))
def test_damaged_robot_files_are_accepted_or_raise_clear_error(part: int, tmp_path: Path) -> None:
    for n in range(50 * part, 50 * part + 50):
        path = tmp_path / "robot.toml"
        path.write_text(text := robot_file(Random(f"{SEED} robot {n}")), encoding="utf-8")
        with judged(f"robot file {n}:\n{text[:3000]}\n"):
            stepped(load_task(path).model())


# API calls

BOX = {"shape": pl.Box(size=(0.1, 0.02, 0.02)), "divisions": (2, 1, 1), "order": 1}
SOFT = pl.Material(E=1e5, nu=0.4)
HELD = {**BOX, "material": SOFT, "supports": [pl.Support(region="x-")]}
LINE = ((0.0, 0.01, 0.01), (0.1, 0.01, 0.01))
ROD = {"length": 0.1, "radius": 0.01}


def robot(**parts: Any) -> Any:
    return pl.ImplicitEuler(pl.Robot(**{**HELD, **parts}), dt=0.01)


API: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (lambda **k: robot(material=pl.Material(**k)), {"E": 1e5, "nu": 0.3, "density": 1e3}),
    (lambda **k: robot(material=pl.Material(**k)), {"E": 1e5, "nu": 0.3, "law": "neo-hookean"}),
    (
        lambda **k: robot(actuators={"tendon": pl.Cable(**k)}),
        {"points": LINE, "limits": (0.0, 5.0), "stiffness": 100.0, "drive": "tension"},
    ),
    (lambda **k: robot(supports=[pl.Support(**k)]), {"region": "x-", "axes": "xyz"}),
    (lambda **k: robot(effectors={"tip": pl.Effector(**k)}), {"point": LINE[1]}),
    (lambda **k: robot(effectors={"tip": pl.Effector(**k)}), {"surface": "x+"}),
    (lambda **k: robot(loads=[pl.PointLoad(**k)]), {"point": LINE[1], "force": (0, 0, 1.0)}),
    (lambda **k: robot(loads=[pl.SurfaceLoad(**k)]), {"surface": "x+", "traction": (0, 0, 1.0)}),
    (lambda **k: robot(damping=pl.Damping(**k)), {"mass": 0.1, "stiffness": 0.1}),
    (
        lambda normal, height, **k: robot(
            contacts=[pl.Contact(obstacle=pl.plane(normal, height), **k)]
        ),
        {"normal": (0, 0, 1), "height": -1.0, "friction": 0.3},
    ),
    (
        lambda **k: robot(contacts=[pl.Contact(obstacle=pl.sphere(**k))]),
        {"centre": (0, 0, -1.0), "radius": 0.5},
    ),
    (lambda **k: robot(**k), {"gravity": (0, 0, -9.81), "order": 1, "divisions": (2, 1, 1)}),
    (lambda **k: robot(shape=pl.Box(**k)), {"size": (0.1, 0.02, 0.02), "origin": (0, 0, 0)}),
    (lambda **k: pl.ImplicitEuler(pl.Robot(**HELD), **k), {"dt": 0.01}),
    (lambda **k: pl.BDF2(pl.Robot(**HELD), **k), {"dt": 0.01}),
    (lambda **k: pl.SemiImplicit(pl.Robot(**HELD), **k), {"dt": 0.01}),
    (lambda **k: pl.Quasistatic(pl.Robot(**HELD), **k), {"design": ("body.E",)}),
    (
        lambda **k: pl.Quasistatic(pl.Robot(**HELD), solver_options=pl.SolverOptions(**k)),
        {"tolerance": 1e-8, "iterations": 20},
    ),
    (
        lambda **k: pl.ImplicitEuler(pl.Robot(shape=pl.PointMass(**k)), dt=0.01),
        {"points": [[0.0, 0.0, 0.0]], "mass_each": 1.0},
    ),
    (lambda **k: pl.simulate(robot(), lambda i, x: [], **k), {"steps": 1}),
    (lambda **k: robot().step(**k), {"x": robot().initial_state(), "u": np.zeros(0)}),
    (lambda **k: pl.geometry.Cylinder(**k).mesh(cell=0.01), ROD),
    (lambda **k: pl.geometry.icosphere(**k), {"radius": 0.1, "subdivisions": 1}),
]


def pick(items: list[Any], random: Random) -> Any:
    return items[random.randrange(len(items))]


@pytest.mark.parametrize("part", range(4))
def test_calls_with_hostile_values_are_accepted_or_raise_clear_error(part: int) -> None:
    for n in range(25 * part, 25 * part + 25):
        random = Random(f"{SEED} call {n}")
        call, options = API[n % len(API)]
        key = pick(sorted(options), random)
        others = [*HOSTILE, 10**5000, None, "1", object(), np.full(3, np.nan), (1, "a")]
        value = scaled(options[key], random) if random.random() < 0.4 else pick(others, random)
        with judged(f"call {n} (API[{n % len(API)}]) with {key} = {quoted(value)}"):
            made = call(**{**options, key: value})
            if hasattr(made, "neutral_controls"):
                stepped(made)


# Mesh files

TETRAHEDRON = "0 0 0\n1 0 0\n0 1 0\n0 0 1"
CORNERS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
FACES = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]


def stl() -> bytes:
    rows = [
        np.array([[0, 0, 0], *(CORNERS[i] for i in f)], "<f4").tobytes() + b"\0\0" for f in FACES
    ]
    return b"\0" * 80 + len(rows).to_bytes(4, "little") + b"".join(rows)


def ply() -> bytes:
    head = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
    head += "property float z\nelement face 4\nproperty list uchar int vertex_indices\nend_header\n"
    return (
        f"{head}{TETRAHEDRON}\n{''.join(f'3 {a} {b} {c}{chr(10)}' for a, b, c in FACES)}".encode()
    )


def obj() -> bytes:
    points = "".join(f"v {a} {b} {c}\n" for a, b, c in CORNERS)
    return (points + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)).encode()


def vtk() -> bytes:
    return (
        "# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n"
        f"{TETRAHEDRON}\nCELLS 1 5\n4 0 1 2 3\nCELL_TYPES 1\n10\n"
    ).encode()


def msh() -> bytes:
    nodes = "".join(f"{i + 1} {a} {b} {c}\n" for i, (a, b, c) in enumerate(CORNERS))
    return (
        f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n{nodes}$EndNodes\n"
        "$Elements\n1\n1 4 2 1 1 1 2 3 4\n$EndElements\n"
    ).encode()


def inp() -> bytes:
    nodes = "".join(f"{i + 1}, {a}.0, {b}.0, {c}.0\n" for i, (a, b, c) in enumerate(CORNERS))
    return f"*NODE\n{nodes}*ELEMENT, TYPE=C3D4, ELSET=body\n1, 1, 2, 3, 4\n".encode()


def vtu() -> bytes:
    def array(kind: str, name: str, width: int, values: str) -> str:
        return (
            f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{width}" format="ascii">'
            f"{values}</DataArray>"
        )

    cells = "".join(
        array("Int64", name, 1, values)
        for name, values in (("connectivity", "0 1 2 3"), ("offsets", "4"), ("types", "10"))
    )
    return (
        '<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1"><UnstructuredGrid>'
        f'<Piece NumberOfPoints="4" NumberOfCells="1"><Points>'
        f"{array('Float64', 'Points', 3, TETRAHEDRON)}</Points><Cells>{cells}</Cells></Piece>"
        "</UnstructuredGrid></VTKFile>"
    ).encode()


MESHES: list[tuple[Callable[..., Any], Callable[[], bytes]]] = [
    *((pl.geometry.load_surface, make) for make in (stl, ply, obj)),
    *((pl.geometry.load_mesh, make) for make in (vtk, msh, inp, vtu)),
]


def flipped(blob: bytes, random: Random) -> bytes:
    """Cut, flip, repeat or replace some bytes, or change a number of a file."""
    at, upto = sorted(random.randrange(len(blob) + 1) for _ in range(2))
    byte = bytes([random.randrange(256)])
    numbers = list(re.finditer(rb"\d+", blob))
    found = random.choice(numbers) if numbers else None
    number = random.choice([b"-1", b"0", b"nan", b"1e300", b"99999999999", b"7" * 400, b"\x1b[31m"])
    choices = [blob[:at], blob[:at] + byte + blob[at + 1 :], blob[:at] + blob[upto:], blob + blob]
    if found is not None:
        choices += 4 * [blob[: found.start()] + number + blob[found.end() :]]
    return random.choice(choices)


def in_this_process(command: list[str], **options: Any) -> subprocess.CompletedProcess:
    """Run the mesh reader in this process, which saves a second."""
    said = io.StringIO()
    with redirect_stdout(said):
        status = mesh_readers.main(*command[3:6], "-1")
    return subprocess.CompletedProcess(command, status, said.getvalue().encode())


@pytest.mark.parametrize("n", range(60))
def test_damaged_mesh_files_are_accepted_or_raise_clear_error(n: int, tmp_path: Path, monkeypatch):
    random = Random(f"{SEED} mesh {n}")
    read, make = MESHES[n % len(MESHES)]
    path = tmp_path / "mesh.dat"
    path.write_bytes(blob := flipped(make(), random))
    if n >= len(MESHES):  # the first of each format use the real subprocess
        monkeypatch.setattr(mesh_readers, "restrict_file_access", lambda path: None)
        monkeypatch.setattr(load.subprocess, "run", in_this_process)
    with judged(f"mesh {n}: {blob[:2000]!r}"):
        assert np.isfinite(read(path).points).all()


# Commands

WORDS = [
    "",
    "-1",
    "1e300",
    "nan",
    "1" * 5001,
    "n" * 300,
    "\x1b[31mred",
    "[bold]",
    "a=b",
    "x.toml",
]
COMMANDS = [
    ["check", "FILE"],
    ["check", "WORD"],
    ["run", "WORD"],
    ["run", "FILE", "--set", "steps=WORD"],
    ["run", "cantilever", "--quick", "--set", "WORD"],
    ["run", "cantilever", "--set", "load=nan", "--seed", "WORD"],
    ["run", "cantilever", "--set", "cells=-1", "--out", "WORD"],
    ["list", "WORD"],
    ["gradcheck", "WORD"],
    ["bench", "WORD"],
    ["papers", "WORD"],
    ["drive", "WORD", "--headless", "1"],
    ["drive", "FILE", "--headless", "WORD", "--no-browser", "--script", "none.csv"],
    ["WORD"],
]


@pytest.mark.parametrize("n", range(40))
def test_hostile_commands_give_one_clear_error(n: int, tmp_path: Path, monkeypatch, capfd) -> None:
    random = Random(f"{SEED} command {n}")
    monkeypatch.chdir(tmp_path)
    Path("robot.toml").write_text(robot_file(random), encoding="utf-8")
    word = pick(WORDS, random)
    words = [
        w.replace("WORD", word).replace("FILE", "robot.toml") for w in COMMANDS[n % len(COMMANDS)]
    ]
    monkeypatch.setattr(sys, "argv", ["pliant", *words])
    status: Any = 0
    with judged(f"command {n}: {words}"):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
    out = "".join(capfd.readouterr())
    assert status in (None, 0, 1, 2), (words, status)
    assert "Traceback" not in out, (words, out)
    assert "\x1b" not in out, (words, out)
    assert not re.search(r"\bnan\b", out) or "nan" in " ".join(words) or status == 2, (words, out)
