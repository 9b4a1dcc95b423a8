"""Corners: the exact evaluations that a surrogate stands on, each made once, in batches, and
kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature

import numpy as np

from pliant.core import Array, InputError, is_whole, quoted, require_kind
from pliant.parallel import Crew, Here
from pliant.progress import Progress, check_progress, reporting
from pliant.surrogate.compress import Compression
from pliant.surrogate.domain import check_lengths
from pliant.surrogate.sample import Exact, Sample, SampleError, evaluate
from pliant.surrogate.store import CornerStore

MOST = 6  # dimensions: a cell's table has 4^d rows
Lift = Callable[
    [Array, Array], tuple[Array, Array]
]  # (value, slope) of f -> those of what is interpolated


@dataclass(frozen=True, kw_only=True, eq=False)
class Corner:
    """An exact value and slope as coefficients; none where f failed, and then `failed` says why."""

    rows: Array  # (1 + d, r)
    failed: str = ""


def check_corners(corners: object) -> None:
    """Raise `InputError` unless `corners` are Corners, which every surrogate is made from."""
    require_kind("The first argument of a surrogate", corners, Corners, "give Corners(f, dim=...)")


def _check_map(f: object) -> None:
    try:
        signature(f).bind(np.zeros(1), None)  # type: ignore[arg-type]
    except ValueError:  # a callable without a signature, such as a builtin
        return
    except TypeError:
        raise InputError(
            f"The map is {quoted(f)}; give a function f(x, near) that returns the value (N,) "
            "and the slope (N, d)."
        ) from None


class Corners:
    """The exact values of a map f of `dim` numbers, from a store or from a crew of workers that
    evaluates what is missing.

    `compress` is the tolerance of a growing basis for long outputs (None: all numbers as they are),
    `lift` turns f's output into what is interpolated, where that is more than f gives, and `unit`
    (dim,) is the step along each axis by which changes are compared.
    """

    def __init__(
        self,
        f: Exact,
        *,
        dim: int,
        store: CornerStore | None = None,
        crew: Crew | None = None,
        compress: float | None = None,
        lift: Lift | None = None,
        unit: Array | float = 1.0,
        budget: int | None = None,
        progress: Progress | bool | None = None,
    ) -> None:
        _check_map(f)
        if not is_whole(dim) or not 1 <= dim <= MOST:
            raise InputError(
                f"The map has {quoted(dim)} inputs; 1 to {MOST} can be interpolated, since one "
                "cell in d dimensions takes 2^d exact evaluations and a table of 4^d rows."
            )
        if budget is not None and not is_whole(budget):
            raise InputError(
                f"The budget is {quoted(budget)}; give a whole number of exact evaluations."
            )
        if budget is not None and budget < 2**dim:
            raise InputError(
                f"The budget is {budget} exact evaluations, but a single cell in {dim} "
                f"dimensions has {2**dim} corners; raise it, or plan with fewer controls."
            )
        check_progress(progress)
        self.f, self.dim, self.lift, self.budget, self.progress = (
            f,
            int(dim),
            lift,
            budget,
            progress,
        )
        self.store = CornerStore(None, key="") if store is None else store
        self.crew: Crew = Here(job(f)) if crew is None else crew
        self.compression = None if compress is None else Compression(compress)
        self.unit = check_lengths("The unit of a map's inputs", unit, self.dim)
        self.samples: dict[bytes, Sample] = {}
        self._corners: dict[bytes, Corner] = {}
        self._good: list[Sample] = []  # that have a value, and
        self._places = np.zeros((0, self.dim))  # where
        self.computed = 0  # by this process
        self._open()

    def _open(self) -> None:
        """Take what the store holds, in the order in which it was asked for: the basis then grows
        as it did before."""
        self._compute(self.store.pending())
        for sample in self.store.samples():
            self._absorb(sample)

    @property
    def evaluations(self) -> int:
        """Exact evaluations that are known, by whoever they were made."""
        return len(self.samples)

    @property
    def notes(self) -> list[str]:
        """What f said beside its values, and where it failed."""
        said = [(s, s.failed or s.note) for s in self.samples.values()]
        return [f"at {np.array2string(s.point, precision=4)}: {text}" for s, text in said if text]

    def known(self, points: Array) -> bool:
        """Are all of the points (n, d) there already?"""
        return all(_key(x) in self._corners for x in points)

    def valued(self, points: Array) -> bool:
        """Are all of the points (n, d) there already, and has the map a value at each?"""
        return self.known(points) and not any(self._corners[_key(x)].failed for x in points)

    def fetch(self, points: Array) -> list[Corner]:
        """The corners at points (n, d); those that are not known are evaluated as one batch."""
        missing = list({_key(x): x for x in points if _key(x) not in self._corners}.values())
        if missing:
            self._check_budget(len(missing))
            for sample in self._compute(missing):
                self._absorb(sample)
        return [self._corners[_key(x)] for x in points]

    def _check_budget(self, count: int) -> None:
        if self.budget is not None and self.evaluations + count > self.budget:
            raise SampleError(
                f"The budget of {self.budget} exact evaluations is spent: {self.evaluations} are "
                f"made and {count} more are needed here; raise it, or take a larger cell."
            )

    def _compute(self, points: Sequence[Array]) -> list[Sample]:
        """Samples at points, by the crew where no other process has or makes them; committed one by
        one as they end."""
        found: dict[bytes, Sample] = {}
        while len(found) < len(points):
            left = [x for x in points if _key(x) not in found]
            near = [self.nearest(x) for x in left]
            mine = [
                left[k]
                for k in self.store.ask(
                    left, [None if start is None else start.point for start in near]
                )
            ]
            try:
                jobs = list(zip(mine, self.store.starts(mine), strict=True))
                with reporting(self.progress) as report:
                    for done, (_, sample) in enumerate(self.crew.map(jobs)):
                        self.store.put(sample)
                        self.computed += 1
                        report(
                            "exact evaluations",
                            self.evaluations + done + 1,
                            self.evaluations + len(mine),
                        )
            except BaseException:
                self.store.release(mine)
                raise
            found |= {_key(s.point): s for s in self.store.wait(left) if s is not None}
        return [found[_key(x)] for x in points]

    def nearest(self, x: Array) -> Sample | None:
        """The nearest sample that has a value; the first of several."""
        if len(self._good) != len(self._places):
            self._places = np.array([s.point for s in self._good])
        if not self._good:
            return None
        return self._good[int(np.argmin(np.linalg.norm((self._places - x) / self.unit, axis=1)))]

    def _absorb(self, sample: Sample) -> None:
        key = _key(sample.point)
        if key in self.samples:
            return
        self.samples[key] = sample
        self._good += [] if sample.failed else [sample]
        self._corners[key] = (
            Corner(rows=np.zeros((1 + self.dim, 0)), failed=sample.failed)
            if sample.failed
            else self._corner(sample)
        )

    def _corner(self, sample: Sample) -> Corner:
        size = next(
            (s.value.size for s in self.samples.values() if not s.failed), sample.value.size
        )
        if sample.value.size != size:
            raise InputError(
                f"The map gives {sample.value.size} numbers at {sample.point} and {size} "
                "elsewhere; it must always give as many."
            )
        value, slope = (
            (sample.value, sample.slope)
            if self.lift is None
            else self.lift(sample.value, sample.slope)
        )
        if self.compression is None:
            return Corner(rows=np.vstack([value, slope.T]))
        rows = self.compression.absorb(value, slope * self.unit)
        rows[1:] /= self.unit[:, None]
        return Corner(rows=rows)

    @property
    def size(self) -> int:
        """r, how many coefficients there are now."""
        if self.compression is not None:
            return self.compression.size
        return next(
            (corner.rows.shape[1] for corner in self._corners.values() if not corner.failed), 0
        )

    def close(self) -> None:
        """Let go of the store and of the workers."""
        self.store.close()
        self.crew.close()

    def expand(self, rows: Array) -> tuple[Array, Array]:
        """(value (N,), slope (N, d)) from coefficients (1 + d, r)."""
        return (
            (rows[0], np.ascontiguousarray(rows[1:].T))
            if self.compression is None
            else self.compression.expand(rows)
        )


def job(f: Exact) -> Callable[[Array, Sample | None], Sample]:
    """What to give a crew of workers, so that it evaluates f: crew(job(f), ...)."""
    return partial(evaluate, f)


def _key(x: Array) -> bytes:
    return (np.asarray(x, "<f8") + 0.0).tobytes()
