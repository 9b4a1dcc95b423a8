"""Corners make each exact evaluation once, in batches, with the closest sample as warm start."""

import numpy as np
import pytest
from smooth_maps import CountingMap, waves

from pliant.core import InputError
from pliant.surrogate import Corners, Sample, SampleError, evaluation_job

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


class RecordingWorkers:
    """Workers that store their batches and return the results in reverse order."""

    def __init__(self, f):
        self.f, self.batches = evaluation_job(f), []

    def map(self, jobs):
        self.batches.append(list(jobs))
        for k in reversed(range(len(jobs))):
            yield k, self.f(*jobs[k])

    def close(self):
        pass


def waves_except_at(point, replacement):
    """Return the map `waves` with a replacement at one point."""

    def f(x, near):
        return replacement(x) if np.array_equal(x, point) else waves(x)

    return f


def raises(x):
    raise RuntimeError("the step did not converge")


def test_each_point_is_evaluated_once():
    f = CountingMap(waves)
    corners = Corners(f, dim=2)
    for _ in range(3):
        found = corners.fetch(POINTS)
        for x, corner in zip(POINTS, found, strict=True):
            value, slope = waves(x)
            np.testing.assert_array_equal(corner.rows, np.vstack([value, slope.T]))
    corners.fetch(-0.0 * POINTS[:1])  # minus zero is zero
    assert len(f.points) == corners.evaluations == corners.computed == 4
    assert corners.size == 3


def test_duplicate_point_in_a_batch_is_evaluated_once():
    f = CountingMap(waves)
    found = Corners(f, dim=2).fetch(POINTS[[0, 1, 0, 1]])
    assert len(f.points) == 2
    assert found[0] is found[2]
    assert found[1] is found[3]


def test_missing_points_are_one_batch_and_keep_their_order():
    workers = RecordingWorkers(waves)
    corners = Corners(waves, dim=2, workers=workers)
    corners.fetch(POINTS[:1])
    found = corners.fetch(POINTS)
    assert [len(batch) for batch in workers.batches] == [1, 3]
    np.testing.assert_array_equal([x for x, _ in workers.batches[1]], POINTS[1:])
    np.testing.assert_array_equal(
        [corner.rows[0] for corner in found], [waves(x)[0] for x in POINTS]
    )


def test_result_is_independent_of_worker_order():
    serial, parallel = (
        Corners(waves, dim=2, compress=1e-9, workers=workers)
        for workers in (None, RecordingWorkers(waves))
    )
    for a, b in zip(serial.fetch(POINTS), parallel.fetch(POINTS), strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)


def test_fetched_points_are_known():
    corners = Corners(waves, dim=2)
    corners.fetch(POINTS[:3])
    assert corners.known(POINTS[:3])
    assert corners.known(POINTS[[2, 0]])
    assert not corners.known(POINTS)


@pytest.mark.parametrize(("unit", "nearest"), [((1.0, 1.0), 0), ((1.0, 0.1), 1)])
def test_warm_start_is_closest_sample_in_axis_units(unit, nearest):
    seen = []

    def f(x, near):
        seen.append(near)
        return waves(x)

    corners = Corners(f, dim=2, unit=np.array(unit))
    points = np.array([[0.0, 0.3], [0.5, 0.0]])
    corners.fetch(points)
    corners.fetch(np.zeros((1, 2)))
    assert seen[:2] == [None, None]
    assert isinstance(seen[2], Sample)
    np.testing.assert_array_equal(seen[2].point, points[nearest])
    np.testing.assert_array_equal(seen[2].value, waves(points[nearest])[0])


def test_failed_sample_is_not_a_warm_start():
    seen = []

    def f(x, near):
        seen.append(near)
        return raises(x) if x[0] == 0.0 else waves(x)

    corners = Corners(f, dim=1)
    for x in (0.0, 1.0, 0.1):
        corners.fetch(np.array([[x]]))
    assert seen[1] is None
    np.testing.assert_array_equal(seen[2].point, [1.0])


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (raises, "did not converge"),
        (lambda x: (np.full(3, np.nan), np.zeros((3, 2))), "not finite"),
        (lambda x: (np.zeros(3), np.full((3, 2), np.inf)), "not finite"),
    ],
)
def test_failure_affects_only_its_own_point(replacement, message):
    f = CountingMap(waves_except_at(POINTS[1], replacement))
    corners = Corners(f, dim=2)
    for _ in range(2):
        found = corners.fetch(POINTS)
    assert len(f.points) == corners.evaluations == 4
    assert [bool(corner.failed) for corner in found] == [False, True, False, False]
    assert message in found[1].failed
    assert len(corners.notes) == 1
    assert message in corners.notes[0]
    assert "[1. 0.]" in corners.notes[0]


def test_notes_of_the_map_are_kept():
    def f(x, near):
        return (*waves(x), "in contact") if x[0] > 0.5 else waves(x)

    corners = Corners(f, dim=2)
    corners.fetch(POINTS)
    assert corners.notes == ["at [1. 0.]: in contact", "at [1. 1.]: in contact"]


def test_progress_is_reported():
    reported = []
    Corners(waves, dim=2, progress=lambda *values: reported.append(values[1:])).fetch(POINTS)
    assert reported == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("compress", [None, 1e-10])
def test_lifted_map_is_expanded_unchanged(compress):
    """`expand` returns the lifted values and slopes, with and without compression, in any units."""

    def lift(value, slope):
        return np.concatenate([value, np.sin(value)]), np.vstack(
            [slope, np.cos(value)[:, None] * slope]
        )

    corners = Corners(waves, dim=2, lift=lift, compress=compress, unit=np.array([0.5, 20.0]))
    for x, corner in zip(POINTS, corners.fetch(POINTS), strict=True):
        for got, want in zip(corners.expand(corner.rows), lift(*waves(x)), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("value", [np.zeros((3, 1)), np.zeros(2), 1.0])
def test_map_of_wrong_shape_raises(raises_clear_error, value):
    raises_clear_error(
        lambda: Corners(lambda x, near: (value, np.zeros((3, 2))), dim=2).fetch(POINTS),
        r"slope of shape \(3, 2\).*Return \(N,\)",
    )


@pytest.mark.parametrize("dim", [0, 7, 2.5])
def test_invalid_number_of_inputs_raises(raises_clear_error, dim):
    raises_clear_error(lambda: Corners(waves, dim=dim), f"'{dim}' inputs. Give 1 to 6")


def test_exceeded_budget_raises(raises_clear_error):
    raises_clear_error(lambda: Corners(waves, dim=2, budget=3), "3 exact evaluations.*4 corners")
    with pytest.raises(InputError):
        Corners(waves, dim=3, budget=7)
    f = CountingMap(waves)
    corners = Corners(f, dim=2, budget=5)
    corners.fetch(POINTS)
    raises_clear_error(lambda: corners.fetch(POINTS + 0.5), "budget of 5 .* 4 are made and 4 more")
    with pytest.raises(SampleError):
        corners.fetch(POINTS + 3.0)
    assert len(f.points) == 4
    corners.fetch(POINTS[:1] + 0.5)  # one evaluation still fits into the budget
    assert corners.evaluations == 5
