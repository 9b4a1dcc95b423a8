"""Animations of scenes, as MP4 and GIF."""

import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pliant.core import Array, InputError, MissingExtra, PliantError
from pliant.report.drawing import SIZE, draw, make_stage
from pliant.report.scene import DrawnScene
from pliant.store import write_atomic

MAX_FRAMES = 120  # more frames take minutes to draw
SEARCH_RATE = 10.0  # [frames/s] of iterations
GIF_WIDTH = 480  # [pixels]
MIN_DURATION = 2.0  # [s]; a shorter animation is hard to see


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The frames of a scene that an animation shows, and its speed."""

    frames: Array  # (k,)
    fps: float  # [frames/s]
    speed: float  # scene time per animation time

    @property
    def note(self) -> str:
        return "" if abs(self.speed - 1.0) < 0.05 else f"({self.speed:.2g}× speed)"


def animate(
    scene: DrawnScene,
    folder: str | Path,
    *,
    name: str = "animation",
    fps: float = 25.0,
    seconds_limit: float = 12.0,
    size: tuple[int, int] = SIZE,
) -> tuple[Path, Path]:
    """Write name.mp4 and name.gif and return their paths. They run in real time if the limit [s]
    permits it."""
    size = (size[0] // 2 * 2, size[1] // 2 * 2)  # H.264 with 4:2:0 colour needs even sides
    timing = animation_timing(scene, fps=fps, seconds_limit=seconds_limit)
    small: list[Image.Image] = []
    video = encode_mp4(_draw_frames(scene, timing, size, small), size, timing.fps)
    mp4, gif = Path(folder) / f"{name}.mp4", Path(folder) / f"{name}.gif"
    write_atomic(mp4, video)
    write_atomic(gif, encode_gif(small, timing.fps))
    return mp4, gif


def animation_timing(
    scene: DrawnScene, *, fps: float = 25.0, seconds_limit: float = 12.0
) -> Timing:
    """Return evenly spaced frames: at most `fps` per second, MAX_FRAMES, and those of the scene."""
    if not (fps > 0.0 and seconds_limit > 0.0):
        raise InputError(
            f"An animation of {fps:g} frames/s and at most {seconds_limit:g} s is impossible. Give "
            "positive numbers."
        )
    last = len(scene.frames) - 1
    duration = last / SEARCH_RATE if scene.dt is None else last * scene.dt
    play = float(np.clip(duration, min(MIN_DURATION, seconds_limit), seconds_limit))
    count = int(min(last + 1, MAX_FRAMES, np.ceil(play * fps) + 1))
    frames = np.round(np.linspace(0, last, count)).astype(int)
    speed = duration / play if last and scene.dt is not None else 1.0  # iterations have no speed
    return Timing(frames=frames, fps=max(count - 1, 1) / play, speed=speed)


def encode_mp4(images: Iterable[Array], size: tuple[int, int], fps: float) -> bytes:
    """Encode pictures (height, width, 3) uint8 of an even `size` (width, height) as H.264."""
    with tempfile.TemporaryDirectory() as folder:  # the MP4 encoder seeks, so it needs a file
        path = Path(folder) / "animation.mp4"
        try:
            with closing(_ffmpeg(path, size, fps)) as writer:
                writer.send(None)
                for image in images:
                    writer.send(np.ascontiguousarray(image))
            return path.read_bytes()
        except OSError as error:
            why = (str(error).strip().splitlines() or ["no reason given"])[-1]
            raise PliantError(
                f"ffmpeg could not encode {size[0]} x {size[1]} pictures ({why}). Check the "
                f"space in {tempfile.gettempdir()}."
            ) from error


def encode_gif(images: list[Image.Image], fps: float) -> bytes:
    """Encode a looping GIF. All frames share one palette, so that fixed parts do not flicker."""
    colours = _common_palette(images)
    frames = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images]
    delays = _delays(len(frames), fps)
    buffer = BytesIO()
    frames[0].save(
        buffer, format="GIF", save_all=True, append_images=frames[1:], duration=delays, loop=0
    )
    return buffer.getvalue()


def _draw_frames(
    scene: DrawnScene, timing: Timing, size: tuple[int, int], small: list[Image.Image]
) -> Iterator[Array]:
    """Yield the pictures one by one to save memory. Append a small copy of each to `small`, for the
    GIF."""
    stage = make_stage(scene, size)
    for k in timing.frames:
        image = draw(scene, int(k), stage=stage, note=timing.note)
        shape = (GIF_WIDTH, round(GIF_WIDTH * size[1] / size[0]))
        small.append(Image.fromarray(image).resize(shape, Image.Resampling.LANCZOS))
        yield image


def _ffmpeg(path: Path, size: tuple[int, int], fps: float) -> Generator[None, Any, None]:
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MissingExtra(
            "MP4 animations need ffmpeg, which was not found. Run: pip install imageio-ffmpeg."
        ) from error
    quality = ["-crf", "20", "-movflags", "+faststart", "-fflags", "+bitexact", "-threads", "2"]
    return imageio_ffmpeg.write_frames(
        str(path),
        size,
        fps=fps,
        codec="libx264",
        pix_fmt_out="yuv420p",
        quality=None,
        macro_block_size=2,
        output_params=quality,
    )


def _common_palette(images: list[Image.Image]) -> Image.Image:
    """Return a palette image from the first, the middle and the last frame, which have almost all
    colours of the animation."""
    chosen = [images[0], images[len(images) // 2], images[-1]]
    pixels = (
        np.concatenate([np.asarray(image).reshape(-1, 3) for image in chosen]).astype(int) // 4 * 4
    )
    numbers, count = np.unique(
        pixels @ np.array([1 << 16, 1 << 8, 1]), return_counts=True
    )  # one integer per colour sorts faster than rows
    colours = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=1).astype(np.uint8)
    # Each colour counts for at most 50 pixels, so that the white background does not dominate the
    # palette.
    even = np.repeat(colours, np.minimum(count, 50), axis=0)
    common = Image.fromarray(even[None]).quantize(colors=255)
    common.putpalette(
        (common.getpalette() or [])[: 3 * 255] + [255, 255, 255]
    )  # keep the background pure white
    return common


def _delays(count: int, fps: float) -> list[int]:
    """Return the delay [ms] of each frame, in multiples of 10 ms whose sum keeps the duration."""
    ends = np.round(np.arange(count + 1) * 100.0 / fps) * 10
    return [max(20, int(delay)) for delay in np.diff(ends)]
