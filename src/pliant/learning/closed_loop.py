"""ClosedLoop: a model with its controller, as a Dynamics without controls."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np

from pliant.argument_checks import check_index, check_model, check_state, check_step
from pliant.core import (
    Array,
    Batched,
    Controller,
    ControllerWithMemory,
    Dynamics,
    InputError,
    Linearizable,
    Linearization,
    MapDynamics,
    ParametrisedStart,
    Params,
    Refinable,
    Reversible,
    Space,
    Status,
    Step,
    StepBatch,
    StepErrorEstimating,
    check_controls,
    counted,
    effector_jacobian,
    finite_array,
    initial_state_at,
    is_integer,
    quoted,
    require_kind,
)
from pliant.dynamics.simulation import Rollout
from pliant.learning.control_law import ControlLaw, Decision
from pliant.learning.memory import AnyController, AnyObserver
from pliant.learning.observers import ObserverDescription, attach_any

CONTROLS = "controls"  # the part of the state that holds the controls of the last step
MEMORY = "memory"  # the part that holds what observer and controller stored
PREFIX = "controller."  # of the names of the controller's weights
NO_FINITE_CONTROL = "the controller returned a control that is not finite; reduce its weights"


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosedLoopTape:
    """The data of a step that its derivatives need."""

    owner: "ClosedLoop"
    step: Step  # of the model
    decision: Decision
    free: Array  # (n_controls,) whether each control is inside its limits
    k: int  # number of the step


@final
@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A model whose controls come from a controller: u_k = controller(observer(x_k), k dt).

    Parameters
    ----------
    model : any Dynamics with controls
    observer : what the controller sees, such as EffectorObserver(...); None for nothing
    controller : such as MLP.for_model(model, observer) or SineGait(...)

    It is a Dynamics without controls. The state is the model's, followed by the part "controls"
    with the controls of the last step. If observer or controller have a memory, the part "memory"
    follows. Controls beyond the actuator limits are clipped to them. `params` are the controller's
    weights, named "controller.NAME", and then those of the model. The loop can be differentiated,
    refined or stepped in batches if the model can.

    With a `gradient_window`, gradients are not exact: every so many steps they pass the state only
    as a rigid translation across gravity. Exact gradients of long gaits with contacts grow without
    bound and point nowhere. Windows keep how the controls of a window move the robot within it,
    because a robot that starts the next window elsewhere walks on in the same way.

    Raises InputError if the parts do not fit together.

    >>> import numpy as np, pliant as pl
    >>> from pliant.learning import ClosedLoop, PartObserver, LinearFeedback
    >>> mass = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> model = pl.ImplicitEuler(mass, dt=0.1)
    >>> spring = LinearFeedback(gains=-np.eye(2), reference=[1.0, 0.0], controls=[0.0, 0.0])
    >>> loop = ClosedLoop(model, PartObserver(parts="position"), spring)
    >>> run = pl.simulate(loop, np.zeros((3, 0)))
    >>> run.states[-1][-2:].round(3)  # the last force
    array([0.97, 0.  ])
    """

    model: Dynamics
    observer: "AnyObserver | ObserverDescription | None"
    controller: AnyController
    gradient_window: int | None = None  # steps; None: exact gradients
    # the abilities of the model, set on construction only if the model has them
    pullback: Callable[[Step, Array], tuple[Array, Array, Array]] = field(init=False, repr=False)
    linearize: Callable[[Step], Linearization] = field(init=False, repr=False)
    step_many: Callable[..., StepBatch] = field(init=False, repr=False)
    initial_state_pullback: Callable[..., Array] = field(init=False, repr=False)
    refined: Callable[[], "ClosedLoop"] = field(init=False, repr=False)
    exact: Callable[[], "ClosedLoop"] = field(init=False, repr=False)
    query_point: Callable[[Array], Array] = field(init=False, repr=False)
    positions: Callable[[Array], Array] = field(init=False, repr=False)
    velocities: Callable[[Array], Array] = field(init=False, repr=False)
    step_error_estimator: Callable[[], Callable[[Step], tuple[Array, Array]]] = field(
        init=False, repr=False
    )
    replay_model: Callable[[Array], tuple[Dynamics, Array]] = field(init=False, repr=False)
    law: ControlLaw = field(init=False, repr=False)  # with the observer of this model

    def __post_init__(self) -> None:
        check_model(self.model)
        require_kind(
            "The controller",
            self.controller,
            (Controller, ControllerWithMemory),
            "give one such as MLP.for_model(model, observer)",
        )
        attached = None if self.observer is None else attach_any(self.observer, self.model)
        law = ControlLaw(observer=attached, controller=self.controller)
        object.__setattr__(self, "law", law)
        self._check_sizes()
        self._check_window()
        for protocol, names in ABILITIES.items():
            inexact = protocol is Linearizable and self.gradient_window is not None
            if isinstance(self.model, protocol) and not inexact:
                for name in names:
                    object.__setattr__(self, name, getattr(self, f"_{name}"))

    def _check_sizes(self) -> None:
        controller, model = self.controller, self.model
        size = self.law.size
        if controller.n_inputs != size:
            raise InputError(
                f"The controller takes {controller.n_inputs} inputs, but the observer gives "
                f"{size}. Make the controller for this observer."
            )
        if controller.n_controls != model.n_controls or not model.n_controls:
            raise InputError(
                f"The controller gives {counted(controller.n_controls, 'control')}, but the model "
                f"has {model.n_controls}. Make the controller for this model."
            )
        if CONTROLS in model.space.parts:
            raise InputError(
                f"The state of the model has a part '{CONTROLS}' already; give the model without "
                "a loop."
            )

    def _check_window(self) -> None:
        window = self.gradient_window
        if window is None:
            return
        if not is_integer(window) or window < 1:
            raise InputError(
                f"The gradient window is {quoted(window)}; give a number of steps, 1 or more, or "
                "None for exact gradients."
            )
        body = getattr(self.model, "body", None)
        if not hasattr(self.model, "dim") or not np.all(getattr(body, "is_position", True)):
            raise InputError(
                "A gradient window needs a robot of particles or solid cells, whose unknowns are "
                "positions; leave it out."
            )

    # Dynamics

    @property
    def space(self) -> Space:
        inner = self.model.space
        sizes = inner.sizes or len(inner.parts) * (inner.n_dofs,)
        parts, sizes = (*inner.parts, CONTROLS), (*sizes, self.model.n_controls)
        if n := len(self.law.first_memory):
            parts, sizes = (*parts, MEMORY), (*sizes, n)
        return replace(inner, parts=parts, sizes=sizes)

    @property
    def attached(self) -> AnyObserver | None:
        """The observer of this model."""
        return self.law.observer

    @property
    def n_controls(self) -> int:
        return 0

    @property
    def params(self) -> Params:
        weights = tuple(
            replace(block, name=PREFIX + block.name) for block in self.controller.params.blocks
        )
        return Params(blocks=(*weights, *self.model.params.blocks))

    @property
    def dt(self) -> float:
        return self.model.dt

    @property
    def robot(self) -> Any:
        """The robot of the model; None if it has none."""
        return getattr(self.model, "robot", None)

    @property
    def surrogate(self) -> Any:
        """The surrogate of a Refinable model."""
        return self.model.surrogate  # type: ignore[attr-defined]

    @property
    def effector_names(self) -> tuple[str, ...]:
        """The effectors of a model on an expensive map."""
        return self.model.effector_names  # type: ignore[attr-defined]

    @property
    def queries(self) -> int:
        """The number of values of an expensive map that the model used."""
        return self.model.queries  # type: ignore[attr-defined]

    def control_limits(self) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(0)

    def neutral_controls(self) -> Array:
        return np.zeros(0)

    def effector_rows(self, name: str) -> Any:
        return self.model.effector_rows(name)

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        inner, _ = self.split_states(finite_array("The state", x, (self.space.size,)))
        return self.model.effector(name, inner)  # type: ignore[attr-defined]

    def effector_jacobian(self, name: str, x: Array) -> Any:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def initial_state(self, *, p: Array | None = None) -> Array:
        """Return the initial state of the model, with neutral controls. It depends on the
        parameters p (params.size,) if that of the model does, as a shape does."""
        return self.state(initial_state_at(self.model, self.split_params(p)[1]))

    def _initial_state_pullback(self, x_bar: Array, p: Array | None = None) -> Array:
        """Return the gradient (params.size,) of x_bar . initial_state(p) by the parameters."""
        model: Any = self.model
        inner, _ = self.split_states(finite_array("x_bar", x_bar, (self.space.size,)))
        by_model = model.initial_state_pullback(inner, self.split_params(p)[1])
        return np.concatenate([np.zeros(self.controller.params.size), by_model])

    def state(self, x: Array) -> Array:
        """Return the state of the loop for a state of the model (model.space.size,), with neutral
        controls and the first memory, before the first step."""
        x = finite_array("The state of the model", x, (self.model.space.size,))
        return np.concatenate([x, self.model.neutral_controls(), self.law.first_memory])

    def split_states(self, states: Array) -> tuple[Array, Array]:
        """Return the states of the model (..., model.space.size) and the controls of the last
        steps (..., model.n_controls) for states (..., n_state) of the loop."""
        n = self.model.space.size
        return states[..., :n], states[..., n : n + self.model.n_controls]

    def memory(self, states: Array) -> Array:
        """Return the memories (..., n_memory) of observer and controller in states of the loop."""
        return states[..., self.model.space.size + self.model.n_controls :]

    def model_rollout(self, rollout: Rollout) -> Rollout:
        """Return a rollout of the loop as one of the model under the same controls, without tapes.
        Its report shows the robot and its controls."""
        states, controls = self.split_states(rollout.states)
        return replace(rollout, states=states, controls=controls[1:], steps=(), model=self.model)

    def with_weights(self, w: Array) -> Self:
        """Return the loop with other weights (controller.params.size,) of the controller."""
        made: Any = self.controller
        if not hasattr(made, "with_weights"):
            raise InputError(
                f"{type(made).__name__} cannot take other weights; give it a method with_weights."
            )
        return replace(self, controller=made.with_weights(w))

    def split_params(self, p: Array | None) -> tuple[Array, Array | None]:
        """Return the controller's weights and the parameters of the model, None for its own.
        Raises InputError if `p` (params.size,) is not finite or out of bounds."""
        if p is None:
            return self.controller.params.flat, None
        self.params.split(p)
        n = self.controller.params.size
        flat = np.asarray(p, float)
        return flat[:n], flat[n:]

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step of the controller and the model. `u` is empty."""
        check_controls(u, 0)
        x = check_state(x, self.space.size)
        inner, _ = self.split_states(x)
        w, q = self.split_params(p)
        found = self.law.decide(inner, self.memory(x), w, check_index(k) * self.dt)
        raw = found.control
        if not (np.all(np.isfinite(raw)) and np.all(np.isfinite(found.after))):
            return Step(x, Status(ok=False, text=NO_FINITE_CONTROL), None)
        control = np.clip(raw, *self.model.control_limits())
        step = self.model.step(inner, control, q, k)
        tape = ClosedLoopTape(owner=self, step=step, decision=found, free=control == raw, k=k)
        return Step(np.concatenate([step.x, control, found.after]), step.status, tape)

    def _step_many(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> StepBatch:
        """Step many states (b, n_state) at once."""
        model: Any = self.model
        x = finite_array("The array of states", x, (None, self.space.size))
        inner, _ = self.split_states(x)
        w, q = self.split_params(p)
        raw, after = self.law.decide_many(inner, self.memory(x), w, check_index(k) * self.dt)
        good: Array = np.all(np.isfinite(raw), axis=1) & np.all(np.isfinite(after), axis=1)
        # a row without a control is stepped as well, but its result is not used
        control = np.clip(np.where(good[:, None], raw, 0.0), *model.control_limits())
        batch = model.step_many(inner, control, q, k)
        bad = Status(ok=False, text=NO_FINITE_CONTROL)
        return StepBatch(
            x=np.where(good[:, None], np.concatenate([batch.x, control, after], axis=1), x),
            statuses=tuple(s if ok else bad for s, ok in zip(batch.statuses, good, strict=True)),
        )

    # Derivatives

    def _pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        check_step(step, self)
        t: ClosedLoopTape = step.tape
        model: Any = self.model
        x_bar = finite_array("x_bar", x_bar, (self.space.size,))
        inner_bar, control_bar = self.split_states(x_bar)
        by_x, by_u, by_q = model.pullback(t.step, np.ascontiguousarray(inner_bar))
        by_law, by_memory, by_w = self.law.vjp(
            t.decision, (by_u + control_bar) * t.free, self.memory(x_bar)
        )
        by_inner = by_x + by_law
        if self.gradient_window is not None and t.k > 0 and t.k % self.gradient_window == 0:
            by_inner, by_memory = self._by_translation(by_inner), np.zeros_like(by_memory)
        return (
            np.concatenate([by_inner, np.zeros(len(control_bar)), by_memory]),
            np.zeros(0),
            np.concatenate([by_w, by_q]),
        )

    def _by_translation(self, by_state: Array) -> Array:
        """Return the gradient by the model's state (model.space.size,) that has the same derivative
        by a rigid translation across gravity, and no other part."""
        n, dim, gravity = self.model.space.n_dofs, self.model.dim, self.robot.gravity  # type: ignore[attr-defined]
        by_translation = by_state[:n].reshape(-1, dim).sum(axis=0)
        if gravity is not None and np.any(gravity):
            down = gravity / np.linalg.norm(gravity)
            by_translation -= (by_translation @ down) * down
        out = np.zeros_like(by_state)
        out[:n] = np.tile(by_translation * dim / n, n // dim)
        return out

    def _linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        t: ClosedLoopTape = step.tape
        model: Any = self.model
        inner: Linearization = model.linearize(t.step)
        by_x, by_memory, by_w = self.law.jacobians(t.decision, t.free.astype(float))
        n, m, n_w = inner.n_state, inner.n_controls, by_w.shape[1]

        def jvp(dx: Array, du: Array, dp: Array) -> Array:
            law = by_x @ dx[:n] + by_memory @ dx[n + m :] + by_w @ dp[:n_w]
            return np.concatenate([inner.jvp_columns(dx[:n], law[:m], dp[n_w:]), law])

        def vjp(bars: Array) -> tuple[Array, Array, Array]:
            x_bar, u_bar, q_bar = inner.vjp_columns(np.ascontiguousarray(bars[:n]))
            law_bar = bars[n:].copy()
            law_bar[:m] += u_bar
            zero = np.zeros((m, bars.shape[1]))
            return (
                np.concatenate([x_bar + by_x.T @ law_bar, zero, by_memory.T @ law_bar]),
                np.zeros((0, bars.shape[1])),
                np.concatenate([by_w.T @ law_bar, q_bar]),
            )

        return Linearization(
            n_state=self.space.size,
            n_controls=0,
            n_params=n_w + inner.n_params,
            jvp_columns=jvp,
            vjp_columns=vjp,
        )

    # Refinement

    def _with_model(self, model: Dynamics) -> "ClosedLoop":
        return replace(self, model=model)

    def _refined(self) -> "ClosedLoop":
        """Return the loop with the next finer surrogate."""
        return self._with_model(self.model.refined())  # type: ignore[attr-defined]

    def _exact(self) -> "ClosedLoop":
        """Return the loop with the exact map in place of the surrogate."""
        return self._with_model(self.model.exact())  # type: ignore[attr-defined]

    def _query_point(self, x: Array) -> Array:
        """Return the point (d,) where a step from x starts to use the map."""
        return self.model.query_point(self.split_states(x)[0])  # type: ignore[attr-defined]

    def _positions(self, x: Array) -> Array:
        """Return the positions (n,) that a relative error refers to."""
        return self.model.positions(self.split_states(x)[0])  # type: ignore[attr-defined]

    def _velocities(self, x: Array) -> Array:
        """Return the rates (m,) of the positions that a relative error refers to."""
        return self.model.velocities(self.split_states(x)[0])  # type: ignore[attr-defined]

    def _step_error_estimator(self) -> Callable[[Step], tuple[Array, Array]]:
        """Return a function that estimates the errors of positions and velocities after a step
        under the same controls."""
        estimate = self.model.step_error_estimator()  # type: ignore[attr-defined]

        def of_loop(step: Step) -> tuple[Array, Array]:
            check_step(step, self)
            return estimate(step.tape.step)

        return of_loop

    def _replay_model(self, x: Array) -> tuple[Dynamics, Array]:
        """Return the loop on the model that replays a plan, and its state for x. The observer must
        be a description, which fits both models."""
        inner, controls = self.split_states(x)
        model, start = self.model.replay_model(inner)  # type: ignore[attr-defined]
        return self._with_model(model), np.concatenate([start, controls, self.memory(x)])


# the methods that a loop has only if its model implements a protocol
ABILITIES: dict[Any, tuple[str, ...]] = {
    Reversible: ("pullback",),
    Linearizable: ("linearize",),
    Batched: ("step_many",),
    ParametrisedStart: ("initial_state_pullback",),
    MapDynamics: ("query_point", "positions", "velocities", "replay_model"),
    Refinable: ("refined", "exact"),
    StepErrorEstimating: ("step_error_estimator",),
}
