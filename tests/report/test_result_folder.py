"""Result folders: an old result stays whole until the new one is complete, and a resumed run is the
one that was started."""

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
    """Stands for kill -9: nothing is cleaned up after it."""


def fall(run: ExperimentRun, stop: int | None = None) -> Outcome:
    """A point mass that falls; `stop` ends the run after so many steps."""
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


def stopped(folder: Path, after: int = 40, **options) -> None:
    with pytest.raises(Stop):
        run(replace(FALL, perform=lambda here: fall(here, after)), out=folder, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_an_interrupted_rerun_leaves_the_old_result_whole_and_resumes(tmp_path: Path) -> None:
    run(FALL, out=tmp_path, seed=1)
    before = files(tmp_path)
    stopped(tmp_path, seed=2)
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert run(FALL, out=tmp_path, seed=1, resume=True) == json.loads(before["result.json"])
    done = run(FALL, out=tmp_path, seed=2, resume=True)
    assert read_json(tmp_path / "result.json") == done
    assert done["seed"] == 2
    assert len(read_trajectory(tmp_path).states) == 50
    assert set(files(tmp_path)) == set(before)


def test_a_full_disk_leaves_the_old_result(tmp_path: Path, monkeypatch) -> None:
    run(FALL, out=tmp_path)
    before = files(tmp_path)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PliantError, match="disk is full"):
        run(FALL, out=tmp_path, seed=3)
    assert files(tmp_path) == before


