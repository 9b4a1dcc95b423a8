"""Grippers and tethers: the penalty of [Zimmermann2021], one-sided springs, derivatives and
equilibria."""

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Gripper, MovingFrame, Tether
from pliant.core import InputError
from pliant.dynamics.equations import Equations
from pliant.zoo.robots import irb14000

BOX = {
    "shape": pl.Box(size=(0.2, 0.1, 0.1)),
    "divisions": (2, 1, 1),
    "material": pl.Material(E=1e5, nu=0.3),
}
PLANE = {
    "shape": pl.geometry.Rectangle(size=(0.2, 0.1)),
    "divisions": (2, 1),
    "material": pl.Material(E=1e5, nu=0.3),
    "thickness": 0.1,
}
SPACE, FLAT = MovingFrame(origin=(0.1, 0.2, 0.3)), MovingFrame(origin=(0.1, 0.2))
ACTUATORS = {
    "gripper": (BOX, Gripper(surface="z+", frame=SPACE)),
    "gripper of a region": (BOX, Gripper(surface="body", frame=SPACE, stiffness=1e5)),
    "gripper in the plane": (PLANE, Gripper(surface="x-", frame=FLAT)),
    "gripper on an arm": (BOX, Gripper(surface="x+", frame=irb14000("right"))),
    "tether": (
        BOX,
        Tether(point=(0.2, 0.05, 0.05), frame=SPACE, anchor=(0.25, 0.1, 0.2), length=0.05),
    ),
    "tether at its onset": (
        BOX,
        Tether(point=(0.2, 0.05, 0.05), frame=SPACE, length=0.25, stiffness=100.0),
    ),
    "tether in the plane": (
        PLANE,
        Tether(point=(0.2, 0.05), frame=FLAT, anchor=(0.3, 0.1), length=0.05),
    ),
    "tether on an arm": (BOX, Tether(point=(0.2, 0.05, 0.05), frame=irb14000("left"), length=0.1)),
    "slack tether": (BOX, Tether(point=(0.2, 0.05, 0.05), frame=SPACE, length=5.0)),
    "cable": (BOX, pl.Cable(points=[[0.0, 0, 0], [0.2, 0.1, 0.1]])),
    "cable by length": (BOX, pl.Cable(points=[[0.0, 0, 0], [0.2, 0.1, 0.1]], drive="length")),
    "thrust": (BOX, pl.actuators.Thrust(point=(0.2, 0.05, 0.05))),
}
every = pytest.mark.parametrize("name", ACTUATORS)


def attached(name, rng):
    """Return a potential, its points y in a deformed body, and controls u."""
    parts, actuator = ACTUATORS[name]
    robot = pl.Robot(**parts, order=2, actuators={"it": actuator})
    body = robot.body()
    term = actuator.attach(body)
    y = term.weights @ body.rest.reshape(-1, body.dim) + term.offset
    return (
        term,
        y + 0.01 * rng.standard_normal(y.shape),
        robot.neutral_controls() + 0.1 * rng.standard_normal(term.n_controls),
    )


@every
def test_gradient_and_hessian_are_derivatives_of_energy(name, rng):
    """Central differences with steps of 1e-6 on lengths of 1e-1 have a relative error far below
    1e-5."""
    term, y, u = attached(name, rng)
    d, h = rng.standard_normal(y.shape), 1e-6
    central = lambda f: (f(y + h * d) - f(y - h * d)) / (2 * h)
    g, H = term.gradient(y, u), term.hessian(y, u)
    np.testing.assert_allclose(
        np.sum(g * d), central(lambda z: term.energy(z, u)), rtol=1e-5, atol=1e-7
    )
    rows, weights = term.rank_one_terms(y, u)
    product = np.einsum("nij,nj->ni", H, d) + sum(
        w * row * np.sum(row * d) for row, w in zip(rows, weights, strict=True)
    )
    np.testing.assert_allclose(
        product,
        central(lambda z: term.gradient(z, u)),
        rtol=1e-5,
        atol=1e-5 * max(np.abs(H).max(), 1e-3),
    )


