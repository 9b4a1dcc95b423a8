"""Types shared by all packages: errors, Status, Step, Params, Space and the protocols of a model.
It depends on NumPy only."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# [m] from the origin; larger values have a wrong unit, and their rounding exceeds 0.1 um
MAX_COORDINATE = 1e9


class PliantError(Exception):
    """The base class of all errors that Pliant raises. The text says what is wrong and how to fix
    it.

    >>> import pliant as pl
    >>> try:
    ...     pl.Material(E=-1.0, nu=0.4)
    ... except pl.PliantError as error:
    ...     print(type(error).__name__)
    InputError
    """

    def __str__(self) -> str:
        return printable(" ".join(map(str, self.args)), keep="\n")


class InputError(PliantError, ValueError):
    """An invalid input. The text says what, where and how to fix it.

    >>> import pliant as pl
    >>> try:
    ...     pl.Options(iterations=0)
    ... except pl.InputError as error:
    ...     print(error)
    A planner needs at least 1 iteration and a tolerance between 0 and 1, not '0' and 1e-07.
    """


class MeshError(InputError):
    """A mesh or a surface that no body can be built from."""


class StepError(PliantError, RuntimeError):
    """A failed step or simulation. The text is that of its Status.

    >>> import pliant as pl
    >>> def final_state(model, controls):
    ...     try:
    ...         return pl.simulate(model, controls).states[-1]
    ...     except pl.StepError as error:
    ...         return str(error)
    """


class NoSurrogateError(InputError, AttributeError):
    """A model without a surrogate, where one is needed. It is an AttributeError, so that a model
    whose `surrogate` raises it does not count as Refinable."""


class MissingExtra(PliantError, ImportError):
    """A missing optional package. The text gives the install command."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The outcome of a step. It is falsy on failure; `text` then gives the reason and a remedy."""

    ok: bool = True
    text: str = "converged"
    iterations: int = 0
    residual: float = 0.0  # [N], largest free component of the residual force

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Step:
    """The result of one step of a Dynamics: the next state, its status, and the tape that the
    derivatives need."""

    x: Array  # (n_state,)
    status: Status
    tape: Any = None


@dataclass(frozen=True)
class StepBatch:
    """The results of independent steps of one model."""

    x: Array  # (b, n_state)
    statuses: tuple[Status, ...]


@dataclass(frozen=True, kw_only=True)
class Param:
    """One named block of design variables."""

    name: str
    value: Array  # (size,)
    unit: str
    lower: float
    upper: float
    lower_included: bool = False
    upper_included: bool = False
    typical: float | None = None  # size of a change; None: that of the value


