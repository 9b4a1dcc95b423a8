"""Robot files of linked robots: what is written is read again, and errors name file and key."""

import json
from pathlib import Path

import meshio
import numpy as np
import pytest
from texts import BOX

import pliant as pl
from pliant.core import InputError
from pliant.geometry import icosphere
from pliant.robot.digest import robot_digests
from pliant.robot_files import LinkedTask, load_robot, load_task
from pliant.swimming import ClosedSurface, EllipsoidShape, Hinge, Link, LinkedRobot, LinkPoint

BALL = icosphere(0.05, subdivisions=1)
LINKS = """
[links.body]
shape = "ellipsoid"
semi_axes = [0.2, 0.1, 0.05]
density = 1000
[links.fin]
shape = "ellipsoid"
semi_axes = [0.1, 0.02, 0.05]
density = 1000
"""
HINGE = """
[hinges.tail]
parent = "body"
child = "fin"
axis = [0, 0, 1]
point = [-0.22, 0, 0]
child_point = [0.12, 0, 0]
limits = [-0.8, 0.8]
torque = [-1, 1]
"""
TASK = """
[task]
dt = 0.01
controls = [0.5]
"""
VALID = LINKS + HINGE + TASK


def spatial_robot():
    """Return a tree with hinges in three directions, one of them passive, and a ball of
    triangles."""
    ellipsoid = EllipsoidShape(semi_axes=(0.1, 0.06, 0.04))
    ball = ClosedSurface(points=BALL.points, triangles=BALL.triangles)
    hinge = lambda child, axis, point, **rest: Hinge(
        parent="body",
        child=child,
        axis=axis,
        point=point,
        child_point=(0.15, 0.0, 0.0),
        limits=(-0.5, 0.4),
        **rest,
    )
    return LinkedRobot(
        name="spatial",
        links={
            "body": Link(shape=ellipsoid, density=1020.0),
            "left fin": Link(
                shape=ellipsoid,
                mass=2.0,
                inertia=np.diag([0.01, 0.02, 0.02]),
                centre_of_mass=(0.0, 0.0, -0.01),
            ),
            "ball": Link(shape=ball, density=700.0),
        },
        hinges={
            "roll": hinge(
                "left fin", (1.0, 0.3, 0.1), (-0.15, 0.1, 0.0), torque=None, stiffness=2.0
            ),
            "pitch": hinge("ball", (0.2, 1.0, -0.4), (-0.15, -0.1, 0.0), damping=0.1),
        },
        effectors={"tip": LinkPoint(link="ball", point=(-0.05, 0.0, 0.0))},
        fluid_density=998.0,
        gravity=(0.0, 0.0, -9.81),
    )


