"""An own robot as an environment of gymnasium.

A strip with two cables shall bring its tip to a point. The reward of a policy is minus the cost
that a planner minimises. This needs the extra `learn`: pip install 'pliant[learn]'
"""

import numpy as np

import pliant as pl

cable = lambda y: pl.Cable(points=[(0.0, y), (0.2, y)], limits=(0.0, 1.0))
strip = pl.Robot(
    shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
    divisions=(8, 2),
    order=1,
    thickness=0.02,
    material=pl.Material(E=1e5, nu=0.35, density=1000.0),
    supports=[pl.Support(region="x-")],
    actuators={"lower": cable(0.002), "upper": cable(0.018)},
    effectors={"tip": pl.Effector(point=(0.2, 0.01))},
    damping=pl.Damping(mass=5.0),
)
model = pl.ImplicitEuler(strip, dt=0.02)

target = np.array([0.18, 0.06])
task = pl.learning.ControlTask(
    steps=50,
    terms=[pl.Goal(effector="tip", target=target, weight=1e3), pl.Effort(weight=1e-3)],
    spread={"velocity": 0.01},  # random initial velocities [m/s]
)
env = pl.learning.Env(model, task)


def feedback(seen):
    """Pull the upper cable if the tip (x, y, vx, vy) is too low, else the lower one."""
    pull = np.clip(50.0 * (target[1] - seen[1] - 0.05 * seen[3]), -1.0, 1.0)
    return np.array([-pull, pull])


def average_return(policy, episodes=4):
    total = 0.0
    for seed in range(episodes):
        seen, _ = env.reset(seed=seed)
        truncated = terminated = False
        while not (truncated or terminated):
            seen, reward, terminated, truncated, _ = env.step(policy(seen))
            total += reward / episodes
    return total


env.action_space.seed(0)
print(f"random actions: {average_return(lambda seen: env.action_space.sample()):.3f}")
print(f"feedback:       {average_return(feedback):.3f}")
plan = pl.plan(task.problem(model), options=pl.Options(iterations=10))
print(f"plan:           {-plan.cost:.3f}")
