"""Inverse control: find in every control step the controls that move the effectors to their
targets [Rodriguez2017, section II].

A control step linearises the whole model once and factorises once. It solves for the motion with
unchanged controls (Step 1) and for the motion by each control. Condensed to the effectors this
gives a quadratic program of a few variables (Step 2), and its solution moves the state (Step 3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.bodies import Body
from pliant.core import (
    Array,
    EquilibriumModel,
    InputError,
    LinearizedStepModel,
    check_controls,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)
from pliant.planners.inverse_control.control_ranges import ControlRanges
from pliant.planners.inverse_control.control_state import (
    CONSTRAINT_VIOLATED,
    MOVING,
    READY,
    ControlState,
)
from pliant.planners.inverse_control.controller_log import ControllerLog, log_of
from pliant.planners.inverse_control.effector_tasks import EffectorTasks
from pliant.planners.inverse_control.motion_constraints import (
    ConstraintRows,
    MotionConstraint,
    ObstacleConstraint,
    StrokeConstraint,
    TautCableConstraint,
)
from pliant.planners.inverse_control.state_update import StateUpdate
from pliant.planners.inverse_control.step_outcome import with_manual_outcome, with_outcome
from pliant.planners.inverse_control.step_rule import Sensitivity, StepRule, largest_displacement
from pliant.planners.inverse_control.task_qp import (
    TaskQP,
    active_rows,
    nearest_admissible,
    task_qp,
)
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES, Tolerances

CONTRADICTION = "no controls satisfy all limits together; the controls stay unchanged"


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearizedStep:
    """The linearised model of a control step and its QP."""

    u: Array  # (n_controls,) at the start, after slack was taken up
    sensitivity: Sensitivity
    scale: Array  # (n,) [m per unit] displacement of a node by each free control
    qp: TaskQP  # over z = scale du
    ignores_contact: bool  # whether the QP is that of the robot without the obstacles it presses on


@dataclass(frozen=True, kw_only=True, eq=False)
class InverseController:
    """A controller that moves effectors to targets; made by `inverse_control`."""

    model: EquilibriumModel | LinearizedStepModel
    body: Body
    rule: StepRule
    tasks: EffectorTasks
    controls: ControlRanges
    cables: tuple[TautCableConstraint, ...]
    strokes: tuple[StrokeConstraint, ...]
    contact_forces: tuple[MotionConstraint, ...]
    obstacles: tuple[ObstacleConstraint, ...]
    max_step: float  # [m] largest displacement of a node in a control step
    length: float  # [m] of the robot
    tolerance: float  # of the length: a smaller error counts as reached
    tolerances: Tolerances = DEFAULT_TOLERANCES

    def begin(self, x: ArrayLike | None = None, u: ArrayLike | None = None) -> ControlState:
        """Return the equilibrium under controls u (None: the neutral ones), found from state x.

        A dynamic model starts at x as it is. Raises InputError if the state is inside an obstacle
        or outside a stroke."""
        given = self.controls.neutral if u is None else self._check_controls(u)
        u = self.controls.clip(given)
        if x is not None:
            x = finite_array("The first state", x, (self.model.space.size,))
        self._check_outside("rest shape" if x is None else "first state", x)
        start = self.rule.begin(x, u)
        q = self._position(start)
        for constraint in self.strokes:
            if not constraint.is_satisfied(q, q):
                raise InputError(
                    f"The robot begins with a displacement of {constraint.value(q):.3g}, but "
                    f"{constraint.stroke.label} goes from {constraint.stroke.lower:g} to "
                    f"{constraint.stroke.upper:g}; begin with other controls, or widen it."
                )
        return ControlState(k=0, x=start, u=u, positions=self.tasks.positions(q))

    def resume(self, x: ArrayLike, u: ArrayLike, k: int) -> ControlState:
        """Return the state x with controls u before control step k, in equilibrium or not.

        Raises InputError if a cell is inverted."""
        if not is_integer(k) or k < 0:
            raise InputError(
                f"The control step to resume from is {quoted(k)}; give a whole number, 0 or more."
            )
        x = finite_array("The state", x, (self.model.space.size,)).copy()
        q = self._position(x)
        inverted = self.body.inadmissible_cell(q)
        if inverted is not None:
            raise InputError(
                f"The state to resume from has an inverted cell ({inverted[1]}); give a state "
                "that the robot was in."
            )
        u = self.controls.clip(self._check_controls(u))
        return ControlState(k=k, x=x, u=u, positions=self.tasks.positions(q))

    def take_over(self, state: ControlState) -> ControlState:
        """Return a state of another controller of the same model with the effectors of this one."""
        self._check_model(state)
        return replace(
            state,
            u=self.controls.clip(state.u),
            positions=self.tasks.positions(self._position(state.x)),
            error=0.0,
            outcome=READY,
            message=READY,
        )

    def follow(self, state: ControlState, targets: ArrayLike) -> ControlState:
        """Take one control step towards targets (n_effectors, dim) [m]."""
        start, goal = perf_counter(), self.tasks.check_targets(targets)
        after = self._follow(self._checked(state), goal)
        error = self.tasks.error(after.positions, goal)[1]
        return replace(after, error=error, solve_seconds=perf_counter() - start)

    def _follow(self, state: ControlState, goal: Array) -> ControlState:
        step = self._linearize(state, goal)
        if isinstance(step, str):
            return self._update.back(state, step, state.u)
        solution = step.qp.solve()
        if solution is None:
            return self._with_unchanged_controls(state, step)
        z, violated = solution
        offset = step.scale * (step.u - self.controls.neutral)[self.controls.free_controls]
        z = step.qp.reduce_effort(z, offset, self._update.trust_radius(state))
        after = self._update.step(
            state,
            step.u,
            step.sensitivity,
            z / step.scale,
            ignore_constraints=bool(violated) or step.ignores_contact,
        )
        if not after.ok:
            return after
        violated = violated or self._violated(state, after, self._constraints)
        if not step.ignores_contact:
            after = replace(after, damping=self._next_damping(state, after, goal, step.qp, z))
        error = self.tasks.error(after.positions, goal)[1]
        near = self.tolerance * self.length
        return with_outcome(state, after, error, near, self.controls, step.qp, z, violated)

    def _with_unchanged_controls(self, state: ControlState, step: LinearizedStep) -> ControlState:
        """The state after no controls satisfy all limits: a dynamic robot goes on moving."""
        if self.rule.quasistatic:
            return self._update.stayed(state, CONTRADICTION)
        du = np.zeros(self.controls.free_controls.size)
        after = self._update.step(state, state.u, step.sensitivity, du, ignore_constraints=True)
        if not after.ok:
            return after
        return replace(after, u=state.u, outcome=CONSTRAINT_VIOLATED, message=CONTRADICTION)

    def track(
        self,
        targets: ArrayLike,
        *,
        start: ControlState | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> ControllerLog:
        """Follow targets (steps, n_effectors, dim) [m], one row for each control step.

        A path (steps, dim) is enough for one effector. The robot starts at rest, or at `start`.
        `progress(what, done, total)` is called before each control step. Returns a log with
        states, controls and errors; its `report(folder)` writes the page, plots and animation.
        Raises InputError if the targets have another shape or are not finite."""
        require_kind(
            "The array of targets",
            targets,
            (list, tuple, np.ndarray),
            "give an array with one row for each control step",
        )
        given: Sequence[Any] = targets  # type: ignore[assignment]  # checked above
        if not len(given):
            raise InputError("There are no targets; give one row for each control step.")
        path = len(self.tasks.names) == 1 and np.ndim(given[0]) == 1
        shape = self.tasks.shape[1:] if path else self.tasks.shape
        rows = finite_array("The array of targets", targets, (None, *shape), "m")
        rows = rows.reshape(len(rows), *self.tasks.shape)
        states = [self.begin() if start is None else self._checked(start)]
        for k, row in enumerate(rows):
            if progress is not None:
                progress("control steps", k, len(rows))
            states.append(self.follow(states[-1], row))
        return log_of(self.model, self.tasks.names, states, rows)

    def manual(self, state: ControlState, u: ArrayLike) -> ControlState:
        """Take one control step with given controls, or as close to them as limits and strokes
        allow. Obstacles push the robot, but do not stop the controls."""
        start = perf_counter()
        after = self._manual(self._checked(state), self.controls.clip(self._check_controls(u)))
        return replace(after, error=0.0, solve_seconds=perf_counter() - start)

    def _manual(self, state: ControlState, given: Array) -> ControlState:
        free_controls, near = self.controls.free_controls, self.tolerance * self.length
        u = np.maximum(self._without_slack(state), np.minimum(given, state.u))
        change = np.clip(given - state.u, *self.controls.step_bounds(state.u)) - (u - state.u)
        du = wanted = change[free_controls]
        sensitivity = self.rule.sensitivity(state.x, u, free_controls, state.k)
        if isinstance(sensitivity, str):
            return self._update.back(state, sensitivity, u)
        rows = self._rows(self.rule, sensitivity, u, self.strokes)
        rows += self._limit_point_rows(state, u)
        if rows:
            bounds, scale = self._step_bounds(state, u), self._scale(sensitivity)
            du = nearest_admissible(wanted, bounds, rows, scale, self._smallest, self.tolerances)
        after = self._update.step(
            state,
            u,
            sensitivity,
            du,
            ignore_constraints=True,
            may_snap=not self.model.robot.is_time_dependent,
        )
        if not after.ok:
            return after
        violated = self._violated(state, after, self.strokes)
        active = active_rows(rows, du, wanted, self.tolerances)
        return with_manual_outcome(state, after, given, near, self.controls, violated, active)

    def settle(
        self,
        state: ControlState,
        targets: ArrayLike,
        max_steps: int = 200,
        tolerance: float = 1e-6,
    ) -> ControlState:
        """Take control steps until no node moves by more than `tolerance` of the robot's length.

        After `max_steps` the message says that the robot is still moving."""
        if not is_integer(max_steps) or max_steps < 1:
            raise InputError(
                f"The argument max_steps is {quoted(max_steps)}; give a whole number, 1 or more."
            )
        near = self.length * require_positive(
            "The tolerance of settling", tolerance, "of the robot's length"
        )
        for _ in range(max_steps):
            before, state = state, self.follow(state, targets)
            still_trying = state.outcome == CONSTRAINT_VIOLATED and (
                not np.array_equal(state.u, before.u) or state.trust_radius < before.trust_radius
            )
            at_rest = state.displacement <= near < state.trust_radius
            if at_rest and state.outcome != MOVING and not still_trying:
                return state
        detail = "" if state.outcome == MOVING else f" ({state.message})"
        return replace(state, message=f"still moving after {max_steps} control steps{detail}")

    def quadratic_program(self, state: ControlState, targets: ArrayLike) -> TaskQP:
        """Return the quadratic program of the next control step."""
        step = self._linearize(self._checked(state), self.tasks.check_targets(targets))
        if isinstance(step, str):
            raise InputError(f"There is no quadratic program here: {step}.")
        return step.qp

    # Checks

    def _check_controls(self, u: ArrayLike) -> Array:
        return check_controls(u, self.model.n_controls)  # type: ignore[arg-type]

    def _check_outside(self, what: str, x: Array | None) -> None:
        """Raise InputError if a state is deeper in an obstacle than a control step moves."""
        q = self.body.rest if x is None else self._position(x)
        depth = max((-obstacle.gaps(q).min(initial=0.0) for obstacle in self.obstacles), default=0)
        if depth > self.max_step:
            raise InputError(
                f"The robot's {what} is {depth:.3g} m deep in an obstacle; move one of them, or "
                "exclude that contact with inverse_control(..., obstacles=...)."
            )

    def _checked(self, state: ControlState) -> ControlState:
        self._check_model(state)
        if state.positions.shape != self.tasks.shape:
            raise InputError(
                "The control state is one of other effectors; begin with controller.begin(), or "
                "continue with controller.take_over(state)."
            )
        finite_array("The state of the control state", state.x, state.x.shape)
        finite_array("The array of controls of the control state", state.u, state.u.shape)
        return state

    def _check_model(self, state: ControlState) -> None:
        require_kind(
            "The control state",
            state,
            ControlState,
            "begin with controller.begin(), and pass on the result of follow",
        )
        if state.x.shape != (self.model.space.size,) or state.u.shape != (self.model.n_controls,):
            raise InputError(
                "The control state is one of another robot; begin with controller.begin()."
            )

    # Parts of a control step

    def _position(self, x: Array) -> Array:
        return x[: self.model.space.n_dofs]

    @property
    def _smallest(self) -> float:
        """[m] a length that is a rounding error."""
        return self.tolerances.round_off * self.max_step

    @property
    def _constraints(self) -> tuple[MotionConstraint, ...]:
        return *self.cables, *self.strokes, *self.contact_forces, *self.obstacles

    @cached_property
    def _update(self) -> StateUpdate:
        return StateUpdate(
            body=self.body,
            rule=self.rule,
            tasks=self.tasks,
            controls=self.controls,
            strokes=self.strokes,
            constraints=self._constraints,
            max_step=self.max_step,
            length=self.length,
            tolerances=self.tolerances,
        )

    def _linearize(self, state: ControlState, goal: Array) -> LinearizedStep | str:
        """Step 1, and the QP of Step 2, or why there is none. One factor scales the errors of all
        effectors into the trust radius, so that the closest point stays the same."""
        u = self._without_slack(state)
        sensitivity = self.rule.sensitivity(state.x, u, self.controls.free_controls, state.k)
        if isinstance(sensitivity, str):
            return sensitivity
        rule, open_sensitivity = self._without_pressed_obstacles(state, u, sensitivity)
        error, distance = self.tasks.error(state.positions, goal)
        fraction = min(1.0, self._update.trust_radius(state) / max(distance, 1e-300))
        motions = np.column_stack([open_sensitivity.free_motion, open_sensitivity.columns])
        jacobian, scale = self.tasks.jacobian(motions), self._scale(open_sensitivity)
        rows = [
            *self._rows(
                self.rule, sensitivity, u, (*self.cables, *self.strokes, *self.contact_forces)
            ),
            *self._rows(rule, open_sensitivity, u, self.obstacles),
            *self._limit_point_rows(state, u),
        ]
        qp = task_qp(
            jacobian[:, 1:],
            fraction * self.tasks.sqrt_weights * error - jacobian[:, 0],
            *self._step_bounds(state, u),
            rows,
            scale,
            state.damping,
            self._smallest,
            self.tolerances,
        )
        return LinearizedStep(
            u=u,
            sensitivity=sensitivity,
            scale=scale,
            qp=qp,
            ignores_contact=open_sensitivity is not sensitivity,
        )

    def _without_pressed_obstacles(
        self, state: ControlState, u: Array, sensitivity: Sensitivity
    ) -> tuple[StepRule, Sensitivity]:
        """The rule and the sensitivity of the QP. An obstacle that the robot presses on holds it,
        so that no control seems to move it away. Then the QP is that of the robot without
        obstacles, which only the rows keep out."""
        if any((obstacle.gaps(sensitivity.q) < 0.0).any() for obstacle in self.obstacles):
            rule, free_controls = self._rule_without_obstacles, self.controls.free_controls
            found = rule.sensitivity(state.x, u, free_controls, state.k)
            if not isinstance(found, str):
                return rule, found
        return self.rule, sensitivity

    @cached_property
    def _rule_without_obstacles(self) -> StepRule:
        return self.rule.without_contacts([obstacle.term.contact for obstacle in self.obstacles])

    def _rows(
        self,
        rule: StepRule,
        sensitivity: Sensitivity,
        u: Array,
        constraints: Sequence[MotionConstraint],
    ) -> list[ConstraintRows]:
        """The rows at the end of the control step, and at the end of the horizon if it is later."""
        soon, free_controls = rule.at_step_end(sensitivity), self.controls.free_controls
        rows = [constraint.rows(soon, u, free_controls) for constraint in constraints]
        return rows + [
            constraint.rows(sensitivity, u, free_controls)
            for constraint in constraints
            if constraint.over_horizon and soon is not sensitivity
        ]

    def _limit_point_rows(self, state: ControlState, u: Array) -> list[ConstraintRows]:
        return [point.rows(u, self.controls.free_controls) for point in state.limit_points]

    def _scale(self, sensitivity: Sensitivity) -> Array:
        """(n,) [m per unit], 1 for a control that moves nothing."""
        motions = largest_displacement(self.body, sensitivity.columns)
        return np.where(motions > 1e-12 * motions.max(initial=0.0), motions, 1.0)

    def _step_bounds(self, state: ControlState, u: Array) -> tuple[Array, Array]:
        """((n,), (n,)) the bounds on the change of the free controls from u, after slack was taken
        up."""
        lower, upper = self.controls.step_bounds(state.u)
        taken, free_controls = u - state.u, self.controls.free_controls
        return (lower - taken)[free_controls], (upper - taken)[free_controls]

    def _without_slack(self, state: ControlState) -> Array:
        """(n_controls,) the controls after slack was taken up, which moves nothing."""
        u, (lower, upper) = state.u.copy(), self.controls.step_bounds(state.u)
        for cable in self.cables:
            j, taut = cable.control, cable.taut_control(self._position(state.x))
            u[j] += np.clip(min(taut - u[j], 0.0), lower[j], upper[j])
        return u

    def _violated(
        self, state: ControlState, after: ControlState, constraints: Sequence[MotionConstraint]
    ) -> tuple[str, ...]:
        """The names of the constraints that a dynamic step violated; a quasistatic one would have
        been rejected."""
        if self.rule.quasistatic:
            return ()
        before, q = self._position(state.x), self._position(after.x)
        names = (one.name for one in constraints if not one.is_satisfied(before, q))
        return tuple(dict.fromkeys(names))

    def _next_damping(
        self, state: ControlState, after: ControlState, goal: Array, qp: TaskQP, z: Array
    ) -> float:
        """The damping of the next QP by Levenberg and Marquardt, from the actual and the predicted
        reduction of the squared error."""
        error, distance = self.tasks.error(state.positions, goal)
        less = max(self.tolerances.min_damping, 0.25 * state.damping)
        if distance <= self.tolerance * self.length or not self.rule.quasistatic:
            return less
        fraction = min(1.0, self._update.trust_radius(state) / distance)
        reduced = state.positions + fraction * (goal - state.positions)
        left = self.tasks.error(after.positions, reduced)[0]
        w, e = self.tasks.sqrt_weights, qp.e - qp.J @ z
        start, end = np.sum((w * fraction * error) ** 2), np.sum((w * left) ** 2)
        predicted = start - e @ e
        if predicted <= self.tolerances.round_off * start:
            return state.damping
        ratio = (start - end) / predicted
        if ratio < 0.25:
            return float(min(4.0 * max(state.damping, 1e-4), 1e2))
        return less if ratio > 0.75 else state.damping
