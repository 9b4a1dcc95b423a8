"""Controllers: differentiable maps from an observation and the time to controls.

The weights of a controller are named blocks of its `params`. All classes implement
`core.Controller`; `MLP` is in mlp.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    Controller,
    InputError,
    Param,
    Params,
    finite_array,
    is_integer,
    quoted,
    require_positive,
)


@runtime_checkable
class BatchedController(Controller, Protocol):
    """A controller for many observations at once. Row i of `control_many` is bit-identical to
    `control(y[i], w, time)`."""

    # (b, n_inputs) -> (b, n_controls)
    def control_many(self, y: Array, w: Array, time: float) -> Array: ...
    # u_bar (b, n_controls) -> gradients by y (b, n_inputs), and by w, summed over the rows
    def vjp_many(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]: ...


def control_rows(controller: Controller, y: Array, w: Array, time: float) -> Array:
    """Return the controls (b, n_controls) for observations (b, n_inputs)."""
    if isinstance(controller, BatchedController):
        return controller.control_many(y, w, time)
    rows = [controller.control(row, w, time) for row in y]
    return np.array(rows).reshape(len(y), controller.n_controls)


def weight_block(name: str, value: ArrayLike, unit: str = "-") -> Param:
    """Return a block of weights without bounds."""
    flat = np.array(value, float).ravel()
    return Param(name=name, value=flat, unit=unit, lower=-np.inf, upper=np.inf)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SineGait:
    """The controls u_j = offset_j + amplitude_j sin(2 pi frequency_j t + phase_j).

    Each parameter is a number or (n_controls,): `amplitude` and `offset` in units of the controls,
    `frequency` [Hz], `phase` [rad]. The gait ignores observations; `n_inputs` is their size.

    >>> from pliant.learning import SineGait
    >>> wave = SineGait(n_controls=3, amplitude=0.2, frequency=1.0, phase=(0.0, 1.0, 2.0))
    """

    n_controls: int
    amplitude: ArrayLike = 1.0
    frequency: ArrayLike = 1.0  # [Hz]
    phase: ArrayLike = 0.0  # [rad]
    offset: ArrayLike = 0.0
    n_inputs: int = 0

    def __post_init__(self) -> None:
        check_count("controls", self.n_controls, 1)
        check_count("inputs", self.n_inputs, 0)
        for name in ("amplitude", "frequency", "phase", "offset"):
            value = getattr(self, name)
            every = [value] * self.n_controls if np.ndim(value) == 0 else value
            array = finite_array(f"The {name} of a gait", every, (self.n_controls,))
            object.__setattr__(self, name, array)

    @property
    def params(self) -> Params:
        """The weights: amplitude, frequency, phase and offset, (n_controls,) each."""
        units = {"amplitude": "-", "frequency": "Hz", "phase": "rad", "offset": "-"}
        return Params(
            blocks=tuple(
                weight_block(name, getattr(self, name), unit) for name, unit in units.items()
            )
        )

    def with_weights(self, w: Array) -> Self:
        """Return the gait with other weights (params.size,)."""
        blocks: Any = self.params.split(w)
        return replace(self, **blocks)

    def control(self, y: Array, w: Array, time: float) -> Array:
        """Return the controls (n_controls,) at a time [s]."""
        check_weights(w, 4 * self.n_controls)
        amplitude, frequency, phase, offset = np.reshape(w, (4, self.n_controls))
        return offset + amplitude * np.sin(2.0 * np.pi * frequency * time + phase)

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of u_bar . u by the observation and by the weights."""
        amplitude, frequency, phase, _ = np.reshape(w, (4, self.n_controls))
        angle = 2.0 * np.pi * frequency * time + phase
        slope = u_bar * amplitude * np.cos(angle)
        by_weights = [u_bar * np.sin(angle), 2.0 * np.pi * time * slope, slope, u_bar]
        return np.zeros(self.n_inputs), np.concatenate(by_weights)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFeedback:
    """The controls u = controls_k + gains_k (y - reference_k) about a reference trajectory.

    Parameters
    ----------
    gains : (n_controls, n_inputs), or (steps, n_controls, n_inputs)
    reference : observations (n_inputs,) or (steps, n_inputs)
    controls : reference controls (n_controls,) or (steps, n_controls)
    dt : time step [s], which gives the index k of a time; only for trajectories

    After the last step its gains and reference are kept. `LinearFeedback.from_plan(plan)` makes
    the controller of a plan by DDP. Raises InputError for shapes that do not fit.
    """

    gains: ArrayLike
    reference: ArrayLike
    controls: ArrayLike
    dt: float | None = None

    def __post_init__(self) -> None:
        shapes = {
            name: np.array(
                finite_array(f"The {name} of a feedback", value, (None,) * np.ndim(value))
            )
            for name in ("gains", "reference", "controls")
            if (value := getattr(self, name)) is not None
        }
        gains = shapes["gains"] if shapes["gains"].ndim == 3 else shapes["gains"][None]
        if gains.ndim != 3:
            raise InputError(
                f"The gains have shape {gains.shape[1:]}; give (n_controls, n_inputs), or one "
                "matrix for each step."
            )
        reference, controls = (np.atleast_2d(shapes[name]) for name in ("reference", "controls"))
        steps = max(len(gains), len(reference), len(controls))
        wanted = {
            "gains": (gains, (steps, *gains.shape[1:])),
            "reference": (reference, (steps, gains.shape[2])),
            "controls": (controls, (steps, gains.shape[1])),
        }
        for name, (value, shape) in wanted.items():
            if value.shape[1:] != shape[1:] or len(value) not in (1, steps):
                raise InputError(
                    f"The {name} of a feedback have shape {value.shape}; give {shape}, which "
                    "fits the gains, or one row for all steps."
                )
            object.__setattr__(self, name, np.array(np.broadcast_to(value, shape)))
        if steps > 1 and self.dt is None:
            raise InputError("A feedback about a trajectory needs its time step; give dt=... [s].")
        if self.dt is not None:
            require_positive("The time step of a feedback", self.dt, "s")

    @classmethod
    def from_plan(cls, plan: "PlanWithGains") -> Self:
        """Return the controller of a plan by DDP. It observes the whole state: give the closed
        loop PartObserver(). Raises InputError for a plan without gains, or with terms or limits
        that depend on past controls."""
        if plan.gains is None:
            raise InputError("The plan has no feedback gains; plan with method='ddp'.")
        n_state = np.shape(plan.states)[1]
        if plan.gains.shape[2] != n_state:
            raise InputError(
                f"The gains of the plan refer to {plan.gains.shape[2]} numbers, but the state has "
                f"{n_state}. Plan with the full model and without terms that depend on earlier "
                "states or controls, such as Effort(order=1)."
            )
        if plan.model is None:
            raise InputError("The plan has no time step; give the plan that the planner returned.")
        return cls(
            gains=plan.gains, reference=plan.states[:-1], controls=plan.controls, dt=plan.model.dt
        )

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Number of steps, controls and inputs."""
        return np.shape(self.gains)

    @property
    def n_inputs(self) -> int:
        return self._shape[2]

    @property
    def n_controls(self) -> int:
        return self._shape[1]

    @property
    def params(self) -> Params:
        """The weights: gains, reference and controls of all steps."""
        names = ("gains", "reference", "controls")
        return Params(blocks=tuple(weight_block(name, getattr(self, name)) for name in names))

    def with_weights(self, w: Array) -> Self:
        """Return the feedback with other weights (params.size,)."""
        gains, reference, controls = self._split(np.asarray(w, float))
        return replace(self, gains=gains, reference=reference, controls=controls)

    def _split(self, w: Array) -> tuple[Array, Array, Array]:
        steps, m, n = self._shape
        first, second = steps * m * n, steps * (m * n + n)
        return (
            np.reshape(w[:first], (steps, m, n)),
            np.reshape(w[first:second], (steps, n)),
            np.reshape(w[second:], (steps, m)),
        )

    def _index(self, time: float) -> int:
        return 0 if self.dt is None else step_index(time, self.dt, self._shape[0])

    def control(self, y: Array, w: Array, time: float) -> Array:
        """Return the controls (n_controls,) for an observation at a time [s]."""
        steps, m, n = self._shape
        check_weights(w, steps * (m * n + n + m))
        check_observation(y, n)
        k, (gains, reference, controls) = self._index(time), self._split(w)
        return controls[k] + gains[k] @ (y - reference[k])

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients of u_bar . u by the observation and by the weights."""
        k, (gains, reference, _) = self._index(time), self._split(w)
        y_bar, w_bar = gains[k].T @ u_bar, np.zeros_like(w)
        bars = self._split(w_bar)  # views
        bars[0][k], bars[1][k], bars[2][k] = np.outer(u_bar, y - reference[k]), -y_bar, u_bar
        return y_bar, w_bar


