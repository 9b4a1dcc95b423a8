"""Task: a robot with its stepping rule and its controls over time, as the section [task] of a robot
file says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pliant.core import Array, InputError, Linearizable, finite_array, nearest, require_positive
from pliant.dynamics import BDF2, ImplicitEuler, Quasistatic, SemiImplicit
from pliant.geometry import Surface
from pliant.robot import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Keyframes:
    """A vector over time: straight between keyframes, constant before the first and after the
    last."""

    times: Array  # (n,) [s], rising
    values: Array  # (n, m)

    def __post_init__(self) -> None:
        times = finite_array("The array of times of the keyframes", self.times, (None,), "s")
        values = finite_array("The array of values of the keyframes", self.values, (None, None))
        if len(times) != len(values) or len(times) == 0:
            raise InputError(
                f"The keyframes have {times.size} times for {len(values)} rows of values; give "
                "one row a time."
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
        """(m,) the vector at a time [s]."""
        return np.array([np.interp(time, self.times, column) for column in self.values.T])


def constant(*values: float) -> Keyframes:
    """The same vector at all times."""
    return Keyframes(times=np.zeros(1), values=np.array([values], float))


NO_CONTROLS = constant()
QUASISTATIC = "quasistatic"
RULES: dict[str, Callable[..., Linearizable]] = {
    "implicit-euler": ImplicitEuler,
    "bdf2": BDF2,
    "semi-implicit": SemiImplicit,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A robot, how it steps in time and what drives it."""

    robot: Robot
    rule: str
    dt: float  # [s]; of a quasistatic task 1, so that its time counts steps
    steps: int
    controls: Keyframes  # values (n, n_controls)
    # the surface and the cell [m] of a robot file whose mesh fills a surface
    filled: tuple[Surface, float] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.rule not in (QUASISTATIC, *RULES):
            raise InputError(
                f"There is no rule '{self.rule}'; {nearest(self.rule, (QUASISTATIC, *RULES))}"
            )
        require_positive("The time step dt", self.dt, "s")
        if self.rule == QUASISTATIC and self.dt != 1.0:
            raise InputError(
                f"The time step dt is {self.dt:g} s, but a quasistatic task counts its time in "
                "steps; remove it."
            )
        if self.steps < 1:
            raise InputError(f"The number of steps is {self.steps}; take 1 or more.")
        _check_reach(self.controls.values, self.robot)

    def control(self, k: int) -> Array:
        """(n_controls,) at the end of step k, the time that moving supports look at too."""
        return self.controls((k + 1) * self.dt)

    def model(self, *, design: Sequence[str] = ()) -> Linearizable:
        """The dynamics that the task steps, with active parameters such as "body.E"."""
        if self.rule == QUASISTATIC:
            return Quasistatic(self.robot, design=design)
        return RULES[self.rule](self.robot, dt=self.dt, design=design)


def task_of(
    robot: Robot,
    *,
    rule: str = "implicit-euler",
    dt: float | None = None,
    steps: int = 100,
    controls: Keyframes = NO_CONTROLS,
) -> Task:
    """The task that a section [task] describes; only a quasistatic one may leave dt out. Without
    controls nothing is driven."""
    if dt is None and rule in RULES:
        raise InputError(
            f"The rule '{rule}' needs a time step; add one in seconds, such as dt = 0.01."
        )
    driven = constant(*robot.neutral_controls()) if controls is NO_CONTROLS else controls
    return Task(robot=robot, rule=rule, dt=1.0 if dt is None else dt, steps=steps, controls=driven)


def _check_reach(values: Array, robot: Robot) -> None:
    """The motors can give the values (n, n_controls)."""
    if values.shape[1] != robot.n_controls:
        raise InputError(
            f"The controls have {values.shape[1]} numbers a row, but the robot takes "
            f"{robot.n_controls} ({', '.join(robot.actuators) or 'no actuators'}); give that "
            "many."
        )
    lower, upper = robot.control_limits()
    beyond = np.argwhere((values < lower) | (values > upper))
    if beyond.size:
        row, k = beyond[0]
        raise InputError(
            f"Control {k} is {values[row, k]:g} in row {row}, outside its limits {lower[k]:g} to "
            f"{upper[k]:g}; change the control, or the limits of its actuator."
        )
