"""Point masses."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError

POINTS = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


def test_mass_pairs_and_regions():
    body = pl.PointMass(points=POINTS, mass_each=3.0)
    np.testing.assert_array_equal(body.mass(body.fields.density), [3.0, 3.0])
    np.testing.assert_array_equal(body.region("body"), [0, 1])
    y, z = np.arange(6.0), np.arange(6.0)[::-1]
    np.testing.assert_allclose(body.mass_vjp(y, z), [y[:3] @ z[:3], y[3:] @ z[3:]])


def test_locate_picks_the_mass_and_refuses_the_empty_place():
    body = pl.PointMass(points=POINTS)
    np.testing.assert_allclose(body.locate(POINTS[[1]]) @ POINTS, POINTS[[1]])
    with pytest.raises(InputError, match=r"0.5 m away from the nearest point mass"):
        body.locate([[1.0, 0.5, 0.0]])


@pytest.mark.parametrize(
    "options",
    [{"points": [1.0, 2.0]}, {"points": POINTS + np.inf}, {"points": POINTS, "mass_each": 0.0}],
)
def test_bad_points_are_refused(options):
    with pytest.raises(InputError):
        pl.PointMass(**options)


def test_an_unknown_region_is_refused():
    with pytest.raises(InputError, match="the one region 'body', not 'tip'"):
        pl.PointMass(points=POINTS).region("tip")
