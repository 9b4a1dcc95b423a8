"""Exact evaluations and seconds to stand in for a costly map to a given error, and microseconds a
query, beside scipy's interpolators.

Two maps: a ridge of two inputs, all over the unit box; and the shapes of the arm of [Jia2019] (four
tensions), along a circle. Grid and Tree go where the queries are; Chebyshev, RBF and RegularGrid
are given the box that holds them. Every method is made larger until it is near enough. Exact
evaluations are shared through a cache, for they are the same whoever asks.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator, RegularGridInterpolator
from scipy.sparse.linalg import spsolve
from scipy.stats import qmc

from pliant.bench.report import Report
from pliant.core import Array
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.surrogate import Chebyshev, Corners, ExactMap, Grid, Sample, SampleError, Tree
from pliant.zoo.robots import line_arm

ERRORS = (1e-3, 1e-4, 1e-5)
COMPRESS = 1e-6  # as Latent has it
CIRCLE = 0.5 * np.array(
    [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
)  # directions of the four tensions


@dataclass(kw_only=True, eq=False)
class Map:
    """An exact map, where it is asked, and its evaluations so far, which all methods share."""

    name: str
    f: ExactMap
    queries: Array  # (n, d)
    cell: float  # the largest, of Grid and Tree
    origin: float
    limit: int  # evaluations of one method
    compress: float | None = None
    known: dict[bytes, Sample] = field(default_factory=dict)
    seconds: float = 0.0  # in f

    def __post_init__(self) -> None:
        self.dim, self.box = (
            self.queries.shape[1],
            (self.queries.min(axis=0), self.queries.max(axis=0)),
        )
        self.truth = np.array([self(x, None)[0] for x in self.queries])
        self.scale = float(np.abs(self.truth).max())

    def __call__(self, x: Array, near: Sample | None) -> tuple[Array, Array]:
        """(value, slope), from the cache or from f with a start at `near`, or else at the nearest
        query that is known."""
        if x.tobytes() not in self.known:
            begun = perf_counter()
            value, slope, *_ = self.f(x, near or self._start(x))
            self.seconds += perf_counter() - begun
            self.known[x.tobytes()] = Sample(point=x.copy(), value=value, slope=slope)
        return self.known[x.tobytes()].value, self.known[x.tobytes()].slope

    def _start(self, x: Array) -> Sample | None:
        there = self.queries[: len(self.known)]
        return (
            self.known[there[np.argmin(np.linalg.norm(there - x, axis=1))].tobytes()]
            if self.known
            else None
        )

    def values(self, points: Array) -> Array:
        """(n, N) at points (n, d), for those who keep no count themselves."""
        if len(points) > self.limit:
            raise SampleError(f"{len(points)} points are more than the limit of {self.limit}.")
        return np.array([self(x, None)[0] for x in points])

    def corners(self) -> Corners:
        return Corners(
            self, dim=self.dim, compress=self.compress, unit=self.cell, budget=self.limit
        )

    def error(self, made: Any) -> float:
        """The largest difference at the queries over the largest value."""
        return (
            max(
                float(np.abs(made(x)[0] - v).max())
                for x, v in zip(self.queries, self.truth, strict=True)
            )
            / self.scale
        )


def ridge(count: int = 200) -> Map:
    """tanh(k w.x + c) for four k: a front across the box, as steep as k."""
    w, k, c = (
        np.array([0.8, 0.6]),
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([-0.5, -1.2, -2.0, -3.0]),
    )

    def f(x: Array, near: Sample | None) -> tuple[Array, Array]:
        value = np.tanh(k * (w @ x) + c)
        return value, np.outer((1.0 - value**2) * k, w)

    return Map(
        name="ridge",
        f=f,
        queries=np.random.default_rng(0).uniform(size=(count, 2)),
        cell=1.0,
        origin=-1.0 / 3.0,
        limit=2048,
    )


def arm(quick: bool) -> Map:
    """The positions of all vertices against the tensions of a circle about 2 N."""
    f = EquilibriumMap(robot=line_arm(layers=8, across=2) if quick else line_arm())
    angle = 2.0 * np.pi * np.arange(60) / 60
    queries = 2.0 + 1.5 * np.column_stack([np.cos(angle), np.sin(angle)]) @ CIRCLE.T
    f(queries[0], None)  # compiles and warms up
    return Map(
        name="arm",
        f=f,
        queries=queries,
        cell=4.0,
        origin=2.0 - 4.0 / 3.0,
        limit=700,
        compress=COMPRESS,
    )


# Methods: each gives ever larger stand-ins, with how many evaluations they stand on


@dataclass(frozen=True, eq=False)
class Values:
    """An interpolator of scipy, with no slope."""

    f: Callable[[Array], Array]
    evaluations: int

    def __call__(self, x: Array) -> tuple[Array, None]:
        return self.f(x[None])[0], None


def grids(m: Map) -> Iterator[Grid]:
    made = Grid(m.corners(), cell=m.cell, origin=m.origin)
    while True:
        yield made
        made = made.refined()


def trees(m: Map) -> Iterator[Tree]:
    corners = m.corners()
    for k in range(12):
        yield Tree(corners, cell=m.cell, origin=m.origin, tolerance=0.1 * m.scale / 4.0**k)


def chebyshevs(m: Map) -> Iterator[Chebyshev]:
    made = Chebyshev(m.corners(), domain=m.box, degree=1)
    while True:
        yield made
        made = made.raised(made.degree + max(1, made.degree // 4))


def rbfs(m: Map) -> Iterator[Values]:
    for k in range(4, 20):
        points = m.box[0] + (m.box[1] - m.box[0]) * qmc.Sobol(m.dim, scramble=False).random_base2(k)
        yield Values(RBFInterpolator(points, m.values(points), kernel="quintic"), len(points))


def regulars(m: Map) -> Iterator[Values]:
    for n in (4, 5, 6, 8, 11, 16, 22, 32, 45, 64):
        axes = list(np.linspace(*m.box, n).T)
        values = m.values(np.array(list(product(*axes)))).reshape(*(n,) * m.dim, -1)
        # its own choice of solver is iterative, and stops at an error of about 1e-5
        yield Values(
            RegularGridInterpolator(axes, values, method="cubic", solver=spsolve), n**m.dim
        )


METHODS: dict[str, Callable[[Map], Iterator[Any]]] = {
    "Grid": grids,
    "Tree": trees,
    "Chebyshev": chebyshevs,
    "RBF": rbfs,
    "RegularGrid": regulars,
}


# Measuring


def reached(m: Map, method: str) -> tuple[dict[str, Any], Any]:
    """At each error: evaluations and the method's own seconds so far; and the last stand-in."""
    found: dict[str, Any] = {}
    last, begun, spent = None, perf_counter(), m.seconds
    with suppress(SampleError):  # beyond the limit
        for made in METHODS[method](m):
            error = m.error(made)
            own = perf_counter() - begun - (m.seconds - spent)
            for wanted in ERRORS:
                if error <= wanted:
                    found.setdefault(
                        f"{wanted:.0e}",
                        {"evaluations": made.evaluations, "own": own, "error": error},
                    )
            last = made
            if len(found) == len(ERRORS):
                break
    return found, last


