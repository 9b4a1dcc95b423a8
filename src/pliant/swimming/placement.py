"""The placement of the links of a robot: all that the flow around it depends on."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pliant.core import Array, InputError, finite_array

ROTATION_TOLERANCE = 1e-6  # of R^T R - I and of the length of an axis; rounding is far smaller


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """The places of b links and n hinges at one pose, in the frame of the root link.

    A point x of the frame of link i lies at rotations[i] @ x + centres[i]. Raises `InputError` for
    arrays that do not fit together, matrices that are not rotations and axes of another length.
    """

    rotations: Array  # (b, 3, 3)
    centres: Array  # (b, 3) [m]
    axes: Array  # (n, 3) unit vectors
    anchors: Array  # (n, 3) [m] a point of each axis
    moves: Array  # (b, n) bool, whether hinge k moves link i

    def __post_init__(self) -> None:
        centres = finite_array("The centres of the links", self.centres, (None, 3), "m")
        axes = finite_array("The axes of the hinges", self.axes, (None, 3))
        b, n = len(centres), len(axes)
        rotations = finite_array("The rotations of the links", self.rotations, (b, 3, 3))
        anchors = finite_array("The anchors of the hinges", self.anchors, (n, 3), "m")
        moves = np.asarray(self.moves, dtype=bool)
        if moves.shape != (b, n):
            raise InputError(f"The array of moved links has shape {moves.shape}; give {(b, n)}.")
        _check_rotations(rotations, axes)
        arrays = {"rotations": rotations, "centres": centres, "axes": axes, "anchors": anchors}
        for name, array in (arrays | {"moves": moves}).items():
            object.__setattr__(self, name, np.ascontiguousarray(array))

    @property
    def n_links(self) -> int:
        return len(self.centres)

    @property
    def n_hinges(self) -> int:
        return len(self.axes)

    def points(self, local: Array) -> Array:
        """Return a point of each link (b, 3) [m], given in the frames of the links."""
        return np.einsum("bij,bj->bi", self.rotations, local) + self.centres

    @classmethod
    def single(cls) -> Self:
        """Return the placement of one link without hinges, in its own frame."""
        return cls(
            rotations=np.eye(3)[None],
            centres=np.zeros((1, 3)),
            axes=np.zeros((0, 3)),
            anchors=np.zeros((0, 3)),
            moves=np.zeros((1, 0), dtype=bool),
        )


def _check_rotations(rotations: Array, axes: Array) -> None:
    """Raise `InputError` unless all matrices are rotations and all axes have length 1."""
    products = np.einsum("kji,kjl->kil", rotations, rotations)
    faults = np.abs(products - np.eye(3)).max(axis=(1, 2))
    bad = np.flatnonzero((faults > ROTATION_TOLERANCE) | (np.linalg.det(rotations) < 0.0))
    if bad.size:
        raise InputError(f"The matrix of link {bad[0]} is not a rotation. Make it orthogonal.")
    bad = np.flatnonzero(np.abs((axes**2).sum(axis=1) - 1.0) > ROTATION_TOLERANCE)
    if bad.size:
        raise InputError(
            f"The axis of hinge {bad[0]} is not a unit vector. Divide it by its length."
        )
