"""Closed loops: dynamics, derivatives over many steps, abilities of the model."""

import numpy as np
import pytest
from models import MODELS, fem, latent, mass, reach

import pliant as pl
from pliant.core import (
    Batched,
    InputError,
    Linearizable,
    MapDynamics,
    Refinable,
    Reversible,
    StepBatch,
    StepErrorEstimating,
)
from pliant.learning import (
    MLP,
    ClosedLoop,
    EffectorObserver,
    LinearFeedback,
    PartObserver,
    ScaledObserver,
    SineGait,
    StepCosts,
    UserController,
    objective_gradients,
)
from pliant.planners.certificate import certify_motion

SEEN = ScaledObserver(observer=EffectorObserver(), scale=0.1)


def learned_loop(model, activation="tanh"):
    """Return the loop of a network whose weights are large enough to matter."""
    network = MLP.for_model(model, SEEN, hidden=(8, 6), activation=activation, seed=1)
    noise = np.random.default_rng(0).standard_normal(network.params.size)
    return ClosedLoop(model, SEEN, network.with_weights(network.params.flat + 0.3 * noise))


def cost_and_gradient(loop, task, p, gradient=True):
    """Return the cost of an episode and its gradient by p."""
    run = pl.simulate(loop, np.zeros((task.steps, 0)), p=p, keep=gradient, progress=False)
    states, controls = loop.split_states(run.states)
    problem = task.problem(loop.model)
    cost = problem.value(states, controls[1:])
    if not gradient:
        return cost, None
    x_bars, u_bars = objective_gradients(problem, states, controls[1:])
    none = np.zeros((1, u_bars.shape[1]))
    bars = np.concatenate([x_bars, np.concatenate([none, u_bars])], axis=1)
    return cost, pl.pullback(loop, run, bars)[2]


@pytest.mark.parametrize("name", MODELS)
def test_gradient_of_an_episode_passes_taylors_test(name, taylor):
    loop, task = learned_loop(MODELS[name]()), reach(steps=20)
    p = loop.params.flat
    _, slope = cost_and_gradient(loop, task, p)
    assert [block.name for block in loop.params.blocks][:2] == [
        "controller.layer-1.weights",
        "controller.layer-1.bias",
    ]
    size = np.where(np.arange(p.size) < loop.controller.params.size, 1.0, 0.1 * np.abs(p))
    direction = np.random.default_rng(3).standard_normal(p.size) * size
    cost = lambda e: cost_and_gradient(loop, task, p + e * direction, gradient=False)[0]
    assert taylor(cost, slope @ direction) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_every_derivative_of_a_step_passes_taylors_test(name):
    loop = learned_loop(MODELS[name]())
    run = pl.simulate(loop, np.zeros((3, 0)), progress=False)
    checks = pl.gradcheck(loop, run.states[-1], np.zeros(0), k=3)
    assert {"controls", "controller.layer-3.bias"} <= {check.name for check in checks}
    for check in checks:
        assert check.ok, check


def test_loop_has_the_abilities_of_its_model():
    for make in MODELS.values():
        model = make()
        loop = learned_loop(model)
        for ability in (Reversible, Linearizable, Batched, Refinable):
            assert isinstance(loop, ability) == isinstance(model, ability), (model, ability)


def test_loop_under_a_gait_equals_the_model_under_its_controls():
    model = fem()
    gait = SineGait(n_controls=2, amplitude=0.3, frequency=2.0, phase=(0.0, 1.5), offset=0.4)
    loop = ClosedLoop(model, None, gait)
    run = pl.simulate(loop, np.zeros((12, 0)), progress=False)
    times = 0.02 * np.arange(12)[:, None]
    controls = 0.4 + 0.3 * np.sin(4.0 * np.pi * times + np.array([0.0, 1.5]))
    assert np.allclose(run.states[1:, -2:], controls, atol=1e-15)
    open_run = pl.simulate(model, run.states[1:, -2:], progress=False)
    shown = loop.model_rollout(run)
    assert np.array_equal(shown.states, open_run.states)
    assert np.array_equal(shown.controls, open_run.controls)


