"""ShapeModel: the model of a parametrised robot, whose parameters contain its shape."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy.sparse as sp

from pliant.argument_checks import check_step
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Linearization,
    Params,
    Space,
    Step,
    effector_jacobian,
    effector_position,
    finite_array,
    quoted,
)
from pliant.design.shape_steps import (
    ParticleShape,
    ShapeOfModel,
    SolidShape,
    initial_acceleration_pullback,
)
from pliant.dynamics import BDF2, ImplicitEuler, Quasistatic, SemiImplicit
from pliant.dynamics.robot_model import describe_model
from pliant.mpm import MaterialPoint
from pliant.robot import Robot

if TYPE_CHECKING:
    from pliant.design.parametrised_robot import ParametrisedRobot

KINDS = (ImplicitEuler, Quasistatic, BDF2, SemiImplicit, MaterialPoint)
KEPT_MODELS = 4  # of the last values: an optimiser steps back and forth between few


@dataclass(frozen=True, kw_only=True, eq=False)
class ShapeTape:
    """The data of a step that its derivatives need: the step of the model of one shape."""

    owner: "ShapeModel"
    step: Step
    shape: ShapeOfModel
    end: float  # [s] of the step


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShapeModel:
    """The model of a ParametrisedRobot: a Dynamics whose `params` contain "shape.NAME".

    `kind` is ImplicitEuler, Quasistatic, BDF2, SemiImplicit or MaterialPoint, and `options` are its
    arguments. The model of each shape is built when it is first used. The initial state is the rest
    shape, so it depends on the parameters: pass `p` to `initial_state`, and add
    `initial_state_pullback` to the gradient. `linearize` exists unless the kind is MaterialPoint.
    """

    shape: "ParametrisedRobot"
    kind: Any
    options: Mapping[str, Any]
    linearize: Callable[[Step], Linearization] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f"A shape model of kind {quoted(getattr(self.kind, '__name__', self.kind))} is not "
                f"available; choose one of {', '.join(kind.__name__ for kind in KINDS)}."
            )
        if self.kind is not MaterialPoint:
            object.__setattr__(self, "linearize", self._linearize)
        self._start.check()

    def __repr__(self) -> str:
        return describe_model(self)

    # The models of the shapes

    @cached_property
    def _start(self) -> ShapeOfModel:
        """The shape at the start values, with its model."""
        make = ParticleShape.start if self.kind is MaterialPoint else SolidShape.start
        return make(self.shape, self.kind, dict(self.options))

    @cached_property
    def _kept(self) -> dict[bytes, ShapeOfModel]:
        return {}

    def _shape_at(self, values: Array) -> ShapeOfModel:
        if np.array_equal(values, self.shape.params_start):
            return self._start
        key = values.tobytes()
        found = self._kept.pop(key, None)
        if found is None:
            found = self._start.moved(values)
        self._kept[key] = found
        for old in list(self._kept)[:-KEPT_MODELS]:
            self._kept.pop(old, None)
        return found

    def _split(self, p: Array | None) -> tuple[Array | None, Array]:
        """Return the parameters of the model (None: its values) and the shape's values."""
        self.params.split(p)
        if p is None:
            return None, self.shape.params_start
        p = np.asarray(p, float)
        n = self.params.size - len(self.shape.parameters)
        return (p[:n] if n else None), p[n:]

    def at(self, p: Array | None = None) -> Dynamics:
        """Return the model of the robot with the parameters' shape, without shape parameters."""
        return self._shape_at(self._split(p)[1]).model

    def stable_substeps(self, p: Array | None = None) -> int:
        """Return the number of substeps of a step of particles that is stable for parameters p
        (n_params,)."""
        inner, values = self._split(p)
        shape = self._shape_at(values)
        model = shape.model
        if not isinstance(model, MaterialPoint):
            raise InputError(
                f"{type(model).__name__} has no substeps; make the model with MaterialPoint."
            )
        return model.stable_substeps(shape.model_params(inner))

    # Core interface

    @property
    def robot(self) -> Robot:
        return self._start.model.robot

    @property
    def body(self) -> Any:
        return self._start.model.body

    @property
    def dim(self) -> int:
        return int(self.body.dim)

    @property
    def space(self) -> Space:
        return self._start.model.space

    @property
    def precision(self) -> str:
        """The precision of the substeps of particles."""
        return str(getattr(self.at(), "precision", "float64"))

    @property
    def dt(self) -> float:
        return float(self._start.model.dt)

    @property
    def n_controls(self) -> int:
        return self._start.model.n_controls

    @cached_property
    def params(self) -> Params:
        blocks = [
            block for block in self._start.model.params.blocks if self._start.owns(block.name)
        ]
        return Params(blocks=(*blocks, *self.shape.params.blocks))

    def control_limits(self) -> tuple[Array, Array]:
        return self._start.model.control_limits()

    def neutral_controls(self) -> Array:
        return self._start.model.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the effector's position. It is
        that of the start shape: an effector is the same material point in every shape."""
        return self._start.model.effector_rows(name)

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return effector_position(self, name, x, self.dim)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def initial_state(self, *, p: Array | None = None) -> Array:
        """Return the rest shape at rest, for parameters p (n_params,)."""
        inner, values = self._split(p)
        model = self._shape_at(values).model
        if isinstance(model, BDF2):
            return model.initial_state(p=inner)
        return model.initial_state()

    def initial_state_pullback(self, x_bar: Array, p: Array | None = None) -> Array:
        """Return the gradient (n_params,) of x_bar . initial_state(p) by the parameters."""
        inner, values = self._split(p)
        shape, bar = self._shape_at(values), finite_array("x_bar", x_bar, (self.space.size,))
        n, others = self.space.n_dofs, np.zeros(self.params.size)
        q_bar = bar[:n]
        if isinstance(shape.model, BDF2):
            assert isinstance(shape, SolidShape)
            q_bar, others = initial_acceleration_pullback(shape, bar, inner)
        others[len(others) - len(values) :] += shape.rest_pullback(q_bar)
        return others

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step of the model with the parameters' shape."""
        inner, values = self._split(p)
        shape = self._shape_at(values)
        step = shape.model.step(x, u, shape.model_params(inner), k)
        tape = ShapeTape(owner=self, step=step, shape=shape, end=(k + 1) * self.dt)
        return Step(step.x, step.status, tape)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p. Raises InputError for a failed step."""
        check_step(step, self)
        t: ShapeTape = step.tape
        if self.kind is not MaterialPoint:
            return self._linearize(step).vjp(x_bar)
        assert isinstance(t.shape, ParticleShape)
        return t.shape.pullback(t.step, x_bar)

    def _linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        t: ShapeTape = step.tape
        assert isinstance(t.shape, SolidShape)
        lin = t.shape.model.linearize(t.step)
        by_shape = t.shape.columns(t.step, t.end, lin.solve)
        n = lin.n_params

        def vjp(bars: Array) -> tuple[Array, Array, Array]:
            x, u, p = lin.vjp_columns(bars)
            return x, u, np.concatenate([p, by_shape.T @ bars])

        return Linearization(
            n_state=lin.n_state,
            n_controls=lin.n_controls,
            n_params=n + by_shape.shape[1],
            jvp_columns=lambda dx, du, dp: lin.jvp_columns(dx, du, dp[:n]) + by_shape @ dp[n:],
            vjp_columns=vjp,
            solve=lin.solve,
        )
