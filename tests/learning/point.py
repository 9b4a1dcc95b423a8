"""A point on a line with drag, pushed by one bounded force: a model that steps in microseconds."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pliant.core import Params, Space, Status, Step, StepBatch
from pliant.learning import MLP, ClosedLoop, ControlTask, PartObserver
from pliant.problem import Effort, Goal

OBSERVER = PartObserver()


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """x' = x + dt v', v' = v + dt (u - drag v |v| - drag v). A step beyond `wall` fails."""

    dt: float = 0.1
    drag: float = 0.2
    wall: float = 50.0

    @property
    def space(self):
        return Space(parts=("position", "velocity"), n_dofs=1, rate=(0.0, 1.0))

    @property
    def n_controls(self):
        return 1

    @property
    def params(self):
        return Params()

    def control_limits(self):
        return -np.ones(1), np.ones(1)

    def neutral_controls(self):
        return np.zeros(1)

    def effector_rows(self, name):
        return sp.identity(1, format="csr")

    def initial_state(self):
        return np.zeros(2)

    def step(self, x, u, p=None, k=0):
        batch = self.step_many(np.asarray(x)[None], np.asarray(u)[None], p, k)
        return Step(batch.x[0], batch.statuses[0], (np.array(x), np.array(u)))

    def step_many(self, x, u, p=None, k=0):
        v = x[:, 1] + self.dt * (u[:, 0] - self.drag * x[:, 1] * (1.0 + np.abs(x[:, 1])))
        out = np.stack([x[:, 0] + self.dt * v, v], axis=1)
        far = Status(ok=False, text="the point hit the wall")
        return StepBatch(
            x=out, statuses=tuple(far if abs(y) > self.wall else Status() for y in out[:, 0])
        )

    def pullback(self, step, x_bar):
        (_, v), _ = step.tape
        v_bar = x_bar[1] + self.dt * x_bar[0]
        slope = 1.0 - self.dt * self.drag * (1.0 + 2.0 * abs(v))
        return np.array([x_bar[0], slope * v_bar]), np.array([self.dt * v_bar]), np.zeros(0)


def policy(model=None, **options):
    """Return an MLP for the point."""
    return MLP.for_model(model or Point(), OBSERVER, **{"hidden": (16, 16), **options})


def loop(model=None, **options):
    """Return the closed loop of a point and an MLP."""
    model = model or Point()
    return ClosedLoop(model, OBSERVER, policy(model, **options))


def go_there(steps=50, **options):
    """Return the task to go to 1 and stay there."""
    terms = [Goal(effector="tip", target=(1.0,)), Effort(weight=1e-2)]
    return ControlTask(steps=steps, terms=terms, **options)
