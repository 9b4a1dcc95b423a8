"""Model predictive control: follow a plan in receding horizon from measured effector positions
[Menager2024, future work].

The prediction model is linear about the plan. Its impulse response G[k, j] = dp_{k+1+j}/du_k is the
exact sensitivity of the full model along the plan and is computed once. The difference between
measurement and prediction is a position disturbance d. A filter with constant gain estimates d, and
the prediction keeps it constant. So unknown forces and material errors leave no steady-state error
(offset-free control). Each step solves a small quadratic program over the horizon and applies the
first control.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    counted,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_number,
)
from pliant.dynamics.simulation import iterate_steps
from pliant.planners.plan_result import Plan, check_exact_derivatives
from pliant.planners.trust_region import solve_qp
from pliant.problem import ControlBound, Problem

# of the plan's motion: a control that moves the effectors less is not used by the plan
NEGLIGIBLE_MOTION = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class ControllerState:
    """The state of a controller at step k."""

    k: int
    # (response_steps, n_controls) past controls minus those of the plan, latest last
    control_deviations: Array
    disturbance: Array  # (n_positions,) [m] estimated position error of the model


@dataclass(frozen=True, kw_only=True, eq=False)
class RecedingHorizonController:
    """A controller made by `mpc`. After the end of the plan it holds the plan's last control."""

    effectors: tuple[str, ...]
    # (steps + response_steps, n_positions) [m] along the plan and after it
    planned_positions: Array
    reference: Array  # (n, n_positions) [m] at steps 0, 1, ...; the last row holds afterwards
    controls: Array  # (steps, n_controls)
    response: Array  # (steps, response_steps, n_positions, n_controls) [m per unit] G
    control_bounds: tuple[ControlBound, ...]
    previous_control: Array  # (n_controls,) before the first step
    horizon: int  # steps
    gain: float  # of the disturbance filter, between 0 and 1
    effort: float  # weight of control changes, relative to their range and the motion's size

    @property
    def _last(self) -> int:
        return len(self.controls) - 1

    def begin(self) -> ControllerState:
        """Return the state before the first step."""
        _, response_steps, n_positions, m = self.response.shape
        return ControllerState(
            k=0,
            control_deviations=np.zeros((response_steps, m)),
            disturbance=np.zeros(n_positions),
        )

    def predicted_positions(self, state: ControllerState) -> Array:
        """Return the predicted effector positions (n_positions,) [m] without disturbance."""
        return self._free_response(state)[0]

    def _free_response(self, state: ControllerState) -> Array:
        """Return the positions (horizon + 1, n_positions) [m] from step k on for planned controls.

        Past control deviations are included.
        """
        k, J, H = state.k, self.response.shape[1], self.horizon
        last = len(self.planned_positions) - 1
        out = self.planned_positions[np.minimum(np.arange(k, k + H + 1), last)].copy()
        # u_{k-back} acts on p_{k-back+1+j}, hence on p_{k+i} with j = back - 1 + i
        for back in range(1, min(J, k) + 1):
            G = self.response[min(k - back, self._last), back - 1 :][: H + 1]
            out[: len(G)] += G @ state.control_deviations[-back]
        return out

    def update_disturbance(self, state: ControllerState, measurement: Array) -> ControllerState:
        """Return the state with the disturbance filtered by a measurement (n_positions,) [m]."""
        measured = finite_array(
            "The measurement", np.ravel(measurement), state.disturbance.shape, "m"
        )
        error = measured - self.predicted_positions(state) - state.disturbance
        return replace(state, disturbance=state.disturbance + self.gain * error)

    def act(
        self, state: ControllerState, measurement: Array | None
    ) -> tuple[Array, ControllerState]:
        """Return the control (n_controls,) of step k and the next controller state.

        `measurement` has the effector positions (n_positions,) [m]; None if there is none. Raises
        InputError for a state that is no ControllerState or for a bad measurement.
        """
        require_kind(
            "The state of the controller",
            state,
            ControllerState,
            "start with controller.begin(), then pass the state that act returns",
        )
        state = state if measurement is None else self.update_disturbance(state, measurement)
        planned = self.controls[min(state.k, self._last)]
        u = np.clip(planned + self._optimal_deviations(state)[0], *self._limits)
        deviations = np.concatenate([state.control_deviations[1:], (u - planned)[None]])
        return u, replace(state, k=state.k + 1, control_deviations=deviations)

    def _optimal_deviations(self, state: ControllerState) -> Array:
        """Return the control deviations (horizon, n_controls) that minimise the tracking error."""
        k, H, m = state.k, self.horizon, self.controls.shape[1]
        ahead = np.minimum(np.arange(k + 1, k + H + 1), len(self.reference) - 1)
        error = (self._free_response(state)[1:] + state.disturbance - self.reference[ahead]).ravel()
        F = self._forced_response(min(k, self._last))
        weight = self.effort * np.tile(self._effort_scale, H) ** 2
        # Only changes of the deviation have a cost, so a constant one leaves no steady-state error.
        change = np.eye(H * m) - np.eye(H * m, k=-m)
        before = np.concatenate([state.control_deviations[-1], np.zeros((H - 1) * m)])
        P = F.T @ F + change.T @ (weight[:, None] * change)
        g = F.T @ error - change.T @ (weight * before)
        scale = max(float(np.abs(np.diag(P)).max()), 1e-300)
        none = sp.csc_matrix((0, H * m))
        found = solve_qp(
            sp.csc_matrix(P / scale), g / scale, none, np.zeros(0), *self._limit_rows(state)
        )
        return found.reshape(H, m)

    def _limit_rows(self, state: ControllerState) -> tuple[sp.csc_matrix, Array, Array]:
        """Return (G, low, high): low <= G deviations <= high for all limits over the horizon."""
        k, H, m = state.k, self.horizon, self.controls.shape[1]
        now = self.controls[np.minimum(np.arange(k, k + H), self._last)]
        used = lambda j: (
            self.controls[min(k - j, self._last)] + state.control_deviations[-j]
            if k >= j
            else self.previous_control
        )  # u_{k-j}
        G, low, high = [], [], []
        for bound in self.control_bounds:
            c = bound.stencil
            whole = np.concatenate([*(used(j)[None] for j in range(len(c) - 1, 0, -1)), now])
            value = sum(
                (c[j] * whole[len(c) - 1 - j : len(c) - 1 - j + H] for j in range(len(c))),
                np.zeros((H, m)),
            )
            G.append(
                sp.diags(
                    [np.full((H - j) * m, c[j]) for j in range(min(len(c), H))],
                    [-j * m for j in range(min(len(c), H))],
                    shape=(H * m, H * m),
                )
            )
            low.append((bound.lower - value).ravel())
            high.append((bound.upper - value).ravel())
        return sp.vstack(G, format="csc"), np.concatenate(low), np.concatenate(high)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        """Lower and upper bounds (n_controls,) of the controls."""
        own = [bound for bound in self.control_bounds if bound.order == 0]
        return np.max([bound.lower for bound in own], axis=0), np.min(
            [bound.upper for bound in own], axis=0
        )

    @cached_property
    def _effort_scale(self) -> Array:
        """Size of the motion per range of each control, (n_controls,) [m per unit].

        The range of an unlimited control is its largest planned value. If the plan hardly uses it,
        its range is the control that moves the effectors as far as the plan does."""
        lower, upper = self._limits
        gain = np.abs(self.response.sum(axis=1)).max(axis=(0, 1))  # [m per unit] static
        gain = np.where(gain > 0.0, gain, gain.max())
        planned = np.abs(self.controls).max(axis=0)
        used = planned * gain > NEGLIGIBLE_MOTION * self._size
        width = np.where(np.isfinite(upper - lower), upper - lower, np.where(used, planned, np.inf))
        return np.where(np.isfinite(width), self._size / width, gain)

    @cached_property
    def _size(self) -> float:
        """Size of the motion [m]."""
        return max(float(np.linalg.norm(self.reference - self.reference[0], axis=1).max()), 1e-300)

    def _forced_response(self, k: int) -> Array:
        """Return d positions / d deviations (horizon n_positions, horizon n_controls)."""
        _, J, r, m = self.response.shape
        F = np.zeros((self.horizon, r, self.horizon, m))
        for i in range(self.horizon):
            G = self.response[min(k + i, self._last)]
            n = min(J, self.horizon - i)
            F[i : i + n, :, i] = G[:n]
        return F.reshape(self.horizon * r, self.horizon * m)


