"""Models for several planner tests: a point mass and a wrapper of a model."""

from dataclasses import dataclass

import numpy as np

import pliant as pl


def jet(limits=(-np.inf, np.inf), dt=0.1):
    """Return a point mass of 1 kg in the plane, driven by two forces."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=limits)},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=dt)


@dataclass
class Wrapped:
    """A wrapper of a model without step and derivatives, which a test defines."""

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
