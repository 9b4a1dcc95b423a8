"""Robots: a shape, its materials and everything attached to it, in rest coordinates."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import AttachableBody, Beams, Body, Solid, named_cells
from pliant.contact import Contact
from pliant.core import Array, InputError, counted, finite_array, nearest, quoted, require_kind
from pliant.geometry import Mesh, Rods, Shape, add_surface, find_weak_connections, scale_warnings
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
from pliant.result_reports import notebook_html
from pliant.robot.actuator import Actuator, check_actuator
from pliant.robot.controls import Control, name_controls
from pliant.robot.loads import Load
from pliant.robot.supports import Patch, Support


@dataclass(frozen=True, kw_only=True, eq=False)
class Effector:
    """A point that is controlled or measured: a material point, the centroid of a named surface, or
    the centroid of a region ("body": of the whole robot).

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(2, 1, 1),
    ...     material=pl.Material(E=1e5, nu=0.4),
    ...     effectors={"tip": pl.Effector(surface="x+"), "corner": pl.Effector(point=(0.1, 0, 0))},
    ... )
    >>> model = pl.ImplicitEuler(robot, dt=0.01)
    >>> model.effector("tip", model.initial_state()).round(6)
    array([[0.1 , 0.01, 0.01]])
    """

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

    def attach(self, body: AttachableBody) -> sp.csr_matrix:
        """Return the weights (1, n_nodes) of the node positions in the effector's position."""
        if self.point is not None:
            return body.locate(np.asarray(self.point, float)[None])
        share = (
            body.node_areas(self.surface)
            if self.region is None
            else body.node_volumes(named_cells(body, self.region))
        )
        return sp.csr_matrix(share / share.sum())


@dataclass(frozen=True, kw_only=True)
class Damping:
    """Rayleigh damping: `mass` [1/s] damps velocities, `stiffness` [s] damps strain rates (not
    rigid rotations).

    >>> import pliant as pl
    >>> pl.Damping(stiffness=0.01)  # [s]
    Damping(mass=0.0, stiffness=0.01)
    """

    mass: float = 0.0
    stiffness: float = 0.0

    def __post_init__(self) -> None:
        MASS_DAMPING.require(self.mass)
        STIFFNESS_DAMPING.require(self.stiffness)


