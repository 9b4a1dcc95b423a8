"""What gradients of particles are for: collisions in closed form, the shape of a body, and
plans."""

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


# Collisions: a block flies freely at a plane, without gravity, and away again


def thrown(dim, velocity, *, kind="separate", friction=0.0, substeps=6, seconds=0.3):
    """(model, rollout): it touches the plane at about 0.08 s and has left it at 0.2 s."""
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
    """The gradient of the final mean place or velocity along an axis by the initial places (n,
    dim), velocities (n, dim) and friction."""
    bar, n = np.zeros(model.space.size), model.space.n_dofs
    start = {"position": 0, "velocity": n}[part]
    bar[start + axis : start + n : model.dim] = masses(model) / masses(model).sum()
    by_x, _, by_p = pl.pullback(model, rollout, bar)
    return *tables(model, by_x)[:2], by_p[0]


def mean_velocity(model, rollout):
    return momentum(model, rollout.states[-1]) / masses(model).sum()


@every_dim
@pytest.mark.parametrize("kind", ["slip", "separate"])
def test_along_a_smooth_wall_a_push_is_carried_for_the_whole_time(dim, kind):
    """The wall takes no tangential momentum, whatever happens in the block, so x(T) = x(0) + v T:
    of the mean place the gradient by each particle's place is its share of the mass, by its
    velocity that share times T, and by what is normal to the wall zero."""
    model, rollout = thrown(dim, [0.3, *(dim - 2) * [0.1], -0.5], kind=kind)
    assert mean_velocity(model, rollout)[-1] > 0.3  # it did bounce
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
def test_who_starts_higher_arrives_later(dim, kind, tolerance):
    """Free flight at speed v is exact, so a block that starts d higher does all the same d / v
    later: y(T; y0 + d) = y(T - d / v; y0). The gradient of its final height by its initial one is
    minus its final speed over v; between -1 (an elastic bounce) and 0 (it stays). It is for
    substeps of any length but for where in a substep the touch falls; "separate" has a kink
    wherever a node lets go."""
    model, rollout = thrown(dim, [*(dim - 1) * [0.0], -0.5], kind=kind, substeps=40)
    places, _, _ = slopes(model, rollout, "position", dim - 1)
    final = mean_velocity(model, rollout)[-1]
    assert places[:, -1].sum() == pytest.approx(-final / 0.5, rel=tolerance)
    assert 0.5 < final / 0.5 < 0.9


@every_dim
def test_before_the_touch_the_gradient_is_that_of_flight(dim):
    model, rollout = thrown(dim, [*(dim - 1) * [0.0], -0.5], seconds=0.04)
    places, velocities, _ = slopes(model, rollout, "position", dim - 1)
    assert places[:, -1].sum() == pytest.approx(1.0, rel=1e-12)
    assert velocities[:, -1].sum() == pytest.approx(0.04, rel=1e-12)


def test_a_sliding_bounce_trades_momentum_by_coulombs_law():
    """While every node slides, each impulse N of the wall brings -mu N along it. So of the mean
    velocities (u, w) before and (u', w') after u' - u = -mu (w' - w), and grad u' = grad u - mu
    (grad w' - grad w) by all of the initial state, du'/dmu = -(w' - w) - mu dw'/dmu."""
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
    """[m] the mean height after 0.08 s, meshed and seeded anew."""
    model = pl.MaterialPoint(console(length, height), dt=0.02, cell=0.0125, substeps=20)
    return tables(model, pl.simulate(model, np.zeros((4, 0))).states[-1])[0][:, 1].mean()


@pytest.mark.parametrize(("length", "height"), [(0.1, 0.04), (0.0987, 0.0412)])
def test_the_gradient_by_a_shapes_parameters_is_that_of_meshing_anew(length, height):
    """Length -> vertices -> places and volumes of the particles -> motion, and back; the grid stays
    where it is."""
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
    assert by_length < -0.05  # a longer one sags further


# Plans


def finger(**options):
    """A clamped bar with a muscle along its upper half."""
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
def test_gradients_plan_a_motion(optimiser):
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


def test_too_little_memory_stops_a_plan_with_the_sentence():
    with pytest.raises(InputError, match=r"give memory=\d+ or more"):
        gradient(finger(memory=100.0), options=Options(iterations=2))


def test_a_trial_that_blows_up_is_a_failed_trial():
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
