"""Protocols of a body, split by need: a small required core and optional parts.

`Body` is enough for quasistatic and implicit steps without stiffness damping. Each further
protocol adds what one feature needs. A rule calls `require_protocol` for the parts that it uses,
so a body without them works with every other rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import Viscosity
from pliant.core import Array, InputError, nearest
from pliant.geometry import Mesh
from pliant.materials import moduli

NO_VISCOSITY = Viscosity(0.0, 0.0, np.zeros((1, 2)), np.zeros((1, 1, 9)))


@dataclass(frozen=True, kw_only=True, eq=False)
class MaterialFields:
    """Material parameters of each cell: the design variables of a body."""

    E: Array  # (n_cells,) [Pa]
    nu: Array  # (n_cells,) [-]
    density: Array  # (n_cells,) [kg/m^3]; mass [kg] for a point mass
    power: Array  # (n_cells,) exponent of the near-incompressible term, 0 for none

    @cached_property
    def moduli(self) -> Array:
        """(n_cells, 3) [Pa] mu, lam and the near-incompressible bulk modulus."""
        return moduli(self.E, self.nu, self.power)


@runtime_checkable
class AttachableBody(Protocol):
    """A body that actuators, loads, supports, contacts and effectors attach to.

    Nodes carry the unknowns and cells the material. For particles both are the same.
    """

    @property
    def dim(self) -> int: ...

    @property
    def rest(self) -> Array:
        """(n_dofs,) rest positions [m], node after node; zero for rotation nodes [rad]."""
        ...

    @property
    def is_position(self) -> Array:
        """(n_nodes,) bool; False for a node that is a rotation vector."""
        ...

    @property
    def fields(self) -> MaterialFields: ...

    @property
    def material_cells(self) -> Mapping[str, Array]:
        """Cells of each material, by name."""
        ...

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        """Cells of each region, by name."""
        ...

    def cell_size(self) -> float:
        """[m] edge length of a typical cell."""
        ...

    def volumes(self) -> Array:
        """(n_cells,) [m^3]"""
        ...

    def locate(self, points: Array) -> sp.csr_matrix:
        """(k, n_nodes) interpolation weights of rest points (k, dim) [m]."""
        ...

    def region(self, name: str) -> Array:
        """Nodes of a named region or surface."""
        ...

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """(n_nodes,) [m^2] area of a surface that each node carries; None: whole boundary."""
        ...

    def node_volumes(self, cells: Array) -> Array:
        """(n_nodes,) [m^3] volume of some cells that each node carries."""
        ...


@runtime_checkable
class MovableAttachments(AttachableBody, Protocol):
    """A body on which the points of an attachment can be design variables."""

    @property
    def attachment_box(self) -> tuple[Array, Array]:
        """The lower and upper corner (dim,) [m] of the box around the points that `locate`
        takes."""
        ...

    def weight_gradients(self, points: Array) -> list[sp.csr_matrix]:
        """The derivatives (k, n_nodes) [1/m] of the weights of `locate` by each coordinate of their
        points (k, dim) [m]."""
        ...


@runtime_checkable
class Body(AttachableBody, Protocol):
    """A discretised robot with unknowns q (n_dofs,): node positions, node after node.

    Forces are gradients of energies. This is all that `Quasistatic`, `ImplicitEuler` and `BDF2`
    need without stiffness damping and design parameters.
    """

    @property
    def pairs(self) -> Array:
        """(n_pairs, 2) node pairs i >= j that share a cell, sorted by (j, i)."""
        ...

    def energy(self, q: Array, fields: MaterialFields) -> tuple[float, Array]:
        """([J], (n_dofs,) [N]) elastic energy and its gradient."""
        ...

    def stiffness(self, q: Array, fields: MaterialFields, *, project: bool = False) -> Array:
        """(n_pairs, dim, dim) [N/m] Hessian blocks; `project` makes it positive semidefinite."""
        ...

    def mass(self, density: Array) -> Array:
        """(n_pairs,) [kg] mass matrix entries for a density of each cell."""
        ...

    def inadmissible_cell(self, q: Array) -> tuple[float, int] | None:
        """(amount, cell) of the worst inadmissible cell, such as an inverted one, or None."""
        ...


@runtime_checkable
class LimitedBody(Body, Protocol):
    """A body that explains which of its own limits stops a step."""

    def limit_message(self, q: Array) -> str:
        """Return which limit q is close to, or an empty string."""
        ...


@runtime_checkable
class CellBody(AttachableBody, Protocol):
    """A body whose cells have centres, for actuators that act in a region given as a shape."""

    def cell_centres(self) -> Array:
        """(n_cells, dim) [m] at rest."""
        ...


@runtime_checkable
class MeshedBody(Protocol):
    """A body that fills a mesh, whose closed voids may hold a fluid."""

    @property
    def mesh(self) -> Mesh: ...
    @property
    def thickness(self) -> float:
        """[m] out-of-plane depth of a 2D body; unused in 3D."""
        ...

    def locate(self, points: Array) -> sp.csr_matrix: ...


@runtime_checkable
class NeighbouringCells(Protocol):
    """A body that knows which cells or particles are neighbours, for smooth fields."""

    @property
    def rest_neighbours(self) -> Array:
        """(k, 2) pairs of cells or particles."""
        ...


@runtime_checkable
class DampedBody(Body, Protocol):
    """A body with stiffness damping, for implicit rules."""

    def energy(
        self, q: Array, fields: MaterialFields, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[float, Array]: ...
    def stiffness(
        self,
        q: Array,
        fields: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
        *,
        project: bool = False,
    ) -> Array: ...
    def viscosity_of_step(
        self, fields: MaterialFields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscosity:
        """Return the viscosity of a step with strain rate rates[0] E(q') + sum rates[j]
        E(levels[j - 1])."""
        ...

    def viscous_jvp(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) change of the viscous force at q for a change of `level`."""
        ...


@runtime_checkable
class DesignBody(AttachableBody, Protocol):
    """A body whose material parameters can be design variables."""

    @property
    def bounds(self) -> Mapping[str, tuple[float, float, str]]:
        """(lower bound, upper bound, unit) of each material parameter."""
        ...


@runtime_checkable
class MaterialDerivatives(DesignBody, Body, Protocol):
    """A body whose forces and masses can be differentiated by the material of each cell."""

    def material_jvp(
        self,
        q: Array,
        fields: MaterialFields,
        change: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
    ) -> Array:
        """(n_dofs,) change of the forces for a change of E and nu."""
        ...

    def material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        """((n_cells,), (n_cells,)) derivative of y . gradient by E and nu."""
        ...

    def mass_vjp(self, y: Array, z: Array) -> Array:
        """(n_cells,) derivative of y^T M z by the density."""
        ...


@runtime_checkable
class SecondOrderBody(Body, Protocol):
    """A body with the third derivative of its energy, for second-order planners."""

    def stiffness_derivative(self, q: Array, fields: MaterialFields, y: Array, z: Array) -> Array:
        """(n_dofs,) derivative of y^T K(q) z by q."""
        ...


@runtime_checkable
class DampedSecondOrderBody(SecondOrderBody, Protocol):
    """A `SecondOrderBody` with stiffness damping."""

    def viscous_second_derivative(
        self,
        q: Array,
        viscous: Viscosity,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]:
        """Return the second derivative of y . (viscous force) along dq and `changes` of the
        levels: parts for q and for each level."""
        ...


@runtime_checkable
class SemiImplicitBody(SecondOrderBody, Protocol):
    """A body for `SemiImplicit`, which linearises the forces at the start of a step."""

    @property
    def cell_nodes(self) -> Array:
        """(n_cells, k) nodes of each cell."""
        ...

    def gradient_and_stiffness(
        self, q: Array, fields: MaterialFields, viscosity: float
    ) -> tuple[Array, Array]:
        """Return the energy gradient, and the stiffness plus `viscosity` times the viscous one."""
        ...

    def stiffness_times(self, q: Array, fields: MaterialFields, y: Array) -> Array:
        """(n_dofs,) [N] K(q) y with the elastic stiffness K."""
        ...

    def cell_stiffness_and_derivative(
        self, q: Array, fields: MaterialFields, w: Array
    ) -> tuple[Array, Array]:
        """(n_cells, k dim, k dim) each: stiffness of each cell and its derivative along w."""
        ...


@runtime_checkable
class StepForceBody(Protocol):
    """A body that computes the matrix of `semi_implicit_jacobian` in one loop."""

    def step_force_derivative(
        self,
        q: Array,
        w: Array,
        fields: MaterialFields,
        viscous_moduli: Array | None,
        held: Array,
        dt: float,
    ) -> Array:
        """(n_entries, dim, dim) dt K + dt^2 dK/dq w + dt dD/dq w, minus dt K + D in held columns,
        for all pairs of nodes that share a cell, sorted by row and then by column."""
        ...


@runtime_checkable
class DampedCellsBody(DampedBody, Protocol):
    """A body with the viscous matrix of each cell, for collocation."""

    @property
    def cell_nodes(self) -> Array: ...
    def cell_viscous_matrices(self, q: Array, level: Array, moduli: Array) -> Array:
        """(n_cells, k dim, k dim) `viscous_jvp` as a matrix of each cell."""
        ...


@runtime_checkable
class DampedSemiImplicitBody(DampedCellsBody, Protocol):
    """A body with stiffness damping, for `SemiImplicit`."""

    def viscosity_at_velocity(
        self, fields: MaterialFields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscosity:
        """Return the viscosity whose strain rate at q is that of a velocity."""
        ...

    def viscous_derivative_jvp(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) change of viscous_jvp(q, q, w) for a change of q."""
        ...

    def viscous_derivative_vjp(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        """(n_dofs,) derivative of y . viscous_jvp(q, q, w) by q."""
        ...

    def cell_viscous_derivatives(self, q: Array, w: Array, moduli: Array) -> Array:
        """(n_cells, k dim, k dim) `viscous_derivative_jvp` as a matrix of each cell."""
        ...


@runtime_checkable
class StiffnessMaterialDerivatives(MaterialDerivatives, Protocol):
    """A body whose stiffness can be differentiated by the material, for `SemiImplicit`."""

    def stiffness_material_jvp(
        self, q: Array, fields: MaterialFields, change: MaterialFields, y: Array
    ) -> Array:
        """(n_dofs,) change of K(q) y for a change of E and nu."""
        ...

    def stiffness_material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        """((n_cells,), (n_cells,)) derivative of y . K(q) z by E and nu."""
        ...


def require_protocol(body: object, protocol: type, purpose: str) -> Any:
    """Return the body. Raises `InputError` if it lacks members of an optional protocol."""
    missing = missing_members(body, protocol)
    if missing:
        raise InputError(
            f"{purpose} needs {', '.join(missing)}, which {type(body).__name__} does not "
            f"define. Implement pliant.bodies.{protocol.__name__}, or do not use this feature."
        )
    return body


def missing_members(body: object, protocol: type) -> list[str]:
    """Return the members of a protocol that a body does not have, sorted."""
    members = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False) and base is not Protocol
        for name in vars(base)
        if not name.startswith("_")
    }
    found = {*dir(type(body)), *getattr(body, "__dict__", {})}  # without evaluating properties
    return sorted(members - found)


def stiffness_per_area(body: AttachableBody) -> float:
    """Return the largest Young's modulus over the cell size [Pa/m], a scale for contact springs.

    Raises `InputError` for a body without volume, such as point masses.
    """
    if not np.any(body.volumes()):
        raise InputError(
            "A contact of point masses needs a stiffness [N/m]. Pass Contact(stiffness=...)."
        )
    return float(body.fields.E.max()) / body.cell_size()


def limit_message(body: Body, q: Array) -> str:
    """Return which limit of a `LimitedBody` q is close to; an empty string for other bodies."""
    return body.limit_message(q) if hasattr(body, "limit_message") else ""


def viscous_argument(viscous: Viscosity) -> tuple[Viscosity, ...]:
    """Return the optional viscous argument of `energy` and `stiffness`, empty without damping."""
    return (viscous,) if viscous.rate > 0.0 else ()


def named_cells(body: AttachableBody, name: str) -> Array:
    """Return the cells of a material or a region; "body" is every cell.

    Raises `InputError` for an unknown name.
    """
    if name == "body":
        return np.arange(len(body.volumes()))
    cells = body.material_cells.get(name, body.cell_regions.get(name))
    if cells is None:
        raise InputError(
            f"The body has no region '{name}'; "
            f"{nearest(name, ['body', *body.material_cells, *body.cell_regions])}"
        )
    return cells


def material_of_cells(materials: Iterable[str], regions: Mapping[str, Array], count: int) -> Array:
    """Return the index of the material of each cell (count,), -1 for none.

    "default" applies to all cells without another material; so does "body" if no region has that
    name. Raises `InputError` for another name that is no region.
    """
    materials = list(materials)
    whole = len(regions.get("body", range(count))) == count
    if whole and "default" in materials and "body" in materials:
        raise InputError(
            "The materials 'default' and 'body' both apply to all cells without another material. "
            "Keep one of them."
        )
    owner = np.full(count, -1)
    for name in sorted(materials, key=lambda name: (name != "default", name != "body")):
        if name not in ("default", "body", *regions):
            raise InputError(
                f"There is a material for '{name}', but the mesh has no such region. It has "
                f"{', '.join(regions)}. Use 'default' for all other cells."
            )
        cells = slice(None) if name == "default" else regions.get(name, slice(None))
        owner[cells] = materials.index(name)
    return owner
