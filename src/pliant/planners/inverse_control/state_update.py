"""The state after a control step, with a return to the last stable equilibrium if it fails."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant.bodies import Body
from pliant.core import Array, StepError
from pliant.planners.inverse_control.control_ranges import ControlRanges
from pliant.planners.inverse_control.control_state import CONSTRAINT_VIOLATED, MOVING, ControlState
from pliant.planners.inverse_control.effector_tasks import EffectorTasks
from pliant.planners.inverse_control.limit_points import (
    LimitPoint,
    StableEquilibrium,
    with_limit_point,
)
from pliant.planners.inverse_control.motion_constraints import MotionConstraint, StrokeConstraint
from pliant.planners.inverse_control.step_rule import (
    Sensitivity,
    StepFailure,
    StepRule,
    largest_displacement,
)
from pliant.planners.inverse_control.tolerances import Tolerances

REJECTED = "the time step fails with the new controls; the controls stay unchanged"
RETURNED = "returned towards the last stable equilibrium"
NO_RETURN = "its limits prevent a return"


@dataclass(frozen=True, kw_only=True, eq=False)
class StateUpdate:
    """The update of the control state by a change of the controls."""

    body: Body
    rule: StepRule
    tasks: EffectorTasks
    controls: ControlRanges
    strokes: Sequence[StrokeConstraint]  # satisfied in any case
    constraints: Sequence[MotionConstraint]  # all of them, with the strokes
    max_step: float  # [m] largest displacement of a node in a control step
    length: float  # [m] of the robot
    tolerances: Tolerances

    def trust_radius(self, state: ControlState) -> float:
        """[m] largest displacement that the next control step may try."""
        least = self.tolerances.active_bound * self.length
        return float(np.clip(state.trust_radius, least, self.max_step))

    @cached_property
    def _resolution(self) -> float:
        """[m] of limit points."""
        return self.tolerances.limit_point_resolution * self.length

    def _position(self, x: Array) -> Array:
        """(n_dofs,) of a state."""
        return x[: self.body.rest.size]

    def _size(self, step: Array) -> float:
        return float(largest_displacement(self.body, step))

    def step(
        self,
        state: ControlState,
        u: Array,
        sensitivity: Sensitivity,
        du: Array,
        *,
        ignore_constraints: bool,
        may_snap: bool = False,
    ) -> ControlState:
        """Return the state after a step along du (n,) from controls u.

        Strokes are satisfied in any case, other constraints unless `ignore_constraints`. A robot
        that is released `may_snap` to the equilibrium that is found from the rest shape."""
        constraints = self.strokes if ignore_constraints else self.constraints
        before, free_controls = self._position(state.x), self.controls.free_controls
        state = self._with_stability(state, u, sensitivity)
        result = self.rule.advance(
            sensitivity,
            u,
            du,
            free_controls,
            self.trust_radius(state),
            lambda q: _satisfied(constraints, before, q),
        )
        if isinstance(result, StepFailure):
            return self._failed(state, u, sensitivity, du, result, may_snap)
        change, rejected = np.zeros_like(u), result.fraction == 0.0 and bool(du.any())
        change[free_controls] = result.fraction * du
        after = self._at(state, result.x, self.controls.add_change(u, change), MOVING, "moving")
        after = replace(
            after,
            trust_radius=result.trust_radius,
            limit_points=tuple(
                point
                for point in state.limit_points
                if self._size(self._position(after.x - point.start.x)) <= point.radius
            ),
        )
        if rejected and not self.rule.quasistatic:
            return replace(after, outcome=CONSTRAINT_VIOLATED, message=REJECTED)
        unchanged = np.array_equal(after.u, u)
        if state.stable_equilibrium is None or not self._irreversible or unchanged:
            return after
        return self._checked_irreversible(state, state.stable_equilibrium, after)

    def _at(
        self, state: ControlState, x: Array, u: Array, outcome: str, message: str
    ) -> ControlState:
        """The next state at (x, u)."""
        return replace(
            state,
            k=state.k + 1,
            x=x,
            u=u,
            positions=self.tasks.positions(self._position(x)),
            displacement=self._size(self._position(x - state.x)),
            outcome=outcome,
            message=message,
        )

    def stayed(self, state: ControlState, why: str) -> ControlState:
        """Return the same state after a control step that failed."""
        return self._at(state, state.x, state.u, CONSTRAINT_VIOLATED, why)

    def _failed(
        self,
        state: ControlState,
        u: Array,
        sensitivity: Sensitivity,
        du: Array,
        failure: StepFailure,
        may_snap: bool,
    ) -> ControlState:
        lost = failure is StepFailure.NO_EQUILIBRIUM or (
            not state.is_stable and (not sensitivity.stable or bool(state.limit_points))
        )
        if not (lost and self.rule.quasistatic):  # a shorter step may succeed
            return replace(self.stayed(state, failure.value), trust_radius=self._resolution)
        snapped = self._snapped(state, u, du) if may_snap else None
        return snapped or self.back(state, failure.value, u)

    # Motions that cannot be reversed

    @cached_property
    def _irreversible(self) -> bool:
        """Whether some motion cannot be reversed: then a step must not end unstable."""
        return self.rule.quasistatic and (
            self.controls.irreversible or any(stroke.irreversible for stroke in self.strokes)
        )

    def _checked_irreversible(
        self, state: ControlState, stable: StableEquilibrium, after: ControlState
    ) -> ControlState:
        """Return `after` if the robot comes to rest there, else `state` with a limit point."""
        if self._comes_to_rest(stable if state.is_stable else None, after):
            return after
        limit_points = with_limit_point(
            state.limit_points, stable, after.u, self._resolution, self.max_step
        )
        if limit_points is state.limit_points:  # no control that moves the robot has changed
            return self.stayed(state, StepFailure.NO_EQUILIBRIUM.value)
        return replace(
            self._at(state, state.x, state.u, MOVING, "moving"),
            trust_radius=self._resolution,
            limit_points=limit_points,
        )

    def _comes_to_rest(self, stable: StableEquilibrium | None, state: ControlState) -> bool:
        """Return whether the robot comes to rest from a state with unchanged controls, and not too
        soft relative to `stable`. A robot softened by a load (None) may still move."""
        x, free_controls = state.x, self.controls.free_controls
        for _ in range(self.tolerances.max_halvings):
            found = self.rule.sensitivity(x, state.u, free_controls, state.k - 1)
            if isinstance(found, str):
                return False
            if found.stable and self._size(found.free_motion) <= self._resolution:
                return stable is None or self._moved(stable, x, state.u, found) is not None
            result = self.rule.advance(
                found,
                state.u,
                np.zeros(free_controls.size),
                free_controls,
                self.max_step,
                lambda q: True,
            )
            if isinstance(result, StepFailure):
                return False
            x = result.x
        return False

    # Stability

    def _moved(
        self, stable: StableEquilibrium | None, x: Array, u: Array, sensitivity: Sensitivity
    ) -> StableEquilibrium | None:
        """The stable equilibrium at (x, u), None if it is too soft relative to `stable`."""
        mobility = np.zeros(len(self.controls.names))
        mobility[self.controls.free_controls] = largest_displacement(self.body, sensitivity.columns)
        first = StableEquilibrium(x=x, u=u, mobility=mobility)
        return (stable or first).moved_to(x, u, mobility, self.tolerances)

    def _with_stability(
        self, state: ControlState, u: Array, sensitivity: Sensitivity
    ) -> ControlState:
        """Return the state with its last stable equilibrium and limit points updated at (x, u)."""
        rest = self._size(sensitivity.free_motion)
        stable = (
            self._moved(state.stable_equilibrium, state.x, u, sensitivity)
            if sensitivity.stable and rest <= self.tolerances.equilibrium_distance * self.length
            else None
        )
        known = state.stable_equilibrium
        if stable is None and known is not None and state.is_stable and np.array_equal(known.u, u):
            # a change of the loads has made the last stable equilibrium unstable
            return replace(state, stable_equilibrium=None, limit_points=())
        return replace(
            state,
            stable_equilibrium=stable or known,
            limit_points=tuple(
                point.bisected(stable)
                if point.unresolved and point.is_active(u) and rest <= point.resolution
                else point
                for point in state.limit_points
                if not self._is_outdated(point, state.x, u, sensitivity)
            ),
        )

    def _is_outdated(self, point: LimitPoint, x: Array, u: Array, sensitivity: Sensitivity) -> bool:
        """Return whether loads have changed since a limit point was found: the equilibrium under
        the same controls is elsewhere."""
        tolerance = self.tolerances.active_bound
        if point.last is None or not np.allclose(point.last.u, u, rtol=tolerance, atol=0.0):
            return False
        shift = self._position(x) + sensitivity.free_motion - self._position(point.last.x)
        return self._size(shift) > 3.0 * point.resolution

    # The way back

    def back(self, state: ControlState, why: str, u: Array) -> ControlState:
        """Return the state after no equilibrium was found for controls u.

        The robot returns to its last stable equilibrium as far as rates and strokes allow, and
        remembers the limit point. Without one, or at it, the controls are released a little. A
        dynamic robot stays."""
        stable = state.stable_equilibrium
        if not self.rule.quasistatic:
            return self.stayed(state, why)
        if stable is None or state.is_stable:
            return self._released(state, why)
        distance = self._size(self._position(state.x - stable.x))
        limit_points = with_limit_point(
            state.limit_points, stable, u, self._resolution, distance + self.max_step
        )
        return replace(self._returned(state, stable, why), limit_points=limit_points)

    def _released(self, state: ControlState, why: str) -> ControlState:
        """Controls a little closer to the neutral ones, as rates allow."""
        neutral = self.controls.neutral
        less = self.controls.clip(neutral + self.tolerances.release * (state.u - neutral))
        u = state.u + np.clip(less - state.u, *self.controls.step_bounds(state.u))
        stuck = np.array_equal(u, state.u) and not np.array_equal(less, state.u)
        return replace(self.stayed(state, f"{why}; {NO_RETURN}" if stuck else why), u=u)

    def _returned(self, state: ControlState, stable: StableEquilibrium, why: str) -> ControlState:
        """The last stable equilibrium, or as close as rates and strokes allow."""
        x, before = state.x, self._position(state.x)
        for fraction in 0.5 ** np.arange(self.tolerances.max_halvings):
            nearer = state.x + fraction * (stable.x - state.x)
            if _satisfied(self.strokes, before, self._position(nearer)):
                x = nearer
                break
        bounds = self.controls.step_bounds(state.u)
        u = self.controls.clip(state.u + np.clip(stable.u - state.u, *bounds))
        stuck = np.array_equal(x, state.x) and np.array_equal(u, state.u)
        message = f"{why}; {NO_RETURN if stuck else RETURNED}"
        after = self._at(state, x, u, CONSTRAINT_VIOLATED, message)
        return replace(after, trust_radius=self._resolution)

    def _snapped(self, state: ControlState, u: Array, du: Array) -> ControlState | None:
        """The equilibrium found from the rest shape after a release, such as that of a robot that
        slips off an obstacle. None if the controls are not released, or if there is none."""
        neutral, free_controls, new = self.controls.neutral, self.controls.free_controls, u.copy()
        away = np.abs(u - neutral)
        most = (1.0 - self.tolerances.release) * away[free_controls]
        new[free_controls] += np.clip(du, -most, most)
        if np.array_equal(new, u) or np.any(np.abs(new - neutral) > away):
            return None
        try:
            x = self.rule.begin(None, new)
        except StepError:
            return None
        if not _satisfied(self.strokes, self._position(state.x), self._position(x)):
            return None
        return replace(
            self._at(state, x, new, MOVING, "moving"),
            trust_radius=self._resolution,
            stable_equilibrium=None,
            limit_points=(),
        )


def _satisfied(constraints: Sequence[MotionConstraint], before: Array, q: Array) -> bool:
    return all(constraint.is_satisfied(before, q) for constraint in constraints)
