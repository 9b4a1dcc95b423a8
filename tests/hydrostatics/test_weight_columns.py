"""Weight by columns [Rodriguez2017, section III]: volume and weight converge to the exact values,
for any gravity direction and for several sections in a column."""

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


def cubes(*origins):
    """Return one surface of unit cubes at `origins`. The cubes must not touch."""
    box = Box(size=(1.0, 1.0, 1.0)).mesh(divisions=(2, 2, 2))
    points, triangles = remove_unused_points(box.points, box.boundary())
    shift = [triangles + k * len(points) for k in range(len(origins))]
    return Surface(
        points=np.concatenate([points + origin for origin in origins]),
        triangles=np.concatenate(shift),
    )


@pytest.mark.parametrize(
    ("grid", "expected_volume"),
    [(30, 4.1835), (50, 4.1828), (100, 4.1804), (200, 4.1799), (500, 4.1798)],
)
def test_volumes_equal_those_of_rodriguez2017(grid, expected_volume):
    """The expected volumes [cm^3] are those of Table I. The mesh of the paper has 4.1798 cm^3 and
    this one has 4.1797 cm^3."""
    assert 1e6 * weigh(BALL, grid).volume == pytest.approx(expected_volume, abs=1.5e-4)


@pytest.mark.parametrize("surface", [BALL, HARE])
def test_column_volume_converges_to_signed_volume(rate, surface):
    """The midpoint rule has order two. Each error is a mean over four grids, because the error of
    one grid depends on its offset."""
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


def test_columns_equal_ray_casting():
    """Ray casting intersects each column with all triangles. Each pair of sorted crossings adds a
    weight to the lower triangle."""
    coarse, n = hare_surface(0.02, divisions=12), 24
    lower, upper = coarse.bounds()
    corners = coarse.points[coarse.triangles]
    step, expected, volume = (upper - lower)[:2] / n, np.zeros(len(coarse.points)), 0.0
    for i, j in np.ndindex(n, n):
        foot = np.append(lower[:2] + step * (np.array([i, j]) + 0.5), lower[2] - 0.001)
        head = np.append(foot[:2], upper[2] + 0.001)
        crossings = segment_hits(corners, foot[None], head[None])[0]
        order = np.argsort(crossings)[: np.isfinite(crossings).sum()]
        for bottom, top in zip(order[::2], order[1::2], strict=True):
            h = (crossings[top] - crossings[bottom]) * (head[2] - foot[2])
            barycentric = np.linalg.solve(
                np.vstack([corners[bottom, :, :2].T, np.ones(3)]), np.append(foot[:2], 1.0)
            )
            expected[coarse.triangles[bottom]] += barycentric * h * WATER * 9.81 * np.prod(step)
            volume += h * np.prod(step)
    found = weigh(coarse, n)
    assert found.volume == pytest.approx(volume, rel=1e-11)
    np.testing.assert_allclose(found.weights, expected, atol=1e-11 * expected.max())


@pytest.mark.parametrize("gravity", DIRECTIONS)
@pytest.mark.parametrize("surface", [BALL, HARE])
def test_weight_and_its_line_of_action_are_correct_for_any_gravity_direction(surface, gravity):
    found, whole = (
        weigh(surface, 160, gravity),
        volume_properties(surface.points, surface.triangles),
    )
    g = np.linalg.norm(gravity)
    assert found.weights.sum() == pytest.approx(WATER * g * found.volume, rel=1e-12)
    assert found.volume == pytest.approx(whole.volume, rel=2e-4)
    assert found.weights.min() >= 0.0
    centre = found.weights @ surface.points / found.weights.sum()
    offset = np.cross(
        centre - whole.centroid, np.array(gravity) / g
    )  # a force may move along its line of action
    np.testing.assert_allclose(offset, 0.0, atol=2e-4 * 0.02)


def test_rotating_surface_and_gravity_together_keeps_the_weights():
    """The projected nodes are equal up to round-off, so the grid of columns is the same."""
    rotation = Rotation.from_euler("y", 90.0, degrees=True)
    rotated = Surface(points=rotation.apply(HARE.points.copy()), triangles=HARE.triangles)
    straight, other = weigh(HARE, 100), weigh(rotated, 100, rotation.apply(DOWN))
    assert other.sections == pytest.approx(
        straight.sections, abs=2
    )  # a column at an edge may change sides
    np.testing.assert_allclose(other.weights.sum(), straight.weights.sum(), rtol=1e-4)
    np.testing.assert_allclose(other.weights, straight.weights, atol=0.02 * straight.weights.max())


