"""Plan a soft arm on an interpolated grid of equilibrium shapes, with an error estimate."""

import numpy as np

import pliant as pl

arm = pl.robots.plane_arm(layers=12, across=3)
model = pl.Latent(arm, dt=0.05, cell=6.0, start=[3.0, 3.0])  # grid cell and start tensions [N]

# Move the laser to the side and back along x.
start = arm.effector_position("laser", model.manifold.positions(model.start))
path = lambda t: start + np.array([0.02 * np.sin(2.0 * np.pi * t / 2.0), 0.0])
terms = [
    pl.Goal(effector="laser", target=path, axes="x", weight=1e4),
    pl.Effort(weight=1e-3, order=1),
]
problem = pl.Problem(model=model, steps=40, terms=terms, previous_control=[3.0, 3.0])

# Plan on cells of 6, 3 and 1.5 N. Each plan starts from the one before.
refined = pl.planners.plan_refined(problem, eta=1.5)
refined.show()
print(
    f"{refined.evaluations} exact equilibria for {refined.queries} shape queries; relative error "
    f"of one step {refined.certificate.estimated_step_error:.1e} over positions and velocities, "
    f"{refined.certificate.position_error:.1e} over positions"
)
