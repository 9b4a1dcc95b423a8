"""Observers: values, derivatives and errors."""

import numpy as np
import pytest
from models import fem, latent, mass

import pliant as pl
from pliant.core import Observer
from pliant.learning import (
    EffectorObserver,
    PartObserver,
    ScaledObserver,
    StackedObserver,
    UserObserver,
    attach_observer,
)

SQUARE = UserObserver(
    size=2, function=lambda x: x[:2] ** 2, vjp_function=lambda x, y_bar: pad(2 * x[:2] * y_bar, x)
)


def pad(part, x):
    return np.concatenate([part, np.zeros(len(x) - len(part))])


OBSERVERS = {
    "effectors": EffectorObserver(),
    "velocity": EffectorObserver(effectors="tip", quantities="velocity"),
    "part": PartObserver(parts="velocity"),
    "state": PartObserver(),
    "user": SQUARE,
    "stacked": StackedObserver(observers=[EffectorObserver(), PartObserver(parts="velocity")]),
    "stacked with user": StackedObserver(observers=[SQUARE, EffectorObserver()]),
    "scaled": ScaledObserver(observer=EffectorObserver(), scale=(0.1, 0.2, 3.0, 4.0), offset=1.0),
    "scaled user": ScaledObserver(observer=SQUARE, scale=0.1),
}


@pytest.fixture(scope="module")
def model():
    return fem()


@pytest.mark.parametrize("name", OBSERVERS)
def test_vjp_is_the_derivative(name, model):
    observer = attach_observer(OBSERVERS[name], model)
    assert isinstance(observer, Observer)
    rng = np.random.default_rng(0)
    x, dx = rng.standard_normal((2, model.space.size))
    y_bar = rng.standard_normal(observer.size)
    assert observer.observe(x).shape == (observer.size,)
    change = (observer.observe(x + 1e-6 * dx) - observer.observe(x - 1e-6 * dx)) / 2e-6
    assert observer.vjp(x, y_bar) @ dx == pytest.approx(y_bar @ change, rel=1e-7)


@pytest.mark.parametrize("make", [fem, latent])
def test_effectors_are_observed_with_their_velocity(make):
    model = make()
    run = pl.simulate(model, np.full((3, 2), (0.8, 0.1)), progress=False)
    y = attach_observer(EffectorObserver(), model).observe(run.states[-1])
    tip = [model.effector_rows("tip") @ model.space.position(x) for x in run.states]
    assert np.allclose(y[:2], tip[-1], atol=1e-15)
    assert np.allclose(y[2:], (tip[-1] - tip[-2]) / model.dt, atol=1e-9)


def test_rows_do_not_depend_on_the_batch(model):
    observer = attach_observer(OBSERVERS["scaled"], model)
    x = np.random.default_rng(0).standard_normal((9, model.space.size))
    many = observer.observe_many(x)
    assert all(np.array_equal(observer.observe(row), y) for row, y in zip(x, many, strict=True))


def test_model_without_velocity_is_observed_by_positions():
    model = pl.Quasistatic(fem().robot)
    assert attach_observer(EffectorObserver(), model).size == 2


def test_bad_observers_are_refused(model, raises_clear_error):
    bad = [
        (EffectorObserver(effectors="nose"), "nose"),
        (EffectorObserver(quantities="acceleration"), "choose position or velocity"),
        (EffectorObserver(effectors=3), "give names as text"),
        (PartObserver(parts="angles"), "no part 'angles'"),
        (StackedObserver(observers=[]), "at least one"),
        (ScaledObserver(observer=EffectorObserver(), scale=0.0), "must be positive"),
        (ScaledObserver(observer=EffectorObserver(), scale=(1.0, 2.0)), "shape"),
        ("tip", "The observer is 'tip'"),
    ]
    for observer, pattern in bad:
        raises_clear_error(lambda observer=observer: attach_observer(observer, model), pattern)
    raises_clear_error(lambda: UserObserver(size=0, function=np.sin), "size of an observation")
    point = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]]))
    raises_clear_error(
        lambda: attach_observer(EffectorObserver(), pl.ImplicitEuler(point, dt=0.1)),
        "no effectors to observe",
    )
    assert attach_observer(EffectorObserver(), pl.ImplicitEuler(mass(), dt=0.1)).size == 4