def on_map(m: Map) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers of a map, and the last stand-in of every method that has one."""
    both = {name: reached(m, name) for name in METHODS}
    numbers = {
        "map": m.name,
        "dim": m.dim,
        "outputs": m.truth.shape[1],
        "scale": m.scale,
        "limit": m.limit,
        "evaluation": m.seconds / len(m.known),
        "made": len(m.known),
        "methods": {name: found for name, (found, _) in both.items()},
    }
    return numbers, {name: made for name, (_, made) in both.items() if made is not None}


def slope_seconds(m: Map) -> float:
    """What the slope of the arm adds to an equilibrium that is known, the median of some."""
    model = m.f.model  # type: ignore[attr-defined]
    steps = [model.step(sample.value, sample.point) for sample in list(m.known.values())[:20]]
    return 1e-6 * microseconds(lambda step: model.linearize(step).dense_controls(), steps)


def microseconds(f: Callable[[Any], Any], arguments: Iterable[Any]) -> float:
    """The median of single calls."""
    taken = []
    for x in arguments:
        begun = perf_counter()
        f(x)
        taken.append(perf_counter() - begun)
    return 1e6 * float(np.median(taken))


def query_rows(m: Map, made: dict[str, Any]) -> list[dict[str, Any]]:
    out, queries = [], np.tile(m.queries, (20, 1))
    for name, stand_in in made.items():
        row = {
            "method": name,
            "evaluations": stand_in.evaluations,
            "whole": microseconds(stand_in, queries),
        }
        if name not in PEERS:
            row |= {
                "coefficients": stand_in.rows(queries[0]).shape[1],
                "rows": microseconds(stand_in.rows, queries),
            }
        out.append(row)
    return out


def measure(quick: bool) -> dict[str, Any]:
    on_map(ridge(count=3))  # compiles and warms up
    first, _ = on_map(ridge())
    m = arm(quick)
    second, made = on_map(m)
    return {"maps": [first, second | {"slope": slope_seconds(m)}], "queries": query_rows(m, made)}


def report(numbers: dict[str, Any]) -> Report:
    columns = [
        "method",
        *(f"{what} at {error:.0e}" for error in ERRORS for what in ("evaluations", "seconds")),
    ]
    tables = [
        (
            f"To an error of the {m['map']}, d = {m['dim']}, {m['outputs']:,} outputs",
            columns,
            [[name, *_cells(m, name)] for name in m["methods"]],
        )
        for m in numbers["maps"]
    ]
    rows = [
        [
            row["method"],
            f"{row['evaluations']:,}",
            str(row.get("coefficients", "-")),
            f"{row['rows']:.1f}" if "rows" in row else "-",
            f"{row['whole']:.1f}",
        ]
        for row in numbers["queries"]
    ]
    if rows:
        tables.append(
            (
                "Microseconds a query of the arm",
                ["method", "evaluations", "r", "r coefficients", "all outputs"],
                rows,
            )
        )
    return Report(tables=tables, notes=[*map(_note, numbers["maps"]), *NOTES], numbers=numbers)


def _cells(m: dict[str, Any], method: str) -> list[str]:
    """Evaluations and seconds at each error."""
    each, out = m["evaluation"] - (m.get("slope", 0.0) if method in PEERS else 0.0), []
    for error in ERRORS:
        found = m["methods"][method].get(f"{error:.0e}")
        out += (
            [f"{found['evaluations']:,}", f"{found['evaluations'] * each + found['own']:.3g}"]
            if found
            else [f"not within {m['limit']:,}", "-"]
        )
    return out


def _note(m: dict[str, Any]) -> str:
    part = f", of which the slope is {m['slope'] / m['evaluation']:.0%}" if "slope" in m else ""
    taken = f"{1e3 * m['evaluation']:.3g} ms{part}; {m['made']:,} were made for all methods"
    numbers = f"{1 + m['dim']} numbers of each output where a value alone is one"
    return (
        f"{m['map']}: an exact value and slope, {numbers}, take {taken}. The largest value is "
        f"{m['scale']:.3g}."
    )


PEERS = ("RBF", "RegularGrid")
NOTES = [
    "Error: the largest difference over all queries and outputs beside the largest value. Grid, "
    "Tree and Chebyshev use values and slopes, RBF (quintic, Sobol points) and RegularGrid "
    "(cubic, solved directly) values alone.",
    "Seconds: evaluations times the mean seconds of one (of a value alone for RBF and "
    "RegularGrid), and the method's own time over all sizes up to this one, to fit and to answer "
    "the queries. Evaluations are those of all sizes too, but RegularGrid's, which are not "
    "nested, are those of the last alone.",
    "A query: one thread, median, each method at the size that reached its last error. "
    "Coefficients: value and slopes of r numbers; all outputs: value and slopes, of RBF and "
    "RegularGrid the value alone.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
