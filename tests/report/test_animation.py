"""Animations can be decoded, keep the scene time, and show all frames of the scene."""

import dataclasses

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from pliant.core import InputError
from pliant.report import animate, draw
from pliant.report.animation import MAX_FRAMES, animation_timing

SIZE = (320, 240)


def decoded(path):
    """Return the metadata and the frames (h, w, 3) of an MP4 file."""
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    width, height = meta["size"]
    return meta, [
        np.frombuffer(frame, dtype=np.uint8).reshape(height, width, 3) for frame in reader
    ]


@pytest.fixture(scope="module")
def animations(strip, tmp_path_factory):
    return animate(strip, tmp_path_factory.mktemp("animations"), size=(SIZE[0] + 1, SIZE[1] + 1))


def test_mp4_decodes_to_drawn_frames(animations, strip):
    meta, frames = decoded(animations[0])
    assert meta["size"] == SIZE  # odd widths and heights are rounded to even numbers
    assert meta["pix_fmt"].startswith("yuv420p")
    assert len(frames) == len(strip.frames)
    for k in (0, -1):
        note = animation_timing(strip).note
        assert (
            np.abs(frames[k].astype(float) - draw(strip, k, SIZE, note=note)).mean() < 3.0
        )  # lossy compression
    assert np.abs(frames[0].astype(float) - frames[-1]).mean() > 3.0


def test_gif_has_frames_and_duration_of_mp4(animations, strip):
    gif = Image.open(animations[1])
    assert gif.n_frames == len(strip.frames)
    assert gif.width == 480
    total = 0
    for k in range(gif.n_frames):
        gif.seek(k)
        total += gif.info["duration"]
    assert total == pytest.approx(1000 * len(strip.frames) / animation_timing(strip).fps, abs=10)


def test_animate_leaves_only_two_files(animations):
    assert sorted(path.name for path in animations[0].parent.iterdir()) == [
        "animation.gif",
        "animation.mp4",
    ]


def repeated_scene(strip, frames, dt):
    """Return a scene that shows the first frame of the strip `frames` times."""
    return dataclasses.replace(
        strip, frames=np.repeat(strip.frames[:1], frames, axis=0), markers=None, dt=dt
    )


@pytest.mark.parametrize(
    ("frames", "dt", "play", "speed"),
    [
        (101, 0.04, 4.0, 1.0),
        (2001, 0.01, 12.0, 20.0 / 12.0),
        (51, 0.002, 2.0, 0.05),
        (41, None, 4.0, 1.0),
    ],
)
def test_animation_keeps_scene_time_within_limits(strip, frames, dt, play, speed):
    timing = animation_timing(repeated_scene(strip, frames, dt))
    assert timing.frames[0] == 0
    assert timing.frames[-1] == frames - 1
    assert len(timing.frames) <= MAX_FRAMES
    assert (len(timing.frames) - 1) / timing.fps == pytest.approx(play)
    assert timing.speed == pytest.approx(speed)
    steps = np.diff(timing.frames)
    assert steps.max() - steps.min() <= 1


def test_single_frame_gives_animation(strip, tmp_path):
    single_frame = dataclasses.replace(strip, frames=strip.frames[:1], markers=None)
    mp4, gif = animate(single_frame, tmp_path, size=SIZE, name="still")
    assert len(decoded(mp4)[1]) == 1
    assert Image.open(gif).n_frames == 1


def test_zero_frame_rate_raises(strip):
    with pytest.raises(InputError, match="0 frames/s"):
        animation_timing(strip, fps=0.0)
