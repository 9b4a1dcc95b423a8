"""Actuators whose effect depends on the state: functions of the user from a control and an
observation to the control of an actuator [Spielberg2021, section 4]."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from pliant.bodies import COMPLEX_STEP
from pliant.core import Array, InputError, Observer, check_limits, finite_array, require_number
from pliant.learning.observers import ObserverDescription

# of differences, which round to about 1e-9, and of functions that differ from an analytic one
CHECK_STEP, CHECK_ERROR = 1e-6, 1e-4


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UserActuator:
    """A function of a control u and an observation y, which gives the control of an actuator.

    Parameters
    ----------
    function : (u (n,), y (size,)) -> the control (n,) of the actuator, in its unit
    observer : what the function sees of the state, such as StrainObserver(...); None for nothing
    vjp_function : (u, y, bar (n,)) -> the gradients of bar . function(u, y) by u and by y. None:
        derivatives by complex numbers; then the function must be analytic, such as a polynomial,
        exp, sin or tanh, without abs.
    limits : lower and upper limit of u
    neutral : the u without force at rest

    `UserActuation(model, {"name": UserActuator(...)})` gives it to a model.

    >>> import numpy as np
    >>> from pliant.learning import StrainObserver, UserActuator
    >>> muscle = UserActuator(  # weaker the more it is shortened
    ...     observer=StrainObserver(kind="axial", axis=(1.0, 0.0)),
    ...     function=lambda u, y: 1e4 * u * np.exp(4.0 * y),
    ...     limits=(0.0, 1.0),
    ... )
    """

    function: Callable[[Array, Array], ArrayLike]
    observer: Observer | ObserverDescription | None = None
    vjp_function: Callable[[Array, Array, Array], tuple[ArrayLike, ArrayLike]] | None = None
    limits: tuple[float, float] = (-1.0, 1.0)
    neutral: float = 0.0

    def __post_init__(self) -> None:
        for name in ("function", "vjp_function"):
            value = getattr(self, name)
            if not callable(value) and not (name == "vjp_function" and value is None):
                raise InputError(
                    f"The {name} of a user actuator is a {type(value).__name__}; give a function."
                )
        check_limits("a user actuator", self.limits)
        neutral = require_number("The neutral control of a user actuator", self.neutral, "")
        if not self.limits[0] <= neutral <= self.limits[1] or not np.isfinite(neutral):
            raise InputError(
                f"The neutral control {neutral:g} of a user actuator is beyond its limits; give "
                "neutral=..., a number inside."
            )

    def value(self, u: Array, y: Array) -> Array:
        """Return the control (n,) of the actuator. Raises InputError if it is not finite."""
        return finite_array("The control of a user actuator", self.function(u, y), u.shape)

    def vjp(self, u: Array, y: Array, bar: Array) -> tuple[Array, Array]:
        """Return the gradients of bar . value(u, y) by u and by y."""
        if self.vjp_function is not None:
            u_bar, y_bar = self.vjp_function(u, y, bar)
            return (
                finite_array("The gradient by the control", u_bar, u.shape),
                finite_array("The gradient by the observation", y_bar, y.shape),
            )
        slopes = bar @ self._complex_jacobian(u, y)
        return slopes[: len(u)], slopes[len(u) :]

    def _complex_jacobian(self, u: Array, y: Array) -> Array:
        """Return the derivative (n, n + size) by u and y, by complex-step differentiation."""
        z, n = np.concatenate([u, y]).astype(complex), len(u)
        columns = []
        for step in 1j * COMPLEX_STEP * np.eye(len(z)):
            at = z + step
            columns.append(np.imag(np.asarray(self.function(at[:n], at[n:]))) / COMPLEX_STEP)
        return np.stack([np.broadcast_to(column, (n,)) for column in columns], axis=1)

    def check_derivative(self, name: str, n: int, y: Array) -> None:
        """Raise InputError if the derivatives differ from those by differences, near an observation
        y (size,) and for n controls."""
        rng = np.random.default_rng(0)
        lower, upper = self.limits
        middle = 0.5 * (lower + upper) if np.isfinite(upper - lower) else self.neutral + 0.1
        z = np.concatenate([np.full(n, middle), y])
        z = z + 1e-3 * (1.0 + np.abs(z)) * rng.standard_normal(len(z))
        bar, dz = rng.standard_normal(n), rng.standard_normal(len(z)) * (1.0 + np.abs(z))
        value = lambda at: bar @ self.value(at[:n], at[n:])
        central = (value(z + CHECK_STEP * dz) - value(z - CHECK_STEP * dz)) / (2.0 * CHECK_STEP)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                slope = np.concatenate(self.vjp(z[:n], z[n:], bar)) @ dz
        except (TypeError, ValueError, np.exceptions.ComplexWarning) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(self._advice(name, f"fails ({type(error).__name__})")) from None
        if not abs(central - slope) <= CHECK_ERROR * max(abs(central), abs(slope), 1e-12):
            raise InputError(self._advice(name, f"is {slope:g} instead of {central:g}"))

    def _advice(self, name: str, problem: str) -> str:
        if self.vjp_function is not None:
            return f"The derivative of actuator '{name}' {problem}; correct its vjp_function."
        return (
            f"The derivative of actuator '{name}' by complex numbers {problem}. Write its function "
            "without abs and with NumPy only, or give a vjp_function."
        )
