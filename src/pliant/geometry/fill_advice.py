"""Find a cell size at which a mesh represents the surface that it fills."""

from collections.abc import Callable, Iterator

import numpy as np

from pliant.core import MeshError
from pliant.geometry.fill_report import FillReport, FillTolerances, fill_report
from pliant.geometry.lattice import MOST_CELLS
from pliant.geometry.mesh import Mesh
from pliant.geometry.surface import Surface

FINER = 0.75  # from one trial to the next: about 2.4 times as many cells
TRIAL_CELLS = 400_000  # of the lattice of a trial after an error: a few seconds
QUICK_CELLS = 100_000  # of the lattice of a trial for a warning: below a second
RAYS = 2000  # for the thickness of walls and gaps
THIN = 10.0  # percentile of thickness that a cell must resolve; edges make a few rays shorter


Mesher = Callable[[Surface, float], Mesh]


def cell_for_sound_mesh(
    surface: Surface, cell: float, mesher: Mesher, limits: FillTolerances
) -> str:
    """Return a sentence with a cell at which the mesh has no faults: one that was tried, or an
    estimate by the thinnest walls and gaps where trials would take too long."""
    found, _ = tried_cells(surface, cell, mesher, limits, TRIAL_CELLS)
    if found is not None:
        return f"Use cell = {found:g}."
    thin = thickness(surface)
    guess = float(f"{min(0.5 * thin, FINER * cell):.2g}")
    if lattice_cells(surface, guess) < MOST_CELLS:
        return f"Use cell = {guess:g} or smaller."
    return (
        f"Its walls or gaps of about {thin:.2g} m need a cell of {guess:g} m, which makes too many "
        "cells; make them thicker, or use method = 'gmsh'."
    )


def cell_for_close_mesh(
    surface: Surface, report: FillReport, mesher: Mesher, limits: FillTolerances
) -> str:
    """Return a sentence with a cell at which the mesh has no doubts either: one that was tried, or
    an estimate by the rate of convergence where trials would take too long."""
    _, found = tried_cells(surface, report.cell, mesher, limits, QUICK_CELLS)
    if found is not None:
        return f"A mesh with cell = {found:g} is close enough."
    guess = report.estimated_cell(limits)
    if lattice_cells(surface, guess) < MOST_CELLS:
        return f"A mesh with cell = {guess:g} should be close enough."
    return "A finer one would have too many cells; method = 'gmsh' keeps sharp tips and edges."


def tried_cells(
    surface: Surface, cell: float, mesher: Mesher, limits: FillTolerances, most_cells: float
) -> tuple[float | None, float | None]:
    """Return the first smaller cell [m] without faults and the first without faults and doubts;
    None where no lattice of at most `most_cells` has such a mesh."""
    sound = None
    for finer in finer_cells(surface, cell, most_cells):
        try:
            report = fill_report(mesher(surface, finer), surface, finer, limits)
        except MeshError:
            continue
        if report.faults(limits):
            continue
        if not report.doubts(limits):
            return finer if sound is None else sound, finer
        sound = sound or finer
    return sound, None


def finer_cells(surface: Surface, cell: float, most_cells: float) -> Iterator[float]:
    """Yield smaller cells [m] of two digits, down to a lattice of `most_cells`."""
    size = float(np.linalg.norm(np.ptp(surface.points, axis=0)))
    cell = float(f"{min(FINER * cell, 0.1 * size):.2g}")
    while lattice_cells(surface, cell) < most_cells:
        yield cell
        cell = float(f"{FINER * cell:.2g}")


def lattice_cells(surface: Surface, cell: float) -> float:
    """Return the number of tetrahedra of a lattice over the surface."""
    lower, upper = surface.bounds()
    return 12.0 * float(np.prod(np.ceil((upper - lower) / cell) + 2.0))


def thickness(surface: Surface) -> float:
    """[m] of the thin walls and gaps: how far rays go from the surface, inward and outward, before
    they meet it again."""
    corners = surface.points[surface.triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normal, axis=1)
    chosen = np.searchsorted(np.cumsum(area), (np.arange(RAYS) + 0.5) / RAYS * area.sum())
    chosen = np.minimum(chosen, len(area) - 1)
    start, ray = corners[chosen].mean(axis=1), normal[chosen] / area[chosen, None]
    size = float(np.linalg.norm(np.ptp(surface.points, axis=0)))
    offset = 1e-6 * size * ray
    found = [size * surface.crossings(start + s * offset, start + s * size * ray) for s in (-1, 1)]
    met = np.concatenate(found)
    return float(np.percentile(met, THIN))
