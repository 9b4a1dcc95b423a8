"""Latent dynamics: the projected step, its shapes and their derivatives, and the effect of the
surrogate's error."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, Refinable, StepError, StepErrorEstimating
from pliant.dynamics import corrected_equilibria
from pliant.dynamics.equilibrium_manifold import ExactManifold, InterpolatedManifold
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.dynamics.latent import Latent
from pliant.surrogate import Chebyshev, Sample, Tree

DT = 0.02
CONTROLS = np.array([3.0, 1.0, 0.5, 0.2])


@pytest.fixture(scope="module")
def arm():
    return pl.robots.line_arm(layers=8, across=2)


@pytest.fixture(scope="module")
def shapes(arm):
    return EquilibriumMap(robot=arm)


@pytest.fixture(scope="module")
def exact(shapes):
    return Latent.on_manifold(ExactManifold(shapes), dt=DT, start=np.zeros(4))


def plane(**options):
    return replace(pl.robots.plane_arm(layers=12, across=3), **options)


# Shapes


def test_shape_is_equilibrium_under_its_controls(arm, shapes):
    q, _, note = shapes(CONTROLS, None)
    step = pl.equilibrium(pl.Quasistatic(arm), CONTROLS)
    np.testing.assert_allclose(q, step.x, atol=1e-9)
    assert note == ""


def test_negative_tension_bends_the_arm_to_the_other_side(shapes):
    tip = shapes.effectors[:3]
    sides = [
        tip @ (shapes(np.array([t, 0.0, 0.0, 0.0]), None)[0] - shapes.home.value)
        for t in (0.5, -0.5)
    ]
    assert sides[0][0] < -1e-3 < 1e-3 < sides[1][0]


def test_shape_derivatives_match_finite_differences(shapes):
    q, J, _ = shapes(CONTROLS, None)
    near, h = Sample(point=CONTROLS, value=q, slope=J), 1e-3
    bent = shapes.curvatures(CONTROLS, q, J)
    pairs = [(i, j) for i in range(4) for j in range(i, 4)]
    for i, e in enumerate(np.eye(4)):
        ahead, behind = (shapes(CONTROLS + side * h * e, near) for side in (1.0, -1.0))
        np.testing.assert_allclose(
            (ahead[0] - behind[0]) / (2 * h), J[:, i], atol=1e-5 * np.abs(J).max()
        )
        for k, pair in enumerate(pairs):
            if i in pair:
                j = pair[0] if pair[1] == i else pair[1]
                np.testing.assert_allclose(
                    (ahead[1] - behind[1])[:, j] / (2 * h), bent[k], atol=1e-4 * np.abs(bent).max()
                )


@pytest.mark.parametrize("damping", [pl.Damping(mass=0.5, stiffness=0.004), pl.Damping()])
def test_interpolated_quantities_have_correct_derivatives(damping):
    shapes = EquilibriumMap(robot=plane(damping=damping))
    rng, q = np.random.default_rng(0), shapes.home.value
    dq, other, bent = 1e-3 * rng.standard_normal((3, q.size))
    path = lambda t, s: shapes.lifted(q + t * dq + s * other + t * s * bent)
    slope = shapes.lift(q, dq[:, None])[1][:, 0]
    np.testing.assert_allclose(
        (path(1e-4, 0) - path(-1e-4, 0)) / 2e-4, slope, atol=1e-6 * np.abs(slope).max()
    )
    h = 1e-2
    mixed = (path(h, h) - path(h, -h) - path(-h, h) + path(-h, -h)) / (4 * h * h)
    found = shapes.lifted_curvature(q, dq, other, bent)
    np.testing.assert_allclose(mixed, found, atol=1e-4 * np.abs(found).max())
    assert (shapes.parts[1].stop > shapes.parts[1].start) == (damping.stiffness > 0.0)


def test_key_depends_on_the_mechanics_only(arm):
    key = EquilibriumMap(robot=arm).key
    assert EquilibriumMap(robot=pl.robots.line_arm(layers=8, across=2)).key == key
    wall = pl.Contact(obstacle=pl.plane((-1.0, 0.0, 0.0), height=-0.06))
    wall_nearer = pl.Contact(obstacle=pl.plane((-1.0, 0.0, 0.0), height=-0.05))
    others = [
        replace(arm, contacts=(wall,)),
        replace(arm, contacts=(wall_nearer,)),
        replace(arm, gravity=np.array([0.0, 0.0, -9.8])),
        pl.robots.line_arm(layers=8, across=2, soft=2.01e5),
        replace(arm, loads=(pl.PointLoad(point=(0.0, 0.0, 0.2), force=(0.01, 0.0, 0.0)),)),
        pl.robots.line_arm(layers=12, across=2),
    ]
    assert len({key, *(EquilibriumMap(robot=other).key for other in others)}) == 7


def slender():
    """Return a slender column under a dead load at its top.

    Beyond Euler's load it buckles to either side."""
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.02, 0.4)),
        divisions=(2, 40),
        thickness=0.02,
        order=2,
        material=pl.Material(E=1e5, nu=0.3),
        supports=[pl.Support(region="y-")],
        actuators={"push": pl.actuators.Thrust(point=(0.01, 0.4))},
        effectors={"top": pl.Effector(point=(0.01, 0.4))},
    )


