"""Train a controller of a soft robot by analytic policy gradients, without PPO.

A strip with two cables shall bring its tip to a point. Each iteration simulates one episode and
differentiates its cost by all weights of a small neural network. A plan for the same task shows
what is possible.
"""

import pliant as pl

cable = lambda y: pl.Cable(points=[(0.0, y), (0.2, y)], limits=(0.0, 1.0))
strip = pl.Robot(
    shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
    divisions=(6, 1),
    order=1,
    thickness=0.02,
    material=pl.Material(E=1e5, nu=0.35, density=1000.0),
    supports=[pl.Support(region="x-")],
    actuators={"lower": cable(0.002), "upper": cable(0.018)},
    effectors={"tip": pl.Effector(point=(0.2, 0.01))},
    damping=pl.Damping(mass=5.0),
)
model = pl.ImplicitEuler(strip, dt=0.04)
task = pl.learning.ControlTask(
    steps=25,
    terms=[
        pl.Goal(effector="tip", target=(0.19, 0.04), weight=1e3),
        pl.Effort(weight=1e-2),
    ],
)

# The network sees position and velocity of the tip, scaled to a size of about 1.
observer = pl.learning.ScaledObserver(
    observer=pl.learning.EffectorObserver(effectors="tip"),
    offset=(0.2, 0.01, 0.0, 0.0),  # [m], [m/s]
    scale=(0.05, 0.05, 0.2, 0.2),
)
network = pl.learning.MLP.for_model(model, observer, hidden=(16, 16))
loop = pl.learning.ClosedLoop(model, observer, network)

method = pl.learning.PolicyGradient(rate=0.03)
result = pl.learning.train(loop, task, method, iterations=30)
print(f"untrained: {result.history[0].mean_return:.3f}")
print(f"trained:   {result.mean_return:.3f} after {result.steps} environment steps")
print(f"plan:      {-pl.plan(task.problem(model)).cost:.3f}")
