"""Folds: where a robot in balance has none beyond, such as a balloon at its largest pressure.

Next to a fold a control moves the robot ever further, until no step leads on and none leads back. So what ran into one is looked for by
halves, up to where the robot still stands firmly, and not tried again near there.
"""

from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array
from pliant.planners.inverse.rows import Rows

NAME = "its balance"
SOFT = 50.0  # times as far as at first: where a control moves the robot further, it does not stand firmly
MOST = 4  # folds that are remembered


@dataclass(frozen=True, kw_only=True, eq=False)
class Stand:
    """Where a robot stood firmly."""

    x: Array  # (n_state,)
    u: Array  # (n_controls,)
    scale: Array  # (n,) [m per unit] how far each control that may move moved a node where the robot stood first


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """How far a robot stands firmly along a direction of its controls, and from where on it does not: slope (u - stand.u) of those that may
    move is at most `high`, which is in the middle as long as that is not known to within `near`."""

    stand: Stand
    slope: Array  # (n,) [m per unit]
    low: float  # [m] so far it does
    lost: float  # [m] and here it does not
    near: float  # [m]

    @property
    def open(self) -> bool:
        return self.lost - self.low > self.near

    @property
    def high(self) -> float:
        return 0.5 * (self.low + self.lost) if self.open else self.low

    def way(self, u: Array, chosen: Array) -> float:
        """[m] how far controls u (n_controls,) are from the stand."""
        return float(self.slope @ (u - self.stand.u)[chosen])

    def at(self, u: Array, chosen: Array) -> bool:
        """Whether controls u go as far as they may."""
        return self.high - self.way(u, chosen) <= 1e-3 * max(self.lost - self.low, self.near)

    def learned(self, firm: bool) -> "Fold":
        """After the robot has come to rest there, firmly or not."""
        return replace(self, low=self.high) if firm else replace(self, lost=self.high)

    def rows(self, u: Array, chosen: Array) -> Rows:
        return Rows(name=NAME, slope=self.slope[None], low=np.array([-np.inf]), high=np.array([self.high - self.way(u, chosen)]))


def with_fold(folds: tuple[Fold, ...], stand: Stand, lost: Array, chosen: Array, near: float) -> tuple[Fold, ...]:
    """Folds after balance was lost under controls `lost` (n_controls,) on the way from a stand: the last one nearer, where that was in the
    way, else one more; as they are where no control changed."""
    if folds and folds[-1].way(lost, chosen) > folds[-1].low:
        return *folds[:-1], replace(folds[-1], lost=min(folds[-1].lost, folds[-1].way(lost, chosen)))
    way = stand.scale * (lost - stand.u)[chosen]
    size = float(np.linalg.norm(way))
    if size == 0.0:
        return folds
    return (*folds, Fold(stand=stand, slope=stand.scale * way / size, low=0.0, lost=size, near=near))[-MOST:]
