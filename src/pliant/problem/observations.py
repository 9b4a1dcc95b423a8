"""Discretised objective: observations of states and controls at one step, and their losses.

An Observation is one term at one step k: a loss phi(y) of y = sum_j C_j x_{k-j} + sum_j D_j
u_{k-1-j}. It can depend on several past steps [Zimmermann2021, eq. 23]. A ControlCost is a
quadratic function of the controls alone, equal at every step, with a banded Hessian.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import Array, InputError

COMPLEX_STEP = 1e-100  # step of complex-step differentiation


class Loss(Protocol):
    """A scalar function of an observation y (m,)."""

    def value(self, y: Array) -> float: ...
    def gradient(self, y: Array) -> Array: ...  # (m,)
    def gauss_newton_factor(self, y: Array) -> Array: ...  # (r, m): F^T F approximates the Hessian
    def hessian(self, y: Array) -> Array: ...  # (m, m), exact


@runtime_checkable
class SquaredLoss(Loss, Protocol):
    """A loss 1/2 |residuals(y)|^2; `gauss_newton_factor` is the derivative of the residuals."""

    def residuals(self, y: Array) -> Array: ...  # (r,)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticLoss:
    """The loss 1/2 weight |y - target|^2."""

    target: Array  # (m,)
    weight: float

    def residuals(self, y: Array) -> Array:
        """Return the residuals (m,), whose derivative is `gauss_newton_factor`."""
        return np.sqrt(self.weight) * (y - self.target)

    def value(self, y: Array) -> float:
        return 0.5 * self.weight * float((y - self.target) @ (y - self.target))

    def gradient(self, y: Array) -> Array:
        return self.weight * (y - self.target)

    def gauss_newton_factor(self, y: Array) -> Array:
        return np.sqrt(self.weight) * np.eye(len(y))

    def hessian(self, y: Array) -> Array:
        return self.weight * np.eye(len(y))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearLoss:
    """The loss -reward . y, which is unbounded below."""

    reward: Array  # (m,)

    def value(self, y: Array) -> float:
        return -float(self.reward @ y)

    def gradient(self, y: Array) -> Array:
        return -self.reward

    def gauss_newton_factor(self, y: Array) -> Array:
        return np.zeros((0, len(y)))

    def hessian(self, y: Array) -> Array:
        return np.zeros((len(y), len(y)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquaresLoss:
    """The loss 1/2 weight |r(y)|^2 of an analytic residual r, differentiated by complex steps."""

    residual: Callable[[Array], Array]  # (m,) -> (r,)
    weight: float

    def residuals(self, y: Array) -> Array:
        """Return the residuals (r,), whose derivative is `gauss_newton_factor`."""
        return np.sqrt(self.weight) * self.residual(y)

    def value(self, y: Array) -> float:
        r = self.residual(y)
        return 0.5 * self.weight * float(r @ r)

    def gradient(self, y: Array) -> Array:
        return self.weight * jacobian(self.residual, y).T @ self.residual(y)

    def gauss_newton_factor(self, y: Array) -> Array:
        return np.sqrt(self.weight) * jacobian(self.residual, y)

    def hessian(self, y: Array) -> Array:
        """Return the exact Gauss-Newton part plus the weighted second derivatives of r."""
        J = jacobian(self.residual, y)
        return self.weight * (J.T @ J + weighted_hessian(self.residual, y, self.residual(y)))


def check_analytic(name: str, f: Callable[[Array], Array], m: int) -> tuple[int, ...]:
    """Return the shape of f(y) for y (m,).

    Raises InputError unless f returns a vector and its complex-step derivative agrees with a
    finite difference at a generic point.
    """
    y = 0.3 + 0.1 * np.arange(m)
    value = f(y)
    if np.ndim(value) != 1:
        raise InputError(
            f"{name}: its function returns {np.shape(value) or 'a number'}, but a vector (m,) is "
            "needed; wrap it in np.array([...])."
        )
    h = 1e-6
    differences = np.stack([(f(y + h * e) - f(y - h * e)) / (2.0 * h) for e in np.eye(m)], axis=1)
    if np.all(np.isfinite(differences)) and not np.allclose(
        jacobian(f, y), differences, atol=1e-4 * (1.0 + np.abs(differences).max())
    ):
        raise InputError(
            f"{name}: its function is not analytic, so complex-step differentiation fails; write "
            "sqrt(sum(y**2)) for a norm or an absolute value, and smooth functions for min and "
            "max."
        )
    return np.shape(value)


def check_vjp(
    name: str, f: Callable[[Array], Array], vjp: Callable[[Array, Array], Array], at: Array
) -> tuple[int, ...]:
    """Return the shape of f(y) for y of the shape of `at` (n,).

    Raises InputError unless f returns a vector and its vjp agrees with a finite difference along
    one direction, at a point beside `at`.
    """
    rng, size = np.random.default_rng(0), float(np.abs(at).max(initial=0.0)) or 1.0
    y = at + 0.01 * size * rng.standard_normal(len(at))
    value = f(y)
    if np.ndim(value) != 1:
        raise InputError(
            f"{name}: its function returns {np.shape(value) or 'a number'}, but a vector (m,) is "
            "needed; wrap it in np.array([...])."
        )
    c, d = rng.standard_normal(len(value)), 1e-6 * size * rng.standard_normal(len(y))
    slope = np.asarray(vjp(y, c), float)
    if slope.shape != y.shape:
        raise InputError(f"{name}: its vjp returns {slope.shape}; it must return {y.shape}.")
    difference = 0.5 * float(c @ (f(y + d) - f(y - d)))
    allowed = 1e-4 * (float(np.abs(slope) @ np.abs(d)) + abs(difference)) + 1e-13 * float(
        np.abs(c) @ np.abs(value)
    )
    if np.isfinite(difference) and not abs(float(slope @ d) - difference) <= allowed:
        raise InputError(
            f"{name}: its vjp gives {float(slope @ d) / 1e-6:.6g} along a test direction, but "
            f"differences of its function give {difference / 1e-6:.6g}; correct the vjp."
        )
    return np.shape(value)


def check_not_nan(name: str, values: ArrayLike, y: Array) -> None:
    """Raise InputError if `values` of a user's function at y (m,) contain NaN."""
    if np.isnan(values).any() and np.isfinite(y).all():
        point = np.array2string(y, separator=", ", precision=4)
        raise InputError(
            f"{name}: its function returns nan at {point}; start from a guess for which it "
            "returns numbers."
        )


