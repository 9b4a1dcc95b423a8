"""Every design parameter that is not of the material: derivatives, and equality with the robot that
has its value."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases import (
    DAMPED,
    LINEAR,
    MOVING,
    ROBOTS,
    ROUTE,
    RULES,
    SHAPES,
    STRETCHY,
    added_law,
    bag,
    cable,
    flesh,
    ground,
    hand,
    rods,
    solid,
)

import pliant as pl
from pliant.actuators import Hydraulic, Servo
from pliant.bodies import positive_parameter, unit_gradient
from pliant.core import InputError
from pliant.robot import robot_with

DAMPING = ("damping.mass", "damping.stiffness")
SPRINGY = pl.Robot(
    **SHAPES["box"][0],
    order=2,
    material=pl.Material(E=4e4, nu=0.35),
    gravity=(0.0, 0.0, -9.81),
    supports=(
        pl.Support(region="x-", stiffness=300.0),
        pl.Support(box=((0.0, 0.0, 0.0), (0.2, 0.1, 0.0)), axes="z", stiffness=100.0),
    ),
    actuators=added_law("box"),
)
PARTICLES = solid(
    "plane",
    1,
    "neo-hookean",
    held=None,
    damping=pl.Damping(mass=0.8, stiffness=0.002),
    actuators={
        **cable("plane", **STRETCHY),
        **flesh("plane"),
        "pulled": pl.Cable(points=ROUTE["plane"]),
    },
    contacts=(pl.Contact(obstacle=pl.plane((0.1, 1.0), height=0.004), friction=0.4),),
)
INSIDE = {  # points of a cable inside cells, where the derivative by their place is continuous
    "box": [[0.02, 0.02, 0.06], [0.11, 0.045, 0.07], [0.17, 0.03, 0.055]],
    "plane": [[0.02, 0.06], [0.13, 0.05], [0.17, 0.055]],
}
PLACES = ("actuators.line.point1.x", "actuators.line.guide.y", "actuators.line.point1.y")
# robot, control, design; the material parameter checks the order of the blocks
CASES = {
    "cable": (
        solid(
            "box",
            1,
            "neo-hookean",
            damping=DAMPED,
            actuators=cable("box", **STRETCHY),
            contacts=ground(3, friction=0.3, slip_speed=0.1),
        ),
        (0.9,),
        (
            "gravity.x",
            "body.E",
            *DAMPING,
            "gravity.z",
            "actuators.line.stiffness",
            "actuators.line.rest_length",
            "body.density",
            "contact0.friction",
            "contact0.stiffness",
        ),
    ),
    "routed by tension": (
        solid(
            "box",
            2,
            "neo-hookean",
            actuators={"line": pl.Cable(points=INSIDE["box"], guide=(0.3, 0.02, 0.1))},
        ),
        (0.8,),
        (*PLACES, "actuators.line.point0.z", "actuators.line.strength"),
    ),
    "routed by length": (
        solid(
            "plane",
            1,
            "neo-hookean",
            actuators={"line": pl.Cable(points=INSIDE["plane"], guide=(0.3, 0.02), **STRETCHY)},
        ),
        (0.9,),
        (*PLACES, "actuators.line.stiffness"),
    ),
    "routed with a rest length": (
        solid(
            "plane",
            1,
            "neo-hookean",
            actuators={"line": pl.Cable(points=INSIDE["plane"], **STRETCHY)},
        ),
        (0.8,),
        ("actuators.line.point1.x", "actuators.line.rest_length"),
    ),
    "no damping, gravity or friction": (
        replace(
            solid("plane", 1, "fixed-corotated", contacts=ground(2, slip_speed=0.1)), gravity=None
        ),
        (),
        (*DAMPING, "gravity.x", "gravity.y", "contact0.friction"),
    ),
    "flesh": (
        solid("box", 1, "neo-hookean", actuators={**flesh("box"), **cable("box")}),
        (6e3, 3e3, 0.8),
        ("actuators.pull.strength", "actuators.swell.strength", "actuators.line.strength"),
    ),
    "springs": (
        SPRINGY,
        (0.8,),
        ("support0.stiffness", "support1.stiffness", "actuators.law.stiffness", "body.nu"),
    ),
    "pressure": (
        bag(2, 1, "neo-hookean", fibres=8e4),
        (4e3,),
        ("actuators.air.strength", "actuators.thread.stiffness"),
    ),
    "liquid": (
        bag(3, 1, "neo-hookean", damping=DAMPED, fluid=Hydraulic, drive="volume", bulk=2e5),
        (1.1,),
        ("gravity.x", "gravity.z", "actuators.air.bulk", "body.density"),
    ),
    "rods": (
        rods(damping=DAMPED, more=(pl.Support(region="end", stiffness=20.0),)),
        (),
        (*DAMPING, "gravity.y", "support1.stiffness", "body.E"),
    ),
    "pebbles": (
        ROBOTS["pebbles"].robot,
        (0.1, 0.2, 0.3, 0.7),
        (
            "damping.mass",
            "gravity.x",
            "contact0.friction",
            "contact0.stiffness",
            "body.density",
        ),
    ),
    "particles": (
        PARTICLES,
        (0.9, 6e3, 3e3, 0.8),
        (
            "body.E",
            *DAMPING,
            "gravity.x",
            "gravity.y",
            "contact0.friction",
            "actuators.line.stiffness",
            "actuators.line.rest_length",
            "actuators.pull.strength",
            "actuators.swell.strength",
            "actuators.pulled.strength",
        ),
    ),
    "particles with routes": (
        replace(
            PARTICLES,
            actuators={
                "line": pl.Cable(points=INSIDE["plane"], guide=(0.3, 0.02), **STRETCHY),
                "pulled": pl.Cable(points=INSIDE["plane"]),
            },
        ),
        (0.9, 0.8),
        (*PLACES, "actuators.pulled.point1.y", "actuators.pulled.strength"),
    ),
    "particles without damping": (
        replace(PARTICLES, damping=pl.Damping(), gravity=None),
        (0.9, 6e3, 3e3, 0.8),
        (*DAMPING, "gravity.x", "gravity.y"),
    ),
}
MOVING_ONLY = (*DAMPING, "contact0.friction")


def rules_of(name):
    if name.startswith("particles"):
        return ("MaterialPoint", "MaterialPoint total")
    return MOVING if name == "pebbles" else LINEAR


PAIRS = [(name, rule) for name in CASES for rule in rules_of(name)]
each = pytest.mark.parametrize(
    ("name", "rule"), PAIRS, ids=[f"{rule}-{name}" for name, rule in PAIRS]
)


@pytest.fixture(scope="module")
def moved():
    """Return a cached function (name, rule) -> (model, x, u) after a few steps of a motion."""
    made = {}

    def get(name, rule):
        if (name, rule) not in made:
            robot, control, names = CASES[name]
            design = [n for n in names if rule != "Quasistatic" or n not in MOVING_ONLY]
            model, u = RULES[rule](robot, design), np.array(control)
            x = model.initial_state()
            for k in range(3):
                step = model.step(x, (0.7 + 0.1 * k) * u, None, k)
                assert step.status, step.status.text
                x = step.x
            made[name, rule] = model, x, u
        return made[name, rule]

    return get


def changed(model, rng):
    """Return other values of the parameters, none of them zero. Cables stay taut."""
    p = model.params.flat
    shorter = [block.name.endswith("rest_length") for block in model.params.blocks]
    change = 0.1 * rng.random(p.size) * np.where(shorter, -1.0, 1.0)
    return np.where(p == 0.0, 1e-3, p * (1.0 + change))


@each
def test_derivatives_by_every_parameter_pass_taylors_test(moved, rng, name, rule):
    model, x, u = moved(name, rule)
    for p in (model.params.flat, changed(model, rng)):
        checks = {check.name: check for check in pl.gradcheck(model, x, u, p, k=3)}
        for block in model.params.blocks:
            check = checks[block.name]
            assert check.ok, check
            # slope 2, or a step that is linear in the parameter and depends on it
            assert np.isfinite(check.slope) or check.error > 0.0, check


@each
def test_step_with_parameters_is_that_of_the_robot_with_their_values(moved, rng, name, rule):
    model, x, u = moved(name, rule)
    p = changed(model, rng)
    robot = model.robot_with_params(p)
    other = (
        replace(model, robot=robot, design=(), body=None)
        if rule.startswith("MaterialPoint")
        else RULES[rule](robot, ())
    )
    got, expected = model.step(x, u, p, 3), other.step(x, u, None, 3)
    assert got.status, got.status.text
    np.testing.assert_allclose(got.x, expected.x, rtol=1e-12, atol=1e-14)
    assert np.abs(got.x - model.step(x, u, None, 3).x).max() > 1e-9  # the values matter
    bar = np.cos(np.arange(x.size))
    for a, b in zip(model.pullback(got, bar)[:2], other.pullback(expected, bar)[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * np.abs(b).max(initial=1.0))


@pytest.mark.parametrize("rule", ["ImplicitEuler", "SemiImplicit"])
def test_each_parameter_alone_is_a_column_of_the_derivative(moved, rule):
    model, x, u = moved("cable", rule)
    C = model.linearize(model.step(x, u, None, 3)).dense_params()
    for j, block in enumerate(model.params.blocks):
        alone = RULES[rule](model.robot, [block.name])
        np.testing.assert_allclose(
            alone.linearize(alone.step(x, u, None, 3)).dense_params()[:, 0],
            C[:, j],
            rtol=1e-8,
            atol=1e-12 * np.abs(C[:, j]).max(),
        )


def test_steps_with_alternating_parameters_do_not_mix(moved, rng):
    """Models of the last parameters are cached; more of them than the cache holds."""
    model, x, u = moved("cable", "ImplicitEuler")
    values = [changed(model, rng) for _ in range(6)]
    first = [model.step(x, u, p, 3) for p in values]
    for step, p in zip(first, values, strict=True):
        np.testing.assert_array_equal(model.step(x, u, p, 3).x, step.x)
    fresh = RULES["ImplicitEuler"](model.robot, model.design)
    bar = np.ones_like(x)
    for a, b in zip(
        model.pullback(first[0], bar),
        fresh.pullback(fresh.step(x, u, values[0], 3), bar),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_start_of_bdf2_follows_the_parameters(moved, rng):
    model, _, u = moved("cable", "BDF2")
    p = changed(model, rng)
    other = pl.BDF2(model.robot_with_params(p), dt=model.dt)
    np.testing.assert_allclose(
        model.initial_state(controls=u, p=p), other.initial_state(controls=u), rtol=1e-13
    )


def test_free_fall_has_the_derivative_of_its_closed_form():
    """Backward Euler with mass damping c: v' = (v + h g) / (1 + h c)."""
    h, c, g = 0.1, 0.7, -3.0
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]), gravity=(0.0, g), damping=pl.Damping(mass=c)
    )
    model = pl.ImplicitEuler(robot, dt=h, design=["gravity.y", "damping.mass"])
    C = model.linearize(model.step(np.array([0.0, 0.0, 0.0, 2.0]), np.zeros(0))).dense_params()
    v = (2.0 + h * g) / (1.0 + h * c)
    np.testing.assert_allclose(C[3], [h / (1.0 + h * c), -h * v / (1.0 + h * c)], rtol=1e-9)


