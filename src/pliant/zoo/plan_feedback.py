"""Feedback around a plan with the gains of differential dynamic programming."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Body
from pliant.core import Array
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.planners import Plan
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.linear_quadratic import control_step_bounds
from pliant.problem import Problem


@dataclass(kw_only=True)
class PlanFeedback:
    """The policy u_k = plan + K_k (z_k - z of the plan) [Zimmermann2021, eq. 32], for `simulate`.

    z_k contains the measured state of the planning model and past controls. Controls are clipped to
    the limits of the problem. One object controls one simulation, which starts at step 0.
    """

    problem: Problem
    plan: Plan  # with gains
    measure: sp.csr_matrix  # (n_state of the planning model, n_state of the plant)
    states: Array = field(init=False)  # (steps + 1, n_state) [planning model] measured so far
    controls: Array = field(init=False)  # (steps, n_controls)

    def __post_init__(self) -> None:
        self.states, self.controls = self.plan.states.copy(), self.plan.controls.copy()

    @cached_property
    def _layout(self) -> AugmentedState:
        return AugmentedState(problem=self.problem)

    def __call__(self, k: int, x: Array) -> Array:
        self.states[k] = self.measure @ x
        layout, gains = self._layout, self.plan.gains
        assert gains is not None
        z = layout.evaluate(k, self.states, self.controls)
        deviation = z - layout.evaluate(k, self.plan.states, self.plan.controls)
        planned = self.plan.controls[k]
        low, high, *_ = control_step_bounds(self.problem, layout, self.controls, k)
        change = np.clip(gains[k] @ deviation, low, np.maximum(low, high))
        self.controls[k] = planned + change
        return self.controls[k]


def state_measurement(model: ImplicitModel, plant: Body) -> sp.csr_matrix:
    """Return the matrix (n_state, n_state of the plant) that interpolates the state of a model of
    the same shape, with the same time-stepping rule, from a plant with another mesh."""
    rest = model.body.rest.reshape(-1, model.dim)
    weights = sp.kron(plant.locate(rest), sp.identity(model.dim))
    return sp.block_diag([weights] * len(model.space.parts), format="csr")
