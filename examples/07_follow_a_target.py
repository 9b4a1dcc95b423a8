"""The tip of a soft parallel robot follows a target that is moved by hand, here around a circle;
then the target goes out of reach."""

import numpy as np

import pliant as pl
from pliant.planners import inverse
from pliant.problem import Stroke

robot = pl.robots.diamond(along=8)
model = pl.Quasistatic(robot)  # or pl.SemiImplicit(robot, dt=0.01), which swings
controller = inverse(
    model,
    effectors=("tip",),
    strokes=[Stroke(actuator=name, upper=0.02) for name in robot.actuators],
)

pose = controller.begin()
middle = pose.places + (0.0, 0.0, 0.001)
errors = []
for k in range(120):  # each tick is one linearisation, one factor and a small quadratic program
    angle = 2.0 * np.pi * k / 60
    pose = controller.follow(pose, middle + [[0.006 * np.cos(angle), 0.006 * np.sin(angle), 0.0]])
    errors.append(pose.error)
print(f"{1e3 * max(errors[10:]):.4f} mm from a target on a circle of 6 mm, at {pose.u.round(2)} N")

pose = controller.settle(pose, middle + (0.05, 0.0, 0.0))
print(pose.text)

balance = pl.equilibrium(model, pose.u, x0=pose.x).x
print(f"{np.abs(balance - pose.x).max():.1e} m from where these tensions hold it")
