"""A scene as a film: MP4 for the page and the talk, GIF for everywhere else."""

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
from pliant.report.drawing import SIZE, draw, set_stage
from pliant.report.scene import Scene
from pliant.store import write_atomic

MOST_FRAMES = 120  # a film of more costs minutes to draw and shows no more
SEARCH_RATE = 10.0  # [frames/s] at which the steps of a search are shown
GIF_WIDTH = 480  # [pixels]
SHORTEST = 2.0  # [s], less is too short to see


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Which frames of a scene a film shows, and how fast."""

    frames: Array  # (k,)
    fps: float  # [frames/s]
    speed: float  # seconds of the scene for each second of the film

    @property
    def note(self) -> str:
        return "" if abs(self.speed - 1.0) < 0.05 else f"({self.speed:.2g}× speed)"


def animate(
    scene: Scene,
    folder: str | Path,
    *,
    name: str = "animation",
    fps: float = 25.0,
    seconds_limit: float = 12.0,
    size: tuple[int, int] = SIZE,
) -> tuple[Path, Path]:
    """Write name.mp4 and name.gif, in real time where the limit [s] lets it, and return their
    paths."""
    size = (size[0] // 2 * 2, size[1] // 2 * 2)  # H.264 with 4:2:0 colour needs even sides
    timing = plan_film(scene, fps=fps, seconds_limit=seconds_limit)
    small: list[Image.Image] = []
    film = encode_mp4(_drawn(scene, timing, size, small), size, timing.fps)
    mp4, gif = Path(folder) / f"{name}.mp4", Path(folder) / f"{name}.gif"
    write_atomic(mp4, film)
    write_atomic(gif, encode_gif(small, timing.fps))
    return mp4, gif


def plan_film(scene: Scene, *, fps: float = 25.0, seconds_limit: float = 12.0) -> Timing:
    """Frames even in time, at most `fps` a second, MOST_FRAMES and as many as the scene has."""
    if not (fps > 0.0 and seconds_limit > 0.0):
        raise InputError(
            f"A film of {fps:g} frames/s and at most {seconds_limit:g} s cannot be made; give "
            "positive numbers."
        )
    last = len(scene.frames) - 1
    duration = last / SEARCH_RATE if scene.dt is None else last * scene.dt
    play = float(np.clip(duration, min(SHORTEST, seconds_limit), seconds_limit))
    count = int(min(last + 1, MOST_FRAMES, np.ceil(play * fps) + 1))
    frames = np.round(np.linspace(0, last, count)).astype(int)
    speed = (
        duration / play if last and scene.dt is not None else 1.0
    )  # the steps of a search have no speed
    return Timing(frames=frames, fps=max(count - 1, 1) / play, speed=speed)


def encode_mp4(images: Iterable[Array], size: tuple[int, int], fps: float) -> bytes:
    """An H.264 film of pictures (height, width, 3) uint8 of an even `size` (width, height)."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # the MP4 container is finished by seeking back, so it needs a file
        path = Path(folder) / "film.mp4"
        try:
            with closing(_ffmpeg(path, size, fps)) as writer:
                writer.send(None)
                for image in images:
                    writer.send(np.ascontiguousarray(image))
            return path.read_bytes()
        except OSError as error:
            why = (str(error).strip().splitlines() or ["no reason given"])[-1]
            raise PliantError(
                f"ffmpeg could not encode {size[0]} x {size[1]} pictures ({why}); check the "
                f"space in {tempfile.gettempdir()}."
            ) from error


def encode_gif(images: list[Image.Image], fps: float) -> bytes:
    """A looping GIF; all frames share one palette, so that what stands still does not flicker."""
    colours = _common_palette(images)
    frames = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images]
    delays = _delays(len(frames), fps)
    buffer = BytesIO()
    frames[0].save(
        buffer, format="GIF", save_all=True, append_images=frames[1:], duration=delays, loop=0
    )
    return buffer.getvalue()


def _drawn(
    scene: Scene, timing: Timing, size: tuple[int, int], small: list[Image.Image]
) -> Iterator[Array]:
    """The pictures one by one, for 120 of them would fill memory; a copy of each for the GIF goes
    to `small`."""
    stage = set_stage(scene, size)
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
            "MP4 films need ffmpeg, which was not found; run `pip install imageio-ffmpeg`."
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
    """A palette image from the first, the middle and the last frame, which hold about every colour
    of the film."""
    chosen = [images[0], images[len(images) // 2], images[-1]]
    pixels = (
        np.concatenate([np.asarray(image).reshape(-1, 3) for image in chosen]).astype(int) // 4 * 4
    )
    numbers, count = np.unique(
        pixels @ np.array([1 << 16, 1 << 8, 1]), return_counts=True
    )  # one number for each colour: rows sort slowly
    colours = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=1).astype(np.uint8)
    # The white background would take most of the palette from the body, so no colour may count for
    # more than 50 pixels.
    even = np.repeat(colours, np.minimum(count, 50), axis=0)
    common = Image.fromarray(even[None]).quantize(colors=255)
    common.putpalette(
        (common.getpalette() or [])[: 3 * 255] + [255, 255, 255]
    )  # and the background stays pure white
    return common


def _delays(count: int, fps: float) -> list[int]:
    """[ms] for each frame, in the tens that GIF knows, so that their sum keeps the time."""
    ends = np.round(np.arange(count + 1) * 100.0 / fps) * 10
    return [max(20, int(delay)) for delay in np.diff(ends)]
