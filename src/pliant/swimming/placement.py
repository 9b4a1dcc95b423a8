"""The placement of the links of a robot: all that the flow around it depends on."""

from dataclasses import dataclass

from pliant.core import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """The places of b links and n hinges at one pose, in the frame of the root link.

    A point x of the frame of link i lies at rotations[i] @ x + centers[i].
    """

    rotations: Array  # (b, 3, 3)
    centers: Array  # (b, 3) [m]
    axes: Array  # (n, 3) unit vectors
    anchors: Array  # (n, 3) [m] a point of each axis
    moves: Array  # (b, n) bool, whether hinge k moves link i

    @property
    def n_links(self) -> int:
        return len(self.centers)

    @property
    def n_hinges(self) -> int:
        return len(self.axes)
