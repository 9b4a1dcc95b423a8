"""The equilibria of a robot, named by the controls that hold them: f(a) with 0 = p(f(a)) + c(f(a), a) (paper 000 eq. 7).

A family of shapes gives Latent what its equation needs as rows of coefficients: value, slopes and second derivatives of the positions, of
what viscosity acts on, and of what the controls do their work on. `Exact` solves the equilibrium at every query; `Interpolated` asks a
surrogate that stands on such equilibria.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numba import njit

from pliant.actuators import Continued
from pliant.bodies import Solid
from pliant.core import Array, InputError, StepError, require_kind
from pliant.dynamics.implicit import Implicit, Quasistatic
from pliant.dynamics.newton import Newton
from pliant.robot import Robot
from pliant.surrogate import Sample

CLOSE = 0.5  # an equilibrium lies this near its prediction, beside the way predicted, or it is approached in smaller stages
ROWS = 50  # that an exact family keeps: each is as long as all positions and strains
SMALLEST = 1.0 / 64.0  # stage on the way from a known equilibrium; below it the branch is lost


@dataclass(frozen=True, kw_only=True, eq=False)
class Shapes:
    """f of a robot, and what is interpolated of it: (positions, damped strains, lengths) =: (q, s, l), all in metres."""

    robot: Robot
    tolerance: float = 1e-12  # of the equilibria, relative to the largest force at work

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        if not self.robot.n_controls:
            raise InputError(f"{self.robot.name} has no actuators, so that no shapes can be named by controls; add some.")
        if any(support.motion is not None for support in self.robot.supports):
            raise InputError(f"A support of {self.robot.name} moves, but the shapes of a latent model hold for one place; hold it still.")
        if any(contact.friction > 0.0 for contact in self.robot.contacts):
            raise InputError(f"A contact of {self.robot.name} has friction, which has no say in an equilibrium; set it to 0, or take "
                             "ImplicitEuler.")  # fmt: skip
        _ = self.model

    def __reduce__(self) -> tuple[Any, ...]:
        """For workers: the description alone, without what was computed from it."""
        return _shapes, (self.robot, self.tolerance)

    @cached_property
    def model(self) -> Implicit:
        actuators = {name: Continued(actuator=actuator) for name, actuator in self.robot.actuators.items()}
        return Quasistatic(replace(self.robot, actuators=actuators), newton=Newton(tolerance=self.tolerance))

    @property
    def dim(self) -> int:
        return self.robot.n_controls

    @cached_property
    def key(self) -> str:
        """A digest of the robot's behaviour: its forces at two fixed bent places, so that any other mechanics has another key."""
        eq, digest = self.model.equations, sha256(repr((self.tolerance, self.dim)).encode())
        numbers, rng = eq.numbers(None), np.random.default_rng(0)
        for u in (np.zeros(self.dim), 1.0 + np.arange(self.dim)):
            q = eq.body.rest + 0.01 * eq.body.cell_size() * rng.standard_normal(eq.n_dofs)
            for part in (q, eq.body.gradient(q, numbers.fields), eq.given(numbers, q, u)[1], numbers.pair_mass):
                digest.update(np.round(part, 12).tobytes())
        digest.update(eq.held.tobytes())
        return digest.hexdigest()

    # The exact map

    @cached_property
    def home(self) -> Sample:
        """The equilibrium under the neutral controls."""
        a = self.robot.neutral_controls()
        step = self.model.step(self.model.initial_state(), a)
        if not step.status:
            raise StepError(f"{self.robot.name} finds no equilibrium under its neutral controls: {step.status.text}")
        return Sample(point=a, value=step.x, slope=self._slope(step))

    def __call__(self, a: Array, near: Sample | None) -> tuple[Array, Array, str]:
        """(q (n_dofs,) [m], dq/da (n_dofs, d), a note): along the straight way from a known equilibrium, in stages that end near their
        predictions; where no stage is small enough, the branch ended or turned, and the note says so."""
        start = self.home if near is None else near
        q, J, at, done, stage, note = start.value, start.slope, start.point, 0.0, 1.0, ""
        if np.array_equal(at, a):
            return q, J, start.note
        while done < 1.0:
            goal = start.point + min(done + stage, 1.0) * (a - start.point) if done + stage < 1.0 else a
            guess = q + J @ (goal - at)
            step = self.model.step(guess, goal)
            strayed = not step.status or np.linalg.norm(step.x - guess) > CLOSE * np.linalg.norm(guess - q)
            if strayed and stage > SMALLEST:
                stage /= 2.0
                continue
            if not step.status:
                raise StepError(f"no equilibrium was found: {step.status.text}")
            if strayed:
                note = (f"the equilibrium jumped to another branch on the way from {np.array2string(start.point, precision=4)}, at "
                        f"{np.array2string(goal, precision=4)}; the shapes are not one function of the controls there")  # fmt: skip
            q, J, at, done = step.x, self._slope(step), goal, done + stage
        return q, J, note

    def _slope(self, step: Any) -> Array:
        return self.model.linearize(step).dense_controls()

    def curvatures(self, a: Array, q: Array, J: Array) -> Array:
        """(d (d + 1) / 2, n_dofs) the second derivatives of f at an equilibrium, (0, 0), (0, 1), ..., (1, 1), ..."""
        eq, model = self.model.equations, self.model
        step = model.step(q, a)
        solve, numbers, out = model.tangent(step), eq.numbers(None), []
        slopes = [eq.control_slopes(q, a, J[:, i]) for i in range(self.dim)]
        for i, j in combinations_with_replacement(range(self.dim), 2):
            g = (
                eq.body.third(q, numbers.fields, J[:, i], J[:, j])
                + eq.terms_third(q, a, J[:, i], J[:, j])
                + slopes[i][:, j]
                + slopes[j][:, i]
            )
            bent = np.zeros(eq.n_dofs)
            bent[eq.free] = -solve(g[eq.free])
            out.append(bent)
        return np.array(out)

    # What is interpolated

    @cached_property
    def damped(self) -> bool:
        return self.robot.damping.stiffness > 0.0 and isinstance(self.model.equations.body, Solid)

    @cached_property
    def _strain_unit(self) -> float:
        """[sqrt(J)/m] brings the damped strains to metres, so that one tolerance serves all that is interpolated."""
        eq = self.model.equations
        fields = eq.numbers(None).fields
        return float(np.sqrt(fields.moduli[:, 0].max() * eq.body.volumes().max()) / eq.body.cell_size())

    def lift(self, q: Array, J: Array) -> tuple[Array, Array]:
        """((N,), (N, d)) what is interpolated and its slope from f and its slope."""
        rows = np.stack([self._lifted_slope(q, change) for change in J.T], axis=1)
        return self.lifted(q), rows

    def lifted(self, q: Array) -> Array:
        """(N,) q, s and l, one after the other."""
        eq = self.model.equations
        strain = eq.body.damped_strain(q, eq.numbers(None).fields) / self._strain_unit if self.damped else np.zeros(0)  # type: ignore[attr-defined]
        lengths = [term.lengths(eq.points(term, q)) for term, part in eq.terms if part.stop > part.start]  # type: ignore[attr-defined]
        return np.concatenate([q, strain, *lengths])

    def _strains(self, q: Array, change: Array) -> Array:
        eq = self.model.equations
        return eq.body.damped_strain_push(q, change, eq.numbers(None).fields) / self._strain_unit if self.damped else np.zeros(0)  # type: ignore[attr-defined]

    def _lifted_slope(self, q: Array, change: Array) -> Array:
        columns = self.model.equations.control_columns(q, np.zeros(self.dim))
        return np.concatenate([change, self._strains(q, change), columns.T @ change])

    def lifted_curvature(self, q: Array, dq: Array, other: Array, bent: Array) -> Array:
        """(N,) the second derivative along two changes dq and other of q, which itself bends by `bent`."""
        eq, none = self.model.equations, np.zeros(self.dim)
        lengths = eq.control_columns(q, none).T @ bent + eq.control_slopes(q, none, dq).T @ other
        return np.concatenate([bent, self._strains(q, bent) + self._strains(dq, other), lengths])

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """Where q, s and l stand."""
        n, N = self.model.equations.n_dofs, self.lifted(self.home.value).size
        return slice(0, n), slice(n, N - self.dim), slice(N - self.dim, N)

    def inertia(self, q: Array) -> Array:
        """(n_dofs,) [kg m] M q."""
        return self.model.equations.mass_times(self.model.equations.numbers(None), q)

    @property
    def viscosity(self) -> float:
        """[kg/s] of the strains in metres."""
        return self.robot.damping.stiffness * self._strain_unit**2

    @cached_property
    def effectors(self) -> Any:
        """(n_effectors dim, n_dofs) sparse, the places of all effectors in turn."""
        import scipy.sparse as sp

        rows = [self.model.effector_rows(name) for name in self.robot.effectors]
        return sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, self.model.equations.n_dofs))


