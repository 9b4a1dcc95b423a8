"""The paper's columns: volume and weight converge to the exact ones, in any direction and through
several sections."""

import numba
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.geometry import Box, Surface, hare_surface, icosphere, remove_unused_points
from pliant.geometry.winding import segment_hits
from pliant.hydrostatics import column_weights, volume_properties
from pliant.hydrostatics.closed_surface_checks import has_balanced_edges

WATER = 1000.0
BALL, HARE = icosphere(0.01), hare_surface(0.02, divisions=30)
DOWN = (0.0, 0.0, -9.81)
DIRECTIONS = [
    (0.0, 0.0, -1.0),
    (0.0, 0.0, 1.0),
    (0.0, -2.0, 0.0),
    (3.0, 0.0, 0.0),
    (0.3, -0.5, 0.2),
]


def weigh(surface, grid, gravity=DOWN, density=WATER):
    return column_weights(
        surface.points, surface.triangles, grid=grid, density=density, gravity=gravity
    )


def cubes(*places):
    """The skin of unit cubes, as one surface; shared faces are left out by Box itself, so they must
    not touch."""
    box = Box(size=(1.0, 1.0, 1.0)).mesh(divisions=(2, 2, 2))
    points, triangles = remove_unused_points(box.points, box.boundary())
    shift = [triangles + k * len(points) for k in range(len(places))]
    return Surface(
        points=np.concatenate([points + place for place in places]), triangles=np.concatenate(shift)
    )


@pytest.mark.parametrize(
    ("grid", "paper"), [(30, 4.1835), (50, 4.1828), (100, 4.1804), (200, 4.1799), (500, 4.1798)]
)
def test_the_papers_volumes(grid, paper):
    """Of its Table I, whose own mesh of the ball has 4.1798 cm^3 where ours has 4.1797."""
    assert 1e6 * weigh(BALL, grid).volume == pytest.approx(paper, abs=1.5e-4)


@pytest.mark.parametrize("surface", [BALL, HARE])
def test_the_volume_converges_to_the_signed_one(rate, surface):
    """As the midpoint rule does, of second order; over four grids each, for the error of one comes
    and goes with where it lies."""
    exact, grids = (
        volume_properties(surface.points, surface.triangles).volume,
        np.array([8, 16, 32, 64, 128, 256]),
    )
    errors = [
        np.sqrt(np.mean([(weigh(surface, n + k).volume / exact - 1.0) ** 2 for k in range(4)]))
        for n in grids
    ]
    assert rate(grids + 1.5, errors) < -1.7
    assert errors[-1] < 5e-5


def test_every_column_is_as_plain_ray_casting_has_it():
    """Each column as a segment against all triangles, crossings sorted, each pair a weight on the
    lower triangle."""
    coarse, n = hare_surface(0.02, divisions=12), 24
    lower, upper = coarse.bounds()
    corners = coarse.points[coarse.triangles]
    step, expected, volume = (upper - lower)[:2] / n, np.zeros(len(coarse.points)), 0.0
    for i, j in np.ndindex(n, n):
        foot = np.append(lower[:2] + step * (np.array([i, j]) + 0.5), lower[2] - 0.001)
        head = np.append(foot[:2], upper[2] + 0.001)
        met = segment_hits(corners, foot[None], head[None])[0]
        order = np.argsort(met)[: np.isfinite(met).sum()]
        for bottom, top in zip(order[::2], order[1::2], strict=True):
            h = (met[top] - met[bottom]) * (head[2] - foot[2])
            share = np.linalg.solve(
                np.vstack([corners[bottom, :, :2].T, np.ones(3)]), np.append(foot[:2], 1.0)
            )
            expected[coarse.triangles[bottom]] += share * h * WATER * 9.81 * np.prod(step)
            volume += h * np.prod(step)
    found = weigh(coarse, n)
    assert found.volume == pytest.approx(volume, rel=1e-11)
    np.testing.assert_allclose(found.weights, expected, atol=1e-11 * expected.max())


