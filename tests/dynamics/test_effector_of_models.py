"""Every model answers `effector` and `effector_jacobian`."""

import numpy as np
import pytest

import pliant as pl


def strip() -> pl.Robot:
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.04)),
        divisions=(10, 2),
        order=1,
        thickness=0.02,
        material=pl.Material(E=1e6, nu=0.35, density=1000.0),
        supports=[pl.Support(region="x-")],
        actuators={"cable": pl.Cable(points=[(0.0, 0.03), (0.2, 0.03)], limits=(0.0, 20.0))},
        effectors={"tip": pl.Effector(point=(0.2, 0.02)), "body": pl.Effector(region="body")},
    )


def loop(robot: pl.Robot) -> pl.learning.ClosedLoop:
    wave = pl.learning.SineGait(n_controls=1, amplitude=1.0, offset=1.0)
    return pl.learning.ClosedLoop(pl.ImplicitEuler(robot, dt=0.01), None, wave)


MODELS = {
    "Quasistatic": pl.Quasistatic,
    "ImplicitEuler": lambda robot: pl.ImplicitEuler(robot, dt=0.01),
    "SemiImplicit": lambda robot: pl.SemiImplicit(robot, dt=0.01),
    "BDF2": lambda robot: pl.BDF2(robot, dt=0.01),
    "MaterialPoint": lambda robot: pl.MaterialPoint(robot, dt=0.01, cell=0.02),
    "Condensed": lambda robot: pl.Condensed(model=pl.SemiImplicit(robot, dt=0.01)),
    "Latent": lambda robot: pl.Latent(robot, dt=0.01, cell=0.5),
    "ClosedLoop": loop,
}


@pytest.mark.parametrize("name", MODELS)
def test_effector_is_at_its_point_at_rest_and_linear_in_the_state(name):
    model = MODELS[name](strip())
    x, rng = model.initial_state(), np.random.default_rng(1)
    np.testing.assert_allclose(model.effector("tip", x), [[0.2, 0.02]], atol=1e-9)
    np.testing.assert_allclose(model.effector("body", x), [[0.1, 0.02]], atol=1e-6)
    dx = 1e-3 * rng.standard_normal(x.size)
    change = model.effector("tip", x + dx) - model.effector("tip", x)
    jacobian = model.effector_jacobian("tip", x)
    assert jacobian.shape == (2, model.space.size)
    np.testing.assert_allclose(change.ravel(), jacobian @ dx, atol=1e-15)
    with pytest.raises(pl.InputError, match="no effector 'nose'"):
        model.effector("nose", x)
    with pytest.raises(pl.InputError, match="shape"):
        model.effector("tip", x[:-1])
