"""Problem: a model, a number of steps, an objective, limits and constraints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import Array, Dynamics, InputError, counted, finite_array, require_kind
from pliant.problem.constraints import ConstraintRow, ConstraintTerm
from pliant.problem.limits import (
    ControlBound,
    Limit,
    check_compatible_bounds,
    check_control_in_bounds,
)
from pliant.problem.observations import (
    ControlCost,
    Observation,
    QuadraticLoss,
    apply_stencil,
    check_not_nan,
)
from pliant.problem.terms import Effort, Goal, Path, Term


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """An optimal control problem.

    Minimise the sum of the terms over the controls u_0 ... u_{steps-1}, subject to x_{k+1} =
    model.step(x_k, u_k), the limits and the constraints.

    Parameters
    ----------
    model : any Dynamics, such as ImplicitEuler(robot, dt=...)
    steps : number of time steps
    terms : objective terms, such as [Goal(...), Effort(...)]
    x0 : initial state (n_state,); None for the model's
    previous_control : control before the first step (n_controls,); None for the neutral control
    limits : bounds in addition to the limits of the actuators, which always hold
    constraints : constraints on effectors and actuators
    params : parameters of the model (n_params,); None for those of the robot

    Raises InputError if the parts do not fit together.

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> goal = pl.Goal(effector="tip", target=(0.1, 0.0), time=0.5)
    >>> pl.Problem(model=pl.ImplicitEuler(robot, dt=0.1), steps=5, terms=[goal])
    Problem(ImplicitEuler, 5 steps, 2 controls, terms: Goal)
    """

    model: Dynamics
    steps: int
    terms: Sequence[Term]
    x0: ArrayLike | None = None
    previous_control: Any = None  # an array (n_controls,) after construction
    limits: Sequence[Limit] = ()
    constraints: Sequence[ConstraintTerm] = ()
    params: ArrayLike | None = None

    def __post_init__(self) -> None:
        require_kind(
            "The model of a problem",
            self.model,
            Dynamics,
            "make one with ImplicitEuler(robot, dt=...) or another rule",
        )
        for what, parts, kind in (
            ("terms", self.terms, Term),
            ("limits", self.limits, Limit),
            ("constraints", self.constraints, ConstraintTerm),
        ):
            require_kind(f"The {what} of a problem", parts, (list, tuple), "give a list")
            for part in parts:
                require_kind(
                    f"One of the {what} of a problem",
                    part,
                    kind,
                    f"give the {what} that pliant.problem offers",
                )
                if kind is Term and isinstance(part, Limit):
                    raise InputError(
                        "One of the terms is a Limit, which has no cost; give it as limits=[...]."
                    )
                if kind is Term and isinstance(part, ConstraintTerm):
                    raise InputError(
                        f"One of the terms is {part.label}, which has no cost; give it as "
                        "constraints=[...]."
                    )
        check_steps(self.steps)
        self.model.params.split(self.params)  # type: ignore[arg-type]  # raises on bad ones
        if not self.model.n_controls:
            raise InputError(
                "The model has no controls, so there is nothing to plan; add actuators to the "
                "robot."
            )
        if not self.observations and not self.control_costs and not self.constraint_rows:
            raise InputError(
                "The problem has no terms; give an objective, such as Goal(effector=..., "
                "target=..., time=...)."
            )
        self.initial_state  # noqa: B018  # raises InputError now rather than in a planner
        object.__setattr__(self, "previous_control", self._checked_previous_control())
        self.constraint_rows  # noqa: B018

    def __repr__(self) -> str:
        parts = [
            type(self.model).__name__,
            counted(self.steps, "step"),
            counted(self.model.n_controls, "control"),
        ]
        for name in ("terms", "limits", "constraints"):
            if kinds := dict.fromkeys(type(part).__name__ for part in getattr(self, name)):
                parts.append(f"{name}: {', '.join(kinds)}")
        return f"Problem({', '.join(parts)})"

    @cached_property
    def initial_state(self) -> Array:
        """Initial state (n_state,)."""
        return (
            self.model.initial_state()
            if self.x0 is None
            else finite_array("The first state", self.x0, (self.model.space.size,))
        )

    def _checked_previous_control(self) -> Array:
        u = (
            self.model.neutral_controls()
            if self.previous_control is None
            else self.previous_control
        )
        return check_control_in_bounds("The control before the first step", u, self.control_bounds)

    @cached_property
    def control_bounds(self) -> tuple[ControlBound, ...]:
        """All bounds on the controls, first the limits of the actuators."""
        lower, upper = self.model.control_limits()
        bounds = tuple(
            limit.attach(self.model) for limit in (Limit(lower=lower, upper=upper), *self.limits)
        )
        for order in (0, 1, 2):
            check_compatible_bounds([bound for bound in bounds if bound.order == order], order)
        return bounds

    @cached_property
    def _attached(self) -> tuple[Observation | ControlCost, ...]:
        return tuple(part for term in self.terms for part in term.attach(self.model, self.steps))

    @cached_property
    def observations(self) -> tuple[Observation, ...]:
        """Terms that depend on the states, in order of their steps."""
        return tuple(
            sorted(
                (part for part in self._attached if isinstance(part, Observation)),
                key=lambda observation: observation.step,
            )
        )

    @cached_property
    def control_costs(self) -> tuple[ControlCost, ...]:
        """Terms that depend on the controls alone."""
        return tuple(part for part in self._attached if isinstance(part, ControlCost))

    @cached_property
    def constraint_rows(self) -> tuple[ConstraintRow, ...]:
        """The constraints at each step."""
        return tuple(
            row
            for constraint in self.constraints
            for row in constraint.attach(self.model, self.steps)
        )

    @property
    def n_variables(self) -> int:
        """Number of unknown controls."""
        return self.steps * self.model.n_controls

    def guess(self) -> Array:
        """Return the default guess (steps, n_controls): a constant control."""
        return np.tile(self.previous_control, (self.steps, 1))

    def observe(self, states: Array, controls: Array) -> list[Array]:
        """Return the value y (m,) of each observation."""
        return [
            observation.evaluate(states, controls, self.previous_control)
            for observation in self.observations
        ]

    def value(self, states: Array, controls: Array) -> float:
        """Return the objective for states (steps + 1, n_state), controls (steps, n_controls)."""
        values = self.observe(states, controls)
        total = sum(
            observation.loss.value(y)
            for observation, y in zip(self.observations, values, strict=True)
        )
        return float(
            total + sum(cost.value(controls, self.previous_control) for cost in self.control_costs)
        )

    def limit_violation(self, controls: Array) -> float:
        """Return the largest violation of a control bound, relative to its width (0: none)."""
        worst = 0.0
        for bound in self.control_bounds:
            r = apply_stencil(bound.stencil, controls, self.previous_control)
            ends = [
                np.where(np.isfinite(side), np.abs(side), 0.0)
                for side in (bound.lower, bound.upper)
            ]
            width = np.where(
                np.isfinite(bound.upper - bound.lower),
                np.maximum(bound.upper - bound.lower, np.maximum(*ends)),
                1.0,
            )
            width = np.where(width > 0.0, width, 1.0)  # fixed at zero
            worst = max(
                worst,
                float((np.maximum(bound.lower - r, r - bound.upper) / width).max(initial=0.0)),
            )
        return worst

    def constraint_violation(self, states: Array, controls: Array) -> float:
        """Return the largest distance of a constraint from its set (0: none)."""
        values = [
            row.observation.evaluate(states, controls, self.previous_control)
            for row in self.constraint_rows
        ]
        return max(
            (row.violation(y) for row, y in zip(self.constraint_rows, values, strict=True)),
            default=0.0,
        )

    def check_not_nan(self, states: Array, controls: Array) -> None:
        """Raise InputError if a residual or a constraint of a run is NaN."""
        for observation, y in zip(self.observations, self.observe(states, controls), strict=True):
            check_not_nan(f"The residual of '{observation.name}'", observation.loss.value(y), y)
        for row in self.constraint_rows:
            y = row.observation.evaluate(states, controls, self.previous_control)
            check_not_nan(f"The constraint on '{row.observation.name}'", row.function(y), y)

    def goal_errors(self, states: Array, controls: Array) -> list[tuple[str, float, float]]:
        """Return (effector, time [s], distance [m]) of every position goal."""
        values = zip(self.observations, self.observe(states, controls), strict=True)
        return [
            (
                observation.name,
                observation.step * self.model.dt,
                float(np.linalg.norm(y - observation.loss.target)),
            )
            for observation, y in values
            if isinstance(observation.loss, QuadraticLoss)
            and observation.unit == "m"
            and observation.loss.weight > 0.0
        ]

    def with_observations(self, extra: Sequence[Observation]) -> "Problem":
        """Return the problem with more observations and without constraints."""
        terms = (*self.terms, ObservationTerm(observations=tuple(extra)))
        return replace(self, terms=terms, constraints=())


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservationTerm:
    """A term made of observations that are attached already."""

    observations: tuple[Observation, ...]

    def attach(self, model: Dynamics, steps: int) -> tuple[Observation, ...]:
        return self.observations


def tracking_terms(
    effector: str, path: Path, *, effort: float = 1e-3, order: int = 0, weight: float = 1.0
) -> list[Term]:
    """Return the terms for following a path with an effector.

    `path` is a function of time [s] that returns a position (dim,) [m]. `effort` is the weight
    of the control's derivative of the given order, `weight` that of the tracking error.
    """
    return [Goal(effector=effector, target=path, weight=weight), Effort(weight=effort, order=order)]
