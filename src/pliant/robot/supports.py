"""Supports of a robot, by region, box or node numbers, and patches that name surfaces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pliant.bodies import AttachableBody
from pliant.core import Array, InputError, finite_array, is_integer, quoted, require_kind

Motion = Callable[[float], Array]  # time [s] -> displacement (dim,) [m] of the whole support
Corner = tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Patch:
    """A named surface: the part of the boundary whose facets have their centres in a box of rest
    coordinates."""

    lower: ArrayLike  # (dim,) [m]
    upper: ArrayLike  # (dim,) [m]

    def __post_init__(self) -> None:
        lower = finite_array("The lower corner of a patch", self.lower, (None,), "m")
        upper = finite_array("The upper corner of a patch", self.upper, lower.shape, "m")
        if not np.all(lower <= upper):
            raise InputError(
                f"The lower corner {lower} m of a patch is not below its upper corner {upper} m; "
                "swap them."
            )

    def contains(self, centres: Array) -> Array:
        """Return which of the points (k, dim) [m] lie in the box, (k,) bool."""
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        if centres.shape[1] != lower.size:
            raise InputError(
                f"The corners of a patch have {lower.size} numbers, but the body is "
                f"{centres.shape[1]}D; give that many."
            )
        return np.all((centres >= lower) & (centres <= upper), axis=1)


@dataclass(frozen=True, kw_only=True)
class Support:
    """A support that fixes nodes along some axes, or moves them by the displacement `motion`.

    The nodes are those of a named region or surface, those in a box of rest coordinates, or those
    with given numbers: give exactly one of the three. For rods, a box and numbers select points,
    whose positions and rotations are fixed.

    >>> import numpy as np, pliant as pl
    >>> fixed = pl.Support(region="x-")
    >>> lifted = pl.Support(region="x+", motion=lambda t: np.array([0.0, 0.0, 0.01 * t]))
    >>> roller = pl.Support(region="z-", axes="z")
    """

    region: str | None = None
    axes: str = "xyz"
    motion: Motion | None = None
    box: tuple[Corner, Corner] | Array | None = None  # (2, dim) [m] lower and upper corner
    nodes: Sequence[int] | None = None  # numbers of nodes of the mesh, or of points of the rods

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.region, self.box, self.nodes)) != 1:
            raise InputError(
                "A support fixes a region, the nodes in a box or numbered nodes; give exactly one "
                "of region=..., box=... and nodes=... ."
            )
        if self.region is not None:
            remedy = "name a region or a surface of the mesh, such as 'z-'"
            require_kind("The region of a support", self.region, str, remedy)
        if self.box is not None:
            object.__setattr__(self, "box", _checked_box(self.box))
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _checked_nodes(self.nodes))
        if self.motion is not None and not callable(self.motion):
            raise InputError(
                f"The motion of the support on {self.label} is {self.motion!r}; give a function "
                "of time."
            )
        if not isinstance(self.axes, str) or not self.axes or set(self.axes) - set("xyz"):
            raise InputError(
                f"The axes of the support on {self.label} are '{self.axes}'; write some of x, y "
                "and z, such as 'xyz'."
            )

    @property
    def label(self) -> str:
        """Description of the nodes, for messages."""
        if self.region is not None:
            return f"'{self.region}'"
        if self.box is not None:
            lower, upper = self.box
            return f"the box from {list(lower)} to {list(upper)} m"
        return f"{len(self.nodes or ())} nodes by number"

    def nodes_of(self, body: AttachableBody) -> Array:
        """Return the fixed nodes (k,). Raises `InputError` if there are none."""
        if self.region is not None:
            return body.region(self.region)
        positions = np.flatnonzero(body.is_position)
        if self.box is not None:
            if len(self.box[0]) != body.dim:
                raise InputError(
                    f"The corners of the box of a support have {len(self.box[0])} numbers, but the "
                    f"body is {body.dim}D; give that many."
                )
            inside = Patch(lower=self.box[0], upper=self.box[1]).contains(
                body.rest.reshape(-1, body.dim)[positions]
            )
            chosen = positions[inside]
        else:
            chosen = np.asarray(self.nodes, int)
            if chosen.max(initial=0) >= len(positions):
                raise InputError(
                    f"A support fixes node {chosen.max()}, but the nodes are 0 to "
                    f"{len(positions) - 1}; give numbers in this range."
                )
        if not chosen.size:
            low, high = (
                side(body.rest.reshape(-1, body.dim)[positions], axis=0).tolist()
                for side in (np.min, np.max)
            )
            raise InputError(
                f"No node lies in {self.label} of a support; the nodes span {low} to {high} m."
            )
        rotations = np.flatnonzero(~body.is_position)
        return np.concatenate([chosen, rotations[chosen]]) if rotations.size else chosen


def _checked_box(box: object) -> tuple[Corner, Corner]:
    lower, upper = finite_array("The box of a support", box, (2, None), "m")
    if not np.all(lower <= upper):
        raise InputError(
            f"The lower corner {lower} m of the box of a support is not below its upper corner "
            f"{upper} m; swap them."
        )
    return tuple(lower.tolist()), tuple(upper.tolist())


def _checked_nodes(nodes: object) -> tuple[int, ...]:
    given = nodes.tolist() if isinstance(nodes, np.ndarray) else nodes
    if (
        not isinstance(given, tuple | list | range)
        or not len(given)
        or not all(is_integer(node) and node >= 0 for node in given)
    ):
        raise InputError(
            f"The nodes of a support are {quoted(nodes)}; give a list of node numbers, counted "
            "from 0."
        )
    return tuple(np.unique(np.array(given, int)).tolist())
