"""What an objective looks at: small linear observations of states and controls, and what each
costs.

A Look is one term at one step k: phi(y) of y = sum_j C_j x_{k-j} + sum_j D_j u_{k-1-j}, so it may
look back several steps (paper 003 eq. 23). A Smooth is a quadratic of the controls alone, the same
at every step; it stays banded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import Array, InputError


class Loss(Protocol):
    """A function of a small observation y (m,): value, gradient, Gauss-Newton factor and exact
    Hessian."""

    def value(self, y: Array) -> float: ...
    def slope(self, y: Array) -> Array: ...  # (m,)
    def factor(
        self, y: Array
    ) -> Array: ...  # (r, m), factor^T factor approximates the Hessian from above zero
    def hessian(self, y: Array) -> Array: ...  # (m, m)


@dataclass(frozen=True, kw_only=True, eq=False)
class Quadratic:
    """1/2 weight |y - target|^2."""

    target: Array  # (m,)
    weight: float

    def value(self, y: Array) -> float:
        return 0.5 * self.weight * float((y - self.target) @ (y - self.target))

    def slope(self, y: Array) -> Array:
        return self.weight * (y - self.target)

    def factor(self, y: Array) -> Array:
        return np.sqrt(self.weight) * np.eye(len(y))

    def hessian(self, y: Array) -> Array:
        return self.weight * np.eye(len(y))


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear:
    """-reward . y: the more along the reward the better, without end."""

    reward: Array  # (m,)

    def value(self, y: Array) -> float:
        return -float(self.reward @ y)

    def slope(self, y: Array) -> Array:
        return -self.reward

    def factor(self, y: Array) -> Array:
        return np.zeros((0, len(y)))

    def hessian(self, y: Array) -> Array:
        return np.zeros((len(y), len(y)))


STEP = 1e-100  # of the complex step


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquares:
    """1/2 weight |r(y)|^2 of a residual r written with analytic operations; its slopes come by the
    complex step."""

    residual: Callable[[Array], Array]  # (m,) -> (r,)
    weight: float

    def value(self, y: Array) -> float:
        r = self.residual(y)
        return 0.5 * self.weight * float(r @ r)

    def slope(self, y: Array) -> Array:
        return self.weight * jacobian(self.residual, y).T @ self.residual(y)

    def factor(self, y: Array) -> Array:
        return np.sqrt(self.weight) * jacobian(self.residual, y)

    def hessian(self, y: Array) -> Array:
        """The Gauss-Newton part exactly, the curvature of r by central differences of its exact
        slopes."""
        J = jacobian(self.residual, y)
        return self.weight * (J.T @ J + bend(self.residual, y, self.residual(y)))


def check_analytic(name: str, f: Callable[[Array], Array], m: int) -> tuple[int, ...]:
    """The shape of what f gives; a sentence unless f maps (m,) to a vector and its complex step
    agrees with a difference at some generic place."""
    y = 0.3 + 0.1 * np.arange(m)
    found = f(y)
    if np.ndim(found) != 1:
        raise InputError(
            f"{name}: its function gives {np.shape(found) or 'a number'} where a vector (m,) is "
            "needed; wrap it in np.array([...])."
        )
    h = 1e-6
    differences = np.stack([(f(y + h * e) - f(y - h * e)) / (2.0 * h) for e in np.eye(m)], axis=1)
    if np.all(np.isfinite(differences)) and not np.allclose(
        jacobian(f, y), differences, atol=1e-4 * (1.0 + np.abs(differences).max())
    ):
        raise InputError(
            f"{name}: its function is not analytic, so that it has no complex step; write "
            "sqrt(sum(y**2)) for a norm or an absolute value, and smooth functions for min and "
            "max."
        )
    return np.shape(found)


def check_not_nan(name: str, values: ArrayLike, y: Array) -> None:
    """Raise InputError if `values` of a user's function at y (m,) contain NaN."""
    if np.isnan(values).any() and np.isfinite(y).all():
        place = np.array2string(y, separator=", ", precision=4)
        raise InputError(
            f"{name}: its function returns nan at {place}; start from a guess for which it "
            "returns numbers."
        )


