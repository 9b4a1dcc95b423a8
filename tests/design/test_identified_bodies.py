"""Static tests against closed forms, beams and particles."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import MarkerRecording, ParametrisedRobot, StaticTest, Stretch
from pliant.design.marker_sampling import marker_sampling
from pliant.geometry.cavity_names import name_cavities
from pliant.geometry.cells import remove_unused_points
from pliant.optimisation import SGD, Adam

LENGTH, RADIUS, E = 0.1, 0.004, 1e6


def rod(E, gravity=None):
    points = np.outer(np.linspace(0.0, LENGTH, 9), [1.0, 0.0, 0.0])
    return pl.Robot(
        shape=pl.geometry.Rods(
            points=points,
            rods=[(k, k + 1) for k in range(8)],
            section=pl.geometry.CircularSection(radius=RADIUS),
        ),
        material=pl.Material(E=E, nu=0.4, density=1000.0),
        supports=[pl.Support(nodes=[0])],
        effectors={"tip": pl.Effector(point=(LENGTH, 0.0, 0.0))},
        gravity=gravity,
    )


def bending(**changes):
    """The deflection F L^3 / (3 E I) of a clamped beam, up to 1 % of its length."""
    forces = np.array([1e-4, 3e-4, 6e-4])
    second_moment = np.pi * RADIUS**4 / 4.0
    return StaticTest(
        values=forces * LENGTH**3 / (3.0 * E * second_moment),
        load=pl.PointLoad(point=(LENGTH, 0.0, 0.0), force=(0.0, 0.0, -1.0)),
        factors=forces,
        effector="tip",
        direction=(0.0, 0.0, -1.0),
        **changes,
    )


def test_tip_deflection_against_load_recovers_the_closed_form_of_a_beam():
    model = pl.Quasistatic(rod(5e5), design=["body.E"])
    fit = pl.identify(model, bending(), ["body.E"])
    assert fit.values["body.E"] == pytest.approx(E, rel=0.01)
    assert fit.predictions[0].unit == "m"


def test_beams_are_fitted_to_recordings_and_static_tests_together():
    weight, noise = (0.0, 0.0, -1.0), 2e-5
    true = pl.ImplicitEuler(replace(rod(E, weight), damping=pl.Damping(stiffness=0.01)), dt=0.005)
    states = pl.simulate(true, np.zeros((20, 0))).states
    tip = np.array([true.effector("tip", x) for x in states])
    tip += noise * np.random.default_rng(0).standard_normal(tip.shape)
    recording = MarkerRecording(
        times=0.005 * np.arange(21), positions=tip, markers=["tip"], noise=noise
    )
    names = ["body.E", "damping.stiffness"]
    model = pl.ImplicitEuler(rod(5e5, weight), dt=0.005, design=names)
    fit = pl.identify(model, [recording, bending(noise=1e-5)], names)
    assert fit.values["body.E"] == pytest.approx(E, rel=0.01)
    assert fit.values["damping.stiffness"] == pytest.approx(0.01, rel=0.05)


INNER, OUTER = 0.02, 0.04


def ring(E):
    """A thick tube in plane strain, with air in its cavity."""
    disc = pl.geometry.Disc(radius=OUTER).mesh(divisions=(8,))
    radius = np.linalg.norm(disc.points[disc.cells].mean(axis=1), axis=1)
    points, cells = remove_unused_points(disc.points, disc.cells[radius > INNER])
    x, y = points.T
    rollers = [pl.Support(nodes=np.flatnonzero(np.abs(x) < 1e-9).tolist(), axes="x")]
    rollers += [pl.Support(nodes=np.flatnonzero(np.abs(y) < 1e-9).tolist(), axes="y")]
    return pl.Robot(
        shape=name_cavities(pl.Mesh(points=points, cells=cells)).quadratic(),
        order=2,
        thickness=0.1,
        material=pl.Material(E=E, nu=0.3),
        supports=rollers,
        actuators={"air": pl.actuators.Pressure(cavity="cavity-1")},
    )


def test_pressure_and_volume_recover_the_closed_form_of_a_thick_tube():
    """Lame: the inner wall moves by p a (1 + nu) ((1 - 2 nu) a^2 + b^2) / (E (b^2 - a^2))."""
    pressure, nu, (a, b) = np.array([20.0, 40.0, 80.0]), 0.3, (INNER, OUTER)
    moved = pressure * a * (1 + nu) * ((1 - 2 * nu) * a**2 + b**2) / (1e5 * (b**2 - a**2))
    test = StaticTest(
        values=2.0 * np.pi * a * moved * 0.1, controls={"air": pressure}, cavity="air"
    )
    model = pl.Quasistatic(ring(E=6e4), design=["body.E"])
    fit = pl.identify(model, test, ["body.E"])
    assert fit.values["body.E"] == pytest.approx(1e5, rel=0.03)
    assert fit.predictions[0].unit == "m^3"


STRIP = {
    "shape": pl.geometry.Rectangle(size=(0.2, 0.1)),
    "divisions": (4, 2),
    "thickness": 0.1,
    "order": 1,
    "supports": [pl.Support(region="x-")],
    "gravity": (0.0, -9.81),
}


def particles(E, nu, **options):
    robot = pl.Robot(**STRIP, material=pl.Material(E=E, nu=nu, density=1000.0))
    return pl.MaterialPoint(robot, dt=0.005, cell=0.025, **options)


@cache
def falls():
    """Noisy recordings of particles that start with different velocities."""
    true, rng = particles(4e4, 0.3), np.random.default_rng(0)
    points, times = [(0.18, 0.05), (0.1, 0.05)], 0.005 * np.arange(17)
    sampling = marker_sampling(true.body.locate(np.array(points)), true, 2)
    out = []
    for k in range(2):
        x0 = true.state(true.body.rest, velocity=0.2 * k * true.body.rest)
        states = pl.simulate(true, np.zeros((16, 0)), x0=x0).states
        positions = sampling.positions(states, times).reshape(17, 2, 2)
        positions += 1e-4 * rng.standard_normal(positions.shape)
        out.append(MarkerRecording(times=times, positions=positions, points=points, x0=x0))
    return out


@pytest.mark.parametrize(
    ("method", "iterations", "within"),
    [
        ("gauss_newton", 10, 0.01),
        ("lbfgsb", 20, 0.01),
        (Adam(rate=0.1), 25, 0.05),
        (SGD(rate=0.1, batch_size=1), 15, 0.05),
    ],
    ids=["gauss_newton", "lbfgsb", "adam", "sgd"],
)
def test_particles_are_fitted_by_every_method(method, iterations, within):
    model = particles(3e4, 0.3, design=["body.E"])
    fit = pl.identify(model, falls(), ["body.E"], method=method, iterations=iterations, workers=1)
    assert fit.values["body.E"] == pytest.approx(4e4, rel=within)
    lower, upper = fit.intervals["body.E"]
    assert 0.97 < lower / fit.values["body.E"] < 1.0 < upper / fit.values["body.E"] < 1.03


def test_derivatives_in_two_processes_are_those_in_one():
    model = particles(3e4, 0.3, design=["body.E", "body.nu"])
    one, two = (
        pl.identify(model, falls(), ["body.E"], iterations=1, workers=workers).params
        for workers in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_a_field_of_cells_is_fitted_with_smoothness():
    """E grows along a plate that hangs. Without smoothness single cells are not determined."""
    plate = {**STRIP, "supports": [pl.Support(region="x-")], "gravity": (2.0, -9.81)}
    robot = pl.Robot(**plate, material=pl.Material(E=4e4, nu=0.3))
    model = pl.ImplicitEuler(robot, dt=0.02, design=["cells.E"])
    x = model.body.mesh.points[model.body.mesh.cells].mean(axis=1)[:, 0]
    truth = 3e4 * (1.0 + 4.0 * x)
    states = pl.simulate(model, np.zeros((10, 0)), p=truth).states
    points, times = model.body.mesh.points[3::2], 0.02 * np.arange(11)
    sampling = marker_sampling(model.body.locate(points), model, 2)
    positions = sampling.positions(states, times).reshape(11, -1, 2)
    positions += 1e-4 * np.random.default_rng(0).standard_normal(positions.shape)
    recording = MarkerRecording(times=times, positions=positions, points=points, noise=1e-4)
    # neighbours are expected to differ by 10 %
    smooth = pl.problem.FieldSmoothness(variable="cells.E", weight=1.0 / 0.1**2)
    fit = pl.identify(model, recording, ["cells.E"], terms=[smooth])
    found = fit.values["cells.E"]
    assert found.shape == truth.shape
    assert np.sqrt(np.mean(np.log(found / truth) ** 2)) < 0.05
    inside = (fit.intervals["cells.E"][:, 0] < truth) & (truth < fit.intervals["cells.E"][:, 1])
    assert inside.mean() > 0.8
    with pytest.raises(InputError, match="one material in each region"):
        _ = fit.robot


def test_a_shape_parameter_is_fitted_and_the_fitted_robot_has_it():
    robot = pl.Robot(**STRIP, material=pl.Material(E=4e4, nu=0.3))
    long = replace(robot, shape=pl.geometry.Rectangle(size=(0.24, 0.1)))
    true = pl.ImplicitEuler(long, dt=0.02)
    corner = true.body.rest.reshape(-1, 2)[:, 0].argmax()
    states = pl.simulate(true, np.zeros((10, 0))).states
    positions = states[:, None, 2 * corner : 2 * corner + 2]
    positions = positions + 1e-4 * np.random.default_rng(0).standard_normal(positions.shape)
    point = robot.body().rest.reshape(-1, 2)[corner]
    recording = MarkerRecording(
        times=0.02 * np.arange(11), positions=positions, points=[point], noise=1e-4
    )
    length = Stretch(axis="x", value=0.2, lower=0.1, upper=0.4)
    shape = ParametrisedRobot(make=robot, parameters={"length": length})
    model = shape.model(pl.ImplicitEuler, dt=0.02, design=["body.E"])
    fit = pl.identify(model, recording, ["shape.length", "body.E"])
    assert fit.values["shape.length"] == pytest.approx(0.24, abs=1e-3)
    assert fit.robot.material.E == fit.values["body.E"] == pytest.approx(4e4, rel=0.02)
    assert np.ptp(fit.robot.mesh().points[:, 0]) == pytest.approx(fit.values["shape.length"])
