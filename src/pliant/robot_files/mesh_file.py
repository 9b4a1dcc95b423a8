"""Mesh files of saved robots: points, cells, regions and surfaces as JSON, exact to the last
bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import InputError
from pliant.geometry import Mesh
from pliant.store import read_json

FORMAT = "pliant mesh 1"


def mesh_text(mesh: Mesh) -> str:
    """Return the content of a mesh file."""
    content = {
        "format": FORMAT,
        "points": mesh.points.tolist(),
        "cells": mesh.cells.tolist(),
        "regions": {name: np.asarray(cells).tolist() for name, cells in mesh.regions.items()},
        "surfaces": {name: np.asarray(facets).tolist() for name, facets in mesh.surfaces.items()},
    }
    return json.dumps(content)


def is_mesh_file(path: Path) -> bool:
    """Return whether a file looks like a mesh file of a saved robot."""
    return starts_with(path, b'{"format": "pliant mesh')


def starts_with(path: Path, start: bytes) -> bool:
    """Return whether a file starts with these bytes; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except (OSError, ValueError):
        return False


def read_mesh_file(path: Path) -> Mesh:
    """Return the mesh of a saved robot. Raises `InputError` if the file is damaged."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path} has the format {content.get('format')!r}, which this version cannot read; "
            "save the robot again."
        )
    try:
        return Mesh(
            points=np.array(content["points"], float),
            cells=np.array(content["cells"], np.int64),
            regions=_arrays(content["regions"]),
            surfaces=_arrays(content["surfaces"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a complete mesh file; save the robot again.") from None


def _arrays(table: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(rows, np.int64) for name, rows in table.items()}
