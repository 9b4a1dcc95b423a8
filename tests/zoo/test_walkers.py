"""Walkers with a network in the loop: sizes, symmetric shapes, random networks that move, the
counts of combinations, and training that continues."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pliant.core import InputError
from pliant.dynamics import simulate
from pliant.mpm.particle_model import sample_body
from pliant.robot import Damping
from pliant.zoo.experiment import ExperimentRun
from pliant.zoo.experiments import (
    biped_codesign,
    biped_terrain,
    creature_stl,
    legged_walkers,
    rhino_walk,
)
from pliant.zoo.registry import find
from pliant.zoo.robots.block_walkers import block_biped, legged_walker
from pliant.zoo.robots.creature_robot import creature_surface
from pliant.zoo.robots.terrain_robot import WALKER, ground_height
from pliant.zoo.walker_report import distance_metrics, half_interval
from pliant.zoo.walker_training import WalkerTraining, train_walker, train_walkers
from pliant.zoo.walkers import (
    COMBINATIONS,
    FIELDS,
    chosen_combinations,
    forward_position,
    walker_loop,
    walker_model,
    walker_problem,
)

SETTINGS = find("biped-codesign").resolve_settings(quick=True)
BLOCKS = {
    "biped": (block_biped(), 40, 12800, 4),
    "quadruped": (legged_walker("quadruped"), 15, 84375, 16),
    "hexapod": (legged_walker("hexapod"), 15, 111375, 24),
    "octoped": (legged_walker("octoped"), 15, 138375, 32),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_full_size_is_that_of_the_paper(name: str) -> None:
    walker, count, particles, pressures = BLOCKS[name]
    assert len(walker.blocks) * count**walker.dim == particles
    assert len(walker.chambers) == pressures


@pytest.mark.parametrize("walk", [rhino_walk, creature_stl, biped_terrain])
def test_sampled_walkers_have_the_particles_of_the_paper(walk) -> None:
    settings = walk.EXPERIMENT.settings
    walker = walk.walker(settings)
    particles = walker.particles
    if particles is None:
        particles = sample_body(walker.robot, walker.cell, walker.per_cell, "lattice", 0)
    assert particles.n_particles == pytest.approx(walk.PAPER.particles, rel=0.01)
    assert walker.robot.n_controls == walk.PAPER.pressures


def test_creature_is_closed_and_symmetric() -> None:
    """Its left side is the mirror image of the right, within a hundredth of its length."""
    surface = creature_surface(0.4)
    assert surface.n_pieces == 1
    centroid = surface.points.mean(axis=0)
    low, high = surface.points.min(axis=0), surface.points.max(axis=0)
    assert low[2] == 0.0
    assert high[0] - low[0] == pytest.approx(0.4)
    assert abs(centroid[1]) < 0.002
    assert abs(low[1] + high[1]) < 0.004


def test_network_moves_a_biped_that_stands_on_particles() -> None:
    """The soles stay above the particles of the terrain, which is held at its bottom."""
    settings = biped_terrain.EXPERIMENT.resolve_settings(quick=True)
    walker = biped_terrain.walker(settings)
    model = walker_model(walker, settings)
    run = simulate(walker_loop(walker, model, settings, 7), np.zeros((40, 0)))
    points = model.particles(run.states[-1][: model.space.size]).position
    robot = model.body.samples.regions[WALKER]
    ground = np.setdiff1d(np.arange(len(points)), robot)
    lowest = points[robot, 1].min()
    assert 0.0 < lowest < 1.5 * model.cell
    rest = model.body.samples.points
    assert np.abs(points[ground] - rest[ground]).max() < 0.3 * model.cell


def test_terrain_is_flat_at_first_and_then_has_bumps() -> None:
    assert not ground_height(np.linspace(-0.1, 0.35, 20)).any()
    assert ground_height(np.linspace(0.35, 1.5, 200)).max() == pytest.approx(0.02, abs=1e-4)


def test_two_bodies_refuse_fields_and_the_total_transfer() -> None:
    experiment = find("biped-terrain")
    for key, value in (("combinations", "E"), ("transfer", "total")):
        with pytest.raises(InputError, match="two bodies of one grid"):
            experiment.check_settings({**experiment.settings, key: value})


@pytest.mark.parametrize("name", BLOCKS)
def test_particles_fill_a_symmetric_body(name: str) -> None:
    walker, _, _, _ = BLOCKS[name]
    robot = walker.robot()
    body = walker.particles(robot, 2)
    points = body.samples.points
    lower, upper = walker.shape.bounds()
    assert body.samples.volumes.sum() == pytest.approx(robot.mesh().volumes().sum(), rel=1e-9)
    for axis in range(walker.dim - 1):
        mirrored = points.copy()
        mirrored[:, axis] = lower[axis] + upper[axis] - points[:, axis]
        rows = lambda x: sorted(map(tuple, x.round(9).tolist()))
        assert rows(mirrored) == rows(points)


def test_every_chamber_has_the_particles_of_its_block() -> None:
    walker = block_biped()
    body = walker.particles(walker.robot(), 4)
    for name in walker.chambers:
        inside = walker.blocks[name].contains(body.samples.points)
        assert np.array_equal(np.flatnonzero(inside), body.samples.regions[name])
        assert inside.sum() == 16


def made(combination: str = "none", seed: int = 3, **settings):
    both = "none,E+nu+density"
    chosen = {**SETTINGS, "coarsening": 2.5, "steps": 25, "combinations": both, **settings}
    walker, fields = biped_codesign.walker(chosen), COMBINATIONS[combination]
    model = walker_model(walker, chosen, fields)
    loop = walker_loop(walker, model, chosen, seed)
    return model, loop, walker_problem(loop, chosen, 25, fields)


@pytest.mark.parametrize("seed", [3, 4])
def test_random_network_moves_the_walker(seed: int) -> None:
    """With half the largest pressure on average; the pressures of a chamber vary in time."""
    model, loop, _ = made(seed=seed)
    run = simulate(loop, np.zeros((25, 0)))
    controls = np.array([loop.space.split(x).controls for x in run.states[1:]])
    largest = model.control_limits()[1]
    assert np.all(np.ptp(controls, axis=0) > 0.05 * largest)
    speeds = np.abs([model.space.velocity(x[: model.space.size]) for x in run.states])
    assert speeds.max() > 0.01


def test_weight_of_the_biped_compresses_its_legs_by_three_per_cent() -> None:
    chosen = {**SETTINGS, "coarsening": 1.25, "combinations": "none"}
    walker = biped_codesign.walker(chosen)
    damped = replace(walker.robot, damping=Damping(mass=20.0))
    model = walker_model(replace(walker, robot=damped), chosen)
    last = simulate(model, np.zeros((120, 4))).states[-1]
    points, rest = model.particles(last).position, model.body.samples.points
    legs = np.concatenate([model.body.samples.regions[name] for name in model.robot.actuators])
    assert np.ptp(points[legs, 1]) == pytest.approx(0.97 * np.ptp(rest[legs, 1]), rel=0.01)


@pytest.mark.parametrize("name", ["biped-codesign", "octoped", "creature-stl"])
def test_trainings_can_be_sent_to_other_processes(name: str, tmp_path) -> None:
    make = {
        "biped-codesign": biped_codesign.walker,
        "octoped": partial(legged_walkers.make_walker, "octoped"),
        "creature-stl": creature_stl.walker,
    }[name]
    run = ExperimentRun(settings=find(name).settings, folder=tmp_path, identity="test")
    sent = pickle.loads(pickle.dumps(partial(train_walker, make, run)))
    assert sent.args[1].settings == run.settings


def test_combinations_share_their_substeps_and_start_alike() -> None:
    """So a gain comes from the material alone."""
    ends = {}
    for name in ("none", "E+nu+density"):
        model, _, problem = made(name)
        ends[name] = model.substeps, problem.layout.start.size
        z = problem.layout.start
        if name != "none":
            block = problem.layout.blocks[-1]
            assert np.all(z[block.at] == block.scaled(block.first))
            assert block.value(block.physical(z)) == pytest.approx(1000.0)
    assert ends["none"][0] == ends["E+nu+density"][0]
    assert ends["E+nu+density"][1] - ends["none"][1] == 3 * 2048


def test_bounds_are_those_of_the_paper() -> None:
    ratios = {name: (one.lower / one.upper, one.stiffest) for name, one in FIELDS.items()}
    assert ratios["E"] == (pytest.approx(7 / 20), FIELDS["E"].upper)
    assert ratios["nu"] == (pytest.approx(0.5), 0.4)
    assert ratios["density"] == (pytest.approx(0.35), FIELDS["density"].lower)


def test_all_combinations_are_eight() -> None:
    names = list(chosen_combinations({"combinations": "all"}))
    assert len(names) == 8
    assert names[0] == "none"
    assert names[-1] == "E+nu+density"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"combinations": "none,mass"}, "no combination 'mass'"),
        ({"rate": 0.0}, "setting rate"),
        ({"clock": -1.0}, "frequency of -1"),
        ({"window": -1.0}, "gradient window is -1"),
    ],
)
def test_bad_settings_are_errors(setting, says: str) -> None:
    with pytest.raises(InputError, match=says):
        find("biped-codesign").check_settings({**SETTINGS, **setting})


def test_training_continues_with_the_same_bits(tmp_path) -> None:
    settings = {**SETTINGS, "coarsening": 2.5, "steps": 6, "combinations": "E"}

    def trained(folder, iterations: int, resume: bool) -> WalkerTraining:
        run = ExperimentRun(
            settings={**settings, "last_iterations": iterations},
            folder=tmp_path / folder,
            identity="test",
            resume=resume,
        )
        run.folder.mkdir(exist_ok=True)
        return train_walkers(run, biped_codesign.walker)[1]

    whole = trained("whole", 3, False)
    trained("parts", 1, False)
    parts = trained("parts", 3, True)
    assert np.array_equal(whole.result.z, parts.result.z)
    assert np.array_equal(whole.distances, parts.distances)


def training(combination: str, seed: int, distance: float) -> WalkerTraining:
    class Row:
        failed = ""
        seconds = 1.0

        def __init__(self, value: float) -> None:
            self.value = value

    class Result:
        history = (Row(0.0), Row(-distance))

    class Search:
        results = (Result(),)

    return WalkerTraining(
        combination=combination,
        seed=seed,
        search=Search(),  # type: ignore[arg-type]
        start=0.0,
        length=1.0,
    )


def test_gains_compare_equal_seeds() -> None:
    groups = {
        "none": [training("none", 0, 1.0), training("none", 1, 3.0)],
        "E": [training("E", 0, 2.0), training("E", 1, 4.0)],
    }
    found = distance_metrics(groups, biped_codesign.PAPER)
    assert found["mean distance, control alone"].value == 2.0
    assert found["gain of co-design, E"].value == pytest.approx(50.0)
    # every seed gained the same distance, so the interval of the gain is zero
    assert found["half width of the 90 % interval, gain of co-design, E"].value == pytest.approx(0)


def test_walkers_that_do_not_move_have_no_gain() -> None:
    groups = {"none": [training("none", 0, 0.01)], "E": [training("E", 0, 0.02)]}
    assert not any("gain" in name for name in distance_metrics(groups, biped_codesign.PAPER))


def test_interval_covers_the_mean_of_normal_samples(rng) -> None:
    """In nine of ten samples."""
    samples = rng.standard_normal((4000, 5))
    inside = [abs(row.mean()) < half_interval(row) for row in samples]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)


def test_forward_position_is_the_mean_of_the_particles() -> None:
    model, _, _ = made()
    x = model.initial_state()
    mean = model.particles(x).position[:, 0] @ model.body.volumes() / model.body.volumes().sum()
    assert forward_position(model, x) == pytest.approx(mean)