def test_jump_to_another_branch_is_reported():
    """The buckled column is pushed to the other side. It snaps through at a limit point, which no
    small stage can follow."""
    shapes = EquilibriumMap(robot=slender())
    critical = np.pi**2 * 1e5 / (1 - 0.3**2) * 0.02**4 / 12 / (4 * 0.4**2)
    q, J, note = shapes(np.array([0.02 * critical, -1.6 * critical]), None)
    assert note == ""
    start = Sample(point=np.array([0.02 * critical, -1.6 * critical]), value=q, slope=J)
    assert shapes.effectors[0] @ q > 0.1
    over, _, note = shapes(np.array([-0.8 * critical, -1.6 * critical]), start)
    assert "jumped to another branch" in note
    assert shapes.effectors[0] @ over < -0.1


def test_corners_on_different_branches_warn():
    """All corners of the first cell start from the straight column and buckle to different
    sides."""
    critical = np.pi**2 * 1e5 / (1 - 0.3**2) * 0.02**4 / 12 / (4 * 0.4**2)
    model = pl.Latent(
        slender(),
        dt=DT,
        cell=[0.1 * critical, 0.4 * critical],
        start=[0.0, -1.6 * critical],
        workers=1,
    )
    model.initial_state()
    tops = [
        s.value @ model.manifold.equilibrium_map.effectors[0].toarray()[0]
        for s in model.surrogate.corners.samples.values()
    ]
    assert min(tops) < 0.0 < max(tops)
    assert any("different branches" in doubt for doubt in model.surrogate.warnings)


# The step


def test_latent_residual_is_projected_residual_of_all_nodes(arm, exact):
    """The residual is J^T times that of ImplicitEuler at interpolated shapes, with gravity, both
    kinds of damping and all cables."""
    full, u = pl.ImplicitEuler(arm, dt=DT), np.array([5.0, 0.5, 0.0, 1.0])
    new, last, older = CONTROLS + 0.2, CONTROLS, CONTROLS - np.array([0.2, -0.1, 0.05, 0.0])
    g, slope, _ = exact._residual(new, u, *exact._past(last, older))
    q = [exact.manifold.positions(a) for a in (new, last, older)]
    x = full.state(q[1], (q[1] - q[2]) / DT)
    force = full.forces(full.tape_at(full.equations.coefficients(None), x, u, q[0]))[1]
    np.testing.assert_allclose(
        g, exact.manifold._sample(new).slope.T @ force, rtol=1e-8, atol=1e-12
    )
    h = 1e-3
    for i, e in enumerate(np.eye(4)):
        ahead, behind = (
            exact._residual(new + side * h * e, u, *exact._past(last, older))[0]
            for side in (1.0, -1.0)
        )
        np.testing.assert_allclose(
            (ahead - behind) / (2 * h), slope[:, i], atol=1e-5 * np.abs(slope).max()
        )


def test_latent_model_at_rest_stays_at_rest(exact):
    x = exact.state(CONTROLS)
    np.testing.assert_allclose(exact.step(x, CONTROLS).x, x, atol=1e-9)


def test_slow_motion_follows_equilibria_of_full_model(arm):
    """For large dt inertia vanishes, and both models reach the same equilibrium."""
    model = pl.Latent(arm, dt=10.0, cell=2.0)
    x = model.initial_state()
    for _ in range(3):
        x = model.step(x, CONTROLS).x
    np.testing.assert_allclose(model.space.split(x).latent, CONTROLS, atol=1e-3)
    tip = arm.effector_position("laser", pl.equilibrium(pl.Quasistatic(arm), CONTROLS).x)
    np.testing.assert_allclose(
        model.effector_rows("laser") @ model.space.position(x), tip, atol=2e-5
    )


def test_exact_steps_have_exact_derivatives(exact):
    checks = pl.gradcheck(exact, exact.state(CONTROLS), CONTROLS + 0.5)
    assert all(check.ok for check in checks), checks