@pytest.fixture
def written(tmp_path):
    """written(text): write a robot file and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "fish.toml"
        path.write_text(text)
        return path

    return write


def changed(old: str, new: str) -> str:
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


# Writing and reading


@pytest.mark.parametrize("make", [pl.robots.swimmer, spatial_robot])
def test_saved_robot_is_read_with_the_same_digests(make, tmp_path):
    robot = make()
    robot.save(tmp_path / "saved.toml")
    again = pl.load_robot(tmp_path / "saved.toml")
    assert robot_digests(again) == robot_digests(robot)
    assert again.name == robot.name
    assert list(again.links) == list(robot.links)


def test_placement_of_a_saved_robot_is_bit_identical(tmp_path):
    robot = spatial_robot()
    robot.save(tmp_path / "saved.toml")
    again = load_robot(tmp_path / "saved.toml").placement([0.3, -0.2])
    for name, value in vars(robot.placement([0.3, -0.2])).items():
        np.testing.assert_array_equal(getattr(again, name), value)


@pytest.mark.parametrize("ending", ["stl", "obj"])
def test_surface_of_a_link_is_read_with_its_scale(ending, tmp_path):
    meshio.write_points_cells(
        tmp_path / f"ball.{ending}", 1000.0 * BALL.points, [("triangle", BALL.triangles)]
    )
    (tmp_path / "fish.toml").write_text(
        f'[links.ball]\nshape = "surface"\nfile = "ball.{ending}"\nscale = 0.001\ndensity = 900\n'
    )
    link = load_robot(tmp_path / "fish.toml").links["ball"]
    exact = ClosedSurface(points=BALL.points, triangles=BALL.triangles)
    assert link.shape.volume == pytest.approx(exact.volume, rel=1e-5)
    assert link.mass == pytest.approx(900.0 * exact.volume, rel=1e-5)


def test_file_without_task_is_simulated_for_a_second(written):
    task = load_task(written(LINKS + HINGE))
    assert isinstance(task, LinkedTask)
    assert (task.rule, task.dt, task.steps) == ("rk4", 0.01, 100)
    np.testing.assert_array_equal(task.control(3), [0.0])


def test_hinge_without_motor_is_passive(written):
    text = changed("torque = [-1, 1]", "motor = false\nstiffness = 3").replace(
        "controls = [0.5]", ""
    )
    robot = load_robot(written(text))
    assert robot.n_controls == 0
    assert robot.hinges["tail"].stiffness == 3.0


def test_first_link_is_the_root(written):
    robot = load_robot(written(VALID))
    assert next(iter(robot.links)) == "body"
    np.testing.assert_allclose(robot.placement([0.0]).centres[1], [-0.34, 0.0, 0.0])


# Bad files

BAD = {
    "soft sections": (VALID + BOX, "links or hinges, and also geometry, material of a soft robot"),
    "no links": (HINGE, "links: this is missing"),
    "no shape": (
        changed("density = 1000\n[links.fin]", "[links.fin]"),
        r"links\.body: A link has either",
    ),
    "wrong shape": (
        changed('[links.fin]\nshape = "ellipsoid"', '[links.fin]\nshape = "elipsoid"'),
        r"links\.fin: there is no shape \"elipsoid\"; did you mean 'ellipsoid'",
    ),
    "unknown key": (
        changed("semi_axes = [0.2", "semiaxes = [0.2"),
        r"links\.body.*no key 'semiaxes' here; did you mean 'semi_axes'",
    ),
    "two axes": (changed("[0.2, 0.1, 0.05]", "[0.2, 0.1]"), r"links\.body: .*semi-axes.*\(3,\)"),
    "negative axis": (changed("[0.2, 0.1, 0.05]", "[0.2, -0.1, 0.05]"), r"links\.body: .*positive"),
    "zero density": (
        changed("density = 1000\n[links.fin]", "density = 0\n[links.fin]"),
        r"links\.body: The density of a link is 0",
    ),
    "density and mass": (
        changed("density = 1000\n[links.fin]", "density = 1000\nmass = 1\n[links.fin]"),
        r"links\.body: A link has either a density or a mass",
    ),
    "axis zero": (
        changed("axis = [0, 0, 1]", "axis = [0, 0, 0]"),
        r"hinges\.tail: The axis .* is zero",
    ),
    "text for a number": (
        changed("axis = [0, 0, 1]", 'axis = [0, 0, "z"]'),
        r"hinges\.tail\.axis.*number",
    ),
    "swapped limits": (changed("[-0.8, 0.8]", "[0.8, -0.8]"), r"hinges\.tail: .*swap them"),
    "unknown link": (
        changed('child = "fin"', 'child = "fim"'),
        "link 'fim', but did you mean 'fin'",
    ),
    "no hinge": (LINKS, "link 'fin' is not connected to the root 'body'; add a hinge"),
    "two numbers of motor": (
        changed("torque = [-1, 1]", "torque = [-1, 1]\nmotor = false"),
        r"hinges\.tail: a hinge without a motor has no torque",
    ),
    "touching links": (
        changed("child_point = [0.12, 0, 0]", "child_point = [0.08, 0, 0]"),
        r"hinges: The links 'body' and 'fin' of swimmer overlap or touch",
    ),
    "limits that collide": (
        changed("[-0.8, 0.8]", "[-2.8, 0.8]"),
        r"hinges: The links 'body' and 'fin' of swimmer overlap or touch at .*tail = -",
    ),
    "file outside": (
        '[links.a]\nshape = "surface"\nfile = "../a.stl"\ndensity = 1000\n',
        r"links\.a\.file.*outside the folder",
    ),
    "missing surface": (
        '[links.a]\nshape = "surface"\nfile = "a.stl"\ndensity = 1000\n',
        r"links\.a.*There is no file",
    ),
    "effector": (
        VALID + '[effectors.root]\nlink = "fin"\n',
        "effector 'root'; give yours another name",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_bad_file_is_refused_with_place_and_remedy(text, message, written):
    with pytest.raises(InputError, match=message) as caught:
        load_robot(written(text))
    assert "fish.toml" in str(caught.value)


BAD_TASKS = {
    "follow": ('type = "follow"\ndt = 0.01\n', 'needs inverse control.*soft robots.*type = "plan"'),
    "unknown type": ('type = "plam"\n', "no type \"plam\"; did you mean 'plan'"),
    "soft rule": ('rule = "bdf2"\ndt = 0.01\n', "'bdf2' is for soft robots.*'rk4'"),
    "unknown rule": ('rule = "rk5"\ndt = 0.01\n', "no rule 'rk5'; did you mean 'rk4'"),
    "no dt": ("steps = 3\n", r"\.dt: this is missing; add it"),
    "cell": ("dt = 0.01\ncell = 0\n", "cell is 0 rad; it must be a positive"),
    "controls": (
        "dt = 0.01\ncontrols = [0, 0]\n",
        r"2 numbers per row, but the robot needs 1 \(tail\)",
    ),
    "too strong": ("dt = 0.01\ncontrols = [3]\n", "Control 0 is 3 .* outside its limits -1 to 1"),
    "eta": (
        'type = "plan"\ndt = 0.01\neta = 0.4\n[[task.goals]]\neffector = "root"\ntarget = [1, 0]\n',
        "eta = 0.4 rad is larger than the first cell 0.3 rad",
    ),
    "goal of no effector": (
        'type = "plan"\ndt = 0.01\n[[task.goals]]\neffector = "rot"\ntarget = [1, 0, 0]\n',
        r"\.goals\[0\]: .*'rot'.* did you mean 'root'",
    ),
    "no goals": ('type = "plan"\ndt = 0.01\ngoals = []\n', "no goal to plan for"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TASKS.values(), ids=BAD_TASKS)
def test_bad_task_is_refused_with_place_and_remedy(text, message, written):
    with pytest.raises(InputError, match=f"fish.toml, task.*{message}"):
        load_task(written(f"{LINKS}{HINGE}[task]\n{text}"))


def test_damaged_surface_file_is_refused(tmp_path):
    robot = spatial_robot()
    robot.save(tmp_path / "saved.toml")
    file = tmp_path / "saved.ball.surface.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "triangles": content["triangles"][1:]}))
    with pytest.raises(InputError, match=r"links\.ball: .*open"):
        load_robot(tmp_path / "saved.toml")
    del content["points"]
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="not a complete surface file; save the robot again"):
        load_robot(tmp_path / "saved.toml")


def test_shape_of_another_library_cannot_be_written(tmp_path):
    class Cube:
        volume, centroid, inertia = 1.0, np.zeros(3), np.eye(3) / 6.0
        semi_axes = None
        surface = quadrature = EllipsoidShape(semi_axes=(0.5, 0.5, 0.5)).surface

    robot = LinkedRobot(links={"a": Link(shape=Cube(), density=1.0)})
    with pytest.raises(InputError, match=r"links\.a: .*shape of type Cube; use EllipsoidShape"):
        robot.save(tmp_path / "a.toml")
