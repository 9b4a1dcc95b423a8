"""Particles are drawn as dots, the view follows a moving body, and obstacles surround it."""

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pliant.core import InputError
from pliant.report import DrawnScene, Line, draw, make_stage, palette
from pliant.report.camera import project
from pliant.report.ground import round_length
from pliant.report.layers import SHADES, SIGNED
from pliant.report.particle_dots import draw_dots

SIZE, LARGE = (320, 240), (960, 720)


def pixel(scene, k, point, size=SIZE):
    """Return the pixel (row, column) of a point [m] in the picture of frame k."""
    stage = make_stage(scene, size).at(k)
    left, right, bottom, top = stage.camera.window
    x, y = project(stage.camera, np.asarray(point, float))
    return int((top - y) / (top - bottom) * size[1]), int((x - left) / (right - left) * size[0])


def is_colour(image, at, colour):
    return np.abs(image[at].astype(float) - 255.0 * np.array(to_rgb(colour))).max() < 8.0


@pytest.mark.parametrize("radius", [1.0, 2.7, 9.0])
def test_dot_covers_exactly_its_disc(radius):
    centre = np.array([37.3, 21.8])
    patch = draw_dots(centre[None], np.array([[1.0, 0.0, 0.0]]), radius, (80, 60), balls=False)
    alpha = np.zeros((60, 80))
    row, column = patch.corner
    alpha[row : row + patch.pixels.shape[0], column : column + patch.pixels.shape[1]] = (
        patch.pixels[..., 3] / 255.0
    )
    y, x = np.indices(alpha.shape) + 0.5
    assert alpha.sum() == pytest.approx(np.pi * radius**2, rel=0.1 / radius)
    np.testing.assert_allclose(
        [(alpha * x).sum() / alpha.sum(), (alpha * y).sum() / alpha.sum()], centre, atol=0.06
    )
    assert not alpha[np.hypot(x - centre[0], y - centre[1]) > radius + 0.5].any()
    assert (alpha[np.hypot(x - centre[0], y - centre[1]) < radius - 0.5] == 1.0).all()


def test_later_dots_are_on_top_and_dots_outside_are_not_drawn():
    red, blue = np.eye(3)[[0, 2]]
    patch = draw_dots(
        np.array([[10.0, 10.0], [10.0, 10.0], [500.0, 10.0]]),
        np.array([red, blue, red]),
        2.0,
        (40, 40),
        balls=False,
    )
    row, column = patch.corner
    np.testing.assert_array_equal(patch.pixels[9 - row, 9 - column], [0, 0, 255, 255])
    assert draw_dots(np.array([[-50.0, 10.0]]), red[None], 2.0, (40, 40), balls=False) is None


def test_ball_is_lit_from_the_upper_left():
    patch = draw_dots(np.array([[50.0, 50.0]]), np.full((1, 3), 0.5), 30.0, (100, 100), balls=True)
    row, column = patch.corner
    lit, dark = (int(patch.pixels[50 + shift - row, 50 + shift - column, 0]) for shift in (-15, 15))
    assert lit > dark + 40


def test_particles_are_drawn_at_their_positions():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.5]])
    scene = DrawnScene(frames=points[None], facets=np.arange(3)[:, None], thickness=0.1)
    image = draw(scene, 0, SIZE)
    assert all(is_colour(image, pixel(scene, 0, point), scene.colour) for point in points)
    row, column = pixel(scene, 0, points[1])
    radius = 0.05 * make_stage(scene, SIZE).pixels_per_metre
    assert (image[row, column + round(radius) + 2] == 255).all()
    assert (image[row, column + round(radius) - 2] < 255).any()


def test_only_particles_of_facets_are_drawn():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.5]])
    scene = DrawnScene(frames=points[None], facets=[[0], [2]], thickness=0.1)
    assert (draw(scene, 0, SIZE)[pixel(scene, 0, points[1])] == 255).all()


def test_closer_of_two_particles_hides_the_other():
    above, below = [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]
    for order, values in (
        (0, [1.0, 0.0]),
        (1, [0.0, 1.0]),
    ):  # the upper particle is dark for both orders of the list
        points = np.array([above, below] if order == 0 else [below, above])
        scene = DrawnScene(
            frames=points[None],
            facets=[[0], [1]],
            values=np.array([values]),
            view=(-60.0, 89.9),
            thickness=0.5,
        )
        assert draw(scene, 0, SIZE)[pixel(scene, 0, above)].astype(int).sum() < 450


def test_values_of_both_signs_have_symmetric_colour_scale():
    points = np.column_stack([np.arange(3.0), np.zeros(3)])
    scene = DrawnScene(
        frames=points[None],
        facets=np.arange(3)[:, None],
        values=np.array([[-1.0, 0.0, 2.0]]),
        value_limits=(-1.0, 2.0),
        thickness=0.4,
    )
    stage, image = make_stage(scene, SIZE), draw(scene, 0, SIZE)
    assert (stage.shades.vmin, stage.shades.vmax) == (-2.0, 2.0)
    assert is_colour(image, pixel(scene, 0, points[1]), SIGNED(0.5)[:3])
    assert is_colour(image, pixel(scene, 0, points[2]), SIGNED(1.0)[:3])
    assert make_stage(dataclasses.replace(scene, value_limits=(0.0, 2.0)), SIZE).colours is SHADES


