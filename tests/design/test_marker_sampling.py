"""Markers as material points: their weights, and their positions between steps."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import MarkerRecording
from pliant.design.marker_sampling import marker_observations, marker_points, marker_sampling

PLATE = {
    "shape": pl.geometry.Rectangle(size=(0.2, 0.1)),
    "divisions": (4, 2),
    "order": 1,
    "material": pl.Material(E=1e4, nu=0.3, density=1000.0),
    "effectors": {"tip": pl.Effector(point=(0.2, 0.05))},
}
ROBOT = pl.Robot(**PLATE)
POINTS = [(0.03, 0.02), (0.17, 0.081)]


def recording(**changes):
    times = np.array([0.0, 0.005, 0.01, 0.0225])
    given = {"times": times, "positions": np.zeros((4, 2, 2)), "points": POINTS}
    return MarkerRecording(**{**given, **changes})


@pytest.mark.parametrize(
    "model",
    [
        pl.ImplicitEuler(ROBOT, dt=0.01),
        pl.BDF2(ROBOT, dt=0.01),
        pl.Quasistatic(pl.Robot(**PLATE, supports=[pl.Support(region="x-")]), dt=0.01),
        pl.MaterialPoint(ROBOT, dt=0.01, cell=0.025),
    ],
    ids=lambda model: type(model).__name__,
)
def test_markers_follow_affine_motions_exactly(model):
    """A marker at X is at F X + c, on meshes and on particles."""
    weights = marker_points(recording(), model)
    F, c = np.array([[1.1, 0.2], [-0.1, 0.9]]), np.array([0.3, -0.2])
    q = (model.body.rest.reshape(-1, 2) @ F.T + c).ravel()
    sampling = marker_sampling(weights, model, 2)
    states = np.tile(model.state(q), (2, 1))
    found = sampling.positions(states, np.array([0.0, 0.01]))
    np.testing.assert_allclose(found[0].reshape(2, 2), np.array(POINTS) @ F.T + c, atol=1e-9)
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)


def test_points_of_rods_are_on_their_axes():
    points = np.outer(np.linspace(0.0, 0.1, 5), [0.0, 0.0, 1.0])
    rods = pl.geometry.Rods(
        points=points,
        rods=[(k, k + 1) for k in range(4)],
        section=pl.geometry.CircularSection(radius=0.004),
    )
    robot = pl.Robot(shape=rods, material=pl.Material(E=1e6, nu=0.4, density=1000.0))
    marker = recording(positions=np.zeros((4, 1, 3)), points=[(0.0, 0.0, 0.06)])
    model = pl.ImplicitEuler(robot, dt=0.01)
    sampling = marker_sampling(marker_points(marker, model), model, 3)
    found = sampling.positions(np.tile(model.initial_state(), (2, 1)), np.zeros(1))
    np.testing.assert_allclose(found[0], [0.0, 0.0, 0.06], atol=1e-12)


def test_interpolation_between_steps_has_fourth_order():
    """Positions and velocities of a swinging point: the error of Hermite's cubic is O(dt^4)."""
    errors = []
    for dt in (0.1, 0.05):
        model = pl.ImplicitEuler(ROBOT, dt=dt)
        times = dt * np.arange(6)
        shift = np.ones(model.space.n_dofs)
        states = [
            model.state(model.body.rest + np.sin(3.0 * t) * shift, 3.0 * np.cos(3.0 * t) * shift)
            for t in times
        ]
        sampling = marker_sampling(marker_points(recording(), model), model, 2)
        middle = times[:-1] + 0.5 * dt
        found = sampling.positions(np.array(states), middle)[:, 0] - POINTS[0][0]
        errors.append(np.abs(found - np.sin(3.0 * middle)).max())
    assert errors[1] < errors[0] / 12.0


def test_models_without_velocities_are_interpolated_linearly():
    model = pl.Quasistatic(pl.Robot(**PLATE, supports=[pl.Support(region="x-")]), dt=1.0)
    sampling = marker_sampling(marker_points(recording(), model), model, 2)
    rest = model.initial_state()
    found = sampling.positions(np.array([rest, rest + 0.1]), np.array([0.25]))
    np.testing.assert_allclose(found[0], np.ravel(POINTS) + 0.025)


def test_observations_agree_with_the_positions_and_skip_missing_samples():
    model = pl.ImplicitEuler(ROBOT, dt=0.01)
    positions = np.zeros((4, 2, 2))
    positions[1, 0], positions[3] = np.nan, np.nan
    markers = recording(positions=positions)
    sampling = marker_sampling(marker_points(markers, model), model, 2)
    states = model.initial_state() + np.random.default_rng(0).normal(
        size=(4, model.space.size), scale=0.01
    )
    made = marker_observations(markers, sampling, np.array([0.1, 0.2]))
    expected = sampling.positions(states, markers.clock()).reshape(4, 2, 2)
    expected /= np.array([0.1, 0.2])[:, None]
    assert [(one.step, one.size) for one in made] == [(1, 4), (1, 2), (1, 4)]
    for one, row in zip(made, (expected[0], expected[1, 1:], expected[2]), strict=True):
        np.testing.assert_allclose(one.evaluate(states, np.zeros((3, 0)), None), row.ravel())


def test_markers_without_rest_points_are_effectors_of_the_same_name():
    model = pl.ImplicitEuler(ROBOT, dt=0.01)
    named = recording(positions=np.zeros((4, 1, 2)), points=None, markers=["tip"])
    sampling = marker_sampling(marker_points(named, model), model, 2)
    found = sampling.positions(np.tile(model.initial_state(), (2, 1)), np.zeros(1))
    np.testing.assert_allclose(found[0], [0.2, 0.05])
    other = recording(positions=np.zeros((4, 1, 2)), points=None, markers=["top"])
    with pytest.raises(InputError, match=r"'top' .* has no rest point.* did you mean 'tip'"):
        marker_points(other, model)


def test_markers_that_do_not_fit_the_model_are_refused():
    model = pl.ImplicitEuler(ROBOT, dt=0.01)
    with pytest.raises(InputError, match="3 coordinates for each marker, but the robot has 2"):
        marker_points(recording(positions=np.zeros((4, 2, 3)), points=np.zeros((2, 3))), model)
    with pytest.raises(InputError, match=r"The rest points of recording: .*outside"):
        marker_points(recording(points=[(0.0, 0.0), (0.5, 0.0)]), model)
