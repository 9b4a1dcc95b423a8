"""Derivatives of whole simulations by shape parameters, with finite elements and particles."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pliant as pl
from pliant.core import Array, InputError
from pliant.design import (
    ParametrisedRobot,
    RadialStretch,
    Rotation,
    ShapeModel,
    ShapeParameter,
    Stretch,
)

SIZES = (1.0, 0.5, 0.25, 0.125)  # of the changes of a parameter, relative to the largest


def arm(order: int = 2, dim: int = 3, **changes: Any) -> pl.Robot:
    """A beam with a cable of given length, gravity, damping, loads and a support."""
    points = [(0.0, 0.016, 0.01), (0.05, 0.016, 0.01), (0.1, 0.016, 0.01)]
    options: dict[str, Any] = {
        "shape": pl.Box(size=(0.1, 0.02, 0.02)),
        "divisions": (3, 1, 1),
        "supports": [pl.Support(region="x-")],
        "gravity": (0.0, 0.0, -9.81),
        "damping": pl.Damping(mass=0.5, stiffness=0.01),
        "loads": [
            pl.PointLoad(point=(0.1, 0.02, 0.02), force=(0.0, 0.0, 0.01)),
            pl.SurfaceLoad(surface="z+", traction=lambda t: (0.0, 5.0 * t, 3.0)),
            pl.MomentLoad(surface="x+", moment=(1e-5, 0.0, 0.0)),
        ],
        "actuators": {
            "cable": pl.Cable(points=points, drive="length", stiffness=300.0),
            "pores": pl.actuators.Fluidic(region=pl.Box(size=(0.05, 0.02, 0.02))),
        },
    }
    if dim == 2:
        options |= {
            "shape": pl.geometry.Rectangle(size=(0.1, 0.02)),
            "divisions": (4, 1),
            "gravity": (0.0, -9.81),
            "thickness": 0.02,
            "loads": [pl.PointLoad(point=(0.1, 0.02), force=(0.0, 0.01))],
            "actuators": {
                "cable": pl.Cable(
                    points=[point[:2] for point in points], drive="length", stiffness=300.0
                )
            },
        }
    material = pl.Material(E=2e4, nu=0.35, density=1000.0, law="neo-hookean")
    return pl.Robot(
        material=material,
        order=order,
        **({"effectors": {"tip": pl.Effector(surface="x+")}} | options | changes),
    )


def length(**changes: Any) -> Stretch:
    return Stretch(**({"axis": "x", "value": 0.1, "lower": 0.05, "upper": 0.2} | changes))


def final_cost(
    model: ShapeModel, controls: Array, p: Sequence[float]
) -> tuple[float, pl.dynamics.simulation.Rollout, Array]:
    """Return a cost of the last state, its rollout and its gradient by that state."""
    run = pl.simulate(model, controls, p=np.array(p), keep=True, progress=False)
    w = np.random.default_rng(0).standard_normal(model.space.size)
    rows = model.effector_jacobian("tip", run.states[-1])
    tip = rows @ run.states[-1]
    bar = rows.T @ (2.0 * tip) + 1e-3 * w
    return float(tip @ tip + 1e-3 * (w @ run.states[-1])), run, bar


def gradient(model: ShapeModel, controls: Array, p: Sequence[float]) -> Array:
    _, run, bar = final_cost(model, controls, p)
    x_bar, _, p_bar = pl.pullback(model, run, bar)
    return p_bar + model.initial_state_pullback(x_bar, np.array(p))


def assert_taylor_slope_two(
    model: ShapeModel, controls: Array, p: Array, scale: float = 0.02
) -> None:
    """Each parameter alone: J(p + e) - J(p) - e dJ/dp must decrease with the square of e."""
    start, g = final_cost(model, controls, p)[0], gradient(model, controls, p)
    for j, name in enumerate(block.name for block in model.params.blocks):
        sizes = scale * np.array(SIZES) * (abs(p[j]) or 1.0)
        steps = [np.where(np.arange(p.size) == j, e, 0.0) for e in sizes]
        values = np.array([final_cost(model, controls, p + step)[0] for step in steps])
        remainders = np.abs(values - start - sizes * g[j])
        slope = np.polyfit(np.log(sizes), np.log(remainders), 1)[0]
        assert slope == pytest.approx(2.0, abs=0.1), (name, remainders, g[j])


@pytest.mark.parametrize(
    ("kind", "dt"),
    [(pl.ImplicitEuler, 0.02), (pl.Quasistatic, 0.02), (pl.BDF2, 0.02), (pl.SemiImplicit, 2e-3)],
)
def test_length_and_width_of_a_solid(kind: Any, dt: float) -> None:
    width = length(axis="y", value=0.02, lower=0.01, upper=0.03)
    robot = ParametrisedRobot(make=arm(order=1), parameters={"length": length(), "width": width})
    model = robot.model(kind, dt=dt)
    assert_taylor_slope_two(model, np.tile([0.9, 500.0], (3, 1)), np.array([0.12, 0.018]))


@pytest.mark.parametrize(("dim", "order"), [(3, 2), (2, 1), (2, 2)])
def test_curved_maps_of_each_cell_type(dim: int, order: int) -> None:
    """The map is not affine, and it moves the support with a rotation."""
    bend = ShapeParameter(
        value=0.1,
        lower=-1.0,
        upper=1.0,
        function=lambda x, value, start: (
            x + (value - start) * np.sin(20.0 * x[:, :1]) * 0.1 * x[:, ::-1]
        ),
    )
    tilt = Rotation(axis="z", value=0.0, centre=dim * (0.01,))
    robot = ParametrisedRobot(make=arm(order, dim), parameters={"bend": bend, "tilt": tilt})
    model = robot.model(pl.ImplicitEuler, dt=0.02, design=["body.E"])
    controls = np.tile([0.9, 500.0][: model.n_controls], (3, 1))
    assert_taylor_slope_two(model, controls, np.array([2e4, 0.4, 0.2]))


@pytest.mark.parametrize("kind", [pl.ImplicitEuler, pl.SemiImplicit])
def test_contact_with_friction(kind: Any) -> None:
    """The default stiffness and layer of a contact depend on the cells, its forces on areas."""
    ground = pl.Contact(obstacle=pl.plane(normal=(0.0, 0.0, 1.0), height=1e-4), friction=0.4)
    make = arm(1, contacts=[ground], actuators={}, loads=[])
    model = ParametrisedRobot(make=make, parameters={"length": length()}).model(kind, dt=1e-3)
    assert_taylor_slope_two(model, np.zeros((3, 0)), np.array([0.12]))


def test_wall_and_fluid_of_a_closed_cylinder() -> None:
    """The rest volume of a cavity changes with the shape; so does the free length of a cable."""
    shape = pl.geometry.ClosedCylinder(radius=0.016, wall=0.006, length=0.06, cap=0.006)
    make = arm(
        1,
        shape=shape,
        divisions=None,
        cell=0.012,
        supports=[pl.Support(region="bottom")],
        loads=[],
        actuators={"air": pl.actuators.Pressure(cavity="cavity", drive="gas")},
        effectors={"tip": pl.Effector(surface="top")},
    )
    parameters = {
        "length": length(axis="z", value=0.06, lower=0.03, upper=0.1),
        "wall": RadialStretch(axis="z", value=0.006, inner=0.01, lower=0.003, upper=0.01),
    }
    model = ParametrisedRobot(make=make, parameters=parameters).model(pl.Quasistatic)
    assert_taylor_slope_two(model, np.full((2, 1), 1.02), np.array([0.07, 0.007]))


@pytest.mark.parametrize("dim", [2, 3])
def test_length_and_width_of_particles(dim: int) -> None:
    make = arm(1, dim, loads=[arm(1, dim).loads[0]], damping=pl.Damping(mass=0.5))
    width = length(axis="y", value=0.02, lower=0.01, upper=0.03)
    robot = ParametrisedRobot(make=make, parameters={"length": length(), "width": width})
    model = robot.model(pl.MaterialPoint, dt=0.005, cell=0.008, design=["body.E"])
    controls = np.tile([0.9, 500.0][: model.n_controls], (2, 1))
    # the second derivative of the kernel jumps where a particle crosses half a cell
    assert_taylor_slope_two(model, controls, np.array([2e4, 0.11, 0.021]), 5e-4)


def test_radius_and_angle_of_particles() -> None:
    """A chamber about an axis becomes thicker, and the arm beyond it bends with its cable."""
    make = arm(
        1,
        loads=[arm(1).loads[0]],
        damping=pl.Damping(mass=0.5),
        supports=[pl.Support(region="x-")],
    )
    parameters = {
        "radius": RadialStretch(axis="x", value=0.02, centre=(0.0, 0.01, 0.01), lower=0.01),
        "angle": Rotation(
            axis="z", centre=(0.03, 0.01, 0.01), along="x", beyond=0.03, blend=0.03, lower=-1.0
        ),
    }
    robot = ParametrisedRobot(make=make, parameters=parameters)
    model = robot.model(pl.MaterialPoint, dt=0.005, cell=0.008)
    assert_taylor_slope_two(model, np.tile([0.9, 500.0], (2, 1)), np.array([0.021, 0.2]), 5e-4)


@pytest.mark.parametrize("kind", [pl.ImplicitEuler, pl.MaterialPoint])
def test_length_downwards_moves_chambers_of_a_hanging_arm(kind: Any) -> None:
    """The support stays in place, and chambers, regions and the tip move with the length."""
    make = pl.robots.chamber_arm(length=0.3, E=1e5, plane=True)
    down = length(axis="-y", value=0.3, lower=0.2, upper=0.6)
    robot = ParametrisedRobot(make=make, parameters={"length": down})
    options = {"dt": 0.02} if kind is pl.ImplicitEuler else {"dt": 0.01, "cell": 0.03}
    model = robot.model(kind, **options)
    controls = np.tile(np.linspace(0.0, 1e4, 8), (2, 1))
    near = 0.02 if kind is pl.ImplicitEuler else 5e-4
    assert_taylor_slope_two(model, controls, np.array([0.33]), near)
    found = robot.mesh_at([0.33])
    held = np.unique(found.facets("y+"))
    np.testing.assert_array_equal(found.points[held], robot.mesh.points[held])
    chamber = np.unique(found.corners[found.regions["left4"]])
    np.testing.assert_allclose(np.ptp(found.points[chamber][:, 1]), 0.33 / 5)


def test_the_robot_of_one_parameter_takes_a_number_and_make_must_be_a_robot():
    strip = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(2, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.35),
        supports=[pl.Support(region="x-")],
    )
    length = {"length": Stretch(axis="x", value=0.1)}
    longer = ParametrisedRobot(make=strip, parameters=length).robot_at(0.12)
    assert np.ptp(longer.mesh().points[:, 0]) == pytest.approx(0.12)
    with pytest.raises(InputError, match=r"The robot of a ParametrisedRobot is '3'.*give a Robot"):
        ParametrisedRobot(make=3, parameters=length)


def test_jacobian_by_a_length_is_that_of_the_adjoint_and_takes_one_first_step(monkeypatch) -> None:
    """The initial state of BDF2 depends on the shape by a step of backward Euler."""
    robot = ParametrisedRobot(make=arm(order=1), parameters={"length": length()})
    model = robot.model(pl.BDF2, dt=0.02, design=["body.E"])
    goal = pl.Goal(effector="tip", target=np.zeros(model.dim), time=0.04)
    problem = pl.Problem(model=model, steps=2, terms=[goal], variables=["shape.length", "body.E"])
    objective = pl.optimisation.ProblemObjective(problem)
    z, steps = objective.start + 0.05, []
    step = pl.ImplicitEuler.step
    monkeypatch.setattr(
        pl.ImplicitEuler, "step", lambda *given, **more: steps.append(0) or step(*given, **more)
    )
    by_jacobian = objective.jacobian(z).gradient
    assert len(steps) < 5  # not one for each number of the state
    np.testing.assert_allclose(by_jacobian, objective.gradient(z).gradient, rtol=1e-8)
