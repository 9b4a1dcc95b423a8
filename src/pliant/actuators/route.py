"""The route of a cable: its points in the rest shape of a body, which can be design variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.bodies import AttachableBody, MovableAttachments
from pliant.core import Array, InputError, Param
from pliant.geometry.locate import ROUNDING_TOLERANCE

AXES = "xyz"
COORDINATE = re.compile(r"(?:point(\d+)|guide)\.([xyz])")  # the name of one coordinate of a route


def coordinate_names(n_points: int, guide: bool, dim: int) -> list[str]:
    """Return the names of the coordinates of `n_points` points and of a guide, such as
    "point0.x"."""
    points = [*(f"point{k}" for k in range(n_points)), *(["guide"] if guide else [])]
    return [f"{point}.{axis}" for point in points for axis in AXES[:dim]]


def split_coordinate(name: str) -> tuple[str, str] | None:
    """Return the group and the own name of a coordinate, such as "actuators.line" and "point0.x";
    None for another name."""
    found = re.fullmatch(rf"(.+)\.({COORDINATE.pattern})", name)
    return None if found is None else (found[1], found[2])


def moved_path(path: Array, values: Mapping[str, float]) -> Array:
    """Return a path (n, dim) [m] with other values of some coordinates, by names such as
    "point0.x". The guide is its last point."""
    out = np.array(path, float)
    for name, value in values.items():
        out[_place(name, len(path))] = value
    return out


def _place(name: str, length: int) -> tuple[int, int]:
    """Return the row and column of a coordinate in a path of `length` points."""
    found = COORDINATE.fullmatch(name)
    assert found is not None  # callers choose among the coordinate names
    row = length - 1 if found[1] is None else int(found[1])
    return row, AXES.index(found[2])


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """A path (n, dim) [m] through `n_attached` points of a body, then through a guide in space if
    there is one more point. Raises `InputError` if two neighbours coincide."""

    body: AttachableBody
    given: Array  # (n, dim) [m]
    n_attached: int

    def __post_init__(self) -> None:
        lengths = np.linalg.norm(np.diff(self.path, axis=0), axis=1)
        if (lengths == 0.0).any():
            raise InputError(
                f"Cable points {np.argmin(lengths)} and {np.argmin(lengths) + 1} coincide; "
                "remove one of them."
            )

    @cached_property
    def anchors(self) -> sp.csr_matrix:
        """The weights (n_attached, n_nodes) of the attached points."""
        return self.body.locate(self.given[: self.n_attached])

    @cached_property
    def path(self) -> Array:
        """The path (n, dim) [m] at rest. A point outside the body was projected to its surface;
        others differ from their interpolation by rounding only."""
        m, rest = self.n_attached, self.body.rest.reshape(-1, self.body.dim)
        held = self.anchors @ rest
        moved = np.linalg.norm(held - self.given[:m], axis=1) > ROUNDING_TOLERANCE * np.ptp(rest)
        return np.vstack([np.where(moved[:, None], held, self.given[:m]), self.given[m:]])

    @property
    def _differences(self) -> sp.csr_matrix:
        """The matrix (n - 1, n) from points to segments."""
        n = len(self.given) - 1
        return sp.diags([-1.0, 1.0], [0, 1], shape=(n, n + 1)).tocsr()

    @property
    def weights(self) -> sp.csr_matrix:
        """The weights (n - 1, n_nodes) of the segments."""
        return (self._differences[:, : self.n_attached] @ self.anchors).tocsr()

    @property
    def offset(self) -> Array:
        """The part (n - 1, dim) [m] of the segments that the guide adds."""
        outside = np.array(self.path)
        outside[: self.n_attached] = 0.0
        return self._differences @ outside

    @property
    def length(self) -> float:
        """The length [m] at rest."""
        return float(np.linalg.norm(np.diff(self.path, axis=0), axis=1).sum())

    # Design variables

    @property
    def names(self) -> list[str]:
        """The names of the coordinates that can change: of all points, or of the guide only if
        points cannot move on this kind of body."""
        movable = self.n_attached if isinstance(self.body, MovableAttachments) else 0
        return coordinate_names(movable, len(self.given) > self.n_attached, self.body.dim)

    @property
    def parameters(self) -> tuple[Param, ...]:
        """The coordinates, in the bounding box of the body."""
        return tuple(self._parameter(name) for name in self.names)

    def _parameter(self, name: str) -> Param:
        row, axis = _place(name, len(self.given))
        lower, upper, width = -np.inf, np.inf, float(np.ptp(self.body.rest))
        if row < self.n_attached:
            assert isinstance(self.body, MovableAttachments)
            lower, upper = (float(corner[axis]) for corner in self.body.attachment_box)
            width = upper - lower
        value = self.given[row, axis : axis + 1].copy()
        return Param(
            name=name,
            value=value.clip(lower, upper),  # a point up to `snap` outside is on the surface
            unit="m",
            lower=lower,
            upper=upper,
            lower_included=True,
            upper_included=True,
            typical=0.5 * width or None,
        )

    def moved(self, values: Mapping[str, float]) -> "Route":
        """Return the route with other values of some coordinates."""
        return replace(self, given=moved_path(self.given, values))

    def change(self, name: str) -> tuple[sp.csr_matrix, Array]:
        """Return the derivatives of the segments' weights (n - 1, n_nodes) [1/m] and of their
        offset (n - 1, dim) [-] by a coordinate."""
        row, axis = _place(name, len(self.given))
        column = self._differences[:, [row]]
        if row == self.n_attached:
            unit = np.eye(self.body.dim)[[axis]]
            return sp.csr_matrix(self.weights.shape), column @ unit
        return (column @ self._anchor_gradients[axis][[row]]).tocsr(), np.zeros_like(self.offset)

    @cached_property
    def _anchor_gradients(self) -> list[sp.csr_matrix]:
        assert isinstance(self.body, MovableAttachments)
        return self.body.weight_gradients(self.given[: self.n_attached])

    def length_change(self, name: str) -> float:
        """Return the derivative [-] of the length at rest by a coordinate."""
        row, axis = _place(name, len(self.given))
        segments = np.diff(self.path, axis=0)
        directions = segments / np.linalg.norm(segments, axis=1)[:, None]
        along = self._differences[:, [row]].toarray()[:, 0]
        return float(along @ directions[:, axis])
