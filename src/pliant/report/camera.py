"""An orthographic eye: lengths keep their ratio in the picture, so a scale bar is true
everywhere."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter1d

from pliant.core import Array
from pliant.report.scene import Scene

# Shares of the picture left free on each side, for the title, the scale bar and the colour bar.
LEFT, RIGHT, TOP, BOTTOM, COLOUR_BAR = 0.05, 0.05, 0.13, 0.11, 0.11
AHEAD = 0.3  # of what a picture that goes along with the body holds, shown on each side beyond it
STEADY = 0.04  # of the frames, over which the eye smooths the way of a body that it follows


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Where the picture plane lies and how much of it is seen."""

    plane: Array  # (2, dim) unit vectors to the right and up in the picture
    toward: Array  # (dim,) unit vector to the eye; zero in 2D, where nothing hides anything
    window: tuple[float, float, float, float]  # [m] left, right, bottom, top of what is seen


def project(camera: Camera, points: Array) -> Array:
    """(..., 2) where points (..., dim) lie in the picture plane [m]."""
    return points @ camera.plane.T


def depth(camera: Camera, points: Array) -> Array:
    """(...) how near to the eye points (..., dim) lie [m]; larger is nearer."""
    return points @ camera.toward


def shifted(camera: Camera, way: Array) -> Camera:
    """The camera moved by (dim,) [m], without turning."""
    x, y = project(camera, way)
    left, right, bottom, top = camera.window
    return replace(camera, window=(left + x, right + x, bottom + y, top + y))


def way_of(scene: Scene) -> Array | None:
    """(frames, dim) [m] how far the eye goes with the body up to each frame; up and down only where
    there is no level ground."""
    if not scene.follow:
        return None
    middle = (scene.frames.min(axis=1) + scene.frames.max(axis=1)) / 2.0
    if scene.ground is not None:
        middle[:, scene.axis] = scene.ground
    return gaussian_filter1d(middle - middle[0], STEADY * len(middle), axis=0, mode="nearest")


def fit_camera(scene: Scene, size: tuple[int, int], way: Array | None = None) -> Camera:
    """The eye of scene.view with a window that holds all frames in a picture of `size` (width,
    height) pixels, when it goes this way."""
    plane, toward = _directions(scene)
    low, high = _bounds(scene, plane, way)
    aside = 0.0 if way is None else AHEAD * (high[0] - low[0])
    low, high = low - [aside, 0.0], high + [aside, 0.0]
    right = RIGHT + (COLOUR_BAR if scene.values is not None else 0.0)
    free = np.array([1.0 - LEFT - right, 1.0 - TOP - BOTTOM])
    pixels = np.array(size, dtype=float)
    scale = np.max((high - low) / (free * pixels))  # [m] a pixel
    scale = scale if scale > 0.0 else 1.0 / pixels[0]  # a scene that is one point
    middle = np.array([LEFT + free[0] / 2, BOTTOM + free[1] / 2])
    start = (low + high) / 2 - middle * pixels * scale
    if (
        way is not None and scene.ground is not None and scene.dim == 2
    ):  # rather sky above a body than soil below it
        start[1] = max(start[1], low[1] - 2.0 * BOTTOM * pixels[1] * scale)
    end = start + pixels * scale
    return Camera(plane=plane, toward=toward, window=(start[0], end[0], start[1], end[1]))


def _bounds(scene: Scene, plane: Array, way: Array | None) -> tuple[Array, Array]:
    """The corners (2,) and (2,) of what all frames draw, frame by frame so that a long run needs no
    copy of itself."""
    corners = []
    for k in range(len(scene.frames)):
        seen = (_drawn(scene, k) if way is None else _drawn(scene, k) - way[k]) @ plane.T
        corners.append((seen.min(axis=0), seen.max(axis=0)))
    low, high = np.array(corners).transpose(1, 0, 2)
    return low.min(axis=0), high.max(axis=0)


def _drawn(scene: Scene, k: int) -> Array:
    """(j, dim) every point that frame k draws, its shadow included."""
    groups = [scene.frames[k], *(line.points[k] for line in scene.lines)]
    groups += [] if scene.markers is None else [scene.markers[k]]
    groups += [] if scene.targets is None or scene.follow else [scene.targets]
    points = np.concatenate(groups)
    return points if scene.ground is None else np.concatenate([points, drop(scene, points)])


def drop(scene: Scene, points: Array) -> Array:
    """`points` (..., dim) moved straight down (or up) onto the ground."""
    shadow = points.copy()
    shadow[..., scene.axis] = scene.ground
    return shadow


def _directions(scene: Scene) -> tuple[Array, Array]:
    axes = np.eye(scene.dim)
    if scene.dim == 2:
        return axes[[1 - scene.axis, scene.axis]], np.zeros(2)
    azimuth, elevation = np.deg2rad(scene.view)
    up, e1, e2 = (axes[(scene.axis + shift) % 3] for shift in range(3))
    right = -np.sin(azimuth) * e1 + np.cos(azimuth) * e2
    toward = (
        np.cos(elevation) * (np.cos(azimuth) * e1 + np.sin(azimuth) * e2) + np.sin(elevation) * up
    )
    return np.stack([right, np.cross(toward, right)]), toward
