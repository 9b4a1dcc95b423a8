"""Every registered experiment runs, writes all files, passes its gradient check, and resumes bit
for bit after kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pliant.core import InputError, PliantError
from pliant.dynamics import gradcheck
from pliant.store import read_json, read_trajectory
from pliant.zoo.experiment import run
from pliant.zoo.registry import EXPERIMENTS, find


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_run_reaches_its_goal_and_writes_all_files(name: str, tmp_path: Path) -> None:
    seen = []
    result = run(
        find(name),
        out=tmp_path,
        quick=True,
        progress=lambda what, done, total: seen.append((done, total)),
    )
    assert result["status"] == "done"
    assert read_json(tmp_path / "result.json") == result
    assert {"name", "paper", "status", "seed", "versions", "seconds", "metrics"} <= set(result)
    assert all(set(metric) == {"value", "unit", "paper"} for metric in result["metrics"].values())
    for file in ("report.html", "animation.mp4", "animation.gif", "picture.png"):
        assert (tmp_path / file).stat().st_size > 1000
    assert seen
    assert all(done <= total for done, total in seen)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_derivative_of_an_experiment_is_correct(name: str) -> None:
    experiment = find(name)
    checks = gradcheck(*experiment.probe(experiment.resolve_settings(quick=True)))
    assert checks
    assert [check for check in checks if not check.ok] == []


def test_settings_are_converted_and_change_the_run(tmp_path: Path) -> None:
    result = run(
        find("cantilever"), out=tmp_path, quick=True, overrides={"load": "2", "cells": "8"}
    )
    assert result["settings"]["load"] == 2.0
    assert result["settings"]["cells"] == 8
    assert result["metrics"]["tip deflection, elastica"]["value"] == pytest.approx(
        0.49, abs=0.01
    )  # Bisshopp and Drucker's table: 0.493


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"lod": "2"}, "did you mean 'load'"),
        ({"load": "much"}, "takes a number such as"),
        ({"load": "nan"}, "finite"),
        ({"cells": "2.5"}, "takes a whole number such as"),
    ],
)
def test_invalid_settings_raise(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find("cantilever").resolve_settings(overrides)


def test_unknown_experiment_error_suggests_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean 'arm-reach'"):
        find("arm-reech")


def test_finished_run_is_only_read_on_resume(tmp_path: Path) -> None:
    first = run(find("cantilever"), out=tmp_path, quick=True)
    stamp = (tmp_path / "report.html").stat().st_mtime_ns
    assert run(find("cantilever"), out=tmp_path, quick=True, resume=True) == first
    assert (tmp_path / "report.html").stat().st_mtime_ns == stamp


def test_killed_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    settings = {"steps": "90", "cells": "2"}
    run(find("block-drop"), out=whole, quick=True, overrides=settings)
    words = [
        "run",
        "block-drop",
        "--quick",
        "--set",
        "steps=90",
        "--set",
        "cells=2",
        "--out",
        str(torn),
    ]
    child = subprocess.Popen(
        [sys.executable, "-m", "pliant.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list((torn / "trajectory").glob("chunk-*.npz")):
        assert child.poll() is None, "the run ended before it could be killed"
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (torn / "result.json").exists()
    done = len(read_trajectory(torn).states)
    assert done > 0
    run(find("block-drop"), out=torn, quick=True, overrides=settings, resume=True)
    assert np.array_equal(read_trajectory(torn).path, read_trajectory(whole).path)


def test_resume_with_other_settings_is_rejected(tmp_path: Path) -> None:
    run(find("block-drop"), out=tmp_path, quick=True, overrides={"steps": "60"})
    (tmp_path / "result.json").unlink()
    with pytest.raises(InputError, match="other settings"):
        run(find("block-drop"), out=tmp_path, quick=True, overrides={"steps": "70"}, resume=True)


def test_resume_with_other_settings_does_not_change_a_finished_run(tmp_path: Path) -> None:
    whole = run(find("cantilever"), out=tmp_path, quick=True)
    with pytest.raises(
        InputError, match=r"a run with other settings.*load was .4.0. and is now .2.0."
    ):
        run(find("cantilever"), out=tmp_path, quick=True, overrides={"load": "2"}, resume=True)
    assert read_json(tmp_path / "result.json") == whole
    assert run(find("cantilever"), out=tmp_path, quick=True, resume=True) == whole


@pytest.mark.parametrize(
    ("overrides", "cluster", "says"),
    [
        ({"eta": "100"}, None, "larger than the first cell"),
        ({"cell": "0"}, None, "cell is 0"),
        ({}, "nonsense", "No scheduler answers"),
    ],
)
def test_invalid_option_does_not_delete_previous_results(
    tmp_path: Path, overrides: dict[str, str], cluster: str | None, says: str
) -> None:
    for name in ("result.json", "corners.sqlite"):
        (tmp_path / name).write_text("{}")
    if cluster:
        pytest.importorskip("distributed")
    with pytest.raises(PliantError, match=says):
        run(find("arm-2d"), out=tmp_path, quick=True, overrides=overrides, cluster=cluster)
    assert [(tmp_path / name).read_text() for name in ("result.json", "corners.sqlite")] == [
        "{}",
        "{}",
    ]
