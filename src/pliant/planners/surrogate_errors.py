"""Errors of a surrogate at its corners, between its levels and at single points."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pliant.core import Array, Refinable, StepError
from pliant.surrogate import Grid, Sample, Surrogate
from pliant.surrogate.sample import evaluate

# The interpolation has order 4. Outside this range of observed orders, extrapolation is unreliable.
PLAUSIBLE_ORDERS = (3.0, 5.0)


def relative_error(found: Array, exact: Array) -> float:
    """Return |found - exact| / |exact|."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def largest_known(values: Array) -> float | None:
    """Return the largest of values (n,) that are not NaN, or None if all are."""
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else None


def surrogate_error(surrogate: Surrogate, sample: Sample) -> float:
    """Return |f~ - f| / |f| at a sample. The interpolated quantities begin with the values of
    f."""
    return relative_error(surrogate(sample.point)[0][: sample.value.size], sample.value)


def holdout_error(model: Refinable, x: Array) -> float:
    """Return the error of the surrogate where a step from the state x (n_state,) starts to use it.

    Raises StepError if the exact map has no value there."""
    corners, point = model.surrogate.corners, model.query_point(x)
    sample = evaluate(corners.f, point, corners.nearest(point))
    if sample.failed:
        raise StepError(sample.failed)
    return surrogate_error(model.surrogate, sample)


def surpluses(coarse: Refinable, fine: Refinable) -> tuple[tuple[Array, float], ...]:
    """Return the surplus at the new corners of the fine surrogate inside the coarse one's cells."""
    grid = coarse.surrogate
    covered = [s for s in fine.surrogate.new_samples() if grid.covers(s.point)]
    return tuple((s.point, surrogate_error(grid, s)) for s in covered)


def richardson(models: Sequence[Refinable], states: Array) -> tuple[float | None, float | None]:
    """Return the observed order and the extrapolated error of the finest level along a motion
    (steps + 1, n_state).

    They need the last three levels, all of them grids; otherwise both are None.
    """
    grids = [model.surrogate for model in models[-3:]]
    points = [models[-1].query_point(x) for x in states]
    known = [a for a in points if all(grid.covers(a) for grid in grids)]
    if len(grids) < 3 or not known or not all(isinstance(grid, Grid) for grid in grids):
        return None, None
    width = next(s.value.size for s in grids[-1].corners.samples.values() if not s.failed)
    found = [np.array([grid(a)[0][:width] for a in known]) for grid in grids]
    coarse, fine = (float(np.linalg.norm(b - a)) for a, b in pairwise(found))
    if not (coarse > 0.0 and fine > 0.0):
        return None, None
    order = float(np.log2(coarse / fine))
    if not PLAUSIBLE_ORDERS[0] <= order <= PLAUSIBLE_ORDERS[1]:
        return order, None
    return order, fine / (2.0**order - 1.0) / float(np.linalg.norm(found[-1]))
