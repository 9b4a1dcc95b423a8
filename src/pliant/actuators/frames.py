"""Rigid frames in space that controls drive: what a gripper or a tether is fixed to."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.bodies import TINY
from pliant.core import Array, InputError, finite_array
from pliant.kernels.turns import Turns

CROSS = 0.02  # [m] half the width of the cross that a moving frame is drawn as
NAMES = {2: ("x", "y", "rotation"), 3: ("x", "y", "z", "rotation x", "rotation y", "rotation z")}


@runtime_checkable
class Frame(Protocol):
    """A rigid frame in space that controls u drive; l is a point's place in the frame, K(l, u) its
    place in space."""

    @property
    def dim(self) -> int: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def limits(self) -> tuple[Array, Array]: ...  # ((n_controls,), (n_controls,)) of the controls
    @property
    def start(self) -> Array: ...  # (n_controls,) where it stands at first
    def places(
        self, local: Array, u: Array
    ) -> Array: ...  # (k, dim) [m] K(l, u) of local points (k, dim) [m]
    def slopes(self, local: Array, u: Array) -> Array: ...  # (n_controls, k, dim) dK/du
    def bend(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        """(n_controls,) the derivative of sum(bar * slopes(local, u), axis=(1, 2)) along du; bar is
        (k, dim)."""
        ...

    def local(self, places: Array, u: Array) -> Array: ...  # (k, dim) [m] the inverse of `places`
    def outline(self, u: Array) -> Array: ...  # (k, dim) [m] a polyline to draw


@dataclass(frozen=True, kw_only=True, eq=False)
class MovingFrame:
    """A frame that moves freely: controls are its translation from `origin` [m] and its rotation, K
    = origin + t + R l.

    In 3D the rotation is a rotation vector [rad] and R = exp([w]); in the plane it is an angle
    [rad].
    """

    origin: Array  # (2,) or (3,) [m] where the frame's own origin is at zero controls
    # None only in the call; afterwards the pair is there: any translation, and up to half a turn
    # about each axis
    limits: tuple[Array, Array] = None  # type: ignore[assignment]  # ((n_controls,), (n_controls,)) [m, rad]
    start: Array = None  # type: ignore[assignment]  # (n_controls,) [m, rad]; None: zeros

    def __post_init__(self) -> None:
        origin = finite_array("The origin of a moving frame", self.origin, (None,), "m")
        if origin.size not in NAMES:
            raise InputError(
                f"The origin of a moving frame has {origin.size} numbers; give 2 in the plane or "
                "3 in space."
            )
        names = NAMES[origin.size]
        reach = np.array([np.inf if len(name) == 1 else np.pi for name in names])
        limits = checked_limits(
            "a moving frame", names, (-reach, reach) if self.limits is None else self.limits
        )
        start = np.zeros(len(names)) if self.start is None else self.start
        for name, value in (
            ("origin", origin),
            ("limits", limits),
            ("start", checked_start("a moving frame", names, start, limits)),
        ):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        return self.origin.size

    @property
    def n_controls(self) -> int:
        return len(NAMES[self.dim])

    def places(self, local: Array, u: Array) -> Array:
        return self.origin + u[: self.dim] + local @ _rotation(u[self.dim :]).T

    def slopes(self, local: Array, u: Array) -> Array:
        shifts = np.broadcast_to(np.eye(self.dim)[:, None, :], (self.dim, *np.shape(local)))
        return np.concatenate([shifts, local @ np.swapaxes(_rotation_slopes(u[self.dim :]), 1, 2)])

    def bend(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        turned = _rotation_slopes(u[self.dim :] + 1j * TINY * du[self.dim :]).imag / TINY
        return np.concatenate([np.zeros(self.dim), np.einsum("aij,ij->a", turned, bar.T @ local)])

    def local(self, places: Array, u: Array) -> Array:
        return (places - self.origin - u[: self.dim]) @ _rotation(u[self.dim :])

    def outline(self, u: Array) -> Array:
        arms = [side * axis for axis in CROSS * np.eye(self.dim) for side in (0.0, 1.0, -1.0, 0.0)]
        return self.places(np.array(arms), u)


def _rotation(w: Array) -> Array:
    """(dim, dim) exp([w]) of a rotation vector (3,), or the turn by an angle (1,) in the plane
    [rad]."""
    if w.size == 3:
        return Turns(w=w).rotation
    c, s = np.cos(w[0]), np.sin(w[0])
    return np.array([[c, -s], [s, c]])


def _rotation_slopes(w: Array) -> Array:
    """(n, dim, dim) dR/dw."""
    if w.size == 3:
        return Turns(w=w).slopes
    c, s = np.cos(w[0]), np.sin(w[0])
    return np.array([[[-s, -c], [c, -s]]])


# What every frame owes


def checked_limits(what: str, names: tuple[str, ...], limits: Any) -> tuple[Array, Array]:
    """((n,), (n,)) the limits of the controls `names`, each lower below its upper; one number
    stands for all."""
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise InputError(
            f"The limits of {what} are {str(limits)[:60]}; give (lower, upper), each with "
            f"{len(names)} numbers."
        )
    try:
        lower, upper = (
            np.array(np.broadcast_to(np.asarray(side, float), len(names))) for side in limits
        )
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The limits of {what} are {str(limits)[:60]}; give (lower, upper), each with "
            f"{len(names)} numbers ({', '.join(names)})."
        ) from None
    bad = np.flatnonzero(~(lower < upper))  # NaN too
    if bad.size:
        k = bad[0]
        raise InputError(
            f"The lower limit {lower[k]:g} of {what} along '{names[k]}' is not below its upper "
            f"limit {upper[k]:g}; swap them."
        )
    return lower, upper


def checked_start(
    what: str, names: tuple[str, ...], start: Any, limits: tuple[Array, Array]
) -> Array:
    """(n,) the controls at first, finite and within the limits."""
    u = np.array(finite_array(f"The start of {what}", start, (len(names),)))
    outside = np.flatnonzero((u < limits[0]) | (u > limits[1]))
    if outside.size:
        k = outside[0]
        raise InputError(
            f"The start of {what} has '{names[k]}' at {u[k]:g}, outside its limits "
            f"{limits[0][k]:g} to {limits[1][k]:g}; choose a value between them."
        )
    return u
