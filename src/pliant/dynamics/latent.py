"""Latent dynamics (paper 000 eq. 8): a robot moves among the shapes f(a) that its own controls
could hold.

The implicit Euler step, projected on the slopes of f (Galerkin), is an equation for the new latent
numbers a':
    J'^T [M (f' - 2 f + f_before) / h^2 + damping] + (dl/da')^T (u - a') = 0.
The forces of the body need not be known: at f(a') they are in balance with the controls a', so that
what is left is the work of u - a' on what the actuators act on, l (the lengths of cables).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    InputError,
    Linearization,
    Params,
    Space,
    Status,
    Step,
    StepError,
    check_controls,
    finite_array,
    require_kind,
)
from pliant.dynamics.checks import check_dt, check_index, check_state, check_step
from pliant.dynamics.families import ExactFamily, Family, Interpolated
from pliant.dynamics.shapes import Shapes
from pliant.kernels.ordered import dots
from pliant.parallel import crew
from pliant.progress import Progress
from pliant.robot import Robot
from pliant.surrogate import Corners, CornerStore, Grid, SampleError, Surrogate, job
from pliant.surrogate.domain import check_lengths

COMPRESS = 1e-6  # tolerance of the basis of shapes, beside what a cell's change of control moves
ITERATIONS = 60
Found = tuple[
    Array, Array, Array
]  # residual, its slope, and that without the curvature of the shapes
EXACT = 1e-12  # of a latent number, beside its unit
SMALL = 1e-9  # what a step may end at where round-off lets it no nearer
SINGULAR = 1e12  # the condition from which on controls count as dependent


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    owner: "Embedded"
    latent: Array  # (3, d) a', a and the one before
    slope: Array  # (d, d) dg/da'
    controls: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedded:
    """Dynamics in the latent numbers of a family of shapes; the state holds the effectors' places
    too, now and before, so that goals see them as they see those of any model. Made by Latent."""

    family: Family
    dt: float  # [s]
    start: Array  # (d,) the controls that hold the first shape

    @property
    def robot(self) -> Robot:
        return self.family.shapes.robot

    @property
    def n_controls(self) -> int:
        return self.robot.n_controls

    @property
    def params(self) -> Params:
        return Params()

    @property
    def space(self) -> Space:
        k, d = self.family.shapes.effectors.shape[0], self.n_controls
        return Space(
            parts=("position", "previous", "latent", "before"),
            n_dofs=k,
            rate=(1.0 / self.dt, -1.0 / self.dt),
            sizes=(k, k, d, d),
        )

    def control_limits(self) -> tuple[Array, Array]:
        return self.robot.control_limits()

    def neutral_controls(self) -> Array:
        return self.robot.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """(dim, n_dofs) an effector's place from the position part of the state."""
        if name not in self.robot.effectors:
            self.robot.row(name)  # says which there are
        k = list(self.robot.effectors).index(name)
        dim = self.family.shapes.model.equations.dim
        return sp.identity(self.space.n_dofs, format="csr")[k * dim : (k + 1) * dim]

    def initial_state(self) -> Array:
        """At rest in the first shape."""
        return self.state(self.start)

    def state(self, latent: Array) -> Array:
        """At rest in the shape that the controls `latent` (d,) hold."""
        a = finite_array("The array of latent numbers", latent, (self.n_controls,))
        place = self.family.place(self.family.rows(a)[0])
        return np.concatenate([place, place, a, a])

    def positions(self, x: Array) -> Array:
        """(n_dofs,) [m] the whole shape of a state."""
        return self.family.positions(self.space.split(x).latent)

    def refined(self) -> "Embedded":
        """The same model on the next finer surrogate, which keeps all exact evaluations."""
        return replace(self, family=Interpolated(self.family.shapes, self.surrogate.refined()))

    def exact(self) -> "Embedded":
        """The same model with every shape solved for exactly, from the nearest of the known
        ones."""
        known = (
            list(self.family.surrogate.corners.samples.values())
            if isinstance(self.family, Interpolated)
            else ()
        )
        return replace(
            self, family=ExactFamily(self.family.shapes, unit=self.family.unit, known=known)
        )

    @property
    def surrogate(self) -> Surrogate:
        """What stands in for the exact shapes."""
        if not isinstance(self.family, Interpolated):
            raise InputError(
                "This latent model solves for every shape exactly; it has no surrogate to refine."
            )
        return self.family.surrogate

    def close(self) -> None:
        """Let go of the store and of the workers of its exact shapes."""
        self.surrogate.corners.close()

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The state one step on. Where the surrogate has no value the step fails, and its text says
        where."""
        u = check_controls(u, self.n_controls).copy()
        x = check_state(x, self.space.size)
        check_index(k)
        now = self.space.split(x)
        try:
            a, slope, status = self._solve(now.latent.copy(), now.before.copy(), u)
            place = self.family.place(self.family.rows(a)[0])
        except (SampleError, StepError) as error:  # the latter where an exact shape was not found
            return Step(x, Status(ok=False, text=str(error)), None)
        tape = Tape(
            owner=self, latent=np.stack([a, now.latent, now.before]), slope=slope, controls=u
        )
        return Step(np.concatenate([place, now.position, a, now.latent]), status, tape)

    @property
    def _rates(self) -> tuple[float, float, float, float]:
        """Coefficients of the mass over the new, the last and the one before, and of the viscosity
        over the new less the last."""
        h, c = self.dt, self.robot.damping.mass
        return 1.0 / h**2 + c / h, -2.0 / h**2 - c / h, 1.0 / h**2, 1.0 / h

    def _residual(
        self, a: Array, u: Array, past: Array, last: Array, curved: bool = True
    ) -> tuple[Array, Array, Array]:
        """(g (d,), dg/da' (d, d), its part without the shapes' curvature) at new latent numbers;
        `past`: the mass's share of old rows. Where it is not `curved`, the second is the third."""
        d, family = len(a), self.family
        rows = family.rows(a, curved)
        c0, _, _, rate = self._rates
        force = family.weigh(_added(c0, rows[0], past), rate * _added(1.0, rows[0], -last))
        push = [family.weigh(c0 * row, rate * row) for row in rows[1 : 1 + d]]
        lengths = family.lengths(rows[1:])
        g = dots(rows[1 : 1 + d], force) + dots(lengths[:d], u - a)
        flat = np.array([dots(rows[1 : 1 + d], column) for column in push]) - lengths[:d]
        if not curved:
            return g, flat, flat
        bend = dots(rows[1 + d :], force) + dots(lengths[d:], u - a)
        full = flat.copy()
        for value, (i, j) in zip(bend, combinations_with_replacement(range(d), 2), strict=True):
            full[i, j] += value
            if i != j:
                full[j, i] += value
        return g, full, flat

    def _past(self, a: Array, before: Array) -> tuple[Array, Array]:
        _, c1, c2, _ = self._rates
        last, older = self.family.rows(a)[0], self.family.rows(before)[0]
        return _added(c1, last, c2 * older), last

    def _solve(self, a: Array, before: Array, u: Array) -> tuple[Array, Array, Status]:
        """Newton's method with the natural monotonicity test: the interpolant is C1, so that a step
        across a face may have to be cut."""
        past, last = self._past(a, before)
        unit, curved = self.family.unit, self.family.cheap_curvature
        residual = lambda at: self._residual(at, u, past, last, curved)
        now, (g, full, flat) = self._first(residual, 2.0 * a - before, a)
        change, k = np.inf, 0
        for k in range(ITERATIONS):  # noqa: B007
            slope = full if _steady(full) else flat
            moved = _solved(slope, -g)
            change = float(np.abs(moved / unit).max())
            if change <= EXACT:
                break
            trial, found, left = self._shorten(residual, now, moved, slope, change)
            if left >= change and change <= SMALL:
                break
            now, (g, full, flat) = trial, found
        full = full if curved else self._residual(now, u, past, last)[1]
        ok = change <= SMALL
        text = (
            "converged"
            if ok
            else (
                f"the latent step did not converge in {ITERATIONS} iterations (last change "
                f"{change:.1e} of a unit); take a smaller time step"
            )
        )
        return now, full, Status(ok=ok, text=text, iterations=k, residual=float(np.abs(g).max()))

    def _first(
        self, residual: Callable[[Array], Found], guess: Array, old: Array
    ) -> tuple[Array, Found]:
        """Where to start: at a guess, or where the surrogate does not reach there, at the old
        numbers."""
        try:
            return guess, residual(guess)
        except SampleError:
            return old, residual(old)

    def _shorten(
        self,
        residual: Callable[[Array], Found],
        now: Array,
        moved: Array,
        slope: Array,
        change: float,
    ) -> tuple[Array, Found, float]:
        """(trial, what was found there, the change that is left) along a step that is halved until
        it brings enough, or ends too far."""
        share = min(
            1.0, 2.0 / change
        )  # a leap of more than two cells only builds corners that nobody needs
        while True:
            trial = now + share * moved
            try:
                found = residual(trial)
                left = float(np.abs(_solved(slope, found[0]) / self.family.unit).max())
                if left < (1.0 - 0.5 * share) * change or share < 1e-4:
                    return trial, found, left
            except SampleError:
                if share < 1e-4:
                    raise
            share *= 0.5

    # Derivatives

    def _blocks(self, step: Step) -> tuple[Array, Array]:
        """(da'/d(a, before, u) (d, 3 d), d place / da' (k, d))"""
        t: Tape = step.tape
        family, d = self.family, self.n_controls
        new, last, older = (family.rows(a)[1:] for a in t.latent)
        _, c1, c2, rate = self._rates
        new = new[:d]
        by_last = np.stack(
            [dots(new, family.weigh(c1 * row, -rate * row)) for row in last[:d]], axis=1
        )
        by_older = np.stack(
            [dots(new, family.weigh(c2 * row, 0.0 * row)) for row in older[:d]], axis=1
        )
        by_u = family.lengths(new)
        return -_solved(t.slope, np.hstack([by_last, by_older, by_u])), family.places(new).T

    def linearize(self, step: Step) -> Linearization:
        """The derivative of a step as operators; all of it is small."""
        check_step(step, self)
        moved, placed = self._blocks(step)
        d, k = self.n_controls, self.space.n_dofs
        A = np.zeros((self.space.size, self.space.size))
        latent, before = slice(2 * k, 2 * k + d), slice(2 * k + d, 2 * k + 2 * d)
        A[latent, latent], A[latent, before] = moved[:, :d], moved[:, d : 2 * d]
        A[:k] = placed @ A[latent]
        A[k : 2 * k, :k] = np.eye(k)
        A[before, latent] = np.eye(d)
        B = np.zeros((self.space.size, d))
        B[latent], B[:k] = moved[:, 2 * d :], placed @ moved[:, 2 * d :]
        return Linearization(
            n_state=len(A),
            n_controls=d,
            n_params=0,
            push=lambda dx, du, dp: A @ dx + B @ du,
            pull=lambda x_bar: (A.T @ x_bar, B.T @ x_bar, np.zeros((0, x_bar.shape[1]))),
        )

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """The transposed derivative of a step applied to x_bar."""
        return self.linearize(step).vjp(x_bar)


