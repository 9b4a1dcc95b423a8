"""Soft contact with planes and signed-distance obstacles: a smooth penalty (paper 003's E_con) with regularised friction."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import Body, complex_slopes, one_sided
from pliant.core import Array, InputError, finite_array, require_number, require_positive

# A signed distance: (k, dim) points -> distance (k,) [m] negative inside, outward normal (k, dim), Hessian (k, dim, dim) [1/m].
# It is evaluated at complex points too, so it is written with analytic operations.
Distance = Callable[[Array], tuple[Array, Array, Array]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Obstacle:
    """A signed distance that can be drawn."""

    distance: Distance
    outline: tuple[Array, ...] = ()  # curves (k, dim) [m]
    ground: float | None = None  # [m] its height, where it is a level floor

    def __call__(self, y: Array) -> tuple[Array, Array, Array]:
        return self.distance(y)


def plane(normal: ArrayLike, height: float = 0.0) -> Obstacle:
    """The half space below a plane; `normal` points to the free side, `height` [m] is the plane's distance from the origin."""
    n, height = finite_array("The plane's normal", normal, (None,)), float(finite_array("The plane's height", height, (), "m"))
    if not np.linalg.norm(n) > 0.0:
        raise InputError(f"The plane's normal is {n}; it must not be zero.")
    n = n / np.linalg.norm(n)

    def distance(y: Array) -> tuple[Array, Array, Array]:
        return y @ n - height, np.broadcast_to(n, y.shape), np.zeros((*y.shape, len(n)))

    level = n[-1] == 1.0
    return Obstacle(distance=distance, ground=height if level else None)


def sphere(center: ArrayLike, radius: float) -> Obstacle:
    """A ball (a disc in the plane) of a radius [m]."""
    c, radius = finite_array("The sphere's centre", center, (None,), "m"), require_positive("The obstacle's radius", radius, "m")
    return Obstacle(distance=lambda y: _round(y - c, radius), outline=_circles(c, radius))


def capsule(start: ArrayLike, end: ArrayLike, radius: float) -> Obstacle:
    """All points within a radius [m] of a segment."""
    a, radius = finite_array("The capsule's start", start, (None,), "m"), require_positive("The obstacle's radius", radius, "m")
    axis = finite_array("The capsule's end", end, a.shape, "m") - a
    if not axis.any():
        raise InputError(f"The capsule's start and end are both {a} m; take a sphere instead.")

    def distance(y: Array) -> tuple[Array, Array, Array]:
        share = (y - a) @ axis / (axis @ axis)
        along = np.where(share.real < 0.0, 0.0, np.where(share.real > 1.0, 1.0, share))
        d, n, H = _round(y - a - along[:, None] * axis, radius)
        middle = (share.real > 0.0) & (share.real < 1.0)
        t = axis / np.linalg.norm(axis)
        return d, n, H - np.where(middle, 1.0 / (d + radius), 0.0)[:, None, None] * np.outer(t, t)

    return Obstacle(distance=distance, outline=(*_circles(a, radius), *_circles(a + axis, radius), np.stack([a, a + axis])))


def _circles(center: Array, radius: float) -> tuple[Array, ...]:
    """The circles about a point along each pair of axes, to draw a ball."""
    angle = np.linspace(0.0, 2.0 * np.pi, 49)
    eye = radius * np.eye(center.size)
    pairs = [(i, j) for i in range(center.size) for j in range(i)]
    return tuple(center + np.outer(np.cos(angle), eye[i]) + np.outer(np.sin(angle), eye[j]) for i, j in pairs)