def mpc(
    problem: Problem,
    plan: Plan,
    *,
    effectors: tuple[str, ...] | str,
    reference: Array | None = None,
    horizon: int = 20,
    response_steps: int = 60,
    gain: float = 0.2,
    effort: float = 1e-3,
) -> RecedingHorizonController:
    """Return a model predictive controller that follows a plan from measured positions.

    Parameters
    ----------
    problem : the problem of the plan; its limits hold, its constraints are ignored
    plan : the plan to follow
    effectors : names of the measured effectors
    reference : target positions (n, n_positions) [m] at steps 0, 1, ..., the last row holds
        afterwards; None for the positions of the plan
    horizon : prediction horizon, in steps
    response_steps : number of steps for which a control has an effect; at least as long as
        vibrations last
    gain : gain of the disturbance filter, above 0 and at most 1; a small gain suppresses noise
    effort : weight of control changes, relative to their range and the motion's size

    Raises InputError if the plan does not belong to the problem or no control moves the effectors.

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-10.0, 10.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> terms = [pl.Goal(effector="tip", target=(0.1, 0.0)), pl.Effort(weight=1e-6)]
    >>> problem = pl.Problem(model=pl.ImplicitEuler(robot, dt=0.1), steps=5, terms=terms)
    >>> controller = pl.mpc(problem, pl.plan(problem), effectors="tip", horizon=5)
    >>> state = controller.begin()
    >>> u, state = controller.act(state, measurement=(0.0, 0.01))  # the tip is too high
    >>> bool(u[1] < 0.0)
    True
    """
    check_exact_derivatives(problem, "mpc")
    require_kind(
        "The plan of mpc", plan, Plan, "give what a planner returned, not its controls alone"
    )
    effectors = (effectors,) if isinstance(effectors, str) else effectors
    problem.check_plannable()
    require_kind(
        "The model of mpc",
        problem.model,
        Linearizable,
        "take a rule with `linearize`, such as SemiImplicit",
    )
    for name, value in (("horizon", horizon), ("response_steps", response_steps)):
        if not is_integer(value) or value < 1:
            raise InputError(
                f"The {name} of mpc is {quoted(value)}; give a whole number of steps, 1 or more."
            )
    if not 0.0 < require_number("The gain of mpc", gain, "-") <= 1.0:
        raise InputError(f"The gain of mpc is {gain:g}; give one above 0, and at most 1.")
    if not 0.0 < require_number("The effort of mpc", effort, "-") < np.inf:
        raise InputError(f"The effort of mpc is {effort:g}; give a positive weight.")
    if plan.controls.shape != (problem.steps, problem.model.n_controls):
        raise InputError(
            f"The plan has controls {plan.controls.shape}, but the problem needs "
            f"{(problem.steps, problem.model.n_controls)}; give the problem that was planned."
        )
    if plan.states.shape != (problem.steps + 1, problem.model.space.size):
        raise InputError(
            f"The plan's states have {counted(plan.states.shape[1], 'number')}, but the problem's "
            f"model {problem.model.space.size}; give the problem that was planned."
        )
    if not effectors:
        raise InputError(
            "mpc needs at least one effector; name one of the robot, such as effectors=('tip',)."
        )
    rows = sp.vstack([problem.model.effector_rows(name) for name in effectors], format="csr")
    positions, G = effector_responses(problem, plan.controls, rows, response_steps)
    planned = np.array([rows @ problem.model.space.position(x) for x in plan.states])
    if not np.allclose(
        positions[: len(planned)],
        planned,
        rtol=0.0,
        atol=1e-6 * max(float(np.ptp(planned, axis=0).max()), 1e-9),
    ):
        raise InputError(
            "The plan's controls give another motion in this problem: its time step, initial state "
            "or robot differs; give the problem that was planned."
        )
    goal = (
        planned
        if reference is None
        else finite_array("The reference of mpc", reference, (None, planned.shape[1]), "m")
    )
    if not np.any(G):
        raise InputError(
            f"No control moves the effectors {', '.join(effectors)} (W_ea = 0); attach actuators "
            "that move them, or name other effectors."
        )
    return RecedingHorizonController(
        effectors=tuple(effectors),
        planned_positions=positions,
        reference=goal,
        controls=plan.controls,
        response=G,
        control_bounds=problem.control_bounds,
        previous_control=problem.previous_control,
        horizon=horizon,
        gain=float(gain),
        effort=float(effort),
    )