@every
def test_control_gradient_and_hessian_vector_are_control_derivatives(name, rng):
    term, y, u = attached(name, rng)
    du, bar, h = rng.standard_normal(u.size), rng.standard_normal(y.shape), 1e-6
    u = np.abs(u) if "cable" in name else u  # the difference must not cross a cable's kink at zero
    central = lambda f: (f(u + h * du) - f(u - h * du)) / (2 * h)
    G = term.control_gradient(y, u)
    size = max(np.abs(G).max(), 1e-3)
    assert G.shape == (term.n_controls, *y.shape)
    np.testing.assert_allclose(
        np.tensordot(du, G, 1), central(lambda v: term.gradient(y, v)), atol=1e-6 * size
    )
    pulled = lambda v: np.sum(bar * term.control_gradient(y, v), axis=(1, 2))
    product = term.control_hessian_vector(y, u, bar, du)
    np.testing.assert_allclose(
        product, central(pulled), atol=1e-5 * max(np.abs(product).max(), size)
    )


@pytest.mark.parametrize(
    "name", [name for name in ACTUATORS if "gripper" in name or "tether" in name]
)
def test_complex_step_matches_derivatives(name, rng):
    """The dynamics differentiate potentials by the complex step."""
    term, y, u = attached(name, rng)
    d = rng.standard_normal(y.shape)
    product = np.einsum("nij,nj->ni", term.hessian(y, u), d)
    np.testing.assert_allclose(
        term.gradient(y + 1e-30j * d, u).imag / 1e-30,
        product,
        atol=1e-12 * max(np.abs(product).max(), 1.0),
    )


@pytest.mark.parametrize(
    "frame",
    [SPACE, MovingFrame(origin=(0, 0, 0), start=(0.1, 0, 0.3, 0.5, -0.4, 2.0)), irb14000("right")],
)
def test_gripper_at_start_has_no_force_on_rest_shape(frame):
    robot = pl.Robot(**BOX, actuators={"hand": Gripper(surface="z+", frame=frame)})
    eq = Equations(robot=robot)
    u = robot.neutral_controls()
    np.testing.assert_array_equal(u, frame.start)
    energy, force = eq.external_energy_and_gradient(eq.coefficients(None), eq.body.rest, u)
    assert energy < 1e-20
    assert np.abs(force).max() < 1e-9


def test_gripper_force_is_gap_times_stiffness_times_area(rng):
    robot = pl.Robot(**BOX, actuators={"hand": Gripper(surface="z+", frame=SPACE, stiffness=3e5)})
    eq = Equations(robot=robot)
    shift = np.array([0.01, -0.02, 0.03])
    pull = -eq.external_energy_and_gradient(
        eq.coefficients(None), eq.body.rest, np.concatenate([shift, np.zeros(3)])
    )[1].reshape(-1, 3)
    np.testing.assert_allclose(pull.sum(axis=0), 3e5 * 0.2 * 0.1 * shift, rtol=1e-12)


def test_free_body_follows_gripper():
    """A stiffly held, damped body is rotated by 0.3 rad and translated in small steps.

    It ends in the rigidly moved rest shape."""
    frame = MovingFrame(origin=(0.1, 0.05, 0.1))
    robot = pl.Robot(
        **BOX,
        order=1,
        actuators={"hand": Gripper(surface="z+", frame=frame)},
        damping=pl.Damping(mass=30.0),
    )
    model = pl.ImplicitEuler(robot, dt=0.02)
    goal = np.array([0.05, 0.0, 0.1, 0.0, 0.3, 0.0])
    run = pl.simulate(model, lambda k, x: min((k + 1) / 20, 1.0) * goal, steps=60)
    at = model.space.position(run.states[-1]).reshape(-1, 3)
    rest = robot.body().rest.reshape(-1, 3)
    np.testing.assert_allclose(
        at, frame.positions(frame.local_positions(rest, frame.start), goal), atol=1e-4
    )


def test_hanging_mass_stretches_tether_by_its_weight():
    k, m, layer = 400.0, 0.2, 1e-3 * 0.3
    leash = Tether(point=(0.0, 0.0, 0.0), frame=MovingFrame(origin=(0.0, 0.0, 0.3)), stiffness=k)
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.0]], mass_each=m),
        gravity=(0, 0, -9.81),
        actuators={"leash": leash},
        damping=pl.Damping(mass=11.4),
    )  # the swing is critically damped
    model = pl.ImplicitEuler(robot, dt=0.01)
    u = np.array(
        [0.1, 0.0, 0.05, 0.0, 0.0, 0.0]
    )  # the tether frame moves, and the mass hangs below it
    x = pl.simulate(model, lambda i, x: u, steps=1000).states[-1]
    stretch = m * 9.81 / k + layer / 2  # the smooth onset adds half of its layer
    np.testing.assert_allclose(model.space.position(x), [0.1, 0.0, 0.05 - stretch], atol=1e-6)


