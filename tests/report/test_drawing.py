"""Pictures show the objects of a scene at their positions. An invalid scene raises."""

import dataclasses

import matplotlib.colors
import numpy as np
import pytest
from PIL import Image
from scipy.spatial import ConvexHull

from pliant.core import InputError
from pliant.report import DrawnScene, Line, draw, make_stage, write_picture
from pliant.report.camera import project
from pliant.report.skin import corner_normals, make_skin, normals, outward

SMALL = (320, 240)


def pixel(scene, point, size=SMALL):
    """Return the pixel (row, column) of a point [m] of the scene in its picture."""
    left, right, bottom, top = make_stage(scene, size).camera.window
    x, y = project(make_stage(scene, size).camera, np.asarray(point, dtype=float))
    return int((top - y) / (top - bottom) * size[1]), int((x - left) / (right - left) * size[0])


def has_colour_near(image, at, colour, distance=3):
    """Return whether a pixel within `distance` pixels of `at` has about this colour."""
    row, column = at
    rows = slice(row - distance, row + distance + 1)
    columns = slice(column - distance, column + distance + 1)
    patch = image[rows, columns].astype(float)
    return bool(
        (np.abs(patch - 255 * np.array(matplotlib.colors.to_rgb(colour))).max(axis=-1) < 40).any()
    )


def is_blank(image, at):
    return bool((image[at] > 250).all())


def test_picture_has_given_size_and_shows_body_at_its_position(bar):
    image = draw(bar, 0, SMALL)
    assert image.shape == (240, 320, 3)
    assert image.dtype == np.uint8
    assert not is_blank(image, pixel(bar, bar.frames[0].mean(axis=0)))
    assert is_blank(image, (60, 20))


def test_body_moves_between_frames_in_fixed_window(bar):
    plain = dataclasses.replace(bar, lines=(), markers=None, targets=None)
    tip = pixel(plain, plain.frames[-1][plain.frames[0][:, 0] > 0.11].mean(axis=0))
    assert is_blank(draw(plain, 0, SMALL), tip)
    assert not is_blank(draw(plain, -1, SMALL), tip)


def test_picture_is_deterministic(bar):
    np.testing.assert_array_equal(draw(bar, 5, SMALL), draw(bar, 5, SMALL))


def test_plane_body_is_drawn_in_its_colour_above_ground(strip):
    image = draw(strip, 0, SMALL)
    assert has_colour_near(image, pixel(strip, [0.15, 0.17]), strip.colour)
    assert is_blank(image, pixel(strip, [0.15, 0.08]))
    assert not is_blank(image, pixel(strip, [0.15, -0.01]))


def test_values_colour_the_body(strip):
    rising = np.broadcast_to(strip.frames[0][:, 0], strip.frames.shape[:2])
    scene = DrawnScene(frames=strip.frames, facets=strip.facets, values=rising, value_label="x [m]")
    image = draw(scene, 0, SMALL)
    low, high = image[pixel(scene, [0.01, 0.16])], image[pixel(scene, [0.29, 0.16])]
    assert (
        low.astype(int).sum() > high.astype(int).sum() + 200
    )  # low values are pale, high values dark red


def test_cables_targets_and_effectors_are_drawn_on_top(bar):
    image = draw(bar, 6, (640, 480))
    assert has_colour_near(
        image, pixel(bar, bar.lines[0].points[6, 10], (640, 480)), bar.lines[0].colour
    )
    assert has_colour_near(image, pixel(bar, bar.markers[6, 0], (640, 480)), "#D55E00")
    assert has_colour_near(image, pixel(bar, bar.targets[0], (640, 480)), "#007A5A")


def test_closer_of_two_sheets_hides_the_other():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    facets = np.array([[0, 1, 2], [0, 2, 3]])
    low, high = (np.column_stack([square, np.full(4, z)]) for z in (0.0, 0.5))
    both = np.concatenate([low, high])[None]
    values = np.repeat([[0.0, 1.0]], 4, axis=1)
    scene = DrawnScene(
        frames=both, facets=np.concatenate([facets + 4, facets]), values=values, view=(-60.0, 89.0)
    )
    upper = draw(scene, 0, SMALL)[pixel(scene, [0.6, 0.4, 0.5])]
    assert (
        upper.astype(int).sum() < 400
    )  # the upper sheet is dark and comes first in the list of facets


