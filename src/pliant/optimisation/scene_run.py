"""One scene of a problem for given variables: its simulation, its gradient and its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    ParametrisedStart,
    StepError,
)
from pliant.planners.checkpoints import Checkpoints, run_schedule, sweep
from pliant.planners.reverse_run import Adjoint, ReverseRun, RunFailed
from pliant.problem import Observation, Problem, SceneInputs, VariableLayout
from pliant.problem.variables import INITIAL

# an evaluation that raises one of these has failed: the variables cannot be simulated
FAILURES = (RunFailed, StepError, InputError)


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneRun:
    """A scene for variables z, not simulated yet. Its methods raise one of FAILURES."""

    layout: VariableLayout
    k: int  # the number of the scene
    z: Array  # (n,)
    extra: Sequence[Observation] = ()  # observations beside those of the objective

    @property
    def problem(self) -> Problem:
        """The scene as a problem with one trajectory."""
        return self.layout.problem.scene_problems[self.k]

    def inputs(self) -> SceneInputs:
        """Return the controls, the parameters and the change of the initial state."""
        return self.layout.inputs(self.z, self.k)

    @property
    def starts_by_params(self) -> bool:
        """Whether the initial state depends on the parameters."""
        return self.problem.x0 is None and isinstance(self.problem.model, ParametrisedStart)

    def begin(self) -> ReverseRun:
        """Return the run, before its first step."""
        inputs = self.inputs()
        if not np.all(np.isfinite(inputs.controls)):
            raise RunFailed("the controls are not finite")
        return ReverseRun(
            self.problem,
            inputs.controls,
            params=inputs.params,
            start=self.layout.initial_state(self.k, inputs),
            extra=self.extra,
        )

    def simulate(self) -> ReverseRun:
        """Return the run after its last step, without tapes."""
        run = self.begin()
        x = run.start
        for k in range(self.problem.steps):
            x = run.step(k, x).x
        return run

    def gradients(
        self,
        checkpoints: Checkpoints,
        outputs: Callable[[ReverseRun], list[Adjoint]],
    ) -> tuple[ReverseRun, list[Adjoint], list[Array]]:
        """Return the run, the adjoints of its outputs and their gradients (n,) by z."""
        run = self.begin()
        adjoints = sweep(run, run_schedule(run, checkpoints), outputs)
        return run, adjoints, [self.adjoint_gradient(adjoint) for adjoint in adjoints]

    def adjoint_gradient(self, adjoint: Adjoint) -> Array:
        """Return the gradient (n,) by z of an output with a finished adjoint."""
        space, inputs = self.problem.model.space, self.inputs()
        change = np.zeros(space.tangent_size) if inputs.change is None else inputs.change
        by_change = space.integrate_vjp(self.problem.initial_state, change, adjoint.state)
        by_params = adjoint.params
        if self.starts_by_params:
            by_params = by_params + self._by_start(inputs, adjoint.state)
        g = self.layout.gradient(self.z, self.k, adjoint.controls, by_params, by_change)
        if not np.all(np.isfinite(g)):
            raise RunFailed("the gradient is not finite")
        return g

    def _by_start(self, inputs: SceneInputs, x_bar: Array) -> Array:
        """Return the share (n_params,) of the initial state in the gradient by the parameters."""
        model: Any = self.problem.model
        return np.asarray(model.initial_state_pullback(x_bar, inputs.params))

    def observe_jacobian(self) -> tuple[ReverseRun, list[Array]]:
        """Return the run after its last step and the derivative (m, n) of each observation by z, by
        forward sensitivities."""
        run, model = self.begin(), self.problem.model
        assert isinstance(model, Linearizable)
        tangents = self._tangents()
        S, active = tangents.initial, tangents.always.copy()
        out = [np.zeros((one.size, len(self.z))) for one in run.observations]
        add_state_rows(run, out, 0, S)
        x = run.start
        for k in range(self.problem.steps):
            step = run.step(k, x)
            du = tangents.controls(k, model.n_controls)
            active |= du.any(axis=0)
            blocks = (S, du, tangents.params)
            S[:, active] = model.linearize(step).jvp(
                *(np.ascontiguousarray(block[:, active]) for block in blocks)
            )
            x = step.x
            add_state_rows(run, out, k + 1, S)
        for one, rows in zip(run.observations, out, strict=True):
            for j, D in enumerate(one.controls):
                if one.step > j:
                    rows += D @ tangents.controls(one.step - 1 - j, model.n_controls)
        return run, out

    def _tangents(self) -> "Tangents":
        problem, layout = self.problem, self.layout
        space, inputs = problem.model.space, self.inputs()
        change = np.zeros(space.tangent_size) if inputs.change is None else inputs.change
        moved = layout.changes(self.z, self.k, INITIAL, space.tangent_size)
        params = layout.changes(self.z, self.k, "params", problem.model.params.size)
        initial = space.integrate_jvp(problem.initial_state, change, moved)
        if self.starts_by_params:
            rows = [self._by_start(inputs, e) for e in np.eye(space.size)]
            initial = initial + np.array(rows) @ params
        return Tangents(
            run=self,
            initial=initial,
            params=params,
            always=np.asarray(params.any(axis=0) | initial.any(axis=0)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Tangents:
    """The derivatives of the inputs of a scene by z."""

    run: SceneRun
    initial: Array  # (n_state, n)
    params: Array  # (n_params, n)
    always: Array  # (n,) whether an entry of z changes the parameters or the initial state

    def controls(self, k: int, n_controls: int) -> Array:
        """Return the derivative (n_controls, n) of the controls of step k."""
        out = np.zeros((n_controls, len(self.run.z)))
        for block in self.run.layout.of_scene(self.run.k):
            if block.kind == "controls":
                out[:, block.at] = block.step_jacobian(self.run.z, k)
        return out


def add_state_rows(run: ReverseRun, out: list[Array], k: int, S: Array) -> None:
    """Add the part of state k, with the derivative S, to the derivatives of the observations."""
    for index, lag in run.by_step.get(k, ()):
        out[index] += run.observations[index].states[lag] @ S
