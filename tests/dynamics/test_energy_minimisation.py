"""Newton's method on a body: recovery from inverted states, barriers, and reported failures."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, StepError
from pliant.materials import LAWS

SIZE = (0.2, 0.1, 0.1)


def block(law="fixed-corotated", order=1, divisions=(4, 2, 2), nu=0.3, **parts):
    return pl.Robot(
        shape=pl.Box(size=SIZE),
        divisions=divisions,
        order=order,
        material=pl.Material(E=1e5, nu=nu, law=law),
        supports=(pl.Support(region="x-"),),
        **parts,
    )


def flattened(q, rng):
    """Return positions on one plane: all cells have zero volume."""
    return (q.reshape(-1, 3) * [1.0, 1.0, 0.0]).ravel()


def shaken(q, rng):
    """Return coordinates displaced by about half a cell, so that about half of the cells are
    inverted."""
    return q + 0.03 * rng.standard_normal(q.size)


def scrambled(q, rng):
    """Return random positions in the box."""
    low, high = q.reshape(-1, 3).min(axis=0), q.reshape(-1, 3).max(axis=0)
    return rng.uniform(low, high, (q.size // 3, 3)).ravel()


def ruined(model, ruin, seed):
    rest = model.equations.body.rest
    return model.state(
        np.where(model.equations.held, rest, ruin(rest, np.random.default_rng(seed)))
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("ruin", "seed"), [(flattened, 0), (shaken, 0), (shaken, 1), (shaken, 2)])
def test_fixed_corotated_recovers_its_rest_shape(ruin, seed, order):
    model = pl.Quasistatic(block(order=order, divisions=(2, 1, 1) if order == 2 else (4, 2, 2)))
    step = model.step(ruined(model, ruin, seed), np.zeros(0))
    assert step.status, step.status.text
    np.testing.assert_allclose(step.x, model.initial_state(), atol=1e-9 * SIZE[0])


@pytest.mark.parametrize("seed", range(3))
def test_fixed_corotated_recovers_its_rest_shape_from_random_positions(seed):
    """nu is 0: a large bulk stiffness adds inverted equilibria in which a body may remain."""
    model = pl.Quasistatic(block(nu=0.0))
    step = model.step(ruined(model, scrambled, seed), np.zeros(0))
    assert step.status, step.status.text
    np.testing.assert_allclose(step.x, model.initial_state(), atol=1e-9 * SIZE[0])


@pytest.mark.parametrize("ruin", [flattened, shaken, scrambled])
def test_fixed_corotated_recovers_in_motion_and_comes_to_rest(ruin):
    model = pl.ImplicitEuler(block(nu=0.0, damping=pl.Damping(mass=1.0, stiffness=0.05)), dt=0.05)
    x = ruined(model, ruin, 0)
    for _ in range(100):
        step = model.step(x, np.zeros(0))
        assert step.status, step.status.text
        x = step.x
    # Remaining displacements decay by the factor 1 + h / time = 2 per step.
    np.testing.assert_allclose(
        model.space.position(x), model.equations.body.rest, atol=1e-9 * SIZE[0]
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("order", [1, 2])
def test_damped_body_converges_to_rest_shape(law, order):
    """Newton's method must stop if all forces are round-off."""
    model = pl.ImplicitEuler(
        block(law, order, (2, 1, 1), damping=pl.Damping(mass=1.0, stiffness=0.05)), dt=0.05
    )
    x = model.state(
        model.equations.body.rest * np.tile([1.1, 1.0, 1.0], model.equations.n_dofs // 3)
    )
    for _ in range(80):
        step = model.step(x, np.zeros(0))
        assert step.status, step.status.text
        x = step.x
    np.testing.assert_allclose(
        model.space.position(x), model.equations.body.rest, atol=1e-9 * SIZE[0]
    )


@pytest.mark.parametrize(
    "rule",
    [
        pl.Quasistatic,
        lambda robot: pl.ImplicitEuler(robot, dt=0.01),
        lambda robot: pl.BDF2(robot, dt=0.01),
    ],
)
@pytest.mark.parametrize("ruin", [flattened, scrambled])
def test_inverted_start_of_a_barrier_law_is_reported(rule, ruin):
    model = rule(block("neo-hookean"))
    step = model.step(ruined(model, ruin, 0), np.zeros(0))
    assert not step.status
    assert "inverted" in step.status.text
    assert "fixed-corotated" in step.status.text
    assert np.all(np.isfinite(step.x))


def test_semi_implicit_step_of_an_inverted_body_is_reported(rng):
    model = pl.SemiImplicit(block("neo-hookean"), dt=0.01)
    step = model.step(model.state(scrambled(model.equations.body.rest, rng)), np.zeros(0))
    assert not step.status
    assert "ImplicitEuler" in step.status.text
    assert np.all(np.isfinite(step.x))


@pytest.mark.parametrize(("order", "speed"), [(1, 20.0), (2, 1.0)])
def test_no_accepted_step_of_a_barrier_law_is_inverted(rng, order, speed):
    """The nodes collide at 20 m/s, one cell per step, under fifty times the weight, which crushes
    the body."""
    robot = block("neo-hookean", order, (2, 1, 1), gravity=(-500.0, 0.0, -100.0))
    model = pl.ImplicitEuler(robot, dt=0.005)
    body, x, accepted = (
        robot.body(),
        model.state(robot.body().rest, speed * rng.standard_normal(robot.body().rest.size)),
        0,
    )
    for _ in range(15):
        step = model.step(x, np.zeros(0))
        assert np.all(np.isfinite(step.x))
        if not step.status:
            assert len(step.status.text) > 40
            break
        assert body.inadmissible_cell(model.space.position(step.x)) is None
        assert np.isfinite(body.energy(model.space.position(step.x), body.fields)[0])
        x, accepted = step.x, accepted + 1
    assert accepted >= 5


@pytest.mark.parametrize("divisions", [(10, 1, 1), (10, 2, 2)])
@pytest.mark.parametrize("force", 10.0 ** np.arange(-5, 2))
def test_small_load_converges_like_a_large_one(force, divisions):
    """The energy of a small load, from 1e-14 J, is below the round-off E V eps = 1e-12 J of the
    strain energy."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.5, 0.1, 0.1)),
        divisions=divisions,
        order=1,
        material=pl.Material(E=1e6, nu=0.0),
        supports=(pl.Support(region="x-"),),
        loads=(pl.SurfaceLoad(surface="x+", traction=(0, 0, -100 * force)),),
    )
    model = pl.Quasistatic(robot)
    step = model.step(model.initial_state(), np.zeros(0))
    assert step.status, step.status.text
    assert step.status.iterations < 10
    assert step.status.residual <= 1e-5 * force


def test_status_reports_residual_after_too_few_iterations():
    model = pl.Quasistatic(
        block(gravity=(0, 0, -50.0)), solver_options=pl.SolverOptions(iterations=1)
    )
    step = model.step(model.initial_state(), np.zeros(0))
    assert not step.status
    assert step.status.iterations == 1
    assert "did not converge in 1 iteration" in step.status.text
    assert "smaller stages" in step.status.text
    with pytest.raises(StepError, match="Step 0 failed: Newton did not converge"):
        pl.simulate(model, np.zeros((1, 0)))


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"tolerance": 2.0}, {"iterations": 0}])
def test_bad_options_are_rejected(options):
    with pytest.raises(InputError, match="Newton's tolerance"):
        pl.SolverOptions(**options)


def test_minimiser_does_not_depend_on_the_start(rng):
    """An arm under its weight has one equilibrium. Warm and cold starts converge to it within
    Newton's tolerance."""
    model = pl.Quasistatic(block("neo-hookean", gravity=(0, 0, -9.81)))
    cold = model.step(model.initial_state(), np.zeros(0))
    warm = model.step(cold.x + 1e-4 * rng.standard_normal(cold.x.size), np.zeros(0))
    again = model.step(cold.x, np.zeros(0))
    assert again.status.iterations <= 1
    sag = np.abs(cold.x - model.initial_state()).max()
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-7 * sag)


