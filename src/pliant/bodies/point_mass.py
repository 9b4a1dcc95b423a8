"""Point masses: the smallest body, for closed forms, tests and payloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import Viscous
from pliant.bodies.body import NO_VISCOSITY, Fields
from pliant.core import Array, InputError, finite_array, require_positive


@dataclass(frozen=True, kw_only=True, eq=False)
class PointMass:
    """Free points with a mass each; no stiffness of their own."""

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
    def is_place(self) -> Array:
        return np.ones(len(self.points), bool)

    @property
    def cell_nodes(self) -> Array:
        return np.arange(len(self.points))[:, None]

    @cached_property
    def fields(self) -> Fields:
        n = len(self.points)
        return Fields(
            E=np.ones(n), nu=np.zeros(n), density=np.full(n, self.mass_each), power=np.zeros(n, int)
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {"density": (0.0, np.inf, "kg")}

    @property
    def groups(self) -> dict[str, Array]:
        return {"body": np.arange(len(self.points))}

    @property
    def cell_regions(self) -> dict[str, Array]:
        return self.groups

    @property
    def pairs(self) -> Array:
        return np.stack([np.arange(len(self.points))] * 2, axis=1)

    def cell_size(self) -> float:
        return 0.01

    def hardness(self) -> float:
        raise InputError(
            "A contact of point masses needs a stiffness [N/m]; give Contact(stiffness=...)."
        )

    def cell_centres(self) -> Array:
        return np.array(self.points, float)

    def volumes(self) -> Array:
        return np.zeros(len(self.points))

    def locate(self, points: Array) -> sp.csr_matrix:
        """(k, n) picks the mass at each of the points; a point where there is none is an error."""
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

    def bulk(self, cells: Array) -> Array:
        """(n_points,) one for each of some points: the mean over them is that of their places."""
        return np.bincount(cells, minlength=len(self.volumes())).astype(float)

    def patch(self, name: str | None, *, even: bool = False) -> Array:
        """(n,) one a point, so that a contact stiffness counts per point [N/m]."""
        if name is not None:
            self.region(name)
        return np.ones(len(self.points))

    def energy(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[float, Array]:
        return 0.0, np.zeros_like(q)

    def gradient(self, q: Array, fields: Fields) -> Array:
        return np.zeros_like(q)

    def stiffness(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY, *, project: bool = False
    ) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def linearised(self, q: Array, fields: Fields, viscosity: float) -> tuple[Array, Array]:
        return self.gradient(q, fields), self.stiffness(q, fields)

    def stiffness_times(self, q: Array, fields: Fields, y: Array) -> Array:
        return np.zeros_like(q)

    def stiffness_cells(self, q: Array, fields: Fields, w: Array) -> tuple[Array, Array]:
        none = np.zeros((len(self.points), self.dim, self.dim))
        return none, none

    def field_stiffness(self, q: Array, fields: Fields, change: Fields, y: Array) -> Array:
        return np.zeros_like(q)

    def field_stiffness_work(
        self, q: Array, fields: Fields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        return np.zeros(len(self.points)), np.zeros(len(self.points))

    def third(self, q: Array, fields: Fields, y: Array, z: Array) -> Array:
        return np.zeros_like(q)

    def field_forces(
        self, q: Array, fields: Fields, change: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> Array:
        return np.zeros_like(q)

    def field_work(
        self, q: Array, fields: Fields, y: Array, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        return np.zeros(len(self.points)), np.zeros(len(self.points))

    def viscous(
        self, fields: Fields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscous:
        return NO_VISCOSITY

    def viscous_at(
        self, fields: Fields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscous:
        return NO_VISCOSITY

    def viscous_push(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        return np.zeros_like(change)

    def viscous_moved(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        return np.zeros_like(q)

    def viscous_moved_back(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        return np.zeros_like(q)

    def viscous_cells(self, q: Array, level: Array, moduli: Array) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def viscous_moved_cells(self, q: Array, w: Array, moduli: Array) -> Array:
        return np.zeros((len(self.points), self.dim, self.dim))

    def viscous_third(
        self,
        q: Array,
        viscous: Viscous,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]:
        return np.zeros_like(q), [np.zeros_like(q) for _ in levels]

    def mass(self, density: Array) -> Array:
        return density

    def mass_work(self, y: Array, z: Array) -> Array:
        return np.sum(y.reshape(-1, self.dim) * z.reshape(-1, self.dim), axis=1)

    def inverted(self, q: Array) -> None:
        return None

    def beyond(self, q: Array) -> str:
        return ""

    def strain(self, q: Array) -> Array:
        return np.zeros(len(self.points))