def _shapes(robot: Robot, tolerance: float) -> Shapes:
    return Shapes(robot=robot, tolerance=tolerance)


class Family(Protocol):
    """Shapes as rows of r coefficients, (1 + d, r) or with second derivatives (1 + d + d (d + 1) / 2, r)."""

    @property
    def shapes(self) -> Shapes: ...
    @property
    def unit(self) -> Array: ...  # (d,) a typical change of each latent number
    @property
    def cheap_curvature(self) -> bool: ...  # do second derivatives cost no more than slopes?
    def rows(self, a: Array, second: bool = False) -> Array: ...
    def weigh(self, moved: Array, strained: Array) -> Array:
        """(r,) the force on the coefficients from the mass at `moved` (r,) and from the viscosity at `strained` (r,)."""
        ...

    def lengths(self, rows: Array) -> Array: ...  # (n, r) -> (n, d)
    def places(self, rows: Array) -> Array: ...  # (n, r) -> (n, n_effectors dim), changes
    def place(self, row: Array) -> Array: ...  # (r,) -> (n_effectors dim,) [m]
    def positions(self, a: Array) -> Array: ...  # (n_dofs,) [m]


class ExactFamily:
    """Solves the equilibrium at every query, from the nearest of those that it remembers."""

    cheap_curvature = False

    def __init__(self, shapes: Shapes, *, unit: Array | float = 1.0, memory: int = 1000) -> None:
        self.shapes, self.memory = shapes, memory
        self.unit = np.broadcast_to(np.asarray(unit, float), (shapes.dim,)).copy()
        self._known: dict[bytes, Sample] = {}
        self._rows: dict[bytes, Array] = {}
        self.evaluations = 0

    def _sample(self, a: Array) -> Sample:
        key = a.tobytes()
        if key not in self._known:
            known = list(self._known.values())
            near = known[int(np.argmin([np.linalg.norm((s.point - a) / self.unit) for s in known]))] if known else None
            q, J, note = self.shapes(a, near)
            self.evaluations += 1
            while len(self._known) >= self.memory:
                del self._known[next(iter(self._known))]
            self._known[key] = Sample(point=a.copy(), value=q, slope=J, note=note)
        return self._known[key]

    def rows(self, a: Array, second: bool = False) -> Array:
        key, shapes, wanted = a.tobytes(), self.shapes, 1 + len(a)
        found = self._rows.get(key)
        if found is None or (second and len(found) == wanted):
            s = self._sample(a)
            value, slope = shapes.lift(s.value, s.slope)
            rows = [value, *slope.T]
            if second:
                pairs = combinations_with_replacement(range(shapes.dim), 2)
                rows += [shapes.lifted_curvature(s.value, s.slope[:, i], s.slope[:, j], bent)
                         for (i, j), bent in zip(pairs, shapes.curvatures(a, s.value, s.slope), strict=True)]  # fmt: skip
            while len(self._rows) >= ROWS:
                del self._rows[next(iter(self._rows))]
            found = self._rows[key] = np.array(rows)
        return found if second else found[:wanted]

    def weigh(self, moved: Array, strained: Array) -> Array:
        q, s, length = self.shapes.parts
        return np.concatenate([self.shapes.inertia(moved[q]), self.shapes.viscosity * strained[s], np.zeros(length.stop - length.start)])

    def lengths(self, rows: Array) -> Array:
        return rows[:, self.shapes.parts[2]]

    def places(self, rows: Array) -> Array:
        return np.array([self.shapes.effectors @ row[self.shapes.parts[0]] for row in rows])

    def place(self, row: Array) -> Array:
        return self.shapes.effectors @ row[self.shapes.parts[0]]

    def positions(self, a: Array) -> Array:
        return self._sample(a).value


