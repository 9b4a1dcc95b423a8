"""Control tasks: what a policy is rewarded for, with the terms of planning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import (
    Array,
    DerivedParts,
    Dynamics,
    InputError,
    Observer,
    finite_array,
    nearest,
    quoted,
    require_kind,
    require_number,
)
from pliant.learning.observers import EffectorObserver, ObserverDescription, attach_observer
from pliant.problem import Limit, Observation, Problem, Term

MAX_SPREAD = 1e6  # more than any part of a state in SI units; its square is far from overflow
InitialState = Callable[[Dynamics, np.random.Generator], Array]  # -> (n_state,)


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlTask:
    """A task for a policy: the reward of a step is minus the cost that planning terms assign to it.

    Parameters
    ----------
    steps : number of time steps of an episode
    terms : objective terms as in `plan`, such as [Goal(...), Effort(...)]
    observer : what the policy sees, such as EffectorObserver(...); None for the positions and
        velocities of all effectors
    limits : bounds of order 0 on the controls, in addition to those of the actuators
    x0 : initial state (n_state,); None for the model's
    spread : random initial states. A mapping such as {"velocity": 0.01} adds normal noise of this
        standard deviation to parts of the state; those that follow from others, such as the
        effectors of a SwimmerModel, are computed. A function (model, rng) -> (n_state,) returns any
        initial state.
    failure_cost : cost of a step that fails, which ends the episode. Give more than the cost of a
        usual episode, unless failing early is no advantage.

    Raises InputError for invalid arguments.

    >>> import pliant as pl
    >>> from pliant.learning import ControlTask
    >>> reach = pl.Goal(effector="tip", target=(0.05, 0.10))
    >>> task = ControlTask(steps=50, terms=[reach, pl.Effort(weight=1e-3)])
    """

    steps: int
    terms: Sequence[Term]
    observer: "Observer | ObserverDescription | None" = None
    limits: Sequence[Limit] = ()
    x0: ArrayLike | None = None
    spread: Mapping[str, float] | InitialState | None = None
    failure_cost: float = 0.0

    def __post_init__(self) -> None:
        check_steps(self.steps)
        cost = require_number("The cost of a failed step", self.failure_cost, "")
        if not 0.0 <= cost < np.inf:
            raise InputError(
                f"The cost of a failed step is {cost:g}; give a finite number that is not negative."
            )
        self._check_terms()
        if self.spread is not None and not callable(self.spread):
            self._check_spread(self.spread)

    def _check_terms(self) -> None:
        advice = "give terms of planning, such as [Goal(...), Effort(...)]"
        require_kind("The terms of a task", self.terms, (list, tuple), advice)
        if not self.terms:
            raise InputError(f"The terms of a task are {quoted(self.terms)}; {advice}.")
        for term in self.terms:
            require_kind("One of the terms of a task", term, Term, advice)

    def _check_spread(self, spread: Any) -> None:
        advice = "give a mapping such as {'velocity': 0.01}, or a function (model, rng) -> state"
        require_kind("The spread of a task", spread, Mapping, advice)
        for name, value in spread.items():
            where = f"The spread of {quoted(name)}"
            if not 0.0 <= require_number(where, value, "") <= MAX_SPREAD:
                raise InputError(
                    f"{where} is {value:g}; give a standard deviation between 0 and {MAX_SPREAD:g}."
                )

    def problem(self, model: Dynamics) -> Problem:
        """Return the planning problem with the same terms for a model. The control before the first
        step is the neutral one, moved into the limits."""
        before = model.neutral_controls()
        for limit in self.limits:
            bound = limit.attach(model)
            before = np.clip(before, bound.lower, bound.upper) if not bound.order else before
        problem = Problem(
            model=model,
            steps=self.steps,
            terms=self.terms,
            x0=self.x0,
            previous_control=before,
            limits=self.limits,
        )
        problem.check_plannable()
        return problem

    def observer_of(self, model: Dynamics) -> Observer:
        """Return the observer of a model's states."""
        chosen = EffectorObserver() if self.observer is None else self.observer
        return attach_observer(chosen, model)

    def initial_state(self, model: Dynamics, rng: np.random.Generator | None = None) -> Array:
        """Return the initial state (n_state,) of a model, with random spread if `rng` is given."""
        if rng is not None and callable(self.spread):
            x = self.spread(model, rng)
            return finite_array("The random initial state", x, (model.space.size,))
        x = (
            model.initial_state()
            if self.x0 is None
            else finite_array("The first state", self.x0, (model.space.size,)).copy()
        )
        if rng is None or not self.spread or callable(self.spread):
            return x
        x = model.space.integrate(x, self._noise(model, rng))
        return model.with_derived_parts(x) if isinstance(model, DerivedParts) else x

    def _noise(self, model: Dynamics, rng: np.random.Generator) -> Array:
        """Return a random change (tangent_size,) of the state."""
        assert isinstance(self.spread, Mapping)
        space = model.space
        for name in self.spread:
            if name not in space.parts:
                raise InputError(
                    f"The spread is about '{name}', which is no part of the state; "
                    f"{nearest(name, space.parts)}"
                )
            if isinstance(model, DerivedParts) and name in model.derived_parts:
                others = [part for part in space.parts if part not in model.derived_parts]
                raise InputError(
                    f"The spread is about '{name}', which follows from the other parts of the "
                    f"state; give one of {', '.join(others)}."
                )
        sizes = [
            3 if name in space.quaternions else end - first
            for name, first, end in zip(space.parts, space.starts, space.starts[1:], strict=False)
        ]
        return np.concatenate(
            [
                float(self.spread.get(name, 0.0)) * rng.standard_normal(size)
                for name, size in zip(space.parts, sizes, strict=True)
            ]
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class StepCosts:
    """The objective of a problem, divided into the costs of its steps.

    The cost of step k is that of the observations of the state after step k and of the control
    cost of step k. The costs of all steps add up to `Problem.value`.
    """

    problem: Problem

    @cached_property
    def _observations(self) -> dict[int, list[Observation]]:
        out: dict[int, list[Observation]] = {}
        for observation in self.problem.observations:
            out.setdefault(observation.step, []).append(observation)
        return out

    @cached_property
    def n_past(self) -> int:
        """Number of states and controls before the newest that a cost can depend on."""
        problem = self.problem
        return max(
            (
                *(len(cost.stencil) for cost in problem.control_costs),
                *(len(one.states) for one in problem.observations),
                *(len(one.controls) for one in problem.observations),
                1,
            )
        )

    def cost(self, k: int, states: Any, controls: Any) -> float:
        """Return the cost of step k. `states[j]` and `controls[j]` must give the states and
        controls up to states[k + 1] and controls[k]; arrays or mappings of the last ones do."""
        before = self.problem.previous_control
        total = 0.0
        for one in self._observations.get(k + 1, ()):
            total += one.loss.value(one.evaluate(states, controls, before))
        for cost in self.problem.control_costs:
            r = -cost.reference[k]
            for j, c in enumerate(cost.stencil):
                r = r + c * (controls[k - j] if k >= j else before)
            total += 0.5 * float(np.sum(cost.weight * r * r))
        return float(total)

    def costs(self, states: Array, controls: Array) -> Array:
        """Return the cost of each step (steps,)."""
        return np.array([self.cost(k, states, controls) for k in range(len(controls))])


def objective_gradients(problem: Problem, states: Array, controls: Array) -> tuple[Array, Array]:
    """Return the derivatives of `problem.value(states, controls)` by the states (steps + 1,
    n_state) and by the controls (steps, n_controls), each independent of the other."""
    by_states, u_bars = observed_state_gradients(problem, states, controls)
    x_bars = np.zeros_like(states)
    for k, bar in by_states.items():
        x_bars[k] = bar
    return x_bars, u_bars


def observed_state_gradients(
    problem: Problem, states: Array, controls: Array
) -> tuple[dict[int, Array], Array]:
    """Return the same derivatives, by the states (n_state,) that the objective depends on, by their
    number."""
    x_bars, u_bars = dict[int, Array](), np.zeros_like(controls)
    for one, y in zip(problem.observations, problem.observe(states, controls), strict=True):
        bar = one.loss.gradient(y)
        for j, C in enumerate(one.states):
            k = max(one.step - j, 0)
            x_bars[k] = x_bars.get(k, 0.0) + C.T @ bar
        for j, D in enumerate(one.controls):
            if one.step > j:
                u_bars[one.step - 1 - j] += D.T @ bar
    for cost in problem.control_costs:
        u_bars += cost.gradient(controls, problem.previous_control)
    return x_bars, u_bars
