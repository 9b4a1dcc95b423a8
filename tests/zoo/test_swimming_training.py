"""Trained swimmers: the environment, the experiments and their counts."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.learning import PolicyGradient
from pliant.store.digest import digest
from pliant.zoo.environments import RandomAngles, swimmer_forward
from pliant.zoo.experiment import ExperimentRun, run
from pliant.zoo.registry import find
from pliant.zoo.swimming_training import QUICK, SETTINGS, train_swimmer
from pliant.zoo.swimming_training_report import learning_plot, training_metrics

SMALL = {**SETTINGS, **QUICK, "points": 60, "iterations": 2, "fine_iterations": 2}


def test_rest_with_random_angles_takes_no_exact_evaluation():
    model, task = swimmer_forward(points=60, bend=0.3)
    states = [task.initial_state(model, np.random.default_rng(k)) for k in range(3)]
    angles = np.array([model.space.split(x).angles for x in states])
    assert np.abs(angles).max() <= 0.3
    assert np.ptp(angles) > 0.1
    assert all(not model.space.split(x).momentum.any() for x in states)
    assert model.surrogate.evaluations == 0
    # the velocities are zero: the effectors are where they were one step ago
    assert all(not model.space.velocity(x).any() for x in states)


def test_random_angles_have_a_digest():
    """So a training of other initial states is not resumed by mistake."""
    assert digest(RandomAngles(largest=0.1)) != digest(RandomAngles(largest=0.2))


def test_training_counts_evaluations_and_resumes_without_new_ones(tmp_path):
    settings = {**SMALL, "cell": 0.6, "eta": 0.3}
    method = PolicyGradient(episodes=2, rate=0.01)
    first = ExperimentRun(settings=settings, folder=tmp_path, identity="test")
    found = train_swimmer(first, method, seed=3)
    steps, _, evaluations = found.curve()
    assert len(found.refined.levels) == 2
    assert len(steps) == 1 + 2 * 2
    assert np.all(np.diff(steps) > 0)
    assert np.all(np.diff(evaluations) >= 0)
    assert 8 <= evaluations[0] < found.evaluations == evaluations[-1]
    again = train_swimmer(
        ExperimentRun(settings=settings, folder=tmp_path, identity="test", resume=True),
        method,
        seed=3,
    )
    np.testing.assert_array_equal(again.refined.result.weights, found.refined.result.weights)
    assert again.evaluations == found.evaluations
    assert again.after == found.after
    metrics = training_metrics(found, {"evaluations": 1973})
    assert metrics["exact evaluations"].paper == 1973
    assert metrics["reduction factor of environment steps"].value == pytest.approx(
        steps[-1] / evaluations[-1]
    )
    # the surrogate is close to the exact added mass, as the replay shows
    name = "return of the first episode"
    exact = metrics[f"{name} with the exact added mass"].value
    assert exact == pytest.approx(metrics[name].value, rel=0.05, abs=1e-6)
    assert set(learning_plot([found, again]).series) == {"seed 3"}


def test_seeds_are_trained_one_after_the_other(tmp_path):
    result = run(
        find("swimmer-gradient"),
        out=tmp_path,
        quick=True,
        seed=4,
        overrides={"seeds": "2", "iterations": "1", "points": "60"},
    )
    assert [note[:6] for note in result["notes"][:2]] == ["seed 4", "seed 5"]
    assert "mean return of all seeds, new initial states" in result["metrics"]
    replayed = [note for note in result["notes"] if "on replay" in note]
    assert [note[:6] for note in replayed] == ["seed 4", "seed 5"]
    largest = result["metrics"]["largest step error of all seeds"]["value"]
    assert largest >= result["metrics"]["step error"]["value"] > 0.0


def test_cluster_gives_the_same_training(tmp_path):
    """With --cluster, exact values come from its workers, with the same bits."""
    dask = pytest.importorskip("distributed")
    options = {"quick": True, "overrides": {"iterations": "1", "points": "60"}}
    here = run(find("swimmer-gradient"), out=tmp_path / "here", **options)
    with dask.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as local:
        address = local.scheduler_address
        there = run(find("swimmer-gradient"), out=tmp_path / "there", cluster=address, **options)
    for name in ("mean return", "mean return, new initial states", "exact evaluations"):
        assert there["metrics"][name]["value"] == here["metrics"][name]["value"], name


@pytest.mark.parametrize("name", ["swimmer-gradient", "swimmer-ppo"])
def test_final_cell_above_the_first_one_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="larger than the first cell"):
        run(find(name), out=tmp_path, quick=True, overrides={"eta": "2.0"})


def test_low_return_is_reported_as_not_reached(tmp_path):
    found = run(
        find("swimmer-gradient"),
        out=tmp_path,
        quick=True,
        overrides={"iterations": "1", "min_return": "9", "points": "60"},
    )
    assert found["status"].startswith("not reached: the mean return on new initial states")
