"""A planar rhinoceros from a picture, with two pressure chambers in each foot [Spielberg2021,
section 5.2, Fig. 7]. The silhouette is drawn here."""

from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageDraw

from pliant.contact import Contact, plane
from pliant.core import require_positive
from pliant.geometry import Mesh, load_silhouette
from pliant.materials import Material
from pliant.robot import Effector, Robot
from pliant.zoo.robots.block_walkers import DENSITY, FRICTION, NU, E, leg_chambers

WIDTH, HEIGHT = 600, 360  # [pixels] of the picture
BODY = "black"
# names and colours of the chambers, from the back to the front
CHAMBERS = {
    "back foot, back": "red",
    "back foot, front": "yellow",
    "front foot, back": "blue",
    "front foot, front": "lime",
}
FOOT = 90  # [pixels] width and height of a foot
FEET = (90, 290)  # [pixels] left ends
# a trunk, a hump, a heavy low head, two horns, an ear and a tail, as polygons and ellipses
ELLIPSES = ((70, 70, 400, 270), (230, 50, 420, 240), (380, 120, 530, 240))
POLYGONS = (
    ((370, 90), (470, 130), (470, 230), (360, 240)),
    ((478, 142), (528, 160), (560, 70)),
    ((440, 130), (480, 140), (470, 90)),
    ((385, 100), (420, 115), (395, 50)),
    ((90, 130), (110, 190), (45, 215), (40, 190)),
)


def draw_rhino(path: str | Path) -> None:
    """Write the picture of the rhinoceros as a PNG file: black on white, the chambers in
    colours."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(picture)
    for ellipse in ELLIPSES:
        pen.ellipse(ellipse, fill=BODY)
    for polygon in POLYGONS:
        pen.polygon(polygon, fill=BODY)
    for left in FEET:
        pen.rectangle((left, 200, left + FOOT - 1, HEIGHT - 11), fill=BODY)
    lefts = [left + side for left in FEET for side in (0, FOOT // 2)]
    for left, colour in zip(lefts, CHAMBERS.values(), strict=True):
        pen.rectangle((left, HEIGHT - 10 - FOOT, left + FOOT // 2 - 1, HEIGHT - 11), fill=colour)
    picture.save(path)


def rhino_mesh(height: float, cell: float) -> Mesh:
    """Return the mesh of the picture, `height` [m] tall, with the chambers as regions."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rhino.png"
        draw_rhino(path)
        regions = {colour: name for name, colour in CHAMBERS.items()}
        return load_silhouette(path, height=height, cell=cell, regions={**regions, BODY: "trunk"})


def rhino(*, height: float = 0.25, cell: float = 0.01) -> Robot:
    """Return the rhinoceros on a floor at height zero, of unit depth. Each control is the stress
    [Pa] of a chamber. `height` [m] is that of the silhouette, `cell` [m] that of the mesh."""
    require_positive("The height of the rhinoceros", height, "m")
    return Robot(
        name="rhino",
        shape=rhino_mesh(height, cell),
        order=1,
        material=Material(E=E, nu=NU, density=DENSITY),
        gravity=(0.0, -9.81),
        actuators=leg_chambers({name: name for name in CHAMBERS}, dim=2),
        contacts=[Contact(obstacle=plane((0.0, 1.0)), friction=FRICTION)],
        effectors={"body": Effector(region="body")},
    )
