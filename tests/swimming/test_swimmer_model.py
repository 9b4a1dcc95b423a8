"""Rigid links in potential flow: conservation laws, closed forms, orders and derivatives."""

import numba
import numpy as np
import pytest
from swimming_robots import POINTS, eel, run, single, start

from pliant.core import Batched, InputError, Linearizable, Refinable, StepError
from pliant.optimisation import ProblemObjective
from pliant.problem import Problem, StateGoal
from pliant.swimming import SwimmerModel, link_kernels


@pytest.fixture(scope="module")
def swimmer():
    return SwimmerModel(eel("spatial"), dt=0.02, cell=0.4, points=POINTS)


def rotation(q):
    out = np.empty((3, 3))
    link_kernels.rotation(q, out)
    return out


def spatial_momentum(model, x):
    """Return linear and angular momentum (6,) in the world's frame."""
    now = model.space.split(x)
    R = rotation(now.orientation)
    p = R @ now.momentum[:3]
    return np.concatenate([p, R @ now.momentum[3:6] + np.cross(now.root, p)])


@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("euler", 1)])
def test_momentum_and_energy_errors_have_the_order_of_the_method(method, order):
    errors = []
    for dt in (0.02, 0.01):
        model = SwimmerModel(eel("spatial", fluid_density=0.0), dt=dt, method=method)
        x = start(model)
        end = run(model, x, np.zeros(2), round(0.4 / dt))[-1]
        change = np.abs(spatial_momentum(model, end) - spatial_momentum(model, x)).max()
        errors.append((change, abs(model.energy(end) - model.energy(x))))
    rates = np.log2(np.array(errors[0]) / np.array(errors[1]))
    assert np.all(np.abs(rates - order) < 0.5), rates


def test_momentum_and_energy_of_body_and_fluid_are_conserved():
    """The interpolated added mass conserves energy, because forces are its exact derivative."""
    model = SwimmerModel(eel("spatial"), dt=0.005, cell=0.4, points=POINTS)
    x = start(model)
    end = run(model, x, np.zeros(2), 60)[-1]
    before, after = spatial_momentum(model, x), spatial_momentum(model, end)
    assert np.abs(after - before).max() < 1e-7 * np.abs(before).max()
    assert model.energy(end) == pytest.approx(model.energy(x), rel=1e-7)


def test_centre_of_mass_stays_without_fluid():
    model = SwimmerModel(eel("spatial", fluid_density=0.0), dt=0.02)
    states = run(model, model.initial_state(), np.array([0.006, -0.004]), 20)
    centres = np.array([model.effector("centre of mass", x)[0] for x in states])
    moved = np.array([model.effector("tip", x)[0] for x in states])
    assert np.abs(centres - centres[0]).max() < 1e-6
    assert np.abs(moved - moved[0]).max() > 5e-3


def test_free_fall_without_fluid():
    model = SwimmerModel(eel(fluid_density=0.0, gravity=(0.0, 0.0, -9.81)), dt=0.02)
    states = run(model, model.initial_state(), np.zeros(2), 25)
    fall = (
        model.effector("centre of mass", states[-1])[0]
        - model.effector("centre of mass", states[0])[0]
    )
    np.testing.assert_allclose(fall, (0.0, 0.0, -0.5 * 9.81 * 0.5**2), atol=1e-9)


def test_light_sphere_rises_with_the_acceleration_of_its_added_mass():
    robot = single((0.1, 0.1, 0.1), density=300.0, gravity=(0.0, 0.0, -9.81))
    model = SwimmerModel(robot, dt=0.01)
    end = run(model, model.initial_state(), np.zeros(0), 10)[-1]
    acceleration = (1000.0 - 300.0) / (300.0 + 500.0) * 9.81
    rise = model.effector("root", end)[0, 2]
    assert rise == pytest.approx(0.5 * acceleration * 0.1**2, rel=1e-3)


def test_neutrally_buoyant_robot_stays_at_rest_under_gravity():
    model = SwimmerModel(eel(gravity=(1.0, -2.0, -9.0)), dt=0.02, cell=0.4, points=POINTS)
    states = run(model, model.initial_state(), np.zeros(2), 10)
    assert np.abs(states - states[0]).max() < 1e-10