def test_controls_are_clipped_to_the_actuator_limits_and_lose_their_gradient():
    gait = SineGait(n_controls=2, amplitude=0.0, offset=(1.5, 0.5))
    loop = ClosedLoop(fem(), None, gait)
    step = loop.step(loop.initial_state(), np.zeros(0))
    assert step.x[-2:].tolist() == [1.0, 0.5]
    x_bar = np.zeros(loop.space.size)
    x_bar[-2:] = 1.0
    _, _, p_bar = loop.pullback(step, x_bar)
    assert p_bar[6:8].tolist() == [0.0, 1.0]  # by the two offsets


def test_gains_of_a_plan_follow_it_and_reject_a_disturbance():
    model = pl.ImplicitEuler(mass(), dt=0.1)
    goal = pl.Goal(effector="tip", target=(0.5, 0.2), weight=10.0)
    plan = pl.plan(model, [goal, pl.Effort(weight=0.1)], steps=20, method="ddp", progress=False)
    loop = ClosedLoop(model, PartObserver(), LinearFeedback.from_plan(plan))
    follow = pl.simulate(loop, np.zeros((20, 0)), progress=False)
    assert np.allclose(follow.states[:, :4], plan.states, atol=1e-12)
    x0 = model.initial_state() + np.array([0.0, 0.1, 0.0, 0.0])
    closed = pl.simulate(loop, np.zeros((20, 0)), x0=loop.state(x0), progress=False)
    still = pl.simulate(model, plan.controls, x0=x0, progress=False)
    missed = [abs(run.states[-1][:2] - plan.states[-1][:2]).max() for run in (closed, still)]
    assert missed[0] < 0.1 * missed[1]


def test_effort_of_the_controls_is_a_term_on_the_state():
    model = fem()
    loop = ClosedLoop(model, None, SineGait(n_controls=2, amplitude=0.1, offset=0.5))
    run = pl.simulate(loop, np.zeros((5, 0)), progress=False)
    goal = pl.problem.StateGoal(part="controls", target=np.zeros(2), weight=1.0)
    shares = [one.loss.value(one.states[0] @ run.states[one.step]) for one in goal.attach(loop, 5)]
    effort = pl.Problem(model=model, steps=5, terms=[pl.Effort(weight=1.0)])
    assert sum(shares) == pytest.approx(effort.value(run.states[:, :-2], run.states[1:, -2:]))


