"""[Zimmermann2021, eq. 2]: explicit integration of the foam rod fails after a few steps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from pliant.bodies import SemiImplicitBody, require_protocol
from pliant.core import Array
from pliant.dynamics import BDF2, simulate
from pliant.dynamics.equations import Equations
from pliant.report import Plot
from pliant.robot import Robot
from pliant.zoo.experiment import Metric
from pliant.zoo.gripper_tasks import equilibrium_state
from pliant.zoo.robots.manipulated_objects import soft_rod

JOINT, ROTATION = 1, 0.05  # joint of the arm that rotates by this angle [rad] at the start
TIME = 1.0  # [s] simulated unless the mesh inverts
IMPLICIT_STEP = 0.025  # [s] of whip-1
TIME_STEPS = (0.025, 0.001)  # [s]
STABLE_FRACTION = 0.5  # of the linear limit; closer to it, the non-linear rod fails too
RULES = {"explicit Euler (eq. 2)": False, "symplectic Euler": True}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplicitRod:
    """Explicit integration of a robot with lumped masses, from its rest shape under constant
    controls."""

    robot: Robot
    controls: Array  # (n_controls,)

    @cached_property
    def _equations(self) -> Equations:
        return Equations(robot=self.robot)

    @cached_property
    def _body(self) -> SemiImplicitBody:
        """The body, with products of its stiffness. Raises `InputError` if it has none."""
        return require_protocol(self._equations.body, SemiImplicitBody, "Explicit integration")

    @cached_property
    def _masses(self) -> Array:
        """(n_dofs,) [kg]"""
        mass = self._equations.coefficients(None).mass
        return np.repeat(np.asarray(mass.sum(axis=1)).ravel(), self._equations.dim)

    def acceleration(self, q: Array) -> Array:
        """Return -dW/dx / m, (n_dofs,) [m/s^2]."""
        eq, coefficients = self._equations, self._equations.coefficients(None)
        forces = eq.body.energy(q, coefficients.fields)[1] + eq.gradient(q, self.controls)
        return (coefficients.external_force - forces) / self._masses

    def largest_frequency(self) -> float:
        """Return the largest angular frequency [1/s] of small vibrations around the rest shape."""
        eq, scale = self._equations, 1.0 / np.sqrt(self._masses)
        q, fields = eq.body.rest, eq.coefficients(None).fields

        def product(y: Array) -> Array:
            z = scale * y.ravel()
            stiff = self._body.stiffness_times(q, fields, z)
            return scale * (stiff + eq.potential_stiffness_times(q, self.controls, z))

        operator = LinearOperator((q.size, q.size), matvec=product, dtype=float)
        values = eigsh(operator, k=1, which="LA", return_eigenvectors=False)
        return float(np.sqrt(values[0]))

    def largest_displacements(self, dt: float, *, symplectic: bool) -> tuple[Array, bool]:
        """Return the largest displacement of a node [m] after each step, and whether the mesh
        stayed without inverted cells until TIME. The steps end at the first inverted cell.

        Explicit Euler moves the positions by the old velocities, symplectic Euler by the new ones.
        """
        body = self._equations.body
        q, v, out = body.rest.copy(), np.zeros(body.rest.size), []
        for _ in range(round(TIME / dt)):
            new = v + dt * self.acceleration(q)
            q, v = q + dt * (new if symplectic else v), new
            out.append(float(np.abs(q - body.rest).max()))
            if not np.all(np.isfinite(q)) or body.inadmissible_cell(q) is not None:
                return np.array(out), False
        return np.array(out), True


def rotated_rod() -> ExplicitRod:
    """Return the rod of `whip-1`, whose arm has rotated by a small angle at the start."""
    robot = soft_rod()
    controls = robot.neutral_controls().copy()
    controls[JOINT] += ROTATION
    return ExplicitRod(robot=robot, controls=controls)


def implicit_displacements(rod: ExplicitRod) -> Array:
    """Return the largest displacement of a node [m] after each step of BDF2."""
    model = BDF2(rod.robot, dt=IMPLICIT_STEP)
    count = round(TIME / IMPLICIT_STEP)
    run = simulate(
        model, np.tile(rod.controls, (count, 1)), x0=equilibrium_state(model), progress=False
    )
    paths = [model.space.position(x) - model.body.rest for x in run.states[1:]]
    return np.abs(paths).max(axis=1)


def explicit_integration() -> tuple[dict[str, Metric], Plot, str]:
    """Return metrics, a plot and a note about explicit integration of the rod."""
    rod = rotated_rod()
    limit = 2.0 / rod.largest_frequency()
    found = {
        (rule, dt): rod.largest_displacements(dt, symplectic=symplectic)
        for rule, symplectic in RULES.items()
        for dt in (*TIME_STEPS, STABLE_FRACTION * limit)
    }
    implicit = implicit_displacements(rod)
    series = {
        f"{rule.split()[0]}, {1e3 * dt:.2g} ms": (dt * np.arange(1, len(sizes) + 1), sizes)
        for (rule, dt), (sizes, _) in found.items()
    }
    times = IMPLICIT_STEP * np.arange(1, len(implicit) + 1)
    series[f"BDF2, {1e3 * IMPLICIT_STEP:.2g} ms"] = (times, implicit)
    metrics: dict[str, Metric] = {
        "explicit integration: stability limit 2 / omega": Metric(value=1e3 * limit, unit="ms")
    }
    for (rule, dt), (sizes, intact) in found.items():
        label = f"{rule}, {1e3 * dt:.2g} ms"
        if intact:
            metrics[f"{label}: no cell inverts within {TIME:g} s"] = Metric(value=True)
        else:
            metrics[f"{label}: steps until a cell inverts"] = Metric(value=len(sizes))
    plot = Plot(
        title="Eq. 2: motion until a cell inverts",
        x="time [s]",
        y="largest displacement [m]",
        log_x=True,
        log_y=True,
        kind="both",
        series=series,
    )
    return metrics, plot, _note(limit)


def _note(limit: float) -> str:
    return (
        "Eq. 2: the rod of whip-1 is at rest, and its arm has rotated by "
        f"{ROTATION:g} rad. Eq. 2 as printed moves the positions by the old velocities and is "
        "unstable with any step. With the new velocities (symplectic Euler) the linear limit is "
        f"{1e3 * limit:.2g} ms, {IMPLICIT_STEP / limit:.0f} times less than the step of BDF2. Half "
        "of this limit is stable."
    )
