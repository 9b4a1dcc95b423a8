"""Files beside the package that repeat a fact of the package."""

import re
from pathlib import Path

import pliant
from pliant.zoo.listing import experiment_rows, listed_experiments

ROOT = Path(__file__).parents[1]


def test_citation_names_the_version_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (\S+)$", text, re.MULTILINE) == [pliant.__version__]


def test_version_is_written_once_in_the_build_files() -> None:
    assert not re.search(r"^version = \"", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def test_listed_experiments_are_those_of_the_registry() -> None:
    """`pliant list` reads a file; `python -m pliant.zoo.listing` writes it again."""
    assert listed_experiments() == experiment_rows()


def test_file_names_of_tests_are_unique() -> None:
    """Modules of tests have no package, so two of one name cannot be collected together."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert {name for name in names if names.count(name) > 1} == set()


def test_spelling_is_british() -> None:
    """Except names of matplotlib and CSS, and the old names in the changelog."""
    american = re.compile(
        r"(?<![a-z])([Cc]enter(s|ed)?|behavior|neighbors?|modeled|labeled)(?![a-z])"
    )
    library = re.compile(r"\b[hv]a=\"center\"|align(-items)?: center|place-items: center")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in ("src", "tests", "examples", "docs", ".")
        for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*"))
        if path.suffix in (".py", ".md") and path not in (Path(__file__), ROOT / "CHANGELOG.md")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if american.search(library.sub("", line))
    ]
    assert found == []