class Interpolated:
    """Asks a surrogate of the lifted map whose corners are compressed; all products are of a few coefficients. Sums run in one order, so
    that a basis that has grown meanwhile changes no bit of what was known before."""

    cheap_curvature = True

    def __init__(self, shapes: Shapes, surrogate: Any) -> None:
        self.shapes, self.surrogate = shapes, surrogate
        self._mass = self._viscous = np.zeros((0, 0))
        self._length, self._place = np.zeros((shapes.dim, 0)), np.zeros((shapes.effectors.shape[0], 0))
        self._recent: dict[bytes, Array] = {}
        self.queries = 0  # shapes that were asked for, each of which the exact family would solve

    @property
    def unit(self) -> Array:
        return self.surrogate.corners.unit

    def rows(self, a: Array, second: bool = False) -> Array:
        key, wanted = a.tobytes(), 1 + len(a)
        found = self._recent.get(key)
        if found is None:
            self.queries += 1
        if found is None or (second and len(found) == wanted):
            if len(self._recent) > 2000:
                self._recent.clear()
            found = self._recent[key] = self.surrogate.rows(a, second)
        if self.surrogate.corners.size > self._mass.shape[0]:
            self._grow()
        return found if second else found[:wanted]

    def forget(self) -> None:
        """Answer the next query anew, for timing."""
        self._recent.clear()

    def _grow(self) -> None:
        """Products with the basis vectors that are new."""
        basis, old = self.surrogate.corners.compression.basis, self._mass.shape[0]
        q, s, length = self.shapes.parts
        n = basis.shape[1]
        mass, viscous = np.zeros((n, n)), np.zeros((n, n))
        mass[:old, :old], viscous[:old, :old] = self._mass, self._viscous
        columns = [np.ascontiguousarray(basis[:, j]) for j in range(n)]
        for j in range(old, n):
            moved = self.shapes.inertia(columns[j][q])
            for i in range(j + 1):
                mass[i, j] = mass[j, i] = float(columns[i][q] @ moved)
                viscous[i, j] = viscous[j, i] = self.shapes.viscosity * float(columns[i][s] @ columns[j][s])
        self._length = np.column_stack([self._length, *(column[length] for column in columns[old:])])
        self._place = np.column_stack([self._place, *(self.shapes.effectors @ column[q] for column in columns[old:])])
        self._mass, self._viscous = mass, viscous

    def weigh(self, moved: Array, strained: Array) -> Array:
        return symmetric_dots(self._mass, moved) + symmetric_dots(self._viscous, strained)

    def lengths(self, rows: Array) -> Array:
        return products(rows, self._length)

    def places(self, rows: Array) -> Array:
        return products(rows, self._place)

    def place(self, row: Array) -> Array:
        return self._centre + dots(self._place, row)

    @cached_property
    def _centre(self) -> Array:
        return self.shapes.effectors @ self.surrogate.corners.compression.centre[self.shapes.parts[0]]

    def positions(self, a: Array) -> Array:
        value, _ = self.surrogate(a)
        return value[self.shapes.parts[0]]


@njit(error_model="numpy", cache=True)
def dots(A, b):
    """(n,) A (n, k) times b (m,), over the first min(k, m) in one order."""
    out = np.zeros(A.shape[0])
    for i in range(A.shape[0]):
        total = 0.0
        for k in range(min(A.shape[1], len(b))):
            total += A[i, k] * b[k]
        out[i] = total
    return out


@njit(error_model="numpy", cache=True)
def symmetric_dots(A, b):
    """(n,) a symmetric A (n, n) times b (m,), m <= n; every sum runs in one order, and many of them at once."""
    out = np.zeros(A.shape[0])
    for k in range(len(b)):
        for i in range(A.shape[0]):
            out[i] += A[k, i] * b[k]
    return out


@njit(error_model="numpy", cache=True)
def products(A, B):
    """(n, m) A (n, k) times B (m, l) transposed, likewise."""
    out = np.zeros((A.shape[0], B.shape[0]))
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(min(A.shape[1], B.shape[1])):
                total += A[i, k] * B[j, k]
            out[i, j] = total
    return out
