"""Robot files give the described robots, and the examples agree with beam and bar theory."""

import re
from pathlib import Path

import meshio
import numpy as np
import pytest
import trimesh
from PIL import Image
from texts import BOX, MATERIAL

import pliant as pl
from pliant.actuators.arm_file import load_arm
from pliant.core import InputError
from pliant.robot_files import Keyframes, load_robot, load_task
from pliant.robot_files.layout import ACTUATORS, OBSTACLES, ROBOT, SHAPES, SOURCES
from pliant.robot_files.section import keys_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "robots"
GUIDE = (ROOT / "docs" / "guide" / "robot-files.md").read_text()


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "robot.toml"
        path.write_text(text)
        return path

    return write


def tip(model, name: str, states) -> np.ndarray:
    """Return the positions (k, dim) [m] of an effector."""
    body = model.robot.body()
    row = model.robot.effectors[name].attach(body)
    return np.array(
        [(row @ model.space.position(x).reshape(-1, body.dim))[0] for x in np.atleast_2d(states)]
    )


def test_strip_deflects_as_plane_strain_beam():
    model = pl.Quasistatic(load_robot(EXAMPLES / "strip.toml"))
    sag = 0.005 - tip(model, "tip", pl.equilibrium(model, np.zeros(0)).x)[0, 1]
    L, h, E, weight = 0.2, 0.01, 2e7 / (1 - 0.3**2), 1000 * 9.81 * 0.01  # per metre of thickness
    assert sag == pytest.approx(
        weight * L**4 / (8 * E * h**3 / 12), rel=0.01
    )  # the nonlinear term is sag^2 / L^2 = 0.3 %


def test_strip_oscillates_at_its_natural_frequency():
    task = load_task(EXAMPLES / "strip.toml")
    model = task.model()
    run = pl.simulate(model, lambda k, x: task.control(k), steps=task.steps)
    lowest = np.argmin(tip(model, "tip", run.states)[:, 1]) * task.dt
    stiffness, mass = 2e7 / (1 - 0.3**2) * 0.01**3 / 12, 1000 * 0.01
    half_period = np.pi / (1.8751**2 * np.sqrt(stiffness / (mass * 0.2**4)))
    assert lowest == pytest.approx(
        half_period, rel=0.03
    )  # higher modes shift the time of the lowest position


def test_arm_stretches_as_two_bars_in_series_and_bends_to_cable_side():
    task = load_task(EXAMPLES / "arm.toml")
    model = task.model()
    hanging = tip(model, "hand", pl.equilibrium(model, np.zeros(2)).x)[0]
    stretch = (500 + 1000 * 9.81 * (0.02 + 0.10 / 2)) * 0.10 / 2e5
    assert -0.02 - hanging[2] == pytest.approx(
        stretch, rel=0.05
    )  # the support prevents lateral contraction near the ceiling
    run = pl.simulate(model, lambda k, x: task.control(k), steps=task.steps)
    assert np.all(np.diff(tip(model, "hand", run.states)[:, 0]) < -1e-3)  # left is -x
    assert run.controls[:, 0] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_finger_bends_to_the_ground_with_penetration_below_1_mm():
    task = load_task(EXAMPLES / "finger.toml")
    model = task.model()
    run = pl.simulate(model, lambda k, x: task.control(k), steps=30)
    heights = model.space.position(run.states[-1]).reshape(-1, 3)[:, 2]
    assert -0.031 < heights.min() < -0.03  # contact with a penetration of less than 1 mm
    assert tip(model, "tip", run.states[-1])[0, 2] < -0.02


