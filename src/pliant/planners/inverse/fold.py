"""Folds: where a robot in balance has none beyond, such as a balloon at its largest pressure.

Next to a fold a control moves the robot ever further, until no step leads on and none leads back.
So what ran into one is looked for by halves, up to where the robot still stands firmly, and not
tried again near there.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pliant.core import Array
from pliant.planners.inverse.rows import Rows

NAME = "its balance"
# times as far as at first: where a control moves the robot further, it does not stand firmly
SOFT = 50.0
MOST = 4  # folds that are remembered
ALIKE = 0.9  # cosine of two ways that ran into one fold


@dataclass(frozen=True, kw_only=True, eq=False)
class Stand:
    """Where a robot stood firmly."""

    x: Array  # (n_state,)
    u: Array  # (n_controls,)
    # (n_controls,) [m per unit] how far each control moved a node where it first moved one, zero
    # where it has not
    ways: Array

    def next(self, x: Array, u: Array, ways: Array) -> "Stand | None":
        """The stand at another place, None where the robot is too soft for one."""
        both = (ways > 0.0) & (self.ways > 0.0)
        firm = np.all(ways[both] <= SOFT * self.ways[both])
        return Stand(x=x, u=u, ways=np.where(self.ways > 0.0, self.ways, ways)) if firm else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """How far a robot stands firmly along a direction of its controls, and from where on it does
    not: slope (u - stand.u) is at most `high`, which is in the middle as long as that is not known
    to within `width`."""

    stand: Stand
    unit: Array  # (n_controls,) the direction, in metres, of length one
    low: float  # [m] so far it does
    end: float  # [m] and here it does not
    width: float  # [m]
    within: float  # [m] how far a node may be from the stand where this still counts
    last: Stand | None = None  # the last that was found on it

    @property
    def unsettled(self) -> bool:
        return self.end - self.low > self.width

    @property
    def high(self) -> float:
        return 0.5 * (self.low + self.end) if self.unsettled else self.low

    @property
    def slope(self) -> Array:
        """(n_controls,) [m per unit]"""
        return self.stand.ways * self.unit

    def way(self, u: Array) -> float:
        """[m] how far controls u (n_controls,) are from the stand."""
        return float(self.slope @ (u - self.stand.u))

    def at(self, u: Array) -> bool:
        """Whether controls u go as far as they may."""
        return self.high - self.way(u) <= 1e-3 * max(self.end - self.low, self.width)

    def learned(self, stand: Stand | None) -> "Fold":
        """After the robot has come to rest there, firmly or not."""
        return (
            replace(self, end=self.high)
            if stand is None
            else replace(self, low=self.high, last=stand)
        )

    def rows(self, u: Array, chosen: Array) -> Rows:
        return Rows(
            name=NAME,
            slope=self.slope[None, chosen],
            low=np.array([-np.inf]),
            high=np.array([self.high - self.way(u)]),
        )


def with_fold(
    folds: tuple[Fold, ...], stand: Stand, u: Array, width: float, within: float
) -> tuple[Fold, ...]:
    """Folds after balance was lost under controls u (n_controls,) on the way from a stand: the one
    that this way ran into nearer, else one more; as they are where no control that counts has
    changed."""
    way = stand.ways * (u - stand.u)
    size = float(np.linalg.norm(way))
    if size == 0.0:
        return folds
    same = [fold for fold in folds if fold.unit @ way >= ALIKE * size and fold.way(u) > fold.low]
    if same:
        met = replace(
            same[-1], end=min(same[-1].end, same[-1].way(u)), within=max(same[-1].within, within)
        )
    else:
        met = Fold(stand=stand, unit=way / size, low=0.0, end=size, width=width, within=within)
    return (*(fold for fold in folds if fold not in same), met)[-MOST:]


def enclosed(folds: tuple[Fold, ...]) -> bool:
    """Whether folds are known on opposite sides, so that a robot can go neither way: then it does
    not stand firmly between them either."""
    settled = [fold.unit for fold in folds if not fold.unsettled]
    return any(a @ b <= -ALIKE for a, b in combinations(settled, 2))
