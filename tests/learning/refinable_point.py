"""The point with its drag on a grid: a model with a surrogate that steps in microseconds."""

from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from pliant.core import InputError, Params, Space, Status, Step
from pliant.surrogate import Corners, CornerStore, Grid, SampleError

DT, DRAG = 0.1, 0.2


def drag(v, near=None):
    """Return the drag and a factor, and their slopes, at a velocity (1,): smooth, but no cubics.

    The factor is never zero, so that relative errors of the pair exist.
    """
    factor, slope = np.cosh(0.5 * v), 0.5 * np.sinh(0.5 * v)
    return np.concatenate([DRAG * v * factor, factor]), np.stack(
        [DRAG * (factor + v * slope), slope]
    )


class NoSurrogateError(InputError, AttributeError):
    """The exact model has no surrogate."""


class SurrogatePoint:
    """x' = x + dt v', v' = v + dt (u - drag(v)), with the drag on a grid or exact (None)."""

    def __init__(self, grid):
        self.grid, self.dt, self.queries = grid, DT, 0

    @classmethod
    @contextmanager
    def on_store(cls, path, namespace="", cell=0.5):
        """Yield the model on a store, which is closed at the end."""
        with CornerStore(path, key="drag") as store:
            corners = Corners(drag, dim=1, store=store)
            yield cls(Grid(corners, cell=cell, namespace=namespace))

    @classmethod
    def on_cell(cls, cell):
        return cls(Grid(Corners(drag, dim=1), cell=cell))

    @property
    def computed(self):
        return self.grid.corners.computed

    @property
    def surrogate(self):
        if self.grid is None:
            raise NoSurrogateError("This point has the exact drag; it has no surrogate.")
        return self.grid

    space = Space(parts=("position", "velocity"), n_dofs=1, rate=(0.0, 1.0))
    n_controls, params, effector_names = 1, Params(), ("tip",)

    def control_limits(self):
        return -np.ones(1), np.ones(1)

    def neutral_controls(self):
        return np.zeros(1)

    def effector_rows(self, name):
        return sp.identity(1, format="csr")

    def initial_state(self):
        return np.zeros(2)

    def _drag(self, v):
        self.queries += 1
        force, slope = drag(v) if self.grid is None else self.grid(v)
        return force[0], slope[0, 0]

    def step(self, x, u, p=None, k=0):
        try:
            force, slope = self._drag(np.asarray(x)[1:])
        except SampleError as error:
            return Step(np.array(x), Status(ok=False, text=str(error)), None)
        v = x[1] + DT * (u[0] - force)
        return Step(np.array([x[0] + DT * v, v]), Status(), slope)

    def pullback(self, step, x_bar):
        v_bar = x_bar[1] + DT * x_bar[0]
        return (
            np.array([x_bar[0], (1.0 - DT * step.tape) * v_bar]),
            np.array([DT * v_bar]),
            np.zeros(0),
        )

    def refined(self):
        return SurrogatePoint(self.grid.refined())

    def exact(self):
        return SurrogatePoint(None)

    def query_point(self, x):
        return np.asarray(x)[1:].copy()

    def positions(self, x):
        return np.asarray(x)[:1]

    def velocities(self, x):
        return np.asarray(x)[1:]

    def replay_model(self, x):
        return self.exact(), np.array(x)