def _round(r: Array, radius: float) -> tuple[Array, Array, Array]:
    size = np.sqrt(np.sum(r * r, axis=1))
    size = np.where(size == 0.0, 1e-12, size)
    n = r / size[:, None]
    return size - radius, n, (np.eye(r.shape[1]) - n[:, :, None] * n[:, None, :]) / size[:, None, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contact:
    """Keeps a surface of the body out of an obstacle: pressure grows with depth, friction follows Coulomb above slip_speed."""

    obstacle: Distance
    surface: str | None = None  # named surface that may touch; None: the whole boundary
    stiffness: float | None = None  # [Pa/m] pressure per depth, of point masses [N/m]; None: ten times E / cell of the body
    layer: float | None = None  # [m] depth over which the pressure sets in smoothly; None: a hundredth of a cell
    friction: float = 0.0  # [-] Coulomb's coefficient
    slip_speed: float = 1e-3  # [m/s] below this the friction is viscous

    def __post_init__(self) -> None:
        for name, unit in (("stiffness", "Pa/m"), ("layer", "m"), ("slip_speed", "m/s")):
            if getattr(self, name) is not None:
                require_positive(f"The contact's {name}", getattr(self, name), unit)
        if not 0.0 <= require_number("The friction coefficient", self.friction, "-") < np.inf:
            raise InputError(f"The friction coefficient is {self.friction:g}; it must be zero or positive.")

    def on(self, body: Body) -> "AttachedContact":
        self._try(body.rest.reshape(-1, body.dim)[:1])
        area = body.patch(self.surface, even=True)
        nodes = np.flatnonzero(area)
        weights = sp.csr_matrix((np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(area)))
        stiffness = 10.0 * body.hardness() if self.stiffness is None else self.stiffness
        layer = 0.01 * body.cell_size() if self.layer is None else self.layer
        return AttachedContact(contact=self, weights=weights, stiffness=stiffness * area[nodes], layer=layer,
                               offset=np.zeros((len(nodes), body.dim)))  # fmt: skip

    def _try(self, point: Array) -> None:
        """One look at the obstacle, so that a wrong one is a sentence now and not a NaN later."""
        dim = point.shape[1]
        try:
            found = [np.shape(part) for part in self.obstacle(point)]
        except (TypeError, ValueError):
            found = []
        if found != [(1,), (1, dim), (1, dim, dim)]:
            raise InputError(f"The obstacle of a contact does not fit a body in {dim} dimensions; make it with plane, sphere or capsule "
                             f"from vectors of {dim} numbers.")  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedContact:
    """A Term over the surface nodes, and with `Friction` a Drag."""

    contact: Contact
    weights: sp.csr_matrix  # (n_points, n_nodes)
    offset: Array  # (n_points, dim)
    stiffness: Array  # (n_points,) [N/m]
    layer: float  # [m]
    n_controls: int = 0
    group: int = 1
    stiff: bool = True

    def energy(self, y: Array, u: Array) -> float:
        return float(self.stiffness @ one_sided(-self.contact.obstacle(y)[0], self.layer)[0])

    def normal_force(self, y: Array) -> Array:
        """(n_points,) [N] the normal force of each point."""
        return self.stiffness * one_sided(-self.contact.obstacle(y)[0], self.layer)[1]

    def gradient(self, y: Array, u: Array) -> Array:
        return -self.normal_force(y)[:, None] * self.contact.obstacle(y)[1]

    def curvature(self, y: Array, u: Array) -> Array:
        d, n, H = self.contact.obstacle(y)
        _, slope, bend = one_sided(-d, self.layer)
        return self.stiffness[:, None, None] * (bend[:, None, None] * n[:, :, None] * n[:, None, :] - slope[:, None, None] * H)

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Friction:
    """Coulomb friction over one step with the normal force and direction of the step's start, so that it has a potential."""

    contact: AttachedContact

    @property
    def weights(self) -> sp.csr_matrix:
        return self.contact.weights

    def _start(self, old: Array) -> tuple[Array, Array]:
        """(limit (n,) [N], tangent projection (n, dim, dim)) at the step's start."""
        n = self.contact.contact.obstacle(old)[1]
        tangent = np.eye(old.shape[1]) - n[:, :, None] * n[:, None, :]
        return self.contact.contact.friction * self.contact.normal_force(old), tangent

    def _slip(self, y: Array, old: Array, dt: float) -> tuple[Array, Array, Array, Array]:
        limit, tangent = self._start(old)
        s = np.einsum("nij,nj->ni", tangent, y - old)
        return limit, tangent, s, np.sqrt(np.sum(s * s, axis=1) + (dt * self.contact.contact.slip_speed) ** 2)

    def energy(self, y: Array, old: Array, dt: float) -> float:
        limit, _, _, r = self._slip(y, old, dt)
        return float(limit @ (r - dt * self.contact.contact.slip_speed))

    def gradient(self, y: Array, old: Array, dt: float) -> Array:
        limit, _, s, r = self._slip(y, old, dt)
        return (limit / r)[:, None] * s

    def curvature(self, y: Array, old: Array, dt: float) -> Array:
        limit, tangent, s, r = self._slip(y, old, dt)
        return (limit / r)[:, None, None] * (tangent - s[:, :, None] * s[:, None, :] / (r * r)[:, None, None])

    def coupling(self, y: Array, old: Array, dt: float) -> Array:
        return complex_slopes(lambda z: self.gradient(y, z, dt), old)

    def viscosity(self, old: Array, velocity: Array) -> Array:
        limit, tangent = self._start(old)
        s = np.einsum("nij,nj->ni", tangent, velocity)
        return (limit / np.sqrt(np.sum(s * s, axis=1) + self.contact.contact.slip_speed**2))[:, None, None] * tangent
