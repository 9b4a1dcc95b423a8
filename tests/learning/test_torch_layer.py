"""The torch layer: models inside autograd graphs of PyTorch."""

import subprocess
import sys
import weakref
from dataclasses import replace

import models
import numpy as np
import point
import pytest

import pliant as pl
from pliant.bench.walker_scene import SCALES, WalkerScene
from pliant.core import Step
from pliant.planners.checkpoints import retained_bytes
from pliant.zoo.robots.block_walkers import PRESSURE

torch = pytest.importorskip("torch")
from pliant.learning import torch_layer  # noqa: E402


def block(rule, **options):
    """Return a small block under gravity with a cable, as a model with two parameters."""
    cable = pl.Cable(points=[(0.01, 0.03), (0.09, 0.03)], limits=(0.0, 5.0))
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.04)),
        divisions=(2, 1),
        thickness=0.05,
        order=1,
        material=pl.Material(E=2e4, nu=0.3),
        supports=(pl.Support(region="x-"),),
        actuators={"cable": cable},
        effectors={"tip": pl.Effector(point=(0.1, 0.02))},
        gravity=(0.0, -9.81),
    )
    return rule(robot, design=("body.E", "body.density"), **options)


def particles(**options):
    return block(pl.MaterialPoint, dt=0.004, cell=0.02, **options)


MODELS = {
    "ImplicitEuler": lambda: block(pl.ImplicitEuler, dt=0.02),
    "SemiImplicit": lambda: block(pl.SemiImplicit, dt=0.02),
    "Quasistatic": lambda: block(pl.Quasistatic),
    "MaterialPoint": particles,
}


def loop():
    """Return the closed loop of a point and a network."""
    return point.loop()


def inputs(model, rng, *, rows=(), steps=()):
    """Return a disturbed state, controls and scaled parameters with gradients."""
    x, m = model.initial_state(), model.n_controls
    noise = 1e-4 * rng.standard_normal((*rows, x.size))
    controls = 1.0 + rng.random((*rows, *steps, m))
    tensors = [torch.tensor(a) for a in (x + noise, controls, np.ones(model.params.size))]
    return [t.requires_grad_() for t in tensors]


def scaled(layer):
    """Return the layer as a function of parameters divided by their values."""
    values = torch.tensor(layer.model.params.flat)
    return lambda x, u, p: layer(x, u, p * values)


