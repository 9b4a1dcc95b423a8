"""Files beside the package that repeat a fact of the package."""

import re
from pathlib import Path

import pliant

ROOT = Path(__file__).parents[1]


def test_citation_names_the_version_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (\S+)$", text, re.MULTILINE) == [pliant.__version__]


def test_version_is_written_once_in_the_build_files() -> None:
    assert not re.search(r"^version = \"", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