def test_equilibrium_on_springs_sinks_by_weight_over_stiffness():
    """A body on one elastic support sinks by m g / k, and dz/dk = m g / k^2."""
    k, mass = 500.0, 0.2 * 0.1 * 0.1 * 1000.0
    robot = replace(
        solid("box", 1, "neo-hookean", held=None),
        material=pl.Material(E=1e9, nu=0.3),
        supports=(pl.Support(region="body", stiffness=k),),
    )
    model = pl.Quasistatic(robot, design=["support0.stiffness"])
    step = model.step(model.initial_state(), np.zeros(0))
    z = np.array(step.x).reshape(-1, 3)[:, 2] - robot.body().rest.reshape(-1, 3)[:, 2]
    sunk = -mass * 9.81 / k
    np.testing.assert_allclose(z, sunk, rtol=1e-5)
    slope = model.linearize(step).dense_params()[2::3, 0]
    np.testing.assert_allclose(slope, -sunk / k, rtol=1e-5)


def test_stiffness_of_a_support_does_not_depend_on_the_mesh():
    sag = []
    for divisions, order in (((2, 1, 1), 1), ((5, 2, 3), 1), ((3, 1, 1), 2)):
        robot = replace(
            SPRINGY,
            divisions=divisions,
            order=order,
            supports=(pl.Support(region="x-", stiffness=300.0),),
            material=pl.Material(E=1e9, nu=0.3),
            gravity=None,
            actuators={},
            loads=(pl.SurfaceLoad(surface="x-", traction=(300.0, 0.0, 0.0)),),
        )
        x = pl.Quasistatic(robot).step(robot.body().rest, np.zeros(0)).x
        sag.append((x - robot.body().rest).reshape(-1, 3)[:, 0].mean())
    np.testing.assert_allclose(sag, 300.0 * 0.01 / 300.0, rtol=1e-4)


