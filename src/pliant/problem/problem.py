"""Problem: a model, a horizon and what is wanted of it. A planner turns it into a Plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, finite_array, require_kind
from pliant.dynamics.checks import check_steps
from pliant.problem.constraints import (
    Band,
    Constrains,
    Limit,
    Watch,
    check_together,
    checked_control,
)
from pliant.problem.looks import Look, Quadratic, Smooth, check_not_nan, stencilled
from pliant.problem.terms import Effort, Goal, Path, Term


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """min over controls u_0 ... u_{steps-1} of the sum of the terms, where x_{k+1} =
    model.step(x_k, u_k), within limits."""

    model: Dynamics
    steps: int
    terms: Sequence[Term]
    x0: ArrayLike | None = None  # (n_state,); None: the model's initial state
    before: ArrayLike | None = (
        # (n_controls,) the control that stood before the first step; None: the model's neutral one
        None
    )
    limits: Sequence[Limit] = ()  # beside what the motors can do, which always holds
    constraints: Sequence[Constrains] = ()
    params: ArrayLike | None = None  # (n_params,); None: as described

    def __post_init__(self) -> None:
        require_kind(
            "The model of a problem",
            self.model,
            Dynamics,
            "make one with ImplicitEuler(robot, dt=...) or another rule",
        )
        for what, things, kind in (
            ("terms", self.terms, Term),
            ("limits", self.limits, Limit),
            ("constraints", self.constraints, Constrains),
        ):
            require_kind(f"The {what} of a problem", things, (list, tuple), "give a list")
            for thing in things:
                require_kind(
                    f"One of the {what} of a problem",
                    thing,
                    kind,
                    f"give the {what} that pliant.problem offers",
                )
                if kind is Term and isinstance(thing, Constrains):
                    raise InputError(
                        f"One of the terms is {thing.label}, which has no price; give it as "
                        "constraints=[...]."
                    )
        check_steps(self.steps)
        self.model.params.split(self.params)  # type: ignore[arg-type]  # raises on bad ones
        if not self.model.n_controls:
            raise InputError(
                "The model has no controls, so there is nothing to plan; add actuators to the "
                "robot."
            )
        if not self.looks and not self.smooths and not self.watches:
            raise InputError(
                "The problem has no terms; say what is wanted, such as Goal(effector=..., "
                "target=..., time=...)."
            )
        for part in ("start", "first_control", "bands", "watches"):
            getattr(self, part)  # what is wrong with them is a sentence now

    @cached_property
    def start(self) -> Array:
        """(n_state,) the first state."""
        return (
            self.model.initial_state()
            if self.x0 is None
            else finite_array("The first state", self.x0, (self.model.space.size,))
        )

    @cached_property
    def first_control(self) -> Array:
        """(n_controls,) the control that stood before the first step."""
        u = self.model.neutral_controls() if self.before is None else self.before
        return checked_control("The control before the first step", u, self.bands)

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """The limits, what the motors can do first."""
        lower, upper = self.model.control_limits()
        bands = tuple(
            limit.on(self.model) for limit in (Limit(lower=lower, upper=upper), *self.limits)
        )
        for order in (0, 1, 2):
            check_together([band for band in bands if band.order == order], order)
        return bands

    @cached_property
    def _attached(self) -> tuple[Look | Smooth, ...]:
        return tuple(part for term in self.terms for part in term.on(self.model, self.steps))

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """The terms that see the states, in order of their steps."""
        return tuple(
            sorted(
                (part for part in self._attached if isinstance(part, Look)),
                key=lambda look: look.step,
            )
        )

    @cached_property
    def smooths(self) -> tuple[Smooth, ...]:
        return tuple(part for part in self._attached if isinstance(part, Smooth))

    @cached_property
    def watches(self) -> tuple[Watch, ...]:
        """The constraints, step by step."""
        return tuple(
            watch
            for constraint in self.constraints
            for watch in constraint.on(self.model, self.steps)
        )

    @property
    def n_variables(self) -> int:
        return self.steps * self.model.n_controls

    def guess(self) -> Array:
        """(steps, n_controls) the default start: stand still."""
        return np.tile(self.first_control, (self.steps, 1))

    def observations(self, states: Array, controls: Array) -> list[Array]:
        """What each look sees."""
        return [look.see(states, controls, self.first_control) for look in self.looks]

    def value(self, states: Array, controls: Array) -> float:
        """The objective of a run: states (steps + 1, n_state), controls (steps, n_controls)."""
        seen = self.observations(states, controls)
        looks = sum(look.loss.value(y) for look, y in zip(self.looks, seen, strict=True))
        return float(
            looks + sum(smooth.value(controls, self.first_control) for smooth in self.smooths)
        )

    def excess(self, controls: Array) -> float:
        """How far the controls go beyond their limits, the worst of all relative to the width of
        the limit (0: kept)."""
        worst = 0.0
        for band in self.bands:
            r = stencilled(band.stencil, controls, self.first_control)
            ends = [
                np.where(np.isfinite(side), np.abs(side), 0.0) for side in (band.lower, band.upper)
            ]
            width = np.where(
                np.isfinite(band.upper - band.lower),
                np.maximum(band.upper - band.lower, np.maximum(*ends)),
                1.0,
            )
            width = np.where(width > 0.0, width, 1.0)  # locked at zero
            worst = max(
                worst, float((np.maximum(band.lower - r, r - band.upper) / width).max(initial=0.0))
            )
        return worst

    def violation(self, states: Array, controls: Array) -> float:
        """How far the constraints are from being kept, the worst of all."""
        seen = [watch.look.see(states, controls, self.first_control) for watch in self.watches]
        return max(
            (watch.violation(y) for watch, y in zip(self.watches, seen, strict=True)), default=0.0
        )

    def check_not_nan(self, states: Array, controls: Array) -> None:
        """Raise InputError if a residual or a constraint is NaN in a run, such as that of the
        first guess."""
        for look, y in zip(self.looks, self.observations(states, controls), strict=True):
            check_not_nan(f"The residual of '{look.name}'", look.loss.value(y), y)
        for watch in self.watches:
            y = watch.look.see(states, controls, self.first_control)
            check_not_nan(f"The constraint on '{watch.look.name}'", watch.function(y), y)

    def misses(self, states: Array, controls: Array) -> list[tuple[str, float, float]]:
        """(effector, time [s], distance [m]) of every goal of a place, what plans report."""
        chosen = [
            (look, y)
            for look, y in zip(self.looks, self.observations(states, controls), strict=True)
            if isinstance(look.loss, Quadratic) and look.unit == "m" and look.loss.weight > 0.0
        ]
        return [
            (look.name, look.step * self.model.dt, float(np.linalg.norm(y - look.loss.target)))  # type: ignore[attr-defined]
            for look, y in chosen
        ]

    def with_looks(self, extra: Sequence[Look]) -> "Problem":
        """The problem with more looks and without its constraints, as the augmented Lagrangian
        needs it."""
        return replace(self, terms=(*self.terms, Given(looks=tuple(extra))), constraints=())


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """A term made of looks that are attached already."""

    looks: tuple[Look, ...]

    def on(self, model: Dynamics, steps: int) -> tuple[Look, ...]:
        return self.looks


def track(
    effector: str, path: Path, *, effort: float = 1e-3, order: int = 0, weight: float = 1.0
) -> list[Term]:
    """The terms of following a path (a function of time [s] that gives a place [m]) with an
    effector, at some effort."""
    return [Goal(effector=effector, target=path, weight=weight), Effort(weight=effort, order=order)]
