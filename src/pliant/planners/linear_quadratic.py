"""The linear-quadratic model of a problem about one evaluation, with bounds on control steps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import Evaluation
from pliant.planners.riccati import stage_costs
from pliant.problem import ControlBound, Problem

# With more states, stacking the stages of all steps into one array takes gigabytes.
MAX_STACKED_STATES = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearQuadraticModel:
    """Linearised dynamics and quadratic costs, shared by several backward passes."""

    problem: Problem
    layout: AugmentedState
    now: Evaluation
    stages: list[tuple[Array, Array]]  # dz'/dz and dz'/du of each step

    @property
    def is_small(self) -> bool:
        """Whether the stages may be stacked for one compiled loop."""
        return self.layout.size <= MAX_STACKED_STATES

    @cached_property
    def blocks(self) -> tuple[Array, ...]:
        """The arrays z, u, zz, uz, uu, A, B and the four step bounds, each (steps, ...).

        z and zz have one more row for the last state.
        """
        Q = stage_costs(self.problem, self.layout, self.now)
        A, B = (np.array(blocks) for blocks in zip(*self.stages, strict=True))
        control_step_bounds = (
            np.array(side)
            for side in zip(*map(self.control_step_bounds, range(self.problem.steps)), strict=True)
        )
        return (Q.z, Q.u, Q.zz, Q.uz, Q.uu, A, B, *control_step_bounds)

    @cached_property
    def kernel_arguments(self) -> tuple[Array, ...]:
        """Arguments of riccati_kernels.backward_pass."""
        return stack_stages(self.blocks)

    def control_step_bounds(self, k: int) -> tuple[Array, Array, Array, Array]:
        return control_step_bounds(self.problem, self.layout, self.now.controls, k)


def stack_stages(blocks: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the arguments of backward_pass: costs and dynamics over (z, 1, u), and bounds."""
    z, u, zz, uz, uu, A, B, *control_step_bounds = blocks
    (N, m), n = u.shape, z.shape[1]
    C, M = np.zeros((N + 1, n + 1 + m, n + 1 + m)), np.zeros((N, n + 1, n + 1 + m))
    C[:, :n, :n], C[:, n, :n], C[:, :n, n] = zz, z, z
    C[:N, n + 1 :, :n], C[:N, :n, n + 1 :] = uz, np.swapaxes(uz, 1, 2)
    C[:N, n + 1 :, n + 1 :], C[:N, n + 1 :, n], C[:N, n, n + 1 :] = uu, u, u
    M[:, :n, :n], M[:, n, n], M[:, :n, n + 1 :] = A, 1.0, B
    return (C[:N], C[N, : n + 1, : n + 1].copy(), M, *control_step_bounds)


def control_step_bounds(
    problem: Problem, layout: AugmentedState, controls: Array, k: int
) -> tuple[Array, Array, Array, Array]:
    """Return bounds on the change of u_k (n_controls,) and their derivatives by z_k.

    The derivatives are (n_controls, size) for the lower and the upper bound.
    """
    m = controls.shape[1]
    low, high = np.full(m, -np.inf), np.full(m, np.inf)
    low_rows, high_rows = np.zeros((m, layout.size)), np.zeros((m, layout.size))
    for bound in (*problem.control_bounds, *_stopping_bounds(problem, k)):
        c = bound.stencil[0]
        past = sum(
            (
                bound.stencil[j] * (controls[k - j] if k >= j else problem.previous_control)
                for j in range(1, len(bound.stencil))
            ),
            np.zeros(m),
        )
        rows = -layout.stencil_matrix(bound.stencil) / c
        lower, upper = (
            (bound.lower - past) / c - controls[k],
            (bound.upper - past) / c - controls[k],
        )
        low_rows, low = np.where((lower > low)[:, None], rows, low_rows), np.maximum(low, lower)
        high_rows, high = (
            np.where((upper < high)[:, None], rows, high_rows),
            np.minimum(high, upper),
        )
    return low, high, low_rows, high_rows


def _stopping_bounds(problem: Problem, k: int) -> list[ControlBound]:
    """Return bounds on u_k that let it stop before its bound U with the largest deceleration a.

    Braking for n steps leads to (1 + n) u_k - n u_{k-1} - a dt^2 n (n + 1) / 2 <= U.
    """
    by_order = [
        [bound for bound in problem.control_bounds if bound.order == order] for order in (0, 2)
    ]
    if not by_order[1]:
        return []
    (low, high), (down, up) = (
        (
            np.max([b.lower for b in control_bounds], axis=0),
            np.min([b.upper for b in control_bounds], axis=0),
        )
        for control_bounds in by_order
    )
    if not np.any(np.isfinite(low) | np.isfinite(high)):
        return []
    h2 = problem.model.dt**2
    braking_distance = {n: 0.5 * h2 * n * (n + 1) for n in range(1, problem.steps - k)}
    return [
        ControlBound(
            stencil=np.array([1.0 + n, -n]), lower=low - w * up, upper=high - w * down, order=1
        )
        for n, w in braking_distance.items()
    ]
