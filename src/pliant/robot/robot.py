"""Robot: a shape, its materials and what is attached to it, in rest coordinates. No matrices."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import Beams, Body, Matter, PointMass, Solid, Term, named_cells
from pliant.contact import Contact
from pliant.core import Array, InputError, finite_array, nearest, quoted, require_kind
from pliant.geometry import Mesh, Rods, Shape, scale_doubts, weak_joints, with_surface
from pliant.geometry.locate import snap_limit
from pliant.materials import (
    DENSITY,
    FRICTION,
    GRAVITY,
    MASS_DAMPING,
    STIFFNESS_DAMPING,
    YOUNGS_MODULUS,
    Material,
)
from pliant.robot.loads import Load
from pliant.robot.supports import Patch, Support


@runtime_checkable
class Actuator(Protocol):
    """What drives a robot: `limits` of its controls, the `neutral` ones that do nothing, and the
    Term it becomes on a body.

    A number stands for every control of the actuator, an array (n_controls,) for one each.
    """

    @property
    def limits(self) -> tuple[float | Array, float | Array]: ...
    @property
    def n_controls(self) -> int: ...
    @property
    def neutral(self) -> float | Array: ...
    def on(self, body: Matter) -> Term: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Effector:
    """What is to be controlled: a material point, or the mean of a named surface by area, or of a
    region by volume ("body": of all)."""

    point: ArrayLike | None = None  # (dim,) [m] rest position
    surface: str | None = None
    region: str | None = None

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.point, self.surface, self.region)) != 1:
            raise InputError(
                "An effector is at a point, on a surface or over a region; give exactly one of "
                "the three."
            )
        if self.point is not None:
            finite_array("The point of an effector", self.point, (None,), "m")
        for what in ("surface", "region"):
            if getattr(self, what) is not None:
                require_kind(
                    f"The {what} of an effector",
                    getattr(self, what),
                    str,
                    f"name a {what} of the mesh",
                )

    def on(self, body: Matter) -> sp.csr_matrix:
        """(1, n_nodes) the row that maps node positions to the effector's."""
        if self.point is not None:
            return body.locate(np.asarray(self.point, float)[None])
        share = (
            body.patch(self.surface)
            if self.region is None
            else body.bulk(named_cells(body, self.region))
        )
        return sp.csr_matrix(share / share.sum())


@dataclass(frozen=True, kw_only=True)
class Damping:
    """Rayleigh damping: `mass` [1/s] drags on the velocity, `stiffness` [s] on the strain rate
    (free in rotation)."""

    mass: float = 0.0
    stiffness: float = 0.0

    def __post_init__(self) -> None:
        MASS_DAMPING.require(self.mass)
        STIFFNESS_DAMPING.require(self.stiffness)