@pytest.mark.parametrize("gravity", DIRECTIONS)
@pytest.mark.parametrize("surface", [BALL, HARE])
def test_the_weight_and_its_place_are_right_in_any_direction(surface, gravity):
    found, whole = (
        weigh(surface, 160, gravity),
        volume_properties(surface.points, surface.triangles),
    )
    g = np.linalg.norm(gravity)
    assert found.weights.sum() == pytest.approx(WATER * g * found.volume, rel=1e-12)
    assert found.volume == pytest.approx(whole.volume, rel=2e-4)
    assert found.weights.min() >= 0.0
    centre = found.weights @ surface.points / found.weights.sum()
    off = np.cross(
        centre - whole.centroid, np.array(gravity) / g
    )  # along gravity a force has no place
    np.testing.assert_allclose(off, 0.0, atol=2e-4 * 0.02)


def test_turning_the_wall_and_gravity_together_changes_nothing():
    """With the turn about gravity that the columns do not see as a change of their own grid."""
    turn = Rotation.from_euler("y", 90.0, degrees=True)
    turned = Surface(points=turn.apply(HARE.points.copy()), triangles=HARE.triangles)
    straight, other = weigh(HARE, 100), weigh(turned, 100, turn.apply(DOWN))
    assert other.sections == pytest.approx(
        straight.sections, abs=2
    )  # a column on an edge may fall to the other side
    np.testing.assert_allclose(other.weights.sum(), straight.weights.sum(), rtol=1e-4)
    np.testing.assert_allclose(other.weights, straight.weights, atol=0.02 * straight.weights.max())


def test_sections_rest_on_their_own_floors():
    """Three cubes above each other: each carries its own fluid, on its floor, evenly."""
    found = weigh(
        cubes((0.0, 0.0, 0.0), (0.0, 0.0, 3.0), (0.2, 0.1, 1.5)),
        (120, 110),
        gravity=(0.0, 0.0, -2.0),
        density=3.0,
    )
    assert found.volume == pytest.approx(3.0, rel=1e-12)
    assert found.sections == 3 * 100 * 100
    per_cube = found.weights.reshape(3, -1)
    np.testing.assert_allclose(per_cube.sum(axis=1), 6.0, rtol=1e-12)
    points = cubes((0.0, 0.0, 0.0)).points
    floor = points[:, 2] == 0.0
    np.testing.assert_allclose(per_cube[:, ~floor], 0.0)
    inner = np.flatnonzero(floor & (np.abs(points[:, :2] - 0.5).max(axis=1) < 0.1))
    np.testing.assert_allclose(
        per_cube[:, inner], 6.0 * 8 / 24, rtol=1e-3
    )  # it has a third of each of the floor's eight triangles


def test_the_distribution_is_that_of_heights_over_the_floor():
    """A wedge: the section over x is 1 - x high, and node i gets the integral of N_i (1 - x) over
    the floor."""
    points = np.array(
        [
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [1.0, 1.0, 0.0],
            [0.0, 1.0, 0.0],
            [0.0, 0.0, 1.0],
            [0.0, 1.0, 1.0],
        ]
    )
    triangles = np.array(
        [[0, 2, 1], [0, 3, 2], [0, 1, 4], [3, 5, 2], [0, 4, 5], [0, 5, 3], [1, 2, 5], [1, 5, 4]]
    )
    found = weigh(
        Surface(points=points, triangles=triangles), 400, gravity=(0.0, 0.0, -1.0), density=1.0
    )
    expected = np.zeros(6)
    expected[[0, 2, 1]] += np.array([2, 1, 1]) / 24  # area / 12 (sum h + h_i), h = (1, 0, 0)
    expected[[0, 3, 2]] += np.array([3, 3, 2]) / 24  # h = (1, 1, 0)
    np.testing.assert_allclose(found.weights, expected, atol=2e-3)
    assert found.volume == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    "gravity",
    [(0.0, 0.0, -1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)],
)
def test_columns_through_nodes_and_edges_count_once(gravity):
    """Of shapes whose nodes lie on columns, at every grid: else a column would not match, and the
    wall would be said to leak."""
    skins = [cubes((0.0, 0.0, 0.0)), icosphere(1.0, subdivisions=2)]
    for skin in skins:
        for grid in range(1, 41):
            found = weigh(skin, grid, gravity)
            assert found.weights.sum() == pytest.approx(
                WATER * np.linalg.norm(gravity) * found.volume, rel=1e-12
            )


