"""Tasks of type "identify": from robot file and CSV files to a report."""

import json

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import Fit
from pliant.robot_files import load_task
from pliant.zoo.check import check
from pliant.zoo.experiment import run
from pliant.zoo.task import task_experiment

DT, STEPS, E = 0.01, 12, 3e4
ROBOT = """
name = "strip"
gravity = [0.0, -9.81]

[geometry]
shape = "rectangle"
size = [0.04, 0.02]
divisions = [2, 1]
order = 1
thickness = 0.02

[material]
E = 2e4
nu = 0.4

[[supports]]
region = "x-"

[actuators.pull]
type = "thrust"
point = [0.04, 0.01]
limits = [-1, 1]

[effectors.tip]
point = [0.04, 0.02]
"""
TASK = """
[task]
type = "identify"
dt = 0.01
variables = ["body.E", "damping.stiffness"]
bounds = { "body.E" = [1e4, 1e5] }
recordings = ["mocap/*.csv"]
held_out = ["mocap/swing2.csv"]
units = "mm"
noise = 1e-4
iterations = 20

[[task.tests]]
files = ["bending.csv"]
effector = "tip"
direction = [0, -1]
noise = 1e-5
load = { point = [0.04, 0.02], force = [0, -1] }
"""


@pytest.fixture
def folder(tmp_path):
    """A robot file beside recordings in both layouts and a static test, of a stiffer robot."""
    (tmp_path / "strip.toml").write_text(ROBOT + TASK)
    (tmp_path / "plain.toml").write_text(ROBOT.replace("E = 2e4", f"E = {E}"))
    robot, rng = pl.load_robot(tmp_path / "plain.toml"), np.random.default_rng(0)
    model = pl.ImplicitEuler(robot, dt=DT)
    (tmp_path / "mocap").mkdir()
    for k in range(3):
        force = np.array([0.2, 0.1 * k])
        states = pl.simulate(model, np.tile(force, (STEPS, 1))).states
        tip = np.array([model.effector("tip", x)[0] for x in states])
        tip = 1e3 * (tip + 1e-4 * rng.standard_normal(tip.shape))
        write = write_long if k == 1 else write_wide
        write(tmp_path / "mocap" / f"swing{k}.csv", tip, force)
    loads = np.array([0.05, 0.1, 0.2])
    rest = pl.equilibrium(pl.Quasistatic(robot), robot.neutral_controls()).x
    rows = ["load [N],displacement [mm]"]
    for load in loads:
        pulled = robot.with_loads([pl.PointLoad(point=(0.04, 0.02), force=(0.0, -load))])
        x = pl.equilibrium(pl.Quasistatic(pulled), robot.neutral_controls()).x
        moved = robot.effector_position("tip", x - rest + robot.body().rest)
        rows.append(f"{load},{1e3 * (0.02 - moved[1])}")
    (tmp_path / "bending.csv").write_text("\n".join(rows))
    return tmp_path


def write_wide(path, tip, force):
    rows = ["time,tip.x,tip.y,u.pull 1,u.pull 2"]
    rows += [f"{DT * i},{x},{y},{force[0]},{force[1]}" for i, (x, y) in enumerate(tip)]
    path.write_text("\n".join(rows))


def write_long(path, tip, force):
    rows = ["time [ms],marker,x,y,u.pull 1,u.pull 2"]
    rows += [f"{1e3 * DT * i},tip,{x},{y},{force[0]},{force[1]}" for i, (x, y) in enumerate(tip)]
    path.write_text("\n".join(rows))


