"""Autoencoder over the particle grid: transfer, network, training, files, loops and errors."""

import hashlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from models import fem, latent, mass, particles

import pliant as pl
from pliant.learning import (
    MLP,
    AutoencoderObserver,
    AutoencoderSettings,
    CentroidObserver,
    ClosedLoop,
    ControlTask,
    LinearFeedback,
    ParticleGrid,
    PolicyGradient,
    ScaledObserver,
    StackedObserver,
    attach_observer,
    reconstruction_error,
    train_autoencoder,
    train_with_autoencoder,
)
from pliant.learning.autoencoder import SAVED, weight_shapes
from pliant.learning.convolution import ConvolutionalEncoder
from pliant.learning.loop_episodes import LoopEpisodes

QUICK = AutoencoderSettings(nodes=12, channels=(4, 6), epochs=30, batch=8)
MAKE = {"FEM": lambda: fem(design=()), "particles": lambda: particles(design=())}
every = pytest.mark.parametrize("kind", MAKE)


@pytest.fixture(scope="module")
def models():
    return {name: make() for name, make in MAKE.items()}


@pytest.fixture(scope="module")
def rollouts(models):
    """Return two rollouts of each model, under tension in one cable and then the other."""
    controls = np.zeros((16, 2))
    controls[:8, 0] = controls[8:, 1] = 0.9
    return {
        name: [pl.simulate(model, u, progress=False) for u in (controls, controls[:, ::-1])]
        for name, model in models.items()
    }


def random_autoencoder(model, states, seed=0, size=2):
    """Return an autoencoder with random weights, without PyTorch."""
    grid = ParticleGrid.around(model, states, 12, 4)
    rng = np.random.default_rng(seed)
    weights = {
        name: rng.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))
        for name, shape in weight_shapes(grid, (4, 6), size).items()
    }
    weights["fields.scale"] = np.array(1.7)
    return AutoencoderObserver(grid=grid, channels=(4, 6), latent=size, weights=weights)


def disturbed(model, size=1e-3):
    x = model.initial_state()
    return x + size * np.random.default_rng(0).standard_normal(len(x))


# The transfer to the grid


@every
def test_grid_holds_mass_centre_and_momentum(kind, models, rollouts):
    model, x = models[kind], rollouts[kind][0].states[9]
    grid = ParticleGrid.around(model, rollouts[kind][0].states, 16, 4)
    assert max(grid.shape) == 16
    assert all(n % 4 == 0 for n in grid.shape)
    fields = grid.attach(model).fields(x) / np.prod(grid.shape)
    assert fields[0].sum() == pytest.approx(1.0, rel=1e-12)
    nodes = np.stack(np.indices(grid.shape), axis=-1)
    centre = np.sum(fields[0][..., None] * nodes, axis=(0, 1))
    assert centre == pytest.approx(0.5 * (np.array(grid.shape) - 1.0), rel=1e-12)
    velocity = grid.speed * fields[1:].sum(axis=(1, 2))
    expected = attach_observer(CentroidObserver(quantities="velocity"), model).observe(x)
    assert velocity == pytest.approx(expected, rel=1e-9)


