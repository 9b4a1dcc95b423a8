"""Limit points of the equilibrium manifold, such as the largest pressure of a balloon.

Next to a limit point a control moves the robot ever further, until no equilibrium is left. The
controller brackets the last stable equilibrium along the direction that failed by bisection.
"""

from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array
from pliant.planners.inverse_control.motion_constraints import ConstraintRows
from pliant.planners.inverse_control.tolerances import Tolerances

PARALLEL = 0.9  # cosine of two directions that meet the same limit point


@dataclass(frozen=True, kw_only=True, eq=False)
class StableEquilibrium:
    """A state with balanced forces, a positive definite tangent and moderate sensitivity."""

    x: Array  # (n_state,)
    u: Array  # (n_controls,)
    # (n_controls,) [m per unit] displacement per control where it first had an effect, else zero
    mobility: Array

    def moved_to(
        self, x: Array, u: Array, mobility: Array, tolerances: Tolerances
    ) -> "StableEquilibrium | None":
        """Return the stable equilibrium at (x, u), None if the robot has become too soft."""
        both = (mobility > 0.0) & (self.mobility > 0.0)
        if np.any(mobility[both] > tolerances.max_softening * self.mobility[both]):
            return None
        return StableEquilibrium(
            x=x, u=u, mobility=np.where(self.mobility > 0.0, self.mobility, mobility)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitPoint:
    """A bracket of the last stable equilibrium along a direction of the controls.

    It bounds slope (u - start.u): by the middle of the bracket while that is wider than
    `resolution`, then by its stable end.
    """

    start: StableEquilibrium
    direction: Array  # (n_controls,) unit vector, controls measured in metres
    stable: float  # [m] stable up to here
    unstable: float  # [m] not stable here
    resolution: float  # [m]
    radius: float  # [m] displacement from `start` up to which this limit point counts
    last: StableEquilibrium | None = None  # found at the bound

    @property
    def unresolved(self) -> bool:
        return self.unstable - self.stable > self.resolution

    @property
    def bound(self) -> float:
        """[m]"""
        return 0.5 * (self.stable + self.unstable) if self.unresolved else self.stable

    @property
    def slope(self) -> Array:
        """(n_controls,) [m per unit]"""
        return self.start.mobility * self.direction

    def distance(self, u: Array) -> float:
        """[m] of controls u (n_controls,) from the start."""
        return float(self.slope @ (u - self.start.u))

    def is_active(self, u: Array) -> bool:
        """Return whether controls u are at the bound."""
        width = max(self.unstable - self.stable, self.resolution)
        return self.bound - self.distance(u) <= 1e-3 * width

    def bisected(self, found: StableEquilibrium | None) -> "LimitPoint":
        """Return the bracket after the robot came to rest at the bound, stable or not (None)."""
        if found is None:
            return replace(self, unstable=self.bound)
        return replace(self, stable=self.bound, last=found)

    def rows(self, u: Array, free_controls: Array) -> ConstraintRows:
        """Return the bound as a row of the QP at controls u."""
        return ConstraintRows(
            name="a limit point",
            slope=self.slope[None, free_controls],
            low=np.array([-np.inf]),
            high=np.array([self.bound - self.distance(u)]),
        )


def with_limit_point(
    limit_points: tuple[LimitPoint, ...],
    start: StableEquilibrium,
    u: Array,
    resolution: float,
    radius: float,
) -> tuple[LimitPoint, ...]:
    """Return the limit points after the equilibrium was lost at controls u on the way from `start`.

    Narrows the bracket of a parallel direction if there is one. Returns `limit_points` itself if no
    control that moves the robot has changed."""
    way = start.mobility * (u - start.u)
    size = float(np.linalg.norm(way))
    if size == 0.0:
        return limit_points
    same = [
        point
        for point in limit_points
        if point.direction @ way >= PARALLEL * size and point.distance(u) > point.stable
    ]
    if same:
        old = same[-1]
        new = replace(
            old, unstable=min(old.unstable, old.distance(u)), radius=max(old.radius, radius)
        )
    else:
        new = LimitPoint(
            start=start,
            direction=way / size,
            stable=0.0,
            unstable=size,
            resolution=resolution,
            radius=radius,
        )
    return (*(point for point in limit_points if point not in same), new)
