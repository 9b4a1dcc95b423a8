"""Rods: points joined by straight rods, for slender bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    InputError,
    counted_of,
    finite_array,
    is_integer,
    nearest,
    quoted,
    require_kind,
)
from pliant.geometry.locate import round_up, snap_limit
from pliant.geometry.sections import CrossSection

MIN_SINE = 1e-6  # of the angle between a rod and `up`; below it they are parallel


@dataclass(frozen=True, kw_only=True, eq=False)
class Rods:
    """Points joined by straight rods.

    `regions` names sets of points and `parts` names sets of rods; "body" means all of them. Each
    rod has axes (a, b, c): a along the rod, c as close to `up` as possible, b = c x a. Every array
    is read-only. Raises `InputError` for invalid rods.
    """

    points: Array  # (n, 3) [m]
    rods: Array  # (m, 2) the two points of each rod
    section: (
        CrossSection | Mapping[str, CrossSection]
    )  # one, or one for each part; a later part takes over what it shares with one before
    regions: Mapping[str, ArrayLike] = field(default_factory=dict)  # name -> points, counted from 0
    parts: Mapping[str, ArrayLike] = field(default_factory=dict)  # name -> rods, counted from 0
    up: ArrayLike | None = None  # (3,) None: z, and x where a rod runs along z

    def __post_init__(self) -> None:
        points = finite_array("The array of points of the rods", self.points, (None, 3), "m")
        rods = _validate_rods(self.rods, points)
        made = {
            "points": _read_only(points),
            "rods": _read_only(rods),
            "regions": _validate_names("region", self.regions, len(points), "points"),
            "parts": _validate_names("part", self.parts, len(rods), "rods"),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)
        _ = self.sections, self.axes  # raises InputError if they are invalid

    @property
    def dim(self) -> int:
        return 3

    @property
    def size(self) -> float:
        """Return the diagonal [m] of the bounding box."""
        return float(np.linalg.norm(np.ptp(self.points, axis=0)))

    @cached_property
    def lengths(self) -> Array:
        """Return the length (m,) [m] of each rod."""
        return np.linalg.norm(self._axis_vectors, axis=1)

    @property
    def _axis_vectors(self) -> Array:
        return self.points[self.rods[:, 1]] - self.points[self.rods[:, 0]]

    @cached_property
    def sections(self) -> tuple[CrossSection, ...]:
        """Return the cross-section of each rod."""
        given = self.section if isinstance(self.section, Mapping) else {"body": self.section}
        for name, section in given.items():
            require_kind(
                f"The section of '{name}'",
                section,
                CrossSection,
                "give a CircularSection or a RectangularSection",
            )
        owner = self.assign_by_part("section", given)
        return tuple(list(given.values())[k] for k in owner)

    def assign_by_part(self, what: str, given: Mapping[str, Any]) -> Array:
        """Return for each rod the index (m,) of its entry in a table from part names to values.

        `what` describes the values in messages. Raises `InputError` if a rod has no entry.
        """
        owner, names = np.full(len(self.rods), -1), list(given)
        if "default" in names and "body" in names:
            raise InputError(
                f"The {what}s 'default' and 'body' both apply to all rods without another {what}. "
                "Keep one of them."
            )
        for name in sorted(names, key=lambda name: name not in ("default", "body")):
            owner[self.part_rods("body" if name == "default" else name)] = names.index(name)
        if (owner < 0).any():
            raise InputError(
                f"{counted_of((owner < 0).sum(), len(owner), 'rod', ('has', 'have'))} no {what} "
                f"(first: rod {np.argmin(owner)}). Name one for 'body', or for each part: "
                f"{', '.join(self.parts) or 'there is none'}."
            )
        return owner

    @cached_property
    def axes(self) -> Array:
        """Return the axes a, b and c of each rod as rows, (m, 3, 3)."""
        a = self._axis_vectors / self.lengths[:, None]
        up = np.tile(
            [0.0, 0.0, 1.0]
            if self.up is None
            else finite_array("The up direction of the rods", self.up, (3,)),
            (len(a), 1),
        )
        if not np.any(up[0]):
            raise InputError(
                "The up direction of the rods is (0, 0, 0). Pass a nonzero vector such as "
                "(0, 0, 1)."
            )
        up = up / np.linalg.norm(up, axis=1)[:, None]
        lost = np.linalg.norm(np.cross(a, up), axis=1) < MIN_SINE
        if lost.any() and self.up is not None:
            raise InputError(
                f"Rod {np.argmax(lost)} runs along the up direction {up[0]}, so the "
                "axes of its section are undefined. Pass another direction."
            )
        up[lost] = (1.0, 0.0, 0.0)
        c = up - np.sum(a * up, axis=1)[:, None] * a
        c /= np.linalg.norm(c, axis=1)[:, None]
        return np.stack([a, np.cross(c, a), c], axis=1)

    def region_points(self, name: str) -> Array:
        """Return the points of a region; "body" is all points. Raises `InputError` for an unknown
        name."""
        return self._named("region", name, self.regions, len(self.points))

    def part_rods(self, name: str) -> Array:
        """Return the rods of a part; "body" is all rods. Raises `InputError` for an unknown
        name."""
        return self._named("part", name, self.parts, len(self.rods))

    def _named(self, kind: str, name: str, table: Mapping[str, Any], count: int) -> Array:
        if name == "body":
            return np.arange(count)
        if name not in table:
            raise InputError(f"The rods have no {kind} '{name}'; {nearest(name, ['body', *table])}")
        return table[name]

    def locate(self, points: Array, *, snap: float | None = None) -> tuple[Array, Array]:
        """Return for points (k, 3) [m] the rod (k,) and the position (k,) along it, from 0 to 1.

        A point up to `snap` [m] off every axis (None: 1e-4 of the size) is moved to the closest
        axis. Raises `InputError` with the distance for one farther away.
        """
        at = finite_array("The array of points to find on the rods", points, (None, 3), "m")
        away = at[:, None] - self.points[self.rods[:, 0]]
        share = np.clip(
            np.einsum("kmi,mi->km", away, self._axis_vectors) / self.lengths**2, 0.0, 1.0
        )
        distance = np.linalg.norm(away - share[:, :, None] * self._axis_vectors, axis=2)
        rod = distance.argmin(axis=1)
        row = np.arange(len(at))
        off = distance[row, rod] > snap_limit(snap, self.size)
        if off.any():
            k = int(np.argmax(off))
            raise InputError(
                f"Point {k} at {at[k]} m is {distance[k, rod[k]]:.3g} m away from the axis of "
                f"the nearest rod (rod {rod[k]}). Attach to a point on an axis, or allow the "
                f"distance with snap={round_up(distance[k, rod[k]]):g}."
            )
        return rod, share[row, rod]

    def refine(self, k: int) -> "Rods":
        """Return the same body with each rod divided into k equal rods.

        New points come after the old ones; those between two points of a region belong to it too.
        """
        if not is_integer(k) or k < 1:
            raise InputError(
                f"Rods cannot be divided into {quoted(k)}; give a whole number of 1 or more."
            )
        m, n = len(self.rods), len(self.points)
        steps = np.arange(1, k) / k
        first, last = self.rods.T
        inner = self.points[first][:, None] + steps[:, None] * self._axis_vectors[:, None]
        chain = np.concatenate(
            [first[:, None], n + np.arange(m * (k - 1)).reshape(m, k - 1), last[:, None]], axis=1
        )
        regions = {}
        for name, points in self.regions.items():
            within = np.isin(self.rods, points).all(axis=1)
            regions[name] = np.concatenate([points, chain[within, 1:-1].ravel()])
        parts = {
            name: (np.asarray(rods)[:, None] * k + np.arange(k)).ravel()
            for name, rods in self.parts.items()
        }
        return replace(
            self,
            points=np.vstack([self.points, inner.reshape(-1, 3)]),
            regions=regions,
            parts=parts,
            rods=np.stack([chain[:, :-1], chain[:, 1:]], axis=2).reshape(-1, 2),
        )


def _read_only(array: Array) -> Array:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _validate_integers(what: str, values: Any, shape: tuple[int | None, ...]) -> Array:
    numbers = finite_array(what, values, shape)
    if np.any(numbers != np.round(numbers)):
        raise InputError(
            f"{what} hold {numbers.ravel()[np.argmax(numbers.ravel() % 1 != 0)]:g}; give whole "
            "numbers, counted from 0."
        )
    return numbers.astype(np.int64)


def _validate_rods(given: Any, points: Array) -> Array:
    rods = _validate_integers("The rods", given, (None, 2))
    if not len(rods):
        raise InputError("There are no rods; give at least one pair of points.")
    bad = np.argwhere((rods < 0) | (rods >= len(points)))
    if bad.size:
        raise InputError(
            f"Rod {bad[0, 0]} names point {rods[tuple(bad[0])]}, but the points are 0 to "
            f"{len(points) - 1}."
        )
    unused = np.setdiff1d(np.arange(len(points)), rods)
    if unused.size:
        raise InputError(
            f"{counted_of(unused.size, len(points), 'point', ('belongs', 'belong'))} to no rod "
            f"(first: point {unused[0]}); remove them, or join them."
        )
    short = np.linalg.norm(points[rods[:, 1]] - points[rods[:, 0]], axis=1) <= 1e-12 * max(
        np.ptp(points, axis=0).max(), 1e-300
    )
    if short.any():
        k = int(np.argmax(short))
        raise InputError(
            f"Rod {k} from point {rods[k, 0]} to point {rods[k, 1]} has no length; give it two "
            "places, or remove it."
        )
    _, first, count = np.unique(
        np.sort(rods, axis=1), axis=0, return_index=True, return_counts=True
    )
    if (count > 1).any():
        a, b = rods[first[np.argmax(count > 1)]]
        raise InputError(f"Points {a} and {b} are joined by {count.max()} rods; keep one of them.")
    return rods


def _validate_names(kind: str, table: Any, count: int, of: str) -> dict[str, Array]:
    require_kind(f"The {kind}s of the rods", table, Mapping, f"give a dict from name to {of}")
    out = {}
    for name, given in table.items():
        if name == "body":
            raise InputError(f"'body' names all {of} already; give the {kind} another name.")
        members = _validate_integers(f"The {of} of {kind} '{name}'", given, (None,))
        bad = members[(members < 0) | (members >= count)]
        if bad.size or not members.size:
            held = f"names {of[:-1]} {bad[0]}" if bad.size else "is empty"
            raise InputError(f"The {kind} '{name}' {held}; the {of} are 0 to {count - 1}.")
        out[name] = _read_only(np.unique(members))
    return out