@pytest.mark.parametrize("name", MODELS)
def test_one_step_passes_the_gradcheck_of_torch(name, rng):
    model = MODELS[name]()
    step = scaled(torch_layer(model))
    assert torch.autograd.gradcheck(step, inputs(model, rng), eps=1e-7, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_batch_of_rollouts_passes_the_gradcheck_of_torch(name, rng):
    model = MODELS[name]()
    layer, values = torch_layer(model), torch.tensor(model.params.flat)
    rollout = lambda x, u, p: layer.rollout(x, u, p * values)
    tensors = inputs(model, rng, rows=(2,), steps=(3,))
    assert torch.autograd.gradcheck(
        rollout, tensors, eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True
    )


def test_closed_loop_passes_the_gradcheck_of_torch_by_its_weights(rng):
    layer = torch_layer(point.loop(hidden=(4,)))
    x = torch.tensor(layer.model.initial_state() + 0.3, requires_grad=True)
    w = torch.tensor(0.3 * rng.standard_normal(layer.model.params.size), requires_grad=True)
    rollout = lambda x, w: layer.rollout(x, torch.zeros(5, 0), w)
    assert torch.autograd.gradcheck(rollout, (x, w))
    assert torch.equal(layer(x, None, w), rollout(x, w)[1])


def test_states_are_those_of_simulate(rng):
    model = MODELS["ImplicitEuler"]()
    controls = rng.random((4, 1))
    states = torch_layer(model).rollout(torch.tensor(model.initial_state()), torch.tensor(controls))
    np.testing.assert_array_equal(states.numpy(), pl.simulate(model, controls).states)


def test_time_of_a_step_is_passed_on():
    load = pl.PointLoad(point=(0.0, 0.0), force=lambda t: (t, 0.0))
    model = pl.ImplicitEuler(replace(models.mass(), loads=(load,)), dt=0.1)
    layer, x, u = torch_layer(model), torch.zeros(4), torch.zeros(2)
    np.testing.assert_allclose([layer(x, u, k=k)[2] for k in (0, 4)], [0.01, 0.05], rtol=1e-6)


# Types and shapes


def test_float32_is_computed_in_float64_and_rounded(rng):
    model = MODELS["ImplicitEuler"]()
    x, u, p = inputs(model, rng)
    single = [t.detach().float().requires_grad_() for t in (x, u, p)]
    same = [t.detach().double().requires_grad_() for t in single]
    results = [scaled(torch_layer(model))(*tensors) for tensors in (single, same)]
    assert results[0].dtype == torch.float32
    assert torch.equal(results[0], results[1].float())
    for result in results:
        (result**2).sum().backward()
    for one, other in zip(single, same, strict=True):
        assert one.grad.dtype == torch.float32
        torch.testing.assert_close(one.grad, other.grad.float(), rtol=1e-5, atol=0.0)


def test_precision_of_the_result_can_be_chosen():
    x, u = torch.zeros(2, dtype=torch.float64), torch.ones(1)
    assert torch_layer(point.Point(), precision="float32")(x, u).dtype == torch.float32
    assert torch_layer(point.Point(), precision="float64")(x.float(), u).dtype == torch.float64


@pytest.mark.parametrize("model", [point.Point(), models.latent()], ids=["point", "latent"])
def test_rows_of_a_batch_are_single_rollouts(model, rng):
    layer = torch_layer(model)
    x = torch.tensor(model.initial_state() + 1e-3 * rng.random((3, model.space.size)))
    u = torch.tensor(rng.random((3, 4, model.n_controls)))
    together = layer.rollout(x, u)
    assert together.shape == (3, 5, model.space.size)
    for row in range(3):
        assert torch.equal(together[row], layer.rollout(x[row], u[row]))
        assert torch.equal(together[row, 1], layer(x[row], u[row, 0]))
    assert torch.equal(layer(x, u[:, 0]), together[:, 1])


def test_one_state_and_many_controls_sum_their_gradients(rng):
    layer, x = torch_layer(point.Point()), torch.tensor([0.1, 0.5], requires_grad=True)
    u = torch.tensor(rng.random((3, 4, 1)))
    (layer.rollout(x, u) ** 3).sum().backward()
    together, x.grad = x.grad, None
    for row in u:
        (layer.rollout(x, row) ** 3).sum().backward()
    torch.testing.assert_close(x.grad, together)


# Memory


class Tape:
    """A tape that counts how many of its kind exist."""

    alive, most = 0, 0

    def __init__(self, tape):
        self.tape, Tape.alive = tape, Tape.alive + 1
        Tape.most = max(Tape.most, Tape.alive)
        weakref.finalize(self, self._end)

    @staticmethod
    def _end():
        Tape.alive -= 1


class CountedPoint:
    """A point that counts its steps, adjoint steps and tapes."""

    def __init__(self):
        self.model, self.steps, self.pullbacks = point.Point(), 0, 0
        Tape.alive = Tape.most = 0

    def __getattr__(self, name):
        if name == "step_many":
            raise AttributeError(name)
        return getattr(self.model, name)

    def step(self, x, u, p=None, k=0):
        step = self.model.step(x, u, p, k)
        self.steps += 1
        return Step(step.x, step.status, Tape(step.tape))

    def pullback(self, step, x_bar):
        self.pullbacks += 1
        return self.model.pullback(Step(step.x, step.status, step.tape.tape), x_bar)


def gradient(model, checkpoints, *, rows=1, steps=100):
    """Return the gradient of a rollout by its controls."""
    u = torch.linspace(-1.0, 1.0, rows * steps, dtype=torch.float64)
    u = u.reshape(rows, steps, 1).requires_grad_()
    layer = torch_layer(model, checkpoints=checkpoints)
    (layer.rollout(torch.zeros(2, dtype=torch.float64), u) ** 2).sum().backward()
    return u.grad


STEP_BYTES = retained_bytes(point.Point().step(np.zeros(2), np.zeros(1)))


@pytest.mark.parametrize(
    ("checkpoints", "rows", "most", "steps"),
    [
        ("all", 1, 100, 100),
        ("all", 2, 200, 200),
        ("sqrt", 1, 11, 200),
        ("sqrt", 2, 11, 400),
        (7 * STEP_BYTES, 1, 8, 201),
        (7 * STEP_BYTES, 3, 8, 601),
        (100 * STEP_BYTES, 1, 101, 101),
        (STEP_BYTES, 1, 2, 201),
        (float("inf"), 1, 101, 101),
    ],
)
def test_number_of_tapes_and_steps_keeps_the_budget(checkpoints, rows, most, steps):
    """One tape more than the limit exists while a step makes it."""
    model = CountedPoint()
    found = gradient(model, checkpoints, rows=rows)
    assert Tape.most <= most
    assert model.steps == steps
    assert model.pullbacks == 100 * rows
    assert torch.equal(found, gradient(point.Point(), "all", rows=rows))
    del found
    assert Tape.alive == 0


def test_memory_of_particles_stays_below_the_limit():
    """The measured bytes of all steps that exist, for a model with large tapes."""
    model = particles()
    start, steps = model.initial_state(), []

    class Recorded(CountedPoint):
        def __init__(self):
            super().__init__()
            self.model = model

        def step(self, x, u, p=None, k=0):
            step = super().step(x, u, p, k)
            steps.append(weakref.ref(step.tape))
            sizes.append(
                retained_bytes([ref() for ref in steps if ref() is not None], without=model)
            )
            return step

    sizes: list[int] = []
    one = model.step(start, np.zeros(1))
    size = retained_bytes((one.x, one.tape), without=model)
    layer = torch_layer(Recorded(), checkpoints=4 * size)
    u = torch.zeros(20, 1, dtype=torch.float64, requires_grad=True)
    layer.rollout(torch.tensor(start), u)[-1].sum().backward()
    assert 2 * size < max(sizes) <= 4 * size


@pytest.mark.parametrize("wanted", [(), (0,), (1,), (0, 1)])
def test_only_required_gradients_are_computed(wanted):
    model = CountedPoint()
    tensors = torch.zeros(2), torch.ones(5, 1)
    for index in wanted:
        tensors[index].requires_grad_()
    states = torch_layer(model, checkpoints="all").rollout(*tensors)
    assert states.requires_grad == bool(wanted)
    assert Tape.alive == (5 if wanted else 0)
    if wanted:
        states.sum().backward()
    assert [tensor.grad is not None for tensor in tensors] == [k in wanted for k in range(2)]


def test_no_grad_keeps_no_tapes():
    model, u = CountedPoint(), torch.ones(5, 1, requires_grad=True)
    with torch.no_grad():
        states = torch_layer(model, checkpoints="all").rollout(torch.zeros(2), u)
    assert not states.requires_grad
    assert Tape.alive == 0


def test_changed_tensors_and_second_backward_leave_the_gradient(rng):
    x, u = torch.zeros(2, dtype=torch.float64), torch.ones(9, 1, dtype=torch.float64)
    u.requires_grad_()
    value = torch_layer(point.Point(), checkpoints="all").rollout(x, u)[-1].pow(2).sum()
    (first,) = torch.autograd.grad(value, u, retain_graph=True)
    x += 1.0
    with torch.no_grad():
        u *= 2.0
    (second,) = torch.autograd.grad(value, u)
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, u)


