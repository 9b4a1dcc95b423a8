"""UserActuation: a model whose actuators have controls that depend on the state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from pliant.argument_checks import check_model, check_state, check_step
from pliant.core import (
    Array,
    Batched,
    Dynamics,
    InputError,
    Linearizable,
    Linearization,
    Observer,
    ParametrisedStart,
    Params,
    Reversible,
    Space,
    Step,
    StepBatch,
    check_controls,
    effector_jacobian,
    finite_array,
    initial_state_at,
    nearest,
    quoted,
    require_kind,
)
from pliant.learning.observers import attach_observer
from pliant.learning.user_actuator import UserActuator
from pliant.robot.actuation import for_each_actuator


@dataclass(frozen=True, kw_only=True, eq=False)
class UserActuationTape:
    """The data of a step that its derivatives need."""

    owner: "UserActuation"
    step: Step  # of the model
    x: Array
    u: Array
    free: Array  # (n_controls,) whether each control of an actuator is inside its limits


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedControls:
    """The controls of one actuator and the map to them."""

    part: slice
    actuator: UserActuator
    observer: Observer | None

    def observe(self, x: Array) -> Array:
        return np.zeros(0) if self.observer is None else self.observer.observe(x)

    def value(self, x: Array, u: Array) -> Array:
        return self.actuator.value(u[self.part], self.observe(x))

    def vjp(self, x: Array, u: Array, bar: Array) -> tuple[Array, Array]:
        """Return the gradients of bar . value by the state (n_state,) and by its controls."""
        u_bar, y_bar = self.actuator.vjp(u[self.part], self.observe(x), bar)
        return (np.zeros(len(x)) if self.observer is None else self.observer.vjp(x, y_bar)), u_bar


@final
@dataclass(frozen=True, eq=False)
class UserActuation:
    """A model of a robot whose actuators have controls that depend on the state.

    Parameters
    ----------
    model : a model of a robot, such as ImplicitEuler or MaterialPoint
    actuators : names of actuators of the robot, each with its UserActuator

    It is a Dynamics with the same states, parameters and number of controls. In each step the
    function of a UserActuator sees the state before the step and gives the control of the actuator,
    which is held during the step and clipped to the limits of the actuator. It has derivatives and
    batches if the model has them. Raises InputError if the parts do not fit together.

    >>> import numpy as np, pliant as pl
    >>> from pliant.learning import PartObserver, UserActuation, UserActuator
    >>> mass = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0]* 2]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> damped = UserActuator(
    ...     observer=PartObserver(parts="velocity"), function=lambda u, v: u - 10.0 * v
    ... )
    >>> model = UserActuation(pl.ImplicitEuler(mass, dt=0.1), {"jet": damped})
    >>> run = pl.simulate(model, np.ones((100, 2)))
    >>> run.states[-1][2:].round(3)  # the final velocity, u / 10
    array([0.1, 0.1])
    """

    model: Dynamics
    actuators: Mapping[str, UserActuator]
    # the abilities of the model, set on construction only if the model has them
    pullback: Callable[[Step, Array], tuple[Array, Array, Array]] = field(init=False, repr=False)
    linearize: Callable[[Step], Linearization] = field(init=False, repr=False)
    step_many: Callable[..., StepBatch] = field(init=False, repr=False)
    initial_state_pullback: Callable[..., Array] = field(init=False, repr=False)
    maps: tuple[MappedControls, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_model(self.model)
        if self.robot is None or self.robot.n_controls != self.model.n_controls:
            raise InputError(
                f"{type(self.model).__name__} has no robot with actuators; give a model such as "
                "ImplicitEuler(robot, dt=...)."
            )
        advice = "give names of actuators with a UserActuator each"
        require_kind("The mapping of actuators", self.actuators, Mapping, advice)
        object.__setattr__(self, "maps", self._maps())
        for protocol, name in ABILITIES.items():
            if isinstance(self.model, protocol):
                object.__setattr__(self, name, getattr(self, f"_{name}"))

    def _maps(self) -> tuple[MappedControls, ...]:
        parts = [part for _, part in for_each_actuator(self.robot, lambda actuator: None)]
        slices = dict(zip(self.robot.actuators, parts, strict=True))
        if not self.actuators:
            raise InputError("There are no user actuators; give at least one.")
        return tuple(self._map(name, made, slices) for name, made in self.actuators.items())

    def _map(self, name: str, made: UserActuator, slices: dict[str, slice]) -> MappedControls:
        if name not in slices:
            raise InputError(
                f"{self.robot.name} has no actuator {quoted(name)}; {nearest(name, slices)}"
            )
        advice = "make one with UserActuator(function=...)"
        require_kind(f"The actuator '{name}'", made, UserActuator, advice)
        part = slices[name]
        if part.start == part.stop:
            raise InputError(f"The actuator '{name}' has no control to map; choose another one.")
        seen = None if made.observer is None else attach_observer(made.observer, self.model)
        found = MappedControls(part=part, actuator=made, observer=seen)
        if isinstance(self.model, Reversible):
            made.check_derivative(
                name, part.stop - part.start, found.observe(self.model.initial_state())
            )
        return found

    # Dynamics

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def n_controls(self) -> int:
        return self.model.n_controls

    @property
    def params(self) -> Params:
        return self.model.params

    @property
    def dt(self) -> float:
        return self.model.dt

    @property
    def robot(self) -> Any:
        """The robot of the model; None if it has none."""
        return getattr(self.model, "robot", None)

    @property
    def body(self) -> Any:
        """The body of the model; None if it has none."""
        return getattr(self.model, "body", None)

    @property
    def dim(self) -> int:
        return self.model.dim  # type: ignore[attr-defined]

    def control_limits(self) -> tuple[Array, Array]:
        """Return the limits (n_controls,) of the controls, those of user actuators in place."""
        lower, upper = (np.array(side, float) for side in self.model.control_limits())
        for one in self.maps:
            lower[one.part], upper[one.part] = one.actuator.limits
        return lower, upper

    def neutral_controls(self) -> Array:
        neutral = np.array(self.model.neutral_controls(), float)
        for one in self.maps:
            neutral[one.part] = one.actuator.neutral
        return neutral

    def effector_rows(self, name: str) -> Any:
        return self.model.effector_rows(name)

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return self.model.effector(name, x)  # type: ignore[attr-defined]

    def effector_jacobian(self, name: str, x: Array) -> Any:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def initial_state(self, *, p: Array | None = None) -> Array:
        return initial_state_at(self.model, p)

    def _initial_state_pullback(self, x_bar: Array, p: Array | None = None) -> Array:
        model: Any = self.model
        return np.asarray(model.initial_state_pullback(x_bar, p))

    def actuator_controls(self, x: Array, u: Array) -> Array:
        """Return the controls (n_controls,) of the robot's actuators for a state and controls u."""
        return self._applied(x, u)[0]

    def _applied(self, x: Array, u: Array) -> tuple[Array, Array]:
        """Return the controls of the actuators, and whether each is inside its limits."""
        lower, upper = self.model.control_limits()
        out, free = np.array(u, float), np.ones(len(u), bool)
        for one in self.maps:
            raw = one.value(x, u)
            out[one.part] = np.clip(raw, lower[one.part], upper[one.part])
            free[one.part] = out[one.part] == raw
        return out, free

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step of the model."""
        x, u = check_state(x, self.space.size), check_controls(u, self.n_controls)
        control, free = self._applied(x, u)
        step = self.model.step(x, control, p, k)
        tape = UserActuationTape(owner=self, step=step, x=x, u=np.array(u), free=free)
        return Step(step.x, step.status, tape)

    def _step_many(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> StepBatch:
        """Step many states (b, n_state) at once."""
        model: Any = self.model
        x = finite_array("The array of states", x, (None, self.space.size))
        u = finite_array("The array of controls", u, (len(x), self.n_controls))
        rows = [self._applied(row, control)[0] for row, control in zip(x, u, strict=True)]
        return model.step_many(x, np.array(rows).reshape(u.shape), p, k)

    # Derivatives

    def _pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        check_step(step, self)
        t: UserActuationTape = step.tape
        model: Any = self.model
        by_x, by_control, by_p = model.pullback(t.step, x_bar)
        by_law, by_u = self._controls_vjp(t, by_control)
        return by_x + by_law, by_u, by_p

    def _controls_vjp(self, t: UserActuationTape, bar: Array) -> tuple[Array, Array]:
        """Return the gradients of bar . (controls of the actuators) by the state and by u."""
        bar = bar * t.free
        by_x, by_u = np.zeros(len(t.x)), np.array(bar)
        for one in self.maps:
            x_share, by_u[one.part] = one.vjp(t.x, t.u, bar[one.part])
            by_x += x_share
        return by_x, by_u

    def _linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        t: UserActuationTape = step.tape
        model: Any = self.model
        inner: Linearization = model.linearize(t.step)
        rows = [self._controls_vjp(t, row) for row in np.eye(self.n_controls)]
        by_x, by_u = (np.array(part) for part in zip(*rows, strict=True))

        def jvp(dx: Array, du: Array, dp: Array) -> Array:
            return inner.jvp_columns(dx, by_x @ dx + by_u @ du, dp)

        def vjp(bars: Array) -> tuple[Array, Array, Array]:
            x_bar, control_bar, p_bar = inner.vjp_columns(bars)
            return x_bar + by_x.T @ control_bar, by_u.T @ control_bar, p_bar

        return Linearization(
            n_state=inner.n_state,
            n_controls=self.n_controls,
            n_params=inner.n_params,
            jvp_columns=jvp,
            vjp_columns=vjp,
        )


# the method that a model with user actuators has only if its model implements a protocol
ABILITIES: dict[Any, str] = {
    Reversible: "pullback",
    Linearizable: "linearize",
    Batched: "step_many",
    ParametrisedStart: "initial_state_pullback",
}
