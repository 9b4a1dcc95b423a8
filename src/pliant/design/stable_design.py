"""Substeps that are stable for every design within its bounds."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.actuators.route import split_coordinate
from pliant.core import Array, Dynamics, InputError
from pliant.design.design_body import body_model, with_body_model
from pliant.design.shape_maps import PREFIX
from pliant.design.shape_model import ShapeModel
from pliant.materials import moduli
from pliant.mpm import MaterialPoint
from pliant.problem import Problem, Variable
from pliant.problem.variables import VariableBlock

FASTER_IF_SMALLER = (".density", ".volume")  # less mass is faster; of others, more is
NEED_BOUNDS = (".E", ".density", ".volume", ".stiffness", ".bulk")
NU = ".nu"  # its natural bounds, -1 and 0.5, make waves infinitely fast
COSTLY_RATIO = 5.0  # substeps within the bounds over those of the start, above which to warn


def with_stable_substeps(problem: Problem) -> Problem:
    """Return the problem with enough substeps for every design within the bounds of its variables.

    Only models of particles have substeps; other problems are returned as they are. Raises
    InputError if a bound that limits the speed of waves is missing.
    """
    models = [problem.model, *(one.model for one in problem.scenes if one.model is not None)]
    if all(_stepped_model(model) is None for model in models):
        return problem
    p = fastest_design(problem)
    scenes = tuple(
        one if one.model is None else replace(one, model=_stable_model(one.model, p))
        for one in problem.scenes
    )
    return replace(problem, model=_stable_model(problem.model, p), scenes=scenes)


def _stable_model(model: Dynamics, p: Array) -> Dynamics:
    """Return the model with enough substeps for parameters p (n_params,)."""
    target = _stepped_model(model)
    if target is None:
        return model
    body: Any = body_model(model)
    # the parameters of the body follow those of a controller
    needed = target.stable_substeps(p[len(p) - target.params.size :])
    if needed <= body.substeps:
        return model
    if needed > COSTLY_RATIO * body.substeps:
        warnings.warn(
            f"The bounds of the design allow such fast waves that a step takes {needed} substeps, "
            f"in place of {body.substeps} for the first design. Give tighter upper bounds to E and "
            "nu, or a larger lower bound to the density."
        )
    return with_body_model(model, _with_substeps(target, needed))


def fastest_design(problem: Problem) -> Array:
    """Return the parameters (n_params,) within the bounds for which waves are fastest."""
    p = problem.parameter_values.copy()
    for block in problem.layout.blocks:
        if block.kind == "params":
            p[block.target] = block.value(_fastest_values(problem, block))
    return p


def _fastest_values(problem: Problem, block: VariableBlock) -> Array:
    if split_coordinate(block.name) is not None:
        # Waves do not depend on the route of a cable. At their bounds its points would meet, or be
        # outside a body that is not a box. A step checks the frequency of a cable that has moved.
        return block.first
    if block.name.endswith(NU):
        for side in ("lower", "upper"):
            if _is_left_out(problem, block.name, side):
                raise _missing_bound(block.name, side)
        low, high = block.lower, block.upper
        # the modulus of pressure waves is a convex function of nu, so it is largest at an end
        return np.where(_wave_modulus(low) > _wave_modulus(high), low, high)
    # a smaller shape has less mass too
    small = block.name.endswith(FASTER_IF_SMALLER) or block.name.startswith(PREFIX)
    end = block.lower if small else block.upper
    missing = ~np.isfinite(end) | (block.name.endswith(FASTER_IF_SMALLER) & (end <= 0.0))
    if missing.any() and block.name.endswith(NEED_BOUNDS):
        raise _missing_bound(block.name, "lower" if small else "upper")
    return np.where(missing, block.first, end)


def _is_left_out(problem: Problem, name: str, side: str) -> bool:
    """Return whether the variable of a parameter has no bound of its own on a side."""
    given = [one for one in problem.variables if isinstance(one, Variable)]
    named = [one for one in given if name == one.name or name.startswith(one.name + ".")]
    return all(getattr(one, side) is None for one in named)


def _missing_bound(name: str, side: str) -> InputError:
    return InputError(
        f"The variable '{name}' has no {side} bound, so no time step is stable for every design. "
        f"Give it as pl.problem.Variable('{name}', {side}=...)."
    )


def _wave_modulus(nu: Array) -> Array:
    """Return (lambda + 2 mu) / E for Poisson's ratios (n,)."""
    m = moduli(1.0, nu, 0)
    return np.asarray(m[:, 1] + 2.0 * m[:, 0])


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
