"""Bend the four-line arm with one line, and ask how its tip would move if the tensions changed."""

import numpy as np

import pliant as pl

arm = pl.robots.line_arm()
model = pl.Quasistatic(arm)
step = pl.equilibrium(model, np.array([8.0, 0.0, 0.0, 0.0]))  # [N]

tip = arm.place("laser", model.space.position(step.x))
by_tension = np.stack(
    [arm.place("laser", column) for column in model.linearize(step).dense_controls().T], axis=1
)

print("laser [m]:", tip.round(4))
print("d laser / d tension [mm/N]:")
print((1e3 * by_tension).round(3))
