"""The finger of finger-codesign: recordings of finite elements, its model of particles, and the
task that it is designed for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.actuators import Cable
from pliant.core import Array, Dynamics
from pliant.design import MarkerRecording, field_groups
from pliant.dynamics import BDF2, simulate
from pliant.mpm import MaterialPoint
from pliant.problem import Effort, Goal, Term, Variable
from pliant.robot import Effector, Robot
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.cable_finger_robot import POINTS, SLENDERNESS, cable_finger

LENGTH = 0.15  # [m]
WIDTH = LENGTH / SLENDERNESS
DEPTHS = -np.linspace(0.0, 0.9 * LENGTH, POINTS)  # [m] of the points of a cable
ASIDE = 0.3 * WIDTH  # [m] of a cable from the axis; a force closer to the surface crushes it
TENSION = 18.0  # [N] of a cable at most
NAMES = ("body.E", "damping.mass")
TRUTH = dict(zip(NAMES, (3e5, 15.0), strict=True))  # [Pa], [1/s]
START = dict(zip(NAMES, (2e5, 8.0), strict=True))
# known: in plane strain markers determine E / (1 - nu^2), and hardly nu
NU = 0.4
FINE = 2  # steps of the finite elements in a control step
NOISE = 2e-4  # [m]
# [m] where the tip and the middle of the finger must be in the last fifth of the time: mostly the
# lower half bends
TARGETS = {"tip": (-0.05, -0.128), "middle": (-0.004, -0.0735)}
WEIGHT = 4e3  # [1/(m^2 s)] of a target
KNOTS = 5  # of the tensions, in time
STIFFNESS = 2.0  # largest over identified E, and identified over smallest
ROUTE = tuple(f"actuators.left.point{k}.x" for k in range(1, POINTS))  # but not where it is held


def finger(values: Mapping[str, float]) -> Robot:
    """Return the finger with given E [Pa] and damping [1/s]."""
    E, damping = values["body.E"], values["damping.mass"]
    made = cable_finger(length=LENGTH, E=E, nu=NU, damping=damping)
    cables = {
        name: Cable(
            points=np.stack([np.full(POINTS, side * ASIDE), DEPTHS], axis=1),
            limits=(0.0, TENSION),
        )
        for name, side in (("left", -1.0), ("right", 1.0))
    }
    return replace(
        made,
        divisions=(6, 30),
        order=2,
        actuators=cables,
        effectors={
            "tip": Effector(point=(0.0, -LENGTH)),
            "middle": Effector(point=(0.0, -0.5 * LENGTH)),
        },
    )


def particles(
    robot: Robot, settings: Mapping[str, Setting], design: tuple[str, ...]
) -> MaterialPoint:
    """Return the model of particles, whose deflections are those of finite elements."""
    return MaterialPoint(
        robot,
        dt=float(settings["dt"]),
        cell=float(settings["cell"]),
        transfer="total",
        design=list(design),
        memory=1e9,
    )


def finite_elements(robot: Robot, settings: Mapping[str, Setting], *, fine: int = 1) -> BDF2:
    """Return the model of 6-node triangles with `fine` steps in a control step."""
    return BDF2(robot, dt=float(settings["dt"]) / fine)


def simulated(robot: Robot, controls: Array, settings: Mapping[str, Setting]) -> Array:
    """Return the states (k + 1, n_state) of finite elements at the control steps."""
    model = finite_elements(robot, settings, fine=FINE)
    held = np.repeat(controls, FINE, axis=0)
    return simulate(model, held, progress=False).states[::FINE]


def recordings(settings: Mapping[str, Setting], seed: int) -> list[MarkerRecording]:
    """Return noisy recordings of ten markers on the sides of the true finger: one cable is pulled,
    then the other one."""
    robot, n, dt = finger(TRUTH), int(settings["steps"]), float(settings["dt"])
    depths = -LENGTH * np.linspace(0.2, 1.0, 5)
    points = np.array([(side * 0.5 * WIDTH, y) for side in (-1.0, 1.0) for y in depths])
    weights, out = finite_elements(robot, settings).body.locate(points), []
    for k in range(2):
        pull = 0.6 * TENSION * np.sin(np.pi * np.arange(1, n + 1) / n) ** 2
        u = pull[:, None] * np.eye(2)[k]
        states = simulated(robot, u, settings)
        q = np.array([weights @ x[: weights.shape[1] * 2].reshape(-1, 2) for x in states])
        noise = NOISE * np.random.default_rng([seed, k]).standard_normal(q.shape)
        out.append(
            MarkerRecording(
                times=dt * np.arange(n + 1),
                positions=q + noise,
                points=points,
                controls=u,
                noise=NOISE,
                name=f"pull {k}",
            )
        )
    return out


def fitted_variables() -> list[str | Variable]:
    """Return the variables of the identification."""
    return [
        Variable("body.E", lower=1e5, upper=6e5),
        Variable("damping.mass", lower=1.0, upper=50.0),
    ]


def terms(settings: Mapping[str, Setting]) -> list[Term]:
    """Return the task: tip and middle at their targets in the last fifth of the time, with little
    and smooth tension."""
    n, dt = int(settings["steps"]), float(settings["dt"])
    times = [dt * k for k in range(n - n // 5 + 1, n + 1)]
    return [
        *(
            Goal(effector=name, target=target, time=times, weight=WEIGHT)
            for name, target in TARGETS.items()
        ),
        Effort(weight=5e-4),
        Effort(weight=1e-5, order=1),
    ]


def tensions() -> Variable:
    """Return the tensions as variables; the left cable is pulled at first."""
    start = np.tile([0.2 * TENSION, 0.0], (KNOTS, 1))
    return Variable("controls", knots=KNOTS, start=start)


def designed_variables(model: MaterialPoint, E: float) -> list[Variable]:
    """Return the variables of the design: E of squares as wide as a third of the finger, the route
    of the left cable, and the tensions."""
    groups = field_groups(model, by=WIDTH / 3.0)
    field = Variable("cells.E", lower=E / STIFFNESS, upper=E * STIFFNESS, groups=groups)
    route = [Variable(name, lower=-ASIDE, upper=0.0) for name in ROUTE]
    return [field, *route, tensions()]


def effector_path(model: Any, name: str, states: Array) -> Array:
    """Return the positions (k, 2) [m] of an effector."""
    return np.array([model.effector(name, x)[0] for x in states])


def target_error(model: Dynamics, states: Array) -> float:
    """Return the root mean square distance [m] of tip and middle from their targets in the last
    fifth of the time."""
    count = (len(states) - 1) // 5
    away = [
        effector_path(model, name, states[-count:]) - np.array(target)
        for name, target in TARGETS.items()
    ]
    return float(np.sqrt(np.mean(np.sum(np.square(away), axis=2))))
