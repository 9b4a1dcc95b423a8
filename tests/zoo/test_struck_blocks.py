"""pendulum-strike: the contact of two points, and blocks that the ball knocks off their posts."""

import numpy as np
import pytest

import pliant as pl
from pliant.zoo.experiments import pendulum_strike
from pliant.zoo.robots.struck_blocks import PointContact

DISTANCE, STIFFNESS, MASS = 0.03, 1e4, 0.045
START = np.array([[0.0, 0.0, 0.0], [0.031, 0.0, 0.0]])  # [m] 1 mm apart from touching


def contact():
    return PointContact(first=START[0], second=START[1], distance=DISTANCE, stiffness=STIFFNESS)


def two_masses():
    shape = pl.PointMass(points=START, mass_each=MASS)
    return pl.Robot(shape=shape, actuators={"contact": contact()})


def test_equal_masses_exchange_their_velocities_in_a_central_impact():
    """An elastic impact of equal masses, up to the numerical damping of the rule."""
    model = pl.BDF2(two_masses(), dt=5e-5)
    velocity = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    start = model.state(START.ravel(), velocity)
    run = pl.simulate(model, np.zeros((200, 0)), x0=start, progress=False)
    before, after = (model.space.velocity(run.states[k]) for k in (0, -1))
    np.testing.assert_allclose(after[[0, 3]], before[[3, 0]], atol=0.01)
    momenta = [model.space.velocity(x)[[0, 3]].sum() for x in run.states]
    np.testing.assert_allclose(momenta, 1.0, atol=1e-6)


def test_force_and_stiffness_of_a_point_contact_are_derivatives_of_its_energy():
    body = two_masses().body()
    term = contact().attach(body)
    for size in (0.025, 0.02996, 0.035):  # deep, in the layer, apart
        y = size * np.array([[0.6, -0.48, 0.64]])
        h = 1e-8
        for axis in range(3):
            dy = h * np.eye(3)[axis][None]
            slope = (term.energy(y + dy, []) - term.energy(y - dy, [])) / (2 * h)
            force = (term.gradient(y + dy, []) - term.gradient(y - dy, [])) / (2 * h)
            assert term.gradient(y, [])[0, axis] == pytest.approx(slope, rel=1e-4, abs=1e-6)
            np.testing.assert_allclose(term.hessian(y, [])[0, axis], force[0], rtol=1e-4, atol=1e-2)
    assert not term.gradient(np.array([[0.035, 0.0, 0.0]]), []).any()


def test_blocks_rest_on_their_posts_until_they_are_struck():
    robot = pendulum_strike.robot_with_blocks()
    model = pl.BDF2(robot, dt=5e-3)
    still = np.tile(robot.neutral_controls(), (40, 1))
    run = pl.simulate(model, still, x0=model.initial_state(), progress=False)
    blocks = np.array([x[3 : model.space.n_dofs] for x in run.states])
    assert np.abs(blocks - blocks[0]).max() < 2e-3


def test_refined_controls_pass_through_the_given_ones():
    u = np.array([[1.0], [3.0]])
    fine = pendulum_strike.refined_controls(u, np.zeros(1), factor=2, extra=1)
    np.testing.assert_allclose(fine[:, 0], [0.5, 1.0, 2.0, 3.0, 3.0])


def test_planned_pendulum_knocks_both_blocks_off(tmp_path):
    from pliant.zoo.experiment import ExperimentRun
    from pliant.zoo.registry import find

    experiment = find("pendulum-strike")
    outcome = experiment.perform(
        ExperimentRun(
            settings=experiment.resolve_settings(quick=True), folder=tmp_path, identity="strike"
        )
    )
    assert outcome.reached
    for k in (1, 2):
        ball = outcome.metrics[f"block {k}: speed of the ball before it"].value
        block = outcome.metrics[f"block {k}: speed of the block after it"].value
        assert 0.5 * ball < block < 1.05 * ball
    # the first block takes momentum from the ball, so it strikes the second one later than planned
    assert outcome.metrics["block 2: time of the strike"].value > 1.49


@pytest.mark.parametrize(
    ("change", "message"), [({"distance": 0.0}, "distance"), ({"stiffness": -1.0}, "stiffness")]
)
def test_wrong_contacts_are_refused(change, message):
    with pytest.raises(pl.InputError, match=message):
        PointContact(**{"first": START[0], "second": START[1], "distance": DISTANCE, **change})


def test_one_point_is_no_contact():
    with pytest.raises(pl.InputError, match="give two"):
        PointContact(first=START[0], second=START[0], distance=DISTANCE).attach(two_masses().body())
