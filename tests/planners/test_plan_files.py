"""Saved plans are loaded without loss, belong to one robot, and can be exported as tables."""

import csv
import json
import shutil
import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from planner_models import Wrapped, jet

import pliant as pl
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.planners import Options, Plan, ddp, load_controls
from pliant.planners.model_summary import different_parts, effector_positions, robot_digest
from pliant.problem import Effort, Goal, Problem


def reach(model) -> Problem:
    return Problem(
        model=model,
        steps=4,
        terms=[Goal(effector="tip", target=(0.1, 0.2), time=0.4), Effort(weight=1e-3)],
    )


@cache
def planned() -> Plan:
    return ddp(reach(jet()))


@pytest.fixture(scope="module")
def _saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    planned().save(folder)
    return folder


@pytest.fixture
def saved(_saved, tmp_path):
    """Return a copy of the plan folder that one test may damage."""
    return shutil.copytree(_saved, tmp_path / "my-plan")


@pytest.mark.parametrize("model", [None, jet()], ids=["alone", "with its model"])
@pytest.mark.parametrize("name", ["", "plan.json"], ids=["folder", "file"])
def test_saved_plan_is_loaded_bit_for_bit(saved, model, name):
    made, again = planned(), Plan.load(saved / name, model=model)
    for field in ("controls", "states", "gains", "previous_control"):
        np.testing.assert_array_equal(getattr(made, field), getattr(again, field))
    np.testing.assert_array_equal(made.positions["tip"], again.positions["tip"])
    for field in (
        "method",
        "cost",
        "history",
        "goal_errors",
        "limit_violation",
        "constraint_violation",
        "interrupted",
    ):
        assert getattr(made, field) == getattr(again, field), field
    assert again.status == made.status
    assert again.model == made.model
    assert again.summary() == made.summary()
    assert again.replay(jet(), reach(jet())) == made.cost


def test_plan_json_contains_names_units_and_model(saved):
    raw = json.loads((saved / "plan.json").read_text())
    assert (raw["format"], raw["version"], raw["dt"], raw["steps"]) == ("pliant plan", 2, 0.1, 4)
    assert (raw["robot"], raw["names"], raw["units"]) == ("robot", ["jet 1", "jet 2"], ["N", "N"])
    assert raw["effectors"] == ["tip"]
    assert raw["goal_errors"][0][0] == "tip"
    controls, _ = load_controls(saved, (4, 2))
    np.testing.assert_array_equal(controls, planned().controls)


def test_to_csv_names_times_controls_and_effectors(saved, tmp_path):
    Plan.load(saved).to_csv(tmp_path / "tables" / "plan.csv")
    head, *rows = csv.reader((tmp_path / "tables" / "plan.csv").open(newline=""))
    assert head == ["time [s]", "jet 1 [N]", "jet 2 [N]", "tip x [m]", "tip y [m]"]
    table, made = np.array(rows, float), planned()
    np.testing.assert_allclose(table[:, 0], [0.1, 0.2, 0.3, 0.4], rtol=1e-12)
    np.testing.assert_array_equal(table[:, 1:3], made.controls)
    np.testing.assert_array_equal(table[:, 3:], made.positions["tip"][1:])


def test_quasistatic_table_counts_steps(tmp_path):
    bar = pl.Robot(
        shape=pl.Box(size=(0.2, 0.03, 0.03)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.3, density=1000.0),
        supports=[pl.Support(region="x-")],
        actuators={"pull": pl.Cable(points=[(0.2, 0.0, 0.015), (0.0, 0.0, 0.015)])},
        effectors={"tip": pl.Effector(surface="x+")},
    )
    goal = Goal(effector="tip", target=(0.2, -0.001, 0.015), time=2.0)
    plan = pl.plan(pl.Quasistatic(bar), [goal, Effort(weight=1e-9)], steps=2)
    plan.to_csv(tmp_path / "plan.csv")
    head, first, second = csv.reader((tmp_path / "plan.csv").open(newline=""))
    assert head[:3] == ["step", "pull [N]", "tip x [m]"]
    assert (first[0], second[0]) == ("1", "2")


def heavier():
    model = jet()
    return pl.ImplicitEuler(
        replace(model.robot, shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=2.0)), dt=model.dt
    )


