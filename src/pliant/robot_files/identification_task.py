"""Tasks of type "identify": which parameters to fit to which measurements.

The files of measurements are read by pliant.zoo, because the packages that read them are above this
one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.core import Array, InputError, nearest, quoted
from pliant.robot import MomentLoad, PointLoad, Robot, SurfaceLoad
from pliant.robot_files.task import Task, TaskError, constant, time_step

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class StaticTestFiles:
    """Files of static tests, and what they measure."""

    files: Sequence[Path]  # paths or patterns
    load: PointLoad | SurfaceLoad | MomentLoad | None = None
    effector: str | None = None
    point: Array | None = None  # (dim,) [m]
    direction: Array | None = None  # (dim,)
    cavity: str | None = None
    noise: float | None = None  # [m or m^3]
    units: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldTerm:
    """The smoothness of a field with a value for each cell."""

    variable: str
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class IdentificationObjective:
    """A task of type "identify": the arguments of `identify`."""

    variables: Sequence[str]
    bounds: Mapping[str, Bounds]
    recordings: Sequence[Path]
    tests: Sequence[StaticTestFiles]
    held_out: Sequence[Path]
    units: str | None
    points: str | Mapping[str, Array] | None
    noise: float | None
    offsets: float | None
    smoothness: Sequence[FieldTerm]
    fit_first: int | None
    method: str
    iterations: int
    tolerance: float

    @property
    def design(self) -> tuple[str, ...]:
        """The variables that are parameters of the model."""
        return tuple(name for name in self.variables if name.split(".")[0] != "initial")


def identification_task(
    robot: Robot,
    *,
    variables: Sequence[str],
    bounds: Mapping[str, Bounds] | None = None,
    recordings: Sequence[Path] = (),
    tests: Sequence[StaticTestFiles] = (),
    held_out: Sequence[Path] = (),
    units: str | None = None,
    points: str | Mapping[str, Array] | None = None,
    noise: float | None = None,
    offsets: float | None = None,
    smoothness: Sequence[FieldTerm] = (),
    fit_first: int | None = None,
    method: str = "gauss_newton",
    iterations: int = 50,
    tolerance: float = 1e-8,
    rule: str = "implicit-euler",
    dt: float | None = None,
) -> Task:
    """Return a task that fits parameters of the robot to measurements.

    Raises `InputError` without measurements, and for parameters that the robot does not have."""
    if not recordings and not tests:
        raise InputError(
            'There are no measurements; add recordings = ["mocap/*.csv"] or [[task.tests]].'
        )
    if not variables:
        raise TaskError("variables", "This is empty; name parameters such as 'body.E'.")
    for name in bounds or {}:
        if name not in variables:
            raise TaskError(
                "bounds",
                f"There are bounds of {quoted(name)}, which is no variable; "
                f"{nearest(name, variables)}",
            )
    if iterations < 1:
        raise TaskError("iterations", f"This is {iterations}; give 1 or more.")
    task = Task(
        robot=robot,
        rule=rule,
        dt=time_step(rule, dt),
        steps=1,
        controls=constant(*robot.neutral_controls()),
        objective=IdentificationObjective(
            variables=tuple(variables),
            bounds=dict(bounds or {}),
            recordings=tuple(recordings),
            tests=tuple(tests),
            held_out=tuple(held_out),
            units=units,
            points=points,
            noise=noise,
            offsets=offsets,
            smoothness=tuple(smoothness),
            fit_first=fit_first,
            method=method,
            iterations=iterations,
            tolerance=tolerance,
        ),
    )
    try:
        task.model()
    except InputError as error:
        raise TaskError("variables", str(error)) from None
    return task