def effector_responses(
    problem: Problem, controls: Array, rows: sp.csr_matrix, response_steps: int
) -> tuple[Array, Array]:
    """Return effector positions and their impulse responses G along controls, by forward sweeps.

    The positions are (steps + response_steps, n_positions) [m]; the last control holds after the
    end. G is (steps, response_steps, n_positions, n_controls).
    """
    model: Linearizable = problem.model  # type: ignore[assignment]  # checked by mpc
    N, m = len(controls), model.n_controls
    longer = np.concatenate([controls, np.tile(controls[-1], (response_steps - 1, 1))])
    p = None if problem.params is None else np.asarray(problem.params, float)
    positions = [rows @ model.space.position(problem.initial_state)]
    G = np.zeros((N, response_steps, rows.shape[0], m))
    S, first = np.zeros((model.space.size, 0)), 0  # columns of the controls first, first + 1, ...
    for t, (_, step) in enumerate(
        iterate_steps(model, longer, len(longer), problem.initial_state, p)
    ):
        positions.append(rows @ model.space.position(step.x))
        lin = model.linearize(step)
        S = lin.jvp(S) if S.shape[1] else S
        S = np.concatenate([S, lin.dense_controls()], axis=1) if t < N else S
        seen = (rows @ S[: model.space.n_dofs]).reshape(rows.shape[0], -1, m)
        for j in range(seen.shape[1]):
            G[first + j, t - first - j] = seen[:, j]
        if t - first + 1 >= response_steps:
            S, first = S[:, m:], first + 1
    return np.array(positions), G
