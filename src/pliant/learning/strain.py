"""StrainObserver: the mean strain of a region and its rate."""

from dataclasses import dataclass
from itertools import combinations
from typing import Protocol, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.actuators.added_elasticity import gradient_rows
from pliant.actuators.muscle import select_cells
from pliant.bodies import AttachableBody, Solid
from pliant.core import Array, Dynamics, InputError, Observer, Space, finite_array, quoted
from pliant.geometry import Domain
from pliant.learning.material_points import body_of
from pliant.mpm.reference_grid import ReferenceGrid


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StrainObserver:
    """The mean Green strain E = (F^T F - I) / 2 of a region [-], and its rate [1/s].

    Parameters
    ----------
    region : a region or material by name, or a shape in rest coordinates
    kind : "mean" for all components, in the order xx, yy, zz, yz, xz, xy (in the plane xx, yy, xy);
        "axial" for a . E a along an axis a of the rest shape. A fibre along a is stretched by
        sqrt(1 + 2 a . E a).
    axis : (dim,) direction of an axial strain, of any length
    rate : whether the rates follow the strains

    Means are over the volume at rest. Finite element solids and particles have strains. A rigid
    motion does not change them.

    >>> import numpy as np, pliant as pl
    >>> from pliant.learning import StrainObserver, attach_observer
    >>> block = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.1, 0.1)),
    ...     divisions=(1, 1, 1),
    ...     material=pl.Material(E=1e5, nu=0.3, density=1000.0),
    ... )
    >>> model = pl.ImplicitEuler(block, dt=0.01)
    >>> x = model.state(1.1 * model.body.rest)  # 10 % larger
    >>> attach_observer(StrainObserver(kind="axial", axis=(0, 0, 1)), model).observe(x).round(3)
    array([0.105])
    """

    region: str | Domain = "body"
    kind: str = "mean"
    axis: ArrayLike | None = None
    rate: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.region, str | Domain):
            raise InputError(
                f"The region of a strain is {quoted(self.region)}; name a region of the mesh, or "
                "give a shape such as Box."
            )
        if self.kind not in ("mean", "axial"):
            raise InputError(f"The kind of a strain is {quoted(self.kind)}; choose mean or axial.")
        if (self.kind == "axial") != (self.axis is not None):
            raise InputError(
                "An axial strain needs its axis, and a mean strain has none; give kind='axial' "
                "with axis=..., or neither."
            )
        if self.axis is not None:
            axis = finite_array("The axis of a strain", self.axis, (None,))
            if not np.linalg.norm(axis) > 0.0:
                raise InputError("The axis of a strain is zero; give its direction.")

    def attach(self, model: Dynamics) -> Observer:
        """Return the observer for a model. Raises InputError if it has no strain or rate."""
        body = body_of(model, "A strain")
        cells = select_cells(body, self.region, "a strain")
        if self.rate and not any(model.space.rate):
            raise InputError(
                "This model has no velocity, so a strain has no rate; take a rule with inertia "
                "such as ImplicitEuler, or rate=False."
            )
        field, volumes = _field_of(model, body, cells)
        return AttachedStrain(
            field=field,
            fractions=volumes / volumes.sum(),
            projections=self._projections(body.dim),
            rate=self.rate,
        )

    def _projections(self, dim: int) -> Array:
        """Return symmetric matrices (size, dim, dim) whose products with E are the entries."""
        if self.axis is not None:
            axis = finite_array("The axis of a strain", self.axis, (dim,))
            return np.outer(axis, axis)[None] / (axis @ axis)
        eye = np.eye(dim)
        pairs = [(i, i) for i in range(dim)] + list(combinations(range(dim), 2))[::-1]
        return np.array(
            [0.5 * (np.outer(eye[i], eye[j]) + np.outer(eye[j], eye[i])) for i, j in pairs]
        )


class GradientField(Protocol):
    """The deformation gradients F (n, dim, dim) of some points and their rates."""

    def gradients(self, x: Array) -> Array: ...
    def rates(self, x: Array) -> Array: ...
    # gradients by F and its rates -> by the state (n_state,)
    def vjp(self, x: Array, F_bar: Array, rate_bar: Array) -> Array: ...


