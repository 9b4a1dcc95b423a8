"""The nouns that every room of Pliant shares: errors, Status, Step, Params, Space and the waist's
protocols. NumPy only."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# [m] from the origin; a place beyond has other units, and its rounding exceeds 0.1 um
FARTHEST = 1e9


class PliantError(Exception):
    """Every error that Pliant raises on purpose; its text is one sentence with the remedy."""

    def __str__(self) -> str:
        return printable(" ".join(map(str, self.args)), keep="\n")


class InputError(PliantError, ValueError):
    """What the user gave cannot be used: says what, where and how to mend it."""


class MeshError(InputError):
    """A mesh or a surface that cannot carry a body."""


class StepError(PliantError, RuntimeError):
    """A step, or a run of steps, did not reach its end; the text is its Status."""


class MissingExtra(PliantError, ImportError):
    """An optional package is needed and is not installed; the text names the install command."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """Why a step stopped. Falsy means failure, and then `text` is a sentence with the remedy."""

    ok: bool = True
    text: str = "converged"
    iterations: int = 0
    residual: float = 0.0  # [N], largest free component of the residual force

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Step:
    """What one step of a Dynamics gives: the next state, why it stopped, and what its derivatives
    need."""

    x: Array  # (n_state,)
    status: Status
    tape: Any = None


@dataclass(frozen=True, kw_only=True)
class Param:
    """One named block of design variables."""

    name: str
    value: Array  # (size,)
    unit: str
    lower: float
    upper: float
    lower_included: bool = False


@dataclass(frozen=True, kw_only=True)
class Params:
    """The active design variables of a model: named blocks, seen from outside as one flat array."""

    blocks: tuple[Param, ...] = ()

    @property
    def size(self) -> int:
        return sum(block.value.size for block in self.blocks)

    @property
    def flat(self) -> Array:
        """(size,) the current values, one block after the other."""
        return (
            np.concatenate([block.value for block in self.blocks]) if self.blocks else np.zeros(0)
        )

    @property
    def bounds(self) -> tuple[Array, Array]:
        """((size,), (size,)) lower and upper bounds, which a value may reach only where
        `lower_included` says so."""
        lower = [np.full(block.value.size, block.lower) for block in self.blocks]
        upper = [np.full(block.value.size, block.upper) for block in self.blocks]
        return (
            (np.concatenate(lower), np.concatenate(upper))
            if self.blocks
            else (np.zeros(0), np.zeros(0))
        )

    def split(self, p: Array | None) -> dict[str, Array]:
        """The blocks of a flat array `p` (None: the current values), checked against their
        bounds."""
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
            bad = np.flatnonzero(~(above & (part < block.upper)))
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
    """Names the parts of a flat state. The first holds the unknowns of the body; each other one as
    many numbers, or as `sizes` says."""

    parts: tuple[str, ...]
    n_dofs: int
    rate: tuple[float, ...] = field(
        default=()
    )  # [1/s or 1], velocity = sum of rate[j] * part[j]; empty: no velocity
    sizes: tuple[int, ...] = field(default=())  # of each part; empty: n_dofs each

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins, and the end of the last."""
        return (0, *np.cumsum(self.sizes or len(self.parts) * (self.n_dofs,)).tolist())

    @property
    def size(self) -> int:
        return self.starts[-1]

    def split(self, x: Array) -> SimpleNamespace:
        """The parts of `x` as views, by name."""
        if np.shape(x) != (self.size,):
            raise InputError(
                f"The state has shape {np.shape(x)}; give ({self.size},), the parts "
                f"{', '.join(self.parts)} in turn."
            )
        return SimpleNamespace(**dict(zip(self.parts, self._pieces(x), strict=True)))

    def _pieces(self, x: Array) -> list[Array]:
        return np.split(np.asarray(x), self.starts[1:-1])

    def position(self, x: Array) -> Array:
        """(n_dofs,) the unknowns themselves; always the first part."""
        return np.asarray(x)[: self.n_dofs]

    def velocity(self, x: Array) -> Array:
        """(n_dofs,) the rates of the unknowns [unit/s], a linear function of the state; zeros for a
        rule without inertia."""
        counted = [
            c * piece for c, piece in zip(self.rate, self._pieces(x), strict=False) if c != 0.0
        ]
        return sum(counted, np.zeros(self.n_dofs))