def bend(f: Callable[[Array], Array], y: Array, w: Array) -> Array:
    """(m, m) sum_i w_i d^2 f_i / dy^2, by central differences of the exact slopes."""
    h = 1e-5 * max(1.0, float(np.abs(y).max(initial=0.0)))
    columns = np.array(
        [
            (jacobian(f, y + h * e) - jacobian(f, y - h * e)).T @ w / (2.0 * h)
            for e in np.eye(len(y))
        ]
    )
    return 0.5 * (columns + columns.T)


def jacobian(f: Callable[[Array], Array], y: Array) -> Array:
    """(r, m) the derivative of an analytic f by the complex step, exact to round-off."""
    columns = [np.imag(f(y + 1j * STEP * e)) / STEP for e in np.eye(len(y))]
    return np.stack(columns, axis=1) if columns else np.zeros((len(f(y)), 0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """One term at one step."""

    name: str
    step: int  # k, from 1 to the horizon
    loss: Loss
    states: tuple[sp.csr_matrix, ...] = ()  # (m, n_state) each, of x_k, x_{k-1}, ...
    controls: tuple[Array, ...] = ()  # (m, n_controls) each, of u_{k-1}, u_{k-2}, ...
    unit: str = ""  # of y; "m" where it is a place

    @property
    def size(self) -> int:
        return (self.states or self.controls)[0].shape[0]

    def see(self, states: Array, controls: Array, before: Array) -> Array:
        """(m,) y for states (n + 1, n_state), controls (n, n_controls) and the control `before` the
        first."""
        y = np.zeros(self.size)
        for j, C in enumerate(self.states):
            y = y + C @ states[max(self.step - j, 0)]
        for j, D in enumerate(self.controls):
            y = y + D @ (controls[self.step - 1 - j] if self.step > j else before)
        return y


@dataclass(frozen=True, kw_only=True, eq=False)
class Smooth:
    """1/2 sum_k sum_c weight_c (sum_j stencil_j u_{k-j,c} - reference_{k,c})^2; before the first
    step the control stood still."""

    stencil: Array  # (j,) [1/s^order]
    weight: Array  # (n_controls,)
    reference: Array  # (steps, n_controls)

    def residual(self, controls: Array, before: Array) -> Array:
        """(steps, n_controls)"""
        return stencilled(self.stencil, controls, before) - self.reference

    def value(self, controls: Array, before: Array) -> float:
        r = self.residual(controls, before)
        return 0.5 * float(np.sum(self.weight * r * r))

    def gradient(self, controls: Array, before: Array) -> Array:
        """(steps, n_controls)"""
        r = self.weight * self.residual(controls, before)
        out = np.zeros_like(r)
        for j, c in enumerate(self.stencil[: len(r)]):
            out[: len(r) - j] += c * r[j:]
        return out

    def band(self, steps: int, width: int) -> Array:
        """(n_controls, width + 1, steps) the Hessian of each control, lower diagonals as scipy's
        banded solvers store them."""
        c = self.stencil
        out = np.zeros((len(self.weight), width + 1, steps))
        for offset in range(min(len(c), width + 1)):
            for row in range(
                steps - offset
            ):  # sum over k >= row + offset of c_{k-row-offset} c_{k-row}
                reach = min(len(c) - offset, steps - row - offset)
                out[:, offset, row] = self.weight * float(c[:reach] @ c[offset : offset + reach])
        return out


def stencilled(stencil: Array, controls: Array, before: Array) -> Array:
    """(steps, n_controls) sum_j stencil_j u_{k-j}; a control that stands still before the first
    step."""
    padded = np.concatenate([np.tile(before, (len(stencil) - 1, 1)), controls])
    n = len(controls)
    return sum(
        (
            c * padded[len(stencil) - 1 - j : len(stencil) - 1 - j + n]
            for j, c in enumerate(stencil)
        ),
        np.zeros(controls.shape),
    )


def difference(order: int, dt: float) -> Array:
    """(order + 1,) the backward difference of an order: (1), (1, -1) / dt, (1, -2, 1) / dt^2."""
    c = np.array([1.0])
    for _ in range(order):
        c = np.convolve(c, [1.0, -1.0]) / dt
    return c