def renamed():
    model = jet()
    thrust = model.robot.actuators["jet"]
    return pl.ImplicitEuler(replace(model.robot, actuators={"fan": thrust}), dt=model.dt)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (heavier(), "planned for another robot, which differs from this one in: shape. Give"),
        (renamed(), r"the controls jet 1 \[N\], jet 2 \[N\], but this model of robot has fan 1"),
        (jet(dt=0.05), "steps of 0.1 s, but this model has steps of 0.05 s. Make it with dt=0.1"),
        (pl.BDF2(jet().robot, dt=0.1), "Give the same stepping rule and mesh"),
    ],
    ids=["robot", "controls", "dt", "rule"],
)
def test_plan_of_another_model_is_rejected(saved, model, says, raises_clear_error):
    raises_clear_error(lambda: Plan.load(saved, model=model), says)


BAR = """
gravity = [0, 0, -9.81]
[geometry]
shape = "box"
size = [0.2, 0.03, 0.03]
cell = 0.1
order = 1
[material]
E = 1e5
nu = 0.3
density = 1000
[[supports]]
region = "x-"
[actuators.pull]
type = "cable"
points = [[0.2, 0, 0.015], [0, 0, 0.015]]
limits = [0, 5]
[effectors.tip]
point = [0.2, 0, 0]
"""


def bar(**changes):
    cable = {"points": [(0.2, 0, 0.015), (0, 0, 0.015)], "limits": (0, 5)}
    given = {
        "shape": pl.Box(size=(0.2, 0.03, 0.03)),
        "cell": 0.1,
        "order": 1,
        "material": pl.Material(E=1e5, nu=0.3, density=1000),
        "supports": [pl.Support(region="x-")],
        "actuators": {"pull": pl.Cable(**{**cable, **changes.pop("cable", {})})},
        "effectors": {"tip": pl.Effector(point=(0.2, 0, 0))},
        "gravity": (0, 0, -9.81),
        **changes,
    }
    return pl.Robot(**given)


def test_robot_digest_depends_on_values_and_not_on_types(tmp_path):
    (tmp_path / "bar.toml").write_text(BAR)
    same = {
        "points as an array": bar(
            cable={"points": np.array([(0.2, 0.0, 0.015), (0.0, 0.0, 0.015)])}
        ),
        "limits as floats": bar(cable={"limits": (0.0, 5.0)}),
        "limits as a list": bar(cable={"limits": [0, np.float64(5.0)]}),
        "gravity as floats": bar(gravity=(0.0, 0.0, -9.81)),
        "gravity as an array": bar(gravity=np.array([0.0, -0.0, -9.81])),
        "effector as an array": bar(effectors={"tip": pl.Effector(point=np.array([0.2, 0, 0]))}),
        "supports as a tuple": bar(supports=(pl.Support(region="x-"),)),
        "another name": bar(name="bar"),
        "a robot file": pl.load_robot(tmp_path / "bar.toml"),
    }
    for what, robot in same.items():
        assert different_parts(robot_digest(bar()), robot_digest(robot)) == "", what
        assert EquilibriumMap(robot=robot).key == EquilibriumMap(robot=bar()).key, what


def test_robot_digest_names_the_different_parts():
    other = bar(gravity=(0, 0, -9.8), cable={"limits": (0, 6)})
    assert different_parts(robot_digest(bar()), robot_digest(other)) == "actuators, gravity"
    assert EquilibriumMap(robot=other).key != EquilibriumMap(robot=bar()).key


def test_path_without_a_plan_is_rejected(saved, raises_clear_error):
    Plan.load(saved).to_csv(saved / "plan.csv")
    raises_clear_error(
        lambda: Plan.load(saved / "plan.csv"), "plan.csv is not a saved plan. Give the"
    )
    raises_clear_error(
        lambda: Plan.load(saved / "no"), "does not exist. Give the folder that plan.save wrote"
    )
    raises_clear_error(
        lambda: Plan.load(3), "The path of a plan is '?3'?.*folder that plan.save wrote"
    )
    raises_clear_error(lambda: load_controls(3, (4, 2)), "The path of a plan is '?3'?")


