"""OpenLoop: a table of controls as a controller."""

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import Array, Dynamics, InputError, Params, finite_array, require_positive
from pliant.learning.controllers import (
    PlanWithGains,
    check_count,
    check_weights,
    step_index,
    weight_block,
)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OpenLoop:
    """A table of controls, one row for each step. It ignores observations.

    Parameters
    ----------
    controls : (steps, n_controls), the weights; after the last step its row is kept
    dt : time step [s] of the model
    n_inputs : size of the observation that is ignored

    `OpenLoop.for_model(model, steps)` starts with neutral controls, `OpenLoop.from_plan(plan)` with
    those of a plan.

    >>> import numpy as np
    >>> from pliant.learning import OpenLoop
    >>> table = OpenLoop(controls=[[0.0], [2.0]], dt=0.1)
    >>> table.control(np.zeros(0), table.params.flat, time=0.1)
    array([2.])
    """

    controls: ArrayLike
    dt: float
    n_inputs: int = 0

    def __post_init__(self) -> None:
        table = np.array(finite_array("The table of controls", self.controls, (None, None)))
        if not table.size:
            raise InputError("The table of controls is empty; give a row for each step.")
        require_positive("The time step of a table of controls", self.dt, "s")
        check_count("inputs", self.n_inputs, 0)
        object.__setattr__(self, "controls", table)

    @classmethod
    def for_model(cls, model: Dynamics, steps: int) -> Self:
        """Return a table of neutral controls for a model."""
        return cls(controls=np.tile(model.neutral_controls(), (check_steps(steps), 1)), dt=model.dt)

    @classmethod
    def from_plan(cls, plan: PlanWithGains) -> Self:
        """Return the controls of a plan. Raises InputError if the plan has no time step."""
        if plan.model is None:
            raise InputError("The plan has no time step; give the plan that the planner returned.")
        return cls(controls=plan.controls, dt=plan.model.dt)

    @property
    def _shape(self) -> tuple[int, int]:
        return np.shape(self.controls)

    @property
    def n_controls(self) -> int:
        return self._shape[1]

    @property
    def params(self) -> Params:
        """The weights: the table, one row after the other."""
        return Params(blocks=(weight_block("controls", self.controls),))

    def with_weights(self, w: Array) -> Self:
        """Return the controller with other weights (params.size,)."""
        check_weights(w, np.size(self.controls))
        return replace(self, controls=np.reshape(w, self._shape))

    def control(self, y: Array, w: Array, time: float) -> Array:
        """Return the controls (n_controls,) at a time [s]."""
        check_weights(w, np.size(self.controls))
        return np.reshape(w, self._shape)[step_index(time, self.dt, self._shape[0])]

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of u_bar . u by the observation and by the weights."""
        w_bar = np.zeros(self._shape)
        w_bar[step_index(time, self.dt, self._shape[0])] = u_bar
        return np.zeros(self.n_inputs), w_bar.ravel()