def moving_block(dim, **changes):
    """Return a scene of a particle block that moves ten lengths along the first axis."""
    sides = np.meshgrid(*dim * [np.linspace(0.0, 0.1, 5)])
    rest = np.stack([side.ravel() for side in sides], axis=1)
    frames = rest + np.linspace(0.0, 1.0, 21)[:, None, None] * np.eye(dim)[0]
    return DrawnScene(
        **{
            "frames": frames,
            "facets": np.arange(len(rest))[:, None],
            "ground": 0.0,
            "thickness": 0.02,
            "follow": True,
        }
        | changes
    )


@pytest.mark.parametrize("dim", [2, 3])
def test_following_view_keeps_the_body_centred(dim):
    scene = moving_block(dim)
    middle = scene.frames.mean(axis=1)
    columns = [pixel(scene, k, middle[k])[1] for k in range(5, 16)]
    assert max(columns) - min(columns) <= 3
    whole = make_stage(dataclasses.replace(scene, follow=False), SIZE)
    assert make_stage(scene, SIZE).pixels_per_metre > 2.0 * whole.pixels_per_metre
    assert whole.at(7).camera.window == whole.at(0).camera.window


def test_ground_marks_are_fixed_in_space():
    scene = moving_block(2)
    for k in (8, 12):
        left, right, _, _ = make_stage(scene, SIZE).at(k).camera.window
        wide = (right - left) / SIZE[0]  # [m] width of a pixel
        sky = (
            draw(scene, k, SIZE)[28].astype(int).sum(axis=1)
        )  # a pixel row between the time and the body
        marks = left + wide * (np.flatnonzero(sky < 750) + 0.5) - scene.frames[0].mean(axis=0)[0]
        step = round_length((right - left) / 5)
        assert len(np.unique(np.round(marks / step))) >= 4
        np.testing.assert_allclose(marks, step * np.round(marks / step), atol=1.5 * wide)


def test_ground_stays_level_in_following_view():
    scene = moving_block(2)
    rows = [pixel(scene, k, [0.5, 0.0])[0] for k in (0, 10, 20)]
    assert max(rows) == min(rows)
    falling = dataclasses.replace(
        scene,
        frames=scene.frames - np.linspace(0.0, 1.0, 21)[:, None, None] * [0.0, 1.0],
        ground=None,
    )
    middle = falling.frames.mean(axis=1)
    rows = [pixel(falling, k, middle[k])[0] for k in range(5, 16)]
    assert max(rows) - min(rows) <= 3


def test_surroundings_are_filled_except_for_holes():
    def ring(radius, direction):
        angle = direction * np.linspace(0.0, 2.0 * np.pi, 60)
        return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    rings = (ring(0.8, 1.0), ring(0.4, -1.0))
    scene = DrawnScene(
        frames=np.array([[[-1.0, 0.0], [1.0, 0.0]]]),
        facets=[[0], [1]],
        surroundings=rings,
        thickness=0.05,
    )
    image = draw(scene, 0, SIZE)
    assert is_colour(image, pixel(scene, 0, [0.6, 0.0]), palette.GRID)
    assert (image[pixel(scene, 0, [0.0, 0.0])] == 255).all()
    wide = dataclasses.replace(scene, surroundings=(100.0 * ring(0.8, 1.0),))
    assert make_stage(wide, SIZE).camera.window == make_stage(scene, SIZE).camera.window


def test_cable_width_and_colour_show_tension():
    frames = np.repeat([[[0.0, 0.0], [1.0, 0.5]]], 2, axis=0)
    cable = np.array([[0.2, 0.25], [0.8, 0.25]])
    scene = DrawnScene(
        frames=frames,
        facets=[[0], [1]],
        lines=(Line(points=cable, relative_tension=np.array([0.0, 1.0])),),
        thickness=0.02,
    )
    images = [draw(scene, k, LARGE) for k in (0, 1)]
    row, column = pixel(scene, 0, [0.5, 0.25], LARGE)
    slack, taut = (
        255 - image[row - 8 : row + 9, column, 0].astype(int) for image in images
    )  # darkness across the cable
    assert (taut > 60).sum() >= (slack > 60).sum() + 2
    assert taut.max() > slack.max() + 60 > 100


@pytest.mark.parametrize(
    ("tension", "message"),
    [
        ([0.0, 1.2], "The relative tension of a line is 0 to 1.2. Give fractions"),
        ([0.5], r"`relative_tension of a line` .* \(2\) is needed"),
    ],
)
def test_invalid_relative_tension_raises(tension, message):
    with pytest.raises(InputError, match=message):
        DrawnScene(
            frames=np.zeros((2, 1, 2)),
            facets=[[0]],
            lines=(Line(points=np.zeros((2, 2)), relative_tension=np.array(tension)),),
        )


def test_surroundings_of_other_dimension_raise():
    with pytest.raises(InputError, match="a curve of the surroundings"):
        DrawnScene(frames=np.zeros((2, 1, 2)), facets=[[0]], surroundings=(np.zeros((4, 3)),))
