"""The dynamics of linked rigid bodies in potential flow [Jia2019, eq. 3 and 4]."""

from pathlib import Path
from typing import Self, final

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
    Step,
    StepBatch,
    check_controls,
    effector_jacobian,
    effector_position,
    finite_array,
    nearest,
    quaternion_product,
    quaternion_rotation,
    require_kind,
)
from pliant.parallel import make_workers
from pliant.progress import Progress
from pliant.surrogate import Corners, CornerStore, Grid, Surrogate, evaluation_job
from pliant.surrogate.domain import check_lengths
from pliant.swimming.added_mass import (
    AddedMassMap,
    ConstantAddedMass,
    ExactAddedMass,
    InterpolatedAddedMass,
    packed_size,
)
from pliant.swimming.chain import make_chain
from pliant.swimming.link_gaps import check_gaps
from pliant.swimming.linked_robot import STOP_MARGIN, LinkedRobot
from pliant.swimming.mass_kernels import total_mass
from pliant.swimming.step_kernels import effector_points
from pliant.swimming.swimmer_steps import CONVERGED, METHODS, AddedMassModel, SwimmerSteps


@final
class SwimmerModel:
    """Dynamics of a LinkedRobot in an ideal fluid, with torques at its hinges as controls.

    The state has effector positions now and one step ago, the root's position and unit quaternion,
    the joint angles, and the momenta that belong to the root's velocities in its own frame and to
    the joint rates.

    Parameters
    ----------
    robot : LinkedRobot
    dt : time step [s]
    cell : [rad] side of the cells on which the added mass is interpolated, for all hinges or one
        for each
    method : "rk4" (fourth order) or "euler" ([Jia2019, eq. 4], one evaluation for each step)
    points : surface points of each ellipsoid
    angles : joint angles (n,) [rad] of the initial state; None for zero
    store : file of the exact added masses, which later runs use again
    workers, cluster : number of processes, or the address of a dask scheduler, for exact values;
        by default this process computes them, on all cores
    budget : largest number of exact evaluations
    namespace : name of a run that shares the store with others, such as "seed-1". Its result is
        then bitwise that of the run alone.

    Raises InputError if links touch within the joint limits, and for invalid arguments.
    """

    def __init__(
        self,
        robot: LinkedRobot,
        *,
        dt: float,
        cell: float | ArrayLike = 0.3,
        method: str = "rk4",
        points: int = 353,
        angles: ArrayLike | None = None,
        store: str | Path | None = None,
        workers: int | None = None,
        cluster: str | None = None,
        budget: int | None = None,
        progress: Progress | bool | None = None,
        namespace: str = "",
    ) -> None:
        require_kind("The robot", robot, LinkedRobot, "make one with LinkedRobot(links=...)")
        exact_map = AddedMassMap(robot=robot, points=points)
        mass: AddedMassModel
        if robot.fluid_density == 0.0:
            mass = ConstantAddedMass(np.zeros(packed_size(robot.n_angles)), robot.n_angles)
        elif not robot.n_angles:
            mass = ConstantAddedMass(exact_map(np.zeros(0))[0], 0)
        else:
            check_gaps(robot)
            n, (lower, upper) = robot.n_angles, robot.angle_limits
            size = check_lengths("The cell of a swimmer", cell, n)
            _check_cells(robot, size)
            exact_map.flow  # noqa: B018  # raises InputError for too few points
            corners = Corners(
                exact_map,
                dim=n,
                store=CornerStore(store, key=exact_map.key),
                workers=make_workers(evaluation_job(exact_map), workers=workers, cluster=cluster),
                unit=size,
                budget=budget,
                progress=progress,
                symmetry=exact_map.symmetry,
            )
            mass = InterpolatedAddedMass(
                exact_map,
                Grid(
                    corners,
                    cell=size,
                    # a symmetric lattice, so that the images of its corners are corners
                    origin=None if exact_map.symmetry is None else 0.0,
                    domain=(lower - STOP_MARGIN, upper + STOP_MARGIN),
                    namespace=namespace,
                ),
            )
        self._set(robot, check_dt(dt), method, mass, angles)

    def _set(
        self,
        robot: LinkedRobot,
        dt: float,
        method: str,
        mass: AddedMassModel,
        angles: ArrayLike | None,
    ) -> None:
        if method not in METHODS:
            raise InputError(f"There is no method '{method}'; {nearest(method, METHODS)}")
        self.robot, self.dt, self.method, self.added_mass = robot, dt, method, mass
        self.angles = robot.check_angles(np.zeros(robot.n_angles) if angles is None else angles)
        self._check_range(self.angles)
        self.chain = make_chain(robot)
        self._steps = SwimmerSteps(
            robot=robot, chain=self.chain, added_mass=mass, dt=dt, kind=METHODS[method]
        )
        e, n = 3 * len(robot.effector_names), robot.n_angles
        self.space = Space(
            parts=("position", "previous", "root", "orientation", "angles", "momentum"),
            n_dofs=e,
            rate=(1.0 / self.dt, -1.0 / self.dt),
            sizes=(e, e, 3, 4, n, 6 + n),
            quaternions=("orientation",),
        )
        self._size = self.space.size  # it is computed, and every step needs it

    def _with_added_mass(self, mass: AddedMassModel) -> Self:
        model = object.__new__(type(self))
        model._set(self.robot, self.dt, self.method, mass, self.angles)
        return model

    def with_method(self, method: str) -> Self:
        """Return the same model, on the same grid, with another method."""
        model = object.__new__(type(self))
        model._set(self.robot, self.dt, method, self.added_mass, self.angles)
        return model

    def __repr__(self) -> str:
        return (
            f"SwimmerModel({self.robot.name}, dt={self.dt:g}, {self.method}, {self.space.size} "
            f"states, {self.n_controls} controls)"
        )

    # The interface of every model

    @property
    def n_controls(self) -> int:
        return self.robot.n_controls

    @property
    def params(self) -> Params:
        return Params()

    def control_limits(self) -> tuple[Array, Array]:
        return self.robot.control_limits()

    def neutral_controls(self) -> Array:
        return self.robot.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (3, n_dofs) that selects an effector's position from the state's
        position part."""
        names = list(self.robot.effector_names)
        if name not in names:
            raise InputError(f"There is no effector '{name}'; {nearest(name, names)}")
        k = 3 * names.index(name)
        return sp.identity(self.space.n_dofs, format="csr")[k : k + 3]

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (1, 3) [m] of an effector in the state x (n_state,)."""
        return effector_position(self, name, x, 3)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (3, n_state), sparse."""
        return effector_jacobian(self, name, x)

    def initial_state(self) -> Array:
        """Return the state at rest at the origin with the initial joint angles."""
        return self.state(angles=self.angles)

    def state(
        self,
        *,
        root: ArrayLike = (0.0, 0.0, 0.0),
        orientation: ArrayLike = (1.0, 0.0, 0.0, 0.0),
        angles: ArrayLike | None = None,
        velocities: ArrayLike | None = None,
    ) -> Array:
        """Return a state (n_state,).

        Parameters
        ----------
        root : (3,) [m]; orientation : (4,) quaternion, scalar first, normalised here
        angles : (n,) [rad]; None for the initial ones
        velocities : (6 + n,) v [m/s] and w [rad/s] of the root in its own frame, then the joint
            rates [rad/s]; None at rest
        """
        n = self.robot.n_angles
        q = finite_array("The orientation", orientation, (4,))
        if not np.linalg.norm(q) > 0.0:
            raise InputError("The orientation is zero; give a quaternion such as (1, 0, 0, 0).")
        theta = self.angles if angles is None else self.robot.check_angles(angles)
        core = np.concatenate(
            [finite_array("The root", root, (3,), "m"), q / np.linalg.norm(q), theta]
        )
        xi = np.zeros(6 + n) if velocities is None else velocities
        xi = finite_array("The array of velocities", xi, (6 + n,))
        # a robot at rest needs no added mass, which may take an exact evaluation
        momentum = self.mass_matrix(theta) @ xi if np.any(xi) else np.zeros(6 + n)
        return self._state_of(np.concatenate([core, momentum]), xi)

    @property
    def derived_parts(self) -> tuple[str, ...]:
        """The parts of the state that follow from the others: the effectors."""
        return ("position", "previous")

    def with_derived_parts(self, x: Array) -> Array:
        """Return the state x (n_state,) with the effectors of its configuration and momentum."""
        n, core = self.robot.n_angles, check_state(x, self.space.size)[2 * self.space.n_dofs :]
        self._check_range(core[7 : 7 + n])
        moving = bool(np.any(core[7 + n :]))
        return self._state_of(core, self.velocities(x) if moving else np.zeros(6 + n))

    def _state_of(self, core: Array, xi: Array) -> Array:
        """Return the state of a core with the velocities xi (6 + n,), which belong to it."""
        before = core.copy()
        before[: 7 + self.robot.n_angles] -= self.dt * self.configuration_rate(core, xi)
        return np.concatenate([self._points(core), self._points(before), core])

    def configuration_rate(self, core: Array, xi: Array) -> Array:
        """Return the rate (7 + n,) of root, quaternion and angles for velocities xi (6 + n,)."""
        q, w = core[3:7], xi[3:6]
        spin = quaternion_product(q, np.concatenate([[0.0], w]))
        return np.concatenate([quaternion_rotation(q) @ xi[:3], 0.5 * spin, xi[6:]])

    def _points(self, core: Array) -> Array:
        """Return the effector positions (n_dofs,) [m] of a core."""
        out = np.empty(self.space.n_dofs)
        effector_points(core, self.chain, out)
        return out

    def mass_matrix(self, angles: ArrayLike) -> Array:
        """Return the mass matrix (6 + n, 6 + n) of links and fluid at joint angles (n,) [rad]."""
        theta = self.robot.check_angles(angles)
        self._check_range(theta)
        return total_mass(theta, self.added_mass.rows(theta)[0], self.chain)

    def _check_range(self, angles: Array) -> None:
        """Raise InputError if the added mass is unknown at joint angles (n,), because a hinge is
        beyond its stops."""
        lower, upper = self.robot.angle_limits
        excess = np.maximum(lower - angles, angles - upper)
        if not isinstance(self.added_mass, ConstantAddedMass) and excess.max() > STOP_MARGIN:
            k = int(np.argmax(excess))
            raise InputError(
                f"The angle of the hinge '{list(self.robot.hinges)[k]}' is {angles[k]:g} rad, but "
                f"its limits are {lower[k]:g} to {upper[k]:g} rad. Give an angle within them."
            )

    def velocities(self, x: Array) -> Array:
        """Return the velocities (6 + n,): v and w of the root in its own frame, and the joint
        rates."""
        now = self.space.split(check_state(x, self.space.size))
        return np.linalg.solve(self.mass_matrix(now.angles), now.momentum)

    def energy(self, x: Array) -> float:
        """Return the kinetic energy [J] of links and fluid."""
        return 0.5 * float(self.velocities(x) @ self.space.split(x).momentum)

    # Refinable

    @property
    def surrogate(self) -> Surrogate:
        """The interpolated added mass. Raises InputError for a model without interpolation."""
        if not isinstance(self.added_mass, InterpolatedAddedMass):
            raise NoSurrogateError(
                "The added mass of this model is exact, so there is no surrogate to refine. Use "
                "the model that SwimmerModel(robot, dt=..., cell=...) returns."
            )
        return self.added_mass.grid

    @property
    def queries(self) -> int:
        """Number of values of the added mass that the steps used."""
        return getattr(self.added_mass, "queries", 0)

    @property
    def effector_names(self) -> tuple[str, ...]:
        return tuple(self.robot.effector_names)

    def refined(self) -> Self:
        """Return the same model on half the cell, with all exact evaluations."""
        self.surrogate  # noqa: B018  # raises InputError without one
        mass = self.added_mass
        assert isinstance(mass, InterpolatedAddedMass)
        return self._with_added_mass(InterpolatedAddedMass(mass.exact_map, mass.grid.refined()))

    def exact(self) -> Self:
        """Return the same model without interpolation."""
        if isinstance(self.added_mass, ConstantAddedMass):
            return self
        return self._with_added_mass(ExactAddedMass(self.added_mass.exact_map))

    def query_point(self, x: Array) -> Array:
        """Return the joint angles (n,) [rad] of a state."""
        return self.space.split(x).angles.copy()

    def positions(self, x: Array) -> Array:
        """Return the configuration (7 + n,): root position, quaternion and joint angles."""
        return x[2 * self.space.n_dofs :][: 7 + self.robot.n_angles].copy()

    def replay_model(self, x: Array) -> tuple[Dynamics, Array]:
        """Return the exact model and its state for x, the same."""
        return self.exact(), x

    def close(self) -> None:
        """Close the store and the workers of the exact values."""
        if isinstance(self.added_mass, InterpolatedAddedMass):
            self.added_mass.grid.corners.close()

    # Stepping

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the state after one step. The step fails if a hinge leaves the range of the
        interpolated added mass."""
        x = check_state(x, self._size)
        u = check_controls(u, self.n_controls)
        check_index(k)
        if p is not None:
            self.params.split(p)  # raises InputError, because there are none
        if isinstance(self.added_mass, ExactAddedMass):
            new, status = self._steps.exact(x, u)
            return Step(new, status, SwimmerTape(self, x, u) if status.ok else None)
        known = self._steps.known(x, u)
        if known is not None:
            return Step(known, CONVERGED, SwimmerTape(self, x, u))
        batch = self._steps.many(x[None], u[None])
        ok = batch.statuses[0].ok
        return Step(batch.x[0], batch.statuses[0], SwimmerTape(self, x, u) if ok else None)

    def step_many(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> StepBatch:
        """Step states (b, n_state) under controls (b, n_controls) in parallel."""
        x = finite_array("The array of states", x, (None, self._size))
        u = finite_array("The array of controls", u, (len(x), self.n_controls))
        check_index(k)
        return self._steps.many(x, u)

    # Derivatives

    def jacobians(self, x: Array, u: Array) -> Array:
        """Return the Jacobians (b, n_state, n_state + n_controls) of steps from states
        (b, n_state). Raises StepError if one of the steps fails."""
        return self._steps.jacobians(x, u)

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative of a step as operators. Raises InputError for a failed step."""
        check_step(step, self)
        J = self.jacobians(step.tape.x[None], step.tape.u[None])[0]
        n = self.space.size
        return Linearization(
            n_state=n,
            n_controls=self.n_controls,
            n_params=0,
            jvp_columns=lambda dx, du, dp: J[:, :n] @ dx + J[:, n:] @ du,
            vjp_columns=lambda x_bar: (
                J[:, :n].T @ x_bar,
                J[:, n:].T @ x_bar,
                np.zeros((0, x_bar.shape[1])),
            ),
        )

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        """Return the gradients of x_bar . x' by x, u and p."""
        return self.linearize(step).vjp(x_bar)


def _check_cells(robot: LinkedRobot, size: Array) -> None:
    """Raise InputError for a cell (n,) [rad] that is larger than the range of its hinge."""
    lower, upper = robot.angle_limits
    ranges = upper - lower + 2.0 * STOP_MARGIN
    if np.any(size > ranges):
        k = int(np.argmax(size / ranges))
        raise InputError(
            f"The cell of the hinge '{list(robot.hinges)[k]}' is {size[k]:g} rad, larger than its "
            f"range of {ranges[k]:g} rad with the stops. Give a smaller one, such as 0.3."
        )


class SwimmerTape:
    """The state and the controls at the start of a step."""

    def __init__(self, owner: SwimmerModel, x: Array, u: Array) -> None:
        self.owner, self.x, self.u = owner, x, u
