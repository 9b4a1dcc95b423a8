"""Find a cell size at which a mesh represents the surface that it fills."""

from collections.abc import Callable, Sequence

import numpy as np

from pliant.core import MeshError
from pliant.geometry.fill_report import FillReport, FillTolerances, fill_report
from pliant.geometry.lattice import MOST_CELLS
from pliant.geometry.mesh import Mesh
from pliant.geometry.surface import Surface

FINER = 0.75  # the first trial has about 2.4 times as many cells
TRIALS = 3  # the last one has the most cells, and takes most of the time
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
    thin = thin_feature(surface)
    cells = finer_cells(surface, cell, thin, TRIAL_CELLS)
    found, _ = tried_cells(surface, cells, mesher, limits)
    if found is not None:
        return f"Use cell = {found:g}."
    guess = float(f"{0.5 * min(thin, cell, *cells):.2g}")
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
    estimate = report.estimated_cell(limits)
    cells = finer_cells(surface, report.cell, FINER * estimate, QUICK_CELLS)
    _, found = tried_cells(surface, cells, mesher, limits)
    if found is not None:
        return f"A mesh with cell = {found:g} is close enough."
    guess = (
        float(f"{min(estimate, *(FINER * tried for tried in cells)):.2g}") if cells else estimate
    )
    if lattice_cells(surface, guess) < MOST_CELLS:
        return f"A mesh with cell = {guess:g} should be close enough."
    return "A finer one would have too many cells; method = 'gmsh' keeps sharp tips and edges."


def tried_cells(
    surface: Surface, cells: Sequence[float], mesher: Mesher, limits: FillTolerances
) -> tuple[float | None, float | None]:
    """Return the first of some cells [m] without faults and the first without faults and doubts;
    None where there is none."""
    sound = None
    for finer in cells:
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


def finer_cells(surface: Surface, cell: float, finest: float, most_cells: float) -> list[float]:
    """Return at most TRIALS smaller cells [m] of two digits, in steps of at least FINER down to
    `finest` [m] or to a lattice of `most_cells`."""
    size = float(np.linalg.norm(np.ptp(surface.points, axis=0)))
    first = min(FINER * cell, 0.1 * size)
    last = min(finest, FINER ** (TRIALS - 1) * first)
    while last < first and lattice_cells(surface, last) >= most_cells:
        last = min(first, last / FINER)
    tried = sorted({float(f"{c:.2g}") for c in np.geomspace(first, last, TRIALS)}, reverse=True)
    return [c for c in tried if lattice_cells(surface, c) < most_cells]


def lattice_cells(surface: Surface, cell: float) -> float:
    """Return the number of tetrahedra of a lattice over the surface."""
    lower, upper = surface.bounds()
    return 12.0 * float(np.prod(np.ceil((upper - lower) / cell) + 2.0))


def thin_feature(surface: Surface) -> float:
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
