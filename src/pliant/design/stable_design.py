"""Substeps that are stable for every design within its bounds."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError
from pliant.design.design_body import body_model, with_body_model
from pliant.design.shape_model import ShapeModel
from pliant.mpm import MaterialPoint
from pliant.problem import Problem

SLOWER_IF_SMALLER = (".density", ".volume")  # less mass makes waves faster; more of others does
NEED_BOUNDS = (".E", ".density", ".volume", ".stiffness")
COSTLY_RATIO = 5.0  # substeps within the bounds over those of the start, above which to warn


def with_stable_substeps(problem: Problem) -> Problem:
    """Return the problem with enough substeps for every design within the bounds of its variables.

    Only models of particles have substeps; other problems are returned as they are. Raises
    InputError if a bound that limits the speed of waves is missing.
    """
    target = _stepped_model(problem.model)
    if target is None:
        return problem
    p = fastest_design(problem)
    body: Any = body_model(problem.model, p)
    # the parameters of the body follow those of a controller, and precede those of its shape
    first = len(p) - target.params.size
    needed = body.stable_substeps(p[first : first + body.params.size])
    if needed <= body.substeps:
        return problem
    if needed > COSTLY_RATIO * body.substeps:
        warnings.warn(
            f"The bounds of the design allow such fast waves that a step takes {needed} substeps, "
            f"in place of {body.substeps} for the first design. Give tighter upper bounds to E and "
            "nu, or a larger lower bound to the density."
        )
    return replace(problem, model=with_body_model(problem.model, _with_substeps(target, needed)))


def fastest_design(problem: Problem) -> Array:
    """Return the parameters (n_params,) within the bounds for which waves are fastest."""
    p = problem.parameter_values.copy()
    for block in problem.layout.blocks:
        if block.kind != "params":
            continue
        small = block.name.endswith(SLOWER_IF_SMALLER)
        end = block.lower if small else block.upper
        missing = ~np.isfinite(end) | (small & (end <= 0.0))
        if missing.any() and block.name.endswith(NEED_BOUNDS):
            raise InputError(
                f"The variable '{block.name}' has no {'lower' if small else 'upper'} bound, so no "
                "time step is stable for every design. Give it as pl.problem.Variable("
                f"'{block.name}', {'lower' if small else 'upper'}=...)."
            )
        p[block.target] = block.value(np.where(missing, block.first, end))
    return p


def _stepped_model(model: Dynamics) -> MaterialPoint | ShapeModel | None:
    """Return the model of particles inside a model, or None."""
    inner: Any = model
    while not isinstance(inner, MaterialPoint | ShapeModel):
        inner = getattr(inner, "model", None)
        if not isinstance(inner, Dynamics):
            return None
    return inner if isinstance(inner, MaterialPoint) or inner.kind is MaterialPoint else None


def _with_substeps(target: MaterialPoint | ShapeModel, count: int) -> Dynamics:
    if isinstance(target, MaterialPoint):
        return replace(target, substeps=count)
    return replace(target, options={**target.options, "substeps": count})
