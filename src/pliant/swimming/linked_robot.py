"""Linked rigid bodies: a tree of rigid links with hinges, the description of a swimming robot."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    InputError,
    check_limits,
    finite_array,
    nearest,
    quoted,
    require_kind,
    require_number,
    require_positive,
)
from pliant.geometry import Surface, scale_warnings
from pliant.result_reports import notebook_html
from pliant.robot.controls import Control
from pliant.swimming.link_shapes import ClosedSurface, LinkShape
from pliant.swimming.placement import Placement

STANDARD_EFFECTORS = ("root", "centre of mass")
# [rad] beyond a limit that no hinge reaches: its stop can absorb the work that its motor does over
# the whole range
STOP_MARGIN = 0.2
ROUNDING = 1e-15  # of the length of a unit vector
SLIDER_SPAN = 1.0  # [N m] of a motor without limits, in user interfaces


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """A rigid link. Its frame is the frame of its shape.

    Parameters
    ----------
    shape : EllipsoidShape or ClosedSurface; a pl.geometry.Surface becomes a ClosedSurface
    density : [kg/m^3] of a homogeneous link; None if `mass` and `inertia` are given
    mass : [kg]
    inertia : (3, 3) [kg m^2] about the centre of mass, in the link's frame
    centre_of_mass : (3,) [m] in the link's frame; None for the centroid of the shape, which a
        homogeneous link has

    Raises InputError unless either `density` or `mass` with `inertia` is given.
    """

    shape: LinkShape
    density: float | None = None
    mass: float | None = None
    inertia: ArrayLike | None = None
    centre_of_mass: ArrayLike | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shape, Surface):
            closed = ClosedSurface(points=self.shape.points, triangles=self.shape.triangles)
            object.__setattr__(self, "shape", closed)  # frozen dataclass
        remedy = "give EllipsoidShape(...) or ClosedSurface(points=..., triangles=...)"
        require_kind("The shape of a link", self.shape, LinkShape, remedy)
        if (self.density is None) == (self.mass is None):
            raise InputError("A link has either a density or a mass; give exactly one of the two.")
        if (self.mass is None) != (self.inertia is None):
            raise InputError("The mass and the inertia of a link belong together; give both.")
        if self.density is not None and self.centre_of_mass is not None:
            raise InputError(
                "A link with a density is homogeneous: its centre of mass is the centroid of its "
                "shape. Remove centre_of_mass, or give mass and inertia instead of the density."
            )
        set_field = lambda name, value: object.__setattr__(self, name, value)  # frozen dataclass
        if self.density is not None:
            density = require_positive("The density of a link", self.density, "kg/m^3")
            set_field("mass", density * self.shape.volume)
            set_field("inertia", density * self.shape.inertia)
        set_field("mass", require_positive("The mass of a link", self.mass, "kg"))  # type: ignore[arg-type]
        set_field("inertia", _checked_inertia(self.inertia))
        centre = self.shape.centroid if self.centre_of_mass is None else self.centre_of_mass
        set_field("centre_of_mass", finite_array("The centre of mass", centre, (3,), "m"))

    @property
    def size(self) -> float:
        """The largest extent [m] of the shape along the axes of its frame."""
        return float(np.ptp(self.shape.surface().points, axis=0).max())


def _checked_inertia(inertia: ArrayLike | None) -> Array:
    """Return an inertia tensor (3, 3). Raises InputError unless a rigid body can have it."""
    tensor = finite_array("The inertia of a link", inertia, (3, 3), "kg m^2")
    moments = np.linalg.eigvalsh(tensor)
    rounding = 1e-9 * float(np.abs(tensor).max())  # of an inertia that was integrated
    if np.abs(tensor - tensor.T).max() > rounding or moments[0] <= 0.0:
        raise InputError(
            "The inertia of a link is not symmetric and positive definite; give the inertia about "
            "its centre of mass."
        )
    if moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
        raise InputError(
            f"The principal inertias of a link are {moments} kg m^2. No rigid body has one above "
            "the sum of the other two; correct them."
        )
    return 0.5 * (tensor + tensor.T)


@dataclass(frozen=True, kw_only=True, eq=False)
class Hinge:
    """A hinge between two links. At angle zero the frames of both links are parallel.

    Parameters
    ----------
    parent, child : names of the links
    axis : (3,) direction in the parent's frame; the child rotates about it
    point : (3,) [m] of the hinge in the parent's frame
    child_point : (3,) [m] of the hinge in the child's frame
    limits : lower and upper angle [rad]
    torque : lower and upper torque [N m] of its motor; None for a passive hinge
    stiffness : [N m/rad] of a spring with angle zero at rest
    damping : [N m s/rad]
    stop_stiffness : k [N m/rad^2] of the stops, which push back with k e^2 at e [rad] beyond a
        limit. With None, the stops hold what the motor can do: they absorb its work over the whole
        range within 0.2 rad. A hinge without a limited motor has the stiffest of the other stops,
        and none if there is no other.
    """

    parent: str
    child: str
    axis: ArrayLike
    point: ArrayLike
    child_point: ArrayLike
    limits: tuple[float, float]
    torque: tuple[float, float] | None = (-np.inf, np.inf)
    stiffness: float = 0.0
    damping: float = 0.0
    stop_stiffness: float | None = None

    def __post_init__(self) -> None:
        of = f"the hinge from {quoted(self.parent)} to {quoted(self.child)}"
        if self.parent == self.child:
            raise InputError(f"A hinge joins two links, but parent and child are {self.parent!r}.")
        axis = finite_array(f"The axis of {of}", self.axis, (3,))
        size = float(np.linalg.norm(axis))
        if not size > 0.0:
            raise InputError(f"The axis of {of} is zero; give a direction such as (0, 0, 1).")
        # an axis that has unit length already keeps its bits, so that files give the same robot
        length = 1.0 if abs(size - 1.0) < ROUNDING else size
        object.__setattr__(self, "axis", axis / length)  # frozen dataclass
        for name in ("point", "child_point"):
            value = finite_array(f"The {name} of {of}", getattr(self, name), (3,), "m")
            object.__setattr__(self, name, value)
        check_limits(of, self.limits)
        if not np.all(np.isfinite(self.limits)):
            raise InputError(f"The limits of {of} are not finite; give angles in rad.")
        if self.torque is not None:
            check_limits(f"the torque of {of}", self.torque)
        for name, unit in (("stiffness", "N m/rad"), ("damping", "N m s/rad")):
            _require_not_negative(f"The {name} of {of}", getattr(self, name), unit)
        if self.stop_stiffness is not None:
            _require_not_negative(f"The stop stiffness of {of}", self.stop_stiffness, "N m/rad^2")

    @property
    def stop(self) -> float | None:
        """The stiffness k [N m/rad^2] of the stops; None if the hinge does not determine it."""
        if self.stop_stiffness is not None:
            return float(self.stop_stiffness)
        largest = np.inf if self.torque is None else float(np.abs(self.torque).max())
        if not np.isfinite(largest):
            return None
        work = largest * (self.limits[1] - self.limits[0] + STOP_MARGIN)
        return 3.0 * work / STOP_MARGIN**3  # k e^3 / 3 is the energy of a stop


def _require_not_negative(name: str, value: float, unit: str) -> None:
    number = require_number(name, value, unit)
    if not 0.0 <= number < np.inf:
        raise InputError(f"{name} is {number:g} {unit}; it must be finite and not negative.")


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkPoint:
    """A point on a link that is controlled or measured."""

    link: str
    point: ArrayLike = (0.0, 0.0, 0.0)  # (3,) [m] in the link's frame

    def __post_init__(self) -> None:
        value = finite_array("The point of an effector", self.point, (3,), "m")
        object.__setattr__(self, "point", value)  # frozen dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedRobot:
    """A tree of rigid links with hinges, in a fluid or in empty space. The first link is the root,
    which moves freely.

    The effectors "root" and "centre of mass" always exist; `effectors` adds points on links. The
    controls are the torques of the hinges with motors, in the order of `hinges`.
    """

    links: Mapping[str, Link]
    hinges: Mapping[str, Hinge] = field(default_factory=dict)
    effectors: Mapping[str, LinkPoint] = field(default_factory=dict)
    fluid_density: float = 1000.0  # [kg/m^3]; 0 without a fluid
    gravity: ArrayLike = (0.0, 0.0, 0.0)  # (3,) [m/s^2]
    name: str = "swimmer"

    def __post_init__(self) -> None:
        _require_values("links", self.links, Link)
        _require_values("hinges", self.hinges, Hinge)
        _require_values("effectors", self.effectors, LinkPoint)
        if not self.links:
            raise InputError(f"{self.name} has no links; give at least one.")
        _require_not_negative("The density of the fluid", self.fluid_density, "kg/m^3")
        object.__setattr__(
            self, "gravity", finite_array("The gravity", self.gravity, (3,), "m/s^2")
        )
        for name, hinge in self.hinges.items():
            for end in (hinge.parent, hinge.child):
                if end not in self.links:
                    raise InputError(
                        f"The hinge '{name}' refers to a link {quoted(end)}, but "
                        f"{nearest(end, self.links)}"
                    )
        for name, effector in self.effectors.items():
            if name in STANDARD_EFFECTORS:
                raise InputError(
                    f"Every linked robot has an effector '{name}'; give yours another name."
                )
            if effector.link not in self.links:
                raise InputError(
                    f"The effector '{name}' is on a link {quoted(effector.link)}, but "
                    f"{nearest(effector.link, self.links)}"
                )
        self.parents  # noqa: B018  # raises InputError unless the hinges form a tree
        for name, link in self.links.items():
            for message in scale_warnings(link.size):
                warnings.warn(f"{self.name}: links.{name}: {message}", stacklevel=3)

    def __repr__(self) -> str:
        return (
            f"LinkedRobot({self.name}, {len(self.links)} links, {len(self.hinges)} hinges, "
            f"{self.n_controls} controls)"
        )

    @property
    def n_angles(self) -> int:
        return len(self.hinges)

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """The hinge that holds each link except the root. Raises InputError unless the hinges form
        a tree with the first link as its root."""
        root = next(iter(self.links))
        found: dict[str, str] = {}
        for name, hinge in self.hinges.items():
            if hinge.child == root:
                raise InputError(
                    f"The hinge '{name}' has the root '{root}' as its child. Swap parent and "
                    "child, or put another link first."
                )
            if hinge.child in found:
                raise InputError(
                    f"The link '{hinge.child}' is the child of two hinges, '{found[hinge.child]}' "
                    f"and '{name}'. Closed chains are not supported; remove one."
                )
            found[hinge.child] = name
        for link in self.links:
            self._hinges_to(link, found)
        return found

    def _hinges_to(self, link: str, parents: Mapping[str, str]) -> list[str]:
        """Return the names of the hinges from the root to a link."""
        root, path = next(iter(self.links)), []
        while link != root:
            if link not in parents or parents[link] in path:
                raise InputError(
                    f"The link '{link}' is not connected to the root '{root}'; add a hinge."
                )
            path.append(parents[link])
            link = self.hinges[path[-1]].parent
        return path[::-1]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of all hinges, every hinge after those between it and the root."""
        depth = {
            name: len(self._hinges_to(h.child, self.parents)) for name, h in self.hinges.items()
        }
        return tuple(sorted(self.hinges, key=lambda name: depth[name]))

    @cached_property
    def moves(self) -> Array:
        """Whether each link moves with each hinge (links, hinges), bool."""
        names = list(self.hinges)
        out = np.zeros((len(self.links), len(names)), bool)
        for b, link in enumerate(self.links):
            out[b, [names.index(name) for name in self._hinges_to(link, self.parents)]] = True
        return out

    @property
    def angle_limits(self) -> tuple[Array, Array]:
        """The lower and upper joint angles (n,) [rad]."""
        limits = np.array([hinge.limits for hinge in self.hinges.values()], float).reshape(-1, 2)
        return limits[:, 0], limits[:, 1]

    @property
    def stops(self) -> Array:
        """The stiffness (n,) [N m/rad^2] of the stops of each hinge."""
        known = [hinge.stop for hinge in self.hinges.values()]
        stiffest = max((stop for stop in known if stop is not None), default=0.0)
        return np.array([stiffest if stop is None else stop for stop in known], float)

    def save(self, path: str | Path) -> None:
        """Write the robot to a TOML robot file; `pliant.load_robot(path)` reads it back.

        The surfaces of links that are not ellipsoids are written to files in the same folder.
        Raises `InputError` if a part of the robot cannot be written.
        """
        # robot_files depends on this package, so the writer is imported when it is called
        import_module("pliant.robot_files").save_robot(self, path)

    def _repr_html_(self) -> str:
        return notebook_html(self)

    # Controls

    @cached_property
    def motors(self) -> tuple[int, ...]:
        """The indices of the hinges with motors."""
        return tuple(k for k, h in enumerate(self.hinges.values()) if h.torque is not None)

    @property
    def n_controls(self) -> int:
        return len(self.motors)

    @property
    def controls(self) -> tuple[Control, ...]:
        names = list(self.hinges)
        return tuple(
            Control(
                name=names[k],
                unit="N m",
                lower=_finite(lower),
                upper=_finite(upper),
                span=SLIDER_SPAN,
                neutral=0.0,
            )
            for k, lower, upper in zip(self.motors, *self.control_limits(), strict=True)
        )

    def control_limits(self) -> tuple[Array, Array]:
        """Return the lower and upper torques (n_controls,) [N m]."""
        hinges = list(self.hinges.values())
        limits = np.array([hinges[k].torque for k in self.motors], float).reshape(-1, 2)
        return limits[:, 0], limits[:, 1]

    def neutral_controls(self) -> Array:
        return np.zeros(self.n_controls)

    # Kinematics

    def check_angles(self, angles: ArrayLike) -> Array:
        """Return joint angles (n,) [rad] as an array. Raises InputError for another shape."""
        return finite_array("The array of joint angles", angles, (self.n_angles,), "rad")

    def placement(self, angles: ArrayLike) -> Placement:
        """Return the poses of all links and the hinge axes in the root's frame, for joint angles
        (n,) [rad]."""
        theta = self.check_angles(angles)
        links, names = list(self.links), list(self.hinges)
        rotations, centres = np.tile(np.eye(3), (len(links), 1, 1)), np.zeros((len(links), 3))
        axes, anchors = np.zeros((len(names), 3)), np.zeros((len(names), 3))
        for name in self.order:
            hinge, k = self.hinges[name], names.index(name)
            parent, child = links.index(hinge.parent), links.index(hinge.child)
            axes[k] = rotations[parent] @ hinge.axis
            anchors[k] = centres[parent] + rotations[parent] @ hinge.point
            rotations[child] = rotations[parent] @ rotation_matrix(hinge.axis, theta[k])  # type: ignore[arg-type]
            centres[child] = anchors[k] - rotations[child] @ hinge.child_point
        return Placement(
            rotations=rotations, centres=centres, axes=axes, anchors=anchors, moves=self.moves
        )

    def centre_of_mass(self, placed: Placement) -> Array:
        """Return the centre of mass (3,) [m] of all links in the root's frame."""
        links = list(self.links.values())
        weights = np.array([link.mass for link in links], float)
        local = np.array([link.centre_of_mass for link in links], float)
        return weights @ placed.points(local) / weights.sum()

    def centre_of_volume(self, placed: Placement) -> Array:
        """Return the centre (3,) [m] of the displaced fluid in the root's frame."""
        shapes = [link.shape for link in self.links.values()]
        weights = np.array([shape.volume for shape in shapes])
        local = np.array([shape.centroid for shape in shapes])
        return weights @ placed.points(local) / weights.sum()

    @property
    def mass(self) -> float:
        """The mass [kg] of all links."""
        return float(sum(link.mass for link in self.links.values()))  # type: ignore[misc]

    @property
    def effector_names(self) -> Sequence[str]:
        """The standard effectors, then those of the user."""
        return (*STANDARD_EFFECTORS, *self.effectors)


def _finite(limit: float) -> float | None:
    return float(limit) if np.isfinite(limit) else None


def rotation_matrix(axis: Array, angle: float) -> Array:
    """Return the rotation (3, 3) by an angle [rad] about a unit axis (3,)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def _require_values(what: str, mapping: object, kind: type) -> None:
    require_kind(f"The {what} of a linked robot", mapping, Mapping, "give a dict of names")
    for value in mapping.values():  # type: ignore[attr-defined]
        require_kind(f"One of the {what}", value, kind, f"give instances of {kind.__name__}")
