"""Rods and their sections: closed forms, axes, refinement and bad input."""

import numpy as np
import pytest

from pliant.geometry import CircularSection, RectangularSection, Rods

SECTION = CircularSection(radius=0.01)
FORK = {"points": [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 0, 3.0]], "rods": [[0, 1], [1, 2], [1, 3]]}


def fork(**options):
    return Rods(**{**FORK, "section": SECTION, **options})


def test_hollow_section_equals_solid_section_minus_hole():
    whole, hole, ring = (
        CircularSection(radius=0.02),
        CircularSection(radius=0.01),
        CircularSection(radius=0.02, inner=0.01),
    )
    assert ring.area == pytest.approx(whole.area - hole.area)
    assert ring.moments == pytest.approx(np.subtract(whole.moments, hole.moments))
    assert ring.torsion == pytest.approx(sum(ring.moments))  # the polar moment
    assert whole.shear_areas == pytest.approx((0.9 * whole.area,) * 2)
    thin = CircularSection(radius=1.0, inner=0.999)
    assert (
        0.5 < thin.shear_areas[0] / thin.area < 0.6
    )  # the shear coefficient of a thin tube is 1/2


def poisson_torsion(width, height, n=120):
    """Return J, four times the integral of the stress function of a rectangle.

    A double sine series solves laplace(f) = -1.
    """
    k = np.arange(1, 2 * n, 2)
    i, j = np.meshgrid(k, k)
    return float(
        np.sum(
            256.0
            * width
            * height
            / (np.pi**6 * i**2 * j**2 * ((i / width) ** 2 + (j / height) ** 2))
        )
    )


@pytest.mark.parametrize("sides", [(1.0, 1.0), (2.0, 1.0), (1.0, 10.0)])
def test_torsion_constant_of_a_rectangle_follows_from_its_stress_function(sides):
    bar = RectangularSection(width=sides[0], height=sides[1])
    assert bar.torsion == pytest.approx(poisson_torsion(*sides), rel=1e-4)


def test_second_moments_of_a_rectangle_equal_their_integrals():
    bar = RectangularSection(width=0.3, height=0.2)
    b, c = (np.linspace(-0.5, 0.5, 401) * side for side in (0.3, 0.2))
    integrals = [np.trapezoid(axis**2, axis) * other for axis, other in ((c, 0.3), (b, 0.2))]
    np.testing.assert_allclose(bar.moments, integrals, rtol=1e-4)


def test_axes_are_right_handed_and_closest_to_up():
    rods = fork()
    np.testing.assert_allclose(
        rods.axes @ np.swapaxes(rods.axes, 1, 2), np.tile(np.eye(3), (3, 1, 1)), atol=1e-15
    )
    np.testing.assert_allclose(np.linalg.det(rods.axes), 1.0)
    np.testing.assert_allclose(rods.axes[0], np.eye(3))
    np.testing.assert_allclose(rods.axes[1, 2], (0, 0, 1))
    np.testing.assert_allclose(rods.axes[2, 2], (1, 0, 0))  # a rod along z
    slanted = fork(up=(1, 1, 1))
    assert np.all(slanted.axes[:, 2] @ np.ones(3) > 0)


def test_refinement_keeps_lengths_names_and_positions():
    rods = fork(regions={"foot": [0], "beam": [1, 2]}, parts={"stem": [0], "arms": [1, 2]})
    fine = rods.refine(4)
    assert (len(fine.rods), len(fine.points)) == (12, 13)
    assert fine.lengths.sum() == pytest.approx(rods.lengths.sum())
    np.testing.assert_allclose(np.sort(fine.lengths), np.sort(np.repeat(rods.lengths / 4, 4)))
    np.testing.assert_array_equal(fine.points[:4], rods.points)
    assert fine.region_points("foot").tolist() == [0]
    np.testing.assert_allclose(
        np.sort(fine.points[fine.region_points("beam")][:, 1]), np.linspace(0, 2, 5)
    )
    assert fine.lengths[fine.part_rods("stem")].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(fine.axes[fine.part_rods("stem")], np.tile(rods.axes[0], (4, 1, 1)))
    assert len(rods.refine(1).rods) == 3


def test_locate_finds_points_on_the_axes():
    rod, fraction = fork().locate([[0.25, 0, 0], [1, 2, 0], [1, 0, 1.5]])
    assert rod.tolist() == [0, 1, 2]
    np.testing.assert_allclose(fraction, [0.25, 1.0, 0.5])


def test_each_part_has_its_section():
    thin, flat = CircularSection(radius=0.01), RectangularSection(width=0.1, height=0.01)
    rods = fork(section={"body": thin, "arms": flat}, parts={"arms": [1, 2]})
    assert rods.sections == (thin, flat, flat)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: fork(points=[[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 3]]),
            "Rod 1 from point 1 to point 2 has no length",
        ),
        (lambda: fork(rods=[[0, 1], [1, 7]]), "Rod 1 names point 7, but the points are 0 to 3"),
        (
            lambda: fork(rods=[[0, 1], [1, 2]]),
            r"1 of 4 points belongs to no rod \(first: point 3\)",
        ),
        (
            lambda: fork(rods=[[0, 1], [1, 2], [1, 3], [2, 1]]),
            "Points 1 and 2 are joined by 2 rods",
        ),
        (lambda: fork(rods=[[0, 1.5], [1, 2], [1, 3]]), "hold 1.5; give whole numbers"),
        (lambda: fork(rods=[]), "rods"),
        (
            lambda: fork(points=[[0, 0, 0], [1, 0, np.nan], [1, 2, 0], [1, 0, 3]]),
            "points of the rods is nan at entry 1, 2",
        ),
        (lambda: fork(points=[[0, 0], [1, 0]]), r"shape \(2, 2\)"),
        (lambda: fork(regions={"foot": [4]}), "region 'foot' names point 4; the points are 0 to 3"),
        (lambda: fork(parts={"arm": []}), "part 'arm' is empty"),
        (lambda: fork(parts={"body": [0]}), "'body' names all rods already"),
        (
            lambda: fork(section={"arm": SECTION}, parts={"arm": [0, 1]}),
            r"1 of 3 rods has no section \(first: rod 2\)",
        ),
        (
            lambda: fork(section={"amr": SECTION}, parts={"arm": [0, 1, 2]}),
            "no part 'amr'; did you mean 'arm'",
        ),
        (lambda: fork(section=0.01), "section of 'body' is '0.01'"),
        (lambda: fork(up=(0, 0, 1)), "Rod 2 runs along the up direction"),
        (lambda: fork(up=(0, 0, 0)), "Pass a nonzero vector"),
        (lambda: fork().refine(0), "divided into '0'"),
        (lambda: fork().refine(2.5), "divided into '2.5'"),
        (
            lambda: fork().locate([[0.5, 0, 0], [0.5, 0.2, 0]]),
            r"Point 1 at .* is 0\.2 m away from the axis of the nearest rod \(rod 0\)",
        ),
        (lambda: fork().region_points("fot"), "no region 'fot'"),
        (lambda: CircularSection(radius=0.01, inner=0.01), "inner radius of a section is 0.01 m"),
        (lambda: CircularSection(radius=-1.0), "radius of a round section is -1"),
        (lambda: RectangularSection(width=np.inf, height=1.0), "width of a bar is inf"),
    ],
)
def test_bad_rods_and_sections_raise(make, message, raises_clear_error):
    raises_clear_error(make, message)


def test_arrays_are_read_only():
    rods = fork(regions={"foot": [0]})
    for array in (rods.points, rods.rods, rods.regions["foot"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
