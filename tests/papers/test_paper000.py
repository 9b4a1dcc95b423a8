"""`pliant papers 000`: the row of the soft arm, for a small arm and a few steps."""

from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from pliant.core import InputError, MissingExtra
from pliant.papers import paper000, paper_run, reproduce
from pliant.papers.table_one import TableRow, joined_metrics
from pliant.progress import silent
from pliant.store import read_json
from pliant.zoo.experiment import Metric
from pliant.zoo.registry import find

SMALL = {"steps": 20, "dt": 0.4, "cell": 4.0, "eta": 2.0}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return (result, folder) of the paper with small settings."""
    with pytest.MonkeyPatch.context() as patch:

        class Small:
            def resolve_settings(self, quick):
                return {**find("arm-circle").resolve_settings(quick=quick), **SMALL}

        small = lambda name: Small() if name == "arm-circle" else find(name)
        patch.setattr(paper_run, "find", small)
        folder = tmp_path_factory.mktemp("paper")
        return paper000.reproduce(folder, quick=True, progress=silent), folder


def value(result, name):
    return result["metrics"][f"soft arm: {name}"]["value"]


def test_paper_result_is_written_and_reached(made):
    result, folder = made
    assert result["status"] == "done"
    assert read_json(folder / "result.json") == result
    assert (folder / "report.html").stat().st_size > 10_000


def test_figure_four_has_frames_of_all_motions(made):
    """Arm, plan, gait and trained swimmer: a row each, of four different frames."""
    _, folder = made
    assert (folder / "report.html").read_text().count("data:image/png;base64") == 1
    picture = np.asarray(Image.open(folder / "fig-4.png").convert("L"), float)
    rows = 4 if find_spec("stable_baselines3") else 3
    # titles and pictures are separated by white lines
    inked = np.flatnonzero(np.diff((picture < 250).any(axis=1).astype(int)) == 1)
    assert len(inked) >= rows
    quarters = np.array_split(picture, 4, axis=1)
    assert all((quarter < 250).any() for quarter in quarters)


def test_both_counts_have_their_own_reduction_factor(made):
    result, _ = made
    evaluations = value(result, "exact evaluations")
    assert evaluations == value(result, "simulated steps") / value(
        result, "reduction factor of simulated steps"
    )
    assert value(result, "shape queries") > value(result, "simulated steps")
    # the paper's counts are one evaluation per step, so they stand beside simulated steps only
    papers = {name: metric["paper"] for name, metric in result["metrics"].items()}
    assert papers["soft arm: simulated steps"] == 4800
    assert papers["soft arm: reduction factor of simulated steps"] == 22
    assert papers["soft arm: shape queries"] is None
    assert papers["soft arm: reduction factor of shape queries"] is None


def test_errors_have_the_norm_of_the_paper_and_of_positions(made):
    result, _ = made
    metrics = result["metrics"]
    assert metrics["soft arm: step error"]["unit"] == "of positions and velocities"
    assert metrics["soft arm: step error"]["paper"] == 7e-6
    assert metrics["soft arm: position error of a step"]["unit"] == "of the positions"
    assert metrics["soft arm: position error of a step"]["paper"] is None
    assert 0.0 < value(result, "step error") <= 1.05 * value(result, "estimated step error") < 1e-3


def test_times_compare_the_grid_with_exact_shapes_and_with_all_nodes(made):
    result, _ = made
    ratio = value(result, "time per iteration with the exact map") / value(
        result, "time per iteration with the grid"
    )
    assert value(result, "speed-up of an iteration over the exact map") == pytest.approx(ratio)
    ratio = value(result, "time per iteration on ImplicitEuler") / value(
        result, "time per iteration with the grid"
    )
    assert value(result, "speed-up of an iteration over ImplicitEuler") == pytest.approx(ratio)
    assert value(result, "time of g, step with the exact map") > value(
        result, "time of g~, step on the grid"
    )
    paper = result["metrics"]["soft arm: time of g~, step on the grid"]["paper"]
    assert paper.startswith("0.01 (illegible")
    assert any("our choice" in note for note in result["notes"])


def test_circle_is_reached_in_time(made):
    result, _ = made
    assert value(result, "circle reached") is True
    assert value(result, "largest timed path error of the replay") <= 0.05
    assert value(result, "largest angle error of the replay") < 5.0


def test_ppo_row_has_counts_errors_and_times(made):
    pytest.importorskip("stable_baselines3")
    metrics = {
        name.removeprefix("swimmer, PPO: "): metric
        for name, metric in made[0]["metrics"].items()
        if name.startswith("swimmer, PPO: ")
    }
    steps, evaluations = (
        metrics[name]["value"] for name in ("environment steps", "exact evaluations")
    )
    settings = find("swimmer-ppo").resolve_settings(quick=True)
    assert steps == settings["iterations"] * settings["iteration_steps"]
    assert metrics["reduction factor of environment steps"]["value"] == steps / evaluations
    assert metrics["exact evaluations"]["paper"] == 1973
    assert metrics["time per iteration with the exact map"]["paper"] == 16_424
    assert 0.0 < metrics["step error"]["value"] < 0.1
    ratio = metrics["time of g, step with the exact map"]["value"]
    ratio /= metrics["time of g~, step on the grid"]["value"]
    assert ratio > 10.0  # a step takes four values of f, and f takes milliseconds


def test_row_without_its_extra_is_a_note(tmp_path, monkeypatch):
    def missing(run):
        raise MissingExtra("PPO needs torch.")

    def row(run):
        return TableRow(robot="arm", metrics={"goal reached": Metric(value=True)})

    monkeypatch.setattr(paper000, "ROWS", (missing, row))
    result = paper000.reproduce(tmp_path, quick=True, progress=silent)
    assert result["status"] == "done"
    assert "A row of Table I is missing: PPO needs torch." in result["notes"]


def test_rows_keep_their_names_apart():
    rows = [
        TableRow(robot=robot, metrics={"controls": Metric(value=n)})
        for robot, n in (("soft arm", 4), ("swimmer", 3))
    ]
    joined = joined_metrics(rows)
    assert {name: metric.value for name, metric in joined.items()} == {
        "soft arm: controls": 4,
        "swimmer: controls": 3,
    }


def test_row_that_misses_its_goal_fails_the_paper(tmp_path, monkeypatch):
    def row(run):
        return TableRow(robot="swimmer", metrics={"goal reached": Metric(value=False)})

    monkeypatch.setattr(paper000, "ROWS", (row,))
    result = paper000.reproduce(tmp_path, quick=True, progress=silent)
    assert result["status"].startswith("not reached")


def test_interrupted_paper_resumes_with_its_exact_evaluations(tmp_path, monkeypatch):
    def row(run):
        store = run.experiment("swimmer-ppo").corner_file()
        if not run.resume:
            store.write_text("exact values")
            raise KeyboardInterrupt
        assert store.read_text() == "exact values"
        return TableRow(robot="swimmer", metrics={"goal reached": Metric(value=True)})

    monkeypatch.setattr(paper000, "ROWS", (row,))
    with pytest.raises(KeyboardInterrupt):
        reproduce("000", out=tmp_path, quick=True)
    with pytest.raises(InputError, match="quick was 'True' and is now 'False'"):
        reproduce("000", out=tmp_path, resume=True)
    assert reproduce("000", out=tmp_path, quick=True, resume=True)["status"] == "done"
    assert not (tmp_path / "run.json").exists()


def test_paper_without_long_parts_is_not_resumed(tmp_path):
    with pytest.raises(InputError, match=r"001 keeps nothing.* without --resume"):
        reproduce("001", out=tmp_path, resume=True)


def test_call_times_are_positive_and_finite(made):
    result, _ = made
    times = [m["value"] for m in result["metrics"].values() if m["unit"] == "s"]
    assert len(times) >= 7
    assert np.all(np.isfinite(times))
    assert min(times) > 0.0
