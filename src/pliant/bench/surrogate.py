"""`pliant bench surrogate`: exact evaluations and time of surrogates of an expensive map for a
given error, and time per query, compared with the interpolators of SciPy.

There are two maps: a ridge of two inputs on the unit box, and the shapes of the arm of [Jia2019]
(four tensions) along a circle. Grid and Tree evaluate the map only near queries. Chebyshev, RBF and
RegularGrid cover the bounding box of the queries. Every method is refined until its error is small
enough. All methods share the exact evaluations through a cache.
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
from pliant.core import Array, counted
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.surrogate import Chebyshev, Corners, ExactMap, Grid, Sample, SampleError, Tree
from pliant.zoo.robots import line_arm

ERRORS = (1e-3, 1e-4, 1e-5)
COMPRESS = 1e-6  # the default of Latent
# directions of the four tensions
CIRCLE = 0.5 * np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])


@dataclass(kw_only=True, eq=False)
class BenchmarkMap:
    """An exact map with its queries and a cache of its evaluations, which all methods share."""

    name: str
    f: ExactMap
    queries: Array  # (n, d)
    cell: float  # largest cell size of Grid and Tree
    origin: float
    limit: int  # of the evaluations of one method
    compress: float | None = None
    known: dict[bytes, Sample] = field(default_factory=dict)
    seconds: float = 0.0  # [s] spent in f

    def __post_init__(self) -> None:
        self.dim, self.box = (
            self.queries.shape[1],
            (self.queries.min(axis=0), self.queries.max(axis=0)),
        )
        self.truth = np.array([self(x, None)[0] for x in self.queries])
        self.scale = float(np.abs(self.truth).max())

    def __call__(self, x: Array, near: Sample | None) -> tuple[Array, Array]:
        """Return value and slope from the cache, or from f with a warm start at `near` or the
        nearest evaluated query."""
        if x.tobytes() not in self.known:
            start = perf_counter()
            value, slope, *_ = self.f(x, near or self._nearest_query(x))
            self.seconds += perf_counter() - start
            self.known[x.tobytes()] = Sample(point=x.copy(), value=value, slope=slope)
        return self.known[x.tobytes()].value, self.known[x.tobytes()].slope

    def _nearest_query(self, x: Array) -> Sample | None:
        evaluated = self.queries[: len(self.known)]
        return (
            self.known[evaluated[np.argmin(np.linalg.norm(evaluated - x, axis=1))].tobytes()]
            if self.known
            else None
        )

    def values(self, points: Array) -> Array:
        """Return the values (n, N) at points (n, d). Raises `SampleError` beyond the limit."""
        if len(points) > self.limit:
            raise SampleError(f"{counted(len(points), 'point')} exceed the limit of {self.limit}.")
        return np.array([self(x, None)[0] for x in points])

    def corners(self) -> Corners:
        return Corners(
            self, dim=self.dim, compress=self.compress, unit=self.cell, budget=self.limit
        )

    def error(self, made: Any) -> float:
        """Return the largest error at the queries, divided by the largest value."""
        return (
            max(
                float(np.abs(made(x)[0] - v).max())
                for x, v in zip(self.queries, self.truth, strict=True)
            )
            / self.scale
        )


def ridge(count: int = 200) -> BenchmarkMap:
    """Return the map tanh(k w.x + c) for four k: a front through the box with steepness k."""
    w, k, c = (
        np.array([0.8, 0.6]),
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([-0.5, -1.2, -2.0, -3.0]),
    )

    def f(x: Array, near: Sample | None) -> tuple[Array, Array]:
        value = np.tanh(k * (w @ x) + c)
        return value, np.outer((1.0 - value**2) * k, w)

    return BenchmarkMap(
        name="ridge",
        f=f,
        queries=np.random.default_rng(0).uniform(size=(count, 2)),
        cell=1.0,
        origin=-1.0 / 3.0,
        limit=2048,
    )


def arm(quick: bool) -> BenchmarkMap:
    """Return the map from tensions on a circle about 2 N to the positions of all vertices."""
    f = EquilibriumMap(robot=line_arm(layers=8, across=2) if quick else line_arm())
    angle = 2.0 * np.pi * np.arange(60) / 60
    queries = 2.0 + 1.5 * np.column_stack([np.cos(angle), np.sin(angle)]) @ CIRCLE.T
    f(queries[0], None)  # compiles and warms up
    return BenchmarkMap(
        name="arm",
        f=f,
        queries=queries,
        cell=4.0,
        origin=2.0 - 4.0 / 3.0,
        limit=700,
        compress=COMPRESS,
    )


# Methods: each yields surrogates of increasing size, with their number of evaluations


@dataclass(frozen=True, eq=False)
class ScipyInterpolator:
    """An interpolator of SciPy, which has no slope."""

    f: Callable[[Array], Array]
    evaluations: int

    def __call__(self, x: Array) -> tuple[Array, None]:
        return self.f(x[None])[0], None


def grids(m: BenchmarkMap) -> Iterator[Grid]:
    made = Grid(m.corners(), cell=m.cell, origin=m.origin)
    while True:
        yield made
        made = made.refined()


def trees(m: BenchmarkMap) -> Iterator[Tree]:
    corners = m.corners()
    for k in range(12):
        yield Tree(corners, cell=m.cell, origin=m.origin, tolerance=0.1 * m.scale / 4.0**k)


def chebyshevs(m: BenchmarkMap) -> Iterator[Chebyshev]:
    made = Chebyshev(m.corners(), domain=m.box, degree=1)
    while True:
        yield made
        made = made.raised(made.degree + max(1, made.degree // 4))


def rbfs(m: BenchmarkMap) -> Iterator[ScipyInterpolator]:
    for k in range(4, 20):
        points = m.box[0] + (m.box[1] - m.box[0]) * qmc.Sobol(m.dim, scramble=False).random_base2(k)
        yield ScipyInterpolator(
            RBFInterpolator(points, m.values(points), kernel="quintic"), len(points)
        )


def regular_grids(m: BenchmarkMap) -> Iterator[ScipyInterpolator]:
    for n in (4, 5, 6, 8, 11, 16, 22, 32, 45, 64):
        axes = list(np.linspace(*m.box, n).T)
        values = m.values(np.array(list(product(*axes)))).reshape(*(n,) * m.dim, -1)
        # the default solver is iterative and stops at an error of about 1e-5
        yield ScipyInterpolator(
            RegularGridInterpolator(axes, values, method="cubic", solver=spsolve), n**m.dim
        )


METHODS: dict[str, Callable[[BenchmarkMap], Iterator[Any]]] = {
    "Grid": grids,
    "Tree": trees,
    "Chebyshev": chebyshevs,
    "RBF": rbfs,
    "RegularGrid": regular_grids,
}


# Measuring


def measure_method(m: BenchmarkMap, method: str) -> tuple[dict[str, Any], Any]:
    """Return the evaluations and own time [s] of a method at each error, and its last surrogate."""
    found: dict[str, Any] = {}
    last, start, spent = None, perf_counter(), m.seconds
    with suppress(SampleError):  # the limit of evaluations
        for made in METHODS[method](m):
            error = m.error(made)
            own = perf_counter() - start - (m.seconds - spent)
            for tolerance in ERRORS:
                if error <= tolerance:
                    found.setdefault(
                        f"{tolerance:.0e}",
                        {"evaluations": made.evaluations, "method seconds": own, "error": error},
                    )
            last = made
            if len(found) == len(ERRORS):
                break
    return found, last


def measure_map(m: BenchmarkMap) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers of a map, and the last surrogate of every method that has one."""
    both = {name: measure_method(m, name) for name in METHODS}
    numbers = {
        "map": m.name,
        "dim": m.dim,
        "outputs": m.truth.shape[1],
        "scale": m.scale,
        "limit": m.limit,
        "evaluation": m.seconds / len(m.known),
        "total evaluations": len(m.known),
        "methods": {name: found for name, (found, _) in both.items()},
    }
    return numbers, {name: made for name, (_, made) in both.items() if made is not None}


