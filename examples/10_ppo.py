"""An own robot as an environment of gymnasium, and a policy for it by PPO.

A puck with a jet shall fly to a point from random places. PPO explores by noise; the controller
that it returns has none, and runs in the environment. This needs the extra `learn`:
pip install 'pliant[learn]'
"""

import numpy as np

import pliant as pl

puck = pl.Robot(
    shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=0.5),
    actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-1.0, 1.0))},
    effectors={"puck": pl.Effector(point=(0.0, 0.0))},
    damping=pl.Damping(mass=1.0),
)
model = pl.ImplicitEuler(puck, dt=0.1)


def random_place(model, rng):
    return model.state(rng.uniform(-1.0, 1.0, 2))


task = pl.learning.ControlTask(
    steps=40,
    terms=[pl.Goal(effector="puck", target=(0.0, 0.0)), pl.Effort(weight=1e-3)],
    spread=random_place,
)
observer = pl.learning.EffectorObserver()
network = pl.learning.MLP.for_model(model, observer, hidden=(16, 16))
loop = pl.learning.ClosedLoop(model, observer, network)

method = pl.learning.PPO(steps=1024, environments=16, batch=64, rate=2e-3, noise=0.8, discount=0.9)
result = pl.learning.train(loop, task, method, iterations=10)
print(f"untrained: {result.history[0].mean_return:.3f}")
print(f"trained:   {result.mean_return:.3f} after {result.steps} environment steps")

env = pl.learning.Env(model, task)
seen, _ = env.reset(seed=7)
distance = [np.linalg.norm(seen[:2])]
for k in range(task.steps):
    u = result.controller.control(seen, result.weights, k * model.dt)
    seen, reward, terminated, truncated, info = env.step(u)  # 1 N is the action 1
    distance.append(np.linalg.norm(seen[:2]))
print(f"distance:  {distance[0]:.3f} m at first, {distance[-1]:.3f} m at last")
