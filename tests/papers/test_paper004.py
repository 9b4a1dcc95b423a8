"""`pliant papers 004`: all experiments of the paper, their sizes, and a page of two of them."""

from pathlib import Path

import pytest

from pliant.papers import paper004, reproduce
from pliant.papers.paper_run import PaperRun
from pliant.progress import silent
from pliant.store import read_json
from pliant.zoo.registry import EXPERIMENTS, find

CHECKS = {
    "mpm-actuator",
    "mpm-bounce",
    "mpm-beam",
    "mpm-slope",
    "mpm-tear",
    "arm-identify",
}  # of the method, not of a figure


def test_page_has_every_experiment_of_the_paper() -> None:
    of_paper = {name for name, one in EXPERIMENTS.items() if one.paper == "004"}
    assert set(paper004.FIGURES) == of_paper - CHECKS


@pytest.mark.parametrize("name", paper004.FIGURES)
def test_reduced_settings_are_valid_and_named_in_the_notes(name: str) -> None:
    figure, settings = paper004.FIGURES[name], find(name).settings
    assert set(figure.reduced) <= set(settings)
    find(name).check_settings({**settings, **figure.reduced})
    note = next(note for note in paper004.notes(quick=False) if f", {name}: the paper" in note)
    assert ("reduced" in note) == bool(figure.reduced)


def test_full_page_runs_the_reduced_size(tmp_path: Path) -> None:
    run = PaperRun(paper="004", folder=tmp_path, quick=False, progress=silent)
    assert paper004.reduced_run(run, "biped-codesign").settings["coarsening"] == 1.6
    assert paper004.reduced_run(run, "biped-cable").settings == find("biped-cable").settings


def test_two_experiments_make_a_page_and_resume(tmp_path: Path, monkeypatch) -> None:
    few = {name: paper004.FIGURES[name] for name in ("biped-terrain", "biped-codesign")}
    monkeypatch.setattr(paper004, "FIGURES", few)
    first = reproduce("004", out=tmp_path, quick=True, progress=False)
    assert first["status"] == "done"
    assert read_json(tmp_path / "result.json") == first
    page = (tmp_path / "report.html").read_text()
    assert all(f"{figure.label}, {name}" in page for name, figure in few.items())
    assert (tmp_path / "motions.png").stat().st_size > 10_000
    particles = first["metrics"]["biped-codesign, particles"]
    assert particles["paper"] == 12800
    again = reproduce("004", out=tmp_path, quick=True, resume=True, progress=False)
    same = [key for key in first["metrics"] if "time" not in key]  # measured
    assert [again["metrics"][key] for key in same] == [first["metrics"][key] for key in same]
