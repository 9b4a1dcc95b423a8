"""Checkpoints resume bit for bit, survive a killed process, and damaged ones are refused."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from models import mass
from point import OBSERVER, Point, go_there, loop, policy

import pliant as pl
from pliant.core import InputError
from pliant.learning import (
    MLP,
    ClosedLoop,
    EffectorObserver,
    PartObserver,
    PolicyGradient,
    SineGait,
    TrainingResult,
    train,
)
from pliant.learning.training_result import TRAINING
from pliant.store.safetensors import (
    parse_safetensors,
    read_safetensors,
    safetensors_bytes,
)

FILE = TRAINING.file
LBFGS = PolicyGradient(optimiser="lbfgs")


def same(a, b):
    np.testing.assert_array_equal(a.weights, b.weights)
    assert [(row.steps, row.mean_return) for row in a.history] == [
        (row.steps, row.mean_return) for row in b.history
    ]
    for name, array in a.state.arrays.items():
        np.testing.assert_array_equal(array, b.state.arrays[name], err_msg=name)
    assert a.state.values == b.state.values


# The format of the arrays


ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "b": np.array([1, -2], np.int64),
    "nothing": np.zeros((0, 4)),
    "scalar": np.array(2.5),
    "single": np.array([0.1], np.float32),
    "bytes": np.arange(5, dtype=np.uint8),
}


def test_arrays_are_read_as_they_were_written():
    found = parse_safetensors(safetensors_bytes(ARRAYS), "here")
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_safetensors_library_reads_and_writes_the_same_files(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    found = library.load(safetensors_bytes(ARRAYS))
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    library.save_file(ARRAYS, tmp_path / "other.safetensors")
    again = read_safetensors(tmp_path / "other.safetensors")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(again[name], array)


def test_type_that_the_format_lacks_is_refused(raises_clear_error):
    raises_clear_error(lambda: safetensors_bytes({"x": np.array(["text"])}), "type <U4")


def crafted(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F64", shape=(1,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


BAD_FILES = {
    "empty": b"",
    "short": b"1234567",
    "absurd header size": (2**63).to_bytes(8, "little") + b"{}",
    "header beyond the file": (10**6).to_bytes(8, "little") + b"{}",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "not JSON": crafted(b"{'a': 1}"),
    "not UTF-8": crafted(b"\xff\xfe\xfa"),
    "list": crafted([1, 2]),
    "deep": crafted(b"[" * 100_000),
    "no dtype": crafted({"x": {"shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
    "entry is a number": crafted({"x": 3}, bytes(8)),
    "unknown dtype": crafted({"x": entry(dtype="OBJECT")}, bytes(8)),
    "negative shape": crafted({"x": entry(shape=(-1,))}, bytes(8)),
    "huge shape": crafted({"x": entry(shape=(2**62, 2**62))}, bytes(8)),
    "shape with fractions": crafted({"x": entry(shape=(1.5,))}, bytes(8)),
    "offsets beyond the file": crafted({"x": entry(shape=(9,), offsets=(0, 72))}, bytes(8)),
    "negative offset": crafted({"x": entry(offsets=(-8, 0))}, bytes(8)),
    "gap": crafted({"x": entry(offsets=(8, 16))}, bytes(16)),
    "overlap": crafted({"x": entry(), "y": entry(offsets=(0, 8))}, bytes(8)),
    "too much data": crafted({"x": entry()}, bytes(16)),
    "text offsets": crafted({"x": entry(offsets=("0", "8"))}, bytes(8)),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_file_that_is_no_safetensors_file_is_refused(name, write_file, raises_clear_error):
    path = write_file(BAD_FILES[name])
    raises_clear_error(lambda: read_safetensors(path), "not a valid safetensors file")


# Trainings


@pytest.mark.parametrize("method", [PolicyGradient(rate=0.02), LBFGS], ids=["adam", "lbfgs"])
def test_resumed_training_is_bit_identical(tmp_path, method):
    whole = train(loop(), go_there(), method, iterations=4)
    train(loop(), go_there(), method, iterations=2, folder=tmp_path)
    resumed = train(loop(), go_there(), method, iterations=4, folder=tmp_path, resume=True)
    same(whole, resumed)
    again = train(loop(), go_there(), method, iterations=4, folder=tmp_path, resume=True)
    same(whole, again)  # nothing is left to do


def test_training_is_resumed_with_other_memory(tmp_path):
    whole = train(loop(), go_there(), PolicyGradient(rate=0.02), iterations=3)
    train(loop(), go_there(), PolicyGradient(rate=0.02), iterations=2, folder=tmp_path)
    little = PolicyGradient(rate=0.02, memory=1.0)
    same(whole, train(loop(), go_there(), little, iterations=3, folder=tmp_path, resume=True))


def test_loaded_training_has_the_controller_and_replays(tmp_path):
    result = train(loop(hidden=(5, 4)), go_there(), iterations=3)
    result.save(tmp_path)
    loaded = TrainingResult.load(tmp_path)
    assert repr(loaded) == repr(result)
    assert isinstance(loaded.controller, MLP)  # without the model
    y = np.array([0.3, -0.2])
    np.testing.assert_array_equal(
        loaded.controller.control(y, loaded.controller.params.flat),
        result.controller.control(y, result.weights),
    )
    with pytest.raises(InputError, match="without its loop"):
        loaded.replay()
    whole = TrainingResult.load(tmp_path, loop(hidden=(5, 4)), go_there())
    assert -whole.replay()[0].cost == result.mean_return


def test_interrupted_training_continues_bit_for_bit(tmp_path):
    def stop(what, done, total):
        if done == 3:
            raise KeyboardInterrupt

    train(loop(), go_there(), iterations=6, folder=tmp_path, progress=stop)
    assert TrainingResult.load(tmp_path).interrupted
    resumed = train(loop(), go_there(), iterations=6, folder=tmp_path, resume=True)
    same(resumed, train(loop(), go_there(), iterations=6))
    assert not resumed.interrupted


KILLED = """
import sys; sys.path.insert(0, {tests!r})
from pliant.learning import PolicyGradient, train, training
from point import go_there, loop
training.SAVE_INTERVAL = 0.0
print("ready", flush=True)
train(loop(), go_there(), iterations=10_000, folder={folder!r}, progress=False)
"""


def test_killed_training_leaves_a_checkpoint_that_resumes(tmp_path):
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        while not (tmp_path / FILE).exists() or len(TrainingResult.load(tmp_path).history) < 3:
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    done = len(TrainingResult.load(tmp_path).history) - 1
    resumed = train(loop(), go_there(), iterations=done + 2, folder=tmp_path, resume=True)
    same(resumed, train(loop(), go_there(), iterations=done + 2))
    files = sorted(path.suffix for path in tmp_path.iterdir())
    assert files == [".json", ".safetensors"]  # nothing of the killed process is left


def test_folder_without_training_is_not_resumed(tmp_path, raises_clear_error):
    arrays = tmp_path / "training-01234567.safetensors"
    arrays.write_bytes(safetensors_bytes(ARRAYS))  # its training.json is missing
    for folder in (tmp_path / "none", tmp_path):
        raises_clear_error(lambda folder=folder: resume(folder), f"{folder} has no {FILE}")
    assert list(tmp_path.iterdir()) == [arrays]


def test_training_is_not_overwritten(saved, raises_clear_error):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    raises_clear_error(
        lambda: train(loop(), go_there(), iterations=1, folder=saved),
        f"{saved} already has a training.*resume=True",
    )
    assert before == {path.name: path.read_bytes() for path in saved.iterdir()}
    raises_clear_error(lambda: train(loop(), go_there(), folder=3), "The folder is .3")


# Damaged and crafted checkpoints


@pytest.fixture
def saved(tmp_path):
    """Return the folder of a training."""
    train(loop(), go_there(), iterations=2, folder=tmp_path)
    return tmp_path


def edit(folder, change=lambda content: None, arrays=lambda arrays: None):
    """Change the content and the arrays of a checkpoint, with the right digest."""
    content = json.loads((folder / FILE).read_text())
    old = folder / f"training-{content['arrays'][:8]}.safetensors"
    found = read_safetensors(old)
    change(content)
    arrays(found)
    blob = safetensors_bytes(found)
    content["arrays"] = hashlib.sha256(blob).hexdigest()
    old.unlink()
    (folder / f"training-{content['arrays'][:8]}.safetensors").write_bytes(blob)
    (folder / FILE).write_text(json.dumps(content))


def resume(folder, closed=None):
    return train(closed or loop(), go_there(), iterations=3, folder=folder, resume=True)


def put(name, value):
    return lambda found: found.update({name: value})


N = policy().params.size

CRAFTED_ARRAYS = {
    "missing weights": (lambda a: a.pop("controller.layer-1.bias"), "no weights"),
    "unknown weights": (put("controller.extra", np.zeros(3)), "unknown weights"),
    "wrong size": (put("controller.layer-1.bias", np.zeros(99)), "layer-1.bias"),
    "NaN weights": (put("controller.layer-2.bias", np.full(16, np.nan)), "layer-2.bias"),
    "missing moments": (lambda a: a.pop("trainer.mean"), "no array 'mean'"),
    "wrong moments": (put("trainer.mean", np.zeros(3)), "'mean'"),
    "infinite moments": (put("trainer.square", np.full(N, np.inf)), "'square'"),
    "negative squares": (put("trainer.square", np.full(N, -1.0)), "negative"),
    "wrong type": (put("trainer.mean", np.zeros(N, np.float32)), "type float32"),
    "unknown state": (put("trainer.more", np.zeros(3)), "unknown array 'more'"),
}


@pytest.mark.parametrize("name", CRAFTED_ARRAYS)
def test_crafted_arrays_are_refused(name, saved, raises_clear_error):
    change, pattern = CRAFTED_ARRAYS[name]
    edit(saved, arrays=change)
    raises_clear_error(lambda: resume(saved), pattern)


def nested(*keys):
    """Return a function that sets content[keys[0]][keys[1]]... = keys[-1]."""

    def change(content):
        for key in keys[:-2]:
            content = content[key]
        content[keys[-2]] = keys[-1]

    return change


CRAFTED_CONTENT = {
    "other format": (nested("format", "pliant plan"), "no training"),
    "newer version": (nested("version", 99), "version"),
    "version as text": (nested("version", "1"), "version"),
    "no history": (nested("history", []), "damaged"),
    "history of text": (nested("history", [{"steps": "a"}]), "damaged|history"),
    "huge history": (
        nested("history", [{"steps": 0, "seconds": 0, "mean_return": 1e999, "failed": 0}]),
        "history|JSON|Infinity",
    ),
    "no state": (nested("state", []), "damaged"),
    "count below zero": (nested("state", "count", -1), "count"),
    "count as text": (nested("state", "count", "2"), "count"),
    "huge value": (nested("state", "factor", 10**30), "'factor'"),
    "value beyond floats": (nested("state", "factor", 10**400), "'factor'"),
    "value of text": (nested("state", "factor", "1"), "'factor'"),
    "digest is a number": (nested("digest", 3), f"{FILE} is damaged: the digest of its robot"),
    "digest of the observer": (nested("observer", "digest", [1]), "the digest of its observer"),
    "row is a number": (nested("history", [3]), f"{FILE} is damaged: an entry has the wrong type"),
    "seed is text": (nested("seed", "a"), f"{FILE} is damaged: an entry has the wrong type"),
    "no layout": (nested("controller", "blocks", 3), f"{FILE} is damaged: an entry has the wrong"),
    "no inputs": (lambda c: c["controller"].pop("n_controls"), "damaged: it has no 'n_controls'"),
    "missing value": (lambda c: c["state"].pop("factor"), "no value 'factor'"),
    "other seed": (nested("seed", 5), "another seed"),
    "other method": (nested("method", "ppo"), "another method"),
    "other rate": (nested("settings", "rate", 0.5), "another rate"),
    "other activation": (nested("controller", "settings", "activation", "relu"), "settings"),
    "huge layer": (nested("controller", "settings", "hidden", [10**12]), "weights"),
    "layer of text": (nested("controller", "settings", "hidden", ["a"]), "neurons"),
    "no controller": (nested("controller", None), "damaged"),
    "no robot": (lambda c: c.pop("robot"), "damaged"),
    "blocks are a number": (nested("controller", "blocks", 3), "damaged"),
    "size below zero": (nested("controller", "blocks", [["layer-1.bias", -4]]), "weights|damaged"),
}


@pytest.mark.parametrize("name", CRAFTED_CONTENT)
def test_crafted_content_is_refused(name, saved, raises_clear_error):
    change, pattern = CRAFTED_CONTENT[name]
    edit(saved, change)
    raises_clear_error(lambda: resume(saved), pattern)


def test_missing_and_damaged_files_are_refused(saved, raises_clear_error):
    raises_clear_error(lambda: TrainingResult.load(saved / "none"), "does not exist")
    arrays = next(saved.glob("*.safetensors"))
    blob = arrays.read_bytes()
    arrays.write_bytes(blob[:-1] + b"x")
    raises_clear_error(lambda: TrainingResult.load(saved), "does not belong")
    arrays.unlink()
    raises_clear_error(lambda: TrainingResult.load(saved), "does not exist")
    (saved / FILE).write_text("{")
    raises_clear_error(lambda: TrainingResult.load(saved), "not valid JSON")


LOAD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
from pliant.core import InputError
from pliant.learning import TrainingResult
try:
    TrainingResult.load(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "huge"])
@pytest.mark.parametrize("name", [FILE, "training-*.safetensors"])
def test_file_without_an_end_is_refused(kind, name, saved):
    file = next(saved.glob(name))
    file.unlink()
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        with file.open("wb") as hole:
            hole.truncate(2**40)
    process = subprocess.run(
        [sys.executable, "-c", LOAD, saved], capture_output=True, text=True, timeout=60
    )
    pattern = "at most" if kind == "huge" else "not a regular file"
    assert file.name in process.stdout
    assert pattern in process.stdout


def jet_loop(robot=None, dt=0.1, **options):
    model = pl.ImplicitEuler(robot or mass(), dt=dt)
    observer = EffectorObserver()
    network = MLP.for_model(model, observer, hidden=(4,), scale=1.0, **options)
    return ClosedLoop(model, observer, network)


def test_policy_of_another_robot_is_refused(tmp_path, raises_clear_error):
    task = pl.learning.ControlTask(steps=5, terms=[pl.Goal(effector="tip", target=(0.1, 0.0))])
    train(jet_loop(), task, iterations=1, folder=tmp_path)
    heavy = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=2.0),
        actuators=mass().actuators,
        effectors=mass().effectors,
    )
    wide = ClosedLoop(Point(), OBSERVER, policy())
    slow = jet_loop(dt=0.2)
    other = jet_loop()
    other = ClosedLoop(other.model, PartObserver(), other.controller)
    relu = jet_loop(activation="relu")
    gait = ClosedLoop(other.model, None, SineGait(n_controls=2))
    for closed, pattern in (
        (jet_loop(heavy), "another robot, which differs from this one in: shape"),
        (wide, "controls"),
        (slow, "steps of 0.1 s"),
        (other, "another observer"),
        (relu, "another controller"),
        (gait, "another"),
    ):
        raises_clear_error(lambda closed=closed: TrainingResult.load(tmp_path, closed), pattern)
    assert TrainingResult.load(tmp_path, jet_loop()).controller is not None


def test_training_with_other_task_is_not_resumed(saved, raises_clear_error):
    raises_clear_error(
        lambda: train(loop(), go_there(steps=40), iterations=3, folder=saved, resume=True),
        "another task",
    )
