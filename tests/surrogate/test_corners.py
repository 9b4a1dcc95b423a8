"""Corners: each exact evaluation made once, in batches, from the nearest one that is known."""

import numpy as np
import pytest
from smooth_maps import Counted, waves

from pliant.core import InputError
from pliant.surrogate import Corners, Sample, SampleError, evaluation_job

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


class Recorder:
    """A crew that remembers its batches and answers them from the last to the first."""

    def __init__(self, f):
        self.f, self.batches = evaluation_job(f), []

    def map(self, jobs):
        self.batches.append(list(jobs))
        for k in reversed(range(len(jobs))):
            yield k, self.f(*jobs[k])

    def close(self):
        pass


def failing(where, how):
    """waves, but for one point where it does something else."""

    def f(x, near):
        return how(x) if np.array_equal(x, where) else waves(x)

    return f


def raises(x):
    raise RuntimeError("the step did not converge")


def test_each_point_is_evaluated_once():
    f = Counted(waves)
    corners = Corners(f, dim=2)
    for _ in range(3):
        found = corners.fetch(POINTS)
        for x, corner in zip(POINTS, found, strict=True):
            value, slope = waves(x)
            np.testing.assert_array_equal(corner.rows, np.vstack([value, slope.T]))
    corners.fetch(-0.0 * POINTS[:1])  # minus zero is zero
    assert len(f.points) == corners.evaluations == corners.computed == 4
    assert corners.size == 3


def test_a_point_that_is_there_twice_in_a_batch_is_evaluated_once():
    f = Counted(waves)
    found = Corners(f, dim=2).fetch(POINTS[[0, 1, 0, 1]])
    assert len(f.points) == 2
    assert found[0] is found[2]
    assert found[1] is found[3]


def test_what_is_missing_is_one_batch_and_comes_back_in_the_order_of_the_points():
    workers = Recorder(waves)
    corners = Corners(waves, dim=2, workers=workers)
    corners.fetch(POINTS[:1])
    found = corners.fetch(POINTS)
    assert [len(batch) for batch in workers.batches] == [1, 3]
    np.testing.assert_array_equal([x for x, _ in workers.batches[1]], POINTS[1:])
    np.testing.assert_array_equal(
        [corner.rows[0] for corner in found], [waves(x)[0] for x in POINTS]
    )


def test_the_order_in_which_a_crew_answers_changes_nothing():
    here, there = (
        Corners(waves, dim=2, compress=1e-9, workers=workers) for workers in (None, Recorder(waves))
    )
    for a, b in zip(here.fetch(POINTS), there.fetch(POINTS), strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)


def test_known_is_what_was_fetched():
    corners = Corners(waves, dim=2)
    corners.fetch(POINTS[:3])
    assert corners.known(POINTS[:3])
    assert corners.known(POINTS[[2, 0]])
    assert not corners.known(POINTS)


@pytest.mark.parametrize(("unit", "nearest"), [((1.0, 1.0), 0), ((1.0, 0.1), 1)])
def test_near_is_the_nearest_sample_in_units_of_each_axis(unit, nearest):
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


def test_a_failed_sample_is_no_warm_start():
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
    ("how", "why"),
    [
        (raises, "did not converge"),
        (lambda x: (np.full(3, np.nan), np.zeros((3, 2))), "not finite"),
        (lambda x: (np.zeros(3), np.full((3, 2), np.inf)), "not finite"),
    ],
)
def test_a_failure_is_a_value_of_its_point_alone(how, why):
    f = Counted(failing(POINTS[1], how))
    corners = Corners(f, dim=2)
    for _ in range(2):
        found = corners.fetch(POINTS)
    assert len(f.points) == corners.evaluations == 4
    assert [bool(corner.failed) for corner in found] == [False, True, False, False]
    assert why in found[1].failed
    assert len(corners.notes) == 1
    assert why in corners.notes[0]
    assert "[1. 0.]" in corners.notes[0]


def test_what_the_map_says_beside_is_kept():
    def f(x, near):
        return (*waves(x), "in contact") if x[0] > 0.5 else waves(x)

    corners = Corners(f, dim=2)
    corners.fetch(POINTS)
    assert corners.notes == ["at [1. 0.]: in contact", "at [1. 1.]: in contact"]


def test_progress_is_told():
    told = []
    Corners(waves, dim=2, progress=lambda *what: told.append(what[1:])).fetch(POINTS)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("compress", [None, 1e-10])
def test_what_is_interpolated_may_be_more_than_the_map_gives(compress):
    """A lift, compressed or not, comes back by `expand`, in whatever units changes are compared."""

    def lift(value, slope):
        return np.concatenate([value, np.sin(value)]), np.vstack(
            [slope, np.cos(value)[:, None] * slope]
        )

    corners = Corners(waves, dim=2, lift=lift, compress=compress, unit=np.array([0.5, 20.0]))
    for x, corner in zip(POINTS, corners.fetch(POINTS), strict=True):
        for got, want in zip(corners.expand(corner.rows), lift(*waves(x)), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("value", [np.zeros((3, 1)), np.zeros(2), 1.0])
def test_a_map_of_another_shape_is_refused(one_sentence, value):
    one_sentence(
        lambda: Corners(lambda x, near: (value, np.zeros((3, 2))), dim=2).fetch(POINTS),
        r"slope of shape \(3, 2\).*give \(N,\)",
    )


@pytest.mark.parametrize("dim", [0, 7, 2.5])
def test_the_number_of_inputs_is_limited(one_sentence, dim):
    one_sentence(lambda: Corners(waves, dim=dim), f"'{dim}' inputs; 1 to 6")


def test_the_budget_is_kept(one_sentence):
    one_sentence(lambda: Corners(waves, dim=2, budget=3), "3 exact evaluations.*4 corners")
    with pytest.raises(InputError):
        Corners(waves, dim=3, budget=7)
    f = Counted(waves)
    corners = Corners(f, dim=2, budget=5)
    corners.fetch(POINTS)
    one_sentence(lambda: corners.fetch(POINTS + 0.5), "budget of 5 .* 4 are made and 4 more")
    with pytest.raises(SampleError):
        corners.fetch(POINTS + 3.0)
    assert len(f.points) == 4
    corners.fetch(POINTS[:1] + 0.5)  # what still fits is done
    assert corners.evaluations == 5