@dataclass(frozen=True, kw_only=True)
class Params:
    """The active design variables of a model: named blocks that form one flat array."""

    blocks: tuple[Param, ...] = ()

    @property
    def size(self) -> int:
        return sum(block.value.size for block in self.blocks)

    @property
    def flat(self) -> Array:
        """The current values (size,), one block after the other."""
        return (
            np.concatenate([block.value for block in self.blocks]) if self.blocks else np.zeros(0)
        )

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and upper bounds, each (size,). They are exclusive, except those of blocks with
        `lower_included` and `upper_included`."""
        lower = [np.full(block.value.size, block.lower) for block in self.blocks]
        upper = [np.full(block.value.size, block.upper) for block in self.blocks]
        return (
            (np.concatenate(lower), np.concatenate(upper))
            if self.blocks
            else (np.zeros(0), np.zeros(0))
        )

    def split(self, p: Array | None) -> dict[str, Array]:
        """Return the blocks of a flat array `p` (default: the current values) by name. Raises
        InputError if a value is out of bounds."""
        names = ", ".join(block.name for block in self.blocks) or "none"
        p = (
            self.flat
            if p is None
            else finite_array(f"The parameter vector ({names})", p, (self.size,))
        )
        out, start = {}, 0
        for block in self.blocks:
            part = p[start : start + block.value.size]
            above = part >= block.lower if block.lower_included else part > block.lower
            below = part <= block.upper if block.upper_included else part < block.upper
            bad = np.flatnonzero(~(above & below))
            if bad.size:
                raise InputError(
                    f"Parameter {block.name}[{bad[0]}] = {part[bad[0]]:g} {block.unit} must lie "
                    f"between {block.lower:g} and {block.upper:g}."
                )
            out[block.name] = part
            start += block.value.size
        return out


@dataclass(frozen=True, kw_only=True)
class Space:
    """The names of the parts of a flat state. The first part is the unknowns of the body. Each
    part has n_dofs entries, unless `sizes` gives other sizes."""

    parts: tuple[str, ...]
    n_dofs: int
    # [1/s or 1] velocity = sum of rate[j] * part[j]; empty: no velocity
    rate: tuple[float, ...] = field(default=())
    sizes: tuple[int, ...] = field(default=())  # of each part; empty: n_dofs each
    quaternions: tuple[str, ...] = field(default=())  # parts that hold a unit quaternion (4,)

    @property
    def starts(self) -> tuple[int, ...]:
        """The index where each part starts, and the end of the last part."""
        return (0, *np.cumsum(self.sizes or len(self.parts) * (self.n_dofs,)).tolist())

    @property
    def size(self) -> int:
        return self.starts[-1]

    def split(self, x: Array) -> SimpleNamespace:
        """Return the parts of `x` as views, by name. Raises InputError for a wrong shape."""
        if np.shape(x) != (self.size,):
            raise InputError(
                f"The state has shape {np.shape(x)}; give ({self.size},), the parts "
                f"{', '.join(self.parts)} in turn."
            )
        return SimpleNamespace(**dict(zip(self.parts, self._pieces(x), strict=True)))

    def _pieces(self, x: Array) -> list[Array]:
        return np.split(np.asarray(x), self.starts[1:-1])

    def position(self, x: Array) -> Array:
        """Return the unknowns (n_dofs,), the first part."""
        return np.asarray(x)[: self.n_dofs]

    def velocity(self, x: Array) -> Array:
        """Return the rates (n_dofs,) [unit/s] of the unknowns, linear in the state. They are zero
        for a rule without inertia."""
        nonzero = [
            c * piece for c, piece in zip(self.rate, self._pieces(x), strict=False) if c != 0.0
        ]
        return sum(nonzero, np.zeros(self.n_dofs))

    @property
    def tangent_size(self) -> int:
        """The size of a change of the state: a quaternion changes by a rotation vector (3,)."""
        return self.size - len(self.quaternions)

    def integrate(self, x: Array, dx: Array) -> Array:
        """Return the state (size,) after a change dx (tangent_size,). Vectors are added; a
        quaternion is rotated by a rotation vector [rad] in its own frame."""
        dx = finite_array("The change of the state", dx, (self.tangent_size,))
        out, start = [], 0
        for name, piece in vars(self.split(x)).items():
            rotated = name in self.quaternions
            change = dx[start : start + (3 if rotated else piece.size)]
            start += change.size
            out.append(
                quaternion_product(piece, quaternion_exponential(change))
                if rotated
                else piece + change
            )
        return np.concatenate(out)

    def integrate_jacobian(self, x: Array, dx: Array) -> list[Array]:
        """Return the derivative of each part of `integrate(x, dx)` by its part of the change: a
        matrix (4, 3) for a quaternion, and ones (size,) for a vector, which is added."""
        out, start = [], 0
        for name, piece in vars(self.split(x)).items():
            rotated = name in self.quaternions
            size = 3 if rotated else piece.size
            out.append(
                quaternion_matrix(piece) @ quaternion_exponential_jacobian(dx[start : start + 3])
                if rotated
                else np.ones(size)
            )
            start += size
        return out

    def integrate_vjp(self, x: Array, dx: Array, x_bar: Array) -> Array:
        """Return the gradient (tangent_size,) by a change dx from that by `integrate(x, dx)`."""
        pieces = zip(self.integrate_jacobian(x, dx), self._pieces(x_bar), strict=True)
        return np.concatenate([J.T @ bar if J.ndim == 2 else bar for J, bar in pieces])

    def integrate_jvp(self, x: Array, dx: Array, changes: Array) -> Array:
        """Return the changes (size, k) of `integrate(x, dx)` for changes (tangent_size, k) of
        dx."""
        jacobians = self.integrate_jacobian(x, dx)
        ends = np.cumsum([J.shape[-1] for J in jacobians])[:-1]
        pieces = zip(jacobians, np.split(changes, ends), strict=True)
        return np.concatenate([J @ part if J.ndim == 2 else part for J, part in pieces])

    def difference(self, x: Array, y: Array) -> Array:
        """Return the change (tangent_size,) that leads from the state x to y, the inverse of
        `integrate`. A rotation is at most pi."""
        parts = zip(
            self.parts, vars(self.split(x)).values(), vars(self.split(y)).values(), strict=True
        )
        return np.concatenate(
            [
                quaternion_logarithm(quaternion_product(quaternion_inverse(a), b))
                if name in self.quaternions
                else b - a
                for name, a, b in parts
            ]
        )


def quaternion_product(a: Array, b: Array) -> Array:
    """Return the product (4,) of two quaternions, scalar first: the rotation b, then a."""
    return np.concatenate(
        [[a[0] * b[0] - a[1:] @ b[1:]], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])]
    )


def quaternion_matrix(a: Array) -> Array:
    """Return the matrix (4, 4) of the product with a quaternion from the left."""
    return np.stack([quaternion_product(a, e) for e in np.eye(4)], axis=1)


def quaternion_rotation(q: Array) -> Array:
    """Return the rotation matrices (..., 3, 3) of quaternions (..., 4), scalar first, of any length
    but zero."""
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def quaternion_inverse(q: Array) -> Array:
    """Return the inverse (4,) of a quaternion of any length but 0."""
    return np.concatenate([q[:1], -q[1:]]) / (q @ q)


def quaternion_exponential(rotation: Array) -> Array:
    """Return the unit quaternion (4,) of a rotation vector (3,) [rad]."""
    half = 0.5 * np.linalg.norm(rotation)
    return np.concatenate([[np.cos(half)], 0.5 * np.sinc(half / np.pi) * rotation])


def quaternion_exponential_jacobian(rotation: Array) -> Array:
    """Return the derivative (4, 3) of `quaternion_exponential` by the rotation vector."""
    angle = np.linalg.norm(rotation)
    sinc = 0.5 * np.sinc(0.5 * angle / np.pi)
    # (d sinc / d angle) / angle, by its series where the difference would cancel
    slope = (
        -1.0 / 24.0 + angle**2 / 960.0
        if angle < 1e-2
        else (0.5 * np.cos(0.5 * angle) - sinc) / angle**2
    )
    return np.concatenate(
        [[-0.5 * sinc * rotation], sinc * np.eye(3) + slope * np.outer(rotation, rotation)]
    )


def quaternion_logarithm(q: Array) -> Array:
    """Return the rotation vector (3,) [rad] of a quaternion, of length pi at most."""
    q = q if q[0] >= 0.0 else -q
    sine = np.linalg.norm(q[1:])
    if sine == 0.0:
        return np.zeros(3)
    return 2.0 * np.arctan2(sine, q[0]) / sine * q[1:]


@dataclass(frozen=True, kw_only=True)
class Linearization:
    """The derivative of one step as operators: dx' = A dx + B du + C dp. Dense blocks are built
    only on request."""

    n_state: int
    n_controls: int
    n_params: int
    # ((n_state, k), (n_controls, k), (n_params, k)) -> (n_state, k)
    jvp_columns: Callable[[Array, Array, Array], Array]
    vjp_columns: Callable[[Array], tuple[Array, Array, Array]]  # (n_state, k) -> the transpose
    # solves with the factorised Jacobian of the step, if it has one; for second derivatives
    solve: Callable[[Array], Array] | None = None

    def jvp(self, dx: Array, du: Array | None = None, dp: Array | None = None) -> Array:
        """Return A dx + B du + C dp for vectors or matrices of k columns. Omitted arguments are
        zero. Raises InputError for different numbers of columns."""
        du = np.zeros((self.n_controls, *np.shape(dx)[1:])) if du is None else du
        dp = np.zeros((self.n_params, *np.shape(dx)[1:])) if dp is None else dp
        blocks = [
            _columns("dx", dx, self.n_state),
            _columns("du", du, self.n_controls),
            _columns("dp", dp, self.n_params),
        ]
        if (
            len({block.shape[1] for block in blocks}) > 1
            or len({np.ndim(part) for part in (dx, du, dp)}) > 1
        ):
            raise InputError(
                f"dx, du and dp have shapes {np.shape(dx)}, {np.shape(du)} and {np.shape(dp)}; "
                "give three vectors, or three matrices with the same number of columns."
            )
        out = self.jvp_columns(*blocks) if blocks[0].shape[1] else np.zeros((self.n_state, 0))
        return out[:, 0] if np.ndim(dx) == 1 else out

    def vjp(self, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return (A^T x_bar, B^T x_bar, C^T x_bar) for a vector or a matrix of k columns."""
        bars = _columns("x_bar", x_bar, self.n_state)
        if not bars.shape[1]:
            return (
                np.zeros((self.n_state, 0)),
                np.zeros((self.n_controls, 0)),
                np.zeros((self.n_params, 0)),
            )
        x, u, p = self.vjp_columns(bars)
        return (x[:, 0], u[:, 0], p[:, 0]) if np.ndim(x_bar) == 1 else (x, u, p)

    def dense_state(self) -> Array:
        """Return A = dx'/dx (n_state, n_state), dense; use it for small bodies only."""
        return self._dense(0, self.n_state)

    def dense_controls(self) -> Array:
        """Return B = dx'/du (n_state, n_controls)."""
        return self._dense(1, self.n_controls)

    def dense_params(self) -> Array:
        """Return C = dx'/dp (n_state, n_params)."""
        return self._dense(2, self.n_params)

    def _dense(self, which: int, k: int) -> Array:
        seeds = [np.zeros((n, k)) for n in (self.n_state, self.n_controls, self.n_params)]
        seeds[which] = np.eye(k)
        return self.jvp(*seeds)