def _require_each(robot: str, what: str, things: Iterable[object], kind: Any) -> None:
    for thing in things:
        remedy = f"give instances of {kind.__name__}"
        require_kind(f"One of the {what} of {robot}", thing, kind, remedy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Robot:
    """A soft robot: one description for all models. `body()` discretises a shape with `cell`,
    `divisions` and `order`. In Rods each rod becomes a beam element.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     gravity=(0.0, 0.0, -9.81),
    ... )
    >>> model = pl.Quasistatic(beam)
    >>> tip = model.effector("tip", pl.equilibrium(model, []).x)
    >>> bool(tip[0, 2] < 0.01)  # it sags below its rest height
    True
    """

    shape: Shape | Mesh | Rods | Body
    # one material, or one for each region by name; "default" or "body" applies to all other cells
    material: Material | Mapping[str, Material] = field(default_factory=dict)
    supports: Sequence[Support] = ()
    actuators: Mapping[str, Actuator] = field(default_factory=dict)
    effectors: Mapping[str, Effector] = field(default_factory=dict)
    # named parts of the boundary, in addition to those of the shape
    surfaces: Mapping[str, Patch] = field(default_factory=dict)
    loads: Sequence[Load] = ()
    contacts: Sequence[Contact] = ()
    gravity: ArrayLike | None = None  # (dim,) [m/s^2]; None: no gravity
    damping: Damping = Damping()
    cell: float | None = None  # [m] target edge length of the mesh
    divisions: Sequence[int] | None = None  # lattice counts instead of `cell`
    # 1: 4-node tetrahedra, fast but too stiff in bending; 2: 10-node tetrahedra, for slender bodies
    order: int = 2
    thickness: float = 1.0  # [m] out-of-plane depth of a plane robot
    # [m] largest distance of an attached point outside the body; it is projected to the surface.
    # None: 1e-4 of the size
    snap: float | None = None
    name: str = "robot"

    def __post_init__(self) -> None:
        shapes = (Mesh, Rods, Shape, Body)
        require_kind(
            f"The shape of {self.name}",
            self.shape,
            shapes,
            "give a Shape such as Box, a Mesh, Rods, or a Body such as PointMass",
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
            ("actuators", self.actuators, object),
            ("effectors", self.effectors, Effector),
            ("surfaces", self.surfaces, Patch),
            ("materials", materials, Material),
        ):
            require_kind(
                f"The {what} of {self.name}", table, Mapping, "give a dict from name to each"
            )
            _require_each(self.name, what, table.values(), kind)
        for key, actuator in self.actuators.items():
            check_actuator(f"The actuator '{key}' of {self.name}", actuator)
        require_kind(
            f"The damping of {self.name}",
            self.damping,
            Damping,
            "give Damping(mass=..., stiffness=...)",
        )
        GRAVITY.require(self._largest_gravity())
        snap_limit(self.snap, 1.0)  # raises unless `snap` is a distance
        if self.order not in (1, 2):
            raise InputError(
                f"The order of {self.name} is {self.order}; give 1 (4-node) or 2 (10-node "
                "tetrahedra)."
            )
        if isinstance(self.shape, Mesh) and (self.cell is not None or self.divisions is not None):
            raise InputError(
                f"{self.name} has a Mesh, which already has cells; remove cell and divisions, or "
                "give a Shape."
            )
        if isinstance(self.shape, Rods) and (
            self.cell is not None or self.divisions is not None or self.surfaces
        ):
            raise InputError(
                f"{self.name} has Rods, which have no cells, divisions or surfaces; refine them "
                "with rods.refine(k), and name points as regions of the Rods."
            )
        if isinstance(self.shape, Mesh) and self.shape.order > self.order:
            raise InputError(
                f"{self.name} has a quadratic Mesh but order = {self.order}; give order = 2."
            )
        if self.cell is not None and self.divisions is not None:
            raise InputError(
                f"{self.name} has both cell = {self.cell} and divisions = {self.divisions}; give "
                "one of the two."
            )

    def __repr__(self) -> str:
        """Return one line with the type of shape and the names of all attachments."""
        materials = ["body"] if isinstance(self.material, Material) else list(self.material)
        parts = [f"name={self.name!r}", f"shape={type(self.shape).__name__}"]
        parts += [f"material={materials}"] if materials else []
        for what in ("actuators", "effectors", "surfaces"):
            parts += [f"{what}={list(getattr(self, what))}"] if getattr(self, what) else []
        for what in ("supports", "loads", "contacts"):
            parts += [f"{what}={len(getattr(self, what))}"] if getattr(self, what) else []
        return f"Robot({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def body(self) -> Body:
        """Return the discretised body. It is created once."""
        return self._body

    def save(self, path: str | Path) -> None:
        """Write the robot to a TOML robot file; `pliant.load_robot(path)` reads it back.

        Meshes and arms are written to separate files in the same folder. Raises `InputError` if a
        part of the robot cannot be written, such as a motion that is a Python function.
        """
        # robot_files depends on this package, so the writer is imported when it is called
        import_module("pliant.robot_files").save_robot(self, path)

    @property
    def is_time_dependent(self) -> bool:
        """Whether supports or loads are functions of time."""
        return any(
            [
                *(support.motion is not None for support in self.supports),
                *(load.is_time_dependent for load in self.loads),
            ]
        )

    def without_contacts(self, contacts: Sequence[Contact]) -> "Robot":
        """Return the robot without some of its contacts. It shares the body."""
        kept = [one for one in self.contacts if not any(one is contact for contact in contacts)]
        return self._with_same_body(replace(self, contacts=kept))

    def with_loads(self, loads: Sequence[Load]) -> "Robot":
        """Return the robot with further loads. It shares the body."""
        return self._with_same_body(replace(self, loads=[*self.loads, *loads]))

    def _with_same_body(self, other: "Robot") -> "Robot":
        vars(other)["_body"] = self.body()  # it does not depend on contacts and loads
        return other

    @cached_property
    def _body(self) -> Body:
        if isinstance(self.shape, Body):
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
        joints = find_weak_connections(body.mesh) if isinstance(body, Solid) else []
        for message in [*scale_warnings(size), *joints, *self._parameter_warnings(body)]:
            warnings.warn(f"{self.name}: {message}", stacklevel=6)
        return body

    def _parameter_warnings(self, body: Body) -> list[str]:
        """Return warnings about implausible materials, friction, damping and gravity."""
        E, density = body.fields.E, body.fields.density
        soft = float(E.min())
        messages = (
            [f"E = {soft:g} Pa is softer than any gel; if it is in MPa, write {1e6 * soft:g}."]
            if soft < YOUNGS_MODULUS.plausible[0]
            else []
        )
        frictions = (FRICTION.warnings(contact.friction) for contact in self.contacts)
        return messages + [
            *YOUNGS_MODULUS.warnings(max(float(E.max()), YOUNGS_MODULUS.plausible[0])),
            *(DENSITY.warnings(float(density.min())) or DENSITY.warnings(float(density.max()))),
            *(message for found in frictions for message in found),
            *GRAVITY.warnings(self._largest_gravity()),
            *MASS_DAMPING.warnings(self.damping.mass),
            *STIFFNESS_DAMPING.warnings(self.damping.stiffness),
        ]

    def _largest_gravity(self) -> float:
        """Return the largest absolute component of gravity [m/s^2]."""
        if self.gravity is None:
            return 0.0
        gravity = finite_array("Gravity", self.gravity, (None,), "m/s^2")
        return float(np.abs(gravity).max(initial=0.0))

    def mesh(self) -> Mesh:
        """Return the mesh of the solid body. Raises `InputError` for Rods and point masses."""
        if isinstance(self.shape, Body):
            raise InputError(
                f"{self.name} is a {type(self.shape).__name__}, which has no mesh; give a "
                "solid shape."
            )
        if isinstance(self.shape, Rods):
            raise InputError(
                f"{self.name} is made of Rods, which have no mesh to fill with particles; use "
                "Quasistatic, ImplicitEuler, BDF2 or SemiImplicit, or describe it as a solid shape."
            )
        if isinstance(self.shape, Mesh):
            mesh = self.shape.quadratic() if self.order == 2 else self.shape
        else:
            mesh = self.shape.mesh(cell=self.cell, divisions=self.divisions, order=self.order)
        for name, patch in self.surfaces.items():
            mesh = add_surface(mesh, name, patch.contains)
        return mesh

    def materials_by_region(self) -> Mapping[str, Material]:
        """Return the material of each region, the default first. "default" applies to all other
        cells; so does "body" if the mesh has no region of that name."""
        if isinstance(self.material, Material):
            return {"body": self.material}
        if not self.material:
            raise InputError(
                f"{self.name} has no material; pass material=Material(E=..., nu=..., density=...)."
            )
        named = dict(self.material)
        first = {name: named.pop(name) for name in ("default", "body") if name in named}
        return first | named

    def effector_position(self, effector: str, q: Array) -> Array:
        """Return the position of an effector, (dim,) [m], for node positions q (n_dofs,), such as
        model.space.position(x). Raises `InputError` if q does not fit the body."""
        row, dim = self.effector_weights(effector), self.body().dim
        try:
            q = np.ravel(q)
        except ValueError:  # rows of different lengths
            raise InputError(
                f"The positions are {quoted(q)}; give model.space.position(x)."
            ) from None
        if q.size != row.shape[1] * dim:
            raise InputError(
                f"The array of positions has {counted(q.size, 'number')}, but the body of "
                f"{self.name} has {row.shape[1]} nodes with {dim} each; give "
                "model.space.position(x). For a model of particles use "
                f"model.effector_rows('{effector}') @ model.space.position(x)."
            )
        q = finite_array("The positions", q, (row.shape[1] * dim,), "m")
        return (row @ q.reshape(-1, dim))[0]

    def effector_weights(self, effector: str) -> sp.csr_matrix:
        """Return the weights (1, n_nodes) of the node positions in an effector's position. Raises
        `InputError` if there is no such effector."""
        if effector not in self.effectors:
            raise InputError(
                f"{self.name} has no effector '{effector}'; {nearest(effector, self.effectors)}"
            )
        return self._effector_weights[effector]

    @cached_property
    def _effector_weights(self) -> dict[str, sp.csr_matrix]:
        return {name: effector.attach(self.body()) for name, effector in self.effectors.items()}

    @property
    def effector_names(self) -> tuple[str, ...]:
        return tuple(self.effectors)

    @property
    def n_controls(self) -> int:
        return sum(actuator.n_controls for actuator in self.actuators.values())

    @property
    def controls(self) -> tuple[Control, ...]:
        """The controls with their names, units, limits and neutral values."""
        return name_controls(self.actuators, self.control_limits(), self.neutral_controls())

    def neutral_controls(self) -> Array:
        """Return the controls without force, clipped to the limits, (n_controls,)."""
        return np.clip(
            self._for_each_control(lambda actuator: actuator.neutral), *self.control_limits()
        )

    def control_limits(self) -> tuple[Array, Array]:
        """Return the lower and upper limits of the controls, (n_controls,) each."""
        return self._for_each_control(lambda actuator: actuator.limits[0]), self._for_each_control(
            lambda actuator: actuator.limits[1]
        )

    def _for_each_control(self, value: Callable[[Actuator], float | Array]) -> Array:
        """Return one number for each control, (n_controls,), in the order of the actuators."""
        return np.concatenate(
            [
                np.zeros(0),
                *(np.broadcast_to(value(a), a.n_controls) for a in self.actuators.values()),
            ]
        )
