"""The code of the fluids guide runs and gives correct numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

from pliant.geometry.surface import enclosed_volume

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fluids.md"


@pytest.fixture(scope="module")
def definitions():
    """Return the names that the code blocks of the guide define."""
    defined: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(snippet, defined)
    return defined


def test_forces_of_the_guide_sum_to_the_weight(definitions):
    weight = 9810.0 * definitions["full"].volume
    assert definitions["full"].volume == pytest.approx(
        definitions["volume_properties"](
            definitions["wall"].points, definitions["wall"].triangles
        ).volume,
        rel=1e-12,
    )
    np.testing.assert_allclose(
        definitions["full"].forces.sum(axis=0), (0.0, 0.0, -weight), atol=1e-12 * weight
    )
    np.testing.assert_allclose(
        definitions["half"].forces.sum(axis=0), (0.0, 0.0, -weight / 2), atol=1e-12 * weight
    )
    assert definitions["columns"].weights.sum() == pytest.approx(weight, rel=1e-4)
    assert abs(definitions["K"] - definitions["K"].T).max() < 1e-12 * abs(definitions["K"]).max()


def test_pressure_extends_the_can(definitions):
    """Lame's closed tube extends by (1 - 2 nu) p A L / (E S), with the sections S of the wall and A
    of the void. The caps also bulge."""
    can = definitions["can"].shape
    void = can.length - 2 * can.cap
    extension = (definitions["pumped"] - definitions["idle"])[:, 2].max()
    lame_extension = 0.4 * 2000.0 * can.inner**2 * void / (1e5 * (can.radius**2 - can.inner**2))
    assert lame_extension < extension < 3.0 * lame_extension
    mesh = can.mesh(divisions=(8, 4, 1))
    octagon = 4 * np.sin(np.pi / 4) * can.inner**2
    assert abs(enclosed_volume(mesh.points, mesh.facets("cavity"))) == pytest.approx(
        octagon * void, rel=1e-12
    )