def _columns(name: str, value: Array, n: int) -> Array:
    """Return a vector (n,) or matrix (n, k) as a matrix with finite entries."""
    return (
        finite_array(name, value, (n,))[:, None]
        if np.ndim(value) == 1
        else finite_array(name, value, (n, None))
    )


def map_columns(f: Callable[..., tuple[Array, ...]], *blocks: Array) -> tuple[Array, ...]:
    """Apply f, which maps vectors to a tuple of vectors, to every column of matrices (n, k).
    Return the results as matrices; k is at least 1."""
    # compiled loops are compiled for contiguous vectors only
    columns = [np.ascontiguousarray(block.T) for block in blocks]
    rows = [f(*(block[j] for block in columns)) for j in range(blocks[0].shape[1])]
    return tuple(np.stack(part, axis=1) for part in zip(*rows, strict=True))


class Effectors(Protocol):
    """A model whose effectors are linear in the positions of its state."""

    @property
    def space(self) -> Space: ...
    def effector_rows(self, name: str) -> Any: ...  # (dim, n_dofs) sparse


@runtime_checkable
class Dynamics(Protocol):
    """The interface of every model: all that a planner may use."""

    @property
    def space(self) -> Space: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def params(self) -> Params: ...
    @property
    def dt(self) -> float: ...  # [s] of one step
    def control_limits(self) -> tuple[Array, Array]: ...  # lower and upper, (n_controls,) each
    def neutral_controls(self) -> Array: ...  # (n_controls,) the controls without actuation
    # (dim, n_dofs) sparse, maps the position part of the state to an effector's position
    def effector_rows(self, name: str) -> Any: ...
    def initial_state(self) -> Array: ...
    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step: ...