def _solved(slope: Array, right: Array) -> Array:
    """slope^-1 right, or a sentence: two controls that do the same, or one that does nothing, name
    no shapes."""
    size = np.sqrt(np.abs(np.diag(slope)))  # of each control, whatever its unit
    if np.all(np.isfinite(slope)) and (
        not np.all(size > 0.0) or np.linalg.cond(slope / np.outer(size, size)) > SINGULAR
    ):
        raise SampleError(
            "The controls do not name one shape each: one of them does nothing here, or two do "
            "the same; take one away."
        )
    return np.linalg.solve(slope, right)


def _added(c: float, row: Array, other: Array) -> Array:
    """c row + other, where one of them may lack the directions that came later."""
    if len(row) == len(other):
        return c * row + other
    out = np.zeros(max(len(row), len(other)))
    out[: len(row)] = c * row
    out[: len(other)] += other
    return out


def _steady(slope: Array) -> bool:
    """Is the symmetric part positive? Else Newton's step may lead uphill."""
    try:
        np.linalg.cholesky(0.5 * (slope + slope.T))
    except np.linalg.LinAlgError:
        return False
    return True


def Latent(
    robot: Robot,
    *,
    dt: float,
    cell: ArrayLike | None = None,
    start: ArrayLike | None = None,
    domain: Any = None,
    store: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    compress: float = COMPRESS,
    budget: int | None = None,
    surrogate: Callable[[Corners], Surrogate] | None = None,
    progress: Progress | bool | None = None,
) -> Embedded:
    """A robot's dynamics among the shapes that its controls hold, on a grid of these shapes that
    builds itself (paper 000).

    `cell` is the size of the grid's cells in units of the controls, one number or one each (None: a
    quarter of what the motors can do); `start` (d,) are the controls of the first shape (None: the
    neutral ones); `domain` (lower, upper) is where shapes may be asked for (None: what the motors
    can do, and half as much beyond). Exact shapes are kept in the file `store`, found by `workers`
    processes or by the dask cluster at an address, and `budget` is the most of them. `surrogate`
    makes another stand-in of the corners, such as lambda corners: Tree(corners, cell=2.0,
    tolerance=1e-5).
    """
    shapes = Shapes(robot=robot)
    d = shapes.dim
    lower, upper = robot.control_limits()
    first = (
        robot.neutral_controls()
        if start is None
        else finite_array("The array of first controls", start, (d,))
    )
    if cell is None and not np.all(np.isfinite(upper - lower)):
        raise InputError(
            f"The controls of {robot.name} have no limits, so that the cell has no default; give "
            "one in units of the controls."
        )
    size = check_lengths(
        "The cell of a latent model", (upper - lower) / 4.0 if cell is None else cell, d
    )
    inside = (
        domain
        if domain is not None
        else (lower - 0.5 * (upper - lower), upper + 0.5 * (upper - lower))
    )
    corners = Corners(
        shapes,
        dim=d,
        store=CornerStore(store, key=shapes.key),
        crew=crew(job(shapes), workers=workers, cluster=cluster),
        compress=compress,
        lift=shapes.lift,
        unit=size,
        budget=budget,
        progress=progress,
    )
    made = (
        Grid(corners, cell=size, origin=first - size / 3.0, domain=inside)
        if surrogate is None
        else surrogate(corners)
    )
    require_kind(
        "The surrogate",
        made,
        Surrogate,
        "give a function of the corners that makes a Grid, a Tree or a Chebyshev",
    )
    return Embedded(family=Interpolated(shapes, made), dt=check_dt(dt), start=first)