def test_a_task_writes_the_fit_and_its_report(folder):
    small = {"small_animation": "true"}
    experiment = task_experiment(folder / "strip.toml")
    run(experiment, out=folder / "out", overrides=small, progress=False)
    result = json.loads((folder / "out" / "result.json").read_text())
    assert result["status"] == "done"
    assert result["metrics"]["body.E"]["value"] == pytest.approx(E, rel=0.01)
    lower, upper = result["fit"]["intervals"]["body.E"]
    assert lower < result["fit"]["values"]["body.E"] < upper
    assert list(result["fit"]["held-out rms errors"]) == ["swing2"]
    assert list(result["fit"]["rms errors"]) == ["swing0", "swing1", "bending"]
    assert "<h2>Parameters</h2>" in (folder / "out" / "report.html").read_text()
    fit = Fit.load(folder / "out" / "fit", load_task(folder / "strip.toml").model())
    assert result["fit"]["values"]["body.E"] == fit.robot.material.E


def test_check_lists_the_measurements(folder):
    facts = dict(check(folder / "strip.toml").facts)
    assert facts["measurements"] == "2 recordings, 1 static test, 1 held out"


@pytest.mark.parametrize("first", ["", "fit_first = 1"])
def test_an_interrupted_task_is_resumed(folder, first):
    text = (folder / "strip.toml").read_text()
    (folder / "strip.toml").write_text(text.replace("iterations = 20", f"iterations = 20\n{first}"))

    def interrupt(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    experiment = task_experiment(folder / "strip.toml")
    with pytest.raises(KeyboardInterrupt):
        run(experiment, out=folder / "out", quick=True, progress=interrupt)
    resumed = run(experiment, out=folder / "out", quick=True, resume=True, progress=False)
    whole = run(experiment, out=folder / "whole", quick=True, progress=False)
    assert resumed["fit"] == whole["fit"]
    fit = Fit.load(folder / "whole" / "fit")
    assert ("with 1 of 3 measurements" in fit.status.text) == bool(first)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"damping.stiffness"]', '"damping.linear"]', r"task.variables: .*damping.linear"),
        ('variables = ["body.E", "damping.stiffness"]', "", "variables: this is missing"),
        ('variables = ["body.E", "damping.stiffness"]', "variables = []", "This is empty"),
        ('{ "body.E" = [1e4', '{ "body.nu" = [1e4', r"task.bounds: There are bounds of 'body.nu'"),
        ("[1e4, 1e5]", "[1e5, 1e6]", "outside its bounds"),
        ("iterations = 20", "iterations = 0", r"task.iterations: This is 0"),
        ("iterations = 20", "fit_first = 3", "fit_first is '3', but there are 3 measurements"),
        ("iterations = 20", "fit_first = 1.5", r"task.fit_first: this is 1.5"),
        ("iterations = 20", "tolerance = -1", "The tolerance is -1"),
        ("iterations = 20", 'method = "newton"', "no optimisation method 'newton'"),
        ("iterations = 20", "offset = 0.1", "no key 'offset' here; did you mean 'offsets'"),
        ('["mocap/*.csv"]', '["../*.csv"]', "outside the folder of this file"),
        ('["mocap/*.csv"]', '["video/*.csv"]', "No file matches"),
        ('["mocap/*.csv"]', "3", r"task.recordings: this is 3; it must be a list"),
        ('units = "mm"', 'units = "km"', "no unit 'km'"),
        ("noise = 1e-4", "noise = -1.0", "noise"),
        ("noise = 1e-4", "", "cannot be weighted"),
        ('effector = "tip"\ndirection', 'effector = "top"\ndirection', "did you mean 'tip'"),
        ('"bending.csv"', '"strip.toml"', "strip.toml"),
    ],
)
def test_wrong_tasks_name_the_place(folder, old, new, message):
    text = (folder / "strip.toml").read_text()
    assert text.count(old) == 1
    (folder / "strip.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        task_experiment(folder / "strip.toml")


def test_a_task_without_measurements(folder):
    (folder / "strip.toml").write_text(
        ROBOT + '[task]\ntype = "identify"\ndt = 0.01\nvariables = ["body.E"]\n'
    )
    with pytest.raises(InputError, match=r"There are no measurements; add recordings"):
        load_task(folder / "strip.toml")
