"""Problem: a model, its scenes and variables, an objective, limits and constraints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    counted,
    finite_array,
    initial_state_at,
    require_kind,
)
from pliant.problem.accumulators import AccumulatedCost, control_step_costs, total_cost
from pliant.problem.constraints import ConstraintRow, ConstraintTerm
from pliant.problem.function_costs import FunctionCost
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
from pliant.problem.scenes import Scene, check_same_parameters
from pliant.problem.smoothness import ParameterCost, ParameterTerm
from pliant.problem.terms import Effort, Goal, Path, Term
from pliant.problem.variable_blocks import layout_of
from pliant.problem.variables import CONTROLS, Variable, VariableLayout


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """An optimisation problem over controls, parameters and initial states.

    Minimise the sum of the terms over the variables, subject to x_{k+1} = model.step(x_k, u_k),
    the limits and the constraints. Planners solve problems whose variables are the controls of one
    scene; `optimise` solves all.

    Parameters
    ----------
    model : any Dynamics, such as ImplicitEuler(robot, dt=...)
    steps : number of time steps; not needed if every scene has its own
    terms : objective terms, such as [Goal(...), Effort(...)]. They count in every scene.
    x0 : initial state (n_state,); None for the model's
    previous_control : control before the first step (n_controls,); None for the neutral control
    limits : bounds in addition to the limits of the actuators, which always hold
    constraints : constraints on effectors and actuators
    params : parameters of the model (n_params,); None for those of the robot
    controls : fixed controls (steps, n_controls) if they are no variable; None for the neutral ones
    scenes : several trajectories, each a Scene; () for one trajectory
    variables : names or Variable objects: "controls", blocks of `model.params`, "initial" or
        "initial.PART"

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
    steps: int = 0
    terms: Sequence[Term] = ()
    x0: ArrayLike | None = None
    previous_control: Any = None  # an array (n_controls,) after construction
    limits: Sequence[Limit] = ()
    constraints: Sequence[ConstraintTerm] = ()
    params: ArrayLike | None = None
    controls: ArrayLike | None = None
    scenes: Sequence[Scene] = ()
    variables: Sequence[str | Variable] = (CONTROLS,)

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
            ("scenes", self.scenes, Scene),
            ("variables", self.variables, (str, Variable)),
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
        self.model.params.split(self.params)  # type: ignore[arg-type]  # raises on bad ones
        if not self.variables:
            raise InputError(
                "The problem has no variables; name some, such as variables=['controls', 'soft.E']."
            )
        if self.scenes:
            self._check_scenes()
        else:
            self._check_trajectory()
        self.layout  # noqa: B018

    def _check_trajectory(self) -> None:
        """Raise InputError if the one trajectory does not fit the model."""
        check_steps(self.steps)
        if not self.model.n_controls and self.variable_names == (CONTROLS,):
            raise InputError(
                "The model has no controls, so there is nothing to plan; add actuators to the "
                "robot."
            )
        if not (
            self.observations
            or self.control_costs
            or self.constraint_rows
            or self.extra_costs
            or self.parameter_costs
        ):
            raise InputError(
                "The problem has no terms; give an objective, such as Goal(effector=..., "
                "target=..., time=...)."
            )
        self.initial_state  # noqa: B018  # raises InputError now rather than in a planner
        object.__setattr__(self, "previous_control", self._checked_previous_control())
        self.fixed_controls  # noqa: B018
        self.constraint_rows  # noqa: B018

    def _check_scenes(self) -> None:
        """Raise InputError if the scenes do not fit the problem."""
        if self.controls is not None:
            raise InputError(
                "The problem has fixed controls and scenes; give the controls to the scenes."
            )
        names = [scene.name for scene in self.scenes if scene.name]
        if len(set(names)) < len(names):
            raise InputError("Two scenes have the same name; give each its own.")
        self.scene_problems  # noqa: B018

    def __repr__(self) -> str:
        parts = [
            type(self.model).__name__,
            counted(len(self.scenes), "scene") if self.scenes else counted(self.steps, "step"),
            counted(self.model.n_controls, "control"),
        ]
        if self.variable_names != (CONTROLS,):
            parts.append(f"variables: {', '.join(self.variable_names)}")
        for name in ("terms", "limits", "constraints"):
            if kinds := dict.fromkeys(type(part).__name__ for part in getattr(self, name)):
                parts.append(f"{name}: {', '.join(kinds)}")
        return f"Problem({', '.join(parts)})"

    @cached_property
    def initial_state(self) -> Array:
        """Initial state (n_state,)."""
        return (
            initial_state_at(self.model, None if self.params is None else self.parameter_values)
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

    # Scenes and variables

    @cached_property
    def scene_problems(self) -> tuple["Problem", ...]:
        """Each scene as a problem with one trajectory; the problem itself if it has no scenes."""
        if not self.scenes:
            return (self,)
        return tuple(self._scene_problem(k) for k in range(len(self.scenes)))

    def _scene_problem(self, k: int) -> "Problem":
        scene, label = self.scenes[k], f"scene {self.scene_name(k)}"
        model = self.model if scene.model is None else scene.model
        check_same_parameters(label, self.model, model)
        if any(isinstance(term, ParameterTerm) for term in scene.terms):
            raise InputError(
                f"A term of {label} depends on parameters alone; give it to the problem, where it "
                "counts once."
            )
        before = scene.previous_control
        names = self.variable_names if scene.controls is None and model.n_controls else ()
        try:
            return replace(
                self,
                model=model,
                steps=self.steps if scene.steps is None else scene.steps,
                terms=(*self.terms, *scene.terms),
                x0=self.x0 if scene.x0 is None else scene.x0,
                previous_control=self.previous_control if before is None else before,
                controls=scene.controls,
                scenes=(),
                variables=tuple(
                    variable
                    for variable, name in zip(self.variables, self.variable_names, strict=True)
                    if name != CONTROLS or name in names
                ),
            )
        except InputError as error:
            raise InputError(f"In {label}: {error}") from None

    def scene_name(self, k: int) -> str:
        """Return the name of scene k; its number, from 1, if it has none."""
        return (self.scenes[k].name if self.scenes else "") or str(k + 1)

    @property
    def scene_weights(self) -> tuple[float, ...]:
        """The factor on the objective of each scene."""
        return tuple(scene.weight for scene in self.scenes) or (1.0,)

    @property
    def variable_names(self) -> tuple[str, ...]:
        """The names of the variables, as given."""
        return tuple(v.name if isinstance(v, Variable) else v for v in self.variables)

    @cached_property
    def layout(self) -> VariableLayout:
        """All variables as one vector."""
        return layout_of(self)

    @cached_property
    def parameter_values(self) -> Array:
        """The parameters (n_params,) of the model."""
        return self.model.params.flat if self.params is None else np.asarray(self.params, float)

    @cached_property
    def fixed_controls(self) -> Array:
        """Controls (steps, n_controls) where they are no variable."""
        if self.controls is None:
            return np.tile(self.model.neutral_controls(), (self.steps, 1))
        if CONTROLS in self.variable_names:
            raise InputError(
                "The controls are fixed and a variable; omit controls=... or the variable "
                "'controls'."
            )
        shape = (self.steps, self.model.n_controls)
        return finite_array("The fixed controls", self.controls, shape)

    def check_plannable(self) -> None:
        """Raise InputError unless the variables are the controls of one trajectory, and all terms
        are sums over steps that planners use."""
        if self.scenes or self.variable_names != (CONTROLS,):
            names = ", ".join(self.variable_names)
            what = counted(len(self.scenes), "scene") if self.scenes else f"the variables {names}"
            raise InputError(
                f"Planners optimise the controls of one scene, but this problem has {what}; use "
                "pl.optimisation.optimise(problem)."
            )
        if self.extra_costs or self.parameter_costs:
            raise InputError(
                "Planners take terms of effectors, states and controls only, not functions, "
                "accumulators or fields; use pl.optimisation.optimise(problem)."
            )

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
    def attached_terms(self) -> tuple[tuple[Any, ...], ...]:
        """The observations and costs of each term."""
        return tuple(tuple(term.attach(self.model, self.steps)) for term in self.terms)

    @cached_property
    def _attached(self) -> tuple[Any, ...]:
        return tuple(part for parts in self.attached_terms for part in parts)

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
    def extra_costs(self) -> tuple[AccumulatedCost, ...]:
        """Terms that are functions of the state, or combinations of the costs of steps."""
        return tuple(
            AccumulatedCost(functions=(part,)) if isinstance(part, FunctionCost) else part
            for part in self._attached
            if isinstance(part, FunctionCost | AccumulatedCost)
        )

    @cached_property
    def parameter_costs(self) -> tuple[ParameterCost, ...]:
        """Terms that depend on the parameters alone."""
        return tuple(
            term.attach_parameters(self.model)
            for term in self.terms
            if isinstance(term, ParameterTerm)
        )

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
        total = total + sum(
            cost.value(controls, self.previous_control) for cost in self.control_costs
        )
        if self.extra_costs:
            total = total + self._extra_value(states, controls)
        for cost in self.parameter_costs:
            total = total + cost.value(self.parameter_values)
        return float(total)

    def _extra_value(self, states: Array, controls: Array) -> float:
        before, p = self.previous_control, self.parameter_values
        costs = [
            np.concatenate(
                [
                    [
                        one.loss.value(one.evaluate(states, controls, before))
                        for one in extra.observations
                    ],
                    [f.value(states[f.step], controls[f.step - 1], p) for f in extra.functions],
                    *(control_step_costs(cost, controls, before) for cost in extra.control_costs),
                ]
            )
            for extra in self.extra_costs
        ]
        return total_cost(self.extra_costs, costs)

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


def scenes_of(problem: Problem) -> list[Problem]:
    """Return each scene of a problem as a problem with one trajectory and the same variables.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> goal = pl.problem.StateGoal(part="position", target=(0.1, 0.0), time=0.5)
    >>> problem = pl.Problem(
    ...     model=pl.ImplicitEuler(robot, dt=0.1),
    ...     terms=[goal],
    ...     scenes=[pl.problem.Scene(5), pl.problem.Scene(8)],
    ... )
    >>> [scene.steps for scene in pl.problem.scenes_of(problem)]
    [5, 8]
    """
    return list(problem.scene_problems)


def tracking_terms(
    effector: str, path: Path, *, effort: float = 1e-3, order: int = 0, weight: float = 1.0
) -> list[Term]:
    """Return the terms for following a path with an effector.

    `path` is a function of time [s] that returns a position (dim,) [m]. `effort` is the weight
    of the control's derivative of the given order, `weight` that of the tracking error.
    """
    return [Goal(effector=effector, target=path, weight=weight), Effort(weight=effort, order=order)]
