"""The house of docs/decisions/0001: imports point down only, and rooms on one line do not import
each other."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pliant

ROOT = Path(pliant.__file__).parent
LAYERS = [
    {"core", "environment", "interrupts"},
    {"kernels", "progress"},
    {"linalg", "parallel", "store"},
    {"materials", "geometry", "surrogate"},
    {"bodies"},
    {"actuators", "contact"},
    {"robot"},
    {"dynamics"},
    {"controls", "robot_files", "problem"},
    {"planners"},
    {"report", "viewer"},
    {"zoo"},
    {"bench"},
    {"papers"},
    {"cli", "public"},
    {"__main__"},
]
RANK = {room: k for k, layer in enumerate(LAYERS) for room in layer}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "pliant"
        ):
            parts = node.module.split(".")
            rooms |= (
                {parts[1]}
                if len(parts) > 1
                else {alias.name for alias in node.names if not alias.name.startswith("__")}
            )
        elif isinstance(node, ast.Import):
            rooms |= {
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pliant.")
            }
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    mine = room_of(path)
    assert mine in RANK, (
        f"{path} stands in no room of the house; add the room to LAYERS and to the decision record"
    )
    for room in imported_rooms(path) - {mine}:
        assert RANK[room] < RANK[mine], f"{path} imports {room}, which is not below {mine}"


def test_core_needs_numpy_only() -> None:
    tree = ast.parse((ROOT / "core.py").read_text())
    modules = {
        node.module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert modules - {"numpy", "collections", "dataclasses", "difflib", "types", "typing"} == set()


def test_public_names_are_few_and_there() -> None:
    assert len(pliant.__all__) <= 50
    assert all(hasattr(pliant, name) for name in pliant.__all__)
    assert set(pliant.__all__) <= set(dir(pliant))
    assert not hasattr(pliant, "no_such_name")


def test_import_loads_the_public_names_when_they_are_used() -> None:
    code = (
        "import sys, pliant; assert 'numba' not in sys.modules; pliant.InputError; "
        "assert 'numba' in sys.modules; assert pliant.dynamics.simulate is pliant.simulate; "
        "from pliant import Box, geometry; assert geometry.Box is Box is pliant.Box"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
