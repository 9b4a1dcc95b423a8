"""A budget of distinct materials: the cells of a design are clustered to few printable ones."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array, InputError, is_integer, quoted, require_seed
from pliant.design.design_body import body_model, body_of
from pliant.geometry import Mesh
from pliant.geometry.k_means import k_means
from pliant.materials import Material
from pliant.mpm.particles import Particles
from pliant.problem import Problem, Variable
from pliant.problem.variables import LOG_SCALED, VariableBlock
from pliant.robot import Robot, robot_with
from pliant.robot.parameters import with_fixed_springs

FIELD = "cells."
KEYS = ("E", "nu", "density")


@dataclass(frozen=True, kw_only=True, eq=False)
class MaterialBudget:
    """The material of each cell of the robot's mesh, out of few."""

    labels: Array  # (n_cells,) of the mesh, the index of the material
    entries: Array  # (n,) the same for each cell or particle of the model
    names: tuple[str, ...]


def material_budget(problem: Problem, z: Array, count: int, seed: int) -> MaterialBudget:
    """Return at most `count` materials for the fields of a design z (n,), by k-means of the values
    of the mesh cells, relative to their bounds and weighted by volume.

    Raises InputError if no field is a variable, or if the materials of the robot differ in more
    than these fields.
    """
    if not is_integer(count) or count < 1:
        raise InputError(f"The number of materials is {quoted(count)}; give 1 or more.")
    fields = design_fields(problem)
    if not fields:
        raise InputError(
            "No field of the material is a variable, so there is nothing to cluster; make the "
            "model with design=['cells.E'] and name 'cells.E' as a variable."
        )
    body = body_of(problem.model)
    _common_material(body.materials, [block.name for block in fields])
    owner = body.samples.cells if isinstance(body, Particles) else np.arange(body.mesh.n_cells)
    weights = np.bincount(owner, body.volumes(), body.mesh.n_cells)
    features = np.stack([_feature(block, z) for block in fields], axis=1)
    means = np.stack(
        [np.bincount(owner, body.volumes() * part, body.mesh.n_cells) for part in features.T],
        axis=1,
    )
    filled = weights > 0.0  # a small cell may have no particle
    points = np.round(means[filled] / weights[filled, None], 12)
    chosen = min(int(count), len(np.unique(points, axis=0)))
    labels = np.zeros(body.mesh.n_cells, int)
    labels[filled] = k_means(points, weights[filled], chosen, require_seed(seed))
    labels[~filled] = labels[filled][_nearest_cells(body.mesh, filled)]
    names = tuple(f"material {k + 1}" for k in range(chosen))
    return MaterialBudget(labels=labels, entries=labels[owner], names=names)


def design_fields(problem: Problem) -> list[VariableBlock]:
    """Return the variables that are fields of the material."""
    named = [f"{FIELD}{key}" for key in KEYS]
    return [block for block in problem.layout.blocks if block.name in named]


def _feature(block: VariableBlock, z: Array) -> Array:
    """Return a field (n,) between 0 and 1 at its bounds, or over its range without them."""
    log = block.name.endswith(LOG_SCALED)
    scaled = (lambda v: np.log(v)) if log else (lambda v: v)
    values = scaled(block.value(block.physical(z)))
    with np.errstate(divide="ignore"):
        low, high = (scaled(np.ravel(block.value(end))) for end in (block.lower, block.upper))
    width = np.where(np.isfinite(high - low), high - low, np.ptp(values))
    return np.asarray(values / np.where(width > 0.0, width, 1.0))


def _common_material(materials: Mapping[str, Material], fields: Sequence[str]) -> Material:
    """Return one of the materials by region. Raises InputError if they differ in more than the
    fields, such as "cells.E", because clusters of cells cross regions."""
    first = next(iter(materials.values()))
    common = [one.name for one in dataclasses.fields(first) if f"{FIELD}{one.name}" not in fields]
    for region, other in materials.items():
        for name in common:
            if getattr(other, name) != getattr(first, name):
                remedy = (
                    f"make '{FIELD}{name}' a variable too, or give all regions the same {name}"
                    if name in KEYS
                    else f"give all regions the same {name}"
                )
                raise InputError(
                    f"The materials of the robot differ in {name} (region '{region}'), but the "
                    f"cells of a printable material share everything; {remedy}."
                )
    return first


