"""ParticleGrid: mass and momentum of material points on a regular grid that moves with the body."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Self, final

import numpy as np
import scipy.sparse as sp

from pliant.bodies import CellBody, require_protocol
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)
from pliant.learning.material_points import body_of, cell_masses, state_rows
from pliant.mpm.grid import spline_slopes, spline_weights

MARGIN = 2.0  # [cells] beyond the points of a training, for motions that it did not visit


@final
@dataclass(frozen=True, kw_only=True)
class ParticleGrid:
    """A regular grid of nodes around the centre of mass of a body.

    `shape` is the number of nodes along each axis, `cell` [m] their distance and `speed` [m/s] the
    unit of velocities. Points beyond the grid are left out.
    """

    shape: tuple[int, ...]
    cell: float  # [m]
    speed: float  # [m/s]

    def __post_init__(self) -> None:
        advice = "give a number of nodes along each axis, such as (16, 8)"
        require_kind("The shape of a particle grid", self.shape, tuple, advice)
        if len(self.shape) not in (2, 3) or not all(is_integer(n) and n > 0 for n in self.shape):
            raise InputError(f"The shape of a particle grid is {quoted(self.shape)}; {advice}.")
        require_positive("The cell of a particle grid", self.cell, "m")
        require_positive("The unit of velocities of a particle grid", self.speed, "m/s")

    @property
    def n_channels(self) -> int:
        """The number of fields: the mass and each component of the momentum."""
        return 1 + len(self.shape)

    def attach(self, model: Dynamics) -> "AttachedGrid":
        """Return the transfer of a model's material points. Raises InputError if the model has no
        nodes or particles, no velocity, or another dimension."""
        body = body_of(model, "An autoencoder")
        if body.dim != len(self.shape):
            raise InputError(
                f"The grid of the autoencoder is {len(self.shape)}D, but the body is {body.dim}D; "
                "train an autoencoder for this model."
            )
        weights, masses = material_points(model)
        rows = sp.kron(weights, sp.identity(body.dim), format="csr")
        return AttachedGrid(
            grid=self,
            position=state_rows(model, rows, "position"),
            velocity=state_rows(model, rows, "velocity"),
            masses=masses / masses.sum(),
        )

    @classmethod
    def around(cls, model: Dynamics, states: Array, nodes: int, multiple: int) -> Self:
        """Return a grid that holds the points in all states (k, n_state), with `nodes` nodes along
        its longest side and a multiple of `multiple` along each side."""
        body, (weights, masses) = body_of(model, "An autoencoder"), material_points(model)
        rows = sp.kron(weights, sp.identity(body.dim), format="csr")
        shape = (len(states), len(masses), body.dim)
        at = (state_rows(model, rows, "position") @ states.T).T.reshape(shape)
        speeds = (state_rows(model, rows, "velocity") @ states.T).T
        reach = np.abs(at - np.average(at, axis=1, weights=masses)[:, None]).max(axis=(0, 1))
        extent = require_positive("The extent of the body of an autoencoder", 2 * reach.max(), "m")
        cell = extent / (nodes - 1.0 - 2.0 * MARGIN)
        sides = np.ceil((2.0 * reach / cell + 1.0 + 2.0 * MARGIN) / multiple - 1e-9) * multiple
        speed = float(np.sqrt(np.mean(speeds**2)))
        return cls(
            shape=tuple(int(n) for n in np.minimum(sides, nodes)),
            cell=cell,
            speed=speed if speed > 0.0 else 1.0,
        )


def material_points(model: Dynamics) -> tuple[sp.csr_matrix, Array]:
    """Return the weights (n_points, n_nodes) of the centres of the cells or particles with mass in
    the positions of a model, and their masses (n_points,) [kg]."""
    body = body_of(model, "An autoencoder")
    if not any(model.space.rate):
        raise InputError(
            "This model has no velocity, which an autoencoder sees; take a rule with inertia such "
            "as ImplicitEuler."
        )
    masses = cell_masses(body)
    if "deformation" in model.space.parts:  # each particle is a point
        return sp.identity(len(masses), format="csr"), masses
    centres = require_protocol(body, CellBody, "An autoencoder").cell_centres()
    return body.locate(centres), masses


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedGrid:
    """The transfer of material points to a grid by quadratic B-splines.

    The fields (n_channels, *shape) are the mass, and the momentum over `speed`, of each node, over
    the mean mass of the nodes.
    """

    grid: ParticleGrid
    position: sp.csr_matrix  # (n dim, n_state)
    velocity: sp.csr_matrix  # (n dim, n_state)
    masses: Array  # (n,), their sum is 1

    @property
    def _dim(self) -> int:
        return len(self.grid.shape)

    @cached_property
    def _unit(self) -> float:
        """The inverse of the mean mass of a node."""
        return float(np.prod(self.grid.shape))

    def _points(self, x: Array) -> tuple[Array, Array]:
        """Return the positions in cells from the first node, and the quantities (n, n_channels)
        that are transferred."""
        at, v = (np.reshape(rows @ x, (-1, self._dim)) for rows in (self.position, self.velocity))
        middle = 0.5 * (np.array(self.grid.shape) - 1.0)
        cells = (at - self.masses @ at) / self.grid.cell + middle
        moved = np.column_stack([np.ones(len(v)), v / self.grid.speed])
        return cells, self._unit * self.masses[:, None] * moved

    def _nodes(self, cells: Array, offset: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the flat index of one of the 3^dim nodes near each point, and whether it is in the
        grid."""
        index = np.floor(cells - 0.5).astype(np.int64) + offset
        inside = np.all((index >= 0) & (index < self.grid.shape), axis=1)
        flat = np.ravel_multi_index(tuple(index.T), self.grid.shape, mode="clip")
        return flat, inside

    def _splines(self, cells: Array) -> tuple[Array, Array]:
        """Return the weights and slopes (3, n, dim) of the B-splines along each axis."""
        f = cells - np.floor(cells - 0.5)
        return np.stack(spline_weights.py_func(f)), np.stack(spline_slopes.py_func(f))

    def fields(self, x: Array) -> Array:
        """Return the fields (n_channels, *shape) of a state (n_state,)."""
        cells, quantities = self._points(x)
        weights, _ = self._splines(cells)
        axes, size = np.arange(self._dim), int(np.prod(self.grid.shape))
        out = np.zeros((self.grid.n_channels, size))
        for offset in product(range(3), repeat=self._dim):
            flat, inside = self._nodes(cells, offset)
            share = weights[offset, :, axes].prod(axis=0) * inside
            for channel, values in enumerate(quantities.T):
                out[channel] += np.bincount(flat, share * values, size)
        return out.reshape(-1, *self.grid.shape)

    def vjp(self, x: Array, fields_bar: Array) -> Array:
        """Return the gradient (n_state,) of fields_bar . fields."""
        cells, quantities = self._points(x)
        weights, slopes = self._splines(cells)
        axes, bars = np.arange(self._dim), np.reshape(fields_bar, (self.grid.n_channels, -1))
        cells_bar, quantities_bar = np.zeros_like(cells), np.zeros_like(quantities)
        for offset in product(range(3), repeat=self._dim):
            flat, inside = self._nodes(cells, offset)
            at_node = bars[:, flat].T * inside[:, None]
            factors = weights[offset, :, axes]  # (dim, n)
            quantities_bar += factors.prod(axis=0)[:, None] * at_node
            along = np.sum(at_node * quantities, axis=1)
            for i in range(self._dim):
                others = np.delete(factors, i, axis=0).prod(axis=0)
                cells_bar[:, i] += along * slopes[offset[i], :, i] * others
        return self._to_state(cells_bar / self.grid.cell, quantities_bar[:, 1:])

    def _to_state(self, at_bar: Array, moved_bar: Array) -> Array:
        """Return the gradient by the state from those by the positions around the centre of mass
        and by the momenta."""
        at_bar = at_bar - self.masses[:, None] * at_bar.sum(axis=0)
        v_bar = self._unit / self.grid.speed * self.masses[:, None] * moved_bar
        return self.position.T @ at_bar.ravel() + self.velocity.T @ v_bar.ravel()
