"""Condensed dynamics: a whole model seen through its effectors and actuators alone (paper 001 eq.
8-13).

The step stays that of the model. Its derivative is taken over X = (p, p'), the places p = H_e q of
the effectors and their velocities, few numbers, so that dynamic programming never holds a mesh.
With A of the semi-implicit step, W_ij = H_i A^-1 H_j^T couples effectors e and actuators a, and
    X' = [[1, h], [0, 1]] X + [h, 1] H_e A^-1 b(q, v) + [h^2, h] W_ea u.
The printed derivatives leave out that b changes with X ("linear"), or keep what the effectors' own
share of K and D says of it ("nonlinear"); "exact" is the sensitivity of the whole step.
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
from pliant.dynamics.semi_implicit import Linearised
from pliant.dynamics.stepping import Stepping
from pliant.robot import Robot

DERIVATIVES = ("linear", "nonlinear", "exact")


@dataclass(frozen=True, kw_only=True, eq=False)
class Coupling:
    """What a unit of each control does to the effectors' and the actuators' velocities over one
    step, times h (eq. 4), and what the effectors do without any: W_ij = H_i A^-1 H_j^T."""

    ea: Array  # (n_places, n_controls) W_ea [1/kg for forces]
    aa: Array  # (n_controls, n_controls) W_aa
    free: Array  # (n_places,) [m/s] H_e A^-1 b, the change of velocity without actuation


@dataclass(frozen=True, kw_only=True, eq=False)
class Condensed:
    """A model whose derivatives live on its effectors; `derivative` is "linear", "nonlinear" (eq.
    13) or "exact".

    `actuators` names those whose own points are followed too, for constraints on their
    displacement.
    """

    model: Stepping
    effectors: Sequence[str] | str | None = None  # None: all of the robot
    actuators: Sequence[str] | str = ()
    derivative: str = "linear"

    def __post_init__(self) -> None:
        require_kind(
            "The model to condense",
            self.model,
            Stepping,
            "give SemiImplicit(robot, dt=...) or another rule of a robot",
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
                "A condensed model follows velocities, which this rule has not; take "
                "SemiImplicit or ImplicitEuler."
            )
        if self.space.parts != ("position", "velocity"):
            raise InputError(
                "A condensed model needs a rule whose new place is the old one plus h times the "
                "new velocity; take SemiImplicit or ImplicitEuler."
            )
        if not self.exact and self.model.params.size:
            raise InputError(
                "A condensed derivative knows no design variables; leave `design` out, or take "
                "derivative='exact'."
            )
        if not self.names:
            raise InputError(
                f"{self.robot.name} has no effector to condense to; give it one, such as "
                "Effector(point=...)."
            )
        _ = self.places  # what is wrong with a name is a sentence now

    # The waist: the model's own but for the derivative

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
        return self.model.equations

    @property
    def robot(self) -> Robot:
        return self.model.robot

    def control_limits(self) -> tuple[Array, Array]:
        return self.model.control_limits()

    def neutral_controls(self) -> Array:
        return self.model.neutral_controls()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        return self.model.effector_rows(name)

    def initial_state(self) -> Array:
        return self.model.initial_state()

    def step(self, x: Array, u: Array, p: Array | None = None, k: int = 0) -> Step:
        """The whole model's step."""
        return self.whole.step(x, u, p, k)

    @property
    def whole(self) -> Linearizable:
        return self.model  # type: ignore[return-value]  # checked when made

    def pullback(self, step: Step, x_bar: Array) -> tuple[Array, Array, Array]:
        return self.linearize(step).vjp(x_bar)

    def linearize(self, step: Step) -> Linearization:
        """The derivative as operators over the whole state: what the condensed one says of X, and
        nothing of the rest."""
        if self.exact:
            return self.whole.linearize(step)
        A, B = self.stage(step)
        E, lift = self.seen, self.lift
        return Linearization(
            n_state=self.space.size,
            n_controls=self.n_controls,
            n_params=0,
            push=lambda dx, du, dp: lift @ (A @ (E @ dx) + B @ du),
            pull=lambda bar: (
                E.T @ (A.T @ (lift.T @ bar)),
                B.T @ (lift.T @ bar),
                np.zeros((0, bar.shape[1])),
            ),
        )

    @property
    def exact(self) -> bool:
        return self.derivative == "exact"

    # What is seen

    @cached_property
    def names(self) -> tuple[str, ...]:
        given = (self.effectors,) if isinstance(self.effectors, str) else self.effectors
        return tuple(self.robot.effectors) if given is None else tuple(given)

    @property
    def _followed(self) -> tuple[str, ...]:
        return (self.actuators,) if isinstance(self.actuators, str) else tuple(self.actuators)

    @cached_property
    def places(self) -> sp.csr_matrix:
        """(n_places, n_dofs) H_e: the effectors one after the other, then the points of the
        followed actuators."""
        rows = [self.model.effector_rows(name) for name in self.names]
        rows += [self.equations.attached(name)[1] for name in self._followed]
        return sp.vstack(rows, format="csr")

    @cached_property
    def seen(self) -> sp.csr_matrix:
        """(n_seen, n_state) what the derivative is taken over: X = (H_e q, H_e v); of an exact one,
        the whole state."""
        n = self.space.size
        if self.exact:
            return sp.identity(n, format="csr")
        H = self.places
        position = sp.hstack([H, sp.csr_matrix((H.shape[0], n - H.shape[1]))])
        speed = sp.hstack(
            [
                *(rate * H for rate in self.space.rate),
                sp.csr_matrix((H.shape[0], n - len(self.space.rate) * H.shape[1])),
            ]
        )
        return sp.vstack([position, speed], format="csr")

    @cached_property
    def lift(self) -> sp.csr_matrix:
        """(n_state, n_seen) the least change of the state that is seen as a change of X, E^T (E
        E^T)^+; H_e^T where effectors are nodes."""
        E = self.seen
        if self.exact:
            return E.T
        return sp.csr_matrix(E.T @ np.linalg.pinv((E @ E.T).toarray()))

    # The derivative

    def stage(self, step: Step) -> tuple[Array, Array]:
        """((n_seen, n_seen), (n_seen, n_controls)) dX'/dX and dX'/du (eq. 12 and 13)."""
        if self.exact:
            lin = self.whole.linearize(step)
            return lin.dense_state(), lin.dense_controls()
        B = self.seen @ self._control_response(step)
        return (
            self._flight if self.derivative == "linear" else self._flight + self._restoring(step)
        ), B

    @cached_property
    def _flight(self) -> Array:
        """(n_seen, n_seen) how X goes on by itself where nothing pulls."""
        n = self.places.shape[0]
        return np.block([[np.eye(n), self.dt * np.eye(n)], [np.zeros((n, n)), np.eye(n)]])

    def _control_response(self, step: Step) -> Array:
        """(n_state, n_controls) dx'/du, by one solve for each control."""
        if not isinstance(self.model, Linearised):
            return self.whole.linearize(step).dense_controls()
        return self.model.control_response(step)

    def _restoring(self, step: Step) -> Array:
        """(n_seen, n_seen) how the forces on the effectors' own nodes answer their motion, by A^-1;
        all else stands still (eq. 13)."""
        lift = self.lift.toarray()
        if not isinstance(self.model, Linearised):
            return self.seen @ self.whole.linearize(step).jvp(lift) - self._flight
        dw = self.model.frozen_response(step, lift)
        return np.vstack([self.dt * (self.places @ dw), self.places @ dw])

    def coupling(self, step: Step) -> Coupling:
        """W_ea, W_aa and the free motion of the effectors at a step of the model."""
        h, n = self.dt, self.equations.n_dofs
        response = self._control_response(step)
        speed = sum(
            (rate * response[j * n : (j + 1) * n] for j, rate in enumerate(self.space.rate)),
            np.zeros((n, self.n_controls)),
        )
        t = step.tape
        toward = -self.equations.control_columns(self.space.position(t.x), t.u)  # H_a^T
        ea = self.places @ speed / h
        v, w = self.space.velocity(t.x), self.space.velocity(step.x)
        return Coupling(ea=ea, aa=toward.T @ speed / h, free=self.places @ (w - v) - h * ea @ t.u)

    @property
    def affine(self) -> bool:
        """Whether eq. 11 holds for every control at once: where no actuator is a spring that its
        control moves."""
        return isinstance(self.model, Linearised) and not any(
            term.stiff for term, part in self.equations.terms if part.stop > part.start
        )

    def predict(self, step: Step, u: Array) -> Array:
        """(2 n_places,) X' of eq. 11 for another control u; of a semi-implicit step whose forces
        are linear in u it is that of the whole model."""
        c, h = self.coupling(step), self.dt
        u = check_controls(u, self.n_controls)
        x = step.tape.x
        speed = self.places @ self.space.velocity(x) + c.free + h * c.ea @ u
        return np.concatenate([self.places @ self.space.position(x) + h * speed, speed])
