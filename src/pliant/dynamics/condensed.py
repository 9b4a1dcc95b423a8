"""Condensed dynamics: a full model reduced to its effectors and actuators [Menager2024, eq. 8-13].

The step is that of the full model. Its derivative is taken over X = (p, p'), the positions
p = H_e q of the effectors and their velocities. X is short, so dynamic programming never stores a
mesh. With A of the semi-implicit step, W_ij = H_i A^-1 H_j^T couples effectors e and actuators a:
    X' = [[1, h], [0, 1]] X + [h, 1] H_e A^-1 b(q, v) + [h^2, h] W_ea u.
The "linear" derivative neglects that b changes with X. The "nonlinear" one keeps the part of K and
D at the effectors. The "exact" one is the derivative of the full step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    Linearization,
    Params,
    Space,
    Step,
    check_controls,
    nearest,
    require_kind,
)
from pliant.dynamics.equations import Equations
from pliant.dynamics.latent import Latent
from pliant.dynamics.robot_model import RobotModel
from pliant.dynamics.semi_implicit import SemiImplicit
from pliant.robot import Robot

DERIVATIVES = ("linear", "nonlinear", "exact")


@dataclass(frozen=True, kw_only=True, eq=False)
class Coupling:
    """The compliance W_ij = H_i A^-1 H_j^T between controls and the velocities of effectors and
    actuators over one step, and the motion without actuation [Menager2024, eq. 4]."""

    ea: Array  # (n_rows, n_controls) W_ea [1/kg for forces]
    aa: Array  # (n_controls, n_controls) W_aa
    free: Array  # (n_rows,) [m/s] H_e A^-1 b, the change of velocity without actuation


@dataclass(frozen=True, kw_only=True, eq=False)
class Condensed:
    """A model whose derivatives are reduced to its effectors. `derivative` is "linear",
    "nonlinear" [Menager2024, eq. 13] or "exact".

    `model` is a rule of a robot with velocities, or `Latent`, whose shapes come from a surrogate.
    `effectors` names the effectors (default: all). `actuators` names actuators whose points are
    added to the reduced state, for constraints on their displacement. Raises InputError if the
    model has no velocities, no effectors or, unless exact, design variables, and for "nonlinear" or
    actuators with `Latent`, whose effectors are no nodes that forces act on.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     actuators={"cable": pl.Cable(points=[(0.0, 0.01, 0.02), (0.1, 0.01, 0.02)])},
    ... )
    >>> condensed = pl.Condensed(model=pl.SemiImplicit(beam, dt=0.01), effectors=("tip",))
    >>> condensed.reduction.shape[0]  # position and velocity of the tip
    6
    """

    model: RobotModel | Latent
    effectors: Sequence[str] | str | None = None  # None: all of the robot
    actuators: Sequence[str] | str = ()
    derivative: str = "linear"

    def __post_init__(self) -> None:
        require_kind(
            "The model to condense",
            self.model,
            (RobotModel, Latent),
            "give SemiImplicit(robot, dt=...), another rule of a robot, or Latent",
        )
        require_kind(
            "The model to condense",
            self.model,
            Linearizable,
            "give a rule that can be linearised, such as SemiImplicit",
        )
        if self.derivative not in DERIVATIVES:
            raise InputError(
                f"The derivative of a condensed model is '{self.derivative}'; "
                f"{nearest(self.derivative, DERIVATIVES)}"
            )
        if not any(self.model.space.rate):
            raise InputError(
                "A condensed model needs velocities, which this rule does not have; take "
                "SemiImplicit or ImplicitEuler."
            )
        if isinstance(self.model, Latent):
            self._check_latent()
        elif self.space.parts != ("position", "velocity"):
            raise InputError(
                "A condensed model needs a rule whose new position is the old one plus h times "
                "the new velocity; take SemiImplicit or ImplicitEuler."
            )
        if not self.is_exact and self.model.params.size:
            raise InputError(
                "A condensed derivative does not include design variables; leave `design` out, or "
                "take derivative='exact'."
            )
        if not self.effector_names:
            raise InputError(
                f"{self.robot.name} has no effector to condense to; give it one, such as "
                "Effector(point=...)."
            )
        _ = self.observed_rows  # raise InputError for a wrong name now

    def _check_latent(self) -> None:
        if self.derivative == "nonlinear":
            raise InputError(
                "The derivative of a condensed Latent model is 'nonlinear', but its state has no "
                "nodes; take 'linear' or 'exact'."
            )
        if self._actuator_names:
            raise InputError(
                "A condensed Latent model has no points of the actuator "
                f"'{self._actuator_names[0]}'; leave `actuators` out, or condense SemiImplicit."
            )

    # Core interface: that of the wrapped model, except for the derivative

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def n_controls(self) -> int:
        return self.model.n_controls

    @property
    def params(self) -> Params:
        return self.model.params

    @property
    def dt(self) -> float:
        return self.model.dt

    @property
    def equations(self) -> Equations:
        """The equations of the robot; `Latent` has none."""
        return self.model.equations  # type: ignore[union-attr]

    @property
    def robot(self) -> Robot:
        return self.model.robot

    def control_limits(self) -> tuple[Array, Array]:
        return self.model.control_limits()

    def neutral_controls(self) -> Array:
        return self.model.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        return self.model.effector_rows(name)

    def effector(self, name: str, x: Array) -> Array:
        """Return the position (n_points, dim) [m] of an effector in the state x (n_state,)."""
        return self.model.effector(name, x)

    def effector_jacobian(self, name: str, x: Array) -> sp.csr_matrix:
        """Return d effector / dx (n_points * dim, n_state), sparse."""
        return self.model.effector_jacobian(name, x)

    def initial_state(self) -> Array:
        return self.model.initial_state()

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """Return the step of the full model."""
        return self.full_model.step(x, u, p, k)

    @property
    def full_model(self) -> Linearizable:
        return self.model  # type: ignore[return-value]  # checked when made

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        return self.linearize(step).vjp(x_bar)

    def linearize(self, step: Step) -> Linearization:
        """Return the derivative as operators over the full state. Directions that do not change X
        have derivative zero, unless the derivative is exact."""
        if self.is_exact:
            return self.full_model.linearize(step)
        A, B = self.reduced_jacobians(step)
        E, L = self.reduction, self.expansion
        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=0,
            jvp_columns=lambda dx, du, dp: L @ (A @ (E @ dx) + B @ du),
            vjp_columns=lambda bar: (
                E.T @ (A.T @ (L.T @ bar)),
                B.T @ (L.T @ bar),
                np.zeros((0, bar.shape[1])),
            ),
        )

    @property
    def is_exact(self) -> bool:
        return self.derivative == "exact"

    # The reduced coordinates

    @cached_property
    def effector_names(self) -> tuple[str, ...]:
        names = (self.effectors,) if isinstance(self.effectors, str) else self.effectors
        return tuple(self.robot.effectors) if names is None else tuple(names)

    @property
    def _actuator_names(self) -> tuple[str, ...]:
        return (self.actuators,) if isinstance(self.actuators, str) else tuple(self.actuators)

    @cached_property
    def observed_rows(self) -> sp.csr_matrix:
        """The matrix H_e (n_rows, n_dofs) of the effectors, then of the points of the chosen
        actuators."""
        rows = [self.model.effector_rows(name) for name in self.effector_names]
        rows += [self.equations.attached(name)[1] for name in self._actuator_names]
        return sp.vstack(rows, format="csr")

    @cached_property
    def reduction(self) -> sp.csr_matrix:
        """The matrix (n_reduced, n_state) with X = reduction x = (H_e q, H_e v); the identity for
        an exact derivative."""
        n = self.space.size
        if self.is_exact:
            return sp.identity(n, format="csr")
        H = self.observed_rows
        position = sp.hstack([H, sp.csr_matrix((H.shape[0], n - H.shape[1]))])
        speed = sp.hstack(
            [
                *(rate * H for rate in self.space.rate),
                sp.csr_matrix((H.shape[0], n - len(self.space.rate) * H.shape[1])),
            ]
        )
        return sp.vstack([position, speed], format="csr")

    @cached_property
    def expansion(self) -> sp.csr_matrix:
        """The matrix E^T (E E^T)^+ (n_state, n_reduced), which gives the least-norm change of the
        state for a change of X. It is E^T if all effectors are nodes."""
        E = self.reduction
        if self.is_exact:
            return E.T
        return sp.csr_matrix(E.T @ np.linalg.pinv((E @ E.T).toarray()))

    # The derivative

    def reduced_jacobians(self, step: Step) -> tuple[Array, Array]:
        """Return dX'/dX (n_reduced, n_reduced) and dX'/du (n_reduced, n_controls)
        [Menager2024, eq. 12 and 13]."""
        if self.is_exact:
            lin = self.full_model.linearize(step)
            return lin.dense_state(), lin.dense_controls()
        B = self.reduction @ self._control_response(step)
        return (
            self._free_motion_jacobian
            if self.derivative == "linear"
            else self._free_motion_jacobian + self._restoring_jacobian(step)
        ), B

    @cached_property
    def _free_motion_jacobian(self) -> Array:
        """The derivative dX'/dX (n_reduced, n_reduced) of a motion without forces."""
        n = self.observed_rows.shape[0]
        return np.block([[np.eye(n), self.dt * np.eye(n)], [np.zeros((n, n)), np.eye(n)]])

    def _control_response(self, step: Step) -> Array:
        """Return dx'/du (n_state, n_controls), by one solve per control."""
        if not isinstance(self.model, SemiImplicit):
            return self.full_model.linearize(step).dense_controls()
        return self.model.control_response(step)

    def _restoring_jacobian(self, step: Step) -> Array:
        """Return the contribution (n_reduced, n_reduced) to dX'/dX of the forces at the effectors'
        nodes; all other nodes are fixed [Menager2024, eq. 13]."""
        expansion = self.expansion.toarray()
        if not isinstance(self.model, SemiImplicit):
            return (
                self.reduction @ self.full_model.linearize(step).jvp(expansion)
                - self._free_motion_jacobian
            )
        dw = self.model.frozen_response(step, expansion)
        return np.vstack([self.dt * (self.observed_rows @ dw), self.observed_rows @ dw])

    def coupling(self, step: Step) -> Coupling:
        """Return W_ea, W_aa and the free motion of the effectors at a step of the model. Raises
        InputError for `Latent`."""
        if isinstance(self.model, Latent):
            raise InputError(
                "A condensed Latent model has no forces at nodes, so it has no coupling; condense "
                "SemiImplicit."
            )
        h, n = self.dt, self.equations.n_dofs
        response = self._control_response(step)
        speed = sum(
            (rate * response[j * n : (j + 1) * n] for j, rate in enumerate(self.space.rate)),
            np.zeros((n, self.n_controls)),
        )
        t = step.tape
        actuator_rows = -self.equations.control_jacobian(self.space.position(t.x), t.u)  # H_a^T
        ea = self.observed_rows @ speed / h
        v, w = self.space.velocity(t.x), self.space.velocity(step.x)
        return Coupling(
            ea=ea, aa=actuator_rows.T @ speed / h, free=self.observed_rows @ (w - v) - h * ea @ t.u
        )

    @property
    def affine(self) -> bool:
        """Whether [Menager2024, eq. 11] is exact for all controls: no actuator is a spring whose
        rest length is controlled."""
        return isinstance(self.model, SemiImplicit) and not any(
            term.stiff for term, part in self.equations.potentials if part.stop > part.start
        )

    def predict(self, step: Step, u: Array) -> Array:
        """Return X' (2 n_rows,) for another control u [Menager2024, eq. 11]. It is exact for a
        semi-implicit step with forces linear in u."""
        c, h = self.coupling(step), self.dt
        u = check_controls(u, self.n_controls)
        x = step.tape.x
        speed = self.observed_rows @ self.space.velocity(x) + c.free + h * c.ea @ u
        return np.concatenate([self.observed_rows @ self.space.position(x) + h * speed, speed])
