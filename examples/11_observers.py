"""A controller that sees centroids and strains and keeps a memory, with muscles of the user.

The force of both muscles depends on their length and velocity. A recurrent network sees the centres
of three clusters and the strain, and learns to bring the tip to a point.
"""

import numpy as np

import pliant as pl

half = lambda y: pl.geometry.Rectangle(size=(0.2, 0.01), origin=(0.0, y))
strip = pl.Robot(
    shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
    divisions=(8, 2),
    order=1,
    thickness=0.02,
    material=pl.Material(E=1e5, nu=0.35, density=1000.0),
    supports=[pl.Support(region="x-")],
    effectors={"tip": pl.Effector(point=(0.2, 0.01))},
    actuators={
        "lower": pl.actuators.Muscle(region=half(0.0), axis=(1.0, 0.0)),
        "upper": pl.actuators.Muscle(region=half(0.01), axis=(1.0, 0.0)),
    },
    damping=pl.Damping(mass=5.0),
)


def stress(u, y):  # [Pa] of a muscle for its activation, its strain and the rate of the strain
    stretch = np.sqrt(1.0 + 2.0 * y[:1])
    return 2e4 * u * np.exp(-(((stretch - 1.0) / 0.3) ** 2)) * (1.0 + np.tanh(0.5 * y[1:]))


def muscle(y):
    fibres = pl.learning.StrainObserver(region=half(y), kind="axial", axis=(1.0, 0.0), rate=True)
    return pl.learning.UserActuator(observer=fibres, function=stress, limits=(0.0, 1.0))


model = pl.ImplicitEuler(strip, dt=0.04)
model = pl.learning.UserActuation(model, {"lower": muscle(0.0), "upper": muscle(0.01)})
centres = pl.learning.CentroidObserver(k=3, quantities=("velocity", "acceleration"))
sees = pl.learning.StackedObserver(observers=[centres, pl.learning.StrainObserver()])
network = pl.learning.RecurrentNetwork.for_model(model, sees, n_memory=8)
loop = pl.learning.ClosedLoop(model, sees, network)
goal = pl.Goal(effector="tip", target=(0.19, 0.04), weight=1e3)
task = pl.learning.ControlTask(steps=25, terms=[goal, pl.Effort(weight=1e-2)])
result = pl.learning.train(loop, task, pl.learning.PolicyGradient(rate=0.03), iterations=20)
print(f"untrained: {result.history[0].mean_return:.3f}, trained: {result.mean_return:.3f}")
