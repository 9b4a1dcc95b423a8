"""Point masses: the simplest body, for closed-form tests and payloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import Viscosity
from pliant.bodies.body import NO_VISCOSITY, MaterialFields
from pliant.core import Array, InputError, finite_array, require_positive


@dataclass(frozen=True, kw_only=True, eq=False)
class PointMass:
    """Free points with mass and without stiffness.

    >>> import pliant as pl
    >>> robot = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0], [0.1, 0.0]]))
    >>> pl.ImplicitEuler(robot, dt=0.1).space.n_dofs
    4
    """

    strain_label: ClassVar[str] = "strain"

    points: Array  # (n, dim) [m]
    mass_each: float = 1.0  # [kg]

    def __post_init__(self) -> None:
        require_positive("The mass", self.mass_each, "kg")
        points = finite_array("The array of points of a PointMass", self.points, (None, None), "m")
        if not len(points) or points.shape[1] not in (2, 3):
            raise InputError(
                f"The points of a PointMass have shape {points.shape}; pass at least one "
                "position, (n, 2) or (n, 3)."
            )

    @property
    def dim(self) -> int:
        return np.shape(self.points)[1]

    @cached_property
    def rest(self) -> Array:
        return np.array(self.points, float).ravel()

    @property
    def is_position(self) -> Array:
        return np.ones(len(self.points), bool)

    @property
    def cell_nodes(self) -> Array:
        return np.arange(len(self.points))[:, None]

    @cached_property
    def fields(self) -> MaterialFields:
        n = len(self.points)
        return MaterialFields(
            E=np.ones(n), nu=np.zeros(n), density=np.full(n, self.mass_each), power=np.zeros(n, int)
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {"density": (0.0, np.inf, "kg")}

    @property
    def material_cells(self) -> dict[str, Array]:
        return {"body": np.arange(len(self.points))}

    @property
    def cell_regions(self) -> dict[str, Array]:
        return self.material_cells

    @property
    def pairs(self) -> Array:
        return np.stack([np.arange(len(self.points))] * 2, axis=1)

    def cell_size(self) -> float:
        return 0.01

    def cell_centres(self) -> Array:
        return np.array(self.points, float)

    def volumes(self) -> Array:
        return np.zeros(len(self.points))

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return weights (k, n) that select the mass at each point. Raises `InputError` if there is
        none."""
        points = finite_array("The points to find", np.atleast_2d(points), (None, self.dim), "m")
        apart = np.linalg.norm(points[:, None] - np.asarray(self.points)[None], axis=2)
        near = apart.argmin(axis=1)
        for row, k in enumerate(near):
            if apart[row, k] > 1e-9:
                raise InputError(
                    f"Point {row} at {np.atleast_2d(points)[row]} m is {apart[row, k]:.3g} m "
                    "away from the nearest point mass; attach to the position of one."
                )
        return sp.csr_matrix(
            (np.ones(len(near)), (np.arange(len(near)), near)), shape=(len(near), len(self.points))
        )

    def region(self, name: str) -> Array:
        if name != "body":
            raise InputError(f"A PointMass has the one region 'body', not '{name}'.")
        return np.arange(len(self.points))

    def node_volumes(self, cells: Array) -> Array:
        """Return the number of times (n_points,) that each point is in `cells`, used as a weight
        for means."""
        return np.bincount(cells, minlength=len(self.volumes())).astype(float)

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return one (n,) for each point, so that a contact stiffness applies per point [N/m]."""
        if name is not None:
            self.region(name)
        return np.ones(len(self.points))

    def energy(
        self, q: Array, fields: MaterialFields, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[float, Array]:
        return 0.0, np.zeros_like(q)

    def gradient(self, q: Array, fields: MaterialFields) -> Array:
        return np.zeros_like(q)

    def stiffness(
        self,
        q: Array,
        fields: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
        *,
        project: bool = False,
    ) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def gradient_and_stiffness(
        self, q: Array, fields: MaterialFields, viscosity: float
    ) -> tuple[Array, Array]:
        return self.gradient(q, fields), self.stiffness(q, fields)

    def stiffness_times(self, q: Array, fields: MaterialFields, y: Array) -> Array:
        return np.zeros_like(q)

    def cell_stiffness_and_derivative(
        self, q: Array, fields: MaterialFields, w: Array
    ) -> tuple[Array, Array]:
        none = np.zeros((len(self.points), self.dim, self.dim))
        return none, none

    def stiffness_material_jvp(
        self, q: Array, fields: MaterialFields, change: MaterialFields, y: Array
    ) -> Array:
        return np.zeros_like(q)

    def stiffness_material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        return np.zeros(len(self.points)), np.zeros(len(self.points))

    def stiffness_derivative(self, q: Array, fields: MaterialFields, y: Array, z: Array) -> Array:
        return np.zeros_like(q)

    def material_jvp(
        self,
        q: Array,
        fields: MaterialFields,
        change: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
    ) -> Array:
        return np.zeros_like(q)

    def material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        return np.zeros(len(self.points)), np.zeros(len(self.points))

    def viscosity_of_step(
        self, fields: MaterialFields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscosity:
        return NO_VISCOSITY

    def viscosity_at_velocity(
        self, fields: MaterialFields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscosity:
        return NO_VISCOSITY

    def viscous_jvp(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        return np.zeros_like(change)

    def viscous_derivative_jvp(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        return np.zeros_like(q)

    def viscous_derivative_vjp(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        return np.zeros_like(q)

    def cell_viscous_matrices(self, q: Array, level: Array, moduli: Array) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def cell_viscous_derivatives(self, q: Array, w: Array, moduli: Array) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def viscous_second_derivative(
        self,
        q: Array,
        viscous: Viscosity,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]:
        return np.zeros_like(q), [np.zeros_like(q) for _ in levels]

    def mass(self, density: Array) -> Array:
        return density

    def mass_vjp(self, y: Array, z: Array) -> Array:
        return np.sum(y.reshape(-1, self.dim) * z.reshape(-1, self.dim), axis=1)

    def inadmissible_cell(self, q: Array) -> None:
        return None

    def limit_message(self, q: Array) -> str:
        return ""

    def strain(self, q: Array) -> Array:
        return np.zeros(len(self.points))