@runtime_checkable
class ParametrisedStart(Dynamics, Protocol):
    """A model whose initial state depends on its parameters, such as lengths of its shape. A
    gradient by the parameters adds `initial_state_pullback` of the gradient by the first state."""

    def initial_state(self, *, p: Array | None = None) -> Array: ...  # (n_state,)
    # (n_state,) gradient by the initial state -> (n_params,) its share of that by the parameters
    def initial_state_pullback(self, x_bar: Array, p: Array | None = None) -> Array: ...


def initial_state_at(model: Dynamics, p: Array | None) -> Array:
    """Return the initial state (n_state,) of a model with the parameters p (n_params,). None: the
    model's values."""
    if isinstance(model, ParametrisedStart):
        return model.initial_state(p=p)
    return model.initial_state()


@runtime_checkable
class Batched(Dynamics, Protocol):
    """A model that steps many states at once. Row i is bit-identical to `step(x[i], u[i], p, k)`,
    for any number of threads."""

    # (b, n_state), (b, n_controls)
    def step_many(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> StepBatch: ...


@runtime_checkable
class Reversible(Dynamics, Protocol):
    """A model with vector-Jacobian products: enough for gradient planners, identification,
    co-design and the torch layer."""

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]: ...


@runtime_checkable
class Linearizable(Reversible, Protocol):
    """A model with linearized steps: enough for Gauss-Newton, DDP, MPC and inverse control."""

    def linearize(self, step: Step) -> Linearization: ...


