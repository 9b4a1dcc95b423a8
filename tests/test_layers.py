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
    {"optimisation"},
    {"learning", "design"},
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


def module_name(path: Path) -> str:
    parts = ("pliant", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imported_modules(node: ast.AST) -> set[str]:
    """Return the modules of Pliant that run-time code imports, in functions too."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return set()
    if isinstance(node, ast.ImportFrom):
        inside = {f"{node.module}.{alias.name}" for alias in node.names}
        found = {name if name in MODULES else str(node.module) for name in inside}
    else:
        found = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
    for child in ast.iter_child_nodes(node):
        found |= imported_modules(child)
    return found & MODULES.keys()


def test_modules_do_not_import_each_other_in_a_cycle() -> None:
    """Imports inside functions count too: they only hide a cycle."""
    graph = {name: imported_modules(ast.parse(path.read_text())) for name, path in MODULES.items()}
    while leaves := {name for name, imports in graph.items() if not imports & graph.keys()}:
        graph = {name: imports for name, imports in graph.items() if name not in leaves}
    assert not graph, f"import cycle among {', '.join(sorted(graph))}"


def test_no_name_of_a_package_hides_one_of_its_modules() -> None:
    """With `from .fill import fill` the module fill could not be reached as an attribute."""
    for name, path in MODULES.items():
        if path.name != "__init__.py":
            continue
        for node in ast.parse(path.read_text()).body:
            for alias in node.names if isinstance(node, ast.ImportFrom) else []:
                inside = f"{name}.{alias.asname or alias.name}"
                known = node.module == name
                assert inside not in MODULES or known, f"{inside} hides a module"


def test_class_names_are_unique() -> None:
    owners: dict[str, Path] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert node.name not in owners, f"{node.name}: {path} and {owners[node.name]}"
                owners[node.name] = path