@dataclass(frozen=True, kw_only=True)
class Linearization:
    """The derivative of one step as operators: x' = A x + B u + C p. Dense blocks are made only on
    request."""

    n_state: int
    n_controls: int
    n_params: int
    push: Callable[
        [Array, Array, Array], Array
    ]  # ((n_state, k), (n_controls, k), (n_params, k)) -> (n_state, k)
    pull: Callable[
        [Array], tuple[Array, Array, Array]
    ]  # (n_state, k) -> the three transposed products
    solve: Callable[[Array], Array] | None = (
        None  # with the step's own factor, where it has one; for second derivatives
    )

    def jvp(self, dx: Array, du: Array | None = None, dp: Array | None = None) -> Array:
        """A dx + B du + C dp, for vectors or for matrices of k columns; what is left out does not
        change."""
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
                "give three vectors, or three matrices of as many columns."
            )
        out = self.push(*blocks) if blocks[0].shape[1] else np.zeros((self.n_state, 0))
        return out[:, 0] if np.ndim(dx) == 1 else out

    def vjp(self, x_bar: Array) -> tuple[Array, Array, Array]:
        """(A^T x_bar, B^T x_bar, C^T x_bar), for a vector or for a matrix of k columns."""
        bars = _columns("x_bar", x_bar, self.n_state)
        if not bars.shape[1]:
            return (
                np.zeros((self.n_state, 0)),
                np.zeros((self.n_controls, 0)),
                np.zeros((self.n_params, 0)),
            )
        x, u, p = self.pull(bars)
        return (x[:, 0], u[:, 0], p[:, 0]) if np.ndim(x_bar) == 1 else (x, u, p)

    def dense_state(self) -> Array:
        """(n_state, n_state) A = dx'/dx; large, so only for small bodies."""
        return self._dense(0, self.n_state)

    def dense_controls(self) -> Array:
        """(n_state, n_controls) B = dx'/du."""
        return self._dense(1, self.n_controls)

    def dense_params(self) -> Array:
        """(n_state, n_params) C = dx'/dp."""
        return self._dense(2, self.n_params)

    def _dense(self, which: int, k: int) -> Array:
        seeds = [np.zeros((n, k)) for n in (self.n_state, self.n_controls, self.n_params)]
        seeds[which] = np.eye(k)
        return self.jvp(*seeds)


def _columns(name: str, value: Array, n: int) -> Array:
    """A vector (n,) or matrix (n, k) as a matrix of finite columns."""
    return (
        finite_array(name, value, (n,))[:, None]
        if np.ndim(value) == 1
        else finite_array(name, value, (n, None))
    )


def by_columns(f: Callable[..., tuple[Array, ...]], *blocks: Array) -> tuple[Array, ...]:
    """f, which maps vectors to a tuple of vectors, of every column of some matrices (n, k), k at
    least 1."""
    columns = [
        np.ascontiguousarray(block.T) for block in blocks
    ]  # compiled loops have one form, for contiguous vectors
    rows = [f(*(block[j] for block in columns)) for j in range(blocks[0].shape[1])]
    return tuple(np.stack(part, axis=1) for part in zip(*rows, strict=True))


@runtime_checkable
class Dynamics(Protocol):
    """The waist: what every planner may ask of every model."""

    @property
    def space(self) -> Space: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def params(self) -> Params: ...
    @property
    def dt(self) -> float: ...  # [s] of one step
    def control_limits(
        self,
    ) -> tuple[Array, Array]: ...  # (n_controls,) each, what the motors can do
    def neutral_controls(self) -> Array: ...  # (n_controls,) what does nothing
    def effector_rows(
        self, name: str
    ) -> Any: ...  # (dim, n_dofs) sparse, an effector's place from the position part of the state
    def initial_state(self) -> Array: ...
    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step: ...


@runtime_checkable
class Reversible(Dynamics, Protocol):
    """Enough for gradient planners, identification, co-design and the torch layer."""

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]: ...


@runtime_checkable
class Linearizable(Reversible, Protocol):
    """Enough for Gauss-Newton, DDP, MPC and inverse control."""

    def linearize(self, step: Step) -> Linearization: ...


Bend = Callable[
    [Array, Array], tuple[Array, Array]
]  # (dx (n_state, k), du (n_controls, k)) -> shares for x and u


