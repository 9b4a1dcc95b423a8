"""Environments of predefined robots, for `gymnasium.make("pliant/Arm-v0")` and others.

Each is a function that returns a model and its task. Keyword arguments of `gymnasium.make` are
passed to it, such as gymnasium.make("pliant/Arm-v0", steps=100).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, nearest
from pliant.dynamics import ImplicitEuler
from pliant.learning import (
    ControlTask,
    EffectorObserver,
    PartObserver,
    ScaledObserver,
    StackedObserver,
)
from pliant.mpm import MaterialPoint
from pliant.problem import Effort, Goal, Reward
from pliant.robot import Effector
from pliant.swimming import SwimmerModel
from pliant.zoo.robots import biped, diamond, hydraulic_finger, line_arm, swimmer
from pliant.zoo.robots.biped_robot import LENGTH, WIDTH

ModelAndTask = tuple[Dynamics, ControlTask]


def arm(
    *, layers: int = 8, across: int = 2, dt: float = 0.05, steps: int = 40, speed: float = 0.05
) -> ModelAndTask:
    """Return the arm of [Jia2019] and the task to hold its laser at a point beside it.

    The controls are four cable tensions. The arm starts with random velocities of standard
    deviation `speed` [m/s] of each node. Without actuation the cost is about 10.
    """
    model = ImplicitEuler(line_arm(layers=layers, across=across), dt=dt)
    goal = Goal(effector="laser", target=(0.05, 0.05, 0.183), weight=2000.0)
    seen = ScaledObserver(
        observer=EffectorObserver(), scale=0.1, offset=_rest_positions(("laser", "laser base"), 0.2)
    )
    return model, ControlTask(
        steps=steps,
        terms=[goal, Effort(weight=1e-3)],
        observer=seen,
        spread={"velocity": speed},
        failure_cost=50.0,
    )


def finger(
    *, along: int = 4, order: int = 1, dt: float = 0.02, steps: int = 50, speed: float = 0.02
) -> ModelAndTask:
    """Return the finger of [Rodriguez2017] and the task to hold its tip 6 mm below its axis.

    The control is the pressure in its cavity. The finger starts level, with random velocities of
    standard deviation `speed` [m/s] of each node, and sags under its weight.
    """
    model = ImplicitEuler(hydraulic_finger(along=along, order=order), dt=dt)
    goal = Goal(effector="tip", target=(0.11, 0.0, -0.006), weight=2e5, axes="z")
    seen = ScaledObserver(
        observer=EffectorObserver(),
        scale=(0.01, 0.01, 0.01, 0.1, 0.1, 0.1),
        offset=(0.11, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    return model, ControlTask(
        steps=steps,
        terms=[goal, Effort(weight=1e-10)],
        observer=seen,
        spread={"velocity": speed},
        failure_cost=50.0,
    )


def diamond_reach(
    *, along: int = 11, dt: float = 0.02, steps: int = 50, speed: float = 0.02
) -> ModelAndTask:
    """Return the Diamond of [Menager2024] and the task to hold its tip at a point.

    The controls are four cable tensions. It starts with random velocities of standard deviation
    `speed` [m/s] of each node.
    """
    model = ImplicitEuler(diamond(along=along), dt=dt)
    goal = Goal(effector="tip", target=(0.02, 0.015, 0.12), weight=3e4)
    seen = ScaledObserver(
        observer=EffectorObserver(),
        scale=(0.02, 0.02, 0.02, 0.2, 0.2, 0.2),
        offset=(0.0, 0.0, 0.12, 0.0, 0.0, 0.0),
    )
    return model, ControlTask(
        steps=steps,
        terms=[goal, Effort(weight=1e-3)],
        observer=seen,
        spread={"velocity": speed},
        failure_cost=50.0,
    )


def biped_walk(
    *,
    cell: float = 0.026,
    dt: float = 0.02,
    substeps: int = 10,
    steps: int = 150,
    speed: float = 0.01,
) -> ModelAndTask:
    """Return the biped of [Spielberg2021] and the task to walk forward as far as it can.

    The controls are the lengths of its four cables. `cell` [m] is the size of the grid's cells. The
    return is the distance in body lengths of 0.4 m, minus a small effort. The biped starts with
    random velocities of standard deviation `speed` [m/s] of each particle.
    """
    length = 0.4  # [m]
    feet = {"back foot": 0.5 * WIDTH, "front foot": LENGTH - 0.5 * WIDTH}
    robot = biped(length=length)
    ends = {name: Effector(point=np.array([length / LENGTH * x, 0.0])) for name, x in feet.items()}
    model = MaterialPoint(
        replace(robot, effectors={**robot.effectors, **ends}), dt=dt, cell=cell, substeps=substeps
    )
    walk = Reward(effector="body", direction=(1.0, 0.0), weight=1.0 / length)
    return model, ControlTask(
        steps=steps,
        terms=[walk, Effort(weight=1e-3, reference=1.0)],
        observer=ScaledObserver(observer=EffectorObserver(), scale=0.4),
        spread={"velocity": speed},
        failure_cost=5.0,
    )


@dataclass(frozen=True, kw_only=True)
class RandomAngles:
    """Random initial states of a swimmer at rest, with joint angles of at most `largest` [rad]."""

    largest: float

    def __call__(self, model: Dynamics, rng: np.random.Generator) -> Array:
        assert isinstance(model, SwimmerModel)
        angles = rng.uniform(-self.largest, self.largest, model.robot.n_angles)
        return model.state(angles=angles)


def swimmer_forward(
    *,
    dt: float = 0.02,
    cell: float = 0.3,
    steps: int = 200,
    bend: float = 0.2,
    effort: float = 0.005,
    **settings: Any,
) -> ModelAndTask:
    """Return the swimmer of [Jia2019] and the task to swim forward (along x) as far as it can.

    The controls are three joint torques. `cell` [rad] is the side of the cells of the added mass;
    other settings are those of SwimmerModel, such as store="swimmer.sqlite". The return is the
    distance in body lengths of 0.8 m, minus half of `effort` times the integral of the squared
    torques. It starts at rest with random joint angles of at most `bend` [rad].

    The policy sees angles, orientation, momenta and the velocity of the centre of mass. That of the
    paper sees the joint angles alone.
    """
    model = SwimmerModel(swimmer(), dt=dt, cell=cell, **settings)
    n = model.robot.n_angles
    swim = Reward(effector="centre of mass", direction=(1.0, 0.0, 0.0), weight=1.0 / 0.8)
    seen = StackedObserver(
        observers=[
            PartObserver(parts=("angles", "orientation")),
            ScaledObserver(
                observer=PartObserver(parts="momentum"), scale=(*np.ones(6), *np.full(n, 0.05))
            ),
            ScaledObserver(
                observer=EffectorObserver(effectors="centre of mass", quantities="velocity"),
                scale=0.2,
            ),
        ]
    )
    return model, ControlTask(
        steps=steps,
        terms=[swim, Effort(weight=effort)],
        observer=seen,
        spread=RandomAngles(largest=bend),
        failure_cost=5.0,
    )


TASKS: dict[str, Callable[..., ModelAndTask]] = {
    "pliant/Arm-v0": arm,
    "pliant/Biped-v0": biped_walk,
    "pliant/Diamond-v0": diamond_reach,
    "pliant/Finger-v0": finger,
    "pliant/Swimmer-v0": swimmer_forward,
}


def model_and_task(name: str, **settings: Any) -> ModelAndTask:
    """Return the model and the task of an environment, for planning or training without
    gymnasium."""
    if name not in TASKS:
        raise InputError(f"There is no environment '{name}'; {nearest(name, TASKS)}")
    return TASKS[name](**settings)


def make_env(name: str, *, render_mode: str | None = None, **settings: Any) -> Any:
    """Return an environment (`pliant.learning.Env`)."""
    from pliant.learning import Env  # needs gymnasium

    return Env(*model_and_task(name, **settings), render_mode=render_mode)


def make_vector_env(
    name: str, *, num_envs: int = 1, threads: int | None = None, **settings: Any
) -> Any:
    """Return a vector environment (`pliant.learning.VectorEnv`)."""
    from pliant.learning import VectorEnv  # needs gymnasium

    return VectorEnv(*model_and_task(name, **settings), num_envs, threads)


def _rest_positions(names: tuple[str, ...], height: float) -> tuple[float, ...]:
    """Return the offsets of positions and velocities of effectors above the origin."""
    return len(names) * (0.0, 0.0, height, 0.0, 0.0, 0.0)