@runtime_checkable
class MapDynamics(Dynamics, Protocol):
    """A model whose steps evaluate an expensive map, exactly or by a surrogate."""

    @property
    def queries(self) -> int: ...  # number of values of the map that the steps used
    @property
    def effector_names(self) -> tuple[str, ...]: ...  # all those that a replay is compared at
    def query_point(self, x: Array) -> Array: ...  # (d,) where a step from x starts to use the map
    # the positions (n,) that a relative error refers to, such as those of all nodes
    def positions(self, x: Array) -> Array: ...
    def velocities(self, x: Array) -> Array: ...  # (m,) their rates
    # the model that replays a plan, and its state for x
    def replay_model(self, x: Array) -> tuple[Dynamics, Array]: ...


@runtime_checkable
class DerivedParts(Dynamics, Protocol):
    """A model some parts of whose state follow from the others, such as effectors of a swimmer."""

    @property
    def derived_parts(self) -> tuple[str, ...]: ...
    def with_derived_parts(self, x: Array) -> Array: ...  # (n_state,) with these parts computed


@runtime_checkable
class Refinable(MapDynamics, Protocol):
    """A model whose steps use a surrogate of an expensive map: enough for hierarchical system
    identification [Jia2019, Algorithm 1] and for certificates."""

    @property
    def surrogate(self) -> Any: ...  # pliant.surrogate.Surrogate
    def refined(self) -> Self: ...  # the same model on half the cell, with all exact evaluations
    def exact(self) -> MapDynamics: ...  # the same model with the exact map; it has no surrogate


@runtime_checkable
class StepErrorEstimating(Refinable, Protocol):
    """A refinable model that estimates the error of a step from residuals of the exact map. This
    costs less than an exact step, so a certificate can do it for every step."""

    # successful step -> the estimated errors of `positions` (n,) and `velocities` (m,) after it;
    # raises StepError where the estimate is unreliable
    def step_error_estimator(self) -> Callable[[Step], tuple[Array, Array]]: ...


@runtime_checkable
class Observer(Protocol):
    """A differentiable function of the state that a controller sees."""

    @property
    def size(self) -> int: ...  # of an observation
    def observe(self, x: Array) -> Array: ...  # (n_state,) -> (size,)
    def vjp(self, x: Array, y_bar: Array) -> Array: ...  # (size,) -> (n_state,)


