"""The surface file that a robot file fills with cells."""

import tomllib
from pathlib import Path

from pliant.geometry import Surface, load_surface


def filled_surface(path: Path) -> tuple[Surface, float] | None:
    """Return the surface and the cell [m] of a valid robot file; None if it fills no surface."""
    geometry = tomllib.loads(path.read_text(encoding="utf-8-sig"))["geometry"]
    if "surface" not in geometry:
        return None
    file = path.parent / geometry["surface"]
    return load_surface(file, scale=geometry.get("scale", 1.0)), geometry["cell"]
