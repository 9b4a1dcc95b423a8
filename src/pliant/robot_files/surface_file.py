"""Surface files of saved linked robots: points and triangles as JSON, exact to the last bit."""

import json
from pathlib import Path

import numpy as np

from pliant.core import InputError
from pliant.robot_files.mesh_file import starts_with
from pliant.store import read_json
from pliant.swimming import ClosedSurface

FORMAT = "pliant surface 1"


def surface_text(surface: ClosedSurface) -> str:
    """Return the content of a surface file."""
    content = {
        "format": FORMAT,
        "points": np.asarray(surface.points).tolist(),
        "triangles": np.asarray(surface.triangles).tolist(),
    }
    return json.dumps(content)


def is_surface_file(path: Path) -> bool:
    """Return whether a file looks like a surface file of a saved robot."""
    return starts_with(path, b'{"format": "pliant surface')


def read_surface_file(path: Path, scale: float) -> ClosedSurface:
    """Return the surface of a saved robot. Raises `InputError` if the file is damaged."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path} has the format {content.get('format')!r}, which this version cannot read; "
            "save the robot again."
        )
    try:
        points = scale * np.array(content["points"], float)
        triangles = np.array(content["triangles"], np.int64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} is not a complete surface file; save the robot again.") from None
    return ClosedSurface(points=points, triangles=triangles)
