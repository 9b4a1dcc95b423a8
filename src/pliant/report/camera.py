"""An orthographic camera. Its scale is constant, so that a scale bar is valid everywhere."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter1d

from pliant.core import Array
from pliant.report.scene import DrawnScene

# Margins as fractions of the picture, for the title, the scale bar and the colour bar.
LEFT, RIGHT, TOP, BOTTOM, COLOUR_BAR = 0.05, 0.05, 0.13, 0.11, 0.11
SIDE_MARGIN = 0.3  # of the width of the body, on each side if the camera follows it
SMOOTHING = 0.04  # standard deviation of the camera path filter, as a fraction of the frames


@dataclass(frozen=True, kw_only=True)
class Camera:
    """The picture plane and the visible window."""

    plane: Array  # (2, dim) unit vectors to the right and up in the picture
    toward: Array  # (dim,) unit vector to the camera; zero in 2D
    window: tuple[float, float, float, float]  # [m] left, right, bottom, top of the visible window


def project(camera: Camera, points: Array) -> Array:
    """Return the coordinates (..., 2) [m] of points (..., dim) in the picture plane."""
    return points @ camera.plane.T


def depth(camera: Camera, points: Array) -> Array:
    """Return the coordinate (...) [m] of points (..., dim) towards the camera."""
    return points @ camera.toward


def shifted(camera: Camera, translation: Array) -> Camera:
    """Return the camera translated by `translation` (dim,) [m]."""
    x, y = project(camera, translation)
    left, right, bottom, top = camera.window
    return replace(camera, window=(left + x, right + x, bottom + y, top + y))


def camera_path(scene: DrawnScene) -> Array | None:
    """Return the translation (frames, dim) [m] of a camera that follows the body, horizontal if
    there is level ground. None if the camera is fixed."""
    if not scene.follow:
        return None
    middle = (scene.frames.min(axis=1) + scene.frames.max(axis=1)) / 2.0
    if scene.ground is not None:
        middle[:, scene.axis] = scene.ground
    return gaussian_filter1d(middle - middle[0], SMOOTHING * len(middle), axis=0, mode="nearest")


def fit_camera(scene: DrawnScene, size: tuple[int, int], path: Array | None = None) -> Camera:
    """Return a camera along scene.view whose window contains all frames, for a picture of `size`
    (width, height) pixels and a camera path (frames, dim) [m]."""
    plane, toward = _directions(scene)
    low, high = _bounds(scene, plane, path)
    side_margin = 0.0 if path is None else SIDE_MARGIN * (high[0] - low[0])
    low, high = low - [side_margin, 0.0], high + [side_margin, 0.0]
    right = RIGHT + (COLOUR_BAR if scene.values is not None else 0.0)
    free = np.array([1.0 - LEFT - right, 1.0 - TOP - BOTTOM])
    pixels = np.array(size, dtype=float)
    scale = np.max((high - low) / (free * pixels))  # [m] per pixel
    scale = scale if scale > 0.0 else 1.0 / pixels[0]  # a scene that is one point
    middle = np.array([LEFT + free[0] / 2, BOTTOM + free[1] / 2])
    start = (low + high) / 2 - middle * pixels * scale
    if path is not None and scene.ground is not None and scene.dim == 2:
        # prefer free space above the body
        start[1] = max(start[1], low[1] - 2.0 * BOTTOM * pixels[1] * scale)
    end = start + pixels * scale
    return Camera(plane=plane, toward=toward, window=(start[0], end[0], start[1], end[1]))


def _bounds(scene: DrawnScene, plane: Array, path: Array | None) -> tuple[Array, Array]:
    """Return the bounding box ((2,), (2,)) of all frames. It is computed frame by frame to save
    memory."""
    corners = []
    for k in range(len(scene.frames)):
        seen = (
            _frame_points(scene, k) if path is None else _frame_points(scene, k) - path[k]
        ) @ plane.T
        corners.append((seen.min(axis=0), seen.max(axis=0)))
    low, high = np.array(corners).transpose(1, 0, 2)
    return low.min(axis=0), high.max(axis=0)


def _frame_points(scene: DrawnScene, k: int) -> Array:
    """Return all points (j, dim) of frame k, including its shadow."""
    groups = [scene.frames[k], *(line.points[k] for line in scene.lines)]
    groups += [] if scene.markers is None else [scene.markers[k]]
    groups += [] if scene.targets is None or scene.follow else [scene.targets]
    points = np.concatenate(groups)
    return (
        points
        if scene.ground is None
        else np.concatenate([points, project_to_ground(scene, points)])
    )


def project_to_ground(scene: DrawnScene, points: Array) -> Array:
    """Return points (..., dim) projected vertically onto the ground."""
    shadow = points.copy()
    shadow[..., scene.axis] = scene.ground
    return shadow


def _directions(scene: DrawnScene) -> tuple[Array, Array]:
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
