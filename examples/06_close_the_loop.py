"""Follow a plan with model predictive control although the robot is softer than its model."""

import numpy as np

import pliant as pl

DT = 0.01  # [s]
robot = pl.robots.diamond(along=5)
model = pl.SemiImplicit(robot, dt=DT)
x0 = model.state(pl.equilibrium(pl.Quasistatic(robot), np.zeros(4)).x)
start = model.effector("tip", x0)[0]
goal = start + (-0.004, -0.002, 0.0004)  # the cables raise the tip when they pull
path = pl.paths.minimum_jerk([0.0, 0.24], [start, goal], pause=0.08)
terms = [
    pl.Goal(effector="tip", target=path, weight=1e5),
    pl.Goal(effector="tip", target=goal, time=0.24, weight=1e5),
    pl.Effort(weight=1e-6),
]

# Plan with the condensed model, which follows only the tip and the actuators.
condensed = pl.Condensed(model=model)
plan = pl.plan(condensed, terms, steps=24, x0=x0, method="ddp", options=pl.Options(iterations=40))
print(plan.summary())

# The controller uses the full model and the measured tip position.
problem = pl.Problem(model=model, steps=24, terms=terms, x0=x0)
reference = np.array([path(DT * k) for k in range(25)])
controller = pl.mpc(problem, plan, effectors="tip", reference=reference, gain=0.2)

# The real robot is 20 % softer. Neither the plan nor the controller knows this.
real = pl.SemiImplicit(pl.robots.diamond(along=5, E=4e5), dt=DT)
state, x, random = controller.begin(), x0, np.random.default_rng(0)
for k in range(80):
    measurement = real.effector("tip", x)[0] + 2e-5 * random.standard_normal(3)  # [m]
    u, state = controller.act(state, measurement)
    x = real.step(x, u, k=k).x

# Without feedback the last control of the plan holds to the end.
padded = np.concatenate([plan.controls, np.tile(plan.controls[-1], (56, 1))])
open_loop = pl.simulate(real, padded, x0=x0).states[-1]
closed_error, open_error = (
    1e3 * np.linalg.norm(real.effector("tip", end)[0] - goal) for end in (x, open_loop)
)
print(f"error with feedback {closed_error:.3f} mm, without feedback {open_error:.2f} mm")
