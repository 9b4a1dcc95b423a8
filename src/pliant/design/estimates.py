"""Estimates of a fit: values of the variables with their 95 % intervals and correlations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array
from pliant.design.fit_objective import OFFSET, FitObjective
from pliant.design.uncertainty import Uncertainty, describe_undetermined, uncertainty
from pliant.optimisation import ObjectiveEvaluation, OptimisationRow
from pliant.problem import VariableBlock

AT_BOUND = 1e-9  # of a scaled variable


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """One variable of a fit, with `size` numbers."""

    name: str
    unit: str
    start: Array  # (size,)
    value: Array  # (size,)
    deviation: Array  # (size,) standard deviations; inf where the data say nothing
    interval: Array  # (size, 2) of 95 %, within the bounds of the variable
    iterates: Array  # (k, size) values in the iterations; none for fits with many variables
    log: bool = False  # whether the logarithm of the variable was fitted
    at_bound: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers."""
        size = self.value.size
        return (self.name,) if size == 1 else tuple(f"{self.name}[{k}]" for k in range(size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """All variables of a fit."""

    items: tuple[Estimate, ...]
    correlation: Array | None  # (n, n); None: intervals were not asked for
    undetermined: tuple[str, ...]  # a sentence for each combination
    noise: float | None = None  # deviation of the residuals over the noise that was given

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each row of the correlation."""
        return tuple(name for one in self.items for name in one.names)


def estimates(
    objective: FitObjective,
    z: Array,
    found: ObjectiveEvaluation | None,
    *,
    known_noise: bool,
    history: Sequence[OptimisationRow],
) -> Estimates:
    """Return the estimates at the solution z (n,). `found` has the residuals and the Jacobian
    there; None: without intervals."""
    plain = _with_iterates(_values(objective, z), objective, history)
    if found is None or found.failed:
        return Estimates(items=plain, correlation=None, undetermined=())
    ratio = np.concatenate([_scale_ratio(one, objective) for one in plain])
    jacobian, residuals = np.asarray(found.jacobian) * ratio, np.asarray(found.residuals)
    m = sum(objective.counts)
    prior = jacobian[m:].T @ jacobian[m:] if len(jacobian) > m else None
    spread = uncertainty(
        jacobian[:m],
        residuals[:m],
        size=float(np.linalg.norm([one.size for one in objective.measured])),
        known_noise=known_noise,
        prior=prior,
    )
    items, first = [], 0
    for one in plain:
        items.append(_with_interval(one, spread, first, objective))
        first += one.value.size
    names = tuple(name for one in plain for name in one.names)
    is_log = np.concatenate([np.full(one.value.size, one.log) for one in plain])
    return Estimates(
        items=tuple(items),
        correlation=spread.correlation,
        undetermined=describe_undetermined(spread.undetermined, names, is_log),
        noise=spread.noise if known_noise else None,
    )


def _values(objective: FitObjective, z: Array) -> tuple[Estimate, ...]:
    """Return the estimates without their spread."""
    n, units = objective.n_inner, _units(objective)
    blocks = objective.problem.layout.blocks
    found = [
        _without_spread(one.name, units.get(one.name, ""), one.first, one.physical(z[:n]), one.log)
        for one in blocks
    ]
    for k in objective.timed:
        name = f"{OFFSET}[{objective.measured[k].name}]"
        found.append(_without_spread(name, "s", np.zeros(1), objective.offsets(z)[k : k + 1]))
    lower, upper = objective.bounds
    edge = (z - lower <= AT_BOUND) | (upper - z <= AT_BOUND)
    ends = np.cumsum([one.value.size for one in found])
    return tuple(
        replace(one, at_bound=bool(part.any()))
        for one, part in zip(found, np.split(edge, ends[:-1]), strict=True)
    )


def _without_spread(
    name: str, unit: str, start: Array, value: Array, log: bool = False
) -> Estimate:
    return Estimate(
        name=name,
        unit=unit,
        start=np.array(start),
        value=value,
        deviation=np.full(value.size, np.nan),
        interval=np.full((value.size, 2), np.nan),
        iterates=np.zeros((0, value.size)),
        log=log,
    )


def _with_iterates(
    items: Sequence[Estimate], objective: FitObjective, history: Sequence[OptimisationRow]
) -> tuple[Estimate, ...]:
    """Return the estimates with their values in the iterations."""
    if not all(row.z for row in history):
        return tuple(items)
    named = [objective.named_values(np.array(row.z)) for row in history]
    return tuple(
        replace(one, iterates=np.array([values[one.name] for values in named])) for one in items
    )


def _blocks(objective: FitObjective) -> Mapping[str, VariableBlock]:
    return {block.name: block for block in objective.problem.layout.blocks}


def _units(objective: FitObjective) -> Mapping[str, str]:
    return {block.name: block.unit for block in objective.problem.model.params.blocks}


def _scale(one: Estimate, objective: FitObjective) -> Array:
    """Return the change (size,) of the value for a unit change of its scaled variable."""
    block = _blocks(objective).get(one.name)
    if block is None:
        return np.full(one.value.size, objective.largest_offset)
    return np.ones(one.value.size) if block.log else block.scale


def _relative_scale(one: Estimate, objective: FitObjective) -> Array:
    """Return the change (size,) for a unit change of theta: the size of the value, if that is
    larger than the scale of the variable."""
    scale = _scale(one, objective)
    known = one.name in _units(objective)
    return np.maximum(scale, np.abs(one.value)) if known and not one.log else scale


def _scale_ratio(one: Estimate, objective: FitObjective) -> Array:
    """Return the change (size,) of the scaled variable for a unit change of theta."""
    return _relative_scale(one, objective) / _scale(one, objective)


def _with_interval(
    one: Estimate, spread: Uncertainty, first: int, objective: FitObjective
) -> Estimate:
    at = slice(first, first + one.value.size)
    scale, deviation = _relative_scale(one, objective), spread.deviations[at]
    half = spread.quantile * deviation[:, None] * np.array([-1.0, 1.0])
    if one.log:
        with np.errstate(over="ignore"):
            interval, deviation = one.value[:, None] * np.exp(half), one.value * deviation
    else:
        interval, deviation = one.value[:, None] + half * scale[:, None], scale * deviation
    return replace(one, deviation=deviation, interval=_clipped(one, interval, objective))


def _clipped(one: Estimate, interval: Array, objective: FitObjective) -> Array:
    """Return intervals (size, 2) within the bounds of the variable."""
    block = _blocks(objective).get(one.name)
    if block is None:
        return np.clip(interval, -objective.largest_offset, objective.largest_offset)
    if block.kind == "initial":
        return interval
    return np.clip(interval, block.lower[:, None], block.upper[:, None])
