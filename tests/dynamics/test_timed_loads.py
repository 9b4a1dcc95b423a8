"""Time-dependent loads: every rule evaluates them at the end of the step."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.dynamics.residual import ImplicitResidual
from pliant.dynamics.simulation import pullback

H, STEPS, MASS = 0.02, 12, 0.3  # [s], [-], [kg]


def wind(t):
    return np.array([0.4 * np.sin(7.0 * t), 0.1 - 0.6 * t**2])  # [N]


def ball(*loads):
    """Return a point mass in the plane at rest, driven by loads only."""
    return pl.Robot(shape=pl.PointMass(points=np.zeros((1, 2)), mass_each=MASS), loads=loads)


def beam(**options):
    """Return a short soft beam in the plane, held at its left end."""
    default = {
        "shape": pl.geometry.Rectangle(size=(0.1, 0.02)),
        "divisions": (5, 1),
        "order": 1,
        "gravity": (0.0, -9.81),
        "material": pl.Material(E=1e5, nu=0.3),
        "supports": [pl.Support(region="x-")],
        "thickness": 0.02,
        "effectors": {"tip": pl.Effector(point=(0.1, 0.01))},
    }
    return pl.Robot(**{**default, **options})


def run(model, steps=STEPS):
    return pl.simulate(model, np.zeros((steps, model.n_controls))).states


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.SemiImplicit])
def test_point_mass_gains_the_sum_of_impulses(rule):
    model = rule(ball(pl.PointLoad(point=np.zeros(2), force=wind)), dt=H)
    velocity = np.cumsum([H * wind((k + 1) * H) / MASS for k in range(STEPS)], axis=0)
    place = np.cumsum(H * velocity, axis=0)
    np.testing.assert_allclose(run(model)[1:], np.hstack([place, velocity]), rtol=0.0, atol=1e-13)


def test_bdf2_uses_load_at_end_of_step_and_has_second_order():
    """The new acceleration is exactly f(t_end)/m, and the error decreases by four when the step is
    halved."""
    model = pl.BDF2(ball(pl.PointLoad(point=np.zeros(2), force=wind)), dt=H)
    states, c = run(model), np.array([2.0, -5.0, 4.0, -1.0]) / H**2
    new, old = states[1:, :2], states[:-1].reshape(STEPS, 3, 2)
    acceleration = c[0] * new + np.einsum("j,kji->ki", c[1:], old)
    np.testing.assert_allclose(
        acceleration, [wind((k + 1) * H) / MASS for k in range(STEPS)], rtol=0.0, atol=1e-10
    )
    miss = []
    for steps in (20, 40, 80):
        h = 1.0 / steps
        fine = pl.BDF2(
            ball(pl.PointLoad(point=np.zeros(2), force=lambda t: np.array([6.0 * MASS * t, 0.0]))),
            dt=h,
        )
        x0 = fine.state(np.zeros(2))
        miss.append(
            abs(pl.simulate(fine, np.zeros((steps, 0)), x0=x0).states[-1, 0] - 1.0)
        )  # x = t^3
    assert np.all(np.log2(np.array(miss[:-1]) / miss[1:]) > 1.8)


def test_quasistatic_body_follows_its_load_and_equilibrium_is_at_time_zero():
    pull = lambda t: np.array([0.0, 0.002 * (1.0 + t)])
    model = pl.Quasistatic(beam(loads=[pl.PointLoad(point=(0.1, 0.01), force=pull)]))
    fixed = lambda t: pl.Quasistatic(beam(loads=[pl.PointLoad(point=(0.1, 0.01), force=pull(t))]))
    x0 = model.initial_state()
    for k in (0, 3):
        np.testing.assert_array_equal(
            model.step(x0, np.zeros(0), None, k).x, fixed(k + 1.0).step(x0, np.zeros(0)).x
        )
    np.testing.assert_array_equal(
        pl.equilibrium(model, np.zeros(0)).x, pl.equilibrium(fixed(0.0), np.zeros(0)).x
    )


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit])
def test_time_dependent_traction_is_evaluated_at_end_of_step(rule):
    traction = lambda t: np.array([50.0 * t, -200.0 * np.cos(30.0 * t)])
    model = rule(beam(loads=[pl.SurfaceLoad(surface="x+", traction=traction)]), dt=H)
    x = model.initial_state()
    for k in range(4):
        fixed = rule(
            beam(loads=[pl.SurfaceLoad(surface="x+", traction=traction((k + 1) * H))]), dt=H
        )
        step = model.step(x, np.zeros(0), None, k)
        np.testing.assert_array_equal(step.x, fixed.step(x, np.zeros(0)).x)
        x = step.x


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit])
def test_simulation_gradient_uses_the_load_of_each_step(rule):
    """Compare with finite differences by the density, which changes the motion but not the
    loads."""
    robot = beam(
        loads=[
            pl.PointLoad(
                point=(0.1, 0.01), force=lambda t: np.array([0.0, 0.05 * np.sin(40.0 * t)])
            )
        ]
    )
    model = rule(robot, dt=H, design=["body.density"])
    p, bar = model.params.flat, np.random.default_rng(0).standard_normal(model.space.size)
    run = lambda p: pl.simulate(model, np.zeros((5, 0)), p=p, keep=True)
    slope = pullback(model, run(p), bar)[2]
    ends = [bar @ run(p + side * np.array([1e-2])).states[-1] for side in (1.0, -1.0)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-2, rtol=1e-5)


def test_residual_depends_on_the_step_index():
    model = pl.ImplicitEuler(
        beam(loads=[pl.PointLoad(point=(0.1, 0.01), force=lambda t: np.array([t, 0.5]))]), dt=H
    )
    x, residual = model.initial_state(), ImplicitResidual(model=model)
    step = model.step(x, np.zeros(0), None, 7)
    q = model.space.position(step.x)
    g, scale = residual.force(q, x, np.zeros(0), 7)
    assert np.abs(g).max() <= 1e-9 * scale
    late = residual.force(q, x, np.zeros(0), 8)[0] - g
    free = model.equations.free
    want = -H * model.robot.loads[0].unit_forces(model.robot.body())[:, 0]
    np.testing.assert_allclose(late, want[free], atol=1e-12)


def test_constant_load_reuses_the_coefficients():
    """If nothing changes in time, all steps share the same coefficients."""
    eq = pl.ImplicitEuler(
        beam(loads=[pl.PointLoad(point=(0.1, 0.01), force=(0.0, 0.1))]), dt=H
    ).equations
    assert eq.coefficients(None, 0.0) is eq.coefficients(None, 1.0)


@pytest.mark.parametrize(
    ("force", "said"),
    [
        (lambda t: np.zeros(3), r"point load at t = 0 s.*shape \(3,\)"),
        (lambda t: np.array([np.nan, 0.0]), r"point load at t = 0 s"),
    ],
)
def test_invalid_load_function_is_rejected_at_construction(force, said):
    with pytest.raises(pl.InputError, match=said):
        pl.ImplicitEuler(ball(pl.PointLoad(point=np.zeros(2), force=force)), dt=H)


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.SemiImplicit])
def test_load_function_error_reports_the_time(rule):
    model = rule(
        ball(
            pl.PointLoad(
                point=np.zeros(2), force=lambda t: np.array([0.0, 1.0 if t < 0.05 else np.inf])
            )
        ),
        dt=H,
    )
    with pytest.raises(pl.InputError, match=r"force of a point load at t = 0\.06 s"):
        run(model)


def test_latent_models_and_particles_reject_time_dependent_loads():
    robot = replace(
        pl.robots.plane_arm(layers=4, across=2),
        loads=[pl.PointLoad(point=(0.0, 0.2), force=lambda t: np.zeros(2))],
    )
    with pytest.raises(pl.InputError, match="changes in time"):
        pl.Latent(robot, dt=0.1, cell=5.0)
    with pytest.raises(pl.InputError, match="changes in time"):
        pl.MaterialPoint(robot, dt=0.01, cell=0.01)
