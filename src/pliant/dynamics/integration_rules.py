"""Coefficients of the implicit time-stepping rules."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array


@dataclass(frozen=True, kw_only=True)
class IntegrationRule:
    """The coefficients of a rule over (q', part 0, part 1, ...), where q' are the new positions.

    The parts are those of the old state; part 0 holds the old positions q.
    """

    parts: tuple[str, ...]
    acceleration: tuple[float, ...]
    velocity: tuple[float, ...]  # for damping; over positions only
    new_state: tuple[tuple[float, ...], ...]  # one row for each part of the new state
    guess: tuple[float, ...]  # start of Newton's method, over the parts
    rate: tuple[float, ...]  # velocity of a state, over its parts
    # the old positions that the accelerations combine, the latest first, each over the parts
    old_positions: tuple[tuple[float, ...], ...]

    def over_positions(self, coefficients: Array) -> Array:
        """Return coefficients over (q', parts) as coefficients over q' and the old positions."""
        return np.append(
            coefficients[0], np.linalg.solve(np.transpose(self.old_positions), coefficients[1:])
        )


def quasistatic_rule() -> IntegrationRule:
    """Return the rule without inertia: each step is an equilibrium."""
    return IntegrationRule(
        parts=("position",),
        acceleration=(0.0, 0.0),
        velocity=(0.0, 0.0),
        new_state=((1.0, 0.0),),
        guess=(1.0,),
        rate=(0.0,),
        old_positions=((1.0,),),
    )


def euler_rule(h: float) -> IntegrationRule:
    """Return the backward Euler rule (BDF1) with the time step h [s]."""
    return IntegrationRule(
        parts=("position", "velocity"),
        acceleration=(1 / h**2, -1 / h**2, -1 / h),
        velocity=(1 / h, -1 / h, 0.0),
        new_state=((1.0, 0.0, 0.0), (1 / h, -1 / h, 0.0)),
        guess=(1.0, h),
        rate=(0.0, 1.0),
        old_positions=((1.0, 0.0), (1.0, -h)),
    )


def bdf2_rule(h: float) -> IntegrationRule:
    """Return the second-order backward difference [Zimmermann2021, eq. 4] with time step h [s]."""
    return IntegrationRule(
        parts=("position", "previous", "before"),
        acceleration=(2 / h**2, -5 / h**2, 4 / h**2, -1 / h**2),
        velocity=(1.5 / h, -2 / h, 0.5 / h, 0.0),
        guess=(3.0, -3.0, 1.0),
        rate=(1.5 / h, -2 / h, 0.5 / h),
        new_state=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
        old_positions=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    )


def combine(coefficients: Sequence[float] | Array, vectors: Sequence[Array]) -> Array:
    """Return the sum of coefficients times vectors, without the terms of coefficient zero."""
    return sum(
        (c * v for c, v in zip(coefficients, vectors, strict=True) if c != 0.0),
        np.zeros_like(vectors[0]),
    )