def test_a_crash_while_a_result_is_moved_is_made_good_by_the_next_run(
    tmp_path: Path, monkeypatch
) -> None:
    run(FALL, out=tmp_path, seed=1)
    moves = []

    def deadly(a, b, replace=os.replace):
        if Path(a).parent.name == UNFINISHED and len(moves) == 1:
            raise Stop
        moves.extend([b] if Path(a).parent.name == UNFINISHED and ".pliant" not in str(a) else [])
        replace(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", deadly)
        with pytest.raises(Stop):
            run(FALL, out=tmp_path, seed=2)
    assert len(moves) == 1
    assert run(FALL, out=tmp_path, seed=2, resume=True)["seed"] == 2
    assert read_json(tmp_path / "result.json")["seed"] == 2
    assert not (tmp_path / UNFINISHED).exists()


def killed_at_move(folder: Path, monkeypatch, moves: int, **options) -> None:
    """Run with a kill -9 before the given move of a finished file, counted from 0."""
    made = []

    def deadly(a, b, replace=os.replace):
        if Path(a).parent.name == UNFINISHED and ".pliant" not in Path(a).name:
            made.append(b)
            if len(made) > moves:
                raise Stop
        replace(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", deadly)
        with pytest.raises(Stop):
            run(FALL, out=folder, **options)


LONGER = {"overrides": {"steps": "60"}}


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_result_agrees_with_its_folder_after_a_kill_during_publishing(
    tmp_path: Path, monkeypatch, moves: int
) -> None:
    run(FALL, out=tmp_path)
    killed_at_move(tmp_path, monkeypatch, moves, **LONGER)
    with pytest.raises(InputError, match="steps was '60' and is now '50'"):
        run(FALL, out=tmp_path, resume=True)
    assert read_json(tmp_path / "result.json")["settings"]["steps"] == 60
    assert len(read_trajectory(tmp_path).states) == 60
    assert not (tmp_path / UNFINISHED).exists()


def test_a_complete_unpublished_run_is_not_computed_again(tmp_path: Path, monkeypatch) -> None:
    run(FALL, out=tmp_path)
    killed_at_move(tmp_path, monkeypatch, 0, **LONGER)

    def never(here: ExperimentRun) -> Outcome:
        raise AssertionError("computed again")

    done = run(replace(FALL, perform=never), out=tmp_path, resume=True, **LONGER)
    assert done["settings"]["steps"] == 60


@pytest.mark.parametrize("resume", [False, True])
def test_a_user_folder_named_unfinished_is_never_removed(tmp_path: Path, resume: bool) -> None:
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


def test_files_that_a_user_adds_to_a_result_or_an_interrupted_run_stay(tmp_path: Path) -> None:
    stopped(tmp_path)
    (tmp_path / "first.txt").write_text("mine")
    run(FALL, out=tmp_path, resume=True)
    (tmp_path / "second.txt").write_text("mine")
    for seed in (1, 2):
        run(FALL, out=tmp_path, seed=seed)
    assert (tmp_path / "first.txt").exists()
    assert (tmp_path / "second.txt").exists()


def test_files_that_the_new_run_does_not_write_are_removed(tmp_path: Path) -> None:
    def filmed(here: ExperimentRun) -> Outcome:
        (here.folder / "animation.mp4").write_bytes(b"film")
        (here.folder / "plan-ddp").mkdir()
        return fall(here)

    run(replace(FALL, perform=filmed), out=tmp_path)
    run(FALL, out=tmp_path, seed=1)
    assert not (tmp_path / "animation.mp4").exists()
    assert not (tmp_path / "plan-ddp").exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_result_folder_replaces_a_file_or_link_of_its_name(tmp_path: Path, kind: str) -> None:
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
def test_a_damaged_list_of_files_removes_nothing(tmp_path: Path, names) -> None:
    run(FALL, out=tmp_path / "result")
    (tmp_path / "x").write_text("mine")
    (tmp_path / "result" / FILES).write_text(json.dumps({"files": names}))
    with pytest.raises(InputError, match="is damaged"):
        run(FALL, out=tmp_path / "result", seed=1)
    assert (tmp_path / "x").exists()
    assert (tmp_path / "result" / "result.json").exists()


def test_a_result_without_the_list_of_its_files_is_not_replaced(tmp_path: Path) -> None:
    first = run(FALL, out=tmp_path)
    (tmp_path / FILES).unlink()
    assert run(FALL, out=tmp_path, resume=True) == first
    with pytest.raises(InputError, match=r"without .*Rename the folder"):
        run(FALL, out=tmp_path, seed=1)
    assert read_json(tmp_path / "result.json") == first


def test_resume_sees_another_set_of_solvers(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        "pliant.zoo.experiment.available_solvers", lambda: ("multifrontal", "cholmod")
    )
    run(FALL, out=tmp_path)
    monkeypatch.setattr("pliant.zoo.experiment.available_solvers", lambda: ("multifrontal",))
    with pytest.raises(InputError, match=r"the list of solvers was .*cholmod"):
        run(FALL, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("overrides", "seed", "says"),
    [
        ({"dt": "0.02"}, 0, "dt was '0.01' and is now '0.02'"),
        ({"steps": "40"}, 0, "steps was '50' and is now '40'"),
        ({}, 1, "the seed was '0' and is now '1'"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_resume_names_what_differs(
    tmp_path: Path, overrides: dict[str, str], seed: int, says: str, finished: bool
) -> None:
    if finished:
        run(FALL, out=tmp_path)
    else:
        stopped(tmp_path)
    with pytest.raises(InputError, match=says):
        run(FALL, out=tmp_path, overrides=overrides, seed=seed, resume=True)


def set_dt(home: Path) -> None:
    header = json.loads((home / "header.json").read_text())
    (home / "header.json").write_text(json.dumps({**header, "dt": 0.02}))


def add_chunk(home: Path) -> None:
    for first in (40, 60, 80):
        blob = (home / "chunk-000020.npz").read_bytes()
        (home / f"chunk-{first:06d}.npz").write_bytes(blob)


def other_start(home: Path) -> None:
    np.savez(home / "initial.npz", initial=np.full(6, 7.0))


def not_finite(home: Path) -> None:
    chunk = dict(np.load(home / "chunk-000020.npz"))
    np.savez(home / "chunk-000020.npz", **{**chunk, "states": chunk["states"] * np.nan})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (set_dt, "has dt = '0.02', but this run has '0.01'"),
        (add_chunk, "100 steps, but this run has 50"),
        (other_start, "not the initial state of this run"),
        (not_finite, "damaged.*not finite"),
    ],
)
def test_a_trajectory_that_was_changed_is_not_resumed(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    stopped(tmp_path)
    damage(tmp_path / "trajectory")
    with pytest.raises(InputError, match=says):
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
def test_damaged_fields_of_a_result_are_named_on_resume(tmp_path: Path, change: dict) -> None:
    result = run(FALL, out=tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({**result, **change}))
    with pytest.raises(InputError, match=f"damaged: '{next(iter(change))}"):
        run(FALL, out=tmp_path, resume=True)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "1", 10**400])
def test_a_seed_is_a_whole_number_of_32_bits(tmp_path: Path, seed) -> None:
    with pytest.raises(InputError, match="seed is"):
        run(FALL, out=tmp_path / "new", seed=seed)
    assert not (tmp_path / "new").exists()


def test_a_result_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").mkdir()
    for start in (lambda: run(FALL, out=tmp_path), lambda: reproduce("000", out=tmp_path)):
        with pytest.raises(InputError, match=r"result.json is a folder"):
            start()


@pytest.mark.parametrize("out", ["", "a\0b", "n" * 300])
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, monkeypatch, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PliantError, match=r"folder|too long"):
        run(FALL, out=out)
    assert not list(tmp_path.iterdir())
