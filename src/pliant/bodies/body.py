"""What every body answers: where its material points are, what they weigh and how they push
back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import Viscous
from pliant.core import Array, InputError, nearest
from pliant.materials import moduli

NO_VISCOSITY = Viscous(0.0, 0.0, np.zeros((1, 2)), np.zeros((1, 1, 9)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Fields:
    """The material numbers of each cell, the design variables of a body."""

    E: Array  # (n_cells,) [Pa]
    nu: Array  # (n_cells,) [-]
    density: Array  # (n_cells,) [kg/m^3]; a point mass: its mass [kg]
    power: Array  # (n_cells,) exponent of the near-incompressible term, 0 for none

    @cached_property
    def moduli(self) -> Array:
        """(n_cells, 3) [Pa] mu, lam and the near-incompressible bulk."""
        return moduli(self.E, self.nu, self.power)


class Matter(Protocol):
    """What is attached to a body asks this of it, be it of elements or of particles: nodes are its
    unknowns' points, cells its pieces of material, and for particles both are the same."""

    @property
    def dim(self) -> int: ...
    @property
    def rest(
        self,
    ) -> Array: ...  # (n_dofs,) [m] rest positions; of a node that is a turn [rad], zero
    @property
    def is_place(
        self,
    ) -> (
        Array
    ): ...  # (n_nodes,) bool: is a node a place in space? If not, it is a turn, a rotation vector
    @property
    def fields(self) -> Fields: ...
    @property
    def bounds(
        self,
    ) -> Mapping[str, tuple[float, float, str]]: ...  # field -> lower and upper bound, unit
    @property
    def groups(self) -> Mapping[str, Array]: ...  # material name -> cells
    @property
    def cell_regions(self) -> Mapping[str, Array]: ...  # name of a region -> cells
    def cell_size(self) -> float: ...  # [m] a typical cell
    def hardness(
        self,
        # [Pa/m] what a cell of the stiffest material answers to a metre of indentation: E / cell
    ) -> float: ...
    def cell_centres(self) -> Array: ...  # (n_cells, dim) [m] at rest
    def volumes(self) -> Array: ...  # (n_cells,) [m^3]
    def locate(
        self, points: Array
    ) -> sp.csr_matrix: ...  # (k, n_nodes) interpolation to rest points (k, dim)
    def region(self, name: str) -> Array: ...  # node indices of a named region or surface
    def patch(
        self, name: str | None, *, even: bool = False
    ) -> Array: ...  # (n_nodes,) [m^2] area a node carries; None: all
    def bulk(
        self, cells: Array
    ) -> Array: ...  # (n_nodes,) [m^3] what each node carries of some cells


def named_cells(body: Matter, name: str) -> Array:
    """The cells of a material or a region, "body" being all of them; or a sentence."""
    if name == "body":
        return np.arange(len(body.volumes()))
    cells = body.groups.get(name, body.cell_regions.get(name))
    if cells is None:
        raise InputError(
            f"The body has no region '{name}'; "
            f"{nearest(name, ['body', *body.groups, *body.cell_regions])}"
        )
    return cells


def material_of_cells(materials: Iterable[str], regions: Mapping[str, Array], count: int) -> Array:
    """(count,) the number of the material of each cell, -1 for none.

    "default" is the material of all cells without another; so is "body" where no region has that
    name. Raises InputError for another name that is no region.
    """
    materials = list(materials)
    whole = len(regions.get("body", range(count))) == count
    if whole and "default" in materials and "body" in materials:
        raise InputError(
            "There is a material 'default' and one 'body', which both stand for all cells without "
            "another; keep one of them."
        )
    owner = np.full(count, -1)
    for name in sorted(materials, key=lambda name: (name != "default", name != "body")):
        if name not in ("default", "body", *regions):
            raise InputError(
                f"There is a material for '{name}', but the mesh has no such region; it has "
                f"{', '.join(regions)}. One for all other cells is named 'default'."
            )
        cells = slice(None) if name == "default" else regions.get(name, slice(None))
        owner[cells] = materials.index(name)
    return owner


class Body(Matter, Protocol):
    """A robot's matter with unknowns q = node positions, flat, node after node. Forces are
    gradients of energies.

    `moduli` are those of a Viscous, which only the body that made it reads.
    """

    @property
    def pairs(self) -> Array: ...  # (n_pairs, 2) node pairs i >= j that share a cell, sorted
    @property
    def cell_nodes(self) -> Array: ...  # (n_cells, k) the nodes of each cell
    def energy(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[float, Array]: ...  # and its gradient
    def gradient(self, q: Array, fields: Fields) -> Array: ...
    def stiffness(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY, *, project: bool = False
    ) -> Array: ...
    def linearised(
        self, q: Array, fields: Fields, viscosity: float
    ) -> tuple[Array, Array]: ...  # gradient, stiffness and viscous one
    def stiffness_times(self, q: Array, fields: Fields, y: Array) -> Array: ...
    def stiffness_cells(
        self, q: Array, fields: Fields, w: Array
    ) -> tuple[Array, Array]: ...  # K of each cell, its change along w
    def field_stiffness(self, q: Array, fields: Fields, change: Fields, y: Array) -> Array: ...
    def field_stiffness_work(
        self, q: Array, fields: Fields, y: Array, z: Array
    ) -> tuple[Array, Array]: ...
    def third(self, q: Array, fields: Fields, y: Array, z: Array) -> Array: ...
    def field_forces(
        self, q: Array, fields: Fields, change: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> Array: ...
    def field_work(
        self, q: Array, fields: Fields, y: Array, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[Array, Array]: ...
    def viscous(
        self, fields: Fields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscous: ...
    def viscous_at(
        self, fields: Fields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscous: ...
    def viscous_push(self, q: Array, level: Array, change: Array, moduli: Array) -> Array: ...
    def viscous_moved(
        self, q: Array, w: Array, change: Array, moduli: Array
    ) -> Array: ...  # of viscous_push(q, q, w) with q
    def viscous_moved_back(
        self, q: Array, w: Array, y: Array, moduli: Array
    ) -> Array: ...  # its transpose
    def viscous_cells(
        self, q: Array, level: Array, moduli: Array
    ) -> Array: ...  # (n_cells, k dim, k dim) viscous_push of each cell
    def viscous_moved_cells(
        self, q: Array, w: Array, moduli: Array
    ) -> Array: ...  # viscous_moved of each cell
    def viscous_third(
        self,
        q: Array,
        viscous: Viscous,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]: ...
    def mass(self, density: Array) -> Array: ...  # (n_pairs,) [kg]
    def mass_work(self, y: Array, z: Array) -> Array: ...  # (n_cells,) d(y^T M z)/d density
    def inverted(
        self, q: Array
    ) -> tuple[float, int] | None: ...  # (how far, cell) of what cannot be there
    def beyond(
        self, q: Array
    ) -> str: ...  # what of the body's own limits stops a step at q, in words; "" for none
