"""The exact evaluations of a surrogate. Each is made once, in batches, and stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature

import numpy as np

from pliant.core import Array, InputError, counted, is_integer, quoted, require_kind
from pliant.parallel import SerialWorkers, Workers
from pliant.progress import Progress, check_progress, reporting
from pliant.surrogate.compress import Compression
from pliant.surrogate.domain import check_lengths
from pliant.surrogate.sample import ExactMap, Sample, SampleError, evaluate
from pliant.surrogate.store import CornerStore
from pliant.surrogate.symmetry import SignSymmetry

MAX_DIMENSIONS = 6  # the table of a cell has 4^d rows
# (value, slope) of f -> those of the interpolated quantities, which begin with those of f
Lift = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Corner:
    """An exact value and slope as coefficients. If f failed they are empty and `failed` is the
    reason."""

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
            f"The map is {quoted(f)}. Give a function f(x, near) that returns the value (N,) "
            "and the slope (N, d)."
        ) from None


class Corners:
    """The exact values of a map f of `dim` numbers. They come from a store, or from workers that
    evaluate the missing ones.

    `compress` is the tolerance of a basis for long outputs (default: no compression). `lift`
    maps the value and slope of f to those of the interpolated quantities, which begin with those of
    f. `unit` (dim,) is a typical change along each axis. `budget` limits the number of evaluations.
    With a `symmetry` of f, one evaluation gives the values at two points. Raises InputError for
    invalid arguments.
    """

    def __init__(
        self,
        f: ExactMap,
        *,
        dim: int,
        store: CornerStore | None = None,
        workers: Workers | None = None,
        compress: float | None = None,
        lift: Lift | None = None,
        unit: Array | float = 1.0,
        budget: int | None = None,
        progress: Progress | bool | None = None,
        symmetry: SignSymmetry | None = None,
    ) -> None:
        _check_map(f)
        if not is_integer(dim) or not 1 <= dim <= MAX_DIMENSIONS:
            raise InputError(
                f"The map has {quoted(dim)} inputs. Give 1 to {MAX_DIMENSIONS}: one cell in d "
                "dimensions takes 2^d exact evaluations and a table of 4^d rows."
            )
        if budget is not None and not is_integer(budget):
            raise InputError(
                f"The budget is {quoted(budget)}. Give an integer number of exact evaluations."
            )
        if budget is not None and budget < 2**dim:
            raise InputError(
                f"The budget is {counted(budget, 'exact evaluation')}, but a single cell in "
                f"{counted(dim, 'dimension')} has {2**dim} corners. Raise it, or plan with fewer "
                "controls."
            )
        check_progress(progress)
        self.f, self.dim, self.lift, self.budget, self.progress = (
            f,
            int(dim),
            lift,
            budget,
            progress,
        )
        self.symmetry = symmetry
        self.store = CornerStore(None, key="") if store is None else store
        self.workers: Workers = SerialWorkers(evaluation_job(f)) if workers is None else workers
        self.compression = None if compress is None else Compression(compress)
        self.unit = check_lengths("The unit of a map's inputs", unit, self.dim)
        self.samples: dict[bytes, Sample] = {}
        self._corners: dict[bytes, Corner] = {}
        self._valid: list[Sample] = []  # samples with a value
        self._valid_points = np.zeros((0, self.dim))
        self.computed = 0  # evaluations by this process
        self.spent = ""  # the message of the last evaluation that exceeded the budget
        self._load_samples()

    def _load_samples(self) -> None:
        """Load the samples of the store in their original order, so that the basis is the same."""
        self._compute(self.store.pending())
        for sample in self.store.samples():
            self._add(sample)

    @property
    def evaluations(self) -> int:
        """The number of known exact evaluations, of all processes."""
        return len(self.samples)

    @property
    def notes(self) -> list[str]:
        """The notes and failures of f, with their points."""
        remarks = [(s, s.failed or s.note) for s in self.samples.values()]
        return [
            f"at {np.array2string(s.point, precision=4)}: {text}" for s, text in remarks if text
        ]

    def known(self, points: Array) -> bool:
        """Return whether all points (n, d) have been evaluated."""
        return all(_key(x) in self._corners for x in points)

    def all_have_values(self, points: Array) -> bool:
        """Return whether all points (n, d) have been evaluated and have a value."""
        return self.known(points) and not any(self._corners[_key(x)].failed for x in points)

    def fetch(self, points: Array) -> list[Corner]:
        """Return the corners at points (n, d). Missing ones are evaluated as one batch. Raises
        SampleError if that exceeds the budget."""
        wanted = [self._evaluated(x) for x in points if _key(x) not in self._corners]
        missing = list({_key(x): x for x in wanted}.values())
        if missing:
            self._check_budget(len(missing))
            for sample in self._compute(missing):
                self._add(sample)
        return [self._corners[_key(x)] for x in points]

    def _evaluated(self, x: Array) -> Array:
        """Return the point (d,) where f is evaluated for its value at x: x, or its image."""
        return x if self.symmetry is None else self.symmetry.representative(x)

    def _check_budget(self, count: int) -> None:
        if self.budget is not None and self.evaluations + count > self.budget:
            self.spent = (
                f"The budget of {self.budget} exact evaluations is spent: {self.evaluations} are "
                f"made and {count} more are needed here. Raise it, or use a larger cell."
            )
            raise SampleError(self.spent)

    def _compute(self, points: Sequence[Array]) -> list[Sample]:
        """Return samples at points. The workers evaluate those that no other process has evaluated
        or is evaluating. Each is stored as soon as it is finished."""
        found: dict[bytes, Sample] = {}
        while len(found) < len(points):
            left = [x for x in points if _key(x) not in found]
            near = [self.nearest(x) for x in left]
            mine = [
                left[k]
                for k in self.store.claim(
                    left, [None if start is None else start.point for start in near]
                )
            ]
            try:
                jobs = list(zip(mine, self.store.warm_starts(mine), strict=True))
                with reporting(self.progress) as report:
                    for done, (_, sample) in enumerate(self.workers.map(jobs)):
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
        """Return the nearest sample with a value (the first of several), or None."""
        if len(self._valid) != len(self._valid_points):
            self._valid_points = np.array([s.point for s in self._valid])
        if not self._valid:
            return None
        return self._valid[
            int(np.argmin(np.linalg.norm((self._valid_points - x) / self.unit, axis=1)))
        ]

    def _add(self, sample: Sample) -> None:
        key = _key(sample.point)
        if key in self.samples:
            return
        self.samples[key] = sample
        self._valid += [] if sample.failed else [sample]
        self._add_corner(sample)
        if self.symmetry is not None:
            self._add_corner(self.symmetry.image_of_sample(sample))

    def _add_corner(self, sample: Sample) -> None:
        key = _key(sample.point)
        if key not in self._corners:
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
                f"The map returns {counted(sample.value.size, 'number')} at {sample.point} and "
                f"{size} elsewhere. It must always return the same number."
            )
        value, slope = (
            (sample.value, sample.slope)
            if self.lift is None
            else self.lift(sample.value, sample.slope)
        )
        if self.compression is None:
            return Corner(rows=np.vstack([value, slope.T]))
        rows = self.compression.add(value, slope * self.unit)
        rows[1:] /= self.unit[:, None]
        return Corner(rows=rows)

    @property
    def size(self) -> int:
        """The current number r of coefficients."""
        if self.compression is not None:
            return self.compression.size
        return next(
            (corner.rows.shape[1] for corner in self._corners.values() if not corner.failed), 0
        )

    def close(self) -> None:
        """Close the store and the workers."""
        self.store.close()
        self.workers.close()

    def expand(self, rows: Array) -> tuple[Array, Array]:
        """Return the value (N,) and slope (N, d) of coefficients (1 + d, r)."""
        return (
            (rows[0], np.ascontiguousarray(rows[1:].T))
            if self.compression is None
            else self.compression.expand(rows)
        )


def evaluation_job(f: ExactMap) -> Callable[[Array, Sample | None], Sample]:
    """Return the function that workers call to evaluate f: make_workers(evaluation_job(f), ...)."""
    return partial(evaluate, f)


def _key(x: Array) -> bytes:
    return (np.asarray(x, "<f8") + 0.0).tobytes()