def slope_seconds(m: BenchmarkMap) -> float:
    """Return the median time [s] of the slope of the arm at a known equilibrium."""
    model = m.f.model  # type: ignore[attr-defined]
    steps = [model.step(sample.value, sample.point) for sample in list(m.known.values())[:20]]
    return 1e-6 * microseconds(lambda step: model.linearize(step).dense_controls(), steps)


def microseconds(f: Callable[[Any], Any], arguments: Iterable[Any]) -> float:
    """Return the median time [us] of single calls."""
    times = []
    for x in arguments:
        start = perf_counter()
        f(x)
        times.append(perf_counter() - start)
    return 1e6 * float(np.median(times))


def query_rows(m: BenchmarkMap, made: dict[str, Any]) -> list[dict[str, Any]]:
    out, queries = [], np.tile(m.queries, (20, 1))
    for name, surrogate in made.items():
        row = {
            "method": name,
            "evaluations": surrogate.evaluations,
            "all outputs": microseconds(surrogate, queries),
        }
        if name not in PEERS:
            row |= {
                "coefficients": surrogate.rows(queries[0]).shape[1],
                "rows": microseconds(surrogate.rows, queries),
            }
        out.append(row)
    return out


def measure(quick: bool) -> dict[str, Any]:
    measure_map(ridge(count=3))  # compiles and warms up
    first, _ = measure_map(ridge())
    m = arm(quick)
    second, made = measure_map(m)
    return {"maps": [first, second | {"slope": slope_seconds(m)}], "queries": query_rows(m, made)}