def test_checkpointing_of_torch_works_on_the_layer():
    from torch.utils.checkpoint import checkpoint

    layer, u = torch_layer(point.Point()), torch.ones(1, requires_grad=True)

    def final(step):
        x = torch.zeros(2)
        for _ in range(10):
            x = step(x, u)
        return torch.autograd.grad(x.pow(2).sum(), u)[0]

    assert torch.equal(final(layer), final(lambda *a: checkpoint(layer, *a, use_reentrant=False)))


# Failures


def test_failed_step_raises_its_status():
    layer = torch_layer(point.Point(wall=0.5))
    x, u = torch.tensor([[0.0, 0.0], [0.0, 2.0]]), torch.zeros(2, 9, 1)
    with pytest.raises(pl.StepError, match=r"^step 2: the point hit the wall"):
        layer.rollout(x[1], u[1])
    with pytest.raises(pl.StepError, match=r"^state 1 of the batch, step 12: the point hit"):
        layer.rollout(x, u, k=10)
    with pytest.raises(pl.StepError, match=r"^step 5: the point hit the wall"):
        layer(torch.tensor([9.0, 2.0]), u[0, 0], k=5)


def test_second_derivatives_are_refused():
    u = torch.ones(1, requires_grad=True)
    value = torch_layer(point.Point())(torch.zeros(2), u).sum()
    with pytest.raises(pl.InputError, match="create_graph"):
        torch.autograd.grad(value, u, create_graph=True)


def test_gradient_that_is_not_finite_is_refused():
    u = torch.ones(1, requires_grad=True)
    value = torch_layer(point.Point())(torch.zeros(2), u).sum() * torch.inf
    with pytest.raises(pl.InputError, match="gradient by the states is inf"):
        value.backward()


