"""Soft contact with planes, terrain and signed-distance obstacles: a smooth penalty (paper 003's
E_con) with regularised friction."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import Matter, complex_slopes, one_sided
from pliant.core import FARTHEST, Array, InputError, finite_array, nearest, quoted, require_positive
from pliant.geometry.heights import HeightField
from pliant.materials import FRICTION

# A signed distance: (k, dim) points -> distance (k,) [m] negative inside, its gradient (k, dim),
# the outward normal, and its Hessian (k, dim, dim) [1/m]. It is evaluated at complex points too, so
# it is written with analytic operations. A distance that is too short, with a gradient shorter than
# one, will do: it makes the contact softer.
Distance = Callable[[Array], tuple[Array, Array, Array]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Obstacle:
    """A signed distance that can be drawn."""

    distance: Distance
    outline: tuple[Array, ...] = ()  # curves (k, dim) [m]
    ground: float | None = None  # [m] its height, where it is a level floor

    def __call__(self, y: Array) -> tuple[Array, Array, Array]:
        return self.distance(y)


def _length_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Return lengths or places [m] as an array. Raises InputError beyond FARTHEST."""
    lengths = finite_array(name, value, shape, "m")
    largest = float(np.abs(lengths).max(initial=0.0))
    if largest > FARTHEST:
        raise InputError(
            f"{name} reaches {largest:g} m; obstacles must lie within {FARTHEST:g} m, where "
            "distances are exact enough. Check its unit."
        )
    return lengths


def _radius(value: float) -> float:
    radius = require_positive("The obstacle's radius", value, "m")
    return float(_length_array("The obstacle's radius", radius, ()))


def plane(normal: ArrayLike, height: float = 0.0) -> Obstacle:
    """The half space below a plane; `normal` of any length points to the free side, `height` [m] is
    the plane's distance from the origin."""
    n = finite_array("The plane's normal", normal, (None,))
    height = float(_length_array("The plane's height", height, ()))
    if not n.any():
        raise InputError(f"The plane's normal is {n}; it must not be zero.")
    if not 1e-150 < np.abs(n).max() < 1e150:  # the squares would underflow or overflow
        n = n / np.abs(n).max()
    n = n / np.linalg.norm(n)

    def distance(y: Array) -> tuple[Array, Array, Array]:
        return y @ n - height, np.broadcast_to(n, y.shape), np.zeros((*y.shape, len(n)))

    level = n[-1] == 1.0
    return Obstacle(distance=distance, ground=height if level else None)


def sphere(center: ArrayLike, radius: float) -> Obstacle:
    """A ball (a disc in the plane) of a radius [m]."""
    c, radius = _length_array("The sphere's centre", center, (None,)), _radius(radius)
    return Obstacle(distance=lambda y: _round(y - c, radius), outline=_circles(c, radius))


def capsule(start: ArrayLike, end: ArrayLike, radius: float) -> Obstacle:
    """All points within a radius [m] of a segment."""
    a, radius = _length_array("The capsule's start", start, (None,)), _radius(radius)
    axis = _length_array("The capsule's end", end, a.shape) - a
    if not np.linalg.norm(axis) > 1e-9 * radius:
        raise InputError(f"The capsule's start and end are both {a} m; take a sphere instead.")

    def distance(y: Array) -> tuple[Array, Array, Array]:
        share = (y - a) @ axis / (axis @ axis)
        along = np.where(share.real < 0.0, 0.0, np.where(share.real > 1.0, 1.0, share))
        d, n, H = _round(y - a - along[:, None] * axis, radius)
        middle = (
            (share.real > 0.0) & (share.real < 1.0) & (d.real > -radius)
        )  # on the axis there is no bend
        t = axis / np.linalg.norm(axis)
        return (
            d,
            n,
            H
            - np.where(middle, 1.0 / np.where(middle, d + radius, 1.0), 0.0)[:, None, None]
            * np.outer(t, t),
        )

    return Obstacle(
        distance=distance,
        outline=(*_circles(a, radius), *_circles(a + axis, radius), np.stack([a, a + axis])),
    )


def terrain(heights: ArrayLike, spacing: float, origin: ArrayLike | None = None) -> Obstacle:
    """All points below z = h(x, y), in the plane below y = h(x), for a smooth h through heights [m]
    on an even grid.

    `heights` (nx, ny), in the plane (nx,), stand `spacing` [m] apart, the first at `origin` (dim,)
    [m] and all counted from there; beyond the grid the edge's height goes on. The distance is (z -
    h) / sqrt(1 + s^2) with s the steepest slope, so never more than the true one.
    """
    try:
        table = np.asarray(heights, dtype=float)
    except (TypeError, ValueError, OverflowError):  # text, ragged lists
        table = np.zeros(0)
    if table.ndim not in (1, 2) or not table.size:
        raise InputError(
            f"The heights of a terrain are {quoted(heights)}; give a table (nx, ny) of "
            "numbers [m], in the plane (nx,)."
        )
    table = _length_array("The array of heights of a terrain", table, (None,) * table.ndim)
    spacing, dim = require_positive("The spacing of a terrain", spacing, "m"), table.ndim + 1
    spacing = float(_length_array("The spacing of a terrain", spacing, ()))
    start = (
        np.zeros(dim)
        if origin is None
        else _length_array("The origin of a terrain", origin, (dim,))
    )
    field = HeightField(heights=table + start[-1], spacing=spacing, origin=start[:-1])
    scale = 1.0 / np.sqrt(1.0 + field.steepest**2)

    def distance(y: Array) -> tuple[Array, Array, Array]:
        if y.shape[1] != dim:
            raise ValueError("a point of another dimension")
        height, slope, bend = field.at(y[:, :-1])
        up = np.concatenate([-slope, np.ones((len(y), 1))], axis=1)
        return (
            scale * (y[:, -1] - height),
            scale * up,
            -scale * np.pad(bend, ((0, 0), (0, 1), (0, 1))),
        )

    return Obstacle(distance=distance, outline=_profiles(field))


