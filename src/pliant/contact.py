"""Soft contact with planes, terrain and signed-distance obstacles: a smooth penalty
[Zimmermann2021, E_con] with regularised friction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import (
    AttachableBody,
    complex_step_jacobian,
    one_sided_spring,
    positive_parameter,
    stiffness_per_area,
    unit_gradient,
)
from pliant.core import (
    MAX_COORDINATE,
    Array,
    InputError,
    Param,
    finite_array,
    nearest,
    quoted,
    require_positive,
)
from pliant.geometry.height_field import HeightField
from pliant.materials import FRICTION

# A signed distance: (k, dim) points -> distance (k,) [m] negative inside, its gradient (k, dim),
# the outward normal, and its Hessian (k, dim, dim) [1/m]. It is evaluated at complex points too, so
# it must use analytic operations only. A lower bound of the distance, with a gradient shorter than
# one, is allowed: it makes the contact softer.
Distance = Callable[[Array], tuple[Array, Array, Array]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Obstacle:
    """A signed distance that can be drawn."""

    distance: Distance
    outline: tuple[Array, ...] = ()  # curves (k, dim) [m]
    ground: float | None = None  # [m] height of a horizontal floor; None: not a floor
    # type and parameters as in a robot file; empty for a user-defined distance function
    definition: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, y: Array) -> tuple[Array, Array, Array]:
        return self.distance(y)


def _length_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Return lengths or positions [m] as an array. Raises `InputError` beyond FARTHEST."""
    lengths = finite_array(name, value, shape, "m")
    largest = float(np.abs(lengths).max(initial=0.0))
    if largest > MAX_COORDINATE:
        raise InputError(
            f"{name} is {largest:g} m, but obstacles must lie within {MAX_COORDINATE:g} m for "
            "accurate distances; check its unit."
        )
    return lengths


def _radius(value: float) -> float:
    radius = require_positive("The obstacle's radius", value, "m")
    return float(_length_array("The obstacle's radius", radius, ()))


def plane(normal: ArrayLike, height: float = 0.0) -> Obstacle:
    """Return the half-space below a plane. `normal` of any length points to the free side; `height`
    [m] is the plane's distance from the origin.

    >>> import numpy as np, pliant as pl
    >>> ground = pl.plane(normal=(0.0, 0.0, 1.0), height=0.0)
    >>> ground(np.array([[0.0, 0.0, 0.3]]))[0].round(6)  # signed distance [m]
    array([0.3])
    """
    n = given = finite_array("The plane's normal", normal, (None,))
    height = float(_length_array("The plane's height", height, ()))
    if not n.any():
        raise InputError(f"The plane's normal is {n}; it must not be zero.")
    if not 1e-150 < np.abs(n).max() < 1e150:  # the squares would underflow or overflow
        n = n / np.abs(n).max()
    n = n / np.linalg.norm(n)

    def distance(y: Array) -> tuple[Array, Array, Array]:
        return y @ n - height, np.broadcast_to(n, y.shape), np.zeros((*y.shape, len(n)))

    level = n[-1] == 1.0
    definition = {"type": "plane", "normal": given, "height": height}
    return Obstacle(distance=distance, ground=height if level else None, definition=definition)


def sphere(centre: ArrayLike, radius: float) -> Obstacle:
    """Return a ball (in the plane: a disc) with a radius [m].

    >>> import numpy as np, pliant as pl
    >>> ball = pl.sphere(centre=(0.0, 0.0, 0.1), radius=0.02)
    >>> ball(np.array([[0.0, 0.0, 0.0]]))[0].round(6)  # signed distance [m]
    array([0.08])
    """
    c, radius = _length_array("The sphere's centre", centre, (None,)), _radius(radius)
    return Obstacle(
        distance=lambda y: _ball_distance(y - c, radius),
        outline=_circles(c, radius),
        definition={"type": "sphere", "centre": c, "radius": radius},
    )


