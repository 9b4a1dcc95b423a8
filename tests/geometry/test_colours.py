"""Silhouettes whose colours name regions."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pliant.core import InputError, MeshError
from pliant.geometry import load_silhouette, mesh_quality, sample_particles

SIZE = {"height": 0.1, "cell": 0.01}
FLAG = {"red": "left", "#0000ff": "right"}


def flag(path, *, alpha=False, colours=("red", "blue"), supersampling=1):
    """Write a picture of two adjacent squares of 100 pixels with a margin of 20 pixels, and return
    its path.

    With `supersampling` above 1, the edges are antialiased.
    """
    n = supersampling
    image = Image.new("RGBA", (240 * n, 140 * n), (255, 255, 255, 0) if alpha else "white")
    draw = ImageDraw.Draw(image)
    for k, colour in enumerate(colours):
        draw.rectangle(
            ((20 + 100 * k) * n, 20 * n, (120 + 100 * k) * n - 1, 120 * n - 1), fill=colour
        )
    image = image.resize((240, 140), Image.Resampling.LANCZOS) if supersampling > 1 else image
    (image if alpha else image.convert("RGB")).save(path)
    return path


@pytest.mark.parametrize("supersampling", [1, 3])
@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize(
    "colours", [("red", "blue"), ("yellow", "cyan")]
)  # dark colours, and colours as light as the background
def test_each_cell_has_the_region_of_its_colour(tmp_path, alpha, colours, supersampling):
    path = flag(tmp_path / "flag.png", alpha=alpha, colours=colours, supersampling=supersampling)
    mesh = load_silhouette(path, **SIZE, regions=dict(zip(colours, ("left", "right"), strict=True)))
    centres = mesh.points[mesh.corners].mean(axis=1)
    assert set(mesh.regions) == {"left", "right"}
    assert (centres[mesh.regions["left"], 0] < 0.101).all()
    assert (centres[mesh.regions["right"], 0] > 0.099).all()
    assert len(mesh.regions["left"]) + len(mesh.regions["right"]) == mesh.n_cells
    assert mesh.volumes().sum() == pytest.approx(0.02, rel=0.01)
    assert mesh_quality(mesh).closed


def test_picture_rows_run_downward(tmp_path):
    image = Image.new("RGB", (60, 120), "white")
    ImageDraw.Draw(image).rectangle((10, 10, 49, 59), fill="green")
    ImageDraw.Draw(image).rectangle((10, 60, 49, 109), fill="black")
    image.save(tmp_path / "post.png")
    mesh = load_silhouette(
        tmp_path / "post.png", **SIZE, regions={"green": "top half", "black": "foot"}
    )
    assert mesh.points[np.unique(mesh.cells[mesh.regions["foot"]])][:, 1].max() < 0.065


def test_extruded_silhouette_keeps_regions_and_particle_volumes(tmp_path):
    mesh = load_silhouette(flag(tmp_path / "flag.png"), **SIZE, thickness=0.02, regions=FLAG)
    particles = sample_particles(mesh, spacing=0.005)
    for name, chosen in mesh.regions.items():
        assert particles.volumes[particles.regions[name]].sum() == pytest.approx(
            mesh.volumes()[chosen].sum(), rel=1e-12
        )
    assert particles.points[particles.regions["left"]][:, 0].max() < 0.11


def test_two_colours_may_name_one_region(tmp_path):
    mesh = load_silhouette(
        flag(tmp_path / "flag.png"), **SIZE, regions={"red": "skin", "blue": "skin"}
    )
    np.testing.assert_array_equal(mesh.regions["skin"], np.arange(mesh.n_cells))


@pytest.mark.parametrize(
    ("colours", "regions", "message"),
    [
        (
            ("red", "blue"),
            {"red": "left"},
            r"flag.png: Inside the figure, 9\d00 of 20000 pixels have .*row 20, column 12\d, "
            "#0000ff; given: #ff0000",
        ),
        (
            ("red", "yellow"),
            {"red": "left", "blue": "right"},
            r"Inside the figure.*have none of the colours",
        ),
        (
            ("red", "blue"),
            {**FLAG, "lime": "tail"},
            r"No cell has the colour 'lime' of region 'tail'",
        ),
        (
            ("red", "blue"),
            {**FLAG, "ivory": "tail"},
            r"#fffff0, is nearly white, .*make the outside transparent",
        ),
        (
            ("red", "blue"),
            {"rad": "left"},
            r"There is no colour 'rad'; write a name such as 'red', or '#rrggbb'",
        ),
        (("red", "blue"), {3: "left"}, r"There is no colour 3;"),
        (("red", "blue"), {"red": 3}, r"The region of colour 'red' is '3'"),
        (("red", "blue"), {}, r"The regions of a silhouette are empty"),
        (("red", "blue"), ["red"], r"give a dict from colour to region"),
        (
            ("red", "blue"),
            {"red": "outside", "blue": "right"},
            r"'outside' names both a region and a surface",
        ),
        (("white", "white"), FLAG, r"has no outline: all 33600 pixels are outside"),
    ],
)
def test_bad_colours_raise_input_error(tmp_path, colours, regions, message):
    with pytest.raises(InputError, match=message) as caught:
        load_silhouette(flag(tmp_path / "flag.png", colours=colours), **SIZE, regions=regions)
    assert "\n" not in str(caught.value)


def test_empty_picture_raises(tmp_path):
    Image.new("RGBA", (30, 20), (0, 0, 0, 0)).save(tmp_path / "empty.png")
    for regions in (None, FLAG):
        with pytest.raises(
            MeshError, match=r"empty.png: The picture has no outline: all 600 pixels are outside"
        ):
            load_silhouette(tmp_path / "empty.png", **SIZE, regions=regions)
