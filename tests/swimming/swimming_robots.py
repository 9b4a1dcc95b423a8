"""Small swimming robots for the tests."""

import numpy as np

from pliant.swimming import EllipsoidShape, Hinge, Link, LinkedRobot, LinkPoint

POINTS = 60  # of each ellipsoid: exact for these tests, which compare with the same discretisation
AXES = {"planar": ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0)), "spatial": ((0.0, 0.2, 1.0), (1.0, 1.0, 0.3))}


def eel(kind="planar", *, density=1000.0, **parts):
    """Return three ellipsoids with two hinges."""
    body = EllipsoidShape(semi_axes=(0.1, 0.03, 0.06))
    names = ("head", "trunk", "tail")
    hinges = {
        f"joint {k}": Hinge(
            parent=names[k],
            child=names[k + 1],
            axis=AXES[kind][k],
            point=(-0.12, 0.0, 0.0),
            child_point=(0.12, 0.0, 0.0),
            limits=(-0.8, 0.8),
            torque=(-0.05, 0.05),
        )
        for k in range(2)
    }
    options = {"fluid_density": 1000.0, "name": "eel", **parts}
    return LinkedRobot(
        links={name: Link(shape=body, density=density) for name in names},
        hinges=hinges,
        effectors={"tip": LinkPoint(link="tail", point=(-0.1, 0.0, 0.0))},
        **options,
    )


def single(semi_axes, *, density, **parts):
    """Return one rigid body."""
    link = Link(shape=EllipsoidShape(semi_axes=semi_axes), density=density)
    return LinkedRobot(links={"body": link}, **parts)


def start(model, scale=0.3):
    """Return a state with all velocities."""
    n = model.robot.n_angles
    return model.state(
        angles=0.2 * np.cos(np.arange(n)), velocities=scale * np.sin(1.0 + np.arange(6 + n))
    )


def run(model, x, torques, steps):
    """Return the states after some steps under constant torques."""
    states = [x]
    for k in range(steps):
        step = model.step(states[-1], torques, k=k)
        assert step.status, step.status.text
        states.append(step.x)
    return np.array(states)
