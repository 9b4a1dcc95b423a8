"""The potential flow around a robot of rigid links: exact potentials, the added mass and its
derivative by the joint angles.

The potential of each unit velocity is harmonic outside the links and has their normal velocity. It
is phi = psi + mu on the surface, where psi is the harmonic function inside the links with the same
normal velocity, and (I/2 - K) mu = -psi with the double layer K of all surfaces. This equation of
the second kind is never singular. All unit velocities share one LU factorisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, InputError, require_kind, require_positive
from pliant.kernels.threads import run_kernel
from pliant.swimming import flow_kernels
from pliant.swimming.flow_surfaces import LinkSurface, PlacedSurfaces, discretise, place
from pliant.swimming.link_distances import check_contacts
from pliant.swimming.link_shapes import (
    ELLIPSOID_POINTS,
    LinkShape,
    check_shapes,
    require_point_count,
)
from pliant.swimming.link_velocities import link_velocities, link_velocity_derivatives
from pliant.swimming.placement import Placement

MAX_POINTS = 20_000  # of all links; their matrix has 3.2 GB
# Distance of points over the thickness of an ellipsoid: the added mass has errors up to 5 % there,
# and up to 12 % where it is 1
MAX_SPACING = 0.75


@dataclass(frozen=True, kw_only=True, eq=False)
class FlowSolution:
    """The flow for unit generalised velocities (v, omega, joint rates) in the frame of the root.

    Entries are in SI units: the potential of a translation in m, the others in m^2.
    """

    added_mass: Array  # (6 + n, 6 + n) [kg, kg m, kg m^2], symmetric
    derivative: Array | None  # (n, 6 + n, 6 + n) by the joint angles [rad], if asked for
    asymmetry: float  # of the added mass before it was made symmetric, an error measure
    potential: Array  # (P, 6 + n) on the points of the surface
    points: Array  # (P, 3) [m] of all links, link by link


@dataclass(frozen=True, kw_only=True, eq=False)
class PotentialFlow:
    """An unbounded ideal fluid at rest at infinity, around the links of a robot.

    An ellipsoid has `ellipsoid_points` points. A closed surface has one on each triangle. What does
    not depend on the pose is computed once.

    >>> import numpy as np
    >>> import pliant as pl
    >>> sphere = pl.swimming.EllipsoidShape(semi_axes=(0.1, 0.1, 0.1))
    >>> flow = pl.swimming.PotentialFlow(shapes=(sphere,), fluid_density=1000.0)
    >>> mass = flow.solve(pl.swimming.Placement.single()).added_mass
    >>> bool(abs(mass[0, 0] / (1000.0 * sphere.volume) - 0.5) < 1e-3)
    True
    """

    shapes: Sequence[LinkShape]
    fluid_density: float  # [kg/m^3]
    ellipsoid_points: int = ELLIPSOID_POINTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", check_shapes(self.shapes))
        require_positive("The density of the fluid", self.fluid_density, "kg/m^3")
        require_point_count(self.ellipsoid_points)
        total = sum(
            self.ellipsoid_points if shape.semi_axes is not None else len(shape.quadrature(0)[0])
            for shape in self.shapes
        )
        if total > MAX_POINTS:
            raise InputError(
                f"The links have {total:,} points and triangles; at most {MAX_POINTS:,} fit into "
                "memory. Simplify the surfaces, or give ellipsoids fewer points."
            )
        for k, shape in enumerate(self.shapes):
            _check_thickness(k, shape, self.ellipsoid_points)

    @cached_property
    def surfaces(self) -> tuple[LinkSurface, ...]:
        """The discretised surfaces; links with the same shape object share one."""
        known = {id(shape): shape for shape in self.shapes}
        found = {key: discretise(shape, self.ellipsoid_points) for key, shape in known.items()}
        return tuple(found[id(shape)] for shape in self.shapes)

    @cached_property
    def starts(self) -> Array:
        """The first point of each link, and the number of points, (b + 1,)."""
        return np.cumsum([0, *(len(surface.points) for surface in self.surfaces)])

    @cached_property
    def spacing(self) -> Array:
        """The distance (b,) [m] between neighbouring points of each link: the root of the area of
        one. Gaps of less than half of it are not resolved."""
        areas = [np.linalg.norm(surface.areas, axis=1) for surface in self.surfaces]
        return np.sqrt([area.mean() for area in areas])

    def solve(self, placement: Placement, *, derivative: bool = False) -> FlowSolution:
        """Return the flow at a placement of the links, with the derivative of the added mass if
        asked for. Raises `LinkContactError` if links overlap or touch."""
        require_kind("The placement", placement, Placement, "give a Placement of the links")
        check_contacts(self.shapes, placement)
        placed = place(self.surfaces, placement)
        velocities = link_velocities(placement)
        psi = self._combined(velocities, [surface.interior for surface in self.surfaces])
        fluxes = self._combined(velocities, [surface.fluxes for surface in self.surfaces])
        A = self._matrix(placed)
        pivots = run_kernel(flow_kernels.factorise, A.size, A)
        mu = run_kernel(flow_kernels.solve, A.size, A, pivots, -psi)
        phi = psi + mu
        mass = -self.fluid_density * flow_kernels.products(phi, fluxes)
        change = None
        if derivative:
            adjoint = run_kernel(flow_kernels.solve_transposed, A.size, A, pivots, fluxes)
            change = self._velocity_terms(placement, velocities, phi, fluxes - adjoint)
            change += self._matrix_terms(placement, placed, mu, adjoint)
            change = 0.5 * (change + change.transpose(0, 2, 1))
        return FlowSolution(
            added_mass=0.5 * (mass + mass.T),
            derivative=change,
            asymmetry=_asymmetry(mass, placed.points),
            potential=phi.T,
            points=placed.points.T,
        )

    def _combined(self, velocities: Array, modes: list[Array]) -> Array:
        """Return (6 + n, P): the modes (6, P_i) of each link times its velocities."""
        pairs = zip(velocities, modes, strict=True)
        return np.hstack([np.einsum("sj,sp->jp", T, mode) for T, mode in pairs])

    def _matrix(self, placed: PlacedSurfaces) -> Array:
        """Return I/2 - K (P, P). Only the blocks of pairs of links depend on the pose."""
        starts = self.starts
        A = np.empty((starts[-1], starts[-1]))
        for k, surface in enumerate(self.surfaces):
            A[starts[k] : starts[k + 1], starts[k] : starts[k + 1]] = surface.own_block
        kinds = np.array([surface.is_triangle for surface in self.surfaces])
        arrays = placed.points, placed.areas, placed.corners
        run_kernel(flow_kernels.fill_double_layer, A.size, A, *arrays, starts, kinds, False)
        return A

    def _velocity_terms(
        self, placement: Placement, velocities: Array, phi: Array, adjoint_fluxes: Array
    ) -> Array:
        """Return (n, 6 + n, 6 + n): the change of the added mass through the velocities of the
        links, as if the flow for the velocities of each link stayed the same in its frame.

        `adjoint_fluxes` (6 + n, P) give the added mass of any psi: -density psi . adjoint_fluxes.
        """
        changes, starts = link_velocity_derivatives(placement), self.starts
        out = np.zeros((placement.n_hinges, *2 * (velocities.shape[2],)))
        for k, surface in enumerate(self.surfaces):
            rows = slice(starts[k], starts[k + 1])
            left = flow_kernels.products(np.ascontiguousarray(phi[:, rows]), surface.fluxes)
            right = flow_kernels.products(
                surface.interior, np.ascontiguousarray(adjoint_fluxes[:, rows])
            )
            out += np.einsum("is,gsj->gij", left, changes[k])
            out += np.einsum("gsi,sj->gij", changes[k], right)
        return -self.fluid_density * out

    def _matrix_terms(
        self, placement: Placement, placed: PlacedSurfaces, mu: Array, adjoint: Array
    ) -> Array:
        """Return (n, 6 + n, 6 + n): the change through the matrix, density * adjoint . (dA mu)."""
        kinds = np.array([surface.is_triangle for surface in self.surfaces])
        changed = run_kernel(
            flow_kernels.double_layer_derivative,
            placed.points.shape[1] ** 2,
            placed.points,
            placed.areas,
            placed.corners,
            self.starts,
            kinds,
            (placement.axes, placement.anchors, placement.moves),
            mu,
        )
        rows = np.ascontiguousarray(changed.transpose(1, 2, 0)).reshape(-1, mu.shape[1])
        m = len(mu)
        return self.fluid_density * flow_kernels.products(rows, adjoint).reshape(-1, m, m)


def _check_thickness(k: int, shape: LinkShape, count: int) -> None:
    """Raise `InputError` if an ellipsoid is too thin for its number of points."""
    if shape.semi_axes is None:
        return
    area = float(np.linalg.norm(shape.quadrature(count)[1], axis=1).sum())
    thickness = 2.0 * float(shape.semi_axes.min())
    needed = int(np.ceil(area / (MAX_SPACING * thickness) ** 2))
    if count < needed:
        raise InputError(
            f"Link {k} is {thickness:.3g} m thick, but its {count} points are "
            f"{np.sqrt(area / count):.3g} m apart. Give each ellipsoid {needed} points or more."
        )


def _asymmetry(mass: Array, points: Array) -> float:
    """Return the largest entry of M - M^T over the largest of M, with rotations measured by the
    speed at the farthest point (3, P)."""
    size = np.sqrt((points**2).sum(axis=0).max())
    scale = np.where(np.arange(len(mass)) < 3, 1.0, size)
    scaled = mass / np.outer(scale, scale)
    return float(np.abs(scaled - scaled.T).max() / np.abs(scaled).max())