def test_nodes_without_triangles_do_not_stretch_the_grid():
    alone, far = weigh(BALL, 50), np.vstack([BALL.points, BALL.points.max(axis=0) + 0.01])
    found = column_weights(far, BALL.triangles, grid=50, density=WATER, gravity=DOWN)
    np.testing.assert_array_equal(found.weights, np.append(alone.weights, 0.0))
    assert found.volume == alone.volume


def test_a_hole_between_the_columns_is_found(one_sentence):
    """Of any one triangle, of all that stand along gravity, and of one that is turned; of a closed
    wall none is."""
    skin = cubes((0.0, 0.0, 0.0))
    for t in range(len(skin.triangles)):
        left = np.delete(skin.triangles, t, axis=0)
        one_sentence(
            lambda left=left: column_weights(
                skin.points, left, grid=1, density=WATER, gravity=DOWN
            ),
            "3 edges are open",
        )
    flat = np.ptp(skin.points[skin.triangles][:, :, 0], axis=1) > 0.0
    tube = skin.triangles[flat]  # open at two ends, whose area vectors cancel
    one_sentence(
        lambda: column_weights(skin.points, tube, grid=1, density=WATER, gravity=DOWN),
        "edges are open",
    )
    turned = np.vstack([skin.triangles[:1, ::-1], skin.triangles[1:]])
    one_sentence(
        lambda: column_weights(skin.points, turned, grid=1, density=WATER, gravity=DOWN),
        "opposite orientation",
    )
    assert all(has_balanced_edges(len(wall.points), wall.triangles) for wall in (skin, BALL, HARE))


def test_a_box_of_whole_columns_is_exact():
    found = weigh(cubes((0.3, 0.2, 0.1)), (8, 5), gravity=(0.0, 0.0, -9.81), density=1.0)
    assert found.volume == pytest.approx(1.0, rel=1e-14)
    assert found.sections == 40


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core only")
@pytest.mark.parametrize("grid", [30, 300])
def test_the_bits_of_the_columns_do_not_depend_on_the_threads(grid):
    before, found = numba.get_num_threads(), []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        found.append(weigh(HARE, grid))
    numba.set_num_threads(before)
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    assert (found[0].volume, found[0].sections) == (found[1].volume, found[1].sections)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grid": 0}, "grid is 0. Pass the number of columns"),
        ({"grid": -3}, "grid is -3"),
        ({"grid": 2.5}, "whole number"),
        ({"grid": "fine"}, "whole number"),
        ({"grid": [10, [10, 10]]}, "whole number"),
        ({"grid": (5,)}, "whole number"),
        ({"points": 1e308 * np.sign(BALL.points)}, "reaches 1e.308 m"),
        ({"grid": (10, 10, 10)}, "one or two whole numbers"),
        ({"grid": 10**6}, "limit of 20000 columns"),
        ({"gravity": (0.0, 0.0, 0.0)}, "gravity of the fluid is zero"),
        ({"gravity": (0.0, np.nan, 0.0)}, "gravity of the fluid is nan"),
        ({"density": 0.0}, "density of the fluid is 0"),
        ({"triangles": BALL.triangles[1:]}, "3 edges are open"),
        (
            {"triangles": BALL.triangles[1:], "check": False},
            "leaks: .* columns enter the fluid and do not leave",
        ),
        ({"triangles": BALL.triangles[:, ::-1]}, "point inward"),
        ({"points": BALL.points * (0.0, 1.0, 1.0)}, "flat along gravity"),
        ({"points": BALL.points * (1.0, 1.0, 0.0)}, "contain no fluid"),
        ({"points": np.full((2562, 3), np.inf)}, "points of the wall is inf"),
    ],
)
def test_bad_columns_are_a_sentence(one_sentence, change, says):
    case = {
        "points": BALL.points,
        "triangles": BALL.triangles,
        "grid": 200,
        "density": WATER,
        "gravity": DOWN,
        **change,
    }
    one_sentence(lambda: column_weights(case.pop("points"), case.pop("triangles"), **case), says)