@runtime_checkable
class ObserverWithMemory(Protocol):
    """An observer that stores numbers from one control step to the next, such as a velocity."""

    @property
    def size(self) -> int: ...  # of an observation
    @property
    def initial_memory(self) -> Array: ...  # (n_memory,) before the first observation
    # state (n_state,), memory (n_memory,) -> observation (size,), next memory (n_memory,)
    def observe_and_store(self, x: Array, memory: Array) -> tuple[Array, Array]: ...
    # gradients by observation and next memory -> by state (n_state,) and memory (n_memory,)
    def memory_vjp(
        self, x: Array, memory: Array, y_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array]: ...


@runtime_checkable
class Controller(Protocol):
    """A differentiable map from an observation and the time to controls."""

    @property
    def n_inputs(self) -> int: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def params(self) -> Params: ...  # the weights
    # observation (n_inputs,), weights (params.size,), time [s] -> controls (n_controls,)
    def control(self, y: Array, w: Array, time: float) -> Array: ...
    # -> gradients by observation (n_inputs,) and weights (params.size,)
    def vjp(self, y: Array, w: Array, time: float, u_bar: Array) -> tuple[Array, Array]: ...


@runtime_checkable
class ControllerWithMemory(Protocol):
    """A controller that stores numbers from one control step to the next, such as phases."""

    @property
    def n_inputs(self) -> int: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def params(self) -> Params: ...  # the weights
    @property
    def initial_memory(self) -> Array: ...  # (n_memory,) before the first step
    # -> controls (n_controls,), next memory (n_memory,)
    def control_and_store(
        self, y: Array, memory: Array, w: Array, time: float
    ) -> tuple[Array, Array]: ...
    # gradients by controls and next memory -> by observation, memory and weights
    def memory_vjp(
        self, y: Array, memory: Array, w: Array, time: float, u_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array, Array]: ...


# (dx (n_state, k), du (n_controls, k)) -> the changes of the gradients by x and by u
HessianVector = Callable[[Array, Array], tuple[Array, Array]]


@runtime_checkable
class TwiceDifferentiable(Linearizable, Protocol):
    """A model with second derivatives: enough for exact Newton and DDP. `hessian_vector` returns
    the Hessian-vector product of x_bar . x'(x, u) for a fixed x_bar."""

    @property
    def has_second_derivatives(self) -> bool: ...  # False for friction, for example
    def hessian_vector(
        self, step: Step, x_bar: Array, lin: Linearization | None = None
    ) -> HessianVector: ...


@runtime_checkable
class ReducedDynamics(Linearizable, Protocol):
    """A model whose derivatives are taken over a few coordinates X = reduction x of its state, so
    that dynamic programming needs small matrices only."""

    @property
    def reduction(self) -> Any: ...  # (n_reduced, n_state) sparse
    @property
    def expansion(self) -> Any: ...  # (n_state, n_reduced) sparse, the least x with this X
    @property
    def is_exact(self) -> bool: ...  # False if the derivative is an approximation
    @property
    def full_model(self) -> Linearizable: ...  # with the derivatives of the full step
    # dX'/dX (n_reduced, n_reduced) and dX'/du (n_reduced, n_controls)
    def reduced_jacobians(self, step: Step) -> tuple[Array, Array]: ...


@runtime_checkable
class AttachedParts(Protocol):
    """A model of a robot whose actuators and contacts are attached to one body."""

    @property
    def body(self) -> Any: ...  # pliant.bodies.Body
    @property
    def dim(self) -> int: ...
    @property
    def robot(self) -> Any: ...  # its actuators are the first potentials
    @property
    def potentials(self) -> Sequence[tuple[Any, slice]]: ...  # each part with its controls
    # the potential of an actuator by its name, and the matrix (n_points dim, n_dofs) of its points
    def attached(self, name: str) -> tuple[Any, Any]: ...
    def points(self, term: Any, q: Array) -> Array: ...  # (n_points, dim) [m] of a part


