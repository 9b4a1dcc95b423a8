"""One simulation of a problem and its adjoints.

A run stores the observations of each state, not the state. Each adjoint belongs to one output of
the run: the objective, or one number of a constraint.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Reversible, Step
from pliant.planners.sensitivity import control_cost_gradient
from pliant.problem import AccumulatedCost, Observation, Problem
from pliant.problem.accumulators import control_step_costs
from pliant.problem.observations import stencil_vjp


class RunFailed(Exception):
    """A step could not be simulated."""


@dataclass(eq=False)
class Adjoint:
    """The derivative of one output by the states, controls and parameters, during a sweep."""

    seeds: dict[int, Array]  # observation index -> the derivative (m,) by its value
    state: Array  # (n_state,) the derivative by the current state
    controls: Array  # (steps, n_controls), filled from the last step to the first
    params: Array  # (n_params,)
    functions: dict[int, float] = field(default_factory=dict)  # index -> factor of a FunctionCost
    seen: bool = False  # whether a function had a derivative that is not zero


class ReverseRun:
    """The simulation of a problem.

    `params` (n_params,) and `start` (n_state,) replace those of the problem. `extra` are
    observations in addition to those of the objective.
    """

    def __init__(
        self,
        problem: Problem,
        controls: Array,
        *,
        params: Array | None = None,
        start: Array | None = None,
        extra: Sequence[Observation] = (),
    ) -> None:
        self.problem, self.controls = problem, controls
        self.model: Reversible = problem.model  # type: ignore[assignment]
        p = problem.params if params is None else params
        self.p = None if p is None else np.asarray(p, float)
        self.start = problem.initial_state if start is None else start
        combined = [one for cost in problem.extra_costs for one in cost.observations]
        self.observations = (*problem.observations, *combined, *extra)
        self.first_extra = len(problem.observations) + len(combined)  # index of the first extra one
        self.functions = [f for cost in problem.extra_costs for f in cost.functions]
        self.by_step: dict[int, list[tuple[int, int]]] = {}  # step -> (observation index, lag)
        for index, observation in enumerate(self.observations):
            for lag in range(len(observation.states)):
                self.by_step.setdefault(max(observation.step - lag, 0), []).append((index, lag))
        self.functions_by_step: dict[int, list[int]] = {}
        for index, function in enumerate(self.functions):
            self.functions_by_step.setdefault(function.step, []).append(index)
        self.pieces: list[dict[int, Array]] = [{} for _ in self.observations]
        self.function_values = np.zeros(len(self.functions))
        self.values: list[Array] = []  # of the observations
        self.loss_gradients: list[Array] = []
        self.last_observed, self.simulated, self.peak_bytes, self.tape = -1, 0, 0, 0
        self.cost = np.inf
        self.observe_state(0, self.start)

    @property
    def p_values(self) -> Array:
        """The parameters (n_params,)."""
        return self.problem.model.params.flat if self.p is None else self.p

    def observe_state(self, k: int, x: Array) -> None:
        """Store the observations of state k if it is new."""
        if k <= self.last_observed:
            return
        self.last_observed = k
        for index, lag in self.by_step.get(k, ()):
            self.pieces[index][lag] = self.observations[index].states[lag] @ x
        for index in self.functions_by_step.get(k, ()):
            self.function_values[index] = self.functions[index].value(
                x, self.controls[k - 1], self.p_values
            )
        if k == self.problem.steps:
            self._compute_cost()

    def _compute_cost(self) -> None:
        """Compute the cost, summed in the order of Problem.value, and the loss gradients."""
        problem, first = self.problem, self.problem.previous_control
        seen = self.values = [self._observed(index) for index in range(len(self.observations))]
        n = len(problem.observations)
        observations = sum(
            observation.loss.value(y)
            for observation, y in zip(problem.observations, seen[:n], strict=True)
        )
        cost = observations + sum(
            control_cost.value(self.controls, first) for control_cost in problem.control_costs
        )
        if problem.extra_costs:
            cost = cost + sum(one.value(v) for one, v in self._combined_costs())
        self.cost = float(cost)
        if not np.isfinite(self.cost):
            raise RunFailed("the cost is not finite")
        self.loss_gradients = [
            observation.loss.gradient(y)
            for observation, y in zip(problem.observations, seen[:n], strict=True)
        ]

    def _observed(self, index: int) -> Array:
        """Return the value (m,) of an observation."""
        observation, first = self.observations[index], self.problem.previous_control
        y = np.zeros(observation.size)
        for lag in range(len(observation.states)):
            y = y + self.pieces[index][lag]
        for j, D in enumerate(observation.controls):
            y = y + D @ (self.controls[observation.step - 1 - j] if observation.step > j else first)
        return y

    def _combined_costs(self) -> list[tuple[AccumulatedCost, Array]]:
        """Return each combined cost with the costs (n,) that it combines."""
        out: list[tuple[AccumulatedCost, Array]] = []
        seen, done = len(self.problem.observations), 0
        for one in self.problem.extra_costs:
            values = self.values[seen : seen + len(one.observations)]
            steps = (
                control_step_costs(cost, self.controls, self.problem.previous_control)
                for cost in one.control_costs
            )
            costs: list[ArrayLike] = [
                [o.loss.value(y) for o, y in zip(one.observations, values, strict=True)],
                self.function_values[done : done + len(one.functions)],
                *steps,
            ]
            out.append((one, np.concatenate(costs)))
            seen, done = seen + len(one.observations), done + len(one.functions)
        return out

    def step(self, k: int, x: Array) -> Step:
        step = self.model.step(x, self.controls[k], self.p, k)
        self.simulated += 1
        if not step.status or not np.all(np.isfinite(step.x)):
            raise RunFailed(
                f"step {k}: {step.status.text if not step.status else 'the state is not finite'}"
            )
        self.observe_state(k + 1, step.x)
        return step

    # Adjoints

    def adjoint(self, seeds: dict[int, Array]) -> Adjoint:
        """Return the adjoint of an output with derivatives by some observations."""
        return Adjoint(
            seeds=seeds,
            state=np.zeros(self.model.space.size),
            controls=np.zeros_like(self.controls, dtype=float),
            params=np.zeros(self.model.params.size),
        )

    def objective_adjoint(self) -> Adjoint:
        """Return the adjoint of the cost, with the derivative of the control costs."""
        problem, first = self.problem, self.problem.previous_control
        out = self.adjoint(dict(enumerate(self.loss_gradients)))
        out.controls = control_cost_gradient(problem, self.controls)
        seen, done = len(problem.observations), 0
        for one, costs in self._combined_costs():
            slopes = one.slopes(costs)
            for observation, slope in zip(one.observations, slopes, strict=False):
                out.seeds[seen] = slope * observation.loss.gradient(self.values[seen])
                seen += 1
            for slope in slopes[len(one.observations) : one.n_before_controls]:
                out.functions[done] = float(slope)
                done += 1
            for cost, part in zip(
                one.control_costs,
                slopes[one.n_before_controls :].reshape(-1, problem.steps),
                strict=True,
            ):
                r = cost.weight * cost.residual(self.controls, first) * part[:, None]
                out.controls = out.controls + stencil_vjp(cost.stencil, r)
        return out

    def add_state(self, adjoint: Adjoint, k: int, x: Array) -> None:
        """Add the direct dependence of the output on state k, which is x."""
        for index, lag in self.by_step.get(k, ()):
            if index in adjoint.seeds:
                seed = adjoint.seeds[index]
                adjoint.state = adjoint.state + self.observations[index].states[lag].T @ seed
        for index in self.functions_by_step.get(k, ()):
            if factor := adjoint.functions.get(index, 0.0):
                by_x, by_u, by_p = self.functions[index].gradient(
                    x, self.controls[k - 1], self.p_values
                )
                adjoint.seen |= any(part.any() for part in (by_x, by_u, by_p))
                adjoint.state = adjoint.state + factor * by_x
                adjoint.controls[k - 1] += factor * by_u
                adjoint.params = adjoint.params + factor * by_p

    def step_back(self, adjoint: Adjoint, step: Step, k: int) -> None:
        """Propagate the adjoint from state k, the result of `step`, to state k - 1."""
        if not np.all(np.isfinite(adjoint.state)):
            raise RunFailed(f"the gradient before step {k} is not finite")
        if adjoint.state.any():
            adjoint.state, by_u, by_p = self.model.pullback(step, adjoint.state)
            adjoint.controls[k - 1] += by_u
            adjoint.params = adjoint.params + by_p

    def finish(self, adjoint: Adjoint) -> None:
        """Add the initial state's part and the direct dependence on the controls."""
        self.add_state(adjoint, 0, self.start)
        for index, seed in adjoint.seeds.items():
            observation = self.observations[index]
            for j, D in enumerate(observation.controls):
                if observation.step > j:
                    adjoint.controls[observation.step - 1 - j] += D.T @ seed