def weighted_hessian(f: Callable[[Array], Array], y: Array, w: Array) -> Array:
    """Return sum_i w_i d^2 f_i / dy^2 (m, m), by central differences of exact Jacobians."""
    h = 1e-5 * max(1.0, float(np.abs(y).max(initial=0.0)))
    columns = np.array(
        [
            (jacobian(f, y + h * e) - jacobian(f, y - h * e)).T @ w / (2.0 * h)
            for e in np.eye(len(y))
        ]
    )
    return 0.5 * (columns + columns.T)


def jacobian(f: Callable[[Array], Array], y: Array) -> Array:
    """Return df/dy (r, m) of an analytic f by complex steps, exact to round-off."""
    columns = [np.imag(f(y + 1j * COMPLEX_STEP * e)) / COMPLEX_STEP for e in np.eye(len(y))]
    return np.stack(columns, axis=1) if columns else np.zeros((len(f(y)), 0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """One objective term at one step: a loss of a linear function y of states and controls."""

    name: str
    step: int  # k, from 1 to the horizon
    loss: Loss
    states: tuple[sp.csr_matrix, ...] = ()  # (m, n_state) each, for x_k, x_{k-1}, ...
    controls: tuple[Array, ...] = ()  # (m, n_controls) each, for u_{k-1}, u_{k-2}, ...
    unit: str = ""  # unit of y; "m" for a position

    @property
    def size(self) -> int:
        """Length of y."""
        return (self.states or self.controls)[0].shape[0]

    def evaluate(self, states: Array, controls: Array, previous_control: Array) -> Array:
        """Return y (m,) for states (n + 1, n_state) and controls (n, n_controls).

        `previous_control` (n_controls,) is the control before the first step.
        """
        y = np.zeros(self.size)
        for j, C in enumerate(self.states):
            y = y + C @ states[max(self.step - j, 0)]
        for j, D in enumerate(self.controls):
            y = y + D @ (controls[self.step - 1 - j] if self.step > j else previous_control)
        return y


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlCost:
    """The cost 1/2 sum_k sum_c weight_c (sum_j stencil_j u_{k-j,c} - reference_{k,c})^2.

    Controls before the first step equal `previous_control` (n_controls,).
    """

    stencil: Array  # (j,) [1/s^order]
    weight: Array  # (n_controls,)
    reference: Array  # (steps, n_controls)

    def residual(self, controls: Array, previous_control: Array) -> Array:
        """Return the differences from the reference (steps, n_controls)."""
        return apply_stencil(self.stencil, controls, previous_control) - self.reference

    def value(self, controls: Array, previous_control: Array) -> float:
        r = self.residual(controls, previous_control)
        return 0.5 * float(np.sum(self.weight * r * r))

    def gradient(self, controls: Array, previous_control: Array) -> Array:
        """Return the derivative by the controls (steps, n_controls)."""
        return stencil_vjp(self.stencil, self.weight * self.residual(controls, previous_control))

    def banded_hessian(self, steps: int, width: int) -> Array:
        """Return the Hessian of each control (n_controls, width + 1, steps).

        Lower diagonals are stored as in SciPy's banded solvers.
        """
        c = self.stencil
        out = np.zeros((len(self.weight), width + 1, steps))
        for offset in range(min(len(c), width + 1)):
            for row in range(steps - offset):
                # sum over k >= row + offset of c_{k-row-offset} c_{k-row}
                n = min(len(c) - offset, steps - row - offset)
                out[:, offset, row] = self.weight * float(c[:n] @ c[offset : offset + n])
        return out


def apply_stencil(stencil: Array, controls: Array, previous_control: Array) -> Array:
    """Return sum_j stencil_j u_{k-j} (steps, n_controls).

    Controls before the first step equal `previous_control` (n_controls,).
    """
    padded = np.concatenate([np.tile(previous_control, (len(stencil) - 1, 1)), controls])
    n = len(controls)
    return sum(
        (
            c * padded[len(stencil) - 1 - j : len(stencil) - 1 - j + n]
            for j, c in enumerate(stencil)
        ),
        np.zeros(controls.shape),
    )


def stencil_vjp(stencil: Array, r: Array) -> Array:
    """Return the transpose of `apply_stencil` by the controls, for r (steps, n_controls)."""
    out = np.zeros_like(r)
    for j, c in enumerate(stencil[: len(r)]):
        out[: len(r) - j] += c * r[j:]
    return out


def backward_difference(order: int, dt: float) -> Array:
    """Return the stencil (order + 1,): (1), (1, -1) / dt, (1, -2, 1) / dt^2, ..."""
    c = np.array([1.0])
    for _ in range(order):
        c = np.convolve(c, [1.0, -1.0]) / dt
    return c