def _profiles(field: HeightField) -> tuple[Array, ...]:
    """The curves of a height field along its grid lines, of a large one along some of them."""
    ends = field.origin + field.spacing * (np.array(field.heights.shape) - 1)
    fine = [
        np.linspace(a, b, min(4 * n, 200))
        for a, b, n in zip(field.origin, ends, field.heights.shape, strict=True)
    ]
    few = [
        np.linspace(a, b, min(n, 21))
        for a, b, n in zip(field.origin, ends, field.heights.shape, strict=True)
    ]
    if field.heights.ndim == 1:
        lines = [fine[0][:, None]]
    else:
        lines = [np.stack([fine[0], np.full(fine[0].size, y)], axis=1) for y in few[1]]
        lines += [np.stack([np.full(fine[1].size, x), fine[1]], axis=1) for x in few[0]]
    return tuple(np.column_stack([line, field.at(line)[0]]) for line in lines)


def _circles(center: Array, radius: float) -> tuple[Array, ...]:
    """The circles about a point along each pair of axes, to draw a ball."""
    angle = np.linspace(0.0, 2.0 * np.pi, 49)
    eye = radius * np.eye(center.size)
    pairs = [(i, j) for i in range(center.size) for j in range(i)]
    return tuple(
        center + np.outer(np.cos(angle), eye[i]) + np.outer(np.sin(angle), eye[j]) for i, j in pairs
    )


def _round(r: Array, radius: float) -> tuple[Array, Array, Array]:
    size = np.sqrt(np.sum(r * r, axis=1))
    size = np.where(size == 0.0, 1e-12, size)
    n = r / size[:, None]
    return (
        size - radius,
        n,
        (np.eye(r.shape[1]) - n[:, :, None] * n[:, None, :]) / size[:, None, None],
    )


KINDS = ("separate", "slip", "sticky")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contact:
    """Keeps a surface of the body out of an obstacle: pressure grows with depth, friction follows
    Coulomb above slip_speed.

    kind "separate": the obstacle only pushes. Of particles also "slip": what is in it keeps its
    velocity along it only; and "sticky": it keeps none. Finite elements know the first only.
    """

    obstacle: Distance
    surface: str | None = None  # named surface that may touch; None: the whole boundary
    stiffness: float | None = (
        # [Pa/m] pressure per depth, of point masses [N/m]; None: ten times E / cell of the body
        None
    )
    layer: float | None = (
        None  # [m] depth over which the pressure sets in smoothly; None: a hundredth of a cell
    )
    friction: float = 0.0  # [-] Coulomb's coefficient
    slip_speed: float = 1e-3  # [m/s] below this the friction is viscous
    kind: str = "separate"  # or "slip", "sticky"

    def __post_init__(self) -> None:
        for name, unit in (("stiffness", "Pa/m"), ("layer", "m"), ("slip_speed", "m/s")):
            if getattr(self, name) is not None:
                require_positive(f"The contact's {name}", getattr(self, name), unit)
        FRICTION.require(self.friction)
        if self.kind not in KINDS:
            raise InputError(
                f"There is no kind of contact '{self.kind}'; {nearest(self.kind, KINDS)}"
            )
        if self.kind != "separate" and self.friction > 0.0:
            raise InputError(
                f"A contact of kind '{self.kind}' has a friction of {self.friction:g}; remove "
                "it, or take the kind 'separate'."
            )

    def at(self, y: Array) -> tuple[Array, Array, Array]:
        """Return the obstacle's distance (k,) [m], gradient and Hessian at points y (k, dim).

        Raises InputError where the distance at a finite point is not a number: NaN compares as "not
        inside", so the contact would be ignored.
        """
        found = self.obstacle(y)
        bad = np.isnan(found[0])
        if bad.any():
            bad &= (np.abs(y) <= FARTHEST).all(axis=1)  # a trial step far away may overflow
            if bad.any():
                place = np.array2string(y[np.argmax(bad)].real, separator=", ", precision=4)
                raise InputError(
                    f"The distance function of an obstacle returns nan at {place} m; it must "
                    "return a number everywhere."
                )
        return found

    def check(self, body: Matter) -> None:
        """Raise InputError unless obstacle and surface fit the body, whatever steps it."""
        points = body.rest.reshape(-1, body.dim)
        self._try(points[:1])
        area = body.patch(self.surface, even=True)
        self.at(points[np.flatnonzero(area)])

    def on(self, body: Matter) -> "AttachedContact":
        if self.kind != "separate":
            raise InputError(
                f"A contact of kind '{self.kind}' is for MaterialPoint; with finite elements "
                "take the kind 'separate'."
            )
        self.check(body)
        area = body.patch(self.surface, even=True)
        nodes = np.flatnonzero(area)
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(area))
        )
        stiffness = 10.0 * body.hardness() if self.stiffness is None else self.stiffness
        layer = 0.01 * body.cell_size() if self.layer is None else self.layer
        return AttachedContact(
            contact=self,
            weights=weights,
            stiffness=stiffness * area[nodes],
            layer=layer,
            offset=np.zeros((len(nodes), body.dim)),
        )

    def _try(self, point: Array) -> None:
        """One look at the obstacle, so that a wrong one is a sentence now and not a NaN later."""
        dim = point.shape[1]
        try:
            found = [np.shape(part) for part in self.obstacle(point)]
        except (TypeError, ValueError, OverflowError):
            found = []
        if found != [(1,), (1, dim), (1, dim, dim)]:
            raise InputError(
                f"The obstacle of a contact does not fit a body in {dim} dimensions; make it "
                f"with plane, sphere or capsule from vectors of {dim} numbers, or with terrain "
                f"from a table of {dim - 1}."
            )


