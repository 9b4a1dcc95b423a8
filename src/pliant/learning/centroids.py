"""CentroidObserver: centres of mass of parts of a body [Spielberg2021, section 4]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp

from pliant.actuators.muscle import select_cells
from pliant.bodies import AttachableBody, CellBody, require_protocol
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    is_integer,
    nearest,
    quoted,
    require_kind,
    require_seed,
)
from pliant.geometry import Domain
from pliant.geometry.k_means import k_means
from pliant.learning.material_points import body_of, cell_masses, centre_weights, state_rows
from pliant.learning.memory import AnyObserver
from pliant.learning.observers import LinearObserver

QUANTITIES = ("position", "velocity", "acceleration")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CentroidObserver:
    """The centres of mass of parts of a body: positions [m], velocities [m/s] and accelerations
    [m/s^2], one part after the other.

    Parameters
    ----------
    groups : regions or materials by name, or shapes in rest coordinates; one or several
    k : number of clusters of the whole body instead of `groups`, found by k-means of the cells or
        particles at rest. Without both, the observer sees the centre of the whole body.
    seed : of the clusters
    quantities : of "position", "velocity" and "acceleration"; None for positions and velocities
    relative_axes : axes (0, 1, 2) along which positions are relative to the centre of mass of all
        parts together, so that a gait does not depend on where the robot is

    An acceleration is the change of the velocity since the step before, over dt. It needs a memory,
    which only a `ClosedLoop` keeps, and is zero at the first step. The masses are those of the
    robot, not of a design parameter. It works for models whose state holds nodes or particles.

    >>> import numpy as np, pliant as pl
    >>> from pliant.learning import CentroidObserver, attach_observer
    >>> robot = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0], [0.1, 0.0], [1.0, 0.0]]))
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> two = attach_observer(CentroidObserver(k=2, quantities="position"), model)
    >>> two.observe(model.initial_state())
    array([0.05, 0.  , 1.  , 0.  ])
    """

    groups: str | Domain | Sequence[str | Domain] | None = None
    k: int | None = None
    seed: int = 0
    quantities: str | Sequence[str] | None = None
    relative_axes: Sequence[int] = ()

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if self.groups is not None and self.k is not None:
            raise InputError("The centroids have groups and k; give one of them.")
        if self.k is not None and (not is_integer(self.k) or self.k < 1):
            raise InputError(
                f"The number of clusters is {quoted(self.k)}; give a whole number, 1 or more."
            )
        if self.groups is not None:
            self._check_groups()
        require_kind(
            "The relative axes",
            self.relative_axes,
            (list, tuple, range, np.ndarray),
            "give a list of axes, such as [0]",
        )
        for name in self._chosen or ():
            if name not in QUANTITIES:
                raise InputError(
                    f"The centroids have no {quoted(name)}; {nearest(name, QUANTITIES)}"
                )

    def _check_groups(self) -> None:
        groups = self._groups
        if not groups or not all(isinstance(one, str | Domain) for one in groups):
            raise InputError(
                f"The groups are {quoted(self.groups)}; give names of regions or shapes, at least "
                "one."
            )

    @property
    def _groups(self) -> Sequence[str | Domain]:
        if self.groups is None:
            return ("body",)
        return self.groups if isinstance(self.groups, list | tuple) else (self.groups,)

    @property
    def _chosen(self) -> tuple[str, ...] | None:
        """The quantities; None for those that a model has."""
        if self.quantities is None:
            return None
        found = (self.quantities,) if isinstance(self.quantities, str) else self.quantities
        if not isinstance(found, list | tuple) or not found:
            raise InputError(
                f"The quantities are {quoted(self.quantities)}; give some of "
                f"{', '.join(QUANTITIES)}."
            )
        return tuple(found)

    def cells_of(self, model: Dynamics) -> list[Array]:
        """Return the cells or particles of each part. Raises InputError for an unknown region."""
        body = body_of(model, "The centroids")
        if self.k is None:
            return [select_cells(body, group, "the centroids") for group in self._groups]
        centres = require_protocol(body, CellBody, "k-means").cell_centres()
        labels = k_means(centres, cell_masses(body), self.k, self.seed)
        return [np.flatnonzero(labels == j) for j in range(self.k)]

    def _origin(self, body: AttachableBody, cells_of: Sequence[Array]) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the centre of mass of all parts,
        along the relative axes."""
        for axis in self.relative_axes:
            if not is_integer(axis) or not 0 <= axis < body.dim:
                raise InputError(
                    f"A relative axis is {quoted(axis)}; give some of 0 to {body.dim - 1}."
                )
        cells = np.unique(np.concatenate([*cells_of]))
        chosen = np.isin(np.arange(body.dim), list(self.relative_axes)).astype(float)
        weights = sp.csr_matrix(centre_weights(body, cells))
        return sp.csr_matrix(sp.kron(weights, sp.diags(chosen)))

    def attach(self, model: Dynamics) -> AnyObserver:
        """Return the observer for a model. Raises InputError if the model has no nodes, region or
        velocity that it needs."""
        body, moves = body_of(model, "The centroids"), any(model.space.rate)
        quantities = self._chosen or QUANTITIES[: 1 + moves]
        if not moves and quantities != ("position",):
            raise InputError(
                "This model has no velocity, so its centroids have positions only; take a rule "
                "with inertia such as ImplicitEuler."
            )
        if len(self.relative_axes) and "position" not in quantities:
            raise InputError(
                "The centroids have relative axes, but no positions; leave them out, or observe "
                "positions too."
            )
        eye, cells_of = sp.identity(body.dim), self.cells_of(model)
        parts = [sp.kron(sp.csr_matrix(centre_weights(body, cells)), eye) for cells in cells_of]
        origin = self._origin(body, cells_of)
        rows = [
            state_rows(model, part - origin if q == "position" else part, q)
            for part in parts
            for q in ("position" if q == "position" else "velocity" for q in quantities)
        ]
        matrix = sp.csr_matrix(sp.vstack(rows))
        if "acceleration" not in quantities:
            return LinearObserver(matrix=matrix)
        names = np.repeat(np.tile(quantities, len(parts)), body.dim)
        return AccelerationObserver(
            matrix=matrix, is_acceleration=names == "acceleration", dt=model.dt
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AccelerationObserver:
    """The observation y = matrix x, but some rows are changed to their difference since the step
    before, over dt. The memory is 1 (0 before the first step) and these rows of the step before."""

    matrix: sp.csr_matrix  # (size, n_state)
    is_acceleration: Array  # (size,) bool
    dt: float  # [s]

    @property
    def size(self) -> int:
        return self.matrix.shape[0]

    @property
    def initial_memory(self) -> Array:
        return np.zeros(1 + int(self.is_acceleration.sum()))

    def observe_and_store(self, x: Array, memory: Array) -> tuple[Array, Array]:
        """Return the observation (size,) of a state (n_state,) and the next memory."""
        y = self.matrix @ x
        velocity = y[self.is_acceleration]
        y[self.is_acceleration] = memory[0] * (velocity - memory[1:]) / self.dt
        return y, np.concatenate([[1.0], velocity])

    def memory_vjp(
        self, x: Array, memory: Array, y_bar: Array, memory_bar: Array
    ) -> tuple[Array, Array]:
        """Return the gradients by the state (n_state,) and the memory (n_memory,)."""
        rows, y_bar = self.is_acceleration, np.array(y_bar, float)
        change_bar = y_bar[rows] / self.dt
        change = (self.matrix @ x)[rows] - memory[1:]
        y_bar[rows] = memory[0] * change_bar + memory_bar[1:]
        back = np.concatenate([[change_bar @ change], -memory[0] * change_bar])
        return self.matrix.T @ y_bar, back