def capsule(start: ArrayLike, end: ArrayLike, radius: float) -> Obstacle:
    """Return a capsule: all points within a radius [m] of a segment.

    >>> import numpy as np, pliant as pl
    >>> rod = pl.capsule(start=(0.0, 0.0, 0.0), end=(0.1, 0.0, 0.0), radius=0.01)
    >>> rod(np.array([[0.05, 0.03, 0.0]]))[0].round(6)  # signed distance [m]
    array([0.02])
    """
    a, radius = _length_array("The capsule's start", start, (None,)), _radius(radius)
    axis = _length_array("The capsule's end", end, a.shape) - a
    if not np.linalg.norm(axis) > 1e-9 * radius:
        raise InputError(f"The capsule's start and end are both {a} m; use a sphere instead.")

    def distance(y: Array) -> tuple[Array, Array, Array]:
        share = (y - a) @ axis / (axis @ axis)
        along = np.where(share.real < 0.0, 0.0, np.where(share.real > 1.0, 1.0, share))
        d, n, H = _ball_distance(y - a - along[:, None] * axis, radius)
        # beside the segment there is no curvature along the axis
        middle = (share.real > 0.0) & (share.real < 1.0) & (d.real > -radius)
        curvature = np.where(middle, 1.0 / np.where(middle, d + radius, 1.0), 0.0)
        t = axis / np.linalg.norm(axis)
        return d, n, H - curvature[:, None, None] * np.outer(t, t)

    return Obstacle(
        distance=distance,
        outline=(*_circles(a, radius), *_circles(a + axis, radius), np.stack([a, a + axis])),
        definition={"type": "capsule", "start": a, "end": np.asarray(end, float), "radius": radius},
    )


