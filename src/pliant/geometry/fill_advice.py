"""Find a cell size at which a mesh represents the surface that it fills."""

from collections.abc import Callable, Sequence

import numpy as np

from pliant.core import MeshError
from pliant.geometry.fill_report import FillReport, FillTolerances, compare_fill
from pliant.geometry.lattice import MAX_CELLS
from pliant.geometry.mesh import Mesh
from pliant.geometry.surface import Surface

CELL_REDUCTION = 0.75  # the first trial has about 2.4 times as many cells
MAX_TRIALS = 3  # the last one has the most cells, and takes most of the time
MAX_CELLS_AFTER_ERROR = 400_000  # of a trial lattice after an error: a few seconds
MAX_CELLS_AFTER_WARNING = 100_000  # of a trial lattice after a warning: below a second
N_RAYS = 2000  # for the thickness of walls and gaps
THICKNESS_PERCENTILE = 10.0  # that a cell must resolve; a few rays at edges are shorter


Mesher = Callable[[Surface, float], Mesh]


def suggest_valid_cell(
    surface: Surface, cell: float, mesher: Mesher, limits: FillTolerances
) -> str:
    """Return advice with a cell size at which the mesh has no errors.

    The size is tested, or estimated from the thinnest walls and gaps if tests would take too long.
    """
    thin = thin_feature_size(surface)
    cells = finer_cells(surface, cell, thin, MAX_CELLS_AFTER_ERROR)
    found, _ = try_cells(surface, cells, mesher, limits)
    if found is not None:
        return f"Use cell = {found:g}."
    guess = float(f"{0.5 * min(thin, cell, *cells):.2g}")
    if count_lattice_cells(surface, guess) < MAX_CELLS:
        return f"Use cell = {guess:g} or smaller."
    return (
        f"Its walls or gaps of about {thin:.2g} m need a cell of {guess:g} m, which makes too many "
        "cells; make them thicker, or use method = 'gmsh'."
    )


def suggest_accurate_cell(
    surface: Surface, report: FillReport, mesher: Mesher, limits: FillTolerances
) -> str:
    """Return advice with a cell size at which the mesh has no errors and no warnings.

    The size is tested, or estimated from the convergence rate if tests would take too long.
    """
    estimate = report.estimated_cell(limits)
    cells = finer_cells(surface, report.cell, CELL_REDUCTION * estimate, MAX_CELLS_AFTER_WARNING)
    _, found = try_cells(surface, cells, mesher, limits)
    if found is not None:
        return f"A mesh with cell = {found:g} is close enough."
    guess = (
        float(f"{min(estimate, *(CELL_REDUCTION * tried for tried in cells)):.2g}")
        if cells
        else estimate
    )
    if count_lattice_cells(surface, guess) < MAX_CELLS:
        return f"A mesh with cell = {guess:g} should be close enough."
    return "A finer one would have too many cells; method = 'gmsh' keeps sharp tips and edges."


def try_cells(
    surface: Surface, cells: Sequence[float], mesher: Mesher, limits: FillTolerances
) -> tuple[float | None, float | None]:
    """Return the first cell size [m] without errors, and the first without errors and warnings, or
    None."""
    sound = None
    for finer in cells:
        try:
            report = compare_fill(mesher(surface, finer), surface, finer, limits)
        except MeshError:
            continue
        if report.errors(limits):
            continue
        if not report.warnings(limits):
            return finer if sound is None else sound, finer
        sound = sound or finer
    return sound, None


def finer_cells(surface: Surface, cell: float, finest: float, most_cells: float) -> list[float]:
    """Return at most MAX_TRIALS smaller cell sizes [m] with two digits.

    They decrease at least by CELL_REDUCTION, down to `finest` [m] or a lattice of `most_cells`.
    """
    size = float(np.linalg.norm(np.ptp(surface.points, axis=0)))
    first = min(CELL_REDUCTION * cell, 0.1 * size)
    last = min(finest, CELL_REDUCTION ** (MAX_TRIALS - 1) * first)
    while last < first and count_lattice_cells(surface, last) >= most_cells:
        last = min(first, last / CELL_REDUCTION)
    tried = sorted({float(f"{c:.2g}") for c in np.geomspace(first, last, MAX_TRIALS)}, reverse=True)
    return [c for c in tried if count_lattice_cells(surface, c) < most_cells]


def count_lattice_cells(surface: Surface, cell: float) -> float:
    """Return the number of tetrahedra of a lattice over the surface."""
    lower, upper = surface.bounds()
    return 12.0 * float(np.prod(np.ceil((upper - lower) / cell) + 2.0))


def thin_feature_size(surface: Surface) -> float:
    """Return the size [m] of thin walls and gaps.

    It is measured by rays from the surface, inward and outward, to the next intersection.
    """
    corners = surface.points[surface.triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normal, axis=1)
    chosen = np.searchsorted(np.cumsum(area), (np.arange(N_RAYS) + 0.5) / N_RAYS * area.sum())
    chosen = np.minimum(chosen, len(area) - 1)
    start, ray = corners[chosen].mean(axis=1), normal[chosen] / area[chosen, None]
    size = float(np.linalg.norm(np.ptp(surface.points, axis=0)))
    offset = 1e-6 * size * ray
    found = [
        size * surface.first_crossings(start + s * offset, start + s * size * ray) for s in (-1, 1)
    ]
    met = np.concatenate(found)
    return float(np.percentile(met, THICKNESS_PERCENTILE))
