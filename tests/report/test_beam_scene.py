"""Beams are drawn as bars between their nodes, coloured by fibre strain."""

import numpy as np

import pliant as pl
from pliant.geometry import CircularSection, Rods
from pliant.report.robot_scene import robot_scene
from pliant.zoo.check import _beam_facts

RODS = Rods(
    points=[[0, 0, 0], [0.2, 0, 0]],
    rods=[[0, 1]],
    section=CircularSection(radius=0.01),
    regions={"start": [0]},
).refine(4)
ROBOT = pl.Robot(
    shape=RODS,
    material=pl.Material(E=1e6, nu=0.3, density=1000.0),
    supports=[pl.Support(region="start")],
    effectors={"tip": pl.Effector(point=(0.2, 0, 0))},
)


def test_beam_scene_has_node_positions_and_axial_strain():
    body = ROBOT.body()
    pulled = body.rest.reshape(-1, 3).copy()
    pulled[body.is_position] *= [1.02, 1.0, 1.0]
    scene = robot_scene(ROBOT, np.stack([body.rest, pulled.ravel()]), dt=0.1, title="beam")
    np.testing.assert_array_equal(scene.facets, RODS.rods)
    np.testing.assert_allclose(scene.frames[0], RODS.points)
    assert scene.thickness == 0.02
    np.testing.assert_allclose(scene.values[1], 2.0, rtol=1e-9)
    assert np.abs(scene.values[0]).max() < 1e-9
    np.testing.assert_allclose(scene.markers[1, 0], (0.204, 0, 0))


def test_check_reports_mass_and_count_of_rods():
    facts = dict(_beam_facts(ROBOT.body()))
    assert facts["mass"] == f"{1000.0 * np.pi * 1e-4 * 0.2:.4g} kg"
    assert facts["rods"].startswith("4 between 5 points")
