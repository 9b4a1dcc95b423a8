"""Rigid frames in space that move with the controls. Grippers and tethers are fixed to them."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.bodies import COMPLEX_STEP
from pliant.core import Array, InputError, counted, finite_array
from pliant.kernels.rotations import Rotations

CROSS_HALF_WIDTH = 0.02  # [m] of the drawing of a moving frame
CONTROL_NAMES = {
    2: ("x", "y", "rotation"),
    3: ("x", "y", "z", "rotation x", "rotation y", "rotation z"),
}


@runtime_checkable
class Frame(Protocol):
    """A rigid frame in space that moves with controls u. A point with the local position l is at
    K(l, u) in space."""

    @property
    def dim(self) -> int: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def limits(self) -> tuple[Array, Array]: ...  # ((n_controls,), (n_controls,)) of the controls
    @property
    def start(self) -> Array: ...  # (n_controls,) initial controls
    @property
    def units(self) -> tuple[str, ...]: ...  # of each control
    def positions(self, local: Array, u: Array) -> Array:
        """Return K(l, u), (k, dim) [m], of local positions l (k, dim) [m]."""
        ...

    def jacobian(self, local: Array, u: Array) -> Array: ...  # (n_controls, k, dim) dK/du
    def hessian_vector(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        """Return the derivative of sum(bar * jacobian(local, u), axis=(1, 2)) along du,
        (n_controls,); bar is (k, dim)."""
        ...

    def local_positions(self, positions: Array, u: Array) -> Array:
        """Return the local positions, (k, dim) [m], of positions in space: the inverse of
        `positions`."""
        ...

    def outline(self, u: Array) -> Array: ...  # (k, dim) [m] a polyline to draw


@dataclass(frozen=True, kw_only=True, eq=False)
class MovingFrame:
    """A frame that moves freely. Its controls are a translation t from `origin` [m] and a rotation,
    so K = origin + t + R l.

    In space the rotation is a rotation vector w [rad] with R = exp([w]); in the plane it is an
    angle [rad].
    """

    origin: Array  # (2,) or (3,) [m] position of the frame at zero controls
    # None: any translation, and rotations up to pi about each axis
    limits: tuple[Array, Array] = None  # type: ignore[assignment]  # ((n_controls,), (n_controls,)) [m, rad]
    start: Array = None  # type: ignore[assignment]  # (n_controls,) [m, rad]; None: zeros

    def __post_init__(self) -> None:
        origin = finite_array("The origin of a moving frame", self.origin, (None,), "m")
        if origin.size not in CONTROL_NAMES:
            raise InputError(
                f"The origin of a moving frame has {counted(origin.size, 'number')}; give 2 in the "
                "plane or 3 in space."
            )
        names = CONTROL_NAMES[origin.size]
        widest = np.array([np.inf if len(name) == 1 else np.pi for name in names])
        limits = checked_limits(
            "a moving frame", names, (-widest, widest) if self.limits is None else self.limits
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
        return len(CONTROL_NAMES[self.dim])

    @property
    def units(self) -> tuple[str, ...]:
        return tuple("m" if len(name) == 1 else "rad" for name in CONTROL_NAMES[self.dim])

    def positions(self, local: Array, u: Array) -> Array:
        return self.origin + u[: self.dim] + local @ _rotation(u[self.dim :]).T

    def jacobian(self, local: Array, u: Array) -> Array:
        shifts = np.broadcast_to(np.eye(self.dim)[:, None, :], (self.dim, *np.shape(local)))
        return np.concatenate(
            [shifts, local @ np.swapaxes(_rotation_jacobian(u[self.dim :]), 1, 2)]
        )

    def hessian_vector(self, local: Array, u: Array, bar: Array, du: Array) -> Array:
        w = u[self.dim :] + 1j * COMPLEX_STEP * du[self.dim :]
        change = _rotation_jacobian(w).imag / COMPLEX_STEP
        return np.concatenate([np.zeros(self.dim), np.einsum("aij,ij->a", change, bar.T @ local)])

    def local_positions(self, positions: Array, u: Array) -> Array:
        return (positions - self.origin - u[: self.dim]) @ _rotation(u[self.dim :])

    def outline(self, u: Array) -> Array:
        cross = [
            side * axis
            for axis in CROSS_HALF_WIDTH * np.eye(self.dim)
            for side in (0.0, 1.0, -1.0, 0.0)
        ]
        return self.positions(np.array(cross), u)


def _rotation(w: Array) -> Array:
    """Return the rotation matrix (dim, dim) of a rotation vector (3,), or of an angle (1,) in the
    plane [rad]."""
    if w.size == 3:
        return Rotations(w=w).rotation
    c, s = np.cos(w[0]), np.sin(w[0])
    return np.array([[c, -s], [s, c]])


def _rotation_jacobian(w: Array) -> Array:
    """Return dR/dw, (n, dim, dim)."""
    if w.size == 3:
        return Rotations(w=w).jacobian
    c, s = np.cos(w[0]), np.sin(w[0])
    return np.array([[[-s, -c], [c, -s]]])


# Input checks of all frames


def checked_limits(what: str, names: tuple[str, ...], limits: Any) -> tuple[Array, Array]:
    """Return the lower and upper limits, (n,) each, of the controls `names`; one number applies to
    all. Raises `InputError` unless each lower limit is below the upper one."""
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise InputError(
            f"The limits of {what} are {str(limits)[:60]}; give (lower, upper), each with "
            f"{counted(len(names), 'number')}."
        )
    try:
        lower, upper = (
            np.array(np.broadcast_to(np.asarray(side, float), len(names))) for side in limits
        )
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The limits of {what} are {str(limits)[:60]}; give (lower, upper), each with "
            f"{counted(len(names), 'number')} ({', '.join(names)})."
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
    """Return the initial controls (n,). Raises `InputError` unless they are finite and within the
    limits."""
    u = np.array(finite_array(f"The start of {what}", start, (len(names),)))
    outside = np.flatnonzero((u < limits[0]) | (u > limits[1]))
    if outside.size:
        k = outside[0]
        raise InputError(
            f"The start of {what} has '{names[k]}' at {u[k]:g}, outside its limits "
            f"{limits[0][k]:g} to {limits[1][k]:g}; choose a value between them."
        )
    return u
