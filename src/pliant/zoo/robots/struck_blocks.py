"""Blocks as point masses on posts, which the ball of the pendulum strikes
[Zimmermann2021, Fig. 4]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.actuators.polyline import Polyline
from pliant.bodies import AttachableBody, PointMass, one_sided_spring
from pliant.contact import Contact, plane, sphere
from pliant.core import Array, InputError, finite_array, require_positive
from pliant.robot import Effector, Robot

POST_RADIUS, POST_STIFFNESS, POST_LAYER, FRICTION = 0.02, 1e4, 1e-4, 0.5  # [m], [N/m], [m], [-]
TOUCHING_DISTANCE = 0.03  # [m] between the centres of the ball and of a block that touch


@dataclass(frozen=True, kw_only=True, eq=False)
class PointContact:
    """A contact of two material points of one body. They repel each other closer than `distance`.

    It has no control. The force is that of a spring, so an impact conserves energy.
    """

    first: Array  # (dim,) [m] rest position
    second: Array  # (dim,) [m] rest position
    distance: float  # [m]
    stiffness: float = 1e4  # [N/m]
    layer: float = 1e-4  # [m] depth over which the force starts smoothly
    n_controls: ClassVar[int] = 0
    neutral: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (-inf, inf)
    units: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, unit in (("distance", "m"), ("stiffness", "N/m"), ("layer", "m")):
            require_positive(f"The {name} of a point contact", getattr(self, name), unit)

    def polylines(self, body: AttachableBody) -> tuple[Polyline, ...]:
        return ()

    def attach(self, body: AttachableBody) -> "AttachedPointContact":
        points = [
            finite_array(f"The {name} point of a point contact", point, (body.dim,), "m")
            for name, point in (("first", self.first), ("second", self.second))
        ]
        if np.array_equal(points[0], points[1]):
            raise InputError(f"Both points of a point contact are at {points[0]} m; give two.")
        return AttachedPointContact(
            weights=sp.csr_matrix(body.locate(points[0][None]) - body.locate(points[1][None])),
            offset=np.zeros((1, body.dim)),
            contact=self,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedPointContact:
    """The Potential of a point contact. Its one point y is the vector from the second to the first
    material point, and its energy a one-sided spring of distance - |y|."""

    weights: sp.csr_matrix  # (1, n_nodes)
    offset: Array  # (1, dim) [m]
    contact: PointContact
    n_controls: int = 0
    points_per_block: int = 1
    stiff: bool = True

    def _spring(self, y: Array) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """Return the unit vector (1, dim), |y| (1,) [m], and the spring with its derivatives."""
        size = np.sqrt(np.sum(y * y, axis=1))
        depth = self.contact.distance - size
        return y / size[:, None], size, one_sided_spring(depth, self.contact.layer)

    def energy(self, y: Array, u: Array) -> float:
        return self.contact.stiffness * float(self._spring(y)[2][0][0])

    def gradient(self, y: Array, u: Array) -> Array:
        n, _, (_, slope, _) = self._spring(y)
        return -self.contact.stiffness * slope[:, None] * n

    def hessian(self, y: Array, u: Array) -> Array:
        n, size, (_, slope, curvature) = self._spring(y)
        along = n[:, :, None] * n[:, None, :]
        across = np.eye(y.shape[1]) - along
        return self.contact.stiffness * (
            curvature[:, None, None] * along - (slope / size)[:, None, None] * across
        )

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


def with_blocks(
    pendulum: Robot, targets: Sequence[Array], directions: Sequence[Sequence[float]]
) -> Robot:
    """Return the pendulum with a block behind each target (3,) [m] along the direction of the hit.

    A block has the mass of the ball. It stands on a post with friction, which is a sphere, and
    falls to the ground at z = 0.
    """
    shape = pendulum.shape
    assert isinstance(shape, PointMass)
    ball = np.asarray(shape.points, float)[0]
    blocks = [
        np.asarray(target) + TOUCHING_DISTANCE * np.asarray(direction)
        for target, direction in zip(targets, directions, strict=True)
    ]
    ground = Contact(
        obstacle=plane((0.0, 0.0, 1.0)),
        stiffness=POST_STIFFNESS,
        layer=POST_LAYER,
        friction=FRICTION,
    )
    posts = [
        Contact(
            obstacle=sphere(block - (0.0, 0.0, POST_RADIUS), POST_RADIUS),
            stiffness=POST_STIFFNESS,
            layer=POST_LAYER,
            friction=FRICTION,
        )
        for block in blocks
    ]
    contacts = {
        f"contact {k}": PointContact(first=ball, second=block, distance=TOUCHING_DISTANCE)
        for k, block in enumerate(blocks, start=1)
    }
    return replace(
        pendulum,
        name="pendulum_with_blocks",
        shape=replace(shape, points=np.array([ball, *blocks])),
        contacts=[*pendulum.contacts, ground, *posts],
        actuators={**pendulum.actuators, **contacts},
        effectors={
            **pendulum.effectors,
            **{f"block {k}": Effector(point=p) for k, p in enumerate(blocks, start=1)},
        },
    )