def test_several_full_turns_have_the_right_angle():
    """A symmetric body spins about its axis with constant speed, without a singularity."""
    model = SwimmerModel(single((0.1, 0.1, 0.04), density=500.0, fluid_density=0.0), dt=0.01)
    speed = 2.0 * np.pi * 5.0  # five turns in a second
    x = model.state(velocities=(0, 0, 0, 0, 0, speed))
    states = run(model, x, np.zeros(0), 100)
    for k in (13, 37, 50, 88, 100):
        R = rotation(model.space.split(states[k]).orientation)
        angle = speed * 0.01 * k
        np.testing.assert_allclose(R[:2, 0], (np.cos(angle), np.sin(angle)), atol=2e-4)


def test_ellipsoid_in_fluid_turns_its_broad_side_to_the_flow():
    """Munk's moment (m_y - m_x) v_x v_y acts on a translating ellipsoid [Lamb, section 126]."""
    model = SwimmerModel(single((0.2, 0.1, 0.1), density=1000.0), dt=1e-4)
    v = np.array([0.3, 0.2, 0.0])
    x = model.state(velocities=(*v, 0, 0, 0))
    M = model.mass_matrix(np.zeros(0))
    spin = model.velocities(model.step(x, np.zeros(0)).x)[5] / 1e-4
    assert spin == pytest.approx((M[0, 0] - M[1, 1]) * v[0] * v[1] / M[5, 5], rel=1e-3)


def test_stops_hold_a_hinge_near_its_limit(swimmer):
    states = run(swimmer, swimmer.initial_state(), np.array([0.05, 0.0]), 150)
    angles = np.array([swimmer.space.split(x).angles[0] for x in states])
    assert 0.8 < angles.max() < 1.0


@pytest.mark.parametrize("kind", ["interpolated", "exact"])
@pytest.mark.parametrize("method", ["rk4", "euler"])
def test_jacobian_of_a_step_matches_differences(kind, method):
    robot = eel("spatial", gravity=(0.3, 0.0, -1.0), density=900.0)
    model = SwimmerModel(robot, dt=0.02, cell=0.4, points=30, method=method)
    model = model if kind == "interpolated" else model.exact()
    x, u = start(model), np.array([0.02, -0.01])
    lin = model.linearize(model.step(x, u))
    rng = np.random.default_rng(0)
    dx, du, h = rng.standard_normal(len(x)), rng.standard_normal(2), 1e-5
    change = model.step(x + h * dx, u + h * du).x - model.step(x - h * dx, u - h * du).x
    tolerance = 1e-7 if kind == "interpolated" else 1e-5  # second derivatives are differences
    np.testing.assert_allclose(lin.jvp(dx, du), change / (2.0 * h), rtol=tolerance, atol=tolerance)
    bar = rng.standard_normal(len(x))
    x_bar, u_bar, _ = lin.vjp(bar)
    assert bar @ lin.jvp(dx, du) == pytest.approx(x_bar @ dx + u_bar @ du, rel=1e-12)


def test_jacobians_add_missing_cells_and_refuse_failed_steps():
    model = SwimmerModel(eel(), dt=0.02, cell=0.4, points=60)
    x, u = start(model)[None], np.zeros((1, 2))
    fresh = model.refined().jacobians(x, u)
    other = model.refined()
    other.step(x[0], u[0])
    np.testing.assert_array_equal(fresh, other.jacobians(x, u))
    fast = model.state(angles=(0.95, 0.0), velocities=(0, 0, 0, 0, 0, 0, 20.0, 0))
    with pytest.raises(StepError, match="joint 0"):
        model.jacobians(fast[None], u)


def test_parameters_are_refused_because_there_are_none(swimmer):
    with pytest.raises(InputError, match="shape"):
        swimmer.step(swimmer.initial_state(), np.zeros(2), np.ones(5))


def test_batch_is_bit_identical_to_single_steps_for_any_number_of_threads(swimmer):
    rng = np.random.default_rng(1)
    x = np.array([start(swimmer, scale) for scale in rng.uniform(0.0, 0.4, 40)])
    u = rng.uniform(-0.05, 0.05, (40, 2))
    alone = np.array([swimmer.step(a, b).x for a, b in zip(x, u, strict=True)])
    threads = numba.get_num_threads()
    try:
        for count in {1, threads}:
            numba.set_num_threads(count)
            batch = swimmer.step_many(x, u)
            assert all(batch.statuses)
            assert np.array_equal(batch.x, alone)
    finally:
        numba.set_num_threads(threads)