@runtime_checkable
class Curved(Linearizable, Protocol):
    """Enough for exact Newton and DDP: `bend` is the derivative of the pullback of a fixed x_bar
    along changes of x and u."""

    @property
    def bends(
        self,
    ) -> bool: ...  # False where a part of the model, such as friction, has no second derivative
    def bend(self, step: Step, x_bar: Array, lin: Linearization | None = None) -> Bend: ...


@runtime_checkable
class Condensing(Linearizable, Protocol):
    """A model whose derivatives live on a few numbers X = seen x of its state, all that dynamic
    programming then holds of it."""

    @property
    def seen(self) -> Any: ...  # (n_seen, n_state) sparse
    @property
    def lift(self) -> Any: ...  # (n_state, n_seen) sparse, the least x that is seen as X
    @property
    def exact(
        self,
        # False where the derivative is an approximation, so that no optimum of the cost need be
        # found by it
    ) -> bool: ...
    @property
    def whole(self) -> Linearizable: ...  # the model inside, with the derivatives of its whole step
    def stage(
        self, step: Step
    ) -> tuple[Array, Array]: ...  # dX'/dX (n_seen, n_seen) and dX'/du (n_seen, n_controls)


def finite_array(name: str, value: Any, shape: tuple[int | None, ...], unit: str = "") -> Array:
    """`value` as a float array of a shape (None: any length) with finite entries, or a sentence
    that says what is wrong."""
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
    """`u` as a finite float array of n entries, or a sentence that says which entry is wrong."""
    return finite_array("The control", [u] if n == 1 and isinstance(u, int | float) else u, (n,))


def require_positive(name: str, value: float, unit: str) -> float:
    """`value` as a float, or a sentence that it must be a positive finite number."""
    number = require_number(name, value, unit)
    if not (number > 0.0 and np.isfinite(number)):
        raise InputError(f"{name} is {number:g} {unit}; it must be a positive finite number.")
    return number


def require_number(name: str, value: Any, unit: str) -> float:
    """`value` as a float, or a sentence that it is none."""
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


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer of at most 64 bits, NumPy's too; a bool is none."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return -(2**63) <= int(value) < 2**63


def require_seed(seed: Any) -> int:
    """`seed` as an int. Raises `InputError` unless it is an integer from 0 to 2**32 - 1."""
    if not is_whole(seed) or not 0 <= seed < 2**32:
        raise InputError(
            f"The seed is {quoted(seed)}; it must be a whole number from 0 to {2**32 - 1}."
        )
    return int(seed)


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as "1 spike" or "2 spikes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def quoted(value: Any) -> str:
    """The first 60 characters of a value in quotes, for an error."""
    try:
        text = str(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        text = f"{type(value).__name__} of more than 4300 digits"
    return repr(text[:60])


def printable(text: str, longest: int = 400, keep: str = "") -> str:
    """`text` for a terminal: control and bidirectional characters as escapes such as \\x1b, except
    those in `keep`, and the middle of words of more than `longest` characters left out. Spaces of
    every kind stay."""

    def shown_as(c: str) -> str:
        if c.isprintable() or c in keep or unicodedata.category(c) == "Zs":
            return c
        return c.encode("unicode_escape").decode()

    shown = "".join(map(shown_as, text))
    words = re.split(r"(\s+)", shown)
    half = longest // 2
    return "".join(w if len(w) <= longest else f"{w[:half]}...{w[-half:]}" for w in words)


def require_kind(name: str, value: Any, kinds: type | tuple[type, ...], remedy: str) -> None:
    """A sentence unless `value` is of one of the kinds."""
    if not isinstance(value, kinds):
        raise InputError(f"{name} is {quoted(value)} ({type(value).__name__}); {remedy}.")


def nearest(name: Any, known: Iterable[str]) -> str:
    """What to write instead of a name that is not known."""
    names = list(known)
    if not names:
        return "there is none."
    close = get_close_matches(str(name), names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"choose one of {', '.join(names)}."


def check_limits(name: str, limits: Any) -> None:
    """A sentence unless `limits` is a lower and a larger upper number."""
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise InputError(f"The limits of {name} are {quoted(limits)}; give (lower, upper).")
    lower, upper = (require_number(f"A limit of {name}", value, "") for value in limits)
    if np.isnan(lower) or np.isnan(upper):
        raise InputError(
            f"The limits of {name} are {quoted(limits)}; give two numbers, -inf or inf where there "
            "is none."
        )
    if not lower < upper:
        raise InputError(
            f"The lower limit {lower:g} of {name} is not below its upper limit {upper:g}; swap "
            "them."
        )