def _nearest_cells(mesh: Mesh, filled: Array) -> Array:
    """Return the index, among filled cells, of the one nearest to each empty cell."""
    centres = mesh.points[mesh.corners].mean(axis=1)
    found: Array = cKDTree(centres[filled]).query(centres[~filled])[1]
    return found


def budget_problem(problem: Problem, z: Array, budget: MaterialBudget) -> tuple[Problem, Array]:
    """Return the problem with one value of each field for each material, and its first variables:
    those of z (n,), with the mean of each material."""
    p = problem.layout.params(z)
    fields = {block.name: block for block in design_fields(problem)}
    variables: list[str | Variable] = []
    for one in problem.variables:
        name = one.name if isinstance(one, Variable) else one
        block = fields.pop(name, None)
        variables.append(one if block is None else _grouped(one, block, budget.entries))
    if fields:  # named together, such as "cells"
        raise InputError(
            f"The variable '{FIELD[:-1]}' stands for several fields; name each of them, such as "
            f"{', '.join(repr(name) for name in fields)}."
        )
    made = replace(problem, variables=tuple(variables), params=p)
    old = {block.name: block for block in problem.layout.blocks}
    first = made.layout.start.copy()
    for block in made.layout.blocks:
        if block.name not in design_names(made):
            first[block.at] = block.scaled(old[block.name].physical(z))
    return made, first


def design_names(problem: Problem) -> set[str]:
    return {block.name for block in design_fields(problem)}


def _grouped(one: str | Variable, block: VariableBlock, entries: Array) -> Variable:
    """Return a variable with one value for each material, within the bounds of all its cells."""
    given = one if isinstance(one, Variable) else Variable(one)
    lower, upper = np.ravel(block.value(block.lower)), np.ravel(block.value(block.upper))
    groups = range(int(entries.max()) + 1)
    return replace(
        given,
        groups=entries,
        start=None,
        lower=[lower[entries == k].max() for k in groups],
        upper=[upper[entries == k].min() for k in groups],
        scale=given.scale if np.ndim(given.scale or 0) == 0 else None,
    )


def robot_of_budget(problem: Problem, z: Array, budget: MaterialBudget) -> Robot:
    """Return the robot with a region for each material, on its mesh."""
    p = problem.layout.params(z)
    model = body_model(problem.model, p)
    robot, mesh = model.robot, model.body.mesh
    values = problem.model.params.split(p)
    fields = {key: values[f"{FIELD}{key}"] for key in KEYS if f"{FIELD}{key}" in values}
    regions = {name: np.flatnonzero(budget.labels == k) for k, name in enumerate(budget.names)}
    others = {
        name: value
        for name, value in values.items()
        if value.size == 1 and _is_of_robot(name, model.params.blocks)
    }
    # springs that follow Young's modulus keep the stiffness that they had in the design
    made = with_fixed_springs(robot_with(robot, others), model.body)
    base = _common_material(made.materials_by_region(), [f"{FIELD}{key}" for key in fields])
    materials = {
        name: _material(base, fields, budget.entries == k) for k, name in enumerate(budget.names)
    }
    old = {name: cells for name, cells in mesh.regions.items() if name not in regions}
    shape = replace(mesh, regions={**old, **regions})
    return replace(made, shape=shape, material=materials, cell=None, divisions=None, surfaces={})


def _is_of_robot(name: str, blocks: Sequence[Any]) -> bool:
    return not name.startswith(FIELD) and name in [block.name for block in blocks]


def _material(base: Material, fields: Mapping[str, Array], entries: Array) -> Material:
    """Return the material with the values of fields (n,) at some entries, where they are equal."""
    values: dict[str, Any] = {key: float(field[entries][0]) for key, field in fields.items()}
    return replace(base, **values)
