"""The arms of arm-identify: one of 10-node elements that is measured, and a coarse one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array
from pliant.design import MarkerRecording
from pliant.dynamics import BDF2, ImplicitEuler, simulate
from pliant.planners import Plan
from pliant.robot import Damping, Robot
from pliant.zoo.experiment import Setting
from pliant.zoo.robots import line_arm
from pliant.zoo.robots.line_arms import LENGTH, WIDTH

NAMES = ("soft.E", "soft.nu", "damping.stiffness")
TRUTH = dict(zip(NAMES, (2e5, 0.4, 0.02), strict=True))  # [Pa], [-], [s]
START = dict(zip(NAMES, (3e5, 0.3, 0.04), strict=True))
HOLD = 4  # steps of the fine model in a control step
NOISE = 3e-4  # [m]
TARGET = (0.06, 0.08, 0.16)  # [m]
SEQUENCES = 20_210_052  # seed of the tensions; they are no noise


def arm(values: Mapping[str, float], *, layers: int, across: int, order: int) -> Robot:
    """Return the arm with given parameters."""
    made = line_arm(layers=layers, across=across, order=order, soft=values["soft.E"])
    materials = dict(made.material)  # type: ignore[arg-type]
    materials["soft"] = replace(materials["soft"], nu=values["soft.nu"])
    damping = Damping(mass=0.5, stiffness=values["damping.stiffness"])
    return replace(made, material=materials, damping=damping)


def fine_arm(values: Mapping[str, float], settings: Mapping[str, Setting]) -> Robot:
    """Return the arm of 10-node elements that is measured."""
    sizes = {"layers": int(settings["layers"]), "across": int(settings["fine_across"])}
    return arm(values, **sizes, order=2)


def coarse_arm(values: Mapping[str, float], settings: Mapping[str, Setting]) -> Robot:
    """Return the arm of 4-node elements that is fitted."""
    sizes = {"layers": int(settings["layers"]), "across": int(settings["across"])}
    return arm(values, **sizes, order=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Laboratory:
    """The measured arm: a fine model, and markers on its surface."""

    model: BDF2
    control_dt: float  # [s] for which a control is held

    @property
    def markers(self) -> Array:
        """The rest points (13, 3) [m] of four rings of three markers, and of the laser."""
        heights, half = LENGTH * np.array([0.25, 0.5, 0.75, 1.0]), 0.5 * WIDTH
        ring = half * np.array([(1.0, 0.0), (-0.5, 1.0), (-0.5, -1.0)])
        rings = [(x, y, z) for z in heights for x, y in ring]
        return np.array([*rings, (0.0, 0.0, LENGTH)])

    def states(self, controls: Array) -> Array:
        """Return the states (k + 1, n_state) at the control steps of tensions (k, 4) [N]."""
        held = np.repeat(controls, HOLD, axis=0)
        return simulate(self.model, held, progress=False).states[::HOLD]

    def recording(self, controls: Array, seed: Sequence[int], name: str) -> MarkerRecording:
        """Return a noisy recording of the markers at the control steps."""
        weights, n = self.model.body.locate(self.markers), self.model.space.n_dofs
        q = np.array([weights @ x[:n].reshape(-1, 3) for x in self.states(controls)])
        noise = NOISE * np.random.default_rng(list(seed)).standard_normal(q.shape)
        return MarkerRecording(
            times=self.control_dt * np.arange(len(q)),
            positions=q + noise,
            points=self.markers,
            controls=controls,
            noise=NOISE,
            name=name,
        )

    def distance(self, plan: Plan) -> float:
        """Return the distance [m] of the laser to the target after a plan."""
        laser = self.model.effector("laser", self.states(plan.controls)[-1])[0]
        return float(np.linalg.norm(laser - TARGET))


def laboratory(settings: Mapping[str, Setting]) -> Laboratory:
    dt = float(settings["dt"])
    return Laboratory(model=BDF2(fine_arm(TRUTH, settings), dt=dt / HOLD), control_dt=dt)


def tensions(settings: Mapping[str, Setting]) -> list[Array]:
    """Return tensions (steps, 4) [N] of each recording: two cables that are pulled periodically."""
    rng, steps = np.random.default_rng(SEQUENCES), int(settings["steps"])
    times, out = float(settings["dt"]) * np.arange(1, steps + 1), []
    for _ in range(int(settings["recordings"]) + 1):
        largest = rng.uniform(5.0, 15.0, 4) * (rng.permutation(4) < 2)  # [N]
        frequency = rng.uniform(1.0, 3.0, 4)  # [Hz]
        out.append(largest * np.sin(np.pi * frequency * times[:, None]) ** 2)
    return out


def positions(model: ImplicitEuler, recording: MarkerRecording) -> Array:
    """Return the predicted positions (n, m, 3) [m] of the markers of a recording."""
    states = simulate(model, np.asarray(recording.controls), progress=False).states
    weights = model.body.locate(np.asarray(recording.points))
    return np.array([weights @ x.reshape(-1, 3) for x in states[:, : model.space.n_dofs]])
