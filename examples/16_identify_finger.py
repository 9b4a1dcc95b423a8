"""Identify E, density and Poisson's ratio of a finger of particles from noisy motion capture.

The ratios are those of [Spielberg2021, section 5.1]. Adam takes one trajectory at a time.
"""

import numpy as np

import pliant as pl

DT, STEPS, NOISE, COPIES = 0.005, 40, 2e-4, 10  # [s], [-], [m], [-]
TRUE = {"E": 1e5, "density": 1000.0, "nu": 0.25}
START = {"E": 0.75e5, "density": 1288.0, "nu": 0.3}
NAMES = ["body.E", "body.density", "body.nu"]


def particles(values):
    finger = pl.robots.cable_finger(**values)
    return pl.MaterialPoint(finger, dt=DT, cell=0.03, substeps=4, design=NAMES)


def record(k):  # trajectory k of 100 markers: the mean of noisy copies
    lab, rng = particles(TRUE), np.random.default_rng(k)
    times = DT * np.arange(1, STEPS + 1)
    pull = (0.15 + 0.1 * k) * np.sin((4.0 + 2.0 * k) * times) ** 2
    controls = np.stack([1.0 - pull, 1.0 + pull], axis=1)  # of the left and the right cable
    points = lab.body.rest.reshape(-1, 2)[:: len(lab.body.rest) // 200 + 1]
    weights = lab.body.locate(points)
    states = pl.simulate(lab, controls).states[1:, : lab.space.n_dofs]
    q = np.array([weights @ x.reshape(-1, 2) for x in states])
    copies = [
        pl.design.MarkerRecording(
            times=times,
            positions=q + NOISE * rng.standard_normal(q.shape),
            points=points,
            controls=controls,
            noise=NOISE,
            name=f"trajectory {k}",
        )
        for _ in range(COPIES)
    ]
    return pl.design.mean_recording(copies)


variables = ["body.E", "body.density", pl.problem.Variable("body.nu", lower=0.05, upper=0.45)]
recordings, model = [record(k) for k in range(2)], particles(START)
fit = pl.identify(model, recordings, variables)
fit.show()
adam = pl.optimisation.Adam(batch_size=1, rate=0.03)
epochs = pl.identify(model, recordings, variables, method=adam, iterations=12, intervals=False)
print("loss of Adam:", *(f"{row.value:.4g}" for row in epochs.history[::4]))
