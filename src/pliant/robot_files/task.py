"""Tasks of robot files (section [task]): simulate the robot, plan its motion, or follow target
paths by inverse control."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    counted,
    finite_array,
    nearest,
    require_positive,
)
from pliant.dynamics import BDF2, ImplicitEuler, Quasistatic, SemiImplicit
from pliant.geometry import Surface
from pliant.problem import Constraint, Effort, Goal, Limit, Problem, StrokeLimit
from pliant.robot import Robot, RobotDescription


class TaskError(InputError):
    """An invalid part of a task."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place  # its key in [task], such as "goals[0]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Keyframes:
    """A vector over time: linear between keyframes, constant before the first and after the
    last."""

    times: Array  # (n,) [s], increasing
    values: Array  # (n, m)

    def __post_init__(self) -> None:
        times = finite_array("The array of times of the keyframes", self.times, (None,), "s")
        values = finite_array("The array of values of the keyframes", self.values, (None, None))
        if len(times) != len(values) or len(times) == 0:
            raise InputError(
                f"The keyframes have {counted(times.size, 'time')} for "
                f"{counted(len(values), 'row')} of values; give one row for each time."
            )
        late = np.flatnonzero(np.diff(times) <= 0.0) + 1
        if late.size:
            raise InputError(
                f"Keyframe {late[0]} at {times[late[0]]:g} s is not after the one before it; "
                "sort the times."
            )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)

    def __call__(self, time: float) -> Array:
        """Return the vector at a time [s], (m,)."""
        return np.array([np.interp(time, self.times, column) for column in self.values.T])


def constant(*values: float) -> Keyframes:
    """Return keyframes with the same vector at all times."""
    return Keyframes(times=np.zeros(1), values=np.array([values], float))