X, U = torch.zeros(2), torch.zeros(1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda layer: layer(np.zeros(2), U), "give a torch tensor"),
        (lambda layer: layer(X, [0.0]), "give a torch tensor"),
        (lambda layer: layer(X.int(), U), "torch.int32"),
        (lambda layer: layer(X.to("meta"), U), "the device meta"),
        (lambda layer: layer(torch.zeros(3), U), r"state has shape \(3,\); give \(2,\) or \(n, 2"),
        (lambda layer: layer(torch.zeros(0, 2), U), r"state has shape \(0, 2\)"),
        (lambda layer: layer(X, torch.zeros(2)), r"control has shape \(2,\); give \(1,\)"),
        (lambda layer: layer(X), r"has controls; give a tensor of shape \(1,\)"),
        (lambda layer: layer(X, U, torch.zeros(1)), r"parameter vector has shape \(1,\)"),
        (lambda layer: layer(X, U, k=-5), "index k"),
        (lambda layer: layer(X * np.nan, U), "state is nan at entry 0, 0"),
        (lambda layer: layer(X, U * np.nan), "controls is nan"),
        (lambda layer: layer.rollout(X, U), r"give \(n, 1\) or \(b, steps, 1\)"),
        (lambda layer: layer.rollout(X, torch.zeros(0, 1)), r"shape \(0, 1\)"),
        (
            lambda layer: layer.rollout(torch.zeros(2, 2), torch.zeros(3, 4, 1)),
            "2 states and 3 arrays",
        ),
    ],
)
def test_bad_tensors_raise_input_errors(call, text):
    with pytest.raises(pl.InputError, match=text):
        call(torch_layer(point.Point()))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"checkpoints": "al"}, "did you mean 'all'"),
        ({"checkpoints": 0}, "0 bytes"),
        ({"checkpoints": float("nan")}, "nan bytes"),
        ({"checkpoints": None}, "bytes"),
        ({"precision": "float16"}, "did you mean 'float64'"),
        ({"model": 3}, "model"),
    ],
)
def test_bad_options_raise_input_errors(options, text):
    with pytest.raises(pl.InputError, match=text):
        torch_layer(**{"model": point.Point(), **options})


def test_model_without_derivatives_is_refused():
    model = CountedPoint()

    class Plain:
        def __getattr__(self, name):
            if name in ("pullback", "step_many"):
                raise AttributeError(name)
            return getattr(model, name)

    with pytest.raises(pl.InputError, match="vector-Jacobian products"):
        torch_layer(Plain())


def test_budget_below_one_step_is_refused():
    u = torch.ones(3, 1, requires_grad=True)
    with pytest.raises(pl.InputError, match=f"one step of this model needs {STEP_BYTES}"):
        torch_layer(point.Point(), checkpoints=8).rollout(X, u)


def test_pliant_imports_torch_only_for_the_layer():
    code = (
        "import sys, pliant.learning as l; assert 'torch' not in sys.modules; "
        "sys.modules['torch'] = None\n"
        "try: l.torch_layer\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtra The torch layer needs PyTorch: pip install")


# A network of PyTorch in the loop


def torch_controls(scene, x, weights):
    """Return the controls of the walker's network in PyTorch, for a state (n_state,)."""
    n = scene.positions.size
    means = x[: 2 * n].reshape(2, 8, -1, 2).mean(dim=2)
    means = means - torch.tensor(np.stack([scene.centres, 0.0 * scene.centres]))
    y = torch.cat([means[0], means[1]], dim=1).ravel() / torch.tensor(SCALES)
    start = 0
    for inputs, outputs in scene.layers:
        end = start + inputs * outputs
        W, b = weights[start:end].reshape(inputs, outputs), weights[end : end + outputs]
        y, start = torch.tanh(y @ W + b), end + outputs
    return 0.5 * PRESSURE * (1.0 + y)


def test_gradient_through_200_steps_with_a_network_matches_differences(rng):
    """Particles with contact under a network of PyTorch: the gradient is that of differences and
    that of a closed loop of Pliant."""
    scene = WalkerScene(count=4, steps=200, tau=2e-3)
    loop, model = scene.loop(), scene.model()
    layer, n = torch_layer(model), model.space.n_dofs
    share = torch.tensor(scene.volumes / scene.volumes.sum())

    def distance(weights):
        x = torch.tensor(model.initial_state())
        for _ in range(scene.steps):
            x = layer(x, torch_controls(scene, x, weights))
        return share @ x[:n:2]

    weights = torch.tensor(loop.params.flat, requires_grad=True)
    value = distance(weights)
    (found,) = torch.autograd.grad(value, weights)
    direction = torch.tensor(rng.standard_normal(len(weights)))
    with torch.no_grad():
        above, below = (distance(weights + e * direction) for e in (1e-5, -1e-5))
    assert (found @ direction).item() == pytest.approx((above - below).item() / 2e-5, rel=1e-6)
    rollout = torch_layer(loop, checkpoints=1e6).rollout(
        torch.tensor(loop.initial_state()), torch.zeros(scene.steps, 0), weights
    )
    assert (share @ rollout[-1, :n:2]).item() == pytest.approx(value.item(), rel=1e-12)
    (same,) = torch.autograd.grad(share @ rollout[-1, :n:2], weights)
    torch.testing.assert_close(found, same, rtol=1e-8, atol=1e-8 * same.abs().max().item())