@dataclass(frozen=True, kw_only=True, eq=False)
class EquilibriumTangent:
    """The linearised equilibrium K dq = -residual - control_jacobian du at the positions q."""

    q: Array  # (n_dofs,) [m], with the supports in place
    residual: Array  # (n_dofs,) [N] the unbalanced force
    control_jacobian: Array  # (n_dofs, n_controls) [N per unit]
    # (n_dofs, ...) -> K^-1 times it; zero where the robot is supported
    solve: Callable[[Array], Array]
    stable: bool  # whether K is the whole tangent stiffness, positive definite
    # (q, u) -> the residual (n_dofs,) elsewhere, None if a cell is inverted
    residual_at: Callable[[Array, Array], Array | None]


@runtime_checkable
class EquilibriumModel(Dynamics, AttachedParts, Protocol):
    """A model without inertia: enough for inverse control with equilibria."""

    def equilibrium_tangent(self, x: Array, u: Array, k: int = 0) -> EquilibriumTangent | None: ...
    def is_strict_minimum(self, step: Step) -> bool: ...  # whether it is a stable equilibrium
    def with_max_iterations(self, iterations: int) -> Self: ...
    def without_contacts(self, contacts: Sequence[Any]) -> Self: ...


@runtime_checkable
class LinearizedStepModel(Linearizable, AttachedParts, Protocol):
    """A model that is linearised once in every time step: enough for dynamic inverse control."""

    def step_until(self, end: float, x: Array, u: Array) -> Step: ...
    def control_response(self, step: Step) -> Array: ...  # (n_state, n_controls) dx'/du
    def state(self, position: Array) -> Array: ...  # (n_state,) at rest
    def quasistatic_model(self) -> EquilibriumModel | None: ...  # None if rigid motions are free
    def with_time_step(self, dt: float) -> Self: ...
    def without_contacts(self, contacts: Sequence[Any]) -> Self: ...


def effector_position(model: Effectors, name: str, x: Array, dim: int) -> Array:
    """Return the positions (n_points, dim) [m] of an effector of a model in the state x (n_state,).

    Raises InputError if the model has no effector of this name, or x has another shape."""
    rows = model.effector_rows(name)
    x = finite_array("The state", x, (model.space.size,))
    return np.reshape(rows @ model.space.position(x), (-1, dim))


def effector_jacobian(model: Effectors, name: str, x: Array) -> Any:
    """Return the derivative (n_points * dim, n_state), sparse, of `effector_position` by the state.

    It does not depend on x, because effectors are linear in the positions."""
    jacobian = model.effector_rows(name).copy()
    finite_array("The state", x, (model.space.size,))
    jacobian.resize((jacobian.shape[0], model.space.size))  # the other parts do not matter
    return jacobian


