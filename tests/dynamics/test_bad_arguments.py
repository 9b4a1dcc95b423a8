"""Arguments of models, simulations and problems with invalid values or types raise one error with
the remedy."""

from math import inf, nan

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.problem import Goal, Problem, paths
from pliant.surrogate import Chebyshev, Corners, Grid, Tree

HUGE = 10**400


def strip(**parts):
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.05)),
        divisions=(2, 1),
        order=1,
        material=pl.Material(E=1e4, nu=0.3),
        supports=[pl.Support(region="x-")],
        effectors={"tip": pl.Effector(surface="x+")},
        actuators={"line": pl.Cable(points=[(0.0, 0.04), (0.1, 0.04)])},
        **parts,
    )


STRIP = strip()
RULES = {
    "Quasistatic": pl.Quasistatic(STRIP, design=["body.E"]),
    "ImplicitEuler": pl.ImplicitEuler(STRIP, dt=0.01, design=["body.E"]),
    "BDF2": pl.BDF2(STRIP, dt=0.01, design=["body.E"]),
    "SemiImplicit": pl.SemiImplicit(STRIP, dt=0.01, design=["body.E"]),
    "MaterialPoint": pl.MaterialPoint(STRIP, dt=0.001, cell=0.025, design=["body.E"]),
}
every_rule = pytest.mark.parametrize("rule", RULES)


@every_rule
@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_every_rule_rejects_non_finite_controls_states_and_parameters(rule, bad):
    model = RULES[rule]
    x, u, p = model.initial_state(), model.neutral_controls(), model.params.flat
    wrong = x.copy()
    wrong[0] = bad
    for arguments, says in (
        ((wrong, u, p), "state"),
        ((x, [bad], p), "control"),
        ((x, u, [bad]), "parameter"),
    ):
        with pytest.raises(InputError, match=f"{says}.* is {bad}"):
            model.step(*arguments)
    with pytest.raises(InputError, match=f"controls is {bad}"):
        pl.simulate(model, [[bad]])
    with pytest.raises(InputError, match=f"control is {bad}"):
        pl.simulate(model, lambda k, x: [bad], steps=1)
    with pytest.raises(InputError, match=f"parameter.* is {bad}"):
        pl.simulate(model, [u], p=[bad])


@every_rule
def test_every_rule_rejects_invalid_step_index(rule):
    model = RULES[rule]
    for k in (nan, 1.5, "2", None, -2, HUGE, 10**5000):
        with pytest.raises(InputError, match=r"index k of a step is .*whole number"):
            model.step(model.initial_state(), model.neutral_controls(), None, k)


