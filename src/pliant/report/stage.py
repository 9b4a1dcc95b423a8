"""What all frames of a scene have in common: the size of the picture, the eye, the skin and the
colour scale."""

from dataclasses import dataclass, replace

from matplotlib.colors import Colormap, Normalize

from pliant.core import Array
from pliant.report.camera import Camera, shifted
from pliant.report.scene import Scene
from pliant.report.skin import Skin


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What all frames of a scene have in common, made once."""

    size: tuple[int, int]  # width and height [pixels]
    camera: Camera
    skin: Skin | None  # None: bars or particles
    shades: Normalize | None  # None: the body has one colour
    colours: Colormap
    way: Array | None = (
        # (frames, dim) [m] how far the eye has gone along with the body; None: it stands still
        None
    )

    def at(self, k: int) -> "Stage":
        """The stage as frame k sees it."""
        return self if self.way is None else replace(self, camera=shifted(self.camera, self.way[k]))

    @property
    def unit(self) -> float:
        """Points (1/72 inch) a thousandth of the picture's height at 100 pixels an inch: sizes
        follow the picture."""
        return self.size[1] * 72.0 / 100.0 / 1000.0

    @property
    def pixels_per_metre(self) -> float:
        left, right, _, _ = self.camera.window
        return self.size[0] / (right - left)


def stroke_width(scene: Scene, stage: Stage) -> float:
    """[points] how wide to draw bars and particles."""
    return (
        9.0 * stage.unit
        if scene.thickness is None
        else scene.thickness * 0.72 * stage.pixels_per_metre
    )
