"""The added mass of a swimming robot as a function of its joint angles: exact, interpolated on a
grid, or constant.

The added mass (6 + n, 6 + n) is symmetric and is packed row by row from the diagonal on.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.store.digest import digest
from pliant.surrogate import Grid, Sample, SignSymmetry
from pliant.surrogate.cell_tables import CellArrays, CellTables, constant_cells
from pliant.swimming.link_shapes import ELLIPSOID_POINTS
from pliant.swimming.linked_robot import LinkedRobot
from pliant.swimming.potential_flow import PotentialFlow

METHOD_VERSION = 2  # increase it if the added mass is computed in another way
# [rad] of the central differences of exact slopes; their error is of its square
SECOND_DIFFERENCE = 1e-4
MAX_REMEMBERED = 10_000  # exact values, of about 2 kB each


def packed_size(n: int) -> int:
    """Return the number of entries of a packed mass matrix of n hinges."""
    return (6 + n) * (7 + n) // 2


def pack(matrix: Array) -> Array:
    """Return symmetric matrices (..., m, m) in packed form (..., m (m + 1) / 2)."""
    return matrix[(..., *np.triu_indices(matrix.shape[-1]))]


def unpack(packed: Array) -> Array:
    """Return packed symmetric matrices (..., m (m + 1) / 2) as (..., m, m)."""
    m = int(np.sqrt(2 * packed.shape[-1]))
    upper = np.zeros((*packed.shape[:-1], m, m))
    upper[(..., *np.triu_indices(m))] = packed
    diagonal = np.zeros_like(upper)
    diagonal[..., range(m), range(m)] = upper[..., range(m), range(m)]
    return upper + np.swapaxes(upper, -1, -2) - diagonal


@dataclass(frozen=True, kw_only=True, eq=False)
class AddedMassMap:
    """The exact map f from joint angles (n,) to the packed added mass and its slope [Jia2019,
    eq. 10]. `points` is the number of surface points of an ellipsoid."""

    robot: LinkedRobot
    points: int = ELLIPSOID_POINTS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the description only, without cached results, for worker processes."""
        return _added_mass_map, (self.robot, self.points)

    @cached_property
    def flow(self) -> PotentialFlow:
        shapes = tuple(link.shape for link in self.robot.links.values())
        return PotentialFlow(
            shapes=shapes,
            fluid_density=float(self.robot.fluid_density),
            ellipsoid_points=self.points,
        )

    @cached_property
    def key(self) -> str:
        """The digest of everything that the added mass depends on."""
        shapes = {name: link.shape for name, link in self.robot.links.items()}
        hinges = [
            (hinge.parent, hinge.child, hinge.axis, hinge.point, hinge.child_point)
            for hinge in self.robot.hinges.values()
        ]
        return digest(METHOD_VERSION, self.points, self.robot.fluid_density, shapes, hinges)

    @cached_property
    def symmetry(self) -> SignSymmetry | None:
        """The effect of half a rotation of the robot about the x axis of its root, if it maps all
        links to themselves; None if it does not, or if the joint angles are the same.

        It maps ellipsoids whose hinges are on the x axis to themselves, also their surface points.
        The angle of a hinge across this axis changes its sign, that of one along it does not.
        """
        robot, half = self.robot, np.array([1.0, -1.0, -1.0])
        signs = np.array([1.0 if hinge.axis[0] else -1.0 for hinge in robot.hinges.values()])  # type: ignore[index]
        fits = all(
            np.array_equal(half * hinge.axis, sign * np.asarray(hinge.axis))
            and np.array_equal(half * hinge.point, hinge.point)
            and np.array_equal(half * hinge.child_point, hinge.child_point)
            for hinge, sign in zip(robot.hinges.values(), signs, strict=True)
        )
        ellipsoids = all(link.shape.semi_axes is not None for link in robot.links.values())
        if not (fits and ellipsoids and np.any(signs < 0.0)):
            return None
        velocities = np.concatenate([half, half, signs])
        return SignSymmetry(inputs=signs, outputs=pack(np.outer(velocities, velocities)))

    def __call__(self, angles: Array, near: Sample | None = None) -> tuple[Array, Array]:
        """Return the packed added mass (r,) and its slope (r, n) at joint angles (n,) [rad]."""
        solution = self.flow.solve(self.robot.placement(angles), derivative=True)
        assert solution.derivative is not None
        return pack(solution.added_mass), np.ascontiguousarray(pack(solution.derivative).T)


def _added_mass_map(robot: LinkedRobot, points: int) -> AddedMassMap:
    return AddedMassMap(robot=robot, points=points)


class ExactAddedMass:
    """The added mass without interpolation. Second derivatives are central differences of exact
    slopes."""

    def __init__(self, exact_map: AddedMassMap) -> None:
        self.exact_map, self.queries = exact_map, 0
        self._known: OrderedDict[bytes, Array] = OrderedDict()

    def rows(self, angles: Array, second: bool = False) -> Array:
        """Return value and slopes (1 + n, r), with `second` also the second derivatives
        (n (n + 1) / 2, r)."""
        value = self._value(angles)
        if not second:
            return value
        n = len(angles)
        by_angle = [
            (self._value(angles + change) - self._value(angles - change))[1:]
            / (2.0 * SECOND_DIFFERENCE)
            for change in SECOND_DIFFERENCE * np.eye(n)
        ]
        curvature = [0.5 * (by_angle[i][j] + by_angle[j][i]) for i in range(n) for j in range(i, n)]
        return np.vstack([value, *[row[None] for row in curvature]])

    def _value(self, angles: Array) -> Array:
        key = angles.tobytes()
        if key not in self._known:
            value, slope = self.exact_map(angles)
            self.queries += 1
            self._known[key] = np.vstack([value, slope.T])
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]


class InterpolatedAddedMass:
    """The added mass on a grid of joint angles, for compiled steps."""

    def __init__(self, exact_map: AddedMassMap, grid: Grid) -> None:
        self.exact_map, self.grid = exact_map, grid
        self.tables = CellTables(grid)
        self.queries = 0

    def cells(self, *, second: bool = False) -> CellArrays:
        return self.tables.arrays(second=second)

    def require(self, angles: Array) -> None:
        """Add the cells of joint angles (k, n). Raises SampleError if there is no value."""
        self.tables.require(angles)

    def rows(self, angles: Array, second: bool = False) -> Array:
        """Return value and slopes (1 + n, r), with `second` also the second derivatives
        (n (n + 1) / 2, r)."""
        return self.grid.rows(angles, second)


class ConstantAddedMass:
    """An added mass that does not depend on joint angles: without a fluid, or without hinges."""

    def __init__(self, value: Array, n: int) -> None:
        self.value, self.n = value, n

    def cells(self, *, second: bool = False) -> CellArrays:
        return constant_cells(self.value, self.n)

    def require(self, angles: Array) -> None:
        """Do nothing: no cell is missing."""

    def rows(self, angles: Array, second: bool = False) -> Array:
        """Return value and slopes (1 + n, r), with `second` also the second derivatives
        (n (n + 1) / 2, r)."""
        n = self.n
        out = np.zeros((1 + n + (n * (n + 1) // 2 if second else 0), len(self.value)))
        out[0] = self.value
        return out
