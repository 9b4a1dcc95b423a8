"""The linear-quadratic model of a problem about one run, and the room that limits leave each
control there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array
from pliant.planners.augmented import Augmented
from pliant.planners.plan import Evaluation
from pliant.planners.riccati import stage_costs
from pliant.problem import Band, Problem

# states whose stages are held once more, one array for all steps: of a whole mesh that would be
# gigabytes
FEW = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion:
    """A run and the dynamics about it; the costs and the room are found once, however many backward
    passes follow."""

    problem: Problem
    layout: Augmented
    now: Evaluation
    stages: list[tuple[Array, Array]]  # dz'/dz and dz'/du of each step

    @property
    def small(self) -> bool:
        """Whether the stages may be stacked, so that one compiled loop runs over them."""
        return self.layout.size <= FEW

    @cached_property
    def blocks(self) -> tuple[Array, ...]:
        """z, u, zz, uz, uu, A, B and the room's four, each (steps, ...); z and zz have the last
        state's too."""
        Q = stage_costs(self.problem, self.layout, self.now)
        A, B = (np.array(blocks) for blocks in zip(*self.stages, strict=True))
        room = (
            np.array(side) for side in zip(*map(self.room, range(self.problem.steps)), strict=True)
        )
        return (Q.z, Q.u, Q.zz, Q.uz, Q.uu, A, B, *room)

    @cached_property
    def stacked(self) -> tuple[Array, ...]:
        """What stages.sweep takes."""
        return stacked(self.blocks)

    def room(self, k: int) -> tuple[Array, Array, Array, Array]:
        return room(self.problem, self.layout, self.now.controls, k)


def stacked(blocks: tuple[Array, ...]) -> tuple[Array, ...]:
    """C, last, M and the room's four of stages.sweep from separate blocks: costs and dynamics over
    (z, 1, u)."""
    z, u, zz, uz, uu, A, B, *room = blocks
    (N, m), n = u.shape, z.shape[1]
    C, M = np.zeros((N + 1, n + 1 + m, n + 1 + m)), np.zeros((N, n + 1, n + 1 + m))
    C[:, :n, :n], C[:, n, :n], C[:, :n, n] = zz, z, z
    C[:N, n + 1 :, :n], C[:N, :n, n + 1 :] = uz, np.swapaxes(uz, 1, 2)
    C[:N, n + 1 :, n + 1 :], C[:N, n + 1 :, n], C[:N, n, n + 1 :] = uu, u, u
    M[:, :n, :n], M[:, n, n], M[:, :n, n + 1 :] = A, 1.0, B
    return (C[:N], C[N, : n + 1, : n + 1].copy(), M, *room)


def room(
    problem: Problem, layout: Augmented, controls: Array, k: int
) -> tuple[Array, Array, Array, Array]:
    """How far u_k may go down and up by all limits, (n_controls,) each, and how these bounds move
    with z_k, (n_controls, size) each."""
    m = controls.shape[1]
    low, high = np.full(m, -np.inf), np.full(m, np.inf)
    low_rows, high_rows = np.zeros((m, layout.size)), np.zeros((m, layout.size))
    for band in (*problem.bands, *_braking(problem, k)):
        c = band.stencil[0]
        past = sum(
            (
                band.stencil[j] * (controls[k - j] if k >= j else problem.first_control)
                for j in range(1, len(band.stencil))
            ),
            np.zeros(m),
        )
        rows = -layout.stencil_rows(band.stencil) / c
        lower, upper = (band.lower - past) / c - controls[k], (band.upper - past) / c - controls[k]
        low_rows, low = np.where((lower > low)[:, None], rows, low_rows), np.maximum(low, lower)
        high_rows, high = (
            np.where((upper < high)[:, None], rows, high_rows),
            np.minimum(high, upper),
        )
    return low, high, low_rows, high_rows


def _braking(problem: Problem, k: int) -> list[Band]:
    """What a bound U and the strongest deceleration a leave of u_k, so that it can still stop in
    time: braking for n steps leads to (1 + n) u_k - n u_{k-1} - a dt^2 n (n + 1) / 2, which must
    not pass U."""
    by_order = [[band for band in problem.bands if band.order == order] for order in (0, 2)]
    if not by_order[1]:
        return []
    (low, high), (down, up) = (
        (np.max([b.lower for b in bands], axis=0), np.min([b.upper for b in bands], axis=0))
        for bands in by_order
    )
    if not np.any(np.isfinite(low) | np.isfinite(high)):
        return []
    h2 = problem.model.dt**2
    way = {n: 0.5 * h2 * n * (n + 1) for n in range(1, problem.steps - k)}
    return [
        Band(stencil=np.array([1.0 + n, -n]), lower=low - w * up, upper=high - w * down, order=1)
        for n, w in way.items()
    ]
