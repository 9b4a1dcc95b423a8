"""Successive halving, against the growing horizon of each start."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, StepError
from pliant.learning import ClosedLoop, LinearFeedback, PartObserver
from pliant.optimisation import Adam, optimise_growing_horizon, successive_halving
from pliant.optimisation.growing_horizon import GrowingHorizon
from pliant.problem import Variable

STEPS = (4, 8, 16)
RATE = Adam(rate=0.1)


def model():
    """A mass of 1 kg that a jet of at most 1 N moves."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-1.0, 1.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=0.1)


def problem(steps):
    """Be 5 cm away at the end, with little effort."""
    goal = pl.Goal(effector="tip", target=(0.05, 0.0), time=0.1 * steps)
    return pl.Problem(model=model(), steps=steps, terms=[goal, pl.Effort(weight=1e-3)])


PROBLEMS = [problem(steps) for steps in STEPS]
STARTS = [np.random.default_rng(k).uniform(-0.5, 0.5, 8) for k in range(5)]


def search(starts=STARTS, problems=PROBLEMS, iterations=(3, 3, 4), **options):
    options = {"periods": (1, 2), "progress": False, **options}
    return successive_halving(problems, RATE, starts=starts, iterations=iterations, **options)


@pytest.fixture(scope="module")
def whole():
    return search()


def test_better_half_continues_after_each_horizon(whole):
    """Five starts, then three, then one; those with the lowest values of the longest problem."""
    assert sorted(map(len, whole.trials)) == [1, 1, 2, 2, 3]
    first, second = whole.continued
    kept = [i for i, results in enumerate(whole.trials) if len(results) > 1]
    assert sorted(kept) == sorted(np.argsort(first)[:3].tolist())
    assert len(whole.results) == 3
    assert whole.best == np.nanargmin(second)
    assert np.isnan(second).sum() == 2
    assert whole.iterations == 5 * 3 + 3 * 3 + 4


def test_values_are_those_of_the_continued_variables(whole):
    horizons = GrowingHorizon.of(
        PROBLEMS,
        RATE,
        iterations=(3, 3, 4),
        periods=(1, 2),
        kept=(1.0,),
        target=None,
        seed=0,
        resume=False,
        progress=False,
        checkpoints="all",
    )
    z = horizons.continued(1, horizons.continued(0, whole.trials[2][0].z, 1), 2)
    value = horizons.objectives[2].value(z).value
    assert whole.continued[0][2] == pytest.approx(value, rel=1e-12)


def test_one_start_is_a_growing_horizon():
    one = search(starts=STARTS[:1])
    grown = optimise_growing_horizon(
        PROBLEMS, RATE, iterations=(3, 3, 4), periods=(1, 2), start=STARTS[0], progress=False
    )
    assert one.results[1].value == grown[1].value
    # the last horizon begins with the better of two continuations
    assert one.results[2].history[0].value <= grown[2].history[0].value


def test_start_at_the_target_continues_alone(whole):
    target = float(np.sort(whole.continued[0])[1])
    first = int(np.flatnonzero(whole.continued[0] <= target)[0])
    found = search(target=target)
    assert found.best == first
    assert [len(results) for results in found.trials] == [1] * first + [3] + [0] * (4 - first)
    assert found.results[-1].value <= target
    assert len(found.results[-1].history) == 1


def test_single_horizon_takes_the_best_start():
    found = search(problems=PROBLEMS[:1], iterations=(3,))
    values = [results[0].value for results in found.trials]
    assert found.best == int(np.argmin(values))


def test_interrupted_search_resumes_bit_for_bit(whole, tmp_path):
    search(iterations=(3, 3, 2), folder=tmp_path)
    resumed = search(folder=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.results[-1].z, whole.results[-1].z)
    assert resumed.best == whole.best
    with pytest.raises(InputError, match="resume"):
        search(folder=tmp_path)


def test_saved_search_is_read_on_resumption(whole, tmp_path):
    whole.without_objectives().save(tmp_path)
    resumed = search(folder=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.results[-1].z, whole.results[-1].z)
    assert resumed.seconds == whole.seconds


def test_ctrl_c_returns_the_interrupted_search(monkeypatch):
    calls = []

    def stop(what, done, total):
        calls.append(done)
        if len(calls) == 5:
            raise KeyboardInterrupt

    found = search(progress=stop)
    assert found.interrupted
    assert found.trials[found.best][-1].value < np.inf


def loop_problem(steps):
    """Feedback gains that bring the mass to 5 cm."""
    gains = LinearFeedback(gains=np.zeros((2, 2)), reference=[0.05, 0.0], controls=[0.0, 0.0])
    loop = ClosedLoop(model(), PartObserver(parts="position"), gains)
    goal = pl.Goal(effector="tip", target=(0.05, 0.0), time=0.1 * steps)
    return pl.Problem(
        model=loop, steps=steps, terms=[goal], variables=[Variable("controller", scale=1.0)]
    )


def test_weights_of_a_closed_loop_are_the_same_in_each_horizon():
    problems = [loop_problem(steps) for steps in (4, 8)]
    size = problems[0].layout.start.size
    starts = [np.full(size, 0.01), np.full(size, 0.02)]
    found = successive_halving(
        problems, Adam(rate=0.01), starts=starts, iterations=(4, 2), progress=False
    )
    before = found.results[0].z
    np.testing.assert_array_equal(found.results[1].identity["start"], before)
    value = found.results[1].history[0].value
    assert found.continued[0][found.best] == pytest.approx(value, rel=1e-12)


def summed_problem(steps):
    """Be 5 cm away in each step, so that the value grows with the horizon."""
    goal = pl.Goal(effector="tip", target=(0.05, 0.0))
    return pl.Problem(model=model(), steps=steps, terms=[goal])


def test_interrupted_search_returns_the_start_with_the_best_continuation():
    """Values of different horizons say nothing about each other."""
    calls = []

    def stop(what, done, total):
        calls.append(done)
        if len(calls) == 5 * 3 + 3 + 1:  # in the second horizon of the second of three starts
            raise KeyboardInterrupt

    found = search(problems=[summed_problem(steps) for steps in STEPS], progress=stop)
    assert found.interrupted
    assert sorted(map(len, found.trials)) == [1, 1, 1, 2, 2]
    assert found.best == np.nanargmin(np.fmin(*found.continued))
    assert found.best != np.argmin([results[-1].value for results in found.trials])


@pytest.mark.parametrize(
    ("starts", "text"),
    [
        ([], "There are no starts"),
        (None, "starts are 'None'"),
        ([STARTS[0], STARTS[1][:5]], r"Start 1 has shape \(5,\)"),
        ([STARTS[0], np.full(8, np.nan)], "Start 1 is nan"),
        (["a"], "Start 0 is 'a'"),
        ([np.full(8, 9.0)], "outside its bounds"),
    ],
)
def test_wrong_starts_are_an_error_before_the_first_optimisation(starts, text, tmp_path):
    with pytest.raises(InputError, match=text):
        search(starts=starts, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_summary_names_the_best_start(whole):
    assert f"start {whole.best} of 5 starts is the best, with 16 steps" in repr(whole)


def test_starts_that_cannot_be_continued_are_an_error(monkeypatch):
    monkeypatch.setattr("pliant.optimisation.periodic_continuation._states", lambda *_: None)
    with pytest.raises(StepError, match="2 starts cannot be continued"):
        search(starts=STARTS[:2])