@pytest.mark.parametrize("path", [None, 5, ""])
def test_plan_is_not_written_to_what_is_not_a_path(path, raises_clear_error):
    raises_clear_error(lambda: planned().save(path), "The folder of the plan")
    raises_clear_error(lambda: planned().to_csv(path), "The path of the table")
    raises_clear_error(lambda: Options(folder="" if path is None else path), "folder of a planner")


def test_unfinished_plan_needs_a_model_to_load(tmp_path, raises_clear_error):
    def stop(what, done, total):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        ddp(reach(jet()), options=Options(folder=tmp_path, progress=stop))
    raises_clear_error(lambda: Plan.load(tmp_path), "before the search ended, .* Give model=")
    again = Plan.load(tmp_path, model=jet())
    assert not again.status
    assert again.states.shape == planned().states.shape
    np.testing.assert_array_equal(again.positions["tip"][0], (0.0, 0.0))


def test_model_without_a_robot_has_numbered_controls(tmp_path):
    class Alone(Wrapped):
        def step(self, x, u, p=None, k=0):
            return self.model.step(x, u, p, k)

        def pullback(self, step, x_bar):
            return self.model.pullback(step, x_bar)

    pl.plan(reach(Alone(jet())), options=Options(iterations=2, folder=tmp_path))
    plan = Plan.load(tmp_path, model=Alone(jet()))
    assert (plan.model.robot, plan.model.names) == ("Alone", ("control 1", "control 2"))


def test_plan_without_a_model_is_not_saved(tmp_path, raises_clear_error):
    raises_clear_error(lambda: replace(planned(), model=None).save(tmp_path), "has no model")
    raises_clear_error(
        lambda: replace(planned(), model=None).to_csv(tmp_path / "t"), "has no model"
    )


def nested(n: int) -> str:
    return "[" * n + "]" * n