class PlanWithGains(Protocol):
    """What `LinearFeedback.from_plan` needs of a Plan."""

    @property
    def gains(self) -> Array | None: ...
    @property
    def states(self) -> Array: ...
    @property
    def controls(self) -> Array: ...
    @property
    def model(self) -> "HasTimeStep | None": ...


class HasTimeStep(Protocol):
    """A summary of a model with its time step."""

    @property
    def dt(self) -> float: ...


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UserController:
    """A controller made of the user's functions.

    Parameters
    ----------
    n_inputs, n_controls : sizes of observations and controls
    function : (y (n_inputs,), w (n_weights,), time [s]) -> controls (n_controls,)
    vjp_function : (y, w, time, u_bar) -> the gradients of u_bar . u by y and by w
    weights : named arrays of weights, which become one flat vector; none by default

    >>> import numpy as np
    >>> from pliant.learning import UserController
    >>> gain = UserController(
    ...     n_inputs=1, n_controls=1, weights={"gain": [2.0]},
    ...     function=lambda y, w, time: -w * y,
    ...     vjp_function=lambda y, w, time, u_bar: (-w * u_bar, -y * u_bar),
    ... )
    >>> gain.control(np.array([0.5]), gain.params.flat, 0.0)
    array([-1.])
    """

    n_inputs: int
    n_controls: int
    function: Callable[[Array, Array, float], ArrayLike]
    vjp_function: Callable[[Array, Array, float, Array], tuple[ArrayLike, ArrayLike]] | None = None
    weights: Mapping[str, ArrayLike] | None = None

    def __post_init__(self) -> None:
        check_count("inputs", self.n_inputs, 0)
        check_count("controls", self.n_controls, 1)

    @property
    def params(self) -> Params:
        return Params(
            blocks=tuple(weight_block(name, value) for name, value in (self.weights or {}).items())
        )

    def with_weights(self, w: Array) -> Self:
        """Return the controller with other weights (params.size,)."""
        return replace(self, weights=self.params.split(w))

    def control(self, y: Array, w: Array, time: float) -> Array:
        """Return the controls (n_controls,)."""
        u = self.function(y, w, time)
        return finite_array("The control of the user's function", u, (self.n_controls,))

    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]:
        """Return the gradients by y and w. Raises InputError if there is no `vjp_function`."""
        if self.vjp_function is None:
            raise InputError("This controller has no derivative; give it a vjp_function.")
        y_bar, w_bar = self.vjp_function(y, w, time, u_bar)
        return (
            finite_array("The gradient by the observation", y_bar, (self.n_inputs,)),
            finite_array("The gradient by the weights", w_bar, (np.size(w),)),
        )


def step_index(time: float, dt: float, steps: int) -> int:
    """Return the index of the step at a time [s]; the last one after the end."""
    return min(max(round(time / dt), 0), steps - 1)


def check_count(name: str, value: int, least: int) -> None:
    """Raise InputError unless a count is a whole number of at least `least`."""
    if not is_integer(value) or value < least:
        raise InputError(
            f"The number of {name} of a controller is {quoted(value)}; give a whole number, "
            f"{least} or more."
        )


def check_weights(w: Any, count: int) -> None:
    """Raise InputError unless an array of weights has the shape (count,)."""
    if np.shape(w) != (count,):
        raise InputError(
            f"The array of weights has shape {np.shape(w)}, but this controller needs ({count},). "
            "Give its params.flat, or the weights of a training."
        )


def check_observation(y: Any, size: int) -> None:
    """Raise InputError unless observations have the shape (..., size)."""
    if np.shape(y)[-1:] != (size,):
        raise InputError(
            f"The observation has shape {np.shape(y)}, but this controller needs ({size},). Give "
            "what its observer returns."
        )