class SlowBatch:
    """A FEM model that steps a batch one by one."""

    def __init__(self, model):
        self.model = model

    def __getattribute__(self, name):
        if name in ("model", "step_many", "__class__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "model"), name)

    # isinstance looks members up without __getattribute__
    space = n_controls = params = dt = control_limits = neutral_controls = None
    effector_rows = initial_state = step = object()

    def step_many(self, x, u, p=None, k=0):
        steps = [self.model.step(row, control, p, k) for row, control in zip(x, u, strict=True)]
        return StepBatch(
            x=np.array([step.x for step in steps]), statuses=tuple(step.status for step in steps)
        )


def test_batch_of_loops_equals_single_loops_bit_for_bit():
    loop = learned_loop(SlowBatch(fem()), activation="relu")
    assert isinstance(loop, Batched)
    rng = np.random.default_rng(2)
    x = np.tile(loop.initial_state(), (7, 1))
    x[:, : loop.space.n_dofs] += 1e-4 * rng.standard_normal((7, loop.space.n_dofs))
    batch = loop.step_many(x, np.zeros((7, 0)), None, 4)
    assert all(batch.statuses)
    for row, found in zip(x, batch.x, strict=True):
        assert np.array_equal(loop.step(row, np.zeros(0), None, 4).x, found)


def test_loop_of_a_refinable_model_refines_its_model():
    model = latent()
    loop = learned_loop(model)
    x = pl.simulate(loop, np.zeros((2, 0)), progress=False).states[-1]
    finer, exact = loop.refined(), loop.exact()
    assert np.allclose(finer.surrogate.size, 0.5 * loop.surrogate.size)
    assert loop.surrogate is model.surrogate
    assert loop.queries == model.queries > 0
    inner = loop.split_states(x)[0]
    assert np.array_equal(loop.positions(x), model.positions(inner))
    assert np.array_equal(loop.velocities(x), model.velocities(inner))
    assert np.array_equal(loop.query_point(x), model.query_point(inner))
    assert isinstance(loop, StepErrorEstimating)
    assert isinstance(exact, MapDynamics)
    assert not isinstance(exact, Refinable)
    ends = [one.step(x, np.zeros(0)).x[:2] for one in (loop, finer, exact)]
    assert np.linalg.norm(ends[1] - ends[2]) < np.linalg.norm(ends[0] - ends[2]) < 1e-4
    full, start = loop.replay_model(x)
    assert isinstance(full, ClosedLoop)
    assert full.step(start, np.zeros(0)).status
    tip = lambda one, state: one.effector_rows("tip") @ one.space.position(state)
    assert np.allclose(tip(full, start), tip(loop, x), atol=1e-4)


def test_certificate_of_a_loop_matches_exact_steps():
    """The error of each step of the motion, estimated from residuals, meets those of exact
    steps."""
    loop = learned_loop(latent())
    run = pl.simulate(loop, np.zeros((5, 0)), progress=False)
    c = certify_motion([loop], run.states, run.controls, cost=0.0, replay=None, points=5)
    exact, found = c.exact_step_errors, c.estimated_step_errors
    assert np.all(exact.position > 0.0)
    np.testing.assert_allclose(np.sort(exact.state), np.sort(found.state), rtol=0.1)
    np.testing.assert_allclose(np.sort(exact.position), np.sort(found.position), rtol=0.1)


def test_step_fails_with_a_clear_text_for_a_control_that_is_not_finite():
    loop = learned_loop(fem())
    broken = UserController(n_inputs=4, n_controls=2, function=lambda y, w, time: [1.0, np.nan])
    with pytest.raises(InputError, match="control of the user's function is nan"):
        ClosedLoop(fem(), SEEN, broken).step(loop.initial_state(), np.zeros(0))
    gains = 1e308 * np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    huge = LinearFeedback(gains=gains, reference=[-9.0, -9.0, 0.0, 0.0], controls=np.zeros(2))
    with np.errstate(over="ignore", invalid="ignore"):
        step = ClosedLoop(fem(), SEEN, huge).step(loop.initial_state(), np.zeros(0))
    assert not step.status
    assert "not finite" in step.status.text


def test_parts_that_do_not_fit_are_named(raises_clear_error):
    model, gait = fem(), SineGait(n_controls=2)
    raises_clear_error(lambda: ClosedLoop(model, None, SineGait(n_controls=3)), "gives 3 controls")
    raises_clear_error(lambda: ClosedLoop(model, SEEN, gait), "takes 0 inputs.*gives 4")
    raises_clear_error(lambda: ClosedLoop(model, SEEN, "policy"), "The controller is 'policy'")
    raises_clear_error(lambda: ClosedLoop(model, "tip", gait), "The observer is 'tip'")
    loop = ClosedLoop(model, None, gait)
    raises_clear_error(lambda: ClosedLoop(loop, None, gait), "the model has 0")
    raises_clear_error(
        lambda: loop.step(loop.initial_state(), np.zeros(2)), "give numbers of shape"
    )
    raises_clear_error(lambda: loop.step(loop.initial_state(), np.zeros(0), np.ones(3)), "shape")


def test_step_costs_add_up_to_the_objective():
    model, task = fem(), reach(steps=8)
    rng = np.random.default_rng(5)
    run = pl.simulate(model, rng.uniform(0.0, 1.0, (8, 2)), progress=False)
    problem = task.problem(model)
    costs = StepCosts(problem=problem).costs(run.states, run.controls)
    assert costs.sum() == pytest.approx(problem.value(run.states, run.controls), rel=1e-13)
