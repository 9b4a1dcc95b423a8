"""Bend a four-cable arm with one cable and compute how its tip moves with the tensions."""

import numpy as np

import pliant as pl

arm = pl.robots.line_arm()
model = pl.Quasistatic(arm)
step = pl.equilibrium(model, np.array([8.0, 0.0, 0.0, 0.0]))  # tensions [N]

tip = model.effector("laser", step.x)[0]
# The chain rule: (d tip / d state) (d state / d tension), one column for each cable.
by_state = model.effector_jacobian("laser", step.x)
by_tension = by_state @ model.linearize(step).dense_controls()

print("laser [m]:", tip.round(4))
print("d laser / d tension [mm/N]:")
print((1e3 * by_tension).round(3))
