"""The range and the rate of each control, and the controls that are fixed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pliant.actuators import AttachedCable
from pliant.core import (
    Array,
    EquilibriumModel,
    InputError,
    LinearizedStepModel,
    finite_array,
    nearest,
    require_kind,
    require_number,
)
from pliant.planners.inverse_control.tolerances import Tolerances
from pliant.problem import ControlBound, Limit
from pliant.problem.limits import check_compatible_bounds
from pliant.robot import Robot

SLACK = "(slack: a cable can only pull)"


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlRanges:
    """The ranges and rates of all controls of a model."""

    names: tuple[str, ...]  # (n_controls,) the actuator of each
    neutral: Array  # (n_controls,) controls without effect
    bounds: tuple[ControlBound, ...]  # on values (order 0) and rates (order 1)
    fixed: Mapping[int, float]  # control -> its fixed value
    is_tension: Array  # (n_controls,) bool: whether it is the tension of a cable
    dt: float  # [s] the control period
    tolerances: Tolerances

    @cached_property
    def free_controls(self) -> Array:
        """(n,) the indices of the controls that are not fixed."""
        return np.array([j for j in range(len(self.names)) if j not in self.fixed], int)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        return self._tightest(0)

    @cached_property
    def _rates(self) -> tuple[Array, Array]:
        return self._tightest(1)

    def _tightest(self, order: int) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) the tightest bounds of an order."""
        bounds = [bound for bound in self.bounds if bound.order == order]
        none = np.full(len(self.names), np.inf)
        lower = np.max([-none, *(bound.lower for bound in bounds)], axis=0)
        return lower, np.min([none, *(bound.upper for bound in bounds)], axis=0)

    def clip(self, u: Array) -> Array:
        """(n_controls,) u within the limits, with the fixed values."""
        u = np.clip(u, *self._limits)
        u[list(self.fixed)] = list(self.fixed.values())
        return u

    def add_change(self, u: Array, change: Array) -> Array:
        """(n_controls,) u + change within the limits; at a limit, if only the rounding of the sum
        separates it from the limit."""
        new = u + change
        rounding = 8.0 * np.finfo(float).eps * (np.abs(u) + np.abs(change))
        for limit in self._limits:
            new = np.where(np.abs(new - limit) <= rounding, limit, new)
        return self.clip(new)

    def step_bounds(self, u: Array) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) the bounds on the change of u in a control step."""
        (lower, upper), (slow, fast) = self._limits, self._rates
        return np.maximum(lower - u, slow * self.dt), np.minimum(upper - u, fast * self.dt)

    def describe(self, j: int, u: Array) -> str:
        """Return the actuator of control j, with its limit if u (n_controls,) is at one."""
        (lower, upper), name = (side[j] for side in self._limits), self.names[j]
        near = self.tolerances.active_bound * max(abs(u[j]), min(upper - lower, 1.0))
        if u[j] <= lower + near:
            slack = self.is_tension[j] and lower == 0.0
            return f"{name} {SLACK if slack else f'(at its lower limit {lower:g})'}"
        return f"{name} (at its upper limit {upper:g})" if u[j] >= upper - near else name

    @property
    def irreversible(self) -> bool:
        """Whether a rate lets some free control change in one direction only."""
        slow, fast = self._rates
        return bool(np.any(((slow == 0.0) != (fast == 0.0))[self.free_controls]))

    def limited_by_rate(self, before: Array, after: Array) -> Array:
        """(n_controls,) bool: which controls only their rate stopped in a control step."""
        (lower, upper), (slow, fast) = self._limits, self._rates
        change, most = after - before, (1.0 - self.tolerances.active_bound) * self.dt
        up = (fast > 0.0) & (change >= most * fast) & (after < upper)
        return up | ((slow < 0.0) & (change <= most * slow) & (after > lower))


def control_ranges(
    model: EquilibriumModel | LinearizedStepModel,
    limits: Sequence[Limit],
    fixed: Mapping[str, ArrayLike],
    tolerances: Tolerances,
) -> ControlRanges:
    """Return the ranges of a model with further limits and fixed actuators. Raises InputError if
    they contradict each other or fix every control."""
    robot = model.robot
    is_cable, is_tension = np.zeros((2, model.n_controls), bool)
    for term, part in model.potentials:
        if isinstance(term, AttachedCable):
            is_cable[part], is_tension[part] = True, term.drive == "tension"
    ranges = ControlRanges(
        names=tuple(name for name, a in robot.actuators.items() for _ in range(a.n_controls)),
        neutral=model.neutral_controls(),
        bounds=_bounds(model, limits, is_cable),
        fixed=_fixed(robot, fixed),
        is_tension=is_tension,
        dt=model.dt,
        tolerances=tolerances,
    )
    if not ranges.free_controls.size:
        raise InputError(
            f"{robot.name} has no actuator that may move; add one, or remove one from fixed=... ."
        )
    return ranges


def _bounds(
    model: EquilibriumModel | LinearizedStepModel, limits: Sequence[Limit], is_cable: Array
) -> tuple[ControlBound, ...]:
    """The limits of the actuators, then the given ones; a cable does not push."""
    require_kind("The limits of inverse control", limits, (list, tuple), "give a list")
    for limit in limits:
        require_kind(
            "One of the limits",
            limit,
            Limit,
            "give Limit(lower=..., upper=...), or order=1 for rates",
        )
    lower, upper = model.control_limits()
    lower = np.where(is_cable, np.maximum(lower, 0.0), lower)
    bounds = (
        ControlBound(stencil=np.ones(1), lower=lower, upper=upper, order=0),
        *(limit.attach(model) for limit in limits),
    )
    for order in (0, 1):
        check_compatible_bounds([bound for bound in bounds if bound.order == order], order)
    for bound in bounds:
        if bound.order == 2:
            raise InputError(
                "Inverse control looks one control step ahead and cannot bound the acceleration "
                "of a control; bound its rate (order=1), or plan the motion."
            )
        if bound.order == 1 and not np.all((bound.lower <= 0.0) & (bound.upper >= 0.0)):
            raise InputError(
                "A limit on a rate does not let its control stand still; let it include zero."
            )
    return bounds


def _fixed(robot: Robot, fixed: Mapping[str, ArrayLike]) -> dict[int, float]:
    """Control -> value of the fixed actuators."""
    require_kind(
        "The argument fixed", fixed, Mapping, "give a dict from the actuator's name to its control"
    )
    out: dict[int, float] = {}
    lower, upper = robot.control_limits()
    counts = {name: actuator.n_controls for name, actuator in robot.actuators.items()}
    starts = dict(zip(counts, np.cumsum([0, *counts.values()]), strict=False))
    for name, value in fixed.items():
        if name not in counts:
            raise InputError(
                f"{robot.name} has no actuator '{name}' to fix; {nearest(name, robot.actuators)}"
            )
        n, what = counts[name], f"The fixed control of '{name}'"
        if np.ndim(value) == 0:
            value = np.full(n, require_number(what, value, ""))
        for j, v in enumerate(finite_array(what, value, (n,)), start=int(starts[name])):
            if not lower[j] <= v <= upper[j]:
                raise InputError(
                    f"{what} is {v:g}, outside its limits {lower[j]:g} to {upper[j]:g}; give one "
                    "within them."
                )
            out[j] = float(v)
    return out