def test_each_section_loads_its_own_floor():
    """Of three cubes above each other, each carries its own fluid evenly on its floor."""
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
    )  # the centre node has a third of each of the eight floor triangles


def test_weights_are_integrals_of_height_times_shape_function():
    """A wedge has the height 1 - x. Node i carries the integral of N_i (1 - x) over the floor."""
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
    """Nodes of these shapes lie on columns. A crossing counted twice would appear as a leak."""
    surfaces = [cubes((0.0, 0.0, 0.0)), icosphere(1.0, subdivisions=2)]
    for surface in surfaces:
        for grid in range(1, 41):
            found = weigh(surface, grid, gravity)
            assert found.weights.sum() == pytest.approx(
                WATER * np.linalg.norm(gravity) * found.volume, rel=1e-12
            )


def test_nodes_without_triangles_do_not_enlarge_the_grid():
    alone, far = weigh(BALL, 50), np.vstack([BALL.points, BALL.points.max(axis=0) + 0.01])
    found = column_weights(far, BALL.triangles, grid=50, density=WATER, gravity=DOWN)
    np.testing.assert_array_equal(found.weights, np.append(alone.weights, 0.0))
    assert found.volume == alone.volume


def test_hole_between_the_columns_raises(raises_clear_error):
    """A missing triangle, two open ends and a reversed triangle raise. Closed surfaces pass."""
    surface = cubes((0.0, 0.0, 0.0))
    for t in range(len(surface.triangles)):
        remaining = np.delete(surface.triangles, t, axis=0)
        raises_clear_error(
            lambda remaining=remaining: column_weights(
                surface.points, remaining, grid=1, density=WATER, gravity=DOWN
            ),
            "3 edges are open",
        )
    flat = np.ptp(surface.points[surface.triangles][:, :, 0], axis=1) > 0.0
    tube = surface.triangles[flat]  # open at two ends, whose area vectors cancel
    raises_clear_error(
        lambda: column_weights(surface.points, tube, grid=1, density=WATER, gravity=DOWN),
        "edges are open",
    )
    reversed_triangle = np.vstack([surface.triangles[:1, ::-1], surface.triangles[1:]])
    raises_clear_error(
        lambda: column_weights(
            surface.points, reversed_triangle, grid=1, density=WATER, gravity=DOWN
        ),
        "opposite orientation",
    )
    assert all(
        has_balanced_edges(len(closed.points), closed.triangles) for closed in (surface, BALL, HARE)
    )


def test_box_of_whole_columns_has_exact_volume():
    found = weigh(cubes((0.3, 0.2, 0.1)), (8, 5), gravity=(0.0, 0.0, -9.81), density=1.0)
    assert found.volume == pytest.approx(1.0, rel=1e-14)
    assert found.sections == 40


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core only")
@pytest.mark.parametrize("grid", [30, 300])
def test_weights_are_bitwise_independent_of_the_number_of_threads(grid):
    before, found = numba.get_num_threads(), []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        found.append(weigh(HARE, grid))
    numba.set_num_threads(before)
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    assert (found[0].volume, found[0].sections) == (found[1].volume, found[1].sections)


@pytest.mark.parametrize(
    ("change", "message"),
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
            r"leaks along \d+ of \d+ columns. Close its holes",
        ),
        ({"triangles": BALL.triangles[:, ::-1]}, "point inward"),
        ({"points": BALL.points * (0.0, 1.0, 1.0)}, "flat along gravity"),
        ({"points": BALL.points * (1.0, 1.0, 0.0)}, "contain no fluid"),
        ({"points": np.full((2562, 3), np.inf)}, "points of the wall is inf"),
    ],
)
def test_bad_columns_raise(raises_clear_error, change, message):
    case = {
        "points": BALL.points,
        "triangles": BALL.triangles,
        "grid": 200,
        "density": WATER,
        "gravity": DOWN,
        **change,
    }
    raises_clear_error(
        lambda: column_weights(case.pop("points"), case.pop("triangles"), **case), message
    )
