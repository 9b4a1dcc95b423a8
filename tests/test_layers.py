"""The layers of docs/decisions/0001: a package imports lower layers only, and never a package of
its own layer."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pliant

ROOT = Path(pliant.__file__).parent
LAYERS = [
    {"core", "environment", "interrupts", "result_reports"},
    {"argument_checks", "checkpointing", "gymnasium", "kernels", "progress"},
    {"linalg", "parallel", "store"},
    {"materials", "geometry", "surrogate"},
    {"hydrostatics"},
    {"bodies"},
    {"actuators", "contact"},
    {"robot"},
    {"mpm", "swimming"},
    {"dynamics"},
    {"problem"},
    {"robot_files"},
    {"planners"},
    {"learning"},
    {"report", "viewer"},
    {"zoo"},
    {"bench"},
    {"papers"},
    {"cli", "public"},
    {"__main__"},
]
RANK = {package: k for k, layer in enumerate(LAYERS) for package in layer}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "pliant"
        ):
            parts = node.module.split(".")
            packages |= (
                {parts[1]}
                if len(parts) > 1
                else {alias.name for alias in node.names if not alias.name.startswith("__")}
            )
        elif isinstance(node, ast.Import):
            packages |= {
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pliant.")
            }
    return packages


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_come_from_lower_layers_only(path: Path) -> None:
    mine = package_of(path)
    assert mine in RANK, (
        f"{path} belongs to no layer; add its package to LAYERS and to docs/decisions/0001"
    )
    for package in imported_packages(path) - {mine}:
        assert RANK[package] < RANK[mine], f"{path} imports {package}, which is not below {mine}"


def test_core_imports_numpy_only() -> None:
    tree = ast.parse((ROOT / "core.py").read_text())
    modules = {
        node.module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert modules - {"numpy", "collections", "dataclasses", "difflib", "types", "typing"} == set()


def test_public_names_exist_and_are_few() -> None:
    assert len(pliant.__all__) <= 50
    assert all(hasattr(pliant, name) for name in pliant.__all__)
    assert set(pliant.__all__) <= set(dir(pliant))
    assert not hasattr(pliant, "no_such_name")


def test_public_names_are_loaded_on_first_use() -> None:
    code = (
        "import sys, pliant; assert 'numba' not in sys.modules; pliant.InputError; "
        "assert 'numba' in sys.modules; assert pliant.dynamics.simulate is pliant.simulate; "
        "from pliant import Box, geometry; assert geometry.Box is Box is pliant.Box"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
