"""biped-cable: its size, pulls that do not tear it, walks that are found, and continued runs."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.dynamics import simulate
from pliant.zoo.experiment import ExperimentRun
from pliant.zoo.experiments import biped_cable
from pliant.zoo.open_loop_walks import Walk, first_controls, optimise_walks, walk_metrics
from pliant.zoo.registry import find
from pliant.zoo.robots.biped_robot import MIN_CABLE_LENGTH
from pliant.zoo.walkers import forward_position

FULL = find("biped-cable").settings
SETTINGS = {
    **FULL,
    "coarsening": 4.0,
    "steps": 40,
    "iterations": 6,
    "last_iterations": 4,
    "starts": 1,
}


def walks(folder, resume: bool = False, **changes) -> list[Walk]:
    settings = {**SETTINGS, "seeds": 1, **changes}
    folder.mkdir(exist_ok=True)
    run = ExperimentRun(settings=settings, folder=folder, identity="test", seed=5, resume=resume)
    model = biped_cable.walker(settings)
    return optimise_walks(
        run,
        lambda count: biped_cable.problem(model, count),
        biped_cable.horizons(settings),
        biped_cable.guess,
        length=biped_cable.BODY_LENGTH,
        periods=[5, 10],
    )


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Walk:
    return walks(tmp_path_factory.mktemp("walk"))[0]


def test_full_size_has_the_particles_of_the_paper() -> None:
    model = biped_cable.walker(FULL)
    assert model.body.n_particles == 5024
    assert model.n_controls == 4


def test_sudden_pulls_to_the_limit_do_not_tear_the_body() -> None:
    """Every cable jumps between its limits; neighbours stay within a cell."""
    model = biped_cable.walker({**FULL, "coarsening": 2.0})
    pulled = np.random.default_rng(3).random((10, 4)) < 0.5
    controls = np.repeat(np.where(pulled, MIN_CABLE_LENGTH, 1.0), 5, axis=0)
    run = simulate(model, controls, progress=False)
    assert max(model.neighbour_gap(x) for x in run.states) < model.cell


def test_first_guesses_of_a_seed_differ_and_pull_only() -> None:
    one, other = first_controls(biped_cable.guess, 50, 0, 2)
    assert np.abs(one - other).max() > 0.05
    assert one.max() <= 1.0
    assert one.min() >= MIN_CABLE_LENGTH


def test_walk_is_farther_than_that_of_the_guess(walk) -> None:
    model = biped_cable.walker(SETTINGS)
    guess = biped_cable.guess(40, np.random.default_rng(5))
    first = simulate(model, guess, progress=False).states[-1]
    before = (forward_position(model, first) - walk.start) / walk.length
    assert walk.distance > before + 0.05
    moved = forward_position(model, walk.states[-1]) - walk.start
    assert walk.distance == pytest.approx(moved / walk.length, abs=1e-4)
    assert [len(result.values["controls"]) for result in walk.results] == [10, 20, 40]


def test_learning_curve_counts_all_horizons(walk) -> None:
    iteration, time, distance = walk.curves()
    assert iteration[-1] == walk.iterations == 16
    assert time[-1] == pytest.approx(walk.seconds)
    assert distance[-1] == walk.distance
    assert np.isnan(distance).sum() == 2  # where the horizon grows


def test_killed_run_continues_with_the_same_bits(walk, tmp_path) -> None:
    """After a run that ended in the middle of the last horizon."""
    walks(tmp_path / "parts", last_iterations=2)
    resumed = walks(tmp_path / "parts", resume=True)[0]
    np.testing.assert_array_equal(resumed.controls, walk.controls)
    assert resumed.distance == walk.distance


def test_starts_of_a_seed_are_compared_and_counted(tmp_path) -> None:
    """The first of them is that of a run with a single start."""
    found = walks(tmp_path / "several", starts=2)[0]
    assert [len(results) for results in found.search.trials] in ([3, 1], [1, 3])
    assert found.iterations == 2 * 6 + 6 + 4
    alone, several = (first_controls(biped_cable.guess, 10, 5, n) for n in (1, 2))
    np.testing.assert_array_equal(alone[0], several[0])


def test_seed_ends_when_it_is_far_enough(tmp_path) -> None:
    found = walks(tmp_path / "near", enough_distance=-1.0)[0]
    assert [len(result.history) - 1 for result in found.results] == [6, 6, 0]


def test_metrics_have_the_interval_of_several_seeds(walk) -> None:
    one = walk_metrics([walk], 2.0)
    two = walk_metrics([walk, walk], 2.0)
    assert "half width of the 90 % interval of the mean" not in one
    assert two["half width of the 90 % interval of the mean"].value == 0.0
    assert two["seeds that walk 2 body lengths"].value == 0


def test_too_few_steps_for_a_gait_are_an_error() -> None:
    with pytest.raises(InputError, match="shorter than the shortest period"):
        find("biped-cable").check_settings({**FULL, "steps": 20})
