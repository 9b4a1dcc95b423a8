"""A quasistatic model with the parameters of a dynamic one, so that both can share a fit."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, Linearization, Params, Space, Step
from pliant.dynamics import Quasistatic
from pliant.robot import Robot


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WithUnusedParameters:
    """A quasistatic model with further parameters that have no effect on equilibria, such as
    damping."""

    model: Quasistatic
    params: Params  # all, those of the model among them

    @cached_property
    def _used(self) -> Array:
        """The indices (k,) in `params` of the parameters of the model."""
        ends = np.cumsum([block.value.size for block in self.params.blocks])
        at = {
            block.name: np.arange(end - block.value.size, end)
            for block, end in zip(self.params.blocks, ends, strict=True)
        }
        return np.concatenate(
            [np.zeros(0, int), *(at[block.name] for block in self.model.params.blocks)]
        )

    @property
    def robot(self) -> Robot:
        return self.model.robot

    @property
    def body(self) -> Any:
        return self.model.body

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def n_controls(self) -> int:
        return self.model.n_controls

    @property
    def dt(self) -> float:
        return self.model.dt

    def control_limits(self) -> tuple[Array, Array]:
        return self.model.control_limits()

    def neutral_controls(self) -> Array:
        return self.model.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the effector's position."""
        return self.model.effector_rows(name)

    def initial_state(self) -> Array:
        """Return the rest shape."""
        return self.model.initial_state()

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the next equilibrium. Raises InputError for parameters out of their bounds."""
        self.params.split(p)
        return self.model.step(x, u, None if p is None else np.asarray(p)[self._used], k)

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        by_x, by_u, by_p = self.model.pullback(step, x_bar)
        return by_x, by_u, self._padded(by_p)

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators."""
        inner = self.model.linearize(step)

        def vjp(bars: Array) -> tuple[Array, Array, Array]:
            by_x, by_u, by_p = inner.vjp_columns(bars)
            return by_x, by_u, self._padded(by_p)

        return replace(
            inner,
            n_params=self.params.size,
            jvp_columns=lambda dx, du, dp: inner.jvp_columns(dx, du, dp[self._used]),
            vjp_columns=vjp,
        )

    def _padded(self, by_p: Array) -> Array:
        out = np.zeros((self.params.size, *by_p.shape[1:]))
        out[self._used] = by_p
        return out
