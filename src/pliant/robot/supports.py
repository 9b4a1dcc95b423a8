"""Supports of a robot, by region, box or node numbers, and patches that name surfaces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.bodies import AttachableBody, positive_parameter, unit_gradient
from pliant.core import (
    Array,
    InputError,
    Param,
    counted,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)

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
                f"The corners of a patch have {counted(lower.size, 'number')}, but the body is "
                f"{centres.shape[1]}D; give that many."
            )
        return np.all((centres >= lower) & (centres <= upper), axis=1)


@dataclass(frozen=True, kw_only=True)
class Support:
    """A support that fixes nodes along some axes, moves them by the displacement `motion`, or holds
    them by springs of a total `stiffness`.

    The springs are distributed over the positions by area or volume, and do not hold the rotations
    of rods. The nodes are those of a named region or surface, those in a box of rest coordinates,
    or those with given numbers: give exactly one of the three. For rods, a box and numbers select
    points, whose positions and rotations are fixed.

    >>> import numpy as np, pliant as pl
    >>> fixed = pl.Support(region="x-")
    >>> lifted = pl.Support(region="x+", motion=lambda t: np.array([0.0, 0.0, 0.01 * t]))
    >>> roller = pl.Support(region="z-", axes="z")
    >>> clamp = pl.Support(region="x-", stiffness=2e4)  # [N/m] along each axis
    """

    region: str | None = None
    axes: str = "xyz"
    motion: Motion | None = None
    box: tuple[Corner, Corner] | Array | None = None  # (2, dim) [m] lower and upper corner
    nodes: Sequence[int] | None = None  # numbers of nodes of the mesh, or of points of the rods
    stiffness: float | None = None  # [N/m] of all springs together, along each axis; None: rigid

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
        if self.stiffness is not None:
            require_positive("The stiffness of a support", self.stiffness, "N/m")
            if self.motion is not None:
                raise InputError(
                    f"The support on {self.label} has a motion and a stiffness; remove one of "
                    "them, or move the region by a Servo."
                )

    @property
    def label(self) -> str:
        """Description of the nodes, for messages."""
        if self.region is not None:
            return f"'{self.region}'"
        if self.box is not None:
            lower, upper = self.box
            return f"the box from {list(lower)} to {list(upper)} m"
        return f"{counted(len(self.nodes or ()), 'node')} by number"

    def nodes_of(self, body: AttachableBody) -> Array:
        """Return the fixed nodes (k,). Raises `InputError` if there are none."""
        if self.region is not None:
            return body.region(self.region)
        positions = np.flatnonzero(body.is_position)
        if self.box is not None:
            if len(self.box[0]) != body.dim:
                raise InputError(
                    "The corners of the box of a support have "
                    f"{counted(len(self.box[0]), 'number')}, but the body is {body.dim}D; give "
                    "that many."
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

    def held_axes(self, dim: int) -> list[int]:
        """Return the axes of a body of some dimension that the support holds. Raises `InputError`
        if there are none."""
        axes = [axis for axis in range(dim) if "xyz"[axis] in self.axes]
        if not axes:
            raise InputError(
                f"The support on {self.label} along '{self.axes}' holds nothing of "
                f"a body in {dim} dimensions; name other axes or another region."
            )
        return axes

    def attach(self, body: AttachableBody) -> "AttachedSupport":
        """Return the Potential of an elastic support. Raises `InputError` for a rigid one, and
        without positions to hold."""
        stiffness: Any = self.stiffness
        require_positive("The stiffness of a support", stiffness, "N/m")
        axes, nodes = self.held_axes(body.dim), self.nodes_of(body)
        nodes = nodes[body.is_position[nodes]]
        if not len(nodes):
            raise InputError(
                f"The support on {self.label} holds no positions, but its springs hold positions "
                "only; name another region, or remove its stiffness."
            )
        share = _spring_shares(body, self.region, nodes)
        rest = body.rest.reshape(-1, body.dim)
        weights = sp.csr_matrix(
            (np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), len(rest))
        )
        held = np.isin(np.arange(body.dim), axes).astype(float)
        return AttachedSupport(
            weights=weights, offset=-rest[nodes], share=np.outer(share, held), stiffness=stiffness
        )


def _spring_shares(body: AttachableBody, region: str | None, nodes: Array) -> Array:
    """Return the share (k,) of each node in the stiffness of a support: by area on a surface, else
    by volume. They add up to one."""
    try:
        size = body.node_areas(region, lumped=True)[nodes] if region is not None else None
    except InputError:  # a region that is no surface
        size = None
    if size is None or not size.sum() > 0.0:
        size = body.node_volumes(np.arange(len(body.volumes())))[nodes]
    # some nodes of quadratic cells have a negative volume; springs must not push
    size = size if size.min() > 0.0 else np.ones(len(nodes))
    return size / size.sum()


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedSupport:
    """The Potential of an elastic support. Its points y are the displacements of the held nodes."""

    weights: sp.csr_matrix  # (n_points, n_nodes)
    offset: Array  # (n_points, dim) [m] minus the rest positions
    share: Array  # (n_points, dim) [-] of each node in the stiffness along each axis
    stiffness: float  # [N/m]
    n_controls: int = 0
    points_per_block: int = 1
    stiff: bool = True

    @property
    def parameters(self) -> tuple[Param, ...]:
        return (positive_parameter("stiffness", self.stiffness, "N/m"),)

    def with_parameters(self, values: Mapping[str, Any]) -> "AttachedSupport":
        return replace(self, **values)

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        return unit_gradient(self, name, y, u)

    def energy(self, y: Array, u: Array) -> float:
        return float(0.5 * self.stiffness * np.sum(self.share * y * y))

    def gradient(self, y: Array, u: Array) -> Array:
        return self.stiffness * self.share * y

    def hessian(self, y: Array, u: Array) -> Array:
        return self.stiffness * self.share[:, :, None] * np.eye(y.shape[1])

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y: Array, u: Array) -> Array:
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        return np.zeros(0)


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
