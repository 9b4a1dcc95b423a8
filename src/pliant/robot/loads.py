"""Dead loads on a robot: forces, tractions and moments, constant or functions of time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pliant.bodies import AttachableBody, Beams
from pliant.core import Array, InputError, finite_array

TimeFunction = Callable[[float], ArrayLike]  # time [s] -> the vector of a load


@runtime_checkable
class Load(Protocol):
    """A dead load: a constant matrix `unit_forces` times a vector `value` that may depend on
    time."""

    @property
    def is_time_dependent(self) -> bool: ...
    def unit_forces(self, body: AttachableBody) -> Array: ...  # (n_dofs, n)
    def value(self, dim: int, time: float) -> Array: ...  # (n,) at a time [s]
    def attach(self, body: AttachableBody, time: float = 0.0) -> Array: ...  # (n_dofs,)


@dataclass(frozen=True, kw_only=True, eq=False)
class PointLoad:
    """A dead force [N] at a material point, constant or a function of time.

    >>> import pliant as pl
    >>> constant = pl.PointLoad(point=(0.1, 0.0, 0.0), force=(0.0, 0.0, -1.0))
    >>> switched = pl.PointLoad(point=(0.1, 0.0, 0.0), force=lambda t: (0.0, 0.0, -1.0 * (t > 0.5)))
    """

    point: ArrayLike  # (dim,) [m]
    force: ArrayLike | TimeFunction  # (dim,) [N], or a function of time [s]

    @property
    def is_time_dependent(self) -> bool:
        return callable(self.force)

    def unit_forces(self, body: AttachableBody) -> Array:
        """Return the forces of one newton along each axis, (n_dofs, dim) [-]."""
        point = finite_array("The point of a point load", self.point, (body.dim,), "m")
        return _along_axes(body.locate(point[None]).toarray()[0], body.dim)

    def value(self, dim: int, time: float) -> Array:
        """Return the force at a time [s], (dim,) [N]."""
        return _at_time("The force of a point load", self.force, dim, time, "N")

    def attach(self, body: AttachableBody, time: float = 0.0) -> Array:
        """Return the nodal forces on a body at a time [s], (n_dofs,) [N]."""
        return self.unit_forces(body) @ self.value(body.dim, time)


@dataclass(frozen=True, kw_only=True, eq=False)
class SurfaceLoad:
    """A dead traction [N/m^2 of rest area] on a named surface, constant or a function of time.

    >>> import pliant as pl
    >>> pressed = pl.SurfaceLoad(surface="z+", traction=(0.0, 0.0, -500.0))
    """

    surface: str
    traction: ArrayLike | TimeFunction  # (dim,) [Pa], or a function of time [s]

    @property
    def is_time_dependent(self) -> bool:
        return callable(self.traction)

    def unit_forces(self, body: AttachableBody) -> Array:
        """Return the forces of one pascal along each axis, (n_dofs, dim) [m^2]."""
        return _along_axes(body.node_areas(self.surface), body.dim)

    def value(self, dim: int, time: float) -> Array:
        """Return the traction at a time [s], (dim,) [Pa]."""
        return _at_time(f"The traction on '{self.surface}'", self.traction, dim, time, "Pa")

    def attach(self, body: AttachableBody, time: float = 0.0) -> Array:
        """Return the nodal forces on a body at a time [s], (n_dofs,) [N]."""
        return self.unit_forces(body) @ self.value(body.dim, time)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentLoad:
    """A dead moment [N m] at a point of rods, or over a named surface of a solid.

    On rods it acts on the rotation vector at the point, so the full moment acts on a rod that bends
    about the moment's axis, at any angle. On a solid it is a set of dead forces f = w a x r over
    the surface without a resultant, where r is the rest position relative to the centroid and w the
    area. The forces keep their directions, so the moment decreases with the cosine of the surface's
    rotation. The moment on a plane body is one number, positive from x to y.

    >>> import pliant as pl
    >>> twist = pl.MomentLoad(surface="x+", moment=(0.02, 0.0, 0.0))
    """

    moment: ArrayLike | TimeFunction  # (3,) [N m], in the plane a number; or a function of time [s]
    point: ArrayLike | None = None  # (3,) [m] on the axis of a rod
    surface: str | None = None  # of a solid; of rods a region of points

    def __post_init__(self) -> None:
        if (self.point is None) == (self.surface is None):
            raise InputError(
                "A moment acts at a point of rods or over a surface; give one of the two."
            )

    @property
    def is_time_dependent(self) -> bool:
        return callable(self.moment)

    def unit_forces(self, body: AttachableBody) -> Array:
        """Return the forces [N] of one newton metre about each axis, (n_dofs, 3); in the plane
        (n_dofs, 1). Raises `InputError` for a point of a solid, or a surface without area."""
        if isinstance(body, Beams):
            return self._on_rods(body)
        if self.surface is None:
            raise InputError(
                "A moment acts at a point of a solid, but solids have no rotations at points; give "
                "a surface."
            )
        return _couples(
            body.rest.reshape(-1, body.dim), body.node_areas(self.surface), self.surface
        )

    def _on_rods(self, body: Beams) -> Array:
        if self.surface is not None:
            weights = body.node_areas(self.surface)
            weights = weights / weights.sum()
        else:
            point = finite_array("The point of a moment", self.point, (3,), "m")
            weights = body.locate(point[None]).toarray()[0]
        return _along_axes(np.roll(weights, np.count_nonzero(body.is_position)), 3)

    def value(self, dim: int, time: float) -> Array:
        """Return the moment at a time [s], (3,) [N m]; in the plane (1,)."""
        given = self.moment(time) if callable(self.moment) else self.moment
        name = f"The moment at t = {time:g} s" if self.is_time_dependent else "The moment of a load"
        if dim == 2 and np.ndim(given) == 0:
            return finite_array(name, given, (), "N m")[None]
        return finite_array(name, given, (3 if dim == 3 else 1,), "N m")

    def attach(self, body: AttachableBody, time: float = 0.0) -> Array:
        """Return the nodal forces on a body at a time [s], (n_dofs,) [N]."""
        return self.unit_forces(body) @ self.value(body.dim, time)


def _along_axes(weights: Array, dim: int) -> Array:
    """Return the weights of the nodes (n_nodes,) along each axis, (n_dofs, dim)."""
    return np.kron(weights[:, None], np.eye(dim))


def _couples(rest: Array, area: Array, name: str) -> Array:
    """Return the forces f_i = w_i a x r_i of a unit moment m about each axis, (n_dofs, n), with
    a = J^-1 m and J = sum w (r.r I - r r^T), so that sum r x f = m and sum f = 0."""
    dim = rest.shape[1]
    r = np.zeros((len(rest), 3), rest.dtype)
    r[:, :dim] = rest - area @ rest / area.sum()
    axes = np.eye(3) if dim == 3 else np.eye(3)[2:]
    inertia = np.einsum("n,ni,nj->ij", area, r, r)
    inertia = axes @ (np.trace(inertia) * np.eye(3) - inertia) @ axes.T
    if np.linalg.cond(inertia) > 1e12:
        raise InputError(
            f"The surface '{name}' is a line or a point, which cannot carry a moment about every "
            "axis; name a surface with an area."
        )
    rotations = np.linalg.solve(inertia, axes)  # (n, 3) the vector a of each unit moment
    forces = [area[:, None] * np.cross(a, r) for a in rotations]
    return np.stack([force[:, :dim].ravel() for force in forces], axis=1)


def _at_time(
    name: str, vector: ArrayLike | TimeFunction, dim: int, time: float, unit: str
) -> Array:
    """Return a vector, or the value of a function at a time [s], (dim,)."""
    if callable(vector):
        return finite_array(f"{name} at t = {time:g} s", vector(time), (dim,), unit)
    return finite_array(name, vector, (dim,), unit)