@pytest.mark.parametrize(
    "robot",
    [
        solid("box", 1, "neo-hookean", contacts=(pl.Contact(obstacle=pl.plane((0, 0, 1))),)),
        solid("plane", 1, "neo-hookean", held=None, actuators=hand("plane")),
        solid(
            "box",
            1,
            "neo-hookean",
            held=None,
            actuators={"motor": Servo(region="x-", axis=(1, 0, 1))},
        ),
    ],
    ids=["contact", "gripper", "servo"],
)
def test_springs_that_follow_the_modulus_are_kept_by_another_one(robot):
    model = pl.ImplicitEuler(robot, dt=0.01, design=["body.E"])
    p = np.array([6e4])
    other = pl.ImplicitEuler(model.robot_with_params(p), dt=0.01)
    x = model.initial_state()
    u = model.neutral_controls() + 0.01
    np.testing.assert_allclose(model.step(x, u, p).x, other.step(x, u).x, rtol=1e-12, atol=1e-14)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedAnchor:
    """A spring of the stiffness k from a point to a fixed position."""

    weights: object
    offset: np.ndarray
    k: float
    n_controls: int = 0
    points_per_block: int = 1
    stiff: bool = True

    @property
    def parameters(self):
        return (positive_parameter("k", self.k, "N/m"),)

    def with_parameters(self, values):
        return replace(self, **values)

    def parameter_gradient(self, name, y, u):
        return unit_gradient(self, name, y, u)

    def energy(self, y, u):
        return float(0.5 * self.k * np.sum(y * y))

    def gradient(self, y, u):
        return self.k * y

    def hessian(self, y, u):
        return self.k * np.eye(y.shape[1])[None] + 0.0 * y[:, :, None]

    def rank_one_terms(self, y, u):
        return np.zeros((0, *y.shape)), np.zeros(0)

    def control_gradient(self, y, u):
        return np.zeros((0, *y.shape))

    def control_hessian_vector(self, y, u, bar, du):
        return np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchor:
    point: tuple[float, ...]
    position: tuple[float, ...]
    k: float
    n_controls: int = 0
    units: tuple[str, ...] = ()
    limits: tuple[float, float] = (0.0, 1.0)
    neutral: float = 0.0

    def polylines(self, body):
        return ()

    def attach(self, body):
        weights = body.locate(np.array([self.point]))
        return AttachedAnchor(weights=weights, offset=-np.array([self.position]), k=self.k)


