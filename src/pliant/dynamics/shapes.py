"""The equilibria of a robot, named by the controls that hold them: f(a) with 0 = p(f(a)) + c(f(a),
a) (paper 000 eq. 7).

Beside the positions, what is interpolated of them is what viscosity acts on and what the controls
do their work on.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from pliant.actuators import Continued
from pliant.bodies import Beams, Solid
from pliant.core import Array, InputError, StepError, require_kind
from pliant.dynamics.implicit import Implicit, Quasistatic
from pliant.dynamics.newton import Newton
from pliant.robot import Robot
from pliant.robot.digest import robot_digests
from pliant.store.digest import digest
from pliant.surrogate import Sample

FOUND = 1  # to be raised when shapes are found otherwise, so that old stores are not taken for new
# an equilibrium lies this near its prediction, beside the way predicted, or it is approached in
# smaller stages
CLOSE = 0.5
SMALLEST = 1.0 / 64.0  # stage on the way from a known equilibrium; below it the branch is lost


@dataclass(frozen=True, kw_only=True, eq=False)
class Shapes:
    """f of a robot, and what is interpolated of it: (positions, damped strains, lengths) =: (q, s,
    l); q and s in metres, l in what each control does its work on (metres for cables, cubic metres
    for pressures)."""

    robot: Robot
    tolerance: float = 1e-12  # of the equilibria, relative to the largest force at work

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        if not self.robot.n_controls:
            raise InputError(
                f"{self.robot.name} has no actuators, so that no shapes can be named by "
                "controls; add some."
            )
        if any(support.motion is not None for support in self.robot.supports):
            raise InputError(
                f"A support of {self.robot.name} moves, but the shapes of a latent model hold "
                "for one place; hold it still."
            )
        if any(load.timed for load in self.robot.loads):
            raise InputError(
                f"A load of {self.robot.name} changes in time, but the shapes of a latent model "
                "hold under one load; give it a fixed value, or take ImplicitEuler."
            )
        if any(contact.friction > 0.0 for contact in self.robot.contacts):
            raise InputError(
                f"A contact of {self.robot.name} has friction, which has no say in an "
                "equilibrium; set it to 0, or take ImplicitEuler."
            )
        if self.robot.damping.stiffness > 0.0 and isinstance(self.robot.body(), Beams):
            raise InputError(
                f"{self.robot.name} is made of beams with a viscosity, which a latent model does "
                "not know; set the stiffness damping to 0, or take ImplicitEuler."
            )
        _ = self.model

    def __reduce__(self) -> tuple[Any, ...]:
        """For workers: the description alone, without what was computed from it."""
        return _shapes, (self.robot, self.tolerance)

    @cached_property
    def model(self) -> Implicit:
        actuators = {
            name: Continued(actuator=a) if a.n_controls else a
            for name, a in self.robot.actuators.items()
        }
        return Quasistatic(
            replace(self.robot, actuators=actuators), newton=Newton(tolerance=self.tolerance)
        )

    @property
    def dim(self) -> int:
        return self.robot.n_controls

    @cached_property
    def key(self) -> str:
        """A digest of the robot's description and of how its shapes are found; another robot has
        another."""
        return digest(FOUND, self.tolerance, robot_digests(self.robot))

    # The exact map

    @cached_property
    def home(self) -> Sample:
        """The equilibrium under the neutral controls."""
        a = self.robot.neutral_controls()
        step = self.model.step(self.model.initial_state(), a)
        if not step.status:
            raise StepError(
                f"{self.robot.name} finds no equilibrium under its neutral controls: "
                f"{step.status.text}"
            )
        return Sample(point=a, value=step.x, slope=self._slope(step))

    def __call__(self, a: Array, near: Sample | None) -> tuple[Array, Array, str]:
        """(q (n_dofs,) [m], dq/da (n_dofs, d), a note): along the straight way from a known
        equilibrium, in stages that end near their predictions; where no stage is small enough, the
        branch ended or turned, and the note says so."""
        start = self.home if near is None else near
        q, J, at, done, stage, note = start.value, start.slope, start.point, 0.0, 1.0, ""
        if np.array_equal(at, a):
            return q, J, start.note
        while done < 1.0:
            goal = (
                start.point + min(done + stage, 1.0) * (a - start.point)
                if done + stage < 1.0
                else a
            )
            guess = q + J @ (goal - at)
            step = self.model.step(guess, goal)
            strayed = not step.status or np.linalg.norm(step.x - guess) > CLOSE * np.linalg.norm(
                guess - q
            )
            if strayed and stage > SMALLEST:
                stage /= 2.0
                continue
            if not step.status:
                raise StepError(f"no equilibrium was found: {step.status.text}")
            if strayed:
                note = (
                    "the equilibrium jumped to another branch on the way from "
                    f"{np.array2string(start.point, precision=4)}, at "
                    f"{np.array2string(goal, precision=4)}; the shapes are not one function of "
                    "the controls there"
                )
            q, J, at, done = step.x, self._slope(step), goal, done + stage
        return q, J, note

    def _slope(self, step: Any) -> Array:
        return self.model.linearize(step).dense_controls()

    def curvatures(self, a: Array, q: Array, J: Array) -> Array:
        """(d (d + 1) / 2, n_dofs) the second derivatives of f at an equilibrium, (0, 0), (0, 1),
        ..., (1, 1), ..."""
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
        """[sqrt(J)/m] brings the damped strains to metres, so that one tolerance serves all that is
        interpolated."""
        eq = self.model.equations
        fields = eq.numbers(None).fields
        return float(
            np.sqrt(fields.moduli[:, 0].max() * eq.body.volumes().max()) / eq.body.cell_size()
        )

    def lift(self, q: Array, J: Array) -> tuple[Array, Array]:
        """((N,), (N, d)) what is interpolated and its slope from f and its slope."""
        rows = np.stack([self._lifted_slope(q, change) for change in J.T], axis=1)
        return self.lifted(q), rows

    def lifted(self, q: Array) -> Array:
        """(N,) q, s and l, one after the other."""
        eq = self.model.equations
        strain = (
            eq.body.damped_strain(q, eq.numbers(None).fields) / self._strain_unit  # type: ignore[attr-defined]
            if self.damped
            else np.zeros(0)
        )
        lengths = [
            term.lengths(eq.points(term, q))  # type: ignore[attr-defined]
            for term, part in eq.terms
            if part.stop > part.start
        ]
        return np.concatenate([q, strain, *lengths])

    def _strains(self, q: Array, change: Array) -> Array:
        eq = self.model.equations
        return (
            eq.body.damped_strain_push(q, change, eq.numbers(None).fields) / self._strain_unit  # type: ignore[attr-defined]
            if self.damped
            else np.zeros(0)
        )

    def _lifted_slope(self, q: Array, change: Array) -> Array:
        columns = self.model.equations.control_columns(q, np.zeros(self.dim))
        return np.concatenate([change, self._strains(q, change), columns.T @ change])

    def lifted_curvature(self, q: Array, dq: Array, other: Array, bent: Array) -> Array:
        """(N,) the second derivative along two changes dq and other of q, which itself bends by
        `bent`."""
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
        return (
            sp.vstack(rows, format="csr")
            if rows
            else sp.csr_matrix((0, self.model.equations.n_dofs))
        )


def _shapes(robot: Robot, tolerance: float) -> Shapes:
    return Shapes(robot=robot, tolerance=tolerance)
