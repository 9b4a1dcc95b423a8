"""The problem of the FEM benchmark and the result of a library that solves it."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, MeshError, counted_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A body of linear tetrahedra, clamped at some nodes, that starts at rest under gravity."""

    points: Array  # (n, 3) [m]
    cells: Array  # (m, 4)
    clamped: Array  # (n,) bool
    young: float  # [Pa]
    poisson: float
    density: float  # [kg/m^3]
    gravity: Array  # (3,) [m/s^2]
    dt: float  # [s]


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """The time of each step of a library, and the final node positions."""

    name: str
    seconds_per_step: Array  # (steps,) [s], wall clock
    positions: Array  # (n, 3) [m], after the last step
    # [s], mean of one tangent and one residual; None if the library does not expose them
    assembly: float | None = None
    # [s], mean of one sparse factorisation; None if the library does not expose it
    factor: float | None = None


def check_mesh(case: Case) -> None:
    """Raise `InputError` or `MeshError` for a mesh on which a library would crash. Drake aborts the
    process at an inverted cell."""
    points, cells, clamped = case.points, case.cells, case.clamped
    if not 0 < np.count_nonzero(clamped) < len(points):
        raise InputError(
            f"{np.count_nonzero(clamped)} of {len(points)} nodes are clamped. Clamp the nodes of "
            "one end."
        )
    volume = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) / 6
    bad = np.flatnonzero(~(volume > 0))
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(cells), 'tetrahedron', ('is', 'are'), 'tetrahedra')} "
            f"inverted or flat (first: cell {bad[0]}, volume {volume[bad[0]]:.2e} m^3). Swap two "
            "vertices of each."
        )
