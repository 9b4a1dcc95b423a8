"""Gradients of particle simulations: collisions in closed form, shape parameters and plans."""

from dataclasses import replace

import numpy as np
import pytest
from particle_scenes import block, masses, momentum, tables

import pliant as pl
from pliant.actuators import Muscle
from pliant.core import InputError
from pliant.geometry import Rectangle, displaced, displaced_vjp, sample_particles
from pliant.planners import Options
from pliant.planners.checkpoints import cost_gradient
from pliant.planners.gradient_planner import gradient
from pliant.problem import Effort, Goal, Problem

every_dim = pytest.mark.parametrize("dim", [2, 3])


# Collisions: a block without gravity hits a plane and rebounds


def thrown(dim, velocity, *, kind="separate", friction=0.0, substeps=6, seconds=0.3):
    """Return (model, rollout) of a block that touches the plane at 0.08 s and leaves it by 0.2
    s."""
    robot = block(
        dim,
        origin=(0.0,) * (dim - 1) + (0.06,),
        contacts=[pl.Contact(obstacle=pl.plane(np.eye(dim)[-1]), kind=kind, friction=friction)],
    )
    model = pl.MaterialPoint(
        robot, dt=0.02, cell=0.025, substeps=substeps, design=["contact0.friction"]
    )
    x0 = model.state(model.body.rest, np.tile(velocity, model.body.n_particles))
    return model, pl.simulate(model, np.zeros((round(seconds / 0.02), 0)), x0=x0, keep=True)


def slopes(model, rollout, part, axis):
    """Return the gradient of the final mean position or velocity along an axis.

    It is taken by the initial positions (n, dim), velocities (n, dim) and friction."""
    bar, n = np.zeros(model.space.size), model.space.n_dofs
    start = {"position": 0, "velocity": n}[part]
    bar[start + axis : start + n : model.dim] = masses(model) / masses(model).sum()
    by_x, _, by_p = pl.pullback(model, rollout, bar)
    return *tables(model, by_x)[:2], by_p[0]


def mean_velocity(model, rollout):
    return momentum(model, rollout.states[-1]) / masses(model).sum()


@every_dim
@pytest.mark.parametrize("kind", ["slip", "separate"])
def test_frictionless_wall_does_not_change_tangential_gradients(dim, kind):
    """The wall does not change the tangential momentum, so x(T) = x(0) + v T for the mean position.

    The gradient by each particle's position is its mass fraction, by its velocity that fraction
    times T. The gradient by normal components is zero."""
    model, rollout = thrown(dim, [0.3, *(dim - 2) * [0.1], -0.5], kind=kind)
    assert mean_velocity(model, rollout)[-1] > 0.3  # the block rebounded
    share = masses(model) / masses(model).sum()
    for axis in range(dim - 1):
        places, velocities, _ = slopes(model, rollout, "position", axis)
        expected = np.zeros_like(places)
        expected[:, axis] = share
        np.testing.assert_allclose(places, expected, atol=1e-13)
        np.testing.assert_allclose(velocities, 0.3 * expected, atol=1e-13)


@every_dim
@pytest.mark.parametrize(
    ("kind", "tolerance"), [("sticky", 1e-3), ("slip", 1e-3), ("separate", 0.03)]
)
def test_gradient_by_initial_height_is_minus_speed_ratio(dim, kind, tolerance):
    """A block that starts higher by d has the same motion d / v later: y(T; y0 + d) = y(T - d / v;
    y0).

    Therefore the gradient of the final height by the initial height is minus the final speed over
    v. It is between -1 (elastic rebound) and 0 (no rebound). The instant of contact inside a
    substep adds an error, and "separate" has a kink where a node separates."""
    model, rollout = thrown(dim, [*(dim - 1) * [0.0], -0.5], kind=kind, substeps=40)
    places, _, _ = slopes(model, rollout, "position", dim - 1)
    final = mean_velocity(model, rollout)[-1]
    assert places[:, -1].sum() == pytest.approx(-final / 0.5, rel=tolerance)
    assert 0.5 < final / 0.5 < 0.9


@every_dim
def test_gradient_before_contact_is_that_of_free_flight(dim):
    model, rollout = thrown(dim, [*(dim - 1) * [0.0], -0.5], seconds=0.04)
    places, velocities, _ = slopes(model, rollout, "position", dim - 1)
    assert places[:, -1].sum() == pytest.approx(1.0, rel=1e-12)
    assert velocities[:, -1].sum() == pytest.approx(0.04, rel=1e-12)


def test_gradient_of_sliding_bounce_satisfies_coulombs_law():
    """While every node slides, each normal impulse N has the tangential impulse -mu N.

    The mean velocities (u, w) before and (u', w') after contact satisfy u' - u = -mu (w' - w).
    Hence grad u' = grad u - mu (grad w' - grad w) and du'/dmu = -(w' - w) - mu dw'/dmu."""
    mu, before = 0.2, np.array([3.0, -0.5])
    model, rollout = thrown(2, before, friction=mu)
    after, share = mean_velocity(model, rollout), masses(model) / masses(model).sum()
    assert after[0] - before[0] == pytest.approx(-mu * (after[1] - before[1]), rel=1e-12)
    (x_along, v_along, mu_along), (x_normal, v_normal, mu_normal) = (
        slopes(model, rollout, "velocity", axis) for axis in range(2)
    )
    np.testing.assert_allclose(x_along, -mu * x_normal, atol=1e-12)
    assert np.abs(x_along).max() > 0.01
    np.testing.assert_allclose(v_along, np.outer(share, [1.0, mu]) - mu * v_normal, atol=1e-13)
    assert mu_along == pytest.approx(-(after[1] - before[1]) - mu * mu_normal, rel=1e-12)
    assert mu_along < -0.9


