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
from pliant.store import read_json, read_trajectory
from pliant.zoo.experiment import Experiment, Metric, Outcome, Run, run
from pliant.zoo.result_folder import UNFINISHED


class Stop(Exception):
    """Stands for kill -9: nothing is cleaned up after it."""


def fall(run: Run, stop: int | None = None) -> Outcome:
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
