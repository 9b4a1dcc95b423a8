"""Polylines that draw an actuator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pliant.core import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Polyline:
    """A line through points that move with the robot: a cable, or the frame that holds the
    robot."""

    kind: Literal["cable", "frame"]
    n_points: int
    # node positions (n_nodes, dim) [m] and controls (n_controls,) of the actuator
    # -> (n_points, dim) [m]
    points: Callable[[Array, Array], Array]
    depends_on_controls: bool = False
