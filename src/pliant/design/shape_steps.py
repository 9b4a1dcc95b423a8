"""The model of one shape of a parametrised robot, and the derivatives of its steps by the shape."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pliant.actuators.cable import AttachedCable
from pliant.bodies import COMPLEX_STEP
from pliant.core import Array, InputError, Linearization, Step
from pliant.dynamics import BDF2, ImplicitEuler
from pliant.dynamics.shape_changes import check_shape_support, state_columns
from pliant.geometry.cells import signed_volumes
from pliant.geometry.particle_sampling import displaced
from pliant.linalg import Solve
from pliant.mpm import MaterialPoint
from pliant.mpm.particle_forces import CompiledCable
from pliant.robot import PointLoad

if TYPE_CHECKING:
    from pliant.design.parametrised_robot import ParametrisedRobot

VOLUME = "cells.volume"  # the parameter of particles that a shape changes


class ShapeOfModel(Protocol):
    """The model of one shape, without shape parameters."""

    @property
    def model(self) -> Any: ...
    def check(self) -> None: ...  # raises InputError if the shape has no derivatives
    def owns(self, name: str) -> bool: ...  # whether a parameter of the model is the user's
    def moved(self, values: Array) -> "ShapeOfModel": ...  # with the shape of other values
    # all parameters of the model, from those of the user; None: the model's values
    def model_params(self, p: Array | None) -> Array | None: ...
    # the gradient (m,) by the shape, from that by the rest positions of the unknowns (n_dofs,)
    def rest_pullback(self, q_bar: Array) -> Array: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class SolidShape:
    """The finite-element model of one shape."""

    robot: "ParametrisedRobot"
    values: Array  # (m,)
    model: Any  # ImplicitEuler, Quasistatic, BDF2 or SemiImplicit
    options: dict[str, Any]

    @staticmethod
    def start(robot: "ParametrisedRobot", kind: Any, options: dict[str, Any]) -> "SolidShape":
        """Return the shape at the start values."""
        model = kind(robot.reference, **options)
        return SolidShape(robot=robot, values=robot.params_start, model=model, options=options)

    def check(self) -> None:
        check_shape_support(self.model.equations)

    def owns(self, name: str) -> bool:
        return True

    def model_params(self, p: Array | None) -> Array | None:
        return p

    def moved(self, values: Array) -> "SolidShape":
        robot = self.robot.attached_robot_at(self.robot.mesh_at(values))
        return replace(self, values=values, model=type(self.model)(robot, **self.options))

    @cached_property
    def changes(self) -> list[Array]:
        """The derivative (n_dofs,) of the rest positions by each parameter."""
        return [change.ravel() for change in self.robot.point_changes(self.values)]

    def rest_pullback(self, q_bar: Array) -> Array:
        return np.array([q_bar @ change for change in self.changes])

    def columns(self, step: Step, end: float, solve: Solve | None) -> Array:
        """Return dx'/ds (n_state, m) of a step of this shape's model that ends at a time [s]."""
        return state_columns(self.model, step.tape, self.changes, end, solve)

    def first_step(self, p: Array | None) -> tuple[Linearization, Array]:
        """Return the derivative of the step of backward Euler that gives BDF2 its initial
        acceleration, and its columns (n_state, m) by the shape. The last one is kept, because the
        derivative of an initial state takes a vjp for each of its entries."""
        key = b"" if p is None else p.tobytes()
        if key not in self._first_steps:
            self._first_steps.clear()
            self._first_steps[key] = self._linearized_first_step(p)
        return self._first_steps[key]

    @cached_property
    def _first_steps(self) -> dict[bytes, tuple[Linearization, Array]]:
        return {}

    def _linearized_first_step(self, p: Array | None) -> tuple[Linearization, Array]:
        model: BDF2 = self.model
        h, eq = model.dt, model.equations
        euler = ImplicitEuler(model.robot, dt=h, solver_options=model.solver_options, equations=eq)
        first, second = (eq.place_supports(eq.body.rest, t) for t in (h, 2.0 * h))
        v = np.where(eq.held, (second - first) / h, 0.0)
        start = np.concatenate([eq.body.rest, v])
        step = euler.step(start, model.neutral_controls(), p)
        lin = euler.linearize(step)
        return lin, state_columns(euler, step.tape, self.changes, h, lin.solve)


def initial_acceleration_pullback(
    shape: SolidShape, bar: Array, p: Array | None
) -> tuple[Array, Array]:
    """Return the gradient (n_dofs,) by the rest positions of the initial state of BDF2 and the one
    (n_params,) by all parameters at fixed rest positions, for the gradient `bar` (n_state,) by this
    state. Its acceleration is that of one step of backward Euler."""
    b0, b1, b2 = np.split(bar, 3)
    # the earlier positions are q + h^2/2 a and q + 2 h^2 a, with a = (q' - q) / h^2
    by_acceleration = 0.5 * b1 + 2.0 * b2
    lin, columns = shape.first_step(p)
    x_bar = np.concatenate([by_acceleration, np.zeros_like(by_acceleration)])
    by_x, _, by_p = lin.vjp(x_bar)
    q_bar = b0 + b1 + b2 + by_x[: b0.size] - by_acceleration
    return q_bar, np.concatenate([by_p, columns.T @ x_bar])


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticleShape:
    """The particle model of one shape."""

    robot: "ParametrisedRobot"
    values: Array  # (m,)
    model: MaterialPoint  # with the parameter "cells.volume" after those of the user
    options: dict[str, Any]

    @staticmethod
    def start(robot: "ParametrisedRobot", kind: Any, options: dict[str, Any]) -> "ParticleShape":
        """Return the shape at the start values."""
        design = list(options.get("design", ()))
        if VOLUME in design:
            raise InputError(
                f"The design names {VOLUME}, but the shape parameters already change the volumes; "
                "remove it."
            )
        if options.get("transfer") == "total":
            raise InputError(
                'The transfer "total" has no derivative by the shape; take transfer="updated".'
            )
        options = {**options, "design": [*design, VOLUME]}
        model = MaterialPoint(robot.reference, **options)
        options |= {"substeps": model.substeps}
        return ParticleShape(robot=robot, values=robot.params_start, model=model, options=options)

    def check(self) -> None:
        robot = self.model.robot
        for part in self.model.particle_potentials:
            if not isinstance(part, CompiledCable):
                raise InputError(
                    f"An actuator of {robot.name} has no derivative by the shape of particles; "
                    "with shape parameters use Cable, Muscle and Fluidic."
                )
        for load in robot.loads:
            if not isinstance(load, PointLoad):
                raise InputError(
                    f"A {type(load).__name__} has no derivative by the shape of particles; use a "
                    "PointLoad, or ImplicitEuler."
                )

    def owns(self, name: str) -> bool:
        return name != VOLUME

    def model_params(self, p: Array | None) -> Array | None:
        return None if p is None else np.concatenate([p, self.model.body.volumes()])

    def moved(self, values: Array) -> "ParticleShape":
        home = self._home
        mesh = self.robot.mesh_at(values, max_stretch=float(self.model.per_cell))
        self._check_supports(mesh.points)
        points, volumes = displaced(home.samples, mesh.points)
        samples = replace(home.samples, points=points, volumes=volumes)
        body = replace(home, mesh=mesh, samples=samples, reference=home)
        robot = self.robot.attached_robot_at(mesh)
        model = MaterialPoint(robot, body=body, **self.options)
        return replace(self, values=values, model=model)

    @property
    def _home(self) -> Any:
        """The particles of the start shape."""
        body: Any = self.model.body
        return body.reference or body

    def _check_supports(self, points: Array) -> None:
        """Raise `InputError` if a held surface leaves its plane: nodes of a fixed grid hold it."""
        mesh, dim = self.robot.mesh, self.robot.mesh.dim
        for support in self.model.robot.supports:
            if support.region is None:
                continue  # MaterialPoint raises
            corners = mesh.facets(support.region)[:, :dim]
            edges = mesh.points[corners[:, 1:]] - mesh.points[corners[:, :1]]
            normals = np.linalg.svd(edges)[2][:, -1]
            away = np.einsum("fai,fi->fa", points[corners] - mesh.points[corners], normals)
            if np.abs(away).max() > 1e-9 * mesh.size:
                raise InputError(
                    f"The shape parameters move the support on '{support.region}' by "
                    f"{np.abs(away).max():.3g} m, but MaterialPoint holds the nodes of a fixed "
                    "grid; keep that surface in place, or use ImplicitEuler."
                )

    @cached_property
    def changes(self) -> list[tuple[Array, Array]]:
        """The derivatives of the particles' positions (n, dim) and volumes (n,) by each
        parameter."""
        vertices = np.real(self.robot.points_at(self.values, self.robot.mesh.points))
        return [self._particle_change(vertices, c) for c in self.robot.point_changes(self.values)]

    def _particle_change(self, vertices: Array, change: Array) -> tuple[Array, Array]:
        samples = self._home.samples
        moved = np.einsum("na,nai->ni", samples.barycentric, change[samples.nodes])
        complex_volumes = signed_volumes(vertices + 1j * COMPLEX_STEP * change, samples.nodes)
        ratio = complex_volumes.imag / COMPLEX_STEP / samples.rest_volumes
        home = self._home
        depth = home.thickness if home.dim == 2 else 1.0
        return moved, depth * samples.volumes * ratio

    def rest_pullback(self, q_bar: Array) -> Array:
        return np.array([q_bar @ points.ravel() for points, _ in self.changes])

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p, with the shape's values last."""
        x, u, p = self.model.pullback(step, x_bar)
        n = self.model.body.n_particles
        by_shape = np.array([p[-n:] @ volumes for _, volumes in self.changes])
        return x, u, np.concatenate([p[:-n], by_shape + self._by_cables(step, u)])

    def _by_cables(self, step: Step, u_bar: Array) -> Array:
        """Return the gradient (m,) through the rest lengths. The force of a cable driven by its
        length depends on control times rest length, so it follows from the control's gradient."""
        out, u = np.zeros(len(self.values)), step.tape.u
        for part in step.tape.coefficients.forces:
            assert isinstance(part, CompiledCable)
            cable, k = part.potential, part.part.start
            if cable.drive == "length" and cable.follows_route:
                by_rest = u_bar[k] * u[k] / cable.rest_length
                out += by_rest * np.array(
                    [self._rest_length_change(cable, j) for j in range(len(out))]
                )
        return out

    def _rest_length_change(self, cable: AttachedCable, j: int) -> float:
        moved = self.model.body.samples.points + 1j * COMPLEX_STEP * self.changes[j][0]
        return float(cable.length(cable.weights @ moved + cable.offset).imag / COMPLEX_STEP)