@pytest.mark.parametrize(
    "rule", ["Quasistatic", "SemiImplicit", "MaterialPoint", "MaterialPoint total"]
)
def test_actuator_of_the_user_has_parameters(rng, rule):
    anchor = Anchor(point=(0.19, 0.05), position=(0.3, 0.1), k=5.0)
    robot = solid("plane", 1, "neo-hookean", actuators={"anchor": anchor})
    model = RULES[rule](robot, ["actuators.anchor.k"])
    x, u = model.initial_state(), np.zeros(0)
    assert pl.gradcheck(model, x, u)[-1].ok
    p = np.array([6.0])
    other = RULES[rule](model.robot_with_params(p), ())
    np.testing.assert_allclose(model.step(x, u, p).x, other.step(x, u).x, rtol=1e-12, atol=1e-14)


def test_robot_with_values_is_saved_and_loaded(tmp_path):
    robot = robot_with(
        replace(SPRINGY, actuators={**flesh("box"), **cable("box", **STRETCHY)}),
        {
            "body.E": 5e4,
            "damping.mass": 0.3,
            "gravity.y": 1.5,
            "support0.stiffness": 77.0,
            "actuators.pull.strength": 1.2,
            "actuators.line.rest_length": 0.17,
        },
    )
    robot.save(tmp_path / "robot.toml")
    again = pl.load_robot(tmp_path / "robot.toml")
    assert again.material.E == 5e4
    assert again.damping.mass == 0.3
    assert tuple(again.gravity) == (0.0, 1.5, -9.81)
    assert again.supports[0].stiffness == 77.0
    assert again.actuators["pull"].strength == 1.2
    assert again.actuators["line"].rest_length == 0.17
    x, u = again.body().rest, np.array([100.0, 100.0, 0.9])
    np.testing.assert_array_equal(
        pl.Quasistatic(again).step(x, u).x, pl.Quasistatic(robot).step(x, u).x
    )


