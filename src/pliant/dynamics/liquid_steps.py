"""The inertia of liquids in one implicit and in one semi-implicit step.

An implicit rule combines the centroids c(q_j) of the new and the old positions, as it combines the
positions themselves. The mass rho V is taken from the old positions, so the residual remains the
gradient of an incremental potential. Each class returns what the inertia adds to that of the
mass matrix, which contains the liquid's mass at rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.bodies import COMPLEX_STEP
from pliant.core import Array
from pliant.dynamics.liquid_inertia import CavityGeometry, LiquidInertia


@dataclass(frozen=True, kw_only=True, eq=False)
class ImplicitLiquid:
    """The inertia of a liquid in an implicit step, whose new positions are q."""

    inertia: LiquidInertia
    olds: tuple[CavityGeometry, ...]  # at the old positions, the latest first
    coefficients: Array  # (1 + n_olds,) of the rule over the new and the old positions

    @classmethod
    def of(
        cls, inertia: LiquidInertia, olds: Sequence[Array], coefficients: Array
    ) -> "ImplicitLiquid":
        """Return the inertia after old positions (n_dofs,) each."""
        return cls(
            inertia=inertia, olds=tuple(inertia.at(old) for old in olds), coefficients=coefficients
        )

    @cached_property
    def mass(self) -> Array:
        """[kg] The mass at the end of the step, extrapolated with the order of the rule."""
        volumes = [old.volume for old in self.olds[:2]]
        extrapolated = volumes[0] ** 2 / volumes[1] if len(self.olds) > 2 else volumes[0]
        return self.inertia.density * extrapolated

    @cached_property
    def _mass_gradients(self) -> list[Array]:
        """The derivative (n_dofs,) of the mass by each of the old positions that it depends on."""
        first = self.olds[0]
        if len(self.olds) <= 2:
            return [self.mass / first.volume * first.volume_gradient]
        second = self.olds[1]
        return [
            2.0 * self.mass / first.volume * first.volume_gradient,
            -self.mass / second.volume * second.volume_gradient,
        ]

    def _accelerations(self, new: CavityGeometry) -> tuple[Array, Array]:
        """Return the acceleration (dim,) of the centroid and those (n_dofs,) of the nodes."""
        cavities = (new, *self.olds)
        return (
            sum(c * cavity.centroid for c, cavity in zip(self.coefficients, cavities, strict=True)),
            sum(c * cavity.q for c, cavity in zip(self.coefficients, cavities, strict=True)),
        )

    def _specific_force(self, new: CavityGeometry) -> Array:
        """Return the force (n_dofs,) [m/s^2] for a mass of 1 kg."""
        a, nodes = self._accelerations(new)
        return new.centroid_gradient @ a + self.inertia.relative(nodes)

    def value_and_gradient(self, q: Array) -> tuple[float, Array]:
        """Return the incremental potential [J] and its gradient (n_dofs,) [N]."""
        new = self.inertia.at(q)
        a, nodes = self._accelerations(new)
        by_mass = a @ a + nodes @ self.inertia.relative(nodes)
        at_rest = self.inertia.rest_mass * self.inertia.weighted(nodes)
        value = 0.5 * (self.mass * by_mass - nodes @ at_rest) / self.coefficients[0]
        return float(value), self.mass * self._specific_force(new) - at_rest

    def gradient(self, q: Array) -> Array:
        return self.value_and_gradient(q)[1]

    def hessian(self, q: Array) -> tuple[Array, float, Array, Array]:
        """Return the Hessian of the potential: blocks of the points of the wall, the mass [kg] that
        is added at the nodes by their fractions, columns (n_dofs, r) and weights (r,)."""
        new, c = self.inertia.at(q), self.coefficients[0]
        a, _ = self._accelerations(new)
        pair, pair_weights = new.centroid_hessian_pair(a)
        ones = np.ones(self.inertia.dim)
        return (
            self.mass * new.centroid_hessian_blocks(a),
            c * float(self.mass - self.inertia.rest_mass),
            np.concatenate([new.centroid_gradient, self.inertia.mean_columns, pair], axis=1),
            self.mass * np.concatenate([c * ones, -c * ones, pair_weights]),
        )

    def olds_jvp(self, q: Array, changes: Sequence[Array]) -> Array:
        """Return the change (n_dofs, k) of the gradient for changes (n_dofs, k) of each of the old
        positions."""
        new, force = self.inertia.at(q), self._specific_force(self.inertia.at(q))
        out = np.zeros_like(changes[0])
        for c, old, dq in zip(self.coefficients[1:], self.olds, changes, strict=True):
            out += c * self._mass_times(new, old.centroid_gradient.T @ dq, dq)
        for slope, dq in zip(self._mass_gradients, changes, strict=False):
            out += np.outer(force, slope @ dq)
        return out

    def olds_vjp(self, q: Array, y: Array) -> list[Array]:
        """Return the gradient (n_dofs, k) of y . gradient by each of the old positions."""
        new = self.inertia.at(q)
        mean, force = new.centroid_gradient.T @ y, self._specific_force(new)
        out = [
            c * self._mass_times(old, mean, y)
            for c, old in zip(self.coefficients[1:], self.olds, strict=True)
        ]
        for k, slope in enumerate(self._mass_gradients):
            out[k] = out[k] + np.outer(slope, force @ y)
        return out

    def _mass_times(self, cavity: CavityGeometry, mean: Array, z: Array) -> Array:
        """Return the mass matrix times columns z (n_dofs, k), without that at rest; `mean` (dim, k)
        is the change of the centroid."""
        moving = cavity.centroid_gradient @ mean + self.inertia.relative(z)
        return self.mass * moving - self.inertia.rest_mass * self.inertia.weighted(z)

    def second_derivative(
        self, q: Array, y: Array, dq: Array, changes: Sequence[Array]
    ) -> tuple[Array, list[Array]]:
        """Return the derivatives (n_dofs,) of the gradients of y . gradient, by q and by each of
        the old positions, along a change dq of q and `changes` of the old positions."""
        ahead = ImplicitLiquid.of(
            self.inertia,
            [
                old.q + 1j * COMPLEX_STEP * change
                for old, change in zip(self.olds, changes, strict=True)
            ],
            self.coefficients,
        )
        by_q, by_olds = ahead._pullback(q + 1j * COMPLEX_STEP * dq, y)
        return by_q.imag / COMPLEX_STEP, [by.imag / COMPLEX_STEP for by in by_olds]

    def _pullback(self, q: Array, y: Array) -> tuple[Array, list[Array]]:
        """Return the gradients (n_dofs,) of y . gradient by q and by the old positions."""
        new, column = self.inertia.at(q), y[:, None]
        a, _ = self._accelerations(new)
        mean = new.centroid_gradient.T @ column
        by_q = self.coefficients[0] * self._mass_times(new, mean, column)[:, 0]
        by_q = by_q + self.mass * new.centroid_hessian_times(a, y)
        return by_q, [by[:, 0] for by in self.olds_vjp(q, column)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SemiImplicitLiquid:
    """The inertia of a liquid in a semi-implicit step from positions q and velocities v: the change
    of its momentum, with all geometry at q."""

    inertia: LiquidInertia
    q: Array
    v: Array
    dt: float  # [s]
    damping: float  # [1/s] mass damping

    @cached_property
    def _cavity(self) -> CavityGeometry:
        return self.inertia.at(self.q)

    @cached_property
    def mass(self) -> float:
        """[kg]"""
        return float(self.inertia.density * self._cavity.volume)

    @cached_property
    def _gradient_rate(self) -> Array:
        """(n_dofs, dim) the rate of the derivative of the centroid: its Hessians times v."""
        return self._hessians_times(self.v)

    def _hessians_times(self, z: Array) -> Array:
        units = np.eye(self.inertia.dim)
        return np.stack([self._cavity.centroid_hessian_times(unit, z) for unit in units], axis=1)

    def mass_times(self, z: Array) -> Array:
        """Return the mass matrix times a vector or columns (n_dofs, k), without that at rest."""
        G = self._cavity.centroid_gradient
        moving = G @ (G.T @ z) + self.inertia.relative(z)
        return self.mass * moving - self.inertia.rest_mass * self.inertia.weighted(z)

    @cached_property
    def convective_impulse(self) -> Array:
        """(n_dofs,) [kg m/s] The impulse of the acceleration that the centroid has at constant
        velocities of the nodes."""
        return (
            self.mass
            * self.dt
            * (self._cavity.centroid_gradient @ (self._gradient_rate.T @ self.v))
        )

    def hessian(self) -> tuple[float, Array, Array]:
        """Return the mass matrix: the mass [kg] that is added at the nodes by their fractions,
        columns (n_dofs, 2 dim) and weights (2 dim,)."""
        ones = np.full(self.inertia.dim, (1.0 + self.dt * self.damping) * self.mass)
        columns = [self._cavity.centroid_gradient, self.inertia.mean_columns]
        added = (1.0 + self.dt * self.damping) * (self.mass - self.inertia.rest_mass)
        return added, np.concatenate(columns, axis=1), np.concatenate([ones, -ones])

    def derivative(self, w: Array) -> "LiquidImpulseDerivative":
        """Return the derivative of the impulse for new velocities w (n_dofs,)."""
        return LiquidImpulseDerivative(impulse=self, w=w)


@dataclass(frozen=True, kw_only=True, eq=False)
class LiquidImpulseDerivative:
    """The derivative of a `SemiImplicitLiquid` by q and v at new velocities w, without that of the
    mass matrix times the difference of the velocities."""

    impulse: SemiImplicitLiquid
    w: Array

    @cached_property
    def _difference(self) -> Array:
        one = self.impulse
        return (1.0 + one.dt * one.damping) * self.w - one.v

    @cached_property
    def _centroid_change(self) -> Array:
        """(dim,) [m/s] the change of the velocity of the centroid."""
        one = self.impulse
        G = one._cavity.centroid_gradient
        return G.T @ self._difference + one.dt * (one._gradient_rate.T @ one.v)

    @cached_property
    def _specific_impulse(self) -> Array:
        """(n_dofs,) [m/s]"""
        one = self.impulse
        G = one._cavity.centroid_gradient
        return G @ self._centroid_change + one.inertia.relative(self._difference)

    @cached_property
    def _by_positions(self) -> Array:
        """(n_dofs, dim) the derivative of `_centroid_change` by q."""
        one = self.impulse
        ahead = one.inertia.at(one.q + 1j * COMPLEX_STEP * one.v)
        third = [
            ahead.centroid_hessian_times(unit, one.v).imag / COMPLEX_STEP
            for unit in np.eye(one.inertia.dim)
        ]
        return one._hessians_times(self._difference) + one.dt * np.stack(third, axis=1)

    def jvp(self, dq: Array, dv: Array) -> Array:
        """Return the change (n_dofs, k) of the impulse for columns dq and dv (n_dofs, k)."""
        one = self.impulse
        cavity, mass = one._cavity, one.mass
        by_centroid = self._by_positions.T @ dq + 2.0 * one.dt * (one._gradient_rate.T @ dv)
        out = cavity.centroid_hessian_times(self._centroid_change, dq)
        out += cavity.centroid_gradient @ by_centroid
        by_volume = mass / cavity.volume * (cavity.volume_gradient @ dq)
        return mass * out + np.outer(self._specific_impulse, by_volume)

    def vjp(self, y: Array) -> tuple[Array, Array]:
        """Return the transpose of `jvp`."""
        one = self.impulse
        cavity, mass = one._cavity, one.mass
        mean = cavity.centroid_gradient.T @ y
        dq = cavity.centroid_hessian_times(self._centroid_change, y) + self._by_positions @ mean
        by_volume = mass / cavity.volume * (self._specific_impulse @ y)
        dv = 2.0 * mass * one.dt * (one._gradient_rate @ mean)
        return mass * dq + np.outer(cavity.volume_gradient, by_volume), dv
