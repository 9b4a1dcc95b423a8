"""A refinable model that is not a soft robot: a pendulum whose torque by gravity and a magnet comes
from a grid of a closed-form map."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import Linearization, Params, Space, Status, Step
from pliant.surrogate import Corners, Grid, SampleError


def torque(x, near=None):
    """Return the torque (1,) at an angle x (1,), and its slope (1, 1)."""
    return (
        np.array([-9.81 * np.sin(x[0]) + 2.0 * np.cos(2.0 * x[0])]),
        np.array([[-9.81 * np.cos(x[0]) - 4.0 * np.sin(2.0 * x[0])]]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactTorque:
    """The closed form in the place of a grid."""

    corners: Any

    def __call__(self, x):
        return torque(x)


@dataclass(eq=False)
class Pendulum:
    """A pendulum of unit length and mass with a torque as control, by symplectic Euler steps. Its
    one effector "angle" is the angle [rad]."""

    dt: float
    grid: Any
    is_exact: bool = False
    queries: int = 0

    n_controls = 1
    params = Params()
    effector_names = ("angle",)

    @classmethod
    def on_grid(cls, *, dt, cell, **options):
        return cls(dt=dt, grid=Grid(Corners(torque, dim=1, **options), cell=cell))

    @property
    def surrogate(self):
        if self.is_exact:
            raise AttributeError("the exact pendulum has no surrogate")
        return self.grid

    @property
    def space(self):
        h = 1.0 / self.dt
        return Space(parts=("position", "previous"), n_dofs=1, rate=(h, -h))

    def control_limits(self):
        return np.array([-5.0]), np.array([5.0])

    def neutral_controls(self):
        return np.zeros(1)

    def effector_rows(self, name):
        assert name == "angle"
        return sp.identity(1, format="csr")

    def initial_state(self):
        return np.zeros(2)

    def step(self, x, u, p=None, k=0):
        self.queries += 1
        try:
            value, slope = self.grid(x[:1])
        except SampleError as error:
            return Step(x, Status(ok=False, text=str(error)))
        new = 2.0 * x[0] - x[1] + self.dt**2 * (value[0] + u[0])
        return Step(np.array([new, x[0]]), Status(), slope[0, 0])

    def linearize(self, step):
        A = np.array([[2.0 + self.dt**2 * step.tape, -1.0], [1.0, 0.0]])
        B = np.array([[self.dt**2], [0.0]])
        return Linearization(
            n_state=2,
            n_controls=1,
            n_params=0,
            jvp_columns=lambda dx, du, dp: A @ dx + B @ du,
            vjp_columns=lambda bar: (A.T @ bar, B.T @ bar, np.zeros((0, bar.shape[1]))),
        )

    def pullback(self, step, x_bar):
        return self.linearize(step).vjp(x_bar)

    def refined(self):
        return replace(self, grid=self.grid.refined(), queries=0)

    def exact(self):
        return replace(self, grid=ExactTorque(corners=self.grid.corners), is_exact=True, queries=0)

    def query_point(self, x):
        return x[:1].copy()

    def positions(self, x):
        return x[:1]

    def velocities(self, x):
        return self.space.velocity(x)

    def replay_model(self, x):
        return self.exact(), x


@dataclass(eq=False)
class EstimatingPendulum(Pendulum):
    """The same pendulum with an estimate of its step errors, which is exact here."""

    def step_error_estimator(self):
        def estimate(step):
            x = step.x[1:]
            dx = self.dt**2 * (self.grid(x)[0] - torque(x)[0])
            return dx, dx / self.dt

        return estimate