NO_CONTROLS = constant()
QUASISTATIC = "quasistatic"
RULES: dict[str, Callable[..., Linearizable]] = {
    "implicit-euler": ImplicitEuler,
    "bdf2": BDF2,
    "semi-implicit": SemiImplicit,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanningObjective:
    """A task of type "plan": the terms, limits and constraints of a planning problem."""

    terms: Sequence[Goal | Effort]
    limits: Sequence[Limit] = ()
    constraints: Sequence[Constraint | StrokeLimit] = ()
    method: str | None = None  # None: the planner that fits the model
    iterations: int = 200

    @classmethod
    def checked(
        cls,
        *,
        goals: Sequence[Goal],
        effort: Sequence[Effort],
        limits: Sequence[Limit],
        constraints: Sequence[Constraint | StrokeLimit],
        method: str | None,
        iterations: int,
    ) -> "PlanningObjective":
        """Return an objective. Raises `InputError` without a goal or an iteration."""
        if not goals:
            raise InputError("There is no goal to plan for; add [[task.goals]] with an effector.")
        if iterations < 1:
            raise InputError(f"The number of iterations is {iterations}; give 1 or more.")
        return cls(
            terms=(*goals, *effort),
            limits=tuple(limits),
            constraints=tuple(constraints),
            method=method,
            iterations=iterations,
        )

    def problem(self, model: Linearizable, steps: int) -> Problem:
        """Return the planning problem on a model."""
        return Problem(
            model=model,
            steps=steps,
            terms=self.terms,
            limits=self.limits,
            constraints=self.constraints,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetPath:
    """A path that an effector follows in a task of type "follow"."""

    effector: str
    times: Array  # (n,) [s], or step numbers of a quasistatic task
    values: Array  # (n, dim) [m], linear between the times
    weight: float = 1.0
    axes: str | None = None  # the controlled coordinates, such as "xz"; None: all

    @property
    def keyframes(self) -> Keyframes:
        return Keyframes(times=self.times, values=self.values)


@dataclass(frozen=True, kw_only=True, eq=False)
class FollowingObjective:
    """A task of type "follow": paths of effectors, and the constraints of inverse control."""

    paths: Sequence[TargetPath]
    limits: Sequence[Limit] = ()
    strokes: Sequence[StrokeLimit] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.0  # [m] final distance to a target that counts as reached
    obstacles: bool = True  # whether the robot avoids its contacts

    def targets(self, steps: int, dt: float) -> Array:
        """Return the targets (steps, n_effectors, dim) [m] at the end of each control step."""
        times = dt * np.arange(1, steps + 1)
        paths = [path.keyframes for path in self.paths]
        return np.array([[path(time) for path in paths] for time in times])


@runtime_checkable
class FittedParameters(Protocol):
    """An objective that fits parameters of the model."""

    @property
    def design(self) -> Sequence[str]: ...


Objective = PlanningObjective | FollowingObjective | FittedParameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A robot, a time-stepping rule, and a simulation or an objective."""

    robot: Robot
    rule: str
    dt: float  # [s]; of a quasistatic task 1, so that its time counts steps
    steps: int
    controls: Keyframes  # values (n, n_controls), of a simulation
    objective: Objective | None = None  # None: a simulation
    # the surface and the cell size [m], if the mesh was created by filling a surface
    fill_source: tuple[Surface, float] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.rule not in (QUASISTATIC, *RULES):
            raise InputError(
                f"There is no rule '{self.rule}'; {nearest(self.rule, (QUASISTATIC, *RULES))}"
            )
        require_positive("The time step dt", self.dt, "s")
        if self.rule == QUASISTATIC and self.dt != 1.0:
            raise InputError(
                f"The time step dt is {self.dt:g} s, but the time of a quasistatic task is its "
                "step number; remove dt."
            )
        if self.steps < 1:
            raise InputError(f"The number of steps is {self.steps}; give 1 or more.")
        check_controls(self.controls.values, self.robot)

    def control(self, k: int) -> Array:
        """Return the controls of step k, (n_controls,): those at the end of the step, as for moving
        supports."""
        return self.controls((k + 1) * self.dt)

    def problem(self, model: Linearizable) -> Problem:
        """Return the planning problem of the task on a model. Raises `InputError` unless its type
        is "plan"."""
        if not isinstance(self.objective, PlanningObjective):
            raise InputError('This task is not a plan; give it type = "plan" and goals.')
        return self.objective.problem(model, self.steps)

    def model(self, *, design: Sequence[str] = ()) -> Linearizable:
        """Return the model of the task, with design parameters such as "body.E". Those of an
        objective that fits parameters are the default."""
        if not design and isinstance(self.objective, FittedParameters):
            design = self.objective.design
        if self.rule == QUASISTATIC:
            return Quasistatic(self.robot, design=design)
        return RULES[self.rule](self.robot, dt=self.dt, design=design)


def simulation_task(
    robot: Robot,
    *,
    rule: str = "implicit-euler",
    dt: float | None = None,
    steps: int = 100,
    controls: Keyframes = NO_CONTROLS,
) -> Task:
    """Return a simulation task. Only quasistatic tasks may omit dt. The default controls are
    neutral."""
    driven = constant(*robot.neutral_controls()) if controls is NO_CONTROLS else controls
    return Task(robot=robot, rule=rule, dt=time_step(rule, dt), steps=steps, controls=driven)


def planning_task(
    robot: Robot,
    *,
    goals: Sequence[Goal],
    effort: Sequence[Effort] = (Effort(weight=1e-6),),
    limits: Sequence[Limit] = (),
    keep_out: Sequence[Constraint] = (),
    strokes: Sequence[StrokeLimit] = (),
    method: str | None = None,
    iterations: int = 200,
    rule: str = "implicit-euler",
    dt: float | None = None,
    steps: int = 100,
) -> Task:
    """Return a task that plans controls which move effectors to goals.

    Raises `InputError` if a goal, limit or constraint does not fit the robot."""
    task = Task(
        robot=robot,
        rule=rule,
        dt=time_step(rule, dt),
        steps=steps,
        controls=constant(*robot.neutral_controls()),
        objective=PlanningObjective.checked(
            goals=goals,
            effort=effort,
            limits=limits,
            constraints=(*keep_out, *strokes),
            method=method,
            iterations=iterations,
        ),
    )
    model = task.model()
    check_plan(model, steps, goals=goals, effort=effort, limits=limits, keep_out=keep_out)
    _check_each("strokes", strokes, lambda stroke: stroke.attach(model, steps))
    task.problem(model)  # checks them together
    return task


def check_plan(
    model: Linearizable,
    steps: int,
    *,
    goals: Sequence[Goal],
    effort: Sequence[Effort],
    limits: Sequence[Limit],
    keep_out: Sequence[Constraint],
) -> None:
    """Raise `TaskError` with the place of the first part of a plan that does not fit the model."""
    _check_each("goals", goals, lambda goal: goal.attach(model, steps))
    _check_each("effort", effort, lambda term: term.attach(model, steps))
    _check_each("limits", limits, lambda limit: limit.attach(model))
    _check_each("keep_out", keep_out, lambda zone: zone.attach(model, steps))


def following_task(
    robot: Robot,
    *,
    paths: Sequence[TargetPath],
    limits: Sequence[Limit] = (),
    strokes: Sequence[StrokeLimit] = (),
    fixed: Mapping[str, float] | None = None,
    obstacles: bool = True,
    tolerance: float | None = None,
    rule: str = "quasistatic",
    dt: float | None = None,
    steps: int = 100,
) -> Task:
    """Return a task in which effectors follow paths by inverse control, one control step for each
    time step. The rule is "quasistatic" or "semi-implicit". The task is reached if every effector
    ends within `tolerance` [m] of its target (default: 1 % of the robot's length).

    Raises `InputError` if there is no path, or one does not fit the robot."""
    if rule not in (QUASISTATIC, "semi-implicit"):
        raise InputError(
            f"Inverse control cannot use the rule '{rule}'; choose 'quasistatic' or "
            "'semi-implicit'."
        )
    if not paths:
        raise InputError("There is no path to follow; add [[task.paths]] with an effector.")
    _check_each("paths", paths, lambda path: _check_path(path, robot))
    for name in fixed or {}:
        if name not in robot.actuators:
            raise TaskError(
                f"fixed.{name}",
                f"{robot.name} has no actuator '{name}' to fix; {nearest(name, robot.actuators)}",
            )
    task = Task(
        robot=robot,
        rule=rule,
        dt=time_step(rule, dt),
        steps=steps,
        controls=constant(*robot.neutral_controls()),
        objective=FollowingObjective(
            paths=tuple(paths),
            limits=tuple(limits),
            strokes=tuple(strokes),
            fixed=dict(fixed or {}),
            obstacles=obstacles,
            tolerance=_goal_tolerance(robot, tolerance),
        ),
    )
    model = task.model()
    _check_each("limits", limits, lambda limit: limit.attach(model))
    _check_each("strokes", strokes, lambda stroke: stroke.attach(model, steps))
    return task


def _check_each(place: str, parts: Sequence[Any], check: Callable[[Any], Any]) -> None:
    """Raise `TaskError` with the place of the first part that fails its check."""
    for i, part in enumerate(parts):
        try:
            check(part)
        except InputError as error:
            raise TaskError(f"{place}[{i}]", str(error)) from None


def _check_path(path: TargetPath, robot: Robot) -> None:
    robot.effector_weights(path.effector)  # raises if there is no such effector
    dim, found = robot.body().dim, path.keyframes.values.shape[1]
    if found != dim:
        raise InputError(
            f"The path of '{path.effector}' has {counted(found, 'coordinate')}; the robot has "
            f"{dim}."
        )
    names = "xyz"[:dim]
    if path.axes is not None and (not path.axes or set(path.axes) - set(names)):
        raise InputError(
            f"The axes of the path of '{path.effector}' are '{path.axes}'; write some of "
            f"{', '.join(names)}."
        )
    if not path.weight >= 0.0:
        raise InputError(
            f"The path of '{path.effector}' has weight {path.weight:g}; give a weight that is not "
            "negative."
        )


TASKS: dict[str, Callable[..., Task]] = {
    "simulate": simulation_task,
    "plan": planning_task,
    "follow": following_task,
}


def _goal_tolerance(robot: Robot, tolerance: float | None) -> float:
    if tolerance is not None:
        return require_positive("The tolerance of the task", tolerance, "m")
    rest = robot.body().rest.reshape(-1, robot.body().dim)
    return 0.01 * float(np.ptp(rest, axis=0).max())


def time_step(rule: str, dt: float | None) -> float:
    """Return the time step [s] of a rule. Raises `InputError` if it needs one and has none."""
    if dt is None and rule in RULES:
        raise InputError(
            f"The rule '{rule}' needs a time step; add one in seconds, such as dt = 0.01."
        )
    return 1.0 if dt is None else dt


def check_controls(values: Array, robot: RobotDescription) -> None:
    """Raise `InputError` unless the values (n, n_controls) are within the limits of the robot."""
    if values.shape[1] != robot.n_controls:
        raise InputError(
            f"The controls have {counted(values.shape[1], 'number')} per row, but the robot needs "
            f"{robot.n_controls} ({', '.join(c.name for c in robot.controls) or 'no actuators'}); "
            "give one for each control."
        )
    lower, upper = robot.control_limits()
    beyond = np.argwhere((values < lower) | (values > upper))
    if beyond.size:
        row, k = beyond[0]
        raise InputError(
            f"Control {k} is {values[row, k]:g} in row {row}, outside its limits {lower[k]:g} to "
            f"{upper[k]:g}; change the control, or the limits of its actuator."
        )