def test_robot_with_values_shares_the_body_unless_the_material_changes():
    robot = SPRINGY
    assert robot_with(robot, {"gravity.x": 1.0}).body() is robot.body()
    assert robot_with(robot, {"body.E": 1e5}).body() is not robot.body()
    assert robot_with(robot, {}).gravity is robot.gravity


BAD_DESIGNS = {
    "damping of an equilibrium": (
        lambda: pl.Quasistatic(SPRINGY, design=["damping.mass"]),
        r"'damping\.mass' has no effect on an equilibrium, .* take ImplicitEuler",
    ),
    "friction of an equilibrium": (
        lambda: pl.Quasistatic(CASES["cable"][0], design=["contact0.friction"]),
        r"'contact0\.friction' has no effect on an equilibrium",
    ),
    "stiffness of a contact of particles": (
        lambda: pl.MaterialPoint(PARTICLES, dt=0.01, cell=0.05, design=["contact0.stiffness"]),
        r"'contact0\.stiffness' has no effect on MaterialPoint",
    ),
    "number of substeps": (
        lambda: pl.MaterialPoint(PARTICLES, dt=0.01, cell=0.05, design=["substeps"]),
        r"'substeps' is a choice of the discretisation",
    ),
    "time step": (
        lambda: pl.BDF2(SPRINGY, dt=0.01, design=["dt"]),
        r"'dt' is a choice of the discretisation",
    ),
    "rigid support": (
        lambda: pl.ImplicitEuler(CASES["cable"][0], dt=0.01, design=["support0.stiffness"]),
        r"no parameter 'support0\.stiffness'.*damping\.mass",
    ),
    "third axis in the plane": (
        lambda: pl.MaterialPoint(PARTICLES, dt=0.01, cell=0.05, design=["gravity.z"]),
        r"no parameter 'gravity\.z'.*gravity\.y",
    ),
    "strength of a cable driven by length": (
        lambda: pl.BDF2(CASES["cable"][0], dt=0.01, design=["actuators.line.strength"]),
        r"no parameter 'actuators\.line\.strength'.*actuators\.line\.rest_length",
    ),
    "unknown actuator": (
        lambda: pl.BDF2(SPRINGY, dt=0.01, design=["actuators.lin.strength"]),
        r"no parameter 'actuators\.lin\.strength'",
    ),
    "elastic support of particles": (
        lambda: pl.MaterialPoint(
            replace(PARTICLES, supports=[pl.Support(region="x-", stiffness=9.0)]),
            dt=0.01,
            cell=0.05,
        ),
        r"support on 'x-' is elastic, which MaterialPoint does not support",
    ),
}