def test_step_error_decreases_with_fourth_power_of_cell(arm, exact):
    x, u = exact.state(CONTROLS), CONTROLS + np.array([0.5, 0.0, -0.3, 0.2])
    true, errors = exact.positions(exact.step(x, u).x), []
    for cell in (4.0, 2.0, 1.0):
        model = pl.Latent(arm, dt=DT, cell=cell, start=CONTROLS, compress=1e-10)
        errors.append(
            np.linalg.norm(model.positions(model.step(model.initial_state(), u).x) - true)
        )
    assert 3.3 <= np.log2(errors[0] / errors[2]) / 2 <= 4.7, errors


def test_compression_error_is_below_its_tolerance(arm):
    ends = []
    for compress in (1e-10, 1e-6):
        model = pl.Latent(arm, dt=DT, cell=3.0, compress=compress)
        ends.append(model.positions(model.step(model.initial_state(), CONTROLS).x))
        ends.append(model.surrogate.corners.size)
    assert ends[3] < ends[1]
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-6)


def test_larger_basis_does_not_change_results(arm):
    """Repeated queries give the same result, although later corners extend the basis."""
    model = pl.Latent(arm, dt=DT, cell=3.0)
    x = model.initial_state()
    first, size = model.step(x, CONTROLS).x, model.surrogate.corners.size
    model.state(np.array([8.0, 0.0, 6.0, 1.0]))
    assert model.surrogate.corners.size > size
    model.manifold.clear_cache()
    np.testing.assert_array_equal(model.step(x, CONTROLS).x, first)


@pytest.mark.parametrize(
    "make",
    [
        lambda corners: Tree(corners, cell=4.0, tolerance=1e-4),
        lambda corners: Chebyshev(corners, domain=(-4.0, 8.0), degree=7),
    ],
)
def test_other_surrogates_have_the_same_interface(make):
    robot, u = plane(), np.array([3.0, 1.0])
    exact = Latent.on_manifold(ExactManifold(EquilibriumMap(robot=robot)), dt=DT, start=np.zeros(2))
    model = pl.Latent(robot, dt=DT, surrogate=make)
    np.testing.assert_allclose(
        model.step(model.initial_state(), u).x, exact.step(exact.initial_state(), u).x, atol=2e-3
    )
    assert model.refined().surrogate.evaluations >= model.surrogate.evaluations
    assert all(check.ok for check in pl.gradcheck(model, model.state(u), u + 0.3))


# Errors estimated from residuals


@pytest.mark.parametrize("make", [pl.robots.line_arm, pl.robots.plane_arm])
@pytest.mark.parametrize("damping", [pl.Damping(mass=0.5, stiffness=0.004), pl.Damping()])
def test_estimated_step_errors_match_exact_steps(make, damping):
    """The estimate omits terms of second order only, so it meets errors of 1e-5 to a percent."""
    robot = replace(make(layers=8, across=2), damping=damping)
    u = np.array([3.0, 1.0, 0.5, 0.2])[: robot.n_controls]
    model = pl.Latent(robot, dt=DT, cell=4.0, start=0.3 * u, compress=1e-10)
    exact, estimate, x = model.exact(), model.step_error_estimator(), model.initial_state()
    for k in range(4):
        step = model.step(x, u, k=k)
        true = exact.step(x, u, k=k).x
        dx = model.positions(step.x) - exact.positions(true)
        dv = model.velocities(step.x) - exact.velocities(true)
        found = estimate(step)
        assert np.linalg.norm(found[0] - dx) < 0.02 * np.linalg.norm(dx)
        assert np.linalg.norm(found[1] - dv) < 0.02 * np.linalg.norm(dv)
        assert np.linalg.norm(dx) > 1e-7 * np.linalg.norm(exact.positions(true))
        x = step.x


def test_estimate_solves_no_equilibrium(arm, monkeypatch):
    model = pl.Latent(arm, dt=DT, cell=3.0)
    step, estimate = model.step(model.initial_state(), CONTROLS), model.step_error_estimator()

    def solved(self, a, near):
        raise AssertionError("an equilibrium was solved")

    monkeypatch.setattr(EquilibriumMap, "__call__", solved)
    assert np.linalg.norm(estimate(step)[0]) > 0.0


def test_correction_finds_the_equilibrium_with_its_slope(shapes):
    q, J, _ = shapes(CONTROLS, None)
    guess = shapes(CONTROLS + 0.05, None)[0]
    found, slope = corrected_equilibria.corrected_equilibrium(shapes, CONTROLS, guess)
    assert np.abs(found - q).max() < 1e-2 * np.abs(guess - q).max()
    np.testing.assert_allclose(slope, J, atol=1e-3 * np.abs(J).max())
    with pytest.raises(StepError, match=r"does not converge|no tangent stiffness"):
        corrected_equilibria.corrected_equilibrium(shapes, CONTROLS, 1.5 * shapes.home.value)


def test_latent_model_is_refinable_and_its_exact_model_is_not(arm):
    model = pl.Latent(arm, dt=DT, cell=3.0)
    assert isinstance(model, StepErrorEstimating)
    assert not isinstance(model.exact(), Refinable)
    with pytest.raises(InputError, match="no surrogate to refine"):
        _ = model.exact().surrogate