def _length(n: Array) -> Array:
    """(k,) |n|, one where n is zero; analytic in complex n."""
    size = np.sqrt(np.sum(n * n, axis=1))
    return np.where(size == 0.0, 1.0, size)


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

    def gaps(self, y: Array) -> Array:
        """(n_points,) [m] from the obstacle, negative inside."""
        return self.contact.at(y)[0]

    def energy(self, y: Array, u: Array) -> float:
        return float(self.stiffness @ one_sided(-self.gaps(y), self.layer)[0])

    def normal_force(self, y: Array) -> Array:
        """(n_points,) [N] the normal force of each point."""
        return self.pressed(y)[0]

    def pressed(self, y: Array) -> tuple[Array, Array]:
        """(normal force (n_points,) [N], unit normal (n_points, dim)) of each point."""
        d, n, _ = self.contact.at(y)
        size = _length(n)
        return self.stiffness * one_sided(-d, self.layer)[1] * size, n / size[:, None]

    def gradient(self, y: Array, u: Array) -> Array:
        d, n, _ = self.contact.at(y)
        return -(self.stiffness * one_sided(-d, self.layer)[1])[:, None] * n

    def curvature(self, y: Array, u: Array) -> Array:
        d, n, H = self.contact.at(y)
        _, slope, bend = one_sided(-d, self.layer)
        return self.stiffness[:, None, None] * (
            bend[:, None, None] * n[:, :, None] * n[:, None, :] - slope[:, None, None] * H
        )

    def ranks(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_curvature(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Friction:
    """Coulomb friction over one step with the normal force and direction of the step's start, so
    that it has a potential."""

    contact: AttachedContact

    @property
    def weights(self) -> sp.csr_matrix:
        return self.contact.weights

    def _start(self, old: Array) -> tuple[Array, Array]:
        """(limit (n,) [N], tangent projection (n, dim, dim)) at the step's start."""
        force, n = self.contact.pressed(old)
        tangent = np.eye(old.shape[1]) - n[:, :, None] * n[:, None, :]
        return self.contact.contact.friction * force, tangent

    def _slip(self, y: Array, old: Array, dt: float) -> tuple[Array, Array, Array, Array]:
        limit, tangent = self._start(old)
        s = np.einsum("nij,nj->ni", tangent, y - old)
        return (
            limit,
            tangent,
            s,
            np.sqrt(np.sum(s * s, axis=1) + (dt * self.contact.contact.slip_speed) ** 2),
        )

    def energy(self, y: Array, old: Array, dt: float) -> float:
        limit, _, _, r = self._slip(y, old, dt)
        return float(limit @ (r - dt * self.contact.contact.slip_speed))

    def gradient(self, y: Array, old: Array, dt: float) -> Array:
        limit, _, s, r = self._slip(y, old, dt)
        return (limit / r)[:, None] * s

    def curvature(self, y: Array, old: Array, dt: float) -> Array:
        limit, tangent, s, r = self._slip(y, old, dt)
        return (limit / r)[:, None, None] * (
            tangent - s[:, :, None] * s[:, None, :] / (r * r)[:, None, None]
        )

    def coupling(self, y: Array, old: Array, dt: float) -> Array:
        return complex_slopes(lambda z: self.gradient(y, z, dt), old)

    def viscosity(self, old: Array, velocity: Array) -> Array:
        limit, tangent = self._start(old)
        s = np.einsum("nij,nj->ni", tangent, velocity)
        return (limit / np.sqrt(np.sum(s * s, axis=1) + self.contact.contact.slip_speed**2))[
            :, None, None
        ] * tangent