@pytest.mark.parametrize("name", BAD_DESIGNS)
def test_parameter_without_effect_or_unknown_is_refused(name):
    make, message = BAD_DESIGNS[name]
    with pytest.raises(InputError, match=message):
        make()


BAD_VALUES = {
    "damping.mass": (-0.1, "must lie between 0 and 1e"),
    "contact0.friction": (-0.1, "must lie between 0 and 1e"),
    "gravity.x": (np.nan, "it must be finite"),
    "gravity.z": (1e7, "must lie between -1e"),
    "actuators.line.stiffness": (0.0, "must lie between 0 and inf"),
}


@pytest.mark.parametrize("rule", ["ImplicitEuler", "SemiImplicit"])
@pytest.mark.parametrize("name", BAD_VALUES)
def test_value_out_of_bounds_is_refused(moved, rule, name):
    model, x, u = moved("cable", rule)
    value, message = BAD_VALUES[name]
    p = model.params.flat
    p[[block.name for block in model.params.blocks].index(name)] = value
    with pytest.raises(InputError, match=message):
        model.step(x, u, p)


BAD_ROBOTS = {
    "cells.E": (np.ones(9), r"'cells\.E' has a value for each cell.*as p"),
    "body.mu": (1.0, r"no parameter 'body\.mu' of a Material"),
    "arm.E": (1.0, r"no parameter 'arm\.E'; .* body, damping, gravity"),
    "damping.spin": (1.0, r"no parameter 'damping\.spin'"),
    "gravity.w": (1.0, r"no parameter 'gravity\.w'"),
    "contact7.friction": (1.0, r"no parameter 'contact7\.friction'"),
    "actuators.law.strength": (1.0, r"no parameter 'actuators\.law\.strength'"),
    "support0.axes": (1.0, r"no parameter 'support0\.axes'"),
    "body.E": (-1.0, "Young's modulus"),
    "damping.mass": ([1.0, 2.0], r"'damping\.mass' has shape \(2,\)"),
}


@pytest.mark.parametrize("name", BAD_ROBOTS)
def test_robot_with_bad_name_or_value_is_refused(name):
    value, message = BAD_ROBOTS[name]
    with pytest.raises(InputError, match=message):
        robot_with(SPRINGY, {name: value})


def test_robot_of_single_cells_is_refused():
    model = pl.ImplicitEuler(SPRINGY, dt=0.01, design=["cells.E"])
    with pytest.raises(InputError, match="one material in each region"):
        model.robot_with_params(model.params.flat)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pl.Support(region="x-", stiffness=0.0), "stiffness of a support"),
        (
            lambda: pl.Support(region="x-", stiffness=1.0, motion=lambda t: np.zeros(3)),
            "a motion and a stiffness",
        ),
        (lambda: pl.Cable(points=ROUTE["box"], rest_length=0.1), "tension-driven cable"),
        (
            lambda: pl.Cable(points=ROUTE["box"], drive="length", rest_length=-0.1),
            "rest length is -0.1 m",
        ),
        (
            lambda: pl.Cable(points=ROUTE["box"], drive="length", strength=2.0),
            "length-driven cable has a strength",
        ),
        (lambda: pl.actuators.Muscle(region="body", axis=(1, 0, 0), strength=0.0), "strength"),
        (lambda: pl.actuators.Pressure(cavity="c", drive="gas", strength=2.0), "driven by gas"),
    ],
)
def test_bad_value_of_a_part_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_particles_at_a_stiffness_beyond_their_substeps_fail_with_a_remedy():
    model = pl.MaterialPoint(
        PARTICLES, dt=0.01, cell=0.05, design=["actuators.line.stiffness", "damping.stiffness"]
    )
    x, u = model.initial_state(), np.array([0.9, 0.0, 0.0, 0.0])
    for p in ([1e9, 0.002], [200.0, 5.0]):
        status = model.step(x, u, np.array(p)).status
        assert not status
        assert "take substeps=" in status.text
