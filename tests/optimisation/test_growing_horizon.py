"""Growing horizons, against exhaustive simulation and the direct optimum of quadratic problems."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, StepError
from pliant.optimisation import (
    Adam,
    continue_periodically,
    optimise,
    optimise_growing_horizon,
)
from pliant.problem import Variable

PERIODS = (1, 2, 3, 4)
KNOTS = [Variable("controls", knots=2)]


def model():
    """A mass of 1 kg that a jet of at most 1 N moves."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-1.0, 1.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=0.1)


def problem(steps, variables=("controls",)):
    """Be 5 cm away at the end, with little effort."""
    goal = pl.Goal(effector="tip", target=(0.05, 0.0), time=0.1 * steps)
    terms = [goal, pl.Effort(weight=1e-3)]
    return pl.Problem(model=model(), steps=steps, terms=terms, variables=list(variables))


@pytest.mark.parametrize(("kept", "firsts"), [((1.0,), (4,)), ((1.0, 0.5), (4, 2))])
@pytest.mark.parametrize("seed", range(3))
def test_continuation_is_the_best_repetition_of_the_last_steps(kept, firsts, seed):
    task = problem(9)
    begun = np.random.default_rng(seed).uniform(-0.2, 0.2, (4, 2))
    found = continue_periodically(task, begun, periods=PERIODS, kept=kept)
    repeated = {
        (n, period): np.array([*begun[:n], *(begun[n - period + k % period] for k in range(9 - n))])
        for n in firsts
        for period in PERIODS
        if period <= n
    }
    values = {
        choice: task.value(pl.simulate(task.model, controls).states, controls)
        for choice, controls in repeated.items()
    }
    best = min(values, key=values.__getitem__)
    np.testing.assert_array_equal(found, repeated[best])


def test_periods_longer_than_the_controls_are_left_out():
    found = continue_periodically(problem(6), np.full((3, 2), 0.1), periods=(2, 50))
    np.testing.assert_array_equal(found, np.full((6, 2), 0.1))


@pytest.mark.parametrize("variables", [("controls",), ("controls", "initial.velocity")])
def test_growing_horizon_ends_at_the_optimum_of_the_last_problem(variables):
    problems = [problem(n, variables) for n in (4, 8)]
    results = optimise_growing_horizon(
        problems, "lbfgsb", iterations=(50, 200), periods=PERIODS, progress=False
    )
    direct = optimise(problems[-1], "lbfgsb", iterations=200, progress=False)
    assert [len(result.values["controls"]) for result in results] == [4, 8]
    assert results[-1].value == pytest.approx(direct.value, rel=1e-4)


def test_next_horizon_starts_with_the_values_of_the_last_one():
    problems = [problem(n, ("controls", Variable("initial.velocity", scale=0.1))) for n in (4, 8)]
    short, long = optimise_growing_horizon(
        problems, "lbfgsb", iterations=(50, 1), periods=PERIODS, progress=False
    )
    z = np.array(long.identity["start"])
    began = problems[1].layout.values(z)
    np.testing.assert_allclose(began["controls"][:4], short.values["controls"], rtol=1e-12)
    velocity = short.values["initial.velocity"]
    assert np.abs(velocity).max() > 1e-3
    np.testing.assert_allclose(began["initial.velocity"], velocity, rtol=1e-12)


def test_interrupted_growing_horizon_resumes_bit_for_bit(tmp_path):
    problems = [problem(n) for n in (4, 8)]
    options = {"methods": Adam(rate=0.1), "periods": PERIODS, "progress": False}
    whole = optimise_growing_horizon(problems, iterations=(10, 12), **options)
    optimise_growing_horizon(problems, iterations=(10, 5), folder=tmp_path, **options)
    resumed = optimise_growing_horizon(
        problems, iterations=(10, 12), folder=tmp_path, resume=True, **options
    )
    np.testing.assert_array_equal(resumed[-1].z, whole[-1].z)
    assert [row.value for row in resumed[-1].history] == [row.value for row in whole[-1].history]


@pytest.mark.parametrize("method", ["lbfgsb", Adam(rate=0.1)])
def test_optimisation_ends_at_its_target(method):
    full = optimise(problem(8), method, iterations=60, progress=False)
    target = 0.5 * (full.history[0].value + full.value)
    result = optimise(problem(8), method, iterations=60, target=target, progress=False)
    assert result.status.ok
    assert "reached the target" in result.status.text
    assert result.value <= target
    assert all(row.value > target for row in result.history[:-1])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"iterations": (5,)}, "2 problems"),
        ({"problems": [problem(8), problem(4)]}, "ascending order"),
        ({"problems": [problem(4, KNOTS), problem(8, KNOTS)]}, "without scenes and knots"),
        ({"periods": ()}, "No period is at most 4 steps"),
        ({"kept": (0.5, 1.5)}, "share of the controls to keep is 1.5"),
        ({"kept": (0.0,)}, "give one above 0"),
        ({"kept": 0.5}, "shares of controls are '0.5'"),
        ({"periods": (0,)}, "A period is '0'"),
        ({"periods": 2}, "periods are '2'"),
        ({"problems": problem(4)}, "problems are"),
        ({"problems": [4, 8]}, "A problem is '4'"),
        ({"problems": [problem(4), problem(8, ("controls", "initial"))]}, "variables controls, "),
        ({"iterations": 5}, "numbers of iterations are '5'"),
        ({"iterations": (2, 0)}, "number of iterations is '0'"),
        ({"methods": ["adam", "adm"]}, "did you mean 'adam'"),
        ({"target": np.nan}, "target is nan"),
        ({"checkpoints": "some"}, "checkpoints are 'some'"),
        ({"checkpoints": -1.0}, "memory limit of the checkpoints is -1"),
        ({"start": np.zeros(3)}, r"shape \(8,\)"),
        ({"folder": 3}, "folder is '3'"),
        ({"resume": True}, "give folder"),
    ],
)
def test_growing_horizon_refuses_what_does_not_fit(change, text):
    arguments = {
        "problems": [problem(4), problem(8)],
        "methods": "adam",
        "iterations": (2, 2),
        "periods": (1,),
        "progress": False,
        **change,
    }
    with pytest.raises(InputError, match=text):
        optimise_growing_horizon(**arguments)


def test_results_of_a_later_horizon_are_not_overwritten(tmp_path):
    options = {"methods": "adam", "progress": False, "folder": tmp_path}
    optimise_growing_horizon([problem(4), problem(8)], iterations=(1, 1), **options)
    with pytest.raises(InputError, match="8-steps already has an optimisation"):
        optimise_growing_horizon([problem(2), problem(8)], iterations=(1, 1), **options)
    assert not (tmp_path / "2-steps").exists()


def test_resumption_from_another_start_names_the_first_difference(tmp_path):
    options = {"methods": "adam", "iterations": (1,), "progress": False, "folder": tmp_path}
    start = np.zeros(8)
    optimise_growing_horizon([problem(4)], start=start, **options)
    start[5] = 0.25
    with pytest.raises(InputError, match=r"start at entry 5: it has '0\.0', here it is '0\.25'"):
        optimise_growing_horizon([problem(4)], start=start, resume=True, **options)


def test_continuation_that_cannot_be_simulated_is_an_error(monkeypatch):
    task = problem(6)
    monkeypatch.setattr("pliant.optimisation.periodic_continuation._states", lambda *_: None)
    with pytest.raises(StepError, match="smaller rate"):
        continue_periodically(task, np.zeros((3, 2)), periods=(1,))
