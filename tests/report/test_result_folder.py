"""Result folders: an old result stays complete until the new one is. A resumed run has the same
settings."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, PliantError
from pliant.papers import reproduce
from pliant.report.result_folder import FILES, UNFINISHED
from pliant.store import read_json, read_trajectory
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, run


class Stop(Exception):
    """An exception that simulates kill -9: no clean-up follows."""


def fall(run: ExperimentRun, stop: int | None = None) -> Outcome:
    """Simulate a falling point mass. The run ends with `Stop` after `stop` steps."""
    mass = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0, 0.0]]), gravity=(0.0, 0.0, -9.81))
    model = pl.ImplicitEuler(mass, dt=float(run.settings["dt"]))

    def controls(k, x):
        if k == stop:
            raise Stop
        return np.zeros(model.n_controls)

    path = run.simulate(model, controls, count=int(run.settings["steps"]), dt=model.dt)
    return Outcome(metrics={"drop": Metric(value=float(path.states[-1, 2]), unit="m")})


FALL = Experiment(
    name="fall",
    shows="a falling mass",
    size="3 unknowns",
    takes="no time",
    perform=fall,
    probe=lambda settings: (None, np.zeros(0), np.zeros(0)),
    settings={"steps": 50, "dt": 0.01},
)


def run_and_stop(folder: Path, after: int = 40, **options) -> None:
    """Start a run that is killed after some steps."""
    with pytest.raises(Stop):
        run(replace(FALL, perform=lambda here: fall(here, after)), out=folder, **options)


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files of a folder by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_interrupted_rerun_keeps_old_result_and_resumes(tmp_path: Path) -> None:
    run(FALL, out=tmp_path, seed=1)
    before = files(tmp_path)
    run_and_stop(tmp_path, seed=2)
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert run(FALL, out=tmp_path, seed=1, resume=True) == json.loads(before["result.json"])
    done = run(FALL, out=tmp_path, seed=2, resume=True)
    assert read_json(tmp_path / "result.json") == done
    assert done["seed"] == 2
    assert len(read_trajectory(tmp_path).states) == 50
    assert set(files(tmp_path)) == set(before)


def test_full_disk_keeps_old_result(tmp_path: Path, monkeypatch) -> None:
    run(FALL, out=tmp_path)
    before = files(tmp_path)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PliantError, match="disk is full"):
        run(FALL, out=tmp_path, seed=3)
    assert files(tmp_path) == before


def test_next_run_completes_publishing_after_crash(tmp_path: Path, monkeypatch) -> None:
    run(FALL, out=tmp_path, seed=1)
    moves = []

    def replace_or_stop(a, b, replace=os.replace):
        if Path(a).parent.name == UNFINISHED and len(moves) == 1:
            raise Stop
        moves.extend([b] if Path(a).parent.name == UNFINISHED and ".pliant" not in str(a) else [])
        replace(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace_or_stop)
        with pytest.raises(Stop):
            run(FALL, out=tmp_path, seed=2)
    assert len(moves) == 1
    assert run(FALL, out=tmp_path, seed=2, resume=True)["seed"] == 2
    assert read_json(tmp_path / "result.json")["seed"] == 2
    assert not (tmp_path / UNFINISHED).exists()


def run_and_kill_at_move(folder: Path, monkeypatch, moves: int, **options) -> None:
    """Run with a kill -9 before the given move of a finished file, counted from 0."""
    made = []

    def replace_or_stop(a, b, replace=os.replace):
        if Path(a).parent.name == UNFINISHED and ".pliant" not in Path(a).name:
            made.append(b)
            if len(made) > moves:
                raise Stop
        replace(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace_or_stop)
        with pytest.raises(Stop):
            run(FALL, out=folder, **options)


LONGER = {"overrides": {"steps": "60"}}


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_result_and_trajectory_agree_after_kill_during_publishing(
    tmp_path: Path, monkeypatch, moves: int
) -> None:
    run(FALL, out=tmp_path)
    run_and_kill_at_move(tmp_path, monkeypatch, moves, **LONGER)
    with pytest.raises(InputError, match="steps was '60' and is now '50'"):
        run(FALL, out=tmp_path, resume=True)
    assert read_json(tmp_path / "result.json")["settings"]["steps"] == 60
    assert len(read_trajectory(tmp_path).states) == 60
    assert not (tmp_path / UNFINISHED).exists()


def test_complete_unpublished_run_is_not_computed_again(tmp_path: Path, monkeypatch) -> None:
    run(FALL, out=tmp_path)
    run_and_kill_at_move(tmp_path, monkeypatch, 0, **LONGER)

    def never(here: ExperimentRun) -> Outcome:
        raise AssertionError("computed again")

    done = run(replace(FALL, perform=never), out=tmp_path, resume=True, **LONGER)
    assert done["settings"]["steps"] == 60


@pytest.mark.parametrize("resume", [False, True])
def test_user_folder_named_unfinished_is_never_removed(tmp_path: Path, resume: bool) -> None:
    thesis = tmp_path / UNFINISHED / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    (thesis.parent / "result.json").write_text("{}")
    with pytest.raises(InputError, match=r"unfinished is not an unfinished run. Rename it"):
        run(FALL, out=tmp_path, resume=resume)
    assert thesis.read_text() == "years of work"


def test_user_files_are_neither_replaced_nor_removed(tmp_path: Path) -> None:
    notes = tmp_path / "trajectory" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    (tmp_path / "todo.txt").write_text("mine")
    with pytest.raises(InputError, match=r"trajectory was not written by a run.*Rename it"):
        run(FALL, out=tmp_path)
    assert notes.read_text() == "mine"
    notes.parent.rename(tmp_path / "my-trajectory")
    run(FALL, out=tmp_path, resume=True)
    run(FALL, out=tmp_path, seed=1)
    assert (tmp_path / "my-trajectory" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "todo.txt").read_text() == "mine"
    assert len(read_trajectory(tmp_path).states) == 50


def test_user_files_in_result_or_interrupted_run_are_kept(tmp_path: Path) -> None:
    run_and_stop(tmp_path)
    (tmp_path / "first.txt").write_text("mine")
    run(FALL, out=tmp_path, resume=True)
    (tmp_path / "second.txt").write_text("mine")
    for seed in (1, 2):
        run(FALL, out=tmp_path, seed=seed)
    assert (tmp_path / "first.txt").exists()
    assert (tmp_path / "second.txt").exists()


def test_files_missing_in_new_run_are_removed(tmp_path: Path) -> None:
    def animated(here: ExperimentRun) -> Outcome:
        (here.folder / "animation.mp4").write_bytes(b"animation")
        (here.folder / "plan-ddp").mkdir()
        return fall(here)

    run(replace(FALL, perform=animated), out=tmp_path)
    run(FALL, out=tmp_path, seed=1)
    assert not (tmp_path / "animation.mp4").exists()
    assert not (tmp_path / "plan-ddp").exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_trajectory_replaces_file_or_link_of_its_name(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "result"
    run(FALL, out=home)
    (home / "trajectory").rename(tmp_path / "elsewhere")
    if kind == "file":
        (home / "trajectory").write_text("")
    else:
        (home / "trajectory").symlink_to(tmp_path / "elsewhere")
    run(FALL, out=home, **LONGER)
    assert len(read_trajectory(home).states) == 60
    assert len(list((tmp_path / "elsewhere").glob("chunk-*"))) == 3


@pytest.mark.parametrize("names", [["../x"], [""], [".."], [1], None, ["a/b"]])
def test_damaged_file_list_removes_nothing(tmp_path: Path, names) -> None:
    run(FALL, out=tmp_path / "result")
    (tmp_path / "x").write_text("mine")
    (tmp_path / "result" / FILES).write_text(json.dumps({"files": names}))
    with pytest.raises(InputError, match="is damaged"):
        run(FALL, out=tmp_path / "result", seed=1)
    assert (tmp_path / "x").exists()
    assert (tmp_path / "result" / "result.json").exists()


def test_result_without_file_list_is_not_replaced(tmp_path: Path) -> None:
    first = run(FALL, out=tmp_path)
    (tmp_path / FILES).unlink()
    assert run(FALL, out=tmp_path, resume=True) == first
    with pytest.raises(InputError, match=r"without .*Rename the folder"):
        run(FALL, out=tmp_path, seed=1)
    assert read_json(tmp_path / "result.json") == first


def test_resume_with_other_solvers_raises(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        "pliant.zoo.experiment.available_solvers", lambda: ("multifrontal", "cholmod")
    )
    run(FALL, out=tmp_path)
    monkeypatch.setattr("pliant.zoo.experiment.available_solvers", lambda: ("multifrontal",))
    with pytest.raises(InputError, match=r"the list of solvers was .*cholmod"):
        run(FALL, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("overrides", "seed", "message"),
    [
        ({"dt": "0.02"}, 0, "dt was '0.01' and is now '0.02'"),
        ({"steps": "40"}, 0, "steps was '50' and is now '40'"),
        ({}, 1, "the seed was '0' and is now '1'"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_resume_reports_different_settings(
    tmp_path: Path, overrides: dict[str, str], seed: int, message: str, finished: bool
) -> None:
    if finished:
        run(FALL, out=tmp_path)
    else:
        run_and_stop(tmp_path)
    with pytest.raises(InputError, match=message):
        run(FALL, out=tmp_path, overrides=overrides, seed=seed, resume=True)


def change_dt(home: Path) -> None:
    header = json.loads((home / "header.json").read_text())
    (home / "header.json").write_text(json.dumps({**header, "dt": 0.02}))


def add_chunks(home: Path) -> None:
    for first in (40, 60, 80):
        blob = (home / "chunk-000020.npz").read_bytes()
        (home / f"chunk-{first:06d}.npz").write_bytes(blob)


def change_initial_state(home: Path) -> None:
    np.savez(home / "initial.npz", initial=np.full(6, 7.0))


def insert_nan(home: Path) -> None:
    chunk = dict(np.load(home / "chunk-000020.npz"))
    np.savez(home / "chunk-000020.npz", **{**chunk, "states": chunk["states"] * np.nan})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change_dt, "has dt = '0.02', but this run has '0.01'"),
        (add_chunks, "100 steps, but this run has 50"),
        (change_initial_state, "not the initial state of this run"),
        (insert_nan, "damaged.*not finite"),
    ],
)
def test_changed_trajectory_is_not_resumed(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    run_and_stop(tmp_path)
    damage(tmp_path / "trajectory")
    with pytest.raises(InputError, match=message):
        run(FALL, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": {"drop": 1.0}},
        {"metrics": None},
        {"seconds": "long"},
        {"status": 3},
        {"notes": [1]},
        {"key": None},
    ],
)
def test_damaged_result_fields_are_reported_on_resume(tmp_path: Path, change: dict) -> None:
    result = run(FALL, out=tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({**result, **change}))
    with pytest.raises(InputError, match=f"damaged: '{next(iter(change))}"):
        run(FALL, out=tmp_path, resume=True)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "1", 10**400])
def test_seed_must_be_unsigned_32_bit_integer(tmp_path: Path, seed) -> None:
    with pytest.raises(InputError, match="seed is"):
        run(FALL, out=tmp_path / "new", seed=seed)
    assert not (tmp_path / "new").exists()


def test_folder_named_result_json_raises(tmp_path: Path) -> None:
    (tmp_path / "result.json").mkdir()
    for start in (lambda: run(FALL, out=tmp_path), lambda: reproduce("000", out=tmp_path)):
        with pytest.raises(InputError, match=r"result.json is a folder"):
            start()


@pytest.mark.parametrize("out", ["", "a\0b", "n" * 300])
def test_invalid_folder_name_raises(tmp_path: Path, monkeypatch, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PliantError, match=r"folder|too long"):
        run(FALL, out=out)
    assert not list(tmp_path.iterdir())
