"""The map from controls to equilibria: f(a) with 0 = p(f(a)) + c(f(a), a) [Jia2019, eq. 7].

Interpolation needs the positions, the strains that viscosity acts on, and the actuator lengths that
the controls are conjugate to.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from pliant.actuators import ExtrapolatedActuator
from pliant.bodies import Beams, Solid
from pliant.core import Array, InputError, StepError, require_kind
from pliant.dynamics.energy_minimisation import SolverOptions
from pliant.dynamics.implicit import Quasistatic
from pliant.robot import Robot
from pliant.robot.digest import robot_digests
from pliant.store.digest import digest
from pliant.surrogate import Sample

METHOD_VERSION = 1  # increase it if equilibria are found in another way: it invalidates old stores
# distance of an equilibrium from its prediction, relative to the predicted change; if it is larger,
# smaller stages follow
MAX_PREDICTION_ERROR = 0.5
MIN_STAGE = 1.0 / 64.0  # of the path from a known equilibrium; below it the branch is lost


@dataclass(frozen=True, kw_only=True, eq=False)
class EquilibriumMap:
    """The map f of a robot, and the interpolated quantities (positions, damped strains, lengths) =:
    (q, s, l). q and s are in metres; l is conjugate to each control (metres for cables, cubic
    metres for pressures). Raises InputError if the robot has no such map."""

    robot: Robot
    tolerance: float = 1e-12  # of the equilibria, relative to the largest acting force

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        if not self.robot.n_controls:
            raise InputError(
                f"{self.robot.name} has no actuators, so controls define no shapes; add an "
                "actuator."
            )
        if any(support.motion is not None for support in self.robot.supports):
            raise InputError(
                f"A support of {self.robot.name} moves, but a latent model needs fixed supports. "
                "Remove its motion, or take ImplicitEuler."
            )
        if any(load.is_time_dependent for load in self.robot.loads):
            raise InputError(
                f"A load of {self.robot.name} changes in time, but a latent model needs constant "
                "loads. Give it a fixed value, or take ImplicitEuler."
            )
        if any(contact.friction > 0.0 for contact in self.robot.contacts):
            raise InputError(
                f"A contact of {self.robot.name} has friction, which a latent model does not "
                "include; set it to 0, or take ImplicitEuler."
            )
        if self.robot.damping.stiffness > 0.0 and isinstance(self.robot.body(), Beams):
            raise InputError(
                f"{self.robot.name} has beams with stiffness damping, which a latent model does "
                "not include; set the stiffness damping to 0, or take ImplicitEuler."
            )
        _ = self.model

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the description only, without cached results, for worker processes."""
        return _equilibrium_map, (self.robot, self.tolerance)

    @cached_property
    def model(self) -> Quasistatic:
        actuators = {
            name: ExtrapolatedActuator(actuator=a) if a.n_controls else a
            for name, a in self.robot.actuators.items()
        }
        return Quasistatic(
            replace(self.robot, actuators=actuators),
            solver_options=SolverOptions(tolerance=self.tolerance),
        )

    @property
    def dim(self) -> int:
        return self.robot.n_controls

    @cached_property
    def key(self) -> str:
        """The digest of the robot's description and of the solution method."""
        return digest(METHOD_VERSION, self.tolerance, robot_digests(self.robot))

    # The exact map

    @cached_property
    def home(self) -> Sample:
        """The equilibrium under the neutral controls. Raises StepError if there is none."""
        a = self.robot.neutral_controls()
        step = self.model.step(self.model.initial_state(), a)
        if not step.status:
            raise StepError(
                f"{self.robot.name} has no equilibrium under its neutral controls: "
                f"{step.status.text}"
            )
        return Sample(point=a, value=step.x, slope=self._slope(step))

    def __call__(self, a: Array, near: Sample | None) -> tuple[Array, Array, str]:
        """Return q (n_dofs,) [m], dq/da (n_dofs, d) and a note for the controls a.

        The solution follows the straight line from a known equilibrium `near`, in stages that end
        close to their predictions. The note says if even the smallest stage jumped to another
        branch. Raises StepError if no equilibrium is found."""
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
            jumped = not step.status or np.linalg.norm(
                step.x - guess
            ) > MAX_PREDICTION_ERROR * np.linalg.norm(guess - q)
            if jumped and stage > MIN_STAGE:
                stage /= 2.0
                continue
            if not step.status:
                raise StepError(f"no equilibrium was found: {step.status.text}")
            if jumped:
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
        """Return the second derivatives (d (d + 1) / 2, n_dofs) of f at an equilibrium, in the
        order (0, 0), (0, 1), ..., (1, 1), ..."""
        eq, model = self.model.equations, self.model
        step = model.step(q, a)
        solve, coefficients, out = model.tangent(step), eq.coefficients(None), []
        slopes = [eq.control_jacobian_derivative(q, a, J[:, i]) for i in range(self.dim)]
        for i, j in combinations_with_replacement(range(self.dim), 2):
            g = (
                eq.second_order_body.stiffness_derivative(q, coefficients.fields, J[:, i], J[:, j])
                + eq.potential_stiffness_derivative(q, a, J[:, i], J[:, j])
                + slopes[i][:, j]
                + slopes[j][:, i]
            )
            curvature = np.zeros(eq.n_dofs)
            curvature[eq.free] = -solve(g[eq.free])
            out.append(curvature)
        return np.array(out)

    # The interpolated quantities

    @cached_property
    def damped(self) -> bool:
        return self.robot.damping.stiffness > 0.0 and isinstance(self.model.equations.body, Solid)

    @cached_property
    def _strain_unit(self) -> float:
        """The unit [sqrt(J)/m] that converts damped strains to metres, so that one tolerance serves
        all interpolated quantities."""
        eq = self.model.equations
        fields = eq.coefficients(None).fields
        return float(
            np.sqrt(fields.moduli[:, 0].max() * eq.body.volumes().max()) / eq.body.cell_size()
        )

    def lift(self, q: Array, J: Array) -> tuple[Array, Array]:
        """Return the interpolated quantities (N,) and their slope (N, d), from f and its slope."""
        rows = np.stack([self._lifted_slope(q, change) for change in J.T], axis=1)
        return self.lifted(q), rows

    def lifted(self, q: Array) -> Array:
        """Return q, s and l in one vector (N,)."""
        eq = self.model.equations
        strain = (
            eq.body.weighted_strain(q, eq.coefficients(None).fields) / self._strain_unit  # type: ignore[attr-defined]
            if self.damped
            else np.zeros(0)
        )
        lengths = [
            term.energy_per_control(eq.points(term, q))  # type: ignore[attr-defined]
            for term, part in eq.potentials
            if part.stop > part.start
        ]
        return np.concatenate([q, strain, *lengths])

    def _strains(self, q: Array, change: Array) -> Array:
        eq = self.model.equations
        return (
            eq.body.weighted_strain_jvp(q, change, eq.coefficients(None).fields) / self._strain_unit  # type: ignore[attr-defined]
            if self.damped
            else np.zeros(0)
        )

    def _lifted_slope(self, q: Array, change: Array) -> Array:
        columns = self.model.equations.control_jacobian(q, np.zeros(self.dim))
        return np.concatenate([change, self._strains(q, change), columns.T @ change])

    def lifted_curvature(self, q: Array, dq: Array, other: Array, curvature: Array) -> Array:
        """Return the second derivative (N,) of (q, s, l) along two changes `dq` and `other` of q;
        `curvature` is the second derivative of q."""
        eq, none = self.model.equations, np.zeros(self.dim)
        lengths = (
            eq.control_jacobian(q, none).T @ curvature
            + eq.control_jacobian_derivative(q, none, dq).T @ other
        )
        return np.concatenate(
            [curvature, self._strains(q, curvature) + self._strains(dq, other), lengths]
        )

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """The slices of q, s and l."""
        n, N = self.model.equations.n_dofs, self.lifted(self.home.value).size
        return slice(0, n), slice(n, N - self.dim), slice(N - self.dim, N)

    def inertia(self, q: Array) -> Array:
        """Return M q (n_dofs,) [kg m]."""
        return self.model.equations.mass_times(self.model.equations.coefficients(None), q)

    @property
    def viscosity(self) -> float:
        """The viscosity [kg/s] of the strains in metres."""
        return self.robot.damping.stiffness * self._strain_unit**2

    @cached_property
    def effectors(self) -> Any:
        """The sparse matrix (n_effectors dim, n_dofs) that maps positions to all effector
        positions."""
        import scipy.sparse as sp

        rows = [self.model.effector_rows(name) for name in self.robot.effectors]
        return (
            sp.vstack(rows, format="csr")
            if rows
            else sp.csr_matrix((0, self.model.equations.n_dofs))
        )


def _equilibrium_map(robot: Robot, tolerance: float) -> EquilibriumMap:
    return EquilibriumMap(robot=robot, tolerance=tolerance)
