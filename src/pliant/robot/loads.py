"""Dead loads on a robot: forces, tractions and moments, constant or functions of time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pliant.bodies import Beams, Matter
from pliant.core import Array, InputError, finite_array

Timed = Callable[[float], ArrayLike]  # time [s] -> the vector of a load


@runtime_checkable
class Load(Protocol):
    """Forces on the unknowns of a body: a constant matrix times a vector that may change in
    time."""

    @property
    def timed(self) -> bool: ...  # whether the vector changes in time
    def columns(self, body: Matter) -> Array: ...  # (n_dofs, n) forces of one unit each
    def value(self, dim: int, time: float) -> Array: ...  # (n,) the vector at a time [s]
    def on(self, body: Matter, time: float = 0.0) -> Array: ...  # (n_dofs,) columns @ value


@dataclass(frozen=True, kw_only=True, eq=False)
class PointLoad:
    """A dead force [N] at a material point, or one that changes in time."""

    point: ArrayLike  # (dim,) [m]
    force: ArrayLike | Timed  # (dim,) [N], or a function of time [s] that gives it

    @property
    def timed(self) -> bool:
        return callable(self.force)

    def columns(self, body: Matter) -> Array:
        """(n_dofs, dim) [-] the share of each node."""
        point = finite_array("The point of a point load", self.point, (body.dim,), "m")
        return _along_axes(body.locate(point[None]).toarray()[0], body.dim)

    def value(self, dim: int, time: float) -> Array:
        """(dim,) [N] the force at a time [s]."""
        return _at_time("The force of a point load", self.force, dim, time, "N")

    def on(self, body: Matter, time: float = 0.0) -> Array:
        """(n_dofs,) [N] at a time [s]."""
        return self.columns(body) @ self.value(body.dim, time)


@dataclass(frozen=True, kw_only=True, eq=False)
class SurfaceLoad:
    """A dead traction [N/m^2 of rest area] on a named surface, or one that changes in time."""

    surface: str
    traction: ArrayLike | Timed  # (dim,) [Pa], or a function of time [s] that gives it

    @property
    def timed(self) -> bool:
        return callable(self.traction)

    def columns(self, body: Matter) -> Array:
        """(n_dofs, dim) [m^2] the area of each node."""
        return _along_axes(body.patch(self.surface), body.dim)

    def value(self, dim: int, time: float) -> Array:
        """(dim,) [Pa] the traction at a time [s]."""
        return _at_time(f"The traction on '{self.surface}'", self.traction, dim, time, "Pa")

    def on(self, body: Matter, time: float = 0.0) -> Array:
        """(n_dofs,) [N] at a time [s]."""
        return self.columns(body) @ self.value(body.dim, time)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentLoad:
    """A dead moment [N m] at a point of rods, or over a named surface of a solid.

    On rods it acts on the rotation vector there, so a rod that bends about the moment's axis feels
    the whole moment at any angle. On a solid it is a set of dead forces f = w a x r over the
    surface without a resultant, where r is the rest position from the centroid and w the area.
    They keep their directions, so the moment falls with the cosine of the surface's rotation. The
    moment of a plane body is one number, positive from x to y.
    """

    moment: ArrayLike | Timed  # (3,) [N m], in the plane a number; or a function of time [s]
    point: ArrayLike | None = None  # (3,) [m] on the axis of a rod
    surface: str | None = None  # of a solid; of rods a region of points

    def __post_init__(self) -> None:
        if (self.point is None) == (self.surface is None):
            raise InputError(
                "A moment acts at a point of rods or over a surface; give one of the two."
            )

    @property
    def timed(self) -> bool:
        return callable(self.moment)

    def columns(self, body: Matter) -> Array:
        """(n_dofs, 3), in the plane (n_dofs, 1): the forces [N] of one newton metre about each
        axis."""
        if isinstance(body, Beams):
            return self._on_rods(body)
        if self.surface is None:
            raise InputError(
                "A moment acts at a point of a solid, which has no rotation there; give a surface."
            )
        return _couples(body.rest.reshape(-1, body.dim), body.patch(self.surface), self.surface)

    def _on_rods(self, body: Beams) -> Array:
        if self.surface is not None:
            share = body.patch(self.surface)
            share = share / share.sum()
        else:
            point = finite_array("The point of a moment", self.point, (3,), "m")
            share = body.locate(point[None]).toarray()[0]
        return _along_axes(np.roll(share, np.count_nonzero(body.is_place)), 3)

    def value(self, dim: int, time: float) -> Array:
        """(3,) [N m], in the plane (1,): the moment at a time [s]."""
        given = self.moment(time) if callable(self.moment) else self.moment
        name = f"The moment at t = {time:g} s" if self.timed else "The moment of a load"
        if dim == 2 and np.ndim(given) == 0:
            return finite_array(name, given, (), "N m")[None]
        return finite_array(name, given, (3 if dim == 3 else 1,), "N m")

    def on(self, body: Matter, time: float = 0.0) -> Array:
        """(n_dofs,) [N] at a time [s]."""
        return self.columns(body) @ self.value(body.dim, time)


def _along_axes(share: Array, dim: int) -> Array:
    """(n_dofs, dim) the share (n_nodes,) of each node along each axis."""
    return np.kron(share[:, None], np.eye(dim))


def _couples(rest: Array, area: Array, name: str) -> Array:
    """(n_dofs, n) the forces f_i = w_i a x r_i of a unit moment about each axis, with
    a = J^-1 m and J = sum w (r.r I - r r^T), which makes sum r x f = m and sum f = 0."""
    dim = rest.shape[1]
    r = np.zeros((len(rest), 3))
    r[:, :dim] = rest - area @ rest / area.sum()
    axes = np.eye(3) if dim == 3 else np.eye(3)[2:]
    inertia = np.einsum("n,ni,nj->ij", area, r, r)
    inertia = axes @ (np.trace(inertia) * np.eye(3) - inertia) @ axes.T
    if np.linalg.cond(inertia) > 1e12:
        raise InputError(
            f"The surface '{name}' is a line or a point, which cannot take a moment about every "
            "axis; name a surface with an area."
        )
    rotations = np.linalg.solve(inertia, axes)  # (n, 3) the vector a of each unit moment
    forces = [area[:, None] * np.cross(a, r) for a in rotations]
    return np.stack([force[:, :dim].ravel() for force in forces], axis=1)


def _at_time(name: str, vector: ArrayLike | Timed, dim: int, time: float, unit: str) -> Array:
    """(dim,) a vector, or the value of a function of time [s]."""
    if callable(vector):
        return finite_array(f"{name} at t = {time:g} s", vector(time), (dim,), unit)
    return finite_array(name, vector, (dim,), unit)