def report(numbers: dict[str, Any]) -> Report:
    columns = [
        "method",
        *(f"{what} at {error:.0e}" for error in ERRORS for what in ("evaluations", "seconds")),
    ]
    tables = [
        (
            f"Cost for a given error of the {m['map']}, d = {m['dim']}, {m['outputs']:,} outputs",
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
            f"{row['all outputs']:.1f}",
        ]
        for row in numbers["queries"]
    ]
    if rows:
        tables.append(
            (
                "Microseconds per query of the arm",
                ["method", "evaluations", "r", "r coefficients", "all outputs"],
                rows,
            )
        )
    return Report(tables=tables, notes=[*map(_note, numbers["maps"]), *NOTES], numbers=numbers)


def _cells(m: dict[str, Any], method: str) -> list[str]:
    """Return the evaluations and seconds at each error as text."""
    each, out = m["evaluation"] - (m.get("slope", 0.0) if method in PEERS else 0.0), []
    for error in ERRORS:
        found = m["methods"][method].get(f"{error:.0e}")
        out += (
            [
                f"{found['evaluations']:,}",
                f"{found['evaluations'] * each + found['method seconds']:.3g}",
            ]
            if found
            else [f"more than {m['limit']:,}", "-"]
        )
    return out


def _note(m: dict[str, Any]) -> str:
    part = f" ({m['slope'] / m['evaluation']:.0%} for the slope)" if "slope" in m else ""
    numbers = f"{1 + m['dim']} numbers per output"
    return (
        f"{m['map']}: an exact value and slope ({numbers}) take {1e3 * m['evaluation']:.3g} "
        f"ms{part}. All methods together used {m['total evaluations']:,} evaluations. The "
        f"largest value is {m['scale']:.3g}."
    )


PEERS = ("RBF", "RegularGrid")
NOTES = [
    "Error: the largest difference over all queries and outputs, divided by the largest value. "
    "Grid, Tree and Chebyshev use values and slopes. RBF (quintic, Sobol points) and RegularGrid "
    "(cubic, direct solver) use values only.",
    "Seconds: evaluations times the mean time of one (of a value only for RBF and RegularGrid), "
    "plus the time of the method to fit and to evaluate the queries, for all sizes up to this "
    "one. Evaluations also include all sizes, except for RegularGrid, whose points are not "
    "nested.",
    "Time per query: one thread, median, each method at the size that reached its last error. "
    "Coefficients: value and slopes of r numbers. All outputs: value and slopes; for RBF and "
    "RegularGrid the value only.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