# The shape of a body


def console(length, height):
    return pl.Robot(
        shape=Rectangle(size=(length, height)),
        divisions=(4, 2),
        order=1,
        material=pl.Material(E=2e4, nu=0.3),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        thickness=0.3,
    )


def sag(length, height):
    """Return the mean height [m] after 0.08 s with a new mesh and new particles."""
    model = pl.MaterialPoint(console(length, height), dt=0.02, cell=0.0125, substeps=20)
    return tables(model, pl.simulate(model, np.zeros((4, 0))).states[-1])[0][:, 1].mean()


@pytest.mark.parametrize(("length", "height"), [(0.1, 0.04), (0.0987, 0.0412)])
def test_gradient_by_shape_parameters_matches_remeshing(length, height):
    """The chain is length -> vertices -> particle positions and volumes -> motion; the grid is
    fixed."""
    robot = console(length, height)
    model = pl.MaterialPoint(robot, dt=0.02, cell=0.0125, substeps=20, design=["cells.volume"])
    seeds, vertices = sample_particles(robot.mesh(), spacing=0.0125 / 2), robot.mesh().points
    points, volumes = displaced(seeds, vertices)
    x0, p = model.state(points.ravel()), 0.3 * volumes
    rollout = pl.simulate(model, np.zeros((4, 0)), x0=x0, p=p, keep=True)
    bar = np.zeros(model.space.size)
    bar[1 : model.space.n_dofs : 2] = 1.0 / model.body.n_particles
    by_x, _, by_p = pl.pullback(model, rollout, bar)
    by_vertices = displaced_vjp(seeds, vertices, tables(model, by_x)[0], 0.3 * by_p)
    found = [
        np.sum(by_vertices[:, axis] * vertices[:, axis]) / size
        for axis, size in enumerate((length, height))
    ]
    e = 1e-6
    by_length = (sag(length + e, height) - sag(length - e, height)) / (2 * e)
    by_height = (sag(length, height + e) - sag(length, height - e)) / (2 * e)
    np.testing.assert_allclose(found, [by_length, by_height], rtol=1e-6)
    assert by_length < -0.05  # a longer bar sags more


# Plans


def finger(**options):
    """Return the planning problem of a clamped bar with a muscle along its upper half."""
    muscle = Muscle(
        region=Rectangle(size=(0.1, 0.02), origin=(0.0, 0.02)), axis=(1, 0), limits=(0.0, 5e3)
    )
    robot = pl.Robot(
        shape=Rectangle(size=(0.1, 0.04)),
        divisions=(4, 2),
        order=1,
        material=pl.Material(E=3e4, nu=0.3),
        supports=[pl.Support(region="x-")],
        actuators={"muscle": muscle},
        effectors={"tip": pl.Effector(surface="x+")},
        damping=pl.Damping(mass=5.0),
    )
    model = pl.MaterialPoint(robot, dt=0.02, cell=0.02, **options)
    return Problem(
        model=model,
        steps=6,
        terms=[
            Goal(effector="tip", target=(0.1, 0.03), time=0.12, weight=1e6),
            Effort(weight=1e-6),
        ],
    )


@pytest.mark.parametrize("optimiser", ["lbfgs", "adam"])
def test_gradient_planner_reduces_the_cost(optimiser):
    problem = finger()
    plan = gradient(problem, optimiser=optimiser, rate=0.2, options=Options(iterations=12))
    assert plan.cost < 0.1 * plan.history[0].cost
    assert plan.limit_violation <= 1e-9
    tip = problem.model.effector_rows("tip") @ problem.model.space.position(plan.states[-1])
    assert tip[1] > 0.026
    assert plan.replay(problem.model, problem) == plan.cost


def test_memory_changes_neither_the_cost_nor_the_gradient():
    controls = np.linspace(1e3, 3e3, 6)[:, None]
    sweep, expected = cost_gradient(finger(), controls, "all")
    for checkpoints, memory in (("sqrt", None), (3e4, None), ("all", 6e4), ("sqrt", 1e9)):
        problem = finger(memory=memory)
        other, g = cost_gradient(problem, controls, checkpoints)
        assert other.cost == sweep.cost
        np.testing.assert_array_equal(g, expected)
        assert isinstance(checkpoints, str) or other.peak_bytes <= checkpoints
    e, f = 1.0, lambda u: cost_gradient(finger(), u, "all")[0].cost
    for k in (0, 3, 5):
        d = e * np.eye(6)[:, [k]]
        assert expected[k, 0] == pytest.approx(
            (f(controls + d) - f(controls - d)) / (2 * e), rel=1e-5
        )


def test_too_little_memory_raises_with_the_required_amount():
    with pytest.raises(InputError, match=r"give memory=\d+ or more"):
        gradient(finger(memory=100.0), options=Options(iterations=2))


def test_unstable_trial_has_infinite_cost_and_zero_gradient():
    problem = finger()
    wild = replace(
        problem,
        model=pl.MaterialPoint(
            replace(
                problem.model.robot,
                actuators={
                    "muscle": replace(problem.model.robot.actuators["muscle"], limits=(0.0, np.inf))
                },
            ),
            dt=0.02,
            cell=0.02,
        ),
    )
    sweep, g = cost_gradient(wild, np.full((6, 1), 1e7))
    assert sweep.cost == np.inf
    assert "step 0" in sweep.failed
    np.testing.assert_array_equal(g, 0.0)
