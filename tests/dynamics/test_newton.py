"""Newton's method on a body: it recovers what can be recovered, keeps a barrier, and says why it stopped."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, StepError

SIZE = (0.2, 0.1, 0.1)


def block(law="fixed-corotated", order=1, divisions=(4, 2, 2), **parts):
    return pl.Robot(shape=pl.Box(size=SIZE), divisions=divisions, order=order, material=pl.Material(E=1e5, nu=0.35, law=law),
                    supports=(pl.Support(region="x-"),), **parts)  # fmt: skip


def flattened(q, rng):
    """Every point on one plane, shaken by a millionth so that it knows which side is up."""
    out = q.reshape(-1, 3) * [1.0, 1.0, 0.0]
    return (out + 1e-6 * rng.standard_normal(out.shape)).ravel()


def scrambled(q, rng):
    low, high = q.reshape(-1, 3).min(axis=0), q.reshape(-1, 3).max(axis=0)
    return rng.uniform(low, high, (q.size // 3, 3)).ravel()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("ruin", [flattened, scrambled])
def test_fixed_corotated_recovers_its_shape(rng, ruin, order):
    robot = block(order=order, divisions=(2, 1, 1) if order == 2 else (4, 2, 2), damping=pl.Damping(mass=1.0, stiffness=0.05))
    model = pl.ImplicitEuler(robot, dt=0.05)
    rest = robot.body().rest
    x = model.state(np.where(model.equations.held, rest, ruin(rest, rng)))
    for _ in range(200):
        step = model.step(x, np.zeros(0))
        assert step.status, step.status.text
        x = step.x
    assert np.abs(model.space.position(x) - rest).max() < 1e-6 * SIZE[0]


@pytest.mark.parametrize("rule", [pl.Quasistatic, lambda robot: pl.ImplicitEuler(robot, dt=0.01), lambda robot: pl.BDF2(robot, dt=0.01)])
@pytest.mark.parametrize("ruin", [flattened, scrambled])
def test_a_barrier_law_that_starts_inverted_says_so(rng, rule, ruin):
    model = rule(block("neo-hookean"))
    rest = model.initial_state()[: model.equations.n_dofs]
    step = model.step(model.state(np.where(model.equations.held, rest, ruin(rest, rng))), np.zeros(0))
    assert not step.status
    assert "inverted" in step.status.text
    assert "fixed-corotated" in step.status.text
    assert np.all(np.isfinite(step.x))


def test_semi_implicit_of_an_inverted_body_says_so(rng):
    model = pl.SemiImplicit(block("neo-hookean"), dt=0.01)
    step = model.step(model.state(scrambled(model.equations.body.rest, rng)), np.zeros(0))
    assert not step.status
    assert "ImplicitEuler" in step.status.text
    assert np.all(np.isfinite(step.x))


@pytest.mark.parametrize("order", [1, 2])
def test_no_accepted_step_of_a_barrier_law_is_inverted(rng, order):
    """Nodes thrown at each other at 40 m/s, faster than a cell a step, and a hammer of fifty times the weight that buckles it."""
    robot = block("neo-hookean", order, (2, 1, 1), gravity=(-500.0, 0.0, -100.0))
    model = pl.ImplicitEuler(robot, dt=0.005)
    body, x, accepted = robot.body(), model.state(robot.body().rest, 40.0 * rng.standard_normal(robot.body().rest.size)), 0
    for _ in range(15):
        step = model.step(x, np.zeros(0))
        assert np.all(np.isfinite(step.x))
        if not step.status:
            assert len(step.status.text) > 40
            break
        assert body.inverted(model.space.position(step.x)) is None
        assert np.isfinite(body.energy(model.space.position(step.x), body.fields)[0])
        x, accepted = step.x, accepted + 1
    assert accepted >= 5


@pytest.mark.parametrize("divisions", [(10, 1, 1), (10, 2, 2)])
@pytest.mark.parametrize("force", 10.0 ** np.arange(-5, 2))
def test_a_small_load_is_as_easy_as_a_large_one(force, divisions):
    """Whose energy, 1e-14 J and more, drowns in the round-off of E V eps = 1e-12 J that the strain energy carries."""
    robot = pl.Robot(shape=pl.Box(size=(0.5, 0.1, 0.1)), divisions=divisions, order=1, material=pl.Material(E=1e6, nu=0.0),
                     supports=(pl.Support(region="x-"),), loads=(pl.SurfaceLoad(surface="x+", traction=(0, 0, -100 * force)),))  # fmt: skip
    model = pl.Quasistatic(robot)
    step = model.step(model.initial_state(), np.zeros(0))
    assert step.status, step.status.text
    assert step.status.iterations < 10
    assert step.status.residual <= 1e-6 * force


def test_too_few_iterations_end_in_a_sentence_with_numbers():
    model = pl.Quasistatic(block(gravity=(0, 0, -50.0)), newton=pl.Newton(iterations=1))
    step = model.step(model.initial_state(), np.zeros(0))
    assert not step.status
    assert step.status.iterations == 1
    assert "did not converge in 1 iterations" in step.status.text
    assert "smaller time step" in step.status.text
    with pytest.raises(StepError, match="Step 0 failed: Newton did not converge"):
        pl.simulate(model, np.zeros((1, 0)))


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"tolerance": 2.0}, {"iterations": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match="Newton's tolerance"):
        pl.Newton(**options)


def test_the_start_does_not_decide_the_end(rng):
    """An arm under its weight has one equilibrium; warm and cold starts meet there within Newton's tolerance."""
    model = pl.Quasistatic(block("neo-hookean", gravity=(0, 0, -9.81)))
    cold = model.step(model.initial_state(), np.zeros(0))
    warm = model.step(cold.x + 1e-4 * rng.standard_normal(cold.x.size), np.zeros(0))
    again = model.step(cold.x, np.zeros(0))
    assert again.status.iterations == 0
    sag = np.abs(cold.x - model.initial_state()).max()
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-7 * sag)