def finite_array(name: str, value: Any, shape: tuple[int | None, ...], unit: str = "") -> Array:
    """Return `value` as a float array of a shape (None: any length).

    Raises InputError for other shapes, and for entries that are not finite numbers."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind in "bcSU":
            raise TypeError
        array = np.asarray(raw, dtype=float)
    except (TypeError, ValueError, OverflowError):
        # truth values, complex numbers, text, ragged lists, integers above 1e308
        raise InputError(
            f"{name} is {quoted(value)}; give numbers{f' [{unit}]' if unit else ''} of shape "
            f"{_shape(shape)}."
        ) from None
    if array.ndim != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
    ):
        raise InputError(
            f"{name} has shape {array.shape}; give numbers{f' [{unit}]' if unit else ''} of "
            f"shape {_shape(shape)}."
        )
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        place = f" at entry {', '.join(map(str, bad[0]))}" if array.ndim else ""
        raise InputError(f"{name} is {array[tuple(bad[0])]}{place}; it must be finite.")
    return array


def _shape(shape: tuple[int | None, ...]) -> str:
    return (
        "("
        + ", ".join("n" if size is None else str(size) for size in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )


def check_controls(u: Array, n: int) -> Array:
    """Return `u` as a float array of n entries. Raises InputError if it is not finite."""
    return finite_array("The control", [u] if n == 1 and isinstance(u, int | float) else u, (n,))


def require_positive(name: str, value: float, unit: str) -> float:
    """Return `value` as a float. Raises InputError unless it is positive and finite."""
    number = require_number(name, value, unit)
    if not (number > 0.0 and np.isfinite(number)):
        raise InputError(
            f"{name} is {number:g}{f' {unit}' if unit else ''}; it must be a positive finite "
            "number."
        )
    return number


def require_number(name: str, value: Any, unit: str) -> float:
    """Return `value` as a float. Raises InputError if it is not a number."""
    try:
        if isinstance(value, str | bool):
            raise TypeError
        return float(value)
    except OverflowError:
        raise InputError(
            f"{name} is {quoted(value)}; it must be a number below 1.8e308"
            f"{f' [{unit}]' if unit else ''}."
        ) from None
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {quoted(value)}; it must be a number{f' [{unit}]' if unit else ''}."
        ) from None


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether a value is a Python or NumPy integer of at most 64 bits, but not a bool."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return -(2**63) <= int(value) < 2**63


def require_seed(seed: Any) -> int:
    """Return `seed` as an int. Raises `InputError` unless it is an integer from 0 to 2**32 - 1."""
    if not is_integer(seed) or not 0 <= seed < 2**32:
        raise InputError(
            f"The seed is {quoted(seed)}; it must be a whole number from 0 to {2**32 - 1}."
        )
    return int(seed)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, such as "1 spike" or "2 spikes". `plural` is the plural if it
    is not the noun with an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def counted_of(
    part: int, whole: int, noun: str, verbs: tuple[str, str], plural: str | None = None
) -> str:
    """Return a part of a count with the verb that fits it, such as "1 of 8 cells is" or "2 of 8
    cells are" for the verbs ("is", "are")."""
    return f"{part} of {counted(whole, noun, plural)} {verbs[0] if part == 1 else verbs[1]}"


def quoted(value: Any) -> str:
    """Return the first 60 characters of a value in quotes, for an error message."""
    try:
        text = str(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        text = f"{type(value).__name__} of more than 4300 digits"
    return repr(text[:60])


def printable(text: str, longest: int = 400, keep: str = "") -> str:
    """Return `text` for a terminal. Control and bidirectional characters become escapes such as
    \\x1b, except those in `keep`. Words longer than `longest` are shortened in the middle."""

    def escaped(c: str) -> str:
        if c.isprintable() or c in keep or unicodedata.category(c) == "Zs":
            return c
        return c.encode("unicode_escape").decode()

    shown = "".join(map(escaped, text))
    words = re.split(r"(\s+)", shown)
    half = longest // 2
    return "".join(w if len(w) <= longest else f"{w[:half]}...{w[-half:]}" for w in words)


def require_kind(name: str, value: Any, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Raise InputError unless `value` is an instance of one of the kinds."""
    if not isinstance(value, kinds):
        noun = re.split(" (?:of|to|in) ", name)[0]
        verb = "are" if noun.endswith("s") and not noun.startswith("The argument ") else "is"
        raise InputError(f"{name} {verb} {quoted(value)} ({type(value).__name__}); {remedy}.")


def nearest(name: Any, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name: the closest known name, or all of them."""
    names = list(dict.fromkeys(known))
    if not names:
        return "there is none."
    close = get_close_matches(str(name), names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"choose one of {', '.join(names)}."


def check_limits(name: str, limits: Any) -> None:
    """Raise InputError unless `limits` is a pair of a lower and a larger upper number."""
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise InputError(f"The limits of {name} are {quoted(limits)}; give (lower, upper).")
    lower, upper = (require_number(f"A limit of {name}", value, "") for value in limits)
    if np.isnan(lower) or np.isnan(upper):
        raise InputError(
            f"The limits of {name} are {quoted(limits)}; give two numbers; use -inf or inf for no "
            "limit."
        )
    if not lower < upper:
        raise InputError(
            f"The lower limit {lower:g} of {name} is not below its upper limit {upper:g}; swap "
            "them."
        )