def test_cells_do_not_depend_on_the_order_of_the_batch():
    x = np.linspace(-0.6, 0.6, 9)
    ends = []
    for order in (slice(None), slice(None, None, -1)):
        model = SwimmerModel(eel(), dt=0.02, cell=0.3, points=30)
        states = np.array([model.state(angles=(a, 0.5 * a)) for a in x])[order]
        ends.append(model.step_many(states, np.zeros((9, 2))).x[order])
    assert np.array_equal(*ends)


def test_interpolated_steps_converge_to_the_exact_step_with_order_four():
    model = SwimmerModel(eel(), dt=0.02, cell=0.4, points=30)
    x, u = model.state(angles=(0.31, -0.17), velocities=0.3 * np.ones(8)), np.array([0.02, 0.01])
    exact, errors = model.exact().step(x, u).x, []
    for _ in range(3):
        errors.append(np.linalg.norm(model.step(x, u).x - exact))
        model = model.refined()
    rates = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert rates.mean() > 3.0, errors


def test_model_has_the_protocols_of_planning_and_refinement(swimmer):
    assert isinstance(swimmer, Linearizable)
    assert isinstance(swimmer, Refinable)
    assert isinstance(swimmer, Batched)
    before = swimmer.queries
    swimmer.step(swimmer.initial_state(), np.zeros(2))
    assert swimmer.queries == before + 4


def test_hinge_fails_far_beyond_its_limit():
    robot = eel()
    model = SwimmerModel(robot, dt=0.02, cell=0.4, points=30)
    x = model.state(angles=(0.95, 0.0), velocities=(0, 0, 0, 0, 0, 0, 20.0, 0))
    step = model.step(x, np.zeros(2))
    assert not step.status
    assert "joint 0" in step.status.text


def test_state_that_is_not_finite_fails():
    model = SwimmerModel(eel(fluid_density=0.0), dt=1.0)
    x = model.initial_state()
    x[-3:] = 1e200
    assert "finite" in model.step(x, np.zeros(2)).status.text


BAD = {
    "no robot": (lambda: SwimmerModel(5, dt=0.01), "robot"),
    "negative dt": (lambda: SwimmerModel(eel(fluid_density=0.0), dt=-1.0), "dt"),
    "method": (lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1, method="rk5"), "rk4"),
    "cell": (lambda: SwimmerModel(eel(), dt=0.1, cell=-0.1), "cell"),
    "angles": (lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1, angles=(1.0,)), "angles"),
    "too few points": (lambda: SwimmerModel(eel(), dt=0.02, points=3), "12 to 20,000"),
    "large cell": (lambda: SwimmerModel(eel(), dt=0.02, cell=100.0, points=60), "joint 0"),
    "start beyond the stops": (
        lambda: SwimmerModel(eel(), dt=0.02, points=60, angles=(0.0, 9.0)),
        "'joint 1' is 9 rad",
    ),
    "exact surrogate": (
        lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1).surrogate,
        "no surrogate",
    ),
    "effector": (
        lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1).effector_rows("tipp"),
        "'tip'",
    ),
    "control": (
        lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1).step(np.zeros(3), np.zeros(2)),
        "state",
    ),
    "zero quaternion": (
        lambda: SwimmerModel(eel(fluid_density=0.0), dt=0.1).state(orientation=(0, 0, 0, 0)),
        "quaternion",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_raise_input_errors(case):
    make, text = BAD[case]
    with pytest.raises(InputError, match=text):
        make()


@pytest.mark.parametrize("names", [["initial.orientation"], ["initial"]])
def test_gradient_by_an_initial_orientation_passes_taylor_test(names):
    """A quaternion changes by a rotation vector, also away from the start."""
    model = SwimmerModel(eel("spatial", fluid_density=0.0), dt=0.02)
    x0 = start(model)
    problem = Problem(
        model=model,
        steps=3,
        x0=x0,
        terms=[StateGoal(target=x0 + 0.1, time=0.06)],
        variables=names,
    )
    objective = ProblemObjective(problem)
    rng = np.random.default_rng(0)
    z = objective.start + 0.01 * rng.standard_normal(len(objective.start))
    rotated = ProblemObjective(problem).layout.values(z)[names[0]]
    if names == ["initial.orientation"]:
        assert np.linalg.norm(rotated) == pytest.approx(1.0, abs=1e-12)
    found, d = objective.gradient(z), rng.standard_normal(len(z))
    errors = [
        abs(objective.value(z + e * d).value - found.value - e * found.gradient @ d)
        for e in (2e-3, 1e-3)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    rows = objective.jacobian(z)
    np.testing.assert_allclose(rows.jacobian.T @ rows.residuals, found.gradient, atol=1e-9)
