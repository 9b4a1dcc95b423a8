"""block-drop: a soft block lands on a slope and slides according to Coulomb's law."""

from collections.abc import Mapping

import numpy as np

from pliant.contact import Contact, plane
from pliant.dynamics import ImplicitEuler
from pliant.geometry import Box
from pliant.materials import Material
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.robot import Damping, Effector, Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

G, SIDE = 9.81, 0.05  # [m/s^2], [m]


def block(slope: float, friction: float, cells: int) -> Robot:
    """Return a cube above flat ground; gravity is tilted by the slope [deg] instead."""
    a = np.radians(slope)
    return Robot(
        name="block",
        shape=Box(size=(SIDE,) * 3, origin=(0.0, 0.0, 0.005)),
        divisions=(cells,) * 3,
        order=1,
        material=Material(E=2e5, nu=0.3, law="fixed-corotated"),
        gravity=G * np.array([np.sin(a), 0.0, -np.cos(a)]),
        contacts=[
            Contact(obstacle=plane((0.0, 0.0, 1.0)), friction=friction, stiffness=2e7, surface="z-")
        ],
        damping=Damping(stiffness=0.005),
        effectors={"centre": Effector(point=(SIDE / 2, SIDE / 2, 0.005 + SIDE / 2))},
    )


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    robot = block(float(s["slope"]), float(s["friction"]), int(s["cells"]))
    model = ImplicitEuler(robot, dt=float(s["dt"]))
    path = run.simulate(model, np.zeros((int(s["steps"]), 0)), count=int(s["steps"]), dt=model.dt)
    n = model.space.n_dofs
    centre = np.stack([robot.effector_position("centre", x[:n]) for x in path.path])
    speed = np.stack([robot.effector_position("centre", x[n:]) for x in path.path])[
        :, 0
    ]  # velocities interpolate like positions
    times, a = model.dt * np.arange(len(centre)), np.radians(float(s["slope"]))
    late = times > 0.6 * times[-1]
    measured = float(np.polyfit(times[late], speed[late], 1)[0])
    expected = max(0.0, G * (np.sin(a) - float(s["friction"]) * np.cos(a)))
    reached = abs(measured - expected) <= 0.02 * max(expected, 0.05 * G)
    return Outcome(
        metrics={
            "acceleration along the slope": Metric(value=measured, unit="m/s^2"),
            "Coulomb acceleration": Metric(value=expected, unit="m/s^2"),
            "sliding distance": Metric(value=float(centre[-1, 0] - centre[0, 0]), unit="m"),
            "largest number of Newton iterations": Metric(
                value=int(path.scalars["iterations"].max())
            ),
        },
        plots=[
            Plot(
                title="Centre of the block",
                x="time [s]",
                y="position [m]",
                series={"along": (times, centre[:, 0]), "height": (times, centre[:, 2])},
            ),
            Plot(
                title="Speed along the slope",
                x="time [s]",
                y="speed [m/s]",
                series={"block": (times, speed)},
            ),
        ],
        scene=robot_scene(
            robot, path.path[:, :n], dt=model.dt, title="block-drop (gravity tilted)", ground=0.0
        ),
        reached=reached,
        message="done"
        if reached
        else f"the acceleration is {measured:.3g} m/s^2, Coulomb's law gives {expected:.3g}. "
        "Use a smaller dt or more steps.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the block during landing."""
    model = ImplicitEuler(
        block(float(settings["slope"]), float(settings["friction"]), int(settings["cells"])),
        dt=float(settings["dt"]),
        design=("body.E", "body.density"),
    )
    x = model.initial_state()
    for k in range(12):
        x = model.step(x, np.zeros(0), None, k).x
    return model, x, np.zeros(0)


EXPERIMENT = Experiment(
    name="block-drop",
    shows="a soft block lands on a slope and slides with the acceleration of Coulomb's law",
    size="125 vertices, contact and friction",
    takes="20 s",
    perform=perform,
    probe=probe,
    settings={
        "slope": 25.0,
        "friction": 0.3,
        "dt": 0.005,
        "steps": 160,
        "cells": 4,
        "small_animation": False,
    },
    quick={"steps": 80, "cells": 2, "small_animation": True},
)
