"""Non-linear model predictive control from measured effector positions.

Each control step simulates the model along the shifted controls of the last step, linearises terms
and constraints there, and solves one quadratic program: the real-time iteration [Diehl2005]. The
difference between measurement and simulation is a constant disturbance of the effector positions,
which a filter estimates. So unknown forces and material errors leave no steady-state error.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import (
    Array,
    InputError,
    Reversible,
    Status,
    Step,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_number,
)
from pliant.planners.horizon_program import HorizonProgram, PredictedMotion
from pliant.planners.plan_result import check_exact_derivatives
from pliant.problem import Problem

# The first horizon is planned before the robot moves. Ten iterations agree with the plan of
# gauss_newton to 1e-5 of a control in a test with active limits.
FIRST_ITERATIONS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearControllerState:
    """The state of a non-linear controller before step k."""

    k: int
    x: Array  # (n_state,) simulated state of the model
    plan: Array  # (horizon, n_controls) from step k + delay on
    # (n_past + delay, n_controls) latest last; the last `delay` ones have no effect yet
    past: Array
    disturbance: Array  # (n_positions,) [m] estimated position error of the model
    status: Status  # of the last prediction


@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearController:
    """A controller made by `nonlinear_mpc`. After the end of the problem it repeats the terms and
    constraints of the last step."""

    problem: Problem
    effectors: tuple[str, ...]
    program: HorizonProgram
    gain: float  # of the disturbance filter, between 0 and 1
    delay: int  # control steps
    iterations: int  # quadratic programs in a control step

    def begin(self) -> NonlinearControllerState:
        """Return the state before the first step, with a planned first horizon. Raises InputError
        if the model cannot be simulated with a constant control."""
        problem, program = self.problem, self.program
        before = problem.previous_control
        state = NonlinearControllerState(
            k=0,
            x=problem.initial_state,
            plan=np.tile(before, (program.horizon, 1)),
            past=np.tile(before, (program.n_past + self.delay, 1)),
            disturbance=np.zeros(self._rows.shape[0]),
            status=Status(),
        )
        state = self._improved(state, max(FIRST_ITERATIONS, self.iterations))
        if not state.status:
            raise InputError(
                f"The model of nonlinear_mpc cannot predict its first horizon: {state.status.text}"
            )
        return state

    def predicted_positions(self, state: NonlinearControllerState) -> Array:
        """Return the predicted effector positions (n_positions,) [m] without disturbance."""
        return self._rows @ state.x

    def horizon_positions(self, state: NonlinearControllerState) -> Array:
        """Return the effector positions (horizon + 1, n_positions) [m] that the plan of a state
        leads to, with the disturbance. Raises InputError if a step fails."""
        motion = self._simulate(state, state.plan)
        if isinstance(motion, Status):
            raise InputError(f"The plan cannot be simulated: {motion.text}")
        return motion.states @ self._rows.T + state.disturbance

    def act(
        self, state: NonlinearControllerState, measurement: Array | None
    ) -> tuple[Array, NonlinearControllerState]:
        """Return the control (n_controls,) of step k and the next controller state.

        `measurement` has the effector positions (n_positions,) [m]; None if there is none. If the
        model cannot predict the horizon, the control is that of the last plan, and
        `state.status` is false. Raises InputError for a state that is no NonlinearControllerState
        or for a bad measurement.
        """
        require_kind(
            "The state of the controller",
            state,
            NonlinearControllerState,
            "start with controller.begin(), then pass the state that act returns",
        )
        shape = (self.program.horizon, self.problem.model.n_controls)
        if state.plan.shape != shape or len(state.disturbance) != self._rows.shape[0]:
            raise InputError(
                "The state belongs to a controller with another horizon or other effectors; start "
                "with the begin() of this one."
            )
        if measurement is not None:
            state = self._update_disturbance(state, measurement)
        state = self._improved(state, self.iterations)
        u = np.clip(state.plan[0], *self.program.first_range(state.past))
        past = np.concatenate([state.past, u[None]])
        step = self._step(state.x, past[len(past) - 1 - self.delay], state.k)
        return u, replace(
            state,
            k=state.k + 1,
            x=step.x if step.status else state.x,
            plan=np.concatenate([state.plan[1:], state.plan[-1:]]),
            past=past[1:],
            status=state.status if step.status else step.status,
        )

    def _update_disturbance(
        self, state: NonlinearControllerState, measurement: Array
    ) -> NonlinearControllerState:
        measured = finite_array(
            "The measurement", np.ravel(measurement), state.disturbance.shape, "m"
        )
        error = measured - self.predicted_positions(state) - state.disturbance
        return replace(state, disturbance=state.disturbance + self.gain * error)

    def _improved(
        self, state: NonlinearControllerState, iterations: int
    ) -> NonlinearControllerState:
        """Return the state with a plan improved by quadratic programs."""
        for _ in range(iterations):
            motion = self._simulate(state, state.plan)
            if isinstance(motion, Status):  # start from a constant control
                failure = motion
                motion = self._simulate(state, np.tile(state.past[-1], (len(state.plan), 1)))
                if isinstance(motion, Status):
                    return replace(state, status=failure)
            state = replace(state, plan=self.program.solve(motion), status=Status())
        return state

    def _simulate(self, state: NonlinearControllerState, plan: Array) -> PredictedMotion | Status:
        """Return the motion under a plan after the delay, or the status of a failed step."""
        x, waiting = state.x, state.past[len(state.past) - self.delay :]
        for j, u in enumerate(waiting):
            step = self._step(x, u, state.k + j)
            if not step.status:
                return step.status
            x = step.x
        first = state.k + self.delay
        steps: list[Step] = []
        for j, u in enumerate(plan):
            steps.append(self._step(steps[-1].x if steps else x, u, first + j))
            if not steps[-1].status:
                return steps[-1].status
        return PredictedMotion(
            first=first,
            states=np.array([x, *(step.x for step in steps)]),
            steps=tuple(steps),
            controls=plan,
            past=state.past,
            offset=self._expansion @ state.disturbance,
        )

    def _step(self, x: Array, u: Array, k: int) -> Step:
        p = self.problem.params
        return self.problem.model.step(x, u, None if p is None else np.asarray(p, float), k)

    @cached_property
    def _rows(self) -> sp.csr_matrix:
        """The matrix (n_positions, n_state) of the measured positions."""
        model = self.problem.model
        rows = sp.vstack([model.effector_rows(name) for name in self.effectors], format="csr")
        rows.resize((rows.shape[0], model.space.size))
        return rows

    @cached_property
    def _expansion(self) -> Array:
        """The least change of the state (n_state, n_positions) that moves the measured positions,
        but not their velocities."""
        space, H = self.problem.model.space, self._rows[:, : self.problem.model.space.n_dofs]
        parts = [rate * H for rate in space.rate]
        rest = space.size - len(parts) * H.shape[1]
        velocity = sp.hstack([*parts, sp.csr_matrix((H.shape[0], rest))])
        both = np.vstack([self._rows.toarray(), velocity.toarray()])
        return np.linalg.pinv(both)[:, : H.shape[0]]


def nonlinear_mpc(
    problem: Problem,
    *,
    effectors: tuple[str, ...] | str,
    horizon: int = 12,
    gain: float = 0.2,
    delay: int = 0,
    iterations: int = 1,
) -> NonlinearController:
    """Return a controller that solves a problem over a receding horizon from measured positions.

    Each control step simulates the model over the horizon, so the model must be fast: `Latent` with
    a Chebyshev surrogate takes less than 1 ms for a step. The robot must be stable without control.

    Parameters
    ----------
    problem : model, terms, limits and constraints. Its terms and constraints at step k apply at
        step k of the motion; those of the last step apply afterwards. Give it an Effort.
    effectors : names of the measured effectors
    horizon : prediction horizon, in steps
    gain : gain of the disturbance filter, above 0 and at most 1; a small gain suppresses noise
    delay : known number of steps between a control and its effect
    iterations : quadratic programs in a control step; more follow a fast motion more exactly

    Limits of the problem are always satisfied. A constraint holds for prediction plus disturbance;
    give it a margin for noise and model errors. Raises InputError if the problem has other
    variables than controls, or limits on accelerations.

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-10.0, 10.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> terms = [pl.Goal(effector="tip", target=(0.1, 0.0)), pl.Effort(weight=1e-6)]
    >>> problem = pl.Problem(model=pl.ImplicitEuler(robot, dt=0.1), steps=20, terms=terms)
    >>> controller = pl.planners.nonlinear_mpc(problem, effectors="tip", horizon=5)
    >>> u, state = controller.act(controller.begin(), measurement=(0.0, 0.01))  # the tip is high
    >>> bool(u[1] < 0.0)
    True
    """
    require_kind("The problem of nonlinear_mpc", problem, Problem, "make one with Problem(...)")
    problem.check_plannable()
    check_exact_derivatives(problem, "nonlinear_mpc")
    require_kind(
        "The model of nonlinear_mpc",
        problem.model,
        Reversible,
        "take a model with derivatives, such as SemiImplicit or Latent",
    )
    require_kind(
        "The effectors of nonlinear_mpc",
        effectors,
        (str, tuple, list),
        "give names, such as effectors=('tip',)",
    )
    effectors = (effectors,) if isinstance(effectors, str) else tuple(effectors)
    if not effectors:
        raise InputError(
            "nonlinear_mpc needs at least one effector; name one of the robot, such as "
            "effectors=('tip',)."
        )
    for name, value, least in (
        ("horizon", horizon, 1),
        ("delay", delay, 0),
        ("number of iterations", iterations, 1),
    ):
        if not is_integer(value) or value < least:
            raise InputError(
                f"The {name} of nonlinear_mpc is {quoted(value)}; give a whole number, {least} or "
                "more."
            )
    if not 0.0 < require_number("The gain of nonlinear_mpc", gain, "-") <= 1.0:
        raise InputError(f"The gain of nonlinear_mpc is {gain:g}; give one above 0, and at most 1.")
    if any(bound.order > 1 for bound in problem.control_bounds):
        raise InputError(
            "nonlinear_mpc cannot guarantee limits on accelerations beyond its horizon; limit the "
            "rate with Limit(order=1) instead."
        )
    controller = NonlinearController(
        problem=problem,
        effectors=effectors,
        program=HorizonProgram(problem=problem, horizon=int(horizon)),
        gain=float(gain),
        delay=int(delay),
        iterations=int(iterations),
    )
    controller._rows  # noqa: B018  # raises InputError for an unknown effector
    controller.program._bounds  # noqa: B018  # raises InputError for other sets
    return controller
