"""The finger of finger-identify and its recordings [Spielberg2021, section 5.1].

The paper has no units. Here 5 kPa are its unit of Young's modulus, and 429 kg/m^3 its unit of
particle mass, so that all ratios are the paper's, and the true finger has E = 100 kPa and the
density 1000 kg/m^3.
"""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.design import MarkerRecording, mean_recording
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.robot import Robot
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.cable_finger_robot import cable_finger

UNIT_E, UNIT_MASS = 5e3, 1000.0 / 2.33  # [Pa], [kg/m^3] of the paper's numbers
TRUE = {"E": 20.0 * UNIT_E, "density": 2.33 * UNIT_MASS, "nu": 0.25}
START = {"E": 15.0 * UNIT_E, "density": 3.0 * UNIT_MASS, "nu": 0.3}
TRUTH = {f"body.{name}": value for name, value in TRUE.items()}
UNITS = {"body.E": UNIT_E, "body.density": UNIT_MASS, "body.nu": 1.0}
MARKERS = 100
SEQUENCES = 20_210_051  # seed of the amplitudes and frequencies; they are no noise


def finger_model(values: Mapping[str, float], settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the finger with given E [Pa], nu and density [kg/m^3], as particles."""
    robot: Robot = cable_finger(**values)
    return MaterialPoint(
        robot,
        dt=float(settings["dt"]),
        cell=float(settings["cell"]),
        substeps=int(settings["substeps"]),
        design=list(TRUTH),
        memory=1e9,
    )


def sequences(settings: Mapping[str, Setting]) -> list[Array]:
    """Return the controls (steps, 2) of each trajectory: the left cable is shortened by a random
    amount at a random frequency, and the right one released."""
    rng, dt = np.random.default_rng(SEQUENCES), float(settings["dt"])
    times, out = dt * np.arange(1, int(settings["keyframes"]) + 1), []
    for _ in range(int(settings["trajectories"])):
        share, frequency = rng.uniform(0.1, 0.35), rng.uniform(0.8, 2.0)  # [-], [Hz]
        pull = share * np.sin(np.pi * frequency * times) ** 2
        out.append(np.stack([1.0 - pull, 1.0 + pull], axis=1))
    return out


def marker_points(model: MaterialPoint) -> Array:
    """Return the rest positions (100, 2) [m] of particles that are spread over the finger."""
    points = model.body.samples.points
    return np.asarray(points[np.linspace(0, len(points) - 1, MARKERS).astype(int)])


def recordings(settings: Mapping[str, Setting], seed: int) -> list[MarkerRecording]:
    """Return the mean of the noisy copies of each trajectory."""
    model = finger_model(TRUE, settings)
    points, noise, copies = marker_points(model), float(settings["noise"]), int(settings["copies"])
    weights, out = model.body.locate(points), []
    for k, u in enumerate(sequences(settings)):
        states = simulate(model, u, progress=False).states[1:]
        q = np.array([weights @ x.reshape(-1, 2) for x in states[:, : model.space.n_dofs]])
        rng = np.random.default_rng([seed, k])
        repeated = [
            MarkerRecording(
                times=model.dt * np.arange(1, len(u) + 1),
                positions=q + noise * rng.standard_normal(q.shape),
                points=points,
                controls=u,
                noise=noise,
                name=f"trajectory {k}",
            )
            for _ in range(copies)
        ]
        out.append(mean_recording(repeated))
    return out
