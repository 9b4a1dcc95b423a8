"""Follow a moving target with the tip of a soft robot, then an unreachable target."""

import numpy as np

import pliant as pl

robot = pl.robots.diamond(along=8)
model = pl.Quasistatic(robot)  # or pl.SemiImplicit(robot, dt=0.01) with inertia
controller = pl.inverse_control(
    model,
    effectors=("tip",),
    strokes=[pl.problem.StrokeLimit(actuator=name, upper=0.02) for name in robot.actuators],
)

# Each control step computes one linearisation and solves a small quadratic program.
state = controller.begin()
centre = state.positions + (0.0, 0.0, 0.001)
errors = []
for k in range(120):
    angle = 2.0 * np.pi * k / 60
    state = controller.follow(state, centre + [[0.006 * np.cos(angle), 0.006 * np.sin(angle), 0.0]])
    errors.append(state.error)
print(f"largest error {1e3 * max(errors[10:]):.4f} mm on a circle of 6 mm, at {state.u.round(2)} N")

# An unreachable target: the controller goes to the closest point and names the limits.
state = controller.settle(state, centre + (0.05, 0.0, 0.0))
print(state.message)

# The result is an equilibrium of the model.
equilibrium = pl.equilibrium(model, state.u, x0=state.x).x
print(f"{np.abs(equilibrium - state.x).max():.1e} m from the equilibrium for these tensions")
