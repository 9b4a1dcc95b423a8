"""Plan a soft arm on a grid of its shapes that builds itself: few exact equilibria, and a
certificate of what they are worth."""

import numpy as np

import pliant as pl
from pliant.planners import plan_refined
from pliant.problem import Effort, Goal

arm = pl.robots.plane_arm(layers=12, across=3)
model = pl.Latent(arm, dt=0.05, cell=6.0, start=[3.0, 3.0])

reach = arm.place("laser", model.family.positions(model.start))
path = lambda t: reach + np.array([0.02 * np.sin(2.0 * np.pi * t / 2.0), 0.0])
wanted = [Goal(effector="laser", target=path, axes="x", weight=1e4), Effort(weight=1e-3, order=1)]
refined = plan_refined(pl.Problem(model=model, steps=40, terms=wanted, before=[3.0, 3.0]), eta=1.5)

refined.show()
asked = sum(level.result.notes["asked"][-1][1] for level in refined.levels)
print(
    f"{refined.levels[-1].evaluations} exact equilibria for {asked} shapes, error of a step "
    f"{refined.certificate.one_step:.1e}"
)