def test_slack_tether_has_no_force(rng):
    term, y, u = attached("slack tether", rng)
    assert term.energy(y, u) == 0.0
    assert not term.gradient(y, u).any()
    there = term.frame.positions(
        term.local, u
    )  # at the anchor the direction is undefined, but there is no NaN
    assert all(
        np.all(np.isfinite(part))
        for part in (
            term.gradient(there, u),
            term.hessian(there, u),
            term.control_gradient(there, u),
        )
    )


def test_robot_has_limits_and_neutral_of_each_control():
    hand = Gripper(
        surface="z+",
        frame=MovingFrame(
            origin=(0, 0, 0), limits=(-np.arange(1.0, 7.0), 2.0), start=(0, 0, 1, 0, 0, 0)
        ),
    )
    robot = pl.Robot(
        **BOX,
        actuators={
            "push": pl.actuators.Thrust(point=(0.2, 0.05, 0.05), limits=(-3, 4)),
            "hand": hand,
        },
    )
    lower, upper = robot.control_limits()
    np.testing.assert_array_equal(lower, [-3, -3, -3, -1, -2, -3, -4, -5, -6])
    np.testing.assert_array_equal(upper, [4, 4, 4, 2, 2, 2, 2, 2, 2])
    np.testing.assert_array_equal(robot.neutral_controls(), [0, 0, 0, 0, 0, 1, 0, 0, 0])
    assert pl.Robot(**BOX).control_limits()[0].shape == (0,)


@pytest.mark.parametrize(
    ("actuator", "says"),
    [
        (
            Gripper(surface="z+", frame=FLAT),
            "'it': The frame of a gripper is 2D, but the body is 3D",
        ),
        (
            Tether(point=(0.2, 0.05, 0.05), frame=FLAT),
            "'it': The frame of a tether is 2D, but the body is 3D",
        ),
        (Tether(point=(0.2, 0.05), frame=SPACE), r"point of a tether has shape \(2,\)"),
        (Tether(point=(0.9, 0.05, 0.05), frame=SPACE), "'it': .*outside"),
        (
            Tether(point=(0.2, 0.05, 0.05), frame=SPACE, anchor=(0.2, 0.05, 0.05)),
            "length is zero; give length",
        ),
        (Gripper(surface="z*", frame=SPACE), "'it': .*no surface or region 'z\\*'"),
    ],
)
def test_gripper_or_tether_that_does_not_fit_its_body_is_rejected(actuator, says):
    with pytest.raises(InputError, match=says):
        Equations(robot=pl.Robot(**BOX, actuators={"it": actuator}))


def test_gripper_on_point_masses_requires_stiffness():
    with pytest.raises(InputError, match=r"needs a stiffness \[N/m\]; give Gripper"):
        Gripper(surface="body", frame=SPACE).attach(pl.PointMass(points=[[0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Gripper(surface="z+", frame=SPACE, stiffness=-1.0), "gripper's stiffness is -1"),
        (lambda: Gripper(surface=3, frame=SPACE), "surface of a gripper is '3'"),
        (lambda: Gripper(surface="z+", frame="arm"), "frame of a gripper is 'arm'"),
        (lambda: Tether(point=(0, 0, np.nan), frame=SPACE), "point of a tether is nan"),
        (
            lambda: Tether(point=(0, 0, 0), frame=SPACE, anchor=(0, 0)),
            "anchor of a tether has shape",
        ),
        (lambda: Tether(point=(0, 0, 0), frame=SPACE, length=0.0), "length of a tether is 0"),
        (
            lambda: Tether(point=(0, 0, 0), frame=SPACE, stiffness=np.inf),
            "tether's stiffness is inf",
        ),
        (lambda: Tether(point=(0, 0, 0), frame=None), "frame of a tether is 'None'"),
    ],
)
def test_bad_gripper_input_is_rejected(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_distant_frame_warns():
    robot = pl.Robot(
        shape=pl.Box(size=(0.1, 0.02, 0.02)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        actuators={
            "hand": pl.Gripper(surface="x-", frame=pl.actuators.MovingFrame(origin=(5.0, 5.0, 5.0)))
        },
    )
    with pytest.warns(UserWarning, match="rotations move the body far"):
        pl.ImplicitEuler(robot, dt=0.01)