# Failures and remedies


def test_nearly_incompressible_equilibria_are_found_with_stages_of_poissons_ratio():
    """From the rest shape Newton's method does not find the equilibrium of nu = 0.49999 (order
    2)."""

    def bent(nu):
        robot = pl.Robot(
            shape=pl.Box(size=(0.04, 0.04, 0.12)),
            divisions=(1, 1, 3),
            material=pl.Material(E=1e5, nu=nu),
            supports=[pl.Support(region="z-")],
            loads=[pl.SurfaceLoad(surface="z+", traction=(4000.0, 0.0, 0.0))],
            effectors={"tip": pl.Effector(surface="z+")},
        )
        step = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0))
        return robot.effector_position("tip", step.x) - robot.effector_position(
            "tip", robot.body().rest
        )

    soft, stiff = bent(0.499), bent(0.49999)
    assert np.linalg.norm(stiff - soft) < 0.02 * np.linalg.norm(soft)
    assert 0.0 < stiff[0] < soft[0]


def test_load_without_equilibrium_is_not_attributed_to_poissons_ratio():
    model = pl.Quasistatic(
        block(nu=0.4999, loads=[pl.SurfaceLoad(surface="x+", traction=(0.0, 0.0, -1e9))])
    )
    with pytest.raises(StepError) as failed:
        pl.equilibrium(model, np.zeros(0))
    assert "load" in str(failed.value)
    assert "incompressible" not in str(failed.value)


def test_damping_advised_by_failed_step_makes_it_converge():
    """A suddenly tensioned cable crushes the body, and a smaller time step fails as well."""

    def pull(dt, damping):
        robot = pl.Robot(
            shape=pl.Box(size=(0.04, 0.04, 0.2)),
            divisions=(1, 1, 6),
            material=pl.Material(E=2e4, nu=0.45),
            supports=[pl.Support(region="z-")],
            gravity=(0.0, 0.0, -9.81),
            damping=damping,
            actuators={"line": pl.Cable(points=[(0.0, 0.02, z) for z in (0.0, 0.1, 0.2)])},
        )
        pl.simulate(pl.BDF2(robot, dt=dt), np.full((round(0.1 / dt), 1), 3.0))

    for dt in (0.02, 0.01):
        with pytest.raises(StepError, match=r"reduce the controls .* add Damping\(stiffness=") as e:
            pull(dt, pl.Damping())
        assert "time step" not in str(e.value)
    pull(0.02, pl.Damping(stiffness=0.01))