ROW = {"cost": 1.0, "step": 0.0, "regulariser": 0.0, "seconds": 0.0}
SPACE = {"parts": ["position"], "n_dofs": 2, "rate": [], "sizes": []}
DAMAGE = {
    "newer version": ({"version": 7}, "version 7, but this Pliant reads version 2"),
    "version 1": ({"version": 1}, "version 1, but this Pliant reads version 2"),
    "version text": ({"version": "one"}, "version 'one'"),
    "huge version": ({"version": 10**400}, "version .*1000"),
    "no dt": ({"dt": None}, "'dt'"),
    "negative dt": ({"dt": -0.1}, "'dt'.* positive"),
    "huge dt": ({"dt": 10**400}, "plan.json"),
    "controls of another width": ({"controls": [[1.0]] * 4}, r"'controls'.* shape \(4, 1\)"),
    "ragged controls": ({"controls": [[1.0, 2.0], [1.0]]}, "'controls'"),
    "huge control": ({"controls": [[10**400, 0.0]] * 4}, "plan.json"),
    "no controls": ({"controls": []}, "plan.json"),
    "other steps": ({"steps": 9}, "4 rows of controls for 9 steps"),
    "huge steps": ({"steps": 10**400}, "4 rows of controls"),
    "initial state": ({"initial_state": [0.0]}, "'initial_state'.* shape"),
    "cost": ({"cost": "cheap"}, "'cost'"),
    "history": ({"history": [{"cost": 1.0}]}, "damaged"),
    "history of text": ({"history": [{**ROW, "seconds": "x"}]}, "iteration"),
    "goal errors": ({"goal_errors": [["tip", 1.0]]}, "damaged"),
    "names": ({"names": []}, "damaged"),
    "names are a number": ({"names": 3}, "damaged"),
    "space": ({"space": [1]}, "damaged"),
    "negative space": ({"space": {**SPACE, "n_dofs": -4}}, "damaged"),
    "positions": ({"positions": {}}, "damaged"),
    "another digest": ({"arrays": {"states": "0" * 64}}, "states-00000000.npy does not exist"),
    "no digest": ({"arrays": {"states": "../../x"}}, "digest of its states"),
    "digest is a number": ({"arrays": {"states": 3}}, "digest of its states"),
    "format": ({"format": "other"}, "not written by plan.save"),
    "no format": ({"format": None}, "load_controls"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_plan_is_rejected_in_one_line(saved, case, raises_clear_error):
    change, says = DAMAGE[case]
    path = saved / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    raises_clear_error(lambda: Plan.load(saved), says)


@pytest.mark.parametrize(
    "key", ["dt", "names", "controls", "history", "space", "initial_state", "cost"]
)
def test_plan_without_a_required_key_is_rejected(saved, key, raises_clear_error):
    path = saved / "plan.json"
    raw = json.loads(path.read_text())
    del raw[key]
    path.write_text(json.dumps(raw))
    raises_clear_error(lambda: Plan.load(saved), "plan.json is damaged")


@pytest.mark.parametrize(
    ("old", "new"), [('"cost": ', '"cost": NaN, "c": '), ('"dt": ', '"dt": 1e400, "c": ')]
)
def test_non_finite_numbers_are_rejected(saved, old, new, raises_clear_error):
    path = saved / "plan.json"
    path.write_text(path.read_text().replace(old, new, 1))
    raises_clear_error(lambda: Plan.load(saved), "plan.json")


def test_truncated_or_nested_plan_is_rejected(saved, raises_clear_error):
    path = saved / "plan.json"
    text = path.read_text()
    for bad in ("", text[: len(text) // 2], nested(100_000), "[]", "9" * 5000):
        path.write_text(bad)
        raises_clear_error(lambda: Plan.load(saved), "plan.json")
    path.unlink()
    raises_clear_error(lambda: Plan.load(saved), "does not exist")


def test_damaged_states_are_rejected(saved, raises_clear_error):
    [path] = saved.glob("states-*.npy")
    blob = path.read_bytes()
    for bad in (b"", blob[:-8], blob[:-1] + b"\x01", b"\x93NUMPY"):
        path.write_bytes(bad)
        raises_clear_error(lambda: Plan.load(saved), r"states-\w+.npy does not belong to")
    path.unlink()
    raises_clear_error(lambda: Plan.load(saved), r"states-\w+.npy does not exist")


def test_hostile_states_are_never_unpickled(saved, raises_clear_error):
    import hashlib
    import io

    raw = json.loads((saved / "plan.json").read_text())
    objects = io.BytesIO()
    np.save(objects, np.array([print], object), allow_pickle=True)
    huge = objects.getvalue().replace(b"'|O'", b"'<f8'").replace(b"(1,)", b"(10000000000000,)")
    for blob in (objects.getvalue(), huge, b"\x93NUMPY\x01\x00"):
        digest = hashlib.sha256(blob).hexdigest()
        (saved / f"states-{digest[:8]}.npy").write_bytes(blob)
        raw["arrays"]["states"] = digest
        (saved / "plan.json").write_text(json.dumps(raw))
        raises_clear_error(lambda: Plan.load(saved), "is not an array of numbers")


def other_plan() -> Plan:
    return replace(planned(), states=planned().states + 1.0, gains=None)


def test_crash_during_replacement_keeps_the_old_plan(saved, monkeypatch):
    class Killed(Exception):
        pass

    def killed(path, content):
        raise Killed

    monkeypatch.setattr("pliant.planners.plan_files.write_json", killed)
    with pytest.raises(Killed):
        other_plan().save(saved)
    np.testing.assert_array_equal(Plan.load(saved).states, planned().states)


def test_replaced_plan_leaves_no_old_arrays(saved):
    (saved / "states-mine.npy").write_text("mine")
    other_plan().save(saved)
    again = Plan.load(saved)
    np.testing.assert_array_equal(again.states, planned().states + 1.0)
    assert again.gains is None
    assert len(list(saved.glob("*.npy"))) == 2
    assert (saved / "states-mine.npy").exists()


def test_saving_makes_no_copy_of_large_states(tmp_path):
    states = np.zeros((1_000_000, 4))
    tracemalloc.start()
    try:
        replace(planned(), states=states).save(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * states.nbytes  # hashed in chunks of at most 16 MiB


def test_effector_positions_need_no_digest_of_the_robot(monkeypatch):
    def refuse(robot):
        raise AssertionError("digested")

    monkeypatch.setattr("pliant.planners.model_summary.robot_digest", refuse)
    positions = effector_positions(jet(), planned().states)
    np.testing.assert_array_equal(positions["tip"], planned().positions["tip"])