def _require_each(robot: str, what: str, things: Iterable[object], kind: Any) -> None:
    for thing in things:
        require_kind(
            f"One of the {what} of {robot}", thing, kind, f"give the {what} that pliant offers"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Robot:
    """A soft robot, described once for every method. `body()` discretises it as a solid with
    `cell`, `divisions`, `order`; Rods are beams as they are, each rod an element."""

    shape: Shape | Mesh | Rods | PointMass
    # one, or one for each region by name; "default" or "body" is that of all other cells
    material: Material | Mapping[str, Material] = field(default_factory=dict)
    supports: Sequence[Support] = ()
    actuators: Mapping[str, Actuator] = field(default_factory=dict)
    effectors: Mapping[str, Effector] = field(default_factory=dict)
    surfaces: Mapping[str, Patch] = field(
        default_factory=dict
    )  # more names for parts of the boundary, beside the shape's own
    loads: Sequence[Load] = ()
    contacts: Sequence[Contact] = ()
    gravity: ArrayLike | None = None  # (dim,) [m/s^2]; None: no gravity
    damping: Damping = Damping()
    cell: float | None = None  # [m] target edge length of the mesh
    divisions: Sequence[int] | None = None  # lattice counts instead of `cell`
    # 1: 4-node tetrahedra, quick and stiff in bending; 2: 10-node, the right choice for slender
    # bodies
    order: int = 2
    thickness: float = 1.0  # [m] out-of-plane depth of a plane robot
    # [m] how far outside the body an attached point may lie; it moves to the surface. None: 1e-4 of
    # the size
    snap: float | None = None
    name: str = "robot"

    def __post_init__(self) -> None:
        shapes = (Mesh, Rods, PointMass, Shape)
        require_kind(
            f"The shape of {self.name}",
            self.shape,
            shapes,
            "give a Shape such as Box, a Mesh, Rods or a PointMass",
        )
        require_kind(
            f"The material of {self.name}",
            self.material,
            (Material, Mapping),
            "give a Material, or one for each region by name",
        )
        materials = dict(self.material) if isinstance(self.material, Mapping) else {}
        kind: Any
        for what, things, kind in (
            ("supports", self.supports, Support),
            ("loads", self.loads, Load),
            ("contacts", self.contacts, Contact),
        ):
            require_kind(f"The {what} of {self.name}", things, (list, tuple), "give a list")
            _require_each(self.name, what, things, kind)
        for what, table, kind in (
            ("actuators", self.actuators, Actuator),
            ("effectors", self.effectors, Effector),
            ("surfaces", self.surfaces, Patch),
            ("materials", materials, Material),
        ):
            require_kind(
                f"The {what} of {self.name}", table, Mapping, "give a dict from name to each"
            )
            _require_each(self.name, what, table.values(), kind)
        require_kind(
            f"The damping of {self.name}",
            self.damping,
            Damping,
            "give Damping(mass=..., stiffness=...)",
        )
        GRAVITY.require(self._largest_gravity())
        snap_limit(self.snap, 1.0)  # raises unless it is a distance
        if self.order not in (1, 2):
            raise InputError(
                f"The order of {self.name} is {self.order}; take 1 (4-node) or 2 (10-node "
                "tetrahedra)."
            )
        if isinstance(self.shape, Mesh) and (self.cell is not None or self.divisions is not None):
            raise InputError(
                f"{self.name} has a Mesh, whose cells are given; remove cell and divisions, or "
                "give a Shape."
            )
        if isinstance(self.shape, Rods) and (
            self.cell is not None or self.divisions is not None or self.surfaces
        ):
            raise InputError(
                f"{self.name} has Rods, which have no cells and no surfaces to choose; divide "
                "them with rods.refine(k), and name points as regions of the Rods."
            )
        if isinstance(self.shape, Mesh) and self.shape.order > self.order:
            raise InputError(
                f"{self.name} has a quadratic Mesh but order = {self.order}; take order = 2."
            )
        if self.cell is not None and self.divisions is not None:
            raise InputError(
                f"{self.name} has both cell = {self.cell} and divisions = {self.divisions}; give "
                "one of the two."
            )

    def __repr__(self) -> str:
        """One line with the kind of shape and the names of all that is attached."""
        materials = ["body"] if isinstance(self.material, Material) else list(self.material)
        parts = [f"name={self.name!r}", f"shape={type(self.shape).__name__}"]
        parts += [f"material={materials}"] if materials else []
        for what in ("actuators", "effectors", "surfaces"):
            parts += [f"{what}={list(getattr(self, what))}"] if getattr(self, what) else []
        for what in ("supports", "loads", "contacts"):
            parts += [f"{what}={len(getattr(self, what))}"] if getattr(self, what) else []
        return f"Robot({', '.join(parts)})"

    def body(self) -> Body:
        """The robot's matter, discretised; made once."""
        return self._body

    @property
    def changes_in_time(self) -> bool:
        """Whether supports or loads move by themselves."""
        return any(
            [
                *(support.motion is not None for support in self.supports),
                *(load.timed for load in self.loads),
            ]
        )

    def without_contacts(self, contacts: Sequence[Contact]) -> "Robot":
        """The same robot on the same body, without some of its contacts."""
        other = replace(
            self,
            contacts=[
                one for one in self.contacts if not any(one is contact for contact in contacts)
            ],
        )
        vars(other)["_body"] = self.body()  # contacts have no part in it
        return other

    @cached_property
    def _body(self) -> Body:
        if isinstance(self.shape, PointMass):
            return self.shape
        body: Solid | Beams
        if isinstance(self.shape, Rods):
            body, size = (
                Beams(rods=self.shape, materials=self.materials_by_region(), snap=self.snap),
                self.shape.size,
            )
        else:
            mesh = self.mesh()
            body, size = (
                Solid(
                    mesh=mesh,
                    materials=self.materials_by_region(),
                    thickness=self.thickness,
                    snap=self.snap,
                ),
                mesh.size,
            )
        joints = weak_joints(body.mesh) if isinstance(body, Solid) else []
        for doubt in [*scale_doubts(size), *joints, *self._number_doubts(body)]:
            warnings.warn(f"{self.name}: {doubt}", stacklevel=6)
        return body

    def _number_doubts(self, body: Body) -> list[str]:
        """What is odd about the material numbers, frictions and dampings: see materials.ranges."""
        E, density = body.fields.E, body.fields.density
        soft = float(E.min())
        doubts = (
            [f"E = {soft:g} Pa is softer than any gel; if it is in MPa, write {1e6 * soft:g}."]
            if soft < YOUNGS_MODULUS.plausible[0]
            else []
        )
        frictions = (FRICTION.doubts(contact.friction) for contact in self.contacts)
        return doubts + [
            *YOUNGS_MODULUS.doubts(max(float(E.max()), YOUNGS_MODULUS.plausible[0])),
            *(DENSITY.doubts(float(density.min())) or DENSITY.doubts(float(density.max()))),
            *(doubt for found in frictions for doubt in found),
            *GRAVITY.doubts(self._largest_gravity()),
            *MASS_DAMPING.doubts(self.damping.mass),
            *STIFFNESS_DAMPING.doubts(self.damping.stiffness),
        ]

    def _largest_gravity(self) -> float:
        """[m/s^2] the largest component of gravity by amount."""
        if self.gravity is None:
            return 0.0
        gravity = finite_array("Gravity", self.gravity, (None,), "m/s^2")
        return float(np.abs(gravity).max(initial=0.0))

    def mesh(self) -> Mesh:
        """The mesh of the solid body."""
        if isinstance(self.shape, PointMass):
            raise InputError("A robot made of point masses has no mesh.")
        if isinstance(self.shape, Rods):
            raise InputError(
                f"{self.name} is made of Rods, which have no mesh to fill with particles; step "
                "it with Quasistatic, ImplicitEuler, BDF2 or SemiImplicit, or describe it as a "
                "solid shape."
            )
        if isinstance(self.shape, Mesh):
            mesh = self.shape.quadratic() if self.order == 2 else self.shape
        else:
            mesh = self.shape.mesh(cell=self.cell, divisions=self.divisions, order=self.order)
        for name, patch in self.surfaces.items():
            mesh = with_surface(mesh, name, patch.holds)
        return mesh

    def materials_by_region(self) -> Mapping[str, Material]:
        """The material of each region, the default first: "default" stands for all cells without
        another, "body" too if the mesh has no region of that name."""
        if isinstance(self.material, Material):
            return {"body": self.material}
        if not self.material:
            raise InputError(
                f"{self.name} has no material; pass material=Material(E=..., nu=..., density=...)."
            )
        named = dict(self.material)
        first = {name: named.pop(name) for name in ("default", "body") if name in named}
        return first | named

    def place(self, effector: str, q: Array) -> Array:
        """(dim,) [m] where an effector is for node positions q (n_dofs,), such as
        model.space.position(x)."""
        row, dim = self.row(effector), self.body().dim
        try:
            q = np.ravel(q)
        except ValueError:  # rows of different lengths
            raise InputError(
                f"The positions are {quoted(q)}; give model.space.position(x)."
            ) from None
        if q.size != row.shape[1] * dim:
            raise InputError(
                f"There are {q.size} numbers, but the body of {self.name} has {row.shape[1]} "
                f"nodes with {dim} each; give model.space.position(x). For a model of particles "
                f"use model.effector_rows('{effector}') @ model.space.position(x)."
            )
        q = finite_array("The positions", q, (row.shape[1] * dim,), "m")
        return (row @ q.reshape(-1, dim))[0]

    def row(self, effector: str) -> sp.csr_matrix:
        """(1, n_nodes) what each node counts for an effector's place."""
        if effector not in self.effectors:
            raise InputError(
                f"{self.name} has no effector '{effector}'; {nearest(effector, self.effectors)}"
            )
        return self._rows[effector]

    @cached_property
    def _rows(self) -> dict[str, sp.csr_matrix]:
        return {name: effector.on(self.body()) for name, effector in self.effectors.items()}

    @property
    def n_controls(self) -> int:
        return sum(actuator.n_controls for actuator in self.actuators.values())

    def neutral_controls(self) -> Array:
        """(n_controls,) the controls that do nothing, or as little as the limits allow."""
        return np.clip(self._each(lambda actuator: actuator.neutral), *self.control_limits())

    def control_limits(self) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) what the motors can do, actuator after actuator."""
        return self._each(lambda actuator: actuator.limits[0]), self._each(
            lambda actuator: actuator.limits[1]
        )

    def _each(self, value: Callable[[Actuator], float | Array]) -> Array:
        """(n_controls,) a number of each control, actuator after actuator."""
        return np.concatenate(
            [
                np.zeros(0),
                *(np.broadcast_to(value(a), a.n_controls) for a in self.actuators.values()),
            ]
        )