@every
def test_grid_moves_with_the_body(kind, models, rollouts):
    model, x = models[kind], rollouts[kind][0].states[9]
    attached = ParticleGrid.around(model, x[None], 12, 4).attach(model)
    moved = x.copy()
    moved[: model.space.n_dofs] += np.tile([0.37, -5.1], model.space.n_dofs // 2)
    assert attached.fields(moved) == pytest.approx(attached.fields(x), abs=1e-11)


@every
def test_points_beyond_the_grid_are_left_out(kind, models):
    model = models[kind]
    x = model.initial_state()
    grid = replace(ParticleGrid.around(model, x[None], 12, 4), cell=0.005)
    found = grid.attach(model).fields(x)[0].sum() / np.prod(grid.shape)
    assert 0.2 < found < 0.5  # the grid is 0.06 m long, the strip 0.2 m


@every
def test_vjp_of_the_transfer_is_its_derivative(kind, models, taylor):
    model, x = models[kind], disturbed(models[kind])
    attached = ParticleGrid.around(model, np.array([x]), 12, 4).attach(model)
    rng = np.random.default_rng(1)
    bar, dx = rng.standard_normal((3, *attached.grid.shape)), 1e-2 * rng.standard_normal(len(x))
    dx[model.space.n_dofs :] *= 0.1
    value = lambda e: np.sum(bar * attached.fields(x + e * dx))
    slope = attached.vjp(x, bar) @ dx
    assert (value(1e-5) - value(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-5)
    assert taylor(value, slope) == pytest.approx(2.0, abs=0.15)


# The network


@pytest.mark.parametrize("shape", [(8, 12), (4, 8, 4)])
def test_encoder_equals_that_of_torch(shape):
    torch = pytest.importorskip("torch")
    rng, dim = np.random.default_rng(0), len(shape)
    kernels = [rng.standard_normal((5, 3, *(3,) * dim)), rng.standard_normal((2, 5, *(3,) * dim))]
    biases, n = [rng.standard_normal(5), rng.standard_normal(2)], 2 * int(np.prod(shape)) // 4**dim
    head, head_bias = rng.standard_normal((4, n)), rng.standard_normal(4)
    encoder = ConvolutionalEncoder(kernels=kernels, biases=biases, head=head, head_bias=head_bias)
    fields, y_bar = rng.standard_normal((3, *shape)), rng.standard_normal(4)
    a = at = torch.tensor(fields[None], requires_grad=True)
    convolve = torch.conv2d if dim == 2 else torch.conv3d
    for kernel, bias in zip(kernels, biases, strict=True):
        a = torch.nn.functional.silu(
            convolve(a, torch.tensor(kernel), torch.tensor(bias), stride=2, padding=1)
        )
    y = a.flatten() @ torch.tensor(head).T + torch.tensor(head_bias)
    assert encoder.encode(fields) == pytest.approx(y.detach().numpy(), rel=1e-12)
    (y @ torch.tensor(y_bar)).backward()
    assert encoder.vjp(fields, y_bar) == pytest.approx(at.grad.numpy()[0], rel=1e-9, abs=1e-12)


# The observer


@every
def test_vjp_of_the_observer_is_its_derivative(kind, models, taylor):
    model, x = models[kind], disturbed(models[kind])
    observer = random_autoencoder(model, np.array([x])).attach(model)
    rng = np.random.default_rng(1)
    y_bar, dx = rng.standard_normal(2), 0.01 * rng.standard_normal(len(x))
    dx[model.space.n_dofs :] *= 0.1
    value = lambda e: y_bar @ observer.observe(x + e * dx)
    slope = observer.vjp(x, y_bar) @ dx
    assert (value(1e-5) - value(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-5)
    assert taylor(value, slope) == pytest.approx(2.0, abs=0.1)


@every
def test_gradient_of_a_closed_loop_passes_taylors_test(kind, models, rollouts, taylor):
    model = models[kind]
    seen = StackedObserver(
        observers=[random_autoencoder(model, rollouts[kind][0].states), CentroidObserver()]
    )
    gains = np.random.default_rng(2).uniform(-0.05, 0.05, (2, 6))
    law = LinearFeedback(gains=gains, reference=np.zeros(6), controls=[0.5, 0.3])
    loop = ClosedLoop(model, seen, law)
    goal = pl.Goal(effector="tip", target=(0.19, 0.04), weight=100.0)
    task = ControlTask(steps=6, terms=[goal, pl.Effort(weight=1e-3)])
    episodes = LoopEpisodes.draw(loop, task, count=1, seed=0)
    w = loop.controller.params.flat
    run = episodes.run(w, episodes.starts[0])
    assert np.all((run.controls > 0.0) & (run.controls < 1.0))
    _, slope = episodes.gradient(w, tapes=6)
    direction = 0.1 * np.random.default_rng(3).standard_normal(len(w))
    cost = lambda e: episodes.performance(w + e * direction).cost
    assert taylor(cost, slope @ direction) == pytest.approx(2.0, abs=0.1)


# Training


@every
def test_training_lowers_the_error_and_depends_on_the_seed_alone(kind, models, rollouts):
    pytest.importorskip("torch")
    model, paths = models[kind], rollouts[kind]
    make = lambda seed: train_autoencoder(
        model, paths, latent=3, settings=QUICK, seed=seed, progress=False
    )
    found, again, other = make(0), make(0), make(1)
    assert len(found.history) == QUICK.epochs + 1
    assert found.history[-1] < 0.4 < 0.9 < found.history[0]
    assert reconstruction_error(found, model, paths) == pytest.approx(found.history[-1], rel=1e-5)
    for name, array in found.weights.items():
        assert np.array_equal(array, again.weights[name])
    assert not np.array_equal(found.weights["mean.weights"], other.weights["mean.weights"])
    longer = train_autoencoder(model, paths, settings=QUICK, start=found, progress=False)
    assert longer.history[-1] < found.history[-1]
    assert longer.latent == 3
    y = np.array([found.attach(model).observe(x) for x in paths[0].states])
    assert np.ptp(y, axis=0).max() > 0.1  # the states differ in the latent variables


def test_controller_and_autoencoder_are_trained_in_turn(models):
    pytest.importorskip("torch")
    model = pl.ImplicitEuler(
        pl.Robot(
            shape=pl.PointMass(points=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
            actuators={
                name: pl.actuators.Thrust(point=point, limits=(-1.0, 1.0))
                for name, point in (("a", (0.0, 0.0)), ("b", (1.0, 0.0)), ("c", (0.0, 1.0)))
            },
            effectors={"tip": pl.Effector(point=(1.0, 0.0))},
        ),
        dt=0.1,
    )
    rng = np.random.default_rng(0)
    paths = [pl.simulate(model, rng.uniform(-1, 1, (10, 6)), progress=False) for _ in range(4)]
    settings = AutoencoderSettings(nodes=12, channels=(4,), epochs=10)
    autoencoder = train_autoencoder(model, paths, latent=4, settings=settings, progress=False)
    seen = ScaledObserver(
        observer=StackedObserver(observers=[autoencoder, CentroidObserver()]), scale=1.0
    )
    loop = ClosedLoop(model, seen, MLP.for_model(model, seen, hidden=(8,)))
    task = ControlTask(steps=10, terms=[pl.Goal(effector="tip", target=(1.3, 0.2))])
    found = train_with_autoencoder(
        loop,
        task,
        PolicyGradient(rate=0.02),
        rounds=3,
        iterations=5,
        settings=settings,
        progress=False,
    )
    returns = [one.mean_return for one in found.rounds]
    assert returns[-1] > found.rounds[0].history[0].mean_return
    assert found.result.mean_return == max(returns)
    assert [len(one.history) for one in found.autoencoders] == [11, 22, 33]
    before, after = (
        reconstruction_error(one, model, found.rounds[-1].replay()[0].states)
        for one in (found.autoencoders[0], found.autoencoders[-1])
    )
    assert after < before  # of the states that the controller visits
    found.show()


def test_loop_without_an_autoencoder_is_refused(raises_clear_error):
    model = pl.ImplicitEuler(mass(), dt=0.1)
    law = LinearFeedback(gains=np.zeros((2, 4)), reference=np.zeros(4), controls=np.zeros(2))
    loop = ClosedLoop(model, CentroidObserver(), law)
    task = ControlTask(steps=3, terms=[pl.Effort()])
    raises_clear_error(lambda: train_with_autoencoder(loop, task), "has 0 autoencoders")
    raises_clear_error(lambda: train_with_autoencoder(loop, task, rounds=0), "number of rounds")


def test_missing_torch_names_the_install_command(models, monkeypatch, raises_clear_error):
    monkeypatch.setitem(sys.modules, "torch", None)
    model = models["FEM"]
    states = np.tile(model.initial_state(), (2, 1))
    raises_clear_error(lambda: train_autoencoder(model, states), r"pip install 'pliant\[learn\]'")
    random_autoencoder(model, states).attach(model).observe(states[0])  # needs no torch


# Files


def test_saved_autoencoder_gives_the_same_bits(models, tmp_path):
    model = models["FEM"]
    made = random_autoencoder(model, model.initial_state()[None])
    made.save(tmp_path)
    again = AutoencoderObserver.load(tmp_path)
    x = disturbed(model)
    assert np.array_equal(made.attach(model).observe(x), again.attach(model).observe(x))
    assert (again.grid, again.channels) == (made.grid, made.channels)


CHANGES = {
    "no shape": {"shape": None},
    "huge shape": {"shape": [2**40, 4]},
    "negative shape": {"shape": [-12, 4]},
    "text shape": {"shape": "12"},
    "no cell": {"cell": 0.0},
    "text cell": {"cell": "wide"},
    "no latent variable": {"latent": 0},
    "many latent variables": {"latent": 10**15},
    "fractional channels": {"channels": [4.5, 6]},
    "many layers": {"channels": [4] * 2000},
    "text channels": {"channels": ["4", "6"]},
    "history": {"history": "long"},
    "other format": {"format": "pliant training"},
    "newer version": {"version": 99},
    "other arrays": {"arrays": 64 * "0"},
    "path as digest": {"arrays": "../../etc/passwd"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_crafted_file_is_refused(name, models, tmp_path, raises_clear_error):
    model = models["FEM"]
    random_autoencoder(model, model.initial_state()[None]).save(tmp_path)
    file = tmp_path / SAVED.file
    content = {**json.loads(file.read_text()), **CHANGES[name]}
    file.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    raises_clear_error(lambda: AutoencoderObserver.load(tmp_path), "autoencoder")


def test_damaged_arrays_are_refused(models, tmp_path, raises_clear_error):
    model = models["FEM"]
    random_autoencoder(model, model.initial_state()[None]).save(tmp_path)
    (arrays,) = tmp_path.glob("*.safetensors")
    blob = bytearray(arrays.read_bytes())
    blob[-1] ^= 1
    arrays.write_bytes(blob)
    raises_clear_error(lambda: AutoencoderObserver.load(tmp_path), "does not belong to")
    file, digest = tmp_path / SAVED.file, hashlib.sha256(b"junk").hexdigest()
    file.write_text(json.dumps({**json.loads(file.read_text()), "arrays": digest}))
    (tmp_path / f"autoencoder-{digest[:8]}.safetensors").write_bytes(b"junk")
    raises_clear_error(lambda: AutoencoderObserver.load(tmp_path), "not a valid safetensors")
    raises_clear_error(lambda: AutoencoderObserver.load(tmp_path / "no"), "does not exist")


# Errors


def test_bad_input_is_refused(models, raises_clear_error):
    model = models["FEM"]
    states, three = np.tile(model.initial_state(), (3, 1)), pl.PointMass(points=np.eye(3))
    made = random_autoencoder(model, states)
    train = lambda *args, **options: lambda: train_autoencoder(*args, progress=False, **options)
    grid = made.grid
    bad = [
        (lambda: AutoencoderSettings(nodes=5), "number of nodes"),
        (lambda: AutoencoderSettings(epochs=0), "number of epochs"),
        (lambda: AutoencoderSettings(channels=()), "layers cannot halve"),
        (lambda: AutoencoderSettings(nodes=18, channels=(4, 4)), "layers cannot halve"),
        (lambda: AutoencoderSettings(channels=3), "channels of an autoencoder"),
        (lambda: AutoencoderSettings(rate=-1.0), "rate of an autoencoder"),
        (lambda: ParticleGrid(shape=(4,), cell=1.0, speed=1.0), "shape of a particle grid"),
        (lambda: ParticleGrid(shape=(4, 4), cell=0.0, speed=1.0), "cell of a particle grid"),
        (lambda: replace(made, weights={}), "have no"),
        (lambda: replace(made, grid=replace(grid, shape=(13, 4))), "layers cannot halve"),
        (lambda: made.attach(pl.Quasistatic(model.robot)), "no velocity"),
        (lambda: made.attach(latent()), "not Latent"),
        (
            lambda: made.attach(pl.ImplicitEuler(pl.Robot(shape=three), dt=0.1)),
            "is 2D, but the body is 3D",
        ),
    ]
    for make, pattern in bad:
        raises_clear_error(make, pattern)
    pytest.importorskip("torch")
    for make, pattern in [
        (train(model, states[:1]), "fewer than 2 states"),
        (train(model, [states[:, :5]]), "have 5 numbers"),
        (train(model, states, latent=0), "number of latent variables"),
        (train(model, states, settings=3), "settings of an autoencoder"),
        (train(model, states, start=3), "first autoencoder"),
        (train(model, states, seed=-1), "seed"),
        (train(model, states * np.nan), "must be finite"),
        (train("model", states), "The model is"),
        (train(pl.ImplicitEuler(mass(), dt=0.1), np.zeros((3, 4))), "extent of the body"),
    ]:
        raises_clear_error(make, pattern)
