"""Models that several tests plan with: a point mass, and one seen through a wrapper."""

from dataclasses import dataclass

import numpy as np

import pliant as pl


def jet(limits=(-np.inf, np.inf), dt=0.1):
    """A point mass of 1 kg in the plane, pushed by two forces."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=limits)},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=dt)


@dataclass
class Wrapped:
    """All of a model but its step and its derivatives, which a test writes itself."""

    model: pl.ImplicitEuler

    space = property(lambda self: self.model.space)
    n_controls = property(lambda self: self.model.n_controls)
    params = property(lambda self: self.model.params)
    dt = property(lambda self: self.model.dt)

    def control_limits(self):
        return self.model.control_limits()

    def neutral_controls(self):
        return self.model.neutral_controls()

    def effector_rows(self, name):
        return self.model.effector_rows(name)

    def initial_state(self):
        return self.model.initial_state()