def _field_of(model: Dynamics, body: AttachableBody, cells: Array) -> tuple[GradientField, Array]:
    """Return the deformation gradients of cells and the volumes (n,) [m^3] of their points."""
    if isinstance(body, Solid):
        rows = gradient_rows(body, cells)
        field = NodalGradients(space=model.space, rows=rows, dim=body.dim)
        return field, body.cells.weights[cells].ravel()
    if isinstance(body, ReferenceGrid):
        chosen = (cells[:, None] * body.dim + np.arange(body.dim)).ravel()
        rows = body.gradient_rows[chosen]
        return NodalGradients(space=model.space, rows=rows, dim=body.dim), body.volumes()[cells]
    if "deformation" in model.space.parts:
        return ParticleGradients(space=model.space, particles=cells, dim=body.dim), body.volumes()[
            cells
        ]
    raise InputError(
        f"The cells of {type(body).__name__} have no strain of a solid; observe centroids or "
        "effectors instead."
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class NodalGradients:
    """F at the quadrature points of finite elements, linear in the nodes."""

    space: Space
    rows: sp.csr_matrix  # (n dim, n_nodes) [1/m] the columns of F
    dim: int

    def _field(self, q: Array) -> Array:
        columns = self.rows @ q.reshape(-1, self.dim)
        return np.swapaxes(columns.reshape(-1, self.dim, self.dim), 1, 2)

    def _spread(self, F_bar: Array) -> Array:
        return (self.rows.T @ np.swapaxes(F_bar, 1, 2).reshape(-1, self.dim)).ravel()

    def gradients(self, x: Array) -> Array:
        return self._field(self.space.position(x))

    def rates(self, x: Array) -> Array:
        return self._field(self.space.velocity(x))

    def vjp(self, x: Array, F_bar: Array, rate_bar: Array) -> Array:
        out, n, velocity_bar = np.zeros(len(x)), self.space.n_dofs, self._spread(rate_bar)
        out[:n] = self._spread(F_bar)
        for j, factor in enumerate(self.space.rate):
            out[j * n : (j + 1) * n] += factor * velocity_bar
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticleGradients:
    """F of particles, a part of their state, with the rate C F of the affine velocity field C."""

    space: Space
    particles: Array
    dim: int

    def _part(self, x: Array, name: str) -> Array:
        """Return a view (n, dim, dim) of a part of the state."""
        j, starts = self.space.parts.index(name), self.space.starts
        return x[starts[j] : starts[j + 1]].reshape(-1, self.dim, self.dim)

    def gradients(self, x: Array) -> Array:
        return self._part(x, "deformation")[self.particles]

    def rates(self, x: Array) -> Array:
        return self._part(x, "affine")[self.particles] @ self.gradients(x)

    def vjp(self, x: Array, F_bar: Array, rate_bar: Array) -> Array:
        out, F, C = np.zeros(len(x)), self.gradients(x), self._part(x, "affine")[self.particles]
        by_F = F_bar + np.swapaxes(C, 1, 2) @ rate_bar
        self._part(out, "deformation")[self.particles] = by_F
        self._part(out, "affine")[self.particles] = rate_bar @ np.swapaxes(F, 1, 2)
        return out


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedStrain:
    """The products of the mean Green strain, and of its rate, with symmetric matrices."""

    field: GradientField
    fractions: Array  # (n,) of the volume
    projections: Array  # (m, dim, dim)
    rate: bool

    @property
    def size(self) -> int:
        return len(self.projections) * (1 + self.rate)

    def observe(self, x: Array) -> Array:
        """Return the strains, and then their rates, for a state (n_state,)."""
        x = np.asarray(x, float)
        F = self.field.gradients(x)
        products = [0.5 * (self._mean(F, F) - np.eye(F.shape[1]))]
        if self.rate:
            products.append(self._mean(F, self.field.rates(x)))
        return np.concatenate([np.sum(self.projections * A, axis=(1, 2)) for A in products])

    def _mean(self, A: Array, B: Array) -> Array:
        """Return the mean (dim, dim) of A^T B."""
        return np.einsum("n,nki,nkj->ij", self.fractions, A, B)

    def vjp(self, x: Array, y_bar: Array) -> Array:
        """Return the gradient (n_state,) of y_bar . y."""
        x, bars = np.asarray(x, float), np.reshape(y_bar, (1 + self.rate, -1))
        F, weights = self.field.gradients(x), self.fractions[:, None, None]
        by_strain, *by_rate = np.einsum("rc,cij->rij", bars, self.projections)
        F_bar, rate_bar = weights * (F @ by_strain), np.zeros_like(F)
        for S in by_rate:
            F_bar = F_bar + weights * (self.field.rates(x) @ S)
            rate_bar = weights * (F @ S)
        return self.field.vjp(x, F_bar, rate_bar)
