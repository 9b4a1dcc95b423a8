"""The guide's page on fluids does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from pliant.geometry.surface import enclosed_volume

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fluids.md"


@pytest.fixture(scope="module")
def names():
    """What the page's snippets define, one after the other."""
    found: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(snippet, found)
    return found


def test_the_snippet_runs(names):
    weight = 9810.0 * names["full"].volume
    assert names["full"].volume == pytest.approx(
        names["volume_properties"](names["wall"].points, names["wall"].triangles).volume,
        rel=1e-12,
    )
    np.testing.assert_allclose(
        names["full"].forces.sum(axis=0), (0.0, 0.0, -weight), atol=1e-12 * weight
    )
    np.testing.assert_allclose(
        names["half"].forces.sum(axis=0), (0.0, 0.0, -weight / 2), atol=1e-12 * weight
    )
    assert names["columns"].weights.sum() == pytest.approx(weight, rel=1e-4)
    assert abs(names["K"] - names["K"].T).max() < 1e-12 * abs(names["K"]).max()


def test_the_can_is_lifted_by_its_pump(names):
    """Lame's closed tube grows by (1 - 2 nu) p A L / (E S), S being the section of its wall and A
    that of the void; caps bulge besides."""
    can = names["can"].shape
    void = can.length - 2 * can.cap
    lift = (names["pumped"] - names["idle"])[:, 2].max()
    lame = 0.4 * 2000.0 * can.inner**2 * void / (1e5 * (can.radius**2 - can.inner**2))
    assert lame < lift < 3.0 * lame
    mesh = can.mesh(divisions=(8, 4, 1))
    octagon = 4 * np.sin(np.pi / 4) * can.inner**2
    assert abs(enclosed_volume(mesh.points, mesh.facets("cavity"))) == pytest.approx(
        octagon * void, rel=1e-12
    )