def test_velocities_are_differences_of_positions(arm):
    model = pl.Latent(arm, dt=DT, cell=3.0)
    x = model.initial_state()
    np.testing.assert_array_equal(model.velocities(x), 0.0)
    y = model.step(x, CONTROLS).x
    moved = model.positions(y) - model.positions(x)
    np.testing.assert_allclose(model.velocities(y), moved / DT, rtol=1e-12)
    full, z = model.replay_model(y)
    np.testing.assert_allclose(full.space.position(z), model.positions(y), atol=1e-12)
    np.testing.assert_allclose(full.space.velocity(z), model.velocities(y), atol=1e-9)


# Failures and bad input


def test_step_outside_the_domain_fails_with_a_reason(arm):
    model = pl.Latent(arm, dt=10.0, cell=3.0, domain=(-3.0, 4.0))
    step = model.step(model.initial_state(), np.full(4, 9.0))
    assert not step.status
    assert "outside the surrogate's domain" in step.status.text
    wider = model.with_manifold(
        InterpolatedManifold(model.manifold.equilibrium_map, model.surrogate.widened((-3.0, 12.0)))
    )
    assert wider.step(wider.initial_state(), np.full(4, 9.0)).status


def test_step_converges_if_its_guess_is_outside_the_domain(arm):
    """The extrapolated guess is outside the domain, but the solution is inside."""
    model = pl.Latent(plane(), dt=0.5, cell=3.0, domain=(-3.0, 4.0))
    x = model.state(np.array([3.9, 0.0]))
    x[-2:] = [3.5, 0.0]
    step = model.step(x, np.zeros(2))
    assert step.status, step.status.text
    assert model.space.split(step.x).latent[0] < 3.9


def test_dependent_controls_are_reported():
    line = pl.Cable(points=[[0.0, 0.05], [0.0, 0.15]], limits=(0.0, 10.0))
    model = pl.Latent(plane(actuators={"one": line, "two": line}), dt=DT, cell=2.0)
    step = model.step(model.initial_state(), np.array([1.0, 2.0]))
    assert "do not define one shape each" in step.status.text


def test_exceeded_budget_fails_the_step_without_exception(arm):
    model = pl.Latent(arm, dt=10.0, cell=2.0, budget=20)
    step = model.step(model.initial_state(), np.full(4, 15.0))
    assert "budget of 20 exact evaluations" in step.status.text


@pytest.mark.parametrize(
    ("robot", "says"),
    [
        (lambda: plane(actuators={}), "no actuators"),
        (
            lambda: plane(
                actuators={"line": pl.Cable(points=[[0.0, 0.05], [0.0, 0.15]], drive="length")}
            ),
            "not linear in its control",
        ),
        (
            lambda: plane(supports=[pl.Support(region="y-", motion=lambda t: np.array([t, 0.0]))]),
            "moves",
        ),
        (
            lambda: plane(
                contacts=[pl.Contact(obstacle=pl.plane((0.0, 1.0), height=-1.0), friction=0.5)]
            ),
            "friction",
        ),
        (lambda: "arm", "make one with pliant.Robot"),
    ],
)
def test_robots_without_an_equilibrium_map_are_rejected(robot, says):
    with pytest.raises(InputError, match=says):
        pl.Latent(robot(), dt=DT, cell=1.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cell": 0.0}, "Give a positive number"),
        ({"cell": [1.0, 1.0, 1.0]}, "shape"),
        ({"cell": 1.0, "start": [1.0]}, "first controls"),
        ({"cell": 1.0, "domain": (2.0, 1.0)}, "lower bound"),
        ({"cell": 1.0, "budget": 3}, "4 corners"),
        ({"cell": 1.0, "dt": -1.0}, "time step"),
        ({"cell": 1.0, "compress": 0.0}, "compression is 0"),
        ({"cell": 1.0, "compress": 1.0}, "compression is 1"),
        ({"cell": 1.0, "compress": float("nan")}, "compression is nan"),
        ({"cell": 1.0, "compress": "x"}, "compression is 'x'"),
        ({"cell": 1.0, "compress": None}, "must be compressed"),
        ({"cell": 1.0, "budget": "x"}, "integer number of exact evaluations"),
        ({"cell": 1.0, "workers": 0}, "number of workers"),
    ],
)
def test_invalid_options_are_rejected(options, says):
    with pytest.raises(InputError, match=says):
        pl.Latent(plane(), **{"dt": DT, **options})


def test_unlimited_controls_require_a_cell_size():
    with pytest.raises(InputError, match="the cell has no default"):
        pl.Latent(slender(), dt=DT)