SOLIDS = {
    "box": ("size = [0.2, 0.1, 0.1]", 0.002),
    "cylinder": ("radius = 0.1\nlength = 0.2", 0.002 * np.pi),
    "tube": ("outer = 0.1\ninner = 0.05\nlength = 0.2", 0.0015 * np.pi),
    "closed_cylinder": (
        "radius = 0.1\nwall = 0.05\nlength = 0.2\ncap = 0.04",
        (0.002 - 0.05**2 * 0.12) * np.pi,
    ),
    # Each of two chambers spans pi minus a rib of 0.1 m at radius 0.05 m, which is 2 rad
    "chambered_cylinder": (
        "radius = 0.1\ncore = 0.02\nwall = 0.02\nrib = 0.1\nsection = 0.2\ncap = 0.05\nchambers "
        "= 2",
        0.003 * np.pi - (np.pi - 2) * (0.08**2 - 0.02**2) * 0.2,
    ),
    "ellipsoid": ("radii = [0.1, 0.1, 0.2]", 0.008 / 3 * np.pi),
    "strip": ("length = 0.2\nwidth = 0.1\nthickness = 0.05", 0.001),
    "rectangle": ("size = [0.2, 0.1]", 0.02),
    "disc": ("radius = 0.1", 0.01 * np.pi),
    "annulus": ("outer = 0.1\ninner = 0.05", 0.0075 * np.pi),
    "polygon": ("points = [[0, 0], [0.2, 0], [0, 0.1]]", 0.01),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_has_closed_form_volume(written, shape):
    keys, volume = SOLIDS[shape]
    robot = load_robot(written(f'[geometry]\nshape = "{shape}"\n{keys}\ncell = 0.04\n{MATERIAL}'))
    assert robot.mesh().volumes().sum() == pytest.approx(
        volume, rel=0.02
    )  # quadratic cells follow curved sides
    assert robot.order == 2


def test_mesh_file_is_scaled_and_keeps_its_regions(written, tmp_path):
    box = pl.Box(size=(100, 20, 20)).mesh(divisions=(2, 1, 1))
    half = np.repeat([1, 2], box.n_cells // 2)
    meshio.Mesh(box.points, [("tetra", box.cells)], cell_data={"region": [half]}).write(
        tmp_path / "box.vtu"
    )
    text = '[geometry]\nmesh = "box.vtu"\nscale = 0.001\n'
    robot = load_robot(
        written(text + "[material.1]\nE = 1e5\nnu = 0.4\n[material.2]\nE = 2e5\nnu = 0.4\n")
    )
    assert robot.mesh().size == pytest.approx(np.hypot(0.1, 0.02 * np.sqrt(2)))
    assert sorted(set(robot.body().fields.E)) == [1e5, 2e5]


def test_surface_file_is_filled(written, tmp_path):
    trimesh.creation.icosphere(radius=10).export(tmp_path / "ball.stl")
    robot = load_robot(
        written(
            f'[geometry]\nsurface = "ball.stl"\nscale = 0.001\ncell = 0.003\norder = 1\n{MATERIAL}'
        )
    )
    assert robot.mesh().volumes().sum() == pytest.approx(4 / 3 * np.pi * 1e-6, rel=0.05)


@pytest.mark.parametrize(("depth", "dim"), [("", 2), ("depth = 0.02", 3)])
def test_silhouette_is_plane_or_extruded(written, tmp_path, depth, dim):
    Image.fromarray(np.pad(np.zeros((20, 40), np.uint8), 5, constant_values=255)).save(
        tmp_path / "bar.png"
    )
    robot = load_robot(
        written(
            f'[geometry]\nsilhouette = "bar.png"\nheight = 0.1\ncell = 0.02\n{depth}\n{MATERIAL}'
        )
    )
    assert robot.mesh().dim == dim
    assert robot.mesh().volumes().sum() == pytest.approx(0.02 * (0.02 if dim == 3 else 1), rel=0.03)


def test_silhouette_colours_define_regions(written, tmp_path):
    picture = np.full((30, 50, 3), 255, np.uint8)
    picture[5:25, 5:25], picture[5:25, 25:45] = (255, 0, 0), (0, 255, 255)
    Image.fromarray(picture).save(tmp_path / "bar.png")
    text = (
        '[geometry]\nsilhouette = "bar.png"\nheight = 0.1\ncell = 0.02\nregions = { red = '
        '"hard", "#00ffff" = "soft" }\n'
    )
    robot = load_robot(
        written(text + "[material.hard]\nE = 2e5\nnu = 0.4\n[material.soft]\nE = 1e5\nnu = 0.4\n")
    )
    centres = robot.mesh().points[robot.mesh().corners].mean(axis=1)
    assert (centres[robot.body().fields.E == 2e5][:, 0] < 0.11).all()
    assert (centres[robot.body().fields.E == 1e5][:, 0] > 0.09).all()


def test_attachments_match_file(written):
    robot = load_robot(
        written(
            BOX
            + """
[[supports]]
region = "x-"
axes = "xy"
motion = { times = [0, 2], values = [[0, 0, 0], [0.02, 0, 0]] }
[actuators.push]
type = "thrust"
point = [0.1, 0.01, 0.01]
[actuators.pull]
type = "cable"
points = [[0.1, 0.01, 0.01]]
guide = [0.2, 0, 0]
drive = "length"
limits = [0.5, inf]
[[loads]]
point = [0.1, 0, 0]
force = [1, 0, 0]
[[loads]]
surface = "x+"
traction = [0, 100, 0]
[[contacts]]
type = "sphere"
centre = [0, 0, -1]
radius = 0.5
friction = 0.2
[[contacts]]
type = "capsule"
start = [0, 0, -1]
end = [1, 0, -1]
radius = 0.5
[damping]
mass = 1
"""
        )
    )
    assert robot.supports[0].motion(1.0) == pytest.approx([0.01, 0, 0])
    assert robot.n_controls == 4
    assert robot.control_limits()[1][3] == np.inf
    assert robot.actuators["pull"].drive == "length"
    assert sum(load.attach(robot.body()) for load in robot.loads).reshape(-1, 3).sum(
        axis=0
    ) == pytest.approx([1, 0.04, 0])
    assert [contact.friction for contact in robot.contacts] == [0.2, 0.0]
    assert robot.damping == pl.Damping(mass=1.0)


def test_keyframes_are_linear_between_and_constant_outside():
    ramp = Keyframes(times=[1, 3], values=[[0, 4], [2, 0]])
    assert [ramp(t).tolist() for t in (0.0, 2.0, 9.0)] == [[0, 4], [1, 2], [2, 0]]


@pytest.mark.parametrize("rule", ["quasistatic", "implicit-euler", "bdf2", "semi-implicit"])
def test_each_integration_rule_can_step(written, rule):
    dt = "" if rule == "quasistatic" else "dt = 0.01"
    task = load_task(
        written(f'{BOX}\n[[supports]]\nregion = "x-"\n[task]\nrule = "{rule}"\n{dt}\nsteps = 1')
    )
    model = task.model(design=["body.E"])
    step = model.step(model.initial_state(), task.control(0))
    assert step.status
    assert model.params.flat == pytest.approx([1e5])


def test_guide_example_runs(written):
    task = load_task(written(re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]))
    model = task.model()
    assert model.step(model.initial_state(), task.control(0)).status


def test_guide_documents_every_key():
    sections = [
        *ACTUATORS.values(),
        *OBSTACLES.values(),
        *(kind for name, kind in SOURCES.items() if name != "shape"),
    ]
    keys = {key for kind in sections for key in kind.__origin__.model_fields}
    keys |= {key for shape in SHAPES.values() for key in keys_of(shape)} | set(SHAPES) | set(ROBOT)
    assert [key for key in sorted(keys) if f"`{key}`" not in GUIDE] == []


def test_support_can_fix_surface_named_by_patch(written):
    robot = load_robot(
        written(f"""{BOX}
[surfaces.foot]
lower = [-1, -1, -1]
upper = [0.001, 1, 1]
[[supports]]
region = "foot"
""")
    )
    np.testing.assert_array_equal(robot.body().region("foot"), robot.body().region("x-"))
    with pytest.raises(InputError, match="No boundary facet belongs to surface 'foot'"):
        load_robot(written(f"{BOX}\n[surfaces.foot]\nlower = [5, 5, 5]\nupper = [6, 6, 6]"))


def save_example(path):
    load_robot(EXAMPLES / "finger.toml").save(path)


@pytest.mark.parametrize("path", [None, 5, b"finger.toml"])
@pytest.mark.parametrize("use", [load_robot, load_task, load_arm, save_example])
def test_path_of_wrong_type_raises_clear_error(use, path):
    with pytest.raises(InputError, match=r"path of the .* file is .*; give text or a pathlib.Path"):
        use(path)
