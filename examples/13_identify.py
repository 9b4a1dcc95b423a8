"""Identify the stiffness and the damping of a soft finger from noisy motion capture.

The recordings are simulated with another time step. A real lab writes CSV files and reads them with
pl.load_recordings("mocap/*.csv").
"""

import numpy as np

import pliant as pl

NOISE = 2e-4  # [m] standard deviation of a measured coordinate


def finger(E, damping):
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(5, 1),
        thickness=0.02,
        material=pl.Material(E=E, nu=0.45, density=1100.0),
        damping=pl.Damping(stiffness=damping),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        actuators={"tendon": pl.Cable(points=[(0.0, 0.016), (0.1, 0.016)], limits=(0.0, 5.0))},
    )


def record(k):  # recording k of two markers, with its own tension over time
    tension = lambda t: np.array([0.5 * (1.0 + k) * np.sin((5.0 + 2.0 * k) * t) ** 2])
    lab = pl.BDF2(finger(E=2e5, damping=0.01), dt=0.00125)
    states = pl.simulate(lab, lambda i, x: tension(0.00125 * (i + 1)), steps=160).states
    weights = lab.body.locate(np.array([(0.06, 0.02), (0.1, 0.01)]))
    q = np.array([weights @ x[: lab.space.n_dofs].reshape(-1, 2) for x in states[::8]])
    return pl.design.MarkerRecording(
        times=0.01 * np.arange(21),
        positions=q + NOISE * np.random.default_rng(k).standard_normal(q.shape),
        points=[(0.06, 0.02), (0.1, 0.01)],
        controls=tension,
        noise=NOISE,
        name=f"swing {k}",
    )


names = ["body.E", "damping.stiffness"]
model = pl.BDF2(finger(E=1e5, damping=0.005), dt=0.0025, design=names)
fit = pl.identify(model, [record(0), record(1)], names, held_out=record(2))
fit.show()
