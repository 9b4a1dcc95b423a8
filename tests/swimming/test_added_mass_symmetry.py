"""Half a rotation about the axis of a chain of ellipsoids gives the added mass at other angles."""

from dataclasses import replace

import numpy as np
import pytest
from swimming_robots import POINTS, eel

from pliant.geometry import hare_surface
from pliant.swimming import ClosedSurface, EllipsoidShape, Link, SwimmerModel
from pliant.swimming.added_mass import AddedMassMap

ANGLES = np.array([0.5, -0.3])


def with_axes(*axes):
    """Return the eel with other hinge axes."""
    robot = eel()
    hinges = zip(robot.hinges.items(), axes, strict=True)
    return replace(
        robot, hinges={name: replace(hinge, axis=axis) for (name, hinge), axis in hinges}
    )


@pytest.mark.parametrize(
    ("axes", "signs"),
    [
        ([(0.0, 0.0, 1.0), (0.0, 0.0, 1.0)], [-1.0, -1.0]),
        ([(0.0, 0.6, 0.8), (0.0, 1.0, 0.0)], [-1.0, -1.0]),
        ([(1.0, 0.0, 0.0), (0.0, 0.0, -1.0)], [1.0, -1.0]),  # the first hinge rolls
    ],
)
def test_images_have_the_added_mass_of_the_flow(axes, signs):
    """The points of each ellipsoid are symmetric, so the error is round-off at any number."""
    f = AddedMassMap(robot=with_axes(*axes), points=POINTS)
    found = f.symmetry
    np.testing.assert_array_equal(found.inputs, signs)
    (value, slope), (there, slope_there) = f(ANGLES), f(found.image(ANGLES))
    size = np.abs(value).max()
    np.testing.assert_allclose(there, found.outputs * value, atol=1e-13 * size)
    expected = found.outputs[:, None] * slope * found.inputs
    np.testing.assert_allclose(slope_there, expected, atol=1e-13 * size)


def test_robots_without_the_symmetry_have_none():
    robot = eel()
    name, hinge = next(iter(robot.hinges.items()))
    hare = hare_surface(0.2, divisions=4)
    surface = ClosedSurface(points=hare.points, triangles=hare.triangles)
    others = [
        eel("spatial"),
        with_axes((1.0, 0.0, 0.0), (1.0, 0.0, 0.0)),  # angles that stay the same save nothing
        replace(robot, hinges={**robot.hinges, name: replace(hinge, point=(-0.12, 0.01, 0.0))}),
        replace(robot, links={**robot.links, "tail": Link(shape=surface, density=1000.0)}),
    ]
    assert [AddedMassMap(robot=other).symmetry for other in others] == len(others) * [None]


def test_points_of_an_ellipsoid_are_mapped_to_themselves():
    points, areas = EllipsoidShape(semi_axes=(0.3, 0.1, 0.2)).quadrature(353)
    half = np.array([1.0, -1.0, -1.0])
    np.testing.assert_array_equal(points[::-1], half * points)
    np.testing.assert_array_equal(areas[::-1], half * areas)


def test_model_evaluates_one_of_two_images():
    model = SwimmerModel(eel(), dt=0.02, cell=0.4, points=POINTS)
    masses = [model.mass_matrix(sign * ANGLES) for sign in (1.0, -1.0)]
    assert model.surrogate.evaluations == 4  # the corners of one cell
    signs = np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    np.testing.assert_allclose(
        masses[1], np.outer(signs, signs) * masses[0], rtol=1e-12, atol=1e-12
    )
