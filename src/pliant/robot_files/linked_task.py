"""Tasks of linked robots: simulate a swimmer, or plan its motion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.core import Array, InputError, Linearizable, nearest, require_positive
from pliant.problem import Constraint, Effort, Goal, Limit, Problem
from pliant.robot_files.task import (
    NO_CONTROLS,
    QUASISTATIC,
    RULES,
    Keyframes,
    PlanningObjective,
    check_controls,
    check_plan,
    constant,
)
from pliant.swimming import LinkedRobot, SwimmerModel
from pliant.swimming.link_shapes import ELLIPSOID_POINTS

LINKED_RULES = ("rk4", "euler")


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedTask:
    """A linked robot, a time-stepping rule, and a simulation or a plan."""

    robot: LinkedRobot
    rule: str  # "rk4" or "euler"
    dt: float  # [s]
    steps: int
    controls: Keyframes  # values (n, n_controls) [N m], of a simulation
    cell: float = 0.3  # [rad] of the grid on which the added mass is interpolated
    points: int = ELLIPSOID_POINTS  # of the surface of each ellipsoid
    eta: float | None = None  # [rad] final cell of a refined plan; None: no refinement
    objective: PlanningObjective | None = None  # None: a simulation

    def __post_init__(self) -> None:
        _check_rule(self.rule)
        require_positive("The time step dt", self.dt, "s")
        require_positive("The cell", self.cell, "rad")
        if self.eta is not None and require_positive("eta", self.eta, "rad") > self.cell:
            raise InputError(
                f"The final cell eta = {self.eta:g} rad is larger than the first cell "
                f"{self.cell:g} rad; give a smaller eta, or a larger cell."
            )
        if self.steps < 1:
            raise InputError(f"The number of steps is {self.steps}; give 1 or more.")
        check_controls(self.controls.values, self.robot)

    def control(self, k: int) -> Array:
        """Return the torques of step k, (n_controls,): those at the end of the step."""
        return self.controls((k + 1) * self.dt)

    def problem(self, model: Linearizable) -> Problem:
        """Return the planning problem of the task on a model. Raises `InputError` unless its type
        is "plan"."""
        if self.objective is None:
            raise InputError('This task is not a plan; give it type = "plan" and goals.')
        return self.objective.problem(model, self.steps)

    def model(self, *, store: Path | None = None) -> SwimmerModel:
        """Return the model of the task, with a file that stores exact added masses."""
        return SwimmerModel(
            self.robot,
            dt=self.dt,
            cell=self.cell,
            method=self.rule,
            points=self.points,
            store=store,
        )


def _check_rule(rule: str) -> None:
    if rule in (QUASISTATIC, *RULES):
        raise InputError(
            f"The rule '{rule}' is for soft robots; a linked robot has the rules 'rk4' (fourth "
            "order) and 'euler'."
        )
    if rule not in LINKED_RULES:
        raise InputError(f"There is no rule '{rule}'; {nearest(rule, LINKED_RULES)}")


def linked_simulation_task(
    robot: LinkedRobot,
    *,
    dt: float,
    rule: str = "rk4",
    cell: float = 0.3,
    points: int = ELLIPSOID_POINTS,
    steps: int = 100,
    controls: Keyframes = NO_CONTROLS,
) -> LinkedTask:
    """Return a simulation task. The default torques are zero."""
    driven = constant(*robot.neutral_controls()) if controls is NO_CONTROLS else controls
    return LinkedTask(
        robot=robot, rule=rule, dt=dt, cell=cell, points=points, steps=steps, controls=driven
    )


def linked_planning_task(
    robot: LinkedRobot,
    *,
    goals: Sequence[Goal],
    effort: Sequence[Effort] = (Effort(weight=1e-6),),
    limits: Sequence[Limit] = (),
    keep_out: Sequence[Constraint] = (),
    method: str | None = None,
    iterations: int = 200,
    dt: float,
    rule: str = "rk4",
    cell: float = 0.3,
    points: int = ELLIPSOID_POINTS,
    eta: float | None = None,
    steps: int = 100,
) -> LinkedTask:
    """Return a task that plans torques which move effectors to goals. With `eta` the plan is
    refined to that cell [rad] and gets a certificate [Jia2019, Algorithm 1].

    Raises `InputError` if a goal, limit or constraint does not fit the robot."""
    task = LinkedTask(
        robot=robot,
        rule=rule,
        dt=dt,
        cell=cell,
        points=points,
        eta=eta,
        steps=steps,
        controls=constant(*robot.neutral_controls()),
        objective=PlanningObjective.checked(
            goals=goals,
            effort=effort,
            limits=limits,
            constraints=keep_out,
            method=method,
            iterations=iterations,
        ),
    )
    model = task.model()
    check_plan(model, steps, goals=goals, effort=effort, limits=limits, keep_out=keep_out)
    task.problem(model)  # checks them together
    return task


LINKED_TASKS: dict[str, Callable[..., LinkedTask]] = {
    "simulate": linked_simulation_task,
    "plan": linked_planning_task,
}
