"""The controls of inverse control: how far and how fast each may go, and which stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pliant.actuators import AttachedCable
from pliant.core import Array, InputError, finite_array, nearest, require_kind, require_number
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.semi_implicit import Linearised
from pliant.problem import Band, Limit
from pliant.problem.constraints import check_together
from pliant.robot import Robot

SLACK = "(slack: a cable can only pull)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Controls:
    """All controls of a model."""

    names: tuple[str, ...]  # (n_controls,) the actuator of each
    neutral: Array  # (n_controls,) those that do nothing
    bands: tuple[Band, ...]  # limits, and limits of rates
    held: Mapping[int, float]  # control -> value of those that stay
    pulls: Array  # (n_controls,) bool: is it the tension of a cable, which cannot push?
    dt: float  # [s] of a tick

    @cached_property
    def chosen(self) -> Array:
        """(n,) the controls that may move."""
        return np.array([j for j in range(len(self.names)) if j not in self.held], int)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        return self._narrowest(0)

    @cached_property
    def _rates(self) -> tuple[Array, Array]:
        return self._narrowest(1)

    def _narrowest(self, order: int) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) of all limits of an order."""
        own, none = (
            [band for band in self.bands if band.order == order],
            np.full(len(self.names), np.inf),
        )
        return np.max([-none, *(band.lower for band in own)], axis=0), np.min(
            [none, *(band.upper for band in own)], axis=0
        )

    def within(self, u: Array) -> Array:
        """(n_controls,) u within the limits, and held where it is to stay."""
        u = np.clip(u, *self._limits)
        u[list(self.held)] = list(self.held.values())
        return u

    def room(self, u: Array) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) what each control may change by in a tick from u."""
        (lower, upper), (slow, fast) = self._limits, self._rates
        return np.maximum(lower - u, slow * self.dt), np.minimum(upper - u, fast * self.dt)

    def at_limit(self, j: int, u: Array) -> str:
        """The actuator of control j, and the limit that it is at for controls u (n_controls,)."""
        (lower, upper), name = (side[j] for side in self._limits), self.names[j]
        # The tolerance with which the quadratic program (program.py) takes a limit as active.
        near = 1e-6 * max(abs(u[j]), min(upper - lower, 1.0))
        if u[j] <= lower + near:
            slack = self.pulls[j] and lower == 0.0
            return f"{name} {SLACK if slack else f'(at its lower limit {lower:g})'}"
        return f"{name} (at its upper limit {upper:g})" if u[j] >= upper - near else name

    @property
    def one_way(self) -> bool:
        """Whether a rate lets some control that may move go one way only."""
        slow, fast = self._rates
        return bool(np.any(((slow == 0.0) != (fast == 0.0))[self.chosen]))

    def hurried(self, before: Array, after: Array) -> Array:
        """(n_controls,) bool: which of them only their rate kept from going further in a tick."""
        (lower, upper), (slow, fast) = self._limits, self._rates
        way, near = after - before, 1.0 - 1e-6
        up = (fast > 0.0) & (way >= near * fast * self.dt) & (after < upper)
        return up | ((slow < 0.0) & (way <= near * slow * self.dt) & (after > lower))


def controls(
    model: Implicit | Linearised, limits: Sequence[Limit], fixed: Mapping[str, ArrayLike]
) -> Controls:
    """The controls of a model with limits beside what the motors can do, and actuators that stay at
    a value; or a sentence."""
    robot = model.robot
    names = tuple(
        name for name, actuator in robot.actuators.items() for _ in range(actuator.n_controls)
    )
    found = Controls(
        names=names,
        neutral=model.neutral_controls(),
        bands=_bands(model, limits),
        held=_held(robot, fixed),
        pulls=_pulls(model),
        dt=model.dt,
    )
    if not found.chosen.size:
        raise InputError(
            f"{robot.name} has no actuator that may move; add one, or leave one out of fixed=... ."
        )
    return found


def _pulls(model: Implicit | Linearised) -> Array:
    """(n_controls,) bool: which controls are tensions of cables."""
    out = np.zeros(model.n_controls, bool)
    for term, part in model.equations.terms:
        if isinstance(term, AttachedCable) and term.drive == "tension":
            out[part] = True
    return out


def _bands(model: Implicit | Linearised, limits: Sequence[Limit]) -> tuple[Band, ...]:
    """The limits, what the motors can do first; a cable does not push, whatever its lower limit."""
    require_kind("The limits of inverse control", limits, (list, tuple), "give a list")
    for limit in limits:
        require_kind(
            "One of the limits",
            limit,
            Limit,
            "give Limit(lower=..., upper=...), or order=1 for rates",
        )
    lower, upper = model.control_limits()
    for term, part in model.equations.terms:
        if isinstance(term, AttachedCable):
            lower[part] = np.maximum(lower[part], 0.0)
    bands = (
        Band(stencil=np.ones(1), lower=lower, upper=upper, order=0),
        *(limit.on(model) for limit in limits),
    )
    for order in (0, 1):
        check_together([band for band in bands if band.order == order], order)
    for band in bands:
        if band.order == 2:
            raise InputError(
                "Inverse control looks one tick ahead, from where a bound on the acceleration of "
                "a control cannot be kept; bound its rate (order=1), or plan the motion."
            )
        if band.order == 1 and not np.all((band.lower <= 0.0) & (band.upper >= 0.0)):
            raise InputError(
                "A limit on a rate does not let its control stand still; let it include zero."
            )
    return bands


def _held(robot: Robot, fixed: Mapping[str, ArrayLike]) -> dict[int, float]:
    """Control -> value of the actuators that stay."""
    require_kind(
        "What is fixed", fixed, Mapping, "give a dict from the actuator's name to its control"
    )
    out: dict[int, float] = {}
    lower, upper = robot.control_limits()
    starts = dict(
        zip(
            robot.actuators,
            np.cumsum([0, *(a.n_controls for a in robot.actuators.values())]),
            strict=False,
        )
    )
    for name, value in fixed.items():
        if name not in robot.actuators:
            raise InputError(
                f"{robot.name} has no actuator '{name}' to fix; {nearest(name, robot.actuators)}"
            )
        n, what = robot.actuators[name].n_controls, f"The fixed control of '{name}'"
        values = finite_array(
            what,
            np.full(n, require_number(what, value, "")) if np.ndim(value) == 0 else value,
            (n,),
        )
        for j, v in enumerate(values, start=int(starts[name])):
            if not lower[j] <= v <= upper[j]:
                raise InputError(
                    f"{what} is {v:g}, outside its limits {lower[j]:g} to {upper[j]:g}; give one "
                    "within them."
                )
            out[j] = float(v)
    return out