def terrain(heights: ArrayLike, spacing: float, origin: ArrayLike | None = None) -> Obstacle:
    """Return all points below z = h(x, y), in the plane below y = h(x). h is a smooth function
    through heights [m] on a regular grid.

    `heights` (nx, ny), in the plane (nx,), are `spacing` [m] apart and relative to `origin` (dim,)
    [m], the position of the first. Outside the grid the height of the edge continues. The distance
    is (z - h) / sqrt(1 + s^2) with the largest slope s, a lower bound of the true distance.
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
    height_field = HeightField(heights=table + start[-1], spacing=spacing, origin=start[:-1])
    scale = 1.0 / np.sqrt(1.0 + height_field.max_slope**2)

    def distance(y: Array) -> tuple[Array, Array, Array]:
        if y.shape[1] != dim:
            raise ValueError("a point of another dimension")
        height, slope, curvature = height_field.evaluate(y[:, :-1])
        up = np.concatenate([-slope, np.ones((len(y), 1))], axis=1)
        return (
            scale * (y[:, -1] - height),
            scale * up,
            -scale * np.pad(curvature, ((0, 0), (0, 1), (0, 1))),
        )

    definition = {"type": "terrain", "heights": table, "spacing": spacing, "origin": start}
    return Obstacle(distance=distance, outline=_profiles(height_field), definition=definition)


def _profiles(field: HeightField) -> tuple[Array, ...]:
    """Return curves along the grid lines of a height field, at most 21 for each axis."""
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
    return tuple(np.column_stack([line, field.evaluate(line)[0]]) for line in lines)


def _circles(centre: Array, radius: float) -> tuple[Array, ...]:
    """Return the circles around a point in each coordinate plane, to draw a ball."""
    angle = np.linspace(0.0, 2.0 * np.pi, 49)
    eye = radius * np.eye(centre.size)
    pairs = [(i, j) for i in range(centre.size) for j in range(i)]
    return tuple(
        centre + np.outer(np.cos(angle), eye[i]) + np.outer(np.sin(angle), eye[j]) for i, j in pairs
    )


def _ball_distance(r: Array, radius: float) -> tuple[Array, Array, Array]:
    size = np.sqrt(np.sum(r * r, axis=1))
    size = np.where(size == 0.0, 1e-12, size)
    n = r / size[:, None]
    return (
        size - radius,
        n,
        (np.eye(r.shape[1]) - n[:, :, None] * n[:, None, :]) / size[:, None, None],
    )


CONTACT_KINDS = ("separate", "slip", "sticky")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contact:
    """A contact of a surface of the body with an obstacle. The pressure grows with the penetration
    depth, and the friction is that of Coulomb above slip_speed.

    kind "separate": the obstacle only pushes. Material points also have "slip", where they keep
    only their tangential velocity in the obstacle, and "sticky", where they have none.

    >>> import pliant as pl
    >>> ground = pl.Contact(obstacle=pl.plane(normal=(0.0, 0.0, 1.0)), stiffness=1e7, friction=0.5)
    """

    obstacle: Distance
    surface: str | None = None  # named surface of the body; None: the whole boundary
    # [Pa/m] pressure per depth, of point masses [N/m]; None: ten times E / cell size of the body
    stiffness: float | None = None
    # [m] depth over which the pressure starts smoothly; None: a hundredth of the cell size
    layer: float | None = None
    friction: float = 0.0  # [-] Coulomb coefficient
    slip_speed: float = 1e-3  # [m/s] below it the friction is viscous
    kind: str = "separate"  # or "slip", "sticky"

    def __post_init__(self) -> None:
        for name, unit in (("stiffness", "Pa/m"), ("layer", "m"), ("slip_speed", "m/s")):
            if getattr(self, name) is not None:
                require_positive(f"The contact's {name}", getattr(self, name), unit)
        FRICTION.require(self.friction)
        if self.kind not in CONTACT_KINDS:
            raise InputError(
                f"There is no kind of contact '{self.kind}'; {nearest(self.kind, CONTACT_KINDS)}"
            )
        if self.kind != "separate" and self.friction > 0.0:
            raise InputError(
                f"A contact of kind '{self.kind}' has a friction of {self.friction:g}; remove "
                "it, or use the kind 'separate'."
            )

    def evaluate(self, y: Array) -> tuple[Array, Array, Array]:
        """Return the obstacle's distance (k,) [m], gradient and Hessian at points y (k, dim).

        Raises `InputError` if the distance at a finite point is NaN, which would compare as "not
        inside", so the contact would be ignored.
        """
        found = self.obstacle(y)
        bad = np.isnan(found[0])
        if bad.any():
            bad &= (np.abs(y) <= MAX_COORDINATE).all(axis=1)  # a trial step far away may overflow
            if bad.any():
                place = np.array2string(y[np.argmax(bad)].real, separator=", ", precision=4)
                raise InputError(
                    f"The distance function of an obstacle returns nan at {place} m; it must "
                    "return a number everywhere."
                )
        return found

    def check(self, body: AttachableBody) -> None:
        """Raise `InputError` unless obstacle and surface fit the body."""
        points = body.rest.reshape(-1, body.dim)
        self._check_obstacle(points[:1])
        area = body.node_areas(self.surface, lumped=True)
        self.evaluate(points[np.flatnonzero(area)])

    def attach(self, body: AttachableBody) -> "AttachedContact":
        """Return the Potential of the contact. Raises `InputError` if it does not fit the body."""
        if self.kind != "separate":
            raise InputError(
                f"A contact of kind '{self.kind}' is for MaterialPoint; with finite elements "
                "use the kind 'separate'."
            )
        self.check(body)
        area = body.node_areas(self.surface, lumped=True)
        nodes = np.flatnonzero(area)
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(area))
        )
        stiffness = 10.0 * stiffness_per_area(body) if self.stiffness is None else self.stiffness
        layer = 0.01 * body.cell_size() if self.layer is None else self.layer
        return AttachedContact(
            contact=self,
            weights=weights,
            area=area[nodes],
            stiffness_per_area=stiffness,
            layer=layer,
            offset=np.zeros((len(nodes), body.dim)),
        )

    def _check_obstacle(self, point: Array) -> None:
        """Raise `InputError` unless the obstacle returns arrays of the right shapes."""
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
    """Return |n|, (k,), or one if n is zero; analytic in complex n."""
    size = np.sqrt(np.sum(n * n, axis=1))
    return np.where(size == 0.0, 1.0, size)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedContact:
    """The Potential of a contact. Its points are the nodes of the surface."""

    contact: Contact
    weights: sp.csr_matrix  # (n_points, n_nodes)
    offset: Array  # (n_points, dim)
    area: Array  # (n_points,) [m^2], of point masses [-]
    stiffness_per_area: float  # [Pa/m], of point masses [N/m]
    layer: float  # [m]
    n_controls: int = 0
    points_per_block: int = 1
    stiff: bool = True

    @cached_property
    def stiffness(self) -> Array:
        """The stiffness of each point, (n_points,) [N/m]."""
        return self.stiffness_per_area * self.area

    @property
    def parameters(self) -> tuple[Param, ...]:
        stiffness = positive_parameter("stiffness", self.stiffness_per_area, "Pa/m")
        return stiffness, FRICTION.parameter("friction", self.contact.friction)

    def with_parameters(self, values: Mapping[str, float]) -> "AttachedContact":
        friction = float(values.get("friction", self.contact.friction))
        return replace(
            self,
            contact=replace(self.contact, friction=friction),
            stiffness_per_area=values.get("stiffness", self.stiffness_per_area),
        )

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        """Return the derivative of the normal force, which does not depend on the friction."""
        return unit_gradient(self, name, y, u) if name == "stiffness" else np.zeros_like(y)

    def gaps(self, y: Array) -> Array:
        """Return the distance from the obstacle, (n_points,) [m], negative inside."""
        return self.contact.evaluate(y)[0]

    def energy(self, y: Array, u: Array) -> float:
        return float(self.stiffness @ one_sided_spring(-self.gaps(y), self.layer)[0])

    def normal_force(self, y: Array) -> Array:
        """Return the normal force at each point, (n_points,) [N]."""
        return self.normal_force_and_direction(y)[0]

    def normal_force_and_direction(self, y: Array) -> tuple[Array, Array]:
        """Return the normal force (n_points,) [N] and the unit normal (n_points, dim)."""
        d, n, _ = self.contact.evaluate(y)
        size = _length(n)
        return self.stiffness * one_sided_spring(-d, self.layer)[1] * size, n / size[:, None]

    def gradient(self, y: Array, u: Array) -> Array:
        d, n, _ = self.contact.evaluate(y)
        return -(self.stiffness * one_sided_spring(-d, self.layer)[1])[:, None] * n

    def hessian(self, y: Array, u: Array) -> Array:
        d, n, H = self.contact.evaluate(y)
        _, slope, curvature = one_sided_spring(-d, self.layer)
        return self.stiffness[:, None, None] * (
            curvature[:, None, None] * n[:, :, None] * n[:, None, :] - slope[:, None, None] * H
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Friction:
    """The Dissipation of Coulomb friction over a time step. It uses the normal force and direction
    at the start of the step, so it has a potential."""

    contact: AttachedContact

    @property
    def weights(self) -> sp.csr_matrix:
        return self.contact.weights

    @property
    def parameters(self) -> tuple[Param, ...]:
        return self.contact.parameters

    def with_parameters(self, values: Mapping[str, float]) -> "Friction":
        return Friction(contact=self.contact.with_parameters(values))

    def parameter_gradient(self, name: str, y: Array, old: Array, dt: float) -> Array:
        """Return the derivative (n_points, dim) of the gradient by a parameter, which is a factor
        of it."""
        return unit_gradient(self, name, y, old, dt)

    def parameter_viscosity(self, name: str, old: Array, velocity: Array) -> Array:
        """Return the derivative (n_points, dim, dim) of the damping blocks by a parameter."""
        return self.with_parameters({name: 1.0}).viscosity(old, velocity)

    def _start(self, old: Array) -> tuple[Array, Array]:
        """Return the friction limit (n,) [N] and the tangent projection (n, dim, dim) at the start
        of the step."""
        force, n = self.contact.normal_force_and_direction(old)
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

    def hessian(self, y: Array, old: Array, dt: float) -> Array:
        limit, tangent, s, r = self._slip(y, old, dt)
        return (limit / r)[:, None, None] * (
            tangent - s[:, :, None] * s[:, None, :] / (r * r)[:, None, None]
        )

    def mixed_hessian(self, y: Array, old: Array, dt: float) -> Array:
        return complex_step_jacobian(lambda z: self.gradient(y, z, dt), old)

    def viscosity(self, old: Array, velocity: Array) -> Array:
        limit, tangent = self._start(old)
        s = np.einsum("nij,nj->ni", tangent, velocity)
        return (limit / np.sqrt(np.sum(s * s, axis=1) + self.contact.contact.slip_speed**2))[
            :, None, None
        ] * tangent