@pytest.mark.parametrize("corners", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
def test_bars_and_particles_are_drawn(corners, dim):
    points = np.linspace([0.1] * dim, [0.5] * dim, 9)
    facets = np.stack([np.arange(8) + i for i in range(corners)], axis=1)
    scene = DrawnScene(frames=points[None], facets=facets, ground=0.0, thickness=0.05)
    assert has_colour_near(draw(scene, 0, SMALL), pixel(scene, points[4]), scene.colour, distance=6)


def test_up_axis_points_up():
    tall = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.1, 0.0, 0.0]])
    scene = DrawnScene(frames=tall[None], facets=[[0, 1, 2]], up=1)
    assert pixel(scene, tall[1])[0] < pixel(scene, tall[0])[0] - 100


def test_written_picture_is_png_file(bar, tmp_path):
    path = write_picture(bar, 3, tmp_path / "new" / "bar.png", SMALL)
    assert Image.open(path).size == SMALL


def test_edges_of_a_box_stay_sharp(bar):
    corners = bar.frames[0][bar.facets]
    skin = make_skin(bar.facets, bar.frames[0])
    assert skin.closed
    assert outward(corners) == 1.0
    assert outward(corners[:, ::-1]) == -1.0
    facing = corner_normals(skin, corners)
    np.testing.assert_allclose(
        np.abs(facing).max(axis=-1), 1.0
    )  # each corner keeps the normal of its face


def test_normals_of_a_sphere_are_smooth():
    points = np.random.default_rng(0).normal(size=(600, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    facets = ConvexHull(points).simplices
    inward = np.einsum("ij,ij->i", normals(points[facets]), points[facets].mean(axis=1)) < 0.0
    facets[inward] = facets[inward][:, ::-1]
    skin = make_skin(facets, points)
    smooth = np.einsum("mcd,mcd->mc", corner_normals(skin, points[facets]), points[facets])
    flat = np.einsum("md,mcd->mc", normals(points[facets]), points[facets])
    assert skin.closed
    assert np.mean(1.0 - smooth) < 0.5 * np.mean(1.0 - flat)  # closer to the exact radial normal
    assert not skin.sharp.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": np.zeros((3, 4))}, r"`frames` .* shape \(3, 4\)"),
        ({"frames": np.zeros((2, 4, 5))}, r"\(n, 2\) or \(n, 3\)"),
        ({"frames": np.zeros((0, 4, 3))}, "at least one frame"),
        ({"frames": np.full((2, 4, 3), np.nan)}, r"`frames` of the scene is nan at \(0, 0, 0\)"),
        ({"facets": [[0, 1, 4]]}, "Facet 0 refers to vertex 4.*0 to 3"),
        ({"facets": [[0, 1, 2, 3]]}, r"The facets have shape \(1, 4\)"),
        ({"values": np.zeros((2, 5))}, r"`values` .* \(2, 4\) is needed"),
        ({"markers": np.zeros((3, 1, 3))}, "`markers`"),
        ({"targets": np.zeros(3)}, "`targets`"),
        ({"lines": (Line(points=np.zeros((5, 2, 3))),)}, "`points of a line`"),
        ({"dt": 0.0}, "time between frames"),
    ],
)
def test_invalid_scene_raises(changes, message):
    options = {"frames": np.zeros((2, 4, 3)), "facets": [[0, 1, 2]]}
    with pytest.raises(InputError, match=message):
        DrawnScene(**{**options, **changes})


def test_invalid_frame_or_picture_size_raises(bar):
    with pytest.raises(InputError, match=r"no frame 12.*from 0 to 11"):
        draw(bar, 12, SMALL)
    with pytest.raises(InputError, match="too small"):
        draw(bar, 0, (10, 10))


def test_scene_of_one_point_can_be_drawn():
    assert draw(DrawnScene(frames=np.ones((1, 1, 3)), facets=[[0]]), 0, SMALL).shape == (
        240,
        320,
        3,
    )
