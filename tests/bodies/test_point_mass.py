"""Point masses."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError

POINTS = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


def test_point_mass_body_has_mass_mass_vjp_and_region():
    body = pl.PointMass(points=POINTS, mass_each=3.0)
    np.testing.assert_array_equal(body.mass(body.fields.density), [3.0, 3.0])
    np.testing.assert_array_equal(body.region("body"), [0, 1])
    y, z = np.arange(6.0), np.arange(6.0)[::-1]
    np.testing.assert_allclose(body.mass_vjp(y, z), [y[:3] @ z[:3], y[3:] @ z[3:]])


def test_locate_returns_the_mass_and_rejects_other_points():
    body = pl.PointMass(points=POINTS)
    np.testing.assert_allclose(body.locate(POINTS[[1]]) @ POINTS, POINTS[[1]])
    with pytest.raises(InputError, match=r"0.5 m away from the nearest point mass"):
        body.locate([[1.0, 0.5, 0.0]])


@pytest.mark.parametrize(
    "options",
    [{"points": [1.0, 2.0]}, {"points": POINTS + np.inf}, {"points": POINTS, "mass_each": 0.0}],
)
def test_bad_points_are_rejected(options):
    with pytest.raises(InputError):
        pl.PointMass(**options)


def test_unknown_region_is_rejected():
    with pytest.raises(InputError, match="the one region 'body', not 'tip'"):
        pl.PointMass(points=POINTS).region("tip")
