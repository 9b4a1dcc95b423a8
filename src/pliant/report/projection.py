"""Drawing settings shared by all frames of a scene: picture size, camera, skin and colour scale."""

from dataclasses import dataclass, replace

from matplotlib.colors import Colormap, Normalize

from pliant.core import Array
from pliant.report.camera import Camera, shifted
from pliant.report.scene import DrawnScene
from pliant.report.skin import Skin


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Drawing settings shared by all frames of a scene."""

    size: tuple[int, int]  # width and height [pixels]
    camera: Camera
    skin: Skin | None  # None: bars or particles
    shades: Normalize | None  # None: the body has one colour
    colours: Colormap
    path: Array | None = None  # (frames, dim) [m] translation of the camera; None: it is fixed

    def at(self, k: int) -> "Stage":
        """Return the settings of frame k, with the translated camera."""
        if self.path is None:
            return self
        return replace(self, camera=shifted(self.camera, self.path[k]))

    @property
    def unit(self) -> float:
        """Return a thousandth of the picture height in points (1/72 inch), at 100 pixels per
        inch."""
        return self.size[1] * 72.0 / 100.0 / 1000.0

    @property
    def pixels_per_metre(self) -> float:
        left, right, _, _ = self.camera.window
        return self.size[0] / (right - left)


def stroke_width(scene: DrawnScene, stage: Stage) -> float:
    """Return the width [points] of bars and particles."""
    return (
        9.0 * stage.unit
        if scene.thickness is None
        else scene.thickness * 0.72 * stage.pixels_per_metre
    )
