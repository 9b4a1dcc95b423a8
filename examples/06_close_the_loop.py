"""A soft parallel robot goes to a goal by a condensed plan (paper 001), then holds it from readings
while an unknown force pulls."""

from dataclasses import replace

import numpy as np

import pliant as pl
from pliant.dynamics import Condensed
from pliant.planners import Options, ddp, mpc
from pliant.problem import Effort, Goal, Problem

robot = pl.robots.diamond(along=5)
whole = pl.SemiImplicit(robot, dt=0.01)
x0 = whole.state(pl.equilibrium(pl.Quasistatic(robot), np.zeros(4)).x)
start = robot.place("tip", whole.space.position(x0))
goal = start + (-0.004, -0.002, 0.0004)  # the cables raise it as they pull
way = pl.paths.stops([0.0, 0.24], [start, goal], pause=0.08)

wanted = [
    Goal(effector="tip", target=way, weight=1e5),
    Goal(effector="tip", target=goal, time=0.24, weight=1e5),
    Effort(weight=1e-6),
]
task = Problem(model=Condensed(model=whole), steps=24, terms=wanted, x0=x0)
plan = ddp(task, options=Options(iterations=40))
print(plan.summary())

# The true robot is pulled aside, which neither plan nor controller knows
pull = pl.PointLoad(point=(0.0, 0.0, 0.125), force=lambda t: (0.0, 0.2 * (t > 0.1), 0.0))
true = pl.SemiImplicit(replace(robot, loads=[pull]), dt=0.01)
controller = mpc(
    replace(task, model=whole),
    plan,
    effectors=("tip",),
    wanted=np.array([way(0.01 * k) for k in range(25)]),
    gain=0.2,
)
memory, x, random = controller.begin(), x0, np.random.default_rng(0)
for k in range(80):
    reading = robot.place("tip", true.space.position(x)) + 2e-5 * random.standard_normal(3)
    u, memory = controller.act(memory, reading)
    x = true.step(x, u, k=k).x
alone = pl.simulate(
    true, np.concatenate([plan.controls, np.tile(plan.controls[-1], (56, 1))]), x0=x0
).states[-1]

miss, drifted = (
    np.linalg.norm(robot.place("tip", true.space.position(end)) - goal) for end in (x, alone)
)
print(f"held {1e3 * miss:.3f} mm from the goal; the plan alone drifts by {1e3 * drifted:.2f} mm")