MODEL = RULES["ImplicitEuler"]
STEP = MODEL.step(MODEL.initial_state(), [0.1])
U = np.zeros((2, 1))
GOAL = [Goal(effector="tip", target=(0.1, 0.03), time=0.02)]
RUN = pl.simulate(MODEL, U, keep=True)
BAD = {
    "simulate None": (lambda: pl.simulate(None, U), "model is 'None'.*ImplicitEuler"),
    "simulate a robot": (lambda: pl.simulate(STRIP, U), r"model is .*\(Robot\)"),
    "pullback None": (lambda: pl.pullback(None, RUN, np.zeros(24)), "model is 'None'"),
    "pullback no rollout": (lambda: pl.pullback(MODEL, None, np.zeros(24)), "rollout is 'None'"),
    "start as text": (lambda: pl.simulate(MODEL, U, x0="abc"), "state .*is 'abc'"),
    "start too short": (lambda: pl.simulate(MODEL, U, x0=np.zeros(3)), r"shape \(3,\)"),
    "equilibrium from text": (
        lambda: pl.equilibrium(RULES["Quasistatic"], [0.0], x0="abc"),
        "state .*is 'abc'",
    ),
    "steps huge": (lambda: pl.simulate(MODEL, lambda k, x: [0.0], steps=HUGE), "steps is '1000"),
    "steps too huge to write": (
        lambda: pl.simulate(MODEL, U, steps=10**5000),
        "steps is .*4300 digits",
    ),
    "steps nan": (lambda: pl.simulate(MODEL, U, steps=nan), "steps is 'nan'"),
    "steps missing": (lambda: pl.simulate(MODEL, lambda k, x: [0.0]), "steps is 'None'"),
    "problem steps huge": (lambda: Problem(model=MODEL, steps=HUGE, terms=GOAL), "steps is '1000"),
    "plan steps huge": (lambda: pl.plan(MODEL, GOAL, steps=HUGE), "steps is '1000"),
    "plan steps nan": (lambda: pl.plan(MODEL, GOAL, steps=nan), "steps is 'nan'"),
    "place too short": (
        lambda: STRIP.effector_position("tip", np.zeros(7)),
        "positions has 7 numbers",
    ),
    "place of a whole state": (
        lambda: STRIP.effector_position("tip", MODEL.initial_state()),
        r"space\.position\(x\)",
    ),
    "place of text": (lambda: STRIP.effector_position("tip", "abc"), "positions has 1 number"),
    "place of nan": (
        lambda: STRIP.effector_position("tip", np.full(STRIP.body().rest.size, nan)),
        "positions is nan",
    ),
    "effector surface": (lambda: pl.Effector(surface=5), r"surface of an effector is '5' \(int\)"),
    "effector region": (lambda: pl.Effector(region=5), "region of an effector is '5'"),
    "design of a number": (lambda: pl.BDF2(STRIP, dt=0.1, design=[5]), r"design .*\[5\]"),
    "design a number": (lambda: pl.BDF2(STRIP, dt=0.1, design=5), "design parameters are '5'"),
    "design of particles": (
        lambda: pl.MaterialPoint(STRIP, dt=0.001, cell=0.025, design=[5]),
        r"design .*\[5\]",
    ),
    "design a number, particles": (
        lambda: pl.MaterialPoint(STRIP, dt=0.001, cell=0.025, design=5),
        "design parameters are '5'",
    ),
    "design None": (lambda: pl.BDF2(STRIP, dt=0.1, design=None), "design parameters are 'None'"),
    "grid of a function": (lambda: Grid(lambda x: x, cell=1.0), r"give Corners\(f, dim"),
    "tree of a function": (
        lambda: Tree(lambda x: x, cell=1.0, tolerance=0.1),
        r"give Corners\(f, dim",
    ),
    "polynomial of a function": (
        lambda: Chebyshev(lambda x: x, domain=(0, 1), degree=2),
        r"give Corners\(f, dim",
    ),
    "corners of a function of one argument": (
        lambda: Corners(lambda x: (x, x), dim=1),
        r"function f\(x, near\)",
    ),
    "corners of a number": (
        lambda: Corners(5, dim=1),
        r"map is '5'\. Give a function f\(x, near\)",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_argument_raises_one_error_with_the_remedy(what):
    call, says = BAD[what]
    with pytest.raises(InputError, match=says):
        call()


def gaps(*shape):
    return np.full(shape, nan)


N, Q = MODEL.space.size, STRIP.body().rest
HOLES = {
    "gradcheck controls": lambda: pl.gradcheck(MODEL, STEP.x, [nan]),
    "gradcheck state": lambda: pl.gradcheck(MODEL, gaps(N), [0.1]),
    "gradcheck parameters": lambda: pl.gradcheck(MODEL, STEP.x, [0.1], p=[nan]),
    "plan guess": lambda: pl.plan(MODEL, GOAL, steps=2, guess=gaps(2, 1)),
    "plan start": lambda: pl.plan(MODEL, GOAL, steps=2, x0=gaps(N)),
    "problem parameters": lambda: Problem(model=MODEL, steps=2, terms=GOAL, params=[nan]),
    "problem control before": lambda: Problem(
        model=MODEL, steps=2, terms=GOAL, previous_control=[nan]
    ),
    "equilibrium controls": lambda: pl.equilibrium(RULES["Quasistatic"], [nan]),
    "equilibrium parameters": lambda: pl.equilibrium(RULES["Quasistatic"], [0.0], p=[nan]),
    "equilibrium start": lambda: pl.equilibrium(RULES["Quasistatic"], [0.0], x0=gaps(Q.size)),
    "state position": lambda: MODEL.state(gaps(Q.size)),
    "state velocity": lambda: MODEL.state(Q, gaps(Q.size)),
    "state acceleration": lambda: RULES["BDF2"].state(Q, None, gaps(Q.size)),
    "state controls": lambda: RULES["BDF2"].state(Q, controls=[nan]),
    "state parameters": lambda: RULES["BDF2"].state(Q, p=[nan]),
    "gradient by the end": lambda: MODEL.pullback(STEP, gaps(N)),
    "gradient by every state": lambda: pl.pullback(MODEL, RUN, gaps(3, N)),
    "tangent": lambda: MODEL.linearize(STEP).jvp(gaps(N)),
}


@pytest.mark.parametrize("what", HOLES)
def test_nan_argument_is_rejected(what):
    with pytest.raises(InputError, match="is nan"):
        HOLES[what]()


ROUND = {"centre": (0.0, 0.0), "period": 1.0}
PATHS = {
    "circle": lambda **bad: paths.circle(**{**ROUND, "radius": 1.0, **bad}),
    "spiral": lambda **bad: paths.spiral(
        **{"centre": (0, 0, 0), "period": 1.0, "radii": (1.0, 2.0), **bad}
    ),
    "polyline": lambda **bad: paths.polyline(**{"points": [[0, 0], [1, 1]], "period": 1.0, **bad}),
    "waypoints": lambda **bad: paths.waypoints(
        **{"times": [0, 1], "points": [[0, 0], [1, 1]], **bad}
    ),
    "minimum_jerk": lambda **bad: paths.minimum_jerk(
        **{"times": [0, 1], "points": [[0, 0], [1, 1]], **bad}
    ),
}
NUMBERS = [
    *(("circle", name) for name in ("radius", "period", "turns", "centre")),
    *(("spiral", name) for name in ("radii", "period", "turns", "rise", "normal")),
    *(("polyline", name) for name in ("points", "period")),
    *(("waypoints", name) for name in ("times", "points")),
    *(("minimum_jerk", name) for name in ("times", "points", "pause")),
]


@pytest.mark.parametrize(("path", "name"), NUMBERS)
@pytest.mark.parametrize("bad", [nan, inf, "two", None])
def test_path_rejects_non_finite_numbers(path, name, bad):
    if name == "normal" and bad is None:
        return  # the default
    size = {"centre": 2, "radii": 2, "normal": 3, "times": 2}.get(name)
    value = [[0, 0], [1, bad]] if name == "points" else bad if size is None else [0, 1, bad][-size:]
    with pytest.raises(InputError):
        PATHS[path](**{name: value})


@pytest.mark.parametrize("path", PATHS)
def test_path_rejects_time_that_is_not_a_number(path):
    place = PATHS[path]()
    assert np.all(np.isfinite(place(0.5)))
    for bad in (nan, "now", None):
        with pytest.raises(InputError, match="The time of a path"):
            place(bad)


EMPTY = {
    "zero": np.zeros((3, 3)),
    "flat": np.diag([1.0, 1.0, 0.0]),
    "line": np.diag([0.0, 0.0, 1.0]),
    "inside out": np.diag([1.0, 1.0, -1.0]),
    "overflowing": 1e200 * np.eye(3),
}
CALLS = {
    "stress": lambda material, F: material.stress(F),
    "slopes": lambda material, F: material.stress_derivatives(F),
    "differential": lambda material, F: material.differential(F, np.eye(3)),
}
UNDEFINED = {  # by law and call
    ("neo-hookean", "stress"): set(EMPTY),
    ("neo-hookean", "slopes"): set(EMPTY),
    ("neo-hookean", "differential"): set(EMPTY),
    ("fixed-corotated", "stress"): {"overflowing"},
    ("fixed-corotated", "slopes"): {"overflowing"},
    ("fixed-corotated", "differential"): {"zero", "line", "overflowing"},
    ("linear-corotated", "stress"): {"overflowing"},
    ("linear-corotated", "slopes"): {"overflowing"},
    ("linear-corotated", "differential"): {"zero", "line", "overflowing"},
}


@pytest.mark.parametrize(("law", "call"), UNDEFINED)
@pytest.mark.parametrize("F", EMPTY)
def test_stress_of_degenerate_deformation_is_finite_or_raises(law, call, F):
    material = pl.Material(E=1e5, nu=0.3, law=law, power=3)
    if F not in UNDEFINED[law, call]:
        assert np.all(np.isfinite(CALLS[call](material, EMPTY[F])))
        return
    with pytest.raises(InputError, match=f"The law '{law}' has no finite stress"):
        CALLS[call](material, EMPTY[F])


def test_barrier_energy_is_infinite_at_zero_volume_and_never_nan():
    material = pl.Material(E=1e5, nu=0.3)
    for F in ("zero", "flat", "line", "inside out"):
        assert material.energy(EMPTY[F]) == inf
        with pytest.raises(InputError, match="make the determinant positive"):
            material.stress(EMPTY[F])
    with pytest.raises(InputError, match="no finite energy"):
        material.energy(EMPTY["overflowing"])
