"""Latent dynamics [Jia2019, eq. 8]: a robot moves on the manifold of its equilibria.

A shape f(a) is the equilibrium under the controls a, the latent coordinates. The implicit Euler
step, projected on the tangent of the manifold (Galerkin), is an equation for the new a':
    J'^T [M (f' - 2 f + f_before) / h^2 + damping] + (dl/da')^T (u - a') = 0.
The elastic forces at f(a') balance the controls a'. So only the work of u - a' on the actuator
lengths l remains.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.argument_checks import check_dt, check_index, check_state, check_step
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Linearization,
    NoSurrogateError,
    Params,
    Space,
    Status,
    Step,
    StepError,
    check_controls,
    effector_jacobian,
    effector_position,
    finite_array,
    require_kind,
)
from pliant.dynamics.corrected_equilibria import corrected_manifold
from pliant.dynamics.equilibrium_manifold import (
    EquilibriumManifold,
    ExactManifold,
    InterpolatedManifold,
)
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.dynamics.implicit import ImplicitEuler
from pliant.dynamics.robot_model import describe_model
from pliant.kernels.deterministic_sums import matvec
from pliant.parallel import make_workers
from pliant.progress import Progress
from pliant.robot import Robot
from pliant.store.digest import digest
from pliant.surrogate import Corners, CornerStore, Grid, SampleError, Surrogate, evaluation_job
from pliant.surrogate.domain import check_lengths

COMPRESSION_TOLERANCE = 1e-6  # of the basis of shapes, relative to the change over one cell
MAX_ITERATIONS = 60  # of Newton's method in a step
STEP_TOLERANCE = 1e-12  # [cell units] Newton's method stops at this change of a latent coordinate
ACCEPTED_CHANGE = 1e-9  # [cell units] accepted if round-off prevents a smaller change
MAX_CONDITION = 1e12  # condition number above which controls count as dependent
MIN_STEP_FRACTION = 1e-4  # of a Newton step; the line search ends there
# residual (d,), its Jacobian (d, d), and the Jacobian without the curvature of the shapes (d, d)
ResidualAndJacobians = tuple[Array, Array, Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentTape:
    """The data of a step that its derivatives need."""

    owner: "Latent"
    latent: Array  # (3, d) the new, the current and the previous latent coordinates
    jacobian: Array  # (d, d) dg/da'
    controls: Array  # (d,)


@final
class Latent:
    """Dynamics of a robot on the manifold of its equilibria [Jia2019, eq. 8]. The state is
    (position, previous, latent, before): effector positions and latent coordinates, each of this
    step and the one before.

    The manifold is interpolated on a grid that evaluates equilibria on demand. `dt` [s] is the time
    step. `cell` is the size of the grid's cells in units of the controls, one number or one per
    control (default: a quarter of the control limits). `start` (d,) are the controls of the first
    shape (default: neutral). `domain` (lower, upper) bounds the latent coordinates (default: the
    control limits, and half their range beyond). `store` is a file that keeps the equilibria. They
    are computed by `workers` processes or by the dask cluster at the address `cluster`. `budget`
    limits their number. `compress` is the tolerance of the basis that represents them. `surrogate`
    makes another interpolant, such as
    lambda corners: Tree(corners, cell=2.0, tolerance=1e-5). `namespace` separates the equilibria of
    this run from those of other runs in the same store: basis and starts of the solver depend on
    their order, so only then is the result bitwise that of a run alone.

    Raises InputError if the robot has no actuators, moving supports, time-dependent loads or
    friction, or if an argument is invalid.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     actuators={
    ...         "cable": pl.Cable(points=[(0, 0.01, 0.02), (0.1, 0.01, 0.02)], limits=(0.0, 1.0))
    ...     },
    ... )
    >>> model = pl.Latent(beam, dt=0.05, cell=0.5)
    >>> model.positions(model.initial_state()).shape  # 16 nodes
    (48,)
    """

    manifold: EquilibriumManifold
    dt: float  # [s]
    start: Array  # (d,) the controls of the first shape

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        cell: ArrayLike | None = None,
        start: ArrayLike | None = None,
        domain: Any = None,
        store: str | Path | None = None,
        workers: int | None = None,
        cluster: str | None = None,
        compress: float = COMPRESSION_TOLERANCE,
        budget: int | None = None,
        surrogate: Callable[[Corners], Surrogate] | None = None,
        progress: Progress | bool | None = None,
        namespace: str = "",
    ) -> None:
        require_kind(
            "The namespace of a latent model", namespace, str, "give a name such as 'seed-1'"
        )
        equilibria = EquilibriumMap(robot=robot)
        d = equilibria.dim
        lower, upper = robot.control_limits()
        first = (
            robot.neutral_controls()
            if start is None
            else finite_array("The array of first controls", start, (d,))
        )
        if cell is None and not np.all(np.isfinite(upper - lower)):
            raise InputError(
                f"The controls of {robot.name} have no limits, so the cell has no default. Give "
                "the cell in units of the controls."
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
            equilibria,
            dim=d,
            store=CornerStore(
                store, key=digest(equilibria.key, namespace) if namespace else equilibria.key
            ),
            workers=make_workers(evaluation_job(equilibria), workers=workers, cluster=cluster),
            compress=compress,
            lift=equilibria.lift,
            unit=size,
            budget=budget,
            progress=progress,
        )
        interpolant = (
            Grid(corners, cell=size, origin=first - size / 3.0, domain=inside)
            if surrogate is None
            else surrogate(corners)
        )
        require_kind(
            "The surrogate",
            interpolant,
            Surrogate,
            "give a function of the corners that makes a Grid, a Tree or a Chebyshev",
        )
        self._set(InterpolatedManifold(equilibria, interpolant), check_dt(dt), first)

    def _set(self, manifold: EquilibriumManifold, dt: float, start: Array) -> None:
        self.manifold, self.dt, self.start = manifold, dt, start

    @classmethod
    def on_manifold(cls, manifold: EquilibriumManifold, *, dt: float, start: Array) -> "Latent":
        """Return the model on a given manifold with the time step dt [s] and first controls
        (d,)."""
        model = object.__new__(cls)
        model._set(manifold, dt, start)
        return model

    def with_manifold(self, manifold: EquilibriumManifold) -> "Latent":
        """Return the same model on another manifold."""
        return Latent.on_manifold(manifold, dt=self.dt, start=self.start)

    def __repr__(self) -> str:
        return describe_model(self)

    @property
    def robot(self) -> Robot:
        return self.manifold.equilibrium_map.robot

    @property
    def n_controls(self) -> int:
        return self.robot.n_controls

    @property
    def params(self) -> Params:
        return Params()

    @property
    def space(self) -> Space:
        k, d = self.manifold.equilibrium_map.effectors.shape[0], self.n_controls
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
        """Return the matrix (dim, n_dofs) that selects an effector's position from the state's
        position part."""
        if name not in self.robot.effectors:
            self.robot.effector_weights(name)  # raises InputError with the known names
        k = list(self.robot.effectors).index(name)
        dim = self.manifold.equilibrium_map.model.equations.dim
        return sp.identity(self.space.n_dofs, format="csr")[k * dim : (k + 1) * dim]

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return effector_position(self, name, x, self.manifold.equilibrium_map.model.equations.dim)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def initial_state(self) -> Array:
        """Return the state at rest in the first shape."""
        return self.state(self.start)

    def state(self, latent: Array) -> Array:
        """Return the state at rest in the equilibrium under the controls `latent` (d,)."""
        a = finite_array("The array of latent coordinates", latent, (self.n_controls,))
        position = self.manifold.effector_positions(self.manifold.rows(a)[0])
        return np.concatenate([position, position, a, a])

    def positions(self, x: Array) -> Array:
        """Return the positions (n_dofs,) [m] of the whole robot in a state."""
        return self.manifold.positions(self.query_point(x))

    def velocities(self, x: Array) -> Array:
        """Return the velocities (n_dofs,) [m/s] of the whole robot in a state."""
        before = self.manifold.positions(self.space.split(x).before)
        return (self.positions(x) - before) / self.dt

    def query_point(self, x: Array) -> Array:
        """Return the latent coordinates (d,) of a state."""
        return self.space.split(x).latent.copy()

    @property
    def queries(self) -> int:
        """The number of shapes that the steps used."""
        return self.manifold.queries

    @property
    def effector_names(self) -> tuple[str, ...]:
        return tuple(self.robot.effectors)

    def replay_model(self, x: Array) -> tuple[Dynamics, Array]:
        """Return the implicit Euler model of all nodes, and its state for x."""
        full = ImplicitEuler(self.robot, dt=self.dt)
        return full, full.state(self.positions(x), self.velocities(x))

    def refined(self) -> "Latent":
        """Return the same model on the next finer surrogate, which keeps all exact evaluations."""
        return self.with_manifold(
            InterpolatedManifold(self.manifold.equilibrium_map, self.surrogate.refined())
        )

    def exact(self) -> "Latent":
        """Return the same model without interpolation: it solves every equilibrium, from the
        nearest known one."""
        known = (
            list(self.manifold.surrogate.corners.samples.values())
            if isinstance(self.manifold, InterpolatedManifold)
            else ()
        )
        return self.with_manifold(
            ExactManifold(self.manifold.equilibrium_map, unit=self.manifold.unit, known=known)
        )

    @property
    def surrogate(self) -> Surrogate:
        """The interpolant of the equilibria. Raises InputError for a model without one."""
        if not isinstance(self.manifold, InterpolatedManifold):
            raise NoSurrogateError(
                "This latent model solves every shape exactly and has no surrogate to refine. Use "
                "the model that Latent(robot, dt=...) returns."
            )
        return self.manifold.surrogate

    def close(self) -> None:
        """Close the store and the workers that compute equilibria."""
        self.surrogate.corners.close()

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step. The step fails where the surrogate has no value; the
        status says where."""
        u = check_controls(u, self.n_controls).copy()
        x = check_state(x, self.space.size)
        check_index(k)
        now = self.space.split(x)
        try:
            a, jacobian, status = self._solve(now.latent.copy(), now.before.copy(), u)
            position = self.manifold.effector_positions(self.manifold.rows(a)[0])
        except (SampleError, StepError) as error:  # the latter if an equilibrium was not found
            return Step(x, Status(ok=False, text=str(error)), None)
        tape = LatentTape(
            owner=self, latent=np.stack([a, now.latent, now.before]), jacobian=jacobian, controls=u
        )
        return Step(np.concatenate([position, now.position, a, now.latent]), status, tape)

    @property
    def _rates(self) -> tuple[float, float, float, float]:
        """The coefficients of the mass over the new, current and previous shape, and of the
        viscosity over new minus current."""
        h, c = self.dt, self.robot.damping.mass
        return 1.0 / h**2 + c / h, -2.0 / h**2 - c / h, 1.0 / h**2, 1.0 / h

    def _residual(
        self, a: Array, u: Array, past: Array, last: Array, curved: bool = True
    ) -> ResidualAndJacobians:
        """Return g (d,), dg/da' (d, d) and its part without the curvature of the shapes.

        `past` is the inertial contribution of the old rows, `last` the current row. Unless
        `curved`, both Jacobians omit the curvature."""
        d, manifold = len(a), self.manifold
        rows = manifold.rows(a, curved)
        c0, _, _, rate = self._rates
        force = manifold.reduced_force(
            _padded_sum(c0, rows[0], past), rate * _padded_sum(1.0, rows[0], -last)
        )
        columns = [manifold.reduced_force(c0 * row, rate * row) for row in rows[1 : 1 + d]]
        lengths = manifold.actuator_lengths(rows[1:])
        g = matvec(rows[1 : 1 + d], force) + matvec(lengths[:d], u - a)
        flat = np.array([matvec(rows[1 : 1 + d], column) for column in columns]) - lengths[:d]
        if not curved:
            return g, flat, flat
        curvature = matvec(rows[1 + d :], force) + matvec(lengths[d:], u - a)
        full = flat.copy()
        for value, (i, j) in zip(
            curvature, combinations_with_replacement(range(d), 2), strict=True
        ):
            full[i, j] += value
            if i != j:
                full[j, i] += value
        return g, full, flat

    def _past(self, a: Array, before: Array) -> tuple[Array, Array]:
        _, c1, c2, _ = self._rates
        last, older = self.manifold.rows(a)[0], self.manifold.rows(before)[0]
        return _padded_sum(c1, last, c2 * older), last

    def _solve(self, a: Array, before: Array, u: Array) -> tuple[Array, Array, Status]:
        """Solve for a' by Newton's method with the natural monotonicity test.

        The interpolant is only C1, so a step across a cell face may have to be shortened."""
        past, last = self._past(a, before)
        unit, curved = self.manifold.unit, self.manifold.cheap_curvature
        residual = lambda at: self._residual(at, u, past, last, curved)
        now, (g, full, flat) = self._initial_guess(residual, 2.0 * a - before, a)
        change, k = np.inf, 0
        for k in range(MAX_ITERATIONS):  # noqa: B007
            jacobian = full if _is_positive_definite(full) else flat
            newton_step = _solve_linear(jacobian, -g)
            change = float(np.abs(newton_step / unit).max())
            if change <= STEP_TOLERANCE:
                break
            trial, found, remaining = self._line_search(
                residual, now, newton_step, jacobian, change
            )
            if remaining >= change and change <= ACCEPTED_CHANGE:
                break
            now, (g, full, flat) = trial, found
        full = full if curved else self._residual(now, u, past, last)[1]
        ok = change <= ACCEPTED_CHANGE
        text = (
            "converged"
            if ok
            else (
                f"the latent step did not converge in {MAX_ITERATIONS} iterations (last change "
                f"{change:.1e} of a unit); take a smaller time step"
            )
        )
        return now, full, Status(ok=ok, text=text, iterations=k, residual=float(np.abs(g).max()))

    def _initial_guess(
        self, residual: Callable[[Array], ResidualAndJacobians], guess: Array, old: Array
    ) -> tuple[Array, ResidualAndJacobians]:
        """Return the guess and its residual, or those of the old coordinates if the surrogate does
        not cover the guess."""
        try:
            return guess, residual(guess)
        except SampleError:
            return old, residual(old)

    def _line_search(
        self,
        residual: Callable[[Array], ResidualAndJacobians],
        now: Array,
        newton_step: Array,
        jacobian: Array,
        change: float,
    ) -> tuple[Array, ResidualAndJacobians, float]:
        """Halve a Newton step until it reduces the change enough. Return the trial point, its
        residual and the remaining change."""
        # a step of more than two cells would only build corners that no solution needs
        fraction = min(1.0, 2.0 / change)
        while True:
            trial = now + fraction * newton_step
            try:
                found = residual(trial)
                remaining = float(
                    np.abs(_solve_linear(jacobian, found[0]) / self.manifold.unit).max()
                )
                if remaining < (1.0 - 0.5 * fraction) * change or fraction < MIN_STEP_FRACTION:
                    return trial, found, remaining
            except SampleError:
                if fraction < MIN_STEP_FRACTION:
                    raise
            fraction *= 0.5

    # Derivatives

    def _jacobians(self, step: Step) -> tuple[Array, Array]:
        """Return da'/d(a, before, u) (d, 3 d) and d(effector positions)/da' (k, d)."""
        t: LatentTape = step.tape
        manifold, d = self.manifold, self.n_controls
        new, last, older = (manifold.rows(a)[1:] for a in t.latent)
        _, c1, c2, rate = self._rates
        new = new[:d]
        by_last = np.stack(
            [matvec(new, manifold.reduced_force(c1 * row, -rate * row)) for row in last[:d]],
            axis=1,
        )
        by_older = np.stack(
            [matvec(new, manifold.reduced_force(c2 * row, 0.0 * row)) for row in older[:d]],
            axis=1,
        )
        by_u = manifold.actuator_lengths(new)
        by_inputs = -_solve_linear(t.jacobian, np.hstack([by_last, by_older, by_u]))
        return by_inputs, manifold.effector_displacements(new).T

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        by_inputs, effector_jacobian = self._jacobians(step)
        d, k = self.n_controls, self.space.n_dofs
        A = np.zeros((self.space.size, self.space.size))
        latent, before = slice(2 * k, 2 * k + d), slice(2 * k + d, 2 * k + 2 * d)
        A[latent, latent], A[latent, before] = by_inputs[:, :d], by_inputs[:, d : 2 * d]
        A[:k] = effector_jacobian @ A[latent]
        A[k : 2 * k, :k] = np.eye(k)
        A[before, latent] = np.eye(d)
        B = np.zeros((self.space.size, d))
        B[latent], B[:k] = by_inputs[:, 2 * d :], effector_jacobian @ by_inputs[:, 2 * d :]
        return Linearization(
            n_state=len(A),
            n_controls=d,
            n_params=0,
            jvp_columns=lambda dx, du, dp: A @ dx + B @ du,
            vjp_columns=lambda x_bar: (A.T @ x_bar, B.T @ x_bar, np.zeros((0, x_bar.shape[1]))),
        )

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        return self.linearize(step).vjp(x_bar)

    # Errors

    def step_error_estimator(self) -> Callable[[Step], tuple[Array, Array]]:
        """Return a function that estimates the errors of positions (n_dofs,) [m] and velocities
        (n_dofs,) [m/s] after a successful step.

        It costs two factorisations per shape: Newton steps correct each interpolated shape to an
        equilibrium, and the residual of the step on the corrected shapes gives the change of the
        latent coordinates. What is omitted is of second order in the errors. Raises StepError if a
        correction does not converge."""
        corrected = self.with_manifold(corrected_manifold(self.manifold))
        return lambda step: self._estimate_errors(step, corrected)

    def _estimate_errors(self, step: Step, corrected: "Latent") -> tuple[Array, Array]:
        check_step(step, self)
        t: LatentTape = step.tape
        new, now, before = t.latent
        past, last = corrected._past(now, before)
        g = corrected._residual(new, t.controls, past, last, curved=False)[0]
        change = -_solve_linear(t.jacobian, g)
        slopes = corrected.manifold.rows(new)[1:, self.manifold.equilibrium_map.parts[0]]
        start, end = (
            self.manifold.positions(a) - corrected.manifold.positions(a) for a in (now, new)
        )
        end -= change @ slopes
        return end, (end - start) / self.dt


def _solve_linear(matrix: Array, right: Array) -> Array:
    """Return matrix^-1 right.

    Raises SampleError if a control has no effect or two have the same: the matrix is singular."""
    size = np.sqrt(np.abs(np.diag(matrix)))  # scales out the units of the controls
    if np.all(np.isfinite(matrix)) and (
        not np.all(size > 0.0) or np.linalg.cond(matrix / np.outer(size, size)) > MAX_CONDITION
    ):
        raise SampleError(
            "The controls do not define one shape each: one of them has no effect here, or two "
            "have the same effect. Remove one."
        )
    return np.linalg.solve(matrix, right)


def _padded_sum(c: float, row: Array, other: Array) -> Array:
    """Return c row + other; the shorter one is padded with zeros for later basis vectors."""
    if len(row) == len(other):
        return c * row + other
    out = np.zeros(max(len(row), len(other)))
    out[: len(row)] = c * row
    out[: len(other)] += other
    return out


def _is_positive_definite(jacobian: Array) -> bool:
    """Return whether the symmetric part is positive definite; otherwise Newton's step may
    ascend."""
    try:
        np.linalg.cholesky(0.5 * (jacobian + jacobian.T))
    except np.linalg.LinAlgError:
        return False
    return True
